package service

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/docs/schemas"
	"rmreplay/internal/access"
	"rmreplay/internal/forecast"
	"rmreplay/internal/forecast/judge"
	"rmreplay/internal/hpc"
	"rmreplay/internal/httpjson"
	"rmreplay/internal/origin"
	"rmreplay/internal/quantity"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/waits"
)

// The roles of credentials. If the site hides jobs (PrivateData), a client with the role User may read only the jobs
// of the user with the client's name.
const (
	User access.Role = "user"
	All  access.Role = "all" // may read the jobs of all users
)

// who identifies the client of a request.
type who struct {
	name string // "" if it is not known
	all  bool   // may see all jobs, even if the site hides them
}

// sees reports whether a client may see the jobs of a user.
func (s *Service) sees(w who, user string) bool {
	return !s.known.Round.Private || w.all || w.name != "" && w.name == user
}

// A forecast is stale if it is older than staleAfter times the time between captures.
const staleAfter = 3

// Head names the forecast that an answer comes from.
type Head struct {
	// At is the instant of the capture; nil if there is no forecast yet.
	At *time.Time `json:"at"`
	// Age is the forecast's age in seconds. A stale forecast is older than three times the time between captures.
	Age   float64 `json:"age_s"`
	Stale bool    `json:"stale"`
	// Fault says why, and since when, there is no new forecast; nil if the last capture and its forecast succeeded.
	Fault *Fault `json:"fault,omitempty"`
	// Alarms name the classes whose recent forecasts were wrong too often. A client must show the forecasts of such a
	// class as unreliable.
	Alarms []string `json:"alarms,omitempty"`
}

// head returns the head of an answer that is given now. The caller holds the lock.
func (s *Service) head() Head {
	h := Head{Stale: true}
	if s.fault != nil {
		fault := *s.fault
		h.Fault = &fault
	}
	if r := s.known.Round; r != nil {
		at := r.Report.At
		h.At, h.Age = &at, max(s.opts.now().Sub(at).Seconds(), 0)
		h.Stale = h.Age > staleAfter*s.opts.Every.Seconds()
	}
	for _, c := range s.judge.Scales() {
		if c.Wrong() {
			h.Alarms = append(h.Alarms, fmt.Sprintf("forecasts in %s, with a median %s ahead, are unreliable: "+
				"%.0f %% of the last starts were from P10 to P90 (80 %% would be right)", quantity.Name(c.Partition),
				judge.Leads[c.Lead].Name, 100*c.Covered))
		}
	}
	return h
}

// Job is the service's answer about a job.
type Job struct {
	// ID is the job's number. For a task of an array, the task's number follows: 17_3.
	ID    string `json:"id"`
	State string `json:"state"` // pending or running
	// Start is the start of a running job.
	Start *time.Time `json:"start,omitempty"`
	User  string     `json:"user,omitempty"`
	// Partition is also set for a running job.
	Partition string `json:"partition,omitempty"`
	*Wait
}

// Wait is the service's answer about a waiting job.
type Wait struct {
	Name   string     `json:"name,omitempty"`
	Nodes  int        `json:"nodes,omitempty"`
	CPUs   int        `json:"cpus"`
	Limit  float64    `json:"limit_s,omitempty"`
	Submit time.Time  `json:"submit"`
	P10    *time.Time `json:"p10"`
	P50    *time.Time `json:"p50"`
	P90    *time.Time `json:"p90"`
	Beyond []string   `json:"beyond_horizon,omitempty"`
	// Raw10 and Raw90 are P10 and P90 before they were recalibrated.
	Raw10 *time.Time `json:"raw_p10,omitempty"`
	Raw90 *time.Time `json:"raw_p90,omitempty"`
	// Doubtful says that the recent forecasts of the same class were wrong too often.
	Doubtful bool              `json:"doubtful,omitempty"`
	Within   []forecast.Within `json:"within"`
	Never    int               `json:"never,omitempty"`
	Slurm    *time.Time        `json:"slurm_start,omitempty"`
	Ahead    Ahead             `json:"ahead"`
	For      Reason            `json:"waits_for"`
	Look     *time.Time        `json:"look_again,omitempty"`
	Before   []earlier         `json:"earlier,omitempty"`
}

// Reason says what a job waits for.
type Reason struct {
	// Slurm is Slurm's reason, and Words explains it.
	Slurm string `json:"reason,omitempty"`
	Words string `json:"words"`
	// Dependency names the jobs that the job depends on, in sbatch's form.
	Dependency string `json:"dependency,omitempty"`
}

// earlier is an earlier forecast of a job.
type earlier struct {
	At  time.Time  `json:"at"`
	P10 *time.Time `json:"p10"`
	P50 *time.Time `json:"p50"`
	P90 *time.Time `json:"p90"`
}

// instant returns nil for an instant that is not known or never comes.
func instant(t hpc.Time) *time.Time {
	if t == 0 || t >= forecast.Later {
		return nil
	}
	std := t.Std()
	return &std
}

// pending describes a job that waits. The caller holds the lock.
func (s *Service) pending(one *row, history bool) Job {
	w := one.Waiting
	job := Job{ID: name(one.key), State: "pending", User: w.User, Partition: w.Partition, Wait: &Wait{
		Name: w.Name, Nodes: w.Nodes, CPUs: w.CPUs, Limit: w.Limit, Submit: w.Submit, P10: w.P10, P50: w.P50, P90: w.P90,
		Beyond: w.Beyond, Within: w.Within, Never: w.Never, Slurm: w.Slurm, Ahead: one.ahead, For: reason(w), Look: s.look(w),
	}}
	f := judged(s.known.Round.Report, w)
	job.Doubtful = s.judge.Doubtful(w.Partition, &f)
	if p10, p90 := s.judge.Recalibrate(w.Partition, &f); p10 != f.P10 || p90 != f.P90 {
		job.P10, job.P90, job.Raw10, job.Raw90 = instant(p10), instant(p90), w.P10, w.P90
		if p90 == forecast.Later && f.P90 < forecast.Later {
			job.Beyond = append(slices.Clip(w.Beyond), "p90")
		}
	}
	if job.Within == nil {
		job.Within = []forecast.Within{}
	}
	if history {
		list := s.judge.Forecasts(one.key)
		for i := range list {
			f := &list[i]
			if at := f.At.Std(); at.Before(s.known.Round.Report.At) {
				job.Before = append(job.Before, earlier{at, instant(cmp.Or(f.C10, f.P10)), instant(f.P50),
					instant(cmp.Or(f.C90, f.P90))})
			}
		}
	}
	return job
}

// reason returns a text about what a job waits for. All commands use the same texts.
func reason(w *forecast.Waiting) Reason {
	part := waits.PartOf(w.Reason)
	words := part.Words() + ": " + part.Meaning()
	if w.Reason == "" || part == waits.Unknown {
		words = "Slurm gives no reason, or a reason that rmreplay does not know"
	}
	return Reason{Slurm: w.Reason, Words: words, Dependency: w.Dependency}
}

// look returns when a client should next query a job's forecast: after half of the time to P10, but not before the next
// forecast. The result is nil if P10 is not known or the forecast is stale.
func (s *Service) look(w *forecast.Waiting) *time.Time {
	if w.P10 == nil || s.head().Stale {
		return nil
	}
	at := s.known.Round.Report.At
	next := at.Add(max(w.P10.Sub(at)/2, s.opts.Every)).Truncate(time.Second)
	return &next
}

// jobs returns the jobs with an ID, or all tasks of an array, that the client may see.
func (s *Service) jobs(id string, w who) (list []Job, err error) {
	parsed, err := slurmspec.ParseJobID(id)
	if err != nil {
		return nil, &statusError{http.StatusBadRequest, fmt.Errorf("job %w (want a number, as 17, or 17_3 for a task of "+
			"an array)", err)}
	}
	asked := forecast.Key{Job: fmt.Sprint(parsed.Number), Task: parsed.Task}
	keys := []forecast.Key{asked}
	if tasks := s.rows.tasks[asked.Job]; asked.Task < 0 && len(tasks) > 0 {
		keys = tasks
	}
	for _, key := range keys {
		if i, waits := s.rows.pending[key]; waits && s.sees(w, s.rows.list[i].User) {
			list = append(list, s.pending(&s.rows.list[i], true))
		} else if i, runs := s.rows.running[key]; runs && s.sees(w, s.known.Round.Started[i].User) {
			one := &s.known.Round.Started[i]
			start := one.Start
			list = append(list, Job{ID: name(key), State: "running", Start: &start, User: one.User, Partition: one.Partition})
		}
	}
	if len(list) > 0 {
		return list, nil
	}
	hidden := ""
	if s.known.Round.Private && !w.all {
		hidden = ", or it belongs to another user and the site hides it (PrivateData)"
	}
	return nil, &statusError{http.StatusNotFound, fmt.Errorf("job %s neither waited nor ran at %s%s", id,
		s.known.Round.Report.At.Format(time.RFC3339), hidden)}
}

// maxListed is the largest number of jobs in a list.
const maxListed = 10_000

// list returns the pending jobs of a user and a partition in the order of their expected starts. The value "" means
// all users or all partitions.
func (s *Service) list(user, partition string, most int, w who) (list []Job, all int) {
	list = []Job{}
	for i := range s.rows.list {
		one := &s.rows.list[i]
		if user != "" && one.User != user || !s.sees(w, one.User) ||
			partition != "" && !slices.Contains(strings.Split(one.Partition, ","), partition) {
			continue
		}
		if all++; len(list) < most {
			list = append(list, s.pending(one, false))
		}
	}
	return list, all
}

// Accuracy says how good forecasts were.
type Accuracy struct {
	// Days is the number of days for which starts count.
	Days float64 `json:"days"`
	// Waiting counts the jobs with forecasts that still wait, and Gone the jobs that left without a start.
	Waiting int       `json:"waiting"`
	Gone    int       `json:"gone"`
	All     Quality   `json:"all"`
	Groups  []Quality `json:"groups"`
	// Lately has the recent results of each class, with the effect of recalibration on the intervals.
	Lately []Lately `json:"lately"`
}

// Lately says how good the recent forecasts of a class were. The weights in the shares decay exponentially, so that
// the last 50 jobs count most.
type Lately struct {
	Partition string `json:"partition"`
	Lead      string `json:"lead"` // time from the forecast to its median
	Jobs      int    `json:"jobs"`
	// Raw is the coverage of the realizations' intervals, and Coverage the coverage of the recalibrated intervals.
	Raw      float64 `json:"raw_coverage"`
	Coverage float64 `json:"coverage"`
	// Low and High are the factors of the distances from the median to P10 and P90.
	Low   float64 `json:"low_factor"`
	High  float64 `json:"high_factor"`
	Wrong bool    `json:"wrong"`
}

// Quality says how good the forecasts of a group were. Shares are from 0 to 1, and nil without a forecast.
type Quality struct {
	Partition string   `json:"partition,omitempty"`
	Lead      string   `json:"lead,omitempty"`
	Forecasts int      `json:"forecasts"`
	Beyond    int      `json:"beyond_horizon"`
	Coverage  *float64 `json:"coverage"`
	Minute    *float64 `json:"within_1_minute"`
	Five      *float64 `json:"within_5_minutes"`
	Hour      *float64 `json:"within_1_hour"`
	// Slurm compares Slurm's own estimates with the forecasts for the same jobs; nil if Slurm had no estimate.
	Slurm *Beside `json:"slurm,omitempty"`
}

// Beside compares Slurm's estimates with forecasts of the same jobs.
type Beside struct {
	Jobs      int      `json:"forecasts"`
	Minute    *float64 `json:"within_1_minute"`
	Five      *float64 `json:"within_5_minutes"`
	Hour      *float64 `json:"within_1_hour"`
	OurMinute *float64 `json:"ours_within_1_minute"`
	OurFive   *float64 `json:"ours_within_5_minutes"`
	OurHour   *float64 `json:"ours_within_1_hour"`
}

func share(n, of int) *float64 {
	if of == 0 {
		return nil
	}
	f := float64(n) / float64(of)
	return &f
}

func quality(t *judge.Tally) Quality {
	q := Quality{Forecasts: t.Forecasts, Beyond: t.Beyond, Coverage: share(t.Covered, t.Forecasts),
		Minute: share(t.Near[0], t.Forecasts),
		Five:   share(t.Near[1], t.Forecasts), Hour: share(t.Near[2], t.Forecasts)}
	if n := t.Slurm; n > 0 {
		q.Slurm = &Beside{n, share(t.SlurmNear[0], n), share(t.SlurmNear[1], n), share(t.SlurmNear[2], n),
			share(t.BesideNear[0], n),
			share(t.BesideNear[1], n), share(t.BesideNear[2], n)}
	}
	return q
}

func (s *Service) accuracy() Accuracy {
	groups, all := s.judge.Groups()
	a := Accuracy{Days: s.opts.Keep.Hours() / 24, Waiting: s.judge.Waiting(), Gone: s.judge.Gone(), All: quality(&all),
		Groups: []Quality{}, Lately: []Lately{}}
	for i := range groups {
		q := quality(&groups[i].Tally)
		q.Partition, q.Lead = groups[i].Partition, judge.Leads[groups[i].Lead].Name
		a.Groups = append(a.Groups, q)
	}
	for _, c := range s.judge.Scales() {
		a.Lately = append(a.Lately, Lately{c.Partition, judge.Leads[c.Lead].Name, c.Jobs, c.Raw, c.Covered, c.Low, c.High,
			c.Wrong()})
	}
	return a
}

// status returns the state of the service.
func (s *Service) status() map[string]any {
	v := map[string]any{
		"every_s": s.opts.Every.Seconds(), "capture_s": s.tally.captureSeconds, "captures": s.tally.made["capture"],
		"captures_failed": s.tally.failed["capture"], "forecasts": s.tally.made["forecast"],
		"forecasts_failed": s.tally.failed["forecast"],
	}
	if r := s.known.Round; r != nil {
		v["forecast_s"], v["pending"], v["running"], v["private"] = r.Took, len(r.Report.Jobs), r.Report.Running, r.Private
		v["engine"], v["realizations"], v["run_times"], v["arrivals"] = r.Report.Engine, r.Report.Realizations,
			r.Report.RunTimes, r.Report.Arrivals
		v["horizon"], v["notes"] = r.Report.Horizon, append([]string{}, r.Report.Notes...)
	}
	return v
}

// statusError is an error with the HTTP status of its answer.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }

// errNone is the error of a service that has no forecast yet.
func (s *Service) errNone() error {
	text := "there is no forecast yet (the first one is being made)"
	if s.fault != nil {
		text = "there is no forecast yet: " + s.fault.Text
	}
	return &statusError{http.StatusServiceUnavailable, fmt.Errorf("%s", text)}
}

// answer is an answer as JSON. If always is true, the service also gives this answer before the
// first forecast.
type answer struct {
	path   string
	always bool
	make   func(r *http.Request, w who) (map[string]any, error)
}

// answers returns the paths of the API, with the functions that answer. The lock is held while an
// answer is made.
func (s *Service) answers() []answer {
	return []answer{
		{"/v1/status", true, func(*http.Request, who) (map[string]any, error) { return s.status(), nil }},
		{"/v1/accuracy", true, func(*http.Request, who) (map[string]any, error) {
			return map[string]any{"accuracy": s.accuracy()}, nil
		}},
		{"/v1/machine", false, func(*http.Request, who) (map[string]any, error) {
			return map[string]any{"submitted_now": s.submittedNow(), "occupancy": s.known.Round.Report.Occupancy}, nil
		}},
		{"/v1/jobs", false, s.answerList},
		{"/v1/jobs/{id}", false, func(r *http.Request, w who) (map[string]any, error) {
			list, err := s.jobs(r.PathValue("id"), w)
			return map[string]any{"jobs": list}, err
		}},
	}
}

// submittedNow returns the forecasts of jobs that would be submitted now, by partition and size.
func (s *Service) submittedNow() []Try {
	list := append([]Try{}, s.known.Tries...)
	place := func(t Try) int { return slices.IndexFunc(Sizes, func(s Size) bool { return s.Name == t.Size }) }
	slices.SortFunc(list, func(a, b Try) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(place(a), place(b)))
	})
	return list
}

func (s *Service) answerList(r *http.Request, w who) (map[string]any, error) {
	values, most := r.URL.Query(), maxListed
	if err := httpjson.CheckParameters(values, "user", "partition", "most"); err != nil {
		return nil, &statusError{http.StatusBadRequest, err}
	}
	if text := values.Get("most"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > maxListed {
			return nil, &statusError{http.StatusBadRequest, fmt.Errorf("most: %.20q (want 0 to %d)", text, maxListed)}
		}
		most = n
	}
	list, all := s.list(values.Get("user"), values.Get("partition"), most, w)
	return map[string]any{"jobs": list, "pending": all}, nil
}

// Routes returns the patterns of the paths that Handler serves.
func (s *Service) Routes() (list []string) {
	for _, a := range s.answers() {
		list = append(list, "GET "+a.path)
	}
	return append(list, "GET /v1/jobs/{id}/sooner", "GET /v1/openapi.json", "GET /metrics")
}

// answer makes the members of an answer. If making the answer panics, the service is still unlocked.
func (s *Service) answer(r *http.Request, a *answer) (v map[string]any, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known.Round == nil && !a.always {
		return nil, s.errNone()
	}
	if v, err = a.make(r, whoAsks(r)); err == nil {
		v["forecast"] = s.head()
	}
	return v, err
}

// Handler returns the handler of all paths. credentials identifies clients. Without credentials,
// every user of this machine may send requests, and sees what the site shows to all users.
func (s *Service) Handler(credentials *access.Access) http.Handler {
	mux := http.NewServeMux()
	for _, a := range s.answers() {
		mux.HandleFunc("GET "+a.path, func(w http.ResponseWriter, r *http.Request) {
			v, err := s.answer(r, &a)
			if err != nil {
				refuse(w, err)
				return
			}
			httpjson.Reply(w, http.StatusOK, v)
		})
	}
	mux.HandleFunc("GET /v1/jobs/{id}/sooner", func(w http.ResponseWriter, r *http.Request) {
		a, err := s.sooner(r.Context(), r.PathValue("id"), whoAsks(r))
		if err != nil {
			refuse(w, err)
			return
		}
		httpjson.Reply(w, http.StatusOK, a)
	})
	mux.HandleFunc("GET /v1/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(schemas.Forecast) // the client has gone
	})
	mux.Handle("GET /metrics", s.metrics())
	s.addPages(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if err := (origin.Policy{Secret: credentials.Required(), Page: page}).Admit(w, r); err != nil {
			refuse(w, &statusError{http.StatusForbidden, err})
			return
		}
		r, err := identify(r, credentials)
		if err != nil {
			w.Header().Set("WWW-Authenticate", `Basic realm="rmreplay forecast", charset="UTF-8"`)
			refuse(w, err)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// page reports whether a request is for a page for people.
func page(r *http.Request) bool {
	return r.URL.Path != "/metrics" && !strings.HasPrefix(r.URL.Path, "/v1/")
}

func refuse(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	var known *statusError
	if errors.As(err, &known) {
		status = known.status
	}
	httpjson.Reply(w, status, map[string]string{"error": err.Error()})
}
