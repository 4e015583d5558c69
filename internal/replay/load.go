package replay

import (
	"cmp"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/workload"
)

// Load is the part of [Progress] that is about the machine, or is known before the replay begins.
type Load struct {
	Begin hpc.Time // the first instant
	// LastEnd is when the last job would end if every job started when it is submitted.
	LastEnd hpc.Time
	Tasks   int // all jobs of the workload, including those not submitted yet
	// Processors is the size of the machine; 0 if not known. Held is the number of processors that
	// jobs hold now.
	Processors, Held int
	// Requested is how many processors the started jobs requested, and Allocated is how many they got.
	Requested, Allocated int64
	// Work is the sum over all jobs of the run time times the requested processors, in
	// processor-seconds. WorkDone is the number of processor-seconds allocated so far.
	Work, WorkDone float64
}

// foresight has totals over a workload's jobs, for the progress.
type foresight struct {
	cancelled int // jobs that the workload cancels
	tasks     int
	work      float64
	lastEnd   hpc.Time
}

// add adds a job to the totals. The parameter standard is the time limit of jobs that request no limit.
func (f *foresight) add(job *hpc.Job, standard time.Duration) {
	tasks := len(hpc.TasksOf(job))
	f.tasks += tasks
	seconds, longest := 0.0, time.Duration(0)
	add := func(run time.Duration, tasks int) {
		if limit := cmp.Or(job.TimeLimit, standard); limit > 0 {
			run = min(run, limit)
		}
		if run != hpc.Unlimited {
			longest = max(longest, run)
			seconds += run.Seconds() * float64(tasks)
		}
	}
	for _, run := range job.TaskRunTimes {
		add(run, 1)
	}
	add(job.RunTime, max(0, tasks-len(job.TaskRunTimes)))
	f.work += seconds * float64(workload.CPUs(&job.Request))
	f.lastEnd = max(f.lastEnd, job.Submit.Add(job.Begin).Add(longest))
}

// countWork updates the work done to the present instant.
func (p *player) countWork() {
	now := p.rm.Now()
	p.progress.WorkDone += float64(p.progress.Held) * now.Sub(p.countedTo).Seconds()
	p.countedTo = now
}

// hold adds the processors of a task that has started.
func (p *player) hold(ev *rm.Event, job int) {
	if ev.Outcome == nil {
		return
	}
	p.countWork()
	p.progress.Held += ev.Outcome.Processors
	p.progress.Allocated += int64(ev.Outcome.Processors)
	if job >= 0 {
		p.progress.Requested += int64(p.requested[job])
	}
}

// release subtracts the processors of a task that has stopped.
func (p *player) release(ev *rm.Event) {
	if ev.Outcome == nil {
		return
	}
	p.countWork()
	p.progress.Held = max(0, p.progress.Held-ev.Outcome.Processors)
}
