package rpc_test

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
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/slurmspec"
)

// jobInfo asks the controller about a job.
func (c *realController) jobInfo(id uint32) []rpc.JobInfo {
	c.t.Helper()
	m, err := c.ask(rpc.RequestJobInfoSingle, c.codec.Body(&rpc.JobInfoRequest{Job: id}))
	if err != nil {
		c.t.Fatal(err)
	}
	jobs, err := rpc.DecodeJobInfo(m)
	if err != nil {
		c.t.Fatal(err)
	}
	if len(jobs) > 1 {
		c.keep(m)
	}
	return jobs
}

// untilInfo waits until the record of a job is the expected one and agrees with scontrol's output.
// The job may change between the two questions.
func (c *realController) untilInfo(id uint32, what string, is func(rpc.JobInfo) bool) rpc.JobInfo {
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
		if jobs[0].TRESAlloc == "" { // scontrol prints the requested TRES instead
			delete(want, "TRES")
			delete(got, "TRES")
		}
		if diff = cmp.Diff(want, got); diff == "" {
			return jobs[0]
		}
	}
	c.t.Fatalf("the record of job %d is not %s: (-scontrol +record)\n%s", id, what, diff)
	return rpc.JobInfo{}
}

var (
	field      = regexp.MustCompile(`(?:^| )([A-Za-z/:]+)=`)
	shownNames = []string{
		"JobId", "JobName", "UserId", "GroupId", "Priority", "Account", "QOS", "JobState", "Reason", "Restarts",
		"ExitCode", "TimeLimit", "SubmitTime", "EligibleTime", "StartTime", "EndTime", "SuspendTime",
		"SecsPreSuspend", "Partition", "NodeList", "NumNodes", "NumCPUs", "TRES",
	}
)

// scontrolFields returns the fields of scontrol's output that can be compared with [shown].
func scontrolFields(out string) map[string]string {
	all := make(map[string]string)
	places := field.FindAllStringSubmatchIndex(out, -1)
	for i, p := range places {
		end := len(out)
		if i+1 < len(places) {
			end = places[i+1][0]
		}
		name := out[p[2]:p[3]]
		if name == "AllocTRES" { // the name since 23.11
			name = "TRES"
		}
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
	// A [JobInfo] does not have the names of user and group, nor the largest number of nodes.
	for _, name := range []string{"UserId", "GroupId"} {
		_, id, _ := strings.Cut(all[name], "(")
		all[name], _, _ = strings.Cut(id, ")")
	}
	all["NumNodes"], _, _ = strings.Cut(all["NumNodes"], "-")
	return all
}

// shown returns a record's fields as scontrol prints them (slurm_sprint_job_info in
// api/job_info.c).
func shown(j *rpc.JobInfo) map[string]string {
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
	c.untilIdle() // otherwise slurmctld finds no nodes yet, and looks again only a minute later
	id := c.mustSubmit("sleep\n", hpc.Request{
		Name: "told", Account: "a1", Hold: true, Tasks: 2, MinNodes: 2, MaxNodes: 2, MemPerNode: 500, GRES: "gpu:a100:1",
		TimeLimit: 10 * time.Minute,
	})
	info := c.untilInfo(id, "held", func(j rpc.JobInfo) bool { return j.Reason == 16 })
	if info.State != hpc.Pending || info.Requeued() || info.Reason.String() != "JobHeldUser" || info.Priority != 0 ||
		info.TimeLimit != 10 || info.Name != "told" || info.Account != "a1" || info.ArrayJobID != 0 || info.ArrayTaskID != slurmspec.NoVal ||
		info.UserID != uint32(os.Getuid()) || info.Nodes != "" || info.NodeCount != 2 || info.CPUs != 2 || info.Start != 0 {
		t.Errorf("held, the record is %+v", info)
	}
	name := fmt.Sprint(id)
	release := rpc.NewJobUpdate(name)
	release.Priority = rpc.ReleasePriority
	c.command(rpc.RequestUpdateJob, c.codec.Body(release))
	info = c.untilInfo(id, "running", func(j rpc.JobInfo) bool {
		return j.State == hpc.Running && j.Reason == 0 && c.launched(id) != nil
	})
	if info.Nodes != "n[1-2]" || info.NodeCount != 2 || info.Start == 0 || info.End != info.Start+600 || info.Requeued() ||
		!strings.Contains(info.TRESAlloc, "cpu=2,mem=1000M,node=2") {
		t.Errorf("running, the record is %+v", info)
	}
	c.command(rpc.RequestSuspend, c.codec.Body(&rpc.SuspendRequest{Job: name}))
	info = c.untilInfo(id, "suspended", func(j rpc.JobInfo) bool { return j.State == hpc.Suspended })
	if info.Suspended < info.Start {
		t.Errorf("suspended, the record is %+v", info)
	}
	c.command(rpc.RequestSuspend, c.codec.Body(&rpc.SuspendRequest{Job: name, Resume: true}))
	c.untilInfo(id, "running again", func(j rpc.JobInfo) bool { return j.State == hpc.Running })
	c.command(rpc.RequestJobRequeue, c.codec.Body(&rpc.RequeueRequest{Job: name}))
	// slurmctld's record shows the requeue at once, before the epilogs have ended.
	if jobs := c.jobInfo(id); len(jobs) != 1 || !jobs[0].Requeued() {
		t.Errorf("just requeued, the records are %+v", jobs)
	}
	info = c.untilInfo(id, "requeued", func(j rpc.JobInfo) bool {
		return j.State == hpc.Pending && j.Flags&slurmspec.JobCompleting == 0 && j.Reason.String() == "BeginTime"
	})
	if !info.Requeued() || info.Restarts != 1 || info.Eligible <= info.Submit || info.Nodes != "" {
		t.Errorf("requeued, the record is %+v", info)
	}
	c.kill(rpc.KillRequest{Job: name, Signal: 9})
	info = c.untilInfo(id, "cancelled", func(j rpc.JobInfo) bool { return j.State == hpc.Cancelled })
	if info.Requeued() || info.End == 0 {
		t.Errorf("cancelled, the record is %+v", info)
	}

	failed := c.mustSubmit("exit 3\n", hpc.Request{})
	info = c.untilInfo(failed, "failed", func(j rpc.JobInfo) bool { return j.State == hpc.Failed && j.Flags&slurmspec.JobCompleting == 0 })
	// The job's reason is NonZeroExitCode until slurmctld hears of the end of its prolog.
	if info.ExitCode != (slurmspec.ExitCode{Status: 3}).Wait() || info.TimeLimit != -1 {
		t.Errorf("failed, the record is %+v", info)
	}
	completed := c.mustSubmit("exit 0\n", hpc.Request{})
	info = c.untilInfo(completed, "completed", func(j rpc.JobInfo) bool { return j.State == hpc.Completed && j.Flags&slurmspec.JobCompleting == 0 })
	if info.ExitCode != 0 || info.End < info.Start || info.Start < info.Submit || info.Submit < time.Now().Unix()-60 {
		t.Errorf("completed, the record is %+v", info)
	}
	c.describeArray(t)

	m, err := c.ask(rpc.RequestJobInfoSingle, c.codec.Body(&rpc.JobInfoRequest{Job: 424242}))
	if err != nil {
		t.Fatal(err)
	}
	if jobs, err := rpc.DecodeJobInfo(m); !errors.Is(err, slurmspec.ErrInvalidJob) {
		t.Errorf("an unknown job: %v, %v", jobs, err)
	}
}

// describeArray asks about an array with one running task.
func (c *realController) describeArray(t *testing.T) {
	array := c.mustSubmit("sleep\n", hpc.Request{Name: "tasks", Array: "3-6:1%1", TimeLimit: 5 * time.Minute})
	var rest, task rpc.JobInfo
	c.until("one task runs and the others wait for it", func() bool {
		rest, task = rpc.JobInfo{}, rpc.JobInfo{}
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
	own := c.untilInfo(task.JobID, "that of a task", func(j rpc.JobInfo) bool { return j.Reason == 0 })
	task.Reason = 0 // the first answer may be from the time of the task's prolog
	if own != task {
		t.Errorf("asked for alone the task is %+v, not %+v", own, task)
	}
	c.kill(rpc.KillRequest{Job: fmt.Sprint(array), Signal: 9})
	c.until("all tasks are cancelled", func() bool {
		for _, j := range c.jobInfo(array) {
			if j.State != hpc.Cancelled || j.Flags&slurmspec.JobCompleting != 0 {
				return false
			}
		}
		return true
	})
}
