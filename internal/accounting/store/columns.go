package store

import (
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"rmreplay/internal/accounting/columnar"
	"rmreplay/internal/accounting/document"
	"rmreplay/internal/waits"
)

// Column is a column of the table jobs.
type Column struct {
	Name string // name in SQL
	Type string // type in SQL
	// Field is the key of Slurm's document whose value the column has, for example "@submit". It is empty for a
	// column that the store computes.
	Field string
	Doc   string // meaning of the column, with the unit
	of    func(e *Entry) parquet.Value
}

// Columns lists the columns of the table jobs in their order. The table also has the column id: cluster, jobid and
// run, separated by colons. All columns except seq, arrived, source, cluster, jobid and run may be NULL, which means
// "not known".
var Columns = slices.Concat([]Column{
	{"seq", "BIGINT NOT NULL", "", "number of the arrival, ascending", func(e *Entry) parquet.Value { return columnar.Int(e.Seq) }},
	{"arrived", "TIMESTAMP NOT NULL", "", "when the document came (UTC)", func(e *Entry) parquet.Value { return columnar.Int(e.Arrived.UnixMicro()) }},
	{"source", "VARCHAR NOT NULL", "", "received, kafka, imported, reconciled or run", func(e *Entry) parquet.Value { return columnar.Text(string(e.Source)) }},
	{"collection", "VARCHAR", "_index", "name of the index that the document was sent to", text(func(e *Entry) string { return e.Index })},
	{"cluster", "VARCHAR NOT NULL", "cluster", "name of the cluster, or of an imported run", func(e *Entry) parquet.Value { return columnar.Text(e.Job.Cluster) }},
	{"jobid", "BIGINT NOT NULL", "jobid", "Slurm's job number; 0 for a document without one", func(e *Entry) parquet.Value { return columnar.Int(e.Job.JobID) }},
	{"run", "BIGINT NOT NULL", "", "number of the run: its start in seconds since 1970, or the negative submission time of a job that never ran; tasks of an array that never ran share one row in Slurm's documents, and have a row and a number each in an imported run", func(e *Entry) parquet.Value { return columnar.Int(e.Job.Run) }},
	{"state", "VARCHAR", "state", "COMPLETED, FAILED, TIMEOUT, ...; PENDING for a run that ended in a requeue", job(func(j *document.Job) string { return j.State })},
	{"lost", "BIGINT", "", "1 for a run that was lost because its job went back to the queue; 0 for other runs", func(e *Entry) parquet.Value { return columnar.Int(map[bool]int64{true: 1}[e.Job.Lost]) }},
	{"submit_time", "TIMESTAMP", "@submit", "submission (UTC)", instant(func(j *document.Job) time.Time { return j.Submit })},
	{"eligible_time", "TIMESTAMP", "@eligible", "instant from which the job could start (UTC)", instant(func(j *document.Job) time.Time { return j.Eligible })},
	{"start_time", "TIMESTAMP", "@start", "start; NULL for a job that never ran (UTC)", instant(func(j *document.Job) time.Time { return j.Start })},
	{"end_time", "TIMESTAMP", "@end", "end (UTC)", instant(func(j *document.Job) time.Time { return j.End })},
	{"elapsed_s", "BIGINT", "elapsed", "time from start to end, in seconds; 0 for a job that never ran", number(func(j *document.Job) document.Int { return j.Elapsed })},
	{"wait_s", "BIGINT", "", "time from submission to start in seconds, without the lost runs of an imported run's job; NULL for a job that never ran", number(func(j *document.Job) document.Int { return j.Wait })},
	{"wait_since_eligible_s", "BIGINT", "@queue_wait", "the part of wait_s in which the job was eligible, in seconds; NULL if the eligible time is not known", number(func(j *document.Job) document.Int { return j.SinceEligible })},
	{"limit_s", "BIGINT", "time_limit", "time limit in seconds; NULL for a job without a limit", number(func(j *document.Job) document.Int { return j.Limit })},
	{"cpus", "BIGINT", "total_cpus", "allocated processors; if the record lacks them, the requested ones", number(func(j *document.Job) document.Int { return j.CPUs })},
	{"nodes", "BIGINT", "total_nodes", "allocated nodes; counted in node_list if the document has no number", number(func(j *document.Job) document.Int { return j.Nodes })},
	{"mem_mib", "BIGINT", "", "allocated memory in MiB, from tres_alloc", number(func(j *document.Job) document.Int { return j.MemMiB })},
	{"gpus", "BIGINT", "", "allocated GPUs, from tres_alloc", number(func(j *document.Job) document.Int { return j.GPUs })},
	{"billing", "BIGINT", "", "billing units, from tres_alloc", number(func(j *document.Job) document.Int { return j.Billing })},
	{"req_cpus", "BIGINT", "", "requested processors, from req_cpus or tres_req", number(func(j *document.Job) document.Int { return j.ReqCPUs })},
	{"req_nodes", "BIGINT", "", "requested nodes, from req_nodes or tres_req", number(func(j *document.Job) document.Int { return j.ReqNodes })},
	{"req_mem_mib", "BIGINT", "", "requested memory in MiB, from req_mem (per node or CPU, times their number) or tres_req", number(func(j *document.Job) document.Int { return j.ReqMemMiB })},
	{"req_gpus", "BIGINT", "", "requested GPUs, from tres_req", number(func(j *document.Job) document.Int { return j.ReqGPUs })},
	{"cpu_hours", "DOUBLE", "cpu_hours", "cpus times elapsed_s, in hours; NULL if the job ran and cpus or elapsed_s is not known", hours(func(j *document.Job) document.Hours { return j.CPUHours })},
	{"gpu_hours", "DOUBLE", "", "gpus times elapsed_s, in hours; NULL if the job ran and gpus or elapsed_s is not known", hours(func(j *document.Job) document.Hours { return j.GPUHours })},
	{"node_hours", "DOUBLE", "", "nodes times elapsed_s, in hours; NULL if the job ran and nodes or elapsed_s is not known", hours(func(j *document.Job) document.Hours { return j.NodeHours })},
	{"exit_code", "BIGINT", "", "exit status of the job's script (the part of exit_code before the colon); NULL for a job that never ran", number(func(j *document.Job) document.Int { return j.ExitCode })},
	{"exit_signal", "BIGINT", "", "signal that ended the job's script (the part of exit_code after the colon); 0 without a signal; NULL for a job that never ran", number(func(j *document.Job) document.Int { return j.ExitSignal })},
	{"derived_code", "BIGINT", "", "highest exit status of the job's steps (derived_ec); NULL for a job that never ran", number(func(j *document.Job) document.Int { return j.DerivedCode })},
	{"derived_signal", "BIGINT", "", "signal of derived_ec; 0 without a signal; NULL for a job that never ran", number(func(j *document.Job) document.Int { return j.DerivedSignal })},
	{"user_name", "VARCHAR", "username", "user", job(func(j *document.Job) string { return j.User })},
	{"user_id", "BIGINT", "user_id", "UID", number(func(j *document.Job) document.Int { return j.UserID })},
	{"group_name", "VARCHAR", "groupname", "group", job(func(j *document.Job) string { return j.Group })},
	{"group_id", "BIGINT", "group_id", "GID", number(func(j *document.Job) document.Int { return j.GroupID })},
	{"account", "VARCHAR", "account", "account", job(func(j *document.Job) string { return j.Account })},
	{"parent_accounts", "VARCHAR", "parent_accounts", "accounts from the root to the job's account, as /root/physics", job(func(j *document.Job) string { return j.ParentAccounts })},
	{"partition", "VARCHAR", "partition", "partition; a list with commas if the job never ran", job(func(j *document.Job) string { return j.Partition })},
	{"qos", "VARCHAR", "qos", "QOS", job(func(j *document.Job) string { return j.QOS })},
	{"wckey", "VARCHAR", "wc_key", "workload characterization key", job(func(j *document.Job) string { return j.WCKey })},
	{"reservation", "VARCHAR", "reservation_name", "reservation", job(func(j *document.Job) string { return j.Reservation })},
	{"job_name", "VARCHAR", "job_name", "name of the job", job(func(j *document.Job) string { return j.Name })},
	{"container", "VARCHAR", "container", "OCI container", job(func(j *document.Job) string { return j.Container })},
	{"array_job_id", "BIGINT", "array_job_id", "job number of the task's array", number(func(j *document.Job) document.Int { return j.ArrayJobID })},
	{"array_task_id", "BIGINT", "array_task_id", "number of the task in its array", number(func(j *document.Job) document.Int { return j.ArrayTaskID })},
	{"het_job_id", "BIGINT", "het_job_id", "job number of the component's heterogeneous job", number(func(j *document.Job) document.Int { return j.HetJobID })},
	{"het_job_offset", "BIGINT", "het_job_offset", "number of the component in its heterogeneous job", number(func(j *document.Job) document.Int { return j.HetJobOffset })},
	{"ntasks", "BIGINT", "ntasks", "tasks", number(func(j *document.Job) document.Int { return j.Tasks })},
	{"ntasks_per_node", "BIGINT", "ntasks_per_node", "tasks on each node", number(func(j *document.Job) document.Int { return j.TasksPerNode })},
	{"ntasks_per_tres", "BIGINT", "ntasks_per_tres", "tasks for each GPU", number(func(j *document.Job) document.Int { return j.TasksPerTRES })},
	{"cpus_per_task", "BIGINT", "cpus_per_task", "processors for each task", number(func(j *document.Job) document.Int { return j.CPUsPerTask })},
	{"priority", "BIGINT", "priority", "priority at the end", number(func(j *document.Job) document.Int { return j.Priority })},
	{"node_list", "VARCHAR", "nodes", "allocated nodes, as a host list", job(func(j *document.Job) string { return j.NodeList })},
	{"alloc_node", "VARCHAR", "alloc_node", "host that submitted the job", job(func(j *document.Job) string { return j.AllocNode })},
	{"failed_node", "VARCHAR", "failed_node", "node whose failure ended the job", job(func(j *document.Job) string { return j.FailedNode })},
	{"excluded_nodes", "VARCHAR", "excluded_nodes", "nodes that the job must not have", job(func(j *document.Job) string { return j.ExcludedNodes })},
	{"work_dir", "VARCHAR", "work_dir", "working directory", job(func(j *document.Job) string { return j.WorkDir })},
	{"std_in", "VARCHAR", "std_in", "file of the standard input", job(func(j *document.Job) string { return j.StdIn })},
	{"std_out", "VARCHAR", "std_out", "file of the standard output", job(func(j *document.Job) string { return j.StdOut })},
	{"std_err", "VARCHAR", "std_err", "file of the standard error", job(func(j *document.Job) string { return j.StdErr })},
	{"dependency", "VARCHAR", "orig_dependency", "dependencies as submitted", job(func(j *document.Job) string { return j.Dependency })},
	{"features", "VARCHAR", "features", "requested features (constraints)", job(func(j *document.Job) string { return j.Features })},
	{"tres_req", "VARCHAR", "tres_req", "requested TRES, as cpu=4,mem=8G", job(func(j *document.Job) string { return j.TRESReq })},
	{"tres_alloc", "VARCHAR", "tres_alloc", "allocated TRES", job(func(j *document.Job) string { return j.TRESAlloc })},
	{"comment", "VARCHAR", "comment", "the user's comment", job(func(j *document.Job) string { return j.Comment })},
	{"admin_comment", "VARCHAR", "admin_comment", "an administrator's comment", job(func(j *document.Job) string { return j.AdminComment })},
	{"sluid", "VARCHAR", "sluid", "Slurm's unique ID of the run (26.05)", job(func(j *document.Job) string { return j.SLUID })},
	{"original_sluid", "VARCHAR", "original_sluid", "unique ID of the job's first run (26.05)", job(func(j *document.Job) string { return j.OriginalSLUID })},
	{"script_bytes", "BIGINT", "", "length of the batch script; only the document has its text", number(func(j *document.Job) document.Int { return j.ScriptBytes })},
	{"marks", "VARCHAR", "", "rules that the document broke, separated by commas; NULL if the document followed all rules", text(func(e *Entry) string { return strings.Join(e.Job.Marks.Names(), ",") })},
}, waitColumns())

// waitColumns returns the columns for the parts of wait_s.
func waitColumns() (list []Column) {
	for i, part := range waits.Parts {
		list = append(list, Column{"wait_" + string(part) + "_s", "BIGINT", "", "the part of wait_s in which the job waited " + part.MeaningInAny() +
			", in seconds; NULL if it is not known", number(func(j *document.Job) document.Int { return j.WaitParts[i] })})
	}
	return list
}

// text makes a column of text. The empty text becomes NULL.
func text(of func(e *Entry) string) func(e *Entry) parquet.Value {
	return func(e *Entry) parquet.Value {
		s := of(e)
		return columnar.Nullable(s != "", columnar.Text(s))
	}
}

func job(of func(j *document.Job) string) func(e *Entry) parquet.Value {
	return text(func(e *Entry) string { return of(&e.Job) })
}

func number(of func(j *document.Job) document.Int) func(e *Entry) parquet.Value {
	return func(e *Entry) parquet.Value {
		n := of(&e.Job)
		return columnar.Nullable(n.Known, columnar.Int(n.Value))
	}
}

func hours(of func(j *document.Job) document.Hours) func(e *Entry) parquet.Value {
	return func(e *Entry) parquet.Value {
		n := of(&e.Job)
		return columnar.Nullable(n.Known, parquet.DoubleValue(n.Value))
	}
}

func instant(of func(j *document.Job) time.Time) func(e *Entry) parquet.Value {
	return func(e *Entry) parquet.Value {
		t := of(&e.Job)
		return columnar.Nullable(!t.IsZero(), columnar.Int(t.UnixMicro()))
	}
}
