package metrics

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/run"
	"rmreplay/internal/spelling"
	"rmreplay/internal/waits"
	"rmreplay/internal/workload"
)

// Float is a number that may have no value, which is NaN. JSON has neither NaN nor
// infinity: both become null.
type Float float64

// MarshalJSON encodes f as a number or null. It keeps twelve digits: later digits come from
// rounding in sums of binary fractions, as in 1342.8000000000002.
func (f Float) MarshalJSON() ([]byte, error) {
	if !f.Known() {
		return []byte("null"), nil
	}
	short, err := strconv.ParseFloat(strconv.FormatFloat(float64(f), 'g', 12, 64), 64)
	if err != nil {
		return nil, err
	}
	return json.Marshal(short)
}

// UnmarshalJSON decodes a number. It decodes null as NaN.
func (f *Float) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*f = Float(math.NaN())
		return nil
	}
	return json.Unmarshal(data, (*float64)(f))
}

// Known reports whether f has a value.
func (f Float) Known() bool { return !math.IsNaN(float64(f)) && !math.IsInf(float64(f), 0) }

// Summary is the output of `rmreplay metrics`: the metrics of all jobs of a run, and how
// the run itself went. Other programs rely on its JSON keys.
type Summary struct {
	Metrics

	Engine string    `json:"engine"` // "slurm" or "sim"
	Policy string    `json:"policy,omitempty"`
	Seed   uint64    `json:"seed"`
	State  run.State `json:"state"` // "running" for a run that was killed
	Valid  bool      `json:"valid"`
	// Doubt says why the run is not valid; empty if it is valid.
	Doubt string `json:"not_valid_reason,omitempty"`
	// NotSubmitted is the number of jobs that were not submitted, because the run ended too early.
	NotSubmitted int `json:"not_submitted"`

	// VirtualSeconds is the virtual time that the run covered, WallSeconds the real time
	// that it took, and Speedup their ratio.
	VirtualSeconds Float `json:"virtual_s"`
	WallSeconds    Float `json:"wall_s"`
	Speedup        Float `json:"speedup"`

	Warnings []run.Warning `json:"warnings"`

	// Feedback is what reacting users did; nil for a rigid replay.
	Feedback *Feedback `json:"feedback,omitempty"`

	// Recorded compares a replay with the record of its workload; nil if the workload has no record.
	Recorded *run.Verdict `json:"recorded_against_replayed,omitempty"`

	// LeftRunning describes the jobs of a record that ran when its window began and are left out, because their nodes are
	// unknown ([workload.LeftRunning]). Figures of the machine's use are lower bounds then.
	LeftRunning string `json:"left_running,omitempty"`

	// Reasons are the waits by the reason that the resource manager gave; nil if the run has no
	// reasons.
	Reasons []ReasonTotal `json:"pending_reasons,omitempty"`

	// IO is how the jobs shared file systems; nil for a run without file systems.
	IO *IO `json:"io,omitempty"`

	// Fairness says how equally users, accounts, QOS and jobs were served; nil if it was not computed.
	Fairness map[By]Fairness `json:"fairness,omitempty"`

	// FairStart is the unfairness by fair start times; nil if it was not requested.
	FairStart *FairStart `json:"fair_start,omitempty"`

	// Course is drawn below the table of distributions; nil for no picture.
	Course *Course `json:"-"`

	// Groups are the metrics of groups of jobs, by grouping.
	Groups map[By][]Group `json:"groups,omitempty"`

	// Driven says whether a driver outside slurmctld held the jobs ([waits.Driven]).
	Driven bool `json:"-"`
}

// By is a property by which jobs are grouped.
type By string

// The properties by which jobs can be grouped.
const (
	ByPartition By = "partition"
	ByAccount   By = "account"
	ByUser      By = "user"
	ByQOS       By = "qos"
	BySize      By = "size"  // processors, in classes that double
	ByState     By = "state" // the last state
)

// Groupings are all values of [By].
var Groupings = []By{ByPartition, ByAccount, ByUser, ByQOS, BySize, ByState}

// ParseBy reads the name of a grouping. The error lists the names.
func ParseBy(s string) (By, error) {
	if by := By(s); slices.Contains(Groupings, by) {
		return by, nil
	}
	names := make([]string, len(Groupings))
	for i, by := range Groupings {
		names[i] = string(by)
	}
	return "", fmt.Errorf("%q: jobs cannot be grouped by this (%s)", s, spelling.Meant(s, names))
}

// Group is the metrics of the jobs of one group.
type Group struct {
	Name string `json:"name"` // empty for jobs without the property
	Metrics
}

// FromRun returns the summary of a run. [Options.WithManifest] completes opts. FromRun fails if the
// run's tables cannot be read.
func FromRun(r *run.Run, opts Options, by ...By) (*Summary, error) {
	rows, err := r.Histories()
	if err != nil {
		return nil, err
	}
	if err := opts.outside(rows); err != nil {
		return nil, err
	}
	s := NewSummary(rows, &r.Manifest, opts, by...)
	if opts.Columns > 0 {
		s.Course = NewCourse(rows, opts.WithManifest(&r.Manifest), opts.Columns)
	}
	s.IO, err = NewIO(rows, &r.Manifest, opts)
	return s, err
}

// outside returns an error if no job was pending or running between From and To, because all jobs ended before From
// or were submitted after To.
func (o Options) outside(rows []run.Row) error {
	first, last := hpc.Never, hpc.Time(0)
	for i := range rows {
		first, last = min(first, rows[i].Submit), max(last, rows[i].Submit, rows[i].End)
	}
	if last == 0 || (o.From == 0 || o.From <= last) && (o.To == 0 || o.To >= first) {
		return nil
	}
	return fmt.Errorf("computing figures from %s to %s: this is outside the run (want times between %s and %s)",
		cmp.Or(o.From, first), cmp.Or(o.To, last), first, last)
}

// NewSummary is [FromRun] for rows that the caller has read ([run.Run.Histories]), without
// [Summary.Course] and [Summary.IO].
func NewSummary(rows []run.Row, m *run.Manifest, opts Options, by ...By) *Summary {
	opts = opts.WithManifest(m)
	s := Describe(Compute(rows, opts), m)
	s.Reasons = ReasonsOfAll(func(yield func(*run.Row) bool) {
		for r := range all(rows) {
			if !opts.LeavesOut(r) && !yield(r) {
				return
			}
		}
	}, m)
	s.Fairness = FairnessOf(all(rows), opts)
	if m.Feedback != nil {
		s.Feedback = NewFeedback(rows, *m.Feedback, opts)
	}
	for _, b := range by {
		if s.Groups == nil {
			s.Groups = make(map[By][]Group)
		}
		s.Groups[b] = Groups(rows, b, opts, m.Cluster.Partitions)
	}
	return s
}

// WithManifest returns the options with the manifest's values for Nodes, Processors and Window where
// these are 0.
func (o Options) WithManifest(m *run.Manifest) Options {
	if o.Nodes == 0 {
		o.Nodes = m.Cluster.Nodes
	}
	if o.Processors == 0 {
		o.Processors = m.Cluster.Processors
	}
	if o.Window == 0 {
		o.Window = m.WindowStart
	}
	return o
}

// leftRunning returns [Summary.LeftRunning].
func leftRunning(m *run.Manifest) string {
	if m.Engine != run.EngineRecorded {
		return "" // such jobs were not in the run
	}
	return workload.LeftRunning(m.Workload.Rules)
}

// Describe returns the summary of a run with the given metrics, without groups and
// feedback.
func Describe(computed Metrics, m *run.Manifest) *Summary {
	return &Summary{
		Metrics: computed,
		Engine:  m.Engine, Policy: m.Policy, Seed: m.Seed, State: m.State, Valid: m.Valid, Doubt: m.Doubt(),
		NotSubmitted:   m.Jobs.NotSubmitted,
		VirtualSeconds: known(m.VirtualSeconds),
		WallSeconds:    known(m.WallSeconds),
		Speedup:        known(m.Speedup),
		Warnings:       append([]run.Warning{}, m.Warnings...),
		Recorded:       m.Recorded,
		Driven:         waits.Driven(m),
		LeftRunning:    leftRunning(m),
	}
}

// known returns a number of the manifest, in which 0 means unknown.
func known(v float64) Float {
	if v == 0 {
		return Float(math.NaN())
	}
	return Float(v)
}

// Groups returns the metrics of groups of jobs. The groups are sorted by name, or for [BySize] by size. The metrics of
// all groups are over the interval T of all jobs, so that the processor seconds of the groups add up to the total.
// Utilization is the group's share of the machine. For [ByPartition] it is the share of the partition's own capacity,
// if the parameter partitions has the partition. A group is left out if [Options.LeavesOut] holds for all of its jobs,
// and none of them waited or ran in T.
func Groups(rows []run.Row, by By, opts Options, partitions []run.Partition) []Group {
	first, last, _ := opts.period(all(rows))
	if opts.From == 0 {
		opts.From = first
	}
	if opts.To == 0 {
		opts.To = last
	}
	parts := make(map[groupKey][]run.Row)
	for i := range rows {
		key := keyOf(&rows[i], by)
		parts[key] = append(parts[key], rows[i])
	}
	keys := make([]groupKey, 0, len(parts))
	for key := range parts {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b groupKey) int {
		return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.name, b.name))
	})
	groups := make([]Group, 0, len(keys))
	for _, key := range keys {
		capacity := opts
		if by == ByPartition {
			capacity = ofPartition(opts, key.name, partitions)
		}
		g := Group{Name: key.name, Metrics: Compute(parts[key], capacity)}
		if g.Jobs+g.Rejected > 0 || g.UsedProcessorSeconds > 0 || g.MeanQueue > 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

// ofPartition returns the options with the partition's capacity instead of the machine's.
func ofPartition(opts Options, name string, partitions []run.Partition) Options {
	for _, p := range partitions {
		if p.Name == name {
			opts.Nodes, opts.Processors = p.Nodes, p.Processors
		}
	}
	return opts
}

// groupKey identifies a group. Groups sort by size, then by name.
type groupKey struct {
	size int
	name string
}

// keyOf returns the group to which a job belongs.
func keyOf(r *run.Row, by By) groupKey {
	switch by {
	case ByPartition:
		return groupKey{name: r.Partition}
	case ByAccount:
		return groupKey{name: r.Account}
	case ByUser:
		return groupKey{name: r.User}
	case ByQOS:
		return groupKey{name: r.QOS}
	case BySize:
		if r.Processors <= 0 && r.FirstStart() == 0 {
			return groupKey{name: SizeOfNone}
		}
		return sizeClass(r.Processors)
	case ByState:
		return groupKey{name: string(r.State)}
	}
	return groupKey{}
}

// SizeOfNone is the name of the group of jobs that never started, if jobs are grouped by size.
const SizeOfNone = "(never started)"

// ShownName returns the name of a group for people: "(none)" for a group without a name.
func ShownName(name string) string { return cmp.Or(name, "(none)") }

// GroupName returns the name of the group to which a job belongs; empty if the job lacks the
// property.
func GroupName(r *run.Row, by By) string { return keyOf(r, by).name }

// sizeClass returns the class of a number of processors: 1, 2, 3-4, 5-8, and so on. Jobs whose
// processors are not recorded are in a class without a name.
func sizeClass(processors int) groupKey {
	if processors <= 0 {
		return groupKey{}
	}
	class := bits.Len(uint(processors - 1)) // processors <= 1<<class
	high := 1 << class
	name := fmt.Sprint(high)
	if low := high/2 + 1; low < high {
		name = fmt.Sprintf("%d-%d", low, high)
	}
	return groupKey{size: class + 1, name: name}
}

// CompareGroups orders the names of the groups of one grouping: classes of sizes by their number of processors, and
// other groups by their names.
func CompareGroups(by By, a, b string) int {
	size := func(name string) int {
		n, _ := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:]) // the class without a name is the first
		return n
	}
	if by == BySize {
		return cmp.Compare(size(a), size(b))
	}
	return cmp.Compare(a, b)
}

// stateOrder is the order of states in the summary, successful states first.
var stateOrder = []hpc.State{
	hpc.Completed, hpc.Failed, hpc.TimedOut, hpc.Cancelled, hpc.Preempted,
	hpc.NodeFail, hpc.OutOfMemory, hpc.Deadlined, hpc.BootFail,
	hpc.Running, hpc.Suspended, hpc.Pending, hpc.Requeued,
}

// sortedStates returns the states that occur, in stateOrder, then by name.
func sortedStates(counts map[hpc.State]int) []hpc.State {
	rank := func(s hpc.State) int {
		if i := slices.Index(stateOrder, s); i >= 0 {
			return i
		}
		return len(stateOrder)
	}
	states := make([]hpc.State, 0, len(counts))
	for s := range counts {
		states = append(states, s)
	}
	slices.SortFunc(states, func(a, b hpc.State) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	})
	return states
}
