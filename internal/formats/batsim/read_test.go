package batsim

import (
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

const sample = `{"description": "mine", "nb_res": 16,
 "jobs": [
  {"id": "a", "subtime": 10.5, "walltime": 100, "res": 4, "profile": "wait"},
  {"id": 2, "subtime": 0, "res": 16, "profile": 7, "extra_data": "{}"},
  {"id": "c", "subtime": 20, "walltime": -1, "res": 1, "profile": "twice"},
  {"id": "d", "subtime": 21, "walltime": 50, "res": 1, "profile": "compute"}],
 "profiles": {
  "wait": {"type": "DelayProfile", "delay": 20.25, "ret": 3}, "7": {"type": "delay", "delay": 5},
  "twice": {"type": "SequentialCompositionProfile", "repeat": 2, "seq": ["wait", "7"]},
  "compute": {"type": "ParallelTaskHomogeneousProfile", "cpu": 1e9, "com": 0}}}`

func TestRead(t *testing.T) {
	w, err := Format.Read(strings.NewReader(sample), "x", workload.ReadOptions{})
	if err != nil || w.Jobs.Len() != 4 || w.MachineProcessors != 16 {
		t.Fatalf("%+v, %v", w, err)
	}
	two, a, c, d := w.Jobs.At(0), w.Jobs.At(1), w.Jobs.At(2), w.Jobs.At(3)
	if two.ID != "2" || two.RunTime != 5*time.Second || two.Tasks != 16 || two.TimeLimit != 0 {
		t.Errorf("%+v", two)
	}
	if a.ID != "a" || a.Submit.Sub(w.Epoch) != 10500*time.Millisecond || a.TimeLimit != 100*time.Second || a.RunTime != 20250*time.Millisecond || a.ExitCode != 3 {
		t.Errorf("%+v", a)
	}
	if c.RunTime != 50500*time.Millisecond || d.RunTime != hpc.Unlimited || w.Rules[RuleNoProfile] != 1 {
		t.Errorf("%+v %+v %v", c, d, w.Rules)
	}
}

func TestDamaged(t *testing.T) {
	good := `{"id":"g","subtime":0,"res":1,"profile":"p"}`
	for job, rule := range map[string]string{
		`{"subtime":0,"res":1,"profile":"p"}`:             RuleNoRecord,
		`{"id":"x","subtime":-1,"res":1,"profile":"p"}`:   RuleNoRecord,
		`{"id":"x","subtime":0,"res":0,"profile":"p"}`:    RuleNoRecord,
		`{"id":"x","subtime":0,"res":1e99,"profile":"p"}`: RuleNoRecord,
		`{"id":"x","subtime":"a","res":1,"profile":"p"}`:  RuleNoRecord,
		`{"id":["x"],"subtime":0,"res":1,"profile":"p"}`:  RuleNoRecord,
		`7`:  RuleNoRecord,
		good: workload.RuleRenamed,
		`{"id":"x","subtime":0,"res":1,"profile":"loop"}`: RuleNoProfile,
		`{"id":"x","subtime":0,"res":1,"profile":"none"}`: RuleNoProfile,
	} {
		text := `{"nb_res":4,"profiles":{"p":{"type":"delay","delay":1},"none":null,"loop":{"type":"composed","seq":["loop"]}},"jobs":[` + good + "," + job + "]}"
		w, err := Read(strings.NewReader(text), "x", workload.ReadOptions{})
		if err != nil || w.Rules[rule] != 1 {
			t.Errorf("%s: %+v, %v", job, w, err)
		}
		if _, err := Read(strings.NewReader(text), "x", workload.ReadOptions{Strict: true}); err == nil || !strings.HasPrefix(err.Error(), "reading Batsim: x: job 2: ") {
			t.Errorf("%s, strict: %v", job, err)
		}
	}
	if _, err := Read(strings.NewReader(sample[:200]), "x", workload.ReadOptions{}); err == nil || !strings.HasPrefix(err.Error(), "reading Batsim: x: not a workload of Batsim: ") {
		t.Errorf("cut: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(sample)
	f.Fuzz(func(t *testing.T, text string) {
		w, err := Read(strings.NewReader(text), "fuzz", workload.ReadOptions{})
		if err != nil {
			return
		}
		if w.Rows.Lost() != 0 {
			t.Errorf("rows %+v, rules %v", w.Rows, w.Rules)
		}
		for _, job := range w.Jobs.All() {
			if job.Submit <= 0 || job.ID == "" || job.RunTime < 0 || job.TimeLimit < 0 || workload.CPUs(&job.Request) < 1 {
				t.Errorf("job %+v", job)
			}
		}
	})
}
