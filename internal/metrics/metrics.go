// Package metrics measures how well a schedule served the machine and its users.
//
// # The machine
//
// Makespan, utilization and throughput are defined as by Martinasso et al., "RM-Replay: A
// High-Fidelity Tuning, Optimization and Exploration Tool for Resource Management", SC'18, section
// IV.B. They describe a workload that was known in advance and that ran to its end. They can mislead
// in two ways:
//
//   - Utilization and throughput depend on the interval T over which they are computed. By default
//     T is the makespan, from the first start to the last end. So T includes the time in which an
//     idle machine fills, and the time in which it becomes idle again. A single long job at the end
//     can halve the utilization of a week, whatever the scheduler does. To measure a busy machine,
//     choose an interval without both ends. If jobs do not wait, utilization depends only on the
//     workload. If T contains all jobs, the throughput is the number of jobs.
//   - The paper counts nodes. If two jobs share a node, its formula counts the node twice. So
//     [Metrics.Utilization] counts processors. Both numbers are equal if jobs use whole nodes of one
//     kind. [Metrics.NodeUtilization] counts the time in which a node has at least one job. It
//     equals the paper's utilization if jobs do not share nodes.
//
// # The users
//
// Wait, turnaround and slowdown are computed for each job. Their distributions are skewed: a few
// jobs wait for days, and most jobs do not wait. So the mean describes the few jobs, and the median,
// often 0, describes the many. Read them together with the high quantiles. Do not compare the means
// of two single runs as if they were repetitions of one experiment: if one job moves by a second,
// thousands of other jobs can move.
//
// Slowdown (Feitelson and Rudolph, JSSPP 1998; the paper's section IV.C) relates the
// turnaround to the run time, because the user of a long job is willing to wait longer. A
// job that failed after one second and waited for an hour has a slowdown of 3,601, and a
// handful of such jobs decide the mean. Bounded slowdown (Feitelson et al., JSSPP 1997)
// replaces run times below τ by τ. Use it for comparisons, and always say which τ it has.
//
// # Who is counted
//
// The scheduler never saw rejected jobs: they count only in [Metrics.Rejected]. A job that never
// started has no wait, a job that did not end has no turnaround, and a job that ran for no time has
// a bounded slowdown, but no slowdown. In a run that ended early, or in which
// impatient users cancel waiting jobs, the longest waits are missing from the mean (survivorship).
// [Metrics.LeftOut] counts the missing jobs.
//
// A requeued job waits until its first start, and from each requeue to the next start: the time of a
// lost run does not count as waiting. Its turnaround is from its first submission to its last end,
// and the processor time of its lost runs counts as used. The run time of a suspended job includes
// the time of the suspension. During that time its processors count as unused.
package metrics

import (
	"cmp"
	"iter"
	"math"
	"math/bits"
	"slices"
	"sync"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
)

// DefaultTau is the usual τ of the bounded slowdown.
const DefaultTau = 10 * time.Second

// Options are what metrics depend on besides the jobs. The zero value is usable.
type Options struct {
	// Tau is the τ of the bounded slowdown; [DefaultTau] if 0.
	Tau time.Duration
	// Window is the instant at which the workload's window begins; 0 for a workload without a window.
	// Jobs that started before this instant are preset jobs: their use of the machine after this
	// instant counts, and their waits do not count. Makespan and T begin with the window.
	Window hpc.Time
	// SubmittedFrom and SubmittedTo, if not 0, leave out jobs that were submitted before or after these
	// instants: counts of jobs, waits, turnarounds, slowdowns and losses are those of the other jobs.
	// The use of the machine, the queue, the throughput and the makespan are those of all jobs.
	SubmittedFrom, SubmittedTo hpc.Time
	// From and To bound the interval T of utilization, throughput and queue length. If From is 0, T
	// begins with the first start. If To is 0, T ends with the last end.
	From, To hpc.Time
	// Nodes and Processors are the machine's capacity; 0 if unknown. Utilization is then
	// unknown too.
	Nodes, Processors int
	// Columns is the number of columns of the pictures of the run over time ([FromRun]); 0 for no pictures.
	Columns int
	// Zone is the time zone in which submissions count by the hour of the week; UTC if nil.
	Zone *time.Location
}

// Metrics describe one set of jobs. A [Float] is NaN where it has no meaning, such as a
// mean over no jobs; JSON has null there.
type Metrics struct {
	// Jobs counts the jobs that the resource manager accepted, every task of an array as a
	// job. JobsByState divides them by their final state. Jobs that the options leave out
	// count only in LeftOut.
	Jobs        int               `json:"jobs"`
	Rejected    int               `json:"rejected"` // every task of a rejected array counts
	JobsByState map[hpc.State]int `json:"jobs_by_state"`
	Started     int               `json:"started"`
	// LeftOut counts accepted jobs that are not in all of the metrics, by reason.
	LeftOut map[Omission]int `json:"left_out"`

	// MakespanSeconds is the time to complete the workload, max(end) − min(start) over all
	// jobs that started and ended (SC'18, IV.B), or max(end) − [Options.Window].
	MakespanSeconds Float `json:"makespan_s"`
	// Utilization is the proportion of the machine that the jobs used in the interval T =
	// [a, b]:
	//
	//	U        = Σ usage(T) / ((b − a) × processors)
	//	usage(T) = (min(end, b) − max(start, a)) × the job's processors
	//
	// (SC'18, IV.A and IV.B, with nodes instead of processors). The sum is over all periods in which
	// a job held processors. Time outside T adds nothing.
	Utilization Float `json:"utilization"`
	// NodeUtilization is the part of the nodes that had jobs, on average over T. UsedNodeSeconds is
	// how long nodes had jobs, summed over nodes, in node seconds. IdleNodeSeconds is how long nodes
	// had no jobs, including nodes that were out of service. A node that jobs share counts once. All
	// three are NaN if the number of the machine's nodes or of a job's nodes is not known
	// ([NoNodes]).
	NodeUtilization Float `json:"node_utilization"`
	UsedNodeSeconds Float `json:"used_node_s"`
	IdleNodeSeconds Float `json:"idle_node_s"`
	// UnnamedNodes is the number of jobs for which the record has only the number of nodes, without
	// names. A node that such jobs share counts once for each of them. So the true use is at most
	// UsedNodeSeconds, and the true idle time is at least IdleNodeSeconds. UsedNodeSeconds is never
	// above all nodes x T.
	UnnamedNodes int `json:"jobs_with_unnamed_nodes"`
	// UsedProcessorSeconds is Σ usage(T), in processor seconds.
	UsedProcessorSeconds Float `json:"used_processor_s"`
	// Throughput is the number of jobs that both started and ended in T (SC'18,
	// IV.B); ThroughputPerHour divides it by T.
	Throughput        int   `json:"throughput_jobs"`
	ThroughputPerHour Float `json:"throughput_jobs_per_h"`
	// MeanQueue is the number of waiting jobs, averaged over the time of T.
	MeanQueue Float `json:"mean_queue_jobs"`

	// Wait is start − submit, less the runs of a requeued job that were lost. EligibleWait is the part
	// of the wait after the job might first start: after its dependencies, its begin time and its
	// holds. It leaves out jobs for which the record does not have that instant. Turnaround is end −
	// submit. Slowdown is turnaround / run time with run time = end − start (SC'18, IV.C).
	// BoundedSlowdown is max(1, turnaround / max(run time, τ)).
	Wait
	EligibleWait
	Turnaround
	Slowdown
	BoundedSlowdown
	TauSeconds Float `json:"tau_s"`
	// HighSlowdown is the number of jobs with a slowdown above 5. The paper's section
	// VIII.B regards the users of such jobs as unsatisfied.
	HighSlowdown int `json:"high_slowdown_jobs"`

	// Requeues is the number of runs that ended in a requeue, and Preemptions the number of runs
	// that another job ended, with or without a requeue. InterruptedProcessorSeconds is the processor time
	// of these runs, inside T or not, in processor seconds. It is lost unless the jobs write
	// checkpoints.
	Requeues                    int   `json:"requeues"`
	Preemptions                 int   `json:"preemptions"`
	InterruptedProcessorSeconds Float `json:"interrupted_processor_s"`
	// HeldByState is the processor time of all jobs, inside T or not, by their final state, in
	// processor seconds. A run that has not ended does not count.
	HeldByState map[hpc.State]Float `json:"held_processor_s_by_state"`

	// Losses are the processor times of runs whose work was lost, by their cause.
	Losses []Loss `json:"losses"`
	// LimitProcessorSeconds is time limit x processors of the last runs that ended, and
	// UnusedLimitProcessorSeconds is the part of this product that the runs did not use. A scheduler
	// plans with limits. Runs without a limit do not count. Both are NaN if no run has a limit.
	LimitProcessorSeconds       Float `json:"limit_processor_s"`
	UnusedLimitProcessorSeconds Float `json:"unused_limit_processor_s"`

	// WaitParts divide the sum of the waits, the largest part first ([waits.Parts]).
	WaitParts []WaitPart `json:"wait_parts"`
	// Waited is the number of jobs that have a wait.
	Waited int `json:"waited_jobs"`
}

// WaitPart is how long jobs waited for one kind of reason.
type WaitPart struct {
	Part waits.Part `json:"part"`
	Jobs int        `json:"jobs"` // jobs whose waits have such a part
	// Seconds is the part's sum over jobs, Mean its mean over all jobs that have a wait, and Share its
	// share of all waits. The means add up to the mean wait.
	Seconds Float `json:"wait_s"`
	Mean    Float `json:"mean_wait_s"`
	Share   Float `json:"share"`
}

// Omission says why a job is not in all of the metrics.
type Omission string

// The reasons to leave a job out.
const (
	// NeverStarted jobs have no wait, turnaround or slowdown.
	NeverStarted Omission = "never_started"
	// NotStartedAgain jobs lost a run, and had not started again when they ended, or when the
	// replay ended. They have no wait, turnaround or slowdown.
	NotStartedAgain Omission = "not_started_again"
	// NotEnded jobs have a wait, but no turnaround and no slowdown. Their use of the machine counts.
	NotEnded Omission = "not_ended"
	// Preset jobs were running when the window began: the scheduler did not decide their
	// waits and starts.
	Preset Omission = "preset"
	// SubmittedOutside jobs were submitted before [Options.SubmittedFrom] or after
	// [Options.SubmittedTo].
	SubmittedOutside Omission = "submitted_outside"
	// ZeroRunTime jobs have no slowdown: it would be infinite or 0/0.
	ZeroRunTime Omission = "zero_run_time"
	// Inconsistent jobs end before they start, start before they are submitted, or have no submit
	// time. They are in no distribution.
	Inconsistent Omission = "inconsistent_times"
	// NoProcessors jobs started on an unknown number of processors. They add nothing to
	// utilization.
	NoProcessors Omission = "no_processors"
	// NoNodes jobs held an unknown number of nodes. If there is such a job, the utilization of nodes
	// is not known.
	NoNodes Omission = "no_nodes"
	// NoEligible jobs have an unknown wait since eligible, because the record does not say when
	// they became eligible. They count here only if this wait is known for other jobs.
	NoEligible Omission = "no_eligible_time"
)

// Distribution describes one quantity over jobs.
type Distribution struct{ Mean, Median, P90, P99, Max Float }

// Wait is the [Distribution] of wait times in seconds.
type Wait struct {
	Mean   Float `json:"mean_wait_s"`
	Median Float `json:"median_wait_s"`
	P90    Float `json:"p90_wait_s"`
	P99    Float `json:"p99_wait_s"`
	Max    Float `json:"max_wait_s"`
}

// EligibleWait is the [Distribution] of waits since jobs were eligible, in seconds.
type EligibleWait struct {
	Mean   Float `json:"mean_wait_since_eligible_s"`
	Median Float `json:"median_wait_since_eligible_s"`
	P90    Float `json:"p90_wait_since_eligible_s"`
	P99    Float `json:"p99_wait_since_eligible_s"`
	Max    Float `json:"max_wait_since_eligible_s"`
}

// Turnaround is the [Distribution] of turnaround times in seconds.
type Turnaround struct {
	Mean   Float `json:"mean_turnaround_s"`
	Median Float `json:"median_turnaround_s"`
	P90    Float `json:"p90_turnaround_s"`
	P99    Float `json:"p99_turnaround_s"`
	Max    Float `json:"max_turnaround_s"`
}

// Slowdown is the [Distribution] of slowdowns.
type Slowdown struct {
	Mean   Float `json:"mean_slowdown"`
	Median Float `json:"median_slowdown"`
	P90    Float `json:"p90_slowdown"`
	P99    Float `json:"p99_slowdown"`
	Max    Float `json:"max_slowdown"`
}

// BoundedSlowdown is the [Distribution] of bounded slowdowns.
type BoundedSlowdown struct {
	Mean   Float `json:"mean_bounded_slowdown"`
	Median Float `json:"median_bounded_slowdown"`
	P90    Float `json:"p90_bounded_slowdown"`
	P99    Float `json:"p99_bounded_slowdown"`
	Max    Float `json:"max_bounded_slowdown"`
}

// Compute returns the metrics of the jobs. The order of the rows does not matter: the
// results are equal to the last bit.
func Compute(rows []run.Row, opts Options) Metrics { return ComputeAll(all(rows), opts) }

// DecodedOnce returns the same rows. It stores the rows of a small record, because the metrics read them
// several times, and decoding takes longer than reading.
func DecodedOnce(rows iter.Seq[*run.Row]) iter.Seq[*run.Row] {
	var list []*run.Row
	for row := range rows {
		if len(list) == 10000 {
			return rows
		}
		one := *row
		list = append(list, &one)
	}
	return slices.Values(list)
}

// ComputeAll is [Compute] for rows that are not in a slice. It iterates over them more than once. It
// stores only the times of each job in memory.
func ComputeAll(rows iter.Seq[*run.Row], opts Options) Metrics {
	a := newAccumulator(rows, opts)
	for row := range rows {
		a.add(row)
	}
	return a.metrics()
}

// all iterates over a slice.
func all(rows []run.Row) iter.Seq[*run.Row] {
	return func(yield func(*run.Row) bool) {
		for i := range rows {
			if !yield(&rows[i]) {
				return
			}
		}
	}
}

// accumulator collects the sums of one pass over the jobs.
type accumulator struct {
	opts Options
	m    Metrics

	from, to                        hpc.Time // the period T
	processorTime, waiting          area
	nodes                           nodeUse
	lost, limits, unused            area
	losses                          map[LossCause]*loss
	byState                         map[hpc.State]*area
	wait, turnaround, slow, bounded []float64
	eligible                        []float64
	parts                           waitParts

	held   []run.Segment  // periods in which the current job held processors
	queued []waits.Period // periods in which the current job waited
}

func newAccumulator(rows iter.Seq[*run.Row], opts Options) *accumulator {
	if opts.Tau <= 0 {
		opts.Tau = DefaultTau
	}
	a := &accumulator{opts: opts, from: opts.From, to: opts.To, byState: map[hpc.State]*area{}, losses: map[LossCause]*loss{}}
	a.m = Metrics{
		JobsByState: make(map[hpc.State]int), LeftOut: make(map[Omission]int),
		MakespanSeconds: Float(math.NaN()), TauSeconds: Float(opts.Tau.Seconds()),
	}
	first, last, started := opts.period(rows)
	if last >= first && last != 0 {
		a.m.MakespanSeconds = Float(last.Sub(first).Seconds())
	}
	if a.from == 0 {
		a.from = first
	}
	if a.to == 0 {
		a.to = last
	}
	for _, list := range []*[]float64{&a.wait, &a.turnaround, &a.slow, &a.bounded} {
		*list = make([]float64, 0, started)
	}
	return a
}

// period returns the default of the period T, which From and To can replace. It reaches from the beginning of the
// window, or without a window from the first start, to the last end. The result started is the number of jobs that
// started.
func (o Options) period(rows iter.Seq[*run.Row]) (first, last hpc.Time, started int) {
	first, last, started = bounds(rows)
	if o.Window != 0 {
		first = o.Window
	}
	return first, last, started
}

// bounds returns the first start, lost runs included, and the last end of the jobs that started and
// ended, and the number of jobs that started.
func bounds(rows iter.Seq[*run.Row]) (first, last hpc.Time, started int) {
	for r := range rows {
		if r.State == hpc.Rejected || r.Start == 0 {
			continue
		}
		started++
		if r.End < r.Start {
			continue
		}
		if start := r.FirstStart(); first == 0 || start < first {
			first = start
		}
		last = max(last, r.End)
	}
	return first, last, started
}

// add counts one job.
func (a *accumulator) add(r *run.Row) {
	outside := a.opts.LeavesOut(r)
	if r.State == hpc.Rejected {
		if !outside {
			a.m.Rejected += JobsOf(r)
		}
		return
	}
	a.addUsage(r)
	waited, omitted := a.waited(r)
	if omitted == "" && r.End != 0 && r.Start >= a.from && r.End <= a.to {
		a.m.Throughput++
	}
	if outside {
		a.m.LeftOut[SubmittedOutside]++
		return
	}
	a.m.Jobs++
	a.m.JobsByState[r.State]++
	if r.Start != 0 {
		a.m.Started++
	}
	a.addLosses(r)
	if omitted != "" {
		a.m.LeftOut[omitted]++
		return
	}
	a.addTimes(r, &waited)
}

// addUsage adds the processors and nodes that a job held within T, and how long it waited within T.
func (a *accumulator) addUsage(r *run.Row) {
	a.held = r.AppendHeld(a.held[:0])
	known := len(a.held) == 0
	for _, s := range a.held {
		a.processorTime.add(a.within(s.Start, s.End), s.Processors)
		known = known || s.Processors > 0
	}
	if !known {
		a.m.LeftOut[NoProcessors]++
	}
	a.addNodes(a.held)
	a.queued = waits.AppendQueued(a.queued[:0], r)
	for _, q := range a.queued {
		a.waiting.add(a.within(q.From, q.To), 1)
	}
}

// within returns how long a period overlaps T. If to is 0, the period has no end.
func (a *accumulator) within(from, to hpc.Time) time.Duration {
	if to == 0 || to > a.to {
		to = a.to
	}
	return max(0, to.Sub(max(from, a.from)))
}

// LeavesOut reports whether a job was submitted outside of the interval of the options.
func (o *Options) LeavesOut(r *run.Row) bool {
	return r.Submit < o.SubmittedFrom || o.SubmittedTo != 0 && r.Submit > o.SubmittedTo
}

// waited returns the wait of a job, or why the job has none.
func (a *accumulator) waited(r *run.Row) (of waits.Sums, why Omission) {
	switch {
	case r.FirstStart() == 0:
		return of, NeverStarted
	case r.Start == 0:
		return of, NotStartedAgain
	case r.Preset(a.opts.Window):
		return of, Preset
	case r.Start < r.Submit || r.End != 0 && r.End < r.Start:
		return of, Inconsistent
	}
	of, ok := waits.Sum(r)
	if !ok { // the job's submission is not known
		return of, Inconsistent
	}
	return of, ""
}

// addTimes adds a job's wait, turnaround and slowdown.
func (a *accumulator) addTimes(r *run.Row, waited *waits.Sums) {
	a.wait = append(a.wait, waited.Wait.Seconds())
	if waited.Eligible {
		a.eligible = append(a.eligible, waited.SinceEligible.Seconds())
	}
	a.parts.add(waited)
	if r.End == 0 {
		a.m.LeftOut[NotEnded]++
		return
	}
	turnaround, runTime := r.End.Sub(r.Submit).Seconds(), r.End.Sub(r.Start).Seconds()
	a.turnaround = append(a.turnaround, turnaround)
	a.bounded = append(a.bounded, max(1, turnaround/max(runTime, a.opts.Tau.Seconds())))
	if runTime == 0 {
		a.m.LeftOut[ZeroRunTime]++
		return
	}
	a.slow = append(a.slow, turnaround/runTime)
}

// metrics computes the metrics of all jobs that were added.
func (a *accumulator) metrics() Metrics {
	m := a.m
	span := max(0, a.to.Sub(a.from).Seconds())
	m.InterruptedProcessorSeconds, m.HeldByState = Float(a.lost.seconds()), map[hpc.State]Float{}
	for state, sum := range a.byState {
		if *sum != (area{}) {
			m.HeldByState[state] = Float(sum.seconds())
		}
	}
	m.Losses, m.LimitProcessorSeconds, m.UnusedLimitProcessorSeconds = a.lossList(), NoValue(), NoValue()
	if a.limits != (area{}) {
		m.LimitProcessorSeconds, m.UnusedLimitProcessorSeconds = Float(a.limits.seconds()), Float(a.unused.seconds())
	}
	m.UsedProcessorSeconds = Float(a.processorTime.seconds())
	m.Utilization = ratio(a.processorTime.seconds(), span*float64(a.opts.Processors))
	m.ThroughputPerHour = ratio(float64(m.Throughput)*3600, span)
	m.MeanQueue = ratio(a.waiting.seconds(), span)
	var group sync.WaitGroup
	group.Go(func() { a.setNodes(&m, span) })
	group.Go(func() { m.Wait = Wait(Summarize(a.wait)) })
	group.Go(func() { m.EligibleWait = EligibleWait(Summarize(a.eligible)) })
	group.Go(func() { m.Turnaround = Turnaround(Summarize(a.turnaround)) })
	group.Go(func() { m.Slowdown = Slowdown(Summarize(a.slow)) })
	group.Go(func() { m.BoundedSlowdown = BoundedSlowdown(Summarize(a.bounded)) })
	group.Wait()
	if n := len(a.eligible); n > 0 && n < len(a.wait) {
		m.LeftOut[NoEligible] = len(a.wait) - n
	}
	m.Waited, m.WaitParts = len(a.wait), a.parts.list(len(a.wait))
	for _, x := range a.slow {
		if x > HighSlowdown {
			m.HighSlowdown++
		}
	}
	return m
}

// HighSlowdown is the slowdown above which a job counts in [Metrics.HighSlowdown].
const HighSlowdown = 5

// ratio returns a / b, or NaN if b is not above 0.
func ratio(a, b float64) Float {
	if b <= 0 {
		return Float(math.NaN())
	}
	return Float(a / b)
}

// Summarize sorts values and returns their distribution. All its fields are NaN if there
// are no values. Quantiles are of type 7 of Hyndman and Fan ("Sample quantiles in
// statistical packages", The American Statistician 50(4), 1996), the default of R, NumPy
// and spreadsheets: linear interpolation at (n − 1) × p of the sorted values, counted from
// 0.
func Summarize(values []float64) Distribution {
	if len(values) == 0 {
		nan := Float(math.NaN())
		return Distribution{nan, nan, nan, nan, nan}
	}
	// The sum of ascending values does not depend on the order of the jobs, and its
	// rounding error is small.
	slices.Sort(values)
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return Distribution{
		Mean:   Float(sum / float64(len(values))),
		Median: Float(Quantile(values, 0.5)),
		P90:    Float(Quantile(values, 0.9)),
		P99:    Float(Quantile(values, 0.99)),
		Max:    Float(values[len(values)-1]),
	}
}

// Quantile returns the quantile p in [0, 1] of sorted values, of type 7 (see [Summarize]).
// There must be at least one value.
func Quantile(sorted []float64, p float64) float64 {
	h := float64(len(sorted)-1) * p
	i := int(h)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (h-float64(i))*(sorted[i+1]-sorted[i])
}

// area is a sum of durations times counts, in 128 bits. A year on a million processors has more
// nanoseconds than 64 bits can represent, and a sum of floats would depend on its order.
type area struct{ high, low uint64 }

// add adds d × n. If d or n is negative, because the record is damaged, it adds nothing.
func (s *area) add(d time.Duration, n int) {
	if d <= 0 || n <= 0 {
		return
	}
	high, low := bits.Mul64(uint64(d), uint64(n))
	var carry uint64
	s.low, carry = bits.Add64(s.low, low, 0)
	s.high, _ = bits.Add64(s.high, high, carry)
}

// join adds another sum.
func (s *area) join(o area) {
	var carry uint64
	s.low, carry = bits.Add64(s.low, o.low, 0)
	s.high, _ = bits.Add64(s.high, o.high, carry)
}

func (s *area) seconds() float64 {
	return (float64(s.high)*0x1p64 + float64(s.low)) / 1e9
}

// Point is the state of the machine from At until the next Point.
type Point struct {
	At         hpc.Time
	Queued     int // waiting jobs
	Running    int // jobs that hold processors
	Processors int // processors that jobs hold
}

// Timeline returns the machine's state over time: one Point for each instant at which it
// changed, in order. Rejected jobs are not part of it.
func Timeline(rows []run.Row) []Point {
	changes := make([]Point, 0, 4*len(rows))
	period := func(from, to hpc.Time, p Point) {
		p.At = from
		changes = append(changes, p)
		if to != 0 {
			changes = append(changes, Point{At: to, Queued: -p.Queued, Running: -p.Running, Processors: -p.Processors})
		}
	}
	for i := range rows {
		r := &rows[i]
		if r.State == hpc.Rejected {
			continue
		}
		held := r.Held()
		for _, s := range held {
			period(s.Start, s.End, Point{Running: 1, Processors: s.Processors})
		}
		for _, q := range waits.AppendQueued(nil, r) {
			period(q.From, q.To, Point{Queued: 1})
		}
	}
	return accumulate(changes)
}

// MostProcessors returns the largest number of processors that jobs held at the same time.
func MostProcessors(rows []run.Row) (most int) {
	for _, p := range Timeline(rows) {
		most = max(most, p.Processors)
	}
	return most
}

// accumulate adds up changes, and returns the states after them.
func accumulate(changes []Point) []Point {
	slices.SortFunc(changes, func(a, b Point) int { return cmp.Compare(a.At, b.At) })
	var points []Point
	var now Point
	for i, c := range changes {
		now.At = c.At
		now.Queued += c.Queued
		now.Running += c.Running
		now.Processors += c.Processors
		if i+1 == len(changes) || changes[i+1].At != c.At {
			points = append(points, now)
		}
	}
	return points
}

// MeanOver returns the average of a value of a timeline from one instant to another, such
// as the mean queue length or the mean number of processors in use. It is NaN for an empty
// interval.
func MeanOver(points []Point, from, to hpc.Time, value func(Point) int) Float {
	sum := 0.0
	for i, p := range points {
		end := to
		if i+1 < len(points) {
			end = min(to, points[i+1].At)
		}
		if start := max(from, p.At); end > start {
			sum += end.Sub(start).Seconds() * float64(value(p))
		}
	}
	return ratio(sum, to.Sub(from).Seconds())
}
