// Package batsim reads the workloads of the simulator Batsim.
//
// Source: Batsim's documentation, "Workload" (versions 3 to 5).
package batsim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/lines"
	"rmreplay/internal/workload"
)

// Format is Batsim's workload.
var Format = workload.Format{
	Name: "batsim", Doc: "a workload of the simulator Batsim (JSON)",
	Looks: "a workload of Batsim", Recognize: recognize, Read: Read,
}

// The rules that jobs may break. A job that breaks the first rule cannot be replayed.
const (
	RuleNoRecord  = "batsim_not_a_job"
	RuleNoProfile = "batsim_no_run_time" // its profile has no run time, so it runs until its time limit
)

// recognize accepts an object with jobs in Batsim's form.
func recognize(head []byte) workload.Confidence {
	line, _ := lines.First(head)
	if strings.HasPrefix(line, "{") && (bytes.Contains(head, []byte(`"subtime"`)) ||
		bytes.Contains(head, []byte(`"nb_res"`)) && bytes.Contains(head, []byte(`"profiles"`))) {
		return workload.Sure
	}
	return workload.No
}

// document is a workload.
type document struct {
	Resources json.RawMessage     `json:"nb_res"`
	Jobs      []json.RawMessage   `json:"jobs"`
	Profiles  map[string]*profile `json:"profiles"`
}

// job asks for resources, each of which is a machine of the simulated platform.
type job struct {
	ID        scalar   `json:"id"`
	Submit    float64  `json:"subtime"`
	Limit     *float64 `json:"walltime"`
	Resources float64  `json:"res"`
	Profile   scalar   `json:"profile"`
}

// profile says what a job does.
type profile struct {
	Type   string   `json:"type"`
	Delay  *float64 `json:"delay"`
	Return int      `json:"ret"`
	// The fields of a sequence:
	Sequence []scalar `json:"seq"`
	Parts    []scalar `json:"sequence"`
	Repeat   float64  `json:"repeat"`
	Times    float64  `json:"nb"` // before version 3
}

// scalar is a name, written as a text or as a number.
type scalar string

func (s *scalar) UnmarshalJSON(text []byte) error {
	var name string
	if err := json.Unmarshal(text, &name); err == nil {
		*s = scalar(name)
		return nil
	}
	var n json.Number
	if err := json.Unmarshal(text, &n); err != nil {
		return errors.New("not a name (want a text or a number)")
	}
	*s = scalar(n.String())
	return nil
}

// Read reads a workload. The parameter name is the source's name in errors, which have the form
// "reading Batsim: NAME: job N: what is wrong". Times count from the options' epoch. A job asks for
// as many tasks as it has resources.
func Read(r io.Reader, name string, opts workload.ReadOptions) (*workload.Workload, error) {
	w := &workload.Workload{Epoch: opts.EpochOrDefault(), Source: name}
	s := reader{w: w, book: workload.RuleBook{Strict: opts.Strict}, ids: make(map[string]bool),
		times: make(map[string]float64)}
	if err := s.read(r); err != nil {
		return nil, fmt.Errorf("reading Batsim: %s: %w", name, err)
	}
	return w, nil
}

type reader struct {
	w     *workload.Workload
	book  workload.RuleBook
	order workload.OrderCheck
	ids   map[string]bool
	doc   document
	times map[string]float64 // the run times of profiles, NaN if not known
}

func (s *reader) read(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(lines.UTF8(bytes.TrimPrefix(text, lines.ByteOrderMark))), &s.doc); err != nil {
		return fmt.Errorf("not a workload of Batsim: %w", err)
	}
	if n, err := strconv.Atoi(strings.Trim(string(s.doc.Resources), `"`)); err == nil && n > 0 && n <= math.MaxInt32 {
		s.w.MachineProcessors = n
	}
	for i, text := range s.doc.Jobs {
		job, err := s.job(text)
		if err != nil {
			if err := s.book.Fall(RuleNoRecord, "%v", err); err != nil {
				return fmt.Errorf("job %d: %w", i+1, err)
			}
			s.w.Unusable = append(s.w.Unusable, workload.Unusable{Record: i + 1, Rule: RuleNoRecord, Text: string(text)})
			continue
		}
		if err := s.add(job, i+1); err != nil {
			return fmt.Errorf("job %d: %w", i+1, err)
		}
	}
	s.w.Rows = workload.Rows{Read: len(s.doc.Jobs), Jobs: s.w.Jobs.Len(), Dropped: len(s.w.Unusable)}
	if s.w.Jobs.Len() == 0 {
		return fmt.Errorf("it has no usable job%s", s.book.Summary())
	}
	s.w.Rules, s.w.Mistake = s.book.Counts, s.book.Mistake()
	s.w.Sort()
	return nil
}

// maxSeconds bounds every time, so that sums cannot overflow.
const maxSeconds = 4e9

// job reads a job.
func (s *reader) job(text json.RawMessage) (*hpc.Job, error) {
	var j job
	if err := json.Unmarshal(text, &j); err != nil {
		return nil, fmt.Errorf("not a job: %w", err)
	}
	switch {
	case j.ID == "":
		return nil, errors.New("no id")
	case !(j.Submit >= 0 && j.Submit <= maxSeconds):
		return nil, fmt.Errorf("subtime %g: not a time (want seconds from 0 to %g)", j.Submit, float64(maxSeconds))
	case !(j.Resources >= 1 && j.Resources <= math.MaxInt32):
		return nil, fmt.Errorf("res %g: not a number of resources (want 1 or more)", j.Resources)
	}
	out := &hpc.Job{ID: string(j.ID), Submit: s.w.Epoch.Add(seconds(j.Submit))}
	out.Name, out.Tasks = string(j.ID), int(j.Resources)
	if j.Limit != nil && *j.Limit > 0 && *j.Limit <= maxSeconds {
		out.TimeLimit = seconds(*j.Limit)
	}
	out.RunTime = hpc.Unlimited
	if t := s.runTime(string(j.Profile), 0); !math.IsNaN(t) {
		out.RunTime = seconds(t)
		out.ExitCode = s.doc.Profiles[string(j.Profile)].Return & 0xff
	} else if err := s.book.Fall(RuleNoProfile, "profile %.60q does not say how long it runs (want one of type delay)",
		j.Profile); err != nil {
		return nil, err
	}
	return out, nil
}

func (s *reader) add(job *hpc.Job, number int) error {
	if s.ids[job.ID] {
		if err := s.book.Fall(workload.RuleRenamed, "the id %.60q occurs twice", job.ID); err != nil {
			return err
		}
		job.ID += "#" + strconv.Itoa(number)
	}
	s.ids[job.ID] = true
	if err := s.order.Job(&s.book, job.Submit); err != nil {
		return err
	}
	s.w.Jobs.Append(job)
	return nil
}

// maxDepth is the largest depth of sequences within sequences.
const maxDepth = 20

// runTime returns how long a profile runs, in seconds. Only delays and sequences of delays have a
// known run time. For all other profiles runTime returns NaN, because the time of their computing
// depends on the platform.
func (s *reader) runTime(name string, depth int) float64 {
	if t, known := s.times[name]; known {
		return t
	}
	p, t := s.doc.Profiles[name], math.NaN()
	switch {
	case p == nil || depth > maxDepth:
	case p.Delay != nil && (p.Type == "delay" || p.Type == "DelayProfile"):
		t = *p.Delay
	case p.Type == "composed" || p.Type == "SequentialCompositionProfile":
		t = 0
		for _, part := range append(p.Sequence, p.Parts...) {
			t += s.runTime(string(part), depth+1)
		}
		t *= max(p.Repeat, p.Times, 1)
	}
	if !(t >= 0 && t <= maxSeconds) {
		t = math.NaN()
	}
	s.times[name] = t
	return t
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
