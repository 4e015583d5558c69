package forecast

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"rmreplay/internal/hpc"
)

// Rewind is [Course.Freeze] without a window: the realizations repeat the run from its beginning. Up to the instant the
// workload is the run's own, and only the run times of jobs that end later are drawn, so the scheduler has its whole
// state. A window cannot restore the scheduler's whole state: the shares of jobs on their nodes, the phase of the
// scheduler's periodic work, and the reservations that it planned. A realization takes as long as the run did.
func (c *Course) Rewind(at hpc.Time) (*Queue, error) {
	if at <= c.Manifest.VirtualStart || c.Manifest.VirtualEnd != 0 && at > c.Manifest.VirtualEnd {
		return nil, fmt.Errorf("reading the state of the run at %s: outside the run "+
			"(want an instant after %s and not after %s)", at, c.Manifest.VirtualStart, c.Manifest.VirtualEnd)
	}
	w := *c.workload
	w.Jobs = w.Jobs.Clone()
	w.Jobs.Delete(func(job *hpc.Job) bool { return job.Submit >= at })
	w.NodeEvents = slices.DeleteFunc(slices.Clone(w.NodeEvents), func(e hpc.NodeEvent) bool { return e.At >= at })
	w.Reservations = slices.DeleteFunc(slices.Clone(w.Reservations),
		func(e hpc.ReservationEvent) bool { return e.At >= at })
	w.Actions = slices.DeleteFunc(slices.Clone(w.Actions), func(a hpc.Action) bool { return a.At >= at })
	return &Queue{
		At: at, Workload: &w, History: c.known(at), Estimates: c.estimates(at),
		future: c.workload, states: c.phases(at), seed: c.Manifest.Seed,
	}, nil
}

// state returns the state of a job or task of a queue from [Course.Rewind].
func (q *Queue) state(key Key) phase {
	if p := q.states[Key{key.Job, -1}]; p != nil && (p.over || key.Task < 0) {
		return *p
	}
	if p := q.states[key]; p != nil {
		return *p
	}
	return phase{}
}

// redraw draws new run times for those tasks of a job that have not ended at the instant.
func (d draws) redraw(job *hpc.Job, q *Queue, seed uint64, realization int) {
	if job.CancelAfter > 0 && job.Submit.Add(job.CancelAfter) >= q.At {
		job.CancelAfter = 0
	}
	job.TaskRunTimes, job.TaskExitCodes = maps.Clone(job.TaskRunTimes), maps.Clone(job.TaskExitCodes)
	for _, task := range hpc.TasksOf(job) {
		state := q.state(Key{job.ID, task})
		if state.over {
			continue
		}
		elapsed := state.lost.Seconds() // a requeued job starts again, so it runs longer than its lost runs
		if state.running {
			elapsed = max(elapsed, q.At.Sub(state.start).Seconds())
		}
		switch { // a forecast assumes that the task succeeds
		case task < 0:
			job.ExitCode = 0
			forgetEnd(job)
		case job.ExitCodeOf(task) != 0:
			if job.TaskExitCodes == nil {
				job.TaskExitCodes = map[int]int{}
			}
			job.TaskExitCodes[task] = 0
		}
		ran := runTime(d.of(job.ID), job, task, elapsed, seed, realization)
		switch {
		case task >= 0:
			if job.TaskRunTimes == nil {
				job.TaskRunTimes = map[int]time.Duration{}
			}
			job.TaskRunTimes[task] = ran
		case job.EndAt != 0 && state.running && ran != hpc.Unlimited:
			job.EndAt = max(state.start.Add(ran), q.At)
		default:
			job.RunTime, job.EndAt = ran, 0
		}
	}
}
