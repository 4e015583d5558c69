package service

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rmreplay/internal/forecast"
	"rmreplay/internal/forecast/capture"
)

// BenchmarkTurn forecasts 5,000 pending jobs on 1,000 nodes, with a history of 20,000, and asks for
// the page of all jobs and for the page of a job. The horizon is an hour; the time grows with the
// horizon. Processor time counts all realizations.
func BenchmarkTurn(b *testing.B) {
	const nodes, pending, history = 1000, 5000, 20_000
	s, err := Open(filepath.Join(b.TempDir(), "data"), Options{
		Every: 24 * time.Hour, Keep: 30 * 24 * time.Hour, History: 7 * 24 * time.Hour, Timeout: time.Minute, Zone: time.UTC,
		Forecast: forecast.Options{Realizations: 20, Seed: 1, RunTimes: forecast.FromHistory, Arrivals: forecast.Recent,
			Horizon: time.Hour, Within: []time.Duration{time.Hour}},
		NewLearner: func() (forecast.Learner, error) { return forecast.NewShares(), nil },
		Say:        b.Logf, now: time.Now,
		capture: func(_ context.Context, dir string, _ capture.Options) error {
			return large(dir, nodes, pending, history)
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	h := s.Handler(nil)
	var made, shown time.Duration
	for b.Loop() {
		dir := filepath.Join(s.dir, freshName)
		if err := s.capture(b.Context(), dir, ""); err != nil {
			b.Fatal(err)
		}
		before := processorTime(b)
		q, how, err := s.prepare(dir)
		if err == nil {
			err = s.round(b.Context(), dir, q, how, time.Now())
		}
		if err != nil {
			b.Fatal(err)
		}
		made += processorTime(b) - before
		before = processorTime(b)
		for _, path := range []string{"/", "/jobs/3000", "/v1/jobs", "/metrics"} {
			var text string
			if status := get(b, h, path, &text); status != http.StatusOK {
				b.Fatalf("%s: %d", path, status)
			}
		}
		shown += processorTime(b) - before
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(made.Seconds()/float64(b.N), "cpu-s/round")
	b.ReportMetric(shown.Seconds()/float64(b.N), "cpu-s/pages")
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// large writes a capture of a large cluster whose nodes are all in use.
func large(dir string, nodes, pending, history int) error {
	rng := rand.New(rand.NewPCG(1, 2))
	at := began
	stamp := func(t time.Time) string { return t.Format("2006-01-02T15:04:05") }
	size := func() int { return []int{1, 1, 1, 1, 2, 2, 4, 4, 8, 16, 32, 64}[rng.IntN(12)] }
	limit := func() time.Duration { return time.Duration(1+rng.IntN(24)) * time.Hour }
	span := func(d time.Duration) string {
		return fmt.Sprintf("%d-%02d:00:00", int(d.Hours())/24, int(d.Hours())%24)
	}
	var jobs, states, finished strings.Builder
	id := 1000
	add := func(state string, n int, submit time.Time, start string, l time.Duration, list string) {
		id++
		fmt.Fprintf(&jobs, "JobId=%d JobName=job UserId=u%d(%d) GroupId=staff(100) Priority=%d Account=a%d QOS=normal JobState=%s "+
			"Reason=Priority Dependency=(null) TimeLimit=%s SubmitTime=%s EligibleTime=%[8]s StartTime=%s EndTime=Unknown Partition=main "+
			"NodeList=%s NumNodes=%d NumCPUs=%d NumTasks=%[12]d CPUs/Task=1 OverSubscribe=EXCLUSIVE Command=x\n",
			id, id%100, 1000+id%100, 1000+rng.IntN(1000), id%10, state, span(l), stamp(submit), start, list, n, 64*n)
	}
	for next := 1; next <= nodes; {
		n, list := min(size(), nodes-next+1), fmt.Sprintf("n%d", next)
		if n > 1 {
			list = fmt.Sprintf("n[%d-%d]", next, next+n-1)
		}
		next += n
		l := limit()
		start := at.Add(-time.Duration(rng.Float64() * float64(l)))
		add("RUNNING", n, start.Add(-time.Hour), stamp(start), l, list)
	}
	for i := range pending {
		add("PENDING", size(), at.Add(-time.Duration(pending-i)*20*time.Second), "Unknown", limit(), "(null)")
	}
	for i := range nodes {
		fmt.Fprintf(&states, "NodeName=n%d State=ALLOCATED\n", i+1)
	}
	finished.WriteString("JobID|JobIDRaw|User|Partition|Submit|Start|End|State|Timelimit|AllocCPUS|NNodes|NodeList|UID|GID\n")
	for i := range history {
		l := limit()
		start := at.Add(-time.Duration(history-i)*20*time.Second - 25*time.Hour)
		fmt.Fprintf(&finished, "%d|%[1]d|u%d|main|%s|%s|%s|COMPLETED|%s|64|1|n1|1001|100\n", 100_000+i, i%100,
			stamp(start.Add(-time.Hour)), stamp(start), stamp(start.Add(time.Duration(rng.Float64()*float64(l)))), span(l))
	}
	var err error
	for name, text := range map[string]string{
		"capture.json": fmt.Sprintf(`{"rmreplay_capture":1,"at":%q,"time_zone":"UTC"}`, at.Format(time.RFC3339)),
		"jobs.txt":     jobs.String(), "nodes.txt": states.String(), "history.sacct": finished.String(),
		"cluster/slurm.conf": fmt.Sprintf("ClusterName=c\nSlurmctldHost=h\nSelectType=select/cons_tres\nSchedulerType=sched/backfill\n"+
			"SchedulerParameters=bf_max_job_test=1000,bf_continue,bf_window=2880,bf_resolution=600\nPriorityType=priority/multifactor\n"+
			"PriorityWeightAge=1000\nPriorityWeightFairshare=1000\nNodeName=n[1-%d] CPUs=64 RealMemory=256000\n"+
			"PartitionName=main Nodes=ALL Default=YES MaxTime=2-00:00:00\n", nodes),
	} {
		path := filepath.Join(dir, name)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600))
	}
	return err
}
