package run

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
)

// BenchmarkWrite writes the record of a run whose jobs are each accepted, started and ended.
func BenchmarkWrite(b *testing.B) {
	for _, jobs := range []int{10_000, 100_000} {
		b.Run(fmt.Sprintf("jobs=%d", jobs), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w, err := Create(filepath.Join(b.TempDir(), "run"), Manifest{}, Options{})
				if err != nil {
					b.Fatal(err)
				}
				recordJobs(b, w, jobs)
				if err := w.Finish(StateComplete, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*jobs), "ns/job")
		})
	}
}

func recordJobs(b *testing.B, w *Writer, jobs int) {
	for i := range jobs {
		at := hpc.Unix(1_700_000_000 + int64(i)*60)
		job := &hpc.Job{ID: fmt.Sprint(i), Submit: at}
		job.User, job.Group, job.Name, job.QOS = fmt.Sprint("user", i%200), fmt.Sprint("group", i%20), fmt.Sprint("app", i%50), "queue1"
		job.Tasks, job.TimeLimit, job.RunTime = 1+i%64, time.Hour, time.Duration(i%3600)*time.Second
		o := rm.Outcome{State: hpc.Running, Submit: at, Eligible: at, Start: at + hpc.Second, Processors: job.Tasks, TimeLimit: 3600}
		e := o
		e.State, e.End = hpc.Completed, o.Start.Add(job.RunTime)
		if err := w.Job(job); err != nil {
			b.Fatal(err)
		}
		for _, ev := range []rm.Event{
			{At: at, Kind: rm.Accepted, Job: job.ID, Task: -1, RMJob: uint32(i)},
			{At: o.Start, Kind: rm.Started, Job: job.ID, Task: -1, RMJob: uint32(i), Outcome: &o},
			{At: e.End, Kind: rm.Ended, Job: job.ID, Task: -1, RMJob: uint32(i), Outcome: &e},
		} {
			if err := w.Event(ev); err != nil {
				b.Fatal(err)
			}
		}
	}
}
