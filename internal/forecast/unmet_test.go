package forecast

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/experiment"
	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// simulated makes a run of jobs on one node of four processors. The jobs are submitted a second apart.
func simulated(t *testing.T, jobs ...*hpc.Job) *Course {
	t.Helper()
	w := &workload.Workload{Epoch: hpc.Time(20000 * 24 * time.Hour), Source: "jobs"}
	for i, job := range jobs {
		job.Submit, job.Tasks, job.MinNodes, job.MaxNodes = w.Epoch.Add(time.Duration(i)*time.Second), 4, 1, 1
		w.Jobs.Append(job)
	}
	dir := filepath.Join(t.TempDir(), "run")
	spec := experiment.Spec{Simulator: &experiment.Simulator{Nodes: 1, Processors: 4}, Workload: experiment.Workload{Value: w}, Output: dir}
	if _, err := experiment.Run(t.Context(), spec, experiment.Hooks{}); err != nil {
		t.Fatal(err)
	}
	c, err := ReadCourse(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// job returns a job that runs for some seconds.
func job(id string, runs int, dependency string) *hpc.Job {
	return &hpc.Job{
		ID: id, Request: hpc.Request{TimeLimit: time.Hour, Dependency: dependency},
		Behaviour: hpc.Behaviour{RunTime: time.Duration(runs) * time.Second},
	}
}

// TestUnmetBefore freezes a run after the failure of a job that others depend on. As on Slurm, no event says
// that their dependency can never be met. The dependent jobs do not start, and take no nodes from the jobs
// behind them.
func TestUnmetBefore(t *testing.T) {
	fails := job("fails", 100, "")
	fails.ExitCode = 1
	c := simulated(t, fails, job("works", 100, ""), job("runs", 1000, ""),
		job("needs it", 1000, "afterok:fails"), job("needs that", 1000, "afterany:needs it"),
		job("needs a failure", 1000, "afternotok:works"), job("either", 10, "afterok:fails?afterok:works"), job("has it", 10, "afternotok:fails"))
	c.events = slices.DeleteFunc(c.events, func(e run.Event) bool { return e.Kind == rm.Dependency })
	q, err := c.Freeze(c.workload.Epoch.Add(500 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{RunTimes: FromLimits, Arrivals: NoArrivals, Realizations: 1, Dir: t.TempDir()}
	opts.Engine.Simulator = &experiment.Simulator{Nodes: 1, Processors: 4}
	starts, _, err := Make(t.Context(), q, opts)
	if err != nil {
		t.Fatal(err)
	}
	begin := c.workload.Epoch.Add(200*time.Second + time.Hour) // then the job "runs" ends, at its limit
	want := map[string]hpc.Time{
		"needs it": hpc.Never, "needs that": hpc.Never, "needs a failure": hpc.Never,
		"either": begin, "has it": begin.Add(time.Hour),
	}
	if len(starts) != len(want) {
		t.Errorf("%d jobs wait, want %d", len(starts), len(want))
	}
	for key, start := range starts {
		if start[0] != want[key.Job] {
			t.Errorf("%s starts at %s, want %s", key.Job, start[0], want[key.Job])
		}
	}
}

// TestFailsLater plays a run from its beginning. A job and a task of an array fail after the instant. A forecast
// does not know this, so the jobs that depend on their success start. With the true behaviour these jobs do not
// start.
func TestFailsLater(t *testing.T) {
	fails, array := job("fails", 1000, ""), job("array", 10, "")
	fails.ExitCode = 1
	array.Array, array.TaskExitCodes = "1-2", map[int]int{2: 1}
	c := simulated(t, fails, array, job("needs it", 10, "afterok:fails"), job("needs all", 10, "afterok:array"))
	for name, freeze := range map[string]func(hpc.Time) (*Queue, error){"a window": c.Freeze, "from the start": c.Rewind} {
		q, err := freeze(c.workload.Epoch.Add(500 * time.Second))
		if err != nil {
			t.Fatal(err)
		}
		for how, arrivals := range map[RunTimes]Arrivals{FromLimits: NoArrivals, True: NoArrivals} {
			opts := Options{RunTimes: how, Arrivals: arrivals, Realizations: 1, Dir: t.TempDir()}
			opts.Engine.Simulator = &experiment.Simulator{Nodes: 1, Processors: 4}
			starts, _, err := Make(t.Context(), q, opts)
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range []string{"needs it", "needs all"} {
				if start := starts[Key{id, -1}]; len(start) != 1 || (start[0] == hpc.Never) != (how == True) {
					t.Errorf("%s, run times %s: %s starts at %v", name, how, id, start)
				}
			}
		}
	}
}

// TestTrainedLater checks that a forecast of a run refuses a model that was trained on events after the
// instant.
func TestTrainedLater(t *testing.T) {
	c := simulated(t, job("runs", 1000, ""), job("waits", 10, ""))
	q, err := c.Freeze(c.workload.Epoch.Add(500 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{RunTimes: FromModel, Arrivals: NoArrivals, Realizations: 1, Dir: t.TempDir()}
	opts.Engine.Simulator = &experiment.Simulator{Nodes: 1, Processors: 4}
	for later, want := range map[time.Duration]string{0: "", time.Second: "want a model that was trained with --until 2024-10-04T00:08:20Z or earlier"} {
		opts.Learner = Trained(q.At.Add(later), predict.NewLastTwo(predict.RunTime))
		if _, _, err := Make(t.Context(), q, opts); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("a model of %s after the instant: %v", later, err)
		}
	}
}
