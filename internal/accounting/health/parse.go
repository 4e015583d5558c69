package health

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// errMeans says that a release's JSON has the means of cycles only and not their sums: 23.02 and
// 23.11 (data_parser v0.0.39 and v0.0.40).
var errMeans = errors.New("sdiag --json has no sums of cycles")

// most bounds counters. Sums of them stay far from overflow.
const most = 1 << 53

// number is a number of sdiag's JSON: plain, or an object with its number ("set", "infinite").
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
			return fmt.Errorf("%.80s is no number", text)
		}
		if plain = object.Number; object.Set != nil && !*object.Set {
			plain = "0"
		}
	}
	value, err := counter(plain.String())
	*n = number(value)
	return err
}

// counter reads a counter.
func counter(text string) (int64, error) {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		var f float64
		if f, err = strconv.ParseFloat(text, 64); err == nil {
			v = int64(math.Max(-1, math.Min(f, 2*most)))
		}
	}
	if err != nil || v < 0 || v > most {
		return 0, fmt.Errorf("%q is no counter (want a number from 0 to %d)", text, int64(most))
	}
	return v, nil
}

// exits are the reasons that the JSON has for the ends of cycles.
type exits map[string]number

func (e exits) counts() map[string]int64 {
	if e == nil {
		return nil
	}
	out := make(map[string]int64, len(e))
	for name, n := range e {
		out[name] = int64(n)
	}
	return out
}

// ParseJSON reads the output of sdiag --json, of Slurm 24.05 and newer.
func ParseJSON(text []byte) (*Sample, error) {
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
			Exit        exits   `json:"schedule_exit"`

			BFJobs     number `json:"bf_last_backfilled_jobs"`
			BFCycles   number `json:"bf_cycle_counter"`
			BFSum      number `json:"bf_cycle_sum"`
			BFLast     number `json:"bf_cycle_last"`
			BFMax      number `json:"bf_cycle_max"`
			BFDepth    number `json:"bf_depth_sum"`
			BFTried    number `json:"bf_depth_try_sum"`
			BFQueueLen number `json:"bf_queue_len"`
			BFTable    number `json:"bf_table_size"`
			BFExit     exits  `json:"bf_exit"`

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
		return nil, errors.New(`reading the JSON of sdiag: it has no "statistics"`)
	}
	if a.CycleSum == nil {
		return nil, errMeans
	}
	s := &Sample{
		Time: time.Unix(int64(a.ReqTime), 0).UTC(), Since: time.Unix(int64(a.ReqTimeStart), 0).UTC(),
		ServerThreads: int64(a.ServerThreadCount), Agents: int64(a.AgentCount),
		AgentQueue: int64(a.AgentQueueSize), DBDQueue: int64(a.DBDAgentQueueSize),
		JobsPending: int64(a.JobsPending), JobsRunning: int64(a.JobsRunning),
		Submitted: int64(a.JobsSubmitted), Started: int64(a.JobsStarted), Completed: int64(a.JobsCompleted),
		Main: Cycles{
			Count: int64(a.CycleTotal), Sum: int64(*a.CycleSum), Last: int64(a.CycleLast), Max: int64(a.CycleMax),
			Depth: int64(a.CycleDepth), Queue: int64(a.QueueLength), Exits: a.Exit.counts(),
		},
		Backfill: Cycles{
			Count: int64(a.BFCycles), Sum: int64(a.BFSum), Last: int64(a.BFLast), Max: int64(a.BFMax),
			Depth: int64(a.BFDepth), Tried: int64(a.BFTried), Queue: int64(a.BFQueueLen), Exits: a.BFExit.counts(),
		},
		Cancelled: int64(a.JobsCanceled), Failed: int64(a.JobsFailed), Backfilled: int64(a.BFJobs), Table: int64(a.BFTable),
	}
	byName := make(map[string]RPC)
	for _, r := range a.RPCs {
		name := r.MessageType
		if name == "" {
			name = fmt.Sprint(int64(r.TypeID))
		}
		byName[name] = RPC{Name: name, Count: int64(r.Count), Total: int64(r.TotalTime)}
	}
	s.RPCs = sortRPCs(byName)
	return s, s.check()
}

// check refuses samples that cannot be.
func (s *Sample) check() error {
	if s.Time.Unix() < 1e9 {
		return fmt.Errorf("reading the output of sdiag: its time is %s", s.Time.Format(time.RFC3339))
	}
	return nil
}

// exitNames are the names that sdiag prints for the ends of cycles (schedule_exit2string and
// bf_exit2string in slurm_protocol_defs.c), and those of its JSON.
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

// Texts of sdiag have sections, in which lines such as "Last cycle" have different meanings.
const (
	inHead = iota
	inMain
	inMainExits
	inBackfill
	inBackfillExits
	inRPCs
	inRest
)

// sections are the beginnings of the lines that begin sections.
var sections = []struct {
	begin   string
	section int
}{
	{"Main schedule statistics", inMain}, {"Main scheduler exit", inMainExits}, {"Backfilling stats", inBackfill},
	{"Backfill exit", inBackfillExits},
	{"Remote Procedure Call statistics by message type", inRPCs}, {"Remote Procedure Call statistics by user", inRest},
	{"Pending RPC", inRest},
}

// ParseText reads the output of sdiag without options, of any release. It has the means of cycles as
// whole numbers, so the sums are a little too small: a difference of two is exact to the number of
// cycles since midnight, in microseconds or jobs.
func ParseText(text []byte) (*Sample, error) {
	s := &Sample{}
	var mean means
	head := map[string]*int64{
		"Server thread count": &s.ServerThreads, "Agent queue size": &s.AgentQueue, "Agent count": &s.Agents,
		"DBD Agent queue size": &s.DBDQueue,
		"Jobs submitted":       &s.Submitted, "Jobs started": &s.Started, "Jobs completed": &s.Completed,
		"Jobs canceled": &s.Cancelled,
		"Jobs failed":   &s.Failed, "Jobs pending": &s.JobsPending, "Jobs running": &s.JobsRunning,
	}
	fields := map[int]map[string]*int64{
		inHead: head,
		inMain: {
			"Last cycle": &s.Main.Last, "Max cycle": &s.Main.Max, "Total cycles": &s.Main.Count, "Mean cycle": &mean.cycle,
			"Mean depth cycle": &mean.depth, "Last queue length": &s.Main.Queue,
		},
		inBackfill: {
			"Total backfilled jobs (since last stats cycle start)": &s.Backfilled, "Total cycles": &s.Backfill.Count,
			"Last cycle": &s.Backfill.Last,
			"Max cycle":  &s.Backfill.Max, "Mean cycle": &mean.bfCycle, "Depth Mean": &mean.bfDepth,
			"Depth Mean (try depth)": &mean.bfTried,
			"Last queue length":      &s.Backfill.Queue, "Last table size": &s.Table,
		},
	}
	byName := make(map[string]RPC)
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
		if is, err := s.instant(line); err != nil {
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
			s.Main.exit(name, n)
		case inBackfillExits:
			s.Backfill.exit(name, n)
		default:
			*to = n
			seen++
		}
	}
	if s.Time.IsZero() || seen < len(head) {
		return nil, fmt.Errorf("reading the output of sdiag: it has %d of the lines of its statistics: %.200q", seen, text)
	}
	if err := s.multiply(mean); err != nil {
		return nil, err
	}
	s.RPCs = sortRPCs(byName)
	return s, s.check()
}

// addRPC takes a line of the requests by type.
func addRPC(byName map[string]RPC, line string) error {
	m := rpcSyntax.FindStringSubmatch(line)
	if m == nil {
		return nil
	}
	n, err := counter(m[2])
	total, err2 := counter(m[3])
	if err := errors.Join(err, err2); err != nil {
		return fmt.Errorf("reading the output of sdiag: %q: %w", line, err)
	}
	byName[m[1]] = RPC{Name: m[1], Count: n, Total: total}
	return nil
}

// instant takes a line with the time of the output, or since when it counts, and tells whether it is one.
func (s *Sample) instant(line string) (is bool, err error) {
	m := instantSyntax.FindStringSubmatch(line)
	if m == nil {
		return false, nil
	}
	at, err := counter(m[1])
	if err != nil {
		return false, fmt.Errorf("reading the output of sdiag: %q: %w", line, err)
	}
	if strings.HasPrefix(line, "Data") {
		s.Since = time.Unix(at, 0).UTC()
	} else {
		s.Time = time.Unix(at, 0).UTC()
	}
	return true, nil
}

// means are those of the text: microseconds, and jobs.
type means struct{ cycle, depth, bfCycle, bfDepth, bfTried int64 }

// multiply makes sums of the means.
func (s *Sample) multiply(mean means) error {
	for _, product := range []struct {
		to             *int64
		count, average int64
	}{
		{&s.Main.Sum, s.Main.Count, mean.cycle}, {&s.Main.Depth, s.Main.Count, mean.depth},
		{&s.Backfill.Sum, s.Backfill.Count, mean.bfCycle}, {&s.Backfill.Depth, s.Backfill.Count, mean.bfDepth},
		{&s.Backfill.Tried, s.Backfill.Count, mean.bfTried},
	} {
		if product.count > 0 && product.average > most/product.count {
			return fmt.Errorf("reading the output of sdiag: %d cycles with a mean of %d", product.count, product.average)
		}
		*product.to = product.count * product.average
	}
	return nil
}

// exit counts the ends of cycles for a reason that sdiag prints.
func (c *Cycles) exit(name string, n int64) {
	if c.Exits == nil {
		c.Exits = make(map[string]int64)
	}
	if short, ok := exitNames[name]; ok {
		name = short
	}
	c.Exits[name] = n
}
