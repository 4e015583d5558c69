package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestShort is a short form of the command: a few replays of a small workload on real Slurm, each
// with a random disturbance. docs/measurements/reliability.md has the figures of the long form.
func TestShort(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED by -short: replays that are hit")
	}
	needSlurm(t)
	dir, program := writeSmall(t), build(t)
	var out strings.Builder
	broken, err := measure(context.Background(), options{
		replays: 12, parallel: 2, seed: uint64(time.Now().UnixNano()), limit: 2 * time.Minute,
		program: program, cluster: filepath.Join(dir, "cluster"), workload: filepath.Join(dir, "jobs.jsonl"),
		work: filepath.Join(dir, "work"),
	}, &out)
	t.Log(out.String())
	if err != nil || broken != 0 {
		t.Errorf("%d replays broke a promise (want 0), error %v", broken, err)
	}
}

// writeSmall writes the small cluster and its workload into a directory.
func writeSmall(t *testing.T) string {
	t.Helper()
	dir := openDir(t)
	for name, text := range small {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// small is a cluster of four nodes, and a workload of six jobs.
var small = map[string]string{
	"cluster/slurm.conf": `ClusterName=small
SlurmctldHost=ctl
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/slurmdbd
NodeName=n[1-4] CPUs=4 RealMemory=8000
PartitionName=batch Nodes=n[1-4] Default=YES MaxTime=1:00:00
`,
	"cluster/accounts.sacctmgr": `add cluster small
add account physics
add user ada account=physics
`,
	"cluster/users": "ada:20001:physics:20001\n",
	"jobs.jsonl": `{"rmreplay_trace":1,"epoch":"2024-03-05T00:00:00Z"}
{"type":"job","id":"1","submit":10,"user":"ada","run_time_s":300,"time_limit_s":600,"min_nodes":2,"exclusive":"node"}
{"type":"job","id":"2","submit":20,"user":"ada","run_time_s":500,"time_limit_s":600,"min_nodes":4,"exclusive":"node"}
{"type":"job","id":"3","submit":30,"user":"ada","run_time_s":100,"time_limit_s":120,"tasks":1}
{"type":"job","id":"4","submit":40,"user":"ada","run_time_s":1000,"time_limit_s":60,"tasks":2}
{"type":"job","id":"5","submit":50,"user":"ada","run_time_s":100,"time_limit_s":120,"tasks":16}
{"type":"job","id":"6","submit":60,"user":"ada","run_time_s":10,"time_limit_s":60,"array":"1-8"}
`,
}
