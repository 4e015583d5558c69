// Package ioservice is the analytical service for scheduling with the file system as a resource. It
// learns from finished jobs, and predicts the I/O of each job class for schedulers.
//
// The rules, the protocol and the formulas come from the Slurm-LDMS project
// (github.com/algo74/py-sim-serv): Goponenko et al., "Workload-Adaptive Scheduling for Efficient
// Use of Parallel File Systems in HPC Clusters", 2024, DOI 10.1109/SCW63240.2024.00190.
//
// A [Service] is a state machine. It does not read clocks, files or connections: the caller passes
// each request with its instant to [Service.Handle], and calls [Service.Advance] at the instant
// that [Service.Next] returns. So the service works in real time and in virtual time. A [Log] makes
// the state survive a crash.
package ioservice

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/ioservice/counters"
)

// Config configures how the service counts and predicts. [DefaultConfig] has the values of the Slurm-LDMS project's
// service.
type Config struct {
	Licenses  float64 // licenses for the whole file system
	Bandwidth float64 // bandwidth of the file system, in bytes per second
	Decay     float64 // decay of the estimates: at least 0 and below 1
	// RateSigmas and TimeSigmas are how many standard deviations are added to the mean in
	// predictions of rates and of run times.
	RateSigmas, TimeSigmas float64
	// The service first requests a job's use from the sources Delay after the job's epilog. Then it
	// repeats the request every Retry, with Tries requests in total.
	Delay, Retry time.Duration
	Tries        int
	// The use of the file system is measured every MeasureEvery, over the last MeasureOver. A
	// measurement older than StaleAfter counts as 0.
	MeasureEvery, MeasureOver, StaleAfter time.Duration
	// Baseline makes the service answer that the use is 0 and that all classes are unknown. The
	// scheduler then works without knowledge of the file system.
	Baseline   bool
	MostJobs   int // highest number of jobs waiting to be processed
	MostClass  int // highest number of classes; a further class replaces the class whose last job is the oldest
	MostScript int // highest number of bytes of a script in a request
}

// DefaultConfig returns the values of the Slurm-LDMS project's service. The caller must set Bandwidth.
func DefaultConfig() Config {
	return Config{
		Licenses: 10000, Decay: 0.2, Delay: 20 * time.Second, Retry: 20 * time.Second, Tries: 3,
		MeasureEvery: 5 * time.Second, MeasureOver: 10 * time.Second, StaleAfter: time.Minute,
		MostJobs: 100_000, MostClass: 100_000, MostScript: 512 << 10,
	}
}

func (c *Config) check() error {
	switch {
	case !(c.Bandwidth > 0):
		return fmt.Errorf("bandwidth of the file system: %g bytes per second (want more than 0)", c.Bandwidth)
	case !(c.Licenses > 0):
		return fmt.Errorf("licenses: %g (want more than 0)", c.Licenses)
	case !(c.Decay >= 0 && c.Decay < 1):
		return fmt.Errorf("decay: %g (want 0 or more, and below 1)", c.Decay)
	case !(c.RateSigmas >= 0 && c.TimeSigmas >= 0):
		return fmt.Errorf("standard deviations to add to predictions: %g for rates, %g for run times (want 0 or more)",
			c.RateSigmas, c.TimeSigmas)
	case c.Tries < 1 || c.Delay < 0 || c.Retry <= 0 || c.MeasureEvery <= 0 || c.MeasureOver <= 0:
		return errors.New("tries, delays and intervals of measuring must be positive")
	}
	return nil
}

// Job is a finished job from which the service learns.
type Job struct {
	ID    string   `json:"id"`
	Class string   `json:"class"`
	Name  string   `json:"name,omitempty"` // name of the class, if known
	Start hpc.Time `json:"start,omitempty"`
	End   hpc.Time `json:"end,omitempty"` // 0 if unknown, like Start
	Nodes []string `json:"nodes,omitempty"`
}

// Source returns what jobs read and wrote, from nodes' counters, from profiles, or from a replay.
// The service does not call methods concurrently.
type Source interface {
	// Use returns the use of a finished job. found is false if the source does not have the job
	// yet.
	Use(job Job) (use counters.Use, found bool)
	// Rate returns the measured rate of the whole file system between two instants, in bytes per
	// second. The result known is false if there is no measurement.
	Rate(from, to hpc.Time) (rate float64, known bool)
}

// Log stores a record of each change of the state. The service calls Begin in the order of the
// changes. A record is durable when wait has returned without an error. After an error, Begin fails
// until Snapshot has replaced all records by a complete state. [rmreplay/internal/wal.State] is a
// Log.
type Log interface {
	Begin(record []byte) (wait func() error, err error)
	Snapshot(state []byte) error
}

// snapshotEvery is the number of records after which the complete state is saved.
const snapshotEvery = 20_000

// Service is the analytical service. Its methods are safe for concurrent use.
type Service struct {
	config  Config
	sources []Source
	log     Log

	advancing sync.Mutex // Advance holds this lock, and not mu, while it gets data from sources

	mu      sync.Mutex
	state   state
	tries   map[string]int // number of tries for each waiting job, by key
	due     map[string]hpc.Time
	names   map[string]string // names of classes of which no job has been processed yet
	records int               // number since the last snapshot
	written func() error      // waits for the last record
	unsaved bool              // a record could not be written, so the complete state must be saved

	nextMeasure, measured hpc.Time
	rate                  float64 // measured, bytes per second
	changed               uint64  // counts changes of classes
}

// New returns a service that continues from a saved state and the records after it; both may be
// nil. For each job, the first source that has the job is used. If log is nil, the state is lost at
// the end.
func New(config Config, sources []Source, log Log, saved []byte, records [][]byte) (*Service, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	s := &Service{config: config, sources: sources, log: log, tries: map[string]int{}, due: map[string]hpc.Time{},
		names: map[string]string{}}
	if err := s.state.restore(saved, records); err != nil {
		return nil, err
	}
	s.records = len(records)
	for key, w := range s.state.Waiting {
		s.due[key] = w.Due
	}
	return s, nil
}

// errBusy refuses jobs when too many wait.
var errBusy = errors.New("too many jobs wait to be processed")

// Finished accepts a finished job. The service learns from it later. When Finished returns without
// an error, the job is in the log. It ignores a job that already waits, and a job with times that
// was processed recently.
func (s *Service) Finished(now hpc.Time, job Job) error {
	s.mu.Lock()
	if s.state.knows(job) {
		written := s.written
		s.mu.Unlock()
		return s.sync(written)
	}
	if len(s.state.Waiting) >= s.config.MostJobs {
		s.mu.Unlock()
		return errBusy
	}
	if job.Name == "" {
		job.Name = s.names[job.Class]
	}
	r := record{At: now, Job: &waiting{Job: job, Due: now.Add(s.config.Delay)}}
	err := s.change(r)
	if err == nil {
		s.due[keyOf(job)] = r.Job.Due
	}
	written := s.written
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.sync(written)
}

// change writes a record and applies it to the state. The caller holds the lock.
func (s *Service) change(r record) error {
	if s.log != nil {
		text, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("writing the state: %w", err)
		}
		written, err := s.log.Begin(text)
		if err != nil {
			s.unsaved = true
			return fmt.Errorf("writing the state: %w", err)
		}
		s.written = written
	}
	s.records++
	s.state.apply(r)
	return nil
}

// sync waits for a record. If the record could not be written, the state has changes that the log
// lacks, and the next [Service.Advance] saves the whole state.
func (s *Service) sync(written func() error) error {
	if written == nil {
		return nil
	}
	if err := written(); err != nil {
		s.mu.Lock()
		s.unsaved = true
		s.mu.Unlock()
		return fmt.Errorf("writing the state: %w", err)
	}
	return nil
}

// Learn adds a finished job's use to the estimates at once. It is for jobs whose use the caller has
// computed. It does not wait until the record is on disk; [Service.Save] does.
func (s *Service) Learn(now hpc.Time, job Job, use counters.Use) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.processed(job) {
		return nil
	}
	if !sound(use) {
		return fmt.Errorf("job %s: %g bytes per second with variance %g in %v (want numbers from 0 up)", job.ID, use.Mean,
			use.Variance, use.RunTime)
	}
	return s.learn(now, job, &use)
}

// learn ends a job's processing. use is nil if no source has the job. The caller holds the lock.
func (s *Service) learn(now hpc.Time, job Job, use *counters.Use) error {
	r := record{At: now, Done: &done{Job: job}}
	if use != nil {
		r.Done.Use = &learned{
			RunTime: use.RunTime.Seconds(), Mean: use.Mean, Variance: use.Variance,
			Decay: s.config.Decay, Most: s.config.MostClass,
		}
	}
	if err := s.change(r); err != nil {
		return err
	}
	delete(s.due, keyOf(job))
	delete(s.tries, keyOf(job))
	s.changed++
	return nil
}

// Next returns the instant at which [Service.Advance] has something to do.
func (s *Service) Next() hpc.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.nextMeasure
	for _, due := range s.due {
		next = min(next, due)
	}
	return next
}

// Advance does everything that is due by now: it measures the use of the file system and learns
// from jobs.
func (s *Service) Advance(now hpc.Time) error {
	s.advancing.Lock()
	defer s.advancing.Unlock()
	if err := s.snapshot(snapshotEvery); err != nil {
		return err
	}
	s.measure(now)
	for _, job := range s.dueJobs(now) {
		use, found := s.use(job)
		if err := s.tried(now, job, use, found); err != nil {
			return err
		}
	}
	s.mu.Lock()
	written := s.written
	s.mu.Unlock()
	return s.sync(written)
}

// dueJobs returns the jobs that are due, ordered by their instants and then by the order in which they were accepted.
func (s *Service) dueJobs(now hpc.Time) []Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for key, due := range s.due {
		if due <= now {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(s.due[a], s.due[b]), cmp.Compare(s.state.Waiting[a].Number, s.state.Waiting[b].Number))
	})
	jobs := make([]Job, len(keys))
	for i, key := range keys {
		jobs[i] = s.state.Waiting[key].Job
	}
	return jobs
}

// use gets a job's use from the sources.
func (s *Service) use(job Job) (counters.Use, bool) {
	for _, source := range s.sources {
		if use, found := source.Use(job); found && sound(use) {
			return use, true
		}
	}
	return counters.Use{}, false
}

// sound reports whether the numbers of a use are finite and small enough for estimates.
func sound(use counters.Use) bool {
	const most = 1e30 // its square is still finite
	return use.RunTime >= 0 && use.Mean >= 0 && use.Mean < most && use.Variance >= 0 && use.Variance < most*most
}

// tried handles the result of a try: it ends the job's processing, or sets the instant of the next
// try.
func (s *Service) tried(now hpc.Time, job Job, use counters.Use, found bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := keyOf(job)
	switch {
	case found:
		return s.learn(now, job, &use)
	case s.tries[key]+1 >= s.config.Tries:
		return s.learn(now, job, nil)
	}
	s.tries[key]++
	s.due[key] = now.Add(s.config.Retry)
	return nil
}

// measure measures the use of the file system if that is due.
func (s *Service) measure(now hpc.Time) {
	s.mu.Lock()
	isDue := now >= s.nextMeasure
	if isDue {
		s.nextMeasure = now.Add(s.config.MeasureEvery)
	}
	s.mu.Unlock()
	if !isDue {
		return
	}
	for _, source := range s.sources {
		if rate, known := source.Rate(now.Add(-s.config.MeasureOver), now); known {
			s.mu.Lock()
			s.rate, s.measured = rate, now
			s.mu.Unlock()
			return
		}
	}
}

// Save writes the whole state to the log, so that the next start is quick.
func (s *Service) Save() error { return s.snapshot(1) }

// snapshot saves the state if at least this many records were written since the last snapshot.
func (s *Service) snapshot(records int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log == nil || s.records < records && !s.unsaved {
		return nil
	}
	text, err := json.Marshal(&s.state)
	if err == nil {
		err = s.log.Snapshot(text)
	}
	if err != nil {
		return fmt.Errorf("saving the state: %w", err)
	}
	s.records, s.written, s.unsaved = 0, nil, false
	return nil
}

// licenses converts a rate of the file system to licenses, rounded up.
func (s *Service) licenses(rate float64) int64 {
	return ceil(rate * s.config.Licenses / s.config.Bandwidth)
}

// Usage returns the measured use of the file system, in licenses.
func (s *Service) Usage(now hpc.Time) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.config.Baseline || s.measured == 0 || now.Sub(s.measured) > s.config.StaleAfter {
		return 0
	}
	return s.licenses(s.rate)
}

// Prediction is what is expected of a job of a class.
type Prediction struct {
	Minutes  int64 `json:"time_limit_min"`  // expected run time
	Licenses int64 `json:"lustre_licenses"` // expected use of the file system
}

// Predict returns the prediction for a class. The result known is false if the service has not
// learned from a job of the class.
func (s *Service) Predict(class string) (p Prediction, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.state.Classes[class]
	if c == nil || s.config.Baseline {
		return p, false
	}
	return s.prediction(c), true
}

func (s *Service) prediction(c *Class) Prediction {
	return Prediction{
		Minutes:  c.Seconds.Predict(s.config.TimeSigmas, 1.0/60),
		Licenses: c.Rate.Predict(s.config.RateSigmas, s.config.Licenses/s.config.Bandwidth),
	}
}

// Class is what the service has learned about a class.
type Class struct {
	ID      string   `json:"variety_id"`
	Name    string   `json:"name,omitempty"`
	Jobs    uint64   `json:"jobs"`
	Seconds Estimate `json:"run_time_s"`
	Rate    Estimate `json:"rate_bytes_per_s"`
}

// Forecast is a class with its prediction.
type Forecast struct {
	Class
	Prediction
}

// Classes returns all classes by their ID, with their predictions.
func (s *Service) Classes() []Forecast {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Forecast, 0, len(s.state.Classes))
	for _, id := range slices.Sorted(maps.Keys(s.state.Classes)) {
		c := s.state.Classes[id]
		list = append(list, Forecast{*c, s.prediction(c)})
	}
	return list
}

// Changes returns how many jobs the service has learned from or given up since its start.
func (s *Service) Changes() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Status describes the state of the service, for monitoring.
type Status struct {
	Accepted  uint64  `json:"accepted_jobs"`  // since the state was created
	Processed uint64  `json:"processed_jobs"` // jobs from which it has learned
	GivenUp   uint64  `json:"jobs_without_data"`
	Waiting   int     `json:"waiting_jobs"`
	Classes   int     `json:"classes"`
	Forgotten uint64  `json:"forgotten_classes"`
	Rate      float64 `json:"rate_bytes_per_s"` // measured
	Usage     int64   `json:"usage_licenses"`
}

// Status returns the state of the service.
func (s *Service) Status(now hpc.Time) Status {
	usage := s.Usage(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	return Status{
		Accepted: s.state.Accepted, Processed: s.state.Processed, GivenUp: s.state.GivenUp, Waiting: len(s.state.Waiting),
		Classes: len(s.state.Classes), Forgotten: s.state.Forgotten, Rate: s.rate, Usage: usage,
	}
}

// Probe stores a canary probe: a measurement of how long a small access to an OST took.
func (s *Service) Probe(now hpc.Time, p Probe) error {
	s.mu.Lock()
	err := s.change(record{At: now, Probe: &p})
	written := s.written
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.sync(written)
}

// Probes returns the mean duration of the probes that ran between two instants, in seconds, and
// their number. A probe is used if its middle is at most 10 s outside this time.
func (s *Service) Probes(from, to hpc.Time) (mean float64, number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.state.Probes {
		if middle := p.Start.Add(p.End.Sub(p.Start) / 2); middle >= from.Add(-probeMargin) && middle <= to.Add(probeMargin) {
			mean += p.Duration
			number++
		}
	}
	return mean / float64(max(1, number)), number
}

// probeMargin is how far the middle of a probe may be outside a job's time if the probe is used for the job. The
// Slurm-LDMS project calls it wiggle time.
const probeMargin = 10 * time.Second
