// Package workload has the [Workload]: the submissions to a resource manager, and everything else
// that happens to a cluster from outside. It also checks whether a replay of a workload is
// meaningful, and has the parts that all [Format]s share.
//
// Package formats reads a workload of any known format; docs/FORMATS.md describes the formats.
package workload

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
)

// Workload is everything that happens to a cluster from outside. Every list is sorted by
// instant. Entries of the same instant keep the input's order.
type Workload struct {
	Jobs         Jobs
	Reservations []hpc.ReservationEvent
	NodeEvents   []hpc.NodeEvent
	Users        []hpc.User
	// Actions are the commands that an administrator runs during the workload.
	Actions []hpc.Action

	// Start is the window's start, or 0 for a workload that begins on an empty machine. The jobs and
	// events before Start bring the machine into its state at Start: see [Workload.Preset].
	Start hpc.Time
	// Usage is the fair-share usage at the window's start or, without a window, at the first
	// submission.
	Usage []hpc.Usage

	// Epoch is the instant from which the source's relative times count.
	Epoch hpc.Time
	// Source names the file or database from which the workload was read.
	Source string
	// Rules counts the records of the whole source to which each named rule applied, also those of jobs that a transform
	// has left out.
	Rules map[string]int
	// Mistake describes the source's first mistake for which there is a rule, for people who read
	// the counts. It is "" if there was no mistake, or if the workload was written and read again.
	Mistake string

	// Transforms are the changes to the workload since it was read from its source. They are in
	// order, and each is given as the options of the command that made it.
	Transforms []string

	// Completion says how rules made fields that were not recorded; nil if rules made no field.
	Completion *Completion

	// MachineNodes and MachineProcessors are the size of the machine on which the workload was
	// recorded; 0 if unknown.
	MachineNodes, MachineProcessors int
	// FileSystems are the file systems to and from which the jobs move data.
	FileSystems []hpc.FileSystem
	// Header has the comment lines at the source's beginning, without the comment character.
	Header []string
	// Unusable are the records of the source that are not jobs to replay, with their text. A workload with only some of
	// the source's jobs has none.
	Unusable []Unusable
	// Rows counts the records of an accounting source by how the reader used them.
	Rows Rows
	// FirstSubmit and LastSubmit are the first and the last submission in the records of an accounting source, also
	// outside the window; 0 if unknown.
	FirstSubmit, LastSubmit hpc.Time
}

// Rows counts the records of a source by how the reader used them. Read is the sum of the other
// counts, because readers drop records only by rules: see [Rows.Lost].
type Rows struct {
	Read    int // records in the source
	Jobs    int // records that are jobs, or tasks of job arrays
	Parts   int // records with further data about a job that also has another record, such as steps
	Dropped int // records that a rule drops
}

// Lost returns how many records were dropped without a rule. If it is not 0, the reader has a
// fault.
func (r Rows) Lost() int { return r.Read - r.Jobs - r.Parts - r.Dropped }

// Unusable is a record of a source that cannot be replayed.
type Unusable struct {
	Record int    // its number among the source's records, from 1
	Rule   string // the rule that applied
	Text   string // the record, without its line ending
}

// Preset reports whether the job was running when the window began. The record gives its nodes and
// its start, so the scheduler does not decide about it.
func (w *Workload) Preset(job *hpc.Job) bool {
	return job.Recorded != nil && job.Recorded.Start != 0 && job.Recorded.Start < w.Start
}

// Presets returns the number of jobs that are running when the window begins.
func (w *Workload) Presets() (n int) {
	for _, job := range w.Jobs.All() {
		if w.Preset(job) {
			n++
		}
	}
	return n
}

// EmptyAtBegin returns a warning if no job runs when the workload begins, and otherwise "". remedy
// says how to get the jobs that ran then.
func (w *Workload) EmptyAtBegin(remedy string) string {
	if w.Presets() > 0 {
		return ""
	}
	return "no job runs when the workload begins: in a replay or simulation, the machine is empty then, and the first jobs " +
		"wait for too short a time (want " + remedy + ")"
}

// NothingSubmitted returns a warning if the window begins after the last submission in the source's records, and
// otherwise "". Such a workload has only jobs that waited or ran when the window began.
func (w *Workload) NothingSubmitted() string {
	if w.LastSubmit == 0 || w.Start <= w.LastSubmit {
		return ""
	}
	return fmt.Sprintf("no job was submitted in the window: the window begins at %s, and the records that were read have "+
		"submissions from %s to %s", w.Start, w.FirstSubmit, w.LastSubmit)
}

// LacksNodes reports whether a job is a preset job and its record names no nodes.
func (w *Workload) LacksNodes(job *hpc.Job) bool {
	return w.Preset(job) && job.Array == "" && job.Recorded.Nodes == ""
}

// LeavesRunning returns a test for jobs that are left out, because they ran when the window began and their nodes are
// unknown. The test notes the jobs and their processors in [Workload.Rules] if the function homeless is true of them.
func (w *Workload) LeavesRunning(homeless func(*hpc.Job) bool) func(*hpc.Job) bool {
	return func(job *hpc.Job) bool {
		if !homeless(job) {
			return false
		}
		w.Note(RuleLeftRunning, 1)
		w.Note(RuleLeftProcessors, cmp.Or(job.Recorded.Processors, CPUs(&job.Request)))
		return true
	}
}

// LeftRunning describes the jobs that ran when a window began and were left out, because their nodes are unknown: "7
// jobs with 40 processors". The rules have their numbers. The result is "" if no job was left out.
func LeftRunning(rules map[string]int) string {
	n, processors := rules[RuleLeftRunning], rules[RuleLeftProcessors]
	switch {
	case n == 0:
		return ""
	case processors == 0: // a trace that an older release wrote
		return quantity.Regular(n, "job")
	}
	return quantity.Regular(n, "job") + " with " + quantity.Regular(processors, "processor")
}

// Submitters returns the workload's users, and further users that only jobs name. For the further
// users, only the name is known.
func (w *Workload) Submitters() []hpc.User {
	users := slices.Clip(w.Users)
	listed := map[string]bool{"": true}
	for _, u := range users {
		listed[u.Name] = true
	}
	for _, job := range w.Jobs.All() {
		if !listed[job.User] {
			listed[job.User] = true
			users = append(users, hpc.User{Name: job.User})
		}
	}
	return users
}

// PresetBurst returns the largest number of preset jobs that start within ten seconds.
func (w *Workload) PresetBurst() int {
	var starts []hpc.Time
	for _, job := range w.Jobs.All() {
		if w.Preset(job) {
			starts = append(starts, job.Recorded.Start)
		}
	}
	slices.Sort(starts)
	burst, first := 0, 0
	for i, start := range starts {
		for start.Sub(starts[first]) > 10*time.Second {
			first++
		}
		burst = max(burst, i-first+1)
	}
	return burst
}

// Begin returns the instant at which a replay has to begin. Without a window it is the epoch. With
// a window, it is prerollLead before the first of these instants: the window's start, the starts
// of the preset jobs, and the submissions of the jobs that wait when the window begins.
func (w *Workload) Begin() hpc.Time {
	if w.Start == 0 {
		return w.Epoch
	}
	begin := w.Start
	for _, job := range w.Jobs.All() {
		at := job.Submit
		if w.Preset(job) {
			at = job.Recorded.Start
		}
		begin = min(begin, at)
	}
	return begin.Add(-prerollLead)
}

// prerollLead is the virtual time between the beginning of the replay and the earliest of the
// instants of [Workload.Begin]. Until the window begins, only preset jobs may start on the machine.
const prerollLead = 10 * time.Second

// The rules under which readers count records in [Workload.Rules].
const (
	// RuleOutOfOrder counts jobs that the source lists after a job with a later submission. The reader
	// sorts them.
	RuleOutOfOrder = "submit_out_of_order"
	// RuleClockJump counts jobs submitted more than [MaxGap] after the previous job. No cluster in use
	// is idle that long, so a clock must have been wrong.
	RuleClockJump = "clock_jump"
	// RuleRenamed counts jobs that got another ID because an earlier job of the source has the
	// same name.
	RuleRenamed = "id_made_unique"
	// RuleNoLineEnd counts last lines without a line end, if the reader cannot find out whether
	// they are complete.
	RuleNoLineEnd = "last_line_without_end"
	// RuleFewerNodes counts jobs whose options of sbatch request more nodes than tasks. As with sbatch, such jobs get as
	// many nodes as tasks.
	RuleFewerNodes = "nodes_above_tasks"
	// RuleLeftRunning counts jobs that ran when a window began, but are left out because their nodes
	// are unknown. RuleLeftProcessors counts the processors of these jobs.
	RuleLeftRunning    = "running_left_out"
	RuleLeftProcessors = "running_left_out_processors"
)

// MaxGap is the longest time between two submissions that does not count as a clock jump.
const MaxGap = 366 * 24 * time.Hour

// Sort sorts every list by instant. Entries of the same instant keep their order. Every
// function that makes a workload must call it.
func (w *Workload) Sort() {
	w.Jobs.Sort()
	slices.SortStableFunc(w.Reservations, func(a, b hpc.ReservationEvent) int { return cmp.Compare(a.At, b.At) })
	slices.SortStableFunc(w.NodeEvents, func(a, b hpc.NodeEvent) int { return cmp.Compare(a.At, b.At) })
	slices.SortStableFunc(w.Actions, func(a, b hpc.Action) int { return cmp.Compare(a.At, b.At) })
}

// Note adds n to the count of a rule in [Workload.Rules].
func (w *Workload) Note(rule string, n int) {
	book := RuleBook{Counts: w.Rules}
	book.Note(rule, n)
	w.Rules = book.Counts
}
