package limits

import (
	"rmreplay/internal/rm/slurmmodel/accounts"
	"rmreplay/internal/rm/slurmmodel/tres"
)

// Preferred returns the nodes that a limit on nodes would not count again for a job: nodes with other jobs
// of the same QOS, user, account or association (_find_grp_node_bitmap in node_scheduler.c). It returns nil
// if no limit on nodes is set.
func (l *Limits) Preferred(j *Job) []uint64 {
	if !l.counts(j) {
		return nil
	}
	var set []uint64
	var group, user, account bool // whether a QOS has set a limit of this kind
	first, second := j.order()
	for _, q := range []*accounts.QOS{first, second} {
		if q == nil {
			continue
		}
		if used := q.Counts.Nodes(); !group && used != nil && limitsNodes(q.Limits.GrpTRES) {
			group, set = true, union(nil, used) // this drops the nodes that the first QOS added
		}
		if !user && limitsNodes(q.Limits.MaxTRESPerUser) {
			user, set = true, union(set, j.in(q).user.Nodes())
		}
		if !account && limitsNodes(q.Limits.MaxTRESPerAccount) {
			account, set = true, union(set, j.in(q).account.Nodes())
		}
	}
	if group {
		return set
	}
	for a := range j.Association.Up {
		if used := a.Counts.Nodes(); used != nil && limitsNodes(a.Limits.GrpTRES) {
			return union(set, used)
		}
	}
	return set
}

func limitsNodes(v tres.Vector) bool { return v != nil && v[tres.Node] != tres.NoLimit }

// union returns the union of two sets.
func union(set, more []uint64) []uint64 {
	out := make([]uint64, max(len(set), len(more)))
	copy(out, set)
	for i, word := range more {
		out[i] |= word
	}
	return out
}
