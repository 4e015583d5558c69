package charge

import "time"

// Requests counts the requests of users that slurmctld serves in one second. The zero value has served none.
type Requests struct {
	second int64
	served int
}

// Wait returns how long a request waits for those of the same second that came before it. slurmctld sleeps for a
// microsecond before it looks at a request (_throttle_start in proc_req.c).
func (r *Requests) Wait(second int64) time.Duration {
	if r.second != second {
		*r = Requests{second: second}
	}
	r.served++
	return time.Duration(r.served-1) * time.Microsecond
}
