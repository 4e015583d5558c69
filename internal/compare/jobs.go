package compare

import (
	"cmp"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"rmreplay/internal/compare/jobrows"
	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
)

// largestJobs is the number of jobs with the largest differences that a view always lists.
const largestJobs = 20

// JobView is the comparison job by job: submission, first start, wait and time of the last run, each as set −
// baseline in seconds (SC'18, figure 6, has submission, start and duration). If a side has
// several runs, a job's value is its mean over the runs, so that the mean wait of the jobs is the mean wait
// of the runs.
type JobView struct {
	Matched int `json:"matched"` // jobs on both sides
	// MatchedBy says by which values jobs are matched; empty if they are matched by their IDs. In the results, the
	// set's jobs have the IDs of the baseline.
	MatchedBy jobrows.Match `json:"matched_by,omitempty"`
	// EqualIDs counts the IDs that are on both sides and name different jobs; these jobs are not matched. Differ has the
	// properties in which they differ: "users", "sizes".
	EqualIDs int      `json:"equal_ids_of_different_jobs,omitempty"`
	Differ   []string `json:"different_in,omitempty"`
	Only     []int    `json:"only_in_one"`   // jobs that only the baseline has, and jobs that only the set has
	NoStart  []int    `json:"never_started"` // jobs that did not start in the baseline, and in the set
	// NotReached counts jobs that one side has or started, and that the other side had not submitted or started when
	// it ended early. These jobs do not count in Only and NoStart. NotReached also counts jobs that lost a run and
	// started again on one side only after the other side had ended early. Their waits are not compared.
	NotReached int `json:"not_reached,omitempty"`
	// Shift was added to the set's instants to convert them to the baseline's dates; 0 if both have
	// the same dates.
	Shift metrics.Float `json:"shift_s"`
	// Tolerance is the largest difference at which a time does not count as changed.
	Tolerance metrics.Float `json:"tolerance_s"`

	Submit  Spread `json:"submit_s"`
	Start   Spread `json:"start_s"`
	Wait    Spread `json:"wait_s"`
	RunTime Spread `json:"run_time_s"`

	// Largest are the jobs whose waits differ most. All has all matched jobs in the order of their
	// submission; it is empty unless [Options.EveryJob] is set.
	Largest []JobDifference `json:"largest"`
	All     []JobDifference `json:"all,omitempty"`

	differences []JobDifference
	fewer       [2]int // jobs that started in some runs of both sides, but in a smaller share of the runs of this side
	twice       int    // jobs that are not matched because of [jobrows.Twice]
	own         [2]int // jobs of Only that have no row on the other side, not even as rejected jobs
	startsIn    [2]int // other jobs that start on this side only: the other side rejects or never starts them
}

// Differences returns the differences of all matched jobs, in the order of their submission. A value
// is NaN if one side does not have the instants that it needs, for example because the job never
// started.
func (v *JobView) Differences() []JobDifference { return v.differences }

// Spread describes the distribution of a difference over jobs.
type Spread struct {
	Changed int           `json:"changed_jobs"` // jobs with a difference above the tolerance
	Mean    metrics.Float `json:"mean"`
	MeanAbs metrics.Float `json:"mean_absolute"`
	Min     metrics.Float `json:"min"`
	P5      metrics.Float `json:"p5"`
	Median  metrics.Float `json:"median"`
	P95     metrics.Float `json:"p95"`
	Max     metrics.Float `json:"max"`
}

// JobDifference is the difference of one job. A value is null if an instant that it needs does not
// exist.
type JobDifference struct {
	Key
	SubmitAt metrics.Float `json:"submit_at_s"` // from the baseline's first submission, in the baseline
	Submit   metrics.Float `json:"submit_s"`
	Start    metrics.Float `json:"start_s"`
	Wait     metrics.Float `json:"wait_s"`
	RunTime  metrics.Float `json:"run_time_s"`
	// BaselineWait and SetWait are the two waits.
	BaselineWait metrics.Float `json:"baseline_wait_s"`
	SetWait      metrics.Float `json:"set_wait_s"`
}

// compareJobs compares two sets job by job.
func compareJobs(a, b []table, opts Options) JobView {
	v := JobView{Only: []int{0, 0}, NoStart: []int{0, 0}, Shift: seconds(b[0].shift), Largest: []JobDifference{},
		Tolerance: seconds(opts.Tolerance)}
	first := math.Inf(1)
	for _, key := range a[0].keys {
		first = min(first, a[0].byKey[key].Submit.Seconds())
	}
	var values columns
	until := horizon(a, b).Seconds()
	for i, key := range a[0].keys {
		if b[0].byKey[key] == nil {
			v.only(0, &a[0], &b[0], key)
			continue
		}
		v.Matched++
		x, y := values.means(a, a[0].numbers[i]), values.means(b, a[0].numbers[i])
		d := JobDifference{
			Key: key, SubmitAt: metrics.Float(x.submit - first),
			Submit: metrics.Float(y.submit - x.submit), Start: metrics.Float(y.start - x.start),
			Wait: metrics.Float(y.wait - x.wait), RunTime: metrics.Float(y.runTime - x.runTime),
			BaselineWait: metrics.Float(x.wait), SetWait: metrics.Float(y.wait),
		}
		if a[0].preset(a[0].byKey[key].Start) || b[0].preset(b[0].byKey[key].Start) {
			d.Submit = metrics.NoValue() // a run submits a preset job just before its start
		}
		if d.Wait.Known() && max(x.last, y.last) > until {
			d.Wait = metrics.NoValue()
			v.NotReached++
		}
		v.differences = append(v.differences, d)
		switch {
		case x.starts*float64(len(b)) == y.starts*float64(len(a)):
		case x.starts == 0:
			v.count(&v.NoStart[0], &a[0], key)
			v.startsIn[1]++
		case y.starts == 0:
			v.count(&v.NoStart[1], &b[0], key)
			v.startsIn[0]++
		case x.starts*float64(len(b)) < y.starts*float64(len(a)):
			v.fewer[0]++
		default:
			v.fewer[1]++
		}
	}
	for _, key := range b[0].keys {
		if a[0].byKey[key] == nil {
			v.only(1, &b[0], &a[0], key)
		}
	}
	v.sumUp(opts)
	return v
}

// The method only counts a job that ran or waited on one side, whose table is here, but not on the other.
func (v *JobView) only(side int, here, other *table, key Key) {
	v.count(&v.Only[side], other, key)
	switch {
	case other.row(key) == nil:
		v.own[side]++
	case here.byKey[key].FirstStart() != 0:
		v.startsIn[side]++
	}
}

// count counts a job that a run lacks or did not start, unless the run ended before it reached the job.
func (v *JobView) count(n *int, t *table, key Key) {
	if t.unreached(key) {
		n = &v.NotReached
	}
	*n++
}

// horizon returns the earliest end of a run that ended early, on the baseline's dates; [hpc.Never] if all
// runs are complete.
func horizon(sets ...[]table) hpc.Time {
	first := hpc.Never
	for _, runs := range sets {
		for i := range runs {
			if m := runs[i].Manifest; ended(m.State) && m.VirtualEnd != 0 {
				first = min(first, runs[i].at(m.VirtualEnd))
			}
		}
	}
	return first
}

// bothStarted returns the mean waits of the jobs that started on both sides, and their number.
func (v *JobView) bothStarted() (was, is metrics.Float, n int) {
	for i := range v.differences {
		if d := &v.differences[i]; d.Wait.Known() {
			was, is, n = was+d.BaselineWait, is+d.SetWait, n+1
		}
	}
	return was / metrics.Float(n), is / metrics.Float(n), n
}

// sumUp computes the spreads and the lists from the differences.
func (v *JobView) sumUp(opts Options) {
	spread := func(of func(*JobDifference) metrics.Float) Spread {
		var values []float64
		for i := range v.differences {
			if d := of(&v.differences[i]); d.Known() {
				values = append(values, float64(d))
			}
		}
		return newSpread(values, opts.Tolerance)
	}
	v.Submit = spread(func(d *JobDifference) metrics.Float { return d.Submit })
	v.Start = spread(func(d *JobDifference) metrics.Float { return d.Start })
	v.Wait = spread(func(d *JobDifference) metrics.Float { return d.Wait })
	v.RunTime = spread(func(d *JobDifference) metrics.Float { return d.RunTime })
	largest := slices.DeleteFunc(slices.Clone(v.differences), func(d JobDifference) bool {
		return !d.Wait.Known() || math.Abs(float64(d.Wait)) <= opts.Tolerance.Seconds()
	})
	slices.SortStableFunc(largest, func(x, y JobDifference) int {
		return cmp.Compare(math.Abs(float64(y.Wait)), math.Abs(float64(x.Wait)))
	})
	v.Largest = append(v.Largest, largest[:min(len(largest), largestJobs)]...)
	if opts.EveryJob {
		v.All = v.differences
	}
}

func newSpread(values []float64, tolerance time.Duration) Spread {
	nothing := metrics.NoValue()
	s := Spread{Mean: nothing, MeanAbs: nothing, Min: nothing, P5: nothing, Median: nothing, P95: nothing, Max: nothing}
	if len(values) == 0 {
		return s
	}
	slices.Sort(values)
	absolute := 0.0
	for _, d := range values {
		absolute += math.Abs(d)
		if math.Abs(d) > tolerance.Seconds() {
			s.Changed++
		}
	}
	s.Mean = metrics.Float(stat.Mean(values, nil))
	s.MeanAbs = metrics.Float(absolute / float64(len(values)))
	s.Min, s.Max = metrics.Float(values[0]), metrics.Float(values[len(values)-1])
	for p, to := range map[float64]*metrics.Float{0.05: &s.P5, 0.5: &s.Median, 0.95: &s.P95} {
		*to = metrics.Float(metrics.Quantile(values, p))
	}
	return s
}

// times are the times of a job in seconds. Instants count from 1970, on the baseline's dates. A time is NaN if it
// does not exist, for example because the job never started. The field last is the latest start of the job's last
// run. The field starts counts the runs in which the job started.
type times struct{ submit, start, wait, runTime, last, starts float64 }

// columns have the values of one job in all runs. The memory is used again for the next job.
type columns struct{ submit, start, wait, runTime []float64 }

// means returns the mean of each time of a job over the runs that have it.
func (c *columns) means(runs []table, number int) times {
	c.submit, c.start, c.wait, c.runTime = c.submit[:0], c.start[:0], c.wait[:0], c.runTime[:0]
	last := math.Inf(-1)
	for i := range runs {
		t := &runs[i]
		m := &t.moments[number]
		if !m.here {
			continue
		}
		c.submit = append(c.submit, t.at(m.submit).Seconds())
		if m.first != 0 {
			c.start = append(c.start, t.at(m.first).Seconds())
		}
		if m.start == 0 {
			continue
		}
		last = max(last, t.at(m.start).Seconds())
		if m.waitKnown && !t.preset(m.start) {
			c.wait = append(c.wait, m.wait.Seconds())
		}
		if m.end != 0 {
			c.runTime = append(c.runTime, m.end.Sub(m.start).Seconds())
		}
	}
	return times{mean(c.submit), mean(c.start), mean(c.wait), mean(c.runTime), last, float64(len(c.start))}
}

// mean returns the mean of values. The result does not depend on the order of the values.
func mean(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	least, above := values[0], 0.0 // instants lose digits when they are added
	for _, v := range values {
		above += v - least
	}
	return least + above/float64(len(values))
}
