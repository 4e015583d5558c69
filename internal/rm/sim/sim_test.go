package sim_test

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/sim/policy"
)

const epoch = 1_000_000 * hpc.Second

// at is an instant of the tests, in seconds from their beginning.
func at(s int) hpc.Time { return epoch.Add(time.Duration(s) * time.Second) }

// job is a job of n processors for run seconds, with limit seconds at most.
func job(id string, submit, n, run, limit int, change ...func(*hpc.Job)) *hpc.Job {
	j := &hpc.Job{ID: id, Submit: at(submit)}
	j.User, j.Tasks = "ada", n
	j.RunTime, j.TimeLimit = time.Duration(run)*time.Second, time.Duration(limit)*time.Second
	for _, c := range change {
		c(j)
	}
	return j
}

// input is something that happens from outside.
type input struct {
	at    hpc.Time
	apply func(*sim.Engine) error
}

func submissions(jobs []*hpc.Job) []input {
	var list []input
	for _, j := range jobs {
		list = append(list, input{j.Submit, func(e *sim.Engine) error { return e.Submit(j) }})
		if j.CancelAfter > 0 {
			list = append(list, input{j.Submit.Add(j.CancelAfter), func(e *sim.Engine) error { return e.Do(rm.Command{Kind: rm.Cancel, Job: j.ID}) }})
		}
	}
	return list
}

// tb is what testing.T and rapid.T have in common.
type tb interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// play runs a simulation to its end, in steps of at most step, and returns all events.
func play(t tb, cfg sim.Config, inputs []input, step time.Duration) []rm.Event {
	t.Helper()
	cfg.Epoch = epoch
	e, err := sim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	inputs = slices.Clone(inputs)
	slices.SortStableFunc(inputs, func(a, b input) int { return int(a.at/hpc.Second - b.at/hpc.Second) })
	var all []rm.Event
	for {
		for len(inputs) > 0 && inputs[0].at <= e.Now() {
			if err := inputs[0].apply(e); err != nil {
				t.Fatal(err)
			}
			inputs = inputs[1:]
		}
		until := at(1_000_000)
		if len(inputs) > 0 {
			until = inputs[0].at
		}
		if until = min(until, e.Now().Add(step)); e.Now() == at(1_000_000) {
			return all
		}
		events, err := e.AdvanceTo(context.Background(), until)
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range events {
			if ev.At != e.Now() {
				t.Fatalf("at %s there is an event of %s", e.Now(), ev.At)
			}
			if ev.Outcome != nil { // the engine will write over it
				outcome := *ev.Outcome
				ev.Outcome = &outcome
			}
			all = append(all, ev)
		}
	}
}

// story is what happened, one line an event: "10 started a on n1".
func story(events []rm.Event) string {
	var b strings.Builder
	for _, ev := range events {
		fmt.Fprintf(&b, "%g %s", ev.At.Sub(epoch).Seconds(), ev.Kind)
		if ev.Job != "" {
			fmt.Fprintf(&b, " %s", ev.Job)
		}
		if ev.Task >= 0 {
			fmt.Fprintf(&b, "_%d", ev.Task)
		}
		if o := ev.Outcome; o != nil {
			if ev.Kind == rm.Ended {
				fmt.Fprintf(&b, " %s", o.State)
			} else if o.Nodes != "" {
				fmt.Fprintf(&b, " on %s", o.Nodes)
			}
		}
		if ev.Reason != "" {
			fmt.Fprintf(&b, " (%s)", ev.Reason)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func checkStory(t *testing.T, cfg sim.Config, inputs []input, want string) {
	t.Helper()
	var lines []string
	for line := range strings.Lines(story(play(t, cfg, inputs, time.Hour))) {
		if !strings.Contains(line, " accepted ") {
			lines = append(lines, line)
		}
	}
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), strings.Join(lines, "")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func depends(on string) func(*hpc.Job) { return func(j *hpc.Job) { j.Dependency = on } }
func fails(j *hpc.Job)                 { j.ExitCode = 1 }
func killInvalid(j *hpc.Job)           { yes := true; j.KillOnInvalidDep = &yes }
func noRequeue(j *hpc.Job)             { no := false; j.Requeue = &no }
func cancelled(s int) func(j *hpc.Job) {
	return func(j *hpc.Job) { j.CancelAfter = time.Duration(s) * time.Second }
}
func named(name string) func(*hpc.Job) { return func(j *hpc.Job) { j.Name = name } }
func array(spec string) func(*hpc.Job) { return func(j *hpc.Job) { j.Array = spec } }
func begins(s int) func(*hpc.Job) {
	return func(j *hpc.Job) { j.Begin = time.Duration(s) * time.Second }
}
func memory(mib int64) func(*hpc.Job)   { return func(j *hpc.Job) { j.MemPerNode = mib } }
func gpus(n string) func(*hpc.Job)      { return func(j *hpc.Job) { j.GPUsPerNode = n } }
func nodes(n int) func(*hpc.Job)        { return func(j *hpc.Job) { j.MinNodes, j.MaxNodes = n, n } }
func partition(p string) func(*hpc.Job) { return func(j *hpc.Job) { j.Partition = p } }
func inside(r string) func(*hpc.Job)    { return func(j *hpc.Job) { j.Reservation = r } }

func TestFates(t *testing.T) {
	pool := sim.Config{Processors: 4, Policy: policy.EASY}
	checkStory(t, pool, submissions([]*hpc.Job{
		job("ok", 0, 1, 10, 20), job("bad", 0, 1, 10, 20, fails), job("long", 0, 1, 30, 20),
		job("big", 0, 5, 10, 20), job("gone", 0, 4, 10, 20, cancelled(15)), job("cut", 0, 1, 50, 60, cancelled(15)),
		job("held", 0, 1, 10, 20, func(j *hpc.Job) { j.Hold = true }, cancelled(90)),
		job("later", 0, 1, 10, 20, begins(40)), job("late", 0, 1, 100, 200, func(j *hpc.Job) { j.Deadline = 50 * time.Second }, begins(45)),
		job("empty", 60, 1, 0, 20),
	}), `
0 rejected big (asks for 5 processors; the machine has 4)
0 started ok
0 started bad
0 started long
10 ended ok COMPLETED
10 ended bad FAILED
15 ended gone CANCELLED
15 ended cut CANCELLED
20 ended long TIMEOUT
40 started later
45 started late
50 ended later COMPLETED
50 ended late DEADLINE
60 started empty
60 ended empty COMPLETED
90 ended held CANCELLED
`)
}

func TestDependencies(t *testing.T) {
	pool := sim.Config{Processors: 4, Policy: policy.FCFS}
	checkStory(t, pool, submissions([]*hpc.Job{
		job("a", 0, 1, 10, 20), job("b", 0, 1, 20, 30, fails),
		job("ok", 1, 1, 5, 9, depends("afterok:a")), job("any", 1, 1, 5, 9, depends("afterany:a:b")),
		job("either", 1, 1, 5, 9, depends("afterok:a?afterok:b")), job("not", 1, 1, 5, 9, depends("afternotok:b")),
		job("started", 1, 1, 5, 9, depends("after:a+1")), job("never", 1, 1, 5, 9, depends("afterok:b"), killInvalid),
		job("waits", 1, 1, 5, 9, depends("afterok:b"), cancelled(99)),
		job("who", 1, 1, 5, 9, depends("afterok:nobody")),
		job("s1", 200, 1, 10, 20, named("s")), job("s2", 200, 1, 10, 20, named("s"), depends("singleton")),
		job("s3", 200, 1, 10, 20, named("s"), depends("singleton")), job("over", 200, 1, 10, 20, depends("afterok:a")),
		job("dead", 200, 1, 10, 20, depends("afterok:b"), killInvalid),
	}), `
0 started a
0 started b
1 rejected who (--dependency=afterok:nobody: job nobody has not been submitted)
10 ended a COMPLETED
10 started ok
10 started either
15 ended ok COMPLETED
15 ended either COMPLETED
20 ended b FAILED
20 ended never CANCELLED
20 started any
20 started not
25 ended any COMPLETED
25 ended not COMPLETED
61 started started
66 ended started COMPLETED
100 ended waits CANCELLED
200 ended dead CANCELLED
200 started s1
200 started over
210 ended s1 COMPLETED
210 ended over COMPLETED
210 started s2
220 ended s2 COMPLETED
220 started s3
230 ended s3 COMPLETED
`)
}

func TestArray(t *testing.T) {
	pool := sim.Config{Processors: 4, Policy: policy.FCFS}
	checkStory(t, pool, submissions([]*hpc.Job{
		job("a", 0, 1, 10, 20, array("1-5%2"), func(j *hpc.Job) { j.TaskRunTimes = map[int]time.Duration{2: 15 * time.Second} }, cancelled(22)),
		job("after", 0, 1, 1, 2, depends("afterany:a")), job("one", 0, 1, 1, 2, depends("afterok:a_2")),
	}), `
0 started a_1
0 started a_2
10 ended a_1 COMPLETED
10 started a_3
15 ended a_2 COMPLETED
15 started a_4
15 started one
16 ended one COMPLETED
20 ended a_3 COMPLETED
20 started a_5
22 ended a_4 CANCELLED
22 ended a_5 CANCELLED
22 started after
23 ended after COMPLETED
`)
}

func TestTaskExitCodes(t *testing.T) {
	pool := sim.Config{Processors: 4, Policy: policy.FCFS}
	checkStory(t, pool, submissions([]*hpc.Job{
		job("a", 0, 1, 10, 20, array("1-2"), func(j *hpc.Job) { j.TaskExitCodes = map[int]int{2: 7} }),
		job("ok", 0, 1, 1, 2, depends("afterok:a_1")), job("not", 0, 1, 1, 2, depends("afternotok:a_2")),
		job("b", 0, 1, 10, 20, array("1-2"), func(j *hpc.Job) { j.ExitCode, j.TaskExitCodes = 7, map[int]int{2: 0} }),
	}), `
0 started a_1
0 started a_2
0 started b_1
0 started b_2
10 ended a_1 COMPLETED
10 ended a_2 FAILED
10 ended b_1 FAILED
10 ended b_2 COMPLETED
10 started ok
10 started not
11 ended ok COMPLETED
11 ended not COMPLETED
`)
}

// cluster is four nodes of 4 processors and 1000 MiB, of which the last has two GPUs.
func cluster() *sim.Cluster {
	c := &sim.Cluster{CountMemory: true, Partitions: []sim.Partition{
		{Name: "main", Default: true, Nodes: []string{"n1", "n2", "n3", "n4"}, DefMemPerCPU: 100},
		{Name: "short", Nodes: []string{"n1"}, MaxTime: time.Minute, DefMemPerCPU: 100},
	}}
	for i := range 4 {
		c.Nodes = append(c.Nodes, hpc.Node{Name: "n" + strconv.Itoa(i+1), CPUs: 4, RealMemory: 1000, Weight: 1})
	}
	c.Nodes[3].GRES = []hpc.GRES{{Name: "gpu", Type: "a100", Count: 2}}
	return c
}

func TestNodes(t *testing.T) {
	checkStory(t, sim.Config{Cluster: cluster(), Policy: policy.EASY}, submissions([]*hpc.Job{
		job("six", 0, 6, 10, 20), job("fat", 0, 1, 10, 20, memory(900)), job("gpu", 0, 1, 10, 20, gpus("a100:2")),
		job("gpu2", 0, 1, 10, 20, gpus("1")), job("spread", 0, 2, 5, 10, nodes(2)),
		job("huge", 0, 1, 10, 20, memory(1001)), job("none", 0, 1, 10, 20, gpus("v100:1")),
		job("endless", 0, 1, 10, 120, partition("short")), job("lost", 0, 1, 10, 20, partition("moon")),
	}), `
0 rejected huge (asks for more than the nodes that may serve it have)
0 rejected none (no node has gpu:v100)
0 rejected endless (time limit 2m0s: above 1m0s of partition short)
0 rejected lost (there is no partition moon)
0 started six on n[1-2]
0 started fat on n3
0 started gpu on n4
0 started spread on n[2-3]
5 ended spread COMPLETED
10 ended six COMPLETED
10 ended fat COMPLETED
10 ended gpu COMPLETED
10 started gpu2 on n4
20 ended gpu2 COMPLETED
`)
}

func TestAdministration(t *testing.T) {
	event := func(s int, nodes, state string) input {
		return input{at(s), func(e *sim.Engine) error { return e.SetNode(hpc.NodeEvent{Nodes: nodes, State: state}) }}
	}
	reserve := func(s int, action string, r hpc.Reservation) input {
		return input{at(s), func(e *sim.Engine) error { return e.Reserve(hpc.ReservationEvent{Action: action, Reservation: r}) }}
	}
	inputs := append([]input{
		event(0, "n[1-2]", "drain"), reserve(0, "create", hpc.Reservation{Name: "r", Start: at(30), Duration: 20 * time.Second, Nodes: "n3", Users: []string{"ada"}}),
		event(5, "n4", "down"), event(20, "n[1,4]", "resume"), event(20, "n9", "down"),
	}, submissions([]*hpc.Job{
		job("a", 1, 4, 10, 20), job("b", 1, 4, 10, 20, noRequeue), job("c", 1, 4, 10, 25), job("in", 1, 4, 10, 15, inside("r")),
		job("d", 21, 4, 10, 20),
	})...)
	checkStory(t, sim.Config{Cluster: cluster(), Policy: policy.EASY}, inputs, `
0 node (n[1-2] drain)
0 reservation (create r)
1 started a on n3
1 started b on n4
5 ended b NODE_FAIL
5 node (n4 down)
11 ended a COMPLETED
20 node (n[1,4] resume)
20 node (refused: n9 down: there is no node n9)
20 started c on n1
21 started d on n4
30 ended c COMPLETED
30 started in on n3
31 ended d COMPLETED
40 ended in COMPLETED
`)
}

// The name of a reservation that has ended is another's to take; that of one that has not
// is not.
func TestReservationNames(t *testing.T) {
	reserve := func(s int, node string) input {
		r := hpc.Reservation{Name: "r", Start: at(s + 5), Duration: 20 * time.Second, Nodes: node, Users: []string{"ada"}}
		return input{at(s), func(e *sim.Engine) error {
			return e.Reserve(hpc.ReservationEvent{Action: "create", Reservation: r})
		}}
	}
	inputs := append([]input{reserve(0, "n3"), reserve(24, "n2"), reserve(25, "n4")},
		submissions([]*hpc.Job{job("a", 1, 4, 10, 15, inside("r")), job("b", 26, 4, 10, 15, inside("r"))})...)
	checkStory(t, sim.Config{Cluster: cluster(), Policy: policy.EASY}, inputs, `
0 reservation (create r)
5 started a on n3
15 ended a COMPLETED
24 reservation (refused: create r: there is a reservation r already)
25 reservation (create r)
30 started b on n4
40 ended b COMPLETED
`)
}

// drawJobs draws jobs that keep a machine busy, with some of everything.
func drawJobs(t *rapid.T, processors int) []*hpc.Job {
	n := rapid.IntRange(1, 25).Draw(t, "jobs")
	var jobs []*hpc.Job
	now := 0
	for i := range n {
		now += rapid.IntRange(0, 15).Draw(t, "gap")
		limit := rapid.IntRange(1, 40).Draw(t, "limit")
		j := job(strconv.Itoa(i), now, rapid.IntRange(1, processors).Draw(t, "size"), rapid.IntRange(0, limit+5).Draw(t, "run"), limit)
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			j.CancelAfter = time.Duration(rapid.IntRange(1, 60).Draw(t, "cancel")) * time.Second
		case 1:
			if i > 0 {
				j.Dependency = "afterany:" + strconv.Itoa(rapid.IntRange(0, i-1).Draw(t, "on"))
			}
		case 2:
			j.Array = "1-3%2"
		case 3:
			j.Begin = 10 * time.Second
		case 4:
			j.MemPerNode = int64(rapid.IntRange(1, 1000).Draw(t, "memory"))
		}
		jobs = append(jobs, j)
	}
	return jobs
}

// drawMachine draws a pool or a cluster.
func drawMachine(t *rapid.T) (cfg sim.Config, processors int) {
	name := rapid.SampledFrom(policy.Names()).Draw(t, "policy")
	made, err := policy.New(name)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Policy = made
	cfg.Ties = rapid.SampledFrom([]sim.Ties{sim.EndsFirst, sim.ArrivalsFirst}).Draw(t, "ties")
	if rapid.Bool().Draw(t, "nodes") {
		cfg.Cluster = cluster()
		return cfg, 16
	}
	processors = rapid.IntRange(1, 20).Draw(t, "processors")
	cfg.Processors = processors
	return cfg, processors
}

// TestInvariants holds every policy, on pools and on nodes, to what must be true of any
// schedule.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, processors := drawMachine(t)
		jobs := drawJobs(t, processors)
		events := play(t, cfg, submissions(jobs), time.Hour)
		checkSchedule(t, jobs, events, processors)
		if again := play(t, cfg, submissions(jobs), time.Hour); !reflect.DeepEqual(events, again) {
			t.Fatalf("twice is not the same:\n%s\n%s", story(events), story(again))
		}
	})
}

// TestSmallSteps: how often one asks changes nothing.
func TestSmallSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, processors := drawMachine(t)
		jobs := drawJobs(t, processors)
		cfg.Ties = sim.EndsFirst
		want := story(play(t, cfg, submissions(jobs), 1000*time.Hour))
		if got := story(play(t, cfg, submissions(jobs), 100*time.Second)); got != want {
			t.Fatalf("in steps of 100 s:\n%s\nat once:\n%s", got, want)
		}
	})
}

// checkSchedule checks that no processor is used twice, that no job starts before it may,
// runs longer than it may, or is forgotten.
func checkSchedule(t *rapid.T, jobs []*hpc.Job, events []rm.Event, processors int) {
	byID := map[string]*hpc.Job{}
	for _, j := range jobs {
		byID[j.ID] = j
	}
	type task struct {
		id   string
		task int
	}
	running := map[task]rm.Event{}
	open := map[string]int{}
	used := 0
	perNode := map[string]int{}
	for _, ev := range events {
		k := task{ev.Job, ev.Task}
		j := byID[ev.Job]
		switch ev.Kind {
		case rm.Accepted:
			if open[ev.Job] = 1; j.Array != "" {
				open[ev.Job] = 3
			}
		case rm.Started:
			if ev.At < j.Submit.Add(j.Begin) {
				t.Fatalf("job %s starts before it may", ev.Job)
			}
			used += ev.Outcome.Processors
			running[k] = ev
			for _, n := range mustExpand(t, ev.Outcome.Nodes) {
				perNode[n]++ // at least one processor of the node's four
				if perNode[n] > 4 {
					t.Fatalf("node %s has too many jobs", n)
				}
			}
		case rm.Ended:
			open[ev.Job]--
			start, ran := running[k]
			if !ran {
				continue
			}
			delete(running, k)
			used -= start.Outcome.Processors
			for _, n := range mustExpand(t, start.Outcome.Nodes) {
				perNode[n]--
			}
			if d := ev.At.Sub(start.At); d > j.TimeLimit || ev.Outcome.State == hpc.Completed && d != j.RunTime {
				t.Fatalf("job %s ran %s", ev.Job, d)
			}
		}
		if used > processors {
			t.Fatalf("%d of %d processors are in use", used, processors)
		}
	}
	for id, n := range open {
		if n != 0 {
			t.Fatalf("%d tasks of job %s have no end\n%s", n, id, story(events))
		}
	}
}

func mustExpand(t *rapid.T, hosts string) []string {
	names, err := hostlist.Expand(hosts)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestOnePerNode: nodes of one processor are a pool, if all jobs end by themselves.
func TestOnePerNode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "nodes")
		c := &sim.Cluster{}
		for i := range n {
			c.Nodes = append(c.Nodes, hpc.Node{Name: "n" + strconv.Itoa(i), CPUs: 1})
		}
		jobs := drawJobs(t, n)
		starts := func(cfg sim.Config) string {
			cfg.Policy = policy.FCFS
			var b strings.Builder
			for _, ev := range play(t, cfg, submissions(jobs), time.Hour) {
				fmt.Fprintln(&b, ev.At, ev.Kind, ev.Job, ev.Task)
			}
			return b.String()
		}
		if diff := cmp.Diff(starts(sim.Config{Processors: n}), starts(sim.Config{Cluster: c})); diff != "" {
			t.Fatalf("-pool +nodes:\n%s", diff)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	for want, cfg := range map[string]sim.Config{
		"a machine without processors": {Policy: policy.FCFS},
		"no policy":                    {Processors: 1},
		"performance -1: not above 0":  {Processors: 1, Policy: policy.FCFS, Performance: -1},
		`ties "dice": not an order`:    {Processors: 1, Policy: policy.FCFS, Ties: "dice"},
		"there is no node n1":          {Cluster: &sim.Cluster{Nodes: []hpc.Node{{Name: "a", CPUs: 1}}, Partitions: []sim.Partition{{Nodes: []string{"n1"}}}}, Policy: policy.FCFS},
	} {
		if _, err := sim.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
}

// TestExample runs the policy of docs/SIMULATOR.md, and holds its text against ours.
func TestExample(t *testing.T) {
	checkStory(t, sim.Config{Processors: 4, Policy: NewBestFit}, submissions([]*hpc.Job{
		job("a", 0, 3, 10, 20), job("b", 1, 2, 10, 20), job("c", 2, 3, 10, 20), job("d", 3, 1, 30, 40),
	}), `
0 started a
3 started d
10 ended a COMPLETED
10 started c
20 ended c COMPLETED
20 started b
30 ended b COMPLETED
33 ended d COMPLETED
`)
	source, err := os.ReadFile("example_policy_test.go")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../../../docs/SIMULATOR.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(source), "// BestFit starts")
	if !strings.Contains(string(doc), "// BestFit starts"+code) {
		t.Error("docs/SIMULATOR.md shows another policy than example_policy_test.go")
	}
}
