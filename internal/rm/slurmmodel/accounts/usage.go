package accounts

import (
	"rmreplay/internal/rm/slurmmodel/extended"
	"rmreplay/internal/rm/slurmmodel/tres"
)

// Usage is what the jobs of an association or a QOS have used, decayed, and what running jobs may still
// use.
type Usage struct {
	// Raw is the billing in seconds, as sshare's RawUsage shows it.
	Raw extended.Float
	// TRES are the resources in resource-seconds, by place. slurmctld keeps them only if it enforces
	// limits.
	TRES []extended.Float
	// Wall is the time of the jobs in seconds (grp_used_wall).
	Wall float64
	// Reserved are the resource-seconds until the time limits of the running jobs
	// (grp_used_tres_run_secs).
	Reserved tres.Vector
}

// Counts are the present jobs of an association, of a QOS, or of a user or an account in a QOS.
type Counts struct {
	// Running, Submitted and Accruing are numbers of jobs. Submitted ones are pending or running; Accruing
	// ones are pending and gain age.
	Running, Submitted, Accruing int
	// TRES are the allocated resources. Its nodes are distinct ones.
	TRES tres.Vector
	// Reserved are resource-seconds until the time limits of the running jobs; in a QOS since 24.05.
	Reserved tres.Vector
	// Nodes has how many jobs each node has, by its index. It holds the nodes that have any.
	Nodes map[int]int
}

func (a *Accounts) usage() Usage {
	return Usage{TRES: make([]extended.Float, a.TRES.Len()), Reserved: a.TRES.Vector()}
}

func (a *Accounts) counts() Counts {
	return Counts{TRES: a.TRES.Vector(), Reserved: a.TRES.Vector(), Nodes: map[int]int{}}
}

// OfUser returns the counts of a user in a QOS.
func (q *QOS) OfUser(user string) *Counts { return q.part(q.ByUser, user) }

// OfAccount returns the counts of an account in a QOS.
func (q *QOS) OfAccount(account string) *Counts { return q.part(q.ByAccount, account) }

func (q *QOS) part(parts map[string]*Counts, name string) *Counts {
	c := parts[name]
	if c == nil {
		n := len(q.Counts.TRES)
		c = &Counts{TRES: make(tres.Vector, n), Reserved: make(tres.Vector, n), Nodes: map[int]int{}}
		parts[name] = c
	}
	return c
}

// SetUsage sets the usage with which slurmctld starts: raw billing seconds of an association alone, which
// is added to those above it. cpus says that billing is the number of CPUs, so that the usage of CPUs is
// the same.
func (one *Association) SetUsage(raw float64, cpus bool) {
	for a := range one.Up {
		a.Usage.Raw = a.Usage.Raw.Add(extended.Of(raw))
		a.Usage.TRES[tres.Billing] = a.Usage.TRES[tres.Billing].Add(extended.Of(raw))
		if cpus {
			a.Usage.TRES[tres.CPU] = a.Usage.TRES[tres.CPU].Add(extended.Of(raw))
		}
	}
}
