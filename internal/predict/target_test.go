package predict

import (
	"math"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// used returns a workload of one user's jobs that run one after the other. mebi has the memory that
// each job used for each processor, in MiB; 0 means that it was not recorded.
func used(mebi ...int64) *workload.Workload {
	w := new(workload.Workload)
	for i, m := range mebi {
		job := &hpc.Job{ID: string(rune('a' + i)), Submit: hpc.Unix(1e9 + int64(i)*100)}
		job.User, job.Tasks, job.MemPerCPU, job.TimeLimit, job.RunTime = "ana", 2, 4096, time.Minute, 50*time.Second
		job.Recorded = &hpc.Recorded{Start: job.Submit, End: job.Submit.Add(job.RunTime), State: hpc.Completed, UsedMemory: m * 1024, MovedBytes: m << 21}
		w.Jobs.Append(job)
	}
	return w
}

// TestMeasuredTargets checks that predictors learn what jobs used when they end, and that a job without a
// record changes nothing. The time limit bounds run times alone.
func TestMeasuredTargets(t *testing.T) {
	for target, scale := range map[Target]float64{Memory: 1, IO: 2} {
		cases, err := TargetCases(used(1000, 3000, 0, 5000), target)
		if err != nil {
			t.Fatal(err)
		}
		if cases.NoValue != 1 || cases.List[1].Value() != 3000*scale || cases.List[2].Observed() {
			t.Errorf("%s: %d without a value, %g MiB", target, cases.NoValue, cases.List[1].Value())
		}
		asked := target.Asked(cases.List[0].Request)
		for name, p := range map[string]Predictor{"last2": NewLastTwo(target), "class": NewClassAverage(target), "limit": NewUserLimit(target)} {
			var got []float64
			if err := Play(t.Context(), cases.List, p, func(_ *Case, p Prediction) { got = append(got, p.P50) }); err != nil {
				t.Fatal(err)
			}
			average := (3000 + 0.8*1000) / 1.8
			want := map[string][]float64{"last2": {asked, 1000 * scale, 2000 * scale, 2000 * scale}, "class": {asked, 1000 * scale, average * scale, average * scale}}[name]
			if name == "limit" {
				if want = []float64{4096, 4096, 4096, 4096}; target == IO { // requests do not give I/O: the mean is predicted
					want = []float64{0, 2000, 4000, 4000}
				}
			}
			for i := range want {
				if math.Abs(got[i]-want[i]) > 1e-9*want[i] {
					t.Errorf("%s of %s: %v, want %v", name, target, got, want)
					break
				}
			}
		}
	}
}

// TestTargetNotRecorded checks the error for a log without values of the target.
func TestTargetNotRecorded(t *testing.T) {
	for target, want := range map[Target]string{
		Memory: "the memory for each processor is not recorded: none of 2 jobs that ran has it (want field 7 of SWF",
		IO:     "the I/O volume is not recorded: none of 2 jobs that ran has it (want the steps' TRESUsageInTot and TRESUsageOutTot",
	} {
		cases, err := TargetCases(used(0, 0), target)
		if err != nil {
			t.Fatal(err)
		}
		if err := cases.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", target, err)
		}
	}
	cases, err := CasesOf(used(0, 0))
	if err == nil {
		err = cases.Check()
	}
	if err != nil || cases.NoValue != 0 || !cases.List[0].Observed() || cases.List[0].Value() != 50 {
		t.Errorf("run times: %v, %+v", err, cases)
	}
}

// TestTargetOfParts checks the values of array tasks and of I/O phases.
func TestTargetOfParts(t *testing.T) {
	job := &hpc.Job{ID: "a", Submit: hpc.Unix(1e9)}
	job.Array, job.Tasks, job.RunTime = "1-2", 1, 10*time.Second
	start := map[int]hpc.Time{1: job.Submit, 2: job.Submit}
	end := map[int]hpc.Time{1: job.Submit.Add(job.RunTime), 2: job.Submit.Add(job.RunTime)}
	job.Recorded = &hpc.Recorded{TaskStarts: start, TaskEnds: end, TaskUsedMemory: map[int]int64{2: 2048}}
	job.IO = []hpc.Phase{
		{Duration: time.Second, FileSystem: "lustre", Bytes: 3 << 20}, {Duration: 2 * time.Second},
		{Duration: time.Second, FileSystem: "scratch", Rate: 1 << 20}, {FileSystem: "lustre", Rate: 1 << 20},
	}
	w := new(workload.Workload)
	w.Jobs.Append(job)
	memory, err := TargetCases(w, Memory)
	if err != nil {
		t.Fatal(err)
	}
	if memory.NoValue != 1 || memory.List[0].Observed() || memory.List[1].Value() != 2 {
		t.Errorf("memory: %+v", memory.List)
	}
	io, err := TargetCases(w, IO)
	if err != nil {
		t.Fatal(err)
	}
	if got := io.List[0].Value(); math.Abs(got-10) > 1e-6 { // 3 + 1 + 6 MiB
		t.Errorf("I/O: %g MiB, want 10", got)
	}
}

func TestAskedMemory(t *testing.T) {
	for want, r := range map[float64]hpc.Request{
		100: {MemPerCPU: 100, MemPerNode: 7, Tasks: 4},
		50:  {MemPerNode: 100, Tasks: 4, MinNodes: 2},
		25:  {MemPerNode: 100, Tasks: 4},
		0:   {MemPerNode: hpc.AllMemory, Tasks: 4},
	} {
		if got := Memory.Asked(&r); got != want {
			t.Errorf("%+v: %g, want %g", r, got, want)
		}
	}
}
