package nodes

import (
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/rpc"
)

// Changes of a run time take effect while the script runs and while it is suspended, and not after
// its end.
func TestRunTimesChange(t *testing.T) {
	for name, tt := range map[string]struct {
		runs   time.Duration
		change func(s *stage, c *Cluster) bool // at 4 s
		end    string                          // "" for none within an hour
	}{
		"stretched by 3":               {10 * time.Second, func(_ *stage, c *Cluster) bool { return c.Stretch(7, 3) }, "22.1s"},
		"stretched by 0.5":             {10 * time.Second, func(_ *stage, c *Cluster) bool { return c.Stretch(7, 0.5) }, "7s"},
		"unlimited run time stretched": {hpc.Unlimited, func(_ *stage, c *Cluster) bool { return c.Stretch(7, 0.5) }, ""},
		"run time set":                 {10 * time.Second, func(_ *stage, c *Cluster) bool { return c.SetRunTime(7, 15*time.Second) }, "15s"},
		"run time set below the time that the job has run": {10 * time.Second, func(_ *stage, c *Cluster) bool { return c.SetRunTime(7, time.Second) }, "4s"},
		"run time set to unlimited":                        {10 * time.Second, func(_ *stage, c *Cluster) bool { return c.SetRunTime(7, hpc.Unlimited) }, ""},
		"unlimited run time set to a finite one":           {hpc.Unlimited, func(_ *stage, c *Cluster) bool { return c.SetRunTime(7, 15*time.Second) }, "15s"},
		"stretched while suspended":                        {10 * time.Second, suspended(func(c *Cluster) bool { return c.Stretch(7, 2) }), "17.1s"},
		"run time set while suspended":                     {10 * time.Second, suspended(func(c *Cluster) bool { return c.SetRunTime(7, 20*time.Second) }), "21s"},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := newStage(t, Delays{})
			s.script.RunTime = tt.runs
			c.launch(0, launch(7))
			s.advance(4 * time.Second)
			if !tt.change(s, c) {
				t.Error("the script does not run")
			}
			s.diary = nil
			s.advance(time.Hour)
			var want []string
			if tt.end != "" {
				want = []string{tt.end + " " + batchDone}
				if c.Stretch(7, 2) || c.SetRunTime(7, time.Hour) {
					t.Error("a script that has ended runs on")
				}
			}
			s.want(want...)
		})
	}
}

// suspended makes a change while a script is suspended, from 4 s to 5 s.
func suspended(change func(*Cluster) bool) func(*stage, *Cluster) bool {
	return func(s *stage, c *Cluster) bool {
		c.suspend(0, &rpc.Suspend{JobID: 7})
		ok := change(c)
		s.advance(5 * time.Second)
		c.suspend(0, &rpc.Suspend{JobID: 7, Resume: true})
		return ok
	}
}
