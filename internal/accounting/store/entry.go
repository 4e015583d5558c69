package store

import (
	"math"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/accounting/document"
)

// Source says how a job came into the store.
type Source string

// The sources. A document that Slurm sent replaces one that was imported, and not the other way round.
const (
	Received   Source = "received"   // by HTTP, from jobcomp/elasticsearch
	Kafka      Source = "kafka"      // from jobcomp/kafka
	Imported   Source = "imported"   // from accounting records
	Reconciled Source = "reconciled" // from accounting records, because Slurm never sent it
	FromRun    Source = "run"        // from a run record
)

// Sent reports whether Slurm sent the document.
func (s Source) Sent() bool { return s == Received || s == Kafka }

// Entry is a document on its way into the store.
type Entry struct {
	Seq      int64 // number of the arrival, from 1, ascending without repetition
	Arrived  time.Time
	Source   Source
	Index    string // name of the index that it was sent to
	Document []byte // as it came
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

// Outcome is what [Store.Apply] made of its entries.
type Outcome struct {
	Added     int // new jobs, and new runs of known jobs
	Duplicate int // documents that the store had
	Replaced  int // jobs whose document was replaced by a later one
	Kept      int // imported documents of jobs that Slurm had sent
	Skipped   int // entries that an earlier call has applied
}

// Add adds the outcome of another call.
func (o *Outcome) Add(more Outcome) {
	o.Added += more.Added
	o.Duplicate += more.Duplicate
	o.Replaced += more.Replaced
	o.Kept += more.Kept
	o.Skipped += more.Skipped
}

// Cluster is what is known of a cluster, or of a run that stands beside clusters.
type Cluster struct {
	Name              string
	Kind              string // "site" or "run"
	Nodes, CPUs, GPUs document.Int
	Description       string
}
