// Package storetest fills stores with synthetic finished jobs, for tests and benchmarks.
package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"rmreplay/internal/accounting/document"
	_ "rmreplay/internal/accounting/engine/enginetest" // the engine of stores in tests
	"rmreplay/internal/accounting/store"
)

// Begin is the time from which on synthetic jobs are submitted.
var Begin = time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC)

// PerDay is the number of synthetic jobs that are submitted per day.
const PerDay = 25_000

var (
	partitions = []string{"batch", "batch", "batch", "batch", "long", "gpu", "debug", "fat"}
	qos        = []string{"normal", "normal", "normal", "high", "low"}
	states     = []string{
		"COMPLETED", "COMPLETED", "COMPLETED", "COMPLETED", "COMPLETED", "COMPLETED", "COMPLETED",
		"FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY",
	}
)

// Entry returns the synthetic job with a number, counted from 1. The result depends only on the number. The document
// has the form of Slurm 24.11's documents.
func Entry(number int64) store.Entry {
	r := rand.New(rand.NewPCG(uint64(number), 7))
	submit := Begin.Add(time.Duration(number) * (24 * time.Hour / PerDay)).Truncate(time.Second)
	user := min(int(r.ExpFloat64()*40), 499)
	partition := partitions[r.IntN(len(partitions))]
	state := states[r.IntN(len(states))]
	wait := time.Duration(r.ExpFloat64()*1800) * time.Second
	limit := time.Duration(1+r.IntN(48)) * 30 * time.Minute
	ran := min(time.Duration(r.ExpFloat64()*3600)*time.Second, limit)
	code := "0:0"
	switch state {
	case "TIMEOUT":
		ran, code = limit, "0:15"
	case "FAILED":
		code = strconv.Itoa(1+r.IntN(3)) + ":0"
	case "OUT_OF_MEMORY":
		code = "0:9"
	}
	nodes := 1 << min(int(r.ExpFloat64()*1.5), 8)
	cpus := nodes * 64
	gpus := ""
	if partition == "gpu" {
		gpus = fmt.Sprintf(",gres/gpu=%d", 4*nodes)
	}
	start := submit.Add(wait)
	end := start.Add(ran)
	first := r.IntN(1000)
	tres := fmt.Sprintf("cpu=%d,mem=%dG,node=%d,billing=%d%s", cpus, 2*cpus, nodes, cpus, gpus)
	const layout = "2006-01-02T15:04:05"
	text := fmt.Appendf(nil,
		`{"jobid":%d,"container":null,"username":"user%03d","user_id":%d,"groupname":"group%02d","group_id":%d,`+
			`"@start":"%s","@end":"%s","elapsed":%d,"partition":"%s","alloc_node":"login%d","nodes":"node[%04d-%04d]","total_cpus":%d,"total_nodes":%d,`+
			`"derived_ec":"%s","exit_code":"%s","state":"%s","failed_node":null,"cpu_hours":%.6f,"priority":%d,"@submit":"%s","@eligible":"%s",`+
			`"work_dir":"/home/user%03d/project%d","std_err":"/home/user%03d/project%d/slurm-%d.out","std_in":"/dev/null","std_out":"/home/user%03d/project%d/slurm-%d.out",`+
			`"cluster":"vale","qos":"%s","ntasks":%d,"cpus_per_task":1,"time_limit":%d,"job_name":"step%d",`+
			`"tres_req":"%s","tres_alloc":"%s","account":"account%02d","parent_accounts":"/root/division%d/account%02d"}`,
		number, user, 1000+user, user%20, 500+user%20, start.Format(layout), end.Format(layout), int(ran.Seconds()),
		partition, user%4,
		first, first+nodes-1, cpus, nodes, code, code, state, ran.Hours()*float64(cpus), r.IntN(100000),
		submit.Format(layout), submit.Format(layout),
		user, r.IntN(5), user, r.IntN(5), number, user, r.IntN(5), number, qos[r.IntN(len(qos))], cpus, int(limit.Seconds()),
		r.IntN(200),
		tres, tres, user%30, user%5, user%30)
	return store.Entry{
		Seq: number, Arrived: end.Add(time.Second), Source: store.Received, Index: "slurm", Document: text,
		Job: document.Parse(text, "slurm"),
	}
}

// Fill adds the synthetic jobs with the numbers from first to last to a store, whose last arrival must have a lower
// number.
func Fill(ctx context.Context, s *store.Store, first, last int64) error {
	const most = 20_000 // entries of a call
	for ; first <= last; first += most {
		if _, err := s.Apply(ctx, Entries(first, min(first+most-1, last))); err != nil {
			return err
		}
	}
	return nil
}
