package slurm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/workload"
)

// TestActions: an administrator's actions take effect at their instants, one after the other, and
// before submissions of the same instant.
func TestActions(t *testing.T) { eachSlurm(t, testActions) }

func testActions(t *testing.T, slurm *install.Installation) {
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t))}
	changed := clusterFiles(t, "PartitionName=batch Nodes=ALL", "PartitionName=batch Nodes=c[1-2]")
	path := filepath.Join(t.TempDir(), "slurm.conf")
	if err := os.WriteFile(path, []byte(changed["slurm.conf"]), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "gres.conf"), []byte(changed["gres.conf"]), 0o600); err != nil {
		t.Fatal(err)
	}
	scontrol := func(at int, args ...string) hpc.Action {
		return hpc.Action{At: after(at), Run: append([]string{"scontrol"}, args...)}
	}
	s.workload.Jobs = workload.JobsOf(
		job("waits", 100, 60, with(tasks(4), on("c1"))),
		job("boosted", 400, 60, with(tasks(4), on("c1"))), // behind "blocker" until an action raises its priority
		job("blocker", 300, 500, with(tasks(4), on("c1"))),
		job("first", 350, 60, with(tasks(4), on("c1"))),
		job("small", 2000, 60, tasks(8)),  // fits on the two nodes in service
		job("large", 2000, 60, tasks(12)), // does not fit on them
		job("suspended", 3000, 100, with(tasks(4), on("c2"))),
	)
	s.workload.Jobs.Sort()
	s.workload.Actions = []hpc.Action{
		scontrol(100, "update", "PartitionName=batch", "State=DOWN"),
		scontrol(200, "update", "PartitionName=batch", "State=UP"),
		scontrol(500, "top", "4"),
		scontrol(600, "update", "NodeName=nosuch", "State=DOWN", "Reason=test"),
		{At: after(1900), SlurmConf: path},
		{At: after(1950), Shell: "sleep 25; scontrol show partition batch | grep Nodes="},
		scontrol(3010, "suspend", "7"), scontrol(3110, "resume", "7"),
	}
	s.drainLimit = time.Hour
	o := s.play(t)
	for id, want := range map[string][2]float64{ // the earliest and the latest start
		"waits": {200, 260}, "blocker": {300, 330}, "boosted": {800, 830}, "first": {860, 900}, "small": {2000, 2060}, "suspended": {3000, 3060},
	} {
		if start := since(o.rows[id].Start); start < want[0] || start > want[1] {
			t.Errorf("%s started at %v, want %v", id, start, want)
		}
	}
	if row := o.rows["suspended"]; row.End.Sub(row.Start) != 200*time.Second || row.Suspended != 100*time.Second {
		t.Errorf("the suspended job ran %v and was stopped for %v, want 200 s and 100 s", row.End.Sub(row.Start), row.Suspended)
	}
	if row := o.rows["large"]; !row.Start.IsZero() && row.State != hpc.Rejected {
		t.Errorf("large started at %v on a partition of two nodes", since(row.Start))
	}
	log, err := os.ReadFile(filepath.Join(s.logs, "actions.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Nodes=c[1-2]", "scontrol update PartitionName=batch State=DOWN"} {
		if !strings.Contains(string(log), want) {
			t.Errorf("logs/actions.log lacks %q:\n%s", want, log)
		}
	}
	var failed []string
	for _, w := range o.warnings {
		if w.Code == "action-failed" {
			failed = append(failed, w.Text)
		}
	}
	if len(failed) != 1 || !strings.HasPrefix(failed[0], "at 2024-01-01T00:10:00Z, scontrol update NodeName=nosuch") {
		t.Errorf("failed actions %q, want the one with the node that does not exist:\n%s", failed, log)
	}
	if kept, err := os.ReadFile(filepath.Join(s.logs, "slurm.conf.2024-01-01T00:31:40Z")); err != nil || !strings.Contains(string(kept), "Nodes=c[1-2]") {
		t.Errorf("the slurm.conf of the action is not in the logs: %v\n%s", err, kept)
	}
}

// TestComplaints: an error message of one of Slurm's commands is a failure even if the command
// exits with 0.
func TestComplaints(t *testing.T) {
	for said, want := range map[string]bool{
		"sacctmgr: error: Invalid unit type (x).": true, "slurm_update error: Invalid node name specified": true,
		"error: resolve_ctls_from_dns_srv": true, "ok\nscontrol: error: no": true,
		"": false, "1 job(s) without an error: fine": false, "Reason=power error: gone": false,
	} {
		if complains.MatchString(said) != want {
			t.Errorf("%q: want %v", said, want)
		}
	}
}

// TestDownDuringReconfigure: a node that is down stays down when slurmctld is reconfigured.
// slurmctld then sends each node a message, which a node that is down does not answer.
func TestDownDuringReconfigure(t *testing.T) { eachSlurm(t, testDownDuringReconfigure) }

func testDownDuringReconfigure(t *testing.T, slurm *install.Installation) {
	s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t))}
	s.workload.NodeEvents = []hpc.NodeEvent{
		{At: after(100), Nodes: "c1", State: "down", Reason: "Not responding"},
		{At: after(500), Nodes: "c1", State: "resume"},
	}
	s.workload.Actions = []hpc.Action{
		{At: after(100), Run: []string{"scontrol", "reconfigure"}},
		{At: after(200), Run: []string{"scontrol", "reconfigure"}},
	}
	s.workload.Jobs = workload.JobsOf(job("waits", 150, 60, on("c1")))
	o := s.play(t)
	o.want(`waits COMPLETED 500-560 c1`)
	for _, w := range o.warnings {
		t.Errorf("warning %+v", w)
	}
}
