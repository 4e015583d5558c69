package report

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"rmreplay/internal/compare"
	"rmreplay/internal/figure"
	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
)

// bins is the number of points of a line.
const bins = 400

// origin returns the instant from which a run's times count: its first submission, or the start of its window.
func origin(r *compare.Realization) hpc.Time {
	if r.Manifest.WindowStart != 0 {
		return r.Manifest.WindowStart
	}
	var first hpc.Time
	for i := range r.Rows {
		if s := r.Rows[i].Submit; first == 0 || s != 0 && s < first {
			first = s
		}
	}
	return first
}

// ending returns the last instant at which a job of the run was submitted, started or
// ended.
func ending(r *compare.Realization) hpc.Time {
	last := r.Manifest.VirtualEnd
	jobs := hpc.Time(0)
	for i := range r.Rows {
		row := &r.Rows[i]
		jobs = max(jobs, row.Submit, row.Start, row.End)
		if row.Start != 0 && row.End == 0 {
			jobs = max(jobs, last)
		}
	}
	return jobs
}

// setName returns the name of a set in figures and tables, after the set's letter.
func setName(i int, s compare.Set) string { return compare.Letter(i) + " " + quantity.Name(s.Name) }

// distributions returns, for each set, the share of jobs whose value is at most x. The
// points x have equal ratios, from minValue to the largest value.
func distributions(sets []compare.Set, minValue float64, value func(*run.Row) float64) []figure.Series {
	largest := minValue
	values := make([][][]float64, len(sets))
	for k, s := range sets {
		for i := range s.Runs {
			var list []float64
			for n := range s.Runs[i].Rows {
				row := &s.Runs[i].Rows[n]
				if row.Start < s.Runs[i].Manifest.WindowStart {
					continue // the scheduler did not decide the wait of a preset job
				}
				if v := value(row); !math.IsNaN(v) {
					list = append(list, v)
				}
			}
			slices.Sort(list)
			if len(list) > 0 {
				largest = max(largest, list[len(list)-1])
				values[k] = append(values[k], list)
			}
		}
	}
	if largest <= minValue {
		largest = minValue * 10
	}
	x := make([]float64, bins)
	for i := range x {
		x[i] = minValue * math.Pow(largest/minValue, float64(i)/(bins-1))
	}
	x[bins-1] = largest
	var out []figure.Series
	for k, s := range sets {
		var lines [][]float64
		for _, list := range values[k] {
			lines = append(lines, cumulative(list, x))
		}
		if len(lines) > 0 {
			out = append(out, figure.NewSeries(setName(k, s), x, lines))
		}
	}
	return out
}

// cumulative returns, for each point, the share of sorted values that are at most the
// point.
func cumulative(sorted, x []float64) []float64 {
	line := make([]float64, len(x))
	for i, v := range x {
		n := sort.Search(len(sorted), func(n int) bool { return sorted[n] > v })
		line[i] = float64(n) / float64(len(sorted))
	}
	return line
}

// slowdownOf returns a function that computes a job's bounded slowdown for a τ in seconds.
func slowdownOf(tau float64) func(*run.Row) float64 {
	return func(r *run.Row) float64 {
		if math.IsNaN(waits.Seconds(r)) || r.End < r.Start {
			return math.NaN()
		}
		return max(1, r.End.Sub(r.Submit).Seconds()/max(r.End.Sub(r.Start).Seconds(), tau))
	}
}

// spreadOver divides the jobs into bins by their submissions in the baseline, and returns the median and the range of
// the differences in each bin that has jobs. The parameter first is the baseline's first submission.
func spreadOver(differences []compare.JobDifference, first hpc.Time,
	of func(*compare.JobDifference) metrics.Float) figure.Series {
	span := 0.0
	for i := range differences {
		span = max(span, float64(differences[i].SubmitAt))
	}
	const parts = 200
	values := make([][]float64, parts)
	for i := range differences {
		d := of(&differences[i])
		if !d.Known() {
			continue
		}
		b := 0
		if span > 0 {
			b = max(0, min(parts-1, int(float64(differences[i].SubmitAt)/span*parts)))
		}
		values[b] = append(values[b], float64(d))
	}
	s := figure.Series{Band: true}
	for b, list := range values {
		if len(list) == 0 {
			continue
		}
		slices.Sort(list)
		s.X = append(s.X, first.Seconds()+span*(float64(b)+0.5)/parts)
		s.Mean = append(s.Mean, metrics.Quantile(list, 0.5))
		s.Low, s.High = append(s.Low, list[0]), append(s.High, list[len(list)-1])
	}
	return s
}

// firstSubmission returns the first submission of an accepted job.
func firstSubmission(r *compare.Realization) hpc.Time {
	var first hpc.Time
	for i := range r.Rows {
		if row := &r.Rows[i]; row.State != hpc.Rejected && (first == 0 || row.Submit < first) {
			first = row.Submit
		}
	}
	return first
}

// sortBy sorts a list by ascending values. Elements with equal values stay in their order.
func sortBy[T any](list []T, value func(T) float64) {
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(value(a), value(b)) })
}
