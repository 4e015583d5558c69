package report

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"image/color"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rmreplay/internal/compare"
	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/report/lanes"
	"rmreplay/internal/run"
)

// frameOf returns the period of a single run.
func frameOf(r *compare.Realization) *frame {
	f := newFrame([]compare.Set{{Runs: []compare.Realization{*r}}}, time.UTC)
	return &f
}

// TestSameAxis checks that the charts of two sets have the same time axis, on the dates of each set.
func TestSameAxis(t *testing.T) {
	for _, later := range []time.Duration{0, time.Hour, 1000 * time.Hour} {
		short, long := schedule("short", 1, 20, machine{nodes: 4, processors: 1}), schedule("long", 1, 90, machine{nodes: 4, processors: 1})
		for i := range long.Rows {
			row := &long.Rows[i]
			row.Submit, row.Start, row.End = row.Submit.Add(later), row.Start.Add(later), row.End.Add(later)
		}
		long.Manifest.VirtualEnd = long.Manifest.VirtualEnd.Add(later)
		r, err := New([]compare.Set{{Name: "short", Runs: []compare.Realization{short}}, {Name: "long", Runs: []compare.Realization{long}}}, Options{Created: noon.Std()})
		if err != nil {
			t.Fatal(err)
		}
		s, err := r.nodes()
		if err != nil {
			t.Fatal(err)
		}
		var charts []*Gantt
		for _, block := range s.Blocks {
			if block.Gantt != nil {
				charts = append(charts, block.Gantt)
			}
		}
		if len(charts) != 2 {
			t.Fatalf("%d charts", len(charts))
		}
		apart := charts[1].begin.Sub(charts[0].begin)
		if charts[0].span != charts[1].span || later < 24*time.Hour && apart != 0 || later > 24*time.Hour && apart != later {
			t.Errorf("%v later: axes of %v and %v s, which begin %v apart", later, charts[0].span, charts[1].span, apart)
		}
		if last := charts[1].jobs[len(charts[1].jobs)-1]; last.end > charts[1].span || charts[0].bands != nil {
			t.Errorf("%v later: a job ends at %v of %v s", later, last.end, charts[1].span)
		}
	}
}

// The picture loses no job: all cells together have the node seconds of the jobs.
func TestGanttKeepsArea(t *testing.T) {
	r := schedule("r", 3, 300, machine{nodes: 50, processors: 1})
	g, err := newGantt("g", "g", &r, frameOf(&r))
	if err != nil {
		t.Fatal(err)
	}
	want := 0.0
	for i := range r.Rows {
		want += r.Rows[i].End.Sub(r.Rows[i].Start).Seconds() * float64(r.Rows[i].NodeCount)
	}
	for _, size := range [][2]int{{7, 3}, {100, 50}, {333, 17}, {64, 200}} {
		c := g.fill(size[0], size[1], func(*run.Row) (c color.RGBA) { return c })
		got := 0.0
		for _, v := range c.held {
			if v > 1.001 {
				t.Fatalf("a cell of %v is held %v times, and jobs have nodes of their own", size, v)
			}
			got += float64(v)
		}
		got *= g.span * float64(len(g.nodes)) / float64(size[0]*size[1])
		if math.Abs(got-want) > 1e-3*want {
			t.Errorf("%v cells hold %v node seconds, want %v", size, got, want)
		}
	}
}

// unpack decodes the output of pack, as gantt.js does.
func unpack(t testing.TB, text string, jobs int) (starts, lengths []uint64, ranges [][]nodeRange) {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	next := func() uint64 {
		v, n := binary.Uvarint(raw)
		if n <= 0 {
			t.Fatal("the data end early")
		}
		raw = raw[n:]
		return v
	}
	for range jobs {
		starts, lengths = append(starts, next()), append(lengths, next())
		var list []nodeRange
		at := 0
		for range next() {
			at += int(next())
			count := next()
			r := nodeRange{first: at, count: int(count / 2)}
			if count%2 == 1 {
				r.lanes = lanes.Part{First: uint8(next()), Count: uint8(next())}
			}
			at += r.count
			list = append(list, r)
		}
		ranges = append(ranges, list)
	}
	if len(raw) > 0 {
		t.Fatalf("%d bytes too many", len(raw))
	}
	return starts, lengths, ranges
}

func TestPack(t *testing.T) {
	r := schedule("r", 5, 200, machine{nodes: 300, processors: 4})
	for i := range r.Rows {
		if i%3 == 0 {
			r.Rows[i].Processors /= 2 // half of its nodes' processors, so that the job has only some lanes
		}
	}
	g, err := newGantt("g", "g", &r, frameOf(&r))
	if err != nil {
		t.Fatal(err)
	}
	starts, lengths, ranges := unpack(t, g.pack(), len(g.jobs))
	for i, job := range g.jobs {
		if starts[i] != uint64(job.start) || lengths[i] != uint64(math.Round(job.end-job.start)) || !slices.Equal(ranges[i], job.ranges) {
			t.Fatalf("job %d: %d %d %v, want %v", i, starts[i], lengths[i], ranges[i], job)
		}
	}
}

func TestNaturalOrder(t *testing.T) {
	want := []string{"a", "a1", "a2", "a02", "a10", "a10b2", "a10b11", "b1"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, hostlist.Natural)
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	name := rapid.StringMatching(`[ab]{0,2}[0-9]{0,3}[a]{0,1}[0-9]{0,2}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := name.Draw(t, "a"), name.Draw(t, "b"), name.Draw(t, "c")
		if (hostlist.Natural(a, b) == 0) != (a == b) || hostlist.Natural(a, b) != -hostlist.Natural(b, a) {
			t.Fatalf("natural(%q, %q) = %d, and %d the other way", a, b, hostlist.Natural(a, b), hostlist.Natural(b, a))
		}
		if hostlist.Natural(a, b) < 0 && hostlist.Natural(b, c) < 0 && hostlist.Natural(a, c) >= 0 {
			t.Fatalf("%q < %q < %q, and not the first below the last", a, b, c)
		}
	})
}

// The script of a chart shows dates in the zone of the report, also after a change of the clocks.
func TestOffsets(t *testing.T) {
	zurich, err := time.LoadLocation("Europe/Zurich")
	if err != nil {
		t.Skipf("SKIPPED: no time zones: %v", err)
	}
	from := hpc.Unix(1711756800) // 30 March 2024 00:00 UTC; clocks change 25 h later
	want := []offset{{0, 3600}, {25 * 3600, 7200}}
	if got := offsets(from.Std().In(zurich), 2*86400); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := offsets(from.Std().In(zurich), 86400); !slices.Equal(got, want[:1]) {
		t.Errorf("before the change: got %v, want %v", got, want[:1])
	}
	if got := offsets(from.Std(), 86400); got != nil {
		t.Errorf("UTC: %v", got)
	}
}

// hostile is text from a workload that must not become markup of a page.
const hostile = `</script><img src=x onerror=alert(1)>"'&`

// busyMachine is a run on eight nodes of eight processors. Jobs share its nodes, a node goes
// down, another is drained, and two are reserved.
func busyMachine() compare.Realization {
	random := rand.New(rand.NewPCG(4, 4))
	manifest := &run.Manifest{
		Engine: "sim", State: run.StateComplete, Valid: true, VirtualStart: noon, VirtualEnd: noon.Add(24 * time.Hour),
		Cluster: run.Cluster{Name: "test", Nodes: 8, Processors: 64},
	}
	r := compare.Realization{Name: "busy", Manifest: manifest}
	free := make([][8]bool, 8) // processors of each node are free from an hour on
	for hour := range 24 {
		clear(free)
		for node := range free {
			for used := 0; used < 8; {
				n := min(8-used, 1<<random.IntN(4))
				used += n
				row := run.Row{
					Job: fmt.Sprint(1000 + len(r.Rows)), Task: -1, Name: "job " + hostile, User: fmt.Sprint("user", random.IntN(5)), Account: "a", Partition: "batch",
					QOS: "normal", State: hpc.Completed, Submit: noon.Add(time.Duration(hour) * 30 * time.Minute), Start: noon.Add(time.Duration(hour) * time.Hour),
					End: noon.Add(time.Duration(hour+1) * time.Hour), Nodes: fmt.Sprint("n", node+1), NodeCount: 1, Processors: n,
				}
				if node == 2 && hour >= 6 && hour < 12 || node == 4 && hour >= 10 && hour < 13 || random.IntN(5) == 0 {
					continue
				}
				if node > 5 {
					row.User, row.Reservation = hostile, hostile
				}
				r.Rows = append(r.Rows, row)
			}
		}
	}
	at := func(hours float64) hpc.Time { return noon.Add(time.Duration(hours * float64(time.Hour))) }
	reservation := hpc.Reservation{Name: hostile, Start: at(5), Duration: 10 * time.Hour, Nodes: "n[7-8]", Users: []string{hostile}}
	r.Administration = run.Administration{
		NodeEvents: []hpc.NodeEvent{
			{At: at(6), Nodes: "n3", State: "down", Reason: hostile}, {At: at(9), Nodes: "n5", State: "drain", Reason: "disk"},
			{At: at(12), Nodes: "n3", State: "resume"}, {At: at(13), Nodes: "n5", State: "resume"},
		},
		Reservations: []hpc.ReservationEvent{
			{At: at(1), Action: "create", Reservation: reservation},
			{At: at(2), Action: "create", Reservation: hpc.Reservation{Name: "some", Start: at(3), Duration: time.Hour, NodeCount: 2}},
		},
	}
	return r
}

// Jobs that share a node have rows of lanes that do not overlap and that are in proportion to
// their processors.
func TestLanes(t *testing.T) {
	r := busyMachine()
	g, err := newGantt("g", "g", &r, frameOf(&r))
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range g.jobs {
		low, high := a.ranges[0].lanes.Share()
		if want := float64(a.row.Processors) / 8; high-low != want {
			t.Fatalf("job %s of %d processors has lanes from %v to %v, want a share of %v", a.row.Job, a.row.Processors, low, high, want)
		}
		for _, b := range g.jobs[:i] {
			if a.row.Nodes != b.row.Nodes || a.start >= b.end || b.start >= a.end {
				continue
			}
			if from, to := b.ranges[0].lanes.Share(); from < high && low < to {
				t.Fatalf("jobs %s and %s on %s overlap: %v to %v, %v to %v", a.row.Job, b.row.Job, a.row.Nodes, low, high, from, to)
			}
		}
	}
	c := g.fill(240, 8, func(*run.Row) (c color.RGBA) { return c })
	for _, held := range c.held {
		if held > 1.001 {
			t.Fatalf("a cell is held %v times", held)
		}
	}
}

// The picture of a node that many small jobs fill is full. It is half full while half of the processors are held, if
// no jobs have a lane together.
func TestFullNode(t *testing.T) {
	for _, processors := range []int{40, 48, 96, 128} {
		r := compare.Realization{Name: "full", Manifest: &run.Manifest{
			Engine: "sim", State: run.StateComplete, Valid: true, VirtualStart: noon, VirtualEnd: noon.Add(8 * time.Hour),
			Cluster: run.Cluster{Name: "test", Nodes: 1, Processors: processors},
		}}
		add := func(from, to int) {
			at := func(hours int) hpc.Time { return noon.Add(time.Duration(hours) * time.Hour) }
			r.Rows = append(r.Rows, run.Row{Job: fmt.Sprint(len(r.Rows)), Task: -1, Partition: "batch", State: hpc.Completed,
				Submit: at(0), Start: at(from), End: at(to), Nodes: "n1", NodeCount: 1, Processors: 1})
		}
		for i := range processors { // half of the processors are free from 4 to 6 o'clock
			if i%2 == 0 {
				add(0, 8)
			} else {
				add(0, 4)
				add(6, 8)
			}
		}
		g, err := newGantt("g", "g", &r, frameOf(&r))
		if err != nil {
			t.Fatal(err)
		}
		const height = 64
		c := g.fill(4, height, func(*run.Row) (c color.RGBA) { return c })
		for column := range 4 {
			full := 0.0
			for y := range height {
				full += min(1, float64(c.held[y*4+column])) / height
			}
			if column != 2 && full < 0.96 || column == 2 && processors <= 64 && math.Abs(full-0.5) > 0.1 {
				t.Errorf("%d processors: %.0f %% of the row are drawn in quarter %d of the time", processors, 100*full, column+1)
			}
		}
	}
}

// mixedMachine is a full run of twelve hours on 40 nodes of 32 processors and ten of 48, in steps of ten minutes. Jobs
// share nodes, and some have all processors of a small and of a large node. The first node is always full.
func mixedMachine() compare.Realization {
	random := rand.New(rand.NewPCG(7, 7))
	at := func(step int) hpc.Time { return noon.Add(time.Duration(step) * 10 * time.Minute) }
	r := compare.Realization{
		Name: "mixed", Manifest: &run.Manifest{
			Engine: "sim", State: run.StateComplete, Valid: true, VirtualStart: noon, VirtualEnd: at(72), Cluster: run.Cluster{Nodes: 50, Processors: 1760},
		},
		Cluster: map[string]string{"slurm.conf": "NodeName=DEFAULT CPUs=32\nNodeName=c[1-40]\nInclude large.conf\n",
			"large.conf": "NodeName=DEFAULT\nNodeName=f[1-10] CPUs=48\n"},
	}
	add := func(from, to, processors int, nodes string) {
		count, _ := hostlist.Count(nodes)
		r.Rows = append(r.Rows, run.Row{
			Job: fmt.Sprint(len(r.Rows)), Task: -1, Partition: "batch", State: hpc.Completed, Submit: at(from), Start: at(from), End: at(to),
			Nodes: nodes, NodeCount: count, Processors: processors,
		})
	}
	add(0, 72, 32, "c1")
	for node := 2; node <= 50; node++ {
		name, most := fmt.Sprint("c", node), 32
		if node > 40 {
			name, most = fmt.Sprint("f", node-40), 48
		}
		add(0, 1, most, name)
		for step := 2; step < 60; step += 6 {
			for used := 0; used < most; {
				n := min(most-used, 1+random.IntN(20))
				if used += n; random.IntN(3) > 0 {
					add(step, step+1+random.IntN(6), n, name)
				}
			}
		}
	}
	for node := 1; node <= 10; node++ {
		add(66, 66+random.IntN(6), 80, fmt.Sprintf("c%d,f%d", node+1, node))
	}
	return r
}

// The table has the share of the processors of the nodes that its rows name, on a machine whose nodes are not equal.
// Without the cluster's files, the nodes have as many processors as their jobs held: these nodes were full once.
func TestTableOfMixedNodes(t *testing.T) {
	r := mixedMachine()
	capacity := map[string]float64{}
	held := map[string][]float64{} // processors in each step
	for i := 1; i <= 50; i++ {
		name, n := fmt.Sprint("c", i), 32.0
		if i > 40 {
			name, n = fmt.Sprint("f", i-40), 48
		}
		capacity[name], held[name] = n, make([]float64, 72)
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		names, _ := hostlist.Expand(row.Nodes)
		for _, name := range names {
			n := float64(row.Processors)
			if len(names) > 1 {
				n = capacity[name]
			}
			for step := range 72 {
				if from := noon.Add(time.Duration(step) * 10 * time.Minute); row.Start <= from && from < row.End {
					held[name][step] += n
				}
			}
		}
	}
	for _, files := range []map[string]string{r.Cluster, nil} {
		if r.Cluster = files; files == nil {
			r.Rows = slices.DeleteFunc(r.Rows, func(row run.Row) bool { return row.NodeCount > 1 })
			for name := range held {
				clear(held[name][66:])
			}
			for step := range 72 {
				held["c1"][step] = 32
			}
		}
		g, err := newGantt("g", "g", &r, frameOf(&r))
		if err != nil || g.span != 12*3600 {
			t.Fatalf("%v, %v s", err, g.span)
		}
		at := 0
		for _, cells := range g.Data.Rows {
			first, last, several := strings.Cut(cells[0], " to ")
			var names []string
			for ; len(names) == 0 || several && names[len(names)-1] != last; at++ {
				names = append(names, g.nodes[at])
			}
			if names[0] != first {
				t.Fatalf("a row begins with %s, want %s", first, names[0])
			}
			for hour := range 12 {
				used, all := 0.0, 0.0
				for _, name := range names {
					all += 6 * capacity[name]
					for _, n := range held[name][6*hour : 6*hour+6] {
						used += n
					}
				}
				if got, want := cells[1+hour], fmt.Sprintf("%.0f%%", 100*used/all); got != want {
					t.Errorf("files %t: %s have %s in hour %d, want %s", files != nil, cells[0], got, hour, want)
				}
			}
		}
		if at != 50 || len(g.Data.Rows) != 20 {
			t.Errorf("%d rows have %d nodes", len(g.Data.Rows), at)
		}
		for i := range g.jobs { // the jobs that have nodes completely have their whole rows
			whole := g.jobs[i].row.NodeCount == 2 || g.jobs[i].row.Nodes == "c1"
			for _, part := range g.jobs[i].ranges {
				if low, high := part.lanes.Share(); whole && (low != 0 || high != 1) {
					t.Errorf("files %t: job %s on %s has its rows from %v to %v", files != nil, g.jobs[i].row.Job, g.jobs[i].row.Nodes, low, high)
				}
			}
		}
	}
}

// Bands are as long as the nodes were out of service or reserved.
func TestBands(t *testing.T) {
	at := func(hours int64) hpc.Time { return noon.Add(time.Duration(hours) * time.Hour) }
	index := map[string]int{"n1": 0, "n2": 1, "n3": 2, "n4": 3}
	reserve := func(at hpc.Time, action string, r hpc.Reservation) hpc.ReservationEvent {
		return hpc.ReservationEvent{At: at, Action: action, Reservation: r}
	}
	for name, test := range map[string]struct {
		administration run.Administration
		want           []string
	}{
		"down and up": {run.Administration{NodeEvents: []hpc.NodeEvent{
			{At: at(1), Nodes: "n[1-2]", State: "DOWN", Reason: "power"}, {At: at(2), Nodes: "n1", State: "down"},
			{At: at(3), Nodes: "n[1-2]", State: "resume"}, {At: at(4), Nodes: "n2", State: "resume"},
		}}, []string{"down n[1-2] 1-3 power"}},
		"drained, then down for ever": {run.Administration{NodeEvents: []hpc.NodeEvent{
			{At: at(-1), Nodes: "n3", State: "drain", Reason: "disk"}, {At: at(5), Nodes: "n3", State: "fail"},
		}}, []string{"drain n3 0-5 disk", "down n3 5-10 "}},
		"unknown node and garbage": {run.Administration{NodeEvents: []hpc.NodeEvent{
			{At: at(1), Nodes: "n9", State: "down"}, {At: at(1), Nodes: "n[1-", State: "down"}, {At: at(1), Nodes: "n1", State: "resume"},
		}}, nil},
		"reservation deleted": {run.Administration{Reservations: []hpc.ReservationEvent{
			reserve(at(1), "create", hpc.Reservation{Name: "r", Start: at(2), Duration: 5 * time.Hour, Nodes: "ALL", Users: []string{"root"}}),
			reserve(at(4), "delete", hpc.Reservation{Name: "r"}),
		}}, []string{"reservation n[1-4] 2-4 root"}},
		"deleted before it began": {run.Administration{Reservations: []hpc.ReservationEvent{
			reserve(at(1), "create", hpc.Reservation{Name: "r", Start: at(2), Duration: time.Hour, Nodes: "n1"}), reserve(at(1), "delete", hpc.Reservation{Name: "r"}),
		}}, nil},
		"reservation updated": {run.Administration{Reservations: []hpc.ReservationEvent{
			reserve(at(1), "create", hpc.Reservation{Name: "r", Start: at(2), Duration: 4 * time.Hour, Nodes: "n1"}),
			reserve(at(3), "update", hpc.Reservation{Name: "r", Nodes: "n[2-3]"}),
		}}, []string{"reservation n1 2-3 ", "reservation n[2-3] 3-6 "}},
		"hourly": {run.Administration{Reservations: []hpc.ReservationEvent{
			reserve(at(1), "create", hpc.Reservation{Name: "r", Start: at(7), Duration: 30 * time.Minute, Nodes: "n1", Flags: []string{"HOURLY"}}),
		}}, []string{"reservation n1 7-7.5 ", "reservation n1 8-8.5 ", "reservation n1 9-9.5 "}},
		"nodes that Slurm chooses, without an end": {run.Administration{Reservations: []hpc.ReservationEvent{
			reserve(at(1), "create", hpc.Reservation{Name: "r", Start: at(2), Duration: hpc.Unlimited, NodeCount: 2}),
		}}, []string{"reservation 2, chosen by the resource manager 2-10 "}},
	} {
		var got []string
		for _, b := range newBands(&test.administration, noon, 10*3600, index) {
			got = append(got, fmt.Sprintf("%s %s %v-%v %s", b.kind, b.nodes, b.start/3600, b.end/3600, b.detail))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

// The page says in a table what the bands show, in the selected zone. Names from the workload
// appear as plain text.
func TestBandsOnThePage(t *testing.T) {
	zurich, err := time.LoadLocation("Europe/Zurich")
	if err != nil {
		t.Skipf("SKIPPED: no time zones: %v", err)
	}
	r, err := New([]compare.Set{{Name: "busy", Runs: []compare.Realization{busyMachine()}}}, Options{Zone: zurich})
	if err != nil {
		t.Fatal(err)
	}
	text := string(pageOf(t, r))
	for _, want := range []string{"Reservations and outages", "2023-11-15 18:00", ">disk</td>", "2, chosen by the resource manager"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(text, hostile) || strings.Contains(text, "<img") {
		t.Error("text of the workload is on the page as it is")
	}
}
