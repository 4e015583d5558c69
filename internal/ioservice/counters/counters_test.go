package counters

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rmreplay/internal/hpc"
)

var start = hpc.Unix(1_700_000_000)

func at(seconds float64) hpc.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

// filled returns a store with samples of job 7 on one node. pairs are seconds after start and
// bytes.
func filled(node string, pairs ...float64) *Store {
	s := NewStore()
	fill(s, node, pairs...)
	return s
}

func fill(s *Store, node string, pairs ...float64) {
	for i := 0; i < len(pairs); i += 2 {
		s.Add(Sample{Node: node, Job: "7", Time: at(pairs[i]), Bytes: pairs[i+1]})
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*(1+math.Abs(a)+math.Abs(b)) }

func TestJob(t *testing.T) {
	for _, test := range []struct {
		name           string
		store          *Store
		mean, variance float64
		seconds        float64
	}{
		{"steady", filled("n1", 0, 5, 10, 1005, 20, 2005), 100, 0, 40},
		{"two cells", filled("n1", 0, 0, 10, 1000, 20, 1000), 50, 2500, 40},
		{"half a cell is 2 of 10 s, as Python rounds", filled("n1", 0, 0, 25, 2500), 100, 0, 75},
		{"one cell", filled("n1", 0, 0, 2, 10, 4, 40), 10, 0, 8},
		{"interpolated", filled("n1", 0, 0, 5, 0, 15, 1000, 20, 1000), 50, 0, 20 + 2*20.0/3},
		{"a reset", filled("n1", 0, 9000, 10, 10000, 20, 1000), 100, 0, 40},
	} {
		use, found := test.store.Job("7", 0, 0)
		if !found || !near(use.Mean, test.mean) || !near(use.Variance, test.variance) || math.Abs(use.RunTime.Seconds()-test.seconds) > 1e-6 {
			t.Errorf("%s: %+v, %v, want %g, %g in %g s", test.name, use, found, test.mean, test.variance, test.seconds)
		}
	}
	two := filled("n1", 0, 0, 10, 1000, 20, 2000)
	fill(two, "n2", 10, 0, 20, 3000)
	if use, _ := two.Job("7", 0, 0); !near(use.Mean, 250) || !near(use.Variance, 150*150) {
		t.Errorf("two nodes: %+v", use)
	}
	for name, s := range map[string]*Store{"nothing": NewStore(), "one sample": filled("n1", 0, 1)} {
		if use, found := s.Job("7", 0, 0); found {
			t.Errorf("%s: %+v", name, use)
		}
	}
	if filled("n1", 0, 0).Add(Sample{Node: "n1", Time: at(0), Bytes: 1}) {
		t.Error("a second sample of one instant is taken")
	}
}

// TestDuring: the counters' values at a job's start and one second after its end are interpolated.
func TestDuring(t *testing.T) {
	s := filled("n1", -5, 0, 5, 1000, 15, 2000, 25, 3000)
	s.Add(Sample{Node: "n2", Alias: "42", Time: at(0), Bytes: 0})
	s.Add(Sample{Node: "n2", Alias: "42", Time: at(10), Bytes: 2000})
	use, found := s.During([]string{"n1"}, at(0), at(19))
	if !found || !near(use.Mean, 100) || !near(use.Variance, 0) || use.RunTime != 20*time.Second {
		t.Errorf("%+v, %v", use, found)
	}
	use, found = s.During([]string{"n1", "42"}, at(0), at(19))
	if !found || !near(use.Mean, 200) || !near(use.Variance, 100*100) {
		t.Errorf("by component_id: %+v, %v", use, found)
	}
	for _, nodes := range [][]string{{"n3"}, nil} {
		if use, found := s.During(nodes, at(0), at(19)); found {
			t.Errorf("%v: %+v", nodes, use)
		}
	}
	if use, found := s.During([]string{"n1"}, at(1000), at(1010)); found {
		t.Errorf("long after: %+v", use)
	}
	if _, found := s.During([]string{"n1"}, 1, math.MaxInt64); found {
		t.Error("a job of centuries")
	}
}

// TestProfileKeepsBytes: for all samples, the mean rate times the length of the job is the number
// of bytes that the counters added.
func TestProfileKeepsBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewStore()
		var bytes float64
		first, last := math.Inf(1), 0.0
		for node := range rapid.IntRange(1, 4).Draw(t, "nodes") {
			when, counter := rapid.Float64Range(0, 50).Draw(t, "first"), 0.0
			for i := range rapid.IntRange(2, 12).Draw(t, "samples") {
				if i > 0 {
					step := rapid.Float64Range(0, 1e6).Draw(t, "step")
					if rapid.IntRange(0, 9).Draw(t, "reset") == 0 {
						step = min(step, counter) / 2 // after a reset, a counter is below its old value
						counter = 0
					}
					counter += step
					bytes += step
					when += rapid.Float64Range(0.001, 40).Draw(t, "interval")
				}
				first, last = min(first, when), max(last, when)
				s.Add(Sample{Node: fmt.Sprint(node), Job: "7", Time: at(when), Bytes: counter})
			}
		}
		use, found := s.Job("7", 0, 0)
		if got := use.Mean * use.End.Sub(use.Start).Seconds(); !found || math.Abs(got-bytes) > 1e-6*(1+bytes) {
			t.Fatalf("%g bytes, want %g", got, bytes)
		}
	})
}

func TestRate(t *testing.T) {
	s := filled("n1", 0, 0, 5, 500, 10, 2500)
	fill(s, "n2", 2, 100, 8, 700)
	s.Add(Sample{Node: "ost", Job: "7", OfJob: true, Time: at(1), Bytes: 0})
	s.Add(Sample{Node: "ost", Job: "7", OfJob: true, Time: at(9), Bytes: 1 << 40})
	if rate, known := s.Rate(at(0), at(10)); !known || !near(rate, 350) {
		t.Errorf("%g, %v", rate, known)
	}
	if rate, known := s.Rate(at(11), at(20)); known {
		t.Errorf("nothing is there: %g", rate)
	}
}

func TestDrop(t *testing.T) {
	s := filled("n1", 0, 0, 10, 1000, 20, 2000, 30, 3000)
	s.Drop(at(15))
	if use, found := s.Job("7", 0, 0); !found || use.Start != at(10) {
		t.Errorf("%+v, %v", use, found)
	}
	s.Drop(at(31))
	if _, found := s.Job("7", 0, 0); found || len(s.series) != 0 || len(s.jobs) != 0 {
		t.Errorf("%d series, %d jobs are left", len(s.series), len(s.jobs))
	}
}

func TestLDMS(t *testing.T) {
	for _, test := range []struct{ name, fs, text, want string }{
		{"one column for each file system", "", "#Time,Time_usec,ProducerName,component_id,job_id,app_id,client.read_bytes#llite.a,client.read_bytes.rate#llite.a,client.write_bytes#llite.a,client.write_bytes#llite.b\n" +
			"1700000000.500000,500000,n1,1,7,0,10,99,200,3000\n", "n1/1// 7 0.5 3210"},
		{"one file system", "a", "#Time,Time_usec,ProducerName,component_id,job_id,client.read_bytes#llite.a-ffff,client.write_bytes#llite.b\n1700000001,0,n1,1,7,10,200\n", "n1/1// 7 1 10"},
		{"a row for each file system", "a", "#Time,ProducerName,component_id,job_id,fs_name,llite,read_bytes.sum,write_bytes.sum\n1700000001.0,n1,1,0,\"a\",\"a-ff\",10,200\n1700000001.0,n1,1,0,b,b-ff,1,1\n",
			"n1/1/a-ff/ 0 1 210\nskip"},
		{"no counters", "", "#Time,ProducerName,user\n", "no column has read_bytes or write_bytes (want a sampler of Lustre clients)"},
		{"no header", "", "1700000001,n1\n", "the header lacks #Time or ProducerName (want a file of LDMS's store_csv with its header)"},
		{"bad rows", "", "#Time,ProducerName,read_bytes.sum\nx,n1,1\n1700000001,,1\n1700000001,n1,-1\n1700000001,n1\n1700000001,n1,nan\n",
			"\"x\": not a time (want seconds since 1970)\nno ProducerName\n\"-1\": not a counter (want a number of bytes from 0 up)\n2 columns (want 3, as in the header)\n\"nan\": not a counter (want a number of bytes from 0 up)"},
	} {
		l := LDMS{FileSystem: test.fs}
		lines := strings.Split(strings.TrimSpace(test.text), "\n")
		var got []string
		if err := l.Header(lines[0]); err != nil {
			got = append(got, err.Error())
		} else {
			for _, line := range lines[1:] {
				x, skip, err := l.Line(line)
				switch {
				case err != nil:
					got = append(got, err.Error())
				case skip:
					got = append(got, "skip")
				default:
					got = append(got, fmt.Sprintf("%s/%s/%s/ %s %g %g", x.Node, x.Alias, x.Target, x.Job, x.Time.Sub(start).Seconds(), x.Bytes))
				}
			}
		}
		if diff := cmp.Diff(test.want, strings.Join(got, "\n")); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.name, diff)
		}
	}
}

const jobstatsText = `obdfilter.testfs-OST0000.job_stats=
job_stats:
- job_id:          7
  snapshot_time:   1700000010
  read_bytes:      { samples:           0, unit: bytes, min:       0, max:       0, sum:               0 }
  write_bytes:     { samples:           2, unit: bytes, min: 4096, max: 4096, sum: 8192 }
  getattr:         { samples:           0, unit:  reqs }
- job_id:          "8.nid00001"
  snapshot_time:   1700000020.500000000 secs.nsecs
  start_time:      1700000001.000000000 secs.nsecs
  elapsed_time:    19.500000000 secs.nsecs
  read_bytes:      { samples: 1, unit: bytes, min: 5, max: 5, sum: 5, sumsq: 25 }
- job_id:          kworker/3:1.0
  snapshot_time:   1700000020
  write_bytes:     { samples: 1, unit: bytes, min: 5, max: 5, sum: 5 }
mdt.testfs-MDT0000.job_stats=job_stats: []
`

func TestJobstats(t *testing.T) {
	var got []Sample
	others, err := Jobstats(strings.NewReader(jobstatsText), "stats", func(x Sample) { got = append(got, x) })
	want := []Sample{
		{Node: "obdfilter.testfs-OST0000", Target: "jobstats", Job: "7", OfJob: true, Time: at(10), Bytes: 8192},
		{Node: "obdfilter.testfs-OST0000", Target: "jobstats", Job: "8", OfJob: true, Time: at(20.5), Begin: at(1), Bytes: 5},
	}
	if diff := cmp.Diff(want, got); err != nil || others != 1 || diff != "" {
		t.Errorf("%v, %d others, %s", err, others, diff)
	}
	for text, want := range map[string]string{
		"":                                     "stats: no job_stats (want the output of lctl get_param obdfilter.*.job_stats)",
		"hello":                                `stats:1: "hello": not a line of job_stats (want KEY: VALUE)`,
		"a.job_stats=\nread_bytes: { sum: 1 }": `stats:2: "read_bytes: { sum: 1 }" comes before the first job_id`,
		"job_stats:\n- job_id: 7\n":            "stats: job 7 of  has no snapshot_time",
		"job_stats:\n- job_id: 7\n  read_bytes: { sum: x }":   `stats:3: "x": not a counter (want a number of bytes from 0 up)`,
		"job_stats:\n- job_id: 7\n  read_bytes: { unit: x }":  "stats:3: the counter has no sum",
		"job_stats:\n- job_id: 7\n  read_bytes: 12":           `stats:3: "12": not a counter of job_stats (want { samples: N, unit: bytes, ... sum: N })`,
		"job_stats:\n- job_id: 7\n  snapshot_time: yesterday": `stats:3: "yesterday": not a time (want seconds since 1970)`,
	} {
		if _, err := Jobstats(strings.NewReader(text), "stats", func(Sample) {}); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestJobsCounters: a server's counter for a job was 0 when the job began, so the job made all of
// its bytes.
func TestJobsCounters(t *testing.T) {
	add := func(pairs ...float64) *Store {
		s := NewStore()
		for i := 0; i < len(pairs); i += 2 {
			s.Add(Sample{Node: "ost", Target: "jobstats", Job: "7", OfJob: true, Time: at(pairs[i]), Bytes: pairs[i+1]})
		}
		return s
	}
	if use, found := add(10, 1000, 20, 2000).Job("7", 0, 0); !found || !near(use.Mean, 100) || use.Start != at(0) {
		t.Errorf("%+v, %v", use, found)
	}
	if use, found := add(25, 1000).Job("7", at(0), at(20)); !found || !near(use.Mean, 50) || use.RunTime != 20*time.Second {
		t.Errorf("one sample after the end: %+v, %v", use, found)
	}
	if use, found := add(25, 1000).Job("7", 0, 0); found {
		t.Errorf("one sample alone: %+v", use)
	}
}

const collectlText = `################################################################################
# Collectl:   V4.3.1-1  HiRes: 1  Options: -sl -P
# Host:       n1.site.example  DaemonOpts:
# Date:       20231114-231320  Secs: 1700000000 TZ: +0100
################################################################################
#Date Time [CLT]Reads [CLT]ReadKB [CLT]Writes [CLT]WriteKB
20231114 23:13:20 0 0 5 5000
20231114 23:13:30 0 10 5 90
20231114 23:13:40.000 0 0 5 200
`

func TestCollectl(t *testing.T) {
	c := Collectl{Node: "file"}
	s := NewStore()
	for line := range strings.Lines(collectlText) {
		x, none, err := c.Line(line)
		if err != nil {
			t.Fatal(err)
		}
		if !none {
			s.Add(x)
		}
	}
	use, found := s.During([]string{"n1"}, at(0), at(19))
	if !found || !near(use.Mean, 150*1024) || !near(use.Variance, 50*50*1024*1024) {
		t.Errorf("%+v, %v", use, found)
	}
	for _, line := range []string{"20231114 23:13:20 0 0 5", "today 23:13:20 0 0 5 1", "20231114 23:13:20 0 x 5 1", "#Date Time [CPU]User%"} {
		if x, _, err := c.Line(line); err == nil {
			t.Errorf("%q: %+v", line, x)
		}
	}
	if _, _, err := (&Collectl{}).Line("20231114 23:13:20 0 0 5 1"); err == nil {
		t.Error("a file without its header is read")
	}
}

func TestDarshan(t *testing.T) {
	text := "# darshan log version: 3.41\n# jobid: 7\n# start_time: 1700000000\n# start_time_asci: Tue Nov 14 22:13:20 2023\n# end_time: 1700000100\n# nprocs: 4\n" +
		"total_POSIX_BYTES_READ: 1000\ntotal_POSIX_BYTES_WRITTEN: 4000\ntotal_MPIIO_BYTES_WRITTEN: 4000\ntotal_STDIO_BYTES_WRITTEN: 500\ntotal_STDIO_BYTES_READ: -1\n"
	total, err := Darshan(strings.NewReader(text), "log")
	if want := (Total{Job: "7", Start: at(0), End: at(100), Bytes: 5500}); err != nil || total != want {
		t.Errorf("%+v, %v", total, err)
	}
	s := NewStore()
	s.AddTotal("a", total)
	s.AddTotal("a", total) // the same log, read a second time
	s.AddTotal("b", Total{Job: "7", Start: at(100), End: at(110), Bytes: 5500})
	if use, found := s.Job("7", 0, 0); !found || !near(use.Mean, 100) || use.RunTime != 110*time.Second {
		t.Errorf("%+v, %v", use, found)
	}
	for _, bad := range []string{"", strings.Replace(text, "1700000100", "1", 1), strings.Replace(text, ": 1000", ": ten", 1), strings.ReplaceAll(text, "total_", "sum_")} {
		if total, err := Darshan(strings.NewReader(bad), "log"); err == nil {
			t.Errorf("%q: %+v", bad, total)
		}
	}
}

const sacctText = `JobID|JobIDRaw|Start|End|Comment|JobName|NodeList|TRESUsageInTot|TRESUsageOutTot
7|7|2023-11-14T22:13:20|2023-11-14T22:15:00|jobtype=ior;|ior|n[1-2]||
7.batch|7.batch|2023-11-14T22:13:20|2023-11-14T22:15:00||batch|n1|cpu=00:00:01,fs/disk=1000,mem=1M|fs/disk=2.5K
7.0|7.0|2023-11-14T22:13:20|2023-11-14T22:15:00||ior|n[1-2]|fs/disk=1,fs/lustre=1M|fs/disk=1
8_1|9|2023-11-14T22:13:20|2023-11-14T22:15:00|||n1||
10|10|Unknown|Unknown|||None assigned||
`

func TestSacct(t *testing.T) {
	var got []SacctJob
	open, err := Sacct(strings.NewReader(sacctText), "sacct", time.UTC, func(j SacctJob) { got = append(got, j) })
	want := []SacctJob{
		{Total: Total{Job: "7", Start: at(0), End: at(100), Bytes: 1000 + 2560 + 1<<20 + 1}, Comment: "jobtype=ior;", Name: "ior", Nodes: "n[1-2]", Counted: true},
		{Total: Total{Job: "9", Start: at(0), End: at(100)}, Nodes: "n1"},
	}
	if diff := cmp.Diff(want, got); err != nil || open != 1 || diff != "" {
		t.Errorf("%v, %d open, %s", err, open, diff)
	}
	for text, want := range map[string]string{
		"":                      "sacct: empty (want the output of sacct -P with its header)",
		"JobID|Start\n7|1":      "sacct:1: the header lacks End (want sacct -P --format=" + strings.Join(sacctColumns, ",") + ")",
		sacctText + "11|11|x\n": "sacct:7: 3 columns (want 9, as in the header)",
		strings.Replace(sacctText, "2023-11-14T", "14.11.", 1): `sacct:2: "14.11.22:13:20": not a time (want 2024-03-05T12:00:00)`,
		strings.Replace(sacctText, "2.5K", "2.5X", 1):          `sacct:3: "2.5X": not a number of bytes (want digits, and K, M, G, T, P or E)`,
		strings.Replace(sacctText, "2.5K", "2.5.K", 1):         `sacct:3: "2.5.K": not a number of bytes (want digits, and K, M, G, T, P or E)`,
	} {
		if _, err := Sacct(strings.NewReader(text), "sacct", time.UTC, func(SacctJob) {}); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func FuzzTexts(f *testing.F) {
	for _, seed := range []string{jobstatsText, sacctText, collectlText, "# jobid: 7\n# start_time: 1\n# end_time: 2\ntotal_POSIX_BYTES_READ: 1\n",
		"#Time,ProducerName,read_bytes.sum,fs_name\n1700000000.1,n,1,a\n1700000000.2,n,0,a\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := NewStore()
		_, _ = Jobstats(strings.NewReader(text), "x", func(x Sample) { s.Add(x) })
		_, _ = Sacct(strings.NewReader(text), "x", time.UTC, func(j SacctJob) { s.AddTotal("x", j.Total) })
		if total, err := Darshan(strings.NewReader(text), "x"); err == nil {
			s.AddTotal("y", total)
		}
		var l LDMS
		var c Collectl
		header := false
		for line := range strings.Lines(text) {
			if x, none, err := c.Line(line); err == nil && !none {
				s.Add(x)
			}
			if !header {
				header = l.Header(line) == nil
			} else if x, skip, err := l.Line(strings.TrimSpace(line)); err == nil && !skip {
				s.Add(x)
			}
		}
		for job := range s.jobs {
			use, found := s.Job(job, 0, 0)
			if found && (use.Mean < 0 || use.Variance < 0 || use.RunTime < 0 || math.IsNaN(use.Mean)) {
				t.Errorf("job %s: %+v", job, use)
			}
		}
		s.Rate(0, math.MaxInt64)
		s.Drop(at(0))
	})
}
