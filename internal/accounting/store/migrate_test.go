package store_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
)

// openVariable names a directory. If it is set, the test's program only opens the store there, with small parts.
const openVariable = "RMREPLAY_TEST_OPEN_STORE"

func TestMain(m *testing.M) {
	dir := os.Getenv(openVariable)
	if dir == "" {
		os.Exit(m.Run())
	}
	s, err := store.Open(context.Background(), dir, options(100))
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// withLog adds jobs to an older store as if its process had been killed: the jobs are only in the database's log.
func withLog(t *testing.T, dir string, first, last int64) {
	t.Helper()
	path := filepath.Join(dir, store.OldDatabase)
	db, err := sql.Open("duckdb", path)
	if err != nil {
		t.Fatal(err)
	}
	do := func(query string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	do("PRAGMA disable_checkpoint_on_shutdown")
	do("SET wal_autocheckpoint = '1TB'")
	for seq := first; seq <= last; seq++ {
		e := storetest.Entry(seq)
		do("INSERT INTO jobs VALUES (?, ?, 'received', 'slurm', 'vale')", seq, e.Arrived)
		do("INSERT INTO documents VALUES (?, ?)", seq, e.Document)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path + ".wal"); err != nil || info.Size() < 1000*(last-first) {
		t.Fatalf("the database has no log: %v", err)
	}
}

// TestMigrateKilled kills processes at random instants while they migrate a store, sometimes repeatedly. The next
// process always finds every job, including those in the database's log, and the database is still there unchanged.
func TestMigrateKilled(t *testing.T) {
	const jobs, logged, kills = 500, 40, 7
	origin := t.TempDir()
	oldStore(t, origin, jobs)
	withLog(t, origin, jobs+1, jobs+logged)
	database, err := os.ReadFile(filepath.Join(origin, store.OldDatabase))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var most time.Duration // the longest time that a migration took after its beginning
	middle, dir := 0, ""
	for n := range kills + 1 {
		if dir == "" {
			dir = t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(origin)); err != nil {
				t.Fatal(err)
			}
		}
		limit := time.Duration(rng.Float64() * float64(most))
		if n == 0 {
			limit = time.Minute
		}
		killed, took := migrateFor(t, dir, limit)
		most = max(most, took)
		begun, stays := there(t, dir, "store.json"), there(t, dir, store.OldDatabase)
		if killed && begun && stays {
			middle++
		}
		if killed && n%3 == 1 && n < kills {
			continue // the next process continues in the same directory
		}
		checkMigrated(t, dir, jobs, logged, database)
		dir = ""
	}
	if middle < 1 {
		t.Errorf("only %d of %d kills were in the middle of a migration that takes %v", middle, kills, most)
	}
}

func there(t *testing.T, dir, name string) bool {
	t.Helper()
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

// migrateFor opens a store in another process. It kills the process after the time limit, counted from when the new
// store.json exists. The result took is how long the process ran from then on.
func migrateFor(t *testing.T, dir string, limit time.Duration) (killed bool, took time.Duration) {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), openVariable+"="+dir)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said bytes.Buffer
	command.Stderr = &said
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	for !there(t, dir, "store.json") && len(ended) == 0 {
		time.Sleep(time.Millisecond)
	}
	begin := time.Now()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatalf("%v: %s", err, said.String())
		}
		return false, time.Since(begin)
	case <-time.After(limit):
		_ = command.Process.Kill() // the process may have ended
		return <-ended != nil, time.Since(begin)
	}
}

// checkMigrated checks that a migrated store has each job once, with its document.
func checkMigrated(t *testing.T, dir string, jobs, logged int64, database []byte) {
	t.Helper()
	s := open(t, dir, options(100))
	defer s.Close()
	v := s.View()
	defer v.Close()
	var seqs []int64
	err := v.Each(t.Context(), store.Filter{}, func(d *store.Stored) error {
		want := storetest.Entry(d.Seq).Document
		if d.Seq%7 == 0 && d.Seq <= jobs {
			want = bytes.Replace(want, []byte(`"cluster":"vale",`), nil, 1)
		}
		if !bytes.Equal(d.Document, want) {
			return fmt.Errorf("document %d is %q", d.Seq, d.Document)
		}
		seqs = append(seqs, d.Seq)
		return nil
	})
	if err != nil || int64(len(seqs)) != jobs+logged-1 || slices.Contains(seqs, 9) || seqs[len(seqs)-1] != jobs+logged {
		t.Fatalf("%d jobs, want %d: %v", len(seqs), jobs+logged-1, err)
	}
	found, err := v.Verify(t.Context(), func(int, int) {})
	if err != nil || len(found.Problems) > 0 || !v.HasHealth() || len(v.Clusters()) != 1 {
		t.Errorf("%+v %v", found, err)
	}
	if count(t, s, "SELECT count(*) FROM health") != 1 || count(t, s, "SELECT count(*) FROM health_counts") != 1 ||
		s.Summary().Counts["duplicate"] != 12 {
		t.Error("figures of schedulers, or counts, are lost or there twice")
	}
	kept, err := os.ReadFile(filepath.Join(dir, store.OldDatabase+".migrated"))
	if err != nil || !bytes.Equal(kept, database) || there(t, dir, store.OldDatabase) || !there(t, dir,
		store.OldDatabase+".migrated.wal") {
		t.Errorf("the database has changed, or is not set aside with its log: %v", err)
	}
}
