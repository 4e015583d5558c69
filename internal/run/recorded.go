package run

import (
	"cmp"
	"fmt"
	"slices"

	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/workload"
)

// EngineRecorded is the engine in the manifest of a recorded workload that is read as a run ([FromWorkload]).
const EngineRecorded = "recorded"

// FromWorkload returns a recorded workload as a run: the submissions, starts, ends, nodes, processors, priorities and
// states in the jobs' records ([hpc.Recorded]), and the workload's reservations and node events. It leaves out jobs
// without a record, and counts them in a warning. The run has no directory, no clock and no configuration. If the
// workload does not give the size of its machine, the size is unknown. Warnings of the manifest with the prefix
// [LackPrefix] say what the workload does not record, and what follows from that. FromWorkload returns an error if no
// job has a start.
func FromWorkload(w *workload.Workload) (*Run, error) {
	j := &journal{builder: newBuilder()}
	var events []rm.Event
	jobs, started, impossible, dated := 0, 0, 0, hpc.HaveEligibleDates(w.Jobs.All())
	marked := false // older traces do not say which begin times were made
	for _, job := range w.Jobs.All() {
		marked = marked || job.Recorded != nil && job.Recorded.BeginMade
	}
	for i := range w.Jobs.Len() {
		job := w.Jobs.At(i)
		if job.Recorded == nil {
			continue
		}
		jobs++
		if job.Recorded.BeginMade || !marked && w.Rules[finished.NoteBegin] > 0 {
			job = hpc.WithoutMadeBegin(job)
		}
		j.job(job)
		before := len(events)
		events = appendRecorded(events, job, &impossible)
		for _, e := range events[before:] {
			if e.Kind == rm.Started {
				started++
			} else if e.Kind == rm.Ended && dated && job.NeverEligible() {
				e.Outcome.First = e.Outcome.End // as in the simulator, for a job that never was in the queue
			}
		}
	}
	if started == 0 {
		return nil, fmt.Errorf(
			"reading %s as a run: no job has a recorded start (want a run, or a workload made of accounting records)", w.Source)
	}
	for _, e := range w.NodeEvents {
		events = append(events, rm.Event{At: e.At, Kind: rm.NodeState, Task: -1, Reason: e.Nodes + " " + e.State})
	}
	for _, e := range w.Reservations {
		events = append(events, rm.Event{At: e.At, Kind: rm.Reserved, Task: -1, Reason: e.Action + " " + e.Name})
	}
	slices.SortStableFunc(events, func(a, b rm.Event) int { return cmp.Compare(a.At, b.At) })
	for _, e := range events {
		j.add(e)
	}
	r := &Run{Dir: w.Source, journal: j, recorded: w, Manifest: Manifest{
		Format: Format, State: StateComplete, Valid: true, Engine: EngineRecorded, Warnings: lacks(w, "the workload"),
		Workload:    Source{Path: w.Source, Jobs: jobs, Rules: w.Rules},
		Cluster:     Cluster{Nodes: w.MachineNodes, Processors: w.MachineProcessors},
		WindowStart: w.Start, VirtualStart: w.Begin(), VirtualEnd: j.lastEvent, Jobs: j.counts(jobs),
	}}
	r.Manifest.derive()
	if n := w.Jobs.Len() - jobs; n > 0 {
		r.Manifest.Warnings = append(r.Manifest.Warnings, Warning{Code: "jobs-without-record", Count: n,
			Text: "jobs of the workload have no record of what happened to them, and are left out"})
	}
	if impossible > 0 {
		r.Manifest.Warnings = append(r.Manifest.Warnings, Warning{
			Code: "runs-impossible", Count: impossible, Text: "jobs have recorded runs or suspensions that are " +
				"impossible (workload validate says why): only the last run of each is used",
		})
	}
	return r, nil
}

// appendRecorded appends the events that follow from the record of a job. If the runs of a job or task are impossible,
// appendRecorded counts this in impossible, and uses only the last run.
func appendRecorded(events []rm.Event, job *hpc.Job, impossible *int) []rm.Event {
	if job.Recorded.State == hpc.Rejected {
		return append(events, rm.Event{At: job.Submit, Kind: rm.Refused, Job: job.ID, Task: -1,
			Reason: "rejected when the workload was recorded"})
	}
	accepted := rm.Event{At: job.Submit, Kind: rm.Accepted, Job: job.ID, Task: -1}
	if r := job.Recorded; r.Eligible != 0 && (r.Start == 0 || r.End == 0) { // there may be no other event for Eligible
		accepted.Outcome = &rm.Outcome{Eligible: r.Eligible}
	}
	events = append(events, accepted)
	for _, task := range hpc.TasksOf(job) {
		r := job.Recorded.OfTask(task)
		if r.CheckRuns() != nil {
			*impossible++
			r.Interruptions = hpc.Interruptions{}
		}
		h := history{events: events, job: job, task: task, eligible: r.Eligible, suspensions: r.Suspensions}
		h.append(&r)
		events = h.events
	}
	return events
}

// LackPrefix begins the codes of warnings about what a recorded workload does not have. Because of
// that, a replay may differ from what happened even if the scheduler is exact.
const LackPrefix = "not-recorded-"

// LostRuns follows [LackPrefix] in a warning's code. The warning says that the workload only
// counts the runs that jobs lost to requeues, and does not have their times.
const LostRuns = "lost-runs"

// Codes of warnings. EndsAsFailed: some jobs end as FAILED in a replay, because in the record a user, a failed node,
// lack of memory, preemption or the deadline ended them. EndsAtLimit: jobs end at their limits that ran longer in the
// record. DaysWithoutSubmissions: users submit nothing on some days of the week, because the workload has no submission
// on these days. PresetInMaintenance: preset jobs run into a maintenance.
const (
	EndsAsFailed           = "ends-as-failed"
	EndsAtLimit            = "ends-at-limit"
	DaysWithoutSubmissions = "days-without-submissions"
	PresetInMaintenance    = "preset-in-maintenance"
)

// OfResult are the codes of warnings that a comparison repeats, because they can explain its differences.
var OfResult = []string{EndsAsFailed, DaysWithoutSubmissions, PresetInMaintenance}

// Lacks returns warnings about what the run's workload does not have, with the codes of
// [FromWorkload]. The error says which part of the record cannot be read.
func (r *Run) Lacks() ([]Warning, error) {
	w := r.recorded
	if w == nil {
		var err error
		if w, err = r.Played(); err != nil {
			return nil, err
		}
	}
	return lacks(w, "the replayed workload"), nil
}

// lacks returns what a workload does not record, and what follows from each lack. Each text begins
// with the workload's name.
func lacks(w *workload.Workload, name string) []Warning {
	var user, account, qos, partition, nodes, priority, limit, dependency, constraint bool
	first, users, tasks := "", 0, true
	for _, job := range w.Jobs.All() {
		if job.User != "" && job.User != first {
			first = job.User
			users++
		}
		user, account, qos, partition = user || users > 1, account || job.Account != "", qos || job.QOS != "", partition ||
			job.Partition != ""
		limit, dependency = limit || job.TimeLimit != 0, dependency || job.Dependency != ""
		constraint = constraint || job.Constraint != "" || job.NodeList != "" || job.Switches != 0
		if rec := job.Recorded; rec != nil {
			alone := rec.TaskStarts == nil && rec.TaskEnds == nil && rec.Start != 0
			tasks = tasks && (!alone || len(workload.TasksOf(job)) == 1)
			nodes, priority = nodes || rec.Nodes != "" || len(rec.TaskNodes) > 0, priority || rec.Priority != 0
		}
	}
	var list []Warning
	lack := func(have bool, code, text string) {
		if !have {
			list = append(list, Warning{Code: LackPrefix + code, Text: name + " records no " + text, Count: 1})
		}
	}
	lack(user, "users", "users, so limits and fair-share of single users have no effect in a replay")
	lack(tasks, "tasks", "single tasks of some arrays, so each has the first start and the last end of its array")
	lack(account, "accounts", "accounts, so their limits and shares have no effect in a replay")
	lack(qos, "qos", "QOS, so their priorities, limits and preemption have no effect in a replay")
	lack(limit, "time-limits", "time limits, so backfill plans with the default limits of partitions")
	lack(partition, "partitions", "partitions, so every job goes to the default one")
	lack(len(w.Reservations) > 0, "reservations", "reservations, so nodes that were reserved are free in a replay")
	lack(len(w.NodeEvents) > 0, "node-events", "node outages, so nodes that were down or drained are free in a replay")
	lack(len(w.Usage) > 0, "usage", "earlier usage, so fair-share begins at zero in a replay")
	lack(w.Start != 0, "window", "window with the jobs that ran before, so the machine is empty when a replay begins")
	lack(priority, "priorities", "priorities of jobs, so the order of the queue cannot be compared")
	lack(constraint, "constraints", "features, node lists or switches of jobs, so jobs that waited for certain nodes "+
		"start on others in a replay")
	lack(dependency, "dependencies", "dependencies, so jobs that waited for others may start earlier in a replay")
	if n := w.Rules[finished.NoteRequeued]; n > 0 {
		list = append(list, Warning{Code: LackPrefix + LostRuns, Count: n,
			Text: name + " does not record the times of runs that jobs lost to requeues, so recorded waits contain these runs"})
	}
	lack(nodes, "nodes", "nodes of jobs, so placement cannot be compared")
	return list
}
