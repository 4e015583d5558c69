package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/forecast"
	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
)

// cycle is the default of bf_interval, the time between two cycles of Slurm's backfill scheduler. The phase of these
// cycles is known for a live queue. For a recorded run it is known only if the run recorded sdiag's output.
const cycle = 30 * time.Second

// Evaluation says how good the forecasts of one or several runs were, in total and by class.
type Evaluation struct {
	*forecast.Evaluation // the evaluation of the only run; nil for several runs
	// Runs has the runs, if there are several.
	Runs []*forecast.Evaluation `json:"runs,omitempty"`
	// Classes has rows for all forecasts, for each class of lead times, for each partition, and for each class of lead
	// times in each partition.
	Classes []Row `json:"classes"`

	rows  map[Class]*Row
	judge *Judge // of the last run
}

// Row says how good the forecasts of a class were.
type Row struct {
	// Partition and Lead name the class; empty for all. The lead time is the time to the start in the run.
	Partition string `json:"partition,omitempty"`
	Lead      string `json:"lead,omitempty"`
	// Instants counts the instants that have forecasts of the class.
	Instants int `json:"instants"`
	Tally
	// Early counts starts before P10, and Late counts starts after P90. Cycle counts starts that are
	// between P10 and P90, or at most 30 seconds (a cycle of Slurm's backfill scheduler) outside.
	Early int `json:"early"`
	Late  int `json:"late"`
	Cycle int `json:"covered_within_cycle"`
	// Recalibrated counts starts in the recalibrated intervals. [Judge.Recalibrate] learns only from starts before
	// the forecast.
	Recalibrated int `json:"recalibrated"`
	// MedianError is the median error in seconds. SlurmError is the median error of Slurm's own estimates, and
	// BesideError the median error of the forecasts for the same jobs. A median of no forecast, and an infinite median,
	// is NaN (null in JSON).
	MedianError metrics.Float `json:"median_error_s"`
	SlurmError  metrics.Float `json:"slurm_median_error_s"`
	BesideError metrics.Float `json:"beside_median_error_s"`
	// Width is the median distance from P10 to P90 in seconds, and RecalibratedWidth the median width of the
	// recalibrated intervals. Both leave out forecasts with one of the two P90 after the horizon.
	Width             metrics.Float `json:"median_width_s"`
	RecalibratedWidth metrics.Float `json:"recalibrated_median_width_s"`

	at                    hpc.Time // the instant of the last counted forecast
	errors, slurm, beside []float64
	widths, recalibrated  []float64
}

// everything is the value that means all partitions or all lead times in a [Class].
const everything = -1

// Run returns a function for the field See of [forecast.EvaluateOptions], which counts the forecasts of the next run.
// The run begins with the scales that were learned from the earlier runs, as a service begins a day with the scales
// of earlier days.
func (e *Evaluation) Run() func(at hpc.Time, list []forecast.Outcome) {
	learned := State{}
	if e.rows == nil {
		e.rows = map[Class]*Row{}
	} else {
		learned.Scales = e.judge.Scales()
	}
	j := New(learned, math.MaxInt64)
	e.judge = j
	starts := map[forecast.Key]hpc.Time{} // the starts of the jobs that waited
	return func(at hpc.Time, list []forecast.Outcome) {
		began := map[forecast.Key]hpc.Time{}
		for key, start := range starts {
			if start < at {
				began[key] = start
				delete(starts, key)
			}
		}
		pending := make([]Pending, len(list))
		for i := range list {
			o := &list[i]
			starts[o.Key] = o.Start
			pending[i] = Pending{o.Key, o.Partition, Forecast{At: at, P10: o.P10, P50: o.P50, P90: o.P90, Slurm: o.Slurm}}
			if o.Horizon != hpc.Never {
				pending[i].Horizon = o.Horizon
			}
		}
		j.See(at, began, pending)
		for i := range list {
			o, f := &list[i], &pending[i].Forecast
			lead := leadOf(o.Start.Sub(at))
			for _, class := range []Class{{"", everything}, {"", lead}, {o.Partition, everything}, {o.Partition, lead}} {
				e.row(class).count(f, o.Start)
			}
		}
	}
}

func (e *Evaluation) row(class Class) *Row {
	if e.rows[class] == nil {
		e.rows[class] = &Row{Partition: class.Partition}
		if class.Lead != everything {
			e.rows[class].Lead = Leads[class.Lead].Name
		}
	}
	return e.rows[class]
}

// count counts a forecast that [Judge.See] recalibrated.
func (r *Row) count(f *Forecast, start hpc.Time) {
	before := r.Forecasts
	if r.Tally.count(f, start); r.Forecasts == before {
		return // the start is beyond the horizon
	}
	if r.at != f.At {
		r.at, r.Instants = f.At, r.Instants+1
	}
	if f.Horizon != 0 && start > f.Horizon {
		start = forecast.Later
	}
	add := func(to *int, so bool) {
		if so {
			*to++
		}
	}
	add(&r.Early, start < f.P10)
	add(&r.Late, start > f.P90)
	add(&r.Recalibrated, f.C10 <= start && start <= f.C90)
	add(&r.Cycle, f.P10.Add(-cycle) <= start && (f.P90 >= forecast.Later || start <= f.P90.Add(cycle)))
	if max(f.P90, f.C90) < forecast.Later { // so both lists have the widths of the same forecasts
		r.widths = append(r.widths, f.P90.Sub(f.P10).Seconds())
		r.recalibrated = append(r.recalibrated, f.C90.Sub(f.C10).Seconds())
	}
	if start == forecast.Later || f.P50 == forecast.Later {
		return
	}
	miss := distance(f.P50, start)
	if r.errors = append(r.errors, miss); f.Slurm != 0 {
		r.slurm, r.beside = append(r.slurm, distance(f.Slurm, start)), append(r.beside, miss)
	}
}

// distance returns the time between two instants in seconds.
func distance(a, start hpc.Time) float64 {
	if a == hpc.Never {
		return math.Inf(1)
	}
	return a.Sub(start).Abs().Seconds()
}

// Add adds the result of a run whose forecasts have been counted.
func (e *Evaluation) Add(one *forecast.Evaluation) { e.Runs = append(e.Runs, one) }

// Finish completes the evaluation after the last run.
func (e *Evaluation) Finish() {
	if len(e.Runs) == 1 {
		e.Evaluation, e.Runs = e.Runs[0], nil
	}
	e.Classes = []Row{}
	for _, r := range e.rows {
		r.MedianError, r.SlurmError, r.BesideError = middle(r.errors), middle(r.slurm), middle(r.beside)
		r.Width, r.RecalibratedWidth = middle(r.widths), middle(r.recalibrated)
		e.Classes = append(e.Classes, *r)
	}
	place := func(r *Row) int { return slices.IndexFunc(Leads, func(l Lead) bool { return l.Name == r.Lead }) }
	slices.SortFunc(e.Classes, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(place(&a), place(&b)))
	})
}

// middle returns the median; NaN if the list is empty, or if the median is infinite.
func middle(list []float64) metrics.Float {
	if len(list) == 0 {
		return metrics.NoValue()
	}
	slices.Sort(list)
	if median := metrics.Float(list[len(list)/2]); median.Known() {
		return median
	}
	return metrics.NoValue()
}

// Render returns the evaluation as text.
func (e *Evaluation) Render() string {
	var b strings.Builder
	if e.Evaluation != nil {
		b.WriteString(e.Evaluation.Render() + "\n")
	}
	for _, one := range e.Runs {
		fmt.Fprintf(&b, "%s: %d instants, %d starts, P10-P90 %s, median error %s\n", one.Run, len(one.Instants),
			one.Jobs, quantity.Format("%.1f %%", 100*one.Covered), inSeconds(one.MedianError))
		for _, note := range one.Notes {
			fmt.Fprintf(&b, "note: %s\n", note)
		}
	}
	if len(e.Runs) > 0 {
		b.WriteString("\n")
	}
	table := quantity.NewTable(34, 9, 8, 9, 9, 9, 10, 10, 9, 9, 10, 8, 8, 8)
	table.Row("partition and lead time", "instants", "starts", "P10-P90", "30 s", "recal.", "width", "recal.", "before",
		"after", "error", "1 min", "5 min", "1 h")
	for i := range e.Classes {
		r := &e.Classes[i]
		share := func(n int) string { return percent(n, r.Forecasts) }
		table.Row(r.name(), r.Instants, r.Forecasts, share(r.Covered), share(r.Cycle), share(r.Recalibrated),
			inSeconds(r.Width), inSeconds(r.RecalibratedWidth), share(r.Early), share(r.Late), inSeconds(r.MedianError),
			share(r.Near[0]), share(r.Near[1]), share(r.Near[2]))
	}
	b.WriteString(table.String() + "30 s: at most 30 s, a backfill cycle, outside of P10-P90; width: median of P90 " +
		"minus P10; recal.: P10-P90 recalibrated with earlier starts; -: no forecast has the figure\n")
	e.beside(&b)
	return b.String()
}

func (r *Row) name() string {
	return cmp.Or(r.Partition, "all") + ", " + cmp.Or(r.Lead, "all")
}

func percent(n, of int) string { return quantity.Format("%.1f %%", 100*float64(n)/float64(of)) }

// beside adds the errors of Slurm's own estimates to the text.
func (e *Evaluation) beside(b *strings.Builder) {
	if len(e.Classes) == 0 || e.Classes[0].Slurm == 0 {
		return
	}
	table := quantity.NewTable(34, 8, 13, 10, 17, 17, 17)
	table.Row("beside squeue --start (here/Slurm)", "jobs", "error", "Slurm's", "1 min", "5 min", "1 h")
	for i := range e.Classes {
		r := &e.Classes[i]
		if r.Slurm == 0 {
			continue
		}
		both := func(k int) string {
			return percent(r.BesideNear[k], r.Slurm) + " / " + percent(r.SlurmNear[k], r.Slurm)
		}
		table.Row(r.name(), r.Slurm, inSeconds(r.BesideError), inSeconds(r.SlurmError), both(0), both(1), both(2))
	}
	b.WriteString("\n" + table.String())
}

func inSeconds(v metrics.Float) string { return quantity.Format("%.0f s", v) }
