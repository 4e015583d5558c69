package finished

import (
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec/sbatch"
)

// held are the records of one ID that were submitted after the window. They are the later runs of a job in the window
// if a record in the window says that the job was requeued. That record may follow, because a source may have the last
// run of a job first. Only the records of the last such ID are held, so that a window of a long record needs little
// memory.
type held struct {
	id      string
	records []heldRecord
}

type heldRecord struct {
	submit, end hpc.Time
	add         func() error
}

// Outside drops a record outside the window. If it was submitted after the window, it is held first, and added with the
// function add if it is found to be a later run of a job in the window. A reader that calls Outside need not create a
// [Job], unless the function add is called.
func (b *Builder) Outside(id string, submit, end hpc.Time, add func() error) error {
	switch {
	case b.opts.Record != nil || !b.late(submit) || end != 0 && end <= b.opts.Start:
		b.outside(id, submit, end)
		return nil
	case b.again(id, submit):
		return add()
	case b.held.id != id:
		b.drop()
		b.held.id = id
	}
	b.held.records = append(b.held.records, heldRecord{submit, end, add})
	return nil
}

func (b *Builder) outside(id string, submit, end hpc.Time) {
	b.submitted(submit)
	b.ended.add(id, submit, end, b.opts.Start)
	b.Note(NoteOutside)
}

// late reports whether a record was submitted after the window.
func (b *Builder) late(submit hpc.Time) bool { return b.opts.End != 0 && submit >= b.opts.End }

// again reports whether a record that was submitted after the window may be a later run of a job in the window. Whether
// it is one, the method runs decides.
func (b *Builder) again(id string, submit hpc.Time) bool {
	e := b.jobs[id]
	return e != nil && b.opts.Record == nil && b.late(submit) &&
		(e.rec.State.Requeues() || slices.ContainsFunc(e.others, func(r Job) bool { return r.State.Requeues() }))
}

// release adds the held records if r, a record in the window, says that their job was requeued.
func (b *Builder) release(r *Job) error {
	if b.held.id != r.ID || !r.State.Requeues() {
		return nil
	}
	records := b.held.records
	b.held = held{}
	for _, late := range records {
		if err := late.add(); err != nil {
			return err
		}
	}
	return nil
}

// drop drops the held records.
func (b *Builder) drop() {
	for _, late := range b.held.records {
		b.outside(b.held.id, late.submit, late.end)
	}
	b.held = held{}
}

// submitEarlier changes the submission of the later runs of requeued jobs that a job depends on, if the job was
// submitted before the requeue: sbatch rejects a dependency on a job that does not exist. Such a run gets the first
// submission, and its begin time keeps it from starting before the requeue.
func (b *Builder) submitEarlier(job *hpc.Job) {
	if len(b.requeues) == 0 || job.Dependency == "" {
		return
	}
	conditions, err := sbatch.ParseDependency(job.Dependency)
	if err != nil {
		return
	}
	for run, first := range b.requeues {
		if run.Submit > job.Submit && slices.ContainsFunc(conditions.List, func(d sbatch.Dependency) bool {
			return d.Job == run.ID || strings.HasPrefix(d.Job, run.ID+"_")
		}) {
			earlier := run.Submit.Sub(first)
			run.Submit, run.Begin, run.Recorded.BeginMade = first, run.Begin+earlier, true
			if run.CancelAfter > 0 {
				run.CancelAfter += earlier
			}
			delete(b.requeues, run)
		}
	}
}
