package forecast

import (
	"slices"
	"time"

	"rmreplay/internal/replay"
	"rmreplay/internal/slurmspec/sbatch"
	"rmreplay/internal/workload"
)

// held returns the pending jobs that are held. A forecast assumes that nobody releases held jobs, unless it has the
// run's later events.
func (q *Queue) held(opts Options) []string {
	if opts.Arrivals == Recorded {
		return nil
	}
	holds := map[string]bool{}
	for _, job := range q.Workload.Jobs.All() {
		holds[job.ID] = job.Hold
	}
	var list []string
	for _, key := range q.Pending() {
		if holds[key.Job] {
			list = append(list, key.Job)
		}
	}
	return slices.Compact(list)
}

// shorten submits the jobs that never start, because they are held or wait for a held job, a second before the window
// of a realization. With their true submit times, which may be months ago, the pre-roll would be months long. The order
// of the moved jobs does not change. A job is not moved if another job that may start depends on it.
func (q *Queue) shorten(w *workload.Workload, opts Options) {
	held := q.held(opts)
	if len(held) == 0 || q.states != nil {
		return
	}
	var pending []string
	for _, job := range w.Jobs.All() {
		if job.Submit < q.At && !w.Preset(job) {
			pending = append(pending, job.ID)
		}
	}
	move := map[string]bool{}
	for _, id := range replay.NeverStart(w, pending, held) {
		move[id] = true
	}
	for i := w.Jobs.Len() - 1; i >= 0; i-- { // a job depends on earlier jobs
		job := w.Jobs.At(i)
		if move[job.ID] || job.Dependency == "" {
			continue
		}
		dependencies, err := sbatch.ParseDependency(job.Dependency)
		if err != nil {
			return // the job's dependencies are not known
		}
		for _, d := range dependencies.List {
			array, _, _ := d.Task()
			delete(move, d.Job)
			delete(move, array)
		}
	}
	for i, job := range w.Jobs.All() {
		if before := q.At.Add(-time.Second); move[job.ID] && job.Submit < before {
			job.Postpone(before)
			w.Jobs.Set(i, job)
		}
	}
	w.Sort()
	begin := w.Begin()
	w.NodeEvents = slices.Clone(w.NodeEvents)
	for i := range w.NodeEvents {
		w.NodeEvents[i].At = max(w.NodeEvents[i].At, begin) // [early] says why
	}
}
