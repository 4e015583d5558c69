package finished

import (
	"slices"

	"rmreplay/internal/hpc"
)

// held are the records of one ID that were submitted after the window. They are the later runs of a job in the window if
// a record in the window says that the job was requeued. That record may follow: slurmdbd sorts the records of an ID
// from the last to the first. Only the records of the last such ID are held, so that a window of a long record needs
// little memory.
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
