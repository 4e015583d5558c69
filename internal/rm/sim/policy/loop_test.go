package policy

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/predict/model"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/workload"
)

// crowded returns jobs of four users that compete for 16 processors. Run times depend on the user
// and the job's name, and time limits do not.
func crowded(n int) []*hpc.Job {
	rng := rand.New(rand.NewPCG(1, 2))
	var jobs []*hpc.Job
	for i := range n {
		j := &hpc.Job{ID: fmt.Sprint(i), Submit: epoch.Add(time.Duration(i) * 4 * time.Minute)}
		kind := rng.IntN(3)
		j.User, j.Name = fmt.Sprint("u", i%4), fmt.Sprint("n", kind)
		j.Tasks, j.TimeLimit = 1+rng.IntN(8), 24*time.Hour
		j.RunTime = time.Duration(100+3000*kind*(1+i%4)/4+rng.IntN(60)) * time.Second
		jobs = append(jobs, j)
	}
	return jobs
}

// loopStarts returns the starts and ends of jobs under a policy. trained is the model in every
// model's file.
func loopStarts(t *testing.T, spec string, trained *model.Model, jobs []*hpc.Job) (starts, ends map[string]hpc.Time) {
	t.Helper()
	made, _, err := NewWith(spec, func(string) (*model.Model, error) { return trained, nil })
	if err != nil {
		t.Fatal(err)
	}
	starts, ends = map[string]hpc.Time{}, map[string]hpc.Time{}
	play(t, sim.Config{Processors: 16, Policy: made}, jobs, func(ev rm.Event) {
		switch ev.Kind {
		case rm.Started:
			starts[ev.Job] = ev.At
		case rm.Ended:
			ends[ev.Job] = ev.At
		}
	})
	return starts, ends
}

// TestModelsInTheLoop plays jobs under predictions of models twice. The second time, jobs that run
// at a certain instant run twice as long, and jobs that start later run for a second. Until that
// instant, all starts must be the same, because a prediction does not know the run times of jobs
// that have not ended. With clairvoyance they differ, which shows that the test can fail.
func TestModelsInTheLoop(t *testing.T) {
	var before []*hpc.Job
	for _, j := range crowded(300) {
		j.Submit = j.Submit.Add(-30 * 24 * time.Hour)
		before = append(before, j)
	}
	w := new(workload.Workload)
	w.Jobs = workload.JobsOf(before...)
	cases, err := predict.CasesOf(w)
	if err != nil {
		t.Fatal(err)
	}
	trained, err := model.Train(t.Context(), cases, model.TrainOptions{Kind: model.Forest, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	limits, _ := loopStarts(t, "easy-sjbf", nil, crowded(700))
	for _, spec := range []string{"easy-sjbf:predict=class", "easy-sjbf:predict=forest", "easy:predict=boost", "easy-sjbf:predict=model:it", "easy-sjbf:predict=clairvoyant"} {
		starts, ends := loopStarts(t, spec, trained, crowded(700))
		if len(starts) != 700 || len(ends) != 700 {
			t.Errorf("%s: %d starts, %d ends", spec, len(starts), len(ends))
		}
		if again, _ := loopStarts(t, spec, trained, crowded(700)); !maps.Equal(starts, again) {
			t.Errorf("%s: another schedule the second time", spec)
		}
		if maps.Equal(starts, limits) {
			t.Errorf("%s: the predictions change nothing", spec)
		}
		at := starts["600"]
		changed := crowded(700)
		for _, j := range changed {
			switch {
			case starts[j.ID] > at:
				j.RunTime = time.Second
			case ends[j.ID] > at:
				j.RunTime *= 2
			}
		}
		other, _ := loopStarts(t, spec, trained, changed)
		same := true
		for id, start := range starts {
			same = same && (start > at || other[id] == start)
		}
		if leaks := strings.Contains(spec, "clairvoyant"); same == leaks {
			t.Errorf("%s: the starts before other futures are the same: %v", spec, same)
		}
	}
}

// TestModelFile checks the error for a model's file that cannot be read, and for a model's file if
// the caller reads no files.
func TestModelFile(t *testing.T) {
	unreadable := errors.New("unreadable")
	_, _, err := NewWith("easy-sjbf:predict=model:some/file,correct=doubling", func(file string) (*model.Model, error) {
		return nil, fmt.Errorf("%s: %w", file, unreadable)
	})
	if !errors.Is(err, unreadable) || !strings.Contains(err.Error(), "some/file: ") {
		t.Error(err)
	}
	if _, err := New("easy:predict=model:m"); err == nil || !strings.Contains(err.Error(), "m: a trained model is not possible here") {
		t.Error(err)
	}
	if _, err := New("easy:predict=model:"); err == nil || !strings.Contains(err.Error(), "model:FILE") {
		t.Error(err)
	}
	made, trained, err := NewWith("easy-sjbf:predict=model:m,predict=class", func(string) (*model.Model, error) { return nil, unreadable })
	if err != nil || made == nil || trained != nil {
		t.Error(err, trained)
	}
}
