package windows_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"rmreplay/internal/rm/nodeset"
	"rmreplay/internal/rm/slurmmodel/windows"
)

// node is the only node of a job.
type node int

type job = windows.Job[node]

func ending(at int64, on node) job {
	set := nodeset.New(2)
	set.Set(int(on))
	return job{End: at, Allocation: on, Nodes: set.Sparse()}
}

func here(ends ...int64) (list []job) {
	for _, end := range ends {
		list = append(list, ending(end, 0))
	}
	return list
}

// TestWalk checks that the first window ends 30 s after the first end, rounded up to half a minute.
// Each further window is twice as long, or longer by bf_window_linear, and reaches beyond the next
// end.
func TestWalk(t *testing.T) {
	crowd := here(slices.Repeat([]int64{40}, 250)...)
	for _, c := range []struct {
		name          string
		jobs          []job
		linear, until int64
		want          string // for each test, how many jobs have left, and the index of the last of these
	}{
		{"no jobs", nil, 0, 0, ""},
		{"one job", here(40), 0, 0, "1:0"},
		{"within the window", here(40, 60, 90), 0, 0, "3:2"},
		{"second job ends after the window", here(40, 91, 120, 121), 0, 0, "1:0 3:2 4:3"},
		{"windows double", here(40, 91, 121, 181, 301), 0, 0, "1:0 2:1 3:2 4:3 5:4"},
		{"a window reaches beyond the next end", here(40, 1000, 1020, 1021), 0, 0, "1:0 3:2 4:3"},
		{"windows grow by a minute", here(40, 150, 151, 211), 60, 0, "1:0 2:1 3:2 4:3"},
		{"jobs elsewhere do not leave", []job{ending(10, 1), ending(40, 0), ending(50, 1), ending(60, 0)}, 0, 0, "2:3"},
		{"ends of jobs elsewhere close a window", []job{ending(40, 0), ending(91, 1), ending(92, 0)}, 0, 0, "1:0 2:2"},
		{"only jobs elsewhere", []job{ending(40, 1)}, 0, 0, ""},
		{"until an instant", here(40, 91, 121), 0, 100, "1:0 2:1"},
		{"more jobs than one test removes", crowd, 0, 0, "250:249"},
		{"more jobs than one test removes, and later jobs", append(crowd, here(1000, 5000)...), 0, 0, "250:249 251:250 252:251"},
	} {
		set := nodeset.New(2)
		set.Set(0)
		w := windows.Walk[node]{Jobs: c.jobs, Set: set, Linear: c.linear, Until: c.until}
		var got []string
		left := 0
		for w.Next(func(node) { left++ }) {
			if got = append(got, fmt.Sprintf("%d:%d", w.Gone, w.Last)); left != w.Gone {
				t.Errorf("%s: %d jobs have left, and %d are counted", c.name, left, w.Gone)
			}
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestAlso checks that jobs count that are elsewhere but hold licences of the waiting job.
func TestAlso(t *testing.T) {
	set := nodeset.New(2)
	set.Set(0)
	h := windows.Horizon[node]{
		Running: []job{ending(10, 1), ending(40, 0), ending(200, 1), ending(5000, 0)},
		Also:    func(j job) bool { return j.End != 5000 },
	}
	w := h.Walk(set)
	var got []string
	left := 0
	for w.Next(func(node) { left++ }) {
		got = append(got, fmt.Sprintf("%d:%d:%d", w.Gone, w.Last, left))
	}
	if got, want := strings.Join(got, " "), "2:1:1 3:2:1 4:3:2"; got != want {
		t.Errorf("%s, want %s: jobs that count, the last of them, and those that leave nodes", got, want)
	}
}
