package cli

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/metrics"
	"rmreplay/internal/run"
)

// invoke runs a command that must exit with 0 and returns its output.
func invoke(t *testing.T, args ...string) []byte {
	t.Helper()
	return invokeFor(t, console.ExitOK, args...)
}

// invokeFor runs a command that must exit with a status and returns its output.
func invokeFor(t *testing.T, status int, args ...string) []byte {
	t.Helper()
	var out, errs bytes.Buffer
	if code := execute(t.Context(), args, &out, &errs); code != status {
		t.Fatalf("rmreplay %s: exit status %d, want %d: %s", strings.Join(args, " "), code, status, errs.String())
	}
	return out.Bytes()
}

// Users react to the real Slurm: a workload recorded on eight nodes runs again on four.
//
// Ada and Boris each fill half of the machine for ten minutes. Then a job of Boris fills the whole
// machine for one minute. Later in the same session Boris submits b2, and after a break b3. On four
// nodes Boris waits for Ada, and Slurm refuses the job that filled the machine. So Boris has the
// first results after 20 minutes, not after eleven and a half. The models differ in what Boris does
// then:
//
//   - think-time: b2 belongs to the session and is submitted as recorded. It waits for b1
//     and ends 200 s later than recorded, and so b3 comes 200 s later;
//   - adjusted: b2 is a batch of its own. It comes 510 s later, and so does b3;
//   - fluid: by then the session is over. b2 waits for the next session, and b3 waits for b2;
//   - distribution: b2 comes 510 s later, and the break absorbs the delay.
//
// Nothing changes for Ada.
func TestClosedLoopOnSlurm(t *testing.T) {
	needSlurm(t)
	dir := t.TempDir()
	cluster := filepath.Join(dir, "cluster")
	writeFiles(t, cluster, smallCluster)
	writeFiles(t, dir, map[string]string{"work.jsonl": trace(
		`{"type":"job","id":"a1","submit":0,"user":"ada","run_time_s":600,"time_limit_s":900,"min_nodes":4,"exclusive":"node"}`,
		`{"type":"job","id":"b1","submit":30,"user":"boris","run_time_s":600,"time_limit_s":900,"min_nodes":4,"exclusive":"node"}`,
		`{"type":"job","id":"big","submit":100,"user":"boris","run_time_s":60,"time_limit_s":120,"min_nodes":8}`,
		`{"type":"job","id":"b2","submit":1000,"user":"boris","run_time_s":60,"time_limit_s":120}`,
		`{"type":"job","id":"b3","submit":5000,"user":"boris","run_time_s":60,"time_limit_s":120}`,
		`{"type":"job","id":"a2","submit":5010,"user":"ada","run_time_s":60,"time_limit_s":120}`)})
	replayed := func(status int, path, output string, more ...string) string {
		output = filepath.Join(dir, output)
		invokeFor(t, status, append([]string{"replay", path, "--cluster", cluster, "-o", output, "--no-accounting", "--quiet"}, more...)...)
		return output
	}
	recorded := replayed(console.ExitOK, filepath.Join(dir, "work.jsonl"), "recorded")
	for _, tt := range []struct {
		model  string
		b2, b3 float64 // how late, in seconds
	}{
		{"none", 0, 0}, {"think-time", 0, 200}, {"adjusted", 510, 510}, {"fluid", 4000, 60}, {"distribution", 510, 0},
	} {
		t.Run(tt.model, func(t *testing.T) {
			r, err := run.Open(replayed(console.ExitInvalid, recorded, tt.model, "--nodes", "x0.5", "--feedback", tt.model))
			if err != nil {
				t.Fatal(err)
			}
			rows, err := r.Jobs()
			if err != nil {
				t.Fatal(err)
			}
			// Slurm starts a job some seconds after it could.
			want := map[string]float64{"b2": tt.b2, "b3": tt.b3}
			for _, row := range rows {
				late := row.Submit.Sub(row.RecordedSubmit).Seconds()
				if math.Abs(late-want[row.Job]) > 60 {
					t.Errorf("job %s: submitted %.0f s late, want about %.0f", row.Job, late, want[row.Job])
				}
				if (row.State == "REJECTED") != (row.Job == "big") {
					t.Errorf("job %s: %s", row.Job, row.State)
				}
			}
			s, err := metrics.FromRun(r, metrics.Options{})
			if err != nil || len(rows) != 6 {
				t.Fatalf("%d rows, %v", len(rows), err)
			}
			if (s.Feedback != nil) != (tt.model != "none") {
				t.Errorf("metrics of feedback: %v", s.Feedback)
			}
			if mean := (tt.b2 + tt.b3) / 6; s.Feedback != nil && math.Abs(float64(s.Feedback.Mean)-mean) > 30 {
				t.Errorf("mean lateness %v s, want about %v", s.Feedback.Mean, mean)
			}
		})
	}
}

// The model distribution knows a user's days of the week only from a workload that has them. A run warns of days without
// a submission.
func TestDistributionDays(t *testing.T) {
	dir := t.TempDir()
	job := func(day int) string {
		return fmt.Sprintf(`{"type":"job","id":"%d","submit":%d,"user":"ada","run_time_s":60,"tasks":1,`+
			`"recorded":{"start":%[2]d,"end":%d}}`, day, 86400*day, 86400*day+60)
	}
	var week []string
	for i := range 7 {
		week = append(week, job(i))
	}
	writeFiles(t, dir, map[string]string{"week.jsonl": trace(week...), "days.jsonl": trace(week[0], week[2])})
	const want = "no submission on 5 of the 7 days of the week"
	for _, tt := range []struct {
		workload, model string
		warns           bool
	}{{"days", "distribution", true}, {"days", "fluid", false}, {"week", "distribution", false}} {
		output := filepath.Join(dir, tt.workload+tt.model)
		text := invoke(t, "simulate", filepath.Join(dir, tt.workload+".jsonl"), "--processors", "1", "--feedback", tt.model,
			"-o", output, "-q")
		r, err := run.Open(output)
		if err != nil {
			t.Fatal(err)
		}
		kept := slices.ContainsFunc(r.Manifest.Warnings, func(w run.Warning) bool {
			return w.Code == "days-without-submissions" && strings.Contains(w.Text, want)
		})
		if kept != tt.warns || strings.Contains(string(text), want) != tt.warns {
			t.Errorf("%s, %s: warnings %v; output\n%s", tt.workload, tt.model, r.Manifest.Warnings, text)
		}
	}
}

// The schema describes the metrics of a run with feedback.
func TestFeedbackSchema(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"log.swf": swfLog})
	log, output := filepath.Join(dir, "log.swf"), filepath.Join(dir, "run")
	first := invoke(t, "simulate", log, "--feedback", "fluid", "--jitter", "10s", "--perf", "x0.5", "-o", output, "-q", "--json")
	second := invoke(t, "metrics", output, "--json")
	for _, text := range [][]byte{first, second} {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema(t, "metrics.schema.json").Validate(value); err != nil {
			t.Error(err)
		}
		if feedback, _ := value.(map[string]any)["feedback"].(map[string]any); feedback["sessions"] != "arrival:60m" {
			t.Errorf("feedback: %v", feedback)
		}
	}
}

// swfLog is a log of six jobs of two users on four processors.
const swfLog = `; MaxProcs: 4
; UnixStartTime: 1000000000
1 0 0 100 4 -1 -1 4 200 -1 1 1 1 -1 -1 -1 -1 -1
2 10 90 50 2 -1 -1 2 100 -1 1 2 1 -1 -1 -1 -1 -1
3 20 80 3600 1 -1 -1 1 7200 -1 1 2 1 -1 -1 -1 -1 -1
4 9000 0 60 4 -1 -1 4 100 -1 1 1 1 -1 -1 -1 -1 -1
5 9010 50 60 3 -1 -1 3 100 -1 1 2 1 -1 -1 -1 -1 -1
6 90000 0 60 1 -1 -1 1 100 -1 1 1 1 -1 -1 -1 -1 -1
`
