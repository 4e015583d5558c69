package model

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/predict/features"
	"rmreplay/internal/predict/trees"
	"rmreplay/internal/workload"
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

// site makes the jobs of a large site: users, a few of whom submit most jobs, in bursts of like
// jobs. Each user has twenty programs, and gives every fifth burst a unique name.
func site(jobs, users int) *workload.Workload {
	rng := rand.New(rand.NewPCG(1, 2))
	popular := rand.NewZipf(rng, 1.2, 20, uint64(users-1))
	w := new(workload.Workload)
	at := hpc.Unix(1e9)
	for made := 0; made < jobs; {
		user, program, size := popular.Uint64(), rng.IntN(20), 1<<rng.IntN(8)
		name := fmt.Sprintf("app%d_%d", user, program)
		if rng.IntN(5) == 0 {
			name = fmt.Sprintf("%s_%d", name, made)
		}
		limit := time.Duration(1+rng.IntN(6)) * 4 * time.Hour
		mean := 4 + float64(user*7%50)/12 + float64(program%7)/3 + math.Log(float64(size))/4
		for range min(1+int(rng.ExpFloat64()*5), jobs-made) {
			at = at.Add(time.Duration(rng.ExpFloat64() * float64(time.Minute)))
			j := &hpc.Job{ID: strconv.Itoa(made), Submit: at}
			j.User, j.Account, j.Partition = fmt.Sprint("user", user), fmt.Sprint("account", user%100), fmt.Sprint("part", size%3)
			j.Tasks, j.Name, j.TimeLimit = size, name, limit
			j.RunTime = min(time.Duration(math.Exp(mean+0.7*rng.NormFloat64()))*time.Second, limit)
			start := at.Add(time.Duration(rng.ExpFloat64() * float64(time.Hour)))
			j.Recorded = &hpc.Recorded{Start: start, End: start.Add(j.RunTime), State: hpc.Completed}
			w.Jobs.Append(j)
			made++
		}
	}
	return w
}

// BenchmarkTrainJobs trains the boosted model on a million jobs of a large site, as `predict train` does, and
// writes its file: want less than 60 s and 20 MB.
func BenchmarkTrainJobs(b *testing.B) {
	all := cases(b, site(1000000, 5000))
	for b.Loop() {
		m, err := Train(b.Context(), all, TrainOptions{Kind: Boost})
		if err != nil {
			b.Fatal(err)
		}
		var file bytes.Buffer
		if err := m.Write(&file); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(file.Len()), "bytes/model")
		b.ReportMetric(float64(len(m.history)), "bytes/history")
	}
}

// BenchmarkTrainMillion fits the boosted model once to a million rows with all features: want less than
// 60 s.
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
