package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec/sbatch"
	"rmreplay/internal/spelling"
	"rmreplay/internal/waits"
)

// Story explains why a job waited.
type Story struct {
	Job       string    `json:"job"`
	Number    uint32    `json:"rm_job"` // the resource manager's number of the job; 0 if unknown
	User      string    `json:"user"`
	Account   string    `json:"account"`
	Partition string    `json:"partition"`
	QOS       string    `json:"qos"`
	State     hpc.State `json:"state"`
	CPUs      int       `json:"processors"`
	Nodes     int       `json:"nodes"`
	// TimeLimit is in seconds; 0 if the job has no limit, or if the limit is unknown.
	TimeLimit float64 `json:"time_limit_s"`

	Submit   Instant `json:"submit"`
	Eligible Instant `json:"eligible"` // when the job was eligible for the first time; see [Lost.EligibleAgain]
	Start    Instant `json:"start"`
	End      Instant `json:"end"`
	// Wait is the job's time in the queue until its last start, its end or the end of the run. Parts
	// add up to Wait. SinceEligible is the part of Wait after the job became eligible; nil if this
	// time is not recorded.
	Wait          float64  `json:"wait_s"`
	SinceEligible *float64 `json:"wait_since_eligible_s"`
	Parts         []Part   `json:"wait_parts"`
	// Postponed says why the run submitted the job later than the workload asks, so that Wait is too short; else nil.
	Postponed *Postponed `json:"postponed"`
	// Lost are the runs of the job that ended in a requeue, and a run that ended the job by
	// preemption.
	Lost []Lost `json:"lost_runs"`
	// Stops are the periods in which the job was suspended.
	Stops []Stop `json:"suspensions"`
	// Priority is the job's priority at its start, or its last priority while it waited; 0 if unknown.
	// PriorityParts are the parts of Priority; empty if the record does not have them, as after a replay on Slurm.
	Priority      uint32            `json:"priority"`
	PriorityParts []rm.PriorityPart `json:"priority_parts"`

	Reasons []Span `json:"reasons"`
	// Backfill has the total time of each verdict of the backfill scheduler on the job, in
	// descending order; empty if the record does not have the verdicts.
	Backfill []BackfillTime `json:"backfill"`
	// Planned is when the scheduler first planned a start for the job. PlannedStart is this planned
	// start. Both are empty if the record lacks them.
	Planned      Instant `json:"first_planned_at"`
	PlannedStart Instant `json:"first_planned_start"`

	// Ahead are the jobs of the job's partition that were pending at the job's first submission, and started while the
	// job was in the queue. Overtook are the jobs that were submitted later, and started while the job was in the queue.
	// Preset jobs count by their submissions in the workload. Unordered are the jobs that belong to one of the two sets,
	// but for which the record lacks this submission.
	Ahead     Crowd `json:"ahead"`
	Overtook  Crowd `json:"overtook"`
	Unordered int   `json:"unordered_jobs"`
	// Preset is true for a job that ran when the window began. The run submitted it just before its start, with an
	// artificial priority, and did not decide its wait. RecordedSubmit is its submission in the workload; empty for
	// other jobs, and if the record lacks it.
	Preset         bool    `json:"preset"`
	RecordedSubmit Instant `json:"recorded_submit"`
	// The field before counts the processors of the jobs that started while this job waited behind jobs with a higher
	// priority. The field higher counts only the jobs among these that had a higher priority than this job when they
	// started; it is unknown if the record lacks these priorities. The field gap is the longest time without a recorded
	// priority on which higher depends ([ranking.at]).
	higher, before int
	ranks          bool
	gap            time.Duration
	// Holders are the jobs that held the nodes on which the job ran next. They are taken from the
	// middle of the job's longest wait for nodes, behind other jobs or without a reason. The wait may
	// be after a lost run. Holders has at most listed of these jobs, in descending order of their processors; HolderJobs
	// is the number of all of them.
	Holders    []Holder `json:"holders"`
	HolderJobs int      `json:"holder_jobs"`
	// LetStart says what happened when the job started.
	LetStart []string `json:"let_it_start"`
	// Unmet is for a job that never started: the ends of other jobs that make it impossible to meet the job's
	// dependencies.
	Unmet []string `json:"dependencies_never_met"`
	// CancelledAfter says how many seconds after its submission the workload cancelled the job; 0 if the job ended
	// otherwise, and in a recorded workload, which does not say who cancelled jobs.
	CancelledAfter float64 `json:"cancelled_after_s,omitempty"`
	// Causes are the causes of the job's wait, in descending order of their weights.
	Causes []Cause `json:"causes"`
	// Unsized is true if the size of the machine is not known, so that causes of waits for nodes are missing.
	Unsized bool `json:"machine_size_unknown"`

	runEnd   Instant // the end of the run
	manifest *run.Manifest
}

// BackfillTime is the total time for which a waiting job had the same verdict of the backfill
// scheduler.
type BackfillTime struct {
	Verdict rm.Backfill `json:"verdict"`
	Seconds float64     `json:"seconds"`
}

// Part is a part of a job's wait. Share is its share of the wait, from 0 to 1.
type Part struct {
	Part    waits.Part `json:"part"`
	Seconds float64    `json:"wait_s"`
	Share   float64    `json:"share"`
}

// Lost is a run of a job that ended in a requeue, or in a preemption without a requeue. Its work is
// lost unless the job writes checkpoints.
type Lost struct {
	Start      Instant `json:"start"`
	End        Instant `json:"end"`
	Processors int     `json:"processors"`
	Nodes      int     `json:"nodes"`
	// Cause is the state in which the run ended, such as NODE_FAIL; empty if the job ended with this
	// run, or if the record lacks the state.
	Cause hpc.State `json:"cause"`
	// PreemptedBy is the job that preempted the run; empty if there is none, or if the record does
	// not name it.
	PreemptedBy string `json:"preempted_by"`
	// EligibleAgain is when the job was eligible again; empty if the job did not wait again, or if
	// the record lacks this time.
	EligibleAgain Instant `json:"eligible_again"`
}

// Stop is a period in which a job held its nodes and was suspended. Until is 0 if it was not
// resumed. slurmctld does not log for which job it suspends another job. So Started has the jobs
// that started on nodes of the suspended job at the same time.
type Stop struct {
	From    Instant  `json:"from"`
	Until   Instant  `json:"until"`
	Started []string `json:"started_then"`
}

// Crowd sums up a set of jobs.
type Crowd struct {
	Jobs       int `json:"jobs"`
	Processors int `json:"processors"`
	// User is the user with most of these jobs.
	User     string   `json:"user"`
	UserJobs int      `json:"user_jobs"`
	List     []string `json:"list"` // at most listed
}

// Holder is a job that held nodes, and the run in which it held them.
type Holder struct {
	Job        string  `json:"job"`
	User       string  `json:"user"`
	Processors int     `json:"processors"`
	Since      Instant `json:"since"`
	Until      Instant `json:"until"` // empty if the job still ran when the record ended
}

// listed is the largest number of jobs in a list.
const listed = 10

// find finds a job by the workload's ID, by ID_TASK, or by the resource manager's number.
func (rec *Record) find(name string) (*run.Row, error) {
	var tasks []string
	for i := range rec.rows {
		row := &rec.rows[i]
		if (key{row.Job, row.Task}).String() == name {
			return row, nil
		}
		if row.Job == name {
			tasks = append(tasks, strconv.Itoa(row.Task))
		}
	}
	if len(tasks) > 0 {
		return nil, fmt.Errorf("job %s is an array (want one of its tasks, such as %s_%s)", name, name, tasks[0])
	}
	if array, task, ok := strings.Cut(name, "_"); ok && task != "" && strings.Trim(task, "0123456789") == "" {
		var has []int
		for i := range rec.rows {
			row := &rec.rows[i]
			switch {
			case row.Job != array:
			case row.Task >= 0:
				has = append(has, row.Task)
			case row.State == hpc.Rejected && rec.requests[array] != nil && rec.requests[array].Array != "":
				has = hpc.TasksOf(rec.requests[array]) // a rejected array has one row
				if number, err := strconv.Atoi(task); err == nil && slices.Contains(has, number) {
					return row, nil
				}
			}
		}
		if len(has) > 0 {
			return nil, fmt.Errorf("job %s: the array %s has no such task (it has %s, numbered from %d to %d)", name, array,
				quantity.Regular(len(has), "task"), slices.Min(has), slices.Max(has))
		}
	}
	if number, err := strconv.ParseUint(name, 10, 32); err == nil && number != 0 {
		for i := range rec.rows {
			if rec.rows[i].RMJob == uint32(number) {
				return &rec.rows[i], nil
			}
		}
	}
	var names []string
	for i := range rec.rows {
		names = append(names, (key{rec.rows[i].Job, rec.rows[i].Task}).String())
	}
	if near := spelling.Nearest(name, max(1, len(name)/3), names); near != "" {
		return nil, fmt.Errorf("job %s: the run has no such job (did you mean %s?)", name, near)
	}
	return nil, fmt.Errorf("job %s: the run has no such job (rmreplay jobs lists them)", name)
}

// Job returns the story of a job. It returns an error if no job has this name, or if the job was
// rejected.
func (rec *Record) Job(name string) (*Story, error) {
	row, err := rec.find(name)
	if err != nil {
		return nil, err
	}
	if row.State == hpc.Rejected {
		return nil, fmt.Errorf("job %s was rejected at %s: %s", name, row.Submit, row.Reason)
	}
	s := &Story{
		Job: (key{row.Job, row.Task}).String(), User: row.User, Account: row.Account, Partition: row.Partition, QOS: row.QOS, State: row.State,
		CPUs: rec.cpusOf(row), Nodes: rec.nodesOf(row, 0), Submit: Instant(row.Submit), Eligible: Instant(row.FirstEligible()),
		Start: Instant(row.Start), End: Instant(row.End), Priority: priorityOf(row), Reasons: rec.spans(row),
		Number:        row.RMJob,
		PriorityParts: slices.Concat([]rm.PriorityPart{}, row.PriorityParts), Backfill: []BackfillTime{},
		Holders: []Holder{}, LetStart: []string{}, Causes: []Cause{},
		Postponed: rec.postponed(row), runEnd: Instant(rec.end), manifest: rec.manifest,
	}
	if row.TimeLimit > 0 && row.TimeLimit != hpc.Unlimited {
		s.TimeLimit = row.TimeLimit.Seconds()
	}
	if s.Preset = rec.preset(row); s.Preset {
		s.RecordedSubmit, s.Priority = Instant(row.RecordedSubmit), 0
	}
	if job := rec.requests[row.Job]; job != nil && rec.isRun() && row.State == hpc.Cancelled && job.CancelAfter > 0 &&
		row.End.Sub(row.Submit.Add(job.CancelAfter)).Abs() <= sameTime {
		s.CancelledAfter = job.CancelAfter.Seconds()
	}
	s.sums(rec, row)
	s.stops(rec, row)
	for _, span := range s.Reasons {
		if span.Planned != 0 {
			s.Planned, s.PlannedStart = span.From, span.Planned
			break
		}
	}
	s.backfilled()
	s.crowds(rec, row)
	s.outranking(rec, row)
	s.holders(rec, row)
	s.letStart(rec, row)
	s.Unmet = append([]string{}, NeverMet(rec.rows, row, rec.requests[row.Job])...)
	s.judge(rec, row)
	_, sum := s.longest(false)
	s.Unsized = s.Wait >= 1 && sum > negligible*s.Wait && unsized(s.manifest)
	return s, nil
}

// priorityOf returns the priority at the start of a job, or its last priority while it waited.
func priorityOf(row *run.Row) uint32 {
	p := row.Priority
	for _, span := range row.Reasons {
		if row.Priority == 0 {
			p = cmp.Or(span.Priority, p)
		}
	}
	return p
}

// sums adds the job's wait, its parts and its lost runs.
func (s *Story) sums(rec *Record, row *run.Row) {
	sums := waits.SumUntil(row, rec.end)
	s.Wait, s.Parts, s.Lost = sums.Wait.Seconds(), []Part{}, []Lost{}
	if sums.Eligible {
		since := sums.SinceEligible.Seconds()
		s.SinceEligible = &since
	}
	for _, part := range waits.Parts {
		if d := sums.Part(part); d > 0 {
			s.Parts = append(s.Parts, Part{part, d.Seconds(), d.Seconds() / s.Wait})
		}
	}
	slices.SortStableFunc(s.Parts, func(a, b Part) int { return cmp.Compare(b.Seconds, a.Seconds) })
	periods := waits.AppendQueued(nil, row)
	for _, r := range row.Runs() {
		if r.EndedBy != rm.Requeue && r.PreemptedBy == "" {
			continue
		}
		lost := Lost{Start: Instant(r.Start), End: Instant(r.End), Processors: r.Processors, Nodes: r.NodeCount, Cause: r.Cause,
			PreemptedBy: r.PreemptedBy}
		for _, p := range periods {
			if p.Again && p.From == r.End && p.Eligible >= p.From {
				lost.EligibleAgain = Instant(p.Eligible)
			}
		}
		s.Lost = append(s.Lost, lost)
	}
}

// sameTime is the largest difference between the instant of a suspension and the start of the job
// that needs the nodes. They differ because slurmctld suspends jobs in its scheduling cycle, and
// starts have whole seconds.
const sameTime = 2 * time.Second

// stops finds when the job was suspended, and which jobs started on its nodes at these instants.
func (s *Story) stops(rec *Record, row *run.Row) {
	s.Stops = []Stop{}
	for i, run := range row.Segments {
		if run.EndedBy != rm.Suspend {
			continue
		}
		stop := Stop{From: Instant(run.End), Started: []string{}}
		if i+1 < len(row.Segments) {
			stop.Until = Instant(row.Segments[i+1].Start)
		}
		own := nodesIn(row.Nodes)
		for j := range rec.rows {
			other := &rec.rows[j]
			if other == row || other.Start.Sub(run.End).Abs() >= sameTime {
				continue
			}
			if slices.ContainsFunc(nodesIn(other.Nodes), func(node string) bool { return slices.Contains(own, node) }) {
				stop.Started = append(stop.Started, key{other.Job, other.Task}.String())
			}
		}
		s.Stops = append(s.Stops, stop)
	}
}

// backfilled adds up the times of each verdict of the backfill scheduler while the job waited.
func (s *Story) backfilled() {
	for _, span := range s.Reasons {
		if span.Backfill == "" {
			continue
		}
		at := slices.IndexFunc(s.Backfill, func(b BackfillTime) bool { return b.Verdict == span.Backfill })
		if at < 0 {
			at = len(s.Backfill)
			s.Backfill = append(s.Backfill, BackfillTime{Verdict: span.Backfill})
		}
		s.Backfill[at].Seconds += span.Seconds
	}
	slices.SortStableFunc(s.Backfill, func(a, b BackfillTime) int { return cmp.Compare(b.Seconds, a.Seconds) })
}

// during reports whether an instant is in one of the periods.
func during(periods []waits.Period, t hpc.Time) bool {
	return slices.ContainsFunc(periods, func(p waits.Period) bool { return p.From <= t && (p.To == 0 || p.To > t) })
}

// crowds finds the jobs that started while this job was in the queue.
func (s *Story) crowds(rec *Record, row *run.Row) {
	s.Ahead, s.Overtook = Crowd{List: []string{}}, Crowd{List: []string{}}
	window, submitted := rec.manifest.WindowStart, rec.Submission(row)
	queued := waits.AppendQueued(nil, row)
	users := map[*Crowd]map[string]int{&s.Ahead: {}, &s.Overtook: {}}
	for i := range rec.rows {
		other := &rec.rows[i]
		if other == row || !shareNodes(row, other) {
			continue
		}
		processors, ok := startedDuring(other, row.Submit, queued)
		if !ok {
			continue
		}
		to := &s.Ahead
		switch arrival := waits.Submission(other, window); {
		case arrival == 0:
			s.Unordered++
			continue
		case arrival > submitted:
			to = &s.Overtook
		}
		to.Jobs++
		to.Processors += processors
		if len(to.List) < listed {
			to.List = append(to.List, key{other.Job, other.Task}.String())
		}
		count := users[to]
		count[other.User]++
		if n := count[other.User]; n > to.UserJobs || n == to.UserJobs && other.User < to.User {
			to.User, to.UserJobs = other.User, n
		}
	}
}

// startedDuring reports whether a run of the job started in one of the periods, and returns the processors of the
// first such run. It reports false for a job that had nodes at the instant from, or had ended by then.
func startedDuring(row *run.Row, from hpc.Time, periods []waits.Period) (processors int, ok bool) {
	for _, r := range row.Runs() {
		switch {
		case r.Start >= from:
			if during(periods, r.Start) {
				return r.Processors, true
			}
		case r.EndedBy != rm.Requeue || r.End > from: // the job had nodes at that instant, or had ended
			return 0, false
		}
	}
	return 0, false
}

// longest returns the longest span in which the job waited for nodes, behind jobs with a higher priority or for an
// unknown reason. It also returns the sum of all these spans, in seconds. Spans after a lost run count only if
// requeued is true, because they belong to a separate cause. The Part of the returned span follows from the span's
// reason, if it has one.
func (s *Story) longest(requeued bool) (span Span, sum float64) {
	for _, r := range s.Reasons {
		part := r.Part
		if requeued && part == waits.Requeued && s.eligibleAt(r.From) {
			part = waits.PartOf(r.Reason)
		}
		if kindOf(part, r.Reason) == "" {
			sum += r.Seconds
			if r.Seconds > span.Seconds {
				span = r
				if part != waits.Unknown {
					span.Part = part
				}
			}
		}
	}
	return span, sum
}

// eligibleAt reports whether the job was eligible at an instant. After a lost run, the job must have
// become eligible again.
func (s *Story) eligibleAt(t Instant) bool {
	ok := true
	for _, l := range s.Lost {
		if l.End <= t {
			ok = l.EligibleAgain <= t
		}
	}
	return ok
}

// middle returns the middle of a span.
func (s *Span) middle() hpc.Time {
	return hpc.Time(s.From).Add(hpc.Time(s.To).Sub(hpc.Time(s.From)) / 2)
}

// holders finds the jobs that, in the middle of the longest span ([Story.longest]), held the nodes on which the job
// ran next. For a job that never started, it finds the jobs that held nodes of the job's partition. It finds no jobs
// if such spans are a small part of the wait ([worthHolders]).
func (s *Story) holders(rec *Record, row *run.Row) {
	longest, sum := s.longest(true)
	if sum <= worthHolders*s.Wait {
		return
	}
	middle := longest.middle()
	own := map[string]bool{}
	for _, r := range row.Runs() { // the run that followed this wait; it may have been lost
		if r.Start >= middle {
			for _, name := range nodesIn(r.Nodes) {
				own[name] = true
			}
			break
		}
	}
	for i := range rec.rows {
		other := &rec.rows[i]
		h, holds := heldAt(other, middle)
		if other == row || !holds {
			continue
		}
		on := len(own) == 0 && shareNodes(row, other)
		for _, name := range nodesIn(h.run.Nodes) {
			on = on || own[name]
		}
		if on {
			s.Holders = append(s.Holders, Holder{key{other.Job, other.Task}.String(), other.User, h.run.Processors, Instant(h.run.Start), Instant(h.run.End)})
		}
	}
	slices.SortStableFunc(s.Holders, func(a, b Holder) int { return cmp.Compare(b.Processors, a.Processors) })
	s.HolderJobs = len(s.Holders)
	s.Holders = s.Holders[:min(listed, len(s.Holders))]
}

// moment is the longest time between an event and the start of a job that the event may have made
// possible. The backfill scheduler runs every 30 seconds by default, and a node is free only after
// it has completed its last job.
const moment = 2 * time.Minute

// letStart finds the events just before the job's start that may have made the start possible.
func (s *Story) letStart(rec *Record, row *run.Row) {
	if row.Start == 0 || rec.preset(row) {
		return
	}
	recent := func(t hpc.Time) bool { return t != 0 && t <= row.Start && t > row.Start.Add(-moment) }
	own := map[string]bool{}
	for _, name := range nodesIn(row.Nodes) {
		own[name] = true
	}
	depends := map[string]bool{}
	if job := rec.requests[row.Job]; job != nil && job.Dependency != "" {
		if deps, err := sbatch.ParseDependency(job.Dependency); err == nil {
			for _, d := range deps.List {
				depends[d.Job] = true
			}
		}
	}
	s.madeRoom(rec, row)
	most := max(listed, len(s.LetStart))
	if row.Start.Sub(row.Submit) <= time.Second && len(s.LetStart) == 0 {
		s.LetStart = append(s.LetStart, "it started at once: its resources were free")
		return
	}
	taken := s.taken(rec, row, recent)
	for i := range rec.rows {
		other := &rec.rows[i]
		if other == row || !recent(other.End) || other.Start == 0 || taken[other] {
			continue
		}
		name := key{other.Job, other.Task}.String()
		freed := slices.ContainsFunc(nodesIn(other.Nodes), func(node string) bool { return own[node] })
		same, _ := s.belowLimit(row, other)
		switch {
		case depends[other.Job] || depends[name]:
			s.LetStart = append(s.LetStart, fmt.Sprintf("job %s, on which it depends, ended at %s", name, other.End))
		case same != "":
			s.LetStart = append(s.LetStart, fmt.Sprintf("job %s of the same %s ended at %s, so that the limit allowed this job",
				name, same, other.End))
		case freed:
			s.LetStart = append(s.LetStart, fmt.Sprintf("job %s of %s, with %s, ended at %s on nodes that this job got",
				name, other.User, quantity.Regular(other.Processors, "processor"), other.End))
		}
	}
	for _, e := range rec.admin.Reservations {
		ends := e.Start.Add(e.Duration)
		switch {
		case e.Action == "delete" && recent(e.At):
			s.LetStart = append(s.LetStart, fmt.Sprintf("reservation %s was deleted at %s", e.Name, e.At))
		case e.Action == "create" && e.Duration > 0 && e.Duration != hpc.Unlimited && recent(ends):
			s.LetStart = append(s.LetStart, fmt.Sprintf("reservation %s ended at %s", e.Name, ends))
		}
	}
	for _, e := range rec.admin.NodeEvents {
		if e.State == "resume" && recent(e.At) {
			s.LetStart = append(s.LetStart, fmt.Sprintf("nodes %s returned to service at %s", e.Nodes, e.At))
		}
	}
	if recent(row.Eligible) && row.Eligible > row.Submit {
		s.LetStart = append(s.LetStart, fmt.Sprintf("it became eligible at %s", row.Eligible))
	}
	s.LetStart = s.LetStart[:min(most, len(s.LetStart))]
}

// taken returns the recently ended jobs that counted for the limit for which row waited, if other jobs that started
// before row took all that these ends allowed. The first end allows the first start. The last end always remains.
func (s *Story) taken(rec *Record, row *run.Row, recent func(hpc.Time) bool) map[*run.Row]bool {
	type change struct {
		at     hpc.Time
		amount int // negative at a start
		of     *run.Row
	}
	var changes []change
	for i := range rec.rows {
		other := &rec.rows[i]
		what, jobs := s.belowLimit(row, other)
		if what == "" || other == row || other.Start == 0 {
			continue
		}
		amount := 1
		if !jobs {
			amount = other.Processors
		}
		if recent(other.End) {
			changes = append(changes, change{other.End, amount, other})
		}
		if recent(other.Start) && other.Start < row.Start {
			changes = append(changes, change{other.Start, -amount, other})
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), b.amount-a.amount) })
	list, ends := map[*run.Row]bool{}, []change{}
	for _, c := range changes {
		if c.amount > 0 {
			ends = append(ends, c)
			continue
		}
		for need := -c.amount; need > 0 && len(ends) > 0; {
			use := min(need, ends[0].amount)
			need, ends[0].amount = need-use, ends[0].amount-use
			if ends[0].amount == 0 {
				list[ends[0].of], ends = true, ends[1:]
			}
		}
	}
	for i := len(changes) - 1; i >= 0; i-- {
		if c := changes[i]; c.amount > 0 {
			delete(list, c.of)
			break
		}
	}
	return list
}

// madeRoom finds the jobs that the resource manager preempted for this job, or suspended when this
// job started on their nodes.
func (s *Story) madeRoom(rec *Record, row *run.Row) {
	own := nodesIn(row.Nodes)
	for i := range rec.rows {
		other := &rec.rows[i]
		if other == row {
			continue
		}
		for _, r := range other.Segments {
			var what string
			switch {
			case r.PreemptedBy == s.Job && r.End <= row.Start.Add(sameTime):
				what = "preempted"
			case r.EndedBy == rm.Suspend && r.End.Sub(row.Start).Abs() < sameTime &&
				slices.ContainsFunc(nodesIn(other.Nodes), func(node string) bool { return slices.Contains(own, node) }):
				what = "suspended"
			default:
				continue
			}
			s.LetStart = append(s.LetStart, fmt.Sprintf("job %s of %s was %s at %s: %s", key{other.Job, other.Task},
				orNone(other.User), what, r.End.Std().UTC().Format(time.RFC3339),
				quantity.Regular(other.Processors, "processor")))
		}
	}
}

// negligible is the share of a wait below which a part needs no explanation. worthHolders is a
// share of waits for nodes. From this share on, the story names the jobs that held the nodes.
const (
	negligible   = 0.01
	worthHolders = 0.1
)

// lastWait returns the largest part of the job's wait since its last lost run, by the reasons of that time, and the last
// reason of this part.
func (s *Story) lastWait() (part waits.Part, reason string) {
	sums, reasons, from := map[waits.Part]float64{}, map[waits.Part]string{}, Instant(0)
	for _, l := range s.Lost {
		from = l.End
	}
	for _, span := range s.Reasons {
		if span.From < from {
			continue
		}
		of := span.Part
		if of == waits.Requeued {
			of = waits.PartOf(span.Reason)
		}
		sums[of] += span.Seconds
		reasons[of] = cmp.Or(span.Reason, reasons[of])
	}
	for _, p := range waits.Parts {
		if sums[p] > sums[part] {
			part = p
		}
	}
	return part, reasons[part]
}

// belowLimit says whether the largest part of row's last wait was for a limit that also counts the job other. If so, it
// returns what both jobs have in common: "array", "user", "account" or "QOS". Otherwise it returns "". The result jobs
// is true for a limit on the number of jobs, and false for a limit on resources. If row waited for several limits, the
// last limit decides. A limit of a parent account or of a partition's QOS has the same reason as a limit of the job's
// own account or QOS, and counts as a limit of the job's own account or QOS.
func (s *Story) belowLimit(row, other *run.Row) (what string, jobs bool) {
	part, reason := s.lastWait()
	if part != waits.Limit && part != waits.OwnLimit {
		return "", false
	}
	mine, its := row.User, other.User
	what = "user"
	switch {
	case strings.HasPrefix(reason, "JobArrayTaskLimit"):
		what, mine, its = "array", row.Job, other.Job
		if s.manifest.Engine == run.EngineRecorded { // an array may be several jobs of a record
			mine, _, _ = hpc.ArrayOfTask(row.Job, row.Task)
			its, _, _ = hpc.ArrayOfTask(other.Job, other.Task)
		}
	case strings.HasPrefix(reason, "QOSGrp"):
		what, mine, its = "QOS", row.QOS, other.QOS
	case strings.HasPrefix(reason, "AssocGrp") || strings.Contains(reason, "PerAccount"):
		what, mine, its = "account", row.Account, other.Account
	}
	if mine != its {
		return "", false
	}
	return what, strings.Contains(reason, "Job")
}

// forNodes returns the causes at an instant at which a job waited for nodes or for an unknown
// reason. The reasons of other jobs do not explain this job.
func (rec *Record) forNodes(row *run.Row, t hpc.Time) (list []Cause) {
	for _, c := range rec.look(t, row).stall.Causes {
		if !slices.ContainsFunc(waits.Parts, func(p waits.Part) bool { return kindOf(p, "") == c.Kind && c.Kind != Reserved && c.Kind != Outage }) {
			list = append(list, c)
		}
	}
	return list
}

// judge finds the causes. The weight of a cause that follows directly from a part of the wait is
// the part's share of the wait. The causes of the rest of the wait come from the middle of its
// longest span.
func (s *Story) judge(rec *Record, row *run.Row) {
	if s.Wait < 1 {
		return
	}
	for _, part := range s.Parts {
		kind := kindOf(part.Part, "")
		if kind == "" {
			continue
		}
		var reasons []string
		for _, span := range s.Reasons {
			if span.Part == part.Part {
				reasons = append(reasons, span.Reason)
			}
		}
		s.Causes = append(s.Causes, Cause{Kind: kind, Weight: part.Share, Text: fmt.Sprintf("for %.0f %% of its wait it waited %s%s",
			100*part.Share, part.Part.MeaningIn(rec.manifest), named(reasons))})
	}
	before := 0.0
	for _, span := range s.Reasons {
		if span.Reason == run.BeforeWindow {
			before += span.Seconds
		}
	}
	if before > 0 && rec.isRun() {
		s.Causes = append(s.Causes, Cause{Kind: Before, Weight: before / s.Wait, Text: beforeWindow})
	}
	ranked := s.ranked()
	longest, rest := s.longest(false)
	if rest > negligible*s.Wait {
		for _, c := range rec.forNodes(row, longest.middle()) {
			share := rest / s.Wait
			c.Weight *= share
			c.At = Instant(longest.middle())
			if share < 1-negligible {
				c.Text += fmt.Sprintf("; multiplied by %.2f, the share of its wait for nodes, behind other jobs or without a reason", share)
			}
			s.Causes = append(s.Causes, c)
			if c.Kind == Backfill {
				ranked.Weight *= 1 - c.Weight
				ranked.Text += "; reduced by the weight of backfill"
			}
		}
	}
	if ranked.Weight > 0 {
		s.Causes = append(s.Causes, ranked)
	}
	slices.SortStableFunc(s.Causes, func(a, b Cause) int { return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Kind, b.Kind)) })
	s.Causes = s.Causes[:min(3, len(s.Causes))]
}
