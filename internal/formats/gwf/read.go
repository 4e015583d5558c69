// Package gwf reads the Grid Workload Format of the Grid Workloads Archive.
//
// Sources: Iosup et al., "The Grid Workloads Archive", Future Generation Computer Systems 24(7),
// 2008; and the comments at the beginning of the Archive's files, which list the 29 fields.
package gwf

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
	"rmreplay/internal/lines"
	"rmreplay/internal/workload"
)

// Format is the Grid Workload Format.
var Format = workload.Format{
	Name: "gwf", Doc: "the Grid Workload Format of the Grid Workloads Archive",
	Looks: "a log in the Grid Workload Format", Recognize: recognize, Read: finished.NewReader(New).Read,
}

// The fields of a record, from 0. The value -1 means an unknown value.
const (
	fieldID = iota
	fieldSubmit
	fieldWait
	fieldRunTime
	fieldProcessors
	_ // average CPU time
	_ // used memory
	fieldRequested
	fieldTimeLimit
	fieldMemory // requested for a processor, KiB
	fieldStatus
	fieldUser
	fieldGroup
	fieldExecutable
	fieldQueue
	fieldPartition
	_          // site of submission
	_          // site of execution
	_          // structure: UNITARY or BoT
	fieldCount = 29
	minFields  = 19 // some files leave out the last fields
)

// recognize accepts a first record of 19 to 40 fields, with numbers for the times and the
// processors.
func recognize(head []byte) workload.Confidence {
	line, _ := lines.First(head)
	fields := strings.Fields(line)
	if len(fields) < minFields || len(fields) > 40 || strings.HasPrefix(line, ";") {
		return workload.No
	}
	for _, at := range []int{fieldSubmit, fieldWait, fieldRunTime, fieldProcessors, fieldRequested} {
		if _, err := strconv.ParseFloat(fields[at], 64); err != nil {
			return workload.No
		}
	}
	if len(fields) < fieldCount {
		return workload.Maybe
	}
	return workload.Sure
}

// New returns a reader of logs.
func New(source string, opts workload.ReadOptions) finished.Reader {
	return &reader{b: finished.NewBuilder(source, opts), whole: make(map[string]bool)}
}

// RulePartial counts records of parts of checkpointed jobs, if another record has the whole job.
const RulePartial = "gwf_partial_execution"

// RuleAbsurdMemory counts records that ask for more memory per processor than a node has. Such a
// request is ignored.
const RuleAbsurdMemory = "gwf_absurd_memory"

type reader struct {
	b     *finished.Builder
	start int64 // UnixStartTime of the header, if times count from it
	parts []part
	whole map[string]bool // the IDs that have a record of the whole job
}

// part is a record of a part of a job: status 2 to 4, as in SWF.
type part struct {
	job  *finished.Job
	text string
}

// Read reads a log.
func (s *reader) Read(r io.Reader, name string) error {
	s.start = 0
	if err := lines.Each(r, name, func(_ int, line []byte) error { return s.line(line) }); err != nil {
		return fmt.Errorf("reading GWF: %w", err)
	}
	return nil
}

// Finish returns the workload. A part becomes a job if no record has the whole job.
func (s *reader) Finish() (*workload.Workload, []string, error) {
	for _, p := range s.parts {
		var err error
		if s.whole[p.job.ID] {
			err = s.b.Fall(RulePartial, "a part of job %s, which has a record for the whole", p.job.ID)
			s.b.Dropped()
		} else {
			err = s.b.Add(p.job, p.text)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("reading GWF: %w", err)
		}
	}
	return s.b.Close("GWF")
}

func (s *reader) line(line []byte) error {
	line = bytes.TrimSpace(line)
	switch {
	case len(line) == 0:
		return nil
	case line[0] == '#' || line[0] == ';':
		if key, value, found := strings.Cut(strings.Trim(string(line), "#; \t"), ":"); found &&
			strings.EqualFold(strings.TrimSpace(key), "UnixStartTime") {
			if n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); err == nil && n > 0 && n < lastInstant {
				s.start = n
			}
		}
		return nil
	}
	s.b.Row()
	fields := strings.Fields(string(line))
	if len(fields) < minFields {
		return s.b.Unusable(finished.RuleNoRecord, string(line), "%d fields (want %d)", len(fields), fieldCount)
	}
	j, err := s.job(fields)
	if err != nil {
		return s.b.Unusable(finished.RuleNoRecord, string(line), "%v", err)
	}
	if status, _ := strconv.ParseFloat(fields[fieldStatus], 64); status >= 2 && status <= 4 {
		s.parts = append(s.parts, part{j, string(line)})
		return nil
	}
	s.whole[j.ID] = true
	return s.b.Add(j, string(line))
}

const (
	lastInstant = 7258118400 // 2200-01-01
	// firstAbsolute is the smallest time that counts as seconds since 1970. Smaller times count from
	// the log's beginning. It is in 1973. All logs are later than 1973, and shorter than three years.
	firstAbsolute = 1e8
	maxSeconds    = 4e9
	// maxMemoryKiB is the largest request for memory, in KiB per processor: 4 TiB, as much as large nodes
	// have.
	maxMemoryKiB = 4 << 30
)

// job reads a record. An error names the field.
func (s *reader) job(fields []string) (*finished.Job, error) {
	var err error
	number := func(name string, at int, maxValue float64) float64 {
		n, e := strconv.ParseFloat(fields[at], 64)
		if err == nil && (e != nil || !(n >= -1 && n <= maxValue)) {
			err = fmt.Errorf("%s (field %d) %.40q: not a number from -1 to %.0f", name, at+1, fields[at], maxValue)
		}
		return n
	}
	submit, wait, runTime := number("SubmitTime", fieldSubmit, lastInstant), number("WaitTime", fieldWait, maxSeconds),
		number("RunTime", fieldRunTime, maxSeconds)
	got, asked := number("NProcs", fieldProcessors, math.MaxInt32), number("ReqNProcs", fieldRequested, math.MaxInt32)
	limit, memory := number("ReqTime", fieldTimeLimit, maxSeconds), number("ReqMemory", fieldMemory, 1<<50)
	status := number("Status", fieldStatus, 1<<20)
	if err != nil {
		return nil, err
	}
	text := func(at int) string {
		if fields[at] == "-1" {
			return ""
		}
		return lines.UTF8([]byte(fields[at]))
	}
	j := &finished.Job{
		ID: fields[fieldID], ArrayTask: -1, Elapsed: -1,
		User: text(fieldUser), Group: text(fieldGroup), Name: text(fieldExecutable), QOS: text(fieldQueue),
		Partition: text(fieldPartition),
		ReqCPUs:   int(max(asked, 0)), AllocCPUs: int(max(got, 0)),
	}
	if n, err := strconv.ParseUint(j.ID, 10, 32); err == nil {
		j.Number = uint32(n)
	}
	if submit >= 0 {
		j.Submit = s.instant(submit)
	}
	if limit > 0 {
		j.TimeLimit = seconds(limit)
	}
	switch {
	case memory > maxMemoryKiB:
		if err := s.b.Fall(RuleAbsurdMemory, "job %s: ReqMemory (field %d): %.0f KiB for a processor are more than %d TiB: the log may "+
			"have bytes there", j.ID, fieldMemory+1, memory, maxMemoryKiB>>30); err != nil {
			return nil, err
		}
	case memory > 0:
		j.MemPerCPU = int64(math.Ceil(memory / 1024))
	}
	if j.AllocCPUs == 0 && runTime > 0 {
		j.AllocCPUs = j.ReqCPUs
	}
	j.State = map[float64]hpc.State{0: hpc.Failed, 1: hpc.Completed, 5: hpc.Cancelled}[status]
	if wait >= 0 && runTime >= 0 {
		j.Start = j.Submit.Add(seconds(wait))
		j.End, j.Elapsed = j.Start.Add(seconds(runTime)), seconds(runTime)
		if j.State == "" {
			j.State = hpc.Completed
		}
	} else {
		j.AllocCPUs = 0
		if j.State != "" {
			j.State = hpc.Cancelled // it never ran; when it ended is not known
		}
	}
	return j, nil
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// instant returns the time of a submission: seconds since 1970, or since the log's beginning.
func (s *reader) instant(n float64) hpc.Time {
	if n >= firstAbsolute {
		return hpc.Unix(0).Add(seconds(n))
	}
	begin := hpc.Unix(s.start)
	if s.start == 0 {
		begin = s.b.Options().EpochOrDefault()
	}
	return begin.Add(seconds(n))
}
