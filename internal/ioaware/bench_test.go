package ioaware

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkPlan plans a round on a large machine with 800 running and 500 pending jobs.
func BenchmarkPlan(b *testing.B) {
	cluster := &Cluster{Nodes: 7000, FileSystem: lustre, Licenses: map[string]License{lustre: {Total: 10000}}, Pools: map[string]Pool{
		"gpu": {5000, []string{"gpu"}}, "cpu": {2000, []string{"cpu"}},
	}}
	job := func(i int) Job {
		pool := []string{"gpu", "cpu", "gpu"}[i%3]
		return Job{Nodes: 1 + i*7%16, Pool: pool, Limit: time.Duration(1+i*37%1440) * time.Minute, Estimate: Estimate{Use: int64(i * 13 % 40), RunTime: time.Hour}}
	}
	var running []Running
	var pending []Job
	for i := range 800 {
		j := job(i)
		running = append(running, Running{Job: j, End: now.Add(time.Duration(i*61%86400) * time.Second), Uses: map[string]int{j.Pool: j.Nodes}})
	}
	for i := range 500 {
		pending = append(pending, job(i*3))
	}
	for _, only := range []bool{false, true} {
		b.Run(fmt.Sprintf("starts only %t", only), func(b *testing.B) {
			for b.Loop() {
				Plan(now, cluster, running, pending, Options{Strategy: Aware, StartsOnly: only})
			}
		})
	}
}
