package engine_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"rmreplay/internal/accounting/engine"
	"rmreplay/internal/accounting/engine/enginetest"
)

// job is a row of the tables in these tests.
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
		end := epoch.Add(time.Duration(k) * time.Second)
		jobs[i] = job{int64(k), fmt.Sprintf("u%d", k%50), fmt.Sprintf("job-%d", k%977), float64(k % 1000), end}
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

// ask runs a query that returns one row.
func ask(p *engine.Pool, t engine.Tables, query string, to ...any) error {
	return p.Read(context.Background(), t, func(q *engine.Questioner) error { return q.Scan(query, nil, to...) })
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after 10 s still not: %s", what)
		}
	}
}

// Queries that exceed every time limit. DuckDB ends the first one when it is interrupted. The
// second one ends only when its function returns, and uses a processor all the time.
const (
	endless = "SELECT sum(a.range * b.range) FROM range(100000000000) a, range(10000) b"
	deaf    = "SELECT count(*) FROM (SELECT repeat('a', 400) || range::VARCHAR t FROM range(100000)) " +
		"WHERE t LIKE '%_a%_a%_a%_a%_a%_a%_a%_a%_a%b'"
	// hungry needs memory for all values of fifty million groups.
	hungry = "SELECT count(*), max(l) FROM (SELECT range % 50000000 k, list(range * 3) l FROM range(100000000) GROUP BY k)"
)

func TestTypes(t *testing.T) {
	p := pool(t, t.TempDir(), nil)
	huge, _ := new(big.Int).SetString("-170141183460469231731687303715884105727", 10)
	at := time.Date(2026, 3, 29, 1, 2, 3, 456789000, time.UTC)
	for _, test := range []struct {
		expression string
		want       any
	}{
		{"NULL", nil},
		{"NULL::BIGINT", nil},
		{"true", true},
		{"-8::TINYINT", int8(-8)},
		{"-300::SMALLINT", int16(-300)},
		{"-70000::INTEGER", int32(-70000)},
		{"(-9223372036854775808)::BIGINT", int64(-9223372036854775808)},
		{"255::UTINYINT", uint8(255)},
		{"65535::USMALLINT", uint16(65535)},
		{"4294967295::UINTEGER", uint32(4294967295)},
		{"18446744073709551615::UBIGINT", uint64(18446744073709551615)},
		{"(-170141183460469231731687303715884105727)::HUGEINT", huge},
		{"1.5::FLOAT", float32(1.5)},
		{"0.1::DOUBLE", 0.1},
		{"12.34::DECIMAL(10, 2)", 12.34},
		{"'a' || chr(0) || 'ü'", "a\x00ü"},
		{"''", ""},
		{"'\\xFF\\x00a'::BLOB", []byte("\xff\x00a")},
		{"TIMESTAMP '2026-03-29 01:02:03.456789'", at},
		{"TIMESTAMPTZ '2026-03-29 03:02:03.456789+02'", at},
		{"DATE '2026-03-29'", time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC)},
		{"TIMESTAMP '1805-01-01 00:00:00'", time.Date(1805, 1, 1, 0, 0, 0, 0, time.UTC)},
		{"[1::BIGINT, NULL]", []any{int64(1), nil}},
		{"{'a': 1::BIGINT, 'b': ['x']}", map[string]any{"a": int64(1), "b": []any{"x"}}},
		{"'y'::ENUM('x', 'y')", "y"},
	} {
		var got any
		if err := ask(p, engine.Tables{}, "SELECT "+test.expression, &got); err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %#v, %v, want %#v", test.expression, got, err, test.want)
		}
	}
	err := ask(p, engine.Tables{}, "SELECT INTERVAL 1 DAY AS span", new(any))
	if err == nil || !strings.Contains(err.Error(), "column span: values of the type duckdb.Interval cannot be sent") {
		t.Errorf("interval: %v", err)
	}
}

func TestArguments(t *testing.T) {
	p := pool(t, t.TempDir(), nil)
	at := time.Date(2026, 3, 29, 1, 2, 3, 456789000, time.UTC)
	text := sql.NullString{String: "s", Valid: true}
	args := []any{int64(-5), 2.5, "o'clock", []byte{0, 255}, true, at, nil, text, 7}
	var i int64
	var f float64
	var s, valued string
	var b []byte
	var yes bool
	var when time.Time
	var null sql.NullInt64
	var n int
	err := p.Read(context.Background(), engine.Tables{}, func(q *engine.Questioner) error {
		return q.Scan("SELECT ?, ?, ?, ?, ?, ?::TIMESTAMP, ?::BIGINT, ?, ?", args,
			&i, &f, &s, &b, &yes, &when, &null, &valued, &n)
	})
	if err != nil || i != -5 || f != 2.5 || s != "o'clock" || !bytes.Equal(b, []byte{0, 255}) ||
		!yes || !when.Equal(at) || null.Valid || valued != "s" || n != 7 {
		t.Errorf("got %v %v %q %v %v %v %v %q %v, %v", i, f, s, b, yes, when, null, valued, n, err)
	}
	var has bool
	err = p.Read(context.Background(), engine.Tables{}, func(q *engine.Questioner) error {
		return q.Scan("SELECT list_contains(?, 'b')", []any{[]any{"a", "b"}}, &has)
	})
	if err != nil || !has {
		t.Errorf("list: %v, %v", has, err)
	}
	err = p.Read(context.Background(), engine.Tables{}, func(q *engine.Questioner) error {
		return q.Scan("SELECT ?, ?", []any{1}, &i, &i)
	})
	if err == nil || !strings.Contains(err.Error(), "the query has 2 parameters and 1 arguments") {
		t.Errorf("one argument for two parameters: %v", err)
	}
}

// TestRows reads many frames, leaves rows unread and unclosed, and asks further queries.
func TestRows(t *testing.T) {
	dir := t.TempDir()
	part(t, filepath.Join(dir, "1.parquet"), 0, 30_000)
	part(t, filepath.Join(dir, "2.parquet"), 30_000, 30_000)
	p := pool(t, dir, func(o *engine.Options) { o.Engines = 1 })
	for range 3 {
		err := p.Read(context.Background(), tables(1, dir), func(q *engine.Questioner) error {
			rows, err := q.Query("SELECT id, user, end_time FROM jobs ORDER BY id")
			if err != nil {
				return err
			}
			defer rows.Close()
			n := int64(0)
			for ; rows.Next(); n++ {
				var id int64
				var user sql.RawBytes
				var end time.Time
				if err := rows.Scan(&id, &user, &end); err != nil {
					return err
				}
				if id != n || string(user) != fmt.Sprintf("u%d", n%50) || !end.Equal(epoch.Add(time.Duration(n)*time.Second)) {
					return fmt.Errorf("row %d: got %d, %s, %v", n, id, user, end)
				}
			}
			if n != 60_000 {
				t.Errorf("got %d rows", n)
			}
			return rows.Err()
		})
		if err != nil {
			t.Fatal(err)
		}
		err = p.Read(context.Background(), tables(1, dir), func(q *engine.Questioner) error {
			rows, err := q.Query("SELECT * FROM jobs a, jobs b LIMIT 1000000")
			if err == nil {
				rows.Next() // the rows stay open
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := len(p.Processes()); n != 1 {
		t.Errorf("%d engines (want the first one still)", n)
	}
}

func TestVersions(t *testing.T) {
	dir := t.TempDir()
	part(t, filepath.Join(dir, "1.parquet"), 0, 1000)
	p := pool(t, dir, func(o *engine.Options) { o.Engines = 1 })
	var n int64
	one := tables(1, dir)
	one.Setup = append(one.Setup, "CREATE TEMP VIEW extra AS SELECT 7 AS n")
	if err := ask(p, one, "SELECT count(*) + (SELECT n FROM extra) FROM jobs", &n); err != nil || n != 1007 {
		t.Fatalf("first version: %d, %v", n, err)
	}
	part(t, filepath.Join(dir, "2.parquet"), 1000, 500)
	if err := ask(p, tables(2, dir), "SELECT count(*) FROM jobs", &n); err != nil || n != 1500 {
		t.Errorf("second version: %d, %v", n, err)
	}
	if err := ask(p, tables(2, dir), "SELECT n FROM extra", &n); err == nil {
		t.Error("the second version has a view of the first one")
	}
	broken := engine.Tables{Version: 3, Setup: []string{"CREATE TEMP VIEW jobs AS SELECT * FROM nowhere"}}
	err := ask(p, broken, "SELECT count(*) FROM jobs", &n)
	if err == nil || !strings.Contains(err.Error(), "making the tables") {
		t.Errorf("broken version: %v", err)
	}
	if err := ask(p, broken, "SELECT 1", &n); err == nil {
		t.Error("the broken version counts as made")
	}
	if err := ask(p, tables(2, dir), "SELECT count(*) FROM jobs", &n); err != nil || n != 1500 {
		t.Errorf("second version again: %d, %v", n, err)
	}
}

func TestGone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "1.parquet")
	part(t, path, 0, 1000)
	made := engine.Tables{Version: 1, Setup: []string{
		"CREATE TEMP VIEW jobs AS SELECT * FROM read_parquet(['" + path + "'])",
	}}
	p := pool(t, dir, nil)
	var n int64
	if err := ask(p, made, "SELECT count(*) FROM jobs", &n); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := ask(p, made, "SELECT sum(id) FROM jobs", &n); !errors.Is(err, engine.ErrGone) {
		t.Errorf("a view of a file that is gone: %v", err)
	}
	made.Version = 2
	if err := ask(p, made, "SELECT sum(id) FROM jobs", &n); !errors.Is(err, engine.ErrGone) {
		t.Errorf("tables of a file that is gone: %v", err)
	}
}

// TestRefused asks hostile queries. Each fails and changes nothing.
func TestRefused(t *testing.T) {
	dir, temp := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "1.parquet")
	part(t, path, 0, 100)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p := pool(t, dir, func(o *engine.Options) { o.Temp, o.Engines = temp, 1 })
	secret := filepath.Join(t.TempDir(), "secret.csv")
	if err := os.WriteFile(secret, []byte("password\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{
		"COPY (SELECT 1) TO '" + path + "' (FORMAT parquet)",
		"COPY (SELECT 1) TO '" + filepath.Join(dir, "new.csv") + "'",
		"COPY (SELECT 1) TO '" + filepath.Join(temp, "new.csv") + "'",
		"EXPORT DATABASE '" + filepath.Join(dir, "copy") + "'",
		"ATTACH '" + filepath.Join(dir, "new.duckdb") + "' AS x",
		"INSTALL httpfs", "LOAD httpfs",
		"SET memory_limit = '8GB'", "RESET memory_limit", "SET enable_external_access = true", "SET VARIABLE x = 1",
		"PRAGMA memory_limit='8GB'", "CALL enable_logging()", "CHECKPOINT", "VACUUM",
		"CREATE TEMP TABLE jobs AS SELECT 1 AS id", "CREATE OR REPLACE TEMP VIEW jobs AS SELECT 1 AS id",
		"CREATE TABLE t (a INT)",
		"CREATE MACRO m() AS 1", "DROP VIEW jobs", "BEGIN TRANSACTION", "PREPARE x AS SELECT 1", "USE temp", "DETACH memory",
		"INSERT INTO jobs VALUES (1)", "EXPLAIN ANALYZE SELECT 1",
		"/* */ EXPORT DATABASE '" + filepath.Join(dir, "copy") + "' -- */ SELECT 1",
		"SELECT 1; EXPORT DATABASE '" + filepath.Join(dir, "copy") + "'",
		"/* /* */ SELECT */ EXPORT DATABASE '" + filepath.Join(dir, "copy") + "'",
		"--\rEXPORT DATABASE '" + filepath.Join(dir, "copy") + "' --\nSELECT 1",
		"SELECT 1; SELECT 2", "CREATE TEMP TABLE x (a INT); SELECT 1", "", ";",
		"SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM read_text('" + secret + "')",
		"SELECT * FROM '" + secret + "'",
		"SELECT * FROM read_text('" + dir + "/../" + filepath.Base(filepath.Dir(secret)) + "/secret.csv')",
		"SELECT * FROM read_blob('/proc/self/environ')", "SELECT count(*) / count(*) FROM read_text('/proc/self/maps')",
		"SELECT * FROM read_parquet('http://127.0.0.1:9/x.parquet')", "SELECT * FROM glob('/etc/*')",
	} {
		if err := ask(p, tables(1, dir), query, new(any)); err == nil || errors.Is(err, engine.ErrEnded) {
			t.Errorf("%s: %v", query, err)
		}
	}
	var n, left int64
	const state = "SELECT count(*), (SELECT count(*) FROM duckdb_tables()) FROM jobs"
	if err := ask(p, tables(1, dir), state, &n, &left); err != nil || n != 100 || left != 0 {
		t.Errorf("afterwards: %d jobs, %d tables, %v", n, left, err)
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the part changed: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v, %v", entries, err)
	}
	p.Close()
	if entries, err := os.ReadDir(temp); err != nil || len(entries) != 0 {
		t.Errorf("the temporary directory has %v, %v", entries, err)
	}
}

// TestRefusedInsert checks that a statement is refused if it begins like a query but changes a
// table.
func TestRefusedInsert(t *testing.T) {
	p := pool(t, t.TempDir(), func(o *engine.Options) { o.Engines = 1 })
	kept := engine.Tables{Version: 1, Setup: []string{"CREATE TEMP TABLE kept AS SELECT 1 AS id"}}
	err := ask(p, kept, "WITH x AS (SELECT 2 AS id) INSERT INTO kept SELECT id FROM x", new(any))
	if err == nil || !strings.Contains(err.Error(), "want one SELECT statement") {
		t.Errorf("got %v", err)
	}
	var n int64
	if err := ask(p, kept, "SELECT count(*) FROM kept", &n); err != nil || n != 1 {
		t.Errorf("the table has %d rows, %v", n, err)
	}
}

func TestCancel(t *testing.T) {
	p := pool(t, t.TempDir(), func(o *engine.Options) { o.Engines = 1 })
	for _, query := range []string{endless, deaf} {
		ctx, cancel := context.WithCancel(context.Background())
		asked := make(chan struct{})
		go func() { <-asked; time.Sleep(50 * time.Millisecond); cancel() }()
		begin := time.Now()
		err := p.Read(ctx, engine.Tables{}, func(q *engine.Questioner) error {
			close(asked)
			return q.Scan(query, nil, new(any))
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", query, err)
		}
		if d := time.Since(begin); d > time.Minute {
			t.Errorf("%s: ended after %v", query, d)
		}
		var n int64
		if err := ask(p, engine.Tables{}, "SELECT 1", &n); err != nil {
			t.Errorf("after %s: %v", query, err)
		}
	}
}

func TestTime(t *testing.T) {
	const limit = 500 * time.Millisecond
	p := pool(t, t.TempDir(), func(o *engine.Options) { o.Limit, o.Engines = limit, 1 })
	for _, query := range []string{endless, deaf} {
		begin := time.Now()
		err := ask(p, engine.Tables{}, query, new(any))
		if !errors.Is(err, engine.ErrTime) || errors.Is(err, engine.ErrBusy) {
			t.Errorf("%s: %v", query, err)
		}
		if d := time.Since(begin); d < limit || d > limit+time.Minute {
			t.Errorf("%s: ended after %v", query, d)
		}
	}
	// A question must not succeed if its function ignores the error.
	err := p.Read(context.Background(), engine.Tables{}, func(q *engine.Questioner) error {
		_ = q.Scan(endless, nil, new(any))
		return nil
	})
	if !errors.Is(err, engine.ErrTime) {
		t.Errorf("swallowed: %v", err)
	}
}

// TestMemory asks queries that need much more memory than the limit, in one engine and in all, and
// measures the memory.
func TestMemory(t *testing.T) {
	for _, mib := range []int{64, 256} {
		t.Run(fmt.Sprint(mib), func(t *testing.T) {
			dir := t.TempDir()
			part(t, filepath.Join(dir, "1.parquet"), 0, 20_000)
			p := pool(t, dir, func(o *engine.Options) { o.MemoryMiB, o.Limit = mib, 4*time.Second })
			stop, peak := make(chan struct{}), atomic.Int64{}
			var watching, asking sync.WaitGroup
			watching.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
						peak.Store(max(peak.Load(), p.Memory()))
					}
				}
			})
			for i := range 6 {
				asking.Go(func() {
					query := hungry
					if i%2 > 0 { // DuckDB cannot spill this query, and does not count its memory
						query = "SELECT quantile_cont(range * random(), 0.5) FROM range(300000000)"
					}
					err := ask(p, engine.Tables{}, query, new(any), new(any))
					if !errors.Is(err, engine.ErrMemory) && !errors.Is(err, engine.ErrTime) {
						t.Errorf("hungry: %v", err)
					}
				})
			}
			asking.Wait()
			var n int64
			if err := ask(p, tables(1, dir), "SELECT count(DISTINCT name) FROM jobs", &n); err != nil || n != 977 {
				t.Errorf("afterwards: %d, %v", n, err)
			}
			close(stop)
			watching.Wait()
			t.Logf("%d MiB of %d with %d engines", peak.Load()>>20, mib, p.Options().Engines)
			if over := peak.Load()>>20 - int64(mib); over > 48 { // on a busy machine, the pool checks late
				t.Errorf("engines had %d MiB (limit %d)", peak.Load()>>20, mib)
			}
		})
	}
}

func TestLarge(t *testing.T) {
	p := pool(t, t.TempDir(), func(o *engine.Options) { o.AnswerMiB = 1 })
	err := p.Read(context.Background(), engine.Tables{}, func(q *engine.Questioner) error {
		rows, err := q.Query("SELECT repeat('x', 1000) FROM range(2000)")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
		}
		return rows.Err()
	})
	if !errors.Is(err, engine.ErrLarge) {
		t.Errorf("got %v", err)
	}
}

// TestKills kills engines at random while eight goroutines ask. Every answer is correct or an
// error.
func TestKills(t *testing.T) {
	dir := t.TempDir()
	part(t, filepath.Join(dir, "1.parquet"), 0, 20_000)
	p := pool(t, dir, nil)
	stop := make(chan struct{})
	var asking, killing sync.WaitGroup
	var right, ended atomic.Int64
	for g := range 8 {
		asking.Go(func() {
			for i := range 60 {
				var n, sum int64
				want := int64(g*1000 + i)
				err := p.Read(context.Background(), tables(1, dir), func(q *engine.Questioner) error {
					return q.Scan("SELECT count(*), coalesce(sum(id), 0)::BIGINT FROM jobs WHERE id < ?", []any{want}, &n, &sum)
				})
				switch {
				case errors.Is(err, engine.ErrEnded):
					ended.Add(1)
				case err != nil:
					t.Errorf("got %v", err)
				case n != want || (want > 0 && sum != want*(want-1)/2):
					t.Errorf("below %d: %d jobs, sum %d", want, n, sum)
				default:
					right.Add(1)
				}
			}
		})
	}
	killing.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			if list := p.Processes(); len(list) > 0 {
				_ = syscall.Kill(list[0], syscall.SIGKILL)
			}
		}
	})
	asking.Wait()
	close(stop)
	killing.Wait()
	t.Logf("%d right, %d ended", right.Load(), ended.Load())
	if right.Load() < 100 {
		t.Errorf("%d right answers", right.Load())
	}
}

// TestKilledIdle kills idle engines: the next question still succeeds.
func TestKilledIdle(t *testing.T) {
	p := pool(t, t.TempDir(), func(o *engine.Options) { o.Engines = 1 })
	for range 20 {
		for _, pid := range p.Processes() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		var n int64
		if err := ask(p, engine.Tables{}, "SELECT 42", &n); err != nil || n != 42 {
			t.Fatalf("got %d, %v", n, err)
		}
	}
}

// TestLanes asks six endless questions and short questions at the same time. The slow lane has
// room for two endless questions.
func TestLanes(t *testing.T) {
	dir := t.TempDir()
	part(t, filepath.Join(dir, "1.parquet"), 0, 20_000)
	p := pool(t, dir, func(o *engine.Options) { o.Quick, o.Limit = 50*time.Millisecond, time.Hour })
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var asking sync.WaitGroup
	var calls atomic.Int64
	for i := range 6 {
		asking.Go(func() {
			err := p.Read(ctx, tables(1, dir), func(q *engine.Questioner) error {
				calls.Add(1)
				return q.Scan([]string{endless, deaf}[i%2], nil, new(any))
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("endless: %v", err)
			}
		})
	}
	eventually(t, "two in the slow lane and four before it", func() bool {
		taken, waiting := p.Slow()
		return taken == 2 && waiting == 4
	})
	if n := calls.Load(); n != 6 {
		t.Errorf("%d calls (want 6: none began again yet)", n)
	}
	for i := range 20 {
		var n int64
		query := fmt.Sprintf("SELECT count(*) FROM jobs WHERE id < %d", i)
		if err := ask(p, tables(1, dir), query, &n); err != nil || n != int64(i) {
			t.Errorf("plain: %d, %v", n, err)
		}
	}
	if taken, waiting := p.Slow(); taken != 2 || waiting != 4 {
		t.Errorf("after the plain questions %d are in the slow lane and %d before it", taken, waiting)
	}
	cancel()
	asking.Wait()
	eventually(t, "the slow lane is empty", func() bool { taken, waiting := p.Slow(); return taken+waiting == 0 })
}

// TestPatience checks that a question that uses no CPU time stays in the quick lane longer, but not
// for ever.
func TestPatience(t *testing.T) {
	const quick = 100 * time.Millisecond
	p := pool(t, t.TempDir(), func(o *engine.Options) { o.Quick = quick })
	err := p.Read(context.Background(), engine.Tables{}, func(q *engine.Questioner) error {
		time.Sleep(2 * quick)
		if taken, _ := p.Slow(); taken != 0 {
			t.Error("it left the quick lane without having computed")
		}
		eventually(t, "it is in the slow lane", func() bool { taken, _ := p.Slow(); return taken == 1 })
		var n int64
		return q.Scan("SELECT 1", nil, &n)
	})
	if err != nil {
		t.Error(err)
	}
}

// TestAgain checks that a question for which the slow lane was full gets its answer there later.
func TestAgain(t *testing.T) {
	p := pool(t, t.TempDir(), func(o *engine.Options) { o.Engines, o.Quick, o.Limit = 2, 20*time.Millisecond, time.Minute })
	var asking sync.WaitGroup
	var calls atomic.Int64
	for range 3 {
		asking.Go(func() {
			var n int64
			err := p.Read(context.Background(), engine.Tables{}, func(q *engine.Questioner) error {
				calls.Add(1)
				return q.Scan("SELECT count(*) FROM range(5000) a, range(5000) b WHERE (a.range * b.range) % 7 = 1", nil, &n)
			})
			if err != nil || n == 0 {
				t.Errorf("got %d, %v", n, err)
			}
		})
	}
	asking.Wait()
	if n := calls.Load(); n < 4 || n > 5 {
		t.Errorf("%d calls of three questions (want one or two again)", n)
	}
}

func TestBusy(t *testing.T) {
	p := pool(t, t.TempDir(), func(o *engine.Options) { o.Engines, o.Limit = 1, 300*time.Millisecond })
	var asking sync.WaitGroup
	var busy, late atomic.Int64
	for range 100 {
		asking.Go(func() {
			switch err := ask(p, engine.Tables{}, endless, new(any)); {
			case errors.Is(err, engine.ErrBusy):
				busy.Add(1)
			case errors.Is(err, engine.ErrTime):
				late.Add(1)
			default:
				t.Errorf("got %v", err)
			}
		})
	}
	asking.Wait()
	if busy.Load() < 90 || late.Load() < 1 {
		t.Errorf("%d busy and %d late", busy.Load(), late.Load())
	}
}

func TestAbsent(t *testing.T) {
	own := engine.Program
	engine.Program = nil
	defer func() { engine.Program = own }()
	for _, program := range [][]string{{"/nonexistent/engine"}, nil} {
		t.Setenv("PATH", t.TempDir())
		p := engine.New(engine.Options{Program: program})
		err := ask(p, engine.Tables{}, "SELECT 1", new(any))
		if !errors.Is(err, engine.ErrAbsent) || !strings.Contains(err.Error(), "rmreplay-engine") {
			t.Errorf("%v: %v", program, err)
		}
		p.Close()
	}
	p := engine.New(engine.Options{Program: []string{"/bin/echo", "not an engine"}})
	defer p.Close()
	if err := ask(p, engine.Tables{}, "SELECT 1", new(any)); !errors.Is(err, engine.ErrEnded) {
		t.Errorf("another program: %v", err)
	}
}

// TestAttachAbsent checks that the error names a database that does not exist.
func TestAttachAbsent(t *testing.T) {
	p := pool(t, t.TempDir(), func(o *engine.Options) { o.Attach = filepath.Join(t.TempDir(), "absent.duckdb") })
	err := ask(p, engine.Tables{}, "SELECT 1", new(any))
	if err == nil || !strings.Contains(err.Error(), "absent.duckdb") {
		t.Errorf("an absent database: %v", err)
	}
}

func TestClose(t *testing.T) {
	p := pool(t, t.TempDir(), nil)
	asked := make(chan struct{})
	failed := make(chan error)
	go func() {
		failed <- p.Read(context.Background(), engine.Tables{}, func(q *engine.Questioner) error {
			close(asked)
			return q.Scan(deaf, nil, new(any))
		})
	}()
	<-asked
	processes := p.Processes()
	p.Close()
	if err := <-failed; !errors.Is(err, engine.ErrClosed) {
		t.Errorf("under way: %v", err)
	}
	if err := ask(p, engine.Tables{}, "SELECT 1", new(any)); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("afterwards: %v", err)
	}
	for _, pid := range processes {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("engine %d: %v", pid, err)
		}
	}
}

// TestInherits checks what an engine inherits from its parent: neither the environment nor files.
func TestInherits(t *testing.T) {
	t.Setenv("SECRET", "token")
	p := pool(t, t.TempDir(), nil)
	f, err := os.Open(".")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd, err := syscall.Dup(int(f.Fd())) // without close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := ask(p, engine.Tables{}, "SELECT 1", new(any)); err != nil {
		t.Fatal(err)
	}
	for _, pid := range p.Processes() {
		proc := fmt.Sprintf("/proc/%d/", pid)
		if env, err := os.ReadFile(proc + "environ"); err != nil || string(env) != "LC_ALL=C.UTF-8\x00" {
			t.Errorf("environment %q, %v", env, err)
		}
		files, err := os.ReadDir(proc + "fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			target, _ := os.Readlink(proc + "fd/" + file.Name())
			own := target == "/dev/null" || strings.HasPrefix(target, "/sys/fs/cgroup/") // Go's runtime opens files of cgroups
			if strings.HasPrefix(target, "/") && !own {
				t.Errorf("file %s: %s", file.Name(), target)
			}
		}
	}
}

// TestOrphans kills a parent: its engines end, even if they are busy.
func TestOrphans(t *testing.T) {
	if os.Getenv("RMREPLAY_TEST_PARENT") != "" {
		p := engine.New(engine.Options{Program: enginetest.Program(), Engines: 2, Limit: time.Minute})
		go func() { _ = ask(p, engine.Tables{}, deaf, new(any)) }()
		if err := ask(p, engine.Tables{}, "SELECT 1", new(any)); err != nil {
			t.Fatal(err)
		}
		fmt.Printf("engines %v\n", p.Processes())
		select {}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestOrphans$", "-test.v")
	cmd.Env = append(os.Environ(), "RMREPLAY_TEST_PARENT=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	var list []int
	for text := make([]byte, 0, 1000); len(list) == 0; {
		n, err := out.Read(text[len(text):cap(text)])
		if text = text[:len(text)+n]; err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if _, rest, ok := strings.Cut(string(text), "engines ["); ok && strings.Contains(rest, "]") {
			for _, word := range strings.Fields(strings.TrimSuffix(strings.TrimSpace(strings.SplitAfter(rest, "]")[0]), "]")) {
				var pid int
				if _, err := fmt.Sscan(word, &pid); err != nil {
					t.Fatal(err)
				}
				list = append(list, pid)
			}
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range list {
		eventually(t, fmt.Sprintf("engine %d has ended", pid), func() bool {
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return err != nil || strings.Contains(string(status), ") Z ") // a zombie that init has not reaped yet
		})
	}
}
