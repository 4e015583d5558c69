package generate

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/formats/trace"
	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

func mustDaint(t *testing.T, o DaintOptions) *workload.Workload {
	t.Helper()
	return mustDays(t, o).Workload
}

// mustDays makes days, at the paper's load if the options give no load.
func mustDays(t *testing.T, o DaintOptions) *DaintDays {
	t.Helper()
	if o.GPULoad == 0 {
		o.GPULoad = DefaultGPULoad
	}
	days, err := Daint(o)
	if err != nil {
		t.Fatal(err)
	}
	return days
}

// TestDaintDay checks the first day against section V of the paper, for several seeds.
func TestDaintDay(t *testing.T) {
	for _, seed := range []uint64{0, 1, 13} { // 13 has a preset job of the shortest run time
		w := mustDaint(t, DaintOptions{Seed: seed})
		checkTableI(t, w)
		checkCounts(t, w)
		checkLargest(t, w)
		checkHours(t, w)
		checkLoads(t, w, gpuLoad, 1)
		checkPresets(t, w)
		checkLimits(t, w)
		checkNodeEvents(t, w, 1)
		checkReservations(t, w, 1)
	}
}

// TestDaintFull: the machine reaches its load with any seed.
func TestDaintFull(t *testing.T) {
	for seed := uint64(100); seed < 104; seed++ {
		w := mustDaint(t, DaintOptions{Seed: seed})
		checkLoads(t, w, gpuLoad, 1)
		checkPresets(t, w)
	}
}

// TestDaintSaturated: jobs can ask for more than the machine has.
func TestDaintSaturated(t *testing.T) {
	w := mustDaint(t, DaintOptions{Seed: 1, Days: 2, GPULoad: 1.2})
	checkLoads(t, w, 1.2, 2)
	checkPresets(t, w)
}

// TestDaintDays: later days have the same load, and five days have at least the paper's
// jobs.
func TestDaintDays(t *testing.T) {
	w := mustDaint(t, DaintOptions{Seed: 1, Days: 5})
	if n := w.Jobs.Len(); n < fiveDaysJobs || n > fiveDaysJobs+10 {
		t.Errorf("%d jobs, want at least %d and hardly more", n, fiveDaysJobs)
	}
	checkLoads(t, w, gpuLoad, 5)
	checkPresets(t, w)
	checkNodeEvents(t, w, 5)
	checkReservations(t, w, 5)
	perDay := make([]int, 5)
	for _, job := range w.Jobs.All() {
		if job.Submit >= w.Start {
			perDay[job.Submit.Sub(w.Start)/(24*time.Hour)]++
		}
	}
	if slices.Min(perDay) < newJobs-backlogJobs || slices.Max(perDay[1:])-slices.Min(perDay[1:]) > 1 {
		t.Errorf("jobs by day %v", perDay)
	}
}

func TestDaintJobs(t *testing.T) {
	for _, test := range []struct {
		o    DaintOptions
		jobs int
		met  bool
		err  string
	}{
		{DaintOptions{GPULoad: 0.97}, 6025, true, ""},
		{DaintOptions{GPULoad: 0.97, Jobs: 6025}, 6025, true, ""},
		{DaintOptions{GPULoad: 0.97, Jobs: 6239, Days: 1}, 6239, true, ""},
		{DaintOptions{GPULoad: 0.97, Jobs: 9000, Days: 2}, 9000, false, ""}, // too few jobs on the second day
		{DaintOptions{GPULoad: 0.97, Jobs: 14000}, 14000, false, ""},        // too many jobs on the second day
		{DaintOptions{GPULoad: 0.97, Jobs: 6025 + 7285}, 13310, true, ""},
		{DaintOptions{GPULoad: 1.1, Days: 2, Jobs: 9000}, 9000, false, ""},
		{DaintOptions{GPULoad: 0.5, Jobs: 6025}, 6025, false, ""}, // too many
		{DaintOptions{GPULoad: 0.5, Jobs: 14000}, 14000, false, ""},
		{DaintOptions{GPULoad: 0.97, Jobs: 100}, 0, false, "jobs 100: fewer than in a day (want 6025 or more)"},
		{DaintOptions{GPULoad: 0.97, Jobs: 1 << 40}, 0, false, "jobs 1099511627776: more than"},
		{DaintOptions{GPULoad: 0.97, Jobs: 6025, Days: 5}, 0, false, "jobs 6025: too few for 5 days: some would have no jobs"},
		{DaintOptions{GPULoad: 0.97, Jobs: 50000, Days: 1}, 0, false, "jobs 50000: the jobs ask for 7.24 times the GPU nodes' node-hours on one of 1 day"},
		{DaintOptions{GPULoad: 0.97, Jobs: 30000, Days: 2}, 0, false, "jobs 30000: the jobs ask for 3.32 times the GPU nodes' node-hours on one of 2 days"},
		{DaintOptions{}, 0, false, "gpu-load 0: not a load (want 0.5 to 3)"},
		{DaintOptions{GPULoad: 0.1}, 0, false, "gpu-load 0.1: not a load"},
		{DaintOptions{GPULoad: math.NaN()}, 0, false, "gpu-load NaN: not a load"},
		{DaintOptions{GPULoad: 0.97, Days: -1}, 0, false, "days -1: negative"},
		{DaintOptions{GPULoad: 0.97, Days: 1000}, 0, false, "days 1000: more than 366"},
	} {
		test.o.Seed = 1
		made, err := Daint(test.o)
		switch {
		case test.err != "":
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%+v: error %v, want %q", test.o, err, test.err)
			}
		case err != nil:
			t.Errorf("%+v: %v", test.o, err)
		default:
			if n := made.Workload.Jobs.Len(); n != test.jobs {
				t.Errorf("%+v: %d jobs, want %d", test.o, n, test.jobs)
			}
			if gpu := made.Loads[0]; gpu.Met() != test.met {
				t.Errorf("%+v: load of the GPU nodes met %v, want %v: %.3f", test.o, gpu.Met(), test.met, gpu.Days)
			}
			checkMeasured(t, made)
		}
	}
}

// TestDaintLighter: jobs can ask for less than the paper's load, and every day has that
// load.
func TestDaintLighter(t *testing.T) {
	for _, load := range []float64{0.5, 0.7, 0.9} {
		made := mustDays(t, DaintOptions{Seed: 1, Days: 3, GPULoad: load})
		checkLoads(t, made.Workload, load, 3)
		checkPresets(t, made.Workload)
		checkMeasured(t, made)
		for _, l := range made.Loads {
			if !l.Met() {
				t.Errorf("%s: %s nodes: loads %.3f, want %.2f on each day", made.Workload.Source, l.Nodes, l.Days, l.Wanted)
			}
		}
	}
}

// checkMeasured compares the loads that the generator reports with the loads of its jobs.
func checkMeasured(t *testing.T, made *DaintDays) {
	t.Helper()
	w := made.Workload
	for _, l := range made.Loads {
		nodes := map[string]float64{"gpu": gpuNodes, "mc": mcNodes}[l.Feature]
		got := make([]float64, len(l.Days))
		for _, job := range w.Jobs.All() {
			if job.Constraint != l.Feature {
				continue
			}
			day, left := max(0, int(job.Submit.Sub(w.Start)/(24*time.Hour))), ran(job)
			if w.Preset(job) {
				left = job.Recorded.End.Sub(w.Start)
			}
			got[day] += left.Hours() * float64(job.MinNodes) / nodes / 24
		}
		for i := range got {
			if math.Abs(got[i]-l.Days[i]) > 1e-6 {
				t.Errorf("%s: day %d asks for %.4f of the %s nodes, and is said to ask for %.4f", w.Source, i, got[i], l.Nodes, l.Days[i])
			}
		}
	}
}

// TestDaintSeeds: the same seed gives the same bytes, and another seed gives others.
func TestDaintSeeds(t *testing.T) {
	var texts [3]bytes.Buffer
	for i, seed := range []uint64{7, 7, 8} {
		if err := trace.Write(&texts[i], mustDaint(t, DaintOptions{Seed: seed})); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(texts[0].Bytes(), texts[1].Bytes()) {
		t.Error("the same seed gave two workloads")
	}
	if bytes.Equal(texts[0].Bytes(), texts[2].Bytes()) {
		t.Error("two seeds gave the same workload")
	}
	users, err := workload.ParseUsers(strings.NewReader(mustDays(t, DaintOptions{Seed: 7}).Files["users"]), "users")
	if err != nil || len(users) != userCount {
		t.Errorf("%d users, %v", len(users), err)
	}
	back, err := trace.Read(&texts[0], "daint", workload.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if want := mustDaint(t, DaintOptions{Seed: 7}); !cmp.Equal(want, back) {
		t.Error("what was written and read again is another workload")
	}
}

// ran returns how long the job holds its nodes if nothing ends it earlier.
func ran(job *hpc.Job) time.Duration { return min(job.RunTime, job.TimeLimit) }

func checkTableI(t *testing.T, w *workload.Workload) {
	t.Helper()
	var got [9][6]int
	for _, job := range w.Jobs.All() {
		size := slices.IndexFunc(sizeClasses[:], func(c struct{ low, high int }) bool { return job.MinNodes <= c.high })
		duration := slices.IndexFunc(durationClasses[:], func(c struct{ low, high time.Duration }) bool { return ran(job) <= c.high })
		if size < 0 || duration < 0 {
			t.Fatalf("job %s: %d nodes, %s", job.ID, job.MinNodes, ran(job))
		}
		got[size][duration]++
	}
	if diff := cmp.Diff(tableI, got); diff != "" {
		t.Errorf("%s: Table I (-paper +got)\n%s", w.Source, diff)
	}
	for i, want := range []int{2526, 450, 1340, 436, 715, 273, 207, 67, 11} { // the paper's own totals
		total := 0
		for _, n := range got[i] {
			total += n
		}
		if total != want {
			t.Errorf("%s: %d jobs of size class %d, want %d", w.Source, total, i, want)
		}
	}
}

func checkCounts(t *testing.T, w *workload.Workload) {
	t.Helper()
	presets, gpus, mcs, elsewhere := 0, 0, 0, 0
	for _, job := range w.Jobs.All() {
		switch {
		case w.Preset(job):
			presets++
		case job.Partition != "normal":
			elsewhere++
		case job.Constraint == "gpu":
			gpus++
		case job.Constraint == "mc":
			mcs++
		}
	}
	if diff := cmp.Diff([]int{783, 2664, 2409, 169}, []int{presets, gpus, mcs, elsewhere}); diff != "" {
		t.Errorf("%s: preset, GPU, multicore and other jobs (-want +got)\n%s", w.Source, diff)
	}
}

// checkLargest checks a sentence of the paper: "The top 10 resource-demanding jobs account for 10 %
// of the overall amount of used resources."
func checkLargest(t *testing.T, w *workload.Workload) {
	t.Helper()
	var work []float64
	total := 0.0
	for _, job := range w.Jobs.All() {
		work = append(work, float64(job.MinNodes)*ran(job).Hours())
		total += work[len(work)-1]
	}
	slices.Sort(work)
	slices.Reverse(work)
	if diff := cmp.Diff([]float64{2820, 2820, 2560}, work[:3]); diff != "" {
		t.Errorf("%s: largest jobs in node-hours (-paper +got)\n%s", w.Source, diff)
	}
	top := 0.0
	for _, x := range work[:10] {
		top += x / total
	}
	if top < 0.09 || top > 0.14 {
		t.Errorf("%s: the ten largest jobs have %.3f of the work, want about 0.1", w.Source, top)
	}
}

// checkHours compares the hours of submission with their expected distribution by the chi-squared
// test. With 23 degrees of freedom, the statistic exceeds 49.7 with a probability of 0.001.
func checkHours(t *testing.T, w *workload.Workload) {
	t.Helper()
	counts, n, weights := make([]int, 24), 0, 0.0
	for _, job := range w.Jobs.All() {
		if job.Submit >= w.Start {
			counts[job.Submit.Std().Hour()]++
			n++
		}
	}
	for _, weight := range daintHours {
		weights += weight
	}
	chi := 0.0
	for hour, got := range counts {
		want := float64(n) * daintHours[hour] / weights
		chi += (float64(got) - want) * (float64(got) - want) / want
	}
	if chi > 49.7 {
		t.Errorf("%s: chi-squared %.1f of submissions by hour %v", w.Source, chi, counts)
	}
}

func checkLoads(t *testing.T, w *workload.Workload, onGPUs float64, days int) {
	t.Helper()
	running, work := map[string]int{}, map[string]float64{}
	for _, job := range w.Jobs.All() {
		left := ran(job)
		if w.Preset(job) {
			running[job.Constraint] += job.MinNodes
			left = job.Recorded.End.Sub(w.Start)
		}
		work[job.Constraint] += left.Hours() * float64(job.MinNodes)
	}
	for _, k := range []kind{gpu, mc} {
		name, nodes := k.feature(), float64(k.count())
		atStart, offered := float64(running[name])/nodes, work[name]/nodes/24/float64(days)
		t.Logf("%s: %s: %.3f in use at the start, %.3f offered", w.Source, name, atStart, offered)
		want := k.load()
		if k == gpu {
			want = onGPUs
		}
		if math.Abs(atStart-k.load()) > 0.01 || math.Abs(offered-want) > 0.01 {
			t.Errorf("%s: %s: %.3f in use at the start, %.3f offered; want %.2f and %.2f", w.Source, name, atStart, offered, k.load(), want)
		}
	}
}

// checkPresets: preset jobs run across the window's start, on nodes of their kind that no
// other job has and that are not down.
func checkPresets(t *testing.T, w *workload.Workload) {
	t.Helper()
	taken := map[string]string{}
	for _, ev := range w.NodeEvents {
		if ev.At <= w.Start {
			taken[ev.Nodes] = ev.State
		}
	}
	for _, job := range w.Jobs.All() {
		r := job.Recorded
		if r == nil {
			continue
		}
		nodes, err := hostlist.Expand(r.Nodes)
		if err != nil || len(nodes) != job.MinNodes {
			t.Fatalf("job %s: %d nodes on %s, %v", job.ID, job.MinNodes, r.Nodes, err)
		}
		if job.Submit > r.Start || r.Start >= w.Start || r.End <= w.Start || r.End.Sub(r.Start) != ran(job) {
			t.Errorf("job %s: submitted %s, recorded %+v, runs %s", job.ID, job.Submit, *r, ran(job))
		}
		for _, name := range nodes {
			if taken[name] != "" {
				t.Errorf("node %s: job %s and %s", name, job.ID, taken[name])
			}
			taken[name] = job.ID
			if isGPU := name <= "nid05320"; isGPU != (job.Constraint == "gpu") {
				t.Errorf("job %s for %s is on %s", job.ID, job.Constraint, name)
			}
		}
	}
}

// checkLimits: every job fits its time limit, no job asks for more than a day, and the
// limits are those of Fig. 9, a day the most frequent.
func checkLimits(t *testing.T, w *workload.Workload) {
	t.Helper()
	counts := map[time.Duration]int{}
	for _, job := range w.Jobs.All() {
		counts[job.TimeLimit]++
		if job.RunTime > job.TimeLimit && job.RunTime != hpc.Unlimited {
			t.Errorf("job %s runs for %s, limit %s", job.ID, job.RunTime, job.TimeLimit)
		}
	}
	for limit, n := range counts {
		if n > counts[24*time.Hour] || !slices.ContainsFunc(habits, func(h habit) bool { return h.limit == limit }) {
			t.Errorf("%s: %d jobs ask for %s", w.Source, n, limit)
		}
	}
	for _, hours := range []time.Duration{6, 8, 9, 10, 12} {
		if n := counts[hours*time.Hour]; n < 50 {
			t.Errorf("%s: %d jobs ask for %d hours", w.Source, n, hours)
		}
	}
}

// checkNodeEvents applies the events. Each node goes out of service and returns in turn. No node
// fails under a preset job, because the record says that preset jobs complete.
func checkNodeEvents(t *testing.T, w *workload.Workload, days int) {
	t.Helper()
	if len(w.NodeEvents) != dayNodeEvents*days {
		t.Errorf("%s: %d node events, want %d a day", w.Source, len(w.NodeEvents), dayNodeEvents)
	}
	presets := map[string]bool{}
	for _, job := range w.Jobs.All() {
		if job.Recorded != nil {
			names, _ := hostlist.Expand(job.Recorded.Nodes)
			for _, name := range names {
				presets[name] = true
			}
		}
	}
	out := map[string]bool{}
	var last hpc.Time
	for _, ev := range w.NodeEvents {
		if ev.At < last {
			t.Errorf("event at %s after one at %s", ev.At, last)
		}
		last = ev.At
		if back := ev.State == "resume"; back != out[ev.Nodes] {
			t.Errorf("%s: %s at %s, but out of service is %v", ev.Nodes, ev.State, ev.At, out[ev.Nodes])
		}
		out[ev.Nodes] = ev.State != "resume"
		if (ev.State == "down" || ev.State == "fail") && presets[ev.Nodes] {
			t.Errorf("%s: %s under a preset job", ev.Nodes, ev.State)
		}
	}
}

// checkReservations: every change refers to an existing reservation, no two reservations use a
// node at the same time, and their jobs fit.
func checkReservations(t *testing.T, w *workload.Workload, days int) {
	t.Helper()
	if len(w.Reservations) != 10*days {
		t.Errorf("%s: %d reservation events, want 10 a day", w.Source, len(w.Reservations))
	}
	known := map[string]hpc.Reservation{}
	for _, ev := range w.Reservations {
		old, ok := known[ev.Name]
		if ok == (ev.Action == "create") || ok && old.Start.Add(old.Duration) <= ev.At {
			t.Errorf("%s at %s: %s, there before is %+v", ev.Action, ev.At, ev.Name, old)
		}
		switch ev.Action {
		case "create":
			for _, other := range known {
				if ev.Nodes == other.Nodes && ev.Start < other.Start.Add(other.Duration) && other.Start < ev.Start.Add(ev.Duration) {
					t.Errorf("%s and %s have the same nodes", ev.Name, other.Name)
				}
			}
			known[ev.Name] = ev.Reservation
		case "update":
			old.Duration = ev.Duration
			known[ev.Name] = old
		}
	}
	used := 0
	for _, job := range w.Jobs.All() {
		if job.Reservation == "" {
			continue
		}
		used++
		r := known[job.Reservation]
		if !slices.Contains(r.Accounts, job.Account) || job.Submit < r.Start || job.Submit.Add(job.TimeLimit) > r.Start.Add(r.Duration) {
			t.Errorf("job %s of %s, submitted %s for %s: not for %+v", job.ID, job.Account, job.Submit, job.TimeLimit, r)
		}
	}
	if used < 10*days {
		t.Errorf("%s: %d jobs use reservations", w.Source, used)
	}
}
