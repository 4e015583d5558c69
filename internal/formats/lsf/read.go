// Package lsf reads lsb.acct, the job log of IBM Spectrum LSF and Platform LSF.
//
// Source: IBM Spectrum LSF 10.1 configuration reference, "lsb.acct"; the numbers of termination
// reasons come from its lsbatch.h.
package lsf

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/finished"
	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/lines"
	"rmreplay/internal/workload"
)

// Format is LSF's job log.
var Format = workload.Format{
	Name: "lsf", Doc: "the job log of LSF (lsb.acct)",
	Looks: "an lsb.acct of LSF", Recognize: recognize, Read: finished.NewReader(New).Read,
}

// NoteDependency counts jobs whose dependency condition has no counterpart in Slurm.
const NoteDependency = "dependency_not_read"

// recognize accepts a first line with a record of lsb.acct.
func recognize(head []byte) workload.Confidence {
	line, _ := lines.First(head)
	for _, event := range []string{`"JOB_FINISH" "`, `"EVENT_ADRSV_FINISH" "`, `"JOB_RESIZE" "`} {
		if strings.HasPrefix(line, event) {
			return workload.Sure
		}
	}
	return workload.No
}

// New returns a reader of job logs.
func New(source string, opts workload.ReadOptions) finished.Reader {
	return &reader{b: finished.NewBuilder(source, opts)}
}

type reader struct {
	b       *finished.Builder
	pending []byte // a record whose quoted text continues in the next line
}

// Read reads a log.
func (s *reader) Read(r io.Reader, name string) error {
	err := lines.Each(r, name, s.line)
	if err == nil {
		err = s.flush()
	}
	if err != nil {
		return fmt.Errorf("reading lsb.acct: %w", err)
	}
	return nil
}

// Finish returns the workload.
func (s *reader) Finish() (*workload.Workload, []string, error) { return s.b.Close("lsb.acct") }

// line reads a line. A command may contain line breaks, so a record continues until its quotes are
// closed. The next record begins with the name of its event.
func (s *reader) line(_ int, line []byte) error {
	if s.pending != nil && !bytes.HasPrefix(line, []byte(`"JOB_`)) && len(s.pending)+len(line) < lines.Longest {
		s.pending = append(append(s.pending, '\n'), line...)
	} else {
		if err := s.flush(); err != nil {
			return err
		}
		s.pending = bytes.Clone(line)
	}
	if bytes.Count(s.pending, []byte{'"'})%2 == 0 {
		text := s.pending
		s.pending = nil
		return s.record(text)
	}
	return nil
}

// flush counts a record whose quotes are not closed as unusable.
func (s *reader) flush() error {
	if s.pending == nil {
		return nil
	}
	text := string(s.pending)
	s.pending = nil
	s.b.Row()
	return s.b.Unusable(finished.RuleNoRecord, text, "a quoted text without its end")
}

func (s *reader) record(text []byte) error {
	if trimmed := bytes.TrimSpace(text); len(trimmed) == 0 || trimmed[0] == '#' {
		return nil
	}
	s.b.Row()
	f := fields{rest: text}
	if event := f.text(); event != "JOB_FINISH" {
		if f.err == nil && strings.Trim(event, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_2") == "" && event != "" {
			s.b.Note(finished.NoteOtherRecord) // reservations, changes of size
			return nil
		}
		return s.b.Unusable(finished.RuleNoRecord, string(text), `not a record (want "JOB_FINISH" "VERSION" TIME JOB ...)`)
	}
	j := job{Job: finished.Job{ArrayTask: -1, Elapsed: -1}}
	j.read(&f)
	if f.err != nil {
		return s.b.Unusable(finished.RuleNoRecord, string(text), "%v", f.err)
	}
	if err := s.depend(&j); err != nil {
		return err
	}
	return s.b.Add(&j.Job, string(text))
}

// errEnd says that a record has too few fields.
var errEnd = errors.New("too few fields")

// fields reads one field after another. A field is a number, or a text between quotes, in which
// two quotes mean one quote. After an error all fields are empty.
type fields struct {
	rest []byte
	at   int // the number of fields that were read
	err  error
}

func (f *fields) next() []byte {
	f.rest = bytes.TrimLeft(f.rest, " \t")
	f.at++
	switch {
	case f.err != nil:
		return nil
	case len(f.rest) == 0:
		f.err = errEnd
		return nil
	case f.rest[0] != '"':
		field, rest, _ := bytes.Cut(f.rest, []byte{' '})
		f.rest = rest
		return field
	}
	for at := 1; at < len(f.rest); at++ {
		switch {
		case f.rest[at] != '"':
		case at+1 < len(f.rest) && f.rest[at+1] == '"':
			at++
		default:
			field := f.rest[1:at]
			f.rest = f.rest[at+1:]
			return bytes.ReplaceAll(field, []byte(`""`), []byte{'"'})
		}
	}
	f.err = fmt.Errorf("field %d: a quoted text without its end", f.at)
	return nil
}

func (f *fields) text() string { return lines.UTF8(f.next()) }

// number reads a number from minValue to maxValue. For any other number, it returns an error. The parameter what is
// the field's name in the error.
func (f *fields) number(what string, minValue, maxValue int64) int64 {
	field := f.next()
	n, err := strconv.ParseFloat(string(field), 64)
	if f.err != nil {
		return 0
	}
	if err != nil || !(n >= float64(minValue) && n <= float64(maxValue)) {
		f.err = fmt.Errorf("field %d, %s, %.40q: not a number from %d to %d", f.at, what, field, minValue, maxValue)
		return 0
	}
	return int64(n)
}

func (f *fields) time(what string) hpc.Time { return hpc.Unix(f.number(what, 0, 7258118400)) }

// skip reads fields that are not used.
func (f *fields) skip(n int) {
	for range n {
		f.next()
	}
}

// list reads a number, and then that number of fields.
func (f *fields) list(what string) (list []string) {
	for range f.number(what, 0, math.MaxInt32) {
		if f.err != nil {
			return nil
		}
		list = append(list, f.text())
	}
	return list
}

// job is a job with its record's data.
type job struct {
	finished.Job
	dependency string // LSF's condition
}

// The values of jStatus, and reasons for the end of a job (exitInfo).
const (
	statusDone   = 64
	termPreempt  = 1
	termRunLimit = 5
	termOwner    = 14
	termForce    = 8 // from termForce on, below ownerRequeue: a user or an administrator ended the job
	termAdmin    = 15
	termMemLimit = 16
	ownerRequeue = 10
	adminRequeue = 11
	rusageFields = 19 // number of fields of struct rusage
)

// read reads the fields of a JOB_FINISH record.
func (j *job) read(f *fields) {
	f.skip(1) // version
	end := f.time("event time")
	number := f.number("job", 1, math.MaxInt64/2)
	f.skip(2) // userId, without a group's ID; options
	asked := int(f.number("numProcessors", 0, math.MaxInt32))
	j.Submit, j.Eligible = f.time("submit time"), f.time("begin time")
	f.skip(1) // termTime
	j.Start, j.End = f.time("start time"), end
	j.User, j.Partition = f.text(), f.text()
	resources := f.text()
	j.dependency = f.text()
	f.skip(2) // preExecCmd, fromHost
	j.WorkDir = f.text()
	f.skip(4) // inFile, outFile, errFile, jobFile
	f.list("numAskedHosts")
	j.ran(f.list("numExHosts"))
	status := f.number("jStatus", 0, math.MaxInt32)
	f.skip(1) // hostFactor
	j.Name = f.text()
	f.skip(1 + rusageFields + 1) // command, rusage, mailUser
	j.Account = f.text()
	exit := f.number("exitStatus", math.MinInt32, math.MaxInt32)
	most := int(f.number("maxNumProcessors", 0, math.MaxInt32))
	j.ReqCPUs = cmp.Or(asked, most)
	if f.err != nil {
		return
	}
	t := takeTail(f)
	if errors.Is(f.err, errEnd) { // the record of an older version
		f.err = nil
	}
	if t.index == wholeRanges && t.ranges == "" && f.err == nil {
		f.err = errors.New("idx -1: the ranges of indices, which should follow, are missing")
	}
	if t.limit > 0 {
		j.TimeLimit = time.Duration(t.limit) * time.Second
	}
	j.Reservation = t.reservation
	j.ended(status, exit, t.reason)
	j.name(number, t)
	j.require(resources)
	if j.GRES == "" && j.GPUs == "" {
		j.requireGPUs(t.requirement) // the options of bsub -gpu appear only here
	}
}

// tail has the fields that older versions do not have. Missing fields stay 0.
type tail struct {
	index       int64 // the index of a task of an array, or wholeRanges
	reservation string
	reason      int64  // reason for the end of the job
	limit       int64  // limit of the run time, in seconds
	requirement string // requirement of resources, with the defaults of the queue and of bsub -gpu
	ranges      string // tasks that ended before they started, such as "4-9,20-30:2"
}

// wholeRanges is the index of a record of several tasks.
const wholeRanges = -1

func takeTail(f *fields) (t tail) {
	f.skip(2) // loginShell, timeEvent
	t.index = f.number("idx", wholeRanges, math.MaxInt32)
	f.skip(4) // maxRMem, maxRSwap, inFileSpool, commandSpool
	t.reservation = f.text()
	f.skip(3) // sla, exceptMask, additionalInfo
	t.reason = f.number("exitInfo", 0, math.MaxInt32)
	f.skip(12) // warningAction to lastResizeTime
	f.skip(2)  // rsvId, jobDescription
	for range f.number("submitEXT", 0, math.MaxInt32) {
		if f.skip(2); f.err != nil {
			break
		}
	}
	t.limit = runLimit(f)
	t.requirement = f.text()
	if t.index == wholeRanges {
		t.ranges = indexRanges(f)
	}
	return t
}

// indexRanges reads the fields after the requirement, up to the ranges of indices.
func indexRanges(f *fields) string {
	f.skip(11) // srcCluster to subcwd
	for range f.number("num_network", 0, math.MaxInt32) {
		if f.skip(2); f.err != nil {
			return ""
		}
	}
	f.skip(6) // affinity, serial_job_energy, cpi, gips, gbs, gflops
	f.list("numAllocSlots")
	f.skip(1) // ineligiblePendingTime
	var list []string
	for range f.number("indexRangeCnt", 0, hpc.MaxArrayIndex) {
		first, last := f.number("indexRangeStart", 1, hpc.MaxArrayIndex), f.number("indexRangeEnd", 1, hpc.MaxArrayIndex)
		step := f.number("indexRangeStep", 1, hpc.MaxArrayIndex)
		if f.err != nil {
			return ""
		}
		list = append(list, fmt.Sprintf("%d-%d:%d", first, last, step))
	}
	return strings.Join(list, ",")
}

// runLimit reads the usage of each host, and the three numbers after it: the run limit in seconds,
// option bits, and memory. Depending on the version, a host has five or six fields, so these
// numbers are found by the text that follows them. (The reference names the bits first. Files of
// versions 9.11 and 10.1 have the limit there.)
func runLimit(f *fields) int64 {
	hosts := f.number("numHostRusage", 0, math.MaxInt32)
	if rest := bytes.TrimLeft(f.rest, " "); len(rest) == 0 || rest[0] != '"' {
		hosts = 0 // hosts' names have no quotes
	}
	var numbers []int64
	for f.err == nil {
		rest := bytes.TrimLeft(f.rest, " ")
		if len(rest) > 0 && rest[0] == '"' {
			if hosts == 0 {
				break
			}
			hosts--
		}
		n, _ := strconv.ParseInt(string(f.next()), 10, 64) // a host's name is not among the last three
		numbers = append(numbers, n)
	}
	if len(numbers) < 3 || f.err != nil {
		return 0
	}
	limit := numbers[len(numbers)-3]
	if limit < 0 || limit > 1<<31 {
		return 0
	}
	return limit
}

// ran sets the nodes and processors of the job. The list names a host once for each processor, or
// as "16*host".
func (j *job) ran(hosts []string) {
	var names []string
	known := make(map[string]bool)
	for _, host := range hosts {
		count := 1
		if times, name, short := strings.Cut(host, "*"); short {
			if n, err := strconv.ParseUint(times, 10, 24); err == nil {
				count, host = int(n), name
			}
		}
		if j.AllocCPUs += count; !known[host] && host != "" {
			known[host] = true
			names = append(names, host)
		}
	}
	j.AllocNodes = len(names)
	if !strings.ContainsAny(strings.Join(names, ""), "[], ") {
		j.NodeList = hostlist.Compress(names)
	}
}

// ended sets the state. The parameter exit is a status of wait(2).
func (j *job) ended(status, exit, reason int64) {
	j.ExitCode, j.Signal, j.HasExit = int(exit>>8)&0xff, int(exit&0x7f), true
	switch {
	case status&statusDone != 0:
		j.State, j.ExitCode, j.Signal = hpc.Completed, 0, 0
	case reason == termRunLimit:
		j.State = hpc.TimedOut
	case reason == termMemLimit:
		j.State = hpc.OutOfMemory
	case reason == ownerRequeue, reason == adminRequeue, reason == termPreempt:
		j.State = hpc.Requeued
	case reason >= termForce && reason < ownerRequeue, reason == termOwner, reason == termAdmin, j.Start == 0:
		j.State = hpc.Cancelled
	default:
		j.State = hpc.Failed
	}
}

// name sets the ID: "17", "17_3" for a task of an array, or "17_[3-5:1]" for several tasks.
func (j *job) name(number int64, t tail) {
	j.ID = strconv.FormatInt(number, 10)
	if number <= math.MaxUint32 {
		j.Number = uint32(number)
	}
	if at := strings.IndexByte(j.Name, '['); at > 0 && t.index != 0 { // "name[1-10]%2"
		j.Name = j.Name[:at]
	}
	switch {
	case t.index == wholeRanges:
		j.ID += "_[" + t.ranges + "]"
		j.ArrayJob, j.ArrayRest = j.Number, t.ranges
	case t.index > 0:
		j.ID += "_" + strconv.FormatInt(t.index, 10)
		if j.Number != 0 && t.index <= hpc.MaxArrayIndex {
			j.ArrayJob, j.ArrayTask, j.Number = j.Number, int(t.index), 0 // a task has no number of its own
		}
	}
}

// require reads a resource requirement such as "select[type==any] span[ptile=16]
// rusage[mem=4000,ngpus_physical=2/host]". Other parts are ignored.
func (j *job) require(text string) {
	for item := range items(text) {
		count := int(item.amount)
		switch {
		case item.section == "span" && item.name == "hosts":
			j.ReqNodes = count
		case item.section == "span" && item.name == "ptile":
			j.TasksPerNode = count
			j.ReqNodes = (j.ReqCPUs + count - 1) / count
		case item.section == "rusage" && item.name == "mem":
			j.requireMemory(item)
		}
	}
	j.requireGPUs(text)
	if j.TasksPerNode > 0 && j.ReqCPUs%j.TasksPerNode != 0 {
		j.TasksPerNode = 0
	}
}

// requireMemory sets the memory. It is in MB for each host, which is LSF's default, unless the
// requirement has another unit, "/task" or "/job".
func (j *job) requireMemory(i item) {
	switch mib := int64(math.Ceil(i.amount * i.unit)); i.per {
	case "task":
		j.MemPerCPU = mib
	case "job":
		j.Memory = mib
	default:
		j.MemPerNode = mib
	}
}

// requireGPUs sets the GPUs. Their number is for each host, unless the requirement has "/task" or
// "/job".
func (j *job) requireGPUs(text string) {
	for i := range items(text) {
		if i.section != "rusage" || i.name != "ngpus_physical" && i.name != "ngpus_excl_p" && i.name != "ngpus" {
			continue
		}
		switch count := int64(i.amount); i.per {
		case "task":
			j.GPUs = strconv.FormatInt(min(count*int64(max(1, j.ReqCPUs)), math.MaxInt32), 10)
		case "job":
			j.GPUs = strconv.FormatInt(count, 10)
		default:
			j.GRES = "gpu:" + strconv.FormatInt(count, 10)
		}
	}
}

// item is a resource of a requirement: "mem=4GB/task" in rusage.
type item struct {
	section, name string
	amount        float64 // from 1 on; amount * unit is below 2^31
	unit          float64 // the unit in MiB; 1 if the text gives no unit
	per           string  // host, task or job; "" if not given
}

// units are the suffixes of an amount of memory, with their values in MiB.
var units = map[string]float64{"": 1, "K": 1.0 / 1024, "M": 1, "G": 1 << 10, "T": 1 << 20}

// items yields the resources of a requirement that have a number.
func items(text string) iter.Seq[item] {
	return func(yield func(item) bool) {
		for section := range sections(text) {
			i := item{}
			var inside string
			i.section, inside, _ = strings.Cut(section, "[")
			for word := range strings.FieldsFuncSeq(inside, func(r rune) bool { return r == ',' || r == ':' || r == ' ' }) {
				var value string
				i.name, value, _ = strings.Cut(word, "=")
				value, i.per, _ = strings.Cut(value, "/")
				value = strings.ToUpper(value)
				number := strings.TrimRight(value, "KMGTB")
				unit, known := units[strings.TrimSuffix(value[len(number):], "B")]
				n, err := strconv.ParseFloat(number, 64)
				if i.amount, i.unit = n, unit; err != nil || !known || !(n >= 1 && n*unit < 1<<31) {
					continue
				}
				if !yield(i) {
					return
				}
			}
		}
	}
}

// sections yields the parts of a requirement without their closing brackets.
func sections(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for section := range strings.SplitSeq(text, "]") {
			if section = strings.TrimLeft(section, " ()&|{}"); section != "" && !yield(section) {
				return
			}
		}
	}
}

var errCondition = errors.New("no counterpart in Slurm")

// depend translates a dependency condition whose parts are joined by && and name jobs by number.
// LSF's "done(N)" is Slurm's "afterok:N".
func (s *reader) depend(j *job) error {
	if j.dependency == "" {
		return nil
	}
	condition, err := translate(j.dependency)
	if err != nil {
		s.b.Note(NoteDependency)
		return nil
	}
	j.Dependency = condition
	return nil
}

func translate(condition string) (string, error) {
	kinds := map[string]string{"done": "afterok", "ended": "afterany", "exit": "afternotok", "started": "after",
		"": "afterok"}
	var list []string
	for part := range strings.SplitSeq(condition, "&&") {
		part = strings.Trim(part, " ")
		name, inside, found := strings.Cut(part, "(")
		if !found {
			name, inside = "", part
		}
		kind, known := kinds[strings.TrimSpace(name)]
		number := strings.Trim(strings.TrimSuffix(inside, ")"), ` "`)
		if _, err := strconv.ParseUint(number, 10, 32); err != nil || !known {
			return "", errCondition
		}
		list = append(list, kind+":"+number)
	}
	return strings.Join(list, ","), nil
}
