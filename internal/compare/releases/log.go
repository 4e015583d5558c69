package releases

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec"
)

// Log has the decisions that slurmctld logs at level info or above. Its maps have the jobs' numbers
// in Slurm as keys.
type Log struct {
	// Starts are the starts of each job, in order. A requeued job may start several times.
	Starts map[uint32][]Start
	// Priorities are the priorities that jobs had when they were submitted. An array has one priority.
	Priorities map[uint32]uint32
	// mainOnly says that the release logs the starts by the main scheduler, but not those by
	// backfill.
	mainOnly bool
}

// Start is a start of a job.
type Start struct {
	At hpc.Time
	By Scheduler
}

// Scheduler is a part of slurmctld that starts jobs.
type Scheduler string

// The schedulers. The scheduler of a job that neither scheduler started is "".
const (
	Main     Scheduler = "main"     // the main scheduler, schedule in job_scheduler.c
	Backfill Scheduler = "backfill" // sched/backfill
)

var (
	allocated = []byte("] sched: Allocate JobId=")                     // job_scheduler.c
	backfills = []byte("] sched/backfill: _start_job: Started JobId=") // backfill.c, to 25.11
	submitted = []byte("] _slurm_rpc_submit_batch_job: JobId=")        // proc_req.c
	initPrio  = []byte(" InitPrio=")
)

// maxLine is the number of bytes that are read of each log line. These bytes contain the job's number. The rest of a
// longer line is a list of hosts.
const maxLine = 4096

// OpenLog reads the log of a run's slurmctld. It returns nil for a run without a log.
func OpenLog(r *run.Run) (*Log, error) {
	release, err := slurmspec.ParseRelease(r.Manifest.Versions.Slurm)
	if err != nil {
		return nil, nil
	}
	file, err := r.OpenLog("slurmctld.log")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer file.Close()
	log, err := ReadLog(file, release)
	if err != nil {
		return nil, fmt.Errorf("reading run record %s: slurmctld.log: %w", r.Dir, err)
	}
	return log, nil
}

// ReadLog reads slurmctld's log. The parameter release is slurmctld's release. The error is that of
// the reader.
func ReadLog(r io.Reader, release slurmspec.Release) (*Log, error) {
	log := &Log{Starts: map[uint32][]Start{}, Priorities: map[uint32]uint32{}, mainOnly: release.Since(slurmspec.R2605)}
	lines := bufio.NewReaderSize(r, maxLine)
	for begins := true; ; {
		line, more, err := lines.ReadLine()
		switch {
		case errors.Is(err, io.EOF):
			return log, nil
		case err != nil:
			return nil, err
		case begins:
			log.line(line)
		}
		begins = !more
	}
}

func (l *Log) line(line []byte) {
	if date, rest, ok := bytes.Cut(line, allocated); ok {
		l.start(date, rest, Main)
	} else if date, rest, ok := bytes.Cut(line, backfills); ok {
		l.start(date, rest, Backfill)
	} else if _, rest, ok := bytes.Cut(line, submitted); ok {
		job, known := jobNumber(rest)
		_, rest, found := bytes.Cut(rest, initPrio)
		priority, ok := leadingNumber(rest)
		if known && found && ok {
			l.Priorities[job] = priority
		}
	}
}

// start adds a start. Dates in the log are in UTC, because the daemons run with TZ=UTC.
func (l *Log) start(date, text []byte, s Scheduler) {
	at, err := time.Parse("[2006-01-02T15:04:05.000", string(date))
	if job, ok := jobNumber(text); ok && err == nil {
		l.Starts[job] = append(l.Starts[job], Start{hpc.Time(at.UnixNano()), s})
	}
}

// jobNumber reads the number at the beginning of "1005 NodeList=...", or a task's number in "1005_3(1008)
// NodeList=...".
func jobNumber(text []byte) (uint32, bool) {
	word, _, _ := bytes.Cut(text, []byte(" "))
	if _, inner, ok := bytes.Cut(word, []byte("(")); ok {
		word = inner
	}
	return leadingNumber(word)
}

func leadingNumber(text []byte) (uint32, bool) {
	n := 0
	for n < len(text) && text[n] >= '0' && text[n] <= '9' {
		n++
	}
	value, err := strconv.ParseUint(string(text[:n]), 10, 32)
	return uint32(value), err == nil
}

// atSubmission is the longest time between the submission and the start of a job that started at its submission.
const atSubmission = 2 * time.Second

// Started returns the scheduler that started a run of a job; "" if this is not known. The runs of a job count from 0.
// Since 26.05, slurmctld logs only the jobs that the main scheduler starts. So backfill started all other jobs,
// except for jobs that may have started at their submission.
func (l *Log) Started(row *run.Row, number int) (by Scheduler) {
	runs := row.Runs()
	if l == nil || number >= len(runs) {
		return ""
	}
	queued, next := row.Submit, hpc.Time(0)
	if number > 0 {
		queued = runs[number-1].End
	}
	if number+1 < len(runs) {
		next = runs[number+1].Start
	} else {
		queued = max(queued, row.Resubmit)
	}
	second := func(t hpc.Time) hpc.Time { return hpc.Time(t.Std().Truncate(time.Second).UnixNano()) } // as in accounting
	for _, s := range l.Starts[row.RMJob] {
		if (number == 0 || s.At >= second(runs[number-1].End)) && (next == 0 || s.At < second(next)) {
			by = s.By
		}
	}
	if by == "" && l.mainOnly && len(l.Priorities) > 0 && runs[number].Start.Sub(queued) > atSubmission {
		return Backfill
	}
	return by
}

// Priority returns the priority of a job at the start of one of its runs; 0 if this is not known. The runs count from
// 0. The record has the priority of the last run. The log has the priority of a lost run if the job started at its
// submission.
func (l *Log) Priority(row *run.Row, number int) uint32 {
	switch runs := row.Runs(); {
	case number >= len(runs) || runs[number].EndedBy != rm.Requeue:
		return row.Priority
	case l != nil && number == 0 && runs[0].Start.Sub(row.Submit) <= atSubmission:
		return l.Priorities[row.RMJob]
	}
	return 0
}
