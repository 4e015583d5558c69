package complete

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/jobjson"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/transform"
)

const start = hpc.Time(1_700_000_000_000_000_000)

// bare returns a workload of n jobs whose record has only sizes and times.
func bare(n int) *workload.Workload {
	rng := rand.New(rand.NewPCG(3, 4))
	w := &workload.Workload{Source: "bare", Epoch: start, MachineProcessors: 256}
	at := start
	for i := range n {
		at = at.Add(time.Duration(rng.IntN(1800)) * time.Second)
		run := time.Duration(30+rng.IntN(40_000)) * time.Second
		cpus := 1 << rng.IntN(6)
		begin := at.Add(time.Duration(rng.IntN(2)*rng.IntN(5000)) * time.Second)
		w.Jobs.Append(&hpc.Job{
			ID: fmt.Sprint(i), Submit: at, Request: hpc.Request{Tasks: cpus, MinNodes: (cpus + 15) / 16}, Behaviour: hpc.Behaviour{RunTime: run},
			Recorded: &hpc.Recorded{Start: begin, End: begin.Add(run), State: hpc.Completed, Processors: cpus},
		})
	}
	return w
}

// site has partitions and QOS with limits.
func site() workload.SiteFacts {
	return workload.SiteFacts{
		Processors: 256, HalfLife: jobjson.Seconds(7 * 24 * time.Hour), CountsMemory: true,
		Partitions: []workload.SitePartition{
			{Name: "batch", Default: true, Nodes: 16, NodeCPUs: 16, NodeMemory: 64_000, MaxTime: jobjson.Seconds(48 * time.Hour), QOS: []string{"normal", "short"}},
			{Name: "debug", Nodes: 2, NodeCPUs: 16, NodeMemory: 64_000, MaxTime: jobjson.Seconds(time.Hour)},
		},
		QOS: []workload.SiteQOS{{Name: "normal", MaxTime: jobjson.Seconds(24 * time.Hour)}, {Name: "short", MaxTime: jobjson.Seconds(time.Hour), Nodes: 2}},
	}
}

func completed(t *testing.T, w *workload.Workload, opts Options) *workload.Workload {
	t.Helper()
	out, err := Complete(w, opts)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestComplete: every lacking field is made within the site's limits, and the job names it. One
// seed gives one workload; another seed gives another, as a redraw with that seed does. The input
// does not change.
func TestComplete(t *testing.T) {
	w := bare(400)
	before := w.Jobs.Clone()
	opts := Options{Site: site(), Seed: 5}
	out := completed(t, w, opts)
	if !w.Jobs.Equal(before) {
		t.Error("the input has changed")
	}
	if !out.Jobs.Equal(completed(t, w, opts).Jobs) {
		t.Error("one seed makes two workloads")
	}
	for i, job := range out.Jobs.All() {
		made := workload.MadeFields(job)
		for _, f := range []workload.Field{"partition", "user", "account", "time_limit", "qos", "memory"} {
			if made[f] == "" {
				t.Fatalf("job %d: %s was not made: %s", i, f, job.Made)
			}
		}
		switch {
		case job.Partition != "batch" || job.User == "" || job.Account == "" || job.MemPerCPU <= 0 || job.MemPerCPU > 4000:
			t.Fatalf("job %d: %+v", i, job.Request)
		case job.TimeLimit < job.RunTime || job.TimeLimit > 24*time.Hour:
			t.Fatalf("job %d runs for %v and has a limit of %v (want at most that of QOS normal)", i, job.RunTime, job.TimeLimit)
		case job.QOS == "short" && (job.TimeLimit > time.Hour || job.MinNodes > 2):
			t.Fatalf("job %d with a limit of %v on %d nodes has QOS short", i, job.TimeLimit, job.MinNodes)
		}
	}
	if len(out.Usage) == 0 {
		t.Error("no usage before the window")
	}
	draw := func(seed uint64) func(int, workload.Field) uint64 {
		return func(int, workload.Field) uint64 { return seed }
	}
	again, err := Redraw(out, draw(5))
	if err != nil || !again.Jobs.Equal(out.Jobs) {
		t.Errorf("the same draw makes another workload: %v", err)
	}
	other, err := Redraw(out, draw(6))
	if err != nil || other.Jobs.Equal(out.Jobs) || !other.Jobs.Equal(completed(t, w, Options{Site: site(), Seed: 6}).Jobs) {
		t.Errorf("another draw is not the workload of its seed: %v", err)
	}
	if slices.Equal(out.Usage, other.Usage) {
		t.Error("another draw has the same usage")
	}
}

// TestOneFieldAtATime: a new draw of a field changes only that field and the fields that depend on
// it.
func TestOneFieldAtATime(t *testing.T) {
	out := completed(t, bare(200), Options{Site: site(), Seed: 1})
	depends := map[workload.Field][]workload.Field{"user": {"account", "usage"}, "account": {"usage"}, "time_limit": {"qos"}}
	value := func(job *hpc.Job, f workload.Field) any {
		return map[workload.Field]any{
			"partition": job.Partition, "user": job.User, "account": job.Account, "memory": job.MemPerCPU, "exclusive": job.Exclusive,
			"time_limit": job.TimeLimit, "qos": job.QOS,
		}[f]
	}
	for _, field := range []workload.Field{"user", "account", "memory", "time_limit", "qos", "exclusive"} {
		other, err := Redraw(out, func(_ int, f workload.Field) uint64 {
			if f == field {
				return 77
			}
			return 1
		})
		if err != nil {
			t.Fatal(err)
		}
		changed := 0
		for i, job := range other.Jobs.All() {
			old := out.Jobs.At(i)
			for _, f := range workload.Fields[:len(workload.Fields)-1] {
				if value(job, f) == value(old, f) {
					continue
				}
				if f != field && !slices.Contains(depends[field], f) {
					t.Fatalf("the draw of %s changes %s of job %d", field, f, i)
				}
				changed++
			}
		}
		if changed == 0 && field != "exclusive" { // no batch fills its nodes by chance alone
			t.Errorf("the draw of %s changes nothing", field)
		}
	}
}

// TestRecordedStays: rules do not replace recorded fields.
func TestRecordedStays(t *testing.T) {
	w := bare(50)
	for i, job := range w.Jobs.All() {
		if i%2 == 0 {
			job.TimeLimit, job.User = 7*time.Minute+time.Duration(i)*time.Second, "ann"
		}
		job.Account, job.QOS, job.MemPerNode = "physics", "long", 100
		w.Jobs.Set(i, job)
	}
	out := completed(t, w, Options{Site: site(), Seed: 1})
	for i, job := range out.Jobs.All() {
		if i%2 == 0 && (job.TimeLimit != w.Jobs.At(i).TimeLimit || job.User != "ann") || job.Account != "physics" || job.QOS != "long" || job.MemPerCPU != 0 {
			t.Fatalf("job %d: %+v", i, job.Request)
		}
		if _, made := workload.MadeFields(job)["time_limit"]; made != (i%2 == 1) {
			t.Errorf("job %d: made %q", i, job.Made)
		}
	}
	for _, f := range out.Completion.Fields {
		if f.Field == "time_limit" && f.Jobs != 25 || f.Field == "account" || f.Field == "qos" || f.Field == "memory" {
			t.Errorf("%+v", f)
		}
	}
}

// TestBatches: jobs of one size that follow one another have one user. In some draws they also have
// one limit; tasks of an array have one limit in all draws. A job that ended at its limit gives
// this limit to its batch.
func TestBatches(t *testing.T) {
	for _, array := range []string{"", "7_"} {
		t.Run("array "+array, func(t *testing.T) { testBatches(t, array) })
	}
}

func testBatches(t *testing.T, array string) {
	w := &workload.Workload{Source: "batches", Epoch: start, MachineProcessors: 64}
	add := func(after, run time.Duration, cpus int, state hpc.State) {
		at := start.Add(after)
		w.Jobs.Append(&hpc.Job{
			ID: fmt.Sprint(array, w.Jobs.Len()), Submit: at, Request: hpc.Request{Tasks: cpus}, Behaviour: hpc.Behaviour{RunTime: run},
			Recorded: &hpc.Recorded{Start: at, End: at.Add(run), State: state, Processors: cpus},
		})
	}
	for i := range 10 {
		add(time.Duration(i)*time.Minute, time.Duration(10+i)*time.Minute, 4, hpc.Completed)
	}
	add(11*time.Minute, 3605*time.Second, 8, hpc.TimedOut)
	add(12*time.Minute, 50*time.Minute, 8, hpc.Completed)
	w.Sort()
	failed := &workload.Workload{Source: "no TIMEOUT", Epoch: start, MachineProcessors: 64, Jobs: workload.JobsOf(w.Jobs.At(10))}
	failed.Jobs.Change(0, func(job *hpc.Job) { job.Recorded.State = hpc.Failed })
	if limit := completed(t, failed, Options{Seed: 1}).Jobs.At(0).TimeLimit; limit != time.Hour {
		t.Errorf("a job that failed after 3605 s has a limit of %v, want an hour", limit)
	}
	together := 0
	for seed := range uint64(40) {
		out := completed(t, w, Options{Seed: seed})
		first := out.Jobs.At(0)
		limits := map[time.Duration]bool{}
		for i := range 10 {
			job := out.Jobs.At(i)
			limits[job.TimeLimit] = true
			if job.User != first.User || job.TimeLimit < job.RunTime {
				t.Fatalf("job %d of the batch has %v and %s, the first %v and %s", i, job.TimeLimit, job.User, first.TimeLimit, first.User)
			}
		}
		a, b := out.Jobs.At(10), out.Jobs.At(11)
		if a.TimeLimit != time.Hour {
			t.Fatalf("TIMEOUT after 3605 s: a limit of %v, want an hour", a.TimeLimit)
		}
		if len(limits) == 1 && b.TimeLimit == time.Hour && first.TimeLimit >= 19*time.Minute {
			together++
		}
	}
	if array != "" && together != 40 || array == "" && (together < 5 || together > 35) {
		t.Errorf("the batches have one limit each in %d of 40 draws", together)
	}
}

// TestTimedOut: a job in TIMEOUT without a known run time, as sacct records it, gets the time from
// its start to its end as its limit.
func TestTimedOut(t *testing.T) {
	w := &workload.Workload{Source: "sacct", Epoch: start, MachineProcessors: 64, Jobs: workload.JobsOf(&hpc.Job{
		ID: "1", Submit: start, Request: hpc.Request{Tasks: 4}, Behaviour: hpc.Behaviour{RunTime: hpc.Unlimited},
		Recorded: &hpc.Recorded{Start: start, End: start.Add(1801 * time.Second), State: hpc.TimedOut, Processors: 4},
	})}
	for seed := range uint64(10) {
		if limit := completed(t, w, Options{Seed: seed}).Jobs.At(0).TimeLimit; limit != 30*time.Minute {
			t.Fatalf("seed %d: a limit of %v, want half an hour", seed, limit)
		}
	}
}

// TestTimedOutAgain: a job that was recorded in TIMEOUT with a run time is ended by the made limit,
// and a failed job is not. Removing the made fields restores the run time.
func TestTimedOutAgain(t *testing.T) {
	job := func(id string, state hpc.State) *hpc.Job {
		return &hpc.Job{
			ID: id, Submit: start, Request: hpc.Request{Tasks: 4}, Behaviour: hpc.Behaviour{RunTime: 1820 * time.Second, ExitCode: 1},
			Recorded: &hpc.Recorded{Start: start, End: start.Add(1820 * time.Second), State: state, Processors: 4},
		}
	}
	array := job("3", "")
	array.Array, array.TaskRunTimes = "1-2", map[int]time.Duration{2: time.Minute}
	array.Recorded.TaskStarts = map[int]hpc.Time{1: start, 2: start}
	array.Recorded.TaskEnds = map[int]hpc.Time{1: start.Add(1820 * time.Second), 2: start.Add(time.Minute)}
	array.Recorded.TaskStates = map[int]hpc.State{1: hpc.TimedOut, 2: hpc.Failed}
	w := &workload.Workload{Source: "table", Epoch: start, MachineProcessors: 64, Jobs: workload.JobsOf(job("1", hpc.TimedOut), job("2", hpc.Failed), array)}
	made := completed(t, w, Options{Seed: 3})
	one, two, tasks := made.Jobs.At(0), made.Jobs.At(1), made.Jobs.At(2)
	for _, timedOut := range []struct {
		run, limit time.Duration
	}{{one.RunTime, one.TimeLimit}, {tasks.RunTimeOf(1), tasks.TimeLimit}} {
		if timedOut.run != hpc.Unlimited || timedOut.limit != 30*time.Minute {
			t.Errorf("a job in TIMEOUT runs for %v, and its limit is %v; want half an hour to end it", timedOut.run, timedOut.limit)
		}
	}
	if two.RunTime != 1820*time.Second || tasks.RunTimeOf(2) != time.Minute {
		t.Errorf("jobs that failed run for %v and %v", two.RunTime, tasks.RunTimeOf(2))
	}
	if again := cleared(made); !again.Jobs.Equal(w.Jobs) {
		t.Errorf("without what was made: %+v, want %+v", again.Jobs.List()[0].Behaviour, w.Jobs.List()[0].Behaviour)
	}
}

// TestImplied: a job overtook a larger job. Even if a longer limit was drawn, its limit lets it end
// before the larger job's reservation.
func TestImplied(t *testing.T) {
	w := &workload.Workload{Source: "implied", Epoch: start, MachineProcessors: 10}
	add := func(submit, begin, run time.Duration, cpus int, state hpc.State) {
		w.Jobs.Append(&hpc.Job{
			ID: fmt.Sprint(w.Jobs.Len()), Submit: start.Add(submit), Request: hpc.Request{Tasks: cpus}, Behaviour: hpc.Behaviour{RunTime: run},
			Recorded: &hpc.Recorded{Start: start.Add(begin), End: start.Add(begin + run), State: state, Processors: cpus},
		})
	}
	const hour = time.Hour
	add(0, 0, 4*hour, 8, hpc.TimedOut)               // ends at its limit of 4 hours
	add(hour/2, 4*hour, hour, 10, hpc.Completed)     // waits for the first job
	add(hour, hour, 5*time.Minute, 2, hpc.Completed) // overtakes the second job
	long := 0
	for seed := range uint64(50) {
		m := newMaker(w, &workload.Completion{})
		m.rng = rand.New(rand.NewPCG(seed, 1))
		if drawn, err := m.drawLimits("uniform"); err == nil && drawn(&m.facts[2]) > 3*hour {
			long++
		}
		if limit := completed(t, w, Options{Seed: seed, Rules: map[workload.Field]string{"time_limit": "uniform"}}).Jobs.At(2).TimeLimit; limit > 3*hour {
			t.Fatalf("seed %d: a limit of %v, and the reservation is in 3 hours", seed, limit)
		}
	}
	if long == 0 {
		t.Error("no draw was longer than 3 hours, so the test shows nothing")
	}
}

// TestQOSOfManyJobs: jobs that ran at the same time do not get a QOS that allows a user one running
// job. Three jobs submitted together do not get a QOS that allows a user two submitted jobs.
func TestQOSOfManyJobs(t *testing.T) {
	facts := site()
	facts.Partitions[0].QOS = nil
	facts.QOS = []workload.SiteQOS{{Name: "one", Running: 1}, {Name: "two", Submitted: 2}, {Name: "any"}}
	batch := func(starts ...int) *workload.Workload {
		w := &workload.Workload{Source: "b", Epoch: start}
		for i, at := range starts {
			begin := start.Add(time.Duration(at) * time.Second)
			w.Jobs.Append(&hpc.Job{
				ID: fmt.Sprint(i), Submit: start, Request: hpc.Request{Tasks: 4}, Behaviour: hpc.Behaviour{RunTime: time.Minute},
				Recorded: &hpc.Recorded{Start: begin, End: begin.Add(time.Minute), State: hpc.Completed},
			})
		}
		return w
	}
	for _, c := range []struct {
		w    *workload.Workload
		want string
	}{{batch(0), "[any one two]"}, {batch(0, 60), "[any one two]"}, {batch(0, 30), "[any two]"}, {batch(0, 60, 120), "[any one]"}, {batch(0, 1, 2), "[any]"}} {
		seen := map[string]bool{}
		for seed := range uint64(60) {
			for _, job := range completed(t, c.w, Options{Site: facts, Seed: seed}).Jobs.All() {
				seen[job.QOS] = true
			}
		}
		if got := fmt.Sprint(slices.Sorted(maps.Keys(seen))); got != c.want {
			t.Errorf("%d jobs have the QOS %s, want %s", c.w.Jobs.Len(), got, c.want)
		}
	}
}

// TestQOSOfSeveralBatches: two batches of a user that ran at the same time do not both get a QOS
// that allows one running job. Batches that ran one after the other may get it.
func TestQOSOfSeveralBatches(t *testing.T) {
	facts := site()
	facts.Partitions[0].QOS = nil
	facts.QOS = []workload.SiteQOS{{Name: "one", Running: 1}, {Name: "two", Submitted: 2}, {Name: "any"}}
	const length = 3 * time.Hour
	for _, gap := range []time.Duration{time.Hour, 4 * time.Hour} {
		w := &workload.Workload{Source: "b", Epoch: start}
		for i := range 12 {
			begin := start.Add(time.Duration(i) * gap)
			w.Jobs.Append(&hpc.Job{
				ID: fmt.Sprint(i), Submit: begin, Request: hpc.Request{Tasks: 4}, Behaviour: hpc.Behaviour{RunTime: length},
				Recorded: &hpc.Recorded{Start: begin, End: begin.Add(length), State: hpc.Completed},
			})
		}
		seen := map[string]bool{}
		for seed := range uint64(60) {
			out := completed(t, w, Options{Site: facts, Seed: seed, Rules: map[workload.Field]string{"user": "ada"}})
			for i, job := range out.Jobs.All() {
				seen[job.QOS] = true
				others := 0
				for k, other := range out.Jobs.All() {
					if k < i && other.QOS == job.QOS && other.Recorded.End > job.Submit {
						others++
					}
				}
				if job.QOS == "one" && others > 0 || job.QOS == "two" && others > 1 {
					t.Fatalf("gap %v, seed %d: job %d has the QOS %s beside %d others", gap, seed, i, job.QOS, others)
				}
			}
		}
		if len(seen) != 3 {
			t.Errorf("gap %v: the QOS %v, want all three", gap, seen)
		}
	}
}

// TestLike: a workload completed from a log has the log's users and similar limits.
func TestLike(t *testing.T) {
	log := bare(300)
	for i, job := range log.Jobs.All() {
		job.TimeLimit, job.User = 3*job.RunTime, []string{"ann", "bob", "ann"}[i%3]
		log.Jobs.Set(i, job)
	}
	out := completed(t, bare(300), Options{Like: Learn(log), Seed: 2})
	users := map[string]bool{}
	ratio := 0.0
	for _, job := range out.Jobs.All() {
		users[job.User] = true
		ratio += job.TimeLimit.Seconds() / job.RunTime.Seconds() / 300
	}
	if len(users) != 2 || ratio < 1.5 || ratio > 6 {
		t.Errorf("%d users, limits of %.1f times the run time; want 2 and about 3", len(users), ratio)
	}
}

// TestSeldomMemory: if few jobs ask for memory, rules make the memory of the other jobs. They do
// not if another option of a job shows that the record has whole command lines.
func TestSeldomMemory(t *testing.T) {
	for _, c := range []struct {
		asking int
		option bool
		want   int
	}{{4, false, 56}, {4, true, 0}, {31, false, 0}, {0, true, 60}} {
		w := bare(60)
		for i, job := range w.Jobs.All() {
			if i < c.asking {
				job.MemPerNode = 700
			}
			if i == 59 && c.option {
				job.Exclude = "n1"
			}
			w.Jobs.Set(i, job)
		}
		made := 0
		for i, job := range completed(t, w, Options{Site: site()}).Jobs.All() {
			if workload.MadeFields(job)["memory"] != "" {
				made++
			}
			if i < c.asking && (job.MemPerNode != 700 || job.MemPerCPU != 0) {
				t.Errorf("%+v: job %d asked for memory, and has %+v", c, i, job.Request)
			}
		}
		if made != c.want {
			t.Errorf("%+v: memory was made for %d jobs", c, made)
		}
	}
}

// TestRules: rules with values give the jobs these values. The errors for wrong rules list the
// right rules, or name the data that the rule lacks.
func TestRules(t *testing.T) {
	for text, want := range map[string]func(*hpc.Job) bool{
		"time-limit=4h":            func(j *hpc.Job) bool { return j.TimeLimit == max(4*time.Hour, wholeMinutes(j.RunTime)) },
		"time_limit=x2":            func(j *hpc.Job) bool { return j.TimeLimit >= 2*j.RunTime && j.TimeLimit < 2*j.RunTime+2*time.Minute },
		"time_limit=run-time":      func(j *hpc.Job) bool { return j.TimeLimit == wholeMinutes(j.RunTime) },
		"time_limit=max":           func(j *hpc.Job) bool { return j.TimeLimit == 24*time.Hour },
		"time_limit=none":          func(j *hpc.Job) bool { return j.TimeLimit == 0 },
		"user=ann":                 func(j *hpc.Job) bool { return j.User == "ann" },
		"qos=normal:3,long:1":      func(j *hpc.Job) bool { return j.QOS == "normal" || j.QOS == "long" },
		"partition=debug":          func(j *hpc.Job) bool { return j.Partition == "debug" },
		"memory=1500":              func(j *hpc.Job) bool { return j.MemPerCPU == 1500 },
		"account=physics,chem:0.5": func(j *hpc.Job) bool { return j.Account == "physics" || j.Account == "chem" },
	} {
		field, rule, err := ParseRule(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for _, job := range completed(t, bare(60), Options{Site: site(), Rules: map[workload.Field]string{field: rule}}).Jobs.All() {
			if !want(job) {
				t.Errorf("%s: %+v", text, job.Request)
				break
			}
		}
	}
	for text, want := range map[string]string{
		"limit=4h": "not FIELD=RULE with one of the fields", "time_limit": "not FIELD=RULE", "time_limit=often": "not a rule of the field (want published",
		"user=a:0": "not a rule of the field", "exclusive=ann": "(want full-nodes, none)", "memory=-5": "MiB for a CPU",
	} {
		if _, _, err := ParseRule(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{"time_limit=like": "no log to learn from", "exclusive=full-nodes": "want --cluster", "usage=stationary": "half-life", "qos=fitting": "QOS are not known"} {
		field, rule, _ := ParseRule(text)
		if _, err := Complete(bare(5), Options{Rules: map[workload.Field]string{field: rule}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestAssociations: the commands let each made user use its account and the site's QOS, and create
// the QOS that the site lacks.
func TestAssociations(t *testing.T) {
	nobody := func(string, string) bool { return false }
	out := completed(t, bare(100), Options{Site: site(), Seed: 1})
	commands := Associations(out, nil, map[string]bool{"normal": true, "short": true}, nobody)
	for _, job := range out.Jobs.All() {
		for _, want := range []string{"add account name=" + job.Account + " parent=root QOS=normal,short\n", "add user name=" + job.User + " account=" + job.Account + "\n"} {
			if strings.Count(commands, want) != 1 {
				t.Fatalf("%q is not once in\n%s", want, commands)
			}
		}
	}
	if strings.Contains(commands, "qos name") {
		t.Errorf("QOS that the site has are made:\n%s", commands)
	}
	for _, rules := range []map[workload.Field]string{{"qos": "long"}, {"qos": "long", "user": None, "account": None}} {
		commands = Associations(completed(t, bare(9), Options{Rules: rules}), nil, map[string]bool{"normal": true}, nobody)
		if strings.Count(commands, "add qos name=long\nmodify account where name=root set qoslevel+=long\n") != 1 ||
			strings.Count(commands, " QOS=long\n") != strings.Count(commands, "add account") {
			t.Errorf("%v: the site has no QOS long:\n%s", rules, commands)
		}
	}
	if Associations(bare(3), nil, nil, nobody) != "" {
		t.Error("commands for a workload in which nothing was made")
	}
	ada := completed(t, bare(3), Options{Rules: map[workload.Field]string{"user": "Ada", "account": "physics"}})
	if commands = Associations(ada, map[string]bool{"physics": true}, nil, func(user, account string) bool {
		return user == "Ada" && account == "physics"
	}); commands != "" {
		t.Errorf("the site has the user in the account:\n%s", commands)
	}
}

// TestNodes: jobs that ran when the window began get as many nodes as they had. The nodes belong to
// the job's partition, are in service, and have room beside the jobs with recorded nodes. Jobs that
// do not fit are left out and counted.
func TestNodes(t *testing.T) {
	facts := site()
	facts.Partitions[0].NodeList, facts.Partitions[1].NodeList = "b[1-16]", "d[1-2]"
	running := func(id, nodes string, n, cpus int) *hpc.Job {
		return &hpc.Job{ID: id, Submit: start, Request: hpc.Request{User: "ann", Partition: "batch", Tasks: cpus, MinNodes: n},
			Behaviour: hpc.Behaviour{RunTime: 20 * time.Hour},
			Recorded:  &hpc.Recorded{Start: start.Add(time.Minute), End: start.Add(20 * time.Hour), State: hpc.Completed, Nodes: nodes, Processors: cpus}}
	}
	w := &workload.Workload{Source: "window", Epoch: start, Start: start.Add(time.Hour), Jobs: workload.JobsOf(
		running("known", "b[3-6]", 4, 64), running("a", "", 5, 80), running("b", "", 4, 64), running("half", "", 1, 8), running("third", "", 1, 5),
		running("large", "", 4, 64),
	)}
	w.NodeEvents = []hpc.NodeEvent{{At: start, Nodes: "b16", State: "down"}}
	out := completed(t, w, Options{Site: facts, Seed: 1})
	if w.Jobs.At(1).Recorded.Nodes != "" {
		t.Error("the input has changed")
	}
	used, counts := map[string]int{}, map[string]int{}
	for _, job := range out.Jobs.All() {
		names, err := hostlist.Expand(job.Recorded.Nodes)
		if err != nil || len(names) != job.MinNodes {
			t.Fatalf("job %s is on %q: %v", job.ID, job.Recorded.Nodes, err)
		}
		counts[job.ID] = len(names)
		for _, name := range names {
			if used[name] += job.Tasks / job.MinNodes; used[name] > 16 || name[0] != 'b' || name == "b16" {
				t.Errorf("job %s is on %s, which has %d CPUs in use", job.ID, name, used[name])
			}
		}
		if got := workload.MadeFields(job)[workload.FieldNodes]; (got == "free") != (job.ID != "known") {
			t.Errorf("job %s: nodes by %q", job.ID, got)
		}
	}
	if len(counts) != 5 || counts["large"] != 0 || out.Rules[workload.RuleLeftRunning] != 1 || w.Rules != nil {
		t.Errorf("jobs %v, rules %v; want all but large", counts, out.Rules)
	}
	same := completed(t, w, Options{Site: facts, Seed: 1})
	other, err := Redraw(out, func(int, workload.Field) uint64 { return 9 })
	if err != nil || !same.Jobs.Equal(out.Jobs) || other.Jobs.Equal(out.Jobs) || other.Jobs.Len() != 5 {
		t.Errorf("draws do not follow their seed: %v", err)
	}
	if left := completed(t, w, Options{Seed: 1}); left.Jobs.Len() != 1 || !strings.HasPrefix(workload.LeftRunning(left.Rules), "5 jobs with ") {
		t.Errorf("without the site %d jobs, rules %v; want the job with nodes", left.Jobs.Len(), left.Rules)
	}
}

// TestPlace: a window that is cut from a completed workload keeps the jobs that run when it begins,
// gives them nodes, and keeps the other made fields.
func TestPlace(t *testing.T) {
	facts := site()
	facts.Partitions[0].NodeList = "b[1-16]"
	w := completed(t, bare(400), Options{Site: facts, Seed: 1})
	running, from := 0, w.Jobs.At(200).Recorded.Start.Add(time.Second)
	for _, job := range w.Jobs.All() {
		if r := job.Recorded; r.Start < from && r.End > from {
			running++
		}
	}
	cut, err := transform.Window(from, 0)
	if err != nil {
		t.Fatal(err)
	}
	out, results, err := transform.Apply(w, transform.Environment{Place: Place}, cut)
	if err != nil {
		t.Fatal(err)
	}
	placed := 0
	for _, job := range out.Jobs.All() {
		if out.Preset(job) {
			placed++
			if made := workload.MadeFields(job); made[workload.FieldNodes] != "free" || made[workload.FieldUser] == "" {
				t.Errorf("job %s: made %q", job.ID, job.Made)
			}
		}
	}
	if running == 0 || placed+out.Rules[workload.RuleLeftRunning] != running || placed < running/2 {
		t.Errorf("%d ran, %d have nodes, rules %v: %+v", running, placed, out.Rules, results)
	}
	again, err := Redraw(out, func(_ int, f workload.Field) uint64 { return map[workload.Field]uint64{workload.FieldNodes: 5}[f] })
	if err != nil || again.Jobs.Equal(out.Jobs) {
		t.Errorf("the nodes are not drawn again: %v", err)
	}
	if err := out.Completion.Check(); err != nil {
		t.Error(err)
	}
}

// TestUsageOfPreset checks that a user's made usage is at least the usage of the user's preset
// jobs up to the window's begin: a resource manager cannot start with less.
func TestUsageOfPreset(t *testing.T) {
	const begin = hpc.Time(100 * 24 * time.Hour)
	job := func(id, user string, from, run time.Duration) *hpc.Job {
		j := &hpc.Job{ID: id, Request: hpc.Request{User: user, Account: "a", Tasks: 4}, Submit: begin.Add(from - time.Minute)}
		j.RunTime = run
		j.Recorded = &hpc.Recorded{Start: begin.Add(from), End: begin.Add(from + run), State: hpc.Completed, Nodes: "n1", Processors: 8}
		return j
	}
	w := &workload.Workload{Source: "a test", Epoch: begin.Add(-10 * 24 * time.Hour), Start: begin, Jobs: workload.JobsOf(
		job("1", "ann", -9*24*time.Hour, 9*24*time.Hour+time.Minute), job("2", "bob", -time.Hour, 2*time.Hour), job("3", "ann", time.Hour, time.Hour))}
	for seed := range uint64(20) {
		out := completed(t, w, Options{Site: site(), Seed: seed})
		used := map[string]float64{}
		for _, u := range out.Usage {
			used[u.User] += u.Raw
		}
		for i, job := range w.Jobs.All() {
			if !w.Preset(job) {
				continue
			}
			if least := workload.PresetUsage(job, begin, time.Duration(site().HalfLife)); used[job.User] < least {
				t.Errorf("seed %d, job %d: usage %.0f of %s, whose preset job has %.0f", seed, i, used[job.User], job.User, least)
			}
		}
	}
}

// TestUnknownState: a job whose state is unknown never gets a limit below its run time, though its run
// time is close to a popular limit or to the limit that ended another job of its batch.
func TestUnknownState(t *testing.T) {
	for _, first := range []hpc.State{"", hpc.Failed, hpc.TimedOut} {
		for _, recorded := range []bool{true, false} {
			w := bare(4)
			for i := range w.Jobs.Len() {
				job := w.Jobs.At(i)
				job.Submit, job.Tasks, job.MinNodes = start.Add(time.Duration(i)*time.Minute), 4, 1
				job.RunTime = time.Hour + time.Duration(40*i)*time.Second
				*job.Recorded = hpc.Recorded{Start: job.Submit, End: job.Submit.Add(job.RunTime), Processors: 4}
				switch {
				case i == 0:
					job.Recorded.State = first
				case !recorded:
					job.Recorded = nil
				}
				w.Jobs.Set(i, job)
			}
			for _, r := range Rules {
				if r.Field != workload.FieldTimeLimit || r.Name == "like" {
					continue
				}
				for seed := range uint64(10) {
					out := completed(t, w, Options{Seed: seed, Rules: map[workload.Field]string{r.Field: r.Name, "user": "ada"}})
					for i, job := range out.Jobs.All() {
						if i > 0 && job.TimeLimit < job.RunTime {
							t.Fatalf("%s, seed %d, job %d after a job of state %q: a limit of %v, and it ran for %v", r.Name, seed, i, first,
								job.TimeLimit, job.RunTime)
						}
					}
				}
			}
		}
	}
}

// TestFitting: the rule fitting of partitions, and named partitions, choose only partitions that can
// run the job.
func TestFitting(t *testing.T) {
	node := func(cpus int, memory int64, gres []hpc.GRES, features ...string) *hpc.Node {
		return &hpc.Node{CPUs: cpus, RealMemory: memory, GRES: gres, Features: features}
	}
	facts := workload.SiteFacts{Partitions: []workload.SitePartition{
		{Name: "batch", Default: true, Nodes: 4}, {Name: "gpu", Nodes: 3}, {Name: "large", Nodes: 10},
	}}
	for i, nodes := range [][]*hpc.Node{
		slices.Repeat([]*hpc.Node{node(16, 64_000, nil, "cascade")}, 4),
		{node(32, 128_000, []hpc.GRES{{Name: "gpu", Type: "a100", Count: 4}}, "ice"), node(32, 128_000, []hpc.GRES{{Name: "gpu", Type: "v100", Count: 2}}),
			node(32, 128_000, []hpc.GRES{{Name: "gpu", Type: "v100", Count: 2}})},
		append(slices.Repeat([]*hpc.Node{node(64, 512_000, nil, "ice", "fast")}, 9), node(64, 2_000_000, []hpc.GRES{{Name: "nvme", Count: 1}}, "ice")),
	} {
		for _, n := range nodes {
			facts.Partitions[i].AddNode(n)
		}
	}
	if kinds := facts.Partitions[1].Kinds; len(kinds) != 2 || kinds[1].Nodes != 2 || kinds[1].GRES[0] != "gpu:v100:2" {
		t.Errorf("%+v", kinds)
	}
	for _, c := range []struct {
		request hpc.Request
		want    string
	}{
		{hpc.Request{Tasks: 4}, "batch"},
		{hpc.Request{Tasks: 4, GRES: "gpu:1"}, "gpu"},
		{hpc.Request{Tasks: 4, GRES: "gpu:a100:4"}, "gpu"},
		{hpc.Request{Tasks: 4, GRES: "gpu:a100:4", MinNodes: 2}, ""}, // one node has them
		{hpc.Request{Tasks: 4, GRES: "gpu:a100:5"}, ""},
		{hpc.Request{Tasks: 4, GRES: "gpu:h100:1"}, ""},
		{hpc.Request{Tasks: 4, GRES: "gres:nvme:1"}, "large"},
		{hpc.Request{Tasks: 4, GRES: "nvme:1,gpu:1"}, ""},
		{hpc.Request{Tasks: 4, GPUs: "8"}, "gpu"},
		{hpc.Request{Tasks: 4, GPUs: "9"}, ""},
		{hpc.Request{Tasks: 4, GPUs: "v100:4"}, "gpu"},
		{hpc.Request{Tasks: 4, GPUs: "v100:3", MinNodes: 1, MaxNodes: 1}, ""},
		{hpc.Request{Tasks: 4, GPUsPerNode: "a100:1"}, "gpu"},
		{hpc.Request{Tasks: 4, GPUsPerTask: "2"}, "gpu"},
		{hpc.Request{Tasks: 4, GPUsPerTask: "3"}, ""},
		{hpc.Request{Tasks: 4, GPUsPerSocket: "1"}, "gpu"},
		{hpc.Request{Tasks: 4, TasksPerGPU: 1}, "gpu"},
		{hpc.Request{Tasks: 1, GPUs: "1", CPUsPerGPU: 33, MinNodes: 1}, ""},
		{hpc.Request{Tasks: 1, GPUs: "1", MemPerGPU: 200_000}, ""},
		{hpc.Request{Tasks: 4, Constraint: "ice"}, "gpu"},
		{hpc.Request{Tasks: 4, Constraint: "cascade|ice"}, "batch"},
		{hpc.Request{Tasks: 4, Constraint: "ice&(cascade|fast)"}, "large"},
		{hpc.Request{Tasks: 4, Constraint: "ice", GPUs: "1"}, "gpu"},
		{hpc.Request{Tasks: 4, Constraint: "[ice*10]"}, "large"},
		{hpc.Request{Tasks: 4, Constraint: "[ice*11]"}, ""},
		{hpc.Request{Tasks: 4, Constraint: "sky"}, ""},
		{hpc.Request{Tasks: 4, MemPerNode: 200_000}, "large"},
		{hpc.Request{Tasks: 4, MemPerNode: 1_000_000, MinNodes: 2}, ""},
		{hpc.Request{Tasks: 4, MemPerNode: hpc.AllMemory}, "batch"},
		{hpc.Request{Tasks: 64, MemPerCPU: 8_000}, "large"}, // 8 CPUs on each node of batch
		{hpc.Request{Tasks: 65}, "gpu"},
		{hpc.Request{Tasks: 97}, "large"},
		{hpc.Request{Tasks: 20, MinNodes: 1, MaxNodes: 1}, "gpu"},
		{hpc.Request{Tasks: 20, MinNodes: 1}, "batch"}, // on two nodes
		{hpc.Request{Tasks: 64, MinNodes: 1}, "batch"}, // on all four nodes
		{hpc.Request{Tasks: 20, MaxNodes: 1}, "gpu"},
		{hpc.Request{Tasks: 33, MinNodes: 1, MaxNodes: 2}, "gpu"},
		{hpc.Request{Tasks: 2, CPUsPerTask: 48}, "large"}, // no task on two nodes
		{hpc.Request{Tasks: 5, MinNodes: 5}, "large"},
		{hpc.Request{Tasks: 5, MinNodes: 11}, ""},
	} {
		for _, rule := range []string{"fitting", "batch,gpu,large"} {
			w := &workload.Workload{Source: "one", Epoch: start}
			plain := hpc.Job{ID: "0", Submit: start, Request: hpc.Request{Tasks: max(c.request.Tasks, 1), MinNodes: c.request.MinNodes},
				Behaviour: hpc.Behaviour{RunTime: time.Hour}}
			job := plain
			job.ID, job.Submit, job.Request = "1", start.Add(time.Minute), c.request
			w.Jobs.Append(&plain)
			w.Jobs.Append(&job)
			for seed := range uint64(5) {
				out := completed(t, w, Options{Site: facts, Seed: seed, Rules: map[workload.Field]string{workload.FieldPartition: rule}})
				got := out.Jobs.At(1).Partition
				if able := (&fact{need: needOf(&c.request, workload.CPUs(&c.request))}); rule != "fitting" && c.want != "" {
					for i := range facts.Partitions {
						if p := &facts.Partitions[i]; p.Name == got && !able.need.fits(p) {
							t.Errorf("%+v: %s, of %s", c.request, got, rule)
						}
					}
				} else if rule == "fitting" && got != c.want {
					t.Errorf("%+v: %q, want %q", c.request, got, c.want)
				}
			}
		}
	}
}

// TestFittingMaxNodes: a job gets no more nodes than the partition's MaxNodes. The kinds of the nodes need not be known.
func TestFittingMaxNodes(t *testing.T) {
	for _, kinds := range []bool{true, false} {
		p := workload.SitePartition{Name: "debug", Nodes: 36, NodeCPUs: 32, MaxNodes: 4}
		for range p.Nodes * map[bool]int{true: 1}[kinds] {
			p.AddNode(&hpc.Node{CPUs: 32, RealMemory: 1000})
		}
		for _, c := range []struct {
			request hpc.Request
			want    bool
		}{
			{hpc.Request{Tasks: 128, MinNodes: 1}, true},
			{hpc.Request{Tasks: 129, MinNodes: 1}, false},
			{hpc.Request{Tasks: 4, MinNodes: 4, MaxNodes: 8}, true},
			{hpc.Request{Tasks: 5, MinNodes: 5}, false},
			{hpc.Request{Tasks: 65, MinNodes: 1, MaxNodes: 2}, false},
		} {
			n := needOf(&c.request, workload.CPUs(&c.request))
			if got := n.fits(&p); got != c.want {
				t.Errorf("kinds known: %t, %d tasks on %d to %d nodes: %t", kinds, c.request.Tasks, c.request.MinNodes,
					c.request.MaxNodes, got)
			}
		}
	}
}

// TestJobByJob: rules make partitions, accounts and QOS for the jobs that lack them, even if other jobs have them. A
// user keeps the account that the record has. A rule of the options makes memory for the jobs that lack it.
func TestJobByJob(t *testing.T) {
	w := bare(6)
	for i, job := range w.Jobs.All() {
		job.User = "ada"
		if i == 2 {
			job.Partition, job.Account, job.QOS, job.MemPerCPU = "batch", "physics", "normal", 7
		}
		w.Jobs.Set(i, job)
	}
	out := completed(t, w, Options{Site: site(), Rules: map[workload.Field]string{workload.FieldMemory: "100"}})
	for i, job := range out.Jobs.All() {
		memory := map[bool]int64{true: 7, false: 100}[i == 2]
		if job.Partition != "batch" || job.Account != "physics" || job.QOS == "" || job.MemPerCPU != memory {
			t.Errorf("job %d: partition %q, account %q, QOS %q, %d MiB", i, job.Partition, job.Account, job.QOS, job.MemPerCPU)
		}
	}
	for _, f := range out.Completion.Fields {
		if f.Field == workload.FieldPartition && f.Jobs != 5 {
			t.Errorf("%s: %d jobs", f.Field, f.Jobs)
		}
	}
	if lacks := workload.Lacks(w); lacks[0].Text(6) != "partition (5 of 6 jobs)" {
		t.Errorf("%+v", lacks)
	}
}
