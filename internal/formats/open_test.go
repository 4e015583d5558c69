package formats

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/workload"
)

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	trace := `{"rmreplay_trace":1,"epoch":"2024-01-01T00:00:00Z","source":"test"}` + "\n" + `{"type":"job","id":"a","submit":0,"run_time_s":1}`
	events := "# UB\n\n-dt 0 -e submit_batch_job | -J a"
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte(events)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"trace": trace, "events": events, "packed": packed.String()} {
		w, err := Open(write(name, text))
		if err != nil || w.Jobs.Len() != 1 || w.Jobs.At(0).ID != "a" {
			t.Errorf("%s: %+v, %v", name, w, err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "plain"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	write("run/manifest.json", "{}")
	for _, tt := range []struct{ path, want string }{
		{filepath.Join(dir, "none"), "reading workload: stat"},
		{filepath.Join(dir, "plain"), "a directory without manifest.json"},
		{filepath.Join(dir, "run"), "reading workload: "},
		{write("empty", ""), "reading workload: empty: empty"},
		{write("comments", "# only\n"), "reading events: comments: it has no job"},
		{write("swf", "; Version: 2.2\n"), "reading SWF: swf: it has no usable job"},
		{write("swf2", "1 0 1 2 -1 -1 -1 -1 60 -1 1 12 12 -1 -1 -1 -1 -1\n"), "it has no usable job (swf_no_processors 1; the first: neither requested"},
		{write("sacct", "Account|JobIDRaw|State\n"), "reading sacct: sacct:1: no column Submit, Start, End, ReqCPUS"},
		{write("text", "hello\n"), "format not known"},
		{write("other.json", `{"a":1}`), "other.json: format not known (want "},
		{write("old", `{"epoch":"2024-01-01T00:00:00Z"}`), "rmreplay_trace"},
		{write("badgzip", "\x1f\x8b\x00"), "badgzip"},
		{write("cutgzip", packed.String()[:packed.Len()-9]), "cutgzip"},
	} {
		_, err := Open(tt.path)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.path, err, tt.want)
		}
	}
}

func TestSave(t *testing.T) {
	w := read(t, "-dt 0 -e submit_batch_job | -J a")
	w.Mistake = "" // a trace does not keep the text
	for _, name := range []string{"w.jsonl", "w.jsonl.gz"} {
		path := filepath.Join(t.TempDir(), name)
		if err := Save(path, w); err != nil {
			t.Fatal(err)
		}
		got, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(w, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
	if err := Save(filepath.Join(t.TempDir(), "no", "such"), w); err == nil {
		t.Error("saved into a directory that does not exist")
	}
}

// TestOtherKinds: the error for a file that is not a workload says what the file is and which
// command reads it.
func TestOtherKinds(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte("ClusterName=c\n")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	write("sweep/cells/a/manifest.json", "{}")
	for _, tt := range []struct{ path, want string }{
		{write("site/slurm.conf", "ClusterName=c\n"), "slurm.conf: a slurm.conf, not a workload (want its directory with --cluster"},
		{write("conf.gz", packed.String()), "conf.gz: a slurm.conf, not a workload"},
		{write("log.swf", "<!DOCTYPE html><html>404</html>"), "log.swf: an HTML page"},
		{write("jobs", "JobId=1 JobName=x\n   UserId=u\n"), "jobs: the output of scontrol show job, not a workload"},
		{write("db.sql", "-- MySQL dump 10.13\n--\n"), "db.sql: a dump of a SQL database, not a workload"},
		{filepath.Join(dir, "site"), "site: a cluster directory, not a workload"},
		{filepath.Join(dir, "sweep"), "sweep: the results of a sweep, not a workload"},
	} {
		if _, err := Open(tt.path); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error with %q", tt.path, err, tt.want)
		}
	}
	trace := write("w.jsonl", `{"rmreplay_trace":1,"epoch":"2024-01-01T00:00:00Z","source":"test"}`+"\n"+`{"type":"job","id":"a","submit":0,"run_time_s":1}`+"\n")
	for _, tt := range []struct{ from, path, want string }{
		{"sacct", trace, "reading sacct: w.jsonl: a trace, "},
		{"sacct", write("20240301", pbsJob("1", "1700000000", "4", "a")), "(want --from pbs)"},
		{"pbs", filepath.Join(dir, "site", "slurm.conf"), "reading pbs: slurm.conf: a slurm.conf (want its directory"},
		{"sacct", filepath.Join(dir, "log.swf"), "reading sacct: log.swf: an HTML page"},
	} {
		read, err := AccountingReader(tt.from)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := Accounting(tt.from, read, []string{tt.path}, workload.ReadOptions{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s as %s: %v, want an error with %q", tt.path, tt.from, err, tt.want)
		}
	}
	if _, err := DetectAccounting(filepath.Join(dir, "log.swf")); err == nil || !strings.Contains(err.Error(), "an HTML page") {
		t.Errorf("an HTML page as accounting records: %v", err)
	}
	if _, err := OpenRun(trace); err == nil || !strings.Contains(err.Error(), "rmreplay replay and simulate make a run of a workload") {
		t.Errorf("a trace as a run: %v", err)
	}
}
