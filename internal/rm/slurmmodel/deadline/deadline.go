// Package deadline computes the effect of --deadline on the time limits of jobs (deadline_ok and
// _schedule in src/slurmctld/job_scheduler.c). Instants are in seconds since 1970. Time limits are
// in minutes; a negative time limit is no limit.
package deadline

// Met reports whether a job that begins now can end before its deadline. The job is expected to run
// for its shortest time limit (--time-min) or, if that is 0, for its time limit. A deadline of 0 is
// no deadline, and is always met.
func Met(deadline, now, shortest, limit int64) bool {
	least := max(limit, 0)
	if shortest > 0 {
		least = shortest
	}
	return deadline == 0 || least == 0 || deadline >= now+least*60
}

// Left returns the whole minutes from now to a deadline; 0 if the deadline has passed, or is 0.
func Left(deadline, now int64) int64 {
	if deadline == 0 {
		return 0
	}
	return max(0, (deadline-now)/60)
}

// Limit returns the first limit that is not negative, but at most the minutes that are left before a deadline. If left
// is 0, Limit returns limits[0].
func Limit(left int64, limits ...int64) int64 {
	if left == 0 {
		return limits[0]
	}
	for _, limit := range limits {
		if limit >= 0 {
			return min(limit, left)
		}
	}
	return left
}

// Lower returns the lower of the limits of a job and of its partition, or the parameter most if both are
// unlimited.
func Lower(own, partition, most int64) int64 {
	limit := partition
	if own >= 0 && (limit < 0 || own < limit) {
		limit = own
	}
	if limit < 0 {
		return most
	}
	return limit
}
