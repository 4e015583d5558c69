// Package sharing says which jobs may share nodes and cores with other jobs. This depends on
// OverSubscribe of partitions, and on the options --oversubscribe and --exclusive of jobs.
package sharing

import (
	"cmp"
	"strconv"
	"strings"

	"rmreplay/internal/rm/slurmmodel/keys"
)

// Partition is OverSubscribe of a partition.
type Partition struct {
	// Jobs is how many jobs of the partition may have the same core (max_share). It is 0 with
	// OverSubscribe=EXCLUSIVE.
	Jobs int
	// Forced says that jobs share cores without --oversubscribe (OverSubscribe=FORCE).
	Forced bool
}

// usual is the number of jobs of OverSubscribe=YES and of OverSubscribe=FORCE.
const usual = 4

// Read reads OverSubscribe of a partition's line. Like slurmctld, it takes a wrong number for NO
// (_parse_partitions in read_config.c).
func Read(get keys.Get) Partition {
	text := strings.ToUpper(cmp.Or(keys.Value(get, "OverSubscribe"), keys.Value(get, "Shared")))
	kind, number, counted := strings.Cut(text, ":")
	p, least := Partition{Jobs: usual, Forced: kind == "FORCE"}, 2
	switch {
	case kind == "EXCLUSIVE":
		return Partition{}
	case !p.Forced && kind != "YES":
		return Partition{Jobs: 1}
	case p.Forced:
		least = 1
	}
	if counted {
		if p.Jobs, _ = strconv.Atoi(strings.TrimSpace(number)); p.Jobs < least {
			return Partition{Jobs: 1}
		}
	}
	return p
}

// Shares reports whether jobs of the partition may share cores. With FORCE:1 they share cores only
// with jobs of other partitions.
func (p Partition) Shares() bool { return p.Forced || p.Jobs > 1 }

// Will is whether a job is willing to share cores (share_res).
type Will uint8

// The values of Will.
const (
	Unsaid  Will = iota // the job has neither option
	Willing             // --oversubscribe, or slurmctld has tried the job in a partition with FORCE:2 or more
	Alone               // --exclusive, or slurmctld has tried the job in a partition with EXCLUSIVE
)

// Job is what slurmctld knows about a job's sharing. A try to start the job changes it.
type Job struct {
	Will Will
	// Exclusive says that the job gets whole nodes (whole_node).
	Exclusive bool
}

// Alone reports whether the job is not willing to share cores.
func (j Job) Alone() bool { return j.Will == Alone }

// Of returns the values of a new job. The parameter shared is the field of the submission.
func Of(shared uint16) Job {
	switch shared {
	case 0:
		return Job{Will: Alone, Exclusive: true}
	case 1:
		return Job{Will: Willing}
	}
	return Job{}
}

// Resolve changes the job as a try to start it in a partition does. It reports whether the job may
// get nodes with other jobs (_resolve_shared_status in node_scheduler.c).
func (j *Job) Resolve(p Partition) bool {
	switch {
	case p.Jobs == 0:
		*j = Job{Will: Alone, Exclusive: true}
	case p.Forced && p.Jobs > 1:
		j.Will = Willing
	case j.Exclusive:
		j.Will = Alone
	}
	return !j.Alone()
}

// Mode is which cores and nodes a job may get (enum node_cr_state).
type Mode uint8

// The modes.
const (
	Unshared Mode = iota // cores without other jobs (NODE_CR_ONE_ROW)
	Shared               // also cores of other jobs (NODE_CR_AVAILABLE)
	Whole                // nodes without other jobs, because of OverSubscribe=EXCLUSIVE (NODE_CR_RESERVED)
)

// Use is how a job uses the nodes of a partition.
type Use struct {
	Mode Mode
	// Alone says that the job is not willing to share cores.
	Alone bool
	// Counts says that since 24.11 the job counts as a job that shares cores (_is_job_sharing).
	Counts bool
}

// In returns how a job uses the nodes of a partition (_get_job_node_req in job_test.c).
func (j Job) In(p Partition) Use {
	u := Use{Alone: j.Alone(), Counts: j.Will == Willing || p.Forced}
	switch {
	case p.Jobs == 0:
		u.Mode = Whole
	case p.Forced || p.Jobs > 1 && j.Will == Willing:
		u.Mode = Shared
	}
	return u
}

// Attempts returns the uses with which backfill looks for a job's start. Backfill first assumes that
// the job is not willing to share cores (_try_sched in backfill.c).
func (j Job) Attempts(p Partition) []Use {
	first, last := Job{Will: Alone, Exclusive: j.Exclusive}.In(p), j.In(p)
	if first.Mode == last.Mode {
		return []Use{last}
	}
	return []Use{first, last}
}

// Node counts the running jobs of a node.
type Node struct {
	unshared, whole int16 // by mode; jobs of mode Shared are not counted (node_state)
	counting        int16 // jobs that count as sharing cores
}

// Add adds a job to the node or, if sign is -1, removes it.
func (n *Node) Add(u Use, sign int16) {
	switch u.Mode {
	case Unshared:
		n.unshared += sign
	case Whole:
		n.whole += sign
	case Shared:
	}
	if u.Counts {
		n.counting += sign
	}
}

// Counting reports whether a job on the node counts as sharing cores. Since 24.11, slurmctld's copies of a
// state, which it makes for tests of later starts, lack the list of these jobs (node_data_dup_use).
func (n *Node) Counting() bool { return n.counting > 0 }

// Admits reports whether a job may get the node (_verify_node_state). The function busy reports whether
// cores of the node are in use by jobs of other partitions whose jobs share cores or, with all, by
// jobs of any partition.
func (n *Node) Admits(m Mode, busy func(all bool) bool) bool {
	switch {
	case n.whole > 0, n.unshared > 0 && m != Unshared:
		return false
	case m == Shared:
		return true
	}
	return !busy(m == Whole)
}
