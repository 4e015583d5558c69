package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rmreplay/internal/formats"
	"rmreplay/internal/predict"
	"rmreplay/internal/predict/evaluate"
	"rmreplay/internal/predict/model"
	"rmreplay/internal/workload"
)

// asPeer is an environment variable. If it is set, the test program acts as peers.py.
const asPeer = "RMREPLAY_TEST_PEER"

func TestMain(m *testing.M) {
	if os.Getenv(asPeer) != "" {
		if err := peer(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// peer acts as peers.py: lightgbm predicts the right answers after the first training, and the
// other models predict nothing.
func peer(dir, name string) error {
	text, err := os.ReadFile(filepath.Join(dir, "rows.json"))
	if err != nil {
		return err
	}
	var rows struct {
		Rows      int
		Trainings [][2]int
	}
	if err := json.Unmarshal(text, &rows); err != nil {
		return err
	}
	answers, err := os.ReadFile(filepath.Join(dir, "y"))
	if err != nil {
		return err
	}
	y := make([]float64, rows.Rows)
	if err := binary.Read(bytes.NewReader(answers), binary.LittleEndian, y); err != nil {
		return err
	}
	var out bytes.Buffer
	for i := range y {
		p := math.NaN()
		if name == "lightgbm" && i >= rows.Trainings[0][1] && !math.IsNaN(y[i]) {
			p = y[i]
		}
		if err := binary.Write(&out, binary.LittleEndian, []float64{p, p, p}); err != nil {
			return err
		}
	}
	fmt.Println(`{"training_s": 1, "prediction_s": 2}`)
	return os.WriteFile(filepath.Join(dir, name), out.Bytes(), 0o600)
}

// TestCompare checks that a peer's predictions are scored like the predictions of rmreplay's
// models. A peer that knows all answers errs only until the first training, and a peer that
// predicts nothing has the scores of last2.
func TestCompare(t *testing.T) {
	t.Setenv(asPeer, "1")
	log := filepath.Join(t.TempDir(), "A-LOG-1.swf")
	var b strings.Builder
	b.WriteString("; MaxProcs: 4\n; UnixStartTime: 1000000000\n")
	for i := range 1200 {
		fmt.Fprintf(&b, "%d %d -1 %d 1 -1 -1 1 5000 -1 1 %d 1 -1 -1 -1 -1 -1\n", i+1, 100*i, 50+i*i*7919%4000, i%5+1)
	}
	if err := os.WriteFile(log, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, progress bytes.Buffer
	if err := runTool(t.Context(), []string{"--python", os.Args[0], "--retrain-growth", "0.5", "--json", log}, &out, &progress); err != nil {
		t.Fatal(err)
	}
	var got struct{ Logs []*Log }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	l := got.Logs[0]
	scores := map[string]evaluate.Scores{}
	for _, m := range l.Models {
		scores[m.Model] = m.Scores
	}
	w, err := formats.OpenWith(log, workload.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cases, err := predict.CasesOf(w)
	if err != nil {
		t.Fatal(err)
	}
	e, err := evaluate.Run(t.Context(), log, cases, evaluate.Options{Models: []model.Kind{model.LastTwo, model.Boost}, Growth: 0.5, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if l.Trainings < 4 || l.Trainings != e.Models[1].Trainings {
		t.Errorf("%d trainings (want %d)", l.Trainings, e.Models[1].Trainings)
	}
	if scores["scikit-learn"] != e.Models[0].Scores {
		t.Errorf("without predictions: %+v (want those of last2: %+v)", scores["scikit-learn"], e.Models[0].Scores)
	}
	if scores["rmreplay boost"] != e.Models[1].Scores {
		t.Errorf("our model: %+v (want %+v)", scores["rmreplay boost"], e.Models[1].Scores)
	}
	if know := scores["lightgbm"]; know.MAE == 0 || know.MAE > 0.35*e.Models[0].Scores.MAE {
		t.Errorf("with all answers after the first training: MAE %g (want above 0, and much below %g)", know.MAE, e.Models[0].Scores.MAE)
	}
	var table bytes.Buffer
	if err := render(&table, got.Logs); err != nil || !strings.Contains(table.String(), "| A LOG, 1200 jobs, ") {
		t.Errorf("%v\n%s", err, table.String())
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"log", "--retrain-growth", "0"}, {"log", "--jobs", "-1"}, {"--nonsense"}} {
		var out bytes.Buffer
		if err := runTool(t.Context(), args, &out, &out); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
