package workload

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
)

// The rules that records of an SWF log fall under. A record under one of the first
// five cannot be replayed and is kept in [Workload.Unusable].
const (
	RuleSWFNoRecord     = "swf_not_a_record"       // not 18 numbers
	RuleSWFAbsurd       = "swf_absurd_number"      // a time of more than 126 years, or 2^31 processors
	RuleSWFNoSubmit     = "swf_no_submit_time"     // field 2 is negative
	RuleSWFNoProcessors = "swf_no_processors"      // neither field 8 nor field 5 is positive
	RuleSWFNoRunTime    = "swf_no_run_time"        // field 4 is negative
	RuleSWFBadWait      = "swf_negative_wait"      // field 3 is negative and not -1
	RuleSWFNoJobBefore  = "swf_job_before_unknown" // field 17 names no earlier job of the log
	RuleSWFBadHeader    = "swf_bad_header"         // UnixStartTime is no time
)

// The fields of an SWF record, as indices. The format numbers them from 1; see
// Chapin et al., "Benchmarks and standards for the evaluation of parallel job
// schedulers" (JSSPP'99), and the Parallel Workloads Archive's definition, version 2.2.
const (
	swfNumber = iota
	swfSubmit
	swfWait
	swfRunTime
	swfAllocated
	swfCPUTime
	swfMemory
	swfRequested
	swfTimeLimit
	swfRequestedMemory
	swfStatus
	swfUser
	swfGroup
	swfExecutable
	swfQueue
	swfPartition
	swfBefore
	swfThinkTime
	swfFields
)

// The values of the field status.
const (
	swfFailed    = 0
	swfCompleted = 1
	swfCancelled = 5
)

const (
	// maxSWFSeconds bounds every time in a log, so that no sum of them overflows.
	maxSWFSeconds = 4e9
	// swfFirstUID is added to the numbers of users and groups, which begin at 1, to
	// stay clear of a system's own.
	swfFirstUID = 100000
	maxSWFUser  = 1 << 30
)

// swfRecord is a record's 18 numbers.
type swfRecord [swfFields]hpc.Decimal

var unknownNumber = hpc.Decimal{Mantissa: -1}

// ReadSWF reads a log in the Standard Workload Format, as the Parallel Workloads
// Archive publishes them. name stands for the source in errors, which have the form
// "reading SWF: NAME:LINE: what is wrong".
//
// Times count from the header's UnixStartTime, or else from the options' epoch. A
// job's size is its requested processors (field 8), or else those it was allocated
// (field 5). Users, groups and executables are named after their numbers (user12,
// group3, app7), queues and partitions as the header's comments name them, or else
// queue1 and partition1; a queue becomes the job's QOS. What a record says beyond
// that is kept in [hpc.Job.SWF], and records that are no jobs in [Workload.Unusable],
// so that [WriteSWF] writes the log as it was.
func ReadSWF(r io.Reader, name string, opts ReadOptions) (*Workload, error) {
	s := &swfReader{
		w:     &Workload{Epoch: opts.epoch(), Source: name},
		book:  ruleBook{strict: opts.Strict},
		names: newSWFNames(),
		users: make(map[string]bool),
		lean:  opts.Lean,
	}
	if err := eachLine(r, name, s.line); err != nil {
		return nil, fmt.Errorf("reading SWF: %w", err)
	}
	if s.w.Jobs.Len() == 0 {
		return nil, fmt.Errorf("reading SWF: %s: no usable job in it%s", name, ruleList(s.book.counts))
	}
	s.w.Rules = s.book.counts
	s.w.sort()
	return s.w, nil
}

// ruleList says how many records fell where, for an error.
func ruleList(counts map[string]int) string {
	var parts []string
	for _, rule := range sortedKeys(counts) {
		parts = append(parts, fmt.Sprintf("%s %d", rule, counts[rule]))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// swfReader makes jobs from records.
type swfReader struct {
	w       *Workload
	book    ruleBook
	order   orderCheck
	names   *swfNames
	numbers jobNumbers
	users   map[string]bool
	records int
	lean    bool // without extras

	// The record at hand.
	current  hpc.Job
	recorded hpc.Recorded
	extras   hpc.SWF
	kept     []hpc.SWFNumber
}

// jobNumbers are the numbers of jobs, which most logs count from 1.
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
	case n >= size && n < 4*b.count+1<<16: // cleaned logs leave numbers out
		b.dense = append(b.dense, make([]bool, n-size+1)...)
		b.dense[n] = true
	default:
		if b.sparse == nil {
			b.sparse = make(map[int64]bool)
		}
		b.sparse[n] = true
	}
}

func (s *swfReader) line(number int, line []byte) error {
	trimmed := bytes.TrimLeft(line, " \t")
	switch {
	case len(trimmed) == 0:
		return nil
	case trimmed[0] == ';':
		return s.comment(string(trimmed[1:]))
	}
	s.records++
	var r swfRecord
	if err := parseSWFRecord(trimmed, &r); err != nil {
		return s.unusable(RuleSWFNoRecord, line, "%v", err)
	}
	for _, field := range [...]int{swfSubmit, swfWait, swfRunTime, swfTimeLimit, swfThinkTime} {
		if n := whole(r[field]); n > maxSWFSeconds {
			return s.unusable(RuleSWFAbsurd, line, "field %d: %d seconds are more than 126 years", field+1, n)
		}
	}
	allocated := whole(r[swfAllocated])
	size := whole(r[swfRequested])
	if size <= 0 {
		size = allocated
	}
	switch {
	case r[swfSubmit].Mantissa < 0:
		return s.unusable(RuleSWFNoSubmit, line, "field 2: no submit time")
	case max(size, allocated) > math.MaxInt32:
		return s.unusable(RuleSWFAbsurd, line, "%d processors are more than a machine has", max(size, allocated))
	case size <= 0:
		return s.unusable(RuleSWFNoProcessors, line, "neither requested (field 8) nor allocated processors (field 5)")
	case r[swfRunTime].Mantissa < 0:
		return s.unusable(RuleSWFNoRunTime, line, "field 4: no run time")
	}
	return s.job(&r, int(size), number)
}

// unusable keeps a record that is no job.
func (s *swfReader) unusable(rule string, line []byte, format string, args ...any) error {
	if err := s.book.fall(rule, format, args...); err != nil {
		return err
	}
	s.w.Unusable = append(s.w.Unusable, Unusable{Record: s.records, Rule: rule, Text: validText(line)})
	return nil
}

// comment reads a comment of the header. One that stands behind a record is kept
// with the others, but what it says of times comes too late to be heeded.
func (s *swfReader) comment(text string) error {
	s.w.Header = append(s.w.Header, validText([]byte(text)))
	key, value, found := strings.Cut(text, ":")
	if !found || s.records > 0 {
		return nil
	}
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	switch key {
	case "UnixStartTime":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n <= 0 || n > maxSWFSeconds {
			return s.book.fall(RuleSWFBadHeader, "UnixStartTime: %s: not a time (want seconds since 1970)", value)
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

// leadingCount reads "184  ( 6,  171,   7)" as 184, and what is no count as 0.
func leadingCount(value string) int {
	word, _, _ := strings.Cut(value, " ")
	n, err := strconv.ParseInt(word, 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return int(n)
}

// job makes a job of a record that has a submit time, a size and a run time.
func (s *swfReader) job(r *swfRecord, size, line int) error {
	job, recorded := s.blank()
	job.Submit = s.w.Epoch.Add(duration(r[swfSubmit]))
	job.RunTime = duration(r[swfRunTime])
	job.Tasks = size
	if r[swfTimeLimit].Mantissa > 0 {
		job.TimeLimit = duration(r[swfTimeLimit])
	}
	if kib := whole(r[swfRequestedMemory]); kib > 0 && kib < maxKiB {
		job.MemPerCPU = (kib + 1023) / 1024
	}
	job.User = s.names.users.name(whole(r[swfUser]))
	job.Group = s.names.groups.name(whole(r[swfGroup]))
	job.Name = s.names.executables.name(whole(r[swfExecutable]))
	job.QOS = s.names.queues.name(whole(r[swfQueue]))
	job.Partition = s.names.partitions.name(whole(r[swfPartition]))
	s.addUser(job, r)

	recorded.Processors = int(max(whole(r[swfAllocated]), 0))
	if r[swfWait].Mantissa >= 0 {
		recorded.Start = job.Submit.Add(duration(r[swfWait]))
		recorded.End = recorded.Start.Add(job.RunTime)
	} else if r[swfWait] != unknownNumber {
		if err := s.book.fall(RuleSWFBadWait, "field 3: a wait time of %d s", whole(r[swfWait])); err != nil {
			return err
		}
	}
	switch r[swfStatus] {
	case hpc.Decimal{Mantissa: swfFailed}:
		recorded.State = hpc.Failed
	case hpc.Decimal{Mantissa: swfCompleted}:
		recorded.State = hpc.Completed
	case hpc.Decimal{Mantissa: swfCancelled}:
		recorded.State = hpc.Cancelled
	}
	if err := s.identify(job, r, line); err != nil {
		return err
	}
	if !s.lean {
		s.keep(job, r)
	}
	s.w.Jobs.Append(job)
	return s.order.job(&s.book, job.Submit)
}

// maxKiB is the most memory, in KiB for a processor, that is taken for a request.
const maxKiB = 1 << 40

// identify gives the job its ID and its dependency.
func (s *swfReader) identify(job *hpc.Job, r *swfRecord, line int) error {
	n := whole(r[swfNumber])
	job.ID = strconv.FormatInt(n, 10)
	if before := whole(r[swfBefore]); before > 0 {
		if s.numbers.has(before) { // the first job of a number has it for its ID
			job.Dependency = "afterany:" + strconv.FormatInt(before, 10)
		} else if err := s.book.fall(RuleSWFNoJobBefore, "field 17: no job %d before this one", before); err != nil {
			return err
		}
	}
	if !s.numbers.has(n) {
		s.numbers.add(n)
		return nil
	}
	job.ID += "#" + strconv.Itoa(line)
	return s.book.fall(RuleRenamed, "job number %d is there twice", n)
}

// addUser makes the job's user known, with the group of his first job.
func (s *swfReader) addUser(job *hpc.Job, r *swfRecord) {
	uid, gid := whole(r[swfUser]), whole(r[swfGroup])
	if uid < 0 || uid > maxSWFUser || s.users[job.User] {
		return
	}
	s.users[job.User] = true
	user := hpc.User{Name: job.User, UID: uint32(swfFirstUID + uid), Group: job.Group, GID: uint32(swfFirstUID + gid)}
	if gid < 0 || gid > maxSWFUser {
		user.Group, user.GID = "swf", swfFirstUID-1
	}
	s.w.Users = append(s.w.Users, user)
}

// keep notes the numbers that do not follow from the job.
func (s *swfReader) keep(job *hpc.Job, r *swfRecord) {
	s.kept = s.kept[:0]
	derived := s.names.record(job, s.w.Epoch)
	for field := range r {
		if r[field] != derived[field] {
			s.kept = append(s.kept, hpc.SWFNumber{Field: field + 1, Read: r[field], Derived: derived[field]})
		}
	}
	s.extras = hpc.SWF{Record: s.records}
	if len(s.kept) > 0 {
		s.extras.Kept = s.kept
	}
	job.SWF = &s.extras
}

// blank returns a job with a place for what was recorded of it. Both are valid until the
// next record.
func (s *swfReader) blank() (*hpc.Job, *hpc.Recorded) {
	s.recorded = hpc.Recorded{}
	s.current = hpc.Job{Recorded: &s.recorded}
	return &s.current, &s.recorded
}

// parseSWFRecord reads a line of 18 numbers.
func parseSWFRecord(line []byte, r *swfRecord) error {
	field := 0
	for i := 0; i < len(line); {
		if isBlank(line[i]) {
			i++
			continue
		}
		start := i
		for i < len(line) && !isBlank(line[i]) {
			i++
		}
		if field == swfFields {
			return fmt.Errorf("more than %d fields", swfFields)
		}
		var ok bool
		if r[field], ok = parseDecimal(line[start:i]); !ok {
			return fmt.Errorf("field %d: %.40q: not a number", field+1, line[start:i])
		}
		field++
	}
	if field < swfFields {
		return fmt.Errorf("%d fields (want %d)", field, swfFields)
	}
	return nil
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// parseDecimal reads digits, perhaps with a minus and a point in them, of which at
// most 18 count.
func parseDecimal(text []byte) (d hpc.Decimal, ok bool) {
	digits, point := 0, -1
	for i, c := range text {
		switch {
		case c >= '0' && c <= '9' && digits < 18:
			d.Mantissa = 10*d.Mantissa + int64(c-'0')
			digits++
		case c == '.' && point < 0 && digits > 0:
			point = digits
		case c == '-' && i == 0:
		default:
			return d, false
		}
	}
	if digits == 0 || point == digits {
		return d, false
	}
	if point >= 0 {
		d.Decimals = uint8(digits - point)
	}
	if text[0] == '-' {
		d.Mantissa = -d.Mantissa
	}
	return d, true
}

// appendDecimal writes what parseDecimal reads.
func appendDecimal(buf []byte, d hpc.Decimal) []byte {
	if d.Mantissa < 0 {
		buf = append(buf, '-')
	}
	digits := strconv.FormatUint(magnitude(d.Mantissa), 10)
	if d.Decimals == 0 {
		return append(buf, digits...)
	}
	if missing := int(d.Decimals) + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	point := len(digits) - int(d.Decimals)
	return append(append(append(buf, digits[:point]...), '.'), digits[point:]...)
}

var powersOf10 = func() (p [19]int64) {
	p[0] = 1
	for i := 1; i < len(p); i++ {
		p[i] = 10 * p[i-1]
	}
	return p
}()

// whole returns the number without its decimals.
func whole(d hpc.Decimal) int64 { return d.Mantissa / powersOf10[min(d.Decimals, 18)] }

// duration returns seconds, at most [maxSWFSeconds] of them, as a duration.
func duration(d hpc.Decimal) time.Duration {
	if d.Decimals > 9 {
		return time.Duration(d.Mantissa / powersOf10[min(d.Decimals-9, 18)])
	}
	return time.Duration(d.Mantissa * powersOf10[9-d.Decimals])
}

// decimalSeconds is a duration in seconds with as few decimals as are needed.
func decimalSeconds(d time.Duration) hpc.Decimal {
	if d%time.Second == 0 {
		return hpc.Decimal{Mantissa: int64(d / time.Second)}
	}
	n := hpc.Decimal{Mantissa: int64(d), Decimals: 9}
	for n.Mantissa%10 == 0 {
		n.Mantissa /= 10
		n.Decimals--
	}
	return n
}

// swfNames maps names to the numbers that stand for them in a log, both ways.
type swfNames struct {
	users, groups, executables, queues, partitions numberedNames
}

func newSWFNames() *swfNames {
	return &swfNames{
		users: newNumberedNames("user"), groups: newNumberedNames("group"), executables: newNumberedNames("app"),
		queues: newNumberedNames("queue"), partitions: newNumberedNames("partition"),
	}
}

// comment learns from a header's comment such as "Queue: 1 express".
func (n *swfNames) comment(key, value string) {
	table := map[string]*numberedNames{"Queue": &n.queues, "Partition": &n.partitions}[key]
	if table == nil {
		return
	}
	if words := strings.Fields(value); len(words) >= 2 {
		if number, err := strconv.ParseInt(words[0], 10, 31); err == nil && number >= 0 {
			table.set(number, words[1])
		}
	}
}

// numberedNames are the names of one kind. A number without a name of its own is
// called by the prefix and the number.
type numberedNames struct {
	prefix   string
	byNumber map[int64]string
	byName   map[string]int64
	small    []string // names of small numbers that were asked for before
}

func newNumberedNames(prefix string) numberedNames {
	return numberedNames{prefix: prefix, byNumber: make(map[int64]string), byName: make(map[string]int64)}
}

// set gives a number a name, unless one of them has another partner.
func (t *numberedNames) set(number int64, name string) {
	_, numberKnown := t.byNumber[number]
	_, nameKnown := t.byName[name]
	if !numberKnown && !nameKnown {
		t.byNumber[number], t.byName[name] = name, number
	}
}

// name returns a number's name; none for a negative number, which is an unknown one.
func (t *numberedNames) name(number int64) string {
	switch {
	case number < 0:
		return ""
	case number < int64(len(t.small)) && t.small[number] != "":
		return t.small[number]
	}
	name, ok := t.byNumber[number]
	if !ok {
		name = t.prefix + strconv.FormatInt(number, 10)
		t.set(number, name)
	}
	if number < 1<<16 {
		if grow := number + 1 - int64(len(t.small)); grow > 0 {
			t.small = append(t.small, make([]string, grow)...)
		}
		t.small[number] = name
	}
	return name
}

// number returns a name's number, -1 for no name. ok is false for a name that has no number.
func (t *numberedNames) number(name string) (number int64, ok bool) {
	if name == "" {
		return -1, true
	}
	if number, ok = t.byName[name]; ok {
		return number, true
	}
	digits, ok := strings.CutPrefix(name, t.prefix)
	number, err := strconv.ParseInt(digits, 10, 63)
	return number, ok && err == nil && number >= 0 && strconv.FormatInt(number, 10) == digits
}
