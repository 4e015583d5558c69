package sources

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/ioservice"
)

var start = hpc.Unix(1_700_000_000)

// follower returns a follower of files in a new directory, the directory, and the messages of the
// follower.
func follower(t *testing.T, change func(*Options), kinds ...string) (f *Files, dir string, said *[]string) {
	t.Helper()
	dir, said = t.TempDir(), &[]string{}
	opts := Options{Retention: time.Hour, Zone: time.UTC}
	for _, kind := range kinds {
		opts.Files = append(opts.Files, kind+":"+filepath.Join(dir, kind+"*"))
	}
	if change != nil {
		change(&opts)
	}
	f, err := New(opts, func(format string, args ...any) {
		*said = append(*said, strings.ReplaceAll(fmt.Sprintf(format, args...), dir+"/", ""))
	})
	if err != nil {
		t.Fatal(err)
	}
	return f, dir, said
}

func put(t *testing.T, path, text string, flags int) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flags, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// mean returns the mean rate of a job in bytes/s, or -1 if it is not known.
func mean(f *Files, job ioservice.Job) float64 {
	use, found := f.Use(job)
	if !found {
		return -1
	}
	return use.Mean
}

const header = "#Time,ProducerName,component_id,job_id,read_bytes.sum,write_bytes.sum\n"

// TestGrowing: each line is read once, when it is complete. A file that was cut, or that replaced
// another file, is read from its beginning.
func TestGrowing(t *testing.T) {
	f, dir, said := follower(t, nil, "ldms")
	path := filepath.Join(dir, "ldms.1")
	for _, step := range []struct {
		text    string
		flags   int
		rename  bool
		samples int
	}{
		{header + "1700000000,n1,1,7,0,0\n17000000", os.O_APPEND, false, 1},
		{"10,n1,1,7,500,500\n", os.O_APPEND, false, 2},
		{"", os.O_APPEND, false, 2},
		{header + "1700000020,n1,1,7,1000,1000\n", os.O_TRUNC, false, 3},
		{header + "1700000030,n1,1,7,1500,1500\n1700000030,n1,1,7,9,9\n", os.O_TRUNC, true, 4},
	} {
		to := path
		if step.rename {
			to = filepath.Join(dir, "new")
		}
		put(t, to, step.text, step.flags)
		if step.rename {
			if err := os.Rename(to, path); err != nil {
				t.Fatal(err)
			}
		}
		f.Refresh(start)
		if got := f.Counts().Samples; got != step.samples {
			t.Errorf("after %q: %d samples, want %d", step.text, got, step.samples)
		}
	}
	if got := mean(f, ioservice.Job{ID: "7"}); got != 100 || f.Counts().Late != 1 || len(*said) != 0 {
		t.Errorf("rate %g, %+v, said %q", got, f.Counts(), *said)
	}
	f.Refresh(start.Add(2 * time.Hour))
	if got := mean(f, ioservice.Job{ID: "7"}); got != -1 {
		t.Errorf("after the retention: %g", got)
	}
}

// TestHeaderBeside: with its option altheader, LDMS writes the header to another file (.HEADER).
func TestHeaderBeside(t *testing.T) {
	f, dir, said := follower(t, nil, "ldms")
	put(t, filepath.Join(dir, "ldms.1"), "1700000000,n1,1,7,0,0\n1700000010,n1,1,7,0,1000\n", 0)
	f.Refresh(start)
	put(t, filepath.Join(dir, "ldms.1.HEADER"), header, 0)
	put(t, filepath.Join(dir, "ldms.1"), "1700000020,n1,1,7,0,2000\n1700000030,n1,1,7,0,3000\n", os.O_APPEND)
	f.Refresh(start)
	if got := mean(f, ioservice.Job{ID: "7"}); got != 100 || f.Counts().Samples != 2 || f.Counts().Bad != 2 {
		t.Errorf("rate %g, %+v", got, f.Counts())
	}
	if len(*said) != 1 || !strings.Contains((*said)[0], "no header (want #Time,... as the first line") {
		t.Errorf("said %q", *said)
	}
}

// TestKinds: the use of jobs is read from each kind of file. If a job's nodes and times are known,
// the counters of these nodes are used first.
func TestKinds(t *testing.T) {
	f, dir, said := follower(t, nil, "jobstats", "darshan", "sacct", "collectl")
	stats := "obdfilter.a-OST0.job_stats=\njob_stats:\n- job_id: 1\n  snapshot_time: %d\n  write_bytes: { samples: 1, unit: bytes, sum: %d }\n"
	put(t, filepath.Join(dir, "jobstats.oss1"), fmt.Sprintf(stats, 1_700_000_010, 1000), os.O_TRUNC)
	f.Refresh(start)
	put(t, filepath.Join(dir, "jobstats.oss1"), fmt.Sprintf(stats, 1_700_000_020, 12_000), os.O_TRUNC)
	put(t, filepath.Join(dir, "darshan.2"), "# jobid: 2\n# start_time: 1700000000\n# end_time: 1700000100\ntotal_POSIX_BYTES_READ: 20000\n", 0)
	put(t, filepath.Join(dir, "sacct"), "JobID|Start|End|TRESUsageInTot|TRESUsageOutTot\n3|2023-11-14T22:13:20|2023-11-14T22:15:00||\n3.0|||fs/disk=30000|\n", 0)
	put(t, filepath.Join(dir, "collectl.n4"), "# Host: n4\n#Date Time [CLT]ReadKB [CLT]WriteKB\n20231114 22:13:20 0 0\n20231114 22:13:40 4 0\n", 0)
	f.Refresh(start)
	for _, test := range []struct {
		job  ioservice.Job
		want float64
	}{
		{ioservice.Job{ID: "1"}, 600}, {ioservice.Job{ID: "2"}, 200}, {ioservice.Job{ID: "3"}, 300},
		{ioservice.Job{ID: "4", Nodes: []string{"n4"}, Start: start, End: start.Add(19 * time.Second)}, 4096},
		{ioservice.Job{ID: "2", Nodes: []string{"n9"}, Start: start, End: start.Add(19 * time.Second)}, 200},
		{ioservice.Job{ID: "5"}, -1},
	} {
		if got := mean(f, test.job); got < test.want-1e-6 || got > test.want+1e-6 {
			t.Errorf("%+v: %g, want %g", test.job, got, test.want)
		}
	}
	if rate, known := f.Rate(start, start.Add(time.Minute)); !known || rate != 4096 {
		t.Errorf("%g, %v", rate, known)
	}
	if diff := cmp.Diff([]string(nil), append([]string(nil), *said...)); diff != "" {
		t.Error(diff)
	}
}

// TestMistakes: the message is about a file's first mistake, all mistakes are counted, and the
// lines without mistakes are read.
func TestMistakes(t *testing.T) {
	f, dir, said := follower(t, nil, "ldms", "jobstats", "collectl")
	put(t, filepath.Join(dir, "ldms.1"), header+"x\n1700000000,n1,1,7,0,0\ny\n1700000010,n1,1,7,0,1000\n"+strings.Repeat("z", 3<<20)+"\n1800000000,n1,1,7,0,5000\n1700000020,n1,1,7,0,2000\n", 0)
	put(t, filepath.Join(dir, "jobstats.1"), "hello", 0)
	put(t, filepath.Join(dir, "collectl.1"), "\x00\xff\n", 0)
	if err := os.Mkdir(filepath.Join(dir, "ldms.dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		f.Refresh(start)
	}
	if got := mean(f, ioservice.Job{ID: "7"}); got != 100 || f.Counts().Samples != 3 || len(*said) != 4 {
		t.Errorf("rate %g, %+v, said %q", got, f.Counts(), *said)
	}
	_, err := New(Options{Files: []string{"ldms"}}, nil)
	if err == nil {
		t.Error("a source without files is taken")
	}
}
