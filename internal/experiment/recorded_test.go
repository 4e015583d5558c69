package experiment

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/replay"
	"rmreplay/internal/run"
	"rmreplay/internal/workload/session"
)

// fill sets each field of a struct that is not set, so that the loss of a field is seen.
func fill(v any) {
	s := reflect.ValueOf(v).Elem()
	for i := range s.NumField() {
		f := s.Field(i)
		switch {
		case !f.IsZero():
		case f.Kind() == reflect.String:
			f.SetString("x")
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		case f.CanInt():
			f.SetInt(7)
		case f.CanUint():
			f.SetUint(9)
		case f.CanFloat():
			f.SetFloat(1.5)
		}
	}
}

// TestSpecOf writes specifications in which every field is set, and reads them back. The fields of the run's
// output are left out.
func TestSpecOf(t *testing.T) {
	systems := []hpc.FileSystem{{Name: "lustre", Bandwidth: 1, Limit: 2, Licenses: 3}}
	slurm := &Slurm{FileSystems: systems, Cluster: "/c", Installation: "24.11"}
	simulator := &Simulator{FileSystems: systems, Cluster: "/c", Policy: "easy-sjbf:predict=model:/m,extra=first"}
	fill(slurm)
	fill(simulator)
	for _, spec := range []Spec{{Slurm: slurm}, {Simulator: simulator}} {
		spec.Workload.Path = "/w"
		spec.Users = replay.Feedback{Model: replay.Fluid, Sessions: session.Default, Jitter: time.Second}
		fill(&spec)
		text, err := spec.recorded(spec.Seed)
		if err != nil {
			t.Fatal(err)
		}
		got, err := SpecOf("run", &run.Manifest{Spec: text})
		if err != nil {
			t.Fatal(err)
		}
		want := spec
		want.Workload.SHA256 = ""
		want.Output, want.Overwrite, want.Command, want.Version = "", false, nil, ""
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		_, err = SpecOf("run", &run.Manifest{Spec: []byte(strings.Replace(string(text), "{", `{"later":1,`, 1))})
		if err == nil || !strings.Contains(err.Error(), `run: reading how the run was made: json: unknown field "later"`) {
			t.Errorf("a key of a later version: %v", err)
		}
	}
}

// TestSpecPaths: the record has absolute paths in place of relative paths, and has the defaults.
func TestSpecPaths(t *testing.T) {
	t.Setenv("RMREPLAY_SLURM", "build")
	for _, spec := range []Spec{
		{Slurm: &Slurm{Cluster: "c"}}, {Simulator: &Simulator{Cluster: "c", Policy: "easy:predict=model:m"}}, {Simulator: &Simulator{}},
	} {
		spec.Workload.Path = "w"
		spec.complete()
		text, err := spec.recorded(5)
		if err != nil {
			t.Fatal(err)
		}
		got, err := SpecOf("run", &run.Manifest{Spec: text})
		if err != nil || got.Seed != 5 || got.Workload.Path != absolute("w") || got.DrainLimit != DefaultDrainLimit || got.Users.Model != replay.NoFeedback {
			t.Errorf("%+v %v", got, err)
		}
		switch {
		case got.Slurm != nil:
			if got.Slurm.Cluster != absolute("c") || got.Slurm.Installation != absolute("build") {
				t.Errorf("%+v", got.Slurm)
			}
		case spec.Simulator.Cluster != "":
			if got.Simulator.Cluster != absolute("c") || got.Simulator.Policy != "easy:predict=model:"+absolute("m") {
				t.Errorf("%+v", got.Simulator)
			}
		case got.Simulator.Policy != "easy" || got.Simulator.Ties != "ends-first" || filepath.IsAbs(got.Simulator.Cluster):
			t.Errorf("%+v", got.Simulator)
		}
	}
}
