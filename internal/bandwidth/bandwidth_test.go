package bandwidth

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rmreplay/internal/hpc"
)

const mib = 1 << 20

// model makes a file system of 100 MiB/s.
func model(t testing.TB, bandwidth int64) *Model {
	t.Helper()
	m, err := New([]hpc.FileSystem{{Name: "lustre", Bandwidth: bandwidth}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// writes is a phase that moves a volume at a rate.
func writes(volume, rate int64) []hpc.Phase {
	return []hpc.Phase{{Duration: time.Duration(volume / rate * int64(time.Second)), FileSystem: "lustre", Rate: rate}}
}

// drain runs the model until all jobs have ended and returns their ends in seconds.
func drain(m *Model) map[int]float64 {
	ends := map[int]float64{}
	for at := m.Next(); at != hpc.Never; at = m.Next() {
		for _, id := range m.Advance(at) {
			ends[id] = at.Seconds()
		}
	}
	return ends
}

func check(t *testing.T, got map[int]float64, want ...float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d jobs end, want %d: %v", len(got), len(want), got)
	}
	for i, w := range want {
		if math.Abs(got[i+1]-w) > 1e-6 {
			t.Errorf("job %d ends at %v s, want %v s", i+1, got[i+1], w)
		}
	}
}

func TestAloneAJobTakesItsTime(t *testing.T) {
	m := model(t, 100*mib)
	m.Start(0, 1, 1, 7*time.Second, []hpc.Phase{{Duration: time.Second}, {Duration: 3 * time.Second, FileSystem: "lustre", Bytes: 7*mib + 3}, {Duration: time.Second, FileSystem: "other", Rate: math.MaxInt64}})
	check(t, drain(m), 7)
}

// Two equal jobs share. The second has half as much to write: it ends when both jobs have written
// this amount. The first job then continues alone at its full speed.
func TestTwoJobsShare(t *testing.T) {
	m := model(t, 100*mib)
	m.Start(0, 1, 1, 10*time.Second, writes(1000*mib, 100*mib))
	m.Start(0, 2, 1, 5*time.Second, writes(500*mib, 100*mib))
	if l := m.Load("lustre"); l != (Load{200 * mib, 100 * mib}) {
		t.Errorf("load %+v, want 200 MiB/s asked and 100 MiB/s granted", l)
	}
	check(t, drain(m), 15, 10)
	if l := m.Load("lustre"); l != (Load{}) {
		t.Errorf("load %+v after the end", l)
	}
}

// A job that asks for less than its share keeps its speed, and the others share the rest by nodes.
func TestMaxMinShares(t *testing.T) {
	m := model(t, 100*mib)
	m.Start(0, 1, 4, 10*time.Second, writes(100*mib, 10*mib))   // asks for 2.5 a node: less than its share
	m.Start(0, 2, 1, 10*time.Second, writes(1000*mib, 100*mib)) // gets 90/3 = 30
	m.Start(0, 3, 2, 10*time.Second, writes(1000*mib, 100*mib)) // gets 60
	// Job 1 ends at 10 s; job 2 has 700 MiB left and job 3 400 MiB. They get 33.3 and 66.7 MiB/s: job
	// 3 ends 6 s later. Job 2 has 500 MiB left, and then has the file system alone.
	check(t, drain(m), 10, 21, 16)
}

// Computing does not load the file system. Of two jobs that read, compute and write, the second
// reads while the first computes.
func TestPhases(t *testing.T) {
	m := model(t, 100*mib)
	phases := []hpc.Phase{
		{Duration: 2 * time.Second, FileSystem: "lustre", Bytes: 200 * mib},
		{Duration: 2 * time.Second},
		{Duration: 2 * time.Second, FileSystem: "lustre", Bytes: 200 * mib},
	}
	m.Start(0, 1, 1, 6*time.Second, phases)
	m.Start(hpc.Unix(2), 2, 1, 6*time.Second, phases)
	check(t, drain(m), 6, 8)

	m = model(t, 100*mib)
	m.Start(0, 1, 1, 6*time.Second, phases)
	m.Start(0, 2, 1, 6*time.Second, phases)
	check(t, drain(m), 10, 10) // both phases of I/O take twice as long, for both jobs
}

func TestAKilledJobLeavesItsShare(t *testing.T) {
	m := model(t, 100*mib)
	m.Start(0, 1, 1, 10*time.Second, writes(1000*mib, 100*mib))
	m.Start(0, 2, 1, 10*time.Second, writes(1000*mib, 100*mib))
	m.Stop(hpc.Unix(10), 2)
	m.Stop(hpc.Unix(10), 2)
	check(t, drain(m), 15)
}

func TestRunsWithoutEnd(t *testing.T) {
	m := model(t, 100*mib)
	m.Start(0, 1, 1, hpc.Unlimited, []hpc.Phase{{FileSystem: "lustre", Rate: 100 * mib}})
	m.Start(0, 2, 1, 10*time.Second, writes(1000*mib, 100*mib))
	ends := map[int]float64{}
	for _, id := range m.Advance(m.Next()) {
		ends[id] = m.now.Seconds()
	}
	if ends[2] != 20 || m.Next() != hpc.Never {
		t.Errorf("ends %v, next %v; want job 2 at 20 s and nothing after it", ends, m.Next())
	}
}

func TestHugeNumbers(t *testing.T) {
	m := model(t, math.MaxInt64)
	m.Start(0, 1, math.MaxInt32, math.MaxInt64-1, []hpc.Phase{{FileSystem: "lustre", Rate: math.MaxInt64}})
	m.Start(0, 2, 1, time.Hour, []hpc.Phase{{FileSystem: "lustre", Bytes: math.MaxInt64}})
	m.Start(0, 3, 0, 0, nil)
	drain(m)
}

func TestBadFileSystems(t *testing.T) {
	for _, list := range [][]hpc.FileSystem{{{Name: "", Bandwidth: 1}}, {{Name: "a"}}, {{Name: "a", Bandwidth: -1}}, {{Name: "a", Bandwidth: 1}, {Name: "a", Bandwidth: 1}}} {
		if _, err := New(list); err == nil {
			t.Errorf("%+v: no error", list)
		}
	}
}

// Properties: the shares are max-min fair, a file system is never overbooked, volumes are
// conserved, and it does not matter how often the model is asked.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type start struct {
			at    hpc.Time
			nodes int
			run   time.Duration
			rate  int64
		}
		const bandwidth = 1000
		var starts []start
		for range rapid.IntRange(1, 8).Draw(t, "jobs") {
			starts = append(starts, start{
				hpc.Time(rapid.Int64Range(0, 20e9).Draw(t, "at")), rapid.IntRange(1, 5).Draw(t, "nodes"),
				time.Duration(rapid.Int64Range(1, 20e9).Draw(t, "run")), rapid.Int64Range(1, 1500).Draw(t, "rate"),
			})
		}
		slices.SortFunc(starts, func(a, b start) int { return int(a.at - b.at) })
		play := func(often time.Duration) map[int]hpc.Time {
			m, err := New([]hpc.FileSystem{{Name: "lustre", Bandwidth: bandwidth}})
			if err != nil {
				t.Fatal(err)
			}
			ends, moved := map[int]hpc.Time{}, 0.0
			until := func(at hpc.Time) {
				for m.now < at || m.Next() <= at {
					load, before := m.Load("lustre"), m.now
					if load.Granted > max(bandwidth, int64(len(m.order))) || load.Granted < min(load.Asked, bandwidth)-int64(len(m.order)) {
						t.Fatalf("load %+v of %d", load, bandwidth)
					}
					fair(t, m)
					next := min(m.Next(), at)
					if often > 0 {
						next = min(next, m.now.Add(often))
					}
					if next == hpc.Never {
						return
					}
					for _, id := range m.Advance(next) {
						ends[id] = next
					}
					moved += float64(load.Granted) * m.now.Sub(before).Seconds()
				}
			}
			want := 0.0
			for i, s := range starts {
				until(s.at)
				m.Start(s.at, i, s.nodes, s.run, []hpc.Phase{{FileSystem: "lustre", Rate: s.rate}})
				want += float64(s.rate) * s.run.Seconds()
			}
			for len(ends) < len(starts) {
				until(m.Next())
			}
			if math.Abs(moved-want) > 1e-3+want*1e-6 {
				t.Fatalf("%v bytes moved, want %v", moved, want)
			}
			return ends
		}
		ends := play(0)
		for i, s := range starts {
			if ends[i] < s.at.Add(s.run) {
				t.Fatalf("job %d ends before its run time is over", i)
			}
		}
		if often := play(777 * time.Millisecond); !equal(ends, often) {
			t.Fatalf("asked more often, the jobs end at %v instead of %v", often, ends)
		}
	})
}

func equal(a, b map[int]hpc.Time) bool {
	for id, at := range a {
		if b[id] != at {
			return false
		}
	}
	return len(a) == len(b)
}

// fair checks that no slowed job has less for each node than any other job, except for the rounding.
func fair(t *rapid.T, m *Model) {
	for _, slow := range m.order {
		if slow.rate >= slow.phases[0].demand {
			continue
		}
		for _, other := range m.order {
			if float64(other.rate)/float64(other.nodes) > float64(slow.rate+1)/float64(slow.nodes)+1 {
				t.Fatalf("a slowed job has %d on %d nodes, another %d on %d", slow.rate, slow.nodes, other.rate, other.nodes)
			}
		}
	}
}

// TestSuspend: a suspended job makes no progress and leaves its bandwidth to the others.
func TestSuspend(t *testing.T) {
	m, err := New([]hpc.FileSystem{{Name: "lustre", Bandwidth: 100}})
	if err != nil {
		t.Fatal(err)
	}
	writes := []hpc.Phase{{Duration: 100 * time.Second, FileSystem: "lustre", Rate: 100}}
	m.Start(0, 1, 1, 100*time.Second, writes)
	m.Start(0, 2, 1, 100*time.Second, writes)
	m.Suspend(50*hpc.Second, 1) // both jobs have moved a quarter of their data
	m.Suspend(50*hpc.Second, 1)
	m.Suspend(50*hpc.Second, 3)
	if load := m.Load("lustre"); load != (Load{100, 100}) || m.Next() != 125*hpc.Second {
		t.Errorf("load %+v, next %v", load, m.Next())
	}
	if done := m.Advance(125 * hpc.Second); len(done) != 1 || done[0] != 2 || m.Next() != hpc.Never {
		t.Errorf("done %v, next %v", done, m.Next())
	}
	m.Resume(200*hpc.Second, 1)
	m.Resume(200*hpc.Second, 1)
	if m.Next() != 275*hpc.Second {
		t.Errorf("next %v, want 275 s", m.Next())
	}
	m.Suspend(210*hpc.Second, 1)
	m.Stop(220*hpc.Second, 1)
	if load := m.Load("lustre"); load != (Load{}) || m.Next() != hpc.Never {
		t.Errorf("load %+v, next %v", load, m.Next())
	}
}
