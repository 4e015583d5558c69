package capture

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/experiment"
	"rmreplay/internal/forecast"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/slurmtest"
)

// site is a live Slurm.
type site struct{ *slurmtest.Site }

func startSite(t *testing.T, release string) site {
	t.Helper()
	s := site{slurmtest.Start(t, release, slurmtest.Options{Nodes: 2, Lines: `
SchedulerType=sched/backfill
PartitionName=batch Nodes=n[1-2] Default=YES OverSubscribe=EXCLUSIVE MaxTime=600
`})}
	t.Cleanup(func() { // before the daemons end
		s.Until("all jobs have ended", func() bool {
			return s.Say("scancel", "--user=65534") == "" && s.Say("squeue", "-h") == "" && s.Say("scontrol", "ping") != ""
		})
	})
	return s
}

// submit submits a job that sleeps, and returns its number.
func (s site) submit(args ...string) string { return s.Submit("exec sleep 600", args...) }

// TestLiveCapture captures live clusters of several releases, and forecasts their queues.
func TestLiveCapture(t *testing.T) {
	for _, release := range []string{"", "24.11", "26.05"} {
		t.Run("Slurm "+release, func(t *testing.T) { forecastLive(t, release) })
	}
}

func forecastLive(t *testing.T, release string) {
	s := startSite(t, release)
	long, short := s.submit("-N1", "-t20"), s.submit("-N1", "-t10")
	s.Until("two jobs run", func() bool { return strings.Count(s.Say("squeue", "-h", "-t", "R", "-o", "%i"), "\n") == 2 })
	both, next := s.submit("-N2", "-t30", "-J", "a b=c"), s.submit("-N1", "-t8")
	held, array := s.submit("-N1", "-t5", "--hold"), s.submit("-N1", "-t5", "--array=1-3")
	odd := s.submit("-N1", "-t5", "--hold", "-J", "x Command=y JobId=5 ArrayJobId=9 ArrayTaskId=0-4000000")
	s.submit("-N1", "-t5", "--hold", "-J", "x\n\nJobId=99 JobName=y")
	var indices []string // so many tasks that scontrol shortens the list by default
	for i := range 30 {
		indices = append(indices, strconv.Itoa(i*i))
	}
	many := s.submit("-N1", "-t5", "--hold", "--array="+strings.Join(indices, ","))
	asks := s.submit("-N1", "-t5", "--hold", "--deadline=now+3hours", "--time-min=2", "--switches=1@00:04:00", "--mem=0", "--exclusive")
	dir := filepath.Join(t.TempDir(), "queue")
	if err := Run(t.Context(), dir, Options{Timeout: time.Minute, Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	of := func(job string, task int) forecast.Key { return forecast.Key{Job: job, Task: task} }
	q, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if q.Running() != 2 || len(q.Pending()) != 38 || !slices.Contains(q.Pending(), of(many, 29*29)) || !slices.Contains(q.Pending(), of(odd, -1)) || !strings.Contains(strings.Join(q.Notes, "\n"), "jobs cannot be read") || q.Phase.Began == 0 || len(q.Workload.NodeEvents) != 0 {
		t.Fatalf("%d running, pending %v, phase %+v, nodes %v, notes %q", q.Running(), q.Pending(), q.Phase, q.Workload.NodeEvents, q.Notes)
	}
	for _, job := range q.Workload.Jobs.All() {
		if job.ID == asks && (job.Deadline != 3*time.Hour || job.TimeMin != 2*time.Minute || job.Switches != 1 || job.SwitchWait != 4*time.Minute || job.MemPerNode != hpc.AllMemory || job.Exclusive != "node") {
			t.Errorf("%+v", job.Request)
		}
	}
	free := map[string]hpc.Time{} // when each running job reaches its limit
	for _, job := range q.Workload.Jobs.All() {
		if q.Workload.Preset(job) {
			free[job.ID] = job.Recorded.Start.Add(job.TimeLimit)
		}
	}
	opts := forecast.Options{
		Engine:       experiment.Spec{Simulator: &experiment.Simulator{Cluster: Cluster(dir)}},
		Realizations: 1, Seed: 1, RunTimes: forecast.FromLimits, Arrivals: forecast.NoArrivals,
	}
	starts, doubts, err := forecast.Make(t.Context(), q, opts)
	if err != nil || len(doubts) > 0 {
		t.Fatalf("%v, %q", err, doubts)
	}
	// The job of two nodes starts at the end of the last running job, and shorter jobs before it.
	for key, want := range map[forecast.Key]hpc.Time{
		of(both, -1): free[long], of(next, -1): free[short], of(held, -1): hpc.Never,
	} {
		if got := starts[key][0]; got != want {
			t.Errorf("job %v starts at %s with time limits as run times, want %s", key, got, want)
		}
	}
	opts.Realizations, opts.RunTimes, opts.Learner = 20, forecast.FromHistory, forecast.NewShares()
	if starts, doubts, err = forecast.Make(t.Context(), q, opts); err != nil || len(doubts) > 0 {
		t.Fatalf("%v, %q", err, doubts)
	}
	for _, key := range []forecast.Key{of(both, -1), of(next, -1), of(array, 1), of(array, 2), of(array, 3)} {
		low, middle, high := forecast.Quantile(starts[key], 0.1), forecast.Quantile(starts[key], 0.5), forecast.Quantile(starts[key], 0.9)
		if low < q.At || low > middle || middle > high || low == high || high > free[long].Add(time.Hour) {
			t.Errorf("job %v starts at %s, %s and %s", key, low, middle, high)
		}
	}
}
