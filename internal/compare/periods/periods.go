// Package periods compares the jobs of two runs as two samples, because the runs share few jobs: two months of a log,
// or two workloads. It compares distributions of quantities over jobs, and says which factors, such as the mix of jobs,
// may be causes of the difference of the mean waits.
package periods

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
	"rmreplay/internal/stats"
	"rmreplay/internal/waits"
	"rmreplay/internal/workload"
)

// Comparison compares the jobs of two runs as two samples.
type Comparison struct {
	// Jobs counts the jobs that have a wait, and Days the days on which these jobs were submitted, in the time zone of
	// [Compare]. Processors is the number of the machine's processors; 0 if the record does not have it. Divisor is the
	// number of processors that load and demand are divided by: Processors, or the result of [replacement]. Load is the
	// offered load of the jobs that were submitted in the window, or of all jobs without a window
	// ([workload.OfferedLoad]).
	Jobs       []int           `json:"jobs"`
	Days       []int           `json:"days"`
	Processors []int           `json:"machine_processors"`
	Divisor    []int           `json:"divisor_processors"`
	Load       []metrics.Float `json:"load"`
	// Quantities are the jobs' waits, run times and processors.
	Quantities []Quantity `json:"quantities"`
	// Factors are possible reasons for the difference of the mean waits. Each factor is examined
	// separately.
	Factors []Factor `json:"factors"`
}

// Quantity is the distribution of one quantity over the jobs of both sides.
type Quantity struct {
	Label  string          `json:"label"`
	Unit   string          `json:"unit"`
	Mean   []metrics.Float `json:"mean"`
	Median []metrics.Float `json:"median"`
	P90    []metrics.Float `json:"p90"`
	// CliffsDelta is the effect size over jobs ([stats.CliffsDelta]).
	CliffsDelta metrics.Float `json:"cliffs_delta"`
	// P is the p-value of [stats.GroupedMeanTest] for the difference of the means over jobs. The test permutes whole
	// days: single jobs are not independent samples, because the jobs of a day wait for each other. P has no value if a
	// side has fewer than three days.
	P metrics.Float `json:"p"`
}

// Factor says how much of the difference of the mean waits remains if the set's jobs are weighted so that they
// are distributed over a factor's strata like the baseline's jobs (direct standardization). Strata that only one side
// has are left out.
type Factor struct {
	Factor string `json:"factor"`
	// Covered is the share of the jobs that are in strata of both sides. Difference is the difference of these jobs'
	// mean waits, set − baseline, and Standardized is the same difference after the standardization, in seconds.
	// Explained is the share of Difference that standardization removes.
	Covered      metrics.Float `json:"covered"`
	Difference   metrics.Float `json:"difference_s"`
	Standardized metrics.Float `json:"standardized_s"`
	Explained    metrics.Float `json:"explained"`
}

// Side is the run of a side.
type Side struct {
	Manifest *run.Manifest
	// Jobs are the rows of the jobs that count: one row for each job or task, in the order of submission, without
	// rejected jobs. Rows are all rows of the run.
	Jobs []*run.Row
	Rows []run.Row
	// Submitted is the start of the run's window if the sides have different windows, and otherwise 0. Jobs that were
	// submitted before then do not count.
	Submitted hpc.Time
}

// fewDays is the smallest number of days of a side for a test.
const fewDays = 3

// sampled is a job of a period.
type sampled struct {
	row  *run.Row
	wait waits.Sums
	day  int64   // of the submission, counted from 1970-01-01
	load float64 // processors of the running and waiting jobs at the job's submission, divided by the machine's
}

// Compare compares two sides. Days are those of a time zone; UTC if it is nil. Compare returns nil if a side has no job
// with a wait.
func Compare(a, b Side, zone *time.Location, opts stats.TestOptions) *Comparison {
	p := &Comparison{}
	var sides [2][]sampled
	for i, t := range []*Side{&a, &b} {
		divisor := t.Manifest.Cluster.Processors
		if divisor == 0 {
			divisor = replacement(&a, &b)
		}
		sides[i] = t.sample(divisor, zone)
		if len(sides[i]) == 0 {
			return nil
		}
		days := map[int64]bool{}
		for _, s := range sides[i] {
			days[s.day] = true
		}
		p.Jobs, p.Days = append(p.Jobs, len(sides[i])), append(p.Days, len(days))
		p.Processors = append(p.Processors, t.Manifest.Cluster.Processors)
		p.Divisor, p.Load = append(p.Divisor, divisor), append(p.Load, t.offeredLoad(divisor))
	}
	for _, q := range quantities {
		p.Quantities = append(p.Quantities, q.of(sides, opts))
	}
	for _, f := range factors {
		p.Factors = append(p.Factors, f.of(sides))
	}
	return p
}

// offeredLoad returns the offered load of a number of processors. Jobs that never started and rejected jobs count,
// because they are submissions. If the record does not have a job's submission, the processor time that the job used
// counts.
func (t *Side) offeredLoad(processors int) metrics.Float {
	begin, first, last, work := t.Manifest.WindowStart, hpc.Never, hpc.Time(0), 0.0
	asked := "" // the last job whose submission the record has; it is in the first row of an array
	for i := range t.Rows {
		row := &t.Rows[i]
		if row.Request != "" {
			asked = row.Job
		}
		at := cmp.Or(row.Submit, row.RecordedSubmit)
		if at == 0 || at < begin || row.Start != 0 && row.Start < begin {
			continue // it ran or waited when the window began
		}
		first, last = min(first, at), max(last, at)
		if asked != row.Job {
			work += used(row)
		} else if row.Request != "" {
			if job, err := run.DecodeJob([]byte(row.Request)); err == nil { // of a record that could be read
				work += workload.OfferedWork(job)
			}
		}
	}
	if load := workload.OfferedLoad(work, processors, cmp.Or(begin, first), last); load > 0 {
		return metrics.Float(load)
	}
	return metrics.NoValue()
}

// used returns the processor time of a job, in seconds.
func used(row *run.Row) (sum float64) {
	for _, h := range row.Held() {
		sum += max(0, h.End.Sub(h.Start).Seconds()) * float64(h.Processors)
	}
	return sum
}

// sample returns the jobs that have a wait, with the demand at their submission, divided by a number of
// processors.
func (t *Side) sample(processors int, zone *time.Location) (list []sampled) {
	type change struct {
		at  hpc.Time
		cpu int
		job *run.Row // the job that is submitted
	}
	var changes []change
	for _, row := range t.Jobs {
		changes = append(changes, change{row.Submit, row.Processors, row})
		if row.End != 0 {
			changes = append(changes, change{row.End, -row.Processors, nil})
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.cpu, b.cpu))
	})
	now := 0
	for _, c := range changes {
		if c.job != nil && t.counts(c.job) {
			if sums, ok := waits.Sum(c.job); ok {
				list = append(list, sampled{c.job, sums, dayOf(c.job, zone), float64(now) / float64(processors)})
			}
		}
		now += c.cpu
	}
	return list
}

// counts reports whether the wait of a job counts. It does not for a job that ran when the window began, because the
// workload decided this wait, and for a job that was submitted before [Side.Submitted].
func (t *Side) counts(row *run.Row) bool {
	started := row.Start != 0
	return !started || row.Start >= t.Manifest.WindowStart && row.Submit >= t.Submitted
}

// replacement returns the number that replaces an unknown size of a machine. It is the same for both sides, so that
// their loads can be compared: the largest of the known size and the processors that jobs of a side held at once.
func replacement(sides ...*Side) int {
	most := 1
	for _, t := range sides {
		most = max(most, t.Manifest.Cluster.Processors, metrics.MostProcessors(t.Rows))
	}
	return most
}

// dayOf returns the day of a job's submission in a time zone (UTC if it is nil), as the number of days since
// 1970-01-01.
func dayOf(r *run.Row, zone *time.Location) int64 {
	year, month, day := r.Submit.Std().In(cmp.Or(zone, time.UTC)).Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / int64((24 * time.Hour).Seconds())
}

// quantities are the quantities of each job. A value that a job does not have is NaN.
var quantities = []quantityKind{
	{"wait", "s", func(s *sampled) float64 { return s.wait.Wait.Seconds() }},
	{"wait since eligible", "s", func(s *sampled) float64 {
		if !s.wait.Eligible {
			return math.NaN()
		}
		return s.wait.SinceEligible.Seconds()
	}},
	{"run time", "s", func(s *sampled) float64 {
		if s.row.End == 0 {
			return math.NaN()
		}
		return s.row.End.Sub(s.row.Start).Seconds()
	}},
	{"processors", "", func(s *sampled) float64 { return float64(s.row.Processors) }},
	{"demand at submission", "", func(s *sampled) float64 { return s.load }},
}

type quantityKind struct {
	label, unit string
	value       func(*sampled) float64
}

func (q quantityKind) of(sides [2][]sampled, opts stats.TestOptions) Quantity {
	out := Quantity{Label: q.label, Unit: q.unit, P: metrics.NoValue(), CliffsDelta: metrics.NoValue()}
	var all [2][]float64
	var daily [2][]stats.Group
	for i, side := range sides {
		days := map[int64]stats.Group{}
		for k := range side {
			if v := q.value(&side[k]); !math.IsNaN(v) {
				all[i] = append(all[i], v)
				day := side[k].day
				days[day] = stats.Group{Sum: days[day].Sum + v, N: days[day].N + 1}
			}
		}
		for _, day := range slices.Sorted(maps.Keys(days)) {
			daily[i] = append(daily[i], days[day])
		}
		d := metrics.Summarize(slices.Clone(all[i]))
		out.Mean, out.Median = append(out.Mean, d.Mean), append(out.Median, d.Median)
		out.P90 = append(out.P90, d.P90)
	}
	if len(all[0]) > 0 && len(all[1]) > 0 {
		out.CliffsDelta = metrics.Float(stats.CliffsDelta(all[0], all[1]))
	}
	if min(len(daily[0]), len(daily[1])) >= fewDays {
		out.P = metrics.Float(stats.GroupedMeanTest(daily[0], daily[1], opts).P)
	}
	return out
}

// factors are the strata of each factor.
var factors = []factorKind{
	{"mix of jobs (partition, processors, time limit)", func(s *sampled) string {
		return fmt.Sprintf("%s %s %d", s.row.Partition, metrics.GroupName(s.row, metrics.BySize),
			doubling(s.row.TimeLimit.Hours()))
	}},
	{"users", func(s *sampled) string { return s.row.User }},
	{"demand at submission", func(s *sampled) string { return fmt.Sprint(doubling(4 * s.load)) }},
}

// doubling returns the class of a number in classes that double: 0 for numbers below 1, 1 below 2, 2
// below 4 and so on.
func doubling(v float64) int {
	if v < 1 {
		return 0
	}
	return 1 + int(math.Log2(v))
}

type factorKind struct {
	factor  string
	stratum func(*sampled) string
}

// of standardizes the waits of the second side to the strata of the first side.
func (f factorKind) of(sides [2][]sampled) Factor {
	type cell struct{ jobs, wait float64 }
	strata := map[string]*[2]cell{}
	for i, side := range sides {
		for k := range side {
			name := f.stratum(&side[k])
			if strata[name] == nil {
				strata[name] = &[2]cell{}
			}
			strata[name][i].jobs++
			strata[name][i].wait += side[k].wait.Wait.Seconds()
		}
	}
	out := Factor{Factor: f.factor}
	var jobs, wait [2]float64
	names := make([]string, 0, len(strata))
	for name, s := range strata {
		if s[0].jobs > 0 && s[1].jobs > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names) // so that sums do not depend on the order of a map
	standard := 0.0
	for _, name := range names {
		s := strata[name]
		for i := range s {
			jobs[i] += s[i].jobs
			wait[i] += s[i].wait
		}
		standard += s[0].jobs * s[1].wait / s[1].jobs
	}
	out.Covered = metrics.Float((jobs[0] + jobs[1]) / float64(len(sides[0])+len(sides[1])))
	if jobs[0] == 0 {
		out.Difference, out.Standardized, out.Explained = metrics.NoValue(), metrics.NoValue(), metrics.NoValue()
		return out
	}
	difference, left := wait[1]/jobs[1]-wait[0]/jobs[0], (standard-wait[0])/jobs[0]
	out.Difference, out.Standardized, out.Explained = metrics.Float(difference), metrics.Float(left), metrics.NoValue()
	if difference != 0 {
		out.Explained = metrics.Float(1 - left/difference)
	}
	return out
}

// Render writes the comparison for people. The parameters first and second are the letters of the
// sets.
func (p *Comparison) Render(b *bytes.Buffer, first, second string) {
	fmt.Fprintf(b, "\ntwo samples of jobs, because few or no jobs are on both sides (first runs)\n")
	for i, letter := range []string{first, second} {
		machine := quantity.Regular(p.Divisor[i], "processor")
		if other := p.Processors[1-i]; p.Processors[i] == 0 && p.Divisor[i] == other {
			machine += ", as on the other side (the size of its own machine is not known)"
		} else if p.Processors[i] == 0 {
			machine += ", the most in use at once on either side (the size of the machine is not known)"
		}
		fmt.Fprintf(b, "  %s: %s on %s, offered load %s of %s\n", letter,
			quantity.Regular(p.Jobs[i], "job"), quantity.Regular(p.Days[i], "day"), p.Load[i].Percent(), machine)
	}
	table := quantity.NewTable(26, 12, 12, 12, 12, 12, 12, 9, 9)
	table.Row("", "mean "+first, "mean "+second, "median "+first, "median "+second, "p90 "+first, "p90 "+second, "Cliff",
		"p")
	for _, q := range p.Quantities {
		name := q.Label
		if q.Unit != "" {
			name += " [" + q.Unit + "]"
		}
		table.Row("  "+name, q.Mean[0].Text(), q.Mean[1].Text(), q.Median[0].Text(), q.Median[1].Text(), q.P90[0].Text(),
			q.P90[1].Text(), q.CliffsDelta.Text(), q.P.Text())
	}
	b.WriteString("\n" + table.String() +
		"  p tests the difference of the means by permuting whole days; with fewer than three days there is no p\n" +
		"  demand: processors that running and waiting jobs ask for, divided by the machine's\n" +
		"  offered load: requested processors x run time (at most the time limit) of the jobs that were submitted\n" +
		"  in the period, divided by the machine's processors and the time until the last submission\n")
	table = quantity.NewTable(52, 9, 14, 14, 11)
	table.Row("  difference of the mean waits, "+second+" - "+first, "jobs", "as it was", "standardized", "explained")
	for _, f := range p.Factors {
		table.Row("  "+f.Factor, f.Covered.Percent(), f.Difference.Clock(), f.Standardized.Clock(), f.Explained.Percent())
	}
	b.WriteString("\n" + table.String())
	fmt.Fprintf(b, "  standardized: as if the jobs of %s had been distributed as those of %s;\n", second, first)
	b.WriteString("  each factor is examined separately, so that shares do not add up to 100 %\n" +
		"  jobs: those whose value (such as the user) is on both sides. Only they count in this line, so that\n" +
		"  \"as it was\" differs from the difference of all jobs. A share above 100 % means that the rest of the\n" +
		"  difference goes the other way\n")
}
