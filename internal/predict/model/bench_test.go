package model

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"rmreplay/internal/predict"
	"rmreplay/internal/predict/features"
	"rmreplay/internal/predict/trees"
)

// BenchmarkPredict predicts one job with the boosted model: want less than 100 µs.
func BenchmarkPredict(b *testing.B) {
	list := cases(b, log(3000, 1)).List
	online := NewOnline(Options{Kind: Boost, Growth: 1})
	if err := predict.Play(b.Context(), list, online, nil); err != nil {
		b.Fatal(err)
	}
	s := list[len(list)-1].Submission
	b.ReportAllocs()
	for b.Loop() {
		online.Predict(s)
	}
}

// BenchmarkTrainMillion trains the boosted model once on a million jobs with all features: want
// less than 60 s.
func BenchmarkTrainMillion(b *testing.B) {
	const n = 1000000
	rng := rand.New(rand.NewPCG(1, 1))
	table := &trees.Table{Width: features.Count, X: make([]float32, n*features.Count), Y: make([]float64, n)}
	for i := range table.X {
		table.X[i] = rng.Float32()
	}
	for i := range table.Y {
		x := table.Row(i)
		table.Y[i] = math.Exp(8*float64(x[0]*x[20]) + float64(x[5]) + rng.NormFloat64())
	}
	for b.Loop() {
		if _, err := fit(Boost, table, 1); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFile writes a model with its history: its size is the metric, want less than 20 MB.
func BenchmarkFile(b *testing.B) {
	m, err := Train(b.Context(), cases(b, log(20000, 1)), TrainOptions{Kind: Boost})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		var file bytes.Buffer
		if err := m.Write(&file); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(file.Len()), "bytes/model")
	}
}
