package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/compare"
	"rmreplay/internal/compare/releases"
)

// The files of a cluster whose job priorities depend only on the jobs' sizes.
var sizeCluster = map[string]string{
	"slurm.conf": `ClusterName=size
SlurmctldHost=ctl
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
PriorityType=priority/multifactor
PriorityWeightJobSize=1000
NodeName=n[1-4] CPUs=4
PartitionName=batch Nodes=ALL Default=YES MaxTime=UNLIMITED State=UP
`,
	"users": "ada:1001:ada:1001\n",
}

// sizeTrace: two nodes become free after 300 s. wide needs a core on each of two nodes, and fat
// needs a whole node, so only one of the two jobs can start. fat has more cores. Since 23.11.2
// sbatch asks for wide's two nodes, so slurmctld takes wide for the larger job in the job-size
// priority. Before, slurmctld takes wide for a job of one node.
const sizeTrace = `{"rmreplay_trace":1,"epoch":"2024-03-05T00:00:00Z"}
{"type":"job","id":"long","submit":0,"user":"ada","min_nodes":2,"max_nodes":2,"tasks":8,"run_time_s":4000,"time_limit_s":6000}
{"type":"job","id":"short","submit":0,"user":"ada","min_nodes":2,"max_nodes":2,"tasks":8,"run_time_s":300,"time_limit_s":600}
{"type":"job","id":"fat","submit":60,"user":"ada","min_nodes":1,"max_nodes":1,"tasks":4,"run_time_s":200,"time_limit_s":600}
{"type":"job","id":"wide","submit":70,"user":"ada","tasks":2,"tasks_per_node":1,"run_time_s":200,"time_limit_s":600}
{"type":"job","id":"endless","submit":1000,"user":"ada","tasks":1,"run_time_s":4000,"time_limit_s":600}
`

// TestCompareReleases replays on the installed Slurm, which is older than 23.11, and on newer ones.
// compare finds the job that another job overtakes, and the behaviour of sbatch that differs.
func TestCompareReleases(t *testing.T) {
	needSlurm(t)
	dir := t.TempDir()
	writeFiles(t, filepath.Join(dir, "cluster"), sizeCluster)
	writeFiles(t, dir, map[string]string{"work.jsonl": sizeTrace})
	replay := func(name string, options ...string) {
		runHere(t, dir, console.ExitOK, slices.Concat([]string{"replay", "work.jsonl", "--cluster", "cluster", "--quiet", "-o", name}, options)...)
	}
	replay("22.05", "--slurm", "22.05")
	roots := os.Getenv(rootsVariable)
	for _, release := range []string{"24.11", "26.05"} {
		t.Run(release, func(t *testing.T) {
			if roots == "" {
				t.Skipf("SKIPPED: no comparison with Slurm %s: %s names no directory with its root", release, rootsVariable)
			}
			root := filepath.Join(roots, release)
			if _, err := os.Stat(root); err != nil {
				t.Skipf("SKIPPED: no comparison with Slurm %s: %v", release, err)
			}
			replay(release, "--slurm", root)
			out, _ := runHere(t, dir, console.ExitOK, "compare", "22.05", release, "--json")
			validate(t, "compare.schema.json", []byte(out))
			var c struct {
				Pairs []struct {
					Releases    releases.Difference `json:"releases"`
					Divergences []struct {
						Kind     compare.DivergenceKind `json:"kind"`
						Job      string                 `json:"job"`
						Overtook []string               `json:"overtook"`
						Causes   []compare.Cause        `json:"causes"`
					} `json:"divergences"`
				} `json:"pairs"`
			}
			if err := json.Unmarshal([]byte(out), &c); err != nil {
				t.Fatal(err)
			}
			r := c.Pairs[0].Releases
			if !strings.HasPrefix(r.Baseline, "22.05.") || !strings.HasPrefix(r.Set, release+".") || len(r.Warnings) != 0 {
				t.Errorf("releases %+v", r)
			}
			var keys []string
			for _, k := range r.Configuration {
				keys = append(keys, k.Key+"="+k.Set)
			}
			want := map[string][]string{"26.05": {"SlurmctldParameters=conmgr_threads=4"}} // see conf.Adapt
			if !slices.Equal(keys, want[release]) {
				t.Errorf("configuration %+v", r.Configuration)
			}
			if s := r.Submissions; s.Compared != 5 || s.Different != 1 || len(s.Fields) != 1 ||
				s.Fields[0] != (releases.Field{Name: "minimum of nodes", Jobs: 1, Job: "wide", Baseline: "1", Set: "2"}) {
				t.Errorf("submissions %+v", s)
			}
			if p := r.Priorities; p.Compared != 5 || p.Different != 1 || p.First != "wide" || p.Baseline >= p.Set {
				t.Errorf("priorities %+v", p)
			}
			first := c.Pairs[0].Divergences[0]
			why := compare.Cause{Text: "sbatch of " + r.Set + " submits 1 of the jobs that overtook it in a different way: wide"}
			if first.Kind != compare.DivergedStart || first.Job != "fat" || !slices.Equal(first.Overtook, []string{"wide"}) || !slices.Contains(first.Causes, why) {
				t.Errorf("first divergence %+v", first)
			}
			text, _ := runHere(t, dir, console.ExitOK, "compare", "22.05", release)
			for _, line := range []string{"Slurm " + r.Baseline + " in A and " + r.Set + " in B", "Z by the main scheduler on n", "  a likely cause: " + why.Text + "\n"} {
				if !strings.Contains(text, line) {
					t.Errorf("no %q in\n%s", line, text)
				}
			}
		})
	}
}
