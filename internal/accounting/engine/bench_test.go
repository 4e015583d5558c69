package engine_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"rmreplay/internal/accounting/engine"
)

// BenchmarkBeside measures a plain panel over a million jobs in 20 parts: alone, and beside six
// clients that ask hostile questions all the time. It reports percentiles in milliseconds.
func BenchmarkBeside(b *testing.B) {
	dir := b.TempDir()
	for i := range 20 {
		part(b, filepath.Join(dir, fmt.Sprintf("%02d.parquet", i)), i*50_000, 50_000)
	}
	const plain = "SELECT date_trunc('day', end_time) d, count(*), sum(cpu) FROM jobs " +
		"WHERE user = 'u7' GROUP BY d ORDER BY d"
	quantiles := "SELECT quantile_cont(range * random(), 0.5) FROM range(1000000000)"
	for _, test := range []struct {
		name    string
		hostile []string
	}{
		{"alone", nil},
		{"processors", []string{endless, endless, endless, deaf, deaf, deaf}},
		{"memory", []string{hungry, hungry, hungry, quantiles, quantiles, quantiles}},
		{"mixed", []string{endless, endless, deaf, deaf, hungry, quantiles}},
	} {
		b.Run(test.name, func(b *testing.B) {
			p := pool(b, dir, nil)
			ctx, cancel := context.WithCancel(b.Context())
			var asking sync.WaitGroup
			for _, query := range test.hostile {
				asking.Go(func() {
					for ctx.Err() == nil {
						_ = p.Read(ctx, tables(1, dir), func(q *engine.Questioner) error {
							return q.Scan(query, nil, new(any), new(any))
						})
					}
				})
			}
			var took []time.Duration
			for b.Loop() {
				begin := time.Now()
				err := p.Read(ctx, tables(1, dir), func(q *engine.Questioner) error {
					rows, err := q.Query(plain)
					if err != nil {
						return err
					}
					defer rows.Close()
					for rows.Next() {
					}
					return rows.Err()
				})
				if err != nil {
					b.Error(err)
				}
				took = append(took, time.Since(begin))
				time.Sleep(20 * time.Millisecond) // people pause between questions
			}
			cancel()
			asking.Wait()
			slices.Sort(took)
			for _, percent := range []int{50, 95, 99} {
				b.ReportMetric(float64(took[(len(took)-1)*percent/100].Microseconds())/1000, fmt.Sprintf("p%d-ms", percent))
			}
		})
	}
}

// BenchmarkStart measures the start of an engine with its first question.
func BenchmarkStart(b *testing.B) {
	dir := b.TempDir()
	part(b, filepath.Join(dir, "1.parquet"), 0, 50_000)
	for b.Loop() {
		p := pool(b, dir, nil)
		if err := ask(p, tables(1, dir), "SELECT count(*) FROM jobs WHERE user = 'u7'", new(any)); err != nil {
			b.Fatal(err)
		}
		p.Close()
	}
}

// BenchmarkQuestion measures the overhead of a question.
func BenchmarkQuestion(b *testing.B) {
	p := pool(b, b.TempDir(), nil)
	for b.Loop() {
		if err := ask(p, engine.Tables{}, "SELECT 1", new(any)); err != nil {
			b.Fatal(err)
		}
	}
}
