package store

import (
	"math"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/accounting/document"
)

// Source says how a document reached the store.
type Source string

// The sources. A document that Slurm sent replaces an imported document, but not the reverse.
const (
	Received   Source = "received"   // by HTTP, from jobcomp/elasticsearch
	Kafka      Source = "kafka"      // from jobcomp/kafka
	Imported   Source = "imported"   // from accounting records
	Reconciled Source = "reconciled" // from accounting records, for a job that Slurm never sent
	FromRun    Source = "run"        // from a run record
)

// Sent reports whether Slurm sent the document.
func (s Source) Sent() bool { return s == Received || s == Kafka }

// Entry is a document that is to be stored.
type Entry struct {
	Seq      int64 // number of the arrival: 1 or more, and higher than the numbers of all earlier arrivals
	Arrived  time.Time
	Source   Source
	Index    string // name of the index that Slurm sent the document to
	Document []byte // unchanged, as received
	Job      document.Job
}

// ID returns the id of a job's run: its cluster, number and run, separated by colons.
func ID(j *document.Job) string {
	return j.Cluster + ":" + strconv.FormatInt(j.JobID, 10) + ":" + strconv.FormatInt(j.Run, 10)
}

// ParseID returns the parts of an id, and false for a text that is not an id.
func ParseID(id string) (cluster string, jobID, run int64, ok bool) {
	last := strings.LastIndexByte(id, ':')
	if last < 0 {
		return "", 0, 0, false
	}
	middle := strings.LastIndexByte(id[:last], ':')
	if middle < 0 {
		return "", 0, 0, false
	}
	jobID, errJob := strconv.ParseInt(id[middle+1:last], 10, 64)
	run, errRun := strconv.ParseInt(id[last+1:], 10, 64)
	return id[:middle], jobID, run, errJob == nil && errRun == nil && run != math.MinInt64
}

// Outcome counts what [Store.Apply] did with its entries.
type Outcome struct {
	Added     int // new jobs, and new runs of known jobs
	Duplicate int // documents that the store already had
	Replaced  int // jobs whose document was replaced by a later document
	Kept      int // imported documents that were ignored because Slurm had sent the job
	Skipped   int // entries that an earlier call had applied
}

// Add adds the counts of another call.
func (o *Outcome) Add(more Outcome) {
	o.Added += more.Added
	o.Duplicate += more.Duplicate
	o.Replaced += more.Replaced
	o.Kept += more.Kept
	o.Skipped += more.Skipped
}

// Cluster describes a cluster, or a run that is shown like a cluster.
type Cluster struct {
	Name              string
	Kind              string // "site" or "run"
	Nodes, CPUs, GPUs document.Int
	Description       string
	Doubt             string // why the run is not valid; empty for a valid run and for a site

	Frozen    bool      `json:",omitempty"` // the run's clock stood still while the scheduler computed
	Simulated bool      `json:",omitempty"` // the run's scheduler is a model
	Window    time.Time `json:",omitzero"`  // beginning of the run's window, and of its scheduler's figures
	Begin     time.Time `json:",omitzero"`  // beginning of the run's workload: its window, or else its epoch
}
