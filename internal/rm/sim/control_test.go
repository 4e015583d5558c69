package sim_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/sim/policy"
)

// command is an input that gives a command to a job.
func command(s int, job string, c rm.Command) input {
	c.Job = job
	return input{at(s), func(e *sim.Engine) error { return e.Do(c) }}
}

// commandTest describes the effect of commands on jobs on a machine of four processors.
type commandTest struct {
	jobs     []*hpc.Job
	commands []input
	want     string
}

func testCommands(t *testing.T, tests map[string]commandTest) {
	pool := sim.Config{Processors: 4, Policy: policy.EASY}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			checkStorySorted(t, pool, append(submissions(tt.jobs), tt.commands...), tt.want)
		})
	}
}

var hold, release = rm.Command{Kind: rm.Hold}, rm.Command{Kind: rm.Release}

func held(j *hpc.Job) { j.Hold = true }

func TestHoldCommands(t *testing.T) {
	array := func(limit string) func(*hpc.Job) { return func(j *hpc.Job) { j.Array = "1-3" + limit } }
	testCommands(t, map[string]commandTest{
		"a pending job is held, and the next job starts first": {
			[]*hpc.Job{job("a", 0, 4, 10, 10), job("b", 1, 4, 10, 10), job("c", 2, 4, 10, 10)},
			[]input{command(5, "b", hold), command(12, "b", release)}, `
0 started a
5 waiting b (JobHeldUser)
5 command b (hold)
10 ended a COMPLETED
10 started c
12 command b (release)
20 ended c COMPLETED
20 started b
30 ended b COMPLETED
`,
		},
		"a job that was submitted held": {
			[]*hpc.Job{job("a", 0, 1, 10, 10, held)},
			[]input{command(3, "a", hold), command(5, "a", release)}, `
3 waiting a (JobHeldUser)
3 command a (hold)
5 command a (release)
5 started a
15 ended a COMPLETED
`,
		},
		"one task of an array is held, and another task runs instead": {
			[]*hpc.Job{job("a", 0, 1, 10, 10, array("%1"))},
			[]input{command(5, "a", rm.Command{Kind: rm.Hold, Tasks: []int{2}}), command(25, "a", release)}, `
0 started a_1
5 waiting a_2 (JobHeldUser)
5 command a_2 (hold)
10 ended a_1 COMPLETED
10 started a_3
20 ended a_3 COMPLETED
25 command a (release)
25 started a_2
35 ended a_2 COMPLETED
`,
		},
		"one task of a held array is released, and others are cancelled": {
			[]*hpc.Job{job("a", 0, 1, 10, 10, array(""), held)},
			[]input{command(5, "a", rm.Command{Kind: rm.Release, Tasks: []int{3}}), command(6, "a", rm.Command{Kind: rm.Cancel, Tasks: []int{1, 2}})}, `
5 command a_3 (release)
5 started a_3
6 ended a_1 CANCELLED
6 ended a_2 CANCELLED
15 ended a_3 COMPLETED
`,
		},
	})
}

func TestTimeCommands(t *testing.T) {
	limit := func(s int) rm.Command {
		return rm.Command{Kind: rm.SetTimeLimit, TimeLimit: time.Duration(s) * time.Second}
	}
	testCommands(t, map[string]commandTest{
		"a longer limit of the job that runs keeps back what would have been backfilled": {
			[]*hpc.Job{job("a", 0, 3, 50, 20), job("b", 1, 4, 10, 10), job("c", 15, 1, 10, 10)},
			[]input{command(10, "a", limit(60))}, `
0 started a
10 command a (set time limit 1m0s)
15 started c
25 ended c COMPLETED
50 ended a COMPLETED
50 started b
60 ended b COMPLETED
`,
		},
		"a limit below the time that the job has run ends it at once": {
			[]*hpc.Job{job("a", 0, 4, 50, 60), job("b", 1, 4, 10, 10)},
			[]input{command(10, "a", limit(5))}, `
10 ended a TIMEOUT
10 command a (set time limit 5s)
0 started a
10 started b
20 ended b COMPLETED
`,
		},
		"a shorter limit of a pending job lets it be backfilled": {
			[]*hpc.Job{job("a", 0, 3, 20, 20), job("b", 1, 4, 10, 10), job("c", 2, 1, 10, 40)},
			[]input{command(5, "c", limit(12))}, `
0 started a
5 command c (set time limit 12s)
5 started c
15 ended c COMPLETED
20 ended a COMPLETED
20 started b
30 ended b COMPLETED
`,
		},
		"run times": {
			[]*hpc.Job{job("a", 0, 1, 20, 99), job("b", 0, 1, 20, 99), job("c", 0, 1, 20, 30), job("d", 0, 1, 20, 99, held)},
			[]input{
				command(10, "a", rm.Command{Kind: rm.Stretch, Factor: 3}), command(10, "b", rm.Command{Kind: rm.SetRunTime, RunTime: 5 * time.Second}),
				command(10, "c", rm.Command{Kind: rm.Stretch, Factor: 3}), command(10, "d", rm.Command{Kind: rm.SetRunTime, RunTime: 4 * time.Second}),
				command(10, "d", rm.Command{Kind: rm.Stretch, Factor: 2}), command(11, "d", release),
			}, `
0 started a
0 started b
0 started c
10 command a (stretch 3)
10 command b (set run time 5s)
10 command c (stretch 3)
10 command d (set run time 4s)
10 command d (stretch 2)
10 ended b COMPLETED
11 command d (release)
11 started d
19 ended d COMPLETED
30 ended c TIMEOUT
40 ended a COMPLETED
`,
		},
	})
}

func TestRefusedCommands(t *testing.T) {
	testCommands(t, map[string]commandTest{
		"refusals": {
			[]*hpc.Job{job("a", 0, 1, 10, 99), job("large", 0, 9, 10, 99)},
			[]input{
				command(5, "nowhere", hold), command(5, "a", rm.Command{Kind: rm.Hold, Tasks: []int{4}}), command(5, "large", release),
				command(20, "a", release), command(20, "a", rm.Command{Kind: rm.Cancel}), command(20, "nowhere", rm.Command{Kind: rm.Cancel}),
			}, `
0 rejected large (asks for 9 processors; the machine has 4)
0 started a
5 command (hold (job nowhere): refused: the job has not been submitted)
5 command a_4 (hold: refused: the job has no such task)
5 command large (release: refused: the job was rejected)
10 ended a COMPLETED
20 command a (release: refused: the job has ended)
20 command (cancel (job nowhere): refused: the job has not been submitted)
`,
		},
	})
}

// checkStorySorted compares the lines of a story in any order.
func checkStorySorted(t *testing.T, cfg sim.Config, inputs []input, want string) {
	t.Helper()
	got := map[string]int{}
	for line := range strings.Lines(story(play(t, cfg, inputs, time.Hour))) {
		if !strings.Contains(line, " accepted ") {
			got[line]++
		}
	}
	for line := range strings.Lines(strings.TrimPrefix(want, "\n")) {
		if got[line]--; got[line] < 0 {
			t.Errorf("missing: %s", line)
		}
	}
	for line, n := range got {
		if n > 0 {
			t.Errorf("not wanted: %s", line)
		}
	}
}

// TestSetNodes changes a waiting job's number of nodes, or the nodes that it names.
func TestSetNodes(t *testing.T) {
	cfg := sim.Config{Policy: policy.FCFS, Cluster: &sim.Cluster{}}
	for i := range 4 {
		cfg.Cluster.Nodes = append(cfg.Cluster.Nodes, hpc.Node{Name: fmt.Sprintf("n%d", i+1), CPUs: 4})
	}
	set := func(n int, list string) rm.Command { return rm.Command{Kind: rm.SetNodes, Nodes: n, NodeList: list} }
	checkStorySorted(t, cfg, append(submissions([]*hpc.Job{job("all", 0, 16, 10, 10), job("b", 1, 1, 10, 10), job("c", 2, 1, 10, 10)}),
		command(5, "b", set(3, "")), command(5, "c", set(0, "n4")), command(6, "c", set(9, "")), command(6, "all", set(1, ""))), `
0 started all on n[1-4]
5 command b (set nodes 3)
5 command c (set nodes n4)
6 command c (set nodes 9: refused: asks for more than its permitted nodes have)
6 command all (set nodes 1: refused: the job runs)
10 ended all COMPLETED
10 started b on n[1-3]
10 started c on n4
20 ended b COMPLETED
20 ended c COMPLETED
`)
}

// TestCapabilities checks the errors for commands that the simulator does not have. They name the
// command and the possible commands.
func TestCapabilities(t *testing.T) {
	e, err := sim.New(sim.Config{Processors: 4, Policy: policy.EASY})
	if err != nil {
		t.Fatal(err)
	}
	for want, err := range map[string]error{
		"job a, set priority 5: the simulator does not support this command (want cancel, hold, release, set time limit, stretch, set run time)": e.Do(rm.Command{Kind: rm.SetPriority, Job: "a", Priority: 5}),
		"job a, tasks 1, 3, stretch 0: not a factor (want a number above 0)":                                                                     e.Do(rm.Command{Kind: rm.Stretch, Job: "a", Tasks: []int{1, 3}}),
		"does not support this command":                            e.Do(rm.Command{Kind: rm.SetNodes, Job: "a", Nodes: 2}),
		"the simulator does not support actions of administrators": e.Act(hpc.Action{Shell: "true"}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestRandomCommands checks random commands under every policy: a processor has one job at a time,
// every job ends once, held jobs do not run, and a simulation in small steps gives the same events.
func TestRandomCommands(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := func(name string, from, to int) int { return rapid.IntRange(from, to).Draw(rt, name) }
		const processors = 8
		size := map[string]int{}
		var jobs []*hpc.Job
		for i := range n("jobs", 1, 12) {
			j := job(fmt.Sprint("j", i), n("submit", 0, 60), n("size", 1, processors), n("run", 0, 60), n("limit", 1, 60))
			j.Hold = n("held", 0, 5) == 0
			size[j.ID] = j.Tasks
			jobs = append(jobs, j)
		}
		inputs := submissions(jobs)
		for range n("commands", 0, 12) {
			id := fmt.Sprint("j", n("job", 0, len(jobs)))
			c := rm.Command{Kind: rapid.SampledFrom([]rm.CommandKind{rm.Cancel, rm.Hold, rm.Release, rm.SetTimeLimit, rm.Stretch, rm.SetRunTime}).Draw(rt, "kind")}
			c.TimeLimit, c.RunTime = time.Duration(n("to", 1, 90))*time.Second, time.Duration(n("for", 0, 90))*time.Second
			c.Factor = float64(n("factor", 1, 30)) / 10
			inputs = append(inputs, command(n("at", 0, 120), id, c))
		}
		for id := range size { // so that all jobs end
			inputs = append(inputs, command(500, id, rm.Command{Kind: rm.Release}))
		}
		name := rapid.SampledFrom(policy.Names()).Draw(rt, "policy")
		made, err := policy.New(name)
		if err != nil {
			rt.Fatal(err)
		}
		cfg := sim.Config{Processors: processors, Policy: made}
		if rapid.Bool().Draw(rt, "nodes") {
			cfg.Processors, cfg.Cluster = 0, &sim.Cluster{Nodes: []hpc.Node{{Name: "n1", CPUs: 4}, {Name: "n2", CPUs: 4}}}
		}
		events := play(rt, cfg, inputs, time.Hour)
		checkInvariants(rt, events, size, processors)
		if a, b := story(events), story(play(rt, cfg, inputs, 7*time.Second)); a != b {
			rt.Fatalf("%s: in small steps\n%s\nand else\n%s", name, b, a)
		}
	})
}

func checkInvariants(rt *rapid.T, events []rm.Event, size map[string]int, processors int) {
	used := 0
	running, held, over := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, ev := range events {
		switch {
		case ev.Kind == rm.Started:
			if used += size[ev.Job]; used > processors {
				rt.Fatalf("%d of %d processors are used\n%s", used, processors, story(events))
			}
			if held[ev.Job] {
				rt.Fatalf("%s starts while it is held\n%s", ev.Job, story(events))
			}
			running[ev.Job] = true
		case ev.Kind == rm.Ended:
			if over[ev.Job] {
				rt.Fatalf("%s ends twice\n%s", ev.Job, story(events))
			}
			if over[ev.Job] = true; running[ev.Job] {
				used -= size[ev.Job]
			}
		case ev.Kind == rm.Commanded && (ev.Reason == "hold" || ev.Reason == "release"):
			held[ev.Job] = ev.Reason == "hold"
		}
	}
	for id := range size {
		if !over[id] {
			rt.Fatalf("%s does not end\n%s", id, story(events))
		}
	}
}
