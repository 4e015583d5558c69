package replay_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rmreplay/internal/hpc"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/sim/policy"
	"rmreplay/internal/workload"
)

// diary records all calls of a recorder.
type diary struct{ strings.Builder }

func (d *diary) Job(j *hpc.Job) error {
	fmt.Fprintf(d, "%s %v\n", j.ID, j.TimeLimit)
	return nil
}

func (d *diary) Event(ev rm.Event) error {
	fmt.Fprintf(d, "%v %s %s %s %+v\n", ev.At, ev.Kind, ev.Job, ev.Reason, ev.Outcome)
	return nil
}

// watcher is a controller that makes no decisions of its own. It must get every event.
type watcher struct {
	replay.Controller
	events, over int
}

func (w *watcher) Event(event *replay.Event) replay.Decisions {
	w.events++
	if event.Over {
		w.over++
	}
	return w.Controller.Event(event)
}

// TestWatching checks that the recorder gets the same bytes with a controller that only watches and
// rewriters that change nothing.
func TestWatching(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &workload.Workload{Epoch: after(0)}
		for i := range rapid.IntRange(0, 20).Draw(rt, "jobs") {
			n := func(name string, most int) int { return rapid.IntRange(1, most).Draw(rt, name) }
			w.Jobs.Append(windowJob(fmt.Sprint(i), n("submit", 500), n("run", 300), n("limit", 300), tasks(n("size", 20))))
		}
		w.Jobs.Sort()
		watch := &watcher{Controller: replay.NewRigid(w)}
		nothing := func(*hpc.Job) {}
		var diaries []string
		for _, c := range []replay.Controller{replay.NewRigid(w), watch, replay.Rewriting(replay.NewRigid(w), nothing, replay.Performance(1))} {
			engine, err := sim.New(sim.Config{Processors: 16, Policy: policy.EASY, Epoch: w.Epoch})
			if err != nil {
				rt.Fatal(err)
			}
			var d diary
			if _, err := replay.Play(context.Background(), engine, w, c, &d, replay.Options{}); err != nil {
				rt.Fatal(err)
			}
			diaries = append(diaries, d.String())
		}
		if diaries[0] != diaries[1] || diaries[0] != diaries[2] {
			rt.Fatalf("rigid:\n%s\nwatched:\n%s\nrewritten:\n%s", diaries[0], diaries[1], diaries[2])
		}
		if lines := strings.Count(diaries[0], "\n"); watch.over != w.Jobs.Len() || watch.events != lines-w.Jobs.Len() {
			rt.Fatalf("told of %d events and %d ends, of %d lines", watch.events, watch.over, lines)
		}
	})
}

// TestRewriting checks that a rewriter changes the submitted job, but neither the workload nor the
// record. After a command that makes a job longer, the loop must wait for the later end.
func TestRewriting(t *testing.T) {
	w := &workload.Workload{Epoch: after(0), Jobs: workload.JobsOf(windowJob("a", 0, 600, 900), windowJob("b", 0, 600, 900))}
	limits := func(job *hpc.Job) { job.TimeLimit /= 3 }
	days := func(job *hpc.Job) { job.RunTime, job.TimeLimit = 72*time.Hour, hpc.Unlimited }
	s := &script{Controller: replay.Rewriting(replay.NewRigid(w), limits)}
	if got := s.Controller.Begin().Submit; len(got) != 2 || got[0].Rewrite == nil {
		t.Fatalf("submissions %v", got)
	}
	play := func(c replay.Controller) (string, replay.Result) {
		engine, err := sim.New(sim.Config{Processors: 8, Policy: policy.EASY, Epoch: w.Epoch})
		if err != nil {
			t.Fatal(err)
		}
		var l schedule
		result, err := replay.Play(context.Background(), engine, w, c, &l, replay.Options{DrainLimit: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return l.lines["a"] + l.lines["b"], result
	}
	got, _ := play(s)
	if diff := gocmp.Diff("TIMEOUT 0-300 TIMEOUT 0-300 ", got); diff != "" {
		t.Errorf("limits (-want +got)\n%s", diff)
	}
	if got, result := play(replay.Rewriting(replay.NewRigid(w), days)); got != "COMPLETED 0-259200 COMPLETED 0-259200 " || len(result.Undrained) > 0 {
		t.Errorf("days: %s, undrained %v", got, result.Undrained)
	}
	s = &script{Controller: replay.NewRigid(w)}
	for _, c := range []rm.Command{{Kind: rm.SetTimeLimit, Job: "a", TimeLimit: hpc.Unlimited}, {Kind: rm.SetRunTime, Job: "a", RunTime: 48 * time.Hour}} {
		s.commands = append(s.commands, replay.Command{At: after(60), Command: c})
	}
	if got, result := play(s); got != "COMPLETED 0-172800 COMPLETED 0-600 " || len(result.Undrained) > 0 {
		t.Errorf("a longer run time: %s, undrained %v", got, result.Undrained)
	}
	if w.Jobs.At(0).TimeLimit != 900*time.Second {
		t.Error("the workload is another one now")
	}
}

// TestControlErrors checks that a command which the resource manager does not have ends the run
// with an error that names the command, and that a rewriter which changes a job's ID or array is an
// error, too.
func TestControlErrors(t *testing.T) {
	w := &workload.Workload{Epoch: after(0), Jobs: workload.JobsOf(windowJob("a", 0, 600, 900))}
	priority := &script{Controller: replay.NewRigid(w), commands: []replay.Command{{Command: rm.Command{Kind: rm.SetPriority, Job: "a", Priority: 7}}}}
	renamed := replay.Rewriting(replay.NewRigid(w), func(job *hpc.Job) { job.ID = "b" })
	for want, c := range map[string]replay.Controller{
		"job a, set priority 7: the simulator does not support this command":   priority,
		`submitting job a: a controller has made it job b, array "" (want the`: renamed,
	} {
		engine, err := sim.New(sim.Config{Processors: 8, Policy: policy.EASY, Epoch: w.Epoch})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := replay.Play(context.Background(), engine, w, c, &diary{}, replay.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		if _, err := replay.NewFixedPriorities(engine.Can()); err == nil || !strings.Contains(err.Error(), "the simulator does not order jobs") {
			t.Errorf("fixed priorities: %v", err)
		}
	}
}
