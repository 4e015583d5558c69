package forecast

import (
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// A preset job surely runs once its recorded start is settled ago. Slurm's times are whole seconds, and
// its scheduler may look at the job in the next one.
const settled = 3 * time.Second

// early makes the states that nodes have when the window begins take effect before it: at the
// beginning of the pre-roll, or after the last preset job of the node has started. At the
// window's start pending jobs could start on such a node before its state is known.
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
			e.At = min(started.Add(settled), w.Start) // its jobs run on, and it takes no other
		}
	}
	w.Sort()
}
