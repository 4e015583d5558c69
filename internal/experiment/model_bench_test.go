package experiment

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/realdata"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/rmtest"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/example"
)

// BenchmarkModel times the model of Slurm's scheduler: for a day of the example, and for the short
// workload with long queues if that file exists. It also shows how the time grows with the jobs, the nodes
// and the queue. cpu-ms is the processor time of a run in user mode. docs/SLURM-MODEL.md has the results.
func BenchmarkModel(b *testing.B) {
	b.Run("example", func(b *testing.B) {
		day, files := example.Example(97)
		benchmarkModel(b, clusterWith(b, files), Workload{Value: day})
	})
	b.Run("micro", func(b *testing.B) {
		dir := realdata.Path(b, "slurm", "micro")
		benchmarkModel(b, dir, Workload{Path: dir + "/jobs500.events"})
	})
	for _, size := range []struct{ jobs, nodes, queue int }{
		{1000, 64, 250}, {2000, 64, 250}, {4000, 64, 250},
		{1000, 256, 250}, {1000, 1024, 250}, {1000, 7000, 250},
		{1000, 64, 500}, {1000, 64, 1000},
	} {
		b.Run(fmt.Sprintf("jobs=%d/nodes=%d/queue=%d", size.jobs, size.nodes, size.queue), func(b *testing.B) {
			dir, w := bursts(b, size.jobs, size.nodes, size.queue)
			benchmarkModel(b, dir, Workload{Value: w})
		})
	}
}

func benchmarkModel(b *testing.B, dir string, w Workload) {
	spec := Spec{Seed: 1, Workload: w, Output: b.TempDir(), Simulator: &Simulator{Policy: SlurmPolicy, Cluster: dir}}
	ended := 0
	before := userTime(b)
	for b.Loop() {
		_, err := Watch(b.Context(), spec, Watcher{Until: hpc.Never, See: func(e rm.Event) error {
			if e.Kind == rm.Ended {
				ended++
			}
			return nil
		}})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((userTime(b)-before).Milliseconds())/float64(b.N), "cpu-ms")
	if ended == 0 {
		b.Fatal("no job ended")
	}
}

// userTime returns the processor time that the process has taken in user mode.
func userTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano())
}

// bursts returns a cluster, and a workload whose jobs come in bursts. A burst has queue jobs at
// the same time, and the next burst comes when the nodes have had time for this one. Jobs have up
// to a quarter of the nodes.
func bursts(b *testing.B, jobs, nodes, queue int) (dir string, w *workload.Workload) {
	b.Helper()
	dir = clusterWith(b, map[string]string{"users": "ann:1001:red:2001\n", "slurm.conf": fmt.Sprintf(`ClusterName=bursts
SlurmctldHost=ctl
SlurmUser=slurm
StateSaveLocation=/var/spool/slurmctld
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_continue,bf_max_job_test=2000
NodeName=n[1-%d] CPUs=16 Sockets=2 CoresPerSocket=8
PartitionName=all Nodes=ALL Default=YES MaxTime=60
`, nodes)})
	rng := rand.New(rand.NewPCG(1, 1))
	var lines strings.Builder
	for i := range jobs {
		at := i / queue * queue * 90 // the nodes run some forty jobs an hour
		size, run := 1+rng.IntN(nodes/4), 300+rng.IntN(600)
		fmt.Fprintf(&lines, "job j%d at=%d run=%d -t %d --uid=ann -N %d\n", i, at, run, run/60+1+rng.IntN(15), size)
	}
	epoch := hpc.Unix(1709596800)
	what, err := rmtest.Parse(lines.String(), epoch, "--uid=ann")
	if err != nil {
		b.Fatal(err)
	}
	return dir, &workload.Workload{Source: "bursts", Epoch: epoch, Jobs: workload.JobsOf(what.Jobs...)}
}

// clusterWith writes the files of a cluster.
func clusterWith(b *testing.B, files map[string]string) string {
	b.Helper()
	dir := b.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return dir
}
