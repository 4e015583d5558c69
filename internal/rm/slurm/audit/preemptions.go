package audit

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"rmreplay/internal/hpc"
)

// Preemptions follows slurmctld's log and finds which job preempted which other job. The zero
// value with a Path is ready for use.
type Preemptions struct {
	Path string // of the log

	read int64                   // bytes of the log
	rest []byte                  // the beginning of a line that is not complete yet
	of   map[uint32][]preemption // by the preempted job's number
}

// preemption is one preemption of a job.
type preemption struct {
	at hpc.Time
	by Preemptor
}

// Preemptor is a job that preempted another job. It has the job's number and, for a task of an
// array, the task's index. A task gets a number of its own only when it starts; until then Slurm
// writes 140_5(140).
type Preemptor struct {
	Number uint32
	Task   string
}

// slurmctld logs "preempted JobId=1 has been requeued to reclaim resources for JobId=3", or "has
// been killed" (_preempt_jobs in node_scheduler.c).
var (
	preempted = []byte("] preempted JobId=")
	reclaims  = []byte(" to reclaim resources for JobId=")
)

// sameEnd is the largest accepted difference between the end of a run and slurmctld's log line
// about the preemption. The end has whole seconds, and the log has milliseconds.
const sameEnd = 2 * time.Second

// By returns the job that preempted the given job, whose run ended at end. It returns false if the
// log names no such job.
func (p *Preemptions) By(job uint32, end hpc.Time) (Preemptor, bool, error) {
	if err := p.more(); err != nil {
		return Preemptor{}, false, fmt.Errorf("reading which job preempted job %d: %w", job, err)
	}
	for i, one := range p.of[job] {
		if late := one.at.Sub(end); late >= 0 && late < sameEnd {
			p.of[job] = p.of[job][i+1:]
			return one.by, true, nil
		}
	}
	return Preemptor{}, false, nil
}

// more reads the lines that slurmctld has added to the log since the last call.
func (p *Preemptions) more() error {
	file, err := os.Open(p.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	text, err := io.ReadAll(io.NewSectionReader(file, p.read, 1<<62))
	p.read += int64(len(text))
	p.rest = append(p.rest, text...)
	for {
		line, rest, whole := bytes.Cut(p.rest, []byte("\n"))
		if !whole {
			p.rest = bytes.Clone(p.rest)
			return err
		}
		p.line(line)
		p.rest = rest
	}
}

func (p *Preemptions) line(line []byte) {
	head, rest, ok := bytes.Cut(line, preempted)
	if !ok {
		return
	}
	victim, by, ok := bytes.Cut(rest, reclaims)
	at, err := time.Parse("[2006-01-02T15:04:05.000", string(head))
	job, known := jobNumber(victim)
	if preemptor, given := jobNumber(by); ok && err == nil && known && given {
		if p.of == nil {
			p.of = map[uint32][]preemption{}
		}
		p.of[job.Number] = append(p.of[job.Number], preemption{hpc.Time(at.UnixNano()), preemptor})
	}
}

// jobNumber reads the job's number in "1005 has been", or the index and the number of a task in
// "1005_3(1008) has been".
func jobNumber(text []byte) (job Preemptor, ok bool) {
	word, _, _ := bytes.Cut(text, []byte(" "))
	if outer, inner, ok := bytes.Cut(word, []byte("(")); ok {
		word = bytes.TrimSuffix(inner, []byte(")"))
		_, index, _ := bytes.Cut(outer, []byte("_"))
		job.Task = string(index)
	}
	n, err := strconv.ParseUint(string(word), 10, 32)
	job.Number = uint32(n)
	return job, err == nil
}
