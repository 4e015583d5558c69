package accounts

import (
	"iter"
	"math/bits"
	"strconv"

	"rmreplay/internal/rm/slurmmodel/extended"
	"rmreplay/internal/rm/slurmmodel/tres"
)

// Usage is what the jobs of an association or a QOS have used, decayed, and what running jobs may still
// use.
type Usage struct {
	// Raw is billing multiplied by seconds, as sshare's RawUsage shows it.
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
	// Running, Submitted and Accruing are numbers of jobs. Submitted jobs are pending or running; Accruing
	// jobs are pending and gain age.
	Running, Submitted, Accruing int
	// TRES are the allocated resources. A node with several of the jobs counts once.
	TRES tres.Vector
	// Reserved are resource-seconds until the time limits of the running jobs; in a QOS since 24.05.
	Reserved tres.Vector

	nodes []uint64 // with any of these jobs
	jobs  []uint16 // on each node
}

// Overlap returns how many nodes of a set have any of the jobs. Bit i%64 of a set's word i/64 is node i.
func (c *Counts) Overlap(set []uint64) int {
	n := 0
	for i := range min(len(set), len(c.nodes)) {
		n += bits.OnesCount64(set[i] & c.nodes[i])
	}
	return n
}

// Nodes returns the set of nodes that the jobs have; nil before the first job.
func (c *Counts) Nodes() []uint64 { return c.nodes }

// AddNodes adds the nodes of a job that starts.
func (c *Counts) AddNodes(set []uint64) {
	if more := len(set) - len(c.nodes); more > 0 {
		c.nodes = append(c.nodes, make([]uint64, more)...)
		c.jobs = append(c.jobs, make([]uint16, 64*more)...)
	}
	for node := range Nodes(set) {
		if c.jobs[node]++; c.jobs[node] == 1 {
			c.nodes[node/64] |= 1 << (node % 64)
			c.TRES[tres.Node]++
		}
	}
}

// RemoveNodes removes the nodes of a job that ends.
func (c *Counts) RemoveNodes(set []uint64) {
	for node := range Nodes(set) {
		if c.jobs[node]--; c.jobs[node] == 0 {
			c.nodes[node/64] &^= 1 << (node % 64)
			c.TRES[tres.Node]--
		}
	}
}

// Nodes yields the nodes of a set.
func Nodes(set []uint64) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, word := range set {
			for ; word != 0; word &= word - 1 {
				if !yield(64*i + bits.TrailingZeros64(word)) {
					return
				}
			}
		}
	}
}

func (a *Accounts) usage() Usage {
	return Usage{TRES: make([]extended.Float, a.TRES.Len()), Reserved: a.TRES.Vector()}
}

func (a *Accounts) counts() Counts {
	return Counts{TRES: a.TRES.Vector(), Reserved: a.TRES.Vector()}
}

// OfUser returns the counts of a user in a QOS.
func (q *QOS) OfUser(user string) *Counts { return q.part(q.ByUser, user) }

// OfAccount returns the counts of an account in a QOS.
func (q *QOS) OfAccount(account string) *Counts { return q.part(q.ByAccount, account) }

func (q *QOS) part(parts map[string]*Counts, name string) *Counts {
	c := parts[name]
	if c == nil {
		n := len(q.Counts.TRES)
		c = &Counts{TRES: make(tres.Vector, n), Reserved: make(tres.Vector, n)}
		parts[name] = c
	}
	return c
}

// SetUsage sets the usage with which slurmctld starts. raw is the association's own billing multiplied by
// seconds, and is added to the associations above, too. The state file from which slurmctld reads it has six
// decimals. cpus says that billing is the number of CPUs, so that the usage of CPUs is the same.
func (one *Association) SetUsage(raw float64, cpus bool) {
	seconds := extended.Parse(strconv.FormatFloat(raw, 'f', 6, 64))
	for a := range one.Up {
		a.Usage.Raw = a.Usage.Raw.Add(seconds)
		a.Usage.TRES[tres.Billing] = a.Usage.TRES[tres.Billing].Add(seconds)
		if cpus {
			a.Usage.TRES[tres.CPU] = a.Usage.TRES[tres.CPU].Add(seconds)
		}
	}
}
