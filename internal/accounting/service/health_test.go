package service

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rmreplay/internal/accounting/intake"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// TestOwnRequests checks that the requests that rmreplay sends in a replay are marked, and that
// requests of jobs are not.
func TestOwnRequests(t *testing.T) {
	types := []string{"REQUEST_STATS_INFO", "REQUEST_JOB_INFO", "REQUEST_SUBMIT_BATCH_JOB", "MESSAGE_NODE_REGISTRATION_STATUS", "REQUEST_COMPLETE_BATCH_SCRIPT", "REQUEST_PING"}
	var of []rm.Requests
	for _, name := range types {
		of = append(of, rm.Requests{Type: name, Count: 3})
	}
	list := []rm.Statistics{{At: hpc.Unix(600), Since: hpc.Unix(0), Requests: of}}
	var got []string
	for _, h := range HealthOf("what-if", list, &workload.Workload{}) {
		for _, c := range h.Counts {
			got = append(got, c.Name)
		}
	}
	slices.Sort(got)
	want := []string{"MESSAGE_NODE_REGISTRATION_STATUS", "REQUEST_COMPLETE_BATCH_SCRIPT", "REQUEST_JOB_INFO (by rmreplay)", "REQUEST_PING (by rmreplay)", "REQUEST_STATS_INFO (by rmreplay)", "REQUEST_SUBMIT_BATCH_JOB"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestRequestsBeforeReset checks that requests before the first answer are not counted after it, if slurmctld had
// just reset its counters: the instant of its start is then unknown.
func TestRequestsBeforeReset(t *testing.T) {
	row := func(at, requests int64) rm.Statistics {
		return rm.Statistics{At: hpc.Unix(at), Since: hpc.Unix(86400), Requests: []rm.Requests{{Type: "REQUEST_UPDATE_JOB", Count: requests}}}
	}
	got := HealthOf("what-if", []rm.Statistics{row(86400, 66), row(86999, 67)}, &workload.Workload{})
	if len(got) != 1 || got[0].Interval != 599*time.Second || len(got[0].Counts) != 1 || got[0].Counts[0].Count != 1 {
		t.Errorf("%+v, want one request in 599 s", got)
	}
}

// TestWindowRequests checks that the requests with which rmreplay begins a window are marked, unless
// the workload has such requests, too.
func TestWindowRequests(t *testing.T) {
	list := []rm.Statistics{{At: hpc.Unix(600), Since: hpc.Unix(0), Requests: []rm.Requests{
		{Type: "REQUEST_RECONFIGURE", Count: 1}, {Type: "REQUEST_UPDATE_NODE", Count: 2}, {Type: "REQUEST_CREATE_RESERVATION", Count: 3}, {Type: "REQUEST_UPDATE_JOB", Count: 4},
	}}}
	const own = " (by rmreplay)"
	for _, c := range []struct {
		setting                         workload.Workload
		reconfigure, node, reservations string
	}{
		{workload.Workload{}, own, own, own},
		{workload.Workload{NodeEvents: make([]hpc.NodeEvent, 1)}, own, "", own},
		{workload.Workload{Reservations: make([]hpc.ReservationEvent, 1)}, own, own, ""},
		{workload.Workload{Actions: make([]hpc.Action, 1)}, "", "", ""},
	} {
		counted := map[string]int64{}
		for _, n := range HealthOf("what-if", list, &c.setting)[0].Counts {
			counted[n.Name] = n.Count
		}
		want := map[string]int64{"REQUEST_RECONFIGURE" + c.reconfigure: 1, "REQUEST_UPDATE_NODE" + c.node: 2, "REQUEST_CREATE_RESERVATION" + c.reservations: 3, "REQUEST_UPDATE_JOB": 4}
		if !maps.Equal(counted, want) {
			t.Errorf("%+v: %v, want %v", c.setting, counted, want)
		}
	}
}

// TestWindowHealth checks that the figures of a run begin with its window. The counters were reset
// before the window in one record, and were not reset in another. A third record has no answer
// just before the window: its figures begin after the interval in which the window begins.
func TestWindowHealth(t *testing.T) {
	const window = 36000
	row := func(at, since, started int64) rm.Statistics {
		return rm.Statistics{At: hpc.Unix(at), Since: hpc.Unix(since), JobsStarted: started, JobsPending: started}
	}
	for name, c := range map[string]struct {
		list    []rm.Statistics
		begin   int64
		started []int64
	}{
		"kept":  {[]rm.Statistics{row(35399, 100, 40), row(window, 100, 50), row(36599, 100, 57), row(37199, 100, 60)}, window, []int64{7, 3}},
		"reset": {[]rm.Statistics{row(35399, 100, 40), row(window-3, 100, 50), row(36599, window-3, 7), row(37199, window-3, 10)}, window, []int64{7, 3}},
		"older": {[]rm.Statistics{row(35399, 100, 40), row(36599, 100, 57), row(37199, 100, 60)}, 36600, []int64{3}},
		"early": {[]rm.Statistics{row(window, window-60, 0), row(36599, window-60, 7)}, window, []int64{7}},
		"ended": {[]rm.Statistics{row(35399, 100, 40)}, 0, nil},
	} {
		var started []int64
		begin := int64(0)
		for i, h := range HealthOf("what-if", c.list, &workload.Workload{Start: hpc.Unix(window)}) {
			if i == 0 {
				begin = h.At.Add(time.Second - h.Interval).Unix()
			}
			started = append(started, h.Started)
		}
		if begin != c.begin || !slices.Equal(started, c.started) {
			t.Errorf("%s: %v starts from %d on, want %v from %d on", name, started, begin, c.started, c.begin)
		}
	}
}

// TestRunBegins checks that a run begins with its window, or else with its workload.
func TestRunBegins(t *testing.T) {
	for _, c := range []struct{ virtual, window, begin, shown int64 }{{virtual: 600, begin: 600}, {virtual: 600, window: 900, begin: 900, shown: 900}} {
		got := runCluster("what-if", &run.Manifest{VirtualStart: hpc.Unix(c.virtual), WindowStart: hpc.Unix(c.window)})
		if got.Begin.Unix() != c.begin || got.Window.IsZero() != (c.shown == 0) || c.shown != 0 && got.Window.Unix() != c.shown {
			t.Errorf("%+v: %+v", c, got)
		}
	}
	if !runCluster("model", &run.Manifest{Engine: "sim"}).Simulated || runCluster("replay", &run.Manifest{Engine: "slurm"}).Simulated {
		t.Error("a simulation and a replay are not told apart")
	}
	if got := runCluster("old", &run.Manifest{}); !got.Begin.IsZero() {
		t.Errorf("a record without times: %+v", got)
	}
}

// TestHealth runs a program with the output of a stock sdiag, and one that fails.
func TestHealth(t *testing.T) {
	s, err := open(t.Context(), t.TempDir(), intake.Options{Report: func(err error) { t.Error(err) }}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	output, err := filepath.Abs("../health/testdata/26.05.json")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "sdiag")
	for name, print := range map[string]string{"sdiag": "cat " + output, "sinfo": "echo 'n1|48|gpu:4'"} {
		if err := os.WriteFile(filepath.Join(dir, name), fmt.Appendf(nil, "#!/bin/sh\ntest \"$1 $2\" = '-M vale' && %s\n", print), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	var messages strings.Builder
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(&messages, format+"\n", args...)
	}
	said := func() string {
		mu.Lock()
		defer mu.Unlock()
		return messages.String()
	}
	end, err := s.health(t.Context(), Serve{Sdiag: []string{"vale=" + program + " -M vale", "dale=" + program + " -M dale"}, SdiagEvery: time.Hour, SdiagKeep: time.Hour}, say)
	if err != nil {
		t.Fatal(err)
	}
	rows := func() (n, queue, cpus int) {
		err := s.intake.Store().Read(t.Context(), func(v *store.Snapshot) error {
			if !v.HasHealth() {
				return nil
			}
			for _, c := range v.Clusters() {
				if c.Name == "vale" {
					cpus = int(c.CPUs.Value)
				}
			}
			return v.Scan("SELECT count(*), coalesce(max(main_queue), 0) FROM health WHERE cluster = 'vale'", nil, &n, &queue)
		})
		if err != nil {
			t.Fatal(err)
		}
		return n, queue, cpus
	}
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		n, queue, cpus := rows()
		if n == 1 && queue == 3 && cpus == 48 && strings.Contains(said(), "the scheduler of dale") {
			break
		}
		if time.Since(start) > 5*time.Minute {
			t.Fatalf("after five minutes: %d rows, a queue of %d, %d processors, %q", n, queue, cpus, said())
		}
	}
	end()
	for _, c := range []struct {
		sdiag string
		every time.Duration
		want  string
	}{{"vale", time.Minute, "CLUSTER=COMMAND"}, {"=x", time.Minute, "CLUSTER=COMMAND"}, {"vale= ", time.Minute, "CLUSTER=COMMAND"}, {"vale=x", time.Second, "at least 5s"}} {
		if err := checkSdiag(&Serve{Sdiag: []string{c.sdiag}, SdiagEvery: c.every}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q every %v: %v (want %q)", c.sdiag, c.every, err, c.want)
		}
	}
}
