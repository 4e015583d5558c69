package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"rmreplay/internal/accounting/service"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/experiment"
	"rmreplay/internal/realdata"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/example"
)

// rootsVariable names a directory with the root of each release of Slurm.
const rootsVariable = "RMREPLAY_SLURM_ROOTS"

// eachPlugin runs a test on each release of Slurm that has a stock plugin, such as
// jobcomp_elasticsearch. Without a root of the release, it uses the machine's own installation if
// that has the version.
func eachPlugin(t *testing.T, plugin string, releases []string, test func(t *testing.T, in *install.Installation)) {
	roots := os.Getenv(rootsVariable)
	for _, release := range releases {
		t.Run(release, func(t *testing.T) {
			named := filepath.Join(roots, release)
			if _, err := os.Stat(named); roots == "" || errors.Is(err, fs.ErrNotExist) {
				named = ""
			}
			in, err := install.FindSlurm(named)
			if err != nil {
				t.Skipf("SKIPPED: nothing is checked against Slurm %s: %v", release, err)
			}
			if found := in.Release.Series().String(); found != release {
				t.Skipf("SKIPPED: nothing is checked against Slurm %s: %s=%q does not have it, and this machine has %s", release, rootsVariable, roots, found)
			}
			if _, err := os.Stat(filepath.Join(in.PluginDir, plugin+".so")); err != nil {
				t.Skipf("SKIPPED: nothing is checked against Slurm's %s: %v", plugin, err)
			}
			test(t, in)
		})
	}
}

// TestVirtualTime replays jobs of a real site on stock slurmctld under the virtual clock. The stock
// jobcomp/elasticsearch plugin sends each finished job to the server. All jobs must arrive, and
// agree with the replay's record and with the release's own sacct. With RMREPLAY_LONG_TESTS it
// replays the example day and 500 jobs.
func TestVirtualTime(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: whole workloads are replayed without -short only")
	}
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skipf("SKIPPED: no replay sends its jobs: %v", err)
	}
	t.Setenv(install.NetworkVariable, "shared") // the server is outside of the replay's network
	eachPlugin(t, "jobcomp_elasticsearch", []string{"22.05", "24.11", "26.05"}, func(t *testing.T, in *install.Installation) {
		address := freeAddress(t)
		slurm := withBoth(t, gcc, in, "http://"+address+"/vale/_doc")
		long := os.Getenv("RMREPLAY_LONG_TESTS") != ""
		t.Run("example", func(t *testing.T) {
			if !long {
				t.Skip("SKIPPED: the example day is replayed with RMREPLAY_LONG_TESTS=1 only")
			}
			site := t.TempDir()
			if err := example.WriteExample(site, 1); err != nil {
				t.Fatal(err)
			}
			received(t, address, slurm, filepath.Join(site, "cluster"), filepath.Join(site, "day.jsonl"), 1033)
		})
		t.Run("micro", func(t *testing.T) {
			from, site := realdata.Path(t, "slurm", "micro"), t.TempDir()
			if err := os.CopyFS(site, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
			if long {
				received(t, address, slurm, site, filepath.Join(site, "jobs500.events"), 500)
			} else {
				received(t, address, slurm, site, filepath.Join(site, "small.events"), 20)
			}
		})
	})
}

// withBoth makes a copy of a release whose jobcomp/filetxt plugin also sends each job to a
// location.
func withBoth(t *testing.T, gcc string, in *install.Installation, location string) string {
	t.Helper()
	root, err := os.MkdirTemp("", "rmreplay-both-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	if err := os.Chmod(root, 0o755); err != nil { // root's daemons run as another user
		t.Fatal(err)
	}
	slurm := filepath.Join(root, "slurm")
	plugins := copyRelease(t, in, slurm)
	ours := filepath.Join(plugins, "jobcomp_filetxt.so")
	if err := os.Remove(ours); err != nil {
		t.Fatal(err)
	}
	number := fmt.Sprintf("-DVERSION=0x%02x%02x%02x", in.Release.Major, in.Release.Minor, in.Release.Patch) // SLURM_VERSION_NUMBER
	define := func(name, value string) string { return fmt.Sprintf("-D%s=%q", name, value) }
	out, err := exec.Command(gcc, "-shared", "-fPIC", "-Wall", "-Werror", "-O1", "-o", ours, number,
		define("FILETXT", filepath.Join(in.PluginDir, "jobcomp_filetxt.so")), define("ELASTICSEARCH", filepath.Join(in.PluginDir, "jobcomp_elasticsearch.so")),
		define("LOCATION", location), "testdata/both.c", "-ldl").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return slurm
}

// copyRelease copies a release to a directory and returns the directory of the copied plugins. For
// the machine's own installation, it copies the plugins and links the programs.
func copyRelease(t *testing.T, in *install.Installation, to string) (plugins string) {
	t.Helper()
	from, prefix, target := in.Dir, in.Dir, to
	if in.Dir == "" {
		prefix = filepath.Dir(filepath.Dir(in.Slurmctld))
	}
	within, err := filepath.Rel(prefix, in.PluginDir)
	if err != nil {
		t.Fatal(err)
	}
	plugins = filepath.Join(to, within)
	if in.Dir == "" {
		from, target = in.PluginDir, plugins
		err = os.MkdirAll(filepath.Dir(plugins), 0o755)
		for _, programs := range []string{"sbin", "bin"} {
			err = errors.Join(err, os.Symlink(filepath.Join(prefix, programs), filepath.Join(to, programs)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("cp", "-a", from, target).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return plugins
}

// received replays a workload with the given number of jobs, counting tasks of arrays, while a
// server receives the finished jobs. It compares the received jobs with sacct and with the record.
func received(t *testing.T, address, slurm, cluster, workload string, jobs int) {
	data, record := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "run")
	s := start(t, data, address)
	begin := time.Now()
	_, err := experiment.Run(t.Context(), experiment.Spec{
		Workload: experiment.Workload{Path: workload}, Output: record, Seed: 1,
		Slurm: &experiment.Slurm{Installation: slurm, Cluster: cluster},
	}, experiment.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, svc := context.Background(), service.New()
	made, err := run.Open(record)
	if err != nil {
		t.Fatal(err)
	}
	checkStatistics(t, made)
	rows, err := made.Jobs()
	if err != nil {
		t.Fatal(err)
	}
	// The tasks of an array that never started share a number, and have one document.
	all, never := map[uint32]bool{}, map[uint32]bool{}
	for _, row := range rows {
		all[row.RMJob] = true
		if row.Start == 0 {
			never[row.RMJob] = true
		}
	}
	text, err := os.ReadFile(filepath.Join(record, "logs", "sacct.txt"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "sacct.txt")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	name := made.Manifest.Cluster.Name
	reconcile := func(source, from string) *service.Reconciled {
		t.Helper()
		r, err := svc.Reconcile(ctx, data, service.Records{Sources: []string{source}, From: from, ClusterName: name}, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range r.Differing[:min(10, len(r.Differing))] {
			t.Errorf("from %s: %+v", source, d)
		}
		return r
	}
	accounted, recorded := reconcile(file, "sacct"), reconcile(record, "auto")
	info, err := svc.Info(ctx, data)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d jobs of %s in %.0f s, %d documents; sacct has %d: %d equal, %d missing, %d differ, %d unknown; the record has %d: %d equal, %d missing, %d differ, %d unknown; counts %v",
		len(rows), name, time.Since(begin).Seconds(), info.Jobs,
		accounted.Records, accounted.Equal, len(accounted.Missing), len(accounted.Differing), accounted.Unknown,
		recorded.Records, recorded.Equal, len(recorded.Missing), len(recorded.Differing), recorded.Unknown, info.Counts)
	if len(rows) != jobs || info.Jobs != int64(len(all)) || recorded.Equal != len(all) || recorded.Unknown > 0 {
		t.Errorf("want %d jobs in %d documents, all as in the record", jobs, len(all))
	}
	// sacct omits jobs that were cancelled before they were eligible.
	if accounted.Equal != accounted.Records || len(accounted.Missing) > 0 || accounted.Equal+accounted.Unknown != len(all) || accounted.Unknown > len(never) {
		t.Errorf("want all %d jobs in sacct but some of the %d that never started", len(all), len(never))
	}
	checkHealthOf(t, address, data, record, made.Manifest.Scheduler)
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Errorf("%v: %s", err, s.log.String())
	}
}

// checkHealthOf imports a run while a server runs. The server's page must then show the figures of
// the run's scheduler.
func checkHealthOf(t *testing.T, address, data, record string, want *rm.Scheduler) {
	t.Helper()
	for range 2 { // a second import must not change anything
		if _, err := service.New().Import(context.Background(), data, service.Records{Sources: []string{record}, From: "auto", ClusterName: "what-if"}); err != nil {
			t.Fatal(err)
		}
	}
	status, text := get(t, address, "/_ui/api/v1/panels/health-starts?last=all&f=cluster%3Dwhat-if")
	var panel struct {
		Columns []struct{ Name string }
		Rows    [][]any
	}
	if err := json.Unmarshal([]byte(text), &panel); err != nil || status != http.StatusOK {
		t.Fatalf("%d, %v: %s", status, err, text)
	}
	sums := map[string]float64{}
	for _, row := range panel.Rows {
		for i, v := range row {
			if n, ok := v.(float64); ok {
				sums[panel.Columns[i].Name] += n
			}
		}
	}
	if int(sums["submitted"]) != want.JobsSubmitted || int(sums["backfilled"]) != want.JobsBackfilled || int(sums["backfilled"]+sums["others"]) != want.JobsStarted {
		t.Errorf("the page adds up to %v, the run has %+v", sums, *want)
	}
}

// checkStatistics checks that the differences of the statistics in a record add up to the run's
// statistics.
func checkStatistics(t *testing.T, r *run.Run) {
	t.Helper()
	list, err := r.Statistics()
	if err != nil {
		t.Fatal(err)
	}
	var sum store.Health
	for _, h := range service.HealthOf("run", list, &workload.Workload{}) {
		sum.Started += h.Started
		sum.Submitted += h.Submitted
		sum.Backfilled += h.Backfilled
		sum.Main.Count += h.Main.Count
		sum.Backfill.Count += h.Backfill.Count
		for _, c := range h.Counts {
			if c.Kind == store.MainExit {
				sum.Running += c.Count
			}
		}
	}
	want := r.Manifest.Scheduler
	if hours := r.Manifest.VirtualEnd.Sub(r.Manifest.VirtualStart).Hours(); float64(len(list)) < 6*hours {
		t.Errorf("%d statistics in %.1f hours", len(list), hours)
	}
	if int(sum.Started) != want.JobsStarted || int(sum.Submitted) != want.JobsSubmitted || int(sum.Backfilled) != want.JobsBackfilled ||
		int(sum.Main.Count) != want.MainCycles || int(sum.Backfill.Count) != want.BackfillCycles {
		t.Errorf("the statistics add up to %+v, the run has %+v", sum, *want)
	}
	if exits := int(sum.Running); exits != 0 && exits != want.MainCycles {
		t.Errorf("%d ends of %d cycles", exits, want.MainCycles)
	}
}
