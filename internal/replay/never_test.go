package replay_test

import (
	"strings"
	"testing"

	"rmreplay/internal/hpc"
	"rmreplay/internal/replay"
	"rmreplay/internal/workload"
)

// TestNeverStart: jobs that wait for a job that can never start cannot start either, unless
// something else is enough for them.
func TestNeverStart(t *testing.T) {
	w := &workload.Workload{}
	for _, j := range []struct{ id, name, dependency string }{
		{"held", "", ""}, {"never", "n", "afterok:over"}, {"chain", "", "afterany:never"}, {"chain2", "", "after:chain,afterok:over"},
		{"either", "", "afterany:never?afterany:held"}, {"task", "", "afterok:never_3"}, {"single", "n", "singleton"},
		{"unnamed", "", "singleton"}, {"behind", "", "afterok:held"},
	} {
		job := &hpc.Job{ID: j.id}
		job.User, job.Name, job.Dependency = "ann", j.name, j.dependency
		w.Jobs.Append(job)
	}
	pending := strings.Fields("held never chain chain2 either task single unnamed behind")
	got := strings.Join(replay.NeverStart(w, pending, []string{"never"}), " ")
	if want := "never chain chain2 task single"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := replay.NeverStart(w, pending, nil); len(got) > 0 {
		t.Errorf("%v without a cause", got)
	}
}
