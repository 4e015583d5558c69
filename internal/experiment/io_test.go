package experiment

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// twoKinds is a cluster with nodes of two kinds.
const twoKinds = `ClusterName=kinds
SlurmctldHost=ctl
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
AccountingStorageType=accounting_storage/none
NodeName=g[1-2] CPUs=1 Feature=gpu,new
NodeName=c[1-3] CPUs=2 Feature=cpu,new
PartitionName=batch Nodes=ALL Default=YES
PartitionName=debug Nodes=c1
`

// TestIOSchedule: a driver decides on starts on the stock Slurm. Jobs wait for nodes of their kind and
// for the file system.
func TestIOSchedule(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED by -short: replays on real Slurm")
	}
	if in, err := install.Find(); err != nil || in.Need(false) != nil {
		t.Skipf("SKIPPED: no replay on the installed Slurm: %v", errors.Join(err, in.Need(false)))
	}
	dir := t.TempDir()
	writeCluster(t, dir, map[string]string{"slurm.conf": twoKinds})
	epoch := workload.DefaultEpoch
	w := &workload.Workload{Epoch: epoch, FileSystems: []hpc.FileSystem{{Name: "lustre", Bandwidth: 100}}}
	for i, kind := range []string{"gpu", "cpu", "gpu", "cpu"} {
		j := &hpc.Job{ID: kind + string(rune('1'+i)), Submit: epoch.Add(time.Duration(i) * time.Second)}
		j.User, j.Tasks, j.MinNodes, j.TimeLimit, j.RunTime, j.Constraint = "ada", 2, 2, 10*time.Minute, 100*time.Second, kind
		if i < 2 {
			j.IO = []hpc.Phase{{Duration: j.RunTime, FileSystem: "lustre", Rate: 80}}
		}
		w.Jobs.Append(j)
	}
	spec := Spec{
		Workload: Workload{Value: w}, Output: filepath.Join(t.TempDir(), "run"),
		Slurm: &Slurm{Cluster: dir, Lead: 30 * time.Second, IOSchedule: "aware:interval=20s"},
	}
	s, err := Run(t.Context(), spec, Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := run.Open(spec.Output)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := r.Jobs()
	if err != nil {
		t.Fatal(err)
	}
	// gpu1 uses the file system until 120. cpu4 needs no file system and starts at once. cpu2 waits
	// for the file system, although nodes are free; gpu3 waits for the nodes of gpu1.
	want := map[string]int{"gpu1": 20, "cpu4": 20, "cpu2": 140, "gpu3": 140}
	for _, row := range rows {
		if at := row.Start.Sub(epoch).Seconds(); at < float64(want[row.Job]) || at > float64(want[row.Job])+2 || row.End.Sub(row.Start) > 101*time.Second {
			t.Errorf("job %s ran from %v to %v, want from %d s", row.Job, row.Start.Sub(epoch), row.End.Sub(epoch), want[row.Job])
		}
	}
	m := r.Manifest
	changed := func(c run.Change) bool { return c.Key == "SchedulerType" && c.To == "sched/builtin" }
	if _, counted := m.DaemonCPU["io-schedule"]; !counted || m.IOSchedule != "aware:interval=20s" || !slices.ContainsFunc(m.Cluster.Changes, changed) || Valid(s) != nil {
		t.Errorf("CPU time %v, driver %q, changes %+v, %v", m.DaemonCPU, m.IOSchedule, m.Cluster.Changes, Valid(s))
	}
	if s.IO == nil || s.IO.Jobs != 2 || s.IO.MeanStretch > metrics.Float(1.02) {
		t.Errorf("I/O %+v, want two jobs that were not stretched", s.IO)
	}
}

func TestIOScheduleErrors(t *testing.T) {
	dir := t.TempDir()
	writeCluster(t, dir, map[string]string{"slurm.conf": twoKinds})
	spec := simulation(t)
	spec.Simulator, spec.Slurm = nil, &Slurm{Cluster: dir, IOSchedule: "best"}
	var field *FieldError
	if err := CheckSpec(spec); !errors.As(err, &field) || field.Field != "io-schedule" {
		t.Errorf("a wrong strategy: %v", err)
	}
	spec.Slurm.IOSchedule = ""
	spec.Workload.Value.Jobs.Change(0, func(j *hpc.Job) { j.IO = []hpc.Phase{{FileSystem: "lustre", Rate: 1}} })
	if _, err := Prepare(spec); !errors.As(err, &field) || field.Field != "filesystem" {
		t.Errorf("a file system without a bandwidth: %v", err)
	}
	for _, name := range []string{"lustre", "luster"} { // jobs use only the first
		spec.Slurm.FileSystems = []hpc.FileSystem{{Name: "lustre", Bandwidth: 1}, {Name: name, Bandwidth: 1}}
		_, err := Prepare(spec)
		wrong := errors.As(err, &field) && strings.Contains(field.Error(), "luster: no job of the workload uses")
		if wrong != (name == "luster") {
			t.Errorf("--filesystem %s: %v", name, err)
		}
	}
}

func TestNodesOfJobs(t *testing.T) {
	dir := t.TempDir()
	writeCluster(t, dir, map[string]string{"slurm.conf": twoKinds})
	c, err := conf.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	allowed, needed := nodesAllowed(c), nodesNeeded(c)
	for _, test := range []struct {
		what   string
		job    hpc.Request
		nodes  int
		needed int
	}{
		{"any", hpc.Request{Tasks: 3}, 5, 2},
		{"one kind", hpc.Request{Constraint: "gpu", MinNodes: 2}, 2, 2},
		{"two features", hpc.Request{Constraint: "cpu&new", Tasks: 4}, 3, 2},
		{"a choice", hpc.Request{Constraint: "gpu|cpu"}, 5, 1},
		{"no such nodes", hpc.Request{Constraint: "gpu&cpu"}, 0, 1},
		{"a partition", hpc.Request{Partition: "debug", CPUsPerTask: 2, Tasks: 2}, 1, 2},
		{"tasks on each node", hpc.Request{TasksPerNode: 1, Tasks: 4}, 5, 4},
	} {
		job := &hpc.Job{Request: test.job}
		if _, nodes := allowed(job); len(nodes) != test.nodes || needed(job) != test.needed {
			t.Errorf("%s: %q, needs %d, want %d and %d", test.what, nodes, needed(job), test.nodes, test.needed)
		}
	}
}
