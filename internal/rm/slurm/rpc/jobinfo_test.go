package rpc

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
)

// jobInfo asks the controller about a job.
func (c *realController) jobInfo(id uint32) []JobInfo {
	c.t.Helper()
	m, err := c.ask(RequestJobInfoSingle, AppendJobInfoRequest(nil, id))
	if err != nil {
		c.t.Fatal(err)
	}
	jobs, err := DecodeJobInfo(m)
	if err != nil {
		c.t.Fatal(err)
	}
	if len(jobs) > 1 {
		c.keep(m)
	}
	return jobs
}

// untilInfo waits until the record of a job is as wanted, and the same as what scontrol
// prints: the job may change between the two.
func (c *realController) untilInfo(id uint32, what string, is func(JobInfo) bool) JobInfo {
	c.t.Helper()
	var diff string
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		jobs := c.jobInfo(id)
		if len(jobs) != 1 {
			c.t.Fatalf("job %d has %d records: %+v", id, len(jobs), jobs)
		}
		if !is(jobs[0]) {
			diff = fmt.Sprintf("it is %+v", jobs[0])
			continue
		}
		want, got := scontrolFields(c.show("job", fmt.Sprint(id))), shown(&jobs[0])
		if jobs[0].TRESAlloc == "" { // scontrol prints what is asked for instead
			delete(want, "TRES")
			delete(got, "TRES")
		}
		if diff = cmp.Diff(want, got); diff == "" {
			return jobs[0]
		}
	}
	c.t.Fatalf("the record of job %d is not %s: (-scontrol +record)\n%s", id, what, diff)
	return JobInfo{}
}

var (
	field      = regexp.MustCompile(`(?:^| )([A-Za-z/:]+)=`)
	shownNames = []string{
		"JobId", "JobName", "UserId", "GroupId", "Priority", "Account", "QOS", "JobState", "Reason", "Restarts",
		"ExitCode", "TimeLimit", "SubmitTime", "EligibleTime", "StartTime", "EndTime", "SuspendTime",
		"SecsPreSuspend", "Partition", "NodeList", "NumNodes", "NumCPUs", "TRES",
	}
)

// scontrolFields takes the fields of a record apart that can be compared with [shown].
func scontrolFields(out string) map[string]string {
	all := make(map[string]string)
	places := field.FindAllStringSubmatchIndex(out, -1)
	for i, p := range places {
		end := len(out)
		if i+1 < len(places) {
			end = places[i+1][0]
		}
		name := out[p[2]:p[3]]
		if _, again := all[name]; !again {
			all[name] = strings.TrimSpace(out[p[1]:end])
		}
	}
	maps.DeleteFunc(all, func(name, _ string) bool {
		for _, n := range shownNames {
			if n == name {
				return false
			}
		}
		return true
	})
	// The names of user and group and the most nodes are not part of a [JobInfo].
	for _, name := range []string{"UserId", "GroupId"} {
		_, id, _ := strings.Cut(all[name], "(")
		all[name], _, _ = strings.Cut(id, ")")
	}
	all["NumNodes"], _, _ = strings.Cut(all["NumNodes"], "-")
	return all
}

// shown puts a record as scontrol prints it (slurm_sprint_job_info in api/job_info.c).
func shown(j *JobInfo) map[string]string {
	at := func(sec int64, none string) string {
		if sec == 0 {
			return none
		}
		return time.Unix(sec, 0).UTC().Format("2006-01-02T15:04:05")
	}
	or := func(s, none string) string {
		if s == "" {
			return none
		}
		return s
	}
	limit := "UNLIMITED"
	if m := j.TimeLimit; m >= 0 {
		limit = fmt.Sprintf("%02d:%02d:00", m/60, m%60)
	}
	return map[string]string{
		"JobId": fmt.Sprint(j.JobID), "JobName": j.Name, "UserId": fmt.Sprint(j.UserID), "GroupId": fmt.Sprint(j.GroupID),
		"Priority": fmt.Sprint(j.Priority), "Account": or(j.Account, "(null)"), "QOS": or(j.QOS, "(null)"),
		"JobState": string(j.State), "Reason": or(j.Description, j.Reason.String()), "Restarts": fmt.Sprint(j.Restarts),
		"ExitCode": fmt.Sprintf("%d:%d", j.ExitCode>>8, j.ExitCode&0x7f), "TimeLimit": limit,
		"SubmitTime": at(j.Submit, "Unknown"), "EligibleTime": at(j.Eligible, "Unknown"),
		"StartTime": at(j.Start, "Unknown"), "EndTime": at(j.End, "Unknown"), "SuspendTime": at(j.Suspended, "None"),
		"SecsPreSuspend": fmt.Sprint(j.RunBeforeSuspend), "Partition": j.Partition, "NodeList": j.Nodes,
		"NumNodes": fmt.Sprint(j.NodeCount), "NumCPUs": fmt.Sprint(j.CPUs), "TRES": j.TRESAlloc,
	}
}

// describe asks about jobs in all their states.
func (c *realController) describe(t *testing.T) {
	c.untilIdle() // or slurmctld would look for nodes before they are there, and again a minute later
	id := c.mustSubmit("sleep\n", hpc.Request{
		Name: "told", Account: "a1", Hold: true, Tasks: 2, MinNodes: 2, MaxNodes: 2, MemPerNode: 500, GRES: "gpu:a100:1",
		TimeLimit: 10 * time.Minute,
	})
	info := c.untilInfo(id, "held", func(j JobInfo) bool { return j.Reason == 16 })
	if info.State != hpc.Pending || info.Requeued() || info.Reason.String() != "JobHeldUser" || info.Priority != 0 ||
		info.TimeLimit != 10 || info.Name != "told" || info.Account != "a1" || info.ArrayJobID != 0 || info.ArrayTaskID != slurmspec.NoVal ||
		info.UserID != uint32(os.Getuid()) || info.Nodes != "" || info.NodeCount != 2 || info.CPUs != 2 || info.Start != 0 {
		t.Errorf("held, the record is %+v", info)
	}
	name := fmt.Sprint(id)
	release := NewJobUpdate(name)
	release.Priority = ReleasePriority
	c.command(RequestUpdateJob, release.Append(nil))
	info = c.untilInfo(id, "running", func(j JobInfo) bool {
		return j.State == hpc.Running && j.Reason == 0 && c.launched(id) != nil
	})
	if info.Nodes != "n[1-2]" || info.NodeCount != 2 || info.Start == 0 || info.End != info.Start+600 || info.Requeued() ||
		!strings.Contains(info.TRESAlloc, "cpu=2,mem=1000M,node=2") {
		t.Errorf("running, the record is %+v", info)
	}
	c.command(RequestSuspend, AppendSuspend(nil, name, false))
	info = c.untilInfo(id, "suspended", func(j JobInfo) bool { return j.State == hpc.Suspended })
	if info.Suspended < info.Start {
		t.Errorf("suspended, the record is %+v", info)
	}
	c.command(RequestSuspend, AppendSuspend(nil, name, true))
	c.untilInfo(id, "running again", func(j JobInfo) bool { return j.State == hpc.Running })
	c.command(RequestJobRequeue, AppendRequeue(nil, name))
	// As soon as slurmctld has answered it says so, before the nodes are done.
	if jobs := c.jobInfo(id); len(jobs) != 1 || !jobs[0].Requeued() {
		t.Errorf("just requeued, the records are %+v", jobs)
	}
	info = c.untilInfo(id, "requeued", func(j JobInfo) bool {
		return j.State == hpc.Pending && j.Flags&slurmspec.JobCompleting == 0 && j.Reason.String() == "BeginTime"
	})
	if !info.Requeued() || info.Restarts != 1 || info.Eligible <= info.Submit || info.Nodes != "" {
		t.Errorf("requeued, the record is %+v", info)
	}
	c.kill(KillRequest{Job: name, Signal: 9})
	info = c.untilInfo(id, "cancelled", func(j JobInfo) bool { return j.State == hpc.Cancelled })
	if info.Requeued() || info.End == 0 {
		t.Errorf("cancelled, the record is %+v", info)
	}

	failed := c.mustSubmit("exit 3\n", hpc.Request{})
	info = c.untilInfo(failed, "failed", func(j JobInfo) bool { return j.State == hpc.Failed && j.Flags&slurmspec.JobCompleting == 0 })
	// Its reason is NonZeroExitCode until slurmctld hears of the end of its prolog.
	if info.ExitCode != (slurmspec.ExitCode{Status: 3}).Wait() || info.TimeLimit != -1 {
		t.Errorf("failed, the record is %+v", info)
	}
	completed := c.mustSubmit("exit 0\n", hpc.Request{})
	info = c.untilInfo(completed, "completed", func(j JobInfo) bool { return j.State == hpc.Completed && j.Flags&slurmspec.JobCompleting == 0 })
	if info.ExitCode != 0 || info.End < info.Start || info.Start < info.Submit || info.Submit < time.Now().Unix()-60 {
		t.Errorf("completed, the record is %+v", info)
	}
	c.describeArray(t)

	m, err := c.ask(RequestJobInfoSingle, AppendJobInfoRequest(nil, 424242))
	if err != nil {
		t.Fatal(err)
	}
	if jobs, err := DecodeJobInfo(m); !errors.Is(err, slurmspec.ErrInvalidJob) {
		t.Errorf("an unknown job: %v, %v", jobs, err)
	}
}

// describeArray asks about an array of which one task runs.
func (c *realController) describeArray(t *testing.T) {
	array := c.mustSubmit("sleep\n", hpc.Request{Name: "tasks", Array: "3-6:1%1", TimeLimit: 5 * time.Minute})
	var rest, task JobInfo
	c.until("one task runs and the others wait for it", func() bool {
		rest, task = JobInfo{}, JobInfo{}
		jobs := c.jobInfo(array)
		for _, j := range jobs {
			if j.ArrayTaskID == slurmspec.NoVal {
				rest = j
			} else {
				task = j
			}
		}
		return len(jobs) == 2 && task.State == hpc.Running && rest.Reason.String() == "JobArrayTaskLimit"
	})
	if rest.JobID != array || rest.ArrayJobID != array || rest.State != hpc.Pending || rest.Name != "tasks" ||
		task.JobID == array || task.ArrayJobID != array || task.ArrayTaskID != 3 || task.NodeCount != 1 || task.Nodes == "" {
		t.Errorf("what is left of the array is %+v, and the task %+v", rest, task)
	}
	own := c.untilInfo(task.JobID, "that of a task", func(j JobInfo) bool { return j.Reason == 0 })
	task.Reason = 0 // it may have been asked about during its prolog
	if own != task {
		t.Errorf("asked for alone the task is %+v, not %+v", own, task)
	}
	c.kill(KillRequest{Job: fmt.Sprint(array), Signal: 9})
	c.until("all tasks are cancelled", func() bool {
		for _, j := range c.jobInfo(array) {
			if j.State != hpc.Cancelled || j.Flags&slurmspec.JobCompleting != 0 {
				return false
			}
		}
		return true
	})
}

// jobRecord is the body of an answer with one record, all of whose strings are empty
// and which has no details, as pack_job makes it.
func jobRecord(change func(*record)) []byte {
	r := record{records: 1, state: 3, resources: slurmspec.NoVal, plugin: 109, bitmap: slurmspec.NoVal}
	if change != nil {
		change(&r)
	}
	e := encoder{}
	e.u32(r.records)
	e.time(1)
	e.time(0)
	strs := func(n int) {
		for range n {
			e.str("")
		}
	}
	u32s := func(n int) {
		for range n {
			e.u32(0)
		}
	}
	u32s(2)
	strs(1)
	u32s(2)
	strs(1)
	u32s(1)
	e.u32(7)
	u32s(3)
	strs(1)
	u32s(2)
	e.u32(r.state)
	e.u16(1)
	e.u16(r.reason)
	e.u16(0)
	e.u16(2)
	e.u16(r.show)
	e.time(0)
	e.u32(0)
	e.u32(r.limit)
	u32s(2)
	for i := range 10 {
		e.time(int64(i))
	}
	e.u32(5)
	e.u64(0)
	strs(6)
	u32s(1)
	strs(9)
	e.time(0)
	strs(4)
	e.u32(256)
	e.u32(0)
	strs(1)
	e.u32(r.resources)
	u32s(1)
	strs(3)
	u32s(2)
	strs(1)
	e.u32(r.bitmap)
	if r.bitmap != slurmspec.NoVal {
		e.str("0x3")
	}
	e.u32(r.plugin)
	strs(6)
	e.u32(4)
	u32s(1)
	e.u32(2)
	u32s(1)
	e.b = append(e.b, make([]byte, 6)...)
	u32s(1)
	e.u16(0)
	u32s(3)
	strs(1)
	e.b = append(e.b, make([]byte, 8+8+4)...)
	strs(1)
	e.u32(slurmspec.NoVal)
	strs(1)
	e.u32(slurmspec.NoVal)
	strs(3)
	e.u8(r.topology)
	if r.topology == 0xff {
		e.b = append(e.b, make([]byte, 18)...)
	}
	e.u64(0)
	e.str("cpu=4")
	strs(1)
	e.u16(0)
	strs(1)
	e.u64(0)
	strs(1)
	e.u64(0)
	strs(1)
	strs(8)
	e.u16(0)
	strs(2)
	return e.b
}

type record struct {
	records, state, limit, resources, plugin, bitmap uint32
	reason, show                                     uint16
	topology                                         uint8
}

func TestDecodeJobInfo(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*record)
		want   JobInfo
	}{
		"completed":        {nil, JobInfo{State: hpc.Completed}},
		"completing":       {func(r *record) { r.state |= slurmspec.JobCompleting }, JobInfo{State: hpc.Completed, Flags: slurmspec.JobCompleting}},
		"without a limit":  {func(r *record) { r.limit = slurmspec.Infinite }, JobInfo{State: hpc.Completed, TimeLimit: -1}},
		"limit not set":    {func(r *record) { r.limit = slurmspec.NoVal }, JobInfo{State: hpc.Completed, TimeLimit: -1}},
		"a limit":          {func(r *record) { r.limit = 90 }, JobInfo{State: hpc.Completed, TimeLimit: 90}},
		"with nodes":       {func(r *record) { r.bitmap = 2 }, JobInfo{State: hpc.Completed}},
		"with topology":    {func(r *record) { r.topology = 0xff }, JobInfo{State: hpc.Completed}},
		"out of memory":    {func(r *record) { r.state = 11 }, JobInfo{State: hpc.OutOfMemory}},
		"pending":          {func(r *record) { r.state, r.reason = 0, 1 }, JobInfo{State: hpc.Pending, Reason: 1}},
		"the last reason":  {func(r *record) { r.state, r.reason = 0, 198 }, JobInfo{State: hpc.Pending, Reason: 198}},
		"a state and flag": {func(r *record) { r.state = 7 | slurmspec.JobRequeue }, JobInfo{State: hpc.NodeFail, Flags: slurmspec.JobRequeue}},
	} {
		t.Run(name, func(t *testing.T) {
			want := tt.want
			want.JobID, want.Restarts, want.Priority, want.ExitCode, want.TRESAlloc = 7, 2, 5, 256, "cpu=4"
			want.Submit, want.Eligible, want.Start, want.End, want.Suspended, want.RunBeforeSuspend = 0, 1, 3, 4, 5, 6
			want.CPUs, want.NodeCount = 4, 2
			body := jobRecord(tt.change)
			got, err := DecodeJobInfo(&Message{Type: ResponseJobInfo, Version: V2205, Body: body})
			if diff := cmp.Diff([]JobInfo{want}, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
		})
	}
	if n := len(jobRecord(nil)) - len("cpu=4\x00") - 20; n < leastJobInfo {
		t.Errorf("an empty record is %d bytes long, less than the least of %d", n, leastJobInfo)
	}
}

func TestDecodeJobInfoRefuses(t *testing.T) {
	answer := func(change func(*record)) *Message {
		return &Message{Type: ResponseJobInfo, Version: V2205, Body: jobRecord(change)}
	}
	for want, m := range map[string]*Message{
		"ESLURM_INVALID_JOB_ID": {Type: ResponseRC, Body: AppendRC(nil, slurmspec.ErrInvalidJob)},
		"which is no answer":    {Type: ResponsePing},
		"21.08 is not supported": {
			Type: ResponseJobInfo, Version: V2108, Body: jobRecord(nil),
		},
		"records has 4294967295 elements": answer(func(r *record) { r.records = 1<<32 - 1 }),
		"records has 2 elements":          answer(func(r *record) { r.records = 2 }),
		"are left after the last field":   answer(func(r *record) { r.records = 0 }),
		"there is no job state 12":        answer(func(r *record) { r.state = 12 }),
		"details that were not asked for": answer(func(r *record) { r.show = 3 }),
		"resources that were not asked":   answer(func(r *record) { r.resources = 1 }),
		"select plugin 107 is not known":  answer(func(r *record) { r.plugin = 107 }),
		"flag of the topology is 1":       answer(func(r *record) { r.topology = 1 }),
	} {
		if jobs, err := DecodeJobInfo(m); err == nil || !strings.Contains(err.Error(), want) || jobs != nil {
			t.Errorf("got %v, %v; want %q", jobs, err, want)
		}
	}
	body := jobRecord(nil)
	for n := range body {
		if jobs, err := DecodeJobInfo(&Message{Type: ResponseJobInfo, Body: body[:n]}); err == nil {
			t.Fatalf("the first %d of %d bytes are taken for %+v", n, len(body), jobs)
		}
	}
}

func TestRequeued(t *testing.T) {
	for _, tt := range []struct {
		info JobInfo
		want bool
	}{
		{JobInfo{State: hpc.Pending}, false},
		{JobInfo{State: hpc.Pending, Restarts: 1}, true},
		{JobInfo{State: hpc.Pending, Restarts: 1, Flags: slurmspec.JobCompleting}, true},
		{JobInfo{State: hpc.Pending, Restarts: 1, Flags: slurmspec.JobSpecialExit}, true},
		{JobInfo{State: hpc.Failed, Flags: slurmspec.JobRequeue | slurmspec.JobCompleting}, true},
		{JobInfo{State: hpc.Failed, Restarts: 3}, false},
		{JobInfo{State: hpc.Running, Restarts: 1}, false},
		{JobInfo{State: hpc.NodeFail, Flags: slurmspec.JobCompleting}, false},
	} {
		if got := tt.info.Requeued(); got != tt.want {
			t.Errorf("%+v: %v", tt.info, got)
		}
	}
}

// FuzzJobInfo gives anything to the decoder of jobs' records.
func FuzzJobInfo(f *testing.F) {
	f.Add(jobRecord(nil))
	f.Add(jobRecord(func(r *record) { r.bitmap, r.topology = 2, 0xff }))
	f.Fuzz(func(t *testing.T, body []byte) {
		jobs, err := DecodeJobInfo(&Message{Type: ResponseJobInfo, Body: body})
		if err != nil && jobs != nil || len(jobs)*leastJobInfo > len(body) {
			t.Errorf("%d jobs from %d bytes with error %v", len(jobs), len(body), err)
		}
	})
}
