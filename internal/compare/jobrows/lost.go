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

// Why returns the reason why the last run of a job was longer or shorter in y than in x; "" if the rows do not show
// it. The parameter slurm says that both are runs of slurmctld.
func Why(x, y *run.Row, slurm bool) string {
	after := func(row *run.Row) string {
		return seconds(row.End.Sub(row.Start) - row.Suspended - row.TimeLimit).Text()
	}
	switch {
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
		return text
	case x.Restarts != y.Restarts:
		return fmt.Sprintf("it was requeued %s instead of %s", often(y.Restarts), often(x.Restarts))
	case x.Suspended != y.Suspended:
		return fmt.Sprintf("it was suspended for %s s instead of %s s", seconds(y.Suspended).Text(),
			seconds(x.Suspended).Text())
	}
	return ""
}

func often(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
