package compare

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"rmreplay/internal/compare/jobrows"
	"rmreplay/internal/compare/periods"
	"rmreplay/internal/compare/releases"
	"rmreplay/internal/hpc"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
)

// table has the compared data of a run. For a set's first run, it also has the jobs by key. For the other runs, it
// has only the figures and the instants of jobs, so that sets may have many runs.
type table struct {
	Realization
	measured
	// moments are the instants of the jobs, by their numbers in [jobNumbers].
	moments []moments
	// shift is added to the run's instants to convert them to the baseline's dates; 0 if both runs have the same
	// dates.
	shift time.Duration
	// submitted is the start of the run's window if the sets have different windows, and otherwise 0. A job that
	// waited at the start may also be in the earlier window, so only the jobs that were submitted in the window
	// count.
	submitted hpc.Time

	byKey   map[Key]*run.Row
	keys    []Key // in the order of submission
	numbers []int // the numbers of the keys' jobs
	// accepted has the keys of the jobs in byKey, and rejected has the rows of all other jobs, both by job ID.
	accepted map[string]Key
	rejected map[string]*run.Row
}

// Key identifies a job or one task of an array. Task is -1 for a job that is not an array.
type Key struct {
	Job  string `json:"job"`
	Task int    `json:"task"`
}

// String returns the job's ID, with the task as Slurm writes it ("17_3").
func (k Key) String() string {
	if k.Task < 0 {
		return k.Job
	}
	return fmt.Sprintf("%s_%d", k.Job, k.Task)
}

// moments are the instants of one job in one run. The zero value is for a job that the run does not have.
type moments struct {
	submit, first, start, end hpc.Time      // first is the first run's start, and start is the last run's start
	wait                      time.Duration // 0 if it is not known
	here, waitKnown           bool
}

// jobNumbers number the jobs of the first runs of sets. The jobs of the baseline's first run have the first numbers,
// in the order of submission. Jobs that only other runs have are not compared.
type jobNumbers map[Key]int

// tabulate reads all runs, computes their figures, collects the jobs' instants, and aligns the runs'
// dates.
func tabulate(ctx context.Context, sets []Set, opts Options) ([][]table, error) {
	shared := len(fileSystemNames(sets)) > 0
	return tabulateBy(ctx, sets, func(t *table, rows []run.Row) (err error) {
		if t.measured, err = measure(rows, t.Manifest, t.submitted, shared, opts); err != nil {
			return fmt.Errorf("comparing runs: %s: %w", t.Name, err)
		}
		return nil
	})
}

// tabulateBy reads all runs, and calls the function measure with the rows of each.
func tabulateBy(ctx context.Context, sets []Set, measure func(*table, []run.Row) error) ([][]table, error) {
	out := make([][]table, len(sets))
	numbers := jobNumbers{}
	arrays := map[string]bool{}
	for i, s := range sets {
		out[i] = make([]table, len(s.Runs))
		for k, r := range s.Runs {
			r.arrays = arrays
			out[i][k].Realization = r
		}
		first := &out[i][0]
		var err error
		if first.Rows, err = first.rows(); err != nil {
			return nil, err
		}
		for k := range first.Rows {
			if row := &first.Rows[k]; jobrows.OfArray(row) {
				arrays[row.Job] = true
			}
		}
	}
	for i := range out {
		first := &out[i][0]
		first.Rows = jobrows.Tasks(first.Rows, arrays)
		first.twice = jobrows.Twice(first.Rows, arrays)
		if ids, by := jobrows.Partners(out[0][0].Rows, first.Rows); i > 0 && ids != nil {
			for k := range out[i] {
				out[i][k].ids, out[i][k].matchedBy = ids, by
			}
			first.Rows = jobrows.Renamed(first.Rows, ids)
		} else if i > 0 {
			setApart(out[i], out[0][0].Rows)
		}
		first.index(numbers)
	}
	countOwnJobs(out)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range out {
		for k := range out[i] {
			group.Go(func() error {
				if err := ctx.Err(); err != nil {
					return err
				}
				return out[i][k].take(numbers, measure)
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i := range out {
		for k := range out[i] {
			out[i][k].align(&out[0][0])
		}
	}
	return out, nil
}

// setApart gives other IDs to the jobs of a set whose IDs name different jobs in the baseline ([jobrows.Unlike]).
func setApart(runs []table, baseline []run.Row) {
	first := &runs[0]
	equal, differ := jobrows.Unlike(baseline, first.Rows)
	if differ == nil {
		return
	}
	ids := jobrows.Apart(baseline, first.Rows)
	for k := range runs {
		runs[k].ids, runs[k].equalIDs, runs[k].differ = ids, equal, differ
	}
	first.Rows = jobrows.Renamed(first.Rows, ids)
}

// countOwnJobs leaves out jobs that were submitted before the window of their set, if the windows of two sets differ.
// Two windows differ if they start at different times and less than half of the jobs are in both.
func countOwnJobs(sets [][]table) {
	base := &sets[0][0]
	other := func(runs []table) bool {
		return runs[0].Manifest.WindowStart != base.Manifest.WindowStart && inCommon(base, &runs[0]) < 0.5
	}
	if !slices.ContainsFunc(sets, other) {
		return
	}
	for _, runs := range sets {
		for i := range runs {
			runs[i].submitted = runs[i].Manifest.WindowStart
		}
	}
}

// fewInCommon is the share of common jobs (of the smaller side's jobs) below which two sides are not the same
// workload.
const fewInCommon = 0.1

// inCommon returns the share of the smaller run's jobs that are in both runs; 0 if a run has no jobs.
func inCommon(a, b *table) float64 {
	common := 0
	for _, key := range a.keys {
		if b.byKey[key] != nil {
			common++
		}
	}
	return float64(common) / float64(max(1, min(len(a.keys), len(b.keys))))
}

// periodsOf returns nil for runs with many jobs in common, and for runs without jobs.
func periodsOf(a, b *table, opts Options) *periods.Comparison {
	if a.submitted == 0 && b.submitted == 0 && inCommon(a, b) >= fewInCommon {
		return nil
	}
	side := func(t *table) periods.Side {
		s := periods.Side{Manifest: t.Manifest, Rows: t.Rows, Submitted: t.submitted}
		for _, key := range t.keys {
			s.Jobs = append(s.Jobs, t.byKey[key])
		}
		return s
	}
	return periods.Compare(side(a), side(b), opts.Zone, opts.test())
}

// carried reports whether a job that started in the window does not count, because it was submitted before.
func (t *table) carried(row *run.Row) bool {
	return row.Start != 0 && !t.preset(row.Start) && row.Submit < t.submitted
}

// index stores the jobs of a set's first run by key, and gives numbers to the jobs without a number.
func (t *table) index(numbers jobNumbers) {
	t.byKey, t.accepted, t.rejected = make(map[Key]*run.Row, len(t.Rows)), map[string]Key{}, map[string]*run.Row{}
	for i := range t.Rows {
		t.add(&t.Rows[i], numbers)
	}
}

func (t *table) add(row *run.Row, numbers jobNumbers) {
	if row.State == hpc.Rejected {
		t.rejected[row.Job] = row
		return
	}
	key := Key{row.Job, row.Task}
	if t.byKey[key] == nil {
		number, known := numbers[key]
		if !known {
			number = len(numbers)
			numbers[key] = number
		}
		t.keys, t.numbers = append(t.keys, key), append(t.numbers, number)
	}
	t.byKey[key] = row
	if _, known := t.accepted[row.Job]; !known {
		t.accepted[row.Job] = key
	}
}

// take reads the rows of a run, and stores the data that are compared.
func (t *table) take(numbers jobNumbers, measure func(*table, []run.Row) error) error {
	rows, err := t.rows()
	if err != nil {
		return err
	}
	t.moments = make([]moments, len(numbers))
	for i := range rows {
		row := &rows[i]
		number, known := numbers[Key{row.Job, row.Task}]
		if !known || row.State == hpc.Rejected {
			continue
		}
		m := moments{submit: row.Submit, first: row.FirstStart(), start: row.Start, end: row.End, here: true}
		m.wait, m.waitKnown = waits.Wait(row)
		t.moments[number] = m
	}
	return measure(t, rows)
}

// row returns the row of a job, rejected or not, or nil.
func (t *table) row(key Key) *run.Row {
	if row := t.byKey[key]; row != nil {
		return row
	}
	return t.rejected[key.Job]
}

// side returns the data of the run that package releases uses.
func (t *table) side() releases.Side {
	return releases.Side{Manifest: t.Manifest, Rows: t.Rows, Log: t.Log, Shift: t.shift}
}

// preset reports whether a job that started at an instant was running when the run's window began.
// Then the workload, and not the scheduler, decided its start and its wait.
func (t *table) preset(start hpc.Time) bool {
	return start != 0 && start < t.Manifest.WindowStart
}

// unreached reports whether a run ended early, while a job was not yet submitted or still waited.
func (t *table) unreached(key Key) bool {
	row := t.row(key)
	return ended(t.Manifest.State) && (row == nil || row.State != hpc.Rejected && row.FirstStart() == 0 && row.End == 0)
}

// ended reports whether a run with this state ended early.
func ended(s run.State) bool { return s != "" && s != run.StateComplete }

// dateGap is the difference of submissions above which two runs count as runs on different dates.
// Smaller differences count as differences in the submissions.
const dateGap = 24 * time.Hour

// align sets the shift to the median difference of the submissions.
func (t *table) align(base *table) {
	var gaps []time.Duration
	for number := range base.keys { // the numbers of the baseline's jobs
		if x, y := &base.moments[number], &t.moments[number]; y.here {
			gaps = append(gaps, x.submit.Sub(y.submit))
		}
	}
	if len(gaps) == 0 {
		return
	}
	slices.Sort(gaps)
	if gap := gaps[len(gaps)/2]; gap > dateGap || gap < -dateGap {
		t.shift = gap
	}
}

// lastSubmission returns the last submission of the run's jobs, on the baseline's dates.
func (t *table) lastSubmission() (last hpc.Time) {
	for _, row := range t.byKey {
		last = max(last, row.Submit)
	}
	return t.at(last)
}

// at returns an instant of the run on the baseline's dates. The zero Time stays zero.
func (t *table) at(instant hpc.Time) hpc.Time {
	if instant == 0 {
		return 0
	}
	return instant.Add(t.shift)
}
