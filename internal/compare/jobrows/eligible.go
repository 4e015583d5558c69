package jobrows

import (
	"fmt"
	"time"

	"rmreplay/internal/hpc"
)

// Moments are when a run of a job was submitted, became eligible and started, on the baseline's
// dates. An instant that is not known is 0.
type Moments struct {
	Side                    string // the letter of the run's set
	Submit, Eligible, Start hpc.Time
	Requeued                bool // an earlier run of the job was lost
}

// held returns how long a job waited to become eligible after its submission.
func (m Moments) held() time.Duration { return max(0, m.Eligible.Sub(m.Submit)) }

// eligibleStep is the precision of an eligible time: slurmctld's times are whole seconds.
const eligibleStep = time.Second

// NotEligible returns the reason why a job could not start in one of two runs at the time at which it started in the
// other run: a later submission, its dependencies, its begin time or a hold. The result is empty if the job was
// eligible.
func NotEligible(x, y Moments) string {
	late, early := x, y
	if x.Start != 0 && y.Eligible > x.Start {
		late, early = y, x
	}
	if early.Start == 0 || late.Eligible <= early.Start {
		return ""
	}
	submitted, why := "", "dependency, begin time or hold"
	switch {
	case late.Requeued:
		why = "after its requeue"
	case early.Submit != 0 && late.Submit > early.Submit:
		submitted = fmt.Sprintf("submitted %s s later", seconds(late.Submit.Sub(early.Submit)).Text())
		if held := late.held(); held < eligibleStep || early.Eligible != 0 && (held-early.held()).Abs() < eligibleStep {
			return fmt.Sprintf("in %s it was %s", late.Side, submitted)
		}
		submitted += " and "
	}
	return fmt.Sprintf("in %s it was %snot eligible before %s (%s); in %s it had already started by then",
		late.Side, submitted, late.Eligible.Text(time.UTC), why, early.Side)
}
