package forecast

import (
	"slices"
	"strconv"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/workload"
)

// stay is one run of a job, or of a task of an array, on its nodes.
type stay struct {
	key        Key
	start, end hpc.Time // end is hpc.Never while the job runs
	nodes      []string // sorted
	list       string
	processors int
}

// staysBefore returns the runs that began before an instant, in the order of their starts. A run that had not ended
// by the instant has no end.
func (c *Course) staysBefore(at hpc.Time) []stay {
	var all []stay
	open := map[Key]int{}
	for i := range c.events {
		e := &c.events[i]
		if e.At >= at {
			break
		}
		key := Key{e.Job, e.Task}
		switch e.Kind {
		case rm.Started:
			names, err := hostlist.Expand(e.Nodes)
			if err != nil {
				continue // a record without nodes
			}
			slices.Sort(names)
			open[key] = len(all)
			all = append(all, stay{key, e.Start, hpc.Never, names, e.Nodes, e.Processors})
		case rm.Ended, rm.Requeue:
			if k, runs := open[key]; runs {
				all[k].end = max(e.At, all[k].start)
				if e.Kind == rm.Ended {
					all[k].end = e.End
				}
				delete(open, key)
			}
		}
	}
	return all
}

// neighbours returns the ended neighbours of the jobs that run at an instant, and all jobs of the record by ID. A
// neighbour of a job is a run that was on one of the job's nodes when the job started. A record has a job's nodes and
// its total of processors, but not its processors on each node. The processors on each node depended on the neighbours.
// If the forecast also has the neighbours, the scheduler gives the job the same processors on each node. But in the
// run, the scheduler may have left processors free for the planned start of another job. If the processors of a
// neighbour on each node are unknown as well, its own neighbours are also returned.
func (c *Course) neighbours(at hpc.Time) (found []stay, jobs map[string]*hpc.Job) {
	all := c.staysBefore(at)
	jobs = map[string]*hpc.Job{}
	for _, job := range c.workload.Jobs.All() {
		copied := *job
		jobs[job.ID] = &copied
	}
	wanted := make([]bool, len(all))
	var open []int
	for i := range all {
		if all[i].end == hpc.Never {
			wanted[i] = true
			open = append(open, i)
		}
	}
	for len(open) > 0 {
		k := open[len(open)-1]
		one := &all[k]
		open = open[:len(open)-1]
		if job := jobs[one.key.Job]; job == nil || sharesKnown(job, len(one.nodes)) {
			continue
		}
		for i := range all {
			other := &all[i]
			if other.start > one.start {
				break
			}
			there := other.end > one.start || other.start == one.start && i < k // or if both started at the same instant
			if !wanted[i] && there && overlap(one.nodes, other.nodes) {
				wanted[i] = true
				open = append(open, i)
				found = append(found, *other)
			}
		}
	}
	return found, jobs
}

// sharesKnown reports whether a job's request determines how many of its processors are on each of n nodes.
func sharesKnown(job *hpc.Job, n int) bool {
	tasks := job.Tasks
	return n == 1 || job.Exclusive != "" || tasks == n || job.TasksPerNode > 0 &&
		(tasks == 0 || tasks == n*job.TasksPerNode)
}

// overlap reports whether two sorted lists have a name in common.
func overlap(a, b []string) bool {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] == b[0]:
			return true
		case a[0] < b[0]:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return false
}

// addNeighbours adds past runs as preset jobs that end before the window begins.
func (q *Queue) addNeighbours(w *workload.Workload, past []stay, jobs map[string]*hpc.Job) {
	taken := map[string]bool{}
	for _, job := range w.Jobs.All() {
		taken[job.ID] = true
	}
	for _, one := range past {
		known := jobs[one.key.Job]
		if known == nil {
			continue
		}
		job := *known
		if one.key.Task >= 0 {
			job.ID += "_" + strconv.Itoa(one.key.Task)
		}
		for n := 2; taken[job.ID]; n++ { // an earlier run of a job that was requeued
			job.ID = one.key.Job + "#" + strconv.Itoa(n)
		}
		taken[job.ID] = true
		job.Array, job.TaskRunTimes, job.TaskExitCodes, job.CancelAfter = "", nil, nil, 0
		job.Dependency, job.Begin, job.Hold = "", 0, false // all were met before this run started
		job.EndAt, job.Requeue = one.end, new(bool)
		job.Recorded = &hpc.Recorded{Start: one.start, Nodes: one.list, Processors: one.processors, State: hpc.Running}
		w.Jobs.Append(&job)
		q.past[job.ID] = true
	}
	w.Sort()
}
