package limits

import (
	"rmreplay/internal/rm/slurmmodel/accounts"
	"rmreplay/internal/rm/slurmmodel/tres"
)

// Preferred returns the nodes that jobs of the job's groups use already, if the groups have limits on
// nodes: a further job on these nodes does not count for these limits (_find_grp_node_bitmap in
// node_scheduler.c). It returns nil if there are none.
func (l *Limits) Preferred(j *Job) []uint64 {
	if !l.counts(j) {
		return nil
	}
	var set []uint64
	var group, user, account bool // whether the limits of a group, each user and each account have been found
	first, second := j.order()
	for _, q := range []*accounts.QOS{first, second} {
		if q == nil {
			continue
		}
		if used := q.Counts.Nodes(); !group && used != nil && limitsNodes(q.Limits.GrpTRES) {
			group, set = true, union(nil, used) // the nodes of an earlier QOS are dropped
		}
		if !user && limitsNodes(q.Limits.MaxTRESPerUser) {
			user, set = true, union(set, q.OfUser(j.User).Nodes())
		}
		if !account && limitsNodes(q.Limits.MaxTRESPerAccount) {
			account, set = true, union(set, q.OfAccount(j.Association.Account).Nodes())
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

// union adds nodes to a set.
func union(set, more []uint64) []uint64 {
	out := make([]uint64, max(len(set), len(more)))
	copy(out, set)
	for i, word := range more {
		out[i] |= word
	}
	return out
}
