package sharing

import "testing"

func line(key, value string) func(string) (string, bool) {
	return func(asked string) (string, bool) { return value, asked == key }
}

// TestRead reads OverSubscribe as slurmctld does.
func TestRead(t *testing.T) {
	for text, want := range map[string]Partition{
		"": {Jobs: 1}, "NO": {Jobs: 1}, "exclusive": {}, "YES": {Jobs: 4}, "yes:2": {Jobs: 2}, "YES:1": {Jobs: 1},
		"FORCE": {Jobs: 4, Forced: true}, "FORCE:1": {Jobs: 1, Forced: true}, "FORCE:0": {Jobs: 1}, "FORCE:x": {Jobs: 1},
	} {
		for _, key := range []string{"OverSubscribe", "Shared"} {
			if got := Read(line(key, text)); got != want {
				t.Errorf("%s=%s is %+v, want %+v", key, text, got, want)
			}
		}
	}
}

// TestResolve tries jobs in partitions one after the other, as slurmctld does before 24.11.
func TestResolve(t *testing.T) {
	no, yes, force1, force2, exclusive := Partition{Jobs: 1}, Partition{Jobs: 2}, Partition{1, true}, Partition{2, true}, Partition{}
	for _, c := range []struct {
		name  string
		job   Job
		in    []Partition
		joins bool // whether the job may get nodes with other jobs in the last partition
		want  Use  // in the last partition
	}{
		{"ordinary, NO", Of(0xffff), []Partition{no}, true, Use{}},
		{"ordinary, YES", Of(0xffff), []Partition{yes}, true, Use{}},
		{"--oversubscribe, YES", Of(1), []Partition{yes}, true, Use{Mode: Shared, Counts: true}},
		{"--oversubscribe, NO", Of(1), []Partition{no}, true, Use{Counts: true}},
		{"ordinary, FORCE:1", Of(0xffff), []Partition{force1}, true, Use{Mode: Shared, Counts: true}},
		{"--exclusive, NO", Of(0), []Partition{no}, false, Use{Alone: true}},
		{"--exclusive, YES", Of(0), []Partition{yes}, false, Use{Alone: true}},
		{"--exclusive, FORCE:1", Of(0), []Partition{force1}, false, Use{Mode: Shared, Alone: true, Counts: true}},
		{"--exclusive, FORCE:2", Of(0), []Partition{force2}, true, Use{Mode: Shared, Counts: true}},
		{"--exclusive, FORCE:2, then NO", Of(0), []Partition{force2, no}, false, Use{Alone: true}},
		{"ordinary, FORCE:2, then YES", Of(0xffff), []Partition{force2, yes}, true, Use{Mode: Shared, Counts: true}},
		{"ordinary, EXCLUSIVE", Of(0xffff), []Partition{exclusive}, false, Use{Mode: Whole, Alone: true}},
		{"--oversubscribe, EXCLUSIVE, then YES", Of(1), []Partition{exclusive, yes}, false, Use{Alone: true}},
	} {
		joins := false
		for _, p := range c.in {
			joins = c.job.Resolve(p)
		}
		if use := c.job.In(c.in[len(c.in)-1]); joins != c.joins || use != c.want {
			t.Errorf("%s: may join %t, %+v; want %t, %+v", c.name, joins, use, c.joins, c.want)
		}
	}
}

// TestAttempts checks that backfill tries twice only where the job's own will decides.
func TestAttempts(t *testing.T) {
	for _, c := range []struct {
		job  Job
		in   Partition
		want int
	}{
		{Of(1), Partition{Jobs: 2}, 2}, {Of(0xffff), Partition{Jobs: 2}, 1}, {Of(1), Partition{Jobs: 1}, 1},
		{Of(1), Partition{2, true}, 1}, {Of(1), Partition{}, 1}, {Of(0), Partition{Jobs: 2}, 1},
	} {
		got := c.job.Attempts(c.in)
		if len(got) != c.want || got[len(got)-1] != c.job.In(c.in) || c.want == 2 && got[0].Mode != Unshared {
			t.Errorf("%+v in %+v: %+v, want %d attempts", c.job, c.in, got, c.want)
		}
	}
}

// TestAdmits has nodes with one kind of job.
func TestAdmits(t *testing.T) {
	unshared, shared, whole := Use{}, Use{Mode: Shared, Counts: true}, Use{Mode: Whole, Alone: true}
	for _, c := range []struct {
		name  string
		on    Use // of the job on the node
		other bool
		admit [3]bool // by mode
	}{
		{"cores without other jobs", unshared, false, [3]bool{true, false, false}},
		{"shared cores of the own partition", shared, false, [3]bool{true, true, false}},
		{"shared cores of another partition", shared, true, [3]bool{false, true, false}},
		{"a whole node", whole, false, [3]bool{false, false, false}},
	} {
		var n Node
		n.Add(c.on, 1)
		for m := Unshared; m <= Whole; m++ {
			if got := n.Admits(m, func(all bool) bool { return all || c.other }); got != c.admit[m] {
				t.Errorf("%s: a job of mode %d gets the node: %t", c.name, m, got)
			}
		}
		if n.Counting() != c.on.Counts {
			t.Errorf("%s: counts as sharing: %t", c.name, n.Counting())
		}
		if n.Add(c.on, -1); n != (Node{}) {
			t.Errorf("%s: the node keeps %+v", c.name, n)
		}
	}
}
