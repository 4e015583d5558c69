package progress

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rmreplay/internal/hpc"
	"rmreplay/internal/replay"
)

// recorded is a run of testdata/runs.jsonl: its snapshots, the last one at its end.
type recorded struct {
	Run       string
	snapshots []Snapshot
}

// recordedRuns reads the snapshots of replays and simulations, some of them on machines that
// other programs used, too.
func recordedRuns(t *testing.T) (list []recorded) {
	t.Helper()
	file, err := os.Open("testdata/runs.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var table struct {
			Run    string
			Fields []string
			Rows   [][]int64
		}
		if err := json.Unmarshal(lines.Bytes(), &table); err != nil {
			t.Fatal(err)
		}
		run := recorded{Run: table.Run}
		for _, row := range table.Rows {
			values := make(map[string]int64)
			for i, field := range table.Fields {
				values[field] = row[i]
			}
			text, err := json.Marshal(values)
			if err != nil {
				t.Fatal(err)
			}
			var s Snapshot
			if err := json.Unmarshal(text, &s); err != nil {
				t.Fatal(err)
			}
			run.snapshots = append(run.snapshots, s)
		}
		list = append(list, run)
	}
	if err := lines.Err(); err != nil || len(list) == 0 {
		t.Fatalf("%d runs: %v", len(list), err)
	}
	return list
}

// After the first third of a run, the predicted end is within 30 % of the true end.
func TestLeft(t *testing.T) {
	for _, run := range recordedRuns(t) {
		total := run.snapshots[len(run.snapshots)-1].Elapsed
		var history History
		worst, early, looked, bounds := 0.0, 0.0, 0, 0
		for i, s := range run.snapshots {
			history.Add(s)
			if 3*s.Elapsed < total || i == len(run.snapshots)-1 {
				continue
			}
			e := history.Left()
			if !e.Known {
				t.Errorf("%s: nothing is known after %v of %v", run.Run, s.Elapsed, total)
				continue
			}
			if looked++; e.AtLeast {
				bounds++
			}
			off := float64(s.Elapsed+e.Left)/float64(total) - 1
			if math.Abs(off) > math.Abs(worst) {
				worst, early = off, float64(s.Elapsed)/float64(total)
			}
		}
		t.Logf("%-28s %4.0f s, %d estimates, the worst %+.0f%% after %.0f%% of the time", run.Run, total.Seconds(), looked, 100*worst, 100*early)
		if math.Abs(worst) > 0.3 || looked < 20 || 2*bounds > looked {
			t.Errorf("%s: %d estimates, %d of them lower bounds, the worst is off by %+.0f%%", run.Run, looked, bounds, 100*worst)
		}
	}
}

// The share that is done begins near 0 and ends near 1. It stays between 0 and 1, and the estimate
// is never negative, whatever the counters are.
func TestAnyProgress(t *testing.T) {
	for _, run := range recordedRuns(t) {
		first, last := run.snapshots[0], run.snapshots[len(run.snapshots)-1]
		if a, b := Share(&first.Progress), Share(&last.Progress); a > 0.1 || b < 0.9 {
			t.Errorf("%s: %.2f is done at its beginning, and %.2f at its end", run.Run, a, b)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		var history History
		count := rapid.IntRange(0, 100)
		instant := rapid.Map(rapid.Int64Range(0, 1e15), func(v int64) hpc.Time { return hpc.Time(v) })
		elapsed := time.Duration(0)
		for range rapid.IntRange(0, 20).Draw(t, "snapshots") {
			elapsed += time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "more"))
			p := replay.Progress{
				Now: instant.Draw(t, "now"), LastInput: instant.Draw(t, "last input"), Submitted: count.Draw(t, "submitted"),
				Pending: count.Draw(t, "pending"), Ended: count.Draw(t, "ended"), Refused: count.Draw(t, "rejected"),
				Load: replay.Load{
					Begin: instant.Draw(t, "begin"), LastEnd: instant.Draw(t, "last end"), Tasks: count.Draw(t, "tasks"),
					Processors: count.Draw(t, "processors"), Requested: int64(count.Draw(t, "requested")), Allocated: int64(count.Draw(t, "allocated")),
					Work: float64(count.Draw(t, "work")), WorkDone: float64(count.Draw(t, "work done")),
				},
			}
			if share := Share(&p); !(share >= 0 && share <= 1) {
				t.Fatalf("%+v: a share of %v", p, share)
			}
			history.Add(Snapshot{elapsed, p})
			if e := history.Left(); e.Left < 0 || !e.Known && e != (Estimate{}) {
				t.Fatalf("%+v", e)
			}
		}
	})
}

// A history has few snapshots, the first and the latest among them.
func TestHistory(t *testing.T) {
	var h History
	for i := range 100_000 {
		h.Add(Snapshot{Elapsed: time.Duration(i) * time.Millisecond})
	}
	if n := len(h.list); n < historyLength/2-1 || n > historyLength {
		t.Errorf("%d snapshots", n)
	}
	if first, last := h.list[0].Elapsed, h.list[len(h.list)-1].Elapsed; first != 0 || last != 99_999*time.Millisecond {
		t.Errorf("from %v to %v", first, last)
	}
	for i := 2; i < len(h.list)-1; i++ {
		if gap := h.list[i].Elapsed - h.list[i-1].Elapsed; gap > 2*time.Second {
			t.Errorf("a gap of %v", gap)
		}
	}
}

// The estimate is a lower bound if the run has become slower, its queue grows, or it has only
// begun.
func TestSlower(t *testing.T) {
	snapshot := func(elapsed float64, ended, pending int) Snapshot {
		begin := hpc.Unix(0)
		return Snapshot{time.Duration(elapsed * float64(time.Second)), replay.Progress{
			Now: begin.Add(time.Duration(ended) * time.Second), LastInput: begin.Add(1000 * time.Second), Submitted: ended + pending, Pending: pending,
			Ended: ended, Load: replay.Load{Begin: begin, LastEnd: begin.Add(1000 * time.Second), Tasks: 1000},
		}}
	}
	var steady, slower, growing, first History
	for i := range 60 {
		steady.Add(snapshot(float64(i), 10*i, 5))
		first.Add(snapshot(float64(i), 3*i, 5))
		growing.Add(snapshot(float64(i), 10*i, 5+3*i))
		slower.Add(snapshot(float64(i), 10*i, 5))
	}
	for i := range 7 { // what took one second before now takes ten
		slower.Add(snapshot(float64(60+i), 600+i, 5))
	}
	for name, c := range map[string]struct {
		of      *History
		low     float64
		atLeast bool
	}{"steady": {&steady, 30, false}, "growing": {&growing, 30, true}, "early": {&first, 250, true}, "slower": {&slower, 40, true}} {
		if e := c.of.Left(); !e.Known || e.AtLeast != c.atLeast || e.Left.Seconds() < c.low || e.Left.Seconds() > 2*c.low {
			t.Errorf("%s: %+v, want %v s or a little more, at least %v", name, e, c.low, c.atLeast)
		}
	}
}

// A batch needs the time of the runs that are left, divided by the number of runs at once, and at
// least the time of the longest run.
func TestBatch(t *testing.T) {
	s := func(seconds int) time.Duration { return time.Duration(seconds) * time.Second }
	known := func(left time.Duration) Estimate { return Estimate{Left: left, Known: true} }
	bound := func(left time.Duration) Estimate { return Estimate{Left: left, Known: true, AtLeast: true} }
	for name, test := range map[string]struct {
		batch Batch
		want  Estimate
	}{
		"no ended run and no estimate":          {Batch{Parallel: 2, Waiting: 3, Running: []Running{{Elapsed: s(3)}}}, Estimate{}},
		"from ended runs":                       {Batch{Parallel: 2, Waiting: 4, Ended: []time.Duration{s(10), s(20)}}, known(s(30))},
		"from a running run":                    {Batch{Parallel: 2, Waiting: 2, Running: []Running{{s(5), known(s(15))}, {Elapsed: s(10)}}}, known(s(32) + s(1)/2)},
		"longest estimate of parallel runs":     {Batch{Parallel: 4, Running: []Running{{s(5), known(s(60))}, {s(5), known(s(4))}}}, known(s(60))},
		"a lower bound":                         {Batch{Parallel: 4, Running: []Running{{s(5), bound(s(60))}, {s(5), known(s(4))}}}, bound(s(60))},
		"running for longer than the ended run": {Batch{Parallel: 1, Waiting: 1, Ended: []time.Duration{s(10)}, Running: []Running{{Elapsed: s(30)}}}, bound(s(20))},
	} {
		if e := test.batch.Left(); e != test.want {
			t.Errorf("%s: %+v, want %+v", name, e, test.want)
		}
	}
}
