package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"rmreplay/internal/accounting/engine"
	"rmreplay/internal/accounting/service"
	"rmreplay/internal/experiment"
	"rmreplay/internal/formats"
	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/build"
	"rmreplay/internal/workload/example"
)

// simulated simulates the example day into a run record.
func simulated(t *testing.T, path, policy string) {
	t.Helper()
	site := t.TempDir()
	if err := example.WriteExample(site, 1); err != nil {
		t.Fatal(err)
	}
	_, err := experiment.Run(t.Context(), experiment.Spec{
		Workload: experiment.Workload{Path: filepath.Join(site, "day.jsonl")}, Simulator: &experiment.Simulator{Cluster: filepath.Join(site, "cluster"), Policy: policy}, Output: path, Seed: 1,
	}, experiment.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
}

// preempting simulates the example day with the model of Slurm. Every third small job is urgent and
// preempts others, which are requeued.
func preempting(t *testing.T, path string) {
	t.Helper()
	site := t.TempDir()
	if err := example.WriteExample(site, 1); err != nil {
		t.Fatal(err)
	}
	change := func(name string, with func(text string) string) {
		file := filepath.Join(site, name)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		changed := with(string(text))
		if changed == string(text) {
			t.Fatalf("%s is as it was", name)
		}
		if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	change("cluster/slurm.conf", strings.NewReplacer("PreemptType=preempt/none", "PreemptType=preempt/qos", "PreemptMode=OFF", "PreemptMode=REQUEUE").Replace)
	change("cluster/accounts.sacctmgr", strings.NewReplacer("add cluster ", "modify qos where name=high set preempt=normal,long\nadd cluster ").Replace)
	small := 0
	change("day.jsonl", func(text string) string {
		lines := strings.SplitAfter(text, "\n")
		for i, line := range lines {
			if strings.Contains(line, `"partition":"batch"`) && strings.Contains(line, `"min_nodes":1,`) {
				if small++; small%3 == 0 {
					lines[i] = strings.Replace(line, `"qos":"normal"`, `"qos":"high"`, 1)
				}
			}
		}
		return strings.Join(lines, "")
	})
	_, err := experiment.Run(t.Context(), experiment.Spec{
		Workload: experiment.Workload{Path: filepath.Join(site, "day.jsonl")}, Output: path, Seed: 1,
		Simulator: &experiment.Simulator{Cluster: filepath.Join(site, "cluster"), Policy: experiment.SlurmPolicy},
	}, experiment.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
}

// windowed simulates some hours of the example day, in which jobs are running at the beginning.
func windowed(t *testing.T, path string) {
	t.Helper()
	day, site := filepath.Join(t.TempDir(), "day"), t.TempDir()
	simulated(t, day, "")
	if err := example.WriteExample(site, 1); err != nil {
		t.Fatal(err)
	}
	hours := build.Options{}
	hours.Start, hours.End = hpc.Unix(1709640000), hpc.Unix(1709654400)
	w, err := formats.Open(day)
	if err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(t.TempDir(), "day.sacct")
	if _, err := formats.SaveAs(text, w, "sacct"); err != nil {
		t.Fatal(err)
	}
	built, err := build.From(t.Context(), build.Auto, text, hours)
	if err != nil {
		t.Fatal(err)
	}
	_, err = experiment.Run(t.Context(), experiment.Spec{
		Workload: experiment.Workload{Value: built.Workload}, Simulator: &experiment.Simulator{Cluster: filepath.Join(site, "cluster")}, Output: path, Seed: 1,
	}, experiment.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := run.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := metrics.FromRun(r, metrics.Options{}); err != nil || s.LeftOut[metrics.Preset] == 0 {
		t.Fatalf("no job ran when the window began: %v", err)
	}
}

// get requests a page or a JSON object.
func get(t *testing.T, address, path string) (status int, body string) {
	t.Helper()
	response, err := http.Get("http://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// TestRuns shows two runs of the same name without a data directory. Each is a cluster with a size
// and a report, jobs are refused, and no files are left behind.
func TestRuns(t *testing.T) {
	scratch := t.TempDir()
	runs := []string{filepath.Join(scratch, "before", "run"), filepath.Join(scratch, "after", "run")}
	for _, path := range runs {
		if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	simulated(t, runs[0], "")
	if err := os.CopyFS(runs[1], os.DirFS(runs[0])); err != nil {
		t.Fatal(err)
	}
	temporary := filepath.Join(scratch, "tmp")
	if err := os.Mkdir(temporary, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temporary)
	address := freeAddress(t)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var mu sync.Mutex
	var said strings.Builder
	ended := make(chan error, 1)
	go func() {
		ended <- service.New().Serve(ctx, service.Serve{Runs: runs, Listen: []string{address}}, func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(&said, format+"\n", args...)
		})
	}()
	for range 600 {
		mu.Lock()
		up := strings.Contains(said.String(), "pages on")
		mu.Unlock()
		if up {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	status, body := get(t, address, "/_ui/api/v1/clusters")
	var clusters []struct {
		Name, Kind string
		Jobs, CPUs int64
	}
	if err := json.Unmarshal([]byte(body), &clusters); err != nil || status != http.StatusOK || len(clusters) != 2 {
		t.Fatalf("%d %v: %s", status, err, body)
	}
	for i, want := range []string{"after-run", "before-run"} {
		if c := clusters[i]; c.Name != want || c.Kind != "run" || c.Jobs != 1033 || c.CPUs <= 0 {
			t.Errorf("%+v", c)
		}
	}
	if status, body := get(t, address, "/before-run/_count"); status != http.StatusOK || !strings.Contains(body, `"count":1033`) {
		t.Errorf("the index before-run: %d %s", status, body)
	}
	// The first page must not add up two alternatives.
	if _, body := get(t, address, "/_ui/"); !strings.Contains(body, "reports/before-run") || !strings.Contains(body, "reports/after-run") {
		t.Error("the first page does not show the runs beside each other")
	}
	if _, body := get(t, address, "/_ui/compare"); !strings.Contains(body, "reports/before-run") || !strings.Contains(body, "reports/after-run") {
		t.Error("the page does not link to the reports")
	}
	if status, body := get(t, address, "/_ui/reports/before-run"); status != http.StatusOK || !strings.Contains(body, "before-run") {
		t.Errorf("the report: %d", status)
	}
	if status, body, err := post(address, []byte(`{"jobid":1}`)); err != nil || status != http.StatusForbidden || !strings.Contains(body, "receives no jobs") {
		t.Errorf("%d %s %v", status, body, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if !strings.Contains(said.String(), "rmreplay: 2066 job records of 2 runs") || !strings.Contains(said.String(), "rmreplay: received 0 documents") {
		t.Error(said.String())
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	for path, want := range map[string]string{filepath.Join(scratch, "nothing"): "no such file or directory", scratch: "neither a record"} {
		if err := service.New().Serve(context.Background(), service.Serve{Runs: []string{path}, Listen: []string{"127.0.0.1:0"}}, t.Logf); err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, new(*service.InputError)) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestWorkload makes the workload of a window. It must include jobs that ran at the window's start.
// A job that has not ended must be in the workload of each window.
func TestWorkload(t *testing.T) {
	ctx, svc := context.Background(), service.New()
	scratch := t.TempDir()
	dir, file := filepath.Join(scratch, "data"), filepath.Join(scratch, "day.sacct")
	if err := os.WriteFile(file, []byte(sacct), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := svc.Import(ctx, dir, service.Records{Sources: []string{file}, From: "auto"}); err != nil {
		t.Fatal(err)
	}
	at := func(text string) workload.ReadOptions {
		start, err := time.Parse("2006-01-02T15:04:05", text)
		if err != nil {
			t.Fatal(err)
		}
		return workload.ReadOptions{Start: hpc.Unix(start.Unix()), End: hpc.Unix(start.Add(10 * time.Minute).Unix()), Cluster: "vale"}
	}
	for start, want := range map[string]int{"2024-03-01T00:00:00": 5, "2024-03-01T00:04:30": 5, "2024-03-01T00:08:00": 3} {
		w, _, err := svc.Workload(ctx, dir, at(start))
		if err != nil {
			t.Fatal(err)
		}
		if w.Jobs.Len() != want {
			t.Errorf("from %s: %d jobs, want %d", start, w.Jobs.Len(), want)
		}
	}
	if _, _, err := svc.Workload(ctx, dir, at("2024-02-01T00:00:00")); err == nil || !strings.Contains(err.Error(), "no usable job") {
		t.Error(err)
	}
	if _, _, err := svc.Workload(ctx, filepath.Join(scratch, "nothing"), workload.ReadOptions{}); err == nil || !strings.Contains(err.Error(), "no store") {
		t.Error(err)
	}
}

// TestWithoutEngine: without the program of the query engine, a server that only shows runs does not start, and a server
// that receives jobs warns.
func TestWithoutEngine(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	program := engine.Program
	engine.Program = nil
	defer func() { engine.Program = program }()
	listen := []string{"127.0.0.1:0"}
	err := service.New().Serve(t.Context(), service.Serve{Listen: listen}, t.Logf)
	if !errors.As(err, new(*service.MissingError)) || !strings.Contains(err.Error(), "need rmreplay-engine") {
		t.Errorf("%v", err)
	}
	err = service.New().Serve(t.Context(), service.Serve{Runs: []string{t.TempDir()}, Listen: listen}, t.Logf)
	if !errors.As(err, new(*service.InputError)) || !strings.Contains(err.Error(), "neither a record of rmreplay") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var said []string
	err = service.New().Serve(ctx, service.Serve{Data: t.TempDir(), Listen: listen, MemoryMiB: 512},
		func(format string, args ...any) {
			if said = append(said, fmt.Sprintf(format, args...)); strings.Contains(format, "receiving on") {
				cancel()
			}
		})
	if err != nil || !strings.Contains(said[0], "warning: pages and searches need rmreplay-engine") {
		t.Errorf("%v, %q", err, said)
	}
}
