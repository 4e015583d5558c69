// Package owners finds the nodes that jobs may not use because of other users' jobs: a job with
// --exclusive=user, or of a partition with ExclusiveUser=YES, shares its nodes only with jobs of its user.
package owners

import (
	"cmp"
	"slices"

	"rmreplay/internal/rm/slurmmodel/selection"
)

// Job is a job that has nodes, or that looks for nodes.
type Job struct {
	User       string
	Owns       bool           // it excludes other users from its nodes
	Nodes      selection.Bits // nil for a job that looks for nodes
	End        int64          // when it reaches its time limit, or has ended, in seconds since 1970
	Completing bool           // it has ended, and some of its nodes have not answered
}

// Holder is a type of jobs.
type Holder interface {
	comparable
	Holder() Job
}

// List has the jobs that have nodes.
type List[H Holder] struct {
	Exclusive bool // a job or a partition excludes other users
	holders   []H
}

// Add adds a job that starts.
func (l *List[H]) Add(job H) { l.holders = append(l.holders, job) }

// Remove removes a job that no longer has nodes.
func (l *List[H]) Remove(job H) {
	l.holders = slices.DeleteFunc(l.holders, func(other H) bool { return other == job })
}

// Close returns a set together with the nodes that other users' jobs close to a job (filter_by_node_owner in
// node_scheduler.c). The function departing returns the nodes that have not answered; nil for none. Close does
// not change the set; if no job excludes other users, it returns the set itself.
func (l *List[H]) Close(set selection.Bits, departing func() selection.Bits, to H) selection.Bits {
	if !l.Exclusive {
		return set
	}
	set = set.Clone()
	own := to.Holder()
	for _, h := range l.holders {
		switch other := h.Holder(); {
		case other.User == own.User, !own.Owns && !other.Owns:
		case own.Owns || !other.Completing:
			set.Or(other.Nodes)
		default: // a node that has answered has no owner
			if nodes := departing(); nodes != nil {
				nodes.And(other.Nodes)
				set.Or(nodes)
			}
		}
	}
	return set
}

// Exclude removes from a set the nodes that other users' jobs close to a job.
func (l *List[H]) Exclude(set selection.Bits, departing func() selection.Bits, from H) {
	if l.Exclusive {
		set.AndNot(l.Close(make(selection.Bits, len(set)), departing, from))
	}
}

// Usage says which users use the nodes during a cycle of backfill; since 24.11 (node_used_t in backfill.c).
type Usage struct {
	nodes []use // by index
	order []int // used nodes, the latest end first
}

type use struct {
	user         string
	owned, mixed bool // used by a job that excludes other users; used by several users
	end          int64
}

// Usage returns the usage of a machine's nodes (_init_node_used_array_and_list); nil if no job excludes other
// users.
func (l *List[H]) Usage(nodes int) *Usage {
	if !l.Exclusive {
		return nil
	}
	u := &Usage{nodes: make([]use, nodes)}
	for _, h := range l.holders {
		u.mark(h.Holder())
	}
	u.sort()
	return u
}

// Add adds a job that the cycle has started.
func (u *Usage) Add(job Job) {
	if u != nil && u.mark(job) {
		u.sort()
	}
}

// mark adds a job to its nodes (_mark_nodes_usage). It reports whether it changed an end.
func (u *Usage) mark(job Job) (later bool) {
	for i := range job.Nodes.All {
		switch n := &u.nodes[i]; {
		case n.end == 0:
			n.user, n.owned = job.User, job.Owns
		case !n.owned && !n.mixed:
			n.mixed, n.owned = n.user != job.User, job.Owns
		}
		if u.nodes[i].end < job.End {
			u.nodes[i].end, later = job.End, true
		}
	}
	return later
}

func (u *Usage) sort() {
	u.order = u.order[:0]
	for i := range u.nodes {
		if u.nodes[i].end > 0 {
			u.order = append(u.order, i)
		}
	}
	slices.SortStableFunc(u.order, func(a, b int) int { return cmp.Compare(u.nodes[b].end, u.nodes[a].end) })
}

// Filter removes from a set the nodes that a job may not use from an instant on, because other users use
// them beyond it (_filter_exclusive_user_mcs_nodes). It leaves the number least, and the required nodes. The
// result later is the end of the earliest of these uses; 0 without one. The result stop says that a node that
// the job may not use had to be left, so that the job cannot start before later.
func (u *Usage) Filter(set, required selection.Bits, least int, from int64, job Job) (later int64, stop bool) {
	if u == nil {
		return 0, false
	}
	count := set.Count()
	for _, i := range u.order {
		n := &u.nodes[i]
		if n.end <= from {
			break
		}
		if own := n.user == job.User; !set.Has(i) || job.Owns && !n.mixed && own || !job.Owns && (!n.owned || own) {
			continue
		}
		later = n.end
		if count <= least || required != nil && required.Has(i) {
			return later, true
		}
		set.Clear(i)
		count--
	}
	return later, false
}
