package experiment

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/workload"
)

// TestWatchEnds ends a run at an instant at which nothing happens. The next event would come days
// later.
func TestWatchEnds(t *testing.T) {
	w := &workload.Workload{Epoch: hpc.Unix(1e9), MachineProcessors: 1}
	for _, id := range []string{"runs", "waits"} {
		w.Jobs.Append(&hpc.Job{
			ID: id, Submit: w.Epoch, Request: hpc.Request{Tasks: 1, TimeLimit: 240 * time.Hour},
			Behaviour: hpc.Behaviour{RunTime: 200 * time.Hour},
		})
	}
	until, started := w.Epoch.Add(time.Hour), 0
	spec := Spec{Workload: Workload{Value: w}, Simulator: &Simulator{}, Output: t.TempDir()}
	result, err := Watch(t.Context(), spec, Watcher{Until: until, See: func(e rm.Event) error {
		if e.Kind == rm.Started {
			started++
		}
		return nil
	}})
	if err != nil || result.Now != until || started != 1 {
		t.Errorf("it ends at %s, want %s; %d jobs have started; %v", result.Now, until, started, err)
	}
}

// TestSharing: runs that share a cluster read its files once.
func TestSharing(t *testing.T) {
	w := &workload.Workload{Epoch: hpc.Unix(1e9)}
	w.Jobs.Append(&hpc.Job{ID: "a", Submit: w.Epoch, Request: hpc.Request{Tasks: 1, TimeLimit: time.Hour}})
	for _, policy := range []string{"easy", SlurmPolicy} {
		dir := t.TempDir()
		file := filepath.Join(dir, "slurm.conf")
		text := "ClusterName=small\nSlurmctldHost=ctl\nSlurmUser=slurm\nStateSaveLocation=/var/spool/slurmctld\n" +
			"NodeName=n1 CPUs=4\nPartitionName=all Nodes=ALL Default=YES\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		spec := Spec{Workload: Workload{Value: w}, Output: t.TempDir(), Simulator: &Simulator{Policy: policy, Cluster: dir}}
		shared := spec.Sharing()
		watch := func(spec Spec) error {
			_, err := Watch(t.Context(), spec, Watcher{Until: hpc.Never, See: func(rm.Event) error { return nil }})
			return err
		}
		if err := watch(shared); err != nil {
			t.Fatalf("%s: %v", policy, err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := watch(shared); err != nil {
			t.Errorf("%s: the second run: %v", policy, err)
		}
		if err := watch(spec); err == nil {
			t.Errorf("%s: a run that does not share the cluster does not read it", policy)
		}
	}
}
