package forecast

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/experiment"
	"rmreplay/internal/run"
)

// TestEngineOf holds that a forecast has the flags of the run's command that change scheduling, or says that it
// has not.
func TestEngineOf(t *testing.T) {
	m := &run.Manifest{Engine: "slurm", Command: strings.Fields("rmreplay replay w --cluster c --lead=2m --site-slurm 22.05 --launch-delay=2s --epilog-delay 3s --no-accounting --fixed-priorities --nodes x2 --feedback none -o run")}
	m.Cluster.Dir, m.Versions.Slurm, m.Clock.Factor = "c", "19.05.1", 2
	spec, err := EngineOf(m, experiment.Spec{}, true)
	if err != nil {
		t.Fatal(err)
	}
	want := experiment.Slurm{
		Cluster: "c", Installation: "19.05", ClockFactor: 2, Lead: 2 * time.Minute, SiteSlurm: "22.05", LaunchDelay: "2s", EpilogDelay: "3s", WithoutAccounting: true,
	}
	if got := *spec.Slurm; got.Installation != want.Installation || got.Lead != want.Lead || got.SiteSlurm != want.SiteSlurm || got.LaunchDelay != want.LaunchDelay ||
		got.PrologDelay != "" || got.EpilogDelay != want.EpilogDelay || !got.WithoutAccounting || got.ClockFactor != 2 || got.Cluster != "c" {
		t.Errorf("%+v, want %+v", got, want)
	}
	if spec, err = EngineOf(m, experiment.Spec{}, false); err != nil || spec.Slurm.Lead != 0 {
		t.Errorf("in a window: %+v %v", spec.Slurm, err)
	}
	notes := Unplayed(m)
	if len(notes) != 2 || !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, "--fixed-priorities") }) || !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, "--nodes") }) {
		t.Errorf("%q", notes)
	}
	m = &run.Manifest{Engine: "sim", Policy: "easy", Command: strings.Fields("rmreplay simulate w --ties arrivals-first --nodes 8 --feedback rigid")}
	m.Cluster.Nodes = 8
	if spec, err = EngineOf(m, experiment.Spec{}, false); err != nil || spec.Simulator.Ties != "arrivals-first" || len(Unplayed(m)) != 1 {
		t.Errorf("%+v %v %q", spec.Simulator, err, Unplayed(m))
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
