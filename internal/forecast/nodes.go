package forecast

import (
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// settled is the time after a preset job's recorded start within which the job certainly starts in a
// replay. Slurm's times are whole seconds, and its scheduler may test the job up to a second later.
const settled = 3 * time.Second

// early makes the node states of the window's start apply earlier: from the beginning of the pre-roll, or from just
// after the start of the node's last preset job. Otherwise pending jobs could start on a node that is out of service at
// the window's start, before slurmctld has received its state.
func early(w *workload.Workload) {
	last := map[string]hpc.Time{}
	for _, job := range w.Jobs.All() {
		if !w.Preset(job) {
			continue
		}
		names, err := hostlist.Expand(job.Recorded.Nodes)
		if err != nil {
			continue // workload.Validate reports it
		}
		for _, name := range names {
			last[name] = max(last[name], job.Recorded.Start)
		}
	}
	begin := w.Begin()
	for i := range w.NodeEvents {
		e := &w.NodeEvents[i]
		if e.At != w.Start {
			continue
		}
		e.At = begin
		if started, busy := last[e.Nodes]; busy {
			e.At = min(started.Add(settled), w.Start) // its jobs continue, and the node accepts no new jobs
		}
	}
	w.Sort()
}
