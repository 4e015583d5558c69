package preemption

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"rmreplay/internal/rm/slurmmodel/accounts"
	"rmreplay/internal/rm/slurmmodel/parameters"
	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/rm/slurmmodel/sharing"
	"rmreplay/internal/slurmspec"
)

// conf returns the keys of lines such as "PreemptMode=REQUEUE".
func conf(text string) func(string) (string, bool) {
	keys := map[string]string{}
	for line := range strings.FieldsSeq(text) {
		key, v, _ := strings.Cut(line, "=")
		keys[key] = v
	}
	return func(key string) (string, bool) { v, ok := keys[key]; return v, ok }
}

const (
	byQOS  = "PreemptType=preempt/qos PreemptMode="
	byTier = "PreemptType=preempt/partition_prio PreemptMode="
)

func read(t *testing.T, release slurmspec.Release, text string) *Settings {
	t.Helper()
	get := conf(text)
	return Read(get, parameters.Read(get), parameters.RulesOf(release))
}

// cluster is a machine whose nodes have eight cores each, with its running jobs.
type cluster struct {
	x     *selection.Tester
	state *selection.State
	part  *Partition
	jobs  map[string]*Job
}

func newCluster(nodes int) *cluster {
	m := &selection.Machine{CountMemory: true}
	set := selection.NewBits(nodes)
	for i := range nodes {
		m.Nodes = append(m.Nodes, selection.Node{
			Name: fmt.Sprint("n", i), Sockets: 2, Cores: 4, Threads: 1, CPUs: 8, Memory: 8000, Weight: 1,
		})
		set.Set(i)
	}
	m.Prepare()
	x := selection.NewTester(m)
	return &cluster{x, x.NewState(), NewPartition(conf(""), set, 1), map[string]*Job{}}
}

func request(cpus int) *selection.Request {
	return &selection.Request{MinCPUs: cpus, CPUsPerTask: 1, Memory: 100, MemoryPerCPU: true}
}

func counts(n int) selection.Counts { return selection.Counts{Min: n, Max: 500000, Wanted: n} }

// run starts a job on nodes.
func (c *cluster) run(t *testing.T, name string, qos *accounts.QOS, cpus int, nodes ...int) *Job {
	t.Helper()
	set := selection.NewBits(len(c.x.Nodes))
	for _, i := range nodes {
		set.Set(i)
	}
	c.x.Weigh(set)
	alloc := c.x.Test(c.state, request(cpus), set, counts(len(nodes)), selection.RunNow)
	if alloc == nil {
		t.Fatalf("%s does not fit on %v", name, nodes)
	}
	c.x.Add(c.state, alloc)
	c.jobs[name] = &Job{
		QOS: qos, Partition: c.part, Allocation: alloc, Place: len(c.jobs), Start: int64(100 + len(c.jobs)), End: 1000,
	}
	return c.jobs[name]
}

// take returns the jobs that a job with a number of CPUs on a number of nodes preempts.
func (c *cluster) take(s *Settings, by *Job, cpus, nodes int) string {
	var candidates []*Job
	for _, j := range c.jobs {
		if s.MayBePreempted(j, by, 500) {
			candidates = append(candidates, j)
		}
	}
	s.Order(candidates)
	try := Try{Tester: c.x, State: c.state, Request: request(cpus), Counts: counts(nodes), Candidates: candidates}
	alloc, victims := s.Now(&try, c.part.Nodes)
	if alloc == nil {
		return "nobody"
	}
	var names []string
	for _, v := range victims {
		for name, j := range c.jobs {
			if j == v {
				names = append(names, name)
			}
		}
	}
	return strings.Join(names, " ")
}

// TestRead checks that jobs are preempted only with a plugin and a mode, and that PreemptParameters
// is read since 23.02.
func TestRead(t *testing.T) {
	for text, on := range map[string]bool{
		"": false, "PreemptType=preempt/none": false, "PreemptMode=REQUEUE": false,
		"PreemptType=preempt/qos PreemptMode=OFF":               false,
		byQOS + "REQUEUE":                                       true,
		"PreemptType=preempt/partition_prio PreemptMode=CANCEL": true,
	} {
		if s := read(t, slurmspec.R2205, text); (s != nil) != on {
			t.Errorf("%q: preemption is %v, want %v", text, s != nil, on)
		}
	}
	const text = byQOS + "REQUEUE,WITHIN PreemptExemptTime=00:02:00 KillWait=20 " +
		"MessageTimeout=7 SchedulerParameters=preempt_reorder_count=3 " +
		"PreemptParameters=strict_order,youngest_first,min_exempt_priority=50"
	old, now := read(t, slurmspec.R2205, text), read(t, slurmspec.R2411, text)
	if old.strictOrder || old.youngestFirst || old.rounds != 3 || old.rest != 27 || old.exempt != 120 || !old.within {
		t.Errorf("22.05: %+v", old)
	}
	if !now.strictOrder || !now.youngestFirst || now.rounds != 3 || now.maxPriority != 50 {
		t.Errorf("24.11: %+v", now)
	}
}

// TestModes checks that a QOS or a partition has its own mode, or that of the cluster.
func TestModes(t *testing.T) {
	part := NewPartition(conf("PreemptMode=CANCEL GraceTime=30"), nil, 1)
	plain := NewPartition(conf(""), nil, 1)
	own, cluster := &accounts.QOS{PreemptMode: "cancel", GraceTime: 9}, &accounts.QOS{PreemptMode: "cluster"}
	qos := read(t, slurmspec.R2205, byQOS+"REQUEUE")
	prio := read(t, slurmspec.R2205, byTier+"REQUEUE")
	for i, c := range []struct {
		s     *Settings
		job   *Job
		mode  Mode
		grace int64
	}{
		{qos, &Job{QOS: own, Partition: part}, Cancel, 9},
		{qos, &Job{QOS: cluster, Partition: part}, Requeue, 0},
		{qos, &Job{Partition: part}, Requeue, 0},
		{prio, &Job{QOS: own, Partition: part}, Cancel, 30},
		{prio, &Job{QOS: own, Partition: plain}, Requeue, 0},
		{nil, &Job{QOS: own, Partition: part}, Off, 0},
	} {
		if got := c.s.ModeOf(c.job); got != c.mode {
			t.Errorf("%d: mode %v, want %v", i, got, c.mode)
		}
		if c.s != nil && c.s.Grace(c.job) != c.grace {
			t.Errorf("%d: grace time %d, want %d", i, c.s.Grace(c.job), c.grace)
		}
	}
}

// TestMayBePreempted checks which jobs may preempt which, and from which instant.
func TestMayBePreempted(t *testing.T) {
	low := &accounts.QOS{Name: "low", PreemptExempt: -1}
	high := &accounts.QOS{Name: "high", PreemptExempt: -1, Preempts: []*accounts.QOS{low}}
	safe := &accounts.QOS{Name: "safe", PreemptExempt: 300}
	c := newCluster(1)
	job := c.run(t, "a", low, 1, 0)
	for i, one := range []struct {
		conf     string
		change   func(job, by *Job)
		at       int64
		possible bool
	}{
		{byQOS + "REQUEUE", func(_, _ *Job) {}, 100, true},
		{byQOS + "REQUEUE", func(_, by *Job) { by.QOS = low }, 100, false},
		{byQOS + "REQUEUE", func(_, by *Job) { by.QOS = nil }, 100, false},
		{byQOS + "REQUEUE,WITHIN", func(_, by *Job) { by.QOS, by.Priority = low, 8 }, 100, true},
		{byQOS + "REQUEUE,WITHIN", func(_, by *Job) { by.QOS, by.Priority = low, 7 }, 100, false},
		{byQOS + "REQUEUE PreemptExemptTime=00:01:00", func(_, _ *Job) {}, 159, false},
		{byQOS + "REQUEUE PreemptExemptTime=00:01:00", func(_, _ *Job) {}, 160, true},
		{byQOS + "REQUEUE", func(j, _ *Job) { j.Partition = &Partition{QOS: safe, Nodes: c.part.Nodes} }, 399, false},
		{byQOS + "REQUEUE PreemptParameters=min_exempt_priority=6", func(_, _ *Job) {}, 100, false},
		{byTier + "REQUEUE", func(_, _ *Job) {}, 100, false},
		{byTier + "REQUEUE", func(_, by *Job) { by.Partition = NewPartition(conf(""), c.part.Nodes, 2) }, 100, true},
		{
			byTier + "REQUEUE",
			func(j, by *Job) {
				by.Partition = NewPartition(conf(""), c.part.Nodes, 2)
				j.Partition = NewPartition(conf("PreemptMode=OFF"), c.part.Nodes, 1)
			}, 100, false,
		},
		{
			byTier + "REQUEUE",
			func(_, by *Job) { by.Partition = NewPartition(conf(""), selection.NewBits(1), 2) }, 100, false,
		},
	} {
		victim, by := *job, Job{QOS: high, Partition: c.part}
		victim.Priority = 7
		one.change(&victim, &by)
		if got := read(t, slurmspec.R2411, one.conf).MayBePreempted(&victim, &by, one.at); got != one.possible {
			t.Errorf("%d: %s: may be preempted: %v, want %v", i, one.conf, got, one.possible)
		}
	}
}

// TestNow checks that jobs of low QOS and small jobs leave first, and that only jobs leave that are
// needed.
func TestNow(t *testing.T) {
	low := &accounts.QOS{Name: "low", Priority: 1, PreemptExempt: -1}
	mid := &accounts.QOS{Name: "mid", Priority: 5, PreemptExempt: -1}
	off := &accounts.QOS{Name: "off", PreemptMode: "off,within", PreemptExempt: -1}
	high := &accounts.QOS{Name: "high", Priority: 9, PreemptExempt: -1, Preempts: []*accounts.QOS{low, mid, off}}
	for _, one := range []struct {
		parameters  string
		cpus, nodes int
		want        string
	}{
		{"", 8, 1, "d"},  // one job has a node alone
		{"", 16, 2, "c"}, // a job of two nodes instead of three of one
		{"", 40, 5, "nobody"},
		{"", 24, 3, "d c"}, // the candidate that made the job fit comes first, in two rounds
		{"preempt_youngest_first", 8, 1, "d"},
		{"preempt_reorder_count=0", 16, 2, "c"},
		{"preempt_strict_order", 24, 3, "d c"},
		{"preempt_reorder_count=0", 24, 3, "c a d"},
	} {
		c := newCluster(5)
		c.run(t, "a", low, 4, 0)
		c.run(t, "b", mid, 4, 0)
		c.run(t, "c", low, 16, 1, 2)
		c.run(t, "d", low, 8, 3)
		c.run(t, "e", off, 8, 4)
		s := read(t, slurmspec.R2205, byQOS+"REQUEUE SchedulerParameters="+one.parameters)
		if got := c.take(s, &Job{QOS: high, Partition: c.part}, one.cpus, one.nodes); got != one.want {
			t.Errorf("%s: %d CPUs on %d nodes preempt %s, want %s", one.parameters, one.cpus, one.nodes, got, one.want)
		}
	}
}

// TestNowLeavesTheMachineAlone checks that a choice does not change the state, and that the job
// fits without the chosen jobs.
func TestNowLeavesTheMachineAlone(t *testing.T) {
	low := &accounts.QOS{Name: "low", PreemptExempt: -1}
	s := read(t, slurmspec.R2205, "PreemptType=preempt/qos PreemptMode=CANCEL")
	rapid.Check(t, func(rt *rapid.T) {
		c := newCluster(4)
		var candidates []*Job
		for i := range 4 {
			for k := range rapid.IntRange(0, 2).Draw(rt, "jobs") {
				candidates = append(candidates, c.run(t, fmt.Sprint(i, k), low, rapid.IntRange(1, 4).Draw(rt, "cpus"), i))
			}
		}
		s.Order(candidates)
		cpus, nodes := rapid.IntRange(1, 32).Draw(rt, "wanted"), rapid.IntRange(1, 4).Draw(rt, "nodes")
		r := request(max(cpus, nodes))
		r.Class = 7
		before := slices.Clone(candidates)
		alloc, victims := s.Now(&Try{Tester: c.x, State: c.state, Request: r, Counts: counts(nodes), Candidates: candidates}, c.part.Nodes)
		if r.Class != 7 || !slices.Equal(candidates, before) {
			rt.Fatal("the request or the candidates have changed")
		}
		if alloc == nil {
			if r.MinCPUs <= 32 && len(candidates) > 0 {
				rt.Fatalf("%d CPUs on %d nodes do not fit without %d jobs", r.MinCPUs, nodes, len(candidates))
			}
			return
		}
		for _, v := range victims {
			c.x.Remove(c.state, v.Allocation)
		}
		if c.x.Test(c.state, r, alloc.Nodes, counts(alloc.Nodes.Count()), selection.RunNow) == nil {
			rt.Fatalf("%d CPUs do not fit on the nodes that %d jobs leave", r.MinCPUs, len(victims))
		}
	})
}

// TestWillRun checks that a job that may preempt the running job can start now, and other jobs when
// the running job ends.
func TestWillRun(t *testing.T) {
	low := &accounts.QOS{Name: "low", PreemptExempt: -1}
	c := newCluster(2)
	a, b := c.run(t, "a", low, 8, 0), c.run(t, "b", nil, 8, 1)
	a.End, b.End = 900, 800
	running := []selection.Running{
		{Allocation: b.Allocation, Nodes: b.Allocation.Nodes.Sparse(), End: 800},
		{Allocation: a.Allocation, Nodes: a.Allocation.Nodes.Sparse(), End: 900},
	}
	s := read(t, slurmspec.R2205, byQOS+"REQUEUE")
	for _, release := range []bool{false, true} {
		for _, one := range []struct {
			nodes      int
			candidates []*Job
			now        bool // only a start now is of interest
			want       int64
		}{
			{1, nil, false, 800}, {1, []*Job{a}, false, 500}, {1, []*Job{a}, true, 500},
			{2, []*Job{a}, false, 800}, {2, nil, true, 0},
		} {
			h := selection.Horizon{Now: 500, Running: running, NowOnly: one.now, Since2411: release}
			try := Try{c.x, c.state, request(8 * one.nodes), counts(one.nodes), one.candidates, make([]sharing.Use, 1)}
			if _, start := s.WillRun(&try, c.part.Nodes, &h); start != one.want {
				t.Errorf("%d nodes, %d candidates: starts at %d, want %d", one.nodes, len(one.candidates), start, one.want)
			}
		}
	}
}

// TestStop checks that a job with a grace time is warned and leaves when the time is over, and that
// other jobs leave at once.
func TestStop(t *testing.T) {
	s := read(t, slurmspec.R2205, byQOS+"REQUEUE")
	slow := &Job{QOS: &accounts.QOS{GraceTime: 60}, End: 1000, Requeue: true}
	for i, one := range []struct {
		by   string
		now  int64
		want Fate
	}{{"x", 500, Warned}, {"x", 559, Stays}, {"", 560, Returns}} {
		if fate := s.Stop(slow, one.by, one.now); fate != one.want || slow.By != "" || slow.End != 560 {
			t.Errorf("%d: %d, want %d, by %q, end %d", i, fate, one.want, slow.By, slow.End)
		}
	}
	fast := &Job{QOS: &accounts.QOS{PreemptMode: "cancel"}, End: 1000}
	if fate := s.Stop(fast, "x", 500); fate != Leaves || fast.By != "x" || fast.End != 500 {
		t.Errorf("without a grace time: %d, by %q, end %d", fate, fast.By, fast.End)
	}
	stays := &Job{QOS: &accounts.QOS{}, End: 1000}
	if fate := s.Stop(stays, "x", 500); fate != Leaves || s.Retry(stays) {
		t.Errorf("a job that may not return to the queue: %d", fate)
	}
	for i := range 7 {
		if retry, many := s.Retry(slow), s.TooMany(slow); !retry || many != (i == 4) {
			t.Errorf("end %d in a grace time: returns %v, too often %v", i, retry, many)
		}
	}
	if fast.Renew(); fast.By != "" || fast.Told != 0 {
		t.Error("a new run remembers the last one")
	}
}

// TestBegin checks that a job that has preempted jobs must wait before it may do so again, but the
// next task of an array need not wait.
func TestBegin(t *testing.T) {
	s, job := read(t, slurmspec.R2205, byQOS+"REQUEUE"), &Job{}
	if !s.Begin(job, 100) || s.Begin(job, 139) || !s.Begin(job, 140) {
		t.Error("a job stops others within 40 seconds, or not afterwards")
	}
	began := job.SetAside(0)
	if job.Restore(began); job.Began != 140 || !job.Underway {
		t.Errorf("set aside and restored: %d, %v", job.Began, job.Underway)
	}
	job.SetAside(0)
	if !s.Begin(job, 141) {
		t.Error("the next task of an array stops no others")
	}
	if job.Restore(began); job.Began != 141 {
		t.Errorf("a later preemption is forgotten: %d", job.Began)
	}
}

// TestSort checks that with a transitive comparison the sort is stable.
func TestSort(t *testing.T) {
	type pair struct{ key, place int }
	rapid.Check(t, func(rt *rapid.T) {
		var list []pair
		for i, key := range rapid.SliceOf(rapid.IntRange(0, 5)).Draw(rt, "keys") {
			list = append(list, pair{key, i})
		}
		want := slices.Clone(list)
		compare := func(a, b pair) int { return cmp.Compare(a.key, b.key) }
		slices.SortStableFunc(want, compare)
		if Sort(list, compare); !slices.Equal(list, want) {
			rt.Fatalf("%v, want %v", list, want)
		}
	})
	cycle := []int{4, 3, 2, 1, 0} // each comes before the next two
	Sort(cycle, func(a, b int) int {
		switch (b - a + 5) % 5 {
		case 1, 2:
			return -1
		case 0:
			return 0
		}
		return 1
	})
	if fmt.Sprint(cycle) != "[3 4 0 1 2]" { // halves of two and three elements, merged
		t.Errorf("a comparison that is not transitive gives %v", cycle)
	}
}
