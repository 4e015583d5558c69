package slurm

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/slurmspec"
)

// completion is a record of the jobcomp/filetxt plugin, which slurmctld writes the
// moment a job ends, in whatever way (jobcomp_p_log_record in
// plugins/jobcomp/filetxt/jobcomp_filetxt.c).
type completion struct {
	job uint32
	// arrayJob and task are 0 and -1 for a job that is no task of an array.
	arrayJob uint32
	task     int
	outcome  rm.Outcome
	// truncated says that the plugin's buffer was too small for the record, so that
	// its last fields are missing.
	truncated bool
}

// The plugin's record of a job is at most this long, closing NUL included.
const completionBuffer = 1024

// completionFields are the record's keys in their order. A value reaches to the next
// key, since job names may hold blanks and equals signs.
var completionFields = []string{"JobId", "UserId", "GroupId", "Name", "JobState", "Partition", "TimeLimit",
	"StartTime", "EndTime", "NodeList", "NodeCnt", "ProcCnt", "WorkDir", "ReservationName", "Tres", "Account", "QOS",
	"WcKey", "Cluster", "SubmitTime", "EligibleTime", "DerivedExitCode", "ExitCode"}

// recordable is a name as the record can have it: on one line, and without what reads like
// the next key.
func recordable(name string) string {
	name = rpc.OneLine(name)
	for _, key := range completionFields {
		name = strings.ReplaceAll(name, " "+key+"=", " "+key+"-")
	}
	return name
}

// nextCompletion cuts the first record off what the pipe has given. nil means that
// it is not complete yet.
func nextCompletion(data []byte) (record, rest []byte) {
	end := bytes.IndexByte(data, '\n')
	if cut := completionBuffer - 1; len(data) >= cut && (end < 0 || end >= cut) {
		return data[:cut], data[cut:]
	}
	if end < 0 {
		return nil, data
	}
	return data[:end+1], data[end+1:]
}

// parseCompletion reads one record. Slurm was told to write times in UTC.
func parseCompletion(record []byte) (completion, error) {
	c := completion{task: -1, truncated: !bytes.HasSuffix(record, []byte("\n"))}
	line := strings.TrimSuffix(string(record), "\n")
	fields := map[string]string{}
	rest, ok := strings.CutPrefix(line, completionFields[0]+"=")
	if !ok {
		return c, fmt.Errorf("reading a record of jobcomp/filetxt: %.80q does not begin with JobId=", line)
	}
	for i, key := range completionFields {
		if i+1 == len(completionFields) {
			fields[key] = strings.TrimSpace(rest)
			break
		}
		value, after, found := strings.Cut(rest, " "+completionFields[i+1]+"=")
		if !found {
			if !c.truncated {
				return c, fmt.Errorf("reading a record of jobcomp/filetxt: no %s in %.200q", completionFields[i+1], line)
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
	c.job = uint32(id)
	// "EligibleTime=T ArrayJobId=A ArrayTaskId=B HetJobId=..."
	eligible := strings.Fields(fields["EligibleTime"])
	for _, f := range eligible {
		if v, ok := strings.CutPrefix(f, "ArrayJobId="); ok {
			a, _ := strconv.ParseUint(v, 10, 32)
			c.arrayJob = uint32(a)
		}
		if v, ok := strings.CutPrefix(f, "ArrayTaskId="); ok {
			c.task, _ = strconv.Atoi(v)
		}
	}
	if len(eligible) > 0 {
		fields["EligibleTime"] = eligible[0]
	}
	c.outcome = outcomeOf(fields)
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
		Submit: instant("SubmitTime"), Eligible: instant("EligibleTime"), Start: instant("StartTime"), End: instant("EndTime"),
		NodeCount: number("NodeCnt"), Processors: number("ProcCnt"),
		Account: f["Account"], Partition: f["Partition"], QOS: f["QOS"], Reservation: f["ReservationName"],
	}
	if f["NodeList"] != "(null)" {
		o.Nodes = f["NodeList"]
	}
	if o.Nodes == "" { // never had any: the start is what the scheduler had expected
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
