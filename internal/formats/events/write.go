package events

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/jobjson"
	"rmreplay/internal/lines"
	"rmreplay/internal/slurmspec/sbatch"
	"rmreplay/internal/workload"
)

// Write writes the workload as events of UB's Slurm simulator, as [Read] reads them, and counts the
// facts that the events cannot express.
func Write(w io.Writer, wl *workload.Workload) (workload.Losses, error) {
	out := bufio.NewWriterSize(w, 64<<10)
	e := writer{losses: workload.Losses{}, names: eventNames(wl), epoch: wl.Epoch}
	if wl.Jobs.Len() > 0 {
		e.epoch = min(e.epoch, wl.Jobs.Submit(0))
		if e.epoch.IsZero() {
			e.epoch = wl.Jobs.Submit(0)
		}
	}
	for _, job := range wl.Jobs.All() {
		if err := e.job(out, job); err != nil {
			return nil, fmt.Errorf("writing events: job %s: %w", job.ID, err)
		}
	}
	e.losses.Add("users", len(wl.Users))
	e.losses.Add("unusable records", len(wl.Unusable))
	e.losses.Machine(wl)
	e.losses.Events(wl)
	if err := out.Flush(); err != nil {
		return nil, fmt.Errorf("writing events: %w", err)
	}
	return e.losses, nil
}

type writer struct {
	losses workload.Losses
	names  map[string]string // each job's name in the file, by ID
	epoch  hpc.Time
}

// eventNames returns a unique name for each job in the file: the job's own name if no other job
// has it, and otherwise its ID.
func eventNames(wl *workload.Workload) map[string]string {
	uses := make(map[string]int, wl.Jobs.Len())
	for _, job := range wl.Jobs.All() {
		uses[job.Name]++
		if job.ID != job.Name {
			uses[job.ID]++
		}
	}
	names := make(map[string]string, wl.Jobs.Len())
	for _, job := range wl.Jobs.All() {
		names[job.ID] = job.ID
		if job.Name != "" && uses[job.Name] == 1 {
			names[job.ID] = job.Name
		}
	}
	return names
}

func (e *writer) job(out *bufio.Writer, job *hpc.Job) error {
	r := job.Request
	r.Name = lines.OneLine(e.names[job.ID])
	r.Comment = lines.OneLine(r.Comment)
	r.Dependency = e.dependency(job)
	words := append(sbatch.Format(&r), "-sim-walltime="+walltime(job.RunTime), "pseudo.job")
	at := fmt.Sprintf("-dt %s -e ", jobjson.AppendSeconds(nil, job.Submit.Sub(e.epoch)))
	if _, err := out.WriteString(at + "submit_batch_job | " + sbatch.Join(words) + "\n"); err != nil {
		return err
	}
	if job.CancelAfter > 0 {
		after := jobjson.AppendSeconds(nil, job.Submit.Sub(e.epoch)+job.CancelAfter)
		if _, err := fmt.Fprintf(out, "-dt %s -e cancel_job | -J %s\n", after, sbatch.Quote(r.Name)); err != nil {
			return err
		}
	}
	e.losses.Reparsed(job, words, map[string]string{"Dependency": r.Dependency})
	e.losses.Fate(job, "exit_code", "end_at", "task_run_times_s", "task_exit_codes", "io", "recorded", "made")
	return nil
}

// dependency writes the job's conditions with the names of the other jobs in the file.
func (e *writer) dependency(job *hpc.Job) string {
	deps, err := sbatch.ParseDependency(job.Dependency)
	if job.Dependency == "" || err != nil {
		return job.Dependency
	}
	for i, d := range deps.List {
		if name := e.names[d.Job]; name != "" {
			deps.List[i].Job = name
		}
	}
	return deps.String()
}

func walltime(d time.Duration) string {
	if d == hpc.Unlimited {
		return "-1"
	}
	return string(jobjson.AppendSeconds(nil, d))
}
