package engine_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"rmreplay/internal/accounting/engine"
	"rmreplay/internal/accounting/engine/enginetest"
)

// job is a row of the tests' tables.
type job struct {
	ID   int64     `parquet:"id"`
	User string    `parquet:"user,dict"`
	Name string    `parquet:"name"`
	CPU  float64   `parquet:"cpu"`
	End  time.Time `parquet:"end_time,timestamp(microsecond)"`
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// part writes a Parquet file of n jobs.
func part(t testing.TB, path string, first, n int) {
	t.Helper()
	jobs := make([]job, n)
	for i := range jobs {
		k := first + i
		jobs[i] = job{int64(k), fmt.Sprintf("u%d", k%50), fmt.Sprintf("job-%d", k%977), float64(k % 1000), epoch.Add(time.Duration(k) * time.Second)}
	}
	if err := parquet.WriteFile(path, jobs, parquet.Compression(&parquet.Zstd)); err != nil {
		t.Fatal(err)
	}
}

// tables returns a version of a view of all parts in a directory.
func tables(version uint64, dir string) engine.Tables {
	return engine.Tables{Version: version, Setup: []string{
		fmt.Sprintf("CREATE TEMP VIEW jobs AS SELECT * FROM read_parquet('%s')", filepath.Join(dir, "*.parquet")),
	}}
}

// pool returns a pool of the test binary's engines, which read dir.
func pool(t testing.TB, dir string, change func(o *engine.Options)) *engine.Pool {
	t.Helper()
	o := engine.Options{Program: enginetest.Program(), Dirs: []string{dir}, Temp: t.TempDir()}
	if change != nil {
		change(&o)
	}
	p := engine.New(o)
	t.Cleanup(p.Close)
	return p
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	part(t, filepath.Join(dir, "1.parquet"), 0, 1000)
	p := pool(t, dir, nil)
	for range 3 {
		begin := time.Now()
		var n int64
		var last time.Time
		err := p.Read(context.Background(), tables(1, dir), func(q *engine.Questioner) error {
			return q.One("SELECT count(*), max(end_time) FROM jobs WHERE id >= ?", []any{10}, &n, &last)
		})
		if err != nil || n != 990 || !last.Equal(epoch.Add(999*time.Second)) {
			t.Fatalf("got %d, %v, %v", n, last, err)
		}
		t.Log(time.Since(begin))
	}
}
