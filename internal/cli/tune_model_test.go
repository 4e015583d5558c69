package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"rmreplay/internal/tune"
)

// TestTuneOnModel searches on the model of Slurm and proves the result on real Slurm. The site's
// backfill tests only one job, so processors stay idle that other jobs could use.
func TestTuneOnModel(t *testing.T) {
	needSlurm(t)
	dir := t.TempDir()
	var jobs []string
	for i := range 30 {
		jobs = append(jobs, fmt.Sprintf(`{"type":"job","id":"j%d","submit":"2024-03-05T00:%02d:00Z","user":"ann","tasks":%d,`+
			`"time_limit_s":%d,"run_time_s":%d}`, i, i/2, 1+i*5%16, 600+i*300%2400, 300+i*200%1200))
	}
	writeFiles(t, filepath.Join(dir, "site"), map[string]string{"users": "ann:1001:red:2001\n", "slurm.conf": `ClusterName=tiny
SlurmctldHost=ctl
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=30,bf_max_job_test=1
NodeName=n[1-4] CPUs=4
PartitionName=batch Nodes=n[1-4] Default=YES MaxTime=2:00:00
`})
	writeFiles(t, dir, map[string]string{"day.jsonl": trace(jobs...), "tune.yaml": `workloads: [day.jsonl]
seeds: 2
held-out-seeds: 6
slurm: {cluster: site}
parameters:
  - {name: SchedulerParameters.bf_max_job_test, integer: [1, 100], log: true}
objective: mean_wait_s
`})
	text, _ := runHere(t, dir, 0, "tune", "tune.yaml", "-o", "tuned", "--policy", "slurm", "--json")
	validate(t, "tune.schema.json", []byte(text))
	var result tune.Result
	if err := json.Unmarshal([]byte(text), &result); err != nil {
		t.Fatal(err)
	}
	if !result.Found || len(result.Stages) != 2 {
		t.Fatalf("found %v, stages %+v\n%s", result.Found, result.Stages, text)
	}
	search, proof := result.Stages[0], result.Stages[1]
	if search.On != "model" || proof.On != "slurm" || search.Kept != 1 || proof.Kept != 1 || proof.Runs != 12 || search.Runs != result.SearchRuns ||
		search.Seconds >= proof.Seconds {
		t.Errorf("stages %+v", result.Stages)
	}
	records, err := filepath.Glob(filepath.Join(dir, "tuned", "*", "*", "cells", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		stage, on := filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(r)))), filepath.Base(r)
		if model := on[:5] == "model"; model != (stage == "search") {
			t.Errorf("%s ran in the stage %s", on, stage)
		}
	}
}
