package cli

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/supervise"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata/*.txtar")

func TestMain(m *testing.M) {
	// A replay in a script starts its guard from this binary.
	supervise.RunIfGuard()
	commands := map[string]func(){"rmreplay": func() { os.Exit(Main()) }}
	maps.Copy(commands, oldKernels)
	testscript.Main(tests{m}, commands)
}

// tests are the tests of this package.
type tests struct{ *testing.M }

// Run runs the tests. If nohup starts the tests, they ignore SIGHUP, and so would the commands that
// the tests start.
func (m tests) Run() int {
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	return m.M.Run()
}

// TestScripts runs testdata/*.txtar: command lines with their output and exit status.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Condition: func(name string) (bool, error) {
			if name != "root" {
				return false, fmt.Errorf("%q: not a condition", name)
			}
			return os.Geteuid() == 0, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   exits,
			"fakebin": fakeProgram,
			"record":  record,

			"sameschedule": sameSchedule,
		},
	})
}

// exits runs a command that must exit with a given status:
//
//	exits STATUS COMMAND [ARG...]
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%s: %v", args[1], err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// fakeProgram writes programs that only print a text:
//
//	fakebin TEXT FILE...
func fakeProgram(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: fakebin TEXT FILE...")
	}
	for _, name := range args[1:] {
		path := ts.MkAbs(name)
		ts.Check(os.MkdirAll(filepath.Dir(path), 0o755))
		ts.Check(os.WriteFile(path, []byte("#!/bin/sh\necho '"+args[0]+"'\n"), 0o755))
	}
}

// sameSchedule checks that two runs have the same jobs at the same times, on nodes with the same
// numbers. The text before a node's number may differ:
//
//	sameschedule RUN RUN
func sameSchedule(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sameschedule RUN RUN")
	}
	var schedules [2][]string
	for i, dir := range args {
		r, err := run.Open(ts.MkAbs(dir))
		ts.Check(err)
		rows, err := r.Jobs()
		ts.Check(err)
		for _, row := range rows {
			nodes, err := hostlist.Expand(row.Nodes)
			ts.Check(err)
			for j, name := range nodes { // keep only the number at the end of the name
				nodes[j] = name[strings.LastIndexFunc(name, func(r rune) bool { return r < '0' || r > '9' })+1:]
			}
			schedules[i] = append(schedules[i], fmt.Sprint(row.Submit, row.Start, row.End, row.State, row.Task, row.Processors, nodes))
		}
	}
	if len(schedules[0]) == 0 {
		ts.Fatalf("%s: no jobs", args[0])
	}
	if diff := cmp.Diff(schedules[0], schedules[1]); diff != "" {
		ts.Fatalf("other schedules: %.2000s", diff)
	}
}

// record writes a run record with four jobs of ten processors, one of them rejected,
// on a machine of twenty:
//
//	record DIR complete|doubtful|failed|interrupted|killed
func record(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: record DIR complete|doubtful|failed|interrupted|killed")
	}
	start := hpc.Unix(1_700_000_000)
	w, err := run.Create(ts.MkAbs(args[0]), run.Manifest{
		Engine: "sim", Policy: "fcfs", Seed: 7, VirtualStart: start,
		Started: start.Std(), Workload: run.Source{Jobs: 4},
		Cluster: run.Cluster{Nodes: 2, Processors: 20},
	}, run.Options{})
	ts.Check(err)
	defer w.Close()
	for i, wait := range []time.Duration{0, 0, 100 * time.Second} {
		ts.Check(recordJob(w, fmt.Sprint("job", i), []string{"ada", "boris"}[i%2], start, wait))
	}
	refused := &hpc.Job{ID: "huge", Submit: start, Request: hpc.Request{User: "ada"}}
	ts.Check(w.Job(refused))
	ts.Check(w.Event(rm.Event{At: start, Kind: rm.Refused, Job: "huge", Task: -1, Reason: "too many nodes"}))
	end := func(m *run.Manifest) {
		m.VirtualEnd = start.Add(200 * time.Second)
		m.Finished = m.Started.Add(2 * time.Second)
	}
	switch args[1] {
	case "complete":
		ts.Check(w.Finish(run.StateComplete, end))
	case "doubtful":
		ts.Check(w.Warn(run.Warning{Code: "lost-job", Text: "a job was lost", AffectsResult: true}))
		ts.Check(w.Finish(run.StateComplete, end))
	case "failed":
		ts.Check(w.Finish(run.StateFailed, func(m *run.Manifest) {
			end(m)
			m.Error = "slurmctld: exit status 1"
		}))
	case "interrupted":
		ts.Check(w.Finish(run.StateInterrupted, end))
	case "killed":
		ts.Check(w.Flush()) // without an end
	default:
		ts.Fatalf("%s: not a way to end", args[1])
	}
}

// recordJob writes a job of 100 s on ten processors, from submission to end.
func recordJob(w *run.Writer, id, user string, submit hpc.Time, wait time.Duration) error {
	return recordRequest(w, &hpc.Job{ID: id, Submit: submit, Request: hpc.Request{User: user}}, wait)
}

// recordRequest is recordJob for a job with a request of its own.
func recordRequest(w *run.Writer, job *hpc.Job, wait time.Duration) error {
	id, user, submit := job.ID, job.User, job.Submit
	start := submit.Add(wait)
	outcome := rm.Outcome{
		State: hpc.Completed, Submit: submit, Eligible: submit, Start: start, End: start.Add(100 * time.Second),
		Nodes: "n1", NodeCount: 1, Processors: 10, User: user, Partition: "batch",
	}
	err := w.Job(job)
	for _, kind := range []rm.EventKind{rm.Accepted, rm.Started, rm.Ended} {
		e := rm.Event{At: submit, Kind: kind, Job: id, Task: -1}
		switch kind {
		case rm.Started:
			e.At, e.Outcome = start, &rm.Outcome{
				State: hpc.Running, Submit: submit, Start: start, Nodes: "n1", NodeCount: 1, Processors: 10,
				User: user, Partition: "batch",
			}
		case rm.Ended:
			e.At, e.Outcome = outcome.End, &outcome
		}
		err = errors.Join(err, w.Event(e))
	}
	return err
}
