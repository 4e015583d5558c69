// Package benefit tests whether predicted run times improve the schedule of a workload. It simulates
// the workload under EASY, and under EASY that backfills the shortest jobs first. Both policies plan
// with time limits, with predictions, and with the real run times (clairvoyance). Each simulation is
// repeated with moved submissions, and the bounded slowdowns are compared.
//
// # What is compared with what
//
// Backfilling the shortest jobs first improves the slowdown much even with time limits, so a predictor is compared with
// the same policy under time limits. Clairvoyance shows about the largest improvement that a predictor can reach under
// the same policy.
//
// # Two questions
//
// Realizations with the same seed have the same submissions under all policies, so they are pairs. The pairs answer a
// question about this log: would the difference remain if the jobs had been submitted a minute earlier or later? The
// pairs do not show whether the difference would be there in other months. A second test, over the weeks of the log,
// answers the question about other months roughly. The observations of the second test are the mean bounded slowdowns
// of the jobs that were submitted in a week, over all realizations. The second test compares logarithms of ratios, so
// that a single bad week does not determine the result. Consecutive weeks are not quite independent, so the p-value of
// the second test is somewhat too small.
package benefit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"rmreplay/internal/experiment"
	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/predict/model"
	"rmreplay/internal/predict/online"
	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/transform"
)

// Options configures a comparison.
type Options struct {
	// Spec is the simulation: the workload as a value, the machine, the jitter and the first seed. Its output is a
	// directory for the sets of realizations, one for each scheduler. The simulation's policy is ignored.
	Spec experiment.Spec
	Set  experiment.Set
	// Model is the file of a trained model, for the scheduler named model. If Model is "", a boosted
	// model learns during the simulation from the jobs that end.
	Model string
	// For the scheduler short-limits, time limits are lowered to this quantile of the predicted run
	// time.
	Quantile float64
	// Keep prevents the removal of the runs' records.
	Keep bool
	// Progress, if not nil, is called with a scheduler before its realizations begin.
	Progress func(scheduler string)
}

// Comparison is the result.
type Comparison struct {
	Source       string  `json:"source"`
	Jobs         int     `json:"jobs"`
	Realizations int     `json:"realizations"`
	Weeks        int     `json:"weeks"`
	JitterS      float64 `json:"jitter_s"`
	Seed         uint64  `json:"seed"`
	// Quantile: the scheduler "short-limits" lowers time limits to this quantile of the predicted run time.
	Quantile   float64     `json:"quantile"`
	Schedulers []Scheduler `json:"schedulers"`
	Contrasts  []Contrast  `json:"contrasts"`
	Verdict    Verdict     `json:"verdict"`
	Notes      []string    `json:"notes"`
}

// Scheduler is the result of one scheduler, as means over the realizations.
type Scheduler struct {
	Name   string `json:"name"`
	Policy string `json:"policy"`
	Doc    string `json:"what"`
	// Slowdown is the mean bounded slowdown with τ = 10 s, and Slowdowns has the value of each
	// realization.
	Slowdown  float64   `json:"mean_bounded_slowdown"`
	Slowdowns []float64 `json:"mean_bounded_slowdowns"`
	Wait      float64   `json:"mean_wait_s"`
	P99Wait   float64   `json:"p99_wait_s"`
	MaxWait   float64   `json:"max_wait_s"`
	// TimedOut is the number of jobs that were ended by their limit, and LostCoreHours the core-hours that these jobs had
	// used.
	TimedOut      float64 `json:"timed_out_jobs"`
	LostCoreHours float64 `json:"lost_core_hours"`

	weeks map[int]*mean
}

// mean has the sum and the number of values.
type mean struct{ sum, count float64 }

// The names of schedulers that the verdict compares.
const (
	limits = "limits"
	sjbf   = "limits-sjbf"
	bound  = "bound"
	short  = "short-limits"
)

// cast returns the schedulers that a comparison simulates.
func cast(o *Options) []Scheduler {
	doc := "the same, planned with gradient boosting that learns as jobs end"
	if o.Model != "" {
		doc = "the same, planned with the trained model"
	}
	return []Scheduler{
		{Name: limits, Policy: "easy-textbook", Doc: "EASY with time limits"},
		{Name: sjbf, Policy: "easy-sjbf", Doc: "EASY that backfills the shortest jobs first, planned with time limits"},
		{Name: "last-two", Policy: "easy++",
			Doc: "the same, planned with the mean of the user's last two run times (EASY++)"},
		{Name: "learner", Policy: "easy-sjbf:predict=nag", Doc: "the same, planned with the regression of Gaussier et al."},
		{Name: "model", Policy: "easy-sjbf:predict=" + learned(o), Doc: doc},
		{Name: bound, Policy: "easy-sjbf:predict=clairvoyant", Doc: "the same, planned with the real run times: the bound"},
		{Name: short, Policy: "easy-sjbf", Doc: fmt.Sprintf("as %s, with time limits lowered to the predicted quantile %g: "+
			"jobs are killed", sjbf, o.Quantile)},
	}
}

// learned returns the value of the policy's option predict for the scheduler named model.
func learned(o *Options) string {
	if o.Model != "" {
		return "model:" + o.Model
	}
	return string(model.Boost)
}

// Run makes the comparison. It fails as [experiment.RunSet] does. The error is an
// [*experiment.InputError] if the model cannot be read, or if the workload has no users, no time
// limits or no starting jobs.
func Run(ctx context.Context, o Options) (*Comparison, error) {
	w := o.Spec.Workload.Value
	if err := check(w, &o); err != nil {
		return nil, &experiment.InputError{Err: err}
	}
	lowered, result, err := lower(ctx, w, &o)
	if err != nil {
		return nil, &experiment.InputError{Err: err}
	}
	c := &Comparison{
		Source: filepath.Base(o.Spec.Workload.Path), Jobs: w.Jobs.Len(), Realizations: o.Set.Count,
		JitterS: o.Spec.Users.Jitter.Seconds(), Seed: o.Spec.Seed, Quantile: o.Quantile,
		Schedulers: cast(&o),
	}
	for _, note := range result.Notes {
		c.Notes = append(c.Notes, short+": "+note)
	}
	for i := range c.Schedulers {
		s := &c.Schedulers[i]
		if o.Progress != nil {
			o.Progress(s.Name)
		}
		spec := o.Spec
		if s.Name == short {
			spec.Workload.Value = lowered
		}
		doubt, err := s.simulate(ctx, spec, &o)
		if err != nil {
			return nil, fmt.Errorf("simulating %s: %w", s.Name, err)
		}
		if doubt != "" {
			c.Notes = append(c.Notes, fmt.Sprintf("%s: a run is not valid: %s", s.Name, doubt))
		}
	}
	c.judge()
	return c, nil
}

// check returns an error for options and workloads with which no comparison is possible.
func check(w *workload.Workload, o *Options) error {
	users, limited := map[string]bool{}, 0
	for _, job := range w.Jobs.All() {
		users[job.User] = true
		if predict.Limit(&job.Request) > 0 {
			limited++
		}
	}
	switch {
	case o.Set.Count < 2:
		return fmt.Errorf("comparing: %d %s no spread (want 2 or more realizations)", o.Set.Count,
			quantity.Plural(o.Set.Count, "realization has", "realizations have"))
	case w.Jobs.Len() == 0:
		return errors.New("comparing: the workload has no jobs")
	case limited == 0:
		return errors.New("comparing: no job has a time limit, so the scheduler can plan only with predictions " +
			"(want a workload with limits)")
	case len(users) == 1:
		return errors.New("comparing: all jobs have the same user or no user, so histories of users cannot be used " +
			"(want a workload with users)")
	}
	return nil
}

// lower returns the workload with lowered time limits.
func lower(ctx context.Context, w *workload.Workload, o *Options) (*workload.Workload, transform.Result, error) {
	var trained *model.Model
	if o.Model != "" {
		var err error
		if trained, err = experiment.ReadModel(o.Model); err == nil {
			err = trained.Before(w)
		}
		if err != nil {
			return nil, transform.Result{}, err
		}
	}
	planned := online.Default()
	_, err := planned.Set("predict", learned(o))
	if err != nil {
		return nil, transform.Result{}, err
	}
	predictor, _ := planned.New(trained)
	step := transform.PredictedLimits(fmt.Sprintf("predicted limits, quantile %g", o.Quantile),
		func(w *workload.Workload) ([]float64, error) {
			return predict.Quantiles(ctx, w, predictor, o.Quantile)
		})
	lowered, results, err := transform.Apply(w, transform.Environment{Seed: o.Spec.Seed}, step)
	if err != nil {
		return nil, transform.Result{}, err
	}
	return lowered, results[0], nil
}

// simulate makes the realizations of a scheduler. The result doubt says why a realization is not
// valid.
func (s *Scheduler) simulate(ctx context.Context, spec experiment.Spec, o *Options) (doubt string, err error) {
	simulator := *spec.Simulator
	simulator.Policy = s.Policy
	spec.Simulator, spec.Output = &simulator, filepath.Join(spec.Output, s.Name)
	list, err := experiment.RunSet(ctx, spec, o.Set, experiment.SetHooks{})
	if err != nil {
		return "", err
	}
	s.weeks = map[int]*mean{}
	n := float64(len(list))
	for _, r := range list {
		m := r.Summary
		if !m.Valid {
			doubt = m.Doubt
		}
		slowdown := float64(m.BoundedSlowdown.Mean)
		s.Slowdowns = append(s.Slowdowns, slowdown)
		s.Slowdown += slowdown / n
		s.Wait += float64(m.Wait.Mean) / n
		s.P99Wait += float64(m.Wait.P99) / n
		s.MaxWait += float64(m.Wait.Max) / n
		timedOut, hours, err := s.read(r.Dir, spec.Workload.Value)
		if err != nil {
			return "", err
		}
		s.TimedOut += timedOut / n
		s.LostCoreHours += hours / n
	}
	if math.IsNaN(s.Slowdown) {
		return "", &experiment.InputError{Err: errors.New("no job started and ended, so there is no slowdown")}
	}
	if !o.Keep {
		err = os.RemoveAll(spec.Output)
	}
	return doubt, err
}

// read adds the jobs of a record to the weeks. It returns the number of jobs that were ended by their limits, and the
// core-hours that these jobs had used.
func (s *Scheduler) read(dir string, w *workload.Workload) (timedOut, hours float64, err error) {
	record, err := run.Open(dir)
	if err != nil {
		return 0, 0, err
	}
	rows, err := record.Jobs()
	if err != nil {
		return 0, 0, err
	}
	const week = 7 * 24 * 3600 * hpc.Second
	const tau = 10 // seconds
	for i := range rows {
		r := &rows[i]
		if r.State == hpc.TimedOut {
			timedOut++
			hours += float64(r.Processors) * r.End.Sub(r.Start).Hours()
		}
		if r.Start == 0 || r.End < r.Start || r.Start < r.Submit {
			continue
		}
		at := int((r.RecordedSubmit - w.Epoch) / week)
		if s.weeks[at] == nil {
			s.weeks[at] = new(mean)
		}
		s.weeks[at].sum += max(1, r.End.Sub(r.Submit).Seconds()/max(r.End.Sub(r.Start).Seconds(), tau))
		s.weeks[at].count++
	}
	return timedOut, hours, nil
}
