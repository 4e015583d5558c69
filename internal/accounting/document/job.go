// Package document reads the documents of finished jobs that Slurm's jobcomp/elasticsearch and
// jobcomp/kafka plugins send.
//
// A document is one JSON object a job, flat, with the keys of the plugins' source
// (src/plugins/jobcomp/elasticsearch/jobcomp_elasticsearch.c to 23.02, jobcomp/common/jobcomp_common.c
// from 23.11). [Parse] never refuses a document. A value that makes no sense leaves its field
// unknown and sets a mark; the caller keeps the document as it came.
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

// Known returns a known integer.
func Known(value int64) Int { return Int{Value: value, Known: true} }

// Hours are hours that may be unknown.
type Hours struct {
	Value float64
	Known bool
}

// UnknownNodes is the list of nodes of a job that ran on nodes whose names are not known.
const UnknownNodes = "unknown"

// Job is what a document says. What the document does not say is an empty text, a zero time, or an
// unknown [Int] or [Hours]. All times are UTC.
type Job struct {
	Cluster string
	JobID   int64 // 0 if neither the document nor its array or heterogeneous job has one
	// Run tells apart the runs of one job, which Slurm requeued or resized, and jobs that have the
	// same number because Slurm began again at FirstJobId. It is the start in seconds since 1970 of a
	// run that had nodes, the negative submission time of a job that never ran, and a hash of the
	// document if it says neither. A task of an array or a component of a heterogeneous job without a
	// number of its own, as sacct prints it without JobIDRaw, has the number of the whole as its
	// JobID, and its index plus one, times 2^34, is added to the amount of Run. Tasks of an array that
	// never ran are one job, as in Slurm's documents.
	Run int64

	State string // as the document has it: COMPLETED, PENDING of a requeued run, ...
	// Lost says that the run was lost: the job went back to the queue. For such runs, Slurm's
	// documents have the state PENDING, and sacct prints REQUEUED. A run with PREEMPTED or NODE_FAIL
	// may be the job's last, so it is lost only if the document says more.
	Lost                         bool
	Submit, Eligible, Start, End time.Time
	// Elapsed and Limit are in seconds. Limit is unknown for a job without a limit.
	Elapsed, Limit Int
	// Wait, SinceEligible and WaitParts mean the same as in [waits.Sums], in seconds. They are unknown for a job that
	// never ran. Of the parts, Slurm's documents only say how long the job depended on others; the rest is unknown.
	Wait, SinceEligible Int
	WaitParts           [len(waits.Sums{}.Parts)]Int

	CPUs, Nodes, MemMiB, GPUs, Billing Int  // allocated
	NodesCounted                       bool // the document has no number: Nodes is counted from NodeList
	ReqCPUs, ReqNodes, ReqMemMiB       Int  // asked for
	ReqGPUs                            Int
	CPUHours, GPUHours, NodeHours      Hours // allocated amount times Elapsed; 0 for a job that never ran

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
	ScriptBytes                          Int // length of the batch script, which only the document has

	// Marks are the rules that the document broke, in the order of [Rules].
	Marks Marks
}

// Ran reports whether the job had nodes.
func (j *Job) Ran() bool { return !j.Start.IsZero() && (j.NodeList != "" || j.Elapsed.Value > 0) }

// Finished reports whether the document is about an end. jobcomp/kafka can also send a document
// when a job starts (JobCompParams=enable_job_start), and records may have been written while a job waited or ran.
func (j *Job) Finished() bool { return !j.End.IsZero() || slurmspec.ParseJobState(j.State).Ended() }

// EndBy makes an end after the given instant a bad value, and everything computed from it unknown.
// Run does not change, so that it agrees with [Identify].
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

// Marks is a set of rules.
type Marks uint32

// The rules that a document can break.
const (
	NotJSON      Marks = 1 << iota // no JSON object: only the document is kept
	NotUTF8                        // bytes that are not UTF-8; they were read as ISO 8859-1
	UnknownKey                     // a key that no release's plugin has
	BadValue                       // a value of the wrong kind, or that makes no sense; its field is unknown
	RepeatedKey                    // a key twice: the last one counts
	NoJobID                        // no job number
	NoTimes                        // neither a start nor a submission: told apart by its content alone
	TimesReverse                   // it ends before it starts, or starts before it was submitted
	StartEvent                     // the job started; it has not ended
	NoCluster                      // no cluster: the index's name, or the server's --cluster-name, stands for it
	LongText                       // a text with more bytes than [MaxText]: its column has the beginning
)

// Rules names the marks, in the order of their bits.
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
