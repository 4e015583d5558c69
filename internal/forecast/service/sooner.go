package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"rmreplay/internal/forecast"
	"rmreplay/internal/forecast/sooner"
	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
)

// Sooner lists changes with which a waiting job would start sooner. Each change was tried on the model of Slurm, with
// the same draws as the forecast.
type Sooner struct {
	Forecast Head   `json:"forecast"`
	Job      string `json:"job"`
	// P50 and P90 are quantiles of the start of the unchanged job.
	P50    *time.Time `json:"p50"`
	P90    *time.Time `json:"p90"`
	Beyond []string   `json:"beyond_horizon,omitempty"`
	// Changes are sorted by their gain of the median, the largest first.
	Changes []Gain `json:"changes"`
	// NotTried are the changes that were not tried for lack of time.
	NotTried []string `json:"not_tried,omitempty"`
}

// Gain is a change of a job with its gain.
type Gain struct {
	// Change is the change as options of scontrol update, and Command is the whole command.
	Change  string `json:"change"`
	Command string `json:"command"`
	// Condition says under which condition the change is useful.
	Condition string     `json:"condition,omitempty"`
	P10       *time.Time `json:"p10"`
	P50       *time.Time `json:"p50"`
	P90       *time.Time `json:"p90"`
	Beyond    []string   `json:"beyond_horizon,omitempty"`
	// GainP50 and GainP90 say how many seconds earlier the median and P90 are; nil if that is not known. AtLeast
	// names the gains that may be larger, because the same quantile of the unchanged job is after the horizon.
	GainP50 *float64 `json:"gain_p50_s"`
	GainP90 *float64 `json:"gain_p90_s"`
	AtLeast []string `json:"at_least,omitempty"`
	// Why says why the changed job never starts.
	Why string `json:"why,omitempty"`
}

// Words returns a text about how much earlier a change makes the quantile "p50" or "p90".
func (g *Gain) Words(quantile string) string {
	seconds, least := g.GainP50, ""
	if quantile == "p90" {
		seconds = g.GainP90
	}
	if slices.Contains(g.AtLeast, quantile) {
		least = "at least "
	}
	switch {
	case seconds == nil:
		return "not known"
	case *seconds == 0 && least == "":
		return "nothing"
	case *seconds < 0:
		return quantity.Duration(-*seconds) + " later"
	}
	return least + quantity.Duration(*seconds)
}

// forward has the data to simulate the scheduler again from the queue of the last forecast on. A forward is not stored
// on the disk.
type forward struct {
	queue   *forecast.Queue
	how     forecast.Options
	answers map[string]*Sooner // answers by the job's ID
}

const (
	// soonerBudget is the time for an answer. Changes that were not tried by then are left out.
	soonerBudget = 20 * time.Second
	quotaSpan    = time.Hour
)

// quota has the times of each user's requests for an earlier start.
type quota map[string][]time.Time

// take counts a request. If the user has reached the limit, take returns when the user may send the next request.
func (q quota) take(user string, most int, now time.Time) (next time.Time, ok bool) {
	for other, list := range q {
		list = slices.DeleteFunc(list, func(t time.Time) bool { return now.Sub(t) >= quotaSpan })
		if q[other] = list; len(list) == 0 {
			delete(q, other)
		}
	}
	if list := q[user]; len(list) >= most {
		return list[len(list)-most].Add(quotaSpan), false
	}
	q[user] = append(q[user], now)
	return next, true
}

// question is a request for the changes with which a job would start sooner.
type question struct {
	forward
	row
	id     string
	report *forecast.Report
}

// soonerAsked returns the stored answer for the last forecast. If there is no stored answer, soonerAsked returns a
// question to be answered, which counts in the client's quota.
func (s *Service) soonerAsked(id string, w who) (kept *Sooner, q *question, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known.Round == nil {
		return nil, nil, s.errNone()
	}
	list, err := s.jobs(id, w)
	switch {
	case err != nil:
		return nil, nil, err
	case len(list) > 1:
		return nil, nil, &statusError{http.StatusBadRequest, fmt.Errorf("job %s is an array (want one task, as %s)", id,
			list[0].ID)}
	case list[0].Wait == nil:
		return nil, nil, &statusError{http.StatusConflict, fmt.Errorf("job %s runs already", id)}
	case s.forward.queue == nil:
		return nil, nil, &statusError{http.StatusServiceUnavailable,
			errors.New("the service has just started and has no forecast yet (try again in a minute)")}
	}
	q = &question{forward: s.forward, id: list[0].ID, report: s.known.Round.Report}
	for i := range s.rows.list {
		if name(s.rows.list[i].key) == q.id {
			q.row = s.rows.list[i]
		}
	}
	if kept = s.forward.answers[q.id]; kept != nil {
		answer := *kept
		answer.Forecast = s.head()
		return &answer, nil, nil
	}
	if next, ok := s.quota.take(w.name, s.opts.Questions, s.opts.now()); !ok {
		return nil, nil, &statusError{http.StatusTooManyRequests, fmt.Errorf(
			"the limit is %s an hour for each user (try again at %s)", quantity.Regular(s.opts.Questions, "question"),
			next.In(s.opts.Zone).Format("15:04:05"))}
	}
	return nil, q, nil
}

// sooner returns the changes with which a job would start sooner. The service stores the answer until the next
// forecast. The service answers one question at a time.
func (s *Service) sooner(ctx context.Context, id string, w who) (*Sooner, error) {
	kept, q, err := s.soonerAsked(id, w)
	if kept != nil || err != nil {
		return kept, err
	}
	ctx, cancel := context.WithTimeout(ctx, soonerBudget)
	defer cancel()
	select {
	case s.trying <- struct{}{}:
		defer func() { <-s.trying }()
	case <-ctx.Done():
		return nil, &statusError{http.StatusServiceUnavailable,
			fmt.Errorf("job %s: the service is busy with earlier requests (try again in a minute)", id)}
	}
	a, err := s.tryChanges(ctx, q)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil && s.forward.queue != q.queue: // the files of the old queue have been removed
		return nil, &statusError{http.StatusServiceUnavailable,
			fmt.Errorf("job %s: a new forecast has replaced the queue during this request (try again)", id)}
	case err != nil:
		return nil, fmt.Errorf("forecasting changes of job %s: %w", id, err)
	}
	q.answers[q.id] = a
	answer := *a
	answer.Forecast = s.head()
	return &answer, nil
}

// tryChanges forecasts the changes of a job until the context ends.
func (s *Service) tryChanges(ctx context.Context, q *question) (*Sooner, error) {
	how, err := s.learner(q.how)
	if err != nil {
		return nil, err
	}
	key := q.key
	if !slices.Contains(q.queue.Pending(), key) { // scontrol shows this task as a separate job
		key = forecast.Key{Job: q.id, Task: -1}
	}
	tries, err := forecast.NewChanges(ctx, q.queue, key, how)
	if err != nil {
		return nil, err
	}
	job := tries.Job()
	list, err := sooner.Changes(q.queue, &job, how.Engine.Simulator.Cluster)
	if err != nil {
		return nil, err
	}
	a := &Sooner{Job: q.id, P50: q.P50, P90: q.P90, Beyond: q.Beyond, Changes: []Gain{}}
	for i := range list {
		one, err := tries.Try(ctx, &list[i].Request)
		switch {
		case ctx.Err() != nil:
			a.NotTried = append(a.NotTried, list[i].Name)
			continue
		case err != nil:
			return nil, err
		}
		a.Changes = append(a.Changes, q.gain(&list[i], &one))
	}
	slices.SortStableFunc(a.Changes, func(x, y Gain) int {
		return cmp.Or(cmp.Compare(gained(y.GainP50), gained(x.GainP50)), cmp.Compare(gained(y.GainP90), gained(x.GainP90)))
	})
	return a, nil
}

// gained is the sort key of a gain: unknown gains come last.
func gained(seconds *float64) float64 {
	if seconds == nil {
		return -hpc.Unlimited.Seconds()
	}
	return *seconds
}

// gain compares a changed job with the unchanged job.
func (q *question) gain(change *sooner.Change, one *forecast.Changed) Gain {
	g := Gain{Change: change.Name, Command: "scontrol update JobId=" + q.id + " " + change.Name, P10: one.P10,
		P50: one.P50, P90: one.P90, Beyond: one.Beyond, Why: one.Why}
	switch {
	case change.Shorter:
		g.Condition = fmt.Sprintf("if the job ends within the new time limit, as %s of jobs like it do",
			quantity.Percent(one.Ends))
	case change.Fewer:
		g.Condition = fmt.Sprintf("if the job fits on %s and ends within its time limit there",
			quantity.Regular(change.Request.MinNodes, "node"))
	}
	compare := func(name string, was, is *time.Time) *float64 {
		if is == nil {
			return nil
		}
		if was == nil {
			if !slices.Contains(q.Beyond, name) || q.report.Horizon == nil {
				return nil
			}
			was = q.report.Horizon
			g.AtLeast = append(g.AtLeast, name)
		}
		seconds := was.Sub(*is).Seconds()
		return &seconds
	}
	g.GainP50, g.GainP90 = compare("p50", q.P50, one.P50), compare("p90", q.P90, one.P90)
	return g
}
