package slurm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/run"
	"rmreplay/internal/workload/transform"
)

// TestAnonymousReplay replays a real site's jobs on their cluster, before and after the workload,
// the cluster, the accounts and the users were made anonymous. Apart from at most five jobs, the
// two schedules are the same, on nodes with the same indices.
func TestAnonymousReplay(t *testing.T) { eachSlurmIfLong(t, testAnonymousReplay) }

func testAnonymousReplay(t *testing.T, slurm *install.Installation) {
	before := realSite(t, slurm, "micro", "jobs500org.events")
	before.workload.Jobs = before.workload.Jobs.First(100)

	var names []string
	for _, n := range before.cluster.Nodes {
		names = append(names, n.Name)
	}
	a, err := transform.NewAnonymizer([]byte("a key of more than sixteen bytes"), &before.workload, names, before.cluster.Users)
	if err != nil {
		t.Fatal(err)
	}
	w, _, err := transform.Apply(&before.workload, transform.Environment{}, a.Step())
	if err != nil {
		t.Fatal(err)
	}
	files, err := a.Cluster(filepath.Dir(before.cluster.Path), before.cluster.Accounts, before.cluster.Users)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cluster, err := conf.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	after := scenario{slurm: slurm, cluster: cluster, accounting: true, workload: *w}

	want, got := before.play(t).list, after.play(t).list
	if len(want) != len(got) || len(want) != before.workload.Jobs.Len() {
		t.Fatalf("%d rows became %d", len(want), len(got))
	}
	moved := 0
	for i := range want {
		one, two := &want[i], &got[i]
		if one.Job == two.Job || one.User == two.User {
			t.Errorf("job %s of %s has kept its name", one.Job, one.User)
		}
		if one.State != two.State || one.Submit != two.Submit || !near(one, two) ||
			fmt.Sprint(nodeIndices(t, before.cluster, one.Nodes)) != fmt.Sprint(nodeIndices(t, cluster, two.Nodes)) {
			if moved++; moved <= 10 {
				t.Logf("job %s: %s %s to %s on %s; anonymous: %s %s to %s on %s",
					one.Job, one.State, one.Start, one.End, one.Nodes, two.State, two.Start, two.End, two.Nodes)
			}
		}
	}
	// Two replays of the same workload may differ too: see docs/LIMITATIONS.md.
	if moved > 5 {
		t.Errorf("%d of %d jobs are not where they were", moved, len(want))
	}
}

// near reports whether two rows could come from two replays of one workload with accounting. If
// slurmdbd acts before slurmctld at an instant, or after it, a start may move to the next
// scheduling cycle.
func near(a, b *run.Row) bool {
	return a.Start.Sub(b.Start).Abs() <= 10*time.Second && a.End.Sub(b.End).Abs() <= 10*time.Second
}

// nodeIndices returns the indices of nodes in their cluster.
func nodeIndices(t *testing.T, c *conf.Cluster, nodes string) []int {
	t.Helper()
	list, err := hostlist.Expand(nodes)
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for i, n := range c.Nodes {
		if slices.Contains(list, n.Name) {
			out = append(out, i)
		}
	}
	return out
}
