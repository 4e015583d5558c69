package hpc

import (
	"slices"
	"testing"
	"time"
)

// TestAtArrayLimit checks when an array was at its limit. It stays there if a task starts when
// another ends, lost runs count, and a task that has not ended counts until the end of time.
func TestAtArrayLimit(t *testing.T) {
	three := []Interval{{10, 40}, {20, 50}, {50, 60}}
	const s = Time(time.Second)
	seen := []Interval{{10 * s, 40 * s}, {20 * s, 60 * s}, {50 * s, 90 * s}, {61 * s, 99 * s}}
	for _, c := range []struct {
		name     string
		runs     []Interval
		others   []Interval
		eligible []Time
		limit    int
		want     []Interval
	}{
		{"two at once", three, nil, nil, 2, []Interval{{20, 40}}},
		{"one at once, overlapping", three, nil, nil, 1, []Interval{{10, 60}}},
		{"a limit that was not reached", three, nil, nil, 3, nil},
		{"no limit", three, nil, nil, 0, nil},
		{"no task started", nil, nil, []Time{5, 5}, 1, nil},
		{"a lost run", append([]Interval{{12, 15}}, three...), nil, nil, 2, []Interval{{12, 15}, {20, 40}}},
		{"a limit that the eligible times show", seen, nil, []Time{5 * s, 5 * s, 43 * s, 60 * s}, 0,
			[]Interval{{20 * s, 40 * s}, {50 * s, 60 * s}, {61 * s, 90 * s}}},
		{"a task that its user released, without the end of another", seen, nil, []Time{5 * s, 5 * s, 48 * s, 60 * s}, 0, nil},
		{"tasks that became eligible together", seen, nil, []Time{5 * s, 5 * s, 5 * s, 5 * s}, 0, nil},
		{"a task that still runs", []Interval{{10, 40}, {20, 50}, {50, Never}}, nil, nil, 1, []Interval{{10, Never}}},
		{"with another job", three, []Interval{{45, 55}}, nil, 2, []Interval{{20, 40}, {45, 55}}},
		{"another job does not keep the limit", three, []Interval{{30, 55}}, nil, 2, []Interval{{20, 40}}},
	} {
		if got := AtArrayLimit(c.runs, c.others, c.eligible, c.limit); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestScriptExit: a job that failed without a recorded exit status must not end as COMPLETED.
func TestScriptExit(t *testing.T) {
	failed := &Recorded{State: Failed, TaskStates: map[int]State{2: Completed}}
	for _, c := range []struct {
		job  Job
		task int
		want int
	}{
		{Job{}, -1, 0},
		{Job{Recorded: &Recorded{State: Completed}}, -1, 0},
		{Job{Recorded: failed}, -1, 1},
		{Job{Recorded: failed, Behaviour: Behaviour{ExitCode: 7}}, -1, 7},
		{Job{Recorded: failed}, 1, 1},
		{Job{Recorded: failed}, 2, 0},
	} {
		if got := c.job.ScriptExit(c.task); got != c.want {
			t.Errorf("%+v, task %d: exit status %d, want %d", c.job.Recorded, c.task, got, c.want)
		}
	}
}
