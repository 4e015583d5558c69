package hpc

import (
	"slices"
	"strings"
	"time"
)

// User is a person who submits jobs, as getpwnam(3) would know them.
type User struct {
	Name  string
	UID   uint32
	Group string
	GID   uint32
}

// Reservation is a set of nodes or licenses set aside for a time.
type Reservation struct {
	Name     string
	Start    Time
	Duration time.Duration
	Nodes    string // host list; "ALL" for every node; empty with NodeCount
	// NodeCount asks for so many nodes of Slurm's choice.
	NodeCount int
	Partition string
	Users     []string
	Accounts  []string
	Flags     []string
	Licenses  string
	Features  string
}

// HasFlag reports whether the reservation has one of the flags, which are named in capitals.
func (r *Reservation) HasFlag(names ...string) bool {
	return slices.ContainsFunc(r.Flags, func(flag string) bool {
		name, _, _ := strings.Cut(strings.ToUpper(strings.TrimLeft(flag, "+")), "=") // PURGE_COMP=5:00
		return slices.Contains(names, name)
	})
}

// Recurring reports whether the reservation comes again.
func (r *Reservation) Recurring() bool {
	return r.HasFlag("HOURLY", "DAILY", "WEEKDAY", "WEEKEND", "WEEKLY")
}

// ReservationEvent creates, updates or deletes a reservation at an instant.
type ReservationEvent struct {
	At     Time
	Action string // "create", "update" or "delete"
	Reservation
}

// NodeEvent changes the state of nodes at an instant.
type NodeEvent struct {
	At    Time
	Nodes string // host list
	State string // "down" or "fail", which are the same and end the jobs there; "drain" or "resume"
	// Reason is what the administrator would have written.
	Reason string
}

// Action is what an administrator does at an instant: one of Run, Shell and
// SlurmConf.
type Action struct {
	At Time
	// Run is a command of the resource manager with its arguments:
	// "scontrol update PartitionName=debug State=DOWN".
	Run []string
	// Shell is a command line for sh(1), which can do whatever its user can.
	Shell string
	// SlurmConf is the path of a slurm.conf that replaces the one in force, and is
	// reconfigured to. A relative one counts from the cluster directory.
	SlurmConf string
}

// Usage is what an account, or one of its users, has used in the sense of fair-share.
type Usage struct {
	Account string
	User    string // empty for the account as a whole
	// Raw is the decayed usage in seconds of billed TRES, which is seconds of
	// processors where no billing weights are set: RawUsage of sshare(1).
	Raw float64
}

// Accrual is usage that a job adds to what its user has used, before the factor of its
// QOS.
type Accrual struct {
	Usage // Account is empty for the user's default account
	// Partition and QOS are those that the job asks for; empty for the default.
	Partition, QOS string
}

// Node is a compute node's hardware, as slurm.conf describes it.
type Node struct {
	Name           string
	Boards         int
	Sockets        int // per board times boards: the node's total
	CoresPerSocket int
	ThreadsPerCore int
	CPUs           int
	RealMemory     int64 // MiB
	TmpDisk        int64 // MiB
	Features       []string
	Weight         uint32 // nodes of lower weight are allocated first; Slurm's default is 1
	CoreSpecCount  int    // cores reserved for the system
	CPUSpecList    string // the CPUs reserved for the system, as an index list ("0,1")
	MemSpecLimit   int64  // memory reserved for the system, MiB
	// State is the state that the configuration gives the node at the start:
	// empty (in service), "DOWN", "DRAIN", "FAIL" or "FUTURE".
	State string
	// GRES are the node's generic resources in slurm.conf's form ("gpu:a100:2").
	GRES []GRES
}

// GRES is a count of one generic resource.
type GRES struct {
	Name  string // "gpu"
	Type  string // "a100", or empty
	Count int64
	// File says that the resource is backed by device files (gres.conf File=).
	File bool
	// Cores are the cores close to it, as an index list ("0-15"); empty for all.
	Cores string
	// Links are the numbers of its connections to its peers ("-1,16"), or empty.
	Links string
	// Flags are gres.conf's Flags= ("one_sharing"), or empty.
	Flags string
}
