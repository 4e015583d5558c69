package forecast

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/experiment"
	"rmreplay/internal/run"
)

// courseOf returns a course whose manifest has a specification.
func courseOf(engine, version, spec string) *Course {
	c := &Course{Dir: "run", Manifest: run.Manifest{Engine: engine, Spec: []byte(spec)}}
	c.Manifest.Versions.Slurm, c.Manifest.Cluster.Nodes = version, 8
	return c
}

// TestEngineOf checks that a forecast uses the options of the run that change scheduling, or names the
// options that it does not use.
func TestEngineOf(t *testing.T) {
	c := courseOf("slurm", "19.05.1", `{"workload":"/w","slurm":{"cluster":"/c","lead_ns":120000000000,"site_slurm":"22.05","launch_delay":"2s",
		"epilog_delay":"3s","io_schedule":"aware","without_accounting":true,"node_factor":2,"clock_factor":2},
		"fixed_priorities":true,"feedback":"none","performance":1,"seed":1,"drain_limit_ns":1}`)
	spec, err := EngineOf(c, experiment.Spec{}, true)
	if err != nil {
		t.Fatal(err)
	}
	want := &experiment.Slurm{
		Cluster: "/c", Installation: "19.05", ClockFactor: 2, Lead: 2 * time.Minute, SiteSlurm: "22.05", LaunchDelay: "2s", EpilogDelay: "3s",
		IOSchedule: "aware", WithoutAccounting: true,
	}
	if diff := cmp.Diff(want, spec.Slurm); diff != "" {
		t.Error(diff)
	}
	if spec, err = EngineOf(c, experiment.Spec{}, false); err != nil || spec.Slurm.Lead != 0 {
		t.Errorf("in a window: %+v %v", spec.Slurm, err)
	}
	notes := strings.Join(Unplayed(c, &spec), "\n")
	if strings.Count(notes, "\n") != 1 || !strings.Contains(notes, "--fixed-priorities") || !strings.Contains(notes, "--nodes") {
		t.Errorf("%q", notes)
	}
	c.Manifest.Versions.Slurm = "24.11.5"
	spec, err = EngineOf(c, experiment.Spec{}, true)
	model := OnModel(c, spec, "")
	if err != nil || model.Slurm != nil || model.Simulator.Release != "24.11" || model.Simulator.Cluster != "/c" ||
		model.Simulator.Lead != 2*time.Minute || EngineName(&model) != "model of Slurm 24.11" || !LikeSlurm(&model) {
		t.Errorf("on the model: %+v %v", model.Simulator, err)
	}
	if notes := strings.Join(Unplayed(c, &model), "\n"); strings.Count(notes, "\n") != 6 || !strings.Contains(notes, "--epilog-delay, which the model") {
		t.Errorf("on the model: %q", notes)
	}
	c = courseOf("sim", "", `{"workload":"/w","simulator":{"policy":"slurm","ties":"ends-first","cluster":"/c","release":"26.05","lead_ns":60000000000},
		"feedback":"none","performance":1,"seed":1,"drain_limit_ns":1}`)
	if spec, err = EngineOf(c, experiment.Spec{}, true); err != nil || spec.Simulator.Release != "26.05" || spec.Simulator.Lead != time.Minute ||
		OnModel(c, spec, "").Simulator != spec.Simulator {
		t.Errorf("of a run of the model: %+v %v", spec.Simulator, err)
	}
	c = courseOf("sim", "", `{"workload":"/w","simulator":{"policy":"easy","ties":"arrivals-first","nodes":8},"feedback":"fluid","performance":1,"seed":1,"drain_limit_ns":1}`)
	if spec, err = EngineOf(c, experiment.Spec{}, false); err != nil || spec.Simulator.Ties != "arrivals-first" || spec.Simulator.Nodes != 8 || len(Unplayed(c, &spec)) != 1 {
		t.Errorf("%+v %v %q", spec.Simulator, err, Unplayed(c, &spec))
	}
	c.Manifest.Spec = nil
	if _, err = EngineOf(c, experiment.Spec{}, false); !errors.Is(err, experiment.ErrNoSpec) {
		t.Errorf("without a specification: %v", err)
	}
}

func TestPriorities(t *testing.T) {
	for text, want := range map[string]bool{"": false, "PriorityType=priority/multifactor\n": true, "PriorityType=priority/basic\n": false} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "slurm.conf"), []byte(text+"ClusterName=c\nSlurmctldHost=h\nNodeName=n1 CPUs=4\nPartitionName=main Nodes=n1 Default=YES\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := Priorities(dir); (got != "") != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
