// Package waitstest checks that all commands show the same waits of a record.
package waitstest

import (
	"fmt"
	"math"
	"testing"
	"time"

	"rmreplay/internal/compare"
	"rmreplay/internal/explain"
	"rmreplay/internal/formats"
	"rmreplay/internal/hpc"
	"rmreplay/internal/jobtable"
	"rmreplay/internal/metrics"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
)

// Check compares the waits that metrics, jobs and explain show for a record or a recorded workload. It also compares
// them with the periods in which each job held no processors. Sums leave out the waits of preset jobs. Check returns
// the parts that occur.
func Check(t testing.TB, dir string) map[waits.Part]bool {
	t.Helper()
	r, err := formats.OpenRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	summary, err := metrics.FromRun(r, metrics.Options{})
	if err != nil {
		t.Fatal(err)
	}
	table, err := jobtable.FromRun(r, jobtable.Options{})
	if err != nil {
		t.Fatal(err)
	}
	record, err := explain.Open(r)
	if err != nil {
		t.Fatal(err)
	}
	total, waited := map[waits.Part]float64{}, 0.0
	for _, row := range table.Rows {
		name := row.Job
		if row.Task >= 0 {
			name = fmt.Sprintf("%s_%d", row.Job, row.Task)
		}
		cell := func(column string) float64 {
			v, err := table.Value(row, column)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		wait := cell("wait")
		if math.IsNaN(wait) != (row.State == hpc.Rejected || row.Start == 0) {
			t.Errorf("job %s: state %s, start %s, wait %v", name, row.State, row.Start, wait)
		}
		if math.IsNaN(wait) {
			continue
		}
		if want := row.Start.Sub(row.Submit) - ranBefore(row); math.Abs(want.Seconds()-wait) > 1e-6 {
			t.Errorf("job %s waits %v s, was in the queue for %s", name, wait, want)
		}
		sum, preset := 0.0, row.Start < r.Manifest.WindowStart
		for _, part := range waits.Parts {
			v := cell("wait_" + string(part))
			sum += v
			if !preset {
				total[part] += v
			}
		}
		if !preset {
			waited += wait
		}
		if math.Abs(sum-wait) > 1e-6 || cell("wait_since_eligible") > wait {
			t.Errorf("job %s: wait %v, the parts add up to %v, %v since it was eligible", name, wait, sum, cell("wait_since_eligible"))
		}
		story, err := record.Job(name)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(story.Wait-wait) > 1e-6 {
			t.Errorf("job %s: explain gives a wait of %v s, the table of jobs %v s (want equal)", name, story.Wait, wait)
		}
		for _, p := range story.Parts {
			if math.Abs(p.Seconds-cell("wait_"+string(p.Part))) > 1e-6 {
				t.Errorf("job %s: explain gives %v s of %s, the table of jobs %v s (want equal)", name, p.Seconds, p.Part,
					cell("wait_"+string(p.Part)))
			}
		}
	}
	occur := checkTotals(t, summary, total)
	checkGroups(t, record, summary)
	checkCompare(t, dir, summary)
	if r.Manifest.Engine != run.EngineRecorded {
		checkTrace(t, r, table.Rows, summary)
	}
	if n := float64(summary.Waited); n > 0 && math.Abs(float64(summary.Wait.Mean)*n-waited) > 1e-3*n {
		t.Errorf("metrics give a mean wait of %v s, the table of jobs %v s (want equal)", summary.Wait.Mean, waited/n)
	}
	return occur
}

// checkTotals compares the parts of all waits in metrics with their sums over jobs. It returns the parts that occur.
func checkTotals(t testing.TB, summary *metrics.Summary, total map[waits.Part]float64) map[waits.Part]bool {
	t.Helper()
	occur := map[waits.Part]bool{}
	for _, p := range summary.WaitParts {
		occur[p.Part] = true
		if math.Abs(float64(p.Seconds)-total[p.Part]) > 1e-3 {
			t.Errorf("metrics give %v s of %s, the table of jobs %v s (want equal)", p.Seconds, p.Part, total[p.Part])
		}
		delete(total, p.Part)
	}
	for part, seconds := range total {
		if seconds > 0 {
			t.Errorf("metrics do not have %v s of %s", seconds, part)
		}
	}
	return occur
}

// checkGroups compares the waits that explain shows for all jobs and for groups with the waits of
// metrics.
func checkGroups(t testing.TB, record *explain.Record, want *metrics.Summary) {
	t.Helper()
	rows := record.Rows()
	jobs := make([]*run.Row, len(rows))
	for i := range rows {
		jobs[i] = &rows[i]
	}
	for _, g := range record.Groups(jobs, "", metrics.ByUser, metrics.ByState).Groupings {
		waited, parts := 0, map[waits.Part]float64{}
		for _, group := range g.Groups {
			waited += group.Waited
			causes := float64(group.OtherCauses)
			for _, c := range group.Causes {
				causes += float64(c.Seconds)
			}
			if math.Abs(causes-float64(group.Wait)) > 1e-3 {
				t.Errorf("%s %s: the causes add up to %v s, but the jobs waited %v s", g.By, group.Name, causes, group.Wait)
			}
			for _, p := range group.Parts {
				parts[p.Part] += float64(p.Seconds)
			}
		}
		for _, p := range want.WaitParts {
			if math.Abs(parts[p.Part]-float64(p.Seconds)) > 1e-3 && g.Omitted == 0 {
				t.Errorf("by %q: explain has %v s of %s, metrics %v s", g.By, parts[p.Part], p.Part, p.Seconds)
			}
		}
		if waited != want.Waited && g.Omitted == 0 {
			t.Errorf("by %q: explain has %d jobs with a wait, metrics %d", g.By, waited, want.Waited)
		}
	}
}

// checkCompare compares the waits that compare shows for a run with the waits of metrics.
func checkCompare(t testing.TB, dir string, want *metrics.Summary) {
	t.Helper()
	sets, err := compare.Open(t.Context(), []string{dir})
	if err != nil {
		t.Fatal(err)
	}
	c, err := compare.Describe(sets, compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range append(c.Waits, c.Metrics...) {
		figure := metrics.FigureOf(m.Key)
		if figure.Of == nil {
			t.Errorf("%s is not a figure of metrics", m.Key)
			continue
		}
		got, want := float64(m.Sets[0].Mean), float64(figure.Of(&want.Metrics))
		if math.Abs(got-want) > 1e-6*math.Max(1, math.Abs(want)) || math.IsNaN(got) != math.IsNaN(want) {
			t.Errorf("compare has %s %v, metrics %v", m.Key, got, want)
		}
	}
}

// ranBefore returns the total time of the runs that a job lost before its last run. The accounting has instants in
// whole seconds, and events have microseconds, so a run may seem to start a microsecond before the job was in the
// queue. A part of a wait is never negative.
func ranBefore(row *run.Row) (d time.Duration) {
	begin, queued := hpc.Time(0), row.Submit
	for _, s := range row.Segments {
		if begin == 0 {
			begin = max(s.Start, queued)
		}
		if s.EndedBy == rm.Requeue {
			d += min(s.End, row.Start).Sub(begin)
			begin, queued = 0, s.End
		}
	}
	return d
}
