package experiment

import (
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
