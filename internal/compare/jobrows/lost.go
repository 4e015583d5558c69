// Package jobrows compares the rows of two run records. It finds the rows of the same job, and the reasons why the
// job's runs ended differently.
package jobrows

import (
	"cmp"
	"fmt"
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

// Why returns the reason why the last run of a job was longer or shorter in y than in x; "" if the rows do not show
// it. The parameter asked has the results of [Asked] for x and y. The parameter slurm says that both are runs of
// slurmctld.
func Why(x, y *run.Row, asked [2]*hpc.Job, slurm bool) string {
	after := func(row *run.Row) string {
		return seconds(row.End.Sub(row.Start) - row.Suspended - row.TimeLimit).Text()
	}
	was, is := cancelled(x, asked[0]), cancelled(y, asked[1])
	switch {
	case was > 0 && was == is:
		return fmt.Sprintf("the workload cancels it %s s after its submission, and it waited for %s s instead of %s s",
			seconds(is).Text(), seconds(y.Start.Sub(y.Submit)).Text(), seconds(x.Start.Sub(x.Submit)).Text())
	case was > 0 && is > 0:
		return fmt.Sprintf("the workload cancels it %s s after its submission instead of %s s", seconds(is).Text(),
			seconds(was).Text())
	case x.State == hpc.TimedOut && y.State == hpc.TimedOut && x.TimeLimit != y.TimeLimit:
		return fmt.Sprintf("it was ended at its time limit, which was %s instead of %s", limitText(y), limitText(x))
	case x.State == hpc.TimedOut && y.State == hpc.TimedOut:
		text := fmt.Sprintf("it was ended %s s after its time limit instead of %s s", after(y), after(x))
		if slurm {
			text += fmt.Sprintf("; slurmctld checks time limits every %s s", seconds(timeLimitInterval).Text())
		}
		return text
	case x.State != y.State:
		text := fmt.Sprintf("it ended as %s instead of %s", y.State, x.State)
		for _, by := range []string{preemptedBy(x), preemptedBy(y)} {
			if by != "" {
				text += ": preempted by job " + by
			}
		}
		if after := max(was, is); after > 0 {
			text += fmt.Sprintf(": the workload cancels it %s s after its submission", seconds(after).Text())
		}
		return text
	case x.Restarts != y.Restarts:
		return fmt.Sprintf("it was requeued %s instead of %s", often(y.Restarts), often(x.Restarts))
	case x.Suspended != y.Suspended:
		return fmt.Sprintf("it was suspended for %s s instead of %s s", seconds(y.Suspended).Text(),
			seconds(x.Suspended).Text())
	case x.State == hpc.Completed && x.AskedRunTime != y.AskedRunTime && min(x.AskedRunTime, y.AskedRunTime) > 0:
		return fmt.Sprintf("its run time in the workload is %s s instead of %s s", seconds(y.AskedRunTime).Text(),
			seconds(x.AskedRunTime).Text())
	}
	return ""
}

func often(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
