package session

import (
	"fmt"
	"strings"
	"time"

	"rmreplay/internal/hpc"
)

// Method says from where to where the gap between two of a user's jobs is measured that
// makes the second one the first of a new session.
type Method string

// The three methods of Zakay & Feitelson, "On identifying user session boundaries in
// parallel workload logs", JSSPP 2012 (Springer, 2013).
const (
	// Arrival measures from one submission to the next, however long the jobs run. It is
	// the one that the authors recommend, since only a submission proves that the user
	// was there; a job may end while he sleeps.
	Arrival Method = "arrival"
	// Last measures from the end of the job that was submitted last: the think time. A
	// job that still runs when the next one comes makes no gap.
	Last Method = "last"
	// Max measures from the latest end of all the session's jobs: a session is over when
	// nothing of it has run for so long.
	Max Method = "max"
)

// Delimitation says where one session of a user ends and the next begins.
type Delimitation struct {
	Method Method
	// Threshold is the gap from which on a new session begins: one of exactly this
	// length does, so a threshold of 0 under [Arrival] makes every job a session.
	Threshold time.Duration
}

// Default is the delimitation that Zakay & Feitelson (2013) and Madon et al. (FGCS 2024)
// use: an hour between submissions.
var Default = Delimitation{Arrival, time.Hour}

// String writes the delimitation as [Parse] reads it.
func (d Delimitation) String() string {
	text := d.Threshold.String()
	if d.Threshold%time.Minute == 0 {
		text = fmt.Sprintf("%dm", d.Threshold/time.Minute)
	}
	return string(d.Method) + ":" + text
}

// Parse reads METHOD:THRESHOLD, as in "arrival:60m", "last:20m" or "max:0".
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
	if d.Threshold, err = time.ParseDuration(threshold); err != nil || d.Threshold < 0 {
		return d, fmt.Errorf("%q: %q is not a threshold (want 0 or, for example, 60m or 1h30m)", s, threshold)
	}
	return d, nil
}

// begins reports whether a job submitted at the given instant begins a new session
// after the one whose last job was submitted at and ended at the given ones, and whose
// jobs had all ended at latest.
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
