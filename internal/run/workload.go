package run

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"rmreplay/internal/finished"
	"rmreplay/internal/formats/trace"
	"rmreplay/internal/hpc"
	"rmreplay/internal/input"
	"rmreplay/internal/slurmspec/sbatch"
	"rmreplay/internal/workload"
)

// Workload reads the record in dir as a workload. It has the jobs as they were submitted. Each job's Recorded is its
// history in the run. If users reacted, a job's Submit is its submit time in this run.
func Workload(dir string) (*workload.Workload, error) {
	r, err := Open(dir)
	if err != nil {
		return nil, fmt.Errorf("reading workload: %w", err)
	}
	jobs, err := r.Submissions()
	if err != nil {
		return nil, fmt.Errorf("reading workload: %s: %w", dir, err)
	}
	rows, err := r.Jobs()
	if err != nil {
		return nil, fmt.Errorf("reading workload: %s: %w", dir, err)
	}
	recorded(jobs, rows, r.Manifest.Feedback != nil)
	slices.SortStableFunc(jobs, func(a, b *hpc.Job) int { return cmp.Compare(a.Submit, b.Submit) })
	if len(jobs) == 0 {
		return nil, fmt.Errorf("reading workload: %s: the run has no jobs", dir)
	}
	w, err := r.Setting()
	if err != nil {
		return nil, fmt.Errorf("reading workload: %w", err)
	}
	w.Jobs, w.Source = workload.JobsOf(jobs...), dir
	if machine := r.Manifest.Cluster; machine.Processors > 0 { // the jobs ran on this machine
		w.MachineNodes, w.MachineProcessors = machine.Nodes, machine.Processors
	}
	delete(w.Rules, finished.NoteRequeued) // this rule counts requeues before the run
	return w, nil
}

// Played returns the workload that the run played. Its jobs are unchanged and in the order of submission.
func (r *Run) Played() (*workload.Workload, error) {
	jobs, err := r.Submissions()
	if err != nil {
		return nil, fmt.Errorf("reading workload: %w", err)
	}
	w, err := r.Setting()
	if err != nil {
		return nil, fmt.Errorf("reading workload: %w", err)
	}
	slices.SortStableFunc(jobs, func(a, b *hpc.Job) int { return cmp.Compare(a.Submit, b.Submit) })
	w.Jobs, w.Source = workload.JobsOf(jobs...), r.Dir
	return w, nil
}

// Setting returns the run's workload without its jobs.
func (r *Run) Setting() (*workload.Workload, error) {
	if r.recorded != nil {
		return r.recorded, nil
	}
	w := &workload.Workload{Epoch: r.Manifest.VirtualStart, Start: r.Manifest.WindowStart}
	path := filepath.Join(r.Dir, settingFile)
	f, err := input.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return w, nil // the record has no setting
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only: an error here loses nothing
	return trace.ReadSetting(f, path)
}

// recorded sets each job's Recorded to its history in this run. If moved is true, recorded also sets the job's Submit
// to its submit time in this run.
func recorded(jobs []*hpc.Job, rows []Row, moved bool) {
	of := make(map[string][]Row, len(jobs))
	for tasks := range byJob(rows) {
		of[tasks[0].Job] = tasks
	}
	for _, job := range jobs {
		tasks := of[job.ID]
		if len(tasks) == 0 {
			continue
		}
		if moved {
			job.Submit = tasks[0].Submit
		}
		records := make([]finished.Job, len(tasks))
		for i := range tasks {
			records[i] = tasks[i].Finished(nil)
		}
		if job.Array != "" {
			job.Recorded = finished.RecordedArray(records)
		} else {
			job.Recorded = records[0].Recorded()
		}
		job.Recorded.TimeLimit = finished.OtherLimit(job.TimeLimit, records)
	}
}

// Finished returns the row as the neutral record of a finished job. The parameter job is the row's
// submission, as [Run.Submissions] returns it. If job is nil, the result has only the values of
// the row's columns. The ID is the job's ID in the workload, or "ID_TASK" for a task of an array.
// If the workload's ID is not a number, the result has no array number.
func (r *Row) Finished(job *hpc.Job) finished.Job {
	record := finished.Job{
		ID: r.Job, Number: r.RMJob, ArrayTask: r.Task,
		Name: r.Name, User: r.User, Group: r.Group, Account: r.Account, Partition: r.Partition, QOS: r.QOS,
		Reservation: r.Reservation,
		Submit:      r.Submit, Eligible: r.FirstEligible(), Start: r.Start, End: r.End,
		Suspended: r.Suspended, Elapsed: -1, TimeLimit: r.TimeLimit,
		State: r.State, ExitCode: r.ExitCode, Signal: r.Signal, HasExit: true, Restarts: r.Restarts,
		ReqNodes: r.AskedMinNodes, AllocCPUs: r.Processors, AllocNodes: r.NodeCount, AllocTRES: r.TRES, NodeList: r.Nodes,
		Interruptions: r.interruptions(),
	}
	if r.Task >= 0 {
		record.ID += "_" + strconv.Itoa(r.Task)
		if number, err := strconv.ParseUint(r.Job, 10, 32); err == nil {
			record.ArrayJob = uint32(number)
		}
	}
	if r.Priority != 0 {
		record.Priority = &r.Priority
	}
	if r.Start != 0 && r.End != 0 {
		record.Elapsed = r.End.Sub(r.Start) - r.Suspended
	}
	if job != nil {
		addRequest(&record, &job.Request)
	}
	return record
}

// addRequest adds values of the submission that the row's columns do not have.
func addRequest(record *finished.Job, request *hpc.Request) {
	record.WCKey, record.Comment = request.WCKey, request.Comment
	record.Constraint, record.Licenses = request.Constraint, request.Licenses
	record.Reservation = cmp.Or(record.Reservation, request.Reservation)
	record.ReqCPUs = workload.CPUs(request)
	record.MemPerNode, record.MemPerCPU = request.MemPerNode, request.MemPerCPU
	record.GRES, record.GPUs = request.GRES, request.GPUs
	record.Held = request.Hold && record.Start == 0
	record.WholeLine = true
	record.SubmitLine = sbatch.Join(append(append([]string{"sbatch"}, sbatch.Format(request)...), "job.sh"))
}
