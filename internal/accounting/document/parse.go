package document

import (
	"bytes"
	"cmp"
	"hash/fnv"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/lines"
	"rmreplay/internal/slurmspec"
)

// latestInstant is the latest valid time, in seconds since 1970: the end of the year 2199, as in
// package slurmspec. A later time is a bad value.
const latestInstant = slurmspec.LastInstant

// maxCount is the highest valid number of processors, nodes, GPUs, or MiB of memory.
const maxCount = 1 << 40

// Parse parses a document. cluster is used if the document names no cluster. For every text, even an invalid one,
// Parse returns a job that can be stored. The job's marks describe the mistakes of the text.
func Parse(text []byte, cluster string) Job {
	p := parser{job: Job{Cluster: cluster}}
	p.read(text)
	return p.job
}

// Identify returns a job with only Cluster, JobID and Run. These fields have the values that [Parse] would return, but
// Identify is faster.
func Identify(text []byte, cluster string) Job {
	p := parsers.Get().(*parser)
	p.job.Cluster, p.identity = cluster, true
	p.read(text)
	job := Job{Cluster: p.job.Cluster, JobID: p.job.JobID, Run: p.job.Run}
	*p = parser{} // otherwise the pool would keep parts of the text in memory
	parsers.Put(p)
	return job
}

// parsers are unused parsers for Identify.
var parsers = sync.Pool{New: func() any { return new(parser) }}

// parser reads one document.
type parser struct {
	job      Job
	given    uint64 // set of the fields that the document has, by field.bit
	identity bool   // set only the fields that decide Cluster, JobID and Run
	waits    string // text of [WaitsText], from the document of a run
	// memPerNode and memPerCPU are the requested memory in MiB. A negative number means all of a node's memory.
	memPerNode, memPerCPU int64
}

// read reads a whole document.
func (p *parser) read(text []byte) {
	readable := string(text)
	if !utf8.ValidString(readable) {
		readable = lines.UTF8(text)
		p.job.Marks = NotUTF8
	}
	begin := *p
	if !p.flat(readable) {
		*p = begin
		p.object(readable)
	}
	p.finish(text)
}

// member sets the field of a key. The value is not an object or an array.
func (p *parser) member(key string, v value) {
	if p.identity && !identifies(key) {
		return
	}
	field, known := fields[key]
	if !known {
		if !unread[key] {
			p.job.Marks |= UnknownKey
		}
		return
	}
	if p.given&(1<<field.bit) != 0 {
		p.job.Marks |= RepeatedKey
	}
	p.given |= 1 << field.bit
	if v.kind != 'n' && !field.set(p, v) {
		p.job.Marks |= BadValue
	}
}

// identifies reports whether the value of a key affects Cluster, JobID or Run: see [parser.times] and
// [parser.identify].
func identifies(key string) bool {
	switch key {
	case "cluster", "jobid", "state", "nodes", "@submit", "@start", "@end",
		"array_job_id", "array_task_id", "het_job_id", "het_job_offset":
		return true
	}
	return false
}

// value is a JSON value that is not an object or an array. text is the decoded string, or the
// literal as written. kind is the kind in package jsontext.
type value struct {
	kind jsontext.Kind
	text string
}

// object reads the members of a document of any form.
func (p *parser) object(text string) {
	d := jsontext.NewDecoder(bytes.NewBufferString(text), jsontext.AllowDuplicateNames(true))
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		p.job.Marks |= NotJSON
		return
	}
	for {
		name, err := d.ReadToken()
		if err != nil {
			p.job.Marks |= NotJSON
			return
		}
		if name.Kind() == '}' {
			break
		}
		key := name.String()
		if d.PeekKind() == '{' || d.PeekKind() == '[' {
			if d.SkipValue() != nil {
				p.job.Marks |= NotJSON
				return
			}
			if _, known := fields[key]; known || unread[key] {
				p.job.Marks |= BadValue
			} else {
				p.job.Marks |= UnknownKey
			}
			continue
		}
		token, err := d.ReadToken()
		if err != nil {
			p.job.Marks |= NotJSON
			return
		}
		p.member(key, value{token.Kind(), token.String()})
	}
	if _, err := d.ReadToken(); err == nil { // there is more text after the object
		p.job.Marks |= NotJSON
	}
}

// field describes a key of the documents.
type field struct {
	bit int
	// set stores a value; it is never called with null, an object or an array. It returns false for
	// an invalid value.
	set func(p *parser, v value) bool
}

// fields maps the keys of all releases to their fields. clusterBit and nodesBit are the bits of "cluster" and "nodes"
// in [parser.given].
var (
	fields               = make(map[string]field)
	clusterBit, nodesBit int
)

// register adds a key.
func register(key string, set func(p *parser, v value) bool) {
	fields[key] = field{len(fields), set}
}

// MaxText is the highest number of bytes of a text in a [Job]. Slurm's own texts are shorter,
// except lists of very many nodes. The limit is needed because users choose the texts of their
// jobs, and every question reads these texts.
const MaxText = 64 << 10

// registerText adds a key whose value is a text.
func registerText(key string, of func(j *Job) *string) {
	register(key, func(p *parser, v value) bool {
		if v.kind != '"' {
			return false
		}
		text := v.text
		if len(text) > MaxText {
			if key == "cluster" { // the cluster identifies jobs, so it must not be cut
				return false
			}
			p.job.Marks |= LongText
			text = strings.ToValidUTF8(text[:MaxText], "")
		}
		*of(&p.job) = text
		return true
	})
}

// registerNumber adds a key whose value is a whole number from minValue to maxValue.
func registerNumber(key string, minValue, maxValue int64, of func(j *Job) *Int) {
	register(key, func(p *parser, v value) bool {
		n, ok := integer(v)
		if ok = ok && minValue <= n && n <= maxValue; ok {
			*of(&p.job) = KnownInt(n)
		}
		return ok
	})
}

// registerTime adds a key whose value is an instant.
func registerTime(key string, of func(j *Job) *time.Time) {
	register(key, func(p *parser, v value) bool {
		t, ok := readTime(v)
		if ok {
			*of(&p.job) = t
		}
		return ok
	})
}

// registerRequest registers the keys of requested CPUs, nodes and memory.
func registerRequest() {
	registerNumber("req_cpus", 0, maxCount, func(j *Job) *Int { return &j.ReqCPUs })
	registerNumber("req_nodes", 0, maxCount, func(j *Job) *Int { return &j.ReqNodes })
	registerNumber("req_mem", 0, maxCount, func(j *Job) *Int { return &j.ReqMemMiB })
	registerMemory("req_mem_per_node", func(p *parser) *int64 { return &p.memPerNode })
	registerMemory("req_mem_per_cpu", func(p *parser) *int64 { return &p.memPerCPU })
}

func registerMemory(key string, of func(p *parser) *int64) {
	register(key, func(p *parser, v value) bool {
		n, ok := integer(v)
		if ok = ok && -1 <= n && n <= maxCount; ok {
			*of(p) = n
		}
		return ok
	})
}

func init() {
	register("jobid", func(p *parser, v value) bool {
		n, ok := integer(v)
		if ok = ok && 0 < n && n <= math.MaxUint32; ok {
			p.job.JobID = n
		}
		return ok
	})
	registerText("cluster", func(j *Job) *string { return &j.Cluster })
	clusterBit = fields["cluster"].bit
	registerText("state", func(j *Job) *string { return &j.State })
	registerTime("@submit", func(j *Job) *time.Time { return &j.Submit })
	registerTime("@eligible", func(j *Job) *time.Time { return &j.Eligible })
	registerTime("@start", func(j *Job) *time.Time { return &j.Start })
	registerTime("@end", func(j *Job) *time.Time { return &j.End })
	registerNumber("elapsed", math.MinInt64, math.MaxInt64, func(j *Job) *Int { return &j.Elapsed })
	registerNumber("time_limit", 0, slurmspec.MaxSeconds, func(j *Job) *Int { return &j.Limit })
	registerNumber("total_cpus", 0, maxCount, func(j *Job) *Int { return &j.CPUs })
	registerNumber("total_nodes", 0, maxCount, func(j *Job) *Int { return &j.Nodes })
	registerRequest()
	register("exit_code", func(p *parser, v value) bool {
		return setExit(v, &p.job.ExitCode, &p.job.ExitSignal)
	})
	register("derived_ec", func(p *parser, v value) bool {
		return setExit(v, &p.job.DerivedCode, &p.job.DerivedSignal)
	})
	registerText("username", func(j *Job) *string { return &j.User })
	registerText("groupname", func(j *Job) *string { return &j.Group })
	registerNumber("user_id", 0, math.MaxUint32, func(j *Job) *Int { return &j.UserID })
	registerNumber("group_id", 0, math.MaxUint32, func(j *Job) *Int { return &j.GroupID })
	registerText("account", func(j *Job) *string { return &j.Account })
	registerText("parent_accounts", func(j *Job) *string { return &j.ParentAccounts })
	registerText("partition", func(j *Job) *string { return &j.Partition })
	registerText("qos", func(j *Job) *string { return &j.QOS })
	registerText("wc_key", func(j *Job) *string { return &j.WCKey })
	registerText("reservation_name", func(j *Job) *string { return &j.Reservation })
	registerText("job_name", func(j *Job) *string { return &j.Name })
	registerText("container", func(j *Job) *string { return &j.Container })
	registerNumber("array_job_id", 0, math.MaxUint32, func(j *Job) *Int { return &j.ArrayJobID })
	registerNumber("array_task_id", 0, math.MaxUint32, func(j *Job) *Int { return &j.ArrayTaskID })
	registerNumber("het_job_id", 0, math.MaxUint32, func(j *Job) *Int { return &j.HetJobID })
	registerNumber("het_job_offset", 0, math.MaxUint32, func(j *Job) *Int { return &j.HetJobOffset })
	registerNumber("ntasks", 0, maxCount, func(j *Job) *Int { return &j.Tasks })
	registerNumber("ntasks_per_node", 0, maxCount, func(j *Job) *Int { return &j.TasksPerNode })
	registerNumber("ntasks_per_tres", 0, maxCount, func(j *Job) *Int { return &j.TasksPerTRES })
	registerNumber("cpus_per_task", 0, maxCount, func(j *Job) *Int { return &j.CPUsPerTask })
	registerNumber("priority", 0, math.MaxUint32, func(j *Job) *Int { return &j.Priority })
	registerText("nodes", func(j *Job) *string { return &j.NodeList })
	nodesBit = fields["nodes"].bit
	registerText("alloc_node", func(j *Job) *string { return &j.AllocNode })
	registerText("failed_node", func(j *Job) *string { return &j.FailedNode })
	registerText("excluded_nodes", func(j *Job) *string { return &j.ExcludedNodes })
	registerText("work_dir", func(j *Job) *string { return &j.WorkDir })
	registerText("std_in", func(j *Job) *string { return &j.StdIn })
	registerText("std_out", func(j *Job) *string { return &j.StdOut })
	registerText("std_err", func(j *Job) *string { return &j.StdErr })
	registerText("orig_dependency", func(j *Job) *string { return &j.Dependency })
	registerText("features", func(j *Job) *string { return &j.Features })
	registerText("tres_req", func(j *Job) *string { return &j.TRESReq })
	registerText("tres_alloc", func(j *Job) *string { return &j.TRESAlloc })
	register("lost", func(p *parser, v value) bool {
		p.job.Lost = v.kind == 't'
		return v.kind == 't' || v.kind == 'f'
	})
	register(WaitsKey, func(p *parser, v value) bool {
		p.waits = v.text
		return v.kind == '"'
	})
	registerText("comment", func(j *Job) *string { return &j.Comment })
	registerText("admin_comment", func(j *Job) *string { return &j.AdminComment })
	registerText("sluid", func(j *Job) *string { return &j.SLUID })
	registerText("original_sluid", func(j *Job) *string { return &j.OriginalSLUID })
	register("script", func(p *parser, v value) bool {
		if v.kind != '"' {
			return false
		}
		p.job.ScriptBytes = KnownInt(int64(len(v.text)))
		return true
	})
}

// unread are keys without a field in [Job]. Their values repeat the values of other keys, or package records reads
// these keys.
var unread = keys("@queue_wait", "cpu_hours", "pack_job_id", "pack_job_offset", "tres_req_raw", "tres_alloc_raw",
	"submit_line", "array_task_str", "req_cpus_per_node", "req_gpus", "req_gres", "licenses", "suspended", "run_time",
	"restarts", "held", "flags", "used_memory", "moved_bytes", "whole_line", "preempted_by")

func keys(names ...string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// integer returns the value of a whole number.
func integer(v value) (int64, bool) {
	if v.kind != '0' {
		return 0, false
	}
	n, err := strconv.ParseInt(v.text, 10, 64)
	return n, err == nil
}

// readTime reads a time in the plugins' format: UTC without a zone. Slurm writes Unknown for the time 0.
func readTime(v value) (time.Time, bool) {
	if v.kind != '"' {
		return time.Time{}, false
	}
	text := v.text
	switch text {
	case "", "Unknown", "None", "(null)":
		return time.Time{}, true
	}
	t, err := parseTime(strings.TrimSuffix(text, "Z"))
	if err != nil || t.Unix() < 0 || t.Unix() > latestInstant {
		return time.Time{}, false
	}
	if t.Unix() == 0 {
		return time.Time{}, true
	}
	return t, true
}

// parseTime has the same result as [time.Parse] for the plugins' layout, but is faster.
func parseTime(text string) (time.Time, error) {
	const layout = "2006-01-02T15:04:05"
	if len(text) != len(layout) {
		return time.Parse(layout, text)
	}
	var numbers [6]int // year, month, day, hour, minute, second
	at := 0
	for i := range len(text) {
		c, digit := text[i], layout[i] >= '0' && layout[i] <= '9'
		switch {
		case digit && c >= '0' && c <= '9':
			numbers[at] = 10*numbers[at] + int(c-'0')
		case !digit && c == layout[i]:
			at++
		default:
			return time.Parse(layout, text)
		}
	}
	if numbers[1] < 1 || numbers[1] > 12 || numbers[2] < 1 || numbers[2] > 28 || numbers[3] > 23 || numbers[4] > 59 ||
		numbers[5] > 59 {
		return time.Parse(layout, text) // whether a day from the 29th on is valid depends on the month
	}
	return time.Date(numbers[0], time.Month(numbers[1]), numbers[2], numbers[3], numbers[4], numbers[5], 0, time.UTC), nil
}

func setExit(v value, code, signal *Int) bool {
	if v.kind != '"' {
		return false
	}
	exit, err := slurmspec.ParseExitCode(v.text)
	if err != nil {
		return false
	}
	*code, *signal = KnownInt(int64(exit.Status)), KnownInt(int64(exit.Signal))
	return true
}

// finish derives the remaining fields from those that were read.
func (p *parser) finish(text []byte) {
	j := &p.job
	for _, list := range []*string{&j.NodeList, &j.TRESReq, &j.TRESAlloc} {
		if *list == "(null)" || *list == "None assigned" {
			*list = ""
		}
	}
	p.times()
	if j.Start.IsZero() { // Slurm's document of a job that never ran has the exit code 0:0
		j.ExitCode, j.ExitSignal, j.DerivedCode, j.DerivedSignal = Int{}, Int{}, Int{}, Int{}
	}
	p.amounts()
	p.identify(text)
	if j.Marks&NotJSON == 0 && !j.Finished() {
		j.Marks |= StartEvent
	}
	j.Lost = (j.Lost || j.State == "PENDING" || j.State == "REQUEUED") && !j.Start.IsZero() && !j.End.IsZero()
	if p.given&(1<<clusterBit) == 0 {
		j.Marks |= NoCluster
	}
}

// times checks the times and derives Elapsed. If a job was cancelled while it waited, Slurm's document has the time of
// the cancellation as its start; times removes this start. Elapsed is unknown if a job without a start ran, because it
// has nodes or completed.
func (p *parser) times() {
	j := &p.job
	if !j.Start.IsZero() && !j.End.IsZero() && j.End.Before(j.Start) {
		j.Marks |= TimesReverse
		j.Start = time.Time{}
	}
	// Slurm's documents always have the key for the nodes, at least with the value "(null)".
	// Documents of other sources may lack the key.
	ran := j.NodeList != "" || p.given&(1<<nodesBit) == 0 && j.Start.Before(j.End)
	if !ran && j.Finished() {
		j.Start = time.Time{}
	}
	// The plugin's own elapsed time is wrong if a time is 0, so it is computed again.
	elapsed := int64(0)
	if !j.Start.IsZero() && !j.End.IsZero() {
		elapsed = int64(j.End.Sub(j.Start) / time.Second)
	}
	j.Elapsed = Int{}
	if lostStart := j.Start.IsZero() && (j.NodeList != "" || j.State == "COMPLETED"); j.Finished() && !lostStart {
		j.Elapsed = KnownInt(elapsed)
	}
	if !p.identity {
		p.wait()
	}
}

// amounts reads the lists of TRES, counts nodes if their number is missing, and computes the hours.
func (p *parser) amounts() {
	j := &p.job
	var cpus, nodes, reqCPUs, reqMemory, reqNodes Int
	ok := p.tres(j.TRESAlloc, &cpus, &j.MemMiB, &nodes, &j.GPUs, &j.Billing)
	ok = p.tres(j.TRESReq, &reqCPUs, &reqMemory, &reqNodes, &j.ReqGPUs, new(Int)) && ok
	if !ok {
		j.Marks |= BadValue
	}
	j.CPUs, j.Nodes = j.CPUs.or(cpus), j.Nodes.or(nodes)
	j.ReqCPUs, j.ReqNodes, j.ReqMemMiB = j.ReqCPUs.or(reqCPUs), j.ReqNodes.or(reqNodes), j.ReqMemMiB.or(reqMemory)
	if !j.CPUs.Known && j.ReqCPUs.Value > 0 {
		j.CPUs, j.CPUsRequested = j.ReqCPUs, true
	}
	if !j.Nodes.Known && !p.identity && j.NodeList != "" && j.NodeList != UnknownNodes {
		if n, err := hostlist.Count(j.NodeList); err == nil {
			j.Nodes, j.NodesCounted = KnownInt(int64(n)), true
		}
	}
	p.memory()
	j.CPUHours, j.GPUHours, j.NodeHours = j.hours(j.CPUs), j.hours(j.GPUs), j.hours(j.Nodes)
}

// memory computes the requested memory from the memory per node or per processor, if the job's is unknown. It uses the
// allocated nodes or processors if the requested number is not known.
func (p *parser) memory() {
	j := &p.job
	each, count, known := p.memPerNode, j.ReqNodes, j.Nodes
	if each == 0 {
		each, count, known = p.memPerCPU, j.ReqCPUs, j.CPUs
	}
	if n := cmp.Or(count.Value, known.Value); !j.ReqMemMiB.Known && each > 0 && 0 < n && n <= math.MaxInt64/each {
		j.ReqMemMiB = KnownInt(each * n)
	}
}

// hours returns amount times the elapsed time, in hours.
func (j *Job) hours(amount Int) Hours {
	if !j.Elapsed.Known || !amount.Known && j.Elapsed.Value > 0 {
		return Hours{}
	}
	return Hours{float64(j.Elapsed.Value) / 3600 * float64(amount.Value), true}
}

// tres reads a list of TRES. It returns false if an amount is invalid. A list may have the GPUs of each model, their
// total, or both; tres counts each GPU once.
func (p *parser) tres(list string, cpus, memory, nodes, gpus, billing *Int) bool {
	if list == "" {
		return true
	}
	ok := true
	models := int64(0)
	for name, amount := range slurmspec.TRES(list) {
		var to *Int
		switch {
		case name == "cpu":
			to = cpus
		case name == "mem":
			mib, err := slurmspec.ParseMemory(amount)
			if err != nil {
				ok = false
				continue
			}
			*memory = KnownInt(mib)
			continue
		case name == "node":
			to = nodes
		case name == "billing":
			to = billing
		case name == "gres/gpu" || strings.HasPrefix(name, "gres/gpu:"):
		default:
			continue
		}
		n, err := slurmspec.ParseScaled(amount)
		if err != nil || n > maxCount {
			ok = false
			continue
		}
		switch {
		case to != nil:
			*to = KnownInt(int64(n))
		case name == "gres/gpu":
			*gpus = KnownInt(int64(n))
		default:
			models += int64(n)
		}
	}
	if !gpus.Known {
		*gpus = KnownInt(models)
	}
	return ok
}

// identify sets Run, and JobID if only the array or heterogeneous job has a number.
func (p *parser) identify(text []byte) {
	j := &p.job
	part := int64(0)
	if j.JobID == 0 {
		part = p.numberOfWhole()
	}
	if j.JobID == 0 {
		j.Marks |= NoJobID
	}
	switch {
	case j.JobID != 0 && !j.Start.IsZero():
		j.Run = j.Start.Unix() + part
	case j.JobID != 0 && !j.Submit.IsZero():
		j.Run = -j.Submit.Unix() - part
	default:
		if j.Start.IsZero() && j.Submit.IsZero() {
			j.Marks |= NoTimes
		}
		h := fnv.New64a()
		_, _ = h.Write(text) // never fails
		// The hash is greater than all instants, so that it differs from Run of documents with a
		// time.
		j.Run = int64(h.Sum64()>>2) | 1<<62
	}
}

// numberOfWhole is called for a job without its own number. If the job is a task of an array, or a component of a
// heterogeneous job, numberOfWhole sets JobID to the number of the array or heterogeneous job. It returns a number,
// greater than all instants, that distinguishes the task or component; 0 for other jobs.
func (p *parser) numberOfWhole() (part int64) {
	const instants, parts = 34, 27 // bits
	j := &p.job
	whole, at := j.ArrayJobID, j.ArrayTaskID
	if !whole.Known || !at.Known {
		whole, at = j.HetJobID, j.HetJobOffset
	}
	if !whole.Known || !at.Known || at.Value >= 1<<parts-1 {
		return 0
	}
	j.JobID = whole.Value
	return (at.Value + 1) << instants
}
