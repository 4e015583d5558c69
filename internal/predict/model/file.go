package model

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/predict/features"
	"rmreplay/internal/quantity"
	"rmreplay/internal/workload"
)

// Header describes a model and its training. It is the first line of the model's file.
type Header struct {
	Format  string `json:"format"`  // FormatName
	Version int    `json:"version"` // FormatVersion
	Kind    Kind   `json:"kind"`
	// Target is the quantity that the model predicts.
	Target  predict.Target `json:"target"`
	Program string         `json:"program"` // the version of the program that trained it
	Seed    uint64         `json:"seed"`
	// Window is the largest number of jobs for training: only the last jobs that ended are used.
	Window int  `json:"window_jobs"`
	Data   Data `json:"data"`
	// Scores are the scores for the last fifth of the jobs, on which the training was checked.
	Scores Check `json:"scores"`
	// Features are the names of the features that the model was trained on.
	Features []string `json:"features"`
}

// Data says which jobs a model was trained on.
type Data struct {
	Source string `json:"source"`
	// SHA256 is the hash of the submissions with their starts and ends. It does not depend on the
	// file's format and compression.
	SHA256 string `json:"sha256"`
	// From is the first submission. Until is the instant of the last events that the model used.
	From  string `json:"from"`
	Until string `json:"until"`
	Jobs  int    `json:"jobs"` // jobs that had ended
}

// Check has scores for the last fifth of the jobs, in the order of their ends, by a model that was
// trained on the first four fifths.
type Check struct {
	Jobs     int     `json:"jobs"`
	MAE      float64 `json:"mae"` // mean absolute error of the median, in the target's unit
	Coverage float64 `json:"coverage"`
}

const (
	// FormatName marks a file of this package.
	FormatName = "rmreplay model"
	// FormatVersion is the version that Read reads and Write writes.
	FormatVersion = 4
)

// Model is a trained model with the history that it was trained on.
type Model struct {
	Header
	until     hpc.Time
	fitted    *fitted
	conformal conformal
	mixture   mixture // every [Online] begins with a copy
	history   []byte  // as JSON: every [Online] begins with a copy
}

// body is the second line of the model's file.
type body struct {
	Model     *fitted         `json:"model"`
	Conformal conformal       `json:"conformal"`
	Mixture   mixture         `json:"mixture"`
	History   json.RawMessage `json:"history"`
}

// TrainOptions are the choices of [Train].
type TrainOptions struct {
	Kind Kind
	Seed uint64
	// Until is the instant of the training: later events are not used. 0 means the last end of a job.
	Until   hpc.Time
	Window  int
	Source  string
	Program string
}

// minJobs is the smallest number of ended jobs to train on.
const minJobs = 50

// Train trains a model on the jobs that ended by an instant. It returns the context's error. First a model is trained
// on the first four fifths of these jobs. The predictions of this model for the last fifth give the calibration and the
// scores. Then the returned model is trained on all of these jobs.
func Train(ctx context.Context, cases *predict.Cases, o TrainOptions) (*Model, error) {
	if !o.Kind.Trained() {
		return nil, fmt.Errorf("training a model: the model %s is not one that can be trained (want %s, %s or %s)",
			o.Kind, Linear, Forest, Boost)
	}
	if err := cases.Check(); err != nil {
		return nil, fmt.Errorf("training a model: %w", err)
	}
	list := cases.List
	if o.Until == 0 {
		for i := range list {
			o.Until = max(o.Until, list[i].End, list[i].At)
		}
	}
	until, _ := slices.BinarySearchFunc(list, o.Until+1, func(c predict.Case,
		t hpc.Time) int {
		return int(max(min(c.At-t, 1), -1))
	})
	list = list[:until]
	ended := 0
	for i := range list {
		if list[i].Observed() && list[i].End <= o.Until {
			ended++
		}
	}
	if ended < minJobs {
		return nil, fmt.Errorf("training a model: %d %s with a %s ended by %v (want at least %d)", ended,
			quantity.Plural(ended, "job", "jobs"),
			cases.Target.What(), o.Until, minJobs)
	}
	online := NewOnline(Options{Kind: o.Kind, Target: cases.Target, Seed: o.Seed, Window: o.Window,
		First: max(ended*4/5, 1)})
	online.table.Reserve(ended)
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup // of work that does not depend on the training
	defer group.Wait()
	defer cancel()
	var sum string
	group.Go(func() { sum = hash(list, o.Until) })
	described := newAhead()
	online.history = described
	var history []byte
	var err error
	group.Go(func() { history, err = described.play(ctx, list, o.Until, features.New(cases.Target)) })
	if err := predict.PlayUntil(ctx, list, o.Until, online); err != nil {
		return nil, err
	}
	check := online.check
	online.train(o.Until)
	group.Wait()
	if err := errors.Join(online.err, err); err != nil {
		return nil, fmt.Errorf("training a model: %w", err)
	}
	m := &Model{until: o.Until, fitted: online.fitted, conformal: online.conformal, mixture: online.mixture,
		history: history}
	m.Header = Header{
		Format: FormatName, Version: FormatVersion, Kind: o.Kind, Target: cmp.Or(cases.Target, predict.RunTime),
		Program: o.Program, Seed: o.Seed, Window: online.Window,
		Data:   Data{Source: o.Source, SHA256: sum, From: list[0].At.String(), Until: o.Until.String(), Jobs: ended},
		Scores: check.mean(), Features: features.Names(),
	}
	return m, nil
}

// hash returns the hash of those data of the cases that a training uses.
func hash(list []predict.Case, until hpc.Time) string {
	h := sha256.New()
	encoder := json.NewEncoder(h)
	for i := range list {
		c := list[i]
		c.Number = int64(i)
		if c.End > until {
			c.End, c.Used = 0, 0
		}
		if c.Start > until {
			c.Start = 0
		}
		if c.Gone > until {
			c.Gone = 0
		}
		if c.End == 0 && c.Gone == 0 { // at that instant the job waited or ran, so its final state was not known
			c.State = ""
		}
		_ = encoder.Encode(c) // cannot fail: a hash accepts all bytes, and a case has only numbers and text
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Write writes the model. Equal models give equal files.
func (m *Model) Write(w io.Writer) error {
	zip := gzip.NewWriter(w) // without a time
	zip.Comment = FormatName
	encoder := json.NewEncoder(zip)
	err := encoder.Encode(m.Header)
	if err == nil {
		err = encoder.Encode(body{m.fitted, m.conformal, m.mixture, m.history})
	}
	if err == nil {
		err = zip.Close()
	}
	if err != nil {
		return fmt.Errorf("writing a model: %w", err)
	}
	return nil
}

// IsModel reports whether a file that begins like this may be a model: a gzip file with the format's
// name as its comment.
func IsModel(head []byte) bool {
	const fixed = 10 // bytes of a gzip file's header before the comment (RFC 1952)
	return bytes.HasPrefix(head, []byte{0x1f, 0x8b}) && len(head) > fixed &&
		bytes.HasPrefix(head[fixed:], []byte(FormatName+"\x00"))
}

const (
	// maxHeader is the maximum length of the first line of a model's file, and maxBytes the maximum length of the rest.
	// Both maximums are in unpacked bytes.
	maxHeader = 64 << 10
	maxBytes  = 512 << 20
)

// Read reads a model. The parameter name is the name of the source in errors.
func Read(r io.Reader, name string) (*Model, error) {
	m, err := read(r)
	if err != nil {
		return nil, fmt.Errorf("reading a model: %s: %w", name, err)
	}
	return m, nil
}

var errNoModel = errors.New("not a model of rmreplay (want a file of rmreplay predict train)")

func read(r io.Reader) (*Model, error) {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return nil, errNoModel
	}
	text := bufio.NewReaderSize(zip, maxHeader)
	first, err := text.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull): // a line of this length is not a header
		return nil, errNoModel
	case err != nil && !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("the file is damaged: %w", err)
	}
	m := new(Model)
	if err := json.Unmarshal(first, &m.Header); err != nil || m.Format != FormatName {
		return nil, errNoModel
	}
	if m.Version != FormatVersion {
		return nil, fmt.Errorf("the model's file has version %d (want version %d: train the model again)", m.Version,
			FormatVersion)
	}
	if _, err := predict.ParseTarget(string(m.Target)); err != nil {
		return nil, fmt.Errorf("reading the model's target: %w", err)
	}
	if !slices.Equal(m.Features, features.Names()) {
		return nil, fmt.Errorf("rmreplay %s trained the model on different features (train it again)", m.Program)
	}
	if m.until, err = hpc.ParseDateTime(m.Data.Until); err != nil {
		return nil, fmt.Errorf("reading the end of the model's data: %w", err)
	}
	rest, err := io.ReadAll(io.LimitReader(text, maxBytes+1))
	switch {
	case len(rest) > maxBytes:
		return nil, fmt.Errorf("more than %d MiB unpacked", maxBytes>>20)
	case err != nil:
		return nil, fmt.Errorf("the file is damaged: %w", err)
	}
	var b body
	if err := json.Unmarshal(rest, &b); err != nil {
		return nil, fmt.Errorf("the file is damaged: %w", err)
	}
	if err := errors.Join(b.Model.check(m.Kind), b.Mixture.check()); err != nil {
		return nil, fmt.Errorf("the file is damaged: %w", err)
	}
	m.fitted, m.conformal, m.mixture, m.history = b.Model, b.Conformal, b.Mixture, b.History
	if err := json.Unmarshal(m.history, features.New(m.Target)); err != nil {
		return nil, fmt.Errorf("the file is damaged: its history: %w", err)
	}
	return m, nil
}

// check returns an error if a model that was read is damaged.
func (f *fitted) check(k Kind) error {
	width := features.Count
	switch {
	case f == nil:
		return errors.New("the file has no model")
	case f.Linear != nil && f.Forest != nil, f.Linear != nil && f.Boost != nil, f.Forest != nil && f.Boost != nil:
		return errors.New("the file has more than one model (want one)") // below, only the model of this kind is checked
	case k == Linear && f.Linear != nil:
		if len(f.Linear.Mean) != width || len(f.Linear.Weight) != width {
			return fmt.Errorf("the linear model does not have %d weights", width)
		}
		return nil
	case k == Forest && f.Forest != nil:
		return f.Forest.Check(width)
	case k == Boost && f.Boost != nil:
		for _, e := range f.Boost.all() {
			if err := e.Check(width); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("the file has no model of kind %s", k)
}

// Until returns the instant of the last events that the model used.
func (m *Model) Until() hpc.Time { return m.until }

// Before returns an error if the model's data do not end before a workload begins. The model would
// then have used events of the workload. A workload begins with its window, or with its first
// submission.
func (m *Model) Before(w *workload.Workload) error {
	begin := w.Start
	if begin == 0 && w.Jobs.Len() > 0 {
		begin = w.Jobs.Submit(0)
	}
	if w.Jobs.Len() > 0 && begin < m.until {
		return fmt.Errorf("the workload begins at %v, and the model's data go up to %v (want a later workload, "+
			"or a model that was trained with --until)", begin, m.until)
	}
	return nil
}

// Online returns a predictor that begins with the model and its history. The predictor adds later
// jobs to the history, but does not train the model again.
func (m *Model) Online() *Online {
	o := NewOnline(Options{Kind: m.Kind, Target: m.Target, Seed: m.Seed})
	o.fitted, o.conformal, o.trainings, o.trainedAt, o.final = m.fitted, m.conformal, 1, m.until, true
	o.mixture = m.mixture.clone()
	if err := json.Unmarshal(m.history, o.history); err != nil {
		panic(err) // Read has checked the history, or Train has made it
	}
	return o
}

// Describe describes a model in one line.
func (h *Header) Describe() string {
	from, _, _ := strings.Cut(h.Data.From, "T")
	until, _, _ := strings.Cut(h.Data.Until, "T")
	kind := string(h.Kind)
	if h.Target.Measured() {
		kind += " of " + h.Target.What()
	}
	return fmt.Sprintf("%s, trained on %d %s of %s from %s to %s", kind, h.Data.Jobs,
		quantity.Plural(h.Data.Jobs, "job", "jobs"), h.Data.Source, from, until)
}
