package ioservice

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"rmreplay/internal/hpc"
)

// stateVersion is the version of the saved state's format.
const stateVersion = 1

// maxRecent is the number of processed jobs in the state. The state also has the newest probes:
// between maxRecent and 2*maxRecent probes, if so many exist.
const maxRecent = 10_000

// state has everything that must survive a crash.
type state struct {
	Version   int                 `json:"version"`
	Accepted  uint64              `json:"accepted"`
	Processed uint64              `json:"processed"`
	GivenUp   uint64              `json:"given_up"`
	Forgotten uint64              `json:"forgotten"`
	Classes   map[string]*Class   `json:"classes"`
	Learned   map[string]hpc.Time `json:"learned"` // when each class last learned from a job
	Waiting   map[string]*waiting `json:"waiting"`
	Recent    []string            `json:"recent"` // keys of processed jobs with times, the oldest first
	Probes    []Probe             `json:"probes"` // the oldest first

	recent map[string]bool
}

// waiting is a job that waits to be processed. Number numbers the jobs in the order in which they
// were accepted.
type waiting struct {
	Job
	Due    hpc.Time `json:"due"`
	Number uint64   `json:"number"`
}

// done is a job whose processing has ended. Use is nil if the use was not found.
type done struct {
	Job
	Use *learned `json:"use,omitempty"`
}

// learned are the values that were added to a class's estimates, and the settings at that time.
// With them, restoring a state gives the same estimates even after a change of settings.
type learned struct {
	RunTime  float64 `json:"run_s"`
	Mean     float64 `json:"mean"`
	Variance float64 `json:"variance"`
	Decay    float64 `json:"decay"`
	Most     int     `json:"most_classes"`
}

// Probe is a measurement of how long a small access to one OST took.
type Probe struct {
	OST      int64    `json:"ost"`
	Start    hpc.Time `json:"start"`
	End      hpc.Time `json:"end"`
	Duration float64  `json:"duration_s"`
}

// record is one change of the state. Exactly one pointer is not nil.
type record struct {
	At    hpc.Time `json:"at"`
	Job   *waiting `json:"job,omitempty"`
	Done  *done    `json:"done,omitempty"`
	Probe *Probe   `json:"probe,omitempty"`
}

// keyOf returns a key of a run. After a requeue, a job has the same number but a different start.
func keyOf(job Job) string {
	return job.ID + " " + strconv.FormatInt(int64(job.Start), 10) + " " + strconv.FormatInt(int64(job.End), 10) + " " +
		job.Class
}

// processed reports whether a job with times was processed recently.
func (s *state) processed(job Job) bool { return s.recent[keyOf(job)] }

// knows reports whether a job waits to be processed, or was processed recently.
func (s *state) knows(job Job) bool { return s.Waiting[keyOf(job)] != nil || s.processed(job) }

// restore restores the state from a saved state and the records after it.
func (s *state) restore(saved []byte, records [][]byte) error {
	*s = state{Version: stateVersion}
	if len(saved) > 0 {
		if err := json.Unmarshal(saved, s); err != nil {
			return fmt.Errorf("reading the saved state: %w", err)
		}
		if s.Version != stateVersion {
			return fmt.Errorf("reading the saved state: version %d (want %d)", s.Version, stateVersion)
		}
	}
	if s.Classes == nil {
		s.Classes = map[string]*Class{}
	}
	if s.Waiting == nil {
		s.Waiting = map[string]*waiting{}
	}
	if s.Learned == nil {
		s.Learned = map[string]hpc.Time{}
	}
	s.recent = map[string]bool{}
	for _, key := range s.Recent {
		s.recent[key] = true
	}
	for i, text := range records {
		var r record
		err := json.Unmarshal(text, &r)
		if err == nil && r.Job == nil && r.Done == nil && r.Probe == nil {
			err = errors.New("it changes nothing")
		}
		if err != nil {
			return fmt.Errorf("reading record %d of the journal: %w", i+1, err)
		}
		s.apply(r)
	}
	return nil
}

// apply applies a record to the state.
func (s *state) apply(r record) {
	switch {
	case r.Job != nil:
		s.Accepted++
		r.Job.Number = s.Accepted
		s.Waiting[keyOf(r.Job.Job)] = r.Job
	case r.Done != nil:
		s.finish(r.At, r.Done)
	case r.Probe != nil:
		s.Probes = keepLast(append(s.Probes, *r.Probe))
	}
}

// finish ends a job's processing.
func (s *state) finish(at hpc.Time, d *done) {
	key := keyOf(d.Job)
	delete(s.Waiting, key)
	if d.Start != 0 && !s.recent[key] {
		s.recent[key] = true
		s.Recent = append(s.Recent, key)
		if len(s.Recent) > maxRecent {
			delete(s.recent, s.Recent[0])
			s.Recent = s.Recent[1:]
		}
	}
	if d.Use == nil {
		s.GivenUp++
		return
	}
	s.Processed++
	c := s.Classes[d.Class]
	if c == nil {
		if len(s.Classes) >= max(1, d.Use.Most) {
			s.forget()
		}
		c = &Class{ID: d.Class}
		s.Classes[d.Class] = c
	}
	if d.Name != "" {
		c.Name = d.Name
	}
	c.Jobs++
	c.Seconds = c.Seconds.Add(d.Use.RunTime, 0, d.Use.Decay)
	c.Rate = c.Rate.Add(d.Use.Mean, d.Use.Variance, d.Use.Decay)
	s.Learned[d.Class] = at
}

// forget removes the class that has not learned from a job for the longest time.
func (s *state) forget() {
	oldest := ""
	for id := range s.Classes {
		if oldest == "" || s.Learned[id] < s.Learned[oldest] || s.Learned[id] == s.Learned[oldest] && id < oldest {
			oldest = id
		}
	}
	delete(s.Classes, oldest)
	delete(s.Learned, oldest)
	s.Forgotten++
}

// keepLast shortens a list to its last maxRecent elements when the list has more than 2*maxRecent
// elements.
func keepLast[T any](list []T) []T {
	if len(list) > 2*maxRecent {
		return append([]T(nil), list[len(list)-maxRecent:]...)
	}
	return list
}
