package transform

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	tracefile "rmreplay/internal/formats/trace"
	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/arrays"
	"rmreplay/internal/workload/example"
)

var epoch = hpc.Unix(1_700_006_400) // a midnight

// job returns a job that is submitted the given number of minutes after the epoch.
func job(id string, minutes, nodes int, run, limit time.Duration) *hpc.Job {
	j := &hpc.Job{ID: id, Submit: epoch.Add(time.Duration(minutes) * time.Minute)}
	j.Name, j.User, j.Account, j.Partition = "run-"+id, "ada", "physics", "batch"
	j.MinNodes, j.MaxNodes, j.TasksPerNode, j.Tasks = nodes, nodes, 4, 4*nodes
	j.RunTime, j.TimeLimit = run, limit
	return j
}

func preset(id string, nodes string, count int, started time.Duration, run time.Duration) *hpc.Job {
	j := job(id, 0, count, run, 24*time.Hour)
	j.Submit = epoch.Add(-started - time.Hour)
	start := epoch.Add(-started)
	j.Recorded = &hpc.Recorded{Start: start, End: start.Add(run), State: hpc.Completed, Nodes: nodes, Processors: 8 * count}
	return j
}

func small() *workload.Workload {
	w := &workload.Workload{
		Epoch: epoch, Start: epoch, Source: "test",
		Jobs: workload.JobsOf(
			preset("p", "n[1-4]", 4, 2*time.Hour, 3*time.Hour),
			job("a", 0, 1, time.Hour, 24*time.Hour),
			job("b", 10, 8, 30*time.Minute, 2*time.Hour),
			job("c", 20, 64, hpc.Unlimited, 6*time.Hour),
			job("d", 30, 16, 5*time.Minute, time.Hour),
		),
		NodeEvents: []hpc.NodeEvent{{At: epoch.Add(time.Hour), Nodes: "n9", State: "drain"}},
		Reservations: []hpc.ReservationEvent{
			{At: epoch.Add(time.Minute), Action: "create", Reservation: hpc.Reservation{Name: "course", Start: epoch.Add(2 * time.Hour), Duration: time.Hour, Nodes: "n[7-8]", Users: []string{"ada"}}},
		},
	}
	w.Jobs.Change(2, func(j *hpc.Job) { j.Dependency = "afterok:a" })
	w.Jobs.Change(4, func(j *hpc.Job) { j.Dependency = "afterany:b:c,singleton" })
	return w
}

func must(step Step, err error) Step {
	if err != nil {
		panic(err)
	}
	return step
}

func apply(t *testing.T, w *workload.Workload, env Environment, steps ...Step) (*workload.Workload, []Result) {
	t.Helper()
	before := trace(t, w)
	out, results, err := Apply(w, env, steps...)
	if err != nil {
		t.Fatal(err)
	}
	if after := trace(t, w); after != before {
		t.Errorf("the input was changed:\n%s", cmp.Diff(before, after))
	}
	return out, results
}

func trace(t *testing.T, w *workload.Workload) string {
	t.Helper()
	var b bytes.Buffer
	if err := tracefile.Write(&b, w); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func byID(w *workload.Workload, id string) *hpc.Job {
	for i, job := range w.Jobs.All() {
		if job.ID == id {
			return w.Jobs.At(i)
		}
	}
	return nil
}

func TestTimeLimitAccuracy(t *testing.T) {
	step := must(TimeLimitAccuracy(1.1, 1))
	w, results := apply(t, small(), Environment{}, step)
	for id, want := range map[string]time.Duration{
		"p": 3*time.Hour + 18*time.Minute, "a": 66 * time.Minute, "b": 33 * time.Minute,
		"c": 6 * time.Hour, // only its time limit ends it
		"d": 330 * time.Second,
	} {
		if got := byID(w, id).TimeLimit; got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
	if results[0].Changed != 4 || w.Transforms[0] != "--time-limit-accuracy 1.1" {
		t.Errorf("%+v, %q", results, w.Transforms)
	}
	// The limit is at most the partition's. If the cluster does not give the partition's limit, the
	// longest limit of its jobs counts.
	tight, _ := apply(t, small(), Environment{Partitions: map[string]Partition{"batch": {MaxTime: 90 * time.Minute}}}, must(TimeLimitAccuracy(2, 1)))
	if got := byID(tight, "a").TimeLimit; got != 90*time.Minute {
		t.Errorf("limit %s, want the partition's", got)
	}
	loose, _ := apply(t, small(), Environment{}, must(TimeLimitAccuracy(100, 1)))
	if got := byID(loose, "a").TimeLimit; got != 24*time.Hour {
		t.Errorf("limit %s, want the longest in the partition", got)
	}
	for _, bad := range []struct{ factor, share float64 }{{0.9, 1}, {0, 1}, {-1, 1}, {math.NaN(), 1}, {math.Inf(1), 1}, {1.1, -0.1}, {1.1, 1.1}, {1.1, math.NaN()}} {
		if _, err := TimeLimitAccuracy(bad.factor, bad.share); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

// TestShare: about the given share of the jobs is changed, and the same seed changes the same
// jobs.
func TestShare(t *testing.T) {
	day, _ := example.Example(1)
	w, results := apply(t, day, Environment{Seed: 3}, must(TimeLimitAccuracy(1.5, 0.3)))
	_, all := apply(t, day, Environment{Seed: 3}, must(TimeLimitAccuracy(1.5, 1)))
	if share := float64(results[0].Changed) / float64(all[0].Changed); share < 0.24 || share > 0.36 {
		t.Errorf("%.2f of the jobs, want 0.3", share)
	}
	again, _ := apply(t, day, Environment{Seed: 3}, must(TimeLimitAccuracy(1.5, 0.3)))
	other, _ := apply(t, day, Environment{Seed: 4}, must(TimeLimitAccuracy(1.5, 0.3)))
	if trace(t, w) != trace(t, again) || trace(t, w) == trace(t, other) {
		t.Error("the seed does not decide which jobs")
	}
	if text := w.Transforms[0]; text != "--time-limit-accuracy 1.5 --share 0.3" {
		t.Errorf("recorded as %q", text)
	}
}

// TestModalEstimates checks the published shape: 89 % of the jobs use twenty values, most
// of them the largest, and no job gets less than its run time.
func TestModalEstimates(t *testing.T) {
	w := &workload.Workload{Epoch: epoch}
	for i := range 5000 {
		run := time.Duration(1+i*i%3607) * time.Second
		if i%10 == 0 {
			run = time.Duration(i) * 8 * time.Second // up to 11 h
		}
		w.Jobs.Append(job(fmt.Sprint(i), i, 1, run, 18*time.Hour))
	}
	out, results := apply(t, w, Environment{Seed: 1}, ModalEstimates())
	counts := map[time.Duration]int{}
	defer func() { // each job had a limit of 18 hours
		if n := out.Jobs.Len() - counts[18*time.Hour]; results[0].Changed != n {
			t.Errorf("%d jobs changed, want %d", results[0].Changed, n)
		}
	}()
	for _, j := range out.Jobs.All() {
		counts[j.TimeLimit]++
		if j.TimeLimit < j.RunTime || j.TimeLimit > 18*time.Hour {
			t.Fatalf("job %s runs for %s and asks for %s", j.ID, j.RunTime, j.TimeLimit)
		}
	}
	var sizes []int
	for _, n := range counts {
		sizes = append(sizes, n)
	}
	slices.Sort(sizes)
	slices.Reverse(sizes)
	head := 0
	for _, n := range sizes[:20] {
		head += n
	}
	if share := float64(head) / 5000; math.Abs(share-0.89) > 0.02 {
		t.Errorf("%.3f of the jobs use the twenty most popular values, want 0.89", share)
	}
	if counts[18*time.Hour] != sizes[0] {
		t.Errorf("%d jobs ask for the most, and %d for the most popular value", counts[18*time.Hour], sizes[0])
	}
	// The model gives the number of different values; some may coincide.
	if want := differentEstimates(5000); math.Abs(float64(len(counts))-want) > 0.15*want {
		t.Errorf("%d different values, want about %.0f", len(counts), want)
	}
	endless := &workload.Workload{Jobs: workload.JobsOf(job("x", 0, 1, time.Hour, 0))}
	if _, _, err := Apply(endless, Environment{}, ModalEstimates()); err == nil {
		t.Error("a partition without a limit was accepted")
	}
}

func TestSwitches(t *testing.T) {
	step := must(Switches(SwitchOptions{Switches: 1, MinNodes: 4, MinRuntime: 10 * time.Minute, Wait: time.Hour}))
	w, results := apply(t, small(), Environment{}, step)
	var got []string
	for _, j := range w.Jobs.All() {
		if j.Switches == 1 && j.SwitchWait == time.Hour {
			got = append(got, j.ID)
		}
	}
	// The step leaves out three jobs: p already runs, a is small, and d is short.
	if diff := cmp.Diff([]string{"b", "c"}, got); diff != "" || results[0].Changed != 2 {
		t.Errorf("%s%+v", diff, results)
	}
	if want := "--switches 1 --min-nodes 4 --min-runtime 600 --switch-wait 3600"; step.Text != want {
		t.Errorf("%q, want %q", step.Text, want)
	}
	if _, err := Switches(SwitchOptions{}); err == nil {
		t.Error("no switches were accepted")
	}
}

func TestScale(t *testing.T) {
	w, _ := apply(t, small(), Environment{}, must(ScaleArrivals(0.5)))
	for id, want := range map[string]time.Duration{"p": -3 * time.Hour, "a": 0, "b": 5 * time.Minute, "d": 15 * time.Minute} {
		if got := byID(w, id).Submit.Sub(epoch); got != want {
			t.Errorf("arrivals: %s at %s, want %s", id, got, want)
		}
	}
	w, _ = apply(t, small(), Environment{}, must(ScaleRuntime(2)))
	p, a, c := byID(w, "p"), byID(w, "a"), byID(w, "c")
	// The remaining hour of the preset job becomes two hours.
	if p.RunTime != 4*time.Hour || p.Recorded.End != epoch.Add(2*time.Hour) || p.Recorded.Start != epoch.Add(-2*time.Hour) {
		t.Errorf("preset job: %s, %+v", p.RunTime, p.Recorded)
	}
	if a.RunTime != 2*time.Hour || a.TimeLimit != 24*time.Hour || c.RunTime != hpc.Unlimited || c.TimeLimit != 12*time.Hour {
		t.Errorf("run times: a %s of %s, c %s of %s", a.RunTime, a.TimeLimit, c.RunTime, c.TimeLimit)
	}
	w, _ = apply(t, small(), Environment{}, must(ScaleNodes(0.5)))
	p, c = byID(w, "p"), byID(w, "c")
	if p.MinNodes != 2 || p.Recorded.Nodes != "n[1-2]" || p.Recorded.Processors != 16 || c.MinNodes != 32 || c.Tasks != 128 || byID(w, "a").MinNodes != 1 {
		t.Errorf("nodes: p %d on %s with %d, c %d with %d tasks", p.MinNodes, p.Recorded.Nodes, p.Recorded.Processors, c.MinNodes, c.Tasks)
	}
	w, _ = apply(t, small(), Environment{Partitions: map[string]Partition{"batch": {MaxTime: hpc.Unlimited, Nodes: 100}}}, must(ScaleNodes(2)))
	if p, c = byID(w, "p"), byID(w, "c"); p.MinNodes != 4 || c.MinNodes != 100 || c.Tasks != 400 {
		t.Errorf("nodes: p %d, c %d with %d tasks", p.MinNodes, c.MinNodes, c.Tasks)
	}
	for _, f := range []func(float64) (Step, error){ScaleArrivals, ScaleRuntime, ScaleNodes} {
		for _, x := range []float64{0, -1, math.NaN(), math.Inf(1), 1e7} {
			if _, err := f(x); err == nil {
				t.Errorf("factor %g was accepted", x)
			}
		}
	}
}

func TestRepeat(t *testing.T) {
	in := small()
	in.Jobs.Change(3, func(j *hpc.Job) { j.Reservation = "course" })
	w, results := apply(t, in, Environment{}, must(Repeat(3)))
	if results[0].Jobs != 5+2*4 {
		t.Errorf("%d jobs, want the preset job once and four others three times", results[0].Jobs)
	}
	if d := byID(w, "d~3"); d == nil || d.Submit != epoch.Add(48*time.Hour+30*time.Minute) || d.Dependency != "afterany:b~3,afterany:c~3,singleton" {
		t.Errorf("third copy: %+v", d)
	}
	if c := byID(w, "c~2"); c.Reservation != "course~2" {
		t.Errorf("reservation %s", c.Reservation)
	}
	if r := w.Reservations[1]; r.Name != "course~2" || r.Start != epoch.Add(26*time.Hour) {
		t.Errorf("reservation %+v", r)
	}
	if len(w.NodeEvents) != 3 || len(workload.Validate(w, workload.Cluster{})) != 0 {
		t.Errorf("%d node events; %v", len(w.NodeEvents), workload.Validate(w, workload.Cluster{}))
	}
	if _, _, err := Apply(small(), Environment{}, must(Repeat(1<<40))); err == nil {
		t.Error("too many jobs were accepted")
	}
}

// Without a window everything is repeated, from the first input to the last. A job of the copy that
// asks for a reservation asks for the copy of the reservation.
func TestRepeatFromTheFirstInput(t *testing.T) {
	at := func(s int) hpc.Time { return epoch.Add(time.Duration(s) * time.Second) }
	reservation := func(name string) hpc.ReservationEvent {
		return hpc.ReservationEvent{At: at(7), Action: "create", Reservation: hpc.Reservation{
			Name: name, Start: at(100), Duration: time.Hour, Nodes: "n2", Users: []string{"ada"}, Flags: []string{"OVERLAP"},
		}}
	}
	in := &workload.Workload{
		Epoch: epoch, Jobs: workload.JobsOf(job("j", 10, 1, time.Minute, time.Hour), job("k", 10, 1, time.Minute, time.Hour)),
		NodeEvents:   []hpc.NodeEvent{{At: at(5), Nodes: "n1", State: "down"}, {At: at(300), Nodes: "n1", State: "resume"}},
		Reservations: []hpc.ReservationEvent{reservation("r1"), reservation("r2")},
		Actions:      []hpc.Action{{At: at(4), Shell: "a"}, {At: at(86405), Shell: "b"}},
	}
	in.Jobs.Change(0, func(j *hpc.Job) { j.Reservation = "r1,r2" })
	in.Jobs.Change(1, func(j *hpc.Job) { j.Reservation = "r2,made by an action" })
	w, _ := apply(t, in, Environment{}, must(Repeat(2)))
	var got []string
	for _, ev := range w.NodeEvents {
		got = append(got, fmt.Sprintf("%g %s", ev.At.Sub(epoch).Seconds(), ev.State))
	}
	for _, a := range w.Actions {
		got = append(got, fmt.Sprintf("%g %s", a.At.Sub(epoch).Seconds(), a.Shell))
	}
	for _, ev := range w.Reservations {
		got = append(got, fmt.Sprintf("%g %s", ev.At.Sub(epoch).Seconds(), ev.Name))
	}
	for _, j := range w.Jobs.All() {
		got = append(got, fmt.Sprintf("%g %s %s", j.Submit.Sub(epoch).Seconds(), j.ID, j.Reservation))
	}
	// The last action is on the second day, so that the copy begins on the third.
	const later = 2 * 86400
	if diff := cmp.Diff([]string{
		"5 down", "300 resume", fmt.Sprint(later+5, " down"), fmt.Sprint(later+300, " resume"),
		"4 a", "86405 b", fmt.Sprint(later+4, " a"), fmt.Sprint(later+86405, " b"),
		"7 r1", "7 r2", fmt.Sprint(later+7, " r1~2"), fmt.Sprint(later+7, " r2~2"),
		"600 j r1,r2", "600 k r2,made by an action", fmt.Sprint(later+600, " j~2 r1~2,r2~2"), fmt.Sprint(later+600, " k~2 r2~2,made by an action"),
	}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestEmptyWindow checks the note of a window in which no job runs at first. It has the number of earlier jobs that may
// have run.
func TestEmptyWindow(t *testing.T) {
	in := &workload.Workload{Epoch: epoch, Jobs: workload.JobsOf(
		job("before", 0, 1, time.Hour, time.Hour), job("after", 0, 1, time.Hour, time.Hour))}
	in.Jobs.Change(0, func(j *hpc.Job) { j.Submit = epoch })
	in.Jobs.Change(1, func(j *hpc.Job) { j.Submit = epoch.Add(2 * time.Hour) })
	_, results := apply(t, in, Environment{}, must(Window(epoch.Add(time.Hour), 0)))
	notes := results[0].Notes
	if len(notes) != 1 || !strings.HasPrefix(notes[0], "no job runs when the workload begins: ") ||
		!strings.HasSuffix(notes[0], "which are left out: 1)") {
		t.Errorf("%q", notes)
	}
}

// The error about an empty window names the flags that make a window, and the span of the workload.
func TestWindowWithoutJobs(t *testing.T) {
	w := &workload.Workload{Epoch: epoch, Jobs: workload.JobsOf(job("a", 60, 1, time.Hour, time.Hour), job("b", 120, 1, time.Hour, time.Hour))}
	day := 24 * time.Hour
	_, _, err := Apply(w, Environment{}, must(Window(epoch.Add(9*day), epoch.Add(10*day))))
	want := fmt.Sprintf("--start %s --end %s: no job is in the window (the jobs of the workload were submitted from %s to %s)",
		epoch.Add(9*day), epoch.Add(10*day), w.Jobs.Submit(0), w.Jobs.Submit(1))
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// TestWindow cuts the window of Fig. 2 of Martinasso et al. (SC'18). The result has the state at
// the start of the window: running and waiting jobs, reservations, and nodes out of service.
func TestWindow(t *testing.T) {
	hour := func(h float64) hpc.Time { return epoch.Add(time.Duration(h * float64(time.Hour))) }
	recorded := func(id string, submit, start, end float64, nodes string) *hpc.Job {
		j := job(id, 0, 1, hour(end).Sub(hour(start)), 24*time.Hour)
		j.Submit, j.Recorded = hour(submit), &hpc.Recorded{Start: hour(start), End: hour(end), Nodes: nodes}
		return j
	}
	in := &workload.Workload{Epoch: epoch, Jobs: workload.JobsOf(
		recorded("over", 0, 0, 1, "n1"), recorded("runs", 0, 1, 20, "n2"), recorded("waits", 2, 11, 12, "n3"),
		recorded("nowhere", 0, 1, 20, ""), job("unknown", 60, 1, time.Hour, time.Hour),
		recorded("new", 10.5, 11, 12, "n4"), recorded("late", 30, 31, 32, "n5"),
	)}
	in.Jobs.Change(5, func(j *hpc.Job) { j.Dependency = "afterok:over:runs" })
	in.NodeEvents = []hpc.NodeEvent{
		{At: hour(1), Nodes: "n[7-9]", State: "down", Reason: "power"}, {At: hour(2), Nodes: "n8", State: "resume"},
		{At: hour(3), Nodes: "n6", State: "fail"}, {At: hour(11), Nodes: "n7", State: "resume"}, {At: hour(40), Nodes: "n9", State: "resume"},
	}
	reservation := func(at float64, action, name string, start, length float64) hpc.ReservationEvent {
		ev := hpc.ReservationEvent{At: hour(at), Action: action, Reservation: hpc.Reservation{Name: name, Duration: time.Duration(length * float64(time.Hour))}}
		if action == "create" {
			ev.Start, ev.Nodes = hour(start), "n1"
		}
		return ev
	}
	in.Reservations = []hpc.ReservationEvent{
		reservation(0, "create", "now", 9, 1), reservation(1, "update", "now", 0, 4), reservation(1, "create", "gone", 2, 3),
		reservation(2, "create", "deleted", 9, 9), reservation(3, "delete", "deleted", 0, 0), reservation(4, "create", "soon", 15, 1),
		reservation(11, "delete", "gone", 0, 0), reservation(12, "delete", "now", 0, 0),
	}
	in.Actions = []hpc.Action{{At: hour(1), Shell: "a"}, {At: hour(9), Shell: "b"}, {At: hour(10), Shell: "c"}, {At: hour(30), Shell: "d"}}
	w, results := apply(t, in, Environment{}, must(Window(hour(10), hour(24))), must(Window(0, hour(23))))
	if left := workload.LeftRunning(w.Rules); left != "1 job with 4 processors" {
		t.Errorf("the window says that %q that ran are left out, want 1 job with 4", left)
	}
	if notes := strings.Join(results[0].Notes, "\n"); !strings.Contains(notes, "on nodes that the record does not name: 1 (") {
		t.Errorf("the job that ran nowhere is not said: %s", notes)
	}
	if len(w.Actions) != 1 || len(results[0].Notes) != 2 || !strings.HasSuffix(results[0].Notes[1], "effects last: 2") || results[1].Notes != nil {
		t.Errorf("actions %v, %+v", w.Actions, results)
	}
	var ids []string
	for _, j := range w.Jobs.All() {
		ids = append(ids, j.ID)
	}
	if diff := cmp.Diff([]string{"runs", "waits", "new"}, ids); diff != "" {
		t.Errorf("jobs (-want +got)\n%s", diff)
	}
	if !w.Preset(w.Jobs.At(0)) || w.Preset(w.Jobs.At(1)) || w.Jobs.Submit(1) != hour(2) || w.Jobs.At(2).Dependency != "afterok:runs" {
		t.Errorf("%+v", w.Jobs)
	}
	if diff := cmp.Diff([]hpc.NodeEvent{
		{At: hour(10), Nodes: "n6", State: "down"}, {At: hour(10), Nodes: "n7", State: "down", Reason: "power"},
		{At: hour(10), Nodes: "n9", State: "down", Reason: "power"}, {At: hour(11), Nodes: "n7", State: "resume"},
	}, w.NodeEvents); diff != "" {
		t.Errorf("node events (-want +got)\n%s", diff)
	}
	var events []string
	for _, ev := range w.Reservations {
		events = append(events, fmt.Sprintf("%s %s %s+%s", ev.Action, ev.Name, ev.Start.Sub(epoch), ev.Duration))
	}
	if diff := cmp.Diff([]string{"create now 9h0m0s+4h0m0s", "create soon 15h0m0s+1h0m0s"}, events[:2]); diff != "" || len(events) != 3 {
		t.Errorf("reservations %v (-want +got)\n%s", events, diff)
	}
	if w.Start != hour(10) || w.Begin() > hour(1) || w.Begin() < hour(0.9) {
		t.Errorf("starts %s, begins %s", w.Start, w.Begin())
	}
	if _, _, err := Apply(in, Environment{}, must(Window(hour(500), 0))); err == nil {
		t.Error("an empty window was accepted")
	}
	if _, err := Window(hour(2), hour(1)); err == nil {
		t.Error("a window that ends before it starts was accepted")
	}
}

// TestWindowOnArrays: array tasks that run at the window's start become preset jobs, and
// the jobs that depend on the array wait for them.
func TestWindowOnArrays(t *testing.T) {
	hour := func(h float64) hpc.Time { return epoch.Add(time.Duration(h * float64(time.Hour))) }
	array := job("a", 0, 1, 4*time.Hour, 24*time.Hour)
	array.Array, array.TaskExitCodes = "1-5%2", map[int]int{2: 3, 3: 4}
	array.TaskRunTimes = map[int]time.Duration{1: time.Hour, 2: 10 * time.Hour}
	// Task 5 was cancelled before it started.
	array.Recorded = &hpc.Recorded{
		Start: hour(1), End: hour(22), Priority: 9, Processors: 4,
		TaskStarts: map[int]hpc.Time{1: hour(1), 2: hour(1), 3: hour(11), 4: hour(15)},
		TaskEnds:   map[int]hpc.Time{1: hour(2), 2: hour(11), 3: hour(15), 4: hour(19), 5: hour(22)},
		TaskNodes:  map[int]string{1: "n1", 2: "n2", 3: "n3", 4: "n4"},
	}
	gone := job("b", 0, 1, time.Hour, time.Hour)
	gone.Array, gone.Recorded = "1", &hpc.Recorded{
		Start: hour(1), End: hour(2), TaskStarts: map[int]hpc.Time{1: hour(1)}, TaskEnds: map[int]hpc.Time{1: hour(2)},
	}
	later := job("c", 0, 1, time.Hour, time.Hour)
	later.Array, later.Recorded = "1-2", &hpc.Recorded{
		Start: hour(12), End: hour(13), TaskStarts: map[int]hpc.Time{1: hour(12), 2: hour(12)}, TaskEnds: map[int]hpc.Time{1: hour(13), 2: hour(13)},
	}
	waits := func(id, dependency string, eligible float64) *hpc.Job {
		j := job(id, 60, 1, time.Hour, time.Hour)
		j.Dependency, j.Recorded = dependency, &hpc.Recorded{Eligible: hour(eligible), Start: hour(23), End: hour(24), Nodes: "n5"}
		return j
	}
	in := &workload.Workload{Epoch: epoch, Jobs: workload.JobsOf(array, gone, later,
		waits("on all", "afterany:a", 22), waits("on one", "afterany:a_2:a_3", 15), waits("on the first", "afterok:a_1", 2), waits("on nobody", "afterok:b:b_1", 2))}
	w, _ := apply(t, in, Environment{}, must(Window(hour(10), 0)))

	dependencies := map[string]string{}
	for _, j := range w.Jobs.All() {
		dependencies[j.ID] = j.Dependency
	}
	if diff := cmp.Diff(map[string]string{
		"a": "", "a_2": "", "c": "", "on all": "afterany:a_2,afterany:a", "on one": "afterany:a_2,afterany:a_3", "on the first": "", "on nobody": "",
	}, dependencies); diff != "" {
		t.Errorf("jobs and what they wait for (-want +got)\n%s", diff)
	}
	two := byID(w, "a_2")
	if !w.Preset(two) || two.Array != "" || two.RunTime != 10*time.Hour || two.ExitCode != 3 || two.TaskRunTimes != nil || two.TaskExitCodes != nil {
		t.Errorf("task 2: %+v", two)
	}
	if diff := cmp.Diff(&hpc.Recorded{Start: hour(1), End: hour(11), Nodes: "n2", Priority: 9, Processors: 4}, two.Recorded); diff != "" {
		t.Errorf("task 2 (-want +got)\n%s", diff)
	}
	rest := byID(w, "a")
	if w.Preset(rest) || rest.Array != "3-5%2" || rest.RunTimeOf(3) != 4*time.Hour || rest.ExitCodeOf(3) != 4 || rest.Recorded.Start != hour(11) || rest.Recorded.End != hour(22) {
		t.Errorf("the rest: %+v, %+v", rest, rest.Recorded)
	}
	if b := byID(w, "on the first").Begin; b != time.Hour {
		t.Errorf("who waited for what is over begins after %s, want when it became eligible", b)
	}
	if byID(w, "on one").Begin != 0 || byID(w, "c").Array != "1-2" {
		t.Errorf("%+v, %+v", byID(w, "on one"), byID(w, "c"))
	}
	if diff := cmp.Diff(map[string]int{arrays.NoteLimit: 1}, w.Rules); diff != "" {
		t.Errorf("rules (-want +got)\n%s", diff)
	}
	if p := workload.Validate(w, workload.Cluster{}); len(p) > 0 {
		t.Errorf("%v", p)
	}
	if in.Jobs.At(0).Array != "1-5%2" || len(in.Rules) > 0 {
		t.Error("the workload that was cut has changed")
	}
}

func TestFilter(t *testing.T) {
	for expression, want := range map[string][]string{
		`nodes >= 16`:                         {"c", "d"},
		`preset`:                              {"p"},
		`not preset and submit_s < 900`:       {"a", "b"},
		`run_time_s == 21600`:                 {"c"},
		`id in ["a", "d"]`:                    {"a", "d"},
		`name matches "^run-[ab]$"`:           {"a", "b"},
		`hour == 0 and time_limit_s <= 7200`:  {"b", "d"},
		`state == "COMPLETED"`:                {"p"},
		`dependency startsWith "afterok"`:     {"b"},
		`user == "ada" and cpus / nodes == 4`: {"p", "a", "b", "c", "d"},
	} {
		step, err := Filter(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		w, _ := apply(t, small(), Environment{}, step)
		var got []string
		for _, j := range w.Jobs.All() {
			got = append(got, j.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", expression, diff)
		}
	}
	w, _ := apply(t, small(), Environment{}, must(Filter(`id != "c"`)))
	if got := byID(w, "d").Dependency; got != "afterany:b,singleton" {
		t.Errorf("dependency %q", got)
	}
	for _, bad := range []string{"", "nodes", "nodes >", "secret == 1", "nodes == 'x'", `os.Exit(1)`, strings.Repeat("nodes > 1 and ", 2000) + "true"} {
		if _, err := Filter(bad); err == nil {
			t.Errorf("%.40q was accepted", bad)
		}
	}
	if _, _, err := Apply(small(), Environment{}, must(Filter("nodes > 1000"))); err == nil || !strings.Contains(err.Error(), "no job is left") {
		t.Errorf("nothing left: %v", err)
	}
	for expression, want := range map[string]string{
		`user == "adaa"`: `; no job has user "adaa" (did you mean ada?)`,
		`nodes >= 16 and user in ["x", "ada"] and id == "qqq"`: `; no job has user "x" (want ada); no job has id "qqq" (want a, b, c, d, p)`,
		`reservation == "x"`:             `; no job has reservation "x" (no job has a reservation)`,
		`user == "ada" and nodes > 1000`: "",
	} {
		_, _, err := Apply(small(), Environment{}, must(Filter(expression)))
		if err == nil || !strings.HasSuffix(err.Error(), "no job is left"+want) {
			t.Errorf("%s: %v, want the end %q", expression, err, want)
		}
	}
	if _, _, err := Apply(small(), Environment{}, must(Filter("1 / (nodes - 1) == 1 and [1][nodes] == 1"))); err == nil {
		t.Error("an index out of range was accepted")
	}
}

func TestMerge(t *testing.T) {
	other := small()
	other.Jobs.Change(2, func(j *hpc.Job) { j.Reservation = "course,elsewhere" })
	other.Users = []hpc.User{{Name: "ada", UID: 1, Group: "g", GID: 1}}
	in := small()
	in.Jobs.Change(1, func(j *hpc.Job) { j.Reservation = "course" })
	w, _ := apply(t, in, Environment{}, Merge(other, "other"))
	if w.Jobs.Len() != 10 || len(w.Users) != 1 || len(w.NodeEvents) != 2 {
		t.Errorf("%d jobs, %d users", w.Jobs.Len(), len(w.Users))
	}
	if d := byID(w, "d~2"); d.Dependency != "afterany:b~2,afterany:c~2,singleton" {
		t.Errorf("%+v", d)
	}
	if w.Reservations[1].Name != "course~2" || byID(w, "a").Reservation != "course" || byID(w, "b~2").Reservation != "course~2,elsewhere" {
		t.Errorf("%+v", w.Reservations)
	}
	if problems := workload.Validate(w, workload.Cluster{}); len(problems) != 0 {
		t.Errorf("%v", problems)
	}
	other.Start = epoch.Add(time.Hour)
	if _, _, err := Apply(in, Environment{}, Merge(other, "other")); err == nil {
		t.Error("two windows were accepted")
	}
	other.Start = 0
	in.Users = []hpc.User{{Name: "ada", UID: 2}}
	if _, _, err := Apply(in, Environment{}, Merge(other, "other")); err == nil {
		t.Error("two users of one name were accepted")
	}
}

func TestMapPartition(t *testing.T) {
	in := small()
	in.Jobs.Change(1, func(j *hpc.Job) { j.Partition = "batch,long" })
	in.Jobs.Change(2, func(j *hpc.Job) { j.Partition = "" })
	for _, test := range []struct {
		from, to string
		want     []string
	}{
		{"batch", "gpu", []string{"gpu", "gpu,long", "", "gpu", "gpu"}},
		{"long", "batch", []string{"batch", "batch", "", "batch", "batch"}},
		{"", "batch", []string{"batch", "batch,long", "batch", "batch", "batch"}},
		{"*", "all", []string{"all", "all", "all", "all", "all"}},
	} {
		w, _ := apply(t, in, Environment{}, must(MapPartition(test.from, test.to)))
		var got []string
		for _, id := range []string{"p", "a", "b", "c", "d"} {
			got = append(got, byID(w, id).Partition)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s=%s (-want +got)\n%s", test.from, test.to, diff)
		}
	}
	for _, test := range []struct {
		cluster []string
		step    Step
		want    string
	}{
		{nil, must(MapPartition("gpu", "long")), "no job is in partition gpu (want batch, long)"},
		{nil, must(MapPartition("batchh", "long")), "no job is in partition batchh (did you mean batch?)"},
		{[]string{"batch", "long"}, must(MapPartition("batchh", "long")), "no job is in partition batchh (did you mean batch?)"},
		{[]string{"batch", "long"}, must(MapPartition("batch", "lonk")), "the cluster has no partition lonk (did you mean long?)"},
		{nil, must(LongestLimit("bach", time.Hour)), "no job is in partition bach (did you mean batch?)"},
	} {
		var env Environment
		for _, name := range test.cluster {
			if env.Partitions == nil {
				env.Partitions = map[string]Partition{}
			}
			env.Partitions[name] = Partition{}
		}
		if _, _, err := Apply(in, env, test.step); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.step.Text, err, test.want)
		}
	}
	if _, err := MapPartition("a", ""); err == nil {
		t.Error("no partition was accepted")
	}
}

// TestAbsent: a step adds a note if it names something that the workload lacks, or a time outside
// the workload.
func TestAbsent(t *testing.T) {
	late, other := small(), small()
	for i := range late.Jobs.Len() {
		late.Jobs.Change(i, func(j *hpc.Job) { j.Submit = j.Submit.Add(30 * 24 * time.Hour) })
	}
	cluster := Environment{Partitions: map[string]Partition{"batch": {}, "long": {}, "gpu": {}}}
	for _, test := range []struct {
		env  Environment
		step Step
		want string
	}{
		{cluster, must(MapPartition("gpu", "long")), "no job is in partition gpu"},
		{cluster, must(MapPartition("", "long")), "every job names a partition"},
		{cluster, must(MapPartition("batch", "long")), ""},
		{Environment{}, must(MapPartition("*", "other")), ""},
		{Environment{}, must(Maintenance(epoch.Add(20*24*time.Hour), time.Hour, "")), "the maintenance begins after the last submission"},
		{Environment{}, must(Maintenance(epoch, time.Hour, "")), ""},
		{Environment{}, Merge(late, "late"), "the jobs are not submitted at the same time: those of late from "},
		{Environment{}, Merge(other, "other"), ""},
	} {
		_, results, err := Apply(small(), test.env, test.step)
		if err != nil {
			t.Fatal(err)
		}
		notes := strings.Join(results[0].Notes, "|")
		if !strings.HasPrefix(notes, test.want) || test.want == "" && notes != "" {
			t.Errorf("%s: notes %q, want %q", results[0].Step, notes, test.want)
		}
	}
}

// TestShake: a submission moves by at most the given time. It stays on its side of the window's
// start and after the jobs on which it depends.
// Jitter does not move an array behind the start of its tasks that run when the window begins.
func TestShakeCutArray(t *testing.T) {
	task, rest := job("a_1", -2, 1, time.Hour, time.Hour), job("a", -2, 1, time.Hour, time.Hour)
	task.Recorded = &hpc.Recorded{Start: epoch.Add(-100 * time.Second)}
	rest.Array, rest.Recorded = "2-9%3", nil
	in := &workload.Workload{Epoch: epoch, Start: epoch, Jobs: workload.JobsOf(task, rest)}
	in.Sort()
	for seed := range uint64(20) {
		w, _, err := Apply(in, Environment{Seed: seed}, must(Shake(time.Minute)))
		if err != nil {
			t.Fatal(err)
		}
		if at := byID(w, "a").Submit; at > task.Recorded.Start {
			t.Errorf("seed %d: submitted at %s, after the start of a task at %s", seed, at, task.Recorded.Start)
		}
	}
}

func TestShake(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		in := &workload.Workload{Epoch: epoch, Start: epoch}
		n := rapid.IntRange(1, 30).Draw(rt, "jobs")
		for i := range n {
			j := job(fmt.Sprint(i), rapid.IntRange(-5, 20).Draw(rt, "minute"), 1, time.Hour, time.Hour)
			in.Jobs.Append(j)
		}
		in.Sort()
		for i := 1; i < n; i++ {
			if rapid.Bool().Draw(rt, "depends") {
				in.Jobs.Change(i, func(j *hpc.Job) { j.Dependency = "afterany:" + in.Jobs.At(i-1).ID })
			}
		}
		most := time.Duration(rapid.IntRange(1, 600).Draw(rt, "seconds")) * time.Second
		w, _, err := Apply(in, Environment{Seed: rapid.Uint64().Draw(rt, "seed")}, must(Shake(most)))
		if err != nil {
			rt.Fatal(err)
		}
		moved := false
		for _, old := range in.Jobs.All() {
			j := byID(w, old.ID)
			if shift := j.Submit.Sub(old.Submit).Abs(); shift > most && old.Dependency == "" {
				rt.Errorf("job %s moved by %s, at most %s", j.ID, shift, most)
			}
			if (j.Submit < epoch) != (old.Submit < epoch) && old.Dependency == "" {
				rt.Errorf("job %s moved over the window's start", j.ID)
			}
			if old.Dependency != "" && byID(w, strings.TrimPrefix(old.Dependency, "afterany:")).Submit > j.Submit {
				rt.Errorf("job %s is submitted before %s", j.ID, old.Dependency)
			}
			moved = moved || j.Submit != old.Submit
		}
		if !moved && n > 3 {
			rt.Error("nothing moved")
		}
	})
	if _, err := Shake(0); err == nil {
		t.Error("shaking by nothing was accepted")
	}
}

// TestCompose: steps act in order, and the output lists them.
func TestCompose(t *testing.T) {
	w, results := apply(t, small(), Environment{}, must(Filter("not preset")), must(ScaleNodes(2)), must(Filter("nodes > 30")))
	want := []Result{{Step: "--filter 'not preset'", Removed: 1, Changed: 1, Jobs: 4}, {Step: "--scale-nodes 2", Changed: 4, Jobs: 4}, {Step: "--filter 'nodes > 30'", Removed: 2, Changed: 1, Jobs: 2}}
	if diff := cmp.Diff(want, results); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	back, err := tracefile.Read(strings.NewReader(trace(t, w)), "x", workload.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"--filter 'not preset'", "--scale-nodes 2", "--filter 'nodes > 30'"}, back.Transforms); diff != "" {
		t.Errorf("recorded (-want +got)\n%s", diff)
	}
	_, _, err = Apply(small(), Environment{}, must(Filter("nodes > 1")), must(Filter("nodes > 1000")))
	if err == nil || err.Error() != "transforming workload: --filter 'nodes > 1000': no job is left" {
		t.Errorf("error %v", err)
	}
}

// TestMeantField: for names that people are likely to try, the error names the right field.
func TestMeantField(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"mem > 3", "did you mean memory_mib?"}, {"runtime > 3", "did you mean run_time_s?"}, {"time_limit > 3", "did you mean time_limit_s?"},
		{"walltime > 3", "did you mean time_limit_s?"}, {"Runtime > 3", "did you mean run_time_s?"}, {`queue == "a"`, "did you mean partition?"},
		{"time_limit > 1d12h", "want time_limit_s > 129600: durations are in seconds"},
		{`run_time_s <= "01:00:00"`, "want run_time_s <= 3600: durations"}, {"run_time_s > 10min and nodes > 1", "want run_time_s > 600: "},
		{"run_time_s > 60 and time_limit_s < 365 d", "want time_limit_s < 31536000: durations"},
		{"memory_mib > 4G", "want memory_mib > 4096: memory is in MiB"}, {"limit_s > 3", "did you mean time_limit_s?"},
		{`partion == "a"`, "did you mean partition?"}, {"wait > 3", "want one of account, array, "}, {"nodes >", ""},
	} {
		_, err := Filter(test.text)
		if err == nil || !strings.Contains(err.Error(), test.want) || test.want == "" && strings.Contains(err.Error(), "did you mean") {
			t.Errorf("%s: %v, want an error with %q", test.text, err, test.want)
		}
	}
	if _, err := Filter("nodes > 1 and cpus > 1 and memory_mib > 1"); err != nil {
		t.Error(err)
	}
	w := &workload.Workload{}
	for _, test := range []struct {
		request hpc.Request
		want    int
	}{
		{hpc.Request{MinNodes: 3, MemPerNode: 100}, 300}, {hpc.Request{Tasks: 4, MemPerCPU: 50}, 200}, {hpc.Request{Tasks: 4, MemPerNode: hpc.AllMemory}, 0},
	} {
		if got := FieldsOf(w, &hpc.Job{Request: test.request}, 0).Memory; got != test.want {
			t.Errorf("%+v: %d MiB, want %d", test.request, got, test.want)
		}
	}
}

// Predicted limits are rounded up to a minute, never rise, and do not apply to preset jobs. The
// notes count what each rule does.
func TestPredictedLimits(t *testing.T) {
	w := &workload.Workload{Epoch: epoch, Start: epoch, Source: "test", Jobs: workload.JobsOf(
		preset("p", "n[1-4]", 4, 2*time.Hour, 3*time.Hour),
		job("lowered", 0, 1, time.Hour, 24*time.Hour),
		job("exact", 1, 1, time.Minute, time.Hour),
		job("kept", 2, 1, time.Hour, 2*time.Hour),
		job("none", 3, 1, time.Minute, 0),
		job("unlimited", 4, 1, time.Minute, hpc.Unlimited),
		job("killed", 5, 2, 3*time.Hour, 24*time.Hour),
		job("ended", 6, 1, hpc.Unlimited, 6*time.Hour),
		job("short", 7, 1, time.Second, time.Hour),
		job("unknown", 8, 1, time.Second, time.Hour),
	)}
	seconds := []float64{60, 7201, 600, 7200, 61, math.Inf(1), 3600, 3600, 0.5, math.NaN()}
	step := PredictedLimits("--limits-from m --quantile 0.9", func(*workload.Workload) ([]float64, error) { return seconds, nil })
	out, results, err := Apply(w, Environment{}, step)
	if err != nil {
		t.Fatal(err)
	}
	const most = time.Duration(math.MaxInt64/int64(time.Minute)) * time.Minute
	for i, want := range []time.Duration{24 * time.Hour, 121 * time.Minute, 10 * time.Minute, 2 * time.Hour, 2 * time.Minute, most, time.Hour, time.Hour, time.Minute, time.Hour} {
		if got := out.Jobs.At(i); got.TimeLimit != want {
			t.Errorf("%s has the limit %v, want %v", got.ID, got.TimeLimit, want)
		}
	}
	want := Result{Step: "--limits-from m --quantile 0.9", Changed: 7, Jobs: 10, Notes: []string{
		"jobs whose prediction is not below their limit keep it: 1",
		"jobs without a limit get one: 2",
		"jobs without a prediction keep their limits: 1",
		"jobs that run when the window begins keep their limits: 1",
		"jobs that reached their old limit are ended earlier: 1",
		"jobs that would have ended by themselves and are killed by their new limit: 1 (14.3 % of the changed ones), after 8 core-hours",
	}}
	if diff := cmp.Diff(want, results[0]); diff != "" {
		t.Error(diff)
	}
}

// TestEffect: a step says how many jobs it added, removed and changed.
func TestEffect(t *testing.T) {
	for want, r := range map[string]Result{
		"3 jobs changed":                       {Changed: 3},
		"1 job removed":                        {Removed: 1},
		"4 jobs added, 267 removed, 8 changed": {Added: 4, Removed: 267, Changed: 8},
		"1 job removed, 2 changed":             {Removed: 1, Changed: 2},
		"0 jobs changed":                       {},
	} {
		if got := r.Effect(); got != want {
			t.Errorf("%+v: %q, want %q", r, got, want)
		}
	}
}

// TestWindowLeavesUsageOut: a window has no fair-share usage of another instant, and says so. A filter
// and a window say how many jobs they removed.
func TestWindowLeavesUsageOut(t *testing.T) {
	w := &workload.Workload{Start: hpc.Unix(1000), Usage: []hpc.Usage{{Account: "a", Raw: 1}, {Account: "b", Raw: 2}}}
	for i := range 4 {
		w.Jobs.Append(&hpc.Job{ID: fmt.Sprint(i), Submit: hpc.Unix(1000 + 1000*int64(i)), Request: hpc.Request{Tasks: 1}, Behaviour: hpc.Behaviour{RunTime: time.Minute}})
	}
	window, err := Window(hpc.Unix(3000), 0)
	if err != nil {
		t.Fatal(err)
	}
	out, results, err := Apply(w, Environment{}, window)
	if err != nil || len(out.Usage) != 0 || results[0].Effect() != "2 jobs removed" {
		t.Fatalf("%+v, %v", results, err)
	}
	if text := strings.Join(results[0].Notes, "\n"); !strings.Contains(text, "records of fair-share usage removed, because they are not of 1970-01-01T00:50:00Z: 2") {
		t.Errorf("notes %s", text)
	}
}

// TestEffectByID: a step's effect counts jobs by their IDs, also the tasks that a window makes jobs of their own, the
// array that it cuts, and a job of which only a dependency is dropped.
func TestEffectByID(t *testing.T) {
	at := func(h int64) hpc.Time { return epoch.Add(time.Duration(h) * time.Hour) }
	recorded := func(id string, submit, start, end int64) *hpc.Job {
		j := job(id, 0, 1, time.Hour, 24*time.Hour)
		j.Submit, j.Recorded = at(submit), &hpc.Recorded{Start: at(start), End: at(end), Nodes: "n1"}
		return j
	}
	array, dependent := recorded("arr", 0, 1, 30), recorded("new", 11, 12, 13)
	array.Array = "1-4"
	array.Recorded.TaskStarts = map[int]hpc.Time{1: at(1), 2: at(2), 3: at(3), 4: at(20)}
	array.Recorded.TaskEnds = map[int]hpc.Time{1: at(4), 2: at(12), 3: at(13), 4: at(30)}
	array.Recorded.TaskNodes = map[int]string{1: "n1", 2: "n2", 3: "n3", 4: "n4"}
	dependent.Dependency = "afterok:over"
	in := &workload.Workload{Epoch: epoch, Jobs: workload.JobsOf(recorded("over", 0, 1, 2), array, dependent,
		recorded("gone", 1, 2, 3), recorded("same", 10, 11, 12))}
	window := must(Window(at(10), 0))
	w, results := apply(t, in, Environment{}, window, must(ScaleArrivals(2)), must(Repeat(2)), Merge(in, "in"))
	for i, want := range []string{
		"2 jobs added, 2 removed, 2 changed", // arr_2, arr_3; over, gone; arr, new
		"1 job changed",                      // only new is submitted after the window's start
		"2 jobs added",                       // same~2, new~2
		"5 jobs added",
	} {
		if got := results[i].Effect(); got != want {
			t.Errorf("%s: %s, want %s", results[i].Step, got, want)
		}
	}
	if w.Jobs.Len() != 12 {
		t.Errorf("%d jobs", w.Jobs.Len())
	}
	key, err := NewAnonymizer([]byte(strings.Repeat("k", 32)), small(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, results = apply(t, small(), Environment{}, key.Step()); results[0].Effect() != "5 jobs changed" {
		t.Errorf("%+v", results[0])
	}
}
