package sim_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/sim/policy"
)

const epoch = 1_000_000 * hpc.Second

// at returns an instant, in seconds after the epoch of the tests.
func at(s int) hpc.Time { return epoch.Add(time.Duration(s) * time.Second) }

// job returns a job of user ada. It runs run seconds on n processors with a time limit of limit
// seconds. Then it applies the changes.
func job(id string, submit, n, run, limit int, changes ...func(*hpc.Job)) *hpc.Job {
	j := &hpc.Job{ID: id, Submit: at(submit)}
	j.User, j.Tasks = "ada", n
	j.RunTime, j.TimeLimit = time.Duration(run)*time.Second, time.Duration(limit)*time.Second
	for _, change := range changes {
		change(j)
	}
	return j
}

// input is one input of a simulation.
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

// tb has the common methods of testing.T and rapid.T.
type tb interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// play runs a simulation to its end, in steps of at most step. It returns all events.
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
			if ev.Outcome != nil { // the engine reuses the memory
				outcome := *ev.Outcome
				ev.Outcome = &outcome
			}
			all = append(all, ev)
		}
	}
}

// story writes one event on each line: "10 started a on n1".
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
	got := withoutAcceptance(story(play(t, cfg, inputs, time.Hour)))
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// withoutAcceptance removes the events that jobs were accepted.
func withoutAcceptance(story string) string {
	var b strings.Builder
	for line := range strings.Lines(story) {
		if !strings.Contains(line, " accepted ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// cluster returns four nodes of 4 processors and 1000 MiB. The last one has two GPUs.
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

// drawJobs draws jobs that keep a machine busy, of all kinds.
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

// TestInvariants checks properties of every schedule, for every policy, on pools and on nodes.
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

// TestSmallSteps checks that the length of the steps does not change the events.
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

// checkSchedule checks that a processor has one job at a time, that every job starts no earlier and
// runs no longer than allowed, and that every job ends.
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
			for _, n := range expand(t, ev.Outcome.Nodes) {
				perNode[n]++ // at least one of the node's four processors
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
			for _, n := range expand(t, start.Outcome.Nodes) {
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

// TestOnePerNode checks that nodes with one processor act like a pool, if all jobs end by
// themselves.
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
		`ties "dice": not an order`:    {Processors: 1, Policy: policy.FCFS, Ties: "dice"},
		"there is no node n1":          {Cluster: &sim.Cluster{Nodes: []hpc.Node{{Name: "a", CPUs: 1}}, Partitions: []sim.Partition{{Nodes: []string{"n1"}}}}, Policy: policy.FCFS},
	} {
		if _, err := sim.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
}

// TestExample runs the policy that docs/SIMULATOR.md gives as an example.
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
}
