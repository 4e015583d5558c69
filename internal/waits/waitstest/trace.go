package waitstest

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/compare"
	"rmreplay/internal/formats"
	"rmreplay/internal/hpc"
	"rmreplay/internal/jobtable"
	"rmreplay/internal/metrics"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
)

// sameColumns are the columns in which a job of a run and the same job of the run's trace are equal. A trace has no
// reasons for which jobs waited, so other parts of waits may be unknown. If the run has no reasons either, the part
// own_limit is equal too: it is then computed from the starts and ends of the array's other tasks.
var sameColumns = []string{
	"submit", "eligible", "start", "end", "wait", "wait_since_eligible", "run_time", "turnaround", "slowdown",
	"interrupted_cpu_time", "wait_" + string(waits.Requeued),
}

// near compares numbers that may differ by a margin: Slurm's accounting has whole seconds.
func near(margin float64) cmp.Option {
	same := func(a, b float64) bool {
		return math.Abs(a-b) <= margin+1e-9*math.Abs(a) || math.IsNaN(a) && math.IsNaN(b)
	}
	return cmp.Options{cmp.Comparer(same), cmp.Comparer(func(a, b metrics.Float) bool { return same(float64(a), float64(b)) })}
}

// checkTrace writes the record of a run as a trace and reads it again. Waits, runs and figures must
// equal the run's.
func checkTrace(t testing.TB, r *run.Run, rows []*run.Row, summary *metrics.Summary) {
	t.Helper()
	w, err := run.Workload(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "trace.jsonl.gz")
	if err := formats.Save(path, w); err != nil {
		t.Fatal(err)
	}
	trace, err := formats.OpenRun(path)
	if err != nil {
		if summary.Waited > 0 { // otherwise the error says that no job started
			t.Fatal(err)
		}
		return
	}
	table, err := jobtable.FromRun(trace, jobtable.Options{})
	if err != nil {
		t.Fatal(err)
	}
	type key struct {
		job  string
		task int
	}
	again := map[key]*run.Row{}
	for _, row := range table.Rows {
		again[key{row.Job, row.Task}] = row
	}
	margin := 1e-6
	if r.Manifest.OfSlurm() {
		margin = 2
	}
	for _, row := range rows {
		other := again[key{row.Job, row.Task}]
		if other == nil {
			t.Errorf("the trace has no job %s, task %d", row.Job, row.Task)
			continue
		}
		if row.State == hpc.Rejected || row.Start != 0 && row.Start < r.Manifest.WindowStart {
			continue // a run submits a preset job at its start, but the trace has the job's real submission
		}
		columns := sameColumns
		if !r.Manifest.OfSlurm() && !row.HasReasons() {
			columns = append(slices.Clip(columns), "wait_"+string(waits.OwnLimit))
		}
		for _, column := range columns {
			want, _ := table.Value(row, column)
			got, err := table.Value(other, column)
			if err != nil || !cmp.Equal(want, got, near(margin)) {
				t.Errorf("job %s, task %d: %s is %v in the run and %v in its trace (%v)\n%+v\n%+v", row.Job, row.Task, column, want, got, err, row, other)
			}
		}
		if diff := cmp.Diff(runsOf(row), runsOf(other), near(margin)); diff != "" {
			t.Errorf("job %s, task %d: runs of the run (-) and of its trace (+)\n%s", row.Job, row.Task, diff)
		}
	}
	figures, err := metrics.FromRun(trace, metrics.Options{})
	if err != nil {
		t.Fatal(err)
	}
	checkFigures(t, summary, figures, margin)
	sum := metrics.Float(0)
	for _, row := range table.Rows {
		lost, err := table.Value(row, "interrupted_cpu_time")
		if err != nil {
			t.Fatal(err)
		}
		if !math.IsNaN(lost) {
			sum += metrics.Float(lost)
		}
	}
	if got := figures.InterruptedProcessorSeconds; !cmp.Equal(got, sum, near(1e-6)) {
		t.Errorf("the trace has %v lost processor seconds, and its jobs have %v", got, sum)
	}
	checkSame(t, r.Dir, path)
}

// lost has the values that commands show for a run of a job, in seconds and processors.
type lost struct {
	Start, End, Eligible, Suspended float64
	EndedBy                         rm.EventKind
	Processors                      int
	PreemptedBy, Nodes              string
}

// runsOf returns the runs of a job.
func runsOf(row *run.Row) (list []lost) {
	for _, s := range row.Runs() {
		list = append(list, lost{
			Start: s.Start.Seconds(), End: s.End.Seconds(), Eligible: s.Eligible.Seconds(), EndedBy: s.EndedBy, Processors: s.Processors,
			PreemptedBy: s.PreemptedBy, Nodes: s.Nodes,
		})
	}
	if n := len(list); n > 0 && row.End != 0 {
		list[n-1].EndedBy = rm.Ended // ended, even if the job was suspended at its end
	}
	for i, stop := range row.Segments {
		until := row.End // if the job was not resumed
		if i+1 < len(row.Segments) {
			until = row.Segments[i+1].Start
		}
		for k, s := range row.Runs() {
			if stop.EndedBy == rm.Suspend && until != 0 && stop.End >= s.Start && (s.End == 0 || stop.End <= s.End) {
				list[k].Suspended += until.Sub(stop.End).Seconds()
				break
			}
		}
	}
	return list
}

// checkFigures compares the figures of a run with the figures of its trace.
func checkFigures(t testing.TB, run, trace *metrics.Summary, margin float64) {
	t.Helper()
	type figures struct {
		Requeues, Preemptions, Waited int
		Lost                          metrics.Float
		Wait                          metrics.Wait
		Eligible                      metrics.EligibleWait
		Turnaround                    metrics.Turnaround
		Slowdown                      metrics.Slowdown
	}
	of := func(s *metrics.Summary) figures {
		return figures{s.Requeues, s.Preemptions, s.Waited, s.InterruptedProcessorSeconds, s.Wait, s.EligibleWait, s.Turnaround, s.Slowdown}
	}
	if diff := cmp.Diff(of(run), of(trace), near(margin)); diff != "" {
		t.Errorf("figures of the run (-) and of its trace (+)\n%s", diff)
	}
	processors := near(1000 * margin) // each of many runs on several processors has its margin
	if diff := cmp.Diff(run.Losses, trace.Losses, processors) + cmp.Diff(run.HeldByState, trace.HeldByState, processors); diff != "" {
		t.Errorf("processor time of the run (-) and of its trace (+)\n%s", diff)
	}
}

// checkSame compares a run with its trace. No job may differ.
func checkSame(t testing.TB, dir, trace string) {
	t.Helper()
	sets, err := compare.Open(t.Context(), []string{dir, trace})
	if err != nil {
		t.Fatal(err)
	}
	c, err := compare.Compare(sets, compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range c.Pairs[0].Divergences {
		t.Errorf("compare of the run with its trace: %s: %s", d.Kind, d.Reason)
	}
}
