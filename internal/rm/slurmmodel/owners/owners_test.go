package owners

import (
	"fmt"
	"slices"
	"testing"

	"rmreplay/internal/rm/slurmmodel/selection"
)

// holder is a job of this test.
type holder struct{ Job }

func (h *holder) Holder() Job { return h.Job }

func set(nodes ...int) selection.Bits {
	s := selection.NewBits(8)
	for _, i := range nodes {
		s.Set(i)
	}
	return s
}

func nodesOf(s selection.Bits) string { return fmt.Sprint(slices.Collect(s.All)) }

// TestClose has ann's jobs on nodes 0 and 1 (hers alone), and bob's jobs on node 2, on node 3 (his alone), and on
// nodes 4 and 5 (his alone, completing; node 5 has answered).
func TestClose(t *testing.T) {
	var l List[*holder]
	jobs := []*holder{
		{Job{User: "ann", Owns: true, Nodes: set(0, 1)}}, {Job{User: "bob", Nodes: set(2)}},
		{Job{User: "bob", Owns: true, Nodes: set(3)}}, {Job{User: "bob", Owns: true, Nodes: set(4, 5), Completing: true}},
	}
	for _, j := range jobs {
		l.Add(j)
	}
	departing := func() selection.Bits { return set(4) }
	if got := nodesOf(l.Close(set(7), departing, &holder{Job{User: "cyd"}})); got != "[7]" {
		t.Errorf("no job is known to exclude users, and these nodes are closed: %s", got)
	}
	l.Exclusive = true
	for want, job := range map[string]Job{
		"[0 1 3 4 7]":     {User: "cyd"},
		"[3 4 7]":         {User: "ann"},
		"[0 1 7]":         {User: "bob"},
		"[0 1 2 3 4 5 7]": {User: "cyd", Owns: true},
		"[2 3 4 5 7]":     {User: "ann", Owns: true},
	} {
		if got := nodesOf(l.Close(set(7), departing, &holder{job})); got != want {
			t.Errorf("closed for %+v: %s, want %s", job, got, want)
		}
	}
	l.Remove(jobs[3])
	rest := set(0, 1, 2, 3, 4, 5, 6)
	if l.Exclude(rest, departing, &holder{Job{User: "ann"}}); nodesOf(rest) != "[0 1 2 4 5 6]" {
		t.Errorf("ann may use %s", nodesOf(rest))
	}
}

// TestFilter has ann's job until 100 on node 0, bob's until 200 on node 1 (his alone) and until 300 on node 2, and
// jobs of both until 400 on node 3.
func TestFilter(t *testing.T) {
	var l List[*holder]
	if later, stop := l.Usage(8).Filter(set(0), nil, 1, 0, Job{User: "cyd", Owns: true}); later != 0 || stop {
		t.Errorf("without jobs that exclude users: %d, %v", later, stop)
	}
	l.Exclusive = true
	for _, j := range []Job{
		{User: "ann", Nodes: set(0), End: 100}, {User: "bob", Owns: true, Nodes: set(1), End: 200},
		{User: "bob", Nodes: set(2), End: 300}, {User: "ann", Nodes: set(3), End: 350}, {User: "bob", Nodes: set(3), End: 400},
	} {
		l.Add(&holder{j})
	}
	u := l.Usage(8)
	u.Add(Job{User: "cyd", Nodes: set(4), End: 500})
	for _, test := range []struct {
		job      Job
		least    int
		from     int64
		required selection.Bits
		want     string
	}{
		{Job{User: "ann"}, 1, 0, nil, "[0 2 3 4 5] 200 false"},
		{Job{User: "bob"}, 1, 0, nil, "[0 1 2 3 4 5] 0 false"},
		{Job{User: "cyd"}, 6, 0, nil, "[0 1 2 3 4 5] 200 true"},
		{Job{User: "cyd"}, 1, 200, nil, "[0 1 2 3 4 5] 0 false"},
		{Job{User: "ann", Owns: true}, 1, 0, nil, "[0 5] 200 false"},
		{Job{User: "bob", Owns: true}, 1, 350, nil, "[0 1 2 5] 400 false"},
		{Job{User: "bob", Owns: true}, 5, 0, nil, "[0 1 2 3 5] 400 true"},
		{Job{User: "cyd", Owns: true}, 1, 0, set(2), "[0 1 2 4 5] 300 true"},
	} {
		nodes := set(0, 1, 2, 3, 4, 5)
		later, stop := u.Filter(nodes, test.required, test.least, test.from, test.job)
		if got := fmt.Sprint(nodesOf(nodes), " ", later, " ", stop); got != test.want {
			t.Errorf("%+v from %d, at least %d: %s, want %s", test.job, test.from, test.least, got, test.want)
		}
	}
}
