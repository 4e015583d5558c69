package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/ioaware"
	"rmreplay/internal/ioaware/driver"
)

// counts returns what sdiag prints with these numbers of jobs.
func counts(submitted, started, completed int) string {
	return fmt.Sprintf("Agent queue size:  0\n\nJobs submitted: %d\nJobs started:   %d\nJobs completed: %d\nJobs canceled:  0\nJobs failed:    0\n\nMain schedule statistics (microseconds):\n\tLast cycle: 7\n", submitted, started, completed)
}

// used is a forecaster that answers with a measured use, and has no estimates.
type used struct{ licenses int64 }

func (u *used) Used(context.Context) (int64, error) { return u.licenses, nil }

func (u *used) Estimate(context.Context, string) (ioaware.Estimate, error) {
	return ioaware.Estimate{}, nil
}

// TestLoop: a round follows a change that may let jobs start, and rounds are at most 30 s apart.
func TestLoop(t *testing.T) {
	completing := `{"jobs": [{"job_id": 1, "partition": "batch", "job_state": ["RUNNING", "COMPLETING"], "user_id": 1000, "node_count": 1, "time_limit": 10, "end_time": 490}]}`
	for _, c := range []struct {
		what     string
		interval time.Duration
		begin    string // what squeue prints at first, if not empty
		change   func(s *slurm, u *used)
		want     []int // expected seconds of rounds; the change is at 10 s
	}{
		{"nothing", 0, "", func(*slurm, *used) {}, []int{0, 30, 60}},
		{"a submission", 0, "", func(s *slurm, _ *used) { s.sdiag = counts(2, 1, 0) }, []int{0, 12, 42, 72}},
		{"an end", 0, "", func(s *slurm, _ *used) { s.sdiag = counts(1, 1, 1) }, []int{0, 12, 42, 72}},
		{"a start", 0, "", func(s *slurm, _ *used) { s.sdiag = counts(1, 2, 0) }, []int{0, 30, 60}},
		{"less use", 0, "", func(_ *slurm, u *used) { u.licenses = 3 }, []int{0, 12, 42, 72}},
		{"more use", 0, "", func(_ *slurm, u *used) { u.licenses = 7 }, []int{0, 30, 60}},
		{"no answer", 0, "", func(s *slurm, _ *used) { s.refuses = "sdiag" }, []int{0, 30, 60}},
		{"nodes that are about to be free", 0, completing, func(s *slurm, _ *used) { s.jobs = `{"jobs": []}` }, []int{0, 3, 6, 9, 12, 42, 72}},
		{"nodes that stay busy", 0, completing, func(s *slurm, _ *used) {
			s.jobs = `{"jobs": [{"job_id": 1, "partition": "batch", "job_state": ["COMPLETING"], "user_id": 1000, "node_count": 1, "time_limit": 10, "end_time": 400}]}`
		}, []int{0, 3, 6, 9, 12, 42, 72}},
		{"fixed rounds", 25 * time.Second, "", func(s *slurm, _ *used) { s.sdiag = counts(2, 1, 0) }, []int{0, 25, 50, 75}},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, u := &slurm{jobs: `{"jobs": []}`, sinfo: "n1 idle batch\n", licenses: licenseLine, sdiag: counts(1, 1, 0)}, &used{5}
				if c.begin != "" {
					s.jobs = c.begin
				}
				cluster := s.cluster(func(config *Config) { config.Forecaster = u })
				ctx, stop := context.WithTimeout(t.Context(), 79*time.Second)
				defer stop()
				began := time.Now()
				time.AfterFunc(10*time.Second, func() { c.change(s, u) })
				var got []int
				cluster.Loop(ctx, &driver.Driver{}, c.interval, func(_ driver.Round, err error) {
					if got = append(got, int(time.Since(began)/time.Second)); err != nil {
						t.Error(err)
					}
				})
				if !slices.Equal(got, c.want) || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
					t.Errorf("rounds at %v, want %v", got, c.want)
				}
			})
		})
	}
}

// TestLongQuestions: if slurmctld needs long to list the queue, the driver looks for changes less
// often.
func TestLongQuestions(t *testing.T) {
	for asked, want := range map[time.Duration]time.Duration{0: 3 * time.Second, 100 * time.Millisecond: 3 * time.Second, time.Second: 4 * time.Second, time.Minute: 30 * time.Second} {
		if got := (&Cluster{asked: asked}).pause(); got != want {
			t.Errorf("after questions of %v: %v, want %v", asked, got, want)
		}
	}
}

// TestReservationEnds: there is a change at the first look, and when a reserved node becomes free.
func TestReservationEnds(t *testing.T) {
	at := hpc.Unix(500)
	s := &slurm{jobs: `{"jobs": []}`, sinfo: "n1 maint batch\n", licenses: licenseLine, sdiag: counts(1, 1, 0)}
	s.reservations = reservation("a", 100, 510, "n1") + reservation("b", 300, 900, "n1")
	cluster := s.cluster(func(config *Config) { config.Now = func() hpc.Time { return at } })
	for _, c := range []struct {
		at   int64
		want bool
	}{{500, true}, {510, false}, {899, false}, {900, true}, {901, false}} { // at 510 s reservation b still has the node
		at = hpc.Unix(c.at)
		if got := cluster.changed(t.Context()); got != c.want {
			t.Errorf("at %d s: changed %t, want %t", c.at, got, c.want)
		}
		if _, err := cluster.Round(t.Context(), &driver.Driver{}); err != nil {
			t.Error(err)
		}
	}
}
