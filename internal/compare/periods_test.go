package compare

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/compare/periods"
	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/run"
	"rmreplay/internal/stats"
	"rmreplay/internal/workload"
)

// month has jobs of two users on several days: short jobs wait a minute and long jobs an hour.
func month(name string, days, short, long int) Set {
	var rows []run.Row
	for day := range days {
		for i := range short + long {
			at := day*86400 + i
			r := job(fmt.Sprintf("%s-%d-%d", name, day, i), at, at+60, at+70, "n1")
			r.User, r.TimeLimit, r.Processors = "ann", time.Hour, 1
			if i >= short {
				r = job(fmt.Sprintf("%s-%d-%d", name, day, i), at, at+3600, at+3610, "n1")
				r.User, r.TimeLimit, r.Processors = "bob", 20*time.Hour, 1
			}
			rows = append(rows, r)
		}
	}
	return single(name, rows...)
}

// Two months with the same waits of each kind of job, but another mix of jobs: the mix and the users
// explain all of the difference.
func TestPeriods(t *testing.T) {
	c := mustCompare(t, Options{}, month("a", 5, 9, 1), month("b", 4, 5, 5))
	p := c.Pairs[0].Periods
	if p == nil || p.Jobs[0] != 50 || p.Jobs[1] != 40 || p.Days[0] != 5 || p.Days[1] != 4 {
		t.Fatalf("%+v", p)
	}
	wait := p.Quantities[0]
	if wait.Label != "wait" || wait.Mean[0] != 414 || wait.Mean[1] != 1830 || math.Abs(float64(wait.CliffsDelta)-0.4) > 1e-9 || wait.P > 0.01 {
		t.Errorf("%+v", wait)
	}
	for _, f := range p.Factors[:2] {
		if f.Covered != 1 || f.Difference != 1830-414 || f.Standardized != 0 || f.Explained != 1 {
			t.Errorf("%+v", f)
		}
	}
	var b strings.Builder
	if err := c.Render(&b, time.UTC); err != nil || !strings.Contains(b.String(), "  A: 50 jobs on 5 days") || !strings.Contains(b.String(), "100.0%") ||
		!strings.Contains(b.String(), "run time (at most the time limit)") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// TestPeriodsZone: a day begins at midnight of the time zone. A month in the zone has no jobs of the day before.
func TestPeriodsZone(t *testing.T) {
	east := time.FixedZone("", 3600)
	next := int(monday.Std().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(monday.Std()).Seconds()) // midnight
	submitted := func(name string, at ...int) Set {
		var rows []run.Row
		for i, s := range at {
			rows = append(rows, job(fmt.Sprintf("%s-%d", name, i), next+s, next+s+60, 10, "n1"))
		}
		return single(name, rows...)
	}
	// The first job is submitted at 23:30 UTC, which is 00:30 of the next day in the zone.
	late := func(name string) Set { return submitted(name, -1800, 3600) }
	for zone, days := range map[*time.Location]int{nil: 2, time.UTC: 2, east: 1} {
		p := mustCompare(t, Options{Zone: zone}, late("a"), late("b")).Pairs[0].Periods
		if p == nil || p.Days[0] != days || p.Days[1] != days {
			t.Errorf("%v: %+v, want %d days", zone, p, days)
		}
	}
	// The p-value is of whole days, too: three days in UTC are two in the zone, which are too few.
	three := func(name string) Set { return submitted(name, -1800, 3600, 86400) }
	for zone, known := range map[*time.Location]bool{nil: true, east: false} {
		if wait := mustCompare(t, Options{Zone: zone}, three("a"), three("b")).Pairs[0].Periods.Quantities[0]; wait.P.Known() != known {
			t.Errorf("%v: %+v, want a p-value: %v", zone, wait, known)
		}
	}
}

// TestPeriodsLeaveOutRunning: a month that leaves out jobs which ran when it began has only a lower bound of the
// utilization. So neither the sentence nor the row says which month had the higher one.
func TestPeriodsLeaveOutRunning(t *testing.T) {
	for _, left := range [][2]int{{0, 0}, {7, 19}, {7, 0}, {7, 7}} {
		sets := []Set{month("a", 5, 9, 1), month("b", 4, 5, 5)}
		for i := range sets {
			m := sets[i].Runs[0].Manifest
			if m.Cluster.Processors = 10; left[i] > 0 {
				m.Workload.Rules = map[string]int{workload.RuleLeftRunning: left[i], workload.RuleLeftProcessors: 2 * left[i]}
			}
		}
		c := mustCompare(t, Options{}, sets...)
		use, d := c.figure("utilization", &c.Pairs[0])
		var b strings.Builder
		if err := c.Render(&b, time.UTC); err != nil || !use.Sets[0].Mean.Known() || !use.Sets[1].Mean.Known() {
			t.Fatal(err, use)
		}
		known, out := left == [2]int{}, b.String()
		if d.Difference.Known() != known || d.Relative.Known() != known || strings.Contains(out, "of the machine instead of") != known ||
			strings.Contains(out, "utilization, at least ") == known || strings.Contains(out, "utilization is a lower bound") == known {
			t.Errorf("%v: %+v\n%s", left, d, out)
		}
		for i, n := range left {
			want := fmt.Sprintf("  %s: %d jobs with %d processors left out\n", Letter(i), n, 2*n)
			if n == 0 {
				want = fmt.Sprintf("  %s: none left out\n", Letter(i))
			}
			if strings.Contains(out, want) == known {
				t.Errorf("%v: %q in\n%s", left, want, out)
			}
		}
	}
	same := []Set{month("a", 5, 9, 1), month("a", 5, 9, 1)}
	for i := range same {
		same[i].Name = fmt.Sprint(i)
		same[i].Runs[0].Manifest.Cluster.Processors, same[i].Runs[0].Manifest.Workload.Rules = 10, map[string]int{workload.RuleLeftRunning: 7}
	}
	c := mustCompare(t, Options{}, same...)
	if m, d := c.figure("utilization", &c.Pairs[0]); !d.Difference.Known() || m.Label != "utilization" {
		t.Errorf("the same jobs are left out on both sides: %+v", d)
	}
}

// The test is of the difference that the text shows. On the last day of b many jobs wait 9 s: the mean over jobs is
// lower in b than in a, and the mean of the days is higher.
func TestPeriodsTestWhatTheyShow(t *testing.T) {
	days := func(name string, jobs, wait []int) Set {
		var rows []run.Row
		for day, n := range jobs {
			for i := range n {
				at := day*86400 + i
				rows = append(rows, job(fmt.Sprintf("%s-%d-%d", name, day, i), at, at+wait[day], 10, "n1"))
			}
		}
		return single(name, rows...)
	}
	// Over days, the means are 30 s and 42.25 s. Over jobs, they are 30 s and 10.3 s, which the text shows.
	a := days("a", []int{10, 10, 10, 10}, []int{25, 30, 30, 35})
	b := days("b", []int{10, 10, 10, 1000}, []int{40, 60, 60, 9})
	c := mustCompare(t, Options{}, a, b)
	wait := c.Pairs[0].Periods.Quantities[0]
	var sides [2][]stats.Group
	for _, g := range []struct {
		side    int
		n, wait float64
	}{{0, 10, 25}, {0, 10, 30}, {0, 10, 30}, {0, 10, 35}, {1, 10, 40}, {1, 10, 60}, {1, 10, 60}, {1, 1000, 9}} {
		sides[g.side] = append(sides[g.side], stats.Group{Sum: g.n * g.wait, N: g.n})
	}
	want := stats.GroupedMeanTest(sides[0], sides[1], stats.TestOptions{})
	daily := stats.MeanTest([]float64{25, 30, 30, 35}, []float64{40, 60, 60, 9}, stats.TestOptions{})
	if math.Abs(daily.P-want.P) < 0.05 {
		t.Errorf("p = %v for days and %v for jobs, so this test cannot fail", daily.P, want.P)
	}
	if shown := math.Abs(float64(wait.Mean[1] - wait.Mean[0])); math.Abs(shown-want.Statistic) > 1e-9 || math.Abs(float64(wait.P)-want.P) > 1e-12 {
		t.Errorf("difference %v with p = %v, want %v with %v", shown, wait.P, want.Statistic, want.P)
	}
	if text := c.Answer(&c.Pairs[0]); !strings.Contains(text, "shorter in B") || !strings.Contains(text, "A test of this difference, which permutes whole days, gives p = ") {
		t.Errorf("%q", text)
	}
}

// The load does not depend on the hour at which a day begins. Both sides have one divisor, although jobs of b hold more
// processors at once: another divisor would hide that b has the higher load. The text says why there is no utilization.
func TestPeriodLoad(t *testing.T) {
	sample := func(name string, begin, processors, machine int) Set {
		var rows []run.Row
		for i := range 4 {
			r := job(fmt.Sprint(name, i), begin+i*3600, begin+i*3600, 3600, "n1")
			r.Processors = processors
			rows = append(rows, r)
		}
		s := single(name, rows...)
		s.Runs[0].Manifest.Cluster.Processors = machine
		return s
	}
	const missing = ": the size of the machine is not known. A trace has it as\nmachine_processors in its first line, "
	for _, test := range []struct {
		machines, divisors [2]int
		loads              [2]float64 // the work of four hours in three
		texts              []string
	}{
		{[2]int{4, 4}, [2]int{4, 4}, [2]float64{2. / 3, 1}, []string{"load 66.7% of 4 processors\n", "load 100.0% of 4 processors\n"}},
		{[2]int{4, 6}, [2]int{4, 6}, [2]float64{2. / 3, 2. / 3}, []string{"load 66.7% of 6 processors\n"}},
		{[2]int{4, 0}, [2]int{4, 4}, [2]float64{2. / 3, 1}, []string{"load 66.7% of 4 processors\n", "no utilization of B" + missing,
			"load 100.0% of 4 processors, as on the other side (the size of its own machine is not known)\n"}},
		{[2]int{0, 0}, [2]int{3, 3}, [2]float64{8. / 9, 4. / 3}, []string{"no utilization of A and B" + missing,
			"load 88.9% of 3 processors, the most in use at once on either side (the size of the machine is not known)\n"}},
	} {
		c := mustCompare(t, Options{}, sample("a", 12*3600, 2, test.machines[0]), sample("b", 22*3600, 3, test.machines[1]))
		p := c.Pairs[0].Periods
		for i := range 2 {
			demand := float64(p.Quantities[4].Mean[i]) * float64(test.divisors[i])
			if p.Divisor[i] != test.divisors[i] || math.Abs(float64(p.Load[i])-test.loads[i]) > 1e-9 || math.Abs(demand-math.Round(demand)) > 1e-9 {
				t.Errorf("%v: side %d: %+v, want load %v", test.machines, i, p, test.loads[i])
			}
		}
		var b strings.Builder
		err := c.Render(&b, time.UTC)
		for _, want := range test.texts {
			if err != nil || !strings.Contains(b.String(), want) {
				t.Errorf("%v: %v, want %q in\n%s", test.machines, err, want, b.String())
			}
		}
		if got, want := strings.Contains(b.String(), "no utilization"), test.machines[1] == 0; got != want {
			t.Errorf("%v: %v\n%s", test.machines, got, b.String())
		}
	}
}

// The same jobs that all wait longer: no factor explains this. With few days there is no p-value,
// and strata that only one side has are left out.
func TestPeriodsWithinStrata(t *testing.T) {
	a, b := month("a", 2, 5, 5), month("b", 2, 5, 5)
	for i := range b.Runs[0].Rows {
		r := &b.Runs[0].Rows[i]
		r.Start, r.End = r.Start.Add(time.Minute), r.End.Add(time.Minute)
	}
	p := mustCompare(t, Options{}, a, b).Pairs[0].Periods
	if f := p.Factors[1]; f.Difference != 60 || f.Standardized != 60 || f.Explained != 0 || p.Quantities[0].P == p.Quantities[0].P {
		t.Errorf("%+v, p %v", f, p.Quantities[0].P)
	}
	for i := range b.Runs[0].Rows {
		b.Runs[0].Rows[i].User = "cid"
	}
	if f := mustCompare(t, Options{}, a, b).Pairs[0].Periods.Factors[1]; f.Covered != 0 || f.Explained == f.Explained {
		t.Errorf("%+v", f)
	}
	if again := mustCompare(t, Options{}, a, a); again.Pairs[0].Periods != nil {
		t.Error("the same jobs are two samples")
	}
}

// A job that waits when a month begins is in the record of the month before as well. It counts only in the month in
// which it was submitted: in the figures, in the figures of fairness, and in the samples. Its processor time counts
// in the month in which the job used it. Runs of one window count all their jobs.
func TestCarriedJobsCountOnce(t *testing.T) {
	const second = 10 * 86400
	a, b := month("a", 5, 9, 1), month("b", 4, 5, 5)
	late := job("late", 4*86400, second+50, 100, "n1")
	for i := range b.Runs[0].Rows {
		r := &b.Runs[0].Rows[i]
		r.Submit, r.Start, r.End = r.Submit.Add(second*time.Second), r.Start.Add(second*time.Second), r.End.Add(second*time.Second)
	}
	a.Runs[0].Rows, b.Runs[0].Rows = append(a.Runs[0].Rows, late), append(b.Runs[0].Rows, late)
	b.Runs[0].Manifest.WindowStart = monday.Add(second * time.Second)
	c := mustCompare(t, Options{}, a, b)
	figure := func(key string, list []Metric) metrics.Float {
		return list[slices.IndexFunc(list, func(m Metric) bool { return m.Key == key })].Sets[1].Mean
	}
	p := c.Pairs[0].Periods
	if p == nil || p.Jobs[0] != 51 || p.Jobs[1] != 40 || p.Days[1] != 4 || p.Quantities[0].Mean[1] != 1830 || figure("mean_wait_s", c.Metrics) != 1830 {
		t.Errorf("mean wait %v, samples %+v", figure("mean_wait_s", c.Metrics), p)
	}
	want := "b: the waits of 1 job that waited when the window began do not count: each window counts the jobs that were submitted in it"
	if !slices.Contains(c.Warnings, want) {
		t.Errorf("warnings %q", c.Warnings)
	}
	same := mustCompare(t, Options{}, b, b)
	if got := figure("mean_wait_s", same.Metrics); got <= 1830 || slices.Contains(same.Warnings, want) {
		t.Errorf("runs of one window: mean wait %v, warnings %q", got, same.Warnings)
	}
	// Use of the machine counts for all jobs, until the last submission.
	last := slices.MaxFunc(b.Runs[0].Rows, func(x, y run.Row) int { return cmp.Compare(x.Submit, y.Submit) }).Submit
	until := metrics.NewSummary(b.Runs[0].Rows, b.Runs[0].Manifest, metrics.Options{To: last})
	for key, want := range map[string]metrics.Float{
		"throughput_jobs_per_h": until.ThroughputPerHour, "utilization": until.Utilization, "mean_queue_jobs": until.MeanQueue,
		"makespan_s": figure("makespan_s", same.Metrics),
	} {
		if got := figure(key, c.Metrics); got != want {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
	if all := figure("utilization", same.Metrics); all == until.Utilization {
		t.Errorf("utilization %v until the last submission and until the last end", all)
	}
	if figure("user_wait_gini", c.Fairness) == figure("user_wait_gini", same.Fairness) {
		t.Error("the job counts in the figures of fairness")
	}
}

// Of two windows, the first one may begin with the workload, so that it has no start. Jobs that are in both do not make
// the windows one workload. Their equal waits need no table, and no distance between the runs.
func TestFirstWindowWithoutStart(t *testing.T) {
	a, b := month("a", 5, 9, 1), month("b", 4, 5, 5)
	b.Runs[0].Manifest.WindowStart = monday.Add(10 * time.Second)
	for i := range 10 {
		late := job(fmt.Sprint("late", i), 5, 50, 100, "n1")
		a.Runs[0].Rows, b.Runs[0].Rows = append(a.Runs[0].Rows, late), append(b.Runs[0].Rows, late)
	}
	c := mustCompare(t, Options{}, a, b)
	var text strings.Builder
	if err := c.Render(&text, time.UTC); err != nil || c.Pairs[0].Periods == nil || c.Distances == nil {
		t.Fatalf("%v, samples %+v, distances %+v", err, c.Pairs[0].Periods, c.Distances)
	}
	for _, useless := range []string{"distances between runs", "  seconds"} {
		if strings.Contains(text.String(), useless) || !strings.Contains(text.String(), "job by job, B - A: 10 jobs on both sides, 50 and 40 on one only\n\n") {
			t.Errorf("it has %q:\n%s", useless, text.String())
		}
	}
	b.Runs[0].Rows[len(b.Runs[0].Rows)-1].Start = monday.Add(70 * time.Second)
	text.Reset()
	if err := mustCompare(t, Options{}, a, b).Render(&text, time.UTC); err != nil || !strings.Contains(text.String(), "  seconds") {
		t.Errorf("%v: a job has another wait, but there is no table:\n%s", err, text.String())
	}
}

// If a record does not have the machine's size, the text does not call it 0.
func TestPeriodsOfUnknownMachine(t *testing.T) {
	for size, want := range map[int]string{0: "of 96 processors, the most in use at once on either side (the size of the machine is not known)\n", 96: "of 96 processors\n"} {
		var b bytes.Buffer
		p := periods.Comparison{Jobs: []int{3, 4}, Days: []int{1, 1}, Load: []metrics.Float{0.5, 0.5}, Processors: []int{size, size}, Divisor: []int{96, 96}}
		if p.Render(&b, "A", "B"); !strings.Contains(b.String(), "A: 3 jobs on 1 day, offered load 50.0% "+want) {
			t.Errorf("%d: %s", size, b.String())
		}
		for _, says := range []string{"jobs: those whose value (such as the user) is on both sides", "A share above 100 % means"} {
			if !strings.Contains(b.String(), says) {
				t.Errorf("the text does not say %q: %s", says, b.String())
			}
		}
	}
}

// Two workloads number their jobs from 1. Their jobs are not the same, so they are two samples, and the text says so.
func TestEqualIDsOfDifferentJobs(t *testing.T) {
	sample := func(name string, seed uint64, jobs int) Set {
		random := rand.New(rand.NewPCG(seed, 1))
		var rows []run.Row
		for i := range jobs {
			at := i*600 + random.IntN(600)
			r := job(fmt.Sprintf("d%03d", i), at, at+random.IntN(900), 1+random.IntN(5000), "n1")
			r.User, r.AskedTasks, r.TimeLimit = fmt.Sprint("u", random.IntN(20)), 1+random.IntN(9), time.Duration(1+random.IntN(9))*time.Hour
			rows = append(rows, r)
		}
		return single(name, rows...)
	}
	a, b := sample("a", 1, 100), sample("b", 2, 80)
	a.Runs[0].Manifest.Workload.SHA256, b.Runs[0].Manifest.Workload.SHA256 = "1", "2"
	c := mustCompare(t, Options{}, a, b)
	p := &c.Pairs[0]
	if p.Periods == nil || p.Periods.Jobs[1] != 80 || p.Jobs.Matched != 0 || p.Jobs.EqualIDs != 80 || !slices.Equal(p.Jobs.Only, []int{100, 80}) {
		t.Fatalf("samples %+v, jobs %+v", p.Periods, p.Jobs)
	}
	const sentence = "80 IDs are in both A and B, but the jobs with equal IDs are different jobs: they differ in users, sizes, time limits and " +
		"submissions. So A and B are compared as two samples without common jobs. On average, jobs wait "
	if text := c.Answer(p); !strings.HasPrefix(text, sentence) {
		t.Errorf("%q", text)
	}
	if text := p.Agreement(); !strings.Contains(text, "equal IDs name different jobs") {
		t.Errorf("%q", text)
	}
	for _, text := range c.Warnings {
		if strings.Contains(text, "the same ID") {
			t.Errorf("a warning about jobs that are not compared: %q", text)
		}
	}
	b.Runs[0].Manifest.State = run.StateInterrupted
	c = mustCompare(t, Options{}, a, b)
	if text := c.Answer(&c.Pairs[0]); !strings.HasSuffix(text, "common jobs. No job starts in both A (a) and B (b).") {
		t.Errorf("an interrupted run is not why no job is in both: %q", text)
	}
	longer := sample("a", 1, 100) // a what-if of the first workload
	for i := range longer.Runs[0].Rows {
		longer.Runs[0].Rows[i].TimeLimit *= 2
	}
	if p := mustCompare(t, Options{}, a, longer).Pairs[0]; p.Periods != nil || p.Jobs.Matched != 100 || p.Jobs.EqualIDs != 0 {
		t.Errorf("jobs with other limits: samples %+v, jobs %+v", p.Periods, p.Jobs)
	}
}

// The offered load is that of workload info, also above the utilization, and without the jobs that wait when the window
// begins. An array's submission is in its first row.
func TestPeriodLoadIsOffered(t *testing.T) {
	const hour = 3600
	period := func(name string, begin int, carried bool) (Set, *workload.Workload) {
		var rows []run.Row
		w := &workload.Workload{Start: monday.Add(time.Duration(begin) * time.Second), MachineProcessors: 8}
		add := func(id string, submit, tasks int) {
			j := &hpc.Job{ID: id, Submit: monday.Add(time.Duration(submit) * time.Second)}
			j.RunTime = 2 * time.Hour
			if j.Request = (hpc.Request{Tasks: 4, TimeLimit: time.Hour}); tasks > 1 {
				j.Array = fmt.Sprintf("1-%d", tasks)
			}
			w.Jobs.Append(j)
			for task := range tasks {
				r := job(id, submit, submit+hour+begin*10+len(rows)*hour, hour, "n1")
				if r.Task = -1; tasks > 1 {
					r.Task = task + 1
				}
				if task == 0 {
					r.Request = string(run.EncodeJob(j))
				}
				rows = append(rows, r)
			}
		}
		if carried {
			add(name+"0", begin-hour, 1)
		}
		for i := range 6 {
			add(fmt.Sprint(name, i+1), begin+i*hour/2, 1+i%2*5)
		}
		rejected := job(name+"x", begin+3*hour, -1, 0, "")
		rejected.State = hpc.Rejected
		rows = append(rows, rejected)
		w.Jobs.Append(&hpc.Job{ID: name + "x", Submit: rejected.Submit})
		s := single(name, rows...)
		s.Runs[0].Manifest.Cluster.Processors, s.Runs[0].Manifest.WindowStart = 8, w.Start
		return s, w
	}
	a, first := period("a", 0, false)
	b, second := period("b", 10*86400, true)
	p := mustCompare(t, Options{}, a, b).Pairs[0].Periods
	if p == nil {
		t.Fatal("no samples")
	}
	for i, w := range []*workload.Workload{first, second} {
		if want := workload.NewInfo(w).OfferedLoad; math.Abs(float64(p.Load[i])-want) > 1e-6 || want < 3 {
			t.Errorf("side %d: offered load %v, want %v as of workload info", i, p.Load[i], want)
		}
	}
}
