package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/compare/releases"
	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
)

// Divergence is the first difference of one kind between two runs. Later differences may be its consequences.
type Divergence struct {
	Kind DivergenceKind `json:"kind"`
	Key
	run int // the index of the job's run that differs, from 0; a requeued job has several runs
	// At is the earlier of the two instants that differ, on the baseline's dates. If the event
	// happened only on one side, At is its instant.
	At     Instant `json:"at"`
	Reason string  `json:"text"`
	// The fields User to TimeLimit describe the job; Processors and NodeCount are its allocation.
	User       string        `json:"user"`
	Partition  string        `json:"partition"`
	Processors int           `json:"processors"`
	NodeCount  int           `json:"nodes"`
	TimeLimit  metrics.Float `json:"time_limit_s"`
	// Baseline and Set describe both runs just before the event at At. BeforeWindow says that At is before the window
	// of a side. That side's run does not have the queue and the machine of that time.
	Baseline     Situation `json:"baseline"`
	Set          Situation `json:"set"`
	BeforeWindow bool      `json:"-"`
	// Overtook are the jobs that overtook this job. In the run in which this job started later, the overtaking jobs
	// started between At and this job's start. In the other run, they had not started by At.
	Overtook []string `json:"overtook"`
	overtook []Key
	// Causes are the causes that the records show. The list is empty if they show no cause.
	Causes []Cause `json:"causes"`
	// explained says that a proven cause explains the whole difference.
	explained bool
}

// DivergenceKind says what differed.
type DivergenceKind string

// The kinds of divergence. At one instant they sort in this order: a cause before its effect.
const (
	DivergedAnswer  DivergenceKind = "answer"   // one run rejected the job
	DivergedSubmit  DivergenceKind = "submit"   // the job was submitted at a different time
	DivergedLost    DivergenceKind = "lost_run" // the job was requeued, and lost the work of its run
	DivergedRunTime DivergenceKind = "run_time" // the job ran for longer or shorter
	DivergedNodes   DivergenceKind = "nodes"    // the job started at the same time on different nodes
	DivergedStart   DivergenceKind = "start"    // the job started at a different time
)

var divergenceOrder = []DivergenceKind{DivergedAnswer, DivergedSubmit, DivergedLost, DivergedRunTime, DivergedNodes,
	DivergedStart}

// Situation is the state of a run just before an event. At the event's instant, ends come first, then submissions, then
// lost runs, preemptions and starts.
type Situation struct {
	Submit Instant `json:"job_submit"` // the submission of the diverging job
	// Start, End and Nodes belong to the run of the job that differs, and Wait is the time in the queue before that
	// run. A job that was requeued had several runs.
	Start Instant       `json:"job_start"`
	End   Instant       `json:"job_end"`
	Wait  metrics.Float `json:"job_wait_s"`
	Nodes string        `json:"job_nodes"`
	// Priority is the job's priority at the start of that run; 0 if unknown.
	Priority uint32 `json:"job_priority"`
	// By is the scheduler that started that run; empty if unknown.
	By releases.Scheduler `json:"job_started_by"`

	Queued         int `json:"queued_jobs"`
	Running        int `json:"running_jobs"`
	BusyNodes      int `json:"busy_nodes"`
	BusyProcessors int `json:"busy_processors"`
	// Jobs and nodes that are in this state in this run only, up to [listedJobs] jobs.
	OnlyQueued  []string `json:"only_queued"`
	OnlyRunning []string `json:"only_running"`
	OnlyBusy    string   `json:"only_busy_nodes"` // host list; empty if the other run does not name the nodes of its jobs
}

// Busy returns the number of busy nodes as a text; "" if the record does not name the nodes of jobs.
func (s *Situation) Busy() string {
	if s.BusyNodes == 0 && s.Running > 0 {
		return ""
	}
	return quantity.Count(s.BusyNodes)
}

// Instant is a date of a divergence, on the baseline's dates; 0 if the event did not happen. In
// JSON it is RFC 3339 in UTC, and empty for 0.
type Instant hpc.Time

// Text returns the date in a time zone, in the form of [hpc.Time.Text]; "" for 0.
func (t Instant) Text(zone *time.Location) string {
	if t == 0 {
		return ""
	}
	return hpc.Time(t).Text(zone)
}

// MarshalText writes the date for JSON.
func (t Instant) MarshalText() ([]byte, error) { return []byte(t.Text(time.UTC)), nil }

// listedJobs is the largest number of jobs in one list of a divergence.
const listedJobs = 20

// diverge returns the first divergence of each kind, in the order of their instants. The parameter
// between is nil unless the runs are on two known releases of Slurm. The parameter sides has the letters of both sets.
func diverge(a, b *table, between *releases.Difference, sides [2]string, tolerance time.Duration) []Divergence {
	first := make(map[DivergenceKind]Divergence)
	note := func(d Divergence) {
		if known, ok := first[d.Kind]; !ok || d.At < known.At {
			first[d.Kind] = d
		}
	}
	for _, key := range a.keys {
		if b.byKey[key] == nil {
			continue
		}
		for _, d := range differences(a, b, key, tolerance) {
			note(d)
		}
	}
	for _, answers := range []struct{ accepted, rejected *table }{{a, b}, {b, a}} {
		for job := range answers.rejected.rejected {
			if key, ok := answers.accepted.accepted[job]; ok {
				submit := answers.accepted.at(answers.accepted.byKey[key].Submit)
				note(Divergence{Kind: DivergedAnswer, Key: key, At: Instant(submit)})
			}
		}
	}
	list := []Divergence{}
	for _, kind := range divergenceOrder {
		if d, ok := first[kind]; ok {
			d.explain(a, b, between, sides)
			list = append(list, d)
		}
	}
	slices.SortStableFunc(list, func(x, y Divergence) int { return cmp.Compare(x.At, y.At) })
	return list
}

// differences returns how a job differs between two runs.
func differences(a, b *table, key Key, tolerance time.Duration) []Divergence {
	x, y := a.byKey[key], b.byKey[key]
	var list []Divergence
	add := func(kind DivergenceKind, at hpc.Time, run int) {
		list = append(list, Divergence{Kind: kind, Key: key, At: Instant(at), run: run})
	}
	apart := func(t, u hpc.Time) bool { return t.Sub(u).Abs() > tolerance }
	// A run submits a preset job just before its start.
	if s, t := a.at(x.Submit), b.at(y.Submit); apart(s, t) && !a.preset(x.Start) && !b.preset(y.Start) {
		add(DivergedSubmit, min(s, t), 0)
	}
	if a.unreached(key) || b.unreached(key) {
		return list
	}
	runs, others := x.Runs(), y.Runs()
	for i := range max(len(runs), len(others)) {
		r, s := nth(runs, i), nth(others, i)
		start, other := a.at(r.Start), b.at(s.Start)
		switch {
		case i > 0 && (start == 0 && ended(a.Manifest.State) || other == 0 && ended(b.Manifest.State)):
			return list // the run ended early, before the job started again
		case start == 0 || other == 0:
			add(DivergedStart, max(start, other), i)
			return list
		case apart(start, other):
			add(DivergedStart, min(start, other), i)
		case r.Nodes != "" && s.Nodes != "" && !sameNodes(r.Nodes, s.Nodes): // records may lack the nodes
			add(DivergedNodes, min(start, other), i)
		}
		lost, otherLost := a.lost(r), b.lost(s)
		switch {
		case lost == otherLost, r.End == 0, s.End == 0:
		case lost == 0 || otherLost == 0:
			add(DivergedLost, max(lost, otherLost), i)
		case !apart(start, other) && apart(lost, otherLost):
			add(DivergedLost, min(lost, otherLost), i)
		}
	}
	if x.Start != 0 && y.Start != 0 && x.End != 0 && y.End != 0 &&
		(x.End.Sub(x.Start)-y.End.Sub(y.Start)).Abs() > tolerance {
		add(DivergedRunTime, min(a.at(x.End), b.at(y.End)), min(len(runs), len(others))-1)
	}
	return list
}

// nth returns a run of a job, or an empty run if the job does not have it.
func nth(runs []run.Segment, i int) run.Segment {
	if 0 <= i && i < len(runs) {
		return runs[i]
	}
	return run.Segment{}
}

// of returns the run that differs.
func (d *Divergence) of(row *run.Row) run.Segment { return nth(row.Runs(), d.run) }

// lost returns the end of a lost run, on the baseline's dates; 0 if the run was not lost.
func (t *table) lost(s run.Segment) hpc.Time {
	if s.EndedBy != rm.Requeue {
		return 0
	}
	return t.at(s.End)
}

// sameNodes compares two host lists as sets.
func sameNodes(a, b string) bool {
	if a == b {
		return true
	}
	return slices.Equal(sortedNodes(a), sortedNodes(b))
}

func sortedNodes(list string) []string {
	names, err := hostlist.Expand(list)
	if err != nil {
		return []string{list}
	}
	slices.Sort(names)
	return names
}

// explain fills in the situations, the overtaking jobs and the causes.
func (d *Divergence) explain(a, b *table, between *releases.Difference, sides [2]string) {
	x, y := a.row(d.Key), b.row(d.Key)
	known := x
	if x.Processors == 0 {
		known = y
	}
	d.User, d.Partition, d.Processors = known.User, known.Partition, known.Processors
	d.NodeCount = cmp.Or(known.NodeCount, y.NodeCount) // a log may have only the processors
	d.TimeLimit = metrics.NoValue()
	if known.TimeLimit != 0 && known.TimeLimit != hpc.Unlimited {
		d.TimeLimit = seconds(known.TimeLimit)
	}
	d.BeforeWindow = hpc.Time(d.At) < max(a.at(a.Manifest.WindowStart), b.at(b.Manifest.WindowStart))
	before, after := a.snapshot(d.Kind, hpc.Time(d.At)), b.snapshot(d.Kind, hpc.Time(d.At))
	d.Baseline = before.situation(after, a, x, d.run)
	d.Set = after.situation(before, b, y, d.run)
	d.Overtook = []string{}
	if d.Kind == DivergedStart {
		early, late := a, b
		start, other := a.at(d.of(x).Start), b.at(d.of(y).Start)
		if start == 0 || other != 0 && other < start {
			early, late, other = b, a, start
		}
		d.overtook = overtakers(early, late, d.Key, hpc.Time(d.At), other)
		for _, key := range d.overtook {
			d.Overtook = append(d.Overtook, key.String())
		}
	}
	d.Reason = d.text(a, b)
	d.Causes = d.causes(a, b, between, sides)
}

// text returns the divergence as a sentence.
func (d *Divergence) text(a, b *table) string {
	x, y := a.row(d.Key), b.row(d.Key)
	by := func(before, after hpc.Time) string {
		gap := metrics.Float(after.Sub(before).Abs().Seconds()).Text() + " s"
		if after < before {
			return gap + " earlier"
		}
		return gap + " later"
	}
	switch d.Kind {
	case DivergedAnswer:
		if y.State == hpc.Rejected {
			return fmt.Sprintf("job %s was rejected, but not in the baseline", d.Key)
		}
		return fmt.Sprintf("job %s was accepted, but rejected in the baseline", d.Key)
	case DivergedSubmit:
		return fmt.Sprintf("job %s was submitted %s than in the baseline", d.Key, by(a.at(x.Submit), b.at(y.Submit)))
	case DivergedLost:
		return d.lostText(a.lost(d.of(x)), b.lost(d.of(y)))
	case DivergedRunTime:
		return fmt.Sprintf("job %s ran for %s s instead of %s s", d.Key,
			seconds(y.End.Sub(y.Start)).Text(), seconds(x.End.Sub(x.Start)).Text())
	case DivergedNodes:
		return fmt.Sprintf("job %s started at the same time on %s instead of %s", d.Key, d.of(y).Nodes, d.of(x).Nodes)
	}
	again := ""
	if d.run > 0 {
		again = " again"
	}
	switch start, other := a.at(d.of(x).Start), b.at(d.of(y).Start); {
	case other == 0:
		return fmt.Sprintf("job %s did not start%s, but it started in the baseline", d.Key, again)
	case start == 0:
		return fmt.Sprintf("job %s started%s, but it did not start in the baseline", d.Key, again)
	default:
		return fmt.Sprintf("job %s started%s %s than in the baseline", d.Key, again, by(start, other))
	}
}

// lostText returns a sentence about which side lost a run. The parameters are the instants of the loss; 0 for a side
// that did not lose the run.
func (d *Divergence) lostText(baseline, set hpc.Time) string {
	switch {
	case set == 0:
		return fmt.Sprintf("job %s did not lose its run, but it lost it in the baseline", d.Key)
	case baseline == 0:
		return fmt.Sprintf("job %s lost its run and was requeued, but not in the baseline", d.Key)
	}
	return fmt.Sprintf("job %s lost its run at a different time than in the baseline", d.Key)
}

// overtakers returns the jobs that overtook a job. In the run of the second table, they first started between the two
// instants. In the run of the first table, they had not started by the first instant. If until is 0, their start in
// the second run has no upper bound.
func overtakers(early, late *table, key Key, at, until hpc.Time) []Key {
	var list []Key
	for _, k := range late.keys {
		start := late.at(late.byKey[k].FirstStart())
		if k == key || start < at || until != 0 && start > until || start == 0 {
			continue
		}
		if row := early.byKey[k]; row != nil && row.FirstStart() != 0 && early.at(row.FirstStart()) <= at {
			continue
		}
		list = append(list, k)
		if len(list) == listedJobs {
			break
		}
	}
	return list
}

// snapshot has the jobs of a run by their state at an instant.
type snapshot struct {
	queued, running  []Key
	isQueued, isRuns map[Key]bool
	busy             map[string]bool
	unnamed          bool // some running jobs have no host list
	processors       int
}

// snapshot returns the state just before an event of a kind at an instant on the baseline's dates. See [Situation].
func (t *table) snapshot(kind DivergenceKind, at hpc.Time) *snapshot {
	end := kind == DivergedRunTime                                     // the event is an end
	arrival := end || kind == DivergedSubmit || kind == DivergedAnswer // or a submission
	after := func(u hpc.Time, atOnce bool) bool { return u > at || u == at && atOnce }
	s := &snapshot{isQueued: make(map[Key]bool), isRuns: make(map[Key]bool), busy: make(map[string]bool)}
	for _, key := range t.keys {
		row := t.byKey[key]
		if after(t.at(cmp.Or(waits.Submission(row, t.Manifest.WindowStart), row.Submit)), arrival) {
			continue
		}
		runs := row.Runs()
		i := slices.IndexFunc(runs, func(r run.Segment) bool {
			lost := r.EndedBy == rm.Requeue || r.PreemptedBy != ""
			return t.at(r.Start) < at && (r.End == 0 || after(t.at(r.End), end || lost))
		})
		switch {
		case i >= 0:
			s.running = append(s.running, key)
			s.isRuns[key] = true
			s.hold(&runs[i])
		case row.End == 0 || after(t.at(row.End), end): // a job that waited and ended before the event was cancelled
			s.queued = append(s.queued, key)
			s.isQueued[key] = true
		}
	}
	return s
}

func (s *snapshot) hold(r *run.Segment) {
	s.processors += r.Processors
	names, err := hostlist.Expand(r.Nodes)
	if err != nil || len(names) == 0 {
		s.unnamed = true // the record lacks the nodes of a job, or the machine's nodes have no names
		return
	}
	for _, name := range names {
		s.busy[name] = true
	}
}

// situation returns the [Situation] of a run in comparison with the other run. The parameter number
// is the index of the job's run that differs.
func (s *snapshot) situation(other *snapshot, t *table, row *run.Row, number int) Situation {
	r := nth(row.Runs(), number)
	out := Situation{
		Submit: Instant(t.at(row.Submit)), Start: Instant(t.at(r.Start)), End: Instant(t.at(r.End)),
		Wait: metrics.NoValue(), Nodes: r.Nodes,
		Queued: len(s.queued), Running: len(s.running), BusyNodes: len(s.busy), BusyProcessors: s.processors,
		OnlyQueued: missing(s.queued, other.isQueued), OnlyRunning: missing(s.running, other.isRuns),
		Priority: t.Log.Priority(row, number), By: t.Log.Started(row, number),
	}
	if r.Start != 0 && row.Submit != 0 && r.Start >= row.Submit {
		out.Wait = 0
		for _, p := range waits.AppendQueued(nil, row) {
			if p.To != 0 && p.To <= r.Start {
				out.Wait += seconds(p.To.Sub(p.From))
			}
		}
	}
	var nodes []string
	for name := range s.busy {
		if !other.busy[name] && !other.unnamed {
			nodes = append(nodes, name)
		}
	}
	slices.Sort(nodes)
	out.OnlyBusy = hostlist.Compress(nodes)
	return out
}

func missing(keys []Key, other map[Key]bool) []string {
	list := []string{}
	for _, key := range keys {
		if !other[key] && len(list) < listedJobs {
			list = append(list, key.String())
		}
	}
	return list
}

// names joins the names of jobs for people.
func names(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	text := strings.Join(list, ", ")
	if len(list) == listedJobs {
		text += ", …"
	}
	return text
}
