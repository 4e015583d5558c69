// Package jobrows compares the rows of two run records. It finds the rows of the same job, and the reasons why the
// job's runs ended differently.
package jobrows

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/run"
)

// Lost returns a text about how a lost run ended: "preempted by job 7 at 2024-03-05T15:33:43Z, and
// requeued".
func Lost(s run.Segment) string {
	at := s.End.Text(time.UTC)
	if s.PreemptedBy != "" {
		return fmt.Sprintf("preempted by job %s at %s, and requeued", s.PreemptedBy, at)
	}
	by := map[hpc.State]string{
		hpc.Preempted: "a preemption", hpc.NodeFail: "a failure of its node", hpc.BootFail: "a node that did not boot",
		hpc.Requeued: "its user or an administrator",
	}[s.Cause]
	return "requeued at " + at + ", by " + cmp.Or(by, "a preemption, a failure of its node, its user or an administrator")
}

// preemptedBy returns the job that preempted a job's last run; "" if no job preempted it, or if the record does not
// name that job.
func preemptedBy(row *run.Row) string {
	if n := len(row.Segments); n > 0 {
		return row.Segments[n-1].PreemptedBy
	}
	return ""
}

func seconds(d time.Duration) metrics.Float { return metrics.Float(d.Seconds()) }

// timeLimitInterval is the interval at which slurmctld checks the jobs' time limits
// (PERIODIC_TIMEOUT in slurmctld.h).
const timeLimitInterval = 30 * time.Second

// limitText returns the time limit of a job as a text. A record may lack the limit.
func limitText(row *run.Row) string {
	if row.TimeLimit == 0 {
		return "a limit that is not recorded"
	}
	return seconds(row.TimeLimit).Clock()
}

// Asked returns the submission of a job, which only the first row of an array has; nil if the record does not have it.
func Asked(rows []run.Row, row *run.Row) *hpc.Job {
	request := row.Request
	for i := 0; request == "" && i < len(rows); i++ {
		if rows[i].Job == row.Job {
			request = rows[i].Request
		}
	}
	if job, err := run.DecodeJob([]byte(request)); request != "" && err == nil {
		return job
	}
	return nil
}

// cancelDelay is the longest time from a planned cancellation until slurmctld ends the job.
const cancelDelay = time.Minute

// cancelled returns after which time a cancellation that the workload has ended a job; 0 if something else ended it.
// The parameter asked is the result of [Asked].
func cancelled(row *run.Row, asked *hpc.Job) time.Duration {
	if asked == nil || asked.CancelAfter == 0 || row.State != hpc.Cancelled {
		return 0
	}
	if late := row.End.Sub(row.Submit.Add(asked.CancelAfter)); late < -time.Second || late > cancelDelay {
		return 0
	}
	return asked.CancelAfter
}

// NeverStarted returns how a job ended that never started; "" if it did not end. The parameter asked is the result of
// [Asked].
func NeverStarted(row *run.Row, asked *hpc.Job) string {
	switch after := cancelled(row, asked); {
	case row.End == 0:
		return ""
	case after > 0:
		return fmt.Sprintf("the workload cancels it %s s after its submission, and it still waited then",
			seconds(after).Text())
	case row.Reason != "":
		return fmt.Sprintf("it ended as %s at %s, before it started (%s)", row.State, row.End.Text(time.UTC), row.Reason)
	}
	return fmt.Sprintf("it ended as %s at %s, before it started", row.State, row.End.Text(time.UTC))
}

// slack is by how much the parts of a reason may miss a difference of run times: Slurm's times are whole seconds.
const slack = 2 * time.Second

// Why returns the reason why the last run of a job was longer or shorter in y than in x; "" if the rows do not show
// it, or if what they show does not explain the difference to within [slack]. The parameter asked has the results of
// [Asked] for x and y. The parameter slurm says that both are runs of slurmctld.
func Why(x, y *run.Row, asked [2]*hpc.Job, slurm bool) string {
	if was, is := cancelled(x, asked[0]), cancelled(y, asked[1]); was > 0 && is > 0 {
		return whyCancelled(x, y, was, is)
	} else if x.State != y.State {
		return otherState(x, y, max(was, is))
	}
	var parts []string
	rest := ran(y) - ran(x) // without the parts
	part := func(size time.Duration, format string, args ...any) {
		if size.Abs() >= time.Second {
			parts, rest = append(parts, fmt.Sprintf(format, args...)), rest-size
		}
	}
	if x.State == hpc.TimedOut && min(x.TimeLimit, y.TimeLimit) > 0 {
		part(y.TimeLimit-x.TimeLimit, "it was ended at its time limit, which was %s instead of %s", limitText(y),
			limitText(x))
		checks := ""
		if slurm {
			checks = fmt.Sprintf("; slurmctld checks time limits every %s s", seconds(timeLimitInterval).Text())
		}
		was, is := ran(x)-x.Suspended-x.TimeLimit, ran(y)-y.Suspended-y.TimeLimit
		part(is-was, "it was ended %s s after its time limit instead of %s s%s", seconds(is).Text(),
			seconds(was).Text(), checks)
	}
	part(y.Suspended-x.Suspended, "it was suspended for %s s instead of %s s", seconds(y.Suspended).Text(),
		seconds(x.Suspended).Text())
	if x.State == hpc.Completed && min(x.AskedRunTime, y.AskedRunTime) > 0 {
		part(y.AskedRunTime-x.AskedRunTime, "its run time in the workload is %s s instead of %s s",
			seconds(y.AskedRunTime).Text(), seconds(x.AskedRunTime).Text())
	}
	switch {
	case x.State == hpc.TimedOut && x.TimeLimit != y.TimeLimit && min(x.TimeLimit, y.TimeLimit) == 0:
		return fmt.Sprintf("it was ended at its time limit, which was %s instead of %s", limitText(y), limitText(x))
	case rest.Abs() <= slack:
		return strings.Join(parts, ", and ")
	case x.Restarts != y.Restarts:
		return fmt.Sprintf("it was requeued %s instead of %s", often(y.Restarts), often(x.Restarts))
	}
	return ""
}

// ran returns the time from the start to the end of a job's last run.
func ran(row *run.Row) time.Duration { return row.End.Sub(row.Start) }

// whyCancelled is [Why] for jobs that the workload cancels after the times was and is since their submissions: the
// longer the job waited, the shorter it ran.
func whyCancelled(x, y *run.Row, was, is time.Duration) string {
	waited, wait := x.Start.Sub(x.Submit), y.Start.Sub(y.Submit)
	moved := (waited - wait).Abs() >= time.Second
	if rest := ran(y) - ran(x) - (is - was) - (waited - wait); rest.Abs() > slack || is == was && !moved {
		return ""
	}
	text := fmt.Sprintf("the workload cancels it %s s after its submission", seconds(is).Text())
	if is != was {
		text += fmt.Sprintf(" instead of %s s", seconds(was).Text())
	}
	if moved {
		text += fmt.Sprintf(", and it waited for %s s instead of %s s", seconds(wait).Text(), seconds(waited).Text())
	}
	return text
}

// otherState is [Why] for a job that ended in another state. The parameter after is the time since its submission after
// which the workload cancels it on one side, or 0.
func otherState(x, y *run.Row, after time.Duration) string {
	text := fmt.Sprintf("it ended as %s instead of %s", y.State, x.State)
	for _, by := range []string{preemptedBy(x), preemptedBy(y)} {
		if by != "" {
			text += ": preempted by job " + by
		}
	}
	if after > 0 {
		text += fmt.Sprintf(": the workload cancels it %s s after its submission", seconds(after).Text())
	}
	return text
}

func often(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
