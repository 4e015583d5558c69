package hpc

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// User is an account that submits jobs, with the fields that getpwnam(3) returns.
type User struct {
	Name  string
	UID   uint32
	Group string
	GID   uint32
	// Groups are the names of the user's further groups.
	Groups []string
}

// Equal reports whether two users have the same name, numbers and groups.
func (u User) Equal(other User) bool {
	return u.Name == other.Name && u.UID == other.UID && u.Group == other.Group && u.GID == other.GID &&
		slices.Equal(u.Groups, other.Groups)
}

// CheckUserName returns an error for a name of a user or group that is impossible in passwd(5) or
// group(5), from which the daemons read the users. For example, a line break in a name would add
// another user there. An empty name means that there is no name, and is not an error.
func CheckUserName(name string) error {
	switch {
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }):
		return fmt.Errorf("%.60q has a control character or a line break (want another name)", name)
	case strings.Contains(name, ":"):
		return fmt.Errorf("%.60q has a colon, which separates fields in passwd (want another name)", name)
	case strings.HasPrefix(name, "#"):
		return fmt.Errorf("%.60q is a comment in passwd (want another name)", name)
	}
	return nil
}

// Reservation is a set of nodes or licenses that only its users and accounts may use from
// Start for Duration, as scontrol(1) creates it.
type Reservation struct {
	Name     string
	Start    Time
	Duration time.Duration
	Nodes    string // host list; "ALL" for every node; empty if NodeCount is set
	// NodeCount is the number of nodes that Slurm shall choose, instead of Nodes.
	NodeCount int
	Partition string
	Users     []string
	Accounts  []string
	Flags     []string
	Licenses  string
	Features  string
}

// HasFlag reports whether the reservation has at least one of the flags. The names must be
// in upper case.
func (r *Reservation) HasFlag(names ...string) bool {
	return slices.ContainsFunc(r.Flags, func(flag string) bool {
		name, _, _ := strings.Cut(strings.ToUpper(strings.TrimLeft(flag, "+")), "=") // a value may follow: PURGE_COMP=5:00
		return slices.Contains(names, name)
	})
}

// Recurring reports whether the reservation repeats (every hour, day, weekday, weekend day
// or week).
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
	State string // "down", "fail", "drain" or "resume"; "down" and "fail" end the jobs on the nodes
	// Reason is the administrator's reason, as in scontrol's Reason=.
	Reason string
}

// Action is one administrative step at an instant: exactly one of Run, Shell and SlurmConf
// is set.
type Action struct {
	At Time
	// Run is a command of the resource manager with its arguments, such as "scontrol update
	// PartitionName=debug State=DOWN".
	Run []string
	// Shell is a command line for sh(1). It runs with the rights of the user who started
	// the replay.
	Shell string
	// SlurmConf is the path of a slurm.conf that replaces the current one, followed by a
	// reconfiguration. A relative path is relative to the cluster directory.
	SlurmConf string
}

// Usage is the fair-share usage of an account or of one user in an account.
type Usage struct {
	Account string
	User    string // empty for the account as a whole
	// Raw is RawUsage of sshare(1): the decayed usage in seconds of billed TRES. Without
	// billing weights these are processor seconds.
	Raw float64
}

// Accrual is usage that a job adds to the usage of its user, before it is multiplied by the usage
// factor of the job's QOS.
type Accrual struct {
	Usage // an empty Account means the user's default account
	// Partition and QOS are what the job asks for; empty for the defaults.
	Partition, QOS string
}

// Node is a compute node's hardware, as slurm.conf describes it.
type Node struct {
	Name           string
	Boards         int
	Sockets        int // in the whole node: Boards times the sockets of a board
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
	// File is true if the resource has device files (gres.conf File=).
	File bool
	// Cores are the cores close to the resource, as an index list ("0-15"); empty if all are close.
	Cores string
	// Links are the numbers of its connections to the resources of the same kind ("-1,16"), or
	// empty.
	Links string
	// Flags are gres.conf's Flags= ("one_sharing"), or empty.
	Flags string
}
