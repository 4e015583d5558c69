package hpc

import (
	"slices"
	"testing"
	"time"
)

// TestAtArrayLimit checks when an array was at its limit: tasks in handover at one instant keep it
// there, lost runs count, and a task that has not ended counts until the end of time.
func TestAtArrayLimit(t *testing.T) {
	three := Recorded{TaskStarts: map[int]Time{1: 10, 2: 20, 3: 50}, TaskEnds: map[int]Time{1: 40, 2: 50, 3: 60}}
	lost := three
	lost.TaskInterruptions = map[int]Interruptions{3: {LostRuns: []LostRun{{Start: 12, End: 15}}}}
	open := three
	open.TaskEnds = map[int]Time{1: 40, 2: 50}
	const s = Time(time.Second)
	seen := Recorded{TaskStarts: map[int]Time{1: 10 * s, 2: 20 * s, 3: 50 * s, 4: 61 * s}, TaskEnds: map[int]Time{1: 40 * s, 2: 60 * s, 3: 90 * s, 4: 99 * s},
		TaskEligible: map[int]Time{1: 5 * s, 2: 5 * s, 3: 43 * s, 4: 60 * s}}
	released, together := seen, seen
	released.TaskEligible = map[int]Time{1: 5 * s, 2: 5 * s, 3: 48 * s, 4: 60 * s} // by its user
	together.TaskEligible = nil
	for _, c := range []struct {
		name, spec string
		record     Recorded
		want       []Interval
	}{
		{"two at once", "1-3%2", three, []Interval{{20, 40}}},
		{"one at once, overlapping", "1-3%1", three, []Interval{{10, 60}}},
		{"a limit that was not reached", "1-3%3", three, nil},
		{"no limit", "1-3", three, nil},
		{"no array", "", three, nil},
		{"tasks are not known", "1-3%1", Recorded{Start: 10, End: 60}, nil},
		{"a lost run", "1-3%2", lost, []Interval{{12, 15}, {20, 40}}},
		{"a limit that the eligible times show", "1-4", seen, []Interval{{20 * s, 40 * s}, {50 * s, 60 * s}, {61 * s, 90 * s}}},
		{"a task that became eligible without the end of another", "1-4", released, nil},
		{"tasks that became eligible together", "1-4", together, nil},
		{"a task that still runs", "1-3%1", open, []Interval{{10, Never}}},
	} {
		if got := c.record.AtArrayLimit(c.spec); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
