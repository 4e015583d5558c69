package metrics

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
)

// ioRowOf is the row of a job with a rate on lustre. The job took this time, and would run for the
// time alone without other jobs.
func ioRowOf(id string, start hpc.Time, alone, took time.Duration, rate int64, licenses string) run.Row {
	job := &hpc.Job{ID: id}
	job.Name, job.RunTime, job.Licenses = id, alone, licenses
	if rate > 0 {
		job.IO = []hpc.Phase{{FileSystem: "lustre", Rate: rate}}
	}
	return run.Row{
		Job: id, Task: -1, State: hpc.Completed, Submit: start, Start: start, End: start.Add(took),
		AskedRunTime: alone, Processors: 1, NodeCount: 1, Request: string(run.EncodeJob(job)),
	}
}

// A suspended job asks for no bandwidth, and a requeued job begins again. Licenses are held from the
// start to the end or to the requeue.
func TestCoursesOfInterruptedJobs(t *testing.T) {
	at := func(s int) hpc.Time { return hpc.Unix(1000 + int64(s)) }
	suspended := ioRowOf("a", at(0), 20*time.Second, 40*time.Second, 100, "lustre:40")
	suspended.Suspended = 20 * time.Second
	suspended.Segments = []run.Segment{
		{Start: at(0), End: at(10), NodeCount: 1, Processors: 1, EndedBy: rm.Suspend},
		{Start: at(30), End: at(40), NodeCount: 1, Processors: 1, EndedBy: rm.Ended},
	}
	requeued := ioRowOf("b", at(20), 10*time.Second, 10*time.Second, 50, "")
	requeued.Segments = []run.Segment{
		{Start: at(0), End: at(5), NodeCount: 1, Processors: 1, EndedBy: rm.Requeue},
		{Start: at(20), End: at(30), NodeCount: 1, Processors: 1, EndedBy: rm.Ended},
	}
	rows := []run.Row{suspended, requeued}
	m := &run.Manifest{FileSystems: []run.FileSystem{{Name: "lustre", Bandwidth: 120, Licenses: 120}}, IOEstimate: "x2"}
	courses, err := NewFileSystemCourses(rows, m, at(0), at(40), 8)
	if err != nil {
		t.Fatal(err)
	}
	c := courses[0]
	for name, of := range map[string]struct{ got, want []float64 }{
		"asked":          {c.Asked, []float64{150, 100, 0, 0, 50, 50, 100, 100}},
		"granted":        {c.Granted, []float64{120, 100, 0, 0, 50, 50, 100, 100}},
		"oversubscribed": {c.Oversubscribed, []float64{1, 0, 0, 0, 0, 0, 0, 0}},
		"requested":      {c.Requested, []float64{40, 40, 40, 40, 40, 40, 40, 40}},
		"expected":       {c.Expected, []float64{140, 40, 40, 40, 140, 140, 40, 40}}, // twice 50 of 120 bytes/s
	} {
		if fmt.Sprint(of.got) != fmt.Sprint(of.want) {
			t.Errorf("%s: %v, want %v", name, of.got, of.want)
		}
	}
	io, err := NewIO(rows, m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	rounded, slowed := ioRowOf("c", at(0), 9100*time.Millisecond, 10*time.Second, 100, ""), ioRowOf("d", at(0), 10*time.Second, 15*time.Second, 100, "")
	rounded.NodeCount, slowed.NodeCount = 4, 2
	if io, err := NewIO([]run.Row{rounded, slowed}, m, Options{}); err != nil || io.Stretched != 1 || io.LostNodeSeconds != 10 {
		t.Errorf("one job ran 5 s longer on 2 nodes, and Slurm rounded the time of the other: %+v, %v", io, err)
	}
	if io.Stretched != 0 || io.MeanStretch != 1 || io.LostNodeSeconds != 0 {
		t.Errorf("time of suspension counts as stretch: %+v", io)
	}
	if _, err := NewFileSystemCourses(rows, &run.Manifest{FileSystems: m.FileSystems, IOEstimate: "?"}, at(0), at(40), 8); err == nil {
		t.Error("estimates that nobody knows: no error")
	}
	if courses, err := NewFileSystemCourses(rows, &run.Manifest{}, at(0), at(40), 8); courses != nil || err != nil {
		t.Errorf("without file systems: %v, %v", courses, err)
	}
}

// Jobs without I/O hold licenses too. If the record names no estimates, the expected licenses have
// no value.
func TestLicensesWithoutIO(t *testing.T) {
	rows := []run.Row{ioRowOf("a", hpc.Unix(1000), time.Minute, time.Minute, 0, "lustre:7,matlab")}
	m := &run.Manifest{FileSystems: []run.FileSystem{{Name: "lustre", Bandwidth: 100}}}
	io, err := NewIO(rows, m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if f := io.FileSystems[0]; io.Jobs != 0 || f.Requested != 7 || f.Expected.Known() || f.Licenses != hpc.DefaultIOLicenses || f.Limit != 100 {
		t.Errorf("%+v", io)
	}
}

// However the time is divided, the parts add up to the whole, shares stay within their bounds, and
// nothing moves faster than the file system.
func TestCoursesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rows []run.Row
		for i := range rapid.IntRange(1, 12).Draw(t, "jobs") {
			start := hpc.Unix(1000).Add(time.Duration(rapid.Int64Range(0, 100e9).Draw(t, "start")))
			alone := time.Duration(rapid.Int64Range(1e9, 60e9).Draw(t, "alone"))
			took := alone + time.Duration(rapid.Int64Range(0, 60e9).Draw(t, "more"))
			rows = append(rows, ioRowOf(fmt.Sprint(i), start, alone, took, rapid.Int64Range(0, 300).Draw(t, "rate"), ""))
		}
		m := &run.Manifest{FileSystems: []run.FileSystem{{Name: "lustre", Bandwidth: rapid.Int64Range(100, 300).Draw(t, "bandwidth")}}, IOEstimate: "perfect"}
		io, err := NewIO(rows, m, Options{})
		if err != nil {
			t.Fatal(err)
		}
		f := io.FileSystems[0]
		moved, seconds := 0.0, 0.0
		for _, p := range f.OverTime {
			moved += float64(p.Utilization) * float64(f.Bandwidth) * float64(p.Seconds)
			seconds += float64(p.Seconds)
			if p.Utilization > 1+1e-9 || p.Oversubscribed > 1+1e-9 || p.Demand < p.Utilization-1e-9 {
				t.Fatalf("a part is %+v", p)
			}
		}
		near := func(what string, got, want float64) {
			if math.Abs(got-want) > 1e-6*math.Max(1, math.Abs(want)) {
				t.Fatalf("%s: %v, want %v", what, got, want)
			}
		}
		first, last, _ := bounds(all(rows))
		near("moved", moved, float64(f.Moved))
		near("seconds", seconds, last.Sub(first).Seconds())
		near("utilization", float64(f.Utilization), moved/seconds/float64(f.Bandwidth))
		if f.PeakDemand < f.Demand-1e-9 || f.Demand < f.Utilization-1e-9 {
			t.Fatalf("%+v", f)
		}
		for _, parts := range []int{1, 7, 400} {
			courses, err := NewFileSystemCourses(rows, m, first, last, parts)
			if err != nil {
				t.Fatal(err)
			}
			sum := 0.0
			for _, v := range courses[0].Granted {
				sum += v
			}
			near(fmt.Sprintf("%d parts", parts), sum*seconds/float64(parts), float64(f.Moved))
		}
	})
}
