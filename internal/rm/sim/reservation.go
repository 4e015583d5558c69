package sim

import (
	"fmt"
	"slices"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/nodeset"
	"rmreplay/internal/rm/sim/partition"
	"rmreplay/internal/slurmspec"
)

// reservation is a set of nodes that only some users and accounts may use during an interval.
type reservation struct {
	name            string
	start, end      hpc.Time
	nodes           nodeset.Set
	users, accounts []string
	// flexible is Slurm's flag FLEX: until the reservation ends, its jobs may use other nodes
	// and other times.
	flexible bool
	// overlaps is Slurm's flag OVERLAP: this reservation may share nodes with others.
	overlaps bool
	// releases is Slurm's flag NO_HOLD_JOBS_AFTER_END: when the reservation has ended, its waiting
	// jobs may run outside it.
	releases bool
}

// covers reports whether the reservation has a node at any time in an interval.
func (r *reservation) covers(node int32, from, until hpc.Time) bool {
	return r.nodes.Has(int(node)) && r.start < until && r.end > from
}

// shut adds the reservation's nodes to a set, if it has them at any time in an interval.
func (r *reservation) shut(to nodeset.Set, from, until hpc.Time) {
	if r.start >= until || r.end <= from {
		return
	}
	for w, nodes := range r.nodes {
		to[w] |= nodes
	}
}

// admits reports whether a job may use a node in an interval: only the job's own reservation may
// include the node then. A job that requests a reservation runs only in that reservation
// (job_test_resv in Slurm's src/slurmctld/reservation.c).
func (n *nodes) admits(j *Job, node int32, from, until hpc.Time) bool {
	own := n.find(j.demand.reservation)
	switch {
	case j.demand.reservation == "", own != nil && own.releases && from >= own.end:
	case own == nil || !own.holds(node, from, until):
		return false
	case own.overlaps:
		return true
	}
	return !slices.ContainsFunc(n.reserved, func(r *reservation) bool { return r != own && r.covers(node, from, until) })
}

// holds reports whether a job in the reservation may use a node in an interval.
func (r *reservation) holds(node int32, from, until hpc.Time) bool {
	if r.flexible {
		return from < r.end
	}
	return r.nodes.Has(int(node)) && r.start <= from && until <= r.end
}

// find returns the reservation with a name, or nil.
func (n *nodes) find(name string) *reservation {
	if name == "" {
		return nil
	}
	if i := slices.IndexFunc(n.reserved, func(r *reservation) bool { return r.name == name }); i >= 0 {
		return n.reserved[i]
	}
	return nil
}

// allows reports whether a user may submit jobs to the reservation.
func (r *reservation) allows(user, account string) bool {
	if len(r.users) == 0 && len(r.accounts) == 0 {
		return true
	}
	return slices.Contains(r.users, user) || slices.Contains(r.accounts, account)
}

// change applies a reservation event.
func (n *nodes) change(ev hpc.ReservationEvent) error {
	r := n.find(ev.Name)
	switch ev.Action {
	case "create":
		if r != nil && r.end > n.m.now {
			return fmt.Errorf("there is a reservation %s already", ev.Name)
		}
		n.forget(r) // an old reservation with this name has ended
		r = &reservation{name: ev.Name}
		if err := n.describe(r, ev); err != nil {
			return err
		}
		n.reserved = append(n.reserved, r)
	case "update":
		if r == nil {
			return fmt.Errorf("there is no reservation %s", ev.Name)
		}
		updated := *r
		if err := n.describe(&updated, ev); err != nil {
			return err
		}
		*r = updated
	case "delete":
		if r == nil {
			return fmt.Errorf("there is no reservation %s", ev.Name)
		}
		n.forget(r)
	default:
		return fmt.Errorf("%q: not an action on a reservation (want create, update or delete)", ev.Action)
	}
	return nil
}

func (n *nodes) forget(r *reservation) {
	n.reserved = slices.DeleteFunc(n.reserved, func(other *reservation) bool { return other == r })
}

// describe sets the fields of a reservation that an event gives.
func (n *nodes) describe(r *reservation, ev hpc.ReservationEvent) error {
	if ev.Start != 0 {
		r.start = ev.Start
	}
	if r.start == 0 {
		r.start = n.m.now
	}
	if ev.Duration > 0 {
		r.end = after(r.start, ev.Duration)
	}
	if r.end <= r.start {
		return fmt.Errorf("reservation %s has no duration", ev.Name)
	}
	r.flexible = r.flexible || slices.Contains(ev.Flags, slurmspec.FlagFlex)
	r.overlaps = r.overlaps || slices.Contains(ev.Flags, slurmspec.FlagOverlap)
	r.releases = r.releases || slices.Contains(ev.Flags, "NO_HOLD_JOBS_AFTER_END")
	if ev.Users != nil {
		r.users = ev.Users
	}
	if ev.Accounts != nil {
		r.accounts = ev.Accounts
	}
	if ev.Nodes == "" && ev.NodeCount == 0 && r.nodes != nil {
		return nil
	}
	return n.choose(r, ev)
}

// choose sets the nodes of a reservation: the named nodes, or the requested number of nodes of the
// partition that no other reservation includes at that time.
func (n *nodes) choose(r *reservation, ev hpc.ReservationEvent) error {
	chosen := nodeset.New(len(n.list))
	pool := make([]string, 0, len(n.list))
	if ev.Partition != "" {
		p, err := partition.Find(n.cluster.Partitions, ev.Partition)
		if err != nil {
			return err
		}
		pool = append(pool, p.Nodes...)
	} else {
		for i := range n.list {
			pool = append(pool, n.list[i].Name)
		}
	}
	left := ev.NodeCount
	switch {
	case ev.Nodes == "ALL":
		left = len(pool)
	case ev.Nodes != "":
		var err error
		if pool, err = hostlist.Expand(ev.Nodes); err != nil {
			return err
		}
		left = len(pool)
	}
	for _, name := range pool {
		i, known := n.index[name]
		if !known {
			return fmt.Errorf("there is no node %s", name)
		}
		if left > 0 && (ev.Nodes != "" || !n.taken(r, int32(i))) {
			chosen.Set(i)
			left--
		}
	}
	if left > 0 {
		return fmt.Errorf("reservation %s: lacks %d nodes that are free of other reservations", ev.Name, left)
	}
	r.nodes = chosen
	return nil
}

// taken reports whether another reservation has a node at the time of r.
func (n *nodes) taken(r *reservation, node int32) bool {
	return slices.ContainsFunc(n.reserved, func(other *reservation) bool {
		return other.name != r.name && !other.overlaps && !r.overlaps && other.covers(node, r.start, r.end)
	})
}
