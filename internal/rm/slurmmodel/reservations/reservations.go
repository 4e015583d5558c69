// Package reservations has Slurm's reservations of nodes: who may use them, how they are made, changed and
// repeated, and what they leave to a job (reservation.c). It knows no jobs. Its caller tells it which nodes
// running jobs hold.
package reservations

import (
	"slices"
	"strings"
	"time"

	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/slurmspec"
)

// Reservation is one reservation. Instants are seconds since 1970.
type Reservation struct {
	Name       string
	Start, End int64
	// Nodes are the reserved nodes.
	Nodes selection.Bits
	// Partition is the partition of the flag PART_NODES, or the one from which Slurm chose nodes; empty
	// for none.
	Partition string

	flags           uint64
	minutes         int64 // the duration; 0 for one whose end is given
	users, accounts []string
	named           bool // its maker has named its nodes
	allNodes        bool // Nodes=ALL
	begun, over     bool // the periodic work has seen its start, and its end
}

// The bits of the flags that matter to this package.
var (
	maint, flex, overlap = bit(slurmspec.FlagMaint), bit(slurmspec.FlagFlex), bit(slurmspec.FlagOverlap)
	ignoreJobs, noHold   = bit(slurmspec.FlagIgnoreJobs), bit(slurmspec.FlagNoHold)
	partNodes, static    = bit(slurmspec.FlagPartNodes), bit("STATIC")
	hourly, daily        = bit("HOURLY"), bit("DAILY")
	weekday, weekend     = bit("WEEKDAY"), bit("WEEKEND")
	weekly               = bit("WEEKLY")
)

func bit(name string) uint64 { return slurmspec.ReservationFlag{Name: name}.Bit() }

// has reports whether the reservation has one of the flags.
func (r *Reservation) has(flags uint64) bool { return r.flags&flags != 0 }

// Flexible reports whether jobs of the reservation may use other nodes and times (FLEX).
func (r *Reservation) Flexible() bool { return r.has(flex) }

// Holds reports whether pending jobs of the reservation are held when it is gone.
func (r *Reservation) Holds() bool { return !r.has(noHold) }

// Active reports whether the reservation has begun and not ended.
func (r *Reservation) Active(now int64) bool { return now >= r.Start && now < r.End }

// Who asks to use a reservation.
type Who struct {
	User string
	// Accounts are the job's account and the accounts above it, from below. Without enforced associations
	// it is the job's account alone. Names are in lower case.
	Accounts []string
}

// Admits reports whether a user may use the reservation (_valid_job_access_resv). A list of users or accounts
// with a minus before a name denies them.
func (r *Reservation) Admits(who Who) bool {
	user := matches(r.users, who.User)
	// If the list of users is not empty, accounts admit only their own associations, not those of accounts below.
	own := who.Accounts
	if len(r.users) > 0 && len(own) > 1 {
		own = own[:1]
	}
	account := matches(r.accounts, own...)
	if denies(r.users) {
		user = !user
	}
	if denies(r.accounts) {
		account = !account
	}
	return (user || len(r.users) == 0) && (account || len(r.accounts) == 0)
}

func denies(list []string) bool {
	return slices.ContainsFunc(list, func(name string) bool { return strings.HasPrefix(name, "-") })
}

func matches(list []string, names ...string) bool {
	return slices.ContainsFunc(list, func(name string) bool {
		name = strings.TrimPrefix(name, "-")
		return slices.ContainsFunc(names, func(one string) bool { return strings.EqualFold(name, one) })
	})
}

// advance moves a repeated reservation that has ended to its next time (_advance_resv_time). It reports
// whether the reservation repeats.
func (r *Reservation) advance(now int64) bool {
	const hour, day = 3600, 24 * 3600
	today := time.Unix(now, 0).UTC().Weekday()
	var by int64
	switch {
	case r.has(hourly):
		by = hour
	case r.has(daily):
		by = day
	case r.has(weekday) && today == time.Friday:
		by = 3 * day
	case r.has(weekday) && today == time.Saturday:
		by = 2 * day
	case r.has(weekday):
		by = day
	case r.has(weekend) && today == time.Sunday:
		by = 6 * day
	case r.has(weekend) && today == time.Saturday:
		by = day
	case r.has(weekend):
		by = day * int64(time.Saturday-today)
	case r.has(weekly):
		by = 7 * day
	default:
		return false
	}
	r.Start, r.End, r.begun, r.over = r.Start+by, r.End+by, false, false
	return true
}

// List are the reservations of a cluster, in the order in which they were made.
type List struct {
	// Since2411 says that the release is 24.11 or newer. Shares is a rule of 24.11 alone: slurmctld may choose
	// nodes of reservations that have OVERLAP or MAINT.
	Since2411, Shares bool

	cluster *Cluster
	all     []*Reservation
}

// Cluster is what a list needs to know of the cluster.
type Cluster struct {
	// Place has the index of each node by its name.
	Place map[string]int
	// PartitionNodes returns the nodes of a partition, or of the default partition for an empty name, and the
	// partition's name. ok is false if there is no such partition.
	PartitionNodes func(name string) (nodes selection.Bits, partition string, ok bool)
	// Available returns the nodes that are in service and not drained.
	Available func() selection.Bits
	// HeldAfter returns the nodes of running jobs that may run at an instant, job by job in the order of
	// slurmctld's list. except leaves out the jobs of a reservation.
	HeldAfter func(instant int64, except *Reservation) []selection.Bits
	// KnowsAccount reports whether accounting knows an account. Without accounting it knows any.
	KnowsAccount func(name string) bool
	// Choose chooses a number of nodes of a set for a reservation that begins at an instant; nil if it finds none.
	Choose func(among selection.Bits, count int, start int64) selection.Bits
}

// none returns an empty set of nodes, and all returns the full one.
func (c *Cluster) none() selection.Bits { return selection.NewBits(len(c.Place)) }

func (c *Cluster) all() selection.Bits {
	set := c.none()
	for k := range set {
		set[k] = ^uint64(0)
	}
	if rest := len(c.Place) % 64; rest > 0 {
		set[len(set)-1] = 1<<rest - 1
	}
	return set
}

// New returns an empty list.
func New(c *Cluster) *List { return &List{cluster: c} }

// Any reports whether there are reservations.
func (l *List) Any() bool { return len(l.all) > 0 }

// Find returns the reservation of a name, or nil.
func (l *List) Find(name string) *Reservation {
	if i := slices.IndexFunc(l.all, func(r *Reservation) bool { return r.Name == name }); i >= 0 {
		return l.all[i]
	}
	return nil
}

// Reserved returns the nodes of all reservations.
func (l *List) Reserved() selection.Bits {
	set := l.cluster.none()
	for _, r := range l.all {
		set.Or(r.Nodes)
	}
	return set
}

// EndAfter returns the first end of a reservation at or after an instant, rounded up to a resolution in
// seconds; 0 for none (find_resv_end).
func (l *List) EndAfter(start, resolution int64) int64 {
	var end int64
	for _, r := range l.all {
		if start <= r.End && (end == 0 || r.End < end) {
			end = r.End
		}
	}
	return (end + resolution - 1) / resolution * resolution
}

// Tick is the work of every five seconds (set_node_maint_mode). begins says that a reservation has begun.
// changed says that nodes have changed their flags.
func (l *List) Tick(now int64) (begins, changed bool) {
	for _, r := range l.all {
		active := r.Active(now)
		changed = changed || active || r.begun && !r.over && r.has(maint)
		if r.Start <= now && !r.begun {
			r.begun, begins = true, true
		}
		if r.End <= now {
			r.over = true
		}
	}
	return begins, changed
}

// Purge is the work of every thirty seconds (job_resv_check). It removes the reservations that have
// ended, and returns them. used reports whether jobs run in a reservation.
func (l *List) Purge(now int64, used func(*Reservation) bool) (gone []*Reservation) {
	l.all = slices.DeleteFunc(l.all, func(r *Reservation) bool {
		if r.End >= now {
			l.replaceNodes(r)
			return false
		}
		if !r.begun || !r.over || r.advance(now) || used(r) && !r.has(flex) {
			return false
		}
		gone = append(gone, r)
		return true
	})
	return gone
}

// Validate replaces nodes that have gone out of service (validate_all_reservations).
func (l *List) Validate() {
	for _, r := range l.all {
		l.replaceNodes(r)
	}
}
