// Package reservations has Slurm's reservations of nodes (reservation.c): who may use them, how
// they are created, changed and repeated, and which nodes they leave to a job. It stores no jobs: its
// caller passes the nodes of running jobs.
package reservations

import (
	"slices"
	"strings"
	"time"

	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/slurmspec"
)

// Reservation is one reservation. Instants are in seconds since 1970.
type Reservation struct {
	Name       string
	Start, End int64
	// Nodes are the reserved nodes.
	Nodes selection.Bits
	// Partition is the partition of the flag PART_NODES, or the partition from which slurmctld
	// chose the nodes. It is empty for other reservations.
	Partition string

	flags           uint64
	minutes         int64 // the duration; 0 if the end is given
	users, accounts []string
	named           bool  // the request named the nodes
	allNodes        bool  // Nodes=ALL
	begun, over     bool  // Tick has seen the start, and the end
	idleSince       int64 // since when Purge has found no jobs; 0 if it found jobs
	idleSeconds     int64 // the time of PURGE_COMP
}

// The bits of the flags that this package needs.
var (
	maint, flex, overlap = bit(slurmspec.FlagMaint), bit(slurmspec.FlagFlex), bit(slurmspec.FlagOverlap)
	ignoreJobs, noHold   = bit(slurmspec.FlagIgnoreJobs), bit(slurmspec.FlagNoHold)
	partNodes, static    = bit(slurmspec.FlagPartNodes), bit("STATIC")
	hourly, daily        = bit("HOURLY"), bit("DAILY")
	weekday, weekend     = bit("WEEKDAY"), bit("WEEKEND")
	weekly, magnetic     = bit("WEEKLY"), bit("MAGNETIC")
	purgeComp            = bit(slurmspec.FlagPurgeComp)
	noPurge              = slurmspec.ReservationFlag{Name: slurmspec.FlagPurgeComp, Off: true}.Bit()
)

func bit(name string) uint64 { return slurmspec.ReservationFlag{Name: name}.Bit() }

// has reports whether the reservation has one of the flags.
func (r *Reservation) has(flags uint64) bool { return r.flags&flags != 0 }

// Flexible reports whether jobs of the reservation may use other nodes and times (FLEX).
func (r *Reservation) Flexible() bool { return r.has(flex) }

// IsMaintenance reports whether the reservation is for maintenance.
func (r *Reservation) IsMaintenance() bool { return r.has(maint) }

// Holds reports whether slurmctld holds the pending jobs of the reservation when it removes the
// reservation.
func (r *Reservation) Holds() bool { return !r.has(noHold) }

// Active reports whether the reservation has begun and not ended.
func (r *Reservation) Active(now int64) bool { return now >= r.Start && now < r.End }

// Who has the user and the accounts of a job that requests a reservation.
type Who struct {
	User string
	// Accounts are the job's account and the accounts above it, from the lowest up. If associations are not enforced,
	// Accounts has only the job's account. Names are in lower case.
	Accounts []string
}

// Admits reports whether a user may use the reservation (_valid_job_access_resv). A list with a
// minus before a name denies the users or accounts in it.
func (r *Reservation) Admits(who Who) bool {
	user := matches(r.users, who.User)
	// If the list of users is not empty, an account in the list of accounts does not admit accounts
	// below it.
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

// advance moves a repeating reservation that has ended to its next time (_advance_resv_time). It
// returns false if the reservation does not repeat.
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
	r.Start, r.End, r.begun, r.over, r.idleSince = r.Start+by, r.End+by, false, false, 0
	return true
}

// List has the reservations of a cluster, in the order in which they were created.
type List struct {
	// Since2411 and Since2605 say that the release is 24.11, or 26.05, or newer. Shares is a rule of 24.11 only: slurmctld
	// may choose nodes that another reservation with OVERLAP or MAINT has.
	Since2411, Since2605, Shares bool

	cluster  *Cluster
	all      []*Reservation
	magnetic []*Reservation // those with the flag MAGNETIC, in the order in which they got it
}

// Cluster has the properties of the cluster that the list of reservations needs.
type Cluster struct {
	// Place has the index of each node by its name.
	Place map[string]int
	// PartitionNodes returns the nodes of a partition, and its name. An empty name is the default
	// partition. ok is false if the partition does not exist.
	PartitionNodes func(name string) (nodes selection.Bits, partition string, ok bool)
	// Available returns the nodes that are in service and not drained.
	Available func() selection.Bits
	// HeldAfter returns the nodes of each running job that may run longer than an instant, in the
	// order of slurmctld's list. The parameter except is a reservation whose jobs it leaves out;
	// nil for none.
	HeldAfter func(instant int64, except *Reservation) []selection.Bits
	// KnowsAccount reports whether an account exists. Without accounting, every account exists.
	KnowsAccount func(name string) bool
	// Choose chooses a number of nodes of a set for a reservation that begins at the instant
	// start. It returns nil if there are too few.
	Choose func(among selection.Bits, count int, start int64) selection.Bits
}

// The function none returns an empty set of nodes. The function all returns the set of all nodes.
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

// Any reports whether the list has a reservation.
func (l *List) Any() bool { return len(l.all) > 0 }

// Find returns the reservation with a name, or nil.
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

// EndAfter returns the first end of a reservation at or after the instant start, rounded up to a
// multiple of the resolution, in seconds; 0 if no reservation ends then or later (find_resv_end).
func (l *List) EndAfter(start, resolution int64) int64 {
	var end int64
	for _, r := range l.all {
		if start <= r.End && (end == 0 || r.End < end) {
			end = r.End
		}
	}
	return (end + resolution - 1) / resolution * resolution
}

// Tick does slurmctld's work of every five seconds (set_node_maint_mode). The result begins says
// that a reservation has begun. The result changed says that slurmctld has written flags of nodes;
// while a reservation is active, it does so at each call.
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

// Purge does slurmctld's work of every thirty seconds (job_resv_check). It removes and returns the
// reservations that have ended and do not repeat. A reservation in which jobs still run stays, unless it
// has the flag FLEX. Purge also removes reservations with PURGE_COMP that no job has used for some
// time; if such a reservation repeats, Purge moves it to its next time. The function used says
// whether jobs run in a reservation, and whether pending jobs name it.
func (l *List) Purge(now int64, used func(*Reservation) (running, pending bool)) (gone []*Reservation) {
	l.all = slices.DeleteFunc(l.all, func(r *Reservation) bool {
		var running, pending bool
		if r.Start <= now {
			running, pending = used(r)
		}
		switch idle := r.idle(now, running || pending); {
		case idle && r.advance(now):
			return false
		case idle:
		case r.End >= now:
			l.replaceNodes(r)
			return false
		case !r.begun, !r.over, r.advance(now), running && !r.has(flex):
			return false
		}
		gone = append(gone, r)
		l.forget(r)
		return true
	})
	return gone
}

// Validate replaces nodes that are out of service (validate_all_reservations).
func (l *List) Validate() {
	for _, r := range l.all {
		l.replaceNodes(r)
	}
}
