package session

import (
	"fmt"
	"strings"
	"time"

	"rmreplay/internal/hpc"
)

// Method says how the gap between two jobs of a user is measured. A gap of at least the
// threshold begins a new session.
type Method string

// The three methods of Zakay & Feitelson, "On identifying user session boundaries in
// parallel workload logs", JSSPP 2012 (Springer, 2013).
const (
	// Arrival measures from one submission to the next, no matter how long the jobs run. Zakay and Feitelson recommend
	// it, because only a submission proves that the user was present; a job may end while the user sleeps.
	Arrival Method = "arrival"
	// Last measures from the end of the previously submitted job, which is the think time.
	// If that job is still running at the next submission, there is no gap.
	Last Method = "last"
	// Max measures from the latest end of all jobs of the session: a session ends when no job of it
	// has run for the time of the threshold.
	Max Method = "max"
)

// Delimitation says where one session of a user ends and the next begins.
type Delimitation struct {
	Method Method
	// Threshold is the smallest gap that begins a new session. A threshold of 0 under
	// [Arrival] makes every job a session.
	Threshold time.Duration
}

// Default is the delimitation of Zakay & Feitelson (2013) and of Madon et al. (FGCS 2024):
// an hour between submissions.
var Default = Delimitation{Arrival, time.Hour}

// String writes the delimitation in the form that [Parse] reads.
func (d Delimitation) String() string {
	text := d.Threshold.String()
	if d.Threshold%time.Minute == 0 {
		text = fmt.Sprintf("%dm", d.Threshold/time.Minute)
	}
	return string(d.Method) + ":" + text
}

// Parse reads METHOD:THRESHOLD, such as "arrival:60m", "last:00:20:00" or "max:0". The
// threshold is a duration as [hpc.ParseDuration] reads it. The error says which part is wrong.
func Parse(s string) (Delimitation, error) {
	method, threshold, found := strings.Cut(s, ":")
	d := Delimitation{Method: Method(method)}
	switch d.Method {
	case Arrival, Last, Max:
	default:
		return d, fmt.Errorf("%q: not a way to delimit sessions (want arrival:60m, last:20m or max:20m)", s)
	}
	if !found {
		return d, fmt.Errorf("%q: no threshold (want, for example, %s:60m)", s, method)
	}
	var err error
	if d.Threshold, err = hpc.ParseDuration(threshold); err != nil || d.Threshold < 0 {
		return d, fmt.Errorf("%q: %q is not a threshold (want 0 or a duration such as 60m, 1h30m or 01:30:00)", s, threshold)
	}
	return d, nil
}

// begins reports whether a job submitted at an instant begins a new session. lastSubmit and
// lastEnd are the submission and the end of the session's last job, and latest is the latest end
// of its jobs.
func (d Delimitation) begins(submit, lastSubmit, lastEnd, latest hpc.Time) bool {
	from := lastSubmit
	switch d.Method {
	case Last:
		from = lastEnd
	case Max:
		from = latest
	}
	return from != never && submit.Sub(from) >= d.Threshold
}
