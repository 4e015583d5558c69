// Package notebooks holds examples in Python that read the program's tables, and tests that execute them. Its tests
// also compare docs/SCHEMA.md with files that the program writes.
package notebooks

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/rogpeppe/go-internal/testscript"

	"rmreplay/internal/accounting/servertest"
	"rmreplay/internal/cli"
	"rmreplay/internal/run"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"rmreplay": func() { os.Exit(cli.Main()) }})
}

const experiment = `name: policies and load
workload: demo/day.jsonl
seeds: 2
transforms:
  - name: recorded
  - name: busy
    scale-arrivals: 0.5
sim:
  policies: [fcfs, easy]
  machines:
    - cluster: demo/cluster
`

// written makes a run, a sweep, a store and an export of it in a new directory. The store has a run
// with figures of the scheduler, and imported records, of which one was replaced.
func written(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	records, err := os.ReadFile("../../internal/cli/testdata/first-hour/sacct.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfterN(string(records), "\n", 3)
	changed := lines[0] + strings.Replace(lines[1], "|COMPLETED|", "|FAILED|", 1)
	if changed == lines[0]+lines[1] {
		t.Fatal("no record has changed")
	}
	for name, text := range map[string]string{
		"sweep.yaml": experiment, "records.txt": string(records), "changed.txt": changed,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range []string{
		"workload generate example --seed 1 -o demo",
		"simulate demo/day.jsonl --cluster demo/cluster --policy slurm -o run",
		"sweep sweep.yaml -o sweep",
		"accounting import store run",
		"accounting import store records.txt",
		"accounting import store changed.txt",
		"accounting export store -o export.parquet",
	} {
		rmreplay(t, dir, strings.Fields(command)...)
	}
	return dir
}

// rmreplay runs a command and returns what it prints.
func rmreplay(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	c := exec.Command("rmreplay", args...)
	c.Dir = dir
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("rmreplay %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return out
}

// edit replaces texts of a file. texts are pairs of an old and a new text; the file must have each
// old text.
func edit(t *testing.T, file string, texts ...string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(texts); i += 2 {
		if !strings.Contains(string(text), texts[i]) {
			t.Fatalf("%s does not have %q", file, texts[i])
		}
	}
	if err := os.WriteFile(file, []byte(strings.NewReplacer(texts...).Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestNotebooks executes the examples, and compares their results with those of the program's
// commands.
func TestNotebooks(t *testing.T) {
	python := servertest.Python(t, "python")
	dir := written(t)
	t.Run("run", func(t *testing.T) {
		got := execute(t, python, dir, "run.py", "{'mean_wait_s': float(mean_wait_s), 'p90_wait_s': float(p90_wait_s),"+
			"'max_wait_s': float(max_wait_s), 'makespan_s': makespan_s, 'used_processor_s': float(used_processor_s),"+
			"'utilization': float(utilization), 'main_cycles': main_cycles,"+
			"'reasons': dict(zip(reasons.reason, reasons.hours))}")
		var want map[string]any
		if err := json.Unmarshal(rmreplay(t, dir, "metrics", "run", "--json"), &want); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"mean_wait_s", "p90_wait_s", "max_wait_s", "makespan_s", "used_processor_s", "utilization"} {
			near(t, name, got[name], want[name])
		}
		cycles, reasons := recorded(t, filepath.Join(dir, "run"))
		near(t, "main_cycles", got["main_cycles"], cycles)
		hours := got["reasons"].(map[string]any)
		if len(hours) != len(reasons) || len(reasons) < 3 {
			t.Errorf("the notebook has the reasons %v (want %v)", hours, reasons)
		}
		for reason, want := range reasons {
			near(t, reason, hours[reason], want)
		}
	})
	t.Run("run with preemption", func(t *testing.T) {
		preempting := filepath.Join(dir, "preempting")
		if err := os.CopyFS(filepath.Join(preempting, "cluster"), os.DirFS(filepath.Join(dir, "demo", "cluster"))); err != nil {
			t.Fatal(err)
		}
		edit(t, filepath.Join(preempting, "cluster", "slurm.conf"), "preempt/none", "preempt/qos", "PreemptMode=OFF", "PreemptMode=REQUEUE")
		edit(t, filepath.Join(preempting, "cluster", "accounts.sacctmgr"), "add cluster", "modify qos where name=high set preempt=normal,long\nadd cluster")
		rmreplay(t, preempting, "simulate", "../demo/day.jsonl", "--cluster", "cluster", "--policy", "slurm", "-o", "run")
		got := execute(t, python, preempting, "run.py", "{'mean_wait_s': float(mean_wait_s), 'p90_wait_s': float(p90_wait_s),"+
			"'max_wait_s': float(max_wait_s), 'used_processor_s': float(used_processor_s)}")
		var want map[string]any
		if err := json.Unmarshal(rmreplay(t, preempting, "metrics", "run", "--json"), &want); err != nil {
			t.Fatal(err)
		}
		if n, _ := want["preemptions"].(float64); n == 0 {
			t.Fatal("the run has no preemption")
		}
		for name, value := range got {
			near(t, name, value, want[name])
		}
		yaml := "workload: ../demo/day.jsonl\nseeds: 1\nslurm:\n  clusters: [cluster]\n"
		if err := os.WriteFile(filepath.Join(preempting, "sweep.yaml"), []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		rmreplay(t, preempting, "sweep", "sweep.yaml", "-o", "sweep", "--policy", "slurm")
		cells := execute(t, python, preempting, "sweep.py", "{'p90': float(jobs.p90_wait_s[0])}")
		near(t, "p90_wait_s of the sweep", cells["p90"], want["p90_wait_s"])
	})
	t.Run("sweep", func(t *testing.T) {
		got := execute(t, python, dir, "sweep.py", "{'runs': len(runs), 'mean': table.loc['easy', 'busy'],"+
			"'jobs': int(jobs.jobs.sum())}")
		var started, mean float64
		for _, path := range globbed(t, filepath.Join(dir, "sweep", "cells", "*", "*", "manifest.json")) {
			var one struct {
				Started float64 `json:"started"`
				Mean    float64 `json:"mean_wait_s"`
			}
			if err := json.Unmarshal(rmreplay(t, dir, "metrics", filepath.Dir(path), "--json"), &one); err != nil {
				t.Fatal(err)
			}
			started += one.Started
			if strings.Contains(path, "sim_easy_cluster_busy") {
				mean = one.Mean
			}
		}
		near(t, "runs", got["runs"], 8.0)
		near(t, "mean", got["mean"], mean)
		near(t, "jobs", got["jobs"], started)
	})
	t.Run("sweep of the document", func(t *testing.T) {
		text, err := os.ReadFile("../../docs/NOTEBOOKS.md")
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), "```yaml\n")
		experiment, _, _ := strings.Cut(rest, "```")
		inner := t.TempDir()
		if err := os.Symlink(filepath.Join(dir, "demo"), filepath.Join(inner, "demo")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(inner, "experiment.yaml"), []byte(experiment), 0o600); err != nil {
			t.Fatal(err)
		}
		rmreplay(t, inner, "sweep", "experiment.yaml", "-o", "sweep", "--policy", "slurm")
		got := execute(t, python, inner, "sweep.py", "{'runs': len(runs), 'rows': len(table), 'mean': float(table.loc['narrow'].iloc[0])}")
		sum := 0.0
		for _, path := range globbed(t, filepath.Join(inner, "sweep", "cells", "*narrow*", "*", "manifest.json")) {
			var one struct {
				Mean float64 `json:"mean_wait_s"`
			}
			if err := json.Unmarshal(rmreplay(t, inner, "metrics", filepath.Dir(path), "--json"), &one); err != nil {
				t.Fatal(err)
			}
			sum += one.Mean / 2
		}
		near(t, "runs", got["runs"], 4.0)
		near(t, "rows", got["rows"], 2.0)
		near(t, "mean", got["mean"], sum)
	})
	t.Run("store", func(t *testing.T) {
		got := execute(t, python, dir, "store.py", "{'jobs': jobs, 'cpu_hours': cpu_hours,"+
			"'days': int(users.jobs.sum()), 'partitions': int(partitions.jobs.sum())}")
		rows, hours := exported(t, filepath.Join(dir, "export.parquet"))
		for _, name := range []string{"jobs", "days", "partitions"} {
			near(t, name, got[name], rows)
		}
		near(t, "cpu_hours", got["cpu_hours"], hours)
	})
}

// execute runs a notebook in a directory, with warnings as errors, and returns the value of an expression of its
// variables.
func execute(t *testing.T, python, dir, name, expression string) (values map[string]any) {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(python, "-W", "error", "-c", fmt.Sprintf(
		"import json, runpy; v = runpy.run_path(%q); print(json.dumps(eval(%q, v)))", path, expression))
	c.Dir = dir
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, stderr.String())
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &values); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return values
}

func near(t *testing.T, name string, got, want any) {
	t.Helper()
	g, ok := got.(float64)
	w, known := want.(float64)
	if !ok || !known || math.Abs(g-w) > 1e-9*math.Abs(w) || w == 0 {
		t.Errorf("%s: the notebook has %v (want %v)", name, got, want)
	}
}

// recorded returns two figures as the program reads them: the cycles of the main scheduler, and
// the hours for which jobs outside arrays waited for each reason.
func recorded(t *testing.T, dir string) (cycles float64, reasons map[string]float64) {
	t.Helper()
	r, err := run.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := r.Histories()
	if err != nil {
		t.Fatal(err)
	}
	reasons = make(map[string]float64)
	for _, row := range rows {
		for _, span := range row.Reasons {
			if row.Task < 0 && span.Reason != "" {
				reasons[span.Reason] += span.To.Sub(span.From).Hours()
			}
		}
	}
	return float64(r.Manifest.Scheduler.MainCycles), reasons
}

// exported returns the jobs of a file and their CPU hours.
func exported(t *testing.T, path string) (jobs, hours float64) {
	t.Helper()
	type row struct {
		CPUHours float64 `parquet:"cpu_hours"`
	}
	rows, err := parquet.ReadFile[row](path)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		hours += r.CPUHours
	}
	return float64(len(rows)), hours
}

func globbed(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: no files: %v", pattern, err)
	}
	return paths
}
