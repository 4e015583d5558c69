package events_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/formats"
	"rmreplay/internal/formats/events"
	"rmreplay/internal/hpc"
	"rmreplay/internal/lines"
	"rmreplay/internal/realdata"
	"rmreplay/internal/workload"
)

func readEvents(t *testing.T, text string) *workload.Workload {
	t.Helper()
	w, err := events.Read(strings.NewReader(text), "x.events", workload.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestRead(t *testing.T) {
	got := readEvents(t, "\xef\xbb\xbf# a comment\r\n\r\n"+
		"-dt 0 -e submit_batch_job | -J jobid_1001 -sim-walltime 15 --uid=user5 -t 00:07:00 -n 12 -C 'a|b' pseudo.job\r\n"+
		"   -dt   10.75 -e submit_batch_job|-jid 1002 -sim-walltime -1 --uid=user1 -d afterok:1001:1003_4 pseudo.job\n"+
		"-e submit_batch_job -dt 5 | -J a -a 1-5 --exclusive=user\n"+
		"-dt 6 -e submit_batch_job | -J a -d afterany:a_2,9\n"+
		"-dt 20 -e cancel_job | -jid 1002\n"+
		"-dt 6 -e cancel_job | --job-name=a#6\n")
	at := func(s float64) hpc.Time { return workload.DefaultEpoch.Add(time.Duration(s * float64(time.Second))) }
	want := &workload.Workload{
		Epoch: workload.DefaultEpoch, Source: "x.events",
		Rules:   map[string]int{workload.RuleOutOfOrder: 2, workload.RuleRenamed: 1},
		Mistake: "submitted at 2024-01-01T00:00:05Z, after a job that was submitted at 2024-01-01T00:00:10.75Z",
		Jobs: workload.JobsOf([]*hpc.Job{
			{ID: "jobid_1001", Submit: at(0), Behaviour: hpc.Behaviour{RunTime: 15 * time.Second},
				Request: hpc.Request{Name: "jobid_1001", User: "user5", TimeLimit: 7 * time.Minute, Tasks: 12, Constraint: "a|b"}},
			{ID: "a", Submit: at(5), Behaviour: hpc.Behaviour{RunTime: hpc.Unlimited},
				Request: hpc.Request{Name: "a", Array: "1-5", Exclusive: "user"}},
			{ID: "a#6", Submit: at(6), Behaviour: hpc.Behaviour{RunTime: hpc.Unlimited, CancelAfter: 1},
				Request: hpc.Request{Name: "a", Dependency: "afterany:a_2,afterany:9"}},
			{ID: "jobid_1002", Submit: at(10.75), Behaviour: hpc.Behaviour{RunTime: hpc.Unlimited, CancelAfter: 9250 * time.Millisecond},
				Request: hpc.Request{Name: "jobid_1002", User: "user1", Dependency: "afterok:jobid_1001,afterok:1003_4"}},
		}...),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestReadEpoch(t *testing.T) {
	w, err := events.Read(strings.NewReader("-dt 3600 -e submit_batch_job | -b 02:00"), "x", workload.ReadOptions{Epoch: hpc.Unix(86400)})
	if err != nil || w.Jobs.Submit(0) != hpc.Unix(90000) || w.Jobs.At(0).Begin != time.Hour {
		t.Fatalf("%+v, %v", w, err)
	}
}

func TestReadErrors(t *testing.T) {
	const good = "-dt 0 -e submit_batch_job | -J a\n"
	tests := []struct{ text, want string }{
		{"", "reading events: x.events: it has no job"},
		{"# nothing\n\n", "reading events: x.events: it has no job"},
		{good + "-dt 1 -e submit_batch_job | -t 00:7x", "reading events: x.events:2: -t 00:7x: not a time limit (want minutes, HH:MM:SS or D-HH:MM:SS)"},
		{"-dt 1 -e submit_batch_job -J a", "x.events:1: no event (want"},
		{"-dt 1 -e submit_job | -J a", "-e submit_job: not a known event (want submit_batch_job or cancel_job)"},
		{"-dt x -e submit_batch_job | -J a", "-dt x: not a time"},
		{"-dt -4 -e submit_batch_job | -J a", "-dt -4: not a time"},
		{"-dt 1e300 -e submit_batch_job | -J a", "-dt 1e300: not a time"},
		{"-e submit_batch_job | -J a", "-dt: missing"},
		{"-dt 1 | -J a", "-e: missing"},
		{"-dt 1 -e | -J a", "-e: needs a value"},
		{"-t 1 -e submit_batch_job | -J a", "-t: not known before |"},
		{"-dt 1 -e submit_batch_job | -J 'a", "a quote (') is not closed"},
		{"-dt 1 -e submit_batch_job | --ntask-per-node=2", "(did you mean --ntasks-per-node?)"},
		{good + "-dt 1 -e cancel_job | -J b", "x.events:2: cancel_job: no job is named b"},
		{good + "-dt 1 -e cancel_job |", "cancel_job: needs one job"},
		{"-dt 1 -e cancel_job | -J a\n-dt 5 -e submit_batch_job | -J a", "x.events:1: cancel_job: a is submitted later, at -dt 5"},
		{good + strings.Repeat("x", lines.Longest+1), "x.events:2: line of more than 16 MiB"},
	}
	for _, tt := range tests {
		_, err := events.Read(strings.NewReader(tt.text), "x.events", workload.ReadOptions{})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.80q: error %v, want %q", tt.text, err, tt.want)
		}
	}
}

func TestRealEvents(t *testing.T) {
	tests := []struct {
		file             string
		jobs, untilLimit int
	}{
		{"slurm/micro/jobs500.events", 500, 63},
		{"slurm/micro/jobs500org.events", 500, 0},
		{"slurm/micro/small.events", 20, 3},
		{"slurm/micro/small2.events", 6, 0},
		{"slurm/medium/workload_5k.events", 5000, 0},
	}
	for _, tt := range tests {
		w, err := formats.Open(realdata.Path(t, tt.file))
		if err != nil {
			t.Error(err)
			continue
		}
		endless, ids := 0, map[string]bool{}
		for _, job := range w.Jobs.All() {
			ids[job.ID] = true
			if job.RunTime == hpc.Unlimited {
				endless++
			}
		}
		if w.Jobs.Len() != tt.jobs || endless != tt.untilLimit || len(ids) != tt.jobs || len(w.Rules) != 0 {
			t.Errorf("%s: %d jobs, %d until their limit, %d IDs, rules %v; want %d and %d", tt.file, w.Jobs.Len(), endless, len(ids), w.Rules, tt.jobs, tt.untilLimit)
		}
		for _, p := range workload.Validate(w, workload.Cluster{}) {
			if p.Severity == workload.Error {
				t.Errorf("%s: %s", tt.file, p)
			}
		}
	}
}

func BenchmarkRead5k(b *testing.B) {
	text, err := os.ReadFile(realdata.Path(b, "slurm/medium/workload_5k.events"))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := events.Read(strings.NewReader(string(text)), "5k", workload.ReadOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("-dt 0 -e submit_batch_job | -J a -sim-walltime 5 pseudo.job\n-dt 1 -e cancel_job | -J a")
	f.Add("-dt 0 -e submit_batch_job|\n-dt 1 -e cancel_job|") // sbatch and scancel without a word
	f.Add("-dt 1.5 -e submit_batch_job | -J a -d a_1\n-dt 0 -e submit_batch_job | -J a -a 1-3")
	f.Fuzz(func(t *testing.T, text string) {
		w, err := events.Read(strings.NewReader(text), "fuzz", workload.ReadOptions{})
		if err != nil {
			return
		}
		var last hpc.Time
		for _, job := range w.Jobs.All() {
			if job.Submit < last || job.Submit < w.Epoch {
				t.Fatalf("job %s out of order", job.ID)
			}
			last = job.Submit
		}
		for _, p := range workload.Validate(w, workload.Cluster{}) {
			if p.Rule == workload.RuleDuplicateID || p.Rule == workload.RuleNoID || p.Rule == workload.RuleNegativeTime {
				t.Fatal(p)
			}
		}
	})
}

// TestCutOff: the reader refuses a file that ends in the middle of a line. If the reader cannot
// tell, it accepts the last line and counts it under a rule.
func TestCutOff(t *testing.T) {
	const whole = "-dt 0 -e submit_batch_job | -n 1 -t 5 --uid=u -J a pseudo.job\n-dt 9 -e submit_batch_job | -n 12 -t 5 --uid=u -J job_12 pseudo.job"
	cut := errors.New("x:2: unlike the other lines, the last one has neither a line end nor a script: the file is cut off (want the whole line)")
	for _, test := range []struct {
		text    string
		err     error // nil if the file is read
		counted int
	}{
		{whole, nil, 0},
		{whole + "\n", nil, 0},
		{whole + " -sleep 3", nil, 1},
		{strings.TrimSuffix(whole, "b"), nil, 1},
		{strings.TrimSuffix(whole, " pseudo.job"), cut, 0},
		{strings.TrimSuffix(whole, "2 pseudo.job"), cut, 0},
		{strings.TrimSuffix(whole, "2 pseudo.job") + "\n", nil, 0},
		{whole + "\n-dt 10 -e cancel_job | -J a", nil, 1},
		{whole + "\n-dt 10 -e cancel_job | -J a\n# a note", nil, 0},
		{"-dt 0 -e submit_batch_job | -n 1 -t 5 --uid=u -J a", nil, 1},
	} {
		w, err := events.Read(strings.NewReader(test.text), "x", workload.ReadOptions{})
		switch {
		case test.err != nil:
			if err == nil || !strings.Contains(err.Error(), test.err.Error()) {
				t.Errorf("%q: error %v, want %v", test.text, err, test.err)
			}
		case err != nil:
			t.Errorf("%q: %v", test.text, err)
		case w.Rules[workload.RuleNoLineEnd] != test.counted:
			t.Errorf("%q: rules %v, want %d", test.text, w.Rules, test.counted)
		}
	}
}

// A job with more nodes than tasks is counted.
func TestFewerNodes(t *testing.T) {
	w, err := events.Read(strings.NewReader("-dt 0 -e submit_batch_job | -N 4 -n 2 -t 5 a.job\n"), "x", workload.ReadOptions{})
	if err != nil || w.Rules[workload.RuleFewerNodes] != 1 {
		t.Errorf("%+v, %v", w, err)
	}
}
