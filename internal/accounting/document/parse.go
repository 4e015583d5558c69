package document

import (
	"bytes"
	"hash/fnv"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"rmreplay/internal/lines"
	"rmreplay/internal/slurmspec"
)

// latestInstant bounds times, in seconds since 1970: a later time is a bad value. It is the end of the
// year 2199, as in package slurmspec.
const latestInstant = slurmspec.LastInstant

// maxCount bounds counts of processors, nodes and GPUs, and MiB of memory: no cluster has as many.
const maxCount = 1 << 40

// Parse reads a document. cluster stands for a missing "cluster". Whatever the document is, the
// result is a job that can be kept; its marks say what was wrong.
func Parse(text []byte, cluster string) Job {
	p := parser{job: Job{Cluster: cluster}}
	readable := text
	if !utf8.Valid(text) {
		p.job.Marks |= NotUTF8
		readable = []byte(lines.UTF8(text))
	}
	p.object(readable)
	p.finish(text)
	return p.job
}

// Unstorable is the job of a document whose values the store refuses: only the document is kept.
func Unstorable(text []byte, cluster string) Job {
	p := parser{job: Job{Cluster: cluster, Marks: Refused}}
	p.identify(text)
	return p.job
}

// parser reads one document.
type parser struct {
	job   Job
	given uint64 // fields that came, by their position in the list
}

// object reads the document's members.
func (p *parser) object(text []byte) {
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true))
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
		field, known := fields[key]
		if d.PeekKind() == '{' || d.PeekKind() == '[' {
			if d.SkipValue() != nil {
				p.job.Marks |= NotJSON
				return
			}
			if known {
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
		if !known {
			p.job.Marks |= UnknownKey
			continue
		}
		if p.given&(1<<field.bit) != 0 {
			p.job.Marks |= RepeatedKey
		}
		p.given |= 1 << field.bit
		if token.Kind() != 'n' && !field.set(p, token) {
			p.job.Marks |= BadValue
		}
	}
	if _, err := d.ReadToken(); err == nil { // something behind the object
		p.job.Marks |= NotJSON
	}
}

// field is a key of the documents.
type field struct {
	bit int
	// set reads a value that is no null, object or array. It returns false for one that makes no sense.
	set func(p *parser, token jsontext.Token) bool
}

// fields are the keys of all releases.
var fields = make(map[string]field)

func init() {
	add := func(key string, set func(p *parser, token jsontext.Token) bool) {
		fields[key] = field{len(fields), set}
	}
	text := func(key string, of func(j *Job) *string) {
		add(key, func(p *parser, token jsontext.Token) bool {
			if token.Kind() != '"' {
				return false
			}
			*of(&p.job) = token.String()
			return true
		})
	}
	number := func(key string, least, most int64, of func(j *Job) *Int) {
		add(key, func(p *parser, token jsontext.Token) bool {
			n, ok := integer(token)
			if ok = ok && least <= n && n <= most; ok {
				*of(&p.job) = Known(n)
			}
			return ok
		})
	}
	instant := func(key string, of func(j *Job) *time.Time) {
		add(key, func(p *parser, token jsontext.Token) bool {
			t, ok := readTime(token)
			if ok {
				*of(&p.job) = t
			}
			return ok
		})
	}
	ignored := func(key string) { // it says what another key says, too
		add(key, func(*parser, jsontext.Token) bool { return true })
	}
	add("jobid", func(p *parser, token jsontext.Token) bool {
		n, ok := integer(token)
		if ok = ok && 0 < n && n <= math.MaxUint32; ok {
			p.job.JobID = n
		}
		return ok
	})
	text("cluster", func(j *Job) *string { return &j.Cluster })
	text("state", func(j *Job) *string { return &j.State })
	instant("@submit", func(j *Job) *time.Time { return &j.Submit })
	instant("@eligible", func(j *Job) *time.Time { return &j.Eligible })
	instant("@start", func(j *Job) *time.Time { return &j.Start })
	instant("@end", func(j *Job) *time.Time { return &j.End })
	number("elapsed", math.MinInt64, math.MaxInt64, func(j *Job) *Int { return &j.Elapsed })
	number("time_limit", 0, slurmspec.MaxSeconds, func(j *Job) *Int { return &j.Limit })
	number("total_cpus", 0, maxCount, func(j *Job) *Int { return &j.CPUs })
	number("total_nodes", 0, maxCount, func(j *Job) *Int { return &j.Nodes })
	add("exit_code", func(p *parser, token jsontext.Token) bool {
		return setExit(token, &p.job.ExitCode, &p.job.ExitSignal)
	})
	add("derived_ec", func(p *parser, token jsontext.Token) bool {
		return setExit(token, &p.job.DerivedCode, &p.job.DerivedSignal)
	})
	text("username", func(j *Job) *string { return &j.User })
	text("groupname", func(j *Job) *string { return &j.Group })
	number("user_id", 0, math.MaxUint32, func(j *Job) *Int { return &j.UserID })
	number("group_id", 0, math.MaxUint32, func(j *Job) *Int { return &j.GroupID })
	text("account", func(j *Job) *string { return &j.Account })
	text("parent_accounts", func(j *Job) *string { return &j.ParentAccounts })
	text("partition", func(j *Job) *string { return &j.Partition })
	text("qos", func(j *Job) *string { return &j.QOS })
	text("wc_key", func(j *Job) *string { return &j.WCKey })
	text("reservation_name", func(j *Job) *string { return &j.Reservation })
	text("job_name", func(j *Job) *string { return &j.Name })
	text("container", func(j *Job) *string { return &j.Container })
	number("array_job_id", 0, math.MaxUint32, func(j *Job) *Int { return &j.ArrayJobID })
	number("array_task_id", 0, math.MaxUint32, func(j *Job) *Int { return &j.ArrayTaskID })
	number("het_job_id", 0, math.MaxUint32, func(j *Job) *Int { return &j.HetJobID })
	number("het_job_offset", 0, math.MaxUint32, func(j *Job) *Int { return &j.HetJobOffset })
	number("ntasks", 0, maxCount, func(j *Job) *Int { return &j.Tasks })
	number("ntasks_per_node", 0, maxCount, func(j *Job) *Int { return &j.TasksPerNode })
	number("ntasks_per_tres", 0, maxCount, func(j *Job) *Int { return &j.TasksPerTRES })
	number("cpus_per_task", 0, maxCount, func(j *Job) *Int { return &j.CPUsPerTask })
	number("priority", 0, math.MaxUint32, func(j *Job) *Int { return &j.Priority })
	text("nodes", func(j *Job) *string { return &j.NodeList })
	text("alloc_node", func(j *Job) *string { return &j.AllocNode })
	text("failed_node", func(j *Job) *string { return &j.FailedNode })
	text("excluded_nodes", func(j *Job) *string { return &j.ExcludedNodes })
	text("work_dir", func(j *Job) *string { return &j.WorkDir })
	text("std_in", func(j *Job) *string { return &j.StdIn })
	text("std_out", func(j *Job) *string { return &j.StdOut })
	text("std_err", func(j *Job) *string { return &j.StdErr })
	text("orig_dependency", func(j *Job) *string { return &j.Dependency })
	text("features", func(j *Job) *string { return &j.Features })
	text("tres_req", func(j *Job) *string { return &j.TRESReq })
	text("tres_alloc", func(j *Job) *string { return &j.TRESAlloc })
	text("comment", func(j *Job) *string { return &j.Comment })
	text("admin_comment", func(j *Job) *string { return &j.AdminComment })
	text("sluid", func(j *Job) *string { return &j.SLUID })
	text("original_sluid", func(j *Job) *string { return &j.OriginalSLUID })
	add("script", func(p *parser, token jsontext.Token) bool {
		if token.Kind() != '"' {
			return false
		}
		p.job.ScriptBytes = Known(int64(len(token.String())))
		return true
	})
	for _, key := range []string{"@queue_wait", "cpu_hours", "pack_job_id", "pack_job_offset", "tres_req_raw", "tres_alloc_raw", "submit_line"} {
		ignored(key)
	}
}

// integer reads a whole number.
func integer(token jsontext.Token) (int64, bool) {
	if token.Kind() != '0' {
		return 0, false
	}
	n, err := strconv.ParseInt(token.String(), 10, 64)
	return n, err == nil
}

// readTime reads a time as the plugins write it, in UTC without a zone. Slurm writes Unknown for 0.
func readTime(token jsontext.Token) (time.Time, bool) {
	if token.Kind() != '"' {
		return time.Time{}, false
	}
	text := token.String()
	switch text {
	case "", "Unknown", "None", "(null)":
		return time.Time{}, true
	}
	t, err := time.Parse("2006-01-02T15:04:05", strings.TrimSuffix(text, "Z"))
	if err != nil || t.Unix() < 0 || t.Unix() > latestInstant {
		return time.Time{}, false
	}
	if t.Unix() == 0 {
		return time.Time{}, true
	}
	return t, true
}

func setExit(token jsontext.Token, code, signal *Int) bool {
	if token.Kind() != '"' {
		return false
	}
	exit, err := slurmspec.ParseExitCode(token.String())
	if err != nil {
		return false
	}
	*code, *signal = Known(int64(exit.Status)), Known(int64(exit.Signal))
	return true
}

// finish derives what follows from the fields.
func (p *parser) finish(text []byte) {
	j := &p.job
	for _, list := range []*string{&j.NodeList, &j.TRESReq, &j.TRESAlloc} {
		if *list == "(null)" || *list == "None assigned" {
			*list = ""
		}
	}
	p.times()
	p.amounts()
	p.identify(text)
	if j.Marks&NotJSON == 0 && !j.Finished() {
		j.Marks |= StartEvent
	}
	if _, given := fields["cluster"]; given && p.given&(1<<fields["cluster"].bit) == 0 {
		j.Marks |= NoCluster
	}
}

// times makes sense of the times. A job that was cancelled while it waited has the instant of the
// cancellation as its start.
func (p *parser) times() {
	j := &p.job
	if !j.Start.IsZero() && !j.End.IsZero() && j.End.Before(j.Start) {
		j.Marks |= TimesReverse
		j.Start = time.Time{}
	}
	ran := j.NodeList != ""
	if !ran && j.Finished() {
		j.Start = time.Time{}
	}
	// The plugin's own figure is nonsense where a time is 0.
	elapsed := int64(0)
	if !j.Start.IsZero() && !j.End.IsZero() {
		elapsed = int64(j.End.Sub(j.Start) / time.Second)
	}
	if j.Finished() {
		j.Elapsed = Known(elapsed)
	} else {
		j.Elapsed = Int{}
	}
	queued := j.Eligible
	if queued.IsZero() || queued.After(j.Start) {
		queued = j.Submit
	}
	switch {
	case j.Start.IsZero() || queued.IsZero():
	case queued.After(j.Start):
		j.Marks |= TimesReverse
	default:
		j.Wait = Known(int64(j.Start.Sub(queued) / time.Second))
	}
}

// amounts reads the lists of TRES, and multiplies what was allocated by the time.
func (p *parser) amounts() {
	j := &p.job
	var cpus, nodes Int
	ok := p.tres(j.TRESAlloc, &cpus, &j.MemMiB, &nodes, &j.GPUs, &j.Billing)
	ok = p.tres(j.TRESReq, &j.ReqCPUs, &j.ReqMemMiB, &j.ReqNodes, &j.ReqGPUs, new(Int)) && ok
	if !ok {
		j.Marks |= BadValue
	}
	if !j.CPUs.Known {
		j.CPUs = cpus
	}
	if !j.Nodes.Known {
		j.Nodes = nodes
	}
	hours := float64(j.Elapsed.Value) / 3600
	j.CPUHours, j.GPUHours, j.NodeHours = hours*float64(j.CPUs.Value), hours*float64(j.GPUs.Value), hours*float64(j.Nodes.Value)
}

// tres reads a list of trackable resources. It returns false if an amount makes no sense. GPUs are
// counted once, whether the list has them with their models, without, or both.
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
			*memory = Known(mib)
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
			*to = Known(int64(n))
		case name == "gres/gpu":
			*gpus = Known(int64(n))
		default:
			models += int64(n)
		}
	}
	if !gpus.Known {
		*gpus = Known(models)
	}
	return ok
}

// identify sets Run.
func (p *parser) identify(text []byte) {
	j := &p.job
	if j.JobID == 0 {
		j.Marks |= NoJobID
	}
	switch {
	case j.JobID != 0 && !j.Start.IsZero():
		j.Run = j.Start.Unix()
	case j.JobID != 0 && !j.Submit.IsZero():
		j.Run = -j.Submit.Unix()
	default:
		if j.Start.IsZero() && j.Submit.IsZero() {
			j.Marks |= NoTimes
		}
		h := fnv.New64a()
		_, _ = h.Write(text) // never fails
		// Above all instants, so that no run has the same number.
		j.Run = int64(h.Sum64()>>2) | 1<<62
	}
}
