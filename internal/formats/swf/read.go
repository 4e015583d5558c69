// Package swf reads and writes logs in the Standard Workload Format, as the Parallel
// Workloads Archive publishes them.
package swf

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/lines"
	"rmreplay/internal/workload"
)

// Format is the Standard Workload Format.
var Format = workload.Format{
	Name: "swf", Doc: "a log in the Standard Workload Format (SWF) of the Parallel Workloads Archive",
	Looks: "SWF", Recognize: recognize, Read: Read, Write: Write,
}

// recognize accepts a semicolon with a comment, or a record of 18 numbers.
func recognize(head []byte) workload.Confidence {
	line, _ := lines.First(head)
	if line == "" || line[0] != ';' && !isRecord(line) {
		return workload.No
	}
	return workload.Sure
}

// isRecord reports whether a line has the 18 numbers of a record.
func isRecord(line string) bool {
	words := strings.Fields(line)
	if len(words) != fieldCount {
		return false
	}
	for _, word := range words {
		if strings.Trim(word, "-0123456789.") != "" {
			return false
		}
	}
	return true
}

// The rules that records of an SWF log may break. A record that breaks one of the first six cannot
// be replayed, and [workload.Workload.Unusable] keeps it.
const (
	RuleNoRecord     = "swf_not_a_record"       // not 18 numbers
	RuleAbsurd       = "swf_absurd_number"      // a time of more than 126 years, or 2^31 processors
	RuleNoSubmit     = "swf_no_submit_time"     // field 2 is negative
	RuleNoProcessors = "swf_no_processors"      // neither field 8 nor field 5 is positive
	RuleNoRunTime    = "swf_no_run_time"        // field 4 is negative
	RulePartial      = "swf_partial_execution"  // a part of a checkpointed job; another record has the whole job
	RuleBadWait      = "swf_negative_wait"      // field 3 is negative and not -1
	RuleNoJobBefore  = "swf_job_before_unknown" // field 17 does not name an earlier job of the log
	RuleBadHeader    = "swf_bad_header"         // UnixStartTime is not a time
	RuleAbsurdMemory = "swf_absurd_memory"      // field 10 is more than 4 TiB for a processor
)

// The fields of an SWF record, as indices. The format numbers them from 1; see
// Chapin et al., "Benchmarks and standards for the evaluation of parallel job
// schedulers" (JSSPP'99), and the Parallel Workloads Archive's definition, version 2.2.
const (
	fieldNumber = iota
	fieldSubmit
	fieldWait
	fieldRunTime
	fieldAllocated
	fieldCPUTime
	fieldMemory
	fieldRequested
	fieldTimeLimit
	fieldRequestedMemory
	fieldStatus
	fieldUser
	fieldGroup
	fieldExecutable
	fieldQueue
	fieldPartition
	fieldBefore
	fieldThinkTime
	fieldCount
)

// The values of the field status.
const (
	statusFailed    = 0
	statusCompleted = 1
	statusPartial   = 2 // 2 to 4: a part of a checkpointed job; 3 and 4 mark the last part
	statusLastPart  = 4
	statusCancelled = 5
)

const (
	// maxSeconds bounds every time in a log, so that sums of times cannot overflow.
	maxSeconds = 4e9
	// firstUID is added to the numbers of users and groups, which begin at 1, to avoid the
	// numbers that a system uses itself.
	firstUID = 100000
	maxUser  = 1 << 30
)

// Read reads a log in the Standard Workload Format, as the Parallel Workloads Archive publishes
// them. The parameter name is the source's name in errors, which have the form "reading SWF:
// NAME:LINE: what is wrong".
//
// Times count from the header's UnixStartTime, or else from the options' epoch. A job's size is
// the number of requested processors (field 8), or else of allocated processors (field 5). Users,
// groups and executables get names with their numbers (user12, group3, app7). Queues and
// partitions get the names in the header's comments, or else queue1 and partition1. A queue
// becomes the job's QOS. [Write] can write the same log again: each job's [workload.Origin] keeps
// the record's other data, and [workload.Workload.Unusable] keeps records that are not jobs.
func Read(r io.Reader, name string, opts workload.ReadOptions) (*workload.Workload, error) {
	s := &reader{
		w:     &workload.Workload{Epoch: opts.EpochOrDefault(), Source: name},
		book:  workload.RuleBook{Strict: opts.Strict},
		names: newNames(),
		users: make(map[string]bool),
		lean:  opts.Lean,
		parts: make(map[int64][]part),
		whole: make(map[int64]bool),
	}
	if err := lines.Each(r, name, s.line); err != nil {
		return nil, fmt.Errorf("reading SWF: %w", err)
	}
	if s.w.Jobs.Len() == 0 {
		return nil, fmt.Errorf("reading SWF: %s: it has no usable job%s", name, s.book.Summary())
	}
	if err := s.dropParts(); err != nil {
		return nil, fmt.Errorf("reading SWF: %s: %w", name, err)
	}
	s.w.Rules, s.w.Mistake = s.book.Counts, s.book.Mistake()
	s.w.Rows = workload.Rows{Read: s.records, Jobs: s.w.Jobs.Len(), Dropped: len(s.w.Unusable)}
	s.w.Sort()
	return s.w, nil
}

// part is a job that was made from the record of a part of a job, because no earlier record has the
// whole job.
type part struct {
	place  int // index among the jobs
	record int
	text   string
}

// isPart reports whether a record describes a part of a job.
func isPart(r *record) bool {
	status := whole(r[fieldStatus])
	return status >= statusPartial && status <= statusLastPart
}

// dropParts removes the jobs that were made from parts, if a later record has the whole job.
func (s *reader) dropParts() error {
	gone := make(map[int]bool)
	for n, parts := range s.parts {
		for _, p := range parts[1:] {
			if s.whole[n] {
				break
			}
			if err := s.book.Fall(workload.RuleRenamed, "record %d: job number %d occurs twice", p.record, n); err != nil {
				return err
			}
		}
	}
	for n := range s.whole {
		for _, p := range s.parts[n] {
			if err := s.book.Fall(RulePartial, "record %d: a part of job %d, which has a record for the whole", p.record,
				n); err != nil {
				return err
			}
			gone[p.place] = true
			s.w.Unusable = append(s.w.Unusable, workload.Unusable{Record: p.record, Rule: RulePartial, Text: p.text})
		}
	}
	if len(gone) == 0 {
		return nil
	}
	slices.SortFunc(s.w.Unusable, func(a, b workload.Unusable) int { return cmp.Compare(a.Record, b.Record) })
	place := -1
	s.w.Jobs.Delete(func(*hpc.Job) bool {
		place++
		return gone[place]
	})
	return nil
}

// reader makes jobs from records.
type reader struct {
	w       *workload.Workload
	book    workload.RuleBook
	order   workload.OrderCheck
	names   *names
	numbers jobNumbers
	users   map[string]bool
	records int
	lean    bool // without origins
	// parts has the jobs that were made from parts, by the number of the job. The field whole has the numbers of jobs
	// for which a later record has the whole job.
	parts map[int64][]part
	whole map[int64]bool

	// The present record.
	current  hpc.Job
	recorded hpc.Recorded
	extra    []byte
}

// jobNumbers are the numbers of jobs. Most logs count them from 1.
type jobNumbers struct {
	dense  []bool
	sparse map[int64]bool
	count  int64
}

func (b *jobNumbers) has(n int64) bool {
	return n >= 0 && n < int64(len(b.dense)) && b.dense[n] || b.sparse[n]
}

func (b *jobNumbers) add(n int64) {
	b.count++
	size := int64(len(b.dense))
	switch {
	case n >= 0 && n < size:
		b.dense[n] = true
	case n >= size && n < 4*b.count+1<<16: // cleaned logs lack some numbers
		b.dense = append(b.dense, make([]bool, n-size+1)...)
		b.dense[n] = true
	default:
		if b.sparse == nil {
			b.sparse = make(map[int64]bool)
		}
		b.sparse[n] = true
	}
}

func (s *reader) line(number int, line []byte) error {
	trimmed := bytes.TrimLeft(line, " \t")
	switch {
	case len(trimmed) == 0:
		return nil
	case trimmed[0] == ';':
		return s.comment(string(trimmed[1:]))
	}
	s.records++
	var r record
	if err := parseRecord(trimmed, &r); err != nil {
		return s.unusable(RuleNoRecord, line, "%v", err)
	}
	for _, field := range [...]int{fieldSubmit, fieldWait, fieldRunTime, fieldTimeLimit, fieldThinkTime} {
		if n := whole(r[field]); n > maxSeconds {
			return s.unusable(RuleAbsurd, line, "field %d: %d seconds are more than 126 years", field+1, n)
		}
	}
	allocated := whole(r[fieldAllocated])
	size := whole(r[fieldRequested])
	if size <= 0 {
		size = allocated
	}
	switch {
	case r[fieldSubmit].mantissa < 0:
		return s.unusable(RuleNoSubmit, line, "field 2: no submit time")
	case max(size, allocated) > math.MaxInt32:
		return s.unusable(RuleAbsurd, line, "%d processors are more than a machine has", max(size, allocated))
	case size <= 0:
		return s.unusable(RuleNoProcessors, line, "neither requested (field 8) nor allocated processors (field 5)")
	case r[fieldRunTime].mantissa < 0:
		return s.unusable(RuleNoRunTime, line, "field 4: no run time")
	}
	if n := whole(r[fieldNumber]); isPart(&r) {
		if s.numbers.has(n) && (s.parts[n] == nil || s.whole[n]) {
			return s.unusable(RulePartial, line, "field 11: a part of job %d, which has a record for the whole", n)
		}
		s.parts[n] = append(s.parts[n], part{s.w.Jobs.Len(), s.records, lines.UTF8(line)})
	}
	return s.job(&r, int(size), number)
}

// unusable keeps a record that is not a job.
func (s *reader) unusable(rule string, line []byte, format string, args ...any) error {
	if err := s.book.Fall(rule, format, args...); err != nil {
		return err
	}
	s.w.Unusable = append(s.w.Unusable, workload.Unusable{Record: s.records, Rule: rule, Text: lines.UTF8(line)})
	return nil
}

// comment reads a comment of the header. A comment after the first record is also kept, but its
// values are ignored, because earlier jobs were read without them.
func (s *reader) comment(text string) error {
	s.w.Header = append(s.w.Header, lines.UTF8([]byte(text)))
	key, value, found := strings.Cut(text, ":")
	if !found || s.records > 0 {
		return nil
	}
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	switch key {
	case "UnixStartTime":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n <= 0 || n > maxSeconds {
			return s.book.Fall(RuleBadHeader, "UnixStartTime: %s: not a time (want seconds since 1970)", value)
		}
		s.w.Epoch = hpc.Unix(n)
	case "MaxNodes":
		s.w.MachineNodes = leadingCount(value)
	case "MaxProcs":
		s.w.MachineProcessors = leadingCount(value)
	default:
		s.names.comment(key, value)
	}
	return nil
}

// leadingCount reads "184  ( 6,  171,   7)" as 184. It reads a text without a count as 0.
func leadingCount(value string) int {
	word, _, _ := strings.Cut(value, " ")
	n, err := strconv.ParseInt(word, 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return int(n)
}

// job makes a job from a record with a submit time, a size and a run time.
func (s *reader) job(r *record, size, line int) error {
	job, recorded := s.blank()
	job.Submit = s.w.Epoch.Add(duration(r[fieldSubmit]))
	job.RunTime = duration(r[fieldRunTime])
	job.Tasks = size
	if r[fieldTimeLimit].mantissa > 0 {
		job.TimeLimit = duration(r[fieldTimeLimit])
	}
	switch kib := whole(r[fieldRequestedMemory]); {
	case kib > maxMemoryKiB:
		if err := s.book.Fall(RuleAbsurdMemory, "job %d: %d KiB of memory for a processor are more than %d TiB: the log may have bytes there",
			whole(r[fieldNumber]), kib, maxMemoryKiB>>30); err != nil {
			return err
		}
	case kib > 0:
		job.MemPerCPU = (kib + 1023) / 1024
	}
	job.User = s.names.users.name(whole(r[fieldUser]))
	job.Group = s.names.groups.name(whole(r[fieldGroup]))
	job.Name = s.names.executables.name(whole(r[fieldExecutable]))
	job.QOS = s.names.queues.name(whole(r[fieldQueue]))
	job.Partition = s.names.partitions.name(whole(r[fieldPartition]))
	s.addUser(job, r)

	recorded.Processors = int(max(whole(r[fieldAllocated]), 0))
	if kib := whole(r[fieldMemory]); kib > 0 && kib < maxKiB {
		recorded.UsedMemory = kib
	}
	if r[fieldWait].mantissa >= 0 && r[fieldStatus] == (decimal{mantissa: statusCancelled}) && job.RunTime == 0 &&
		recorded.Processors == 0 { // cancelled while it waited
		recorded.End = job.Submit.Add(duration(r[fieldWait]))
	} else if r[fieldWait].mantissa >= 0 {
		recorded.Start = job.Submit.Add(duration(r[fieldWait]))
		recorded.End = recorded.Start.Add(job.RunTime)
	} else if r[fieldWait] != unknownNumber {
		if err := s.book.Fall(RuleBadWait, "field 3: a wait time of %d s", whole(r[fieldWait])); err != nil {
			return err
		}
	}
	switch r[fieldStatus] {
	case decimal{mantissa: statusFailed}:
		recorded.State = hpc.Failed
	case decimal{mantissa: statusCompleted}:
		recorded.State = hpc.Completed
	case decimal{mantissa: statusCancelled}:
		recorded.State = hpc.Cancelled
	}
	if err := s.identify(job, r, line); err != nil {
		return err
	}
	s.w.Jobs.Append(job)
	if !s.lean {
		s.w.Jobs.SetOrigin(s.w.Jobs.Len()-1, s.origin(job, r))
	}
	return s.order.Job(&s.book, job.Submit)
}

const (
	// maxKiB is the largest amount of memory in use, in KiB for a processor, that is accepted.
	maxKiB = 1 << 40
	// maxMemoryKiB is the largest request for memory, in KiB for a processor: 4 TiB, as much as large nodes have.
	maxMemoryKiB = 4 << 30
)

// identify gives the job its ID and its dependency.
func (s *reader) identify(job *hpc.Job, r *record, line int) error {
	n := whole(r[fieldNumber])
	job.ID = strconv.FormatInt(n, 10)
	if before := whole(r[fieldBefore]); before > 0 {
		if s.numbers.has(before) { // the first job with a number has the number as its ID
			job.Dependency = "afterany:" + strconv.FormatInt(before, 10)
		} else if err := s.book.Fall(RuleNoJobBefore, "field 17: no job %d before this one", before); err != nil {
			return err
		}
	}
	switch {
	case !s.numbers.has(n):
		s.numbers.add(n)
		return nil
	case s.parts[n] != nil && !s.whole[n] && !isPart(r): // dropParts removes the parts
		s.whole[n] = true
		return nil
	}
	job.ID += "#" + strconv.Itoa(line)
	if isPart(r) { // dropParts counts the parts that it keeps
		return nil
	}
	return s.book.Fall(workload.RuleRenamed, "job number %d occurs twice", n)
}

// addUser adds the job's user to the workload, with the group of the user's first job.
func (s *reader) addUser(job *hpc.Job, r *record) {
	uid, gid := whole(r[fieldUser]), whole(r[fieldGroup])
	if uid < 0 || uid > maxUser || s.users[job.User] {
		return
	}
	s.users[job.User] = true
	user := hpc.User{Name: job.User, UID: uint32(firstUID + uid), Group: job.Group, GID: uint32(firstUID + gid)}
	if gid < 0 || gid > maxUser {
		user.Group, user.GID = "swf", firstUID-1
	}
	s.w.Users = append(s.w.Users, user)
}

// origin keeps the numbers of a record that cannot be derived from the job.
func (s *reader) origin(job *hpc.Job, r *record) workload.Origin {
	s.extra = s.extra[:0]
	derived := s.names.record(job, s.w.Epoch)
	for field := range r {
		if r[field] != derived[field] {
			s.extra = appendKept(s.extra, keptNumber{field + 1, r[field], derived[field]})
		}
	}
	return workload.Origin{Record: s.records, Extra: string(s.extra)}
}

// blank returns an empty job with an empty recorded fate. They are valid until the next record.
func (s *reader) blank() (*hpc.Job, *hpc.Recorded) {
	s.recorded = hpc.Recorded{}
	s.current = hpc.Job{Recorded: &s.recorded}
	return &s.current, &s.recorded
}
