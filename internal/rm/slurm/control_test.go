package slurm

import (
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/workload"
)

// commander is a controller that gives commands at fixed seconds.
type commander struct {
	replay.Controller
	commands []replay.Command
}

func (c *commander) Begin() replay.Decisions {
	d := c.Controller.Begin()
	d.Commands = c.commands
	return d
}

func (c *commander) at(seconds int, command rm.Command) {
	c.commands = append(c.commands, replay.Command{At: after(seconds), Command: command})
}

// TestCommands checks effects of commands that only real Slurm shows. Jobs start in the order of
// their priorities. A command can hold single tasks of an array. The record has slurmctld's
// refusals with their reasons.
func TestCommands(t *testing.T) { eachSlurm(t, testCommands) }

func testCommands(t *testing.T, slurm *install.Installation) {
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t))}
	s.workload.Jobs = workload.JobsOf(
		job("runs", 0, 300, with(on("g1"), tasks(4))),
		job("low", 10, 100, with(on("g1"), tasks(4))),
		job("high", 20, 100, with(on("g1"), tasks(4))),
		job("array", 30, 100, with(on("c1"), tasks(4), func(j *hpc.Job) { j.Array = "1-4" })),
		job("early", 40, 100, on("c2")),
	)
	c := &commander{Controller: replay.NewRigid(&s.workload)}
	s.controller = c
	c.at(30, rm.Command{Kind: rm.Hold, Job: "array", Tasks: []int{1, 2, 4}}) // at its submission
	c.at(40, rm.Command{Kind: rm.SetRunTime, Job: "early", RunTime: 50 * time.Second})
	c.at(50, rm.Command{Kind: rm.SetPriority, Job: "high", Priority: 4_294_950_000})
	c.at(50, rm.Command{Kind: rm.SetNodes, Job: "low", NodeList: "x9"})
	c.at(60, rm.Command{Kind: rm.SetPriority, Job: "low", Priority: 0})
	c.at(500, rm.Command{Kind: rm.Release, Job: "array", Tasks: []int{2}})
	c.at(510, rm.Command{Kind: rm.Cancel, Job: "array", Tasks: []int{1, 4}})
	o := s.play(t)
	starts := map[string]float64{}
	for _, name := range []string{"runs", "high", "low", "array_3", "array_2", "early"} {
		starts[name] = since(o.rows[name].Start)
	}
	in := func(name string, from, to float64) {
		if at := starts[name]; at < from || at > to {
			t.Errorf("%s starts at %g, want %g to %g", name, at, from, to)
		}
	}
	in("high", 300, 310)
	in("low", 400, 415)
	in("array_3", 30, 40)
	in("array_2", 500, 505)
	for _, name := range []string{"array_1", "array_4"} {
		if row := o.rows[name]; row.State != hpc.Cancelled || !row.Start.IsZero() {
			t.Errorf("%s: %s, started at %g", name, row.State, since(row.Start))
		}
	}
	if row := o.rows["early"]; row.End.Sub(row.Start) != 50*time.Second {
		t.Errorf("early runs for %v, want 50s", row.End.Sub(row.Start))
	}
	var told []string
	for _, ev := range o.events {
		if ev.Kind == rm.Commanded {
			told = append(told, ev.Job+" "+ev.Reason)
		}
	}
	want := []string{
		"array hold", "early set run time 50s", "high set priority 4294950000",
		"low set nodes x9: refused: ESLURM_INVALID_NODE_NAME", "low set priority 0: refused: priority 0: not a priority of a job", "array release",
	}
	if len(told) != len(want) {
		t.Fatalf("%d events of commands, want %d:\n%s", len(told), len(want), strings.Join(told, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(told[i], want[i]) {
			t.Errorf("told %q, want %q", told[i], want[i])
		}
	}
}
