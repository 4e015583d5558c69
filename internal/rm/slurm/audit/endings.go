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

// Endings reads from slurmctld's log, while it grows, why jobs ended: which job preempted which other job, and which
// jobs were cancelled because their dependencies can never be met. The zero value with a Path is ready for use.
type Endings struct {
	Path string // of the log

	read  int64                   // bytes of the log
	rest  []byte                  // the beginning of a line that is not complete yet
	of    map[uint32][]preemption // by the preempted job's number
	never map[uint32]bool         // the numbers of jobs whose dependencies can never be met
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

// dependencyFailed is in slurmctld's log line about a job that it cancels because of the job's dependencies
// (_kill_dependent in job_mgr.c).
var dependencyFailed = []byte("Job dependency can't be satisfied, cancelling JobId=")

// sameEnd is the largest accepted difference between the end of a run and slurmctld's log line
// about the preemption. The end has whole seconds, and the log has milliseconds.
const sameEnd = 2 * time.Second

// By returns the job for which slurmctld preempted a job whose run ended at the instant end. It
// returns false if the log names no such job.
func (p *Endings) By(job uint32, end hpc.Time) (Preemptor, bool, error) {
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

// NeverSatisfied reports whether slurmctld cancelled a job because the job's dependencies can never be met. The number
// of an array stands for its tasks without a record of their own.
func (p *Endings) NeverSatisfied(job uint32) (bool, error) {
	if err := p.more(); err != nil {
		return false, fmt.Errorf("reading why job %d was cancelled: %w", job, err)
	}
	return p.never[job], nil
}

// more reads the lines that slurmctld has added to the log since the last call.
func (p *Endings) more() error {
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

func (p *Endings) line(line []byte) {
	if _, rest, ok := bytes.Cut(line, dependencyFailed); ok {
		if job, known := jobNumber(rest); known {
			if p.never == nil {
				p.never = map[uint32]bool{}
			}
			p.never[job.Number] = true
		}
		return
	}
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

// jobNumber reads the job's number in "1005 has been" or, for the tasks of an array without a record of their own, in
// "1005_*". It reads the index and the number of a task in "1005_3(1008) has been".
func jobNumber(text []byte) (job Preemptor, ok bool) {
	word, _, _ := bytes.Cut(text, []byte(" "))
	if outer, inner, ok := bytes.Cut(word, []byte("(")); ok {
		word = bytes.TrimSuffix(inner, []byte(")"))
		_, index, _ := bytes.Cut(outer, []byte("_"))
		job.Task = string(index)
	}
	word = bytes.TrimSuffix(word, []byte("_*"))
	n, err := strconv.ParseUint(string(word), 10, 32)
	job.Number = uint32(n)
	return job, err == nil
}
