// Package workload holds what is to be submitted to a resource manager, and when:
// the [Workload], the checks that say whether a replay of it would mean anything, and
// what every [Format] of workloads shares.
//
// Package formats reads a workload of any known format; docs/FORMATS.md describes them.
package workload

import (
	"cmp"
	"slices"
	"time"

	"rmreplay/internal/hpc"
)

// Workload is everything that happens to a cluster from outside. Every list is
// in the order of its instants; entries of the same instant keep the input's order.
type Workload struct {
	Jobs         Jobs
	Reservations []hpc.ReservationEvent
	NodeEvents   []hpc.NodeEvent
	Users        []hpc.User
	// Actions are what an administrator does meanwhile.
	Actions []hpc.Action

	// Start is the window's start, or 0 for a workload that begins on an empty
	// machine. What comes before it is how the machine came to the state in which
	// the window finds it: see [Workload.Preset].
	Start hpc.Time
	// Usage is the fair-share usage at the window's start, or at the first
	// submission where there is no window.
	Usage []hpc.Usage

	// Epoch is the instant that relative times of the source count from.
	Epoch hpc.Time
	// Source names what the workload was read from.
	Source string
	// Rules counts the records of the source that fell under each named rule.
	Rules map[string]int

	// Transforms are what was done to the workload since it was read from its source,
	// in order, as options of the command that did it.
	Transforms []string

	// MachineNodes and MachineProcessors are the size of the machine that the
	// workload was recorded on; 0 where the source does not say.
	MachineNodes, MachineProcessors int
	// Header has the comments that the source begins with, without the character that
	// marks them.
	Header []string
	// Unusable are the records of the source that are no jobs to replay, as they
	// stand there.
	Unusable []Unusable
}

// Unusable is a record of a source that cannot be replayed.
type Unusable struct {
	Record int    // its place among the source's records, from 1
	Rule   string // the rule that it fell under
	Text   string // the record, without its line ending
}

// Preset reports whether the job was running when the window began. Where and
// since when is recorded; it is not the scheduler's to decide.
func (w *Workload) Preset(job *hpc.Job) bool {
	return job.Recorded != nil && job.Recorded.Start != 0 && job.Recorded.Start < w.Start
}

// Submitters are the workload's users, and whoever submits one of its jobs without being listed
// among them: of these only the name is known.
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

// PresetBurst is the largest number of preset jobs that start within ten seconds.
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

// Begin is the instant at which a replay has to begin: the epoch, or with a window a
// moment before the start of the earliest preset job, or the earliest submission of
// the jobs that were pending when the window began.
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

// prerollLead is the virtual time in which the machine is closed for all but the
// preset jobs, before the first of them starts.
const prerollLead = 10 * time.Second

// The named rules that readers count records under in [Workload.Rules].
const (
	// RuleOutOfOrder counts jobs that stand behind a later one in the source. They
	// are put in order.
	RuleOutOfOrder = "submit_out_of_order"
	// RuleClockJump counts jobs submitted more than [MaxGap] after the one before,
	// which no cluster in use sees: somebody's clock was wrong.
	RuleClockJump = "clock_jump"
	// RuleRenamed counts jobs whose ID had to differ from their name, because an
	// earlier job of the source has that name.
	RuleRenamed = "id_made_unique"
)

// MaxGap is the longest time between two submissions that is not a clock jump.
const MaxGap = 366 * 24 * time.Hour

// Sort brings every list into the order of its instants. Every maker of a workload must
// leave it so. Entries of the same instant keep their order.
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
