package metrics

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
)

// LossCause says why the work of a job's run was lost.
type LossCause string

// The causes of losses. If a job's final state is not COMPLETED, the cause for its last run is that
// state in lower case: "failed".
const (
	LostToPreemption LossCause = "preempted" // another job ended the run, with or without a requeue
	LostToRequeue    LossCause = "requeued"  // a user, an administrator or a failed node ended the run
)

// Loss sums up the runs whose work was lost for one cause.
type Loss struct {
	Cause LossCause `json:"cause"`
	Runs  int       `json:"runs"`
	// ProcessorSeconds is the processor time of these runs, and Share is its share of the processor
	// time of all jobs. Both also count the time outside the interval T.
	ProcessorSeconds Float `json:"processor_s"`
	Share            Float `json:"share"`
}

// loss is a sum over runs.
type loss struct {
	runs int
	held area
}

func (a *accumulator) lose(cause LossCause, held area) {
	l := a.losses[cause]
	if l == nil {
		l = &loss{}
		a.losses[cause] = l
	}
	l.runs++
	l.held.join(held)
}

// addLosses adds the processor time that a job held, and the processor time of its lost runs. A
// run that has not ended adds nothing.
func (a *accumulator) addLosses(r *run.Row) {
	sum, lost := &area{}, &area{} // lost is the area of the current run
	if known := a.byState[r.State]; known != nil {
		sum = known
	} else if len(a.held) > 0 {
		a.byState[r.State] = sum
	}
	for i, s := range a.held {
		d := s.End.Sub(s.Start)
		sum.add(d, s.Processors)
		lost.add(d, s.Processors)
		over, requeued, preempted := r.RunEnd(a.held, i)
		if !over {
			continue
		}
		if requeued {
			a.m.Requeues++
		}
		switch {
		case preempted:
			a.m.Preemptions++
			a.lose(LostToPreemption, *lost)
		case requeued:
			a.lose(LostToRequeue, *lost)
		case s.End != 0 && r.State.Ended() && r.State != hpc.Completed:
			a.lose(LossCause(strings.ToLower(string(r.State))), *lost)
		}
		if preempted || requeued {
			a.lost.join(*lost)
		}
		*lost = area{}
	}
	a.addLimit(r)
}

// addLimit adds the time limit of a job that ended, and the unused part of this limit.
func (a *accumulator) addLimit(r *run.Row) {
	if r.Start == 0 || r.End == 0 || r.TimeLimit <= 0 || r.TimeLimit == hpc.Unlimited {
		return
	}
	a.limits.add(r.TimeLimit, r.Processors)
	a.unused.add(r.TimeLimit-(r.End.Sub(r.Start)-r.Suspended), r.Processors)
}

// lossList returns the losses, with the largest first.
func (a *accumulator) lossList() []Loss {
	all := area{}
	for _, held := range a.byState {
		all.join(*held)
	}
	list := []Loss{}
	for cause, l := range a.losses {
		seconds := l.held.seconds()
		list = append(list, Loss{cause, l.runs, Float(seconds), ratio(seconds, all.seconds())})
	}
	slices.SortFunc(list, func(a, b Loss) int {
		return cmp.Or(cmp.Compare(b.ProcessorSeconds, a.ProcessorSeconds), cmp.Compare(a.Cause, b.Cause))
	})
	return list
}

// Lost returns the processor time that was lost, in processor seconds.
func (m *Metrics) Lost() (sum Float) {
	for _, l := range m.Losses {
		sum += l.ProcessorSeconds
	}
	return sum
}

// LostShare returns the part of the processor time of all jobs that was lost. It is NaN if jobs held
// no processors.
func (m *Metrics) LostShare() Float {
	all := 0.0
	for _, held := range m.HeldByState {
		all += float64(held)
	}
	return ratio(float64(m.Lost()), all)
}

// LostStory returns a sentence about the runs of jobs that a replay lost. The function value returns
// the replay's [LossFigures]; the parameter run is the replay's index among several replays. The
// text is empty if no run was lost.
func LostStory(value func(key string, run int) Float, run int) string {
	requeues, preemptions := value("requeues", run), value("preemptions", run)
	if !(requeues+preemptions > 0) {
		return ""
	}
	return fmt.Sprintf("Jobs lost the work of runs in %s and %s: %s processor hours.",
		quantity.Counted(int(preemptions), "preemption", "preemptions"),
		quantity.Counted(int(requeues), "requeue", "requeues"), number(value("interrupted_processor_s", run)/3600))
}

// renderLosses writes the table of losses, and the unused part of time limits.
func (m *Metrics) renderLosses(b *bytes.Buffer) {
	if len(m.Losses) == 0 && !m.LimitProcessorSeconds.Known() {
		return
	}
	table := quantity.NewTable(22, 9, 16, 9)
	table.Row("lost processor hours", "runs", "hours", "share")
	for _, l := range m.Losses {
		table.Row("  "+strings.ReplaceAll(string(l.Cause), "_", " "), l.Runs, number(l.ProcessorSeconds/3600), percent(l.Share))
	}
	if m.LimitProcessorSeconds.Known() {
		table.Row("  limit minus use", "", number(m.UnusedLimitProcessorSeconds/3600),
			percent(ratio(float64(m.UnusedLimitProcessorSeconds), float64(m.LimitProcessorSeconds))),
			"   (of time limit x processors)")
	}
	b.WriteString("\n" + table.String())
}
