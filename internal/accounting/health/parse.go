package health

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
)

// errMeans means that sdiag's JSON has only means over cycles and no sums, as in 23.02 and 23.11 (data_parser v0.0.39
// and v0.0.40).
var errMeans = errors.New("sdiag --json has no sums of cycles")

// maxNumber is the highest valid counter, so that sums of counters cannot overflow.
const maxNumber = 1 << 53

// number is a number in sdiag's JSON: plain, or an object with the members "set", "infinite" and
// "number".
type number int64

// UnmarshalJSON implements [json.Unmarshaler].
func (n *number) UnmarshalJSON(text []byte) error {
	var plain json.Number
	if err := json.Unmarshal(text, &plain); err != nil {
		var object struct {
			Set    *bool
			Number json.Number
		}
		if err := json.Unmarshal(text, &object); err != nil {
			return fmt.Errorf("%.80s is not a number", text)
		}
		if plain = object.Number; object.Set != nil && !*object.Set {
			plain = "0"
		}
	}
	value, err := counter(plain.String())
	*n = number(value)
	return err
}

// counter parses a counter.
func counter(text string) (int64, error) {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		var f float64
		if f, err = strconv.ParseFloat(text, 64); err == nil {
			v = int64(math.Max(-1, math.Min(f, 2*maxNumber)))
		}
	}
	if err != nil || v < 0 || v > maxNumber {
		return 0, fmt.Errorf("%q is not a counter (want a number from 0 to %d)", text, int64(maxNumber))
	}
	return v, nil
}

// ends maps the reasons for which cycles ended, as the JSON names them, to the numbers of these cycles.
type ends map[string]number

func (e ends) exits() (list []rm.Exits) {
	for _, name := range slices.Sorted(maps.Keys(e)) {
		list = append(list, rm.Exits{Name: name, Count: int64(e[name])})
	}
	return list
}

// micros converts microseconds to a duration. A number that [counter] returns is small enough for a duration.
func micros(n number) time.Duration { return time.Duration(n) * time.Microsecond }

// ParseJSON parses the output of sdiag --json of Slurm 24.05 and newer.
func ParseJSON(text []byte) (*rm.Statistics, error) {
	var answer struct {
		Statistics *struct {
			ReqTime           number `json:"req_time"`
			ReqTimeStart      number `json:"req_time_start"`
			ServerThreadCount number `json:"server_thread_count"`
			AgentQueueSize    number `json:"agent_queue_size"`
			AgentCount        number `json:"agent_count"`
			DBDAgentQueueSize number `json:"dbd_agent_queue_size"`

			JobsSubmitted number `json:"jobs_submitted"`
			JobsStarted   number `json:"jobs_started"`
			JobsCompleted number `json:"jobs_completed"`
			JobsCanceled  number `json:"jobs_canceled"`
			JobsFailed    number `json:"jobs_failed"`
			JobsPending   number `json:"jobs_pending"`
			JobsRunning   number `json:"jobs_running"`

			CycleMax    number  `json:"schedule_cycle_max"`
			CycleLast   number  `json:"schedule_cycle_last"`
			CycleSum    *number `json:"schedule_cycle_sum"`
			CycleTotal  number  `json:"schedule_cycle_total"`
			CycleDepth  number  `json:"schedule_cycle_depth"`
			QueueLength number  `json:"schedule_queue_length"`
			Exit        ends    `json:"schedule_exit"`

			BFJobs     number `json:"bf_last_backfilled_jobs"`
			BFCycles   number `json:"bf_cycle_counter"`
			BFSum      number `json:"bf_cycle_sum"`
			BFLast     number `json:"bf_cycle_last"`
			BFMax      number `json:"bf_cycle_max"`
			BFDepth    number `json:"bf_depth_sum"`
			BFTried    number `json:"bf_depth_try_sum"`
			BFQueueLen number `json:"bf_queue_len"`
			BFTable    number `json:"bf_table_size"`
			BFExit     ends   `json:"bf_exit"`

			RPCs []struct {
				TypeID      number `json:"type_id"`
				MessageType string `json:"message_type"`
				Count       number `json:"count"`
				TotalTime   number `json:"total_time"`
			} `json:"rpcs_by_message_type"`
		} `json:"statistics"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("reading the JSON of sdiag: %w", err)
	}
	a := answer.Statistics
	if a == nil {
		return nil, errors.New(`reading the JSON of sdiag: it has no "statistics" (want the output of sdiag --json)`)
	}
	if a.CycleSum == nil {
		return nil, errMeans
	}
	s := &rm.Statistics{
		ServerThreads: int64(a.ServerThreadCount), Agents: int64(a.AgentCount),
		AgentQueue: int64(a.AgentQueueSize), DBDQueue: int64(a.DBDAgentQueueSize),
		JobsPending: int64(a.JobsPending), JobsRunning: int64(a.JobsRunning), JobsSubmitted: int64(a.JobsSubmitted),
		JobsStarted: int64(a.JobsStarted), JobsCompleted: int64(a.JobsCompleted), JobsCancelled: int64(a.JobsCanceled),
		JobsFailed: int64(a.JobsFailed), JobsBackfilled: int64(a.BFJobs),
		MainCycles: int64(a.CycleTotal), MainSum: micros(*a.CycleSum), MainLast: micros(a.CycleLast),
		MainMax: micros(a.CycleMax), MainDepth: int64(a.CycleDepth), MainQueue: int64(a.QueueLength),
		MainExits:      a.Exit.exits(),
		BackfillCycles: int64(a.BFCycles), BackfillSum: micros(a.BFSum), BackfillLast: micros(a.BFLast),
		BackfillMax: micros(a.BFMax), BackfillDepth: int64(a.BFDepth), BackfillTried: int64(a.BFTried),
		BackfillQueue: int64(a.BFQueueLen), BackfillTable: int64(a.BFTable), BackfillExits: a.BFExit.exits(),
	}
	byName := make(map[string]rm.Requests)
	for _, r := range a.RPCs {
		name := r.MessageType
		if name == "" {
			name = fmt.Sprint(int64(r.TypeID))
		}
		byName[name] = rm.Requests{Type: name, Count: int64(r.Count), Time: micros(r.TotalTime)}
	}
	return complete(s, int64(a.ReqTime), int64(a.ReqTimeStart), byName)
}

// complete sets the requests, sorted by name, and the instants, which are given in seconds since
// 1970. It returns an error for impossible instants.
func complete(s *rm.Statistics, at, since int64, requests map[string]rm.Requests) (*rm.Statistics, error) {
	const first, last = 1_000_000_000, 9_000_000_000 // 2001 and 2255
	if at < first || at > last || since > last {
		return nil, fmt.Errorf("reading the output of sdiag: impossible instants: its time is %s, and it counts since %s",
			time.Unix(at, 0).UTC().Format(time.RFC3339), time.Unix(since, 0).UTC().Format(time.RFC3339))
	}
	s.At, s.Since = hpc.Unix(at), hpc.Unix(since)
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		s.Requests = append(s.Requests, requests[name])
	}
	return s, nil
}

// exitNames maps the reasons for the end of a cycle that sdiag prints (schedule_exit2string and
// bf_exit2string in slurm_protocol_defs.c) to the names in its JSON.
var exitNames = map[string]string{
	"End of job queue": "end_job_queue", "Hit default_queue_depth": "default_queue_depth",
	"Hit sched_max_job_start": "max_job_start",
	"Blocked on licenses":     "licenses", "Hit max_rpc_cnt": "max_rpc_cnt", "Timeout (max_sched_time)": "max_sched_time",
	"Hit bf_max_job_start": "bf_max_job_start", "Hit bf_max_job_test": "bf_max_job_test",
	"System state changed":                      "state_changed",
	"Hit table size limit (bf_node_space_size)": "bf_node_space_size", "Timeout (bf_max_time)": "bf_max_time",
}

var (
	instantSyntax = regexp.MustCompile(`^(?:sdiag output at|Data since)\s.*\((\d+)\)$`)
	rpcSyntax     = regexp.MustCompile(`^(\S+)\s*\(\s*\d+\) count:(\d+)\s+ave_time:\d+\s+total_time:(\d+)`)
)

// The sections of sdiag's text. The meaning of a line such as "Last cycle" depends on the section.
const (
	inHead = iota
	inMain
	inMainExits
	inBackfill
	inBackfillExits
	inRPCs
	inRest
)

// sections has the first words of the title of each section.
var sections = []struct {
	begin   string
	section int
}{
	{"Main schedule statistics", inMain}, {"Main scheduler exit", inMainExits}, {"Backfilling stats", inBackfill},
	{"Backfill exit", inBackfillExits},
	{"Remote Procedure Call statistics by message type", inRPCs}, {"Remote Procedure Call statistics by user", inRest},
	{"Pending RPC", inRest},
}

// ParseText parses the output of sdiag without options, of any release. The output has rounded
// means of cycles, so the sums computed from them are slightly too small. In the difference of two
// sums, the error is at most one microsecond, or one job, for each cycle since midnight.
func ParseText(text []byte) (*rm.Statistics, error) {
	s := &rm.Statistics{}
	var mean means
	var at, since int64 // seconds
	// The fields of type duration first get microseconds, as in the text; multiply converts them.
	head := map[string]*int64{
		"Server thread count": &s.ServerThreads, "Agent queue size": &s.AgentQueue, "Agent count": &s.Agents,
		"DBD Agent queue size": &s.DBDQueue, "Jobs submitted": &s.JobsSubmitted, "Jobs started": &s.JobsStarted,
		"Jobs completed": &s.JobsCompleted, "Jobs canceled": &s.JobsCancelled, "Jobs failed": &s.JobsFailed,
		"Jobs pending": &s.JobsPending, "Jobs running": &s.JobsRunning,
	}
	fields := map[int]map[string]*int64{
		inHead: head,
		inMain: {
			"Last cycle": (*int64)(&s.MainLast), "Max cycle": (*int64)(&s.MainMax), "Total cycles": &s.MainCycles,
			"Mean cycle": &mean.cycle, "Mean depth cycle": &mean.depth, "Last queue length": &s.MainQueue,
		},
		inBackfill: {
			"Total backfilled jobs (since last stats cycle start)": &s.JobsBackfilled, "Total cycles": &s.BackfillCycles,
			"Last cycle": (*int64)(&s.BackfillLast), "Max cycle": (*int64)(&s.BackfillMax), "Mean cycle": &mean.bfCycle,
			"Depth Mean": &mean.bfDepth, "Depth Mean (try depth)": &mean.bfTried,
			"Last queue length": &s.BackfillQueue, "Last table size": &s.BackfillTable,
		},
	}
	byName := make(map[string]rm.Requests)
	section := inHead
	seen := 0
lines:
	for raw := range bytes.Lines(text) {
		line := strings.TrimSpace(string(raw))
		for _, b := range sections {
			if strings.HasPrefix(line, b.begin) {
				section = b.section
				continue lines
			}
		}
		if section == inRPCs {
			if err := addRPC(byName, line); err != nil {
				return nil, err
			}
			continue
		}
		if is, err := instant(line, &at, &since); err != nil {
			return nil, err
		} else if is {
			continue
		}
		if line == "" && (section == inMainExits || section == inBackfillExits) {
			section = inRest
		}
		colon := strings.LastIndexByte(line, ':')
		if colon < 0 {
			continue
		}
		name, value := strings.TrimSpace(line[:colon]), strings.TrimSpace(line[colon+1:])
		to := fields[section][name]
		if to == nil && section != inMainExits && section != inBackfillExits {
			continue
		}
		n, err := counter(value)
		if err != nil {
			return nil, fmt.Errorf("reading the output of sdiag: %q: %w", line, err)
		}
		switch section {
		case inMainExits:
			s.MainExits = exit(s.MainExits, name, n)
		case inBackfillExits:
			s.BackfillExits = exit(s.BackfillExits, name, n)
		default:
			*to = n
			seen++
		}
	}
	if at == 0 || seen < len(head) {
		return nil, fmt.Errorf("reading the output of sdiag: only %d of %d lines of its statistics were found: %.200q",
			seen, len(head), text)
	}
	if err := multiply(s, mean); err != nil {
		return nil, err
	}
	return complete(s, at, since, byName)
}

// addRPC parses a line with requests of one type.
func addRPC(byName map[string]rm.Requests, line string) error {
	m := rpcSyntax.FindStringSubmatch(line)
	if m == nil {
		return nil
	}
	n, err := counter(m[2])
	total, err2 := counter(m[3])
	if err := errors.Join(err, err2); err != nil {
		return fmt.Errorf("reading the output of sdiag: %q: %w", line, err)
	}
	byName[m[1]] = rm.Requests{Type: m[1], Count: n, Time: micros(number(total))}
	return nil
}

// instant parses the two lines with instants: the time of the output, and the time since which sdiag counts. Both are
// in seconds since 1970. It returns false for any other line.
func instant(line string, at, since *int64) (is bool, err error) {
	m := instantSyntax.FindStringSubmatch(line)
	if m == nil {
		return false, nil
	}
	to := at
	if strings.HasPrefix(line, "Data") {
		to = since
	}
	if *to, err = counter(m[1]); err != nil {
		return false, fmt.Errorf("reading the output of sdiag: %q: %w", line, err)
	}
	return true, nil
}

// means are the means in sdiag's text, in microseconds or jobs.
type means struct{ cycle, depth, bfCycle, bfDepth, bfTried int64 }

// multiply computes the sums from the means, and converts microseconds to durations.
func multiply(s *rm.Statistics, mean means) error {
	for _, product := range []struct {
		to             *int64
		count, average int64
	}{
		{(*int64)(&s.MainSum), s.MainCycles, mean.cycle}, {&s.MainDepth, s.MainCycles, mean.depth},
		{(*int64)(&s.BackfillSum), s.BackfillCycles, mean.bfCycle}, {&s.BackfillDepth, s.BackfillCycles, mean.bfDepth},
		{&s.BackfillTried, s.BackfillCycles, mean.bfTried},
	} {
		if product.count > 0 && product.average > maxNumber/product.count {
			return fmt.Errorf("reading the output of sdiag: the sum of %d cycles with a mean of %d is too large",
				product.count, product.average)
		}
		*product.to = product.count * product.average
	}
	for _, d := range []*time.Duration{
		&s.MainLast, &s.MainMax, &s.MainSum, &s.BackfillLast, &s.BackfillMax, &s.BackfillSum,
	} {
		*d *= time.Microsecond
	}
	return nil
}

// exit adds n cycles to list, under the JSON's name of the reason that sdiag calls name.
func exit(list []rm.Exits, name string, n int64) []rm.Exits {
	if short, ok := exitNames[name]; ok {
		name = short
	}
	return append(list, rm.Exits{Name: name, Count: n})
}
