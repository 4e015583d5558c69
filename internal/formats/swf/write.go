package swf

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/lines"
	"rmreplay/internal/workload"
)

// widths are the widths of the columns in the Archive's own files.
var widths = [fieldCount]int{5, 8, 6, 6, 4, 6, 5, 4, 6, 5, 2, 3, 3, 3, 2, 2, 2, 2}

// Write writes the workload as a log in the Standard Workload Format, version 2.2, and counts the
// facts that the log cannot express. A workload that was read from such a log and not changed gives
// the same records in the same order. Each task of a job array becomes a record.
func Write(w io.Writer, wl *workload.Workload) (workload.Losses, error) {
	s := newWriter(wl)
	out := bufio.NewWriterSize(w, 64<<10)
	s.header(out)
	var buf []byte
	next := 0 // index of the next unusable record
	for at, job := range s.jobs.All() {
		origin := s.jobs.Origin(at)
		for ; s.ordered && next < len(wl.Unusable) && wl.Unusable[next].Record < origin.Record; next++ {
			writeLine(out, wl.Unusable[next].Text)
		}
		for i, task := range workload.TasksOf(job) {
			buf = appendRecord(buf[:0], s.record(job, origin, task, i))
			if _, err := out.Write(buf); err != nil {
				return nil, fmt.Errorf("writing SWF: %w", err)
			}
		}
		s.lost(job)
	}
	for ; s.ordered && next < len(wl.Unusable); next++ {
		writeLine(out, wl.Unusable[next].Text)
	}
	if !s.ordered {
		s.losses.Add("unusable records", len(wl.Unusable))
	}
	if err := out.Flush(); err != nil { // it keeps the first error of all writes
		return nil, fmt.Errorf("writing SWF: %w", err)
	}
	s.losses.Events(wl)
	return s.losses, nil
}

// writeLine leaves errors to Flush, which returns the first error.
func writeLine(out *bufio.Writer, text string) { _, _ = out.WriteString(text + "\n") }

// holds are the fields of a request that an SWF record can express.
var holds = workload.FieldSet("Name", "User", "Group", "Partition", "QOS", "TimeLimit", "Tasks", "MemPerCPU")

// lost counts the facts about a job that its record does not express.
func (s *writer) lost(job *hpc.Job) {
	s.losses.Request(job, holds)
	if before, ok := strings.CutPrefix(job.Dependency, "afterany:"); ok && !strings.ContainsAny(before, ":,?") {
		s.losses.Add("dependency", -1)
	}
	for _, loss := range []struct {
		what string
		is   bool
	}{
		{"exit_code", job.ExitCode != 0 || len(job.TaskExitCodes) > 0},
		{"io", len(job.IO) > 0},
		{"made", job.Made != ""},
		{"cancel_after_s", job.CancelAfter != 0},
		{"end_at", job.EndAt != 0},
		{"run_time_s (unlimited)", job.RunTime == hpc.Unlimited},
		{"run_time_s (never started)", job.Recorded.NeverStarted() && job.RunTime != 0},
		{"time_limit_s (unlimited)", job.TimeLimit == hpc.Unlimited},
	} {
		if loss.is {
			s.losses[loss.what]++
		}
	}
	s.losses.Fate(job, "lost_runs", "suspensions", "preempted_by")
}

// writer has the numbers of names and jobs in the log.
type writer struct {
	wl    *workload.Workload
	jobs  workload.Jobs // in the order of the log
	names *names
	base  hpc.Time // the header's UnixStartTime
	// ordered is true if the jobs are in the order of the log from which they were read.
	ordered bool
	// numbers are the jobs' numbers by ID. It is nil if the IDs are numbers themselves.
	numbers map[string]int64
	losses  workload.Losses
}

func newWriter(wl *workload.Workload) *writer {
	s := &writer{wl: wl, jobs: wl.Jobs, names: newNames(), base: wl.Epoch, losses: workload.Losses{}}
	if s.jobs.Len() > 0 && (s.base.IsZero() || s.jobs.Submit(0) < s.base) {
		s.base = s.jobs.Submit(0)
	}
	s.base = hpc.Unix(s.base.UnixSeconds())
	for _, text := range wl.Header {
		if key, value, found := strings.Cut(text, ":"); found {
			s.names.comment(strings.TrimSpace(key), value)
		}
	}
	s.orderJobs()
	s.nameNumbers()
	s.numberJobs()
	return s
}

// orderJobs sorts jobs that were all read from one log into the order of that log.
func (s *writer) orderJobs() {
	places, records := make([]int, s.jobs.Len()), make([]int, s.jobs.Len())
	for i := range places {
		places[i], records[i] = i, s.jobs.Origin(i).Record
		if records[i] == 0 {
			return
		}
	}
	slices.SortFunc(places, func(a, b int) int { return cmp.Compare(records[a], records[b]) })
	for i := 1; i < len(places); i++ {
		if records[places[i-1]] == records[places[i]] {
			return
		}
	}
	s.jobs, s.ordered = s.jobs.Pick(places), true
}

// nameNumbers gives each name without a number the smallest free number, in the order of the
// names' appearance. It counts the jobs that have such names.
func (s *writer) nameNumbers() {
	tables := []struct {
		field string
		names *numberedNames
		of    func(*hpc.Job) string
	}{
		{"user", &s.names.users, func(job *hpc.Job) string { return job.User }},
		{"group", &s.names.groups, func(job *hpc.Job) string { return job.Group }},
		{"name", &s.names.executables, func(job *hpc.Job) string { return job.Name }},
		{"qos", &s.names.queues, func(job *hpc.Job) string { return job.QOS }},
		{"partition", &s.names.partitions, func(job *hpc.Job) string { return job.Partition }},
	}
	for _, table := range tables {
		var nameless []string
		jobs := make(map[string]int)
		for _, job := range s.jobs.All() {
			name := table.of(job)
			if jobs[name]++; name == "" || jobs[name] > 1 {
				continue
			}
			if number, ok := table.names.number(name); ok {
				table.names.set(number, name)
			} else {
				nameless = append(nameless, name)
			}
		}
		next := int64(1)
		for _, name := range nameless {
			for table.names.byNumber[next] != "" {
				next++
			}
			table.names.set(next, name)
			s.losses.Add(table.field+" (numbered anew)", jobs[name])
		}
	}
}

// numberJobs numbers the records from 1, unless the IDs of all jobs are different numbers.
func (s *writer) numberJobs() {
	seen := make(map[int64]bool, s.jobs.Len())
	numeric := true
	for i, job := range s.jobs.All() {
		n, ok := numericID(job.ID)
		numeric = numeric && ok && job.Array == "" && (!seen[n] || s.jobs.Origin(i) != workload.Origin{})
		seen[n] = true
	}
	if numeric {
		return
	}
	s.numbers = make(map[string]int64, s.jobs.Len())
	next := int64(1)
	for _, job := range s.jobs.All() {
		s.numbers[job.ID] = next
		next += int64(len(workload.TasksOf(job)))
	}
	s.losses.Add("job IDs (numbered anew)", s.jobs.Len())
}

// numericID returns the number in an ID, without the suffix that made the ID unique.
func numericID(id string) (int64, bool) {
	id, _, _ = strings.Cut(id, "#")
	n, err := strconv.ParseInt(id, 10, 64)
	return n, err == nil && len(id) <= 18
}

// header writes the comments of the workload's source, or else the comments that the format
// requires.
func (s *writer) header(out *bufio.Writer) {
	start := fmt.Sprintf(" UnixStartTime: %d", s.base.UnixSeconds())
	comments := slices.Clone(s.wl.Header)
	isStart := func(text string) bool {
		key, _, found := strings.Cut(text, ":")
		return found && strings.TrimSpace(key) == "UnixStartTime"
	}
	at := slices.IndexFunc(comments, isStart)
	if at >= 0 { // drop later comments: the reader ignored them because they followed a record
		comments = append(comments[:at+1], slices.DeleteFunc(comments[at+1:], isStart)...)
	}
	switch {
	case at >= 0 && !strings.HasSuffix(strings.TrimSpace(comments[at]), start):
		comments[at] = start
	case at < 0:
		comments = append(comments, start)
	}
	if len(s.wl.Header) == 0 {
		comments = append([]string{" Version: 2.2", " Note: made of " + lines.OneLine(s.wl.Source)}, comments...)
		records := 0
		for _, job := range s.jobs.All() {
			records += len(workload.TasksOf(job))
		}
		comments = append(comments, fmt.Sprintf(" MaxJobs: %d", records), fmt.Sprintf(" MaxRecords: %d", records))
	}
	comments = sized(comments, "MaxNodes", s.wl.MachineNodes)
	comments = sized(comments, "MaxProcs", s.wl.MachineProcessors)
	if len(s.wl.Header) == 0 {
		comments = append(comments, s.nameLines()...)
	}
	for _, text := range comments {
		writeLine(out, ";"+text)
	}
}

// sized returns the comments with the size of the machine under a key. It keeps a comment with the
// same size, and replaces a comment with another size: the workload may have been scaled.
func sized(comments []string, key string, size int) []string {
	text := fmt.Sprintf(" %s: %d", key, size)
	has := false
	for i, comment := range comments {
		name, value, found := strings.Cut(comment, ":")
		if !found || strings.TrimSpace(name) != key {
			continue
		}
		has = true
		if leadingCount(strings.TrimSpace(value)) != size {
			comments[i] = text
		}
	}
	if !has && size > 0 {
		comments = append(comments, text)
	}
	return comments
}

// nameLines returns comments with the names of the numbers. The format defines comments for queues
// and partitions only; the others are notes for readers.
func (s *writer) nameLines() []string {
	var comments []string
	for _, t := range []struct {
		heading string
		names   numberedNames
	}{
		{" Queue: %d %s", s.names.queues}, {" Partition: %d %s", s.names.partitions},
		{" Note: user %d is %s", s.names.users}, {" Note: group %d is %s", s.names.groups},
	} {
		numbers := make([]int64, 0, len(t.names.byNumber))
		for n, name := range t.names.byNumber {
			if name != t.names.prefix+strconv.FormatInt(n, 10) {
				numbers = append(numbers, n)
			}
		}
		slices.Sort(numbers)
		for _, n := range numbers {
			comments = append(comments, fmt.Sprintf(t.heading, n, lines.OneLine(t.names.byNumber[n])))
		}
	}
	return comments
}

// record returns the SWF record of a job, or of one task of an array.
func (s *writer) record(job *hpc.Job, origin workload.Origin, task, place int) *record {
	if task >= 0 {
		of := *job
		if job.Recorded != nil {
			fate := job.Recorded.OfTask(task)
			of.Recorded = &fate
		}
		if d, ok := job.TaskRunTimes[task]; ok {
			of.RunTime = d
		}
		job = &of
	}
	r := s.names.record(job, s.base)
	if s.numbers != nil {
		r[fieldNumber].mantissa = s.numbers[job.ID] + int64(place)
		r[fieldBefore] = unknownNumber
		if before, ok := strings.CutPrefix(job.Dependency, "afterany:"); ok && s.numbers[before] > 0 {
			r[fieldBefore].mantissa = s.numbers[before]
		}
	}
	for kept := range keptNumbers(origin.Extra) {
		if i := kept.field - 1; i >= 0 && i < fieldCount && r[i] == kept.derived {
			r[i] = kept.read
		}
	}
	return &r
}

// record derives the numbers of a job's record, in a log whose times count from base.
func (n *names) record(job *hpc.Job, base hpc.Time) record {
	r := record{}
	for i := range r {
		r[i] = unknownNumber
	}
	if id, ok := numericID(job.ID); ok {
		r[fieldNumber].mantissa = id
	}
	r[fieldSubmit] = decimalSeconds(job.Submit.Sub(base))
	r[fieldRequested].mantissa = int64(workload.CPUs(&job.Request))
	if d, ends := runTime(job); ends {
		r[fieldRunTime] = decimalSeconds(d)
	}
	if job.TimeLimit > 0 && job.TimeLimit != hpc.Unlimited {
		r[fieldTimeLimit] = decimalSeconds(job.TimeLimit)
	}
	if job.MemPerCPU > 0 {
		r[fieldRequestedMemory].mantissa = 1024 * job.MemPerCPU
	}
	for _, f := range []struct {
		field int
		names *numberedNames
		name  string
	}{
		{fieldUser, &n.users, job.User}, {fieldGroup, &n.groups, job.Group}, {fieldExecutable, &n.executables, job.Name},
		{fieldQueue, &n.queues, job.QOS}, {fieldPartition, &n.partitions, job.Partition},
	} {
		if number, ok := f.names.number(f.name); ok {
			r[f.field].mantissa = number
		}
	}
	if before, ok := strings.CutPrefix(job.Dependency, "afterany:"); ok {
		if id, ok := numericID(before); ok {
			r[fieldBefore].mantissa = id
		}
	}
	if rec := job.Recorded; rec != nil {
		recordedFate(&r, job, rec)
	}
	return r
}

// runTime returns how long a job ran, or would run if it has not ended. The last result is false
// for a job that would run for ever.
func runTime(job *hpc.Job) (d time.Duration, ends bool) {
	rec := job.Recorded
	switch {
	case rec.NeverStarted():
		return 0, true
	case job.RunTime != hpc.Unlimited: // a run time above the limit stays as in the log
		return workload.Ran(rec, job.RunTime), true
	case rec != nil && rec.Start != 0 && rec.End != 0: // slurmctld ends a job later than its limit
		return rec.End.Sub(rec.Start), true
	}
	return workload.Occupied(job.RunTime, job.TimeLimit)
}

// recordedFate adds to a record what happened to the job when its workload was recorded.
func recordedFate(r *record, job *hpc.Job, rec *hpc.Recorded) {
	if !rec.Start.IsZero() {
		r[fieldWait] = decimalSeconds(rec.Start.Sub(job.Submit))
	}
	if rec.Processors > 0 {
		r[fieldAllocated].mantissa = int64(rec.Processors)
	}
	if rec.UsedMemory > 0 {
		r[fieldMemory].mantissa = rec.UsedMemory
	}
	switch rec.State {
	case hpc.Completed:
		r[fieldStatus].mantissa = statusCompleted
	case hpc.Cancelled:
		r[fieldStatus].mantissa = statusCancelled
	case hpc.Failed, hpc.TimedOut, hpc.NodeFail, hpc.OutOfMemory, hpc.BootFail, hpc.Preempted, hpc.Deadlined:
		r[fieldStatus].mantissa = statusFailed
	}
	if rec.NeverStarted() {
		r[fieldWait], r[fieldStatus].mantissa = decimalSeconds(rec.End.Sub(job.Submit)), statusCancelled
	}
}

// appendRecord writes a record in the columns of the Archive's files.
func appendRecord(buf []byte, r *record) []byte {
	for field, width := range widths {
		if field > 0 {
			buf = append(buf, ' ')
		}
		start := len(buf)
		buf = appendDecimal(buf, r[field])
		if missing := width - (len(buf) - start); missing > 0 {
			number := strings.Clone(string(buf[start:]))
			buf = append(buf[:start], "        "[:missing]...)
			buf = append(buf, number...)
		}
	}
	return append(buf, '\n')
}
