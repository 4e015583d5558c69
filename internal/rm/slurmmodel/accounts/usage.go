package accounts

import (
	"iter"
	"math/bits"
	"strconv"

	"rmreplay/internal/rm/slurmmodel/extended"
	"rmreplay/internal/rm/slurmmodel/tres"
)

// Usage is the decayed usage of an association or a QOS, and the usage that its running jobs may still add.
type Usage struct {
	// Raw is billing × seconds, as sshare's RawUsage.
	Raw extended.Float
	// TRES is the usage of each TRES in resource-seconds, in the order of [tres.Table]. slurmctld
	// computes this usage only if it enforces limits. TRES and Reserved may be nil after [Accounts.Trim].
	TRES []extended.Float
	// Wall is the time of the jobs in seconds (grp_used_wall).
	Wall float64
	// Reserved is what the running jobs use if they run until their time limits, in
	// resource-seconds (grp_used_tres_run_secs).
	Reserved tres.Vector
}

// Counts are the numbers and resources of the present jobs of an association or a QOS, or of one user
// or account in a QOS.
type Counts struct {
	// Running, Submitted and Accruing are numbers of jobs. Submitted counts pending and running
	// jobs. Accruing counts pending jobs that gain age.
	Running, Submitted, Accruing int
	// TRES are the allocated resources. A node counts once, even if several of the jobs run on it.
	TRES tres.Vector
	// Reserved is the same amount as [Usage.Reserved]. A QOS has Reserved since 24.05.
	Reserved tres.Vector

	nodes []uint64 // the set of nodes with one of these jobs or more
	jobs  []uint16 // how many of these jobs each node has
}

// Overlap returns how many nodes of a set have at least one of the counted jobs. Bit i%64 of the set's
// word i/64 is node i.
func (c *Counts) Overlap(set []uint64) int {
	n := 0
	for i := range min(len(set), len(c.nodes)) {
		n += bits.OnesCount64(set[i] & c.nodes[i])
	}
	return n
}

// Nodes returns the set of nodes that have at least one of the counted jobs; nil before the first job.
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

// Nodes yields the indexes of the nodes in a set.
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

// Trim removes the amounts that are compared with no limit, so that the model does not compute them.
func (a *Accounts) Trim() {
	for _, one := range a.List {
		one.Usage.trim(&one.Limits)
	}
	for _, q := range a.QOS {
		q.Usage.trim(&q.Limits)
	}
}

func (u *Usage) trim(by *Limits) {
	if by.GrpTRESMinutes != nil {
		return
	}
	if u.TRES = nil; by.GrpTRESRunMinutes == nil {
		u.Reserved = nil
	}
}

func (a *Accounts) counts() Counts {
	return Counts{TRES: a.TRES.Vector(), Reserved: a.TRES.Vector()}
}

// OfUser returns the counts of a user's jobs in a QOS.
func (q *QOS) OfUser(user string) *Counts { return q.part(q.ByUser, user) }

// OfAccount returns the counts of an account's jobs in a QOS.
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

// SetUsage sets the usage with which slurmctld starts. The parameter raw is the association's own usage, in billing ×
// seconds; the parents' usage grows by it, too. The usage raw is rounded to six decimals, as in the state file that
// slurmctld reads. The parameter cpus says that billing is the number of CPUs: then raw is the usage of CPUs, too.
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
