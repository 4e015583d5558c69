package slurm

import (
	"context"
	"fmt"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/rpc"
)

func TestX(t *testing.T) {
	for _, f := range []float64{0, 1, 50} {
		in := needSlurm(t, false)
		ctx := context.Background()
		files := manyNodes(500)
		files["slurm.conf"] += "SchedulerParameters=bf_max_time=4,bf_interval=10,bf_max_job_test=5000,bf_yield_interval=1000000,bf_yield_sleep=500000,bf_continue\n"
		s := scenario{cluster: writeCluster(t, files), factor: f}
		e := s.start(ctx, t, in)
		for i := range 150 {
			if err := e.Submit(job(fmt.Sprintf("j%d", i), 0, 3000, func(j *hpc.Job) { j.Tasks = 32 * (170 + i%30); j.TimeLimit = time.Duration(60+i) * time.Minute })); err != nil {
				t.Fatal(err)
			}
		}
		begin := time.Now()
		until := e.Now().Add(300 * time.Second)
		for e.Now() < until {
			if _, err := e.AdvanceTo(ctx, until); err != nil {
				t.Fatal(err)
			}
		}
		real := time.Since(begin)
		e.network.send(&rpc.Message{Type: rpc.RequestStats, Host: "localhost", Body: rpc.AppendStatsRequest(nil, false)}, func(m *rpc.Message, err error) {
			if err != nil {
				t.Fatal(err)
			}
			st, err := rpc.DecodeStats(m.Body)
			if err != nil {
				t.Fatal(err)
			}
			st.RPCs = nil
			t.Logf("F=%v real %v cpu %v clock %+v\n%+v", f, real, e.CPU(), e.clock.Stats(), *st)
		})
		_ = e.advanceQuietly(ctx, until.Add(10*time.Second))
	}
}
