package replay

import (
	"slices"
	"testing"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/workload"
)

// TestFates checks that ends of jobs meet dependencies on ends, and no other dependencies.
func TestFates(t *testing.T) {
	job := func(id, dependency, array string) *hpc.Job {
		return &hpc.Job{ID: id, Request: hpc.Request{Dependency: dependency, Array: array}}
	}
	waiting := []*hpc.Job{
		job("none", "", ""), job("any", "afterany:a", ""), job("ok", "afterok:a", ""), job("failed", "afternotok:a", ""),
		job("array", "afterok:b", ""), job("task", "afterok:b_2", ""), job("all", "afterany:a:b", ""), job("one", "afterok:a?afterany:b", ""),
		job("plain", "a", ""), job("start", "after:a", ""), job("delay", "afterany:a+5", ""), job("single", "singleton", ""), job("unknown", "afterany:z", ""),
		job("mixed", "afterany:a,singleton", ""), job("wrong", "afterany:a,b?c", ""), job("range", "afterok:b_[1-2]", ""),
	}
	f := fatesOf(&workload.Workload{Jobs: workload.JobsOf(append(waiting, job("a", "", ""), job("b", "", "1-2"))...)})
	met := func() (list []string) {
		for _, j := range waiting {
			if f.met(j) {
				list = append(list, j.ID)
			}
		}
		return list
	}
	end := func(id string, task int, state hpc.State) []int {
		return f.ended(&Event{Event: &rm.Event{Job: id, Task: task, Outcome: &rm.Outcome{State: state}}})
	}
	steps := []struct {
		id    string
		task  int
		state hpc.State
		want  []string
	}{
		{"nobody", -1, hpc.Completed, []string{"none"}},
		{"a", -1, hpc.TimedOut, []string{"none", "any", "failed", "plain"}},
		{"b", 2, hpc.Completed, []string{"none", "any", "failed", "task", "plain"}},
		{"b", 1, hpc.Completed, []string{"none", "any", "failed", "array", "task", "all", "one", "plain"}},
	}
	for _, s := range steps {
		dependents := end(s.id, s.task, s.state)
		if got := met(); !slices.Equal(got, s.want) {
			t.Errorf("after the end of %s_%d: met %q, want %q", s.id, s.task, got, s.want)
		}
		if s.id == "a" && !slices.Contains(dependents, 1) {
			t.Errorf("the dependents of a are %v", dependents)
		}
	}
}
