package predictcmd

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/forecast/hint"
	"rmreplay/internal/rm/slurm/slurmtest"
)

// hintVariable says that this binary is rmreplay, with the arguments of predict hint.
const hintVariable = "RMREPLAY_TEST_HINT"

func TestMain(m *testing.M) {
	if os.Getenv(hintVariable) == "" {
		os.Exit(m.Run())
	}
	c := New(console.Output{Stdout: os.Stdout, Stderr: os.Stderr}, nil)
	c.SetArgs(os.Args[2:]) // without predict
	if c.Execute() != nil {
		os.Exit(1)
	}
}

// TestScripts: sbatch of a stock Slurm prints the hint with either script. If a service hangs or is
// down, the submission still succeeds, without a long wait.
func TestScripts(t *testing.T) {
	for _, release := range []string{"", "24.11", "26.05"} {
		t.Run("Slurm "+release, func(t *testing.T) { tryScripts(t, release) })
	}
}

// backends returns the URLs of services that answer well, answer garbage, hang, or are down.
func backends(t *testing.T) map[string]string {
	hang := make(chan struct{})
	list := map[string]string{"away": "http://127.0.0.1:1"}
	for name, h := range map[string]http.HandlerFunc{
		"hanging": func(http.ResponseWriter, *http.Request) { <-hang },
		"garbage": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<\x00\x1b")) },
		"good": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/predict" {
				_, _ = w.Write([]byte(`{"predictions":[{"p90_s":600}]}`))
				return
			}
			_, _ = w.Write([]byte(`{"forecast":{"at":"2024-03-05T12:00:00Z","age_s":60,"stale":false},"submitted_now":[
				{"partition":"batch","size":"1 node","at":"2024-03-05T12:00:00Z","nodes":1,"p50_wait_s":60,"p90_wait_s":120}]}`))
		},
	} {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		list[name] = s.URL
	}
	t.Cleanup(func() { close(hang) }) // before the servers close
	return list
}

func tryScripts(t *testing.T, release string) {
	t.Helper()
	urls := backends(t)
	site := slurmtest.Start(t, release, slurmtest.Options{Nodes: 1, Files: map[string]string{"cli_filter.lua": "", "job_submit.lua": idle},
		Lines: "CliFilterPlugins=lua\nJobSubmitPlugins=lua\nSchedulerType=sched/backfill\nPartitionName=batch Nodes=n1 Default=YES MaxTime=600\n"})
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(site.Dir, "rmreplay")
	put := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(site.Dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	put("rmreplay", fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", hintVariable, exe), 0o755)
	script := func(name, url string) string {
		text := hint.Scripts[name]
		for _, old := range []string{`"rmreplay"`, `"/usr/bin/rmreplay"`} {
			text = strings.Replace(text, old, `"`+program+`"`, 1)
		}
		return strings.NewReplacer("http://127.0.0.1:8765", url, "http://127.0.0.1:8766", url).Replace(text)
	}
	// submit returns the output of sbatch, and the shortest of three durations.
	submit := func() (said string, took time.Duration) {
		t.Helper()
		var times []time.Duration
		for range 3 {
			began := time.Now()
			out, err := exec.Command("sbatch", "-N1", "-pbatch", "-t1:00:00", "-Jit's", "--output=/dev/null", "--chdir=/", "--wrap=true").CombinedOutput()
			times = append(times, time.Since(began))
			if said += string(out); err != nil || !strings.Contains(string(out), "Submitted batch job") {
				t.Errorf("sbatch: %v: %s", err, out)
			}
		}
		return said, slices.Min(times)
	}
	put("cli_filter.lua", idleFilter, 0o644)
	_, without := submit()
	const limit, start = "--time=00:10:00 is enough for 9 of 10 jobs like this one, and kills 1 of 10", "expected to start in 1 min (9 of 10 within 2 min)"
	check := func(name, backend string, said string, took time.Duration) {
		t.Helper()
		t.Logf("%s, %s: %v longer", name, backend, took-without)
		good := strings.Contains(said, limit) && strings.Contains(said, start)
		if good != (backend == "good") || backend != "good" && strings.Count(said, "\n") != 3 {
			t.Errorf("%s, %s: %s", name, backend, said)
		}
		if took-without > 500*time.Millisecond { // 180 ms for the services, and time to start two programs on a busy machine
			t.Errorf("%s, %s: %v longer", name, backend, took-without)
		}
	}
	for backend, url := range urls {
		for _, name := range []string{"cli_filter.lua", "job_submit.lua"} {
			said, took := "", time.Duration(0)
			for range 5 { // on a busy machine the good answer may come too late
				put("cli_filter.lua", idleFilter, 0o644)
				put("job_submit.lua", idle, 0o644)
				put(name, script(name, url), 0o644)
				time.Sleep(1100 * time.Millisecond) // slurmctld compares the file's time of change in whole seconds
				if said, took = submit(); backend != "good" || strings.Contains(said, start) {
					break
				}
			}
			check(name, backend, said, took)
		}
	}
	site.Until("all jobs have ended", func() bool {
		return site.Say("scancel", "--user=root") == "" && site.Say("squeue", "-h") == "" && site.Say("scontrol", "ping") != ""
	})
}

// idle and idleFilter are scripts that do nothing.
const (
	idle = `function slurm_job_submit(job, partitions, uid) return slurm.SUCCESS end
function slurm_job_modify(job, record, partitions, uid) return slurm.SUCCESS end
`
	idleFilter = `function slurm_cli_setup_defaults(options, early) return slurm.SUCCESS end
function slurm_cli_pre_submit(options, offset) return slurm.SUCCESS end
function slurm_cli_post_submit(offset, job, step) return slurm.SUCCESS end
`
)
