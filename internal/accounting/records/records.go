// Package records converts finished jobs of other sources to documents, and documents to finished jobs. The documents
// have the keys of Slurm's documents (package document), and further keys for data that Slurm's documents cannot
// express. So a job can be converted to a document and back.
package records

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
	"rmreplay/internal/lines"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/waits"
)

// fields are the keys of a document.
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
	Limit       limit   `json:"time_limit,omitempty"`
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
	Script      string  `json:"script,omitempty"`
	beyond
}

// beyond has the fields of records for which Slurm's documents have no key. Package document reads
// these keys. If Slurm's commands have a name for a key, the key has this name.
type beyond struct {
	SubmitLine  string `json:"submit_line,omitempty"`
	ArrayTasks  string `json:"array_task_str,omitempty"` // tasks of an array that never started
	ReqCPUs     int    `json:"req_cpus,omitempty"`
	ReqNodes    int    `json:"req_nodes,omitempty"`
	CPUsPerNode int    `json:"req_cpus_per_node,omitempty"`
	MemPerNode  int64  `json:"req_mem_per_node,omitempty"` // MiB
	MemPerCPU   int64  `json:"req_mem_per_cpu,omitempty"`  // MiB
	Memory      int64  `json:"req_mem,omitempty"`          // MiB
	GPUs        string `json:"req_gpus,omitempty"`
	GRES        string `json:"req_gres,omitempty"` // per node
	Licenses    string `json:"licenses,omitempty"`
	Suspended   int64  `json:"suspended,omitempty"` // seconds
	RunTime     *int64 `json:"run_time,omitempty"`  // seconds, without the time in which the job was suspended
	Restarts    int    `json:"restarts,omitempty"`
	Held        bool   `json:"held,omitempty"`
	Flags       string `json:"flags,omitempty"`
	UsedMemory  int64  `json:"used_memory,omitempty"` // bytes
	MovedBytes  int64  `json:"moved_bytes,omitempty"`
	WholeLine   bool   `json:"whole_line,omitempty"`
	Lost        bool   `json:"lost,omitempty"`         // the job was requeued after this run
	PreemptedBy string `json:"preempted_by,omitempty"` // in a replay: the workload's ID of the job that preempted this one
	Waits       string `json:"waits,omitempty"`        // the text of document.WaitsText, if the times do not determine the waits
}

// beyondOf returns the fields of a record for which Slurm's documents have no key. It omits the
// fields that follow from ReqTRES.
func beyondOf(r *finished.Job) beyond {
	follows := finished.Job{ReqTRES: r.ReqTRES}
	_ = finished.TakeTRES(&follows) // if the list has a mistake, the method add reads the same valid part of it
	b := beyond{
		SubmitLine: r.SubmitLine, ArrayTasks: r.ArrayRest, ReqCPUs: r.ReqCPUs, ReqNodes: r.ReqNodes,
		CPUsPerNode: r.TasksPerNode, MemPerNode: r.MemPerNode, MemPerCPU: r.MemPerCPU, Memory: r.Memory, GPUs: r.GPUs,
		GRES: r.GRES, Licenses: r.Licenses, Suspended: int64(r.Suspended / time.Second), Restarts: r.Restarts,
		Held: r.Held, Flags: r.Flags, UsedMemory: r.UsedMemory, MovedBytes: r.MovedBytes, WholeLine: r.WholeLine,
	}
	if r.Elapsed >= 0 {
		b.RunTime = new(int64(r.Elapsed / time.Second))
	}
	if b.ReqCPUs == follows.ReqCPUs {
		b.ReqCPUs = 0
	}
	if b.ReqNodes == follows.ReqNodes {
		b.ReqNodes = 0
	}
	if b.Memory == follows.Memory {
		b.Memory = 0
	}
	if b.GPUs == follows.GPUs {
		b.GPUs = ""
	}
	return b
}

// add copies the fields into a job. It ignores invalid values, because anyone may have sent the
// document.
func (b *beyond) add(r *finished.Job) {
	const most = 1 << 40 // limit of processors, nodes, and MiB of memory
	r.SubmitLine, r.Licenses, r.Flags, r.GPUs, r.GRES = b.SubmitLine, b.Licenses, b.Flags, b.GPUs, b.GRES
	r.Held, r.WholeLine = b.Held, b.WholeLine
	r.ReqCPUs = cmp.Or(int(within(int64(b.ReqCPUs), 0, most)), r.ReqCPUs)
	r.ReqNodes = cmp.Or(int(within(int64(b.ReqNodes), 0, most)), r.ReqNodes)
	r.TasksPerNode = int(within(int64(b.CPUsPerNode), 0, most))
	r.MemPerNode = within(b.MemPerNode, hpc.AllMemory, most)
	r.MemPerCPU, r.Memory = within(b.MemPerCPU, 0, most), within(b.Memory, 0, most)
	r.Restarts = int(within(int64(b.Restarts), 0, math.MaxInt32))
	r.UsedMemory, r.MovedBytes = within(b.UsedMemory, 0, 1<<60), within(b.MovedBytes, 0, 1<<60)
	r.Suspended = time.Duration(within(b.Suspended, 0, slurmspec.MaxSeconds)) * time.Second
	if b.RunTime != nil && within(*b.RunTime, 0, slurmspec.MaxSeconds) == *b.RunTime {
		r.Elapsed = time.Duration(*b.RunTime) * time.Second
	}
	_ = finished.TakeTRES(r) // the parser has marked a list with a mistake
}

// within returns n, or 0 if n is not from lowest to highest.
func within(n, lowest, highest int64) int64 {
	if n < lowest || n > highest {
		return 0
	}
	return n
}

// limit is a time limit in seconds. As in Slurm's documents, it is absent for a job without a
// limit. It is null if the record does not say the limit.
type limit = json.RawMessage

var noLimit, unknownLimit = limit(nil), limit("null")

func limitOf(d time.Duration) limit {
	switch {
	case d == hpc.Unlimited:
		return noLimit
	case d <= 0:
		return unknownLimit
	}
	return limit(strconv.FormatInt(int64(d/time.Second), 10))
}

// Document returns the document of a finished job. The parameter cluster is used if the job has no
// cluster. lost says that the job was requeued after this run. The list earlier contains the job's
// lost runs before this run. The document of the last run has the whole wait.
func Document(r *finished.Job, cluster string, lost bool, earlier ...finished.Job) ([]byte, error) {
	request := r.Asked()
	f := fields{
		JobID: r.Number, Cluster: r.Cluster, User: r.User, Group: r.Group,
		Submit: instant(r.Submit), Eligible: instant(r.Eligible), Start: instant(r.Start), End: instant(r.End),
		State: string(r.State), Partition: r.Partition, Account: r.Account, QOS: r.QOS, WCKey: r.WCKey, Reservation: r.Reservation,
		Name: r.Name, Nodes: r.NodeList, TotalCPUs: amount(r.AllocCPUs, r.Start), TotalNodes: amount(r.AllocNodes, r.Start),
		ExitCode: exitCode(r.ExitCode, r.Signal, r.HasExit), TRESReq: r.ReqTRES, TRESAlloc: r.AllocTRES,
		Priority: r.Priority, WorkDir: r.WorkDir, Dependency: cmp.Or(r.Dependency, request.Dependency), Features: r.Constraint, Comment: r.Comment,
		Script: r.Script, Limit: limitOf(r.TimeLimit), beyond: beyondOf(r),
	}
	f.Lost, f.Waits = lost, waitsOf(r, &request, lost, earlier)
	task, named := taskOf(r.ID)
	switch isTask := r.ArrayJob != 0 && r.ArrayTask >= 0; {
	case f.JobID != 0 || isTask: // a task without a number is identified by its index
	case r.HetJob == 0 && r.ArrayJob == 0 && named:
		f.ArrayJob, f.ArrayTask = task.Number, &task.Task
	case r.HetJob == 0:
		f.JobID = leadingNumber(r.ID)
	case r.HetOffset == 0: // the first component has the number of the heterogeneous job
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
	switch {
	case r.ArrayJob == 0:
	case r.ArrayTask >= 0:
		f.ArrayJob, f.ArrayTask = r.ArrayJob, &r.ArrayTask
	case r.ArrayRest != "":
		f.ArrayJob = r.ArrayJob
	}
	if r.HetJob != 0 {
		f.HetJob, f.HetOffset = r.HetJob, &r.HetOffset
	}
	ran(&f, r.Start)
	if r.Start == 0 && r.Elapsed > 0 && r.State.Ended() && f.Nodes == "" {
		f.Nodes = document.UnknownNodes // it ran
	}
	return encode(f)
}

// waitsOf returns the text of the wait of a job that requested a delay, or that lost runs. It is
// empty for other jobs, because the times alone say how long they waited. A task whose array has a
// limit of running tasks may have waited for this limit, so the delay that it requested is ignored.
func waitsOf(r *finished.Job, request *hpc.Request, lost bool, earlier []finished.Job) string {
	if lost {
		return document.WaitsLost
	}
	if len(earlier) == 0 && request.Dependency == "" && request.Begin <= 0 && !request.Hold {
		return ""
	}
	all := !strings.Contains(request.Array, "%")
	row := run.Row{Submit: r.Submit, Eligible: r.Eligible, Start: r.Start, End: r.End, AskedBegin: max(0, request.Begin),
		AskedHold: all && request.Hold, AskedDependency: all && request.Dependency != ""}
	if len(earlier) > 0 {
		row.Submit = earlier[0].Submit
		for _, e := range earlier {
			row.Segments = append(row.Segments, run.Segment{Start: e.Start, End: e.End, Eligible: e.Eligible, EndedBy: rm.Requeue})
		}
		row.Segments = append(row.Segments, run.Segment{Start: r.Start, End: r.End, EndedBy: rm.Ended})
	}
	s, ok := waits.Sum(&row)
	if !ok {
		return ""
	}
	return document.WaitsText(&s)
}

// exitCode formats an exit code; the result is empty if the record does not say the code.
func exitCode(status, signal int, known bool) string {
	if !known {
		return ""
	}
	return slurmspec.ExitCode{Status: status, Signal: signal}.String()
}

// Numbers returns the job numbers of a run's jobs and arrays, by the workload's ID. In a run on
// Slurm the last task to start has the array's number, and all other tasks have higher numbers. A
// workload that is imported as a run may lack this task. If neither the run's record nor the ID has a number, the job gets the lowest number from 1 that no other job has.
func Numbers(rows []run.Row, m *run.Manifest) map[string]uint32 {
	numbers, used := map[string]uint32{}, map[uint32]bool{}
	for i := range rows {
		r := &rows[i]
		if number, known := numbers[r.Job]; !known || r.RMJob < number {
			numbers[r.Job] = r.RMJob
		}
	}
	for id, number := range numbers {
		if m.Engine == run.EngineRecorded || number == 0 {
			numbers[id] = cmp.Or(leadingNumber(id), number)
		}
		used[numbers[id]] = true
	}
	next := uint32(1)
	for i := range rows {
		if id := rows[i].Job; numbers[id] == 0 {
			for used[next] {
				next++
			}
			numbers[id], used[next] = next, true
		}
	}
	return numbers
}

// RunDocuments returns the documents of a job of a run: one for each lost run of the job, and one
// for the job's last run. The last document has the whole wait. The parameter number is the number
// of the job, or of the task's array ([Numbers]).
func RunDocuments(r *run.Row, m *run.Manifest, cluster string, number uint32) (list [][]byte, err error) {
	for _, s := range r.Runs() {
		if s.EndedBy != rm.Requeue {
			continue
		}
		lost := *r
		lost.Eligible, lost.Start, lost.End, lost.State = r.FirstEligible(), s.Start, s.End, hpc.Requeued
		lost.Nodes, lost.NodeCount, lost.Processors = s.Nodes, s.NodeCount, s.Processors
		if s.PreemptedBy != "" {
			lost.State = hpc.Preempted
		}
		if s.NodeCount != r.NodeCount || s.Processors != r.Processors {
			lost.TRES = ""
		}
		f := runFields(&lost, m, cluster, number)
		f.Waits, f.ExitCode, f.Lost, f.PreemptedBy = document.WaitsLost, "", true, s.PreemptedBy
		text, err := encode(f)
		if err != nil {
			return nil, err
		}
		list = append(list, text)
	}
	f := runFields(r, m, cluster, number)
	f.Eligible = instant(r.FirstEligible())
	if r.Preset(m.WindowStart) {
		f.Waits = document.WaitsPreset
	} else if s, ok := waits.Sum(r); ok {
		f.Waits = document.WaitsText(&s)
	}
	text, err := encode(f)
	return append(list, text), err
}

// runFields returns what the documents of all runs of a job have in common. Jobs that started
// before the window are preset. If a workload is imported as a run, its recorded exit codes are
// unknown.
func runFields(r *run.Row, m *run.Manifest, cluster string, number uint32) fields {
	f := fields{
		JobID: r.RMJob, Cluster: cluster, User: r.User, Group: r.Group,
		Submit: instant(r.Submit), Eligible: instant(r.Eligible), Start: instant(r.Start), End: instant(r.End),
		State: string(r.State), Partition: r.Partition, Account: r.Account, QOS: r.QOS, Reservation: r.Reservation, Name: r.Name,
		Limit: limitOf(r.TimeLimit), Nodes: r.Nodes, TotalCPUs: amount(r.Processors, r.Start), TotalNodes: amount(r.NodeCount, r.Start),
		ExitCode: exitCode(r.ExitCode, r.Signal, m.Engine != run.EngineRecorded), TRESAlloc: r.TRES,
	}
	task, isTask := taskOf(r.Job)
	switch {
	case f.JobID == 0 && r.Task < 0 && isTask:
		f.ArrayJob, f.ArrayTask = task.Number, &task.Task
	case r.Task >= 0 && r.Start == 0: // Slurm numbers a task at its start; before its start, a task has the array's number
		f.JobID, f.ArrayJob, f.ArrayTask = 0, number, &r.Task
	case r.Task >= 0:
		f.ArrayJob, f.ArrayTask = number, &r.Task
	case f.JobID == 0:
		f.JobID = number
	}
	if r.Priority != 0 {
		f.Priority = &r.Priority
	}
	switch {
	case m.Engine == run.EngineRecorded: // a log has the number of processors that a job requested
		f.ReqCPUs = r.AskedTasks * max(1, r.AskedCPUsPerTask)
	case r.Start == 0: // a run has sbatch's options; jobs that started also have their allocation
		f.ReqNodes = r.AskedMinNodes
		f.ReqCPUs = max(1, r.AskedTasks, r.AskedMinNodes) * max(1, r.AskedCPUsPerTask)
	}
	ran(&f, r.Start)
	return f
}

// ran sets the node list of a job that ran without a known node list to [document.UnknownNodes]. The
// job then counts as a job that ran. The simulator and some logs record only the number of nodes.
func ran(f *fields, start hpc.Time) {
	if start != 0 && f.Nodes == "" && (f.TotalCPUs != nil || f.TotalNodes != nil) {
		f.Nodes = document.UnknownNodes
	}
}

// amount returns how much a job was allocated. It returns nil if the job ran but the record lacks the amount.
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

// layout is the layout of times in documents. They are in UTC.
const layout = "2006-01-02T15:04:05"

func instant(t hpc.Time) string {
	if t <= 0 || t == hpc.Never {
		return ""
	}
	return t.Std().UTC().Format(layout)
}

// taskOf parses the name of an array's task, such as "5313029_10". It is for records that have the
// task only in this name.
func taskOf(name string) (id slurmspec.JobID, ok bool) {
	id, err := slurmspec.ParseJobID(name)
	return id, err == nil && id.Number > 0 && id.Task >= 0
}

// leadingNumber returns the number at the beginning of a job's ID, or 0.
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

// Finished returns the finished job that a document describes.
func Finished(text []byte, cluster string) (*finished.Job, document.Marks) {
	j := document.Parse(text, cluster)
	r := &finished.Job{
		ID: strconv.FormatInt(j.JobID, 10), Cluster: j.Cluster, Number: uint32(j.JobID), ArrayTask: -1, Elapsed: -1,
		Name: j.Name, User: j.User, Group: j.Group, Account: j.Account, Partition: j.Partition, QOS: j.QOS, WCKey: j.WCKey, Reservation: j.Reservation,
		Constraint: j.Features, Comment: j.Comment,
		Submit: moment(j.Submit), Eligible: moment(j.Eligible), Start: moment(j.Start), End: moment(j.End),
		State: slurmspec.ParseJobState(j.State), ExitCode: int(j.ExitCode.Value), Signal: int(j.ExitSignal.Value), HasExit: j.ExitCode.Known,
		ReqCPUs: int(j.ReqCPUs.Value), ReqNodes: int(j.ReqNodes.Value), AllocCPUs: int(j.CPUs.Value), AllocNodes: int(j.Nodes.Value),
		ReqTRES: j.TRESReq, AllocTRES: j.TRESAlloc, NodeList: j.NodeList, WorkDir: j.WorkDir, Dependency: j.Dependency, TimeLimit: hpc.Unlimited,
	}
	if j.NodesCounted { // Nodes was only counted from the list of nodes: the record lacks the number
		r.AllocNodes = 0
	}
	if j.CPUsRequested {
		r.AllocCPUs = 0
	}
	if r.NodeList == document.UnknownNodes {
		r.NodeList, r.Ran = "", true
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
	// These keys have no field in [document.Job].
	var more struct {
		JobID  json.Number `json:"jobid"`
		Limit  limit       `json:"time_limit"`
		Script string      `json:"script"`
		beyond
	}
	err := json.Unmarshal([]byte(lines.UTF8(text)), &more)
	if _, other := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !other { // it has read the other keys, too
		return r, j.Marks
	}
	r.Script = more.Script
	if more.JobID == "" { // a task or component that has only the number of its array or heterogeneous job
		r.Number = 0
	}
	if string(more.Limit) == string(unknownLimit) {
		r.TimeLimit = 0
	}
	if j.ArrayJobID.Known && !j.ArrayTaskID.Known && more.ArrayTasks != "" {
		r.ArrayJob, r.ArrayRest = uint32(j.ArrayJobID.Value), more.ArrayTasks
		r.ID = strconv.Itoa(int(r.ArrayJob)) + "_[" + r.ArrayRest + "]"
	}
	more.add(r)
	return r, j.Marks
}

func moment(t time.Time) hpc.Time {
	if t.IsZero() {
		return 0
	}
	return hpc.Time(t.UnixNano())
}
