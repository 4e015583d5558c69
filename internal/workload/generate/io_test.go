package generate

import (
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

func TestTwoJobs(t *testing.T) {
	for _, c := range []struct {
		counts       []int
		write, sleep int
	}{{nil, 80, 400}, {[]int{10, 50}, 80, 400}, {[]int{15}, 120, 120}} {
		w, err := IO(IOOptions{Counts: c.counts, Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		write, sleep := 0, 0
		for _, j := range w.Jobs.All() {
			switch j.Name {
			case "job1":
				write++
				if v := j.Volume("lustre", j.RunTime); v < 16<<30 || v > 1.001*(16<<30) || j.TimeLimit != 50*time.Minute {
					t.Fatalf("job %s writes %v bytes, limit %v", j.ID, v, j.TimeLimit)
				}
			case "job6":
				sleep++
				if j.IO != nil || j.RunTime < 300*time.Second || j.RunTime > 305*time.Second || j.TimeLimit != 40*time.Minute {
					t.Fatalf("%+v", j)
				}
			}
		}
		if write != c.write || sleep != c.sleep || w.Jobs.Len() != write+sleep {
			t.Errorf("%v: %d write and %d sleep, want %d and %d", c.counts, write, sleep, c.write, c.sleep)
		}
	}
}

func TestSixJobs(t *testing.T) {
	w, err := IO(IOOptions{Set: "six-jobs", Cycles: 2, Counts: []int{3}, Declare: true, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	counts, licenses := map[string]int{}, map[string]string{}
	for _, j := range w.Jobs.All() {
		counts[j.Name]++
		licenses[j.Name] = j.Licenses
		if err := hpc.CheckPhases(j.IO); err != nil {
			t.Error(err)
		}
		if got := hpc.SpreadPhases(j.IO, j.RunTime); len(got) > 0 && j.Volume("lustre", j.RunTime) == 0 && j.Name != "job6" {
			t.Errorf("job %s writes nothing: %+v", j.Name, got)
		}
	}
	for _, c := range ioClasses {
		if counts[c.name] != 6 || (licenses[c.name] == "") != (c.volume == 0) {
			t.Errorf("%s: %d jobs with licenses %q, want 6", c.name, counts[c.name], licenses[c.name])
		}
	}
	if problems := workload.Validate(w, workload.Cluster{Nodes: 8}); len(problems) > 0 && problems[0].Severity == workload.Error {
		t.Error(problems[0])
	}
}

func TestIOIsSeeded(t *testing.T) {
	generated := func(seed uint64) *workload.Workload {
		w, err := IO(IOOptions{Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	if !generated(1).Jobs.Equal(generated(1).Jobs) || generated(1).Jobs.Equal(generated(2).Jobs) {
		t.Error("a seed must give one workload, and another seed another one")
	}
}

func TestIOErrors(t *testing.T) {
	for name, o := range map[string]IOOptions{
		"set": {Set: "seven-jobs"}, "counts": {Counts: []int{-1}}, "too many counts": {Counts: []int{1, 2, 3}},
		"no jobs": {Counts: []int{0}}, "cycles": {Cycles: -1}, "most": {Cycles: 1 << 40}, "rate": {Rate: -1},
		"file system": {FileSystem: hpc.FileSystem{Name: "a b"}},
	} {
		if _, err := IO(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestAddIO(t *testing.T) {
	w := &workload.Workload{}
	for i := range 2000 {
		w.Jobs.Append(&hpc.Job{ID: string(rune('a' + i)), Submit: hpc.Unix(int64(1 + 10*i)), Request: hpc.Request{
			Name: string(rune('a' + i%100)), User: "u", MinNodes: 1 + i%7,
		}, Behaviour: hpc.Behaviour{RunTime: time.Hour}})
	}
	if err := AddIO(w, MixOptions{Load: 0.7, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	volume, with := 0.0, 0
	for _, j := range w.Jobs.All() {
		if j.IO != nil {
			with++
		}
		volume += j.Volume("lustre", j.RunTime)
		if err := hpc.CheckPhases(j.IO); err != nil {
			t.Fatal(err)
		}
	}
	if load := volume / (19990 * 200 << 20); with < 400 || with > 1200 || volume/(19990*(200<<20)) < 0.69 || volume/(19990*(200<<20)) > 0.71 {
		t.Errorf("%d jobs with I/O, load %v; want about 800 and 0.7", with, load)
	}
	if err := AddIO(&workload.Workload{}, MixOptions{}); err == nil {
		t.Error("no jobs: no error")
	}
	if err := AddIO(w, MixOptions{Load: -1}); err == nil {
		t.Error("a negative load: no error")
	}
}
