// Package waits divides the time that a job waited into its parts. All commands that show waits use
// it, so that they show the same numbers under the same names.
//
// A job waits while it is in the queue: from its submission to its first start, and from each
// requeue to the next start. The time of a lost run does not count as waiting. The parts of a wait
// come from the record of the job, in this order:
//
//   - the time after a lost run is [Requeued];
//   - the reasons that the resource manager gave ([run.Row.Reasons]), by [PartOf];
//   - while as many tasks of the job's array ran as its limit allows ([run.AtArrayLimit], for
//     recorded workloads and the simulator's policies, which lack such reasons), [OwnLimit];
//   - before the job was eligible, or always if it never was, its request: a begin time; a hold or a dependency,
//     until the first task of its array was eligible; or a limit of its array, if the record comes from a replay. If
//     fewer tasks run than this limit allows, a task that is not eligible is [Priority] in the simulator, where it is
//     in the queue behind other tasks of its array. In accounting, which has no reason, it is [Unknown];
//   - before the window of a workload ([run.BeforeWindow]), [Unknown];
//   - after the job was eligible, its place in the queue ([run.Row.First]), which the simulator records: [Priority]
//     until the job was the first of its partition, and then [Resources]. The reasons say when another job took the
//     first place;
//   - the rest is [Unknown].
//
// A replay queries reasons only every few minutes, so a reason for which a job was not eligible ends at the latest when
// the job became eligible.
package waits

import (
	"math"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
)

// Part is a part of a wait.
type Part string

// The parts of a wait.
const (
	Dependency  Part = "dependency"  // the job waits for other jobs
	BeginTime   Part = "begin_time"  // the user requested a later start
	Held        Part = "held"        // the user or an administrator holds the job
	OwnLimit    Part = "own_limit"   // a limit of the job's array, or of the job's user
	Limit       Part = "limit"       // another limit of an association, a QOS, a partition or licenses
	Reservation Part = "reservation" // nodes are reserved for others, or the job's reservation has not begun
	Outage      Part = "node_outage" // nodes are down or drained
	Priority    Part = "priority"    // jobs with a higher priority are before the job
	Resources   Part = "resources"   // nodes are in use
	Requeued    Part = "requeued"    // the job is in the queue again after a lost run, for example after a preemption
	Unknown     Part = "unknown"     // the record does not have the reason
)

// Parts are all parts, in the order of tables.
var Parts = []Part{Dependency, BeginTime, Held, OwnLimit, Limit, Reservation, Outage, Priority, Resources, Requeued, Unknown}

// Words returns the part's name for people: "begin time".
func (p Part) Words() string { return strings.ReplaceAll(string(p), "_", " ") }

// Meaning returns a description of the part, which continues the text "the job waited".
func (p Part) Meaning() string { return meanings[p] }

var meanings = map[Part]string{
	Dependency:  "for the jobs on which it depends",
	BeginTime:   "for the begin time that its user asked for",
	Held:        "while it was held",
	OwnLimit:    "because of a limit of its array or its user",
	Limit:       "because of an association, QOS, partition or license limit",
	Reservation: "for reserved nodes, or its own reservation",
	Outage:      "for nodes that were down or drained",
	Priority:    "behind jobs with a higher priority",
	Resources:   "for nodes that were in use",
	Requeued:    "in the queue again, after a run that was lost",
	Unknown:     "for a reason that the record does not have",
}

// HasPriorities reports whether jobs of a run have priorities. Policies of the simulator other than Slurm's have an
// order of the queue, but no priorities.
func HasPriorities(m *run.Manifest) bool { return m.Engine != "sim" || m.OfSlurm() }

// Ahead is the meaning of [Priority] in a run without priorities.
const Ahead = "behind jobs ahead of it in the queue"

// MeaningIn is [Part.Meaning] for the jobs of one run.
func (p Part) MeaningIn(m *run.Manifest) string {
	switch {
	case p == Priority && !HasPriorities(m):
		return Ahead
	case p == Held && Driven(m):
		return "while the driver of --io-schedule held it, until the file system and nodes are free"
	}
	return p.Meaning()
}

// Driven reports whether a driver outside slurmctld decided when the jobs of a run started. Until then it held them.
func Driven(m *run.Manifest) bool { return m.IOSchedule != "" }

// OnlyHeld says what the reasons mean in a [Driven] run.
const OnlyHeld = "the driver of --io-schedule held the jobs until the file system and nodes were free: while jobs " +
	"waited for these, their reason is only JobHeldUser, and they were not eligible"

// MeaningInAny is [Part.Meaning] for the jobs of any run, with or without priorities. Descriptions of columns use it.
func (p Part) MeaningInAny() string {
	if p == Priority {
		return Ahead
	}
	return p.Meaning()
}

// MeaningOfMany is [Part.MeaningIn] for several jobs that wait now.
func (p Part) MeaningOfMany(m *run.Manifest) string { return many.Replace(p.MeaningIn(m)) }

var many = strings.NewReplacer("which it depends", "which they depend", "its user", "their users", "it was held", "they are held", "held it", "holds them",
	"its array", "their arrays", "its own reservation", "reservations of their own", "a run that was lost", "runs that were lost")

// PartOf returns the part to which a reason of Slurm belongs. Slurm adds an explanation to
// ReqNodeNotAvail (node_scheduler.c and job_scheduler.c): the nodes may be reserved, or the reason
// lists nodes that are down or drained. The reason also lists nodes that an earlier job in the queue names; only
// [run.Span.InService] tells these apart. For some reasons, scontrol shows a sentence whose blanks are underscores.
func PartOf(reason string) Part {
	name, words, _ := strings.Cut(reason, ":")
	switch {
	case strings.HasPrefix(name, "Nodes_required_for_job_are_DOWN"):
		return Outage
	case strings.HasSuffix(name, "_requeued_held"):
		return Held
	case name == "ReqNodeNotAvail" && strings.Contains(strings.ToLower(words), "reserved"):
		return Reservation
	case name == "ReqNodeNotAvail" && strings.Contains(words, "UnavailableNodes"), name == "NodeDown":
		return Outage
	case name == "Reservation" || name == "ReservationDeleted":
		return Reservation
	case strings.HasPrefix(name, "JobHeld") || name == "JobHoldMaxRequeue":
		return Held
	case strings.HasPrefix(name, "Dependency"):
		return Dependency
	case name == "BeginTime":
		return BeginTime
	case name == "JobArrayTaskLimit" || strings.Contains(name, "PerUser"):
		return OwnLimit
	case strings.HasPrefix(name, "QOS") || strings.HasPrefix(name, "Assoc") || strings.HasPrefix(name, "Partition") ||
		strings.HasPrefix(name, "Max") || name == "Licenses" || name == "InvalidQOS" || name == "InvalidAccount" || name == "AccountNotAllowed":
		return Limit
	case name == "Priority":
		return Priority
	case name == "Resources" || name == "ReqNodeNotAvail":
		return Resources
	}
	return Unknown
}

// early reports whether a job with such a wait is not eligible.
func (p Part) early() bool { return p == Dependency || p == BeginTime || p == Held }

// Period is a time in the queue.
type Period struct {
	From, To hpc.Time // To is 0 if the job still waits
	// Eligible is when the job might first start in this period; 0 if it is not known.
	Eligible hpc.Time
	// Again says that the job had run before.
	Again bool
}

// AppendQueued appends the periods in which a job was in the queue: before its first start, and from
// every requeue to the next start.
func AppendQueued(list []Period, row *run.Row) []Period {
	if row.Submit == 0 {
		return list
	}
	p := Period{From: row.Submit}
	waits := true
	add := func(start, eligible hpc.Time) {
		if waits && start > p.From {
			p.To, p.Eligible = start, eligible
			list = append(list, p)
		}
	}
	if len(row.Segments) == 0 && row.Start != 0 { // most jobs
		add(row.Start, row.Eligible)
		return list
	}
	last := -1 // the segment of the last start after a time in the queue
	for i := range row.Segments {
		if i == 0 || row.Segments[i-1].EndedBy == rm.Requeue {
			last = i
		}
	}
	for i, s := range row.Segments {
		start, eligible := s.Start, s.Eligible
		if i == last && row.Start != 0 { // the row has the start from the accounting, which is more exact than the segment's start
			start, eligible = row.Start, row.Eligible
		}
		add(start, eligible)
		if waits = s.EndedBy == rm.Requeue; waits {
			p = Period{From: s.End, Again: true}
		}
	}
	if waits && (row.End == 0 || row.End > p.From) {
		p.To, p.Eligible = row.End, row.Eligible
		list = append(list, p)
	}
	return list
}

// Submission returns when a job was submitted, for the order of the jobs in the queue. A run submits a preset job
// (a job that ran when the window began) only just before its start, so for such a job Submission returns the
// workload's submission; 0 if the record lacks it. The parameter window is 0 for a run without a window.
func Submission(row *run.Row, window hpc.Time) hpc.Time {
	if start := row.FirstStart(); start != 0 && start < window {
		return row.RecordedSubmit
	}
	return row.Submit
}

// Span is a time in the queue that belongs to one part.
type Span struct {
	From, To hpc.Time
	Part     Part
	// Reason is Slurm's reason, or [run.BeforeWindow]; empty if the record does not have it.
	Reason string
	// Planned is the start that the scheduler planned for the job at that time; 0 without a plan.
	// Backfill is what the backfill scheduler did with the job; empty if the record does not have it.
	Planned  hpc.Time
	Backfill rm.Backfill
}

// Decompose returns the spans of a job's wait, in order. Together they are the whole wait until the last start. For a
// job that did not start, the spans end at the job's end. If the job has no end either, the spans end at the parameter
// end.
func Decompose(row *run.Row, end hpc.Time) []Span {
	var list []Span
	var places [4]Period
	for _, p := range AppendQueued(places[:0], row) {
		if p.To == 0 {
			p.To = end
		}
		divide(row, p, func(s Span, _ bool) { list = append(list, s) })
	}
	return list
}

// neverEligible reports whether the record says that a job was not eligible at any time of the period. Such a job has
// no eligible date, and the record has one of four signs: it has the job's place in the queue, as in the simulator; the
// job never started, but another task of its array was eligible; the job's dependencies can never be met; the job is not
// eligible for its last reason. Without such a sign, the record may lack the eligible date.
func (p *Period) neverEligible(row *run.Row) bool {
	if p.Eligible != 0 || p.Again {
		return false
	}
	if !row.AskedDependency && !row.AskedHold {
		return row.AskedBegin > 0 && row.First != 0
	}
	last := row.Reasons[max(0, len(row.Reasons)-1):]
	return row.First != 0 || row.ArrayEligible > 0 && row.Start == 0 || PartOf(row.Reason) == Dependency || len(last) > 0 && PartOf(last[0].Reason).early()
}

// divide calls visit for each span of a period, in order. If the job becomes eligible within a span,
// the span is divided at this instant. The parameter after says whether the job was eligible. divide
// leaves out empty spans.
func divide(row *run.Row, p Period, visit func(s Span, after bool)) {
	eligible := min(max(p.Eligible, p.From), p.To)
	never := p.neverEligible(row)
	if never {
		eligible = p.To
	}
	begin := p.From
	if row.AskedBegin > 0 && !p.Again && (p.Eligible != 0 || never) {
		begin = min(p.From.Add(row.AskedBegin), eligible)
	}
	first, ordered := max(row.First, eligible), row.First >= p.From && row.First <= p.To
	piece := func(from, to hpc.Time, why run.Span) {
		for _, cut := range [...]hpc.Time{begin, min(row.ArrayEligible, eligible), eligible, first, to} {
			until := min(max(cut, from), to)
			if until > from {
				after := from >= eligible
				s := Span{From: from, To: until, Reason: why.Reason, Planned: why.Planned, Backfill: why.Backfill}
				s.classify(row, p, why, from < begin, after, eligible)
				if s.Part == Unknown && after && ordered && s.Reason != run.BeforeWindow {
					if s.Part = Resources; from < first {
						s.Part = Priority
					}
				}
				visit(s, after)
				from = until
			}
		}
	}
	from := p.From
	for _, why := range row.Reasons {
		if to := min(why.To, p.To); to > from && why.From < p.To {
			if why.From > from {
				piece(from, why.From, run.Span{From: from})
			}
			from = max(from, why.From)
			piece(from, to, why)
			from = to
		}
	}
	if from < p.To {
		piece(from, p.To, run.Span{From: from})
	}
}

// EligibleAt reports whether a job in the queue was eligible at an instant: its eligible date had passed or, after a
// lost run, the date at which it was eligible again. If the record lacks this date, the job counts as eligible, unless
// it waits at that instant for a dependency, its begin time, a hold or the limit of its array. For the parameter end
// see [Decompose].
func EligibleAt(row *run.Row, t, end hpc.Time) bool {
	ok := true
	for _, p := range AppendQueued(nil, row) {
		if p.To == 0 {
			p.To = end
		}
		switch {
		case t < p.From || t >= p.To:
		case p.Eligible != 0 && (p.Eligible >= p.From || !p.Again):
			return t >= p.Eligible
		default:
			divide(row, p, func(s Span, after bool) {
				if s.From <= t && t < s.To {
					ok = after && !s.Part.early() && !PartOf(s.Reason).early() && !s.atArrayLimit()
				}
			})
		}
	}
	return ok
}

// atArrayLimit reports whether a task waits for the limit of its array.
func (s *Span) atArrayLimit() bool {
	return s.Part == OwnLimit && s.Reason == "" || strings.HasPrefix(s.Reason, "JobArrayTaskLimit")
}

// metAtOnce reports whether a job waited for no other job although it asked for a dependency: no reason names the
// dependency, and the job was eligible a second after its submission. slurmctld of 24.11 and later first looks at an
// array in the second after its submission, also if the dependency was met, or was left out of the submission.
func (p *Period) metAtOnce(row *run.Row, eligible hpc.Time) bool {
	if row.ArrayEligible > 0 {
		eligible = min(eligible, row.ArrayEligible)
	}
	return row.First == 0 && p.Eligible != 0 && eligible.Sub(p.From) <= time.Second &&
		!slices.ContainsFunc(row.Reasons, func(s run.Span) bool { return PartOf(s.Reason) == Dependency })
}

// classify finds the part of a span. The parameter why has the instant at which the span's reason
// was first seen. The parameter begins says that the requested begin time is in the future.
func (s *Span) classify(row *run.Row, p Period, why run.Span, begins, after bool, eligible hpc.Time) {
	seen := why.From
	if s.Part = PartOf(s.Reason); s.Part == Outage && why.InService {
		s.Part = Priority // an earlier job in the queue names these nodes
	}
	asked := row.ArrayEligible <= 0 || s.From < row.ArrayEligible // a hold and a dependency apply to all tasks of an array
	if s.Part == Dependency && !asked && seen < row.ArrayEligible {
		s.Part, s.Reason = Unknown, ""
	}
	switch {
	case p.Again:
		if after && s.Part.early() && seen < eligible {
			s.Reason = ""
		}
		s.Part = Requeued
	case after && s.Part.early() && seen < eligible && (row.AskedBegin <= 0 || !row.AskedDependency):
		// For Slurm, a job with a begin time and a dependency becomes eligible at its begin time.
		s.Part, s.Reason = Unknown, ""
	case after || s.Part != Unknown:
	case begins:
		s.Part = BeginTime
	case row.AskedHold && asked:
		s.Part = Held
	case row.AskedDependency && asked && !p.metAtOnce(row, eligible):
		s.Part = Dependency
	case row.AskedArrayLimit > 0 && row.First != 0:
		s.Part = Priority
	case row.AskedArrayLimit > 0 && row.HasReasons():
		s.Part = OwnLimit
	}
	if s.Reason == run.BeforeWindow && s.Part != Unknown {
		s.Reason = ""
	}
	if row.First != 0 && !p.Again && (s.Reason == "Priority" || s.Reason == "Resources") {
		s.Reason = "" // the place in the simulator's queue, as before the first change of this place
	}
}

// Sums are a job's wait and its parts.
type Sums struct {
	// Wait is the time in the queue. It is the sum of Parts, which are in the order of the list
	// [Parts].
	Wait  time.Duration
	Parts [11]time.Duration
	// SinceEligible is the part of Wait in which the job was eligible. Eligible says whether the record
	// has it.
	SinceEligible time.Duration
	Eligible      bool
}

// index has the places of the parts in [Sums.Parts].
var index = func() map[Part]int {
	m := make(map[Part]int, len(Parts))
	for i, p := range Parts {
		m[p] = i
	}
	return m
}()

// Part returns one part.
func (s *Sums) Part(p Part) time.Duration { return s.Parts[index[p]] }

// Sum returns the wait of a job that started. It returns false for a job that never started, and
// for a job whose submission is unknown or after its start.
func Sum(row *run.Row) (s Sums, ok bool) {
	if row.State == hpc.Rejected || row.Start == 0 || row.Submit == 0 || row.Start < row.Submit {
		return s, false
	}
	return SumUntil(row, row.Start), true
}

// SumUntil is [Sum] for any job. A job that still waits counts as waiting until the instant end.
func SumUntil(row *run.Row, end hpc.Time) Sums {
	s := Sums{Eligible: row.Eligible != 0}
	var places [4]Period
	for _, p := range AppendQueued(places[:0], row) {
		if p.To == 0 {
			p.To = end
		}
		s.Eligible = s.Eligible && p.Eligible != 0
		divide(row, p, func(span Span, after bool) {
			d := span.To.Sub(span.From)
			s.Wait += d
			s.Parts[index[span.Part]] += d
			if after {
				s.SinceEligible += d
			}
		})
	}
	if !s.Eligible {
		s.SinceEligible = 0
	}
	return s
}

// Wait returns the time that a job waited before its last start. Like [Sum], it returns false for a
// job without a wait.
func Wait(row *run.Row) (d time.Duration, ok bool) {
	if row.State == hpc.Rejected || row.Start == 0 || row.Submit == 0 || row.Start < row.Submit {
		return 0, false
	}
	var places [4]Period
	for _, p := range AppendQueued(places[:0], row) {
		d += p.To.Sub(p.From)
	}
	return d, true
}

// Seconds returns the wait of a job in seconds; NaN for a job without a wait.
func Seconds(row *run.Row) float64 {
	d, ok := Wait(row)
	if !ok {
		return math.NaN()
	}
	return d.Seconds()
}
