// Package document reads the documents of finished jobs that Slurm's jobcomp/elasticsearch and
// jobcomp/kafka plugins send.
//
// A document is one flat JSON object per job, with the keys of the plugins' source
// (src/plugins/jobcomp/elasticsearch/jobcomp_elasticsearch.c up to 23.02,
// jobcomp/common/jobcomp_common.c since 23.11). [Parse] accepts every text. If a value is invalid,
// its field is unknown and a mark is set. The caller stores the unchanged document.
package document

import (
	"time"

	"rmreplay/internal/slurmspec"
	"rmreplay/internal/waits"
)

// Int is an integer that may be unknown.
type Int struct {
	Value int64
	Known bool
}

// KnownInt returns a known integer.
func KnownInt(value int64) Int { return Int{Value: value, Known: true} }

// or returns the integer, or another one if the integer is unknown.
func (n Int) or(other Int) Int {
	if n.Known {
		return n
	}
	return other
}

// Hours is a number of hours that may be unknown.
type Hours struct {
	Value float64
	Known bool
}

// UnknownNodes is the node list of a job that ran on nodes whose names are unknown.
const UnknownNodes = "unknown"

// Job has the contents of a document. If the document does not have a value, the field is an empty
// text, a zero time, or an unknown [Int] or [Hours]. All times are UTC.
type Job struct {
	Cluster string
	JobID   int64 // 0 if the document has no job number, not even that of an array or heterogeneous job
	// Run distinguishes runs with the same job number: runs of a job that was requeued or resized, and jobs after Slurm
	// started again at FirstJobId. For a run that had nodes, it is the start in seconds since 1970. For a job that never
	// ran, it is the negative submit time. If the document has neither time, it is a hash of the document. If a task of
	// an array or a component of a heterogeneous job lacks its own number (sacct without JobIDRaw), its JobID is the
	// number of the array or heterogeneous job, and (index + 1) 2^34 is added to the absolute value of Run. In Slurm's
	// documents, tasks of an array that never ran are one job.
	Run int64

	State string // as in the document: COMPLETED, PENDING for a requeued run, ...
	// Lost says that the job was requeued after this run. In Slurm's documents, such runs have the
	// state PENDING; sacct prints REQUEUED. A run with PREEMPTED or NODE_FAIL may be the job's last
	// run, so Lost is set only if the document has the key "lost".
	Lost                         bool
	Submit, Eligible, Start, End time.Time
	// Elapsed and Limit are in seconds. Limit is unknown for a job without a time limit.
	Elapsed, Limit Int
	// Wait, SinceEligible and WaitParts are defined as in [waits.Sums], in seconds. They are unknown
	// for a job that never ran. Slurm's documents only say how long a job waited for its dependencies
	// (the part [waits.Dependency]); the rest of the wait is in the part [waits.Unknown].
	Wait, SinceEligible Int
	WaitParts           [len(waits.Sums{}.Parts)]Int

	CPUs, Nodes, MemMiB, GPUs, Billing Int  // allocated
	NodesCounted                       bool // the document has no number of nodes; Nodes was counted from NodeList
	CPUsRequested                      bool // the document has no allocated processors; CPUs has the requested ones
	ReqCPUs, ReqNodes, ReqMemMiB       Int  // requested
	ReqGPUs                            Int
	CPUHours, GPUHours, NodeHours      Hours // allocated amount times Elapsed; 0 for a job that never ran

	// The exit codes of the batch script and of the steps. They are unknown for a job that never
	// ran.
	ExitCode, ExitSignal, DerivedCode, DerivedSignal Int

	User, Group, Account, ParentAccounts string
	UserID, GroupID                      Int
	Partition, QOS, WCKey, Reservation   string
	Name, Container                      string
	ArrayJobID, ArrayTaskID              Int
	HetJobID, HetJobOffset               Int
	Tasks, TasksPerNode, TasksPerTRES    Int
	CPUsPerTask, Priority                Int
	NodeList, AllocNode, FailedNode      string
	ExcludedNodes, WorkDir               string
	StdIn, StdOut, StdErr                string
	Dependency, Features                 string
	TRESReq, TRESAlloc                   string
	Comment, AdminComment                string
	SLUID, OriginalSLUID                 string
	ScriptBytes                          Int // length of the batch script, which is only in the document

	// Marks says which rules the document breaks.
	Marks Marks
}

// Ran reports whether the job had nodes.
func (j *Job) Ran() bool { return !j.Start.IsZero() && (j.NodeList != "" || j.Elapsed.Value > 0) }

// LimitUsed returns the run time as a percentage of the time limit. ok is false for a job that never ran, and for a
// job whose limit is unknown or 0.
func (j *Job) LimitUsed() (percent float64, ok bool) {
	if j.Start.IsZero() || !j.Elapsed.Known || !j.Limit.Known || j.Limit.Value == 0 {
		return 0, false
	}
	return 100 * float64(j.Elapsed.Value) / float64(j.Limit.Value), true
}

// Finished reports whether the job has ended. jobcomp/kafka can also send a document when a job
// starts (JobCompParams=enable_job_start), and imported records may describe a job that was still
// pending or running.
func (j *Job) Finished() bool { return !j.End.IsZero() || slurmspec.ParseJobState(j.State).Ended() }

// EndBy treats an end after latest as a bad value: the end and all values computed from it become
// unknown. Run keeps its value, because it must agree with [Identify].
func (j *Job) EndBy(latest time.Time) {
	if !j.End.After(latest) {
		return
	}
	j.Marks |= BadValue
	j.End, j.Elapsed = time.Time{}, Int{}
	j.CPUHours, j.GPUHours, j.NodeHours = Hours{}, Hours{}, Hours{}
	if !j.Finished() {
		j.Marks |= StartEvent
	}
}

// Marks is a set of marks. Each mark says which rule a document breaks.
type Marks uint32

// The rules that a document can break.
const (
	NotJSON      Marks = 1 << iota // not a JSON object; only the text is stored
	NotUTF8                        // not valid UTF-8; read as ISO 8859-1
	UnknownKey                     // a key that the plugins of all releases lack
	BadValue                       // a value of the wrong type or outside its range; its field is unknown
	RepeatedKey                    // a key occurs twice; the last value counts
	NoJobID                        // no job number
	NoTimes                        // neither start nor submit time; only the content identifies the run
	TimesReverse                   // the end is before the start, or the start before the submit time
	StartEvent                     // the job has not ended
	NoCluster                      // no cluster; the index's name or the server's --cluster-name replaces it
	LongText                       // a text longer than [MaxText]; its column has the beginning
)

// Rules has the names of the marks, in the order of their bits.
var Rules = []string{
	"not_json", "not_utf8", "unknown_key", "bad_value", "repeated_key", "no_job_id", "no_times", "times_reversed",
	"start_event", "no_cluster", "long_text",
}

// Names returns the names of the set's rules.
func (m Marks) Names() (names []string) {
	for i, name := range Rules {
		if m&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}
