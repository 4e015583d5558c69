package experiment

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/rmtest"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// TestModelScenarios plays workloads on small clusters with the model of Slurm's scheduler. It must give each
// job the start and the nodes that slurmctld gave it. The files of testdata/model have these directives:
//
//	cluster   the files of a cluster directory, each after a line "-- NAME --"
//	workload  the jobs; package rmtest describes the lines
//	replay    what a release of Slurm does, with slurm=RELEASE and seed=N: ID START NODES, in seconds
//
// Where the release is installed, Slurm is run again, too. Run the test with -rewrite to record its answers.
func TestModelScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/model", func(t *testing.T, path string) {
		var dir, lines string
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "cluster":
				dir = clusterOf(t, d.Input)
				return ""
			case "workload":
				lines = d.Input
				return ""
			case "replay":
				release, seed := "22.05", uint64(1)
				for _, a := range d.CmdArgs {
					switch a.Key {
					case "slurm":
						release = a.Vals[0]
					case "seed":
						n, err := strconv.ParseUint(a.Vals[0], 10, 64)
						if err != nil {
							d.Fatalf(t, "seed: %v", err)
						}
						seed = n
					}
				}
				want := d.Expected
				if in, missing := install.FindSlurm(release); missing == nil && in.Need(true) == nil && !testing.Short() {
					want = playScenario(t, dir, lines, Spec{Seed: seed, Slurm: &Slurm{Cluster: dir, Installation: release}})
				}
				if got := playScenario(t, dir, lines, Spec{Seed: seed, Simulator: &Simulator{Policy: SlurmPolicy, Cluster: dir, Release: release}}); got != want && !d.Rewrite {
					t.Errorf("%s: the model differs:\n%s", d.Pos, differences(want, got))
				}
				return want
			}
			d.Fatalf(t, "%s: not a directive (want cluster, workload or replay)", d.Cmd)
			return ""
		})
	})
}

// clusterOf writes the files of a cluster.
func clusterOf(t testing.TB, text string) string {
	t.Helper()
	dir := t.TempDir()
	for _, part := range strings.Split("\n"+text, "\n-- ")[1:] {
		name, content, ok := strings.Cut(part, " --\n")
		if !ok {
			t.Fatalf("%q: not a file (want a line -- NAME --)", part)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// playScenario plays a workload and lists starts and nodes.
func playScenario(t *testing.T, dir, lines string, spec Spec) string {
	t.Helper()
	epoch := hpc.Unix(1709596800)
	what, err := rmtest.Parse(lines, epoch, "--uid=ann", "-t", "60")
	if err != nil {
		t.Fatal(err)
	}
	w := &workload.Workload{
		Source: "a scenario", Epoch: epoch, Jobs: workload.JobsOf(what.Jobs...), NodeEvents: what.Nodes,
		Reservations: what.Reservations, Usage: what.Usage,
	}
	spec.Workload, spec.Output, spec.DrainLimit = Workload{Value: w}, filepath.Join(t.TempDir(), "run"), 2*time.Hour
	if _, err := Run(t.Context(), spec, Hooks{}); err != nil {
		t.Fatalf("in %s: %v", dir, err)
	}
	r, err := run.Open(spec.Output)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := r.Jobs()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, row := range rows {
		name := row.Job
		if row.Task >= 0 {
			name += fmt.Sprintf("_%d", row.Task)
		}
		if row.Start == 0 {
			fmt.Fprintf(&b, "%s %s\n", name, row.State)
			continue
		}
		fmt.Fprintf(&b, "%s %d %s\n", name, row.Start.UnixSeconds()-epoch.UnixSeconds(), row.Nodes)
	}
	return b.String()
}

// differences returns the lines that differ, Slurm's and the model's.
func differences(want, got string) string {
	wants, gots := strings.Split(want, "\n"), strings.Split(got, "\n")
	var b strings.Builder
	for i := range max(len(wants), len(gots)) {
		var w, g string
		if i < len(wants) {
			w = wants[i]
		}
		if i < len(gots) {
			g = gots[i]
		}
		if w != g {
			fmt.Fprintf(&b, "%s (the model: %s)\n", w, g)
		}
	}
	return b.String()
}
