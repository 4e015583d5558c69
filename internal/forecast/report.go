package forecast

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// Report is a forecast in the form in which it is printed.
type Report struct {
	Source       string    `json:"source"`
	At           time.Time `json:"at"`
	Engine       string    `json:"engine"`
	RunTimes     RunTimes  `json:"run_times"`
	Arrivals     Arrivals  `json:"arrivals"`
	Realizations int       `json:"realizations"`
	Seed         uint64    `json:"seed"`
	// Horizon is the last instant of the forecast; nil without a horizon.
	Horizon *time.Time `json:"horizon,omitempty"`
	// By is the instant for [Waiting.StartsBy]; nil if it is not requested.
	By      *time.Time `json:"by,omitempty"`
	Running int        `json:"running"`
	Jobs    []Waiting  `json:"jobs"`
	// WhatIf has the variants of a job that is submitted at the instant of the forecast.
	WhatIf []Waiting `json:"what_if,omitempty"`
	Notes  []string  `json:"notes,omitempty"`
	// Occupancy has the numbers of nodes that jobs will occupy; nil if it was not requested.
	Occupancy *Occupancy `json:"occupancy,omitempty"`
}

// Waiting is the forecast of a job, or of a task of an array.
type Waiting struct {
	// Variant says how a job of [Report.WhatIf] is submitted.
	Variant   string `json:"variant,omitempty"`
	Job       string `json:"job,omitempty"`
	Task      *int   `json:"task,omitempty"`
	Name      string `json:"name,omitempty"`
	User      string `json:"user,omitempty"`
	Partition string `json:"partition,omitempty"`
	// Nodes and CPUs are what the job gets when it starts; without a start, what it requests at least. Nodes may be 0.
	Nodes  int       `json:"nodes,omitempty"`
	CPUs   int       `json:"cpus"`
	Limit  float64   `json:"limit_s,omitempty"` // 0 if the job requests no limit
	Submit time.Time `json:"submit"`
	// P10, P50 and P90 are quantiles of the start; nil if the job starts in too few realizations, or after the horizon.
	P10 *time.Time `json:"p10"`
	P50 *time.Time `json:"p50"`
	P90 *time.Time `json:"p90"`
	// Beyond names the quantiles ("p10", "p50", "p90") that are nil because they are after the horizon.
	Beyond []string `json:"beyond_horizon,omitempty"`
	// StartsBy is the probability that the job starts by [Report.By].
	StartsBy *float64 `json:"starts_by,omitempty"`
	// Within has the probability to start within each span of [Options.Within].
	Within []Within `json:"within,omitempty"`
	// Reason is Slurm's reason why the job waits, and Dependency the jobs that it depends on, in sbatch's form. For a job
	// that starts in no realization, Reason is why it waited at the end of a realization.
	Reason     string `json:"reason,omitempty"`
	Dependency string `json:"dependency,omitempty"`
	// Never counts the realizations in which the job does not start.
	Never int `json:"never,omitempty"`
	// Why says why the job starts in no realization, or not before the horizon. It is "" if the job
	// starts, or if the reason is unknown.
	Why string `json:"why,omitempty"`
	// Slurm is the start that Slurm expects (squeue --start); nil if Slurm gives no start.
	Slurm *time.Time `json:"slurm_start,omitempty"`
}

// Within is the probability that a job starts within some seconds of the forecast's instant.
type Within struct {
	Seconds     float64 `json:"within_s"`
	Probability float64 `json:"probability"`
}

// Variant is a job that could be submitted at the instant of a forecast.
type Variant struct {
	Name    string
	Request hpc.Request
}

// submitted is the ID of the job of a [Variant].
const submitted = "forecast-submit"

// NewReport makes a forecast of a queue, and a forecast of each variant of a job that could be submitted to the queue.
// The realizations of all variants have the same draws. The parameter by is the instant for [Waiting.StartsBy], or 0.
// NewReport returns an error if the instant by is after the horizon, or if no forecast can be made.
func NewReport(ctx context.Context, source string, q *Queue, variants []Variant, by hpc.Time, opts Options) (*Report,
	error) {
	horizon := opts.horizon(q.At)
	if by > horizon {
		return nil, fmt.Errorf("computing the probability to start by %s: this is after the horizon, %s "+
			"(want an earlier instant, or a longer --horizon)", by, horizon)
	}
	r := &Report{
		Source: source, At: q.At.Std(), Engine: EngineName(&opts.Engine), RunTimes: opts.RunTimes, Arrivals: opts.Arrivals,
		Realizations: opts.Needed(), Seed: opts.Seed, Horizon: instant(horizon), By: instant(by), Running: q.Running(),
		Jobs: []Waiting{}, Notes: append(slices.Clip(q.Notes), q.uncounted(&opts.Engine)...),
	}
	for _, v := range variants {
		if why := q.foresee(ctx, v, opts); why != "" && opts.Say != nil {
			opts.Say(v.Name + ": " + why)
		}
	}
	if err := q.teach(ctx, &opts); err != nil { // once, for the queue and all variants
		return nil, err
	}
	if err := r.forecast(ctx, q, by, opts); err != nil {
		return nil, err
	}
	for _, v := range variants {
		one, doubts, err := Try(ctx, q, v, by, opts)
		if err != nil {
			return nil, err
		}
		for _, doubt := range doubts {
			if !strings.Contains(one.Why, doubt) { // otherwise the variant's row has the text
				r.Notes = append(slices.Clip(r.Notes), v.Name+": "+doubt)
			}
		}
		r.WhatIf = append(r.WhatIf, one)
	}
	return r, nil
}

// forecast forecasts the jobs that wait, and the nodes that all jobs occupy.
func (r *Report) forecast(ctx context.Context, q *Queue, by hpc.Time, opts Options) error {
	pending := q.Pending()
	if len(pending) == 0 && opts.Occupancy == 0 {
		return nil
	}
	all, err := q.realize(ctx, pending, opts)
	if err != nil {
		return err
	}
	r.Notes = append(slices.Clone(r.Notes), doubtsOf(all)...)
	if len(pending) > 0 {
		r.Jobs = q.waiting(pending, all, by, opts)
	}
	if opts.Occupancy > 0 {
		r.Occupancy = q.occupancy(all, opts.grid(q.At))
	}
	return nil
}

// Try forecasts a variant of a job that is submitted to a queue at its instant. The error names the variant.
func Try(ctx context.Context, q *Queue, v Variant, by hpc.Time, opts Options) (one Waiting, doubts []string,
	err error) {
	own := []Key{{submitted, -1}}
	opts.Occupancy = 0
	with := q.with(v.Request)
	all, err := with.realize(ctx, own, opts)
	if err != nil {
		return one, nil, fmt.Errorf("%s: %w", v.Name, err)
	}
	one, doubts = with.waiting(own, all, by, opts)[0], doubtsOf(all)
	for i := range doubts {
		doubts[i] = strings.ReplaceAll(doubts[i], "job "+submitted, "the submitted job, variant "+v.Name)
	}
	one.Variant, one.Job = v.Name, ""
	if reason, refused := strings.CutPrefix(all[0].refused, "job "+submitted+": "); refused && one.Never == len(all) {
		one.Why, doubts = "the scheduler refuses the job: "+reason, nil
	} else if one.Never == len(all) && len(doubts) > 0 {
		one.Why = strings.Join(doubts, "; ")
	}
	return one, doubts, nil
}

// with returns the queue with one more job, which is submitted at the queue's instant.
func (q *Queue) with(request hpc.Request) *Queue {
	with := *q
	with.added = true
	for _, w := range []**workload.Workload{&with.Workload, &with.future} {
		if *w == nil {
			continue
		}
		copied := **w
		copied.Jobs = workload.JobsOf(copied.Jobs.List()...)
		job := &hpc.Job{ID: submitted, Submit: q.At, Request: request}
		job.RunTime = hpc.Unlimited
		copied.Jobs.Append(job)
		copied.Sort()
		*w = &copied
	}
	return &with
}

// waiting describes the starts of jobs that wait, in all realizations.
func (q *Queue) waiting(keys []Key, all []*realization, by hpc.Time, opts Options) []Waiting {
	starts := startsOf(all, keys, q.At)
	jobs := map[string]Waiting{}
	for _, job := range q.Workload.Jobs.All() {
		one := Waiting{
			Job: job.ID, Name: job.Name, User: job.User, Partition: job.Partition, Nodes: job.MinNodes,
			CPUs: workload.CPUs(&job.Request), Submit: job.Submit.Std(), Dependency: job.Dependency,
		}
		if job.TimeLimit > 0 && job.TimeLimit != hpc.Unlimited {
			one.Limit = job.TimeLimit.Seconds()
		}
		jobs[job.ID] = one
	}
	var list []Waiting
	for _, key := range keys {
		one, at := jobs[key.Job], starts[key]
		if key.Task >= 0 {
			one.Task = &key.Task
		}
		for _, r := range all { // with --exclusive, a job gets more than its request asks for
			one.Nodes, one.CPUs = max(one.Nodes, r.sizes[key][0]), max(one.CPUs, r.sizes[key][1])
		}
		for _, quantile := range []struct {
			name string
			p    float64
			to   **time.Time
		}{{"p10", 0.1, &one.P10}, {"p50", 0.5, &one.P50}, {"p90", 0.9, &one.P90}} {
			start := Quantile(at, quantile.p)
			if *quantile.to = instant(start); start == Later {
				one.Beyond = append(one.Beyond, quantile.name)
			}
		}
		if by != 0 {
			p := Probability(at, by)
			one.StartsBy = &p
		}
		for _, span := range opts.Within {
			if until := q.At.Add(span); until <= opts.horizon(q.At) {
				one.Within = append(one.Within, Within{span.Seconds(), Probability(at, until)})
			}
		}
		one.Reason = q.Reasons[key]
		for _, start := range at {
			if start == hpc.Never {
				one.Never++
			}
		}
		if at[0] >= Later { // the job starts in no realization
			one.stuck(all, key)
		}
		if estimate, known := q.Estimates[key]; known {
			one.Slurm = instant(estimate)
		}
		list = append(list, one)
	}
	return list
}

// stuck says why a job starts in no realization. Slurm's reason at the instant of the forecast may be different, such
// as Priority. A job that still waits at the horizon has a reason here only if it is above a limit.
func (w *Waiting) stuck(all []*realization, key Key) {
	for _, r := range all {
		if reason := r.why(key); slurmspec.AboveLimit(reason) || reason != "" && w.Never == len(all) {
			w.Reason, w.Why = reason, "it waits for "+reason
			return
		}
	}
}

// instant returns nil for an instant that is 0, [Later] or [hpc.Never].
func instant(t hpc.Time) *time.Time {
	if t == 0 || t >= Later {
		return nil
	}
	std := t.Std()
	return &std
}

// Render returns the forecast as a table, with instants in a time zone.
func (r *Report) Render(zone *time.Location) string {
	var b strings.Builder
	fmt.Fprintf(&b, "forecast of %s at %s: %d running, %d pending\n", r.Source, r.At.In(zone).Format(time.RFC3339),
		r.Running, len(r.Jobs))
	fmt.Fprintf(&b, "%s, %d %s, run times: %s, later submissions: %s\n", r.Engine, r.Realizations,
		quantity.Plural(r.Realizations, "realization", "realizations"), r.RunTimes,
		r.Arrivals)
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	if len(r.Jobs) > 0 {
		b.WriteString("\n")
		r.table(&b, "job", r.Jobs, zone)
	}
	if len(r.WhatIf) > 0 {
		b.WriteString("\nsubmitted now\n")
		r.table(&b, "variant", r.WhatIf, zone)
	}
	return b.String()
}

func (r *Report) table(b *strings.Builder, first string, list []Waiting, zone *time.Location) {
	name := func(w *Waiting) string {
		switch {
		case w.Variant != "":
			return w.Variant
		case w.Task != nil:
			return fmt.Sprintf("%s_%d", w.Job, *w.Task)
		}
		return w.Job
	}
	width, slurm := len(first), false
	for i := range list {
		width, slurm = max(width, len(name(&list[i]))), slurm || list[i].Slurm != nil
	}
	show := func(t *time.Time) string {
		if t == nil {
			return "-"
		}
		return t.In(zone).Format("01-02T15:04:05")
	}
	quantile := func(w *Waiting, name string, t *time.Time) string {
		if slices.Contains(w.Beyond, name) {
			return r.Horizon.In(zone).Format(">01-02T15:04")
		}
		return show(t)
	}
	line := func(cells ...string) {
		fmt.Fprintf(b, "%-*s  %-10.10s %-10.10s %6s %11s  %-14s  %-14s  %-14s", width, cells[0], cells[1], cells[2], cells[3],
			cells[4], cells[5], cells[6], cells[7])
		if r.By != nil {
			fmt.Fprintf(b, "  %5s", cells[8])
		}
		if slurm {
			fmt.Fprintf(b, "  %-14s", cells[9])
		}
		b.WriteString("\n")
	}
	line(first, "user", "partition", "cpus", "limit", "P10", "P50", "P90", "by", "Slurm")
	for i := range list {
		w := &list[i]
		limit, by := "-", "-"
		if w.Limit > 0 {
			limit = slurmspec.FormatSpan(time.Duration(w.Limit * float64(time.Second)))
		}
		if w.StartsBy != nil {
			by = fmt.Sprintf("%.0f %%", 100**w.StartsBy)
		}
		line(name(w), w.User, w.Partition, fmt.Sprint(w.CPUs), limit,
			quantile(w, "p10", w.P10), quantile(w, "p50", w.P50), quantile(w, "p90", w.P90), by, show(w.Slurm))
		switch {
		case w.Why == "":
		case len(w.Beyond) > 0:
			fmt.Fprintf(b, "  does not start by then: %s\n", w.Why)
		default:
			fmt.Fprintf(b, "  never starts: %s\n", w.Why)
		}
	}
}

// Render returns the evaluation as text.
func (e *Evaluation) Render() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d instants, %d %s on %s, run times: %s, later submissions: %s\n\n",
		e.Run, len(e.Instants), e.Realizations,
		quantity.Plural(e.Realizations, "realization", "realizations"), e.Engine, e.RunTimes, e.Arrivals)
	table := quantity.NewTable(20, 8, 8, 10, 10, 13, 13, 13, 13)
	table.Row("instant", "waiting", "started", "exact", "P10-P90",
		"median error", "mean error", "bias", "width")
	line := func(name string, s *Score) {
		table.Row(name, s.Pending, s.Jobs, percent(s.Exact), percent(s.Covered), seconds(s.MedianError),
			seconds(s.MeanError), seconds(s.Bias), seconds(s.Width))
	}
	for i := range e.Instants {
		line(e.Instants[i].At.Format("2006-01-02T15:04:05Z"), &e.Instants[i].Score)
	}
	line("all", &e.Score)
	b.WriteString(table.String())
	for _, note := range e.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	var ends []string
	if e.Horizon > 0 {
		ends = append(ends, slurmspec.FormatSpan(time.Duration(e.Horizon*float64(time.Second))))
	}
	if e.Until != nil {
		ends = append(ends, "last submission "+e.Until.Format("2006-01-02T15:04:05Z"))
	}
	if len(ends) > 0 {
		fmt.Fprintf(&b, "horizon %s: the errors are over %s with start and median before the horizon; the share in P10-P90 "+
			"leaves out %s with start and P10 after the horizon (with %s, it is %s)\n", strings.Join(ends, ", "),
			quantity.Regular(len(e.errors), "job"), quantity.Regular(e.Beyond, "job"),
			quantity.Plural(e.Beyond, "it", "them"), percent(e.CoveredAll))
	}
	if e.Never > 0 {
		fmt.Fprintf(&b, "%s started in the run, but in less than half of the realizations: the errors leave out %s\n",
			quantity.Regular(e.Never, "job"), quantity.Plural(e.Never, "it", "them"))
	}
	for _, other := range []struct {
		name string
		*Beside
	}{{"Slurm's own estimate (squeue --start)", e.Slurm}, {"a forecast with time limits as run times", e.Limits}} {
		if other.Beside != nil {
			fmt.Fprintf(&b, "\ncompared with %s, over %s: median error %s, here %s; mean %s, here %s; the forecast is closer "+
				"for %.0f %% of the jobs, and farther for %.0f %%\n", other.name, quantity.Regular(other.Jobs, "job"),
				seconds(other.MedianError), seconds(other.ForecastError), seconds(other.MeanError),
				seconds(other.ForecastMean), 100*other.Closer, 100*other.Farther)
		}
	}
	return b.String()
}

func seconds(f metrics.Float) string { return quantity.Format("%.0f s", f) }
func percent(f metrics.Float) string { return quantity.Format("%.1f %%", 100*f) }
