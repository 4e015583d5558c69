package benefit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/experiment"
	"rmreplay/internal/hpc"
	"rmreplay/internal/replay"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// busy is a workload of four users in three weeks. All jobs have the same limit, and a job's name
// and user tell its run time.
func busy() *workload.Workload {
	rng := rand.New(rand.NewPCG(3, 4))
	w := &workload.Workload{Epoch: hpc.Unix(1e9), Source: "busy"}
	for i := range 400 {
		j := &hpc.Job{ID: fmt.Sprint(i), Submit: w.Epoch.Add(time.Duration(i) * time.Hour)}
		kind := rng.IntN(3)
		j.User, j.Name = fmt.Sprint("u", i%4), fmt.Sprint("n", kind)
		j.Tasks, j.TimeLimit = 1+rng.IntN(8), 10*24*time.Hour
		j.RunTime = time.Duration(100+40000*kind*(1+i%4)/4+rng.IntN(60)) * time.Second
		w.Jobs.Append(j)
	}
	return w
}

func options(t *testing.T, w *workload.Workload) Options {
	return Options{
		Spec: experiment.Spec{
			Workload: experiment.Workload{Path: "busy.jsonl", Value: w}, Simulator: &experiment.Simulator{Processors: 16}, Seed: 1,
			Output: t.TempDir(), Users: replay.Feedback{Model: replay.NoFeedback, Jitter: time.Minute},
		},
		Set: experiment.Set{Count: 3, Parallel: 2}, Quantile: 0.9,
	}
}

func TestRun(t *testing.T) {
	o := options(t, busy())
	c, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if c.Source != "busy.jsonl" || c.Jobs != 400 || c.Weeks != 3 || c.Realizations != 3 || len(c.Schedulers) != 7 || len(c.Contrasts) != 11 {
		t.Errorf("%+v", c)
	}
	for _, s := range c.Schedulers {
		if len(s.Slowdowns) != 3 || s.Slowdown < 1 || s.MaxWait < s.P99Wait || s.P99Wait < 0 {
			t.Errorf("%+v", s)
		}
		if killed := s.TimedOut > 0 && s.LostCoreHours > 0; killed != (s.Name == short) {
			t.Errorf("%s: %g jobs reached their limits, %g core-hours are lost", s.Name, s.TimedOut, s.LostCoreHours)
		}
	}
	if clairvoyant, planned := c.of(bound).Slowdown, c.of(sjbf).Slowdown; clairvoyant >= planned {
		t.Errorf("the bound is %g, the limits give %g", clairvoyant, planned)
	}
	if left, _ := os.ReadDir(o.Spec.Output); len(left) > 0 {
		t.Errorf("%d records stay", len(left))
	}
	o.Spec.Output, o.Keep = t.TempDir(), true
	again, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c.Render(), again.Render()); diff != "" {
		t.Errorf("the second time:\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(o.Spec.Output, "last-two", run.RealizationDir(3), "manifest.json")); err != nil {
		t.Error(err)
	}
}

func TestBadWorkloads(t *testing.T) {
	for want, change := range map[string]func(*hpc.Job){
		"no job has a time limit":     func(j *hpc.Job) { j.TimeLimit = 0 },
		"all jobs have the same user": func(j *hpc.Job) { j.User = "" },
	} {
		w := busy()
		for i := range w.Jobs.Len() {
			w.Jobs.Change(i, change)
		}
		if _, err := Run(t.Context(), options(t, w)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	o := options(t, new(workload.Workload))
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "the workload has no jobs") {
		t.Error(err)
	}
	o = options(t, busy())
	o.Set.Count = 1
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "1 realization has no spread") {
		t.Error(err)
	}
	o = options(t, busy())
	o.Model = filepath.Join(t.TempDir(), "absent")
	if _, err := Run(t.Context(), o); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, options(t, busy())); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// compared returns a comparison in which predictors have the given mean slowdowns, and time limits
// a mean of 100. The runs differ by noise. The parameter better is the number of weeks, of 40, in
// which predictors have a lower slowdown.
func compared(runs int, noise float64, better int, predictors ...float64) *Comparison {
	c := &Comparison{Realizations: runs, Schedulers: cast(&Options{Quantile: 0.9}), Seed: 1}
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range c.Schedulers {
		s := &c.Schedulers[i]
		s.Slowdown = 100
		if at := slices.Index([]string{"last-two", "learner", "model"}, s.Name); at >= 0 {
			s.Slowdown = predictors[at]
		}
		if s.Name == bound {
			s.Slowdown = 50
		}
		for range runs {
			s.Slowdowns = append(s.Slowdowns, s.Slowdown+noise*rng.NormFloat64())
		}
		s.weeks = map[int]*mean{}
		for week := range 40 {
			value := 100.0
			if s.Name != sjbf && s.Name != limits {
				value = 110
				if week < better {
					value = 80
				}
			}
			s.weeks[week] = &mean{value * float64(1+week), float64(1 + week)}
		}
	}
	c.judge()
	return c
}

func TestVerdict(t *testing.T) {
	for _, test := range []struct {
		name       string
		comparison *Comparison
		want       Outcome
		scheduler  string
	}{
		{"all agree", compared(10, 1, 36, 90, 80, 85), Helps, "learner"},
		{"weeks disagree", compared(10, 1, 14, 90, 80, 70), ThisLog, "model"},
		{"worse", compared(10, 1, 20, 120, 130, 140), Hurts, "last-two"},
		{"noise", compared(10, 60, 36, 99, 101, 100), Undecided, ""},
		{"one is worse", compared(10, 1, 20, 120, 100, 140), Undecided, "learner"},
		{"too few runs", compared(4, 1, 36, 90, 80, 85), Undecided, "learner"},
	} {
		v := test.comparison.Verdict
		if v.Outcome != test.want || test.scheduler != "" && v.Scheduler != test.scheduler {
			t.Errorf("%s: %+v", test.name, v)
		}
		if few := strings.Contains(v.Text, "too few"); few != (test.name == "too few runs") {
			t.Errorf("%s: %s", test.name, v.Text)
		}
		if strings.Contains(test.comparison.Render(), "NaN") {
			t.Errorf("%s:\n%s", test.name, test.comparison.Render())
		}
	}
	one := compared(10, 1, 30, 90, 80, 85).contrast("learner")
	typical := math.Expm1((30*math.Log(0.8) + 10*math.Log(1.1)) / 40)
	if math.Abs(one.Difference+0.2) > 0.02 || one.WeeksBetter != 30 || one.WeeksWorse != 10 || math.Abs(float64(one.TypicalWeek)-typical) > 1e-9 {
		t.Errorf("%+v, typical week %g", one, typical)
	}
}
