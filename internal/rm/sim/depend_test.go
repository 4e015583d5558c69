package sim_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/sim/policy"
)

func dependsOn(on string) func(*hpc.Job) { return func(j *hpc.Job) { j.Dependency = on } }

func killed(j *hpc.Job) { j.KillOnInvalidDep = new(true) }

func exits(code int) func(*hpc.Job) { return func(j *hpc.Job) { j.ExitCode = code } }

// TestArrayIsKilled checks that all tasks of an array end if its dependency has failed before its
// submission.
func TestArrayIsKilled(t *testing.T) {
	array := func(j *hpc.Job) { j.Array = "1-3" }
	checkStory(t, sim.Config{Processors: 4, Policy: policy.EASY}, submissions([]*hpc.Job{
		job("bad", 0, 1, 10, 10, exits(1)), job("late", 20, 1, 10, 10, dependsOn("afterok:bad"), killed, array),
	}), `
0 started bad
10 ended bad FAILED
20 ended late_1 CANCELLED (DependencyNeverSatisfied)
20 ended late_2 CANCELLED (DependencyNeverSatisfied)
20 ended late_3 CANCELLED (DependencyNeverSatisfied)
`)
}

// TestTasksEndAsRecorded checks that tasks of an array with an exit code end in their recorded
// states.
func TestTasksEndAsRecorded(t *testing.T) {
	recorded := func(j *hpc.Job) {
		j.Array, j.TaskExitCodes = "1-3", map[int]int{1: 1, 2: 1}
		j.Recorded = &hpc.Recorded{Start: j.Submit, TaskStates: map[int]hpc.State{1: hpc.Cancelled, 2: hpc.Failed, 3: hpc.Completed}}
		j.Recorded.TaskStarts = map[int]hpc.Time{1: j.Submit, 2: j.Submit, 3: j.Submit}
	}
	checkStory(t, sim.Config{Processors: 4, Policy: policy.EASY}, submissions([]*hpc.Job{job("a", 0, 1, 10, 20, recorded)}), `
0 started a_1
0 started a_2
0 started a_3
10 ended a_1 CANCELLED
10 ended a_2 FAILED
10 ended a_3 COMPLETED
`)
}

// TestLongChain checks that a long chain of dependent jobs ends when its first job fails. Recursion
// would exceed Go's stack, which is limited to 1 GB.
func TestLongChain(t *testing.T) {
	const n = 300_000
	e, err := sim.New(sim.Config{Processors: 1, Policy: policy.FCFS, Epoch: epoch, Lean: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		j := job(fmt.Sprint(i), 0, 1, 10, 10, exits(1), killed)
		if i > 0 {
			j.Dependency = fmt.Sprint("afterok:", i-1)
		}
		if err := e.Submit(j); err != nil {
			t.Fatal(err)
		}
	}
	over := 0
	for {
		events, err := e.AdvanceTo(t.Context(), at(100))
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 0 {
			break
		}
		for _, ev := range events {
			if ev.Kind == rm.Ended {
				over++
			}
		}
	}
	if over != n {
		t.Errorf("%d of %d jobs ended", over, n)
	}
}

// TestLargeArrays checks a large array whose tasks each wait for a task of another array.
func TestLargeArrays(t *testing.T) {
	const n = 100_000
	e, err := sim.New(sim.Config{Processors: n, Policy: policy.EASY, Epoch: epoch, Lean: true})
	if err != nil {
		t.Fatal(err)
	}
	tasks := func(j *hpc.Job) { j.Array = fmt.Sprint("1-", n) }
	for _, j := range []*hpc.Job{job("a", 0, 1, 10, 20, tasks), job("b", 0, 1, 10, 20, tasks, dependsOn("aftercorr:a"))} {
		if err := e.Submit(j); err != nil {
			t.Fatal(err)
		}
	}
	over, begin := 0, time.Now()
	for e.Now() < at(100) {
		events, err := e.AdvanceTo(t.Context(), at(100))
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range events {
			if ev.Kind == rm.Ended {
				over++
			}
		}
	}
	if d := time.Since(begin); over != 2*n || d > time.Minute {
		t.Errorf("%d of %d tasks ended, after %s", over, 2*n, d)
	}
}

// TestManyDependencies checks that the number of an array's dependencies is limited, and that
// repetitions do not count.
func TestManyDependencies(t *testing.T) {
	array := func(j *hpc.Job) { j.Array = "1-3000" }
	var on []string
	for i := range 2000 {
		on = append(on, fmt.Sprintf("a_%d", i))
	}
	events := play(t, sim.Config{Processors: 4000, Policy: policy.FCFS}, submissions([]*hpc.Job{
		job("a", 0, 1, 1, 10, array), job("b", 0, 1, 1, 10, array, dependsOn("aftercorr:a"+strings.Repeat(":a", 5000))),
		job("c", 0, 1, 1, 10, array, dependsOn("aftercorr:a,afterany:"+strings.Join(on, ":"))),
	}), time.Hour)
	over, refused := map[string]int{}, ""
	for _, ev := range events {
		switch ev.Kind {
		case rm.Ended:
			over[ev.Job]++
		case rm.Refused:
			refused += ev.Reason
		}
	}
	if over["b"] != 3000 || over["c"] != 0 || !strings.Contains(refused, "2001 dependencies of each of 3000 tasks (want at most 4000000 together)") {
		t.Errorf("%v ended, refused: %s", over, refused)
	}
}

// TestNeverStarts checks that NeverStarts returns jobs with hopeless dependencies until the jobs
// end.
func TestNeverStarts(t *testing.T) {
	e, err := sim.New(sim.Config{Processors: 4, Policy: policy.EASY, Epoch: epoch})
	if err != nil {
		t.Fatal(err)
	}
	run := func(until int) {
		for e.Now() < at(until) {
			if _, err := e.AdvanceTo(t.Context(), at(until)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, j := range []*hpc.Job{
		job("bad", 0, 1, 10, 10, exits(1)), job("a", 0, 1, 10, 10, dependsOn("afterok:bad")),
		job("b", 0, 1, 10, 10, dependsOn("afterok:bad")), job("c", 0, 1, 10, 10, dependsOn("afterany:a")),
	} {
		if err := e.Submit(j); err != nil {
			t.Fatal(err)
		}
	}
	run(20)
	if got := fmt.Sprint(e.NeverStarts()); got != "[a b]" {
		t.Errorf("%s, want a and b", got)
	}
	if err := e.Do(rm.Command{Kind: rm.Cancel, Job: "a"}); err != nil {
		t.Fatal(err)
	}
	run(int(time.Hour / time.Second))
	if got := fmt.Sprint(e.NeverStarts()); got != "[b]" {
		t.Errorf("%s, want b", got)
	}
}
