package service_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/accounting/service"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
)

// TestBackup checks that the copy of a data directory includes the saved views and the reports of
// runs, and excludes unfinished files.
func TestBackup(t *testing.T) {
	dir, svc := filepath.Join(t.TempDir(), "data 1"), service.New()
	s, err := store.Open(t.Context(), dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := storetest.Fill(t.Context(), s, 1, 20); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	bare := filepath.Join(t.TempDir(), "bare")
	if _, err := svc.Backup(t.Context(), dir, bare); err != nil {
		t.Fatalf("without views and reports: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "reports"), 0o700); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"views.json": `{"mine":{"name":"mine","url":"?last=7d"}}`, "reports/what%2Fif.html": "<p>one</p>", "reports/b.html": "<p>two</p>", "reports/.b.html.123": "<p>t"}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	delete(files, "reports/.b.html.123")
	to := filepath.Join(t.TempDir(), "copy")
	size, err := svc.Backup(t.Context(), dir, to)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, want %q: %v", name, got, want, err)
		}
		size -= int64(len(want))
	}
	err = filepath.WalkDir(to, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(path) == ".html" || e.Name() == "views.json" {
			return err
		}
		info, err := e.Info()
		size -= info.Size()
		return err
	})
	if err != nil || size != 0 {
		t.Errorf("the store's files have %d bytes less: %v", size, err)
	}
	if reports, err := os.ReadDir(filepath.Join(to, "reports")); err != nil || len(reports) != 2 {
		t.Error(reports, err)
	}
	if info, err := svc.Info(t.Context(), to); err != nil || info.Jobs != 20 {
		t.Error(info, err)
	}
}

// sixty starts a server with sixty jobs. It returns its directory, one of the users, and the number
// of this user's jobs.
func sixty(t *testing.T) (dir, user string, jobs int64) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	server := start(t, dir, freeAddress(t))
	user = storetest.Entry(1).Job.User
	for n := range int64(60) {
		if status, body, err := post(server.address, synthetic(n+1)); err != nil || status != 201 {
			t.Fatal(status, body, err)
		}
		if storetest.Entry(n+1).Job.User == user {
			jobs++
		}
	}
	return dir, user, jobs
}

// TestRemove removes a user's jobs from a directory that a server has open.
func TestRemove(t *testing.T) {
	dir, user, jobs := sixty(t)
	svc := service.New()
	opts := service.Remove{Users: []string{user}, DryRun: true}
	for _, step := range []struct {
		dry           bool
		removed, left int64
	}{{true, jobs, 60}, {false, jobs, 60 - jobs}, {false, 0, 60 - jobs}} {
		opts.DryRun = step.dry
		r, err := svc.Remove(t.Context(), dir, opts)
		if err != nil || r.Jobs != step.removed {
			t.Errorf("%+v: %+v, %v", step, r, err)
		}
		if info, err := svc.Info(t.Context(), dir); err != nil || info.Jobs != step.left {
			t.Errorf("%+v: %+v, %v", step, info, err)
		}
	}
	if n := journalsWith(t, dir, user); n > 0 {
		t.Errorf("%d files of the journal have documents of the user", n)
	}
	if _, err := svc.Remove(t.Context(), dir, service.Remove{ClusterName: "hill"}); err == nil {
		t.Error("jobs of a cluster that is not there are removed")
	}
}

// TestAnonymize anonymizes a user's jobs in a directory that a server has open.
func TestAnonymize(t *testing.T) {
	dir, user, jobs := sixty(t)
	svc := service.New()
	if n := journalsWith(t, dir, user); n == 0 {
		t.Error("the journal never had the user's name")
	}
	opts := service.Remove{Users: []string{user}, As: "somebody"}
	for _, want := range []int64{jobs, 0} { // the second time, there are no jobs to anonymize
		if r, err := svc.Remove(t.Context(), dir, opts); err != nil || r.Jobs != want {
			t.Errorf("%+v, %v, want %d", r, err, want)
		}
		if info, err := svc.Info(t.Context(), dir); err != nil || info.Jobs != 60 {
			t.Error(info, err)
		}
	}
	verified, err := svc.Verify(t.Context(), dir, func(int, int) {})
	if err != nil || len(verified.Problems) > 0 {
		t.Error(verified, err)
	}
	if n := journalsWith(t, dir, user); n > 0 {
		t.Errorf("%d files of the journal have the user's name", n)
	}
	table := filepath.Join(t.TempDir(), "jobs.csv")
	if _, err := svc.Export(t.Context(), dir, service.Export{Output: table, Format: "csv"}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(table)
	if err != nil || bytes.Contains(text, []byte(user)) || bytes.Count(text, []byte("somebody")) < int(jobs) {
		t.Errorf("%d times the new name, want %d and never the old one: %v", bytes.Count(text, []byte("somebody")), jobs, err)
	}
}

// journalsWith returns the number of files in a directory's journal that contain a text.
func journalsWith(t *testing.T, dir, text string) (n int) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(dir, "journal", "*.segment"))
	if err != nil || len(segments) == 0 {
		t.Fatal(segments, err)
	}
	for _, path := range segments {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(content, []byte(text)) {
			n++
		}
	}
	return n
}

// TestRetentionSays checks that the server prints how many jobs it removed for good.
func TestRetentionSays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, err := store.Open(t.Context(), dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(storetest.Fill(t.Context(), s, 1, 20), s.Close()); err != nil {
		t.Fatal(err)
	}
	_, said := listening(t, service.Serve{Data: dir, Retention: 24 * time.Hour})
	const want = "--retention 24h: removed 20 jobs"
	for range 600 {
		if strings.Contains(said(), want) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("%q, want %q", said(), want)
}
