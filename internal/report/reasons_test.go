package report

import (
	"math"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/compare"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
)

// The areas of all reasons together are the queue.
func TestPendingReasons(t *testing.T) {
	r := mustReport(t)
	first := &r.Sets[0].Runs[0]
	names := partNames(r.Sets)
	if len(names) < 3 || names[len(names)-1] != waits.Unknown {
		t.Errorf("parts %q", names)
	}
	queue := r.courses.sets[0][0].queued
	parts := r.courses.reasonParts(first, names)
	most := 0.0
	for b := range queue {
		sum := 0.0
		for i := range parts {
			sum += parts[i][b]
		}
		if math.Abs(sum-queue[b]) > 1e-6 {
			t.Fatalf("bin %d: %v jobs with a reason of %v in the queue", b, sum, queue[b])
		}
		most = max(most, sum)
	}
	if most < 2 {
		t.Errorf("at most %v jobs wait", most)
	}
	var figures []string
	for _, f := range r.Figures {
		if figures = append(figures, f.Name); f.Name == "pending-reasons" && (len(f.Plots) != 2 || len(f.Data.Rows) < 20 || len(f.Data.Head) != 2+len(names)) {
			t.Errorf("%d panels, a table of %d rows, head %q", len(f.Plots), len(f.Data.Rows), f.Data.Head)
		}
	}
	if text := strings.Join(figures, " "); !strings.Contains(text, "queue pending-reasons") {
		t.Errorf("figures %s", text)
	}
}

// The parts of a run's waits and their causes have rows of one name with different values, so the page says why. The
// parts of the waits of a set are means over its runs, and its causes are those of the first run.
func TestTwoDivisions(t *testing.T) {
	const divide, first = "which divide the same time in another way than the parts above", "of the first run alone, and who held"
	sets := twoSets()
	for _, want := range []int{0, 1, 2} { // sets of one run
		r, err := New(sets, Options{Created: noon.Std()})
		if err != nil {
			t.Fatal(err)
		}
		if page := string(pageOf(t, r)); strings.Count(page, divide) != want || strings.Count(page, first) != 2-want {
			t.Errorf("%d sets have one run: the page says %d times that causes and parts divide the same time, and %d times that causes are of the first run",
				want, strings.Count(page, divide), strings.Count(page, first))
		}
		if want < 2 {
			sets[want].Runs = sets[want].Runs[:1]
		}
	}
}

// A longer queue is higher in the figure, so both panels have one scale.
func TestScaleOfReasons(t *testing.T) {
	sets := twoSets()
	sets[1].Runs[0].Rows = sets[1].Runs[0].Rows[:20]
	f, err := newReasons(sets, newCourses(sets, nil, time.UTC))
	if err != nil || f.Plots[0].Y.Max < 2 || f.Plots[0].Y.Max != f.Plots[1].Y.Max {
		t.Errorf("%v, the scales end at %v and %v", err, f.Plots[0].Y.Max, f.Plots[1].Y.Max)
	}
}

// A run without reasons has no figure of reasons. Preset jobs and rejected jobs do not wait.
func TestWithoutReasons(t *testing.T) {
	quiet := schedule("quiet", 3, 50, machine{nodes: 40, processors: 8})
	if f, err := newReasons([]compare.Set{{Name: "quiet", Runs: []compare.Realization{quiet}}}, newCourses([]compare.Set{{Runs: []compare.Realization{quiet}}}, nil, time.UTC)); f != nil || err != nil {
		t.Errorf("%v, %v", f, err)
	}
	quiet.Manifest.WindowStart = quiet.Rows[0].Start.Add(time.Second)
	quiet.Rows[0].Reasons = run.NewReasons([]run.Event{{At: quiet.Rows[0].Submit, Kind: rm.Waiting, Job: quiet.Rows[0].Job, Task: -1, Reason: "Priority"}}, quiet.Manifest.VirtualEnd).Spans(&quiet.Rows[0])
	for _, name := range partNames([]compare.Set{{Runs: []compare.Realization{quiet}}}) {
		if name != waits.Unknown {
			t.Errorf("a preset job waits for %s", name)
		}
	}
}

// The page of runs on two releases says what the releases changed before the scheduler, and the
// causes of a divergence.
func TestReleasesOnPage(t *testing.T) {
	text := textOf(t, mustReport(t))
	for _, want := range []string{
		"A ran on Slurm 22.05.8 and B on Slurm 24.11.5.", "sbatch submits 0 of ",
		"SelectType", "<the default> of the site's release", "Known changes from Slurm 22.05.8 to 24.11.5 (not a complete list)",
		"Why, as far as the records show it:",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	same := twoSets()
	same[1].Runs[0].Manifest.Versions.Slurm = "22.05.8"
	r, err := New(same, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if text := textOf(t, r); strings.Contains(text, "ran on Slurm") {
		t.Error("a page of one release compares releases")
	}
}
