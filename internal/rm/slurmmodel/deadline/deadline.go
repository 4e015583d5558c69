// Package deadline computes what the deadlines of jobs mean for their time limits (deadline_ok and _schedule in
// src/slurmctld/job_scheduler.c). Instants are in seconds since 1970, time limits in minutes; a negative one stands for
// no limit.
package deadline

// Met reports whether a job can end in time if it begins now, with its shortest time limit, or, if that is 0, with
// its time limit. A deadline of 0 is none.
func Met(deadline, now, shortest, limit int64) bool {
	least := max(limit, 0)
	if shortest > 0 {
		least = shortest
	}
	return deadline == 0 || least == 0 || deadline >= now+least*60
}

// Left returns how many whole minutes there are before a deadline; 0 if there is none.
func Left(deadline, now int64) int64 {
	if deadline == 0 {
		return 0
	}
	return max(0, (deadline-now)/60)
}

// Limit returns the first time limit that is not negative, or the minutes left before a deadline if
// these are fewer. If left is 0, it returns the first of the limits.
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
