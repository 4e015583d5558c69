// Package explain says why jobs waited. A [Story] says why one job waited, and a [Stall] why the
// whole queue waited at an instant. It uses only the run's record: the jobs, the events with the
// resource manager's reasons, and the events of nodes and reservations. If a record has no
// reasons, the package explains the waits by the jobs that held the machine.
//
// The causes are ranked by how much of the wait each cause explains ([Cause]). The causes are
// evidence, but no proof: the record lacks the state of every node, the free memory and GPUs, and
// the limits of associations.
package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
	"rmreplay/internal/workload"
)

// Record is a run that is being explained.
type Record struct {
	manifest *run.Manifest
	rows     []run.Row
	end      hpc.Time // the end of the run
	reasons  bool     // whether the record has the resource manager's reasons
	requests map[string]*hpc.Job
	admin    run.Administration
	ranOn    map[string]map[string]bool // see [Record.partitionsOf]
	shares   map[shared][]rank          // see [Record.sharesOf]
}

// key identifies a job or a task.
type key struct {
	job  string
	task int
}

func (k key) String() string {
	if k.task < 0 {
		return k.job
	}
	return k.job + "_" + strconv.Itoa(k.task)
}

// Open reads the record of a run. It fails if the record cannot be read.
func Open(r *run.Run) (*Record, error) {
	rows, err := r.Histories()
	if err != nil {
		return nil, err
	}
	admin, err := r.Administration()
	if err != nil {
		return nil, err
	}
	return FromRows(&r.Manifest, rows, admin)
}

// FromRows makes a record of the histories of a run's jobs ([run.Run.Histories]), and of the run's node events and
// reservations. It returns an error if it cannot read the request of a job.
func FromRows(manifest *run.Manifest, rows []run.Row, admin run.Administration) (*Record, error) {
	rec := &Record{manifest: manifest, rows: rows, end: manifest.VirtualEnd, requests: map[string]*hpc.Job{}, admin: admin}
	for i := range rec.rows {
		rec.end = max(rec.end, rec.rows[i].Submit, rec.rows[i].Start, rec.rows[i].End)
		rec.reasons = rec.reasons || rec.rows[i].HasReasons() && (rec.manifest.Engine != "sim" || rec.manifest.OfSlurm())
	}
	for i := range rec.rows {
		row := &rec.rows[i]
		if row.Request == "" {
			continue
		}
		job, err := run.DecodeJob([]byte(row.Request))
		if err != nil {
			return nil, fmt.Errorf("run record: row %d: %w", i, err)
		}
		rec.requests[row.Job] = job
	}
	return rec, nil
}

// isRun reports whether the record is of a run, which may have reasons of a resource manager. A recorded workload has
// none at any time, so the time before its window is no cause.
func (rec *Record) isRun() bool { return rec.manifest.Engine != run.EngineRecorded }

// cpusOf and nodesOf return how many processors and nodes a job got or, without an allocation, how
// many it requests. The result is at least 1.
func (rec *Record) cpusOf(row *run.Row) int {
	n := row.Processors
	if job := rec.requests[row.Job]; job != nil && n == 0 {
		n = workload.CPUs(&job.Request)
	}
	return max(1, n)
}

func (rec *Record) nodesOf(row *run.Row, perNode int) int {
	n := max(row.NodeCount, row.AskedMinNodes, 1)
	if perNode > 0 {
		n = max(n, (rec.cpusOf(row)+perNode-1)/perNode)
	}
	return n
}

// partitionsOf returns the partitions whose jobs ran on a node according to the record.
func (rec *Record) partitionsOf(node string) map[string]bool {
	if rec.ranOn == nil {
		rec.ranOn = map[string]map[string]bool{}
		for i := range rec.rows {
			for _, r := range rec.rows[i].Runs() {
				for _, name := range nodesIn(r.Nodes) {
					if rec.ranOn[name] == nil {
						rec.ranOn[name] = map[string]bool{}
					}
					rec.ranOn[name][rec.rows[i].Partition] = true
				}
			}
		}
	}
	return rec.ranOn[node]
}

// holding is a job and one of its runs.
type holding struct {
	*run.Row
	run run.Segment
}

// heldAt returns the run in which a job holds processors at an instant, and reports whether such a
// run exists. A suspended job holds no processors.
func heldAt(row *run.Row, t hpc.Time) (h holding, ok bool) {
	at := func(s run.Segment) bool { return s.Start <= t && (s.End == 0 || s.End > t) }
	runs := row.Runs()
	i := slices.IndexFunc(runs, at)
	if i < 0 || len(row.Segments) > 0 && !slices.ContainsFunc(row.Held(), at) {
		return holding{}, false
	}
	return holding{row, runs[i]}, true
}

// queuedAt reports whether a job that holds no processors at an instant is in the queue. A suspended job is not
// in the queue. A preset job is in the queue before the run submits it ([Record.Submission]).
func queuedAt(row *run.Row, t hpc.Time) bool {
	return len(row.Segments) == 0 || t < row.Submit || during(waits.AppendQueued(nil, row), t)
}

// preset reports whether a job ran when the window began.
func (rec *Record) preset(row *run.Row) bool {
	start := row.FirstStart()
	return start != 0 && start < rec.manifest.WindowStart
}

// Submission returns when a job was submitted, for the order of the jobs in the queue: of a preset job its submission
// in the workload, if the record has it, because the run submits such a job only just before its start.
func (rec *Record) Submission(row *run.Row) hpc.Time {
	return cmp.Or(waits.Submission(row, rec.manifest.WindowStart), row.Submit)
}

// Span is a time for which a job had one reason to wait.
type Span struct {
	From    Instant `json:"from"`
	To      Instant `json:"to"`
	Seconds float64 `json:"seconds"`
	// Part is the part of the wait to which the time belongs.
	Part waits.Part `json:"part"`
	// Reason is Slurm's reason; empty if the record does not have it.
	Reason string `json:"reason"`
	// Planned is the start that the scheduler had planned for the job at the beginning of this time, or empty. The
	// record lacks later changes of the plan, which each cycle of backfill may make.
	Planned Instant `json:"planned_start,omitzero"`
	// Backfill is the action of the backfill scheduler on the job; empty if the record lacks it, or
	// if the job was not in that scheduler's queue.
	Backfill rm.Backfill `json:"backfill,omitempty"`
}

// spans returns the reasons of a job from its submission until the job started or ended, or the run
// ended.
func (rec *Record) spans(row *run.Row) []Span {
	list := []Span{}
	for _, s := range waits.Decompose(row, rec.end) {
		if s.Planned < s.From {
			s.Planned = 0
		}
		if !inBackfill(s.Reason) {
			s.Backfill = "" // this verdict is from a cycle before the job left the queue
		}
		list = append(list, Span{
			Instant(s.From), Instant(s.To), s.To.Sub(s.From).Seconds(), s.Part, s.Reason, Instant(s.Planned), s.Backfill,
		})
	}
	return list
}

// inBackfill reports whether a job with a reason is in the queue of the backfill scheduler.
func inBackfill(reason string) bool {
	switch waits.PartOf(reason) {
	case waits.Dependency, waits.BeginTime, waits.Held:
		return false
	}
	return reason != "JobArrayTaskLimit" && !strings.HasPrefix(reason, "Partition")
}

// spanAt returns the reason why a pending job waits at an instant. The field Planned of the result
// is the start that was recorded last: the first plan of a reason, which backfill may have changed.
func (rec *Record) spanAt(row *run.Row, t hpc.Time) (at waits.Span) {
	if t < row.Submit { // a preset job, before the run submits it
		return waits.Span{Part: waits.Unknown, Reason: run.BeforeWindow}
	}
	planned := hpc.Time(0)
	for _, s := range waits.Decompose(row, rec.end) {
		if s.From > t {
			break
		}
		if s.From != at.To { // a lost run is between these spans, so the earlier plan has ended
			planned = 0
		}
		at, planned = s, cmp.Or(s.Planned, planned)
	}
	at.Planned = planned
	return at
}

// Instant is a date; 0 for no date. In JSON it is RFC 3339 in UTC, and empty for 0.
type Instant hpc.Time

// MarshalText writes the date for JSON.
func (t Instant) MarshalText() ([]byte, error) {
	if t == 0 {
		return nil, nil
	}
	return []byte(hpc.Time(t).String()), nil
}

// Text returns the date in a time zone, in whole seconds.
func (t Instant) Text(zone *time.Location) string {
	if t == 0 {
		return "never"
	}
	return hpc.Time(t).Std().In(zone).Format(time.RFC3339)
}

// toEnd returns a text about the end of a period: a date, or "until the run ended".
func (t Instant) toEnd(zone *time.Location) string {
	if t == 0 {
		return "until the run ended"
	}
	return "to " + t.Text(zone)
}

// nodesIn returns the names of a host list; nil for an empty list, and for nodes without names.
func nodesIn(list string) []string {
	if list == "" {
		return nil
	}
	names, err := hostlist.Expand(list)
	if err != nil {
		return nil // the machine's nodes have no names
	}
	return names
}
