// Package records turns finished jobs of other sources into documents, and documents into finished
// jobs. Documents have the keys of Slurm's own (package document), and submit_line beside them.
package records

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
	"rmreplay/internal/lines"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec"
)

// fields is a document.
type fields struct {
	JobID       uint32  `json:"jobid,omitempty"`
	Cluster     string  `json:"cluster,omitempty"`
	User        string  `json:"username,omitempty"`
	UserID      *uint32 `json:"user_id,omitempty"`
	Group       string  `json:"groupname,omitempty"`
	GroupID     *uint32 `json:"group_id,omitempty"`
	Submit      string  `json:"@submit,omitempty"`
	Eligible    string  `json:"@eligible,omitempty"`
	Start       string  `json:"@start,omitempty"`
	End         string  `json:"@end,omitempty"`
	State       string  `json:"state,omitempty"`
	Partition   string  `json:"partition,omitempty"`
	Account     string  `json:"account,omitempty"`
	QOS         string  `json:"qos,omitempty"`
	WCKey       string  `json:"wc_key,omitempty"`
	Reservation string  `json:"reservation_name,omitempty"`
	Name        string  `json:"job_name,omitempty"`
	Limit       int64   `json:"time_limit,omitempty"`
	Nodes       string  `json:"nodes,omitempty"`
	TotalCPUs   *int    `json:"total_cpus,omitempty"`
	TotalNodes  *int    `json:"total_nodes,omitempty"`
	ExitCode    string  `json:"exit_code,omitempty"`
	TRESReq     string  `json:"tres_req,omitempty"`
	TRESAlloc   string  `json:"tres_alloc,omitempty"`
	ArrayJob    uint32  `json:"array_job_id,omitempty"`
	ArrayTask   *int    `json:"array_task_id,omitempty"`
	HetJob      uint32  `json:"het_job_id,omitempty"`
	HetOffset   *int    `json:"het_job_offset,omitempty"`
	Priority    *uint32 `json:"priority,omitempty"`
	WorkDir     string  `json:"work_dir,omitempty"`
	Dependency  string  `json:"orig_dependency,omitempty"`
	Features    string  `json:"features,omitempty"`
	Comment     string  `json:"comment,omitempty"`
	SubmitLine  string  `json:"submit_line,omitempty"`
	Script      string  `json:"script,omitempty"`
}

// Document returns the document of a finished job. cluster stands for a missing cluster.
func Document(r *finished.Job, cluster string) ([]byte, error) {
	f := fields{
		JobID: r.Number, Cluster: r.Cluster, User: r.User, Group: r.Group,
		Submit: instant(r.Submit), Eligible: instant(r.Eligible), Start: instant(r.Start), End: instant(r.End),
		State: string(r.State), Partition: r.Partition, Account: r.Account, QOS: r.QOS, WCKey: r.WCKey, Reservation: r.Reservation,
		Name: r.Name, Nodes: r.NodeList, TotalCPUs: amount(r.AllocCPUs, r.Start), TotalNodes: amount(r.AllocNodes, r.Start),
		ExitCode: slurmspec.ExitCode{Status: r.ExitCode, Signal: r.Signal}.String(), TRESReq: r.ReqTRES, TRESAlloc: r.AllocTRES,
		Priority: r.Priority, WorkDir: r.WorkDir, Dependency: r.Dependency, Features: r.Constraint, Comment: r.Comment,
		SubmitLine: r.SubmitLine, Script: r.Script,
	}
	switch isTask := r.ArrayJob != 0 && r.ArrayTask >= 0; {
	case f.JobID != 0 || isTask: // a task without a number is told apart by its index
	case r.HetJob == 0:
		f.JobID = leadingNumber(r.ID)
	case r.HetOffset == 0: // the number of the first component is that of the whole
		f.JobID = r.HetJob
	}
	if f.Cluster == "" {
		f.Cluster = cluster
	}
	if r.HasUID {
		f.UserID, f.GroupID = &r.UID, &r.GID
	}
	if f.End == "" && r.Start != 0 && r.Elapsed > 0 && r.State.Ended() {
		f.End = instant(r.Start.Add(r.Elapsed))
	}
	f.Limit = seconds(r.TimeLimit)
	if r.ArrayJob != 0 && r.ArrayTask >= 0 {
		f.ArrayJob, f.ArrayTask = r.ArrayJob, &r.ArrayTask
	}
	if r.HetJob != 0 {
		f.HetJob, f.HetOffset = r.HetJob, &r.HetOffset
	}
	ran(&f, r.Start)
	return encode(f)
}

// RunDocument returns the document of a job of a run record.
func RunDocument(r *run.Row, cluster string) ([]byte, error) {
	f := fields{
		JobID: r.RMJob, Cluster: cluster, User: r.User, Group: r.Group,
		Submit: instant(max(r.Submit, r.Resubmit)), Eligible: instant(r.Eligible), Start: instant(r.Start), End: instant(r.End),
		State: string(r.State), Partition: r.Partition, Account: r.Account, QOS: r.QOS, Reservation: r.Reservation, Name: r.Name,
		Limit: seconds(r.TimeLimit), Nodes: r.Nodes, TotalCPUs: amount(r.Processors, r.Start), TotalNodes: amount(r.NodeCount, r.Start),
		ExitCode: slurmspec.ExitCode{Status: r.ExitCode, Signal: r.Signal}.String(), TRESAlloc: r.TRES,
	}
	switch {
	case r.Task >= 0 && r.Start == 0: // Slurm numbers a task when it starts: until then they share the array's number
		f.JobID, f.ArrayJob, f.ArrayTask = 0, cmp.Or(leadingNumber(r.Job), r.RMJob), &r.Task
	case r.Task >= 0:
		f.ArrayJob, f.ArrayTask = leadingNumber(r.Job), &r.Task
	case f.JobID == 0:
		f.JobID = leadingNumber(r.Job)
	}
	if r.Priority != 0 {
		f.Priority = &r.Priority
	}
	ran(&f, r.Start)
	return encode(f)
}

// ran gives a job without a node list its place among those that ran: the simulator and some logs
// know the number of nodes only.
func ran(f *fields, start hpc.Time) {
	if start != 0 && f.Nodes == "" && (f.TotalCPUs != nil || f.TotalNodes != nil) {
		f.Nodes = "unknown"
	}
}

// amount returns what a job had, or nil for a job that ran and of which the record does not say it.
func amount(n int, start hpc.Time) *int {
	if start != 0 && n == 0 {
		return nil
	}
	return &n
}

func encode(f fields) ([]byte, error) {
	for _, text := range []*string{&f.User, &f.Group, &f.Account, &f.Name, &f.Comment, &f.WorkDir, &f.SubmitLine, &f.Script} {
		*text = lines.UTF8([]byte(*text))
	}
	return json.Marshal(f)
}

// layout is that of the documents' times, which are UTC.
const layout = "2006-01-02T15:04:05"

func instant(t hpc.Time) string {
	if t <= 0 || t == hpc.Never {
		return ""
	}
	return t.Std().UTC().Format(layout)
}

func seconds(d time.Duration) int64 {
	if d <= 0 || d == hpc.Unlimited {
		return 0
	}
	return int64(d / time.Second)
}

// leadingNumber returns the number at the beginning of a job's name, or 0.
func leadingNumber(id string) uint32 {
	end := strings.IndexFunc(id, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(id)
	}
	n, err := strconv.ParseUint(id[:end], 10, 32)
	if err != nil {
		return 0
	}
	return uint32(n)
}

// Finished returns the finished job of a document.
func Finished(text []byte, cluster string) (*finished.Job, document.Marks) {
	j := document.Parse(text, cluster)
	r := &finished.Job{
		ID: strconv.FormatInt(j.JobID, 10), Cluster: j.Cluster, Number: uint32(j.JobID), ArrayTask: -1, Elapsed: -1,
		Name: j.Name, User: j.User, Group: j.Group, Account: j.Account, Partition: j.Partition, QOS: j.QOS, WCKey: j.WCKey, Reservation: j.Reservation,
		Constraint: j.Features, Comment: j.Comment,
		Submit: moment(j.Submit), Eligible: moment(j.Eligible), Start: moment(j.Start), End: moment(j.End),
		State: slurmspec.ParseJobState(j.State), ExitCode: int(j.ExitCode.Value), Signal: int(j.ExitSignal.Value),
		ReqCPUs: int(j.ReqCPUs.Value), ReqNodes: int(j.ReqNodes.Value), AllocCPUs: int(j.CPUs.Value), AllocNodes: int(j.Nodes.Value),
		ReqTRES: j.TRESReq, AllocTRES: j.TRESAlloc, NodeList: j.NodeList, WorkDir: j.WorkDir, Dependency: j.Dependency, TimeLimit: hpc.Unlimited,
	}
	if r.NodeList == "unknown" {
		r.NodeList = ""
	}
	if j.Limit.Known {
		r.TimeLimit = time.Duration(j.Limit.Value) * time.Second
	}
	if j.UserID.Known && j.GroupID.Known {
		r.UID, r.GID, r.HasUID = uint32(j.UserID.Value), uint32(j.GroupID.Value), true
	}
	if j.ArrayJobID.Known && j.ArrayTaskID.Known {
		r.ArrayJob, r.ArrayTask = uint32(j.ArrayJobID.Value), int(j.ArrayTaskID.Value)
		r.ID = strconv.Itoa(int(r.ArrayJob)) + "_" + strconv.Itoa(r.ArrayTask)
	}
	if j.HetJobID.Known && j.HetJobID.Value > 0 {
		r.HetJob, r.HetOffset = uint32(j.HetJobID.Value), int(j.HetJobOffset.Value)
		r.ID = strconv.FormatInt(j.HetJobID.Value, 10) + "+" + strconv.Itoa(r.HetOffset)
	}
	if j.Priority.Known {
		priority := uint32(j.Priority.Value)
		r.Priority = &priority
	}
	// What only the document has.
	var more struct {
		JobID      json.Number `json:"jobid"`
		SubmitLine string      `json:"submit_line"`
		Script     string      `json:"script"`
	}
	if json.Unmarshal([]byte(lines.UTF8(text)), &more) == nil {
		r.SubmitLine, r.Script = more.SubmitLine, more.Script
		if more.JobID == "" { // a part of a whole, which has the number
			r.Number = 0
		}
	}
	return r, j.Marks
}

func moment(t time.Time) hpc.Time {
	if t.IsZero() {
		return 0
	}
	return hpc.Time(t.UnixNano())
}
