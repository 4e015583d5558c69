// Package jobcomp reads the records of slurmctld's stock jobcomp/filetxt plugin. The plugin writes
// a record whenever a job ends (jobcomp_p_log_record in
// plugins/jobcomp/filetxt/jobcomp_filetxt.c). In a run, the plugin writes into a named pipe, so a
// job's record arrives at the instant when the job ends.
package jobcomp

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/slurmspec"
)

// Record is the end of one job, or the end of a run after which slurmctld requeues the job.
type Record struct {
	// Job is Slurm's number of the job.
	Job uint32
	// ArrayJob is the number of the job's array, and Task the task's number in it. ArrayJob is 0 and Task is -1 for a job
	// that is not a task of an array.
	ArrayJob uint32
	Task     int
	Outcome  rm.Outcome
	// Truncated says that the record was too long for the plugin's buffer. Its last fields are
	// missing.
	Truncated bool
}

// Stream splits the bytes from the pipe into records. A read may end within a record.
type Stream struct {
	longest int // length of the longest record; 0 for any length
	rest    []byte
}

// NewStream returns a stream for the plugin of the given release.
func NewStream(release slurmspec.Release) *Stream {
	s := new(Stream)
	if !release.Since(slurmspec.R2405) {
		s.longest = bufferSize - 1
	}
	return s
}

// Take adds data to the stream and calls record for each complete record, in order. It returns an
// error at the first record that it cannot read.
func (s *Stream) Take(data []byte, record func(Record)) error {
	s.rest = append(s.rest, data...)
	for {
		text, rest := next(s.rest, s.longest)
		if text == nil {
			s.rest = append([]byte(nil), s.rest...) // frees the bytes of the records read
			return nil
		}
		r, err := parse(text)
		s.rest = rest
		if err != nil {
			return err
		}
		record(r)
	}
}

// bufferSize is the largest length of a record, including its final NUL, before 24.05. Since 24.05
// the plugin has no such buffer.
const bufferSize = 1024

// fieldNames are the keys of a record in their order. A value ends at the next key, because job names may have blanks
// and equals signs in them.
var fieldNames = []string{"JobId", "UserId", "GroupId", "Name", "JobState", "Partition", "TimeLimit",
	"StartTime", "EndTime", "NodeList", "NodeCnt", "ProcCnt", "WorkDir", "ReservationName", "Tres", "Account", "QOS",
	"WcKey", "Cluster", "SubmitTime", "EligibleTime", "DerivedExitCode", "ExitCode"}

// Name returns a job's name in a form that fits into a record: on one line, and without text that looks like the next
// key. The engine submits jobs under the names that Name returns.
func Name(name string) string {
	name = slurmspec.OneLine(name)
	for _, key := range fieldNames {
		name = strings.ReplaceAll(name, " "+key+"=", " "+key+"-")
	}
	return name
}

// next cuts the first record off the data. record is nil if data has no complete record. A plugin
// with a limit cuts records to longest bytes, and writes no line break after a cut record.
func next(data []byte, longest int) (record, rest []byte) {
	end := bytes.IndexByte(data, '\n')
	if longest > 0 && len(data) >= longest && (end < 0 || end >= longest) {
		return data[:longest], data[longest:]
	}
	if end < 0 {
		return nil, data
	}
	return data[:end+1], data[end+1:]
}

// parse reads one record. The daemons run with TZ=UTC, so the record's times are in UTC.
func parse(record []byte) (Record, error) {
	c := Record{Task: -1, Truncated: !bytes.HasSuffix(record, []byte("\n"))}
	line := strings.TrimSuffix(string(record), "\n")
	fields := map[string]string{}
	rest, ok := strings.CutPrefix(line, fieldNames[0]+"=")
	if !ok {
		return c, fmt.Errorf("reading a record of jobcomp/filetxt: %.80q does not begin with JobId=", line)
	}
	for i, key := range fieldNames {
		if i+1 == len(fieldNames) {
			fields[key] = strings.TrimSpace(rest)
			break
		}
		value, after, found := strings.Cut(rest, " "+fieldNames[i+1]+"=")
		if !found {
			if !c.Truncated {
				return c, fmt.Errorf("reading a record of jobcomp/filetxt: no %s in %.200q", fieldNames[i+1], line)
			}
			fields[key] = value
			break
		}
		fields[key], rest = value, after
	}
	id, err := strconv.ParseUint(fields["JobId"], 10, 32)
	if err != nil {
		return c, fmt.Errorf("reading a record of jobcomp/filetxt: JobId=%.20q: not a number", fields["JobId"])
	}
	c.Job = uint32(id)
	// "EligibleTime=T ArrayJobId=A ArrayTaskId=B HetJobId=..."
	eligible := strings.Fields(fields["EligibleTime"])
	for _, f := range eligible {
		if v, ok := strings.CutPrefix(f, "ArrayJobId="); ok {
			a, _ := strconv.ParseUint(v, 10, 32)
			c.ArrayJob = uint32(a)
		}
		if v, ok := strings.CutPrefix(f, "ArrayTaskId="); ok {
			c.Task, _ = strconv.Atoi(v)
		}
	}
	if len(eligible) > 0 {
		fields["EligibleTime"] = eligible[0]
	}
	c.Outcome = outcomeOf(fields)
	return c, nil
}

func outcomeOf(f map[string]string) rm.Outcome {
	number := func(key string) int {
		n, _ := strconv.Atoi(f[key])
		return n
	}
	instant := func(key string) hpc.Time {
		t, err := hpc.ParseTime(f[key])
		if err != nil { // "Unknown"
			return 0
		}
		return t
	}
	name := func(key string) string { // "alice(1001)"
		s := f[key]
		if i := strings.LastIndexByte(s, '('); i >= 0 {
			s = s[:i]
		}
		return s
	}
	o := rm.Outcome{
		State: hpc.State(f["JobState"]), Name: f["Name"], User: name("UserId"), Group: name("GroupId"),
		Submit: instant("SubmitTime"), Eligible: instant("EligibleTime"), Start: instant("StartTime"),
		End:       instant("EndTime"),
		NodeCount: number("NodeCnt"), Processors: number("ProcCnt"),
		Account: f["Account"], Partition: f["Partition"], QOS: f["QOS"], Reservation: f["ReservationName"],
	}
	if f["NodeList"] != "(null)" {
		o.Nodes = f["NodeList"]
	}
	if o.Nodes == "" { // the job never ran; its start is the scheduler's forecast
		o.Start, o.NodeCount, o.Processors = 0, 0, 0
	}
	o.TimeLimit = -1
	if limit, err := strconv.ParseInt(f["TimeLimit"], 10, 64); err == nil {
		o.TimeLimit = limit * 60
	}
	if exit, err := slurmspec.ParseExitCode(f["ExitCode"]); err == nil {
		o.ExitCode, o.Signal = exit.Status, exit.Signal
	}
	return o
}
