package reservations

import (
	"slices"

	"rmreplay/internal/slurmspec"
)

// Magnetic returns the reservations with the flag MAGNETIC that a job may use without naming them
// (job_resv_append_magnetic). They are in the order in which they got the flag. If there is none,
// Magnetic does not call the function who.
func (l *List) Magnetic(who func() Who) (list []*Reservation) {
	if len(l.magnetic) == 0 {
		return nil
	}
	job := who()
	for _, r := range l.magnetic {
		if r.Admits(job) {
			list = append(list, r)
		}
	}
	return list
}

// remember updates the list of magnetic reservations when a reservation gets or loses the flag.
func (l *List) remember(r *Reservation) {
	switch listed := slices.Contains(l.magnetic, r); {
	case r.has(magnetic) && !listed:
		l.magnetic = append(l.magnetic, r)
	case !r.has(magnetic) && listed:
		l.forget(r)
	}
}

// forget removes a reservation from the list of magnetic reservations.
func (l *List) forget(r *Reservation) {
	l.magnetic = slices.DeleteFunc(l.magnetic, func(one *Reservation) bool { return one == r })
}

// setIdle sets for how long a reservation with PURGE_COMP must be idle before slurmctld removes it.
func (r *Reservation) setIdle(flags uint64, seconds uint32) {
	const usual = 300
	switch {
	case seconds != slurmspec.NoVal:
		r.idleSeconds = int64(seconds)
	case r.idleSeconds == 0, flags != slurmspec.NoVal64 && flags&noPurge != 0:
		r.idleSeconds = usual
	}
}

// idle reports whether a reservation with PURGE_COMP has had no jobs for its time (job_resv_check).
// The parameter used says that running or pending jobs have the reservation.
func (r *Reservation) idle(now int64, used bool) bool {
	switch {
	case r.Start > now:
	case used:
		r.idleSince = 0
	case r.idleSince == 0:
		r.idleSince = now
	}
	return r.has(purgeComp) && r.idleSince != 0 && r.End > now && r.idleSeconds <= now-r.idleSince
}
