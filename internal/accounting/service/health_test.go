package service

import (
	"fmt"
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
)

// TestOwnRequests checks that the requests that rmreplay sends in a replay are marked, and those of
// jobs are not.
func TestOwnRequests(t *testing.T) {
	types := []string{"REQUEST_STATS_INFO", "REQUEST_JOB_INFO", "REQUEST_SUBMIT_BATCH_JOB", "MESSAGE_NODE_REGISTRATION_STATUS", "REQUEST_COMPLETE_BATCH_SCRIPT", "REQUEST_PING"}
	var of []rm.Requests
	for _, name := range types {
		of = append(of, rm.Requests{Type: name, Count: 3})
	}
	list := []rm.Statistics{{At: hpc.Unix(600), Since: hpc.Unix(0), Requests: of}}
	var got []string
	for _, h := range HealthOf("what-if", list) {
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
