package gang

import (
	"slices"
	"testing"

	"rmreplay/internal/rm/slurmmodel/rows"
)

// TestScheduler checks that a job of a high tier suspends a job of a low tier until the first job
// ends, and that two jobs of a partition take turns.
func TestScheduler(t *testing.T) {
	var did []string
	s := New([]rows.Partition{{Tier: 1}, {Tier: 10}}, 8, Actions[string]{
		Halt: func(job string, goOn bool) {
			if goOn {
				did = append(did, "+"+job)
			} else {
				did = append(did, "-"+job)
			}
		},
		Suspends: func(string) bool { return true },
	})
	expect := func(what string, want ...string) {
		t.Helper()
		if !slices.Equal(did, want) {
			t.Errorf("%s: %v, want %v", what, did, want)
		}
		did = nil
	}
	s.Start("low", 0, []int{0, 1})
	s.Start("beside", 0, []int{2, 3})
	expect("jobs on other cores")
	s.Start("high", 1, []int{1, 5})
	expect("a higher tier", "-low")
	s.Slice()
	expect("a slice under a shadow")
	s.End("high", 1)
	expect("its end", "+low")
	if s.Start("twin", 0, []int{0}) {
		t.Error("a job runs on cores of another one")
	}
	expect("the same cores", "-twin")
	s.Slice()
	expect("the first slice")
	s.Slice()
	expect("the second slice", "-low", "+twin")
}
