package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/predict/features"
	"rmreplay/internal/predict/model"
)

// firstTraining equals [model.Options.First].
const firstTraining = 200

// recorder is a [predict.Predictor] that predicts nothing. It keeps the input of a model: the features of each
// job at its submission, the order in which run times become known, and when [model.Online] would be trained.
type recorder struct {
	history *features.History
	growth  float64
	x       []float32 // features.Count for each row
	rows    map[int64]int
	known   []int // rows, in the order in which their jobs ended
	answers map[int]float64
	// trainings has how many rows are known at each training, and how many had been submitted.
	trainings [][2]int
}

func newRecorder(growth float64) *recorder {
	return &recorder{
		history: features.New(predict.RunTime), growth: growth, rows: map[int64]int{}, answers: map[int]float64{},
	}
}

// Predict is [predict.Predictor.Predict].
func (*recorder) Predict(predict.Submission) predict.Prediction { return predict.Prediction{} }

// Submit is [predict.Predictor.Submit].
func (r *recorder) Submit(s predict.Submission) predict.Prediction {
	r.x = append(r.x, r.history.Vector(s, make([]float32, 0, features.Count))...)
	r.history.Submit(s)
	r.rows[s.Number] = len(r.rows)
	return predict.Prediction{}
}

// Start is [predict.Predictor.Start].
func (r *recorder) Start(number int64, at hpc.Time) { r.history.Start(number, at) }

// End is [predict.Predictor.End].
func (r *recorder) End(number int64, at hpc.Time, state hpc.State) {
	seconds, known := r.history.End(number, at, state)
	if !known {
		return
	}
	r.known = append(r.known, r.rows[number])
	r.answers[r.rows[number]] = seconds
	if n := len(r.trainings); n == 0 && len(r.known) >= firstTraining ||
		n > 0 && r.growth > 0 && float64(len(r.known)) >= (1+r.growth)*float64(r.trainings[n-1][0]) {
		r.trainings = append(r.trainings, [2]int{len(r.known), len(r.rows)})
	}
}

// write makes the files that peers.py reads.
func (r *recorder) write(dir string) error {
	text, err := json.Marshal(map[string]any{
		"rows": len(r.rows), "features": features.Count, "known": r.known, "trainings": r.trainings,
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "rows.json"), text, 0o600)
	}
	y := make([]float64, len(r.rows))
	for row := range y {
		if seconds, ok := r.answers[row]; ok {
			y[row] = seconds
		} else {
			y[row] = math.NaN()
		}
	}
	return errors.Join(err, numbers(filepath.Join(dir, "x"), r.x), numbers(filepath.Join(dir, "y"), y))
}

func numbers(path string, values any) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	return errors.Join(binary.Write(w, binary.LittleEndian, values), w.Flush(), f.Close())
}

// given returns the predictions in a file that peers.py wrote.
func (r *recorder) given(path string) (func(number int64) (predict.Prediction, bool), error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	quantiles := make([]float64, 3*len(r.rows))
	if err := binary.Read(bufio.NewReader(f), binary.LittleEndian, quantiles); err != nil {
		return nil, fmt.Errorf("reading %s: %w (want P10, P50 and P90 of %d rows)", path, err, len(r.rows))
	}
	if n, err := f.Read(make([]byte, 1)); n > 0 || err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading %s: more than P10, P50 and P90 of %d rows: %w", path, len(r.rows), err)
	}
	return func(number int64) (predict.Prediction, bool) {
		q := quantiles[3*r.rows[number]:]
		return predict.Prediction{P10: q[0], P50: q[1], P90: q[2]}, !math.IsNaN(q[1])
	}, nil
}

// timed measures the CPU time of a model's trainings, and of its submissions.
type timed struct {
	*model.Online
	training, submitting time.Duration
}

// Submit is [predict.Predictor.Submit].
func (t *timed) Submit(s predict.Submission) predict.Prediction {
	began := cpu()
	p := t.Online.Submit(s)
	t.submitting += cpu() - began
	return p
}

// End is [predict.Predictor.End].
func (t *timed) End(number int64, at hpc.Time, state hpc.State) {
	before, began := t.Trainings(), cpu()
	t.Online.End(number, at, state)
	if t.Trainings() > before {
		t.training += cpu() - began
	}
}

// cpu returns the CPU time of this process.
func cpu() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t) // every Linux has this clock
	return time.Duration(t.Nano())
}
