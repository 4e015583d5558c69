// Package gridengine reads the accounting file of Grid Engine: Sun, Oracle, Univa, Altair, Son of
// Grid Engine and Open Grid Scheduler.
//
// Source: the manual page accounting(5) of Sun Grid Engine 6.2 and of Univa Grid Engine 8, and
// sge_accounting(5) of Open Cluster Scheduler 9, which writes JSON.
package gridengine

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
	"rmreplay/internal/lines"
	"rmreplay/internal/workload"
)

// Format is Grid Engine's accounting file.
var Format = workload.Format{
	Name: "gridengine", Doc: "the accounting file of Grid Engine",
	Looks: "an accounting file of Grid Engine", Recognize: recognize, Read: finished.NewReader(New).Read,
}

const (
	// NoteTask counts the records of tightly integrated tasks. They are left out, because the job's
	// own record has its slots.
	NoteTask = "parallel_task"
	// NoteNodesUnknown counts parallel jobs: the file names only the first of their hosts.
	NoteNodesUnknown = "nodes_not_known"
)

// The fields of a record, from 0. Releases before 6.1 have no fields after peTask.
const (
	qname = iota
	hostname
	group
	owner
	jobName
	jobNumber
	_ // account
	_ // priority
	submission
	start
	end
	failed
	exitStatus
	project    = 31
	grantedPE  = 33
	slots      = 34
	taskNumber = 35
	category   = 39
	peTask     = 41
	reserved   = 43 // the number of an advance reservation
	minFields  = 42 // the number of fields of the oldest release
)

// keys are the fields of a record in JSON.
var keys = map[string]int{
	"qname": qname, "hostname": hostname, "group": group, "owner": owner, "job_name": jobName, "job_number": jobNumber,
	"submission_time": submission, "start_time": start, "end_time": end, "failed": failed, "exit_status": exitStatus,
	"project": project, "granted_pe": grantedPE, "slots": slots, "task_number": taskNumber, "category": category,
	"pe_task_id": peTask, "arid": reserved,
}

// recognize accepts a first record that has enough fields, and times in the three fields for times,
// or a record in JSON.
func recognize(head []byte) workload.Confidence {
	line, _ := lines.First(head)
	if strings.HasPrefix(line, "{") && strings.Contains(line, `"job_number"`) &&
		strings.Contains(line, `"submission_time"`) {
		return workload.Sure
	}
	fields := strings.Split(line, ":")
	if len(fields) < minFields {
		return workload.No
	}
	for _, at := range []int{jobNumber, submission, start, end, slots} {
		if _, err := strconv.ParseUint(fields[at], 10, 63); err != nil {
			return workload.No
		}
	}
	return workload.Sure
}

// New returns a reader of accounting files.
func New(source string, opts workload.ReadOptions) finished.Reader {
	return &reader{b: finished.NewBuilder(source, opts)}
}

type reader struct{ b *finished.Builder }

// Read reads a file.
func (s *reader) Read(r io.Reader, name string) error {
	if err := lines.Each(r, name, func(_ int, line []byte) error { return s.line(line) }); err != nil {
		return fmt.Errorf("reading Grid Engine accounting: %w", err)
	}
	return nil
}

// Finish returns the workload.
func (s *reader) Finish() (*workload.Workload, []string, error) {
	return s.b.Close("Grid Engine accounting")
}

// line reads a line. Lines of one character are not records (accounting(5)).
func (s *reader) line(line []byte) error {
	if len(line) <= 1 || line[0] == '#' {
		return nil
	}
	s.b.Row()
	fields, err := split(line)
	if err != nil {
		return s.b.Unusable(finished.RuleNoRecord, string(line), "%v", err)
	}
	if task := string(fields[peTask]); task != "NONE" && task != "" && task != "none" {
		s.b.Drop(NoteTask)
		return nil
	}
	j, err := parse(fields)
	if err != nil {
		return s.b.Unusable(finished.RuleNoRecord, string(line), "%v", err)
	}
	if err := requested(j, string(fields[category])); err != nil {
		if err := s.b.Fall(finished.RuleBadValue, "job %s: category: %v", j.ID, err); err != nil {
			return err
		}
	}
	if j.AllocNodes == 0 {
		s.b.Note(NoteNodesUnknown)
	}
	return s.b.Add(j, string(line))
}

// split returns the fields of a record, at least [minFields].
func split(line []byte) ([][]byte, error) {
	if line[0] == '{' {
		return splitJSON(line)
	}
	fields := bytes.Split(line, []byte{':'})
	if len(fields) < minFields {
		return nil, fmt.Errorf("%d fields (want at least %d)", len(fields), minFields)
	}
	// A request may contain colons ("-l cpu=24:00:00 -q long"). After the request come iow (a number),
	// the task (a word) and maxvmem (a number).
	for at := category + 1; at+2 < len(fields); at++ {
		word := !isNumber(fields[at+1]) && !bytes.ContainsAny(fields[at+1], " ,=")
		if isNumber(fields[at]) && word && isNumber(fields[at+2]) {
			fields[category] = bytes.Join(fields[category:at], []byte{':'})
			return append(fields[:category+1], fields[at:]...), nil
		}
	}
	return fields, nil
}

func isNumber(text []byte) bool {
	_, err := strconv.ParseFloat(string(text), 64)
	return err == nil
}

// splitJSON returns the fields of a record in JSON. Missing fields are empty.
func splitJSON(line []byte) ([][]byte, error) {
	var record map[string]json.RawMessage
	if err := json.Unmarshal([]byte(lines.UTF8(line)), &record); err != nil {
		return nil, fmt.Errorf("not a record in JSON: %w", err)
	}
	fields := make([][]byte, reserved+1)
	for key, value := range record {
		at, known := keys[key]
		if !known {
			continue
		}
		var text string
		if json.Unmarshal(value, &text) != nil { // a number and not a string
			text = string(value)
		}
		fields[at] = []byte(text)
	}
	return fields, nil
}

// parse reads a record. An error names the field.
func parse(fields [][]byte) (*finished.Job, error) {
	j := &finished.Job{ArrayTask: -1, Elapsed: -1}
	var err error
	number := func(name string, at int, maxValue uint64) uint64 {
		n, e := strconv.ParseUint(string(fields[at]), 10, 63)
		if err == nil && (e != nil || n > maxValue) {
			err = fmt.Errorf("%s %.40q: not a number up to %d", name, fields[at], maxValue)
		}
		return n
	}
	id, task := number("job_number", jobNumber, math.MaxInt64), number("task_number", taskNumber, math.MaxInt32)
	cpus := number("slots", slots, math.MaxInt32)
	j.Submit, j.Start, j.End = instant(number("submission_time", submission, 1<<62)),
		instant(number("start_time", start, 1<<62)), instant(number("end_time", end, 1<<62))
	why, exit := number("failed", failed, math.MaxInt32), number("exit_status", exitStatus, math.MaxInt32)
	if err != nil {
		return nil, err
	}
	text := func(at int) string {
		if at >= len(fields) || string(fields[at]) == "NONE" {
			return ""
		}
		return lines.UTF8(fields[at])
	}
	j.Partition, j.Group, j.User, j.Name, j.Account = text(qname), text(group), text(owner), text(jobName), text(project)
	if j.Partition == "UNKNOWN" { // the job never had a queue
		j.Partition = ""
	}
	if ar := text(reserved); ar != "0" {
		j.Reservation = ar
	}
	j.ID = strconv.FormatUint(id, 10)
	if id <= math.MaxUint32 {
		j.Number = uint32(id)
	}
	if task > 0 {
		j.ID += "_" + strconv.FormatUint(task, 10)
		if j.Number != 0 && task <= hpc.MaxArrayIndex {
			j.ArrayJob, j.ArrayTask, j.Number = j.Number, int(task), 0 // a task has no number of its own
		}
	}
	j.ReqCPUs = int(max(cpus, 1))
	if j.Start > 0 {
		placed(j, text(hostname), cmp.Or(text(grantedPE), environment(text(category))))
	}
	fate(j, why, int(exit))
	return j, nil
}

// instant reads seconds since 1970, the milliseconds of Univa Grid Engine, or the microseconds of
// records in JSON.
func instant(n uint64) hpc.Time {
	switch {
	case n > 7258118400000000:
		return 0
	case n > 7258118400000:
		return hpc.Unix(0).Add(time.Duration(n) * time.Microsecond)
	case n > 7258118400:
		return hpc.Unix(0).Add(time.Duration(n) * time.Millisecond)
	}
	return hpc.Unix(int64(n))
}

// oneHost are words in the names of parallel environments. By convention, all slots of such an
// environment are on one host.
var oneHost = []string{"smp", "thread", "openmp", "omp", "shm", "shared", "serial", "make", "multicore", "mcore",
	"orte_smp"}

// environment returns the parallel environment that a category requests ("-pe mpi 16"). It is used
// for records in JSON, which do not name the granted environment.
func environment(category string) string {
	words := strings.Fields(category)
	if at := slices.Index(words, "-pe"); at >= 0 && at+1 < len(words) {
		return words[at+1]
	}
	return ""
}

// placed sets the nodes and processors of a job. The file has only the first host.
func placed(j *finished.Job, host, pe string) {
	j.AllocCPUs = j.ReqCPUs
	single := j.ReqCPUs == 1 || pe == ""
	for _, word := range oneHost {
		single = single || strings.Contains(strings.ToLower(pe), word)
	}
	if !single {
		return
	}
	j.AllocNodes, j.ReqNodes = 1, 1
	if host != "" && !strings.ContainsAny(host, "[], ") {
		j.NodeList = host
	}
}

// Reasons for a failure (accounting(5), "failed").
const (
	failedMigrating = 24
	failedRerun     = 25
	failedLimit     = 37 // qmaster enforced h_rt, h_cpu or h_vmem
	failedSignal    = 100
)

// fate sets the state.
func fate(j *finished.Job, why uint64, exit int) {
	if exit < 256 {
		j.ExitCode, j.HasExit = exit, true
	}
	switch {
	case j.Start == 0:
		j.State = hpc.Cancelled
	case why == failedMigrating, why == failedRerun:
		j.State = hpc.Requeued
	case why == failedLimit:
		j.State = hpc.TimedOut
	case why == 0 && exit == 0:
		j.State = hpc.Completed
	case why == failedSignal && (exit == 128+9 || exit == 128+15):
		j.State = hpc.Cancelled
	default:
		j.State = hpc.Failed
	}
}

// requested reads the category: the options of qsub that decide where a job can run, for example "-l
// h_rt=3600,mem_free=4G -pe mpi 16 -q all.q". Memory is per slot and GPUs are per job, as at most sites. Unknown
// resources are ignored.
func requested(j *finished.Job, text string) (err error) {
	words := strings.Fields(text)
	for i := 0; i+1 < len(words); i++ {
		if words[i] != "-l" {
			continue
		}
		for item := range strings.SplitSeq(words[i+1], ",") {
			name, value, _ := strings.Cut(item, "=")
			switch name {
			case "h_rt", "s_rt":
				limit, e := duration(value)
				if e != nil {
					err = fmt.Errorf("%s=%.40s: %w", name, value, e)
				} else if j.TimeLimit == 0 || name == "h_rt" {
					j.TimeLimit = limit
				}
			case "mem_free", "h_vmem", "virtual_free", "m_mem_free", "mem", "h_rss":
				mib, e := mebibytes(value)
				if e != nil {
					err = fmt.Errorf("%s=%.40s: %w", name, value, e)
				} else {
					j.MemPerCPU = max(j.MemPerCPU, mib)
				}
			case "gpu", "gpus", "ngpus", "cuda":
				if n, e := strconv.ParseUint(strings.TrimSuffix(value, ".000000"), 10, 16); e == nil && n > 0 {
					j.GPUs = strconv.FormatUint(n, 10)
				}
			}
		}
	}
	if j.State == hpc.Cancelled && j.Start > 0 && j.TimeLimit > 0 && j.End.Sub(j.Start) >= j.TimeLimit {
		j.State = hpc.TimedOut // killed at h_rt
	}
	return err
}

// duration reads "[[HH:]MM:]SS" (sge_types(1)). Grid Engine mostly writes seconds.
func duration(text string) (time.Duration, error) {
	if strings.EqualFold(text, "INFINITY") {
		return hpc.Unlimited, nil
	}
	total := 0.0
	for i, part := range strings.Split(text, ":") {
		n, err := strconv.ParseFloat(part, 64)
		if total = 60*total + n; err != nil || i > 2 || !(n >= 0 && total <= 4e9) {
			return 0, errors.New("not a duration (want seconds, or HH:MM:SS)")
		}
	}
	return time.Duration(total) * time.Second, nil
}

// mebibytes reads "4G" and rounds up to MiB. Units in capital letters are powers of 1024, and small
// letters powers of 1000 (sge_types(1)).
func mebibytes(text string) (int64, error) {
	number, unit := text, 1.0
	if text != "" {
		letter := text[len(text)-1]
		if at := strings.IndexByte("KMGT", letter&^0x20); at >= 0 {
			number = text[:len(text)-1]
			base := 1024.0
			if letter >= 'a' {
				base = 1000
			}
			unit = math.Pow(base, float64(at+1))
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if mib := n * unit / (1 << 20); err == nil && mib >= 0 && mib < 1<<40 {
		return int64(math.Ceil(mib)), nil
	}
	return 0, errors.New("not an amount of memory (want 4G)")
}
