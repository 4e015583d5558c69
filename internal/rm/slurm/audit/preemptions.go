package audit

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
)

// Preemptions are the preemptions that slurmctld logged.
type Preemptions struct {
	of    map[uint32][]preemption // by the preempted job's number
	names map[uint32]string       // of jobs in the record
	jobs  map[uint32]string       // the same without tasks
}

// preemption is one preemption of a job, by another job's number. task is the index of a task of an array; empty for
// another job. A task has a number of its own only after it starts: until then it is 140_5(140).
type preemption struct {
	at   hpc.Time
	by   uint32
	task string
}

// slurmctld logs "preempted JobId=1 has been requeued to reclaim resources for JobId=3", or killed
// (_preempt_jobs in node_scheduler.c).
var (
	preempted = []byte("] preempted JobId=")
	reclaims  = []byte(" to reclaim resources for JobId=")
)

// ReadPreemptions reads the log of slurmctld. rows are the rows of the record. The error is the
// reader's.
func ReadPreemptions(log io.Reader, rows func(func(*run.Row) bool)) (*Preemptions, error) {
	p := &Preemptions{of: map[uint32][]preemption{}, names: map[uint32]string{}, jobs: map[uint32]string{}}
	lines := bufio.NewReaderSize(log, 4096) // the lines that matter are short
	for begins := true; ; {
		line, more, err := lines.ReadLine()
		switch {
		case errors.Is(err, io.EOF):
			if len(p.of) > 0 {
				p.name(rows)
			}
			return p, nil
		case err != nil:
			return nil, err
		case begins:
			p.line(line)
		}
		begins = !more
	}
}

func (p *Preemptions) line(line []byte) {
	head, rest, ok := bytes.Cut(line, preempted)
	if !ok {
		return
	}
	victim, by, ok := bytes.Cut(rest, reclaims)
	at, err := time.Parse("[2006-01-02T15:04:05.000", string(head))
	job, _, known := jobNumber(victim)
	if preemptor, task, given := jobNumber(by); ok && err == nil && known && given {
		p.of[job] = append(p.of[job], preemption{hpc.Time(at.UnixNano()), preemptor, task})
	}
}

// jobNumber reads the number in "1005 has been", or that of a task and its index in "1005_3(1008) has been".
func jobNumber(text []byte) (number uint32, task string, ok bool) {
	word, _, _ := bytes.Cut(text, []byte(" "))
	if outer, inner, ok := bytes.Cut(word, []byte("(")); ok {
		word = bytes.TrimSuffix(inner, []byte(")"))
		_, index, _ := bytes.Cut(outer, []byte("_"))
		task = string(index)
	}
	n, err := strconv.ParseUint(string(word), 10, 32)
	return uint32(n), task, err == nil
}

// name finds the names of the jobs in the record.
func (p *Preemptions) name(rows func(func(*run.Row) bool)) {
	for row := range rows {
		name := row.Job
		if row.Task >= 0 {
			name += "_" + strconv.Itoa(row.Task)
		}
		p.names[row.RMJob], p.jobs[row.RMJob] = name, row.Job
	}
}

// sameEnd is how much later than the end of the run slurmctld may log the preemption. The end has whole seconds, but
// that of a run that ended within the second in which it began. The log has milliseconds.
const sameEnd = 2 * time.Second

// Amend adds to a row which jobs preempted its runs.
func (p *Preemptions) Amend(row *run.Row) {
	for _, by := range p.of[row.RMJob] {
		if len(row.Segments) == 0 {
			row.Segments = row.Held()
		}
		for i := range row.Segments {
			s := &row.Segments[i]
			end := s.End - s.End%hpc.Time(time.Millisecond)
			if late := by.at.Sub(end); s.PreemptedBy == "" && late >= 0 && late < sameEnd &&
				(s.EndedBy == rm.Requeue || s.EndedBy == rm.Ended) {
				s.PreemptedBy = p.preemptor(by)
				break
			}
		}
	}
}

// preemptor is the name of the job for which another one was preempted: its number if the record does not have it.
func (p *Preemptions) preemptor(by preemption) string {
	if job := p.jobs[by.by]; job != "" && by.task != "" {
		return job + "_" + by.task
	}
	if name := p.names[by.by]; name != "" {
		return name
	}
	return strconv.FormatUint(uint64(by.by), 10)
}
