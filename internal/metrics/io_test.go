package metrics

import (
	"math"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/run"
)

// Two jobs of one node ask for 100 bytes/s each of a file system with a bandwidth of 100 bytes/s:
// the first for 10 s, the second for 5 s. The second ends at 10 s, the first at 15 s.
func TestIO(t *testing.T) {
	row := func(id string, run_, took time.Duration) run.Row {
		job := &hpc.Job{ID: id, Submit: hpc.Unix(1000)}
		job.RunTime, job.IO = run_, []hpc.Phase{{FileSystem: "lustre", Rate: 100}}
		return run.Row{
			Job: id, Task: -1, State: hpc.Completed, Submit: hpc.Unix(1000), Start: hpc.Unix(1010), End: hpc.Unix(1010).Add(took),
			AskedRunTime: run_, Processors: 1, NodeCount: 1, Request: string(run.EncodeJob(job)),
		}
	}
	rows := []run.Row{row("a", 10*time.Second, 15*time.Second), row("b", 5*time.Second, 10*time.Second)}
	idle := run.Row{Job: "c", Task: -1, State: hpc.Completed, Submit: hpc.Unix(1000), Start: hpc.Unix(1010), End: hpc.Unix(1030), AskedRunTime: 20 * time.Second, Processors: 1, NodeCount: 1}
	rows = append(rows, idle)
	m := &run.Manifest{FileSystems: []run.FileSystem{{Name: "lustre", Bandwidth: 100}}}
	io, err := NewIO(rows, m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	near := func(what string, got Float, want float64) {
		if math.Abs(float64(got)-want) > 1e-6 {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	if io.Jobs != 2 || io.Stretched != 2 {
		t.Errorf("%d jobs, %d stretched, want 2 and 2", io.Jobs, io.Stretched)
	}
	near("mean stretch", io.MeanStretch, 1.75)
	near("max stretch", io.MaxStretch, 2)
	f := io.FileSystems[0]
	near("moved", f.Moved, 1500)
	near("utilization", f.Utilization, 0.75) // 1500 of 100 x 20 s
	near("demand", f.Demand, 1.25)           // 10 s x 200 + 5 s x 100
	near("oversubscribed", f.Oversubscribed, 0.5)
	// W = 10; F = 25, 20, 30; areas 15, 10, 20.
	near("AWRT", io.AWRT, (15.*25+10*20+20*30)/45)
	cubes, squares := (15625.+8000+27000-3000)/3, (625.+400+900-300)/2
	near("ASpWAS", io.ASpWAS, cubes/squares)
	// The definition in words: the time since submission of the running jobs, over time, weighted by nodes x this time.
	var weights, sum float64
	for i := range rows {
		r, step := &rows[i], time.Millisecond
		for at := r.Start.Add(step / 2); at < r.End; at = at.Add(step) {
			since := at.Sub(r.Submit).Seconds()
			weights, sum = weights+float64(nodesOf(r.NodeCount, r.Processors))*since, sum+float64(nodesOf(r.NodeCount, r.Processors))*since*since
		}
	}
	near("ASpWAS in words", io.ASpWAS, sum/weights)

	// The figures of jobs are those of the jobs submitted in an interval, and those of file systems are of the interval.
	rows[0].Submit = hpc.Unix(999)
	io, err = NewIO(rows, m, Options{SubmittedFrom: hpc.Unix(1000), From: hpc.Unix(1020), To: hpc.Unix(1025)})
	if err != nil || io.Jobs != 1 || io.Stretched != 1 {
		t.Errorf("in an interval: %+v, %v; want 1 job", io, err)
	}
	near("mean stretch in an interval", io.MeanStretch, 2)
	near("moved in an interval", io.FileSystems[0].Moved, 500)
	near("peak in an interval", io.FileSystems[0].PeakDemand, 1)
	near("AWRT in an interval", io.AWRT, (10*20.+20*30)/30)

	if io, err := NewIO(rows, &run.Manifest{}, Options{}); io != nil || err != nil {
		t.Errorf("without file systems: %v, %v", io, err)
	}
	if _, err := NewIO([]run.Row{{Request: `{"io":[`}}, m, Options{}); err == nil {
		t.Error("a broken request: no error")
	}
	if io, err := NewIO(nil, m, Options{}); err != nil || io.AWRT.Known() || io.FileSystems[0].Utilization.Known() {
		t.Errorf("no rows: %+v, %v", io, err)
	}
}
