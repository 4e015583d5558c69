package slurm

import (
	"context"
	"fmt"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/rm/slurm/nodes"
)

// manyNodes returns a cluster of n nodes without accounting.
func manyNodes(n int) map[string]string {
	return map[string]string{"slurm.conf": fmt.Sprintf(`ClusterName=large
SlurmctldHost=head
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
PriorityType=priority/multifactor
AccountingStorageType=accounting_storage/none
MaxJobCount=200000
NodeName=n[1-%d] Sockets=2 CoresPerSocket=16 ThreadsPerCore=1 RealMemory=64000
PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE DefaultTime=60
`, n), "users": "ann:21001:staff:21000\n"}
}

// installedSlurm finds the installed Slurm.
func installedSlurm(b *testing.B) *install.Installation {
	in, err := install.Find()
	if err != nil {
		b.Skipf("SKIPPED: nothing is measured on the real Slurm: %v", err)
	}
	return in
}

// BenchmarkIdle runs an idle hour on 1,000 nodes. virtual_s/s is the largest possible speed-up
// of a replay.
func BenchmarkIdle(b *testing.B) {
	ctx := context.Background()
	s := scenario{slurm: installedSlurm(b), cluster: writeCluster(b, manyNodes(1000))}
	e := s.start(ctx, b)
	before, cpu := e.loop.clock.Stats(), e.cpu()["slurmctld"]
	virtual := time.Duration(0)
	b.ResetTimer()
	for b.Loop() {
		for until := e.Now().Add(time.Hour); e.Now() < until; {
			if _, err := e.AdvanceTo(ctx, until); err != nil {
				b.Fatal(err)
			}
		}
		virtual += time.Hour
	}
	stats := e.loop.clock.Stats()
	hours := virtual.Hours()
	b.ReportMetric(virtual.Seconds()/b.Elapsed().Seconds(), "virtual_s/s")
	b.ReportMetric(float64(stats.InPlace-before.InPlace)/hours, "steps_in_place/op")
	b.ReportMetric(float64(stats.Driver-before.Driver)/hours, "driver_steps/op")
	b.ReportMetric(float64(stats.Looks-before.Looks)/hours, "looks/op")
	b.ReportMetric((e.cpu()["slurmctld"]-cpu).Seconds()/hours, "slurmctld_cpu_s/op")
}

// BenchmarkSubmit submits jobs that cannot start, so it measures submission alone.
func BenchmarkSubmit(b *testing.B) {
	ctx := context.Background()
	s := scenario{slurm: installedSlurm(b), cluster: writeCluster(b, manyNodes(1000))}
	e := s.start(ctx, b)
	cpu := e.cpu()["slurmctld"]
	n, accepted := 0, 0
	b.ResetTimer()
	for b.Loop() {
		n++
		j := job(fmt.Sprintf("j%d", n), 0, 60, func(j *hpc.Job) { j.Hold = true })
		if err := e.Submit(j); err != nil {
			b.Fatal(err)
		}
		// 20 jobs a virtual second, as when a workflow submits its steps.
		if n%20 == 0 {
			accepted += acceptedBy(ctx, b, e, e.Now().Add(time.Second))
		}
	}
	accepted += acceptedBy(ctx, b, e, e.Now().Add(time.Minute))
	b.StopTimer()
	if accepted != n {
		b.Fatalf("slurmctld accepted %d of %d jobs", accepted, n)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "jobs/s")
	b.ReportMetric(1e3*(e.cpu()["slurmctld"]-cpu).Seconds()/float64(n), "slurmctld_cpu_ms/op")
}

// BenchmarkLargeJob starts and ends a job on 5,000 nodes, with an epilog on each node.
func BenchmarkLargeJob(b *testing.B) {
	ctx := context.Background()
	s := scenario{slurm: installedSlurm(b), cluster: writeCluster(b, manyNodes(5000))}
	epilog, err := nodes.ParseDelay("uniform:1s,5s")
	if err != nil {
		b.Fatal(err)
	}
	s.delays.Epilog = epilog
	e := s.start(ctx, b)
	cpu := e.cpu()["slurmctld"]
	n := 0
	b.ResetTimer()
	for b.Loop() {
		n++
		j := job(fmt.Sprintf("j%d", n), 0, 60, func(j *hpc.Job) { j.MinNodes, j.Tasks, j.Exclusive = 5000, 5000, "node" })
		if err := e.Submit(j); err != nil {
			b.Fatal(err)
		}
		for ended := false; !ended; {
			events, err := e.AdvanceTo(ctx, e.Now().Add(time.Hour))
			if err != nil {
				b.Fatal(err)
			}
			for _, ev := range events {
				ended = ended || ev.Kind == rm.Ended
			}
		}
		acceptedBy(ctx, b, e, e.Now().Add(time.Minute)) // the epilogs
	}
	b.ReportMetric((e.cpu()["slurmctld"]-cpu).Seconds()/float64(n), "slurmctld_cpu_s/op")
}

// acceptedBy advances to an instant and returns the number of jobs accepted by then.
func acceptedBy(ctx context.Context, b *testing.B, e *Engine, until hpc.Time) (accepted int) {
	for e.Now() < until {
		events, err := e.AdvanceTo(ctx, until)
		if err != nil {
			b.Fatal(err)
		}
		for _, ev := range events {
			switch ev.Kind {
			case rm.Accepted:
				accepted++
			case rm.Refused:
				b.Fatalf("job %s: %s", ev.Job, ev.Reason)
			}
		}
	}
	return accepted
}
