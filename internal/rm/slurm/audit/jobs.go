// Package audit compares slurmdbd's records of a run with the run's own record. It works on the
// output of Slurm's commands and needs no daemon.
//
// A difference may make the result invalid, so the package describes each difference in a sentence for the readers of
// the run.
package audit

import (
	"fmt"
	"iter"
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec"
)

// Jobs has slurmdbd's records of a run's jobs. It stores the records as lines of sacct's output, because a run may have
// a million jobs.
type Jobs struct {
	columns map[string]int // the index of each column by its name
	width   int            // the number of columns
	lines   map[uint32]string
	// resized are the jobs whose size changed. sacct prints a line for each size of a job.
	resized map[uint32]bool
}

// ParseJobs reads the output of sacct -P. For a job that ran several times it keeps the last
// line. An error quotes the line.
func ParseJobs(text string) (*Jobs, error) {
	first, rest, more := strings.Cut(strings.TrimSuffix(text, "\n"), "\n")
	s := &Jobs{columns: map[string]int{}, lines: make(map[uint32]string, strings.Count(rest, "\n")+1),
		resized: map[uint32]bool{}}
	for i, name := range strings.Split(first, "|") {
		s.columns[name] = i
		s.width++
	}
	if !more {
		return s, nil // no job
	}
	for line := range strings.SplitSeq(rest, "\n") {
		r, err := s.record(line)
		if err != nil {
			return nil, err
		}
		id, err := strconv.ParseUint(r.get("JobIDRaw"), 10, 32)
		if err != nil {
			return nil, fmt.Errorf("reading sacct's output: JobIDRaw %q: not a number", r.get("JobIDRaw"))
		}
		s.lines[uint32(id)] = line
		if r.get("State") == string(slurmspec.Resizing) {
			s.resized[uint32(id)] = true
		}
	}
	return s, nil
}

// sacctRecord is a line of sacct's output.
type sacctRecord struct {
	columns map[string]int
	fields  []string
}

// get returns the value in a column; empty if there is no such column.
func (r sacctRecord) get(column string) string {
	if i, there := r.columns[column]; there {
		return r.fields[i]
	}
	return ""
}

func (s *Jobs) record(line string) (sacctRecord, error) {
	fields := strings.Split(line, "|")
	if extra := len(fields) - s.width; extra > 0 {
		if at, named := s.columns["JobName"]; named { // the name has separators in it
			name := strings.Join(fields[at:at+extra+1], "|")
			fields = append(append(fields[:at:at], name), fields[at+extra+1:]...)
		}
	}
	if len(fields) != s.width {
		return sacctRecord{}, fmt.Errorf("reading sacct's output: %.100q has %d fields, but the header has %d", line,
			len(fields),
			s.width)
	}
	return sacctRecord{s.columns, fields}, nil
}

// job returns the record of a job. ok is false if there is no record.
func (s *Jobs) job(id uint32) (r sacctRecord, ok bool) {
	line, ok := s.lines[id]
	if ok {
		r, _ = s.record(line) // ParseJobs has checked it
	}
	return r, ok
}

// Compare compares the rows of a run with slurmdbd's records. For every job that slurmctld accepted and that has ended,
// Compare compares submit, start and end times to the second, state, nodes, account and QOS. The result has one
// sentence for each difference.
func (s *Jobs) Compare(rows iter.Seq[*run.Row]) (differences []string) {
	for row := range rows {
		if row.RMJob == 0 || row.State == hpc.Rejected || !row.State.Ended() {
			continue
		}
		name := row.Job
		if row.Task >= 0 {
			name += "_" + strconv.Itoa(row.Task)
		}
		rec, ok := s.job(row.RMJob)
		if _, task, array := strings.Cut(rec.get("JobID"), "_"); ok && array && row.Task >= 0 {
			// The row of a task that was cancelled before it had its own number has the array's number. The
			// array's last task has the same number. slurmdbd has no record of the cancelled task.
			if n, err := strconv.Atoi(task); err == nil && n != row.Task {
				ok = false
			}
		}
		if !ok && (row.Start.IsZero() || row.Eligible.IsZero()) {
			continue // sacct does not show jobs that are not eligible (as_mysql_jobacct_process.c)
		}
		if !ok {
			differences = append(differences, fmt.Sprintf("job %s: slurmdbd has no job %d", name, row.RMJob))
			continue
		}
		submit := row.Submit
		if !row.Resubmit.IsZero() {
			submit = row.Resubmit
		}
		if lost, ok := lostRun(row); ok && rec.get("Submit") != slurmspec.FormatTime(submit) {
			// The job was requeued, did not become eligible again and ended. sacct shows the previous run.
			for _, c := range []struct{ what, ours, theirs string }{
				{"start", slurmspec.FormatTime(lost.Start), slurmspec.Given(rec.get("Start"))},
				{"end", slurmspec.FormatTime(lost.End), slurmspec.Given(rec.get("End"))},
				{"nodes", lost.Nodes, slurmspec.Given(rec.get("NodeList"))},
			} {
				if c.ours != c.theirs {
					differences = append(differences, fmt.Sprintf("job %s: %s %s of the run that it lost, slurmdbd has %s", name,
						c.what, orNone(c.ours), orNone(c.theirs)))
				}
			}
			continue
		}
		start := slurmspec.Given(rec.get("Start"))
		if row.Start.IsZero() && start == rec.get("End") && slurmspec.Given(rec.get("NodeList")) == "" {
			start = "" // slurmctld reports this start if a job ends before slurmdbd has a record of it
		}
		for _, c := range []struct{ what, ours, theirs string }{
			{"submit", slurmspec.FormatTime(submit), rec.get("Submit")}, {"start", slurmspec.FormatTime(row.Start), start},
			{"end", slurmspec.FormatTime(row.End), slurmspec.Given(rec.get("End"))},
			{"state", string(row.State), string(slurmspec.ParseJobState(rec.get("State")))},
			{"nodes", row.Nodes, slurmspec.Given(rec.get("NodeList"))}, {"account", row.Account, rec.get("Account")},
			{"QOS", row.QOS, qosOf(rec.get("QOS"), row.QOS)},
		} {
			if s.resized[row.RMJob] && (c.what == "submit" || c.what == "start") {
				continue // slurmdbd has the times of the job's last size
			}
			if c.ours != c.theirs {
				differences = append(differences, fmt.Sprintf("job %s: %s %s, slurmdbd has %s", name, c.what, orNone(c.ours),
					orNone(c.theirs)))
			}
		}
	}
	return differences
}

// lostRun returns the last run of a job that was requeued and did not start again.
func lostRun(row *run.Row) (lost run.Segment, ok bool) {
	if n := len(row.Segments); n > 0 && row.Start.IsZero() {
		lost = row.Segments[n-1]
	}
	return lost, lost.EndedBy == rm.Requeue
}

// Amend adds to a row the values that only slurmdbd's database has. The values are the job's TRES and, if the row lacks
// the priority at the job's start, the priority at which the job became eligible.
func (s *Jobs) Amend(row *run.Row) {
	rec, ok := s.job(row.RMJob)
	if !ok {
		return
	}
	if n, err := strconv.ParseUint(rec.get("Priority"), 10, 32); err == nil && row.Priority == 0 {
		row.Priority = uint32(n)
	}
	if row.TRES == "" {
		row.TRES = rec.get("AllocTRES")
	}
}

// qosOf returns sacct's name of a QOS. sacct prints Unknown for a QOS that the database does
// not have, while slurmctld uses the name in the job's request.
func qosOf(theirs, ours string) string {
	if theirs == "Unknown" {
		return ours
	}
	return theirs
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
