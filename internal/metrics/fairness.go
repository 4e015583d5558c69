package metrics

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"slices"

	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
)

// ByJob makes each job a separate group. Only [Fairness] has this grouping.
const ByJob By = "job"

// FairnessBy are the groupings of [Summary.Fairness].
var FairnessBy = []By{ByUser, ByAccount, ByQOS, ByJob}

// Fairness says how equally groups of jobs were served. Its numbers compare the means of the groups,
// so that a user with many jobs counts only once. The numbers also depend on what the groups
// request: large jobs wait longer under any scheduler. So compare the numbers between runs of one
// workload. No value alone shows whether a run is fair.
type Fairness struct {
	// Groups is the number of groups with a job that has a wait.
	Groups int `json:"groups"`
	// WaitGini is the Gini coefficient of the groups' mean waits (Gini 1912; Dorfman, The Review
	// of Economics and Statistics 61(1), 1979):
	//
	//	G = Σᵢ Σₖ |xᵢ − xₖ| / (2 n² mean(x))
	//
	// 0 if all are equal, and 1 − 1/n if only one of n groups waits.
	WaitGini Float `json:"wait_gini"`
	// WaitJain is Jain's index of the same means (Jain, Chiu and Hawe, DEC-TR-301, 1984):
	//
	//	J = (Σᵢ xᵢ)² / (n Σᵢ xᵢ²)
	//
	// 1 if all are equal, also if all are 0, and 1/n if only one of n groups waits.
	WaitJain Float `json:"wait_jain"`
	// SlowdownGini and SlowdownJain are the same numbers for the groups' mean bounded slowdowns.
	SlowdownGini Float `json:"bounded_slowdown_gini"`
	SlowdownJain Float `json:"bounded_slowdown_jain"`
}

// FairnessOf returns how equally the groups of each grouping in [FairnessBy] were served. A job
// counts if it has a wait in [Metrics], and for slowdowns if it ended.
func FairnessOf(rows iter.Seq[*run.Row], opts Options) map[By]Fairness {
	if opts.Tau <= 0 {
		opts.Tau = DefaultTau
	}
	waited, slowdowns := make([]means, len(FairnessBy)), make([]means, len(FairnessBy))
	for r := range rows {
		wait, ok := waitOf(r, opts)
		if !ok {
			continue
		}
		for i, by := range FairnessBy {
			waited[i].add(r, by, wait)
			if r.End != 0 {
				slowdowns[i].add(r, by, boundedSlowdown(r, opts))
			}
		}
	}
	all := make(map[By]Fairness, len(FairnessBy))
	for i, by := range FairnessBy {
		w, s := waited[i].sorted(), slowdowns[i].sorted()
		all[by] = Fairness{Groups: len(w), WaitGini: Gini(w), WaitJain: Jain(w), SlowdownGini: Gini(s), SlowdownJain: Jain(s)}
	}
	return all
}

// boundedSlowdown returns the bounded slowdown of a job that ended.
func boundedSlowdown(r *run.Row, opts Options) float64 {
	return max(1, r.End.Sub(r.Submit).Seconds()/max(r.End.Sub(r.Start).Seconds(), opts.Tau.Seconds()))
}

// means are the means of a value over the jobs of each group.
type means struct {
	groups map[string][]float64
	jobs   []float64 // the means of [ByJob]
}

func (m *means) add(r *run.Row, by By, value float64) {
	if by == ByJob {
		m.jobs = append(m.jobs, value)
		return
	}
	if m.groups == nil {
		m.groups = make(map[string][]float64)
	}
	name := keyOf(r, by).name
	m.groups[name] = append(m.groups[name], value)
}

// sorted returns the means of all groups in ascending order. They do not depend on the order of the
// jobs.
func (m *means) sorted() []float64 {
	list := m.jobs
	for _, values := range m.groups {
		list = append(list, float64(Summarize(values).Mean))
	}
	slices.Sort(list)
	return list
}

// Gini returns the Gini coefficient of sorted values that are at least 0 (see
// [Fairness.WaitGini]). It is 0 if all are 0, and NaN without values.
func Gini(sorted []float64) Float {
	n := float64(len(sorted))
	sum, weighted := 0.0, 0.0
	for i, x := range sorted {
		sum += x
		weighted += (2*float64(i+1) - n - 1) * x
	}
	switch {
	case n == 0:
		return Float(math.NaN())
	case sum == 0:
		return 0
	}
	return Float(weighted / (n * sum))
}

// Jain returns Jain's index of values (see [Fairness.WaitJain]). It is 1 if all are 0, and NaN without
// values.
func Jain(values []float64) Float {
	largest := 0.0
	for _, x := range values {
		largest = max(largest, x)
	}
	switch {
	case len(values) == 0:
		return Float(math.NaN())
	case largest == 0:
		return 1
	}
	sum, squares := 0.0, 0.0
	for _, x := range values {
		x /= largest // so that no square overflows
		sum += x
		squares += x * x
	}
	return Float(sum * sum / (float64(len(values)) * squares))
}

// FairnessFigure is one number of [Summary.Fairness].
type FairnessFigure struct {
	Figure // the field Of below hides Figure.Of
	By     By
	Of     func(Fairness) Float
}

// FairnessFigures are the numbers that compare the fairness of runs. Their keys begin with the
// grouping: user_wait_gini.
var FairnessFigures = func() (list []FairnessFigure) {
	for _, by := range FairnessBy {
		who := fmt.Sprintf("mean %%s of each %s", string(by))
		switch by {
		case ByQOS:
			who = "mean %s of each QOS"
		case ByJob:
			who = "%s of each job"
		}
		add := func(key, label, what string, better Better, meaning string, of func(Fairness) Float) {
			list = append(list, FairnessFigure{Figure{Key: string(by) + "_" + key, Label: label + " by " + string(by),
				Better:  better,
				Meaning: fmt.Sprintf(meaning, fmt.Sprintf(who, what))}, by, of})
		}
		const gini, jain = "the Gini coefficient of the %s: 0 if all are equal", "Jain's index of the %s: 1 if all are equal"
		add("wait_gini", "wait Gini", "wait", Lower, gini, func(f Fairness) Float { return f.WaitGini })
		add("wait_jain", "wait Jain", "wait", Higher, jain, func(f Fairness) Float { return f.WaitJain })
		add("bounded_slowdown_gini", "slowdown Gini", "bounded slowdown", Lower, gini,
			func(f Fairness) Float { return f.SlowdownGini })
		add("bounded_slowdown_jain", "slowdown Jain", "bounded slowdown", Higher, jain,
			func(f Fairness) Float { return f.SlowdownJain })
	}
	return list
}()

// FairStart is the unfairness of a run by fair start times (Sabin, Kochhar and Sadayappan, "Job
// Fairness in Non-Preemptive Job Scheduling", ICPP 2004). The fair start time of a job is the start
// that it would have had if no job had been submitted after it. A job is treated unfairly if it
// started later than that, because later jobs delayed it. Package fairstart computes fair start
// times in the simulator.
type FairStart struct {
	// Policy decides in the simulator which jobs start.
	Policy string `json:"policy"`
	// The simulator plays all jobs of the run. Agreement is the share of jobs that it starts within a second of the run's
	// own starts. Exact says that the simulator repeats all starts exactly, and that no job is approximated. If the
	// simulator does not repeat all starts, each fair start time comes from a simulation that begins with the run's state
	// at the job's submission.
	Agreement Float `json:"agreement"`
	Exact     bool  `json:"exact"`
	// Approximated counts the jobs whose simulation begins with the run's state at their submission
	// although the computation is exact for all other jobs. Too many jobs had been submitted between
	// the time when the queue was last empty and these submissions.
	Approximated int `json:"approximated_jobs"`
	// Jobs counts the jobs that have a fair start time. LeftOut counts all other accepted
	// jobs: jobs that never started in the run or in the simulation, preset jobs, requeued and
	// suspended jobs, and jobs without a usable size or usable times. In a run of Slurm, it also
	// counts tasks of arrays with a limit on running tasks.
	Jobs    int `json:"jobs"`
	LeftOut int `json:"left_out_jobs"`
	// Unfair is the number of jobs that started more than a second after their fair start time.
	Unfair int `json:"unfair_jobs"`
	// The miss of a job is max(0, start − fair start time), in seconds. MeanMiss is its mean over
	// all jobs, MeanUnfairMiss its mean over unfairly treated jobs, and MaxMiss its largest value.
	MeanMiss       Float `json:"mean_miss_s"`
	MeanUnfairMiss Float `json:"mean_miss_of_unfair_s"`
	MaxMiss        Float `json:"max_miss_s"`
}

// UnfairShare returns the share of the jobs that were treated unfairly.
func (f *FairStart) UnfairShare() Float { return ratio(float64(f.Unfair), float64(f.Jobs)) }

// FairStartFigure is one number of [FairStart].
type FairStartFigure struct {
	Figure // the field Of below hides Figure.Of
	Of     func(*FairStart) Float
}

// FairStartFigures are the numbers that compare the unfairness of runs.
var FairStartFigures = []FairStartFigure{
	{Figure{Key: "unfair_share", Label: "unfairly treated jobs", Better: Lower,
		Meaning: "the share of jobs that started later than they would have without later jobs"}, (*FairStart).UnfairShare},
	{Figure{Key: "mean_miss_s", Label: "mean miss of fair start", Unit: "s", Better: Lower,
		Meaning: "how much later jobs started than they would have without later jobs, on average over all jobs"},
		func(f *FairStart) Float { return f.MeanMiss }},
	{Figure{Key: "max_miss_s", Label: "max miss of fair start", Unit: "s", Better: Lower,
		Meaning: "how much later the most delayed job started than it would have " +
			"without later jobs"}, func(f *FairStart) Float { return f.MaxMiss }},
}

// renderFairness writes the tables of fairness that the summary has.
func (s *Summary) renderFairness(b *bytes.Buffer) {
	if len(s.Fairness) > 0 {
		table := quantity.NewTable(20, 9, 16, 16, 19, 19)
		table.Row("fairness between", "groups", "Gini of waits", "Jain of waits", "Gini of slowdowns", "Jain of slowdowns")
		for _, by := range FairnessBy {
			f := s.Fairness[by]
			name := string(by) + "s"
			if by == ByQOS {
				name = "QOS"
			}
			table.Row(name, f.Groups, fixed(f.WaitGini), fixed(f.WaitJain), fixed(f.SlowdownGini), fixed(f.SlowdownJain))
		}
		b.WriteString("\n" + table.String() + "computed from the groups' mean waits and mean bounded slowdowns; equal " +
			"service has Gini 0 and Jain 1\n")
	}
	f := s.FairStart
	if f == nil {
		return
	}
	fmt.Fprintf(b, "\nfair start   %d of %d %s (%s) started later than without later jobs\n", f.Unfair, f.Jobs,
		quantity.Plural(f.Jobs, "job", "jobs"),
		percent(f.UnfairShare()))
	fmt.Fprintf(b, "  miss       mean %s s over all jobs, %s s over the unfair ones, max %s s\n", number(f.MeanMiss),
		number(f.MeanUnfairMiss), number(f.MaxMiss))
	how := "a simulation with all jobs starts " + percent(f.Agreement) + " of them as the run did"
	if f.Exact {
		how = "a simulation with all jobs repeats the run exactly"
	}
	fmt.Fprintf(b, "  simulator  policy %s; %s\n", f.Policy, how)
	if f.LeftOut > 0 {
		fmt.Fprintf(b, "  left out   %d %s\n", f.LeftOut, quantity.Plural(f.LeftOut, "job", "jobs"))
	}
}

// fixed formats a number from 0 to 1.
func fixed(f Float) string {
	if !f.Known() {
		return unknown
	}
	return fmt.Sprintf("%.3f", float64(f))
}
