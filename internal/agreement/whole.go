package agreement

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
)

// A job counts as a job that waited if its wait is longer than this.
const long = time.Minute

// The ways in which a job's start differs between two runs.
const (
	earlier    = "start earlier in the model"
	later      = "start later in the model"
	slurmOnly  = "start in Slurm alone"
	modelOnly  = "start in the model alone"
	otherNodes = "start on other nodes"
)

// Whole compares a run of the model with a replay of the same seed, job by job. It counts the jobs that start in a run,
// except preset jobs, because the workload gives their starts. A job agrees if it starts in the same second in both
// runs.
type Whole struct {
	Seed uint64 `json:"seed"`
	// Until is the instant up to which both runs are compared; empty if they are compared up to their
	// end.
	Until  string `json:"until,omitempty"`
	Starts Count  `json:"starts"`
	Nodes  Count  `json:"starts_and_nodes"`
	Waited Count  `json:"starts_of_jobs_that_waited_a_minute"`
	// Neither and Preset are the numbers of the jobs that are not counted: those that start in neither run, and preset
	// jobs that start as the workload gives.
	Neither int `json:"start_in_neither"`
	Preset  int `json:"preset"`
	// Kinds counts the jobs that differ, by the way in which they differ.
	Kinds map[string]int `json:"kinds,omitempty"`
	First *Divergence    `json:"first_divergence,omitempty"`
}

// Divergence is the first job that starts differently.
type Divergence struct {
	Job   string   `json:"job"`
	At    hpc.Time `json:"-"` // the earlier of the two starts
	Slurm string   `json:"slurm"`
	Model string   `json:"model"`
	// Cause is a text about the cause of this divergence, from the decisions in Slurm's state.
	Cause string `json:"cause"`
}

// history has the jobs of a run.
type history struct {
	rows   map[key]*run.Row
	keys   []key // in the order of the record
	window hpc.Time
}

func historyOf(r *run.Run) (*history, error) {
	list, err := r.Jobs()
	if err != nil {
		return nil, err
	}
	h := &history{rows: make(map[key]*run.Row, len(list)), window: r.Manifest.WindowStart}
	for i := range list {
		k := key{list[i].Job, list[i].Task}
		h.rows[k] = &list[i]
		h.keys = append(h.keys, k)
	}
	return h, nil
}

// start returns the second in which a job starts, or 0 if it has not started before the instant
// end.
func (h *history) start(k key, end hpc.Time) int64 {
	row := h.rows[k]
	if row == nil || row.Start == 0 || row.Start >= end {
		return 0
	}
	return row.Start.UnixSeconds()
}

// compareWhole compares the jobs that were submitted before an instant.
func compareWhole(seed uint64, slurm, model *history, end hpc.Time) Whole {
	w := Whole{Seed: seed, Kinds: map[string]int{}}
	if end != hpc.Never {
		w.Until = end.String()
	}
	keys := slices.Clone(slurm.keys)
	for _, k := range model.keys {
		if slurm.rows[k] == nil {
			keys = append(keys, k)
		}
	}
	for _, k := range keys {
		row := slurm.rows[k]
		if row == nil {
			row = model.rows[k]
		}
		if row.Submit >= end {
			continue
		}
		a, b := slurm.start(k, end), model.start(k, end)
		same := a == b && (a == 0 || slurm.rows[k].Nodes == model.rows[k].Nodes)
		switch {
		case a == 0 && b == 0:
			w.Neither++
			continue
		case same && row.Preset(slurm.window):
			w.Preset++
			continue
		}
		w.Starts.add(a == b)
		if slurm.waited(k, a, end) {
			w.Waited.add(a == b)
		}
		w.Nodes.add(same)
		if !same {
			w.differs(k, slurm, model, a, b)
		}
	}
	return w
}

// others writes what became of the jobs of a run that are not counted, as means over the runs.
func (w *Whole) others(runs int) string {
	of := map[string]float64{
		"start in neither run": float64(w.Neither) / float64(runs), "ran when the window began": float64(w.Preset) / float64(runs),
	}
	maps.DeleteFunc(of, func(_ string, n float64) bool { return n == 0 })
	return counts(of)
}

// waited reports whether a job waited longer than [long] before the instant end. It returns false for preset jobs.
func (h *history) waited(k key, start int64, end hpc.Time) bool {
	row := h.rows[k]
	switch {
	case row == nil || row.Submit == 0 || row.State == hpc.Rejected || row.Preset(h.window):
		return false
	case start != 0:
		return row.Start.Sub(row.Submit) > long
	}
	return row.End == 0 && end != hpc.Never && end.Sub(row.Submit) > long
}

// differs counts a job that starts differently, and stores the first such job.
func (w *Whole) differs(k key, slurm, model *history, a, b int64) {
	switch {
	case a == b:
		w.Kinds[otherNodes]++
	case a == 0:
		w.Kinds[modelOnly]++
	case b == 0:
		w.Kinds[slurmOnly]++
	case a < b:
		w.Kinds[later]++
	default:
		w.Kinds[earlier]++
	}
	first := hpc.Unix(min(cmp.Or(a, b), cmp.Or(b, a)))
	if w.First == nil || first < w.First.At {
		w.First = &Divergence{
			Job: k.String(), At: first, Slurm: describe(slurm.rows[k], a), Model: describe(model.rows[k], b),
		}
	}
}

func describe(row *run.Row, start int64) string {
	switch {
	case row != nil && start != 0:
		return fmt.Sprintf("starts it at %s on %s, with priority %d", hpc.Unix(start), row.Nodes, row.Priority)
	case row != nil && row.State == hpc.Rejected:
		return "rejects it: " + row.Reason
	}
	return "does not start it"
}

// explain sets the cause of the first divergence, from the decisions in Slurm's state.
func (w *Whole) explain(l *Lockstep) {
	if w.First == nil {
		return
	}
	decides := func(k Kind) bool { return k == TooEarly || k == TooLate || k == Nodes || k == End }
	var before *Difference // the first difference in an input of decisions: a priority, a plan or a reason
	for i := range l.all {
		d := &l.all[i]
		switch {
		case d.At > w.First.At.Add(time.Second):
		case decides(d.Kind):
			w.First.Cause = "the first decision that differs in Slurm's state: " + d.String()
			return
		case before == nil:
			before = d
		}
	}
	if before != nil {
		w.First.Cause = "no decision differs in Slurm's state up to this start, but an input differs: " + before.String()
		return
	}
	w.First.Cause = "not known: no decision differs in Slurm's state up to this start, so the cause is a state of slurmctld " +
		"that is " + unseen
}

// join adds the comparison for another seed.
func (w *Whole) join(o *Whole) {
	w.Starts.join(o.Starts)
	w.Nodes.join(o.Nodes)
	w.Waited.join(o.Waited)
	w.Neither, w.Preset = w.Neither+o.Neither, w.Preset+o.Preset
	if w.Kinds == nil {
		w.Kinds = map[string]int{}
	}
	for kind, n := range o.Kinds {
		w.Kinds[kind] += n
	}
	if w.First == nil {
		w.First = o.First
	}
}

// Figure is a figure of the waits over all seeds. The unit is the second, except for the first
// figure, which is a number of jobs.
type Figure struct {
	Name  string          `json:"name"`
	Slurm []metrics.Float `json:"slurm"` // one value for each seed
	Model []metrics.Float `json:"model"`
}

// meanWait is the name of the figure that the verdict uses.
const meanWait = "mean wait"

// figuresOf returns the figures of runs up to an instant.
func figuresOf(slurm, model []*history, end hpc.Time) []Figure {
	list := []Figure{{Name: "jobs started"}, {Name: meanWait}, {Name: "median wait"}, {Name: "90 % wait"}}
	for i := range slurm {
		for k, of := range [][]metrics.Float{slurm[i].figures(end), model[i].figures(end)} {
			for f, v := range of {
				if k == 0 {
					list[f].Slurm = append(list[f].Slurm, v)
				} else {
					list[f].Model = append(list[f].Model, v)
				}
			}
		}
	}
	return list
}

// figures returns the values of a run for [figuresOf]. As in [metrics.Metrics], waits of preset jobs do not count.
func (h *history) figures(end hpc.Time) []metrics.Float {
	var all []float64
	for _, k := range h.keys {
		if row := h.rows[k]; h.start(k, end) != 0 && !row.Preset(h.window) {
			if d, ok := waits.Wait(row); ok {
				all = append(all, d.Seconds())
			}
		}
	}
	d := metrics.Summarize(all)
	return []metrics.Float{metrics.Float(len(all)), d.Mean, d.Median, d.P90}
}

// mean returns the mean, the lowest and the highest of the values over the seeds.
func mean(values []metrics.Float) (mean, low, high float64) {
	low, high = float64(values[0]), float64(values[0])
	for _, v := range values {
		mean += float64(v) / float64(len(values))
		low, high = min(low, float64(v)), max(high, float64(v))
	}
	return mean, low, high
}

// renderWhole writes the comparison of whole runs, and the figures of their waits.
func (r *Report) renderWhole(b *strings.Builder) {
	w := &r.Whole
	together := ""
	if len(r.Runs) > 1 {
		together = ", jobs of all runs together"
	}
	fmt.Fprintf(b, "\nwhole runs with the same seed and phase (%s)%s\n", r.seeds(), together)
	fmt.Fprintf(b, "  same second      %s\n  of those waiting %s\n  and nodes        %s\n", w.Starts, w.Waited, w.Nodes)
	if text := counts(w.Kinds); text != "" {
		fmt.Fprintf(b, "  %-16s %s\n", "differ", text)
	}
	if f := w.First; f != nil {
		fmt.Fprintf(b, "  first            %s: Slurm %s; the model %s\n", f.Job, f.Slurm, f.Model)
		fmt.Fprintf(b, "  cause            %s\n", f.Cause)
	}
	fmt.Fprintf(b, "\nwaits of the jobs that started, without preset jobs: means over the seeds (lowest to highest)\n")
	for i, f := range r.Figures {
		name := f.Name
		if i > 0 {
			name += " [s]"
		}
		m, low, high := mean(f.Slurm)
		n, lowest, highest := mean(f.Model)
		off := ""
		if m != 0 {
			off = fmt.Sprintf(", %+.2f %%", 100*(n-m)/m)
		}
		fmt.Fprintf(b, "  %-16s Slurm %.1f (%.1f to %.1f), model %.1f (%.1f to %.1f)%s\n", name, m, low, high, n, lowest,
			highest, off)
	}
}

// number writes a number of jobs, or a mean of such numbers with at most two decimals.
func number[N int | float64](n N) string {
	return strconv.FormatFloat(math.Round(100*float64(n))/100, 'f', -1, 64)
}

// counts writes the numbers with their names, the largest number first.
func counts[K ~string, N int | float64](of map[K]N) string {
	var names []K
	for k := range of {
		names = append(names, k)
	}
	slices.SortFunc(names, func(a, b K) int { return cmp.Or(cmp.Compare(of[b], of[a]), cmp.Compare(a, b)) })
	parts := make([]string, len(names))
	for i, k := range names {
		parts[i] = fmt.Sprintf("%s %s", number(of[k]), k)
	}
	return strings.Join(parts, ", ")
}
