// Package service forecasts the queue of a live cluster repeatedly, and answers requests for the expected starts of
// jobs. Every few minutes it captures the cluster's queue, simulates the scheduler from this state on with the model
// of Slurm's scheduler, and compares earlier forecasts with the starts that the capture shows.
//
// The state is in a directory. After a restart or a kill, the service continues with the last forecast and with its
// data about the quality of earlier forecasts. docs/schemas/forecast.openapi.json describes the interface.
package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"rmreplay/internal/experiment"
	"rmreplay/internal/forecast"
	"rmreplay/internal/forecast/capture"
	"rmreplay/internal/forecast/judge"
	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/wal"
)

// Options configure a service.
type Options struct {
	// Every is the time from one capture to the next.
	Every time.Duration
	// Keep is the largest age of starts that count in the quality of forecasts.
	Keep time.Duration
	// History is how far back finished jobs are read, and Timeout bounds each command of Slurm.
	History, Timeout time.Duration
	// Cluster is the cluster directory; if it is empty, the capture's cluster directory is used.
	Cluster string
	// Forecast says how forecasts are made. Its engine, learner and directory are ignored.
	Forecast forecast.Options
	// NewLearner makes the learner of a forecast; nil if the run times need no learner.
	NewLearner func() (forecast.Learner, error)
	// Questions is how many requests for an earlier start ([Service.Handler]: sooner) one user may
	// send in an hour.
	Questions int
	// Zone is the time zone of the instants on pages.
	Zone *time.Location
	// Version is the program's version.
	Version string
	// Say reports a message to the operator.
	Say func(format string, args ...any)

	capture func(ctx context.Context, dir string, opts capture.Options) error
	now     func() time.Time
}

// Service is an open forecast service. Run may be called only once. Other methods may be called at
// any time.
type Service struct {
	opts  Options
	dir   string
	state *wal.State
	torn  []wal.Torn

	mu    sync.Mutex // no forecast and no write to the disk happens under this lock
	known known
	judge *judge.Judge
	fault *Fault
	tally tally
	rows  *rows // the rows of the last forecast
	// forward has the queue of the last forecast. With it the service simulates the scheduler
	// again, for questions about an earlier start.
	forward forward
	quota   quota
	trying  chan struct{} // has an element while a request for an earlier start is answered

	horizon time.Duration // horizon of the next forecast; only Run uses it
}

// known is the service's data from its last capture.
type known struct {
	Round *Round `json:"round,omitempty"`
	Tries []Try  `json:"tries,omitempty"`
}

// saved is the state in a snapshot.
type saved struct {
	known
	Judge judge.State `json:"judge"`
}

// Round is a capture and its forecast.
type Round struct {
	Report *forecast.Report `json:"report"`
	// Started has the running jobs, and the starts of ended jobs that were forecast before.
	Started []Started `json:"started"`
	// Private says that the site hides jobs from other users than their owners.
	Private bool `json:"private,omitempty"`
	// Captured and Took are how long the capture and the forecast took, in seconds.
	Captured float64 `json:"capture_s"`
	Took     float64 `json:"forecast_s"`
}

// Started is a job that has started.
type Started struct {
	Job       string    `json:"job"`
	Task      int       `json:"task"` // -1 for a job that is not an array
	User      string    `json:"user,omitempty"`
	Partition string    `json:"partition,omitempty"`
	Start     time.Time `json:"start"`
	Running   bool      `json:"running,omitempty"`
}

// Fault says why there is no new forecast.
type Fault struct {
	Since time.Time `json:"since"`
	Text  string    `json:"text"`
	// failures is the number of failed turns since the last successful turn.
	failures int
}

// tally counts captures and forecasts since the service started.
type tally struct {
	made, failed   map[string]int
	captureSeconds float64 // time of the last capture, also of a failed capture
}

const (
	kind = "forecast"
	// perSnapshot is the number of rounds between two snapshots of the state.
	perSnapshot = 12
	captureName = "capture"
	freshName   = "capture.new"
	// occupancySpan is how far ahead the pages show the number of occupied nodes.
	occupancySpan = 48 * time.Hour
	temporary     = "rmreplay-forecast-*" // made by package forecast
)

// Open opens the directory of a service, which it makes if it does not exist.
func Open(dir string, opts Options) (*Service, error) {
	if opts.now == nil {
		opts.now = time.Now
	}
	if opts.capture == nil {
		opts.capture = capture.Run
	}
	state, snapshot, records, err := wal.OpenState(dir, kind)
	if err != nil {
		return nil, err
	}
	s := &Service{opts: opts, dir: dir, horizon: min(firstHorizon, opts.Forecast.Horizon), state: state,
		torn: state.Torn(), tally: tally{made: map[string]int{}, failed: map[string]int{}},
		quota: quota{}, trying: make(chan struct{}, 1)}
	if err := errors.Join(s.load(snapshot, records), s.tidy()); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the state directory %s: %w", dir, err), state.Close())
	}
	return s, nil
}

// load reads the state.
func (s *Service) load(snapshot []byte, records [][]byte) error {
	var from saved
	if snapshot != nil {
		if err := unpack(snapshot, &from); err != nil {
			return fmt.Errorf("the snapshot: %w", err)
		}
	}
	s.judge = judge.New(from.Judge, s.opts.Keep)
	s.adopt(from.known)
	for i, record := range records {
		var next known
		if err := unpack(record, &next); err != nil {
			return fmt.Errorf("record %d: %w", i+1, err)
		}
		if next.Round != nil {
			s.see(next.Round)
		}
		s.adopt(next)
	}
	return nil
}

// tidy removes the temporary files of a service that was killed.
func (s *Service) tidy() error {
	paths, err := filepath.Glob(filepath.Join(s.dir, temporary))
	for _, path := range append(paths, filepath.Join(s.dir, freshName)) {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

// Torn returns the incomplete records that a crash left.
func (s *Service) Torn() []wal.Torn { return s.torn }

// Close saves the state and closes the directory.
func (s *Service) Close() error { return errors.Join(s.snapshot(), s.state.Close()) }

// adopt replaces the present round and tries by the round and tries of next. If next has only one of the two, the
// service keeps its present value of the other.
func (s *Service) adopt(next known) {
	if next.Round != nil {
		s.known.Round, s.rows = next.Round, newRows(next.Round)
	}
	if next.Tries != nil {
		s.known.Tries = next.Tries
	}
}

// see passes a round to the judge.
func (s *Service) see(r *Round) {
	starts := make(map[forecast.Key]hpc.Time, len(r.Started))
	for i := range r.Started {
		one := &r.Started[i]
		starts[forecast.Key{Job: one.Job, Task: one.Task}] = hpc.Time(one.Start.UnixNano())
	}
	pending := make([]judge.Pending, len(r.Report.Jobs))
	for i := range r.Report.Jobs {
		w := &r.Report.Jobs[i]
		pending[i] = judge.Pending{Key: keyOf(w), Partition: w.Partition, Forecast: judged(r.Report, w)}
	}
	s.judge.See(hpc.Time(r.Report.At.UnixNano()), starts, pending)
}

// judged returns a report's forecast of a job for the judge.
func judged(r *forecast.Report, w *forecast.Waiting) judge.Forecast {
	quantile := func(name string, t *time.Time) hpc.Time {
		switch {
		case t != nil:
			return hpc.Time(t.UnixNano())
		case slices.Contains(w.Beyond, name):
			return forecast.Later
		}
		return hpc.Never
	}
	f := judge.Forecast{At: hpc.Time(r.At.UnixNano()), P10: quantile("p10", w.P10), P50: quantile("p50", w.P50),
		P90: quantile("p90", w.P90)}
	if r.Horizon != nil {
		f.Horizon = hpc.Time(r.Horizon.UnixNano())
	}
	if w.Slurm != nil {
		f.Slurm = hpc.Time(w.Slurm.UnixNano())
	}
	return f
}

// Run makes forecasts until the context ends.
func (s *Service) Run(ctx context.Context) {
	rounds := 0
	for {
		began := s.opts.now()
		err := s.turn(ctx)
		if ctx.Err() != nil {
			return
		}
		s.report(err)
		if err == nil {
			if rounds++; rounds%perSnapshot == 0 {
				if err := s.snapshot(); err != nil {
					s.opts.Say("rmreplay: saving the state: %v", err)
				}
			}
		}
		timer := time.NewTimer(s.pause(s.opts.now().Sub(began)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// The service queries Slurm at most a tenth of the time. While Slurm does not answer, the pauses between attempts
// grow.
const (
	captureShare = 10
	maxDoublings = 3
)

// pause returns how long to wait after a turn that took some time.
func (s *Service) pause(took time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	every := s.opts.Every
	if s.fault != nil {
		every <<= min(s.fault.failures-1, maxDoublings)
	}
	asked := time.Duration(s.tally.captureSeconds * float64(time.Second))
	return max(every-took, (captureShare-1)*asked, every/20)
}

// report stores and reports the result of a turn.
func (s *Service) report(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		if s.fault != nil {
			s.opts.Say("rmreplay: there is a new forecast again, the first since %s",
				s.fault.Since.Format(time.RFC3339))
		}
		s.fault = nil
		return
	}
	if s.fault == nil {
		s.fault = &Fault{Since: s.opts.now().UTC().Truncate(time.Second)}
	}
	what := "there is no new forecast"
	var command *capture.CommandError
	if errors.As(err, &command) {
		what = "slurmctld does not answer"
	}
	text := fmt.Sprintf("%s since %s: %v", what, s.fault.Since.Format(time.RFC3339), err)
	if text != s.fault.Text {
		s.opts.Say("rmreplay: %s", text)
	}
	s.fault.Text = text
	s.fault.failures++
}

// turn captures the cluster and makes a forecast.
func (s *Service) turn(ctx context.Context) error {
	began := s.opts.now()
	fresh := filepath.Join(s.dir, freshName)
	defer func() { _ = os.RemoveAll(fresh) }() // the new capture still exists if it did not replace the last capture
	last := filepath.Join(s.dir, captureName)
	err := s.capture(ctx, fresh, last)
	s.count("capture", err)
	s.mu.Lock()
	s.tally.captureSeconds = s.opts.now().Sub(began).Seconds()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(last), os.Rename(fresh, last)); err != nil {
		return fmt.Errorf("storing the capture: %w", err)
	}
	q, how, err := s.prepare(last)
	if err == nil {
		err = s.round(ctx, last, q, how, began)
	}
	s.count("forecast", err)
	if err == nil {
		how.Horizon = s.horizon
		err = s.tries(ctx, q, how, began)
	}
	return err
}

func (s *Service) count(what string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tally.made[what]++
	if err != nil {
		s.tally.failed[what]++
	}
}

// capture captures the cluster within the time that a turn may take.
func (s *Service) capture(ctx context.Context, dir, last string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.opts.Every, fmt.Errorf("the capture takes longer than %s",
		s.opts.Every))
	defer cancel()
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("capturing a cluster: %w", err)
	}
	err := s.opts.capture(ctx, dir, capture.Options{History: s.opts.History, Earlier: last, Timeout: min(s.opts.Timeout,
		s.opts.Every),
		Now: s.opts.now()})
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	return err
}

// prepare reads a capture, and returns the options for its forecast.
func (s *Service) prepare(dir string) (q *forecast.Queue, how forecast.Options, err error) {
	if q, err = capture.Read(dir); err != nil {
		return nil, how, err
	}
	cluster := s.opts.Cluster
	if cluster == "" {
		cluster = capture.Cluster(dir)
	}
	if cluster == "" {
		return nil, how, fmt.Errorf("the site's configuration is not known: %s (want --cluster DIR, the directory of a "+
			"slurm.conf)",
			strings.Join(q.Notes, "; "))
	}
	if err := q.UseCluster(cluster); err != nil {
		return nil, how, err
	}
	how = s.opts.Forecast
	how.Occupancy = occupancySpan
	how.Dir = s.dir
	how.Engine = experiment.Spec{
		Simulator: &experiment.Simulator{Policy: experiment.SlurmPolicy, Cluster: cluster}, Version: s.opts.Version,
	}
	return q, how, nil
}

// learner adds a new learner without jobs to options, so that the forecast learns the history of the
// queue exactly once.
func (s *Service) learner(how forecast.Options) (forecast.Options, error) {
	if s.opts.NewLearner == nil {
		return how, nil
	}
	learner, err := s.opts.NewLearner()
	how.Learner = learner
	return how, err
}

// round makes the forecast of a queue, and stores it.
func (s *Service) round(ctx context.Context, dir string, q *forecast.Queue, how forecast.Options,
	began time.Time) error {
	captured := s.opts.now()
	private, err := capture.Private(dir)
	if err != nil {
		return err
	}
	report, err := s.forecast(ctx, q, how)
	if err != nil {
		return err
	}
	r := &Round{Report: report, Private: private, Captured: captured.Sub(began).Seconds()}
	for i := range report.Jobs {
		canonical(&report.Jobs[i])
	}
	s.mu.Lock()
	r.Started = s.started(q)
	s.mu.Unlock()
	r.Took = s.opts.now().Sub(captured).Seconds()
	if err := s.keep(known{Round: r}); err != nil {
		return err
	}
	if report.Horizon != nil {
		how.Horizon = report.Horizon.Sub(report.At)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forward = forward{queue: q, how: how, answers: map[string]*Sooner{}}
	return nil
}

// The first horizon is short, so that there is an answer soon. A horizon grows at most by the
// factor growth in a turn, and minHorizon is the shortest horizon.
const (
	firstHorizon = time.Hour
	minHorizon   = 10 * time.Minute
	growth       = 8
)

// forecast makes a forecast that takes about half of the time of a turn. The horizon of the forecast is as long as that
// time allows, and at most the horizon of the options.
func (s *Service) forecast(ctx context.Context, q *forecast.Queue, how forecast.Options) (*forecast.Report, error) {
	longest, budget := how.Horizon, s.opts.Every/2
	for {
		began := s.opts.now()
		report, err := s.lookAhead(ctx, q, how)
		took := s.opts.now().Sub(began)
		if err != nil {
			return nil, err
		}
		fits := time.Duration(float64(s.horizon) * min(budget.Seconds()/max(took.Seconds(), 0.001), growth))
		next := min(max(fits, minHorizon), longest)
		again := next > s.horizon && took*2*growth < budget
		if next < longest {
			report.Notes = append(slices.Clip(report.Notes), fmt.Sprintf("the forecast looks %s ahead, because a longer one "+
				"takes more "+
				"than half of the time between captures", slurmspec.FormatSpan(s.horizon)))
		}
		if s.horizon = next; !again {
			return report, nil
		}
	}
}

// lookAhead makes a forecast up to the horizon. A forecast that takes longer than a turn is cancelled, and the next
// forecast has a shorter horizon.
func (s *Service) lookAhead(ctx context.Context, q *forecast.Queue, how forecast.Options) (*forecast.Report, error) {
	how, err := s.learner(how)
	if err != nil {
		return nil, err
	}
	how.Horizon = s.horizon
	turn, cancel := context.WithTimeout(ctx, s.opts.Every)
	defer cancel()
	report, err := forecast.NewReport(turn, "the live cluster", q, nil, 0, how)
	if err != nil && ctx.Err() == nil && turn.Err() != nil {
		s.horizon = max(s.horizon/4, minHorizon)
		return nil, fmt.Errorf("a forecast %s ahead takes longer than %s (the next one looks %s ahead; want fewer "+
			"--realizations, or "+
			"a longer --every)", slurmspec.FormatSpan(how.Horizon), s.opts.Every, slurmspec.FormatSpan(s.horizon))
	}
	return report, err
}

// keep writes new data to the disk before the service answers with them.
func (s *Service) keep(next known) error {
	record, err := pack(next)
	if err == nil {
		err = s.state.Append(record)
	}
	if err != nil {
		return fmt.Errorf("storing the forecast: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if next.Round != nil {
		s.see(next.Round)
	}
	s.adopt(next)
	return nil
}

// snapshot saves the whole state.
func (s *Service) snapshot() error {
	s.mu.Lock()
	text, err := pack(saved{s.known, s.judge.State()})
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.state.Snapshot(text)
}

// started returns the running jobs of a queue, and the starts of ended jobs that were forecast before.
func (s *Service) started(q *forecast.Queue) []Started {
	list := []Started{}
	running := map[forecast.Key]bool{}
	for _, job := range q.Workload.Jobs.All() {
		if q.Workload.Preset(job) {
			key := canonicalKey(forecast.Key{Job: job.ID, Task: -1})
			running[key] = true
			list = append(list, Started{key.Job, key.Task, job.User, job.Partition, job.Recorded.Start.Std(), true})
		}
	}
	for i := range q.History.List {
		c := &q.History.List[i]
		key := canonicalKey(forecast.Key{Job: c.ID, Task: -1})
		if c.Start != 0 && !running[key] && s.judge.Waits(key) {
			list = append(list, Started{key.Job, key.Task, c.Request.User, c.Request.Partition, c.Start.Std(), false})
		}
	}
	return list
}
