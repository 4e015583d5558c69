package store_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/duckdb/duckdb-go/v2" // writes a store of an older version

	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
)

// TestVerify changes one byte in each file of a store. Verify finds each change and names the file.
func TestVerify(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, options(1000))
	if err := storetest.Fill(t.Context(), s, 1, 2500); err != nil {
		t.Fatal(err)
	}
	again := storetest.Entry(7)
	again.Seq, again.Document = 2501, bytes.Replace(again.Document, []byte(`"priority":`), []byte(`"priority":1`), 1)
	again = store.ParseArrival(2501, again.Arrived, again.Source, again.Index, "vale", again.Document)
	if _, err := s.Apply(t.Context(), []store.Entry{again}); err != nil {
		t.Fatal(err)
	}
	if err := s.AddHealth(store.Health{Cluster: "vale", At: storetest.Begin, Interval: time.Minute, Counts: []store.HealthCount{{Kind: store.Requests, Name: "x", Count: 1}}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	verify := func() []string {
		s, err := store.Open(t.Context(), dir, options(1000))
		if err != nil {
			return append(store.Damaged(dir), err.Error())
		}
		defer s.Close()
		v := s.View()
		defer v.Close()
		found, err := v.Verify(t.Context(), func(int, int) {})
		if err != nil {
			t.Fatal(err)
		}
		return found.Problems
	}
	if problems := verify(); len(problems) > 0 {
		t.Fatalf("as it was written: %q", problems)
	}
	files := 0
	for _, kind := range []string{"jobs", "keys", "cells", "gone", "health", "health_counts"} {
		paths, err := filepath.Glob(filepath.Join(dir, kind, "*"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: no file: %v", kind, err)
		}
		for _, path := range paths {
			whole, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, damaged := range [][]byte{flipped(whole, len(whole)/2), whole[:len(whole)-1]} {
				if err := os.WriteFile(path, damaged, 0o600); err != nil {
					t.Fatal(err)
				}
				if problems := verify(); !strings.Contains(strings.Join(problems, " "), filepath.Base(path)) {
					t.Errorf("%s with %d of %d bytes: %q", path, len(damaged), len(whole), problems)
				}
			}
			if err := os.WriteFile(path, whole, 0o600); err != nil {
				t.Fatal(err)
			}
			files++
		}
	}
	if problems := verify(); len(problems) > 0 || files < 8 {
		t.Errorf("mended, %d files: %q", files, problems)
	}
}

// TestVerifyShared verifies a store in which users, accounts, partitions and QOS have the same names. Repeated
// verification finds no problem.
func TestVerifyShared(t *testing.T) {
	s := open(t, t.TempDir(), options(1000))
	defer s.Close()
	names := []string{"ann", "debug", "normal", "physics", "bob"}
	var entries []store.Entry
	for i := range int64(100) {
		name := func(step int64) string { return names[(i*step+step)%int64(len(names))] }
		text := fmt.Appendf(nil, `{"jobid":%d,"cluster":%q,"username":%q,"account":%q,"partition":%q,"qos":%q,"job_name":%q,"state":"COMPLETED",`+
			`"nodes":"n1","total_cpus":4,"@submit":"2024-03-01T00:00:00","@start":"2024-03-01T01:00:00","@end":"2024-03-01T02:00:00"}`,
			i, name(6), name(1), name(2), name(3), name(4), name(7))
		entries = append(entries, store.ParseArrival(i+1, storetest.Begin, store.Received, "i", "vale", text))
	}
	if _, err := s.Apply(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
	if err := s.Seal(); err != nil {
		t.Fatal(err)
	}
	v := s.View()
	defer v.Close()
	for range 5 {
		found, err := v.Verify(t.Context(), func(int, int) {})
		if err != nil || len(found.Problems) > 0 || found.Jobs != 100 {
			t.Fatalf("%+v %v", found, err)
		}
	}
}

func flipped(whole []byte, at int) []byte {
	damaged := bytes.Clone(whole)
	damaged[at] ^= 1
	return damaged
}

// TestBackup copies a store while jobs arrive, and verifies the copy.
func TestBackup(t *testing.T) {
	s := open(t, t.TempDir(), options(500))
	defer s.Close()
	done := make(chan error)
	go func() { done <- storetest.Fill(t.Context(), s, 1, 60_000) }()
	for n := range 3 {
		var archive bytes.Buffer
		if err := s.Backup(&archive); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if _, err := store.Unpack(bytes.NewReader(archive.Bytes()), dir); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Unpack(bytes.NewReader(archive.Bytes()[:archive.Len()*2/3]), t.TempDir()); err == nil {
			t.Error("half of a copy is taken for a whole one")
		}
		twin := open(t, dir, options(500))
		v := twin.View()
		found, err := v.Verify(t.Context(), func(int, int) {})
		if err != nil || len(found.Problems) > 0 || found.Jobs != twin.Summary().Jobs {
			t.Errorf("copy %d: %+v %v", n, found, err)
		}
		v.Close()
		if err := twin.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestRenew opens a store of an older version, in which wait_s was the wait since eligible, unknown hours were 0, and jobs
// that never ran had exit codes.
// After that, columns and counts agree with the documents, and opening the store again has nothing to do. Replaced
// rows stay replaced, and an impossible end counts as missing.
func TestRenew(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, options(1000))
	if err := storetest.Fill(t.Context(), s, 1, 2500); err != nil {
		t.Fatal(err)
	}
	again := storetest.Entry(7)
	again = store.ParseArrival(2501, again.Arrived, again.Source, again.Index, "vale", bytes.Replace(again.Document, []byte(`"priority":`), []byte(`"waits":"dependency=500,unknown=10,since_eligible=10","priority":1`), 1))
	others := []store.Entry{again}
	for i, text := range []string{
		`{"jobid":900001,"state":"COMPLETED","@start":"2024-03-01T00:00:00","@end":"2024-03-01T01:00:00","nodes":"n[1-4]"}`,
		`{"jobid":900002,"state":"COMPLETED","@start":"2024-03-01T00:00:00","@end":"2034-03-01T01:00:00","nodes":"n1","total_cpus":2}`,
		`{"jobid":900003,"state":"CANCELLED","exit_code":"0:0","derived_ec":"0:0","@start":"2024-03-01T01:00:00","@end":"2024-03-01T01:00:00","nodes":"(null)","total_cpus":2,"total_nodes":0}`,
	} {
		others = append(others, store.ParseArrival(2502+int64(i), again.Arrived, store.Received, "slurm", "vale", []byte(text)))
	}
	if _, err := s.Apply(t.Context(), others); err != nil {
		t.Fatal(err)
	}
	const query = "SELECT sum(wait_s), sum(wait_since_eligible_s), sum(wait_unknown_s + coalesce(wait_dependency_s, 0)), count(*) FROM jobs"
	waits := func() (list [4]int64) {
		t.Helper()
		if err := s.Read(t.Context(), func(v *store.Snapshot) error {
			return v.Scan(query, nil, &list[0], &list[1], &list[2], &list[3])
		}); err != nil {
			t.Fatal(err)
		}
		return list
	}
	want := waits()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := store.Older(dir); err != nil {
		t.Fatal(err)
	}
	var said []string
	opts := options(1000)
	opts.Report = func(err error) { said = append(said, err.Error()) }
	for range 2 {
		s = open(t, dir, opts)
		v := s.View()
		found, err := v.Verify(t.Context(), func(int, int) {})
		v.Close()
		if err != nil || len(found.Problems) > 0 {
			t.Errorf("%v %q", err, found.Problems)
		}
		if got := waits(); got != want || got[0] != got[2] || got[0] <= got[1] || got[3] != 2503 {
			t.Errorf("sums %v (want %v: the first is larger than the second, and the third is the first)", got, want)
		}
		if n := count(t, s, "SELECT sum(node_hours)::BIGINT FROM jobs WHERE jobid > 900000"); n != 4 {
			t.Errorf("%d node hours, want the 4 of the list", n)
		}
		if n := count(t, s, "SELECT count(*) FROM jobs WHERE gpu_hours IS NULL AND jobid > 900000 OR cpu_hours IS NULL"); n != 2 {
			t.Errorf("hours of %d jobs are not known, want 2", n)
		}
		if n := count(t, s, "SELECT count(*) FROM jobs WHERE coalesce(exit_code, exit_signal, derived_code, derived_signal) IS NULL AND jobid = 900003"); n != 1 {
			t.Errorf("%d jobs that never ran have no exit code, want 1", n)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(said) != 1 || !strings.Contains(said[0], "2503") {
		t.Errorf("%q", said)
	}
}

// TestMigrate opens a store of an older version, which is in a DuckDB database. It becomes a store of the present
// format.
func TestMigrate(t *testing.T) {
	dir := t.TempDir()
	oldStore(t, dir, 700)
	var said []string
	opts := options(300)
	opts.Report = func(err error) { said = append(said, err.Error()) }
	s := open(t, dir, opts)
	defer s.Close()
	v := s.View()
	defer v.Close()
	found, err := v.Verify(t.Context(), func(int, int) {})
	if err != nil || len(found.Problems) > 0 || found.Jobs != 699 || !v.HasHealth() || s.Applied() != 712 {
		t.Errorf("%+v %v, applied %d", found, err, s.Applied())
	}
	text := strings.Join(said, "\n")
	for _, want := range []string{"699 jobs", "100 documents name no cluster", "1 rows had no document", "arrivals [5]"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in: %s", want, text)
		}
	}
	if sum := s.Summary(); sum.Counts["duplicate"] != 12 || sum.Clusters["vale"] != 599 {
		t.Errorf("%+v", sum)
	}
	if _, err := os.Stat(filepath.Join(dir, store.OldDatabase+".migrated")); err != nil {
		t.Error(err)
	}
}

// oldStore makes a store of format 3. Every seventh document does not name a cluster, arrival 5 has an invalid
// source, and arrival 9 lacks its document.
func oldStore(t *testing.T, dir string, jobs int64) {
	t.Helper()
	db, err := sql.Open("duckdb", filepath.Join(dir, store.OldDatabase))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	do := func(query string, args ...any) {
		if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	figures := "cluster VARCHAR NOT NULL, until TIMESTAMP NOT NULL, interval_us BIGINT NOT NULL"
	for i := range 26 {
		figures += fmt.Sprintf(", c%d BIGINT", i)
	}
	for _, statement := range []string{
		"CREATE TABLE jobs (seq BIGINT, arrived TIMESTAMP, source VARCHAR, collection VARCHAR, cluster VARCHAR)", "CREATE TABLE documents (seq BIGINT, document BLOB)",
		"CREATE TABLE counts (rule VARCHAR, documents BIGINT)", "INSERT INTO counts VALUES ('duplicate', 12)", "CREATE TABLE applied (seq BIGINT, version BIGINT)",
		"INSERT INTO applied VALUES (712, 3)", "CREATE TABLE clusters (cluster VARCHAR, kind VARCHAR, nodes BIGINT, cpus BIGINT, gpus BIGINT, description VARCHAR)",
		"INSERT INTO clusters VALUES ('vale', 'site', 4, 256, NULL, NULL)", "CREATE TABLE health (" + figures + ")",
		"INSERT INTO health (cluster, until, interval_us) VALUES ('vale', TIMESTAMP '2024-03-01', 60000000)", "UPDATE health SET " + zeros(26),
		"CREATE TABLE health_counts (cluster VARCHAR, until TIMESTAMP, kind VARCHAR, name VARCHAR, count BIGINT, us BIGINT)",
		"INSERT INTO health_counts VALUES ('vale', TIMESTAMP '2024-03-01', 'rpc', 'REQUEST_PING', 3, 5)",
	} {
		do(statement)
	}
	for seq := int64(1); seq <= jobs; seq++ {
		e := storetest.Entry(seq)
		cluster, source := "vale", "received"
		if seq%7 == 0 {
			cluster, e.Document = "moor", bytes.Replace(e.Document, []byte(`"cluster":"vale",`), nil, 1)
		}
		if seq == 5 {
			source = "valevalevale"
		}
		do("INSERT INTO jobs VALUES (?, ?, ?, 'slurm', ?)", seq, e.Arrived, source, cluster)
		if seq != 9 {
			do("INSERT INTO documents VALUES (?, ?)", seq, e.Document)
		}
	}
}

func zeros(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("c%d = 0", i)
	}
	return strings.Join(list, ", ")
}
