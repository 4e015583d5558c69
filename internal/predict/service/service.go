// Package service answers questions about run times over HTTP, for job-submit plugins, portals and
// accounting pages. docs/schemas/predict.openapi.json describes the interface.
//
// A service begins with a trained model. Clients send it events of jobs (submit, start, end), which
// extend the model's history. A journal stores the events, so that the service continues with all
// earlier events after a restart or a kill.
package service

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/httpjson"
	"rmreplay/internal/jobjson"
	"rmreplay/internal/origin"
	"rmreplay/internal/predict"
	"rmreplay/internal/predict/model"
	"rmreplay/internal/quantity"
)

const (
	// MaxBody is the maximum size of a request's body, in bytes.
	MaxBody = 4 << 20
	// MaxJobs is the maximum number of jobs or events of a request.
	MaxJobs = 10000
)

// Options configure a service.
type Options struct {
	// Token, if not empty, must be in the header of each request: "Authorization: Bearer TOKEN".
	Token string
	// Now returns the present time. A job without a submission time counts as submitted at this time. No event may be more
	// than a minute later.
	Now func() hpc.Time
	// Journal, if not nil, stores the events of each request as one record, before they take effect.
	Journal Journal
}

// Journal stores records. After Append has returned nil, the record survives a crash. If Append
// fails, the record must not be in the journal. [rmreplay/internal/wal.State] is a Journal.
type Journal interface {
	Append(record []byte) error
}

// Service is an [http.Handler]. Its methods may be called concurrently.
type Service struct {
	options Options
	model   *model.Model
	mux     *http.ServeMux

	mu      sync.Mutex
	online  *model.Online
	numbers map[string]int64 // of open jobs
	next    int64
	last    hpc.Time // the last event
	events  int
	unknown int
}

// New returns a service without events.
func New(m *model.Model, o Options) *Service {
	s := &Service{options: o, model: m, online: m.Online(), numbers: map[string]int64{}, last: m.Until(),
		mux: http.NewServeMux()}
	s.mux.HandleFunc("GET /v1/model", s.describe)
	s.mux.HandleFunc("POST /v1/predict", s.predict)
	s.mux.HandleFunc("POST /v1/events", s.learn)
	return s
}

// ServeHTTP answers a request.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := (origin.Policy{Secret: s.options.Token != ""}).Admit(w, r); err != nil {
		refuse(w, http.StatusForbidden, err)
		return
	}
	if s.options.Token != "" {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if subtle.ConstantTimeCompare([]byte(token), []byte(s.options.Token)) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized, errors.New("the request has no valid token (want the header "+
				"Authorization: Bearer TOKEN)"))
			return
		}
	}
	r.Body = http.MaxBytesReader(w, r.Body, MaxBody)
	s.mux.ServeHTTP(w, r)
}

// refuse answers with an error as JSON.
func refuse(w http.ResponseWriter, status int, err error) {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		status, err = http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes (want less)", large.Limit)
	}
	httpjson.Reply(w, status, map[string]string{"error": err.Error()})
}

// State summarizes the events that a service has received since its model was trained.
type State struct {
	Model    model.Header `json:"model"`
	Events   int          `json:"events"`
	OpenJobs int          `json:"open_jobs"`
	// Unknown counts starts and ends of jobs without a known submission.
	Unknown int    `json:"unknown_jobs"`
	Last    string `json:"last_event"`
}

// State returns the summary of the events so far.
func (s *Service) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return State{Model: s.model.Header, Events: s.events, OpenJobs: len(s.numbers), Unknown: s.unknown,
		Last: s.last.String()}
}

func (s *Service) describe(w http.ResponseWriter, _ *http.Request) {
	httpjson.Reply(w, http.StatusOK, s.State())
}

// job is a submission as JSON: the fields of a job in a trace, without the fields of its behaviour.
type job struct {
	ID     string          `json:"id"`
	Submit jobjson.Instant `json:"submit"`
	jobjson.Request
	jobjson.Durations
}

// request returns the job's request.
func (j *job) request() *hpc.Request {
	whole := jobjson.Job{Request: j.Request, Durations: j.Durations}
	return &whole.Decode(&jobjson.Epoch{}).Request
}

var errRelative = errors.New("submit: want a time as 2024-03-01T08:00:00Z")

// answer is a prediction for a job.
type answer struct {
	ID string `json:"id,omitempty"`
	predict.Prediction
}

// longest is the longest run time in an answer: JSON has no infinity.
var longest = hpc.Unlimited.Seconds()

// answered returns the answer for a job.
func answered(id string, p predict.Prediction) answer {
	p.P10, p.P50, p.P90 = min(p.P10, longest), min(p.P50, longest), min(p.P90, longest)
	return answer{id, p}
}

func (s *Service) predict(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	var question struct {
		Jobs []*job `json:"jobs"`
	}
	if err := jobjson.Unmarshal(text, &question); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	if n := len(question.Jobs); n == 0 || n > MaxJobs {
		refuse(w, http.StatusBadRequest, fmt.Errorf("jobs: %d %s (want 1 to %d)", n,
			quantity.Plural(n, "job", "jobs"), MaxJobs))
		return
	}
	for i, j := range question.Jobs {
		var err error
		switch {
		case j == nil:
			err = errors.New("the job is null (want an object)")
		case j.Submit.Relative():
			err = errRelative
		}
		if err != nil {
			refuse(w, http.StatusBadRequest, fmt.Errorf("job %d: %w", i+1, err))
			return
		}
	}
	httpjson.Reply(w, http.StatusOK, map[string]any{"predictions": s.answer(question.Jobs)})
}

// answer predicts the run times of jobs.
func (s *Service) answer(jobs []*job) []answer {
	now := s.options.Now()
	answers := make([]answer, len(jobs))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, j := range jobs {
		at := now
		if !j.Submit.IsZero() {
			at = j.Submit.At(&jobjson.Epoch{})
		}
		answers[i] = answered(j.ID, s.online.Predict(predict.Submission{At: at, Request: j.request()}))
	}
	return answers
}

// event is what happened to a job.
type event struct {
	Event string          `json:"event"` // submit, start or end
	ID    string          `json:"id"`
	At    jobjson.Instant `json:"at"`
	State hpc.State       `json:"state"` // of an end
	Job   *job            `json:"job"`   // of a submission
}

// ahead is how far a client's clock may be ahead of the service's.
const ahead = time.Minute

// requeued reports whether an event ends a run because the job is requeued.
func (e *event) requeued() bool { return e.State == hpc.Pending || e.State == hpc.Requeued }

// check returns an error if an event is wrong. The parameter last is the instant of the previous
// event, and latest the latest allowed instant.
func (e *event) check(last, latest hpc.Time) error {
	if e.At.IsZero() || e.At.Relative() {
		return errors.New("at: want a time as 2024-03-01T08:00:00Z")
	}
	switch at := e.At.At(&jobjson.Epoch{}); {
	case e.Event != "submit" && e.Event != "start" && e.Event != "end":
		return fmt.Errorf("event: %q (want submit, start or end)", e.Event)
	case e.ID == "":
		return errors.New("id: missing")
	case e.Event == "submit" && e.Job == nil:
		return errors.New("job: missing (want the user's request)")
	case e.Event == "submit" && (e.Job.ID != "" || !e.Job.Submit.IsZero()):
		return errors.New("job: has id or submit (want these values as id and at of the event)")
	case e.Event != "submit" && e.Job != nil:
		return errors.New("job: only allowed in a submission")
	case e.Event == "end" && !e.State.Ended() && !e.requeued():
		return fmt.Errorf("state: %q (want the state of an ended job, as COMPLETED, or PENDING for a requeued job)",
			e.State)
	case at < last:
		return fmt.Errorf("at: %v is before the last event, %v (want events in the order of time)", at, last)
	case at > latest: // otherwise every earlier event would be refused as too late
		return fmt.Errorf("at: %v is in the future (want at most %v, a minute after the service's clock)", at, latest)
	}
	return nil
}

// batch has the events of a request, which are also a record of the journal.
type batch struct {
	Events []json.RawMessage `json:"events"`
}

func (s *Service) learn(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	var batch batch
	if err := jobjson.Unmarshal(text, &batch); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	if n := len(batch.Events); n == 0 || n > MaxJobs {
		refuse(w, http.StatusBadRequest, fmt.Errorf("events: %d %s (want 1 to %d)", n,
			quantity.Plural(n, "event", "events"), MaxJobs))
		return
	}
	answers, status, err := s.accept(batch.Events)
	if err != nil {
		refuse(w, status, err)
		return
	}
	httpjson.Reply(w, http.StatusOK, map[string]any{"accepted": len(batch.Events), "predictions": answers})
}

// accept processes events, and predicts the run times of submitted jobs. If it fails, status is the
// HTTP status of the answer. The lock is not held while the client reads the answer.
func (s *Service) accept(texts []json.RawMessage) (answers []answer, status int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	events, err := s.parse(texts, s.options.Now().Add(ahead))
	if err != nil {
		return nil, http.StatusBadRequest, err
	}
	if err := s.record(texts); err != nil {
		return nil, http.StatusInternalServerError, fmt.Errorf("writing the journal: %w", err)
	}
	answers = []answer{}
	for i := range events {
		if p, submitted := s.apply(&events[i]); submitted {
			answers = append(answers, answered(events[i].ID, p))
		}
	}
	return answers, http.StatusOK, nil
}

// record writes the events of a request to the journal, if the service has a journal.
func (s *Service) record(events []json.RawMessage) error {
	if s.options.Journal == nil {
		return nil
	}
	record, err := json.Marshal(batch{Events: events})
	if err != nil {
		return err
	}
	return s.options.Journal.Append(record)
}

// parse reads and checks events, none of which may be later than the instant latest. It does not
// change the service's state.
func (s *Service) parse(texts []json.RawMessage, latest hpc.Time) ([]event, error) {
	events := make([]event, len(texts))
	last := s.last
	opened := map[string]bool{} // whether the job is open, for jobs that these events submit or end
	for i, text := range texts {
		e := &events[i]
		err := jobjson.Unmarshal(text, e)
		if err == nil {
			err = e.check(last, latest)
		}
		if err == nil && e.Event == "submit" {
			open, told := opened[e.ID]
			if !told {
				_, open = s.numbers[e.ID]
			}
			if open {
				err = fmt.Errorf("id: job %s was submitted before and has not ended", e.ID)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", i+1, err)
		}
		if e.Event != "start" {
			opened[e.ID] = e.Event == "submit"
		}
		last = e.At.At(&jobjson.Epoch{})
	}
	return events, nil
}

// apply passes an event to the predictor.
func (s *Service) apply(e *event) (p predict.Prediction, submitted bool) {
	at := e.At.At(&jobjson.Epoch{})
	s.last = at
	s.events++
	number, open := s.numbers[e.ID]
	switch {
	case e.Event == "submit":
		s.next++
		s.numbers[e.ID] = s.next
		return s.online.Submit(predict.Submission{Number: s.next, At: at, Request: e.Job.request()}), true
	case !open:
		s.unknown++
	case e.Event == "start":
		s.online.Start(number, at)
	default:
		delete(s.numbers, e.ID)
		if e.requeued() {
			e.State = hpc.Pending // so that this run does not count as a run time: see [predict.Predictor]
		}
		s.online.End(number, at, e.State)
	}
	return p, false
}

// Replay processes the events of a journal's records. An error has the number of the record.
func (s *Service) Replay(records [][]byte) error {
	for i, record := range records {
		var batch batch
		err := jobjson.Unmarshal(record, &batch)
		var events []event
		if err == nil {
			events, err = s.parse(batch.Events, anyTime)
		}
		if err != nil {
			return fmt.Errorf("record %d: %w", i+1, err)
		}
		for i := range events {
			s.apply(&events[i])
		}
	}
	return nil
}

// anyTime is the latest allowed instant of events in a journal. Events in a journal were checked when they were
// received. They may be later than the present time, because the clock may have been set back since then.
const anyTime = hpc.Time(math.MaxInt64)
