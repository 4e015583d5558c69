package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/forecast"
	"rmreplay/internal/forecast/capture"
)

// cluster is a made-up cluster of two nodes with a clock of its own. Its queue is captured.
type cluster struct {
	t       testing.TB
	at      time.Time
	jobs    []job
	private bool
	files   map[string]string // added to the files below, or in their place
	failure error
	asked   []capture.Options
}

// job is a job of the cluster. It runs if it has a start.
type job struct {
	id, user, name, reason, more string
	start                        time.Duration // time since began
	node                         int           // the node on which the job runs; 0 for a job that waits
}

var began = time.Date(2024, 3, 5, 12, 0, 0, 0, time.UTC)

func newCluster(t testing.TB) *cluster {
	return &cluster{t: t, at: began, jobs: []job{
		{id: "1", user: "ann", node: 1, start: -30 * time.Minute}, {id: "2", user: "bob", node: 2, start: -10 * time.Minute},
		{id: "3", user: "ann", reason: "Resources"}, {id: "4", user: "bob", reason: "Priority", name: `<b onclick="x()">"'&`},
		{id: "5", user: "eve", reason: "JobHeldUser"},
		{id: "6", user: "eve", reason: "Priority", more: "ArrayJobId=6 ArrayTaskId=1-2 "},
	}}
}

// capture makes a capture without Slurm's commands.
func (c *cluster) capture(_ context.Context, dir string, opts capture.Options) error {
	c.asked = append(c.asked, opts)
	if c.failure != nil {
		return c.failure
	}
	stamp := func(at time.Time) string { return at.Format("2006-01-02T15:04:05") }
	var jobs strings.Builder
	for i, j := range c.jobs {
		state, start, nodes := "PENDING", "Unknown", "(null)"
		if j.node > 0 {
			state, start, nodes = "RUNNING", stamp(began.Add(j.start)), fmt.Sprintf("n%d", j.node)
		}
		submit := stamp(began.Add(time.Duration(i-60) * time.Minute))
		fmt.Fprintf(&jobs, "JobId=%s %sJobName=%s\n   UserId=%s(1000) GroupId=staff(100)\n   Priority=%d Account=a QOS=normal\n"+
			"   JobState=%s Reason=%s Dependency=(null)\n   TimeLimit=01:00:00\n   SubmitTime=%s EligibleTime=%[8]s\n   StartTime=%s EndTime=Unknown\n"+
			"   Partition=batch\n   NodeList=%s\n   NumNodes=1 NumCPUs=4 NumTasks=4 CPUs/Task=1\n   OverSubscribe=NO\n   Command=x\n\n",
			j.id, j.more, j.name, j.user, 1000-i, state, j.reason, submit, start, nodes)
	}
	private := "none"
	if c.private {
		private = "accounts,jobs"
	}
	files := map[string]string{
		"capture.json": fmt.Sprintf(`{"rmreplay_capture":1,"at":%q,"time_zone":"UTC"}`, c.at.Format(time.RFC3339)),
		"jobs.txt":     jobs.String(), "nodes.txt": "NodeName=n1 State=IDLE\nNodeName=n2 State=IDLE\n",
		"config.txt": "PrivateData             = " + private + "\n",
		"cluster/slurm.conf": "ClusterName=c\nSlurmctldHost=h\nSelectType=select/cons_tres\nNodeName=n[1-2] CPUs=4\n" +
			"PartitionName=batch Nodes=ALL Default=YES MaxTime=1:00:00\n",
	}
	maps.Copy(files, c.files)
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			c.t.Fatal(err)
		}
	}
	return nil
}

// open opens a service of the cluster.
func (c *cluster) open(dir string) *Service {
	c.t.Helper()
	s, err := Open(dir, Options{
		Every: 5 * time.Minute, Keep: 30 * 24 * time.Hour, History: time.Hour, Timeout: time.Minute, Questions: 3, Zone: time.UTC,
		Forecast: forecast.Options{Realizations: 20, Seed: 1, RunTimes: forecast.FromHistory, Arrivals: forecast.NoArrivals,
			Horizon: 24 * time.Hour, Within: []time.Duration{time.Hour, 4 * time.Hour}},
		NewLearner: func() (forecast.Learner, error) { return forecast.NewShares(), nil },
		Say:        func(format string, args ...any) { c.t.Logf(format, args...) },
		capture:    c.capture, now: func() time.Time { return c.at },
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// turn has the service make a forecast.
func (c *cluster) turn(s *Service) {
	c.t.Helper()
	err := s.turn(c.t.Context())
	s.report(err)
	if (err != nil) != (c.failure != nil) {
		c.t.Fatalf("a turn ended with %v", err)
	}
}

// get asks a service, as a client of this machine.
func get(t testing.TB, h http.Handler, path string, to any, headers ...string) int {
	t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", path, nil)
	r.Host = "localhost"
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	h.ServeHTTP(w, r)
	switch to := to.(type) {
	case nil:
	case *string:
		*to = w.Body.String()
	default:
		if err := json.Unmarshal(w.Body.Bytes(), to); err != nil {
			t.Fatalf("%s: %v: %s", path, err, w.Body)
		}
	}
	return w.Code
}

// jobAnswer is an answer about jobs, or an error.
type jobAnswer struct {
	Answer
	Error string
}

// TestAnswers: jobs that wait and run, and what becomes of their forecasts.
func TestAnswers(t *testing.T) {
	c, dir := newCluster(t), filepath.Join(t.TempDir(), "data")
	s := c.open(dir)
	h := s.Handler(nil)
	var a jobAnswer
	if status := get(t, h, "/v1/jobs/3", &a); status != http.StatusServiceUnavailable || !strings.Contains(a.Error, "no forecast yet") {
		t.Errorf("without a forecast: %d %q", status, a.Error)
	}
	c.turn(s)
	c.at = began.Add(2 * time.Minute)
	for _, tt := range []struct {
		id, state, words string
		starts           bool
		n                int
	}{
		{"1", "running", "", false, 1}, {"3", "pending", "resources: for nodes that were in use", true, 1},
		{"4", "pending", "priority: behind", true, 1}, {"5", "pending", "held: while it was held", false, 1},
		{"6", "pending", "priority: behind", true, 2}, {"6_2", "pending", "priority: behind", true, 1},
	} {
		a = jobAnswer{}
		if status := get(t, h, "/v1/jobs/"+tt.id, &a); status != http.StatusOK || len(a.Jobs) != tt.n {
			t.Errorf("job %s: %d %s, %d jobs", tt.id, status, a.Error, len(a.Jobs))
			continue
		}
		one := a.Jobs[0]
		if one.State != tt.state || a.Forecast.Age != 120 || a.Forecast.Stale || *a.Forecast.At != began {
			t.Errorf("job %s: %+v of %+v", tt.id, one, a.Forecast)
		}
		if tt.state != "pending" {
			continue
		}
		starts := one.P10 != nil && one.P50 != nil && one.P90 != nil && !one.P10.Before(began) && !one.P50.Before(*one.P10) &&
			!one.P90.Before(*one.P50)
		if starts != tt.starts || !strings.HasPrefix(one.For.Words, tt.words) || (one.Look != nil) != tt.starts || len(one.Within) != 2 {
			t.Errorf("job %s: %+v", tt.id, one.Wait)
		}
	}
	for path, want := range map[string][2]int{
		"/v1/jobs": {5, 5}, "/v1/jobs?user=ann": {1, 1}, "/v1/jobs?partition=batch&most=2": {2, 5}, "/v1/jobs?partition=no": {0, 0},
	} {
		a = jobAnswer{}
		if status := get(t, h, path, &a); status != http.StatusOK || len(a.Jobs) != want[0] || a.Pending != want[1] {
			t.Errorf("%s: %d, %d of %d", path, status, len(a.Jobs), a.Pending)
		}
	}
	for path, want := range map[string]int{"/v1/jobs/99": 404, "/v1/jobs/x": 400, "/v1/jobs?most=-1": 400, "/v1/jobs?users=ann": 400, "/?user_name=ann": 400, "/v1/x": 404} {
		if status := get(t, h, path, nil); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	var machine struct {
		Now []Try `json:"submitted_now"`
	}
	get(t, h, "/v1/machine", &machine)
	if len(machine.Now) != 1 || machine.Now[0].Size != "1 node" || machine.Now[0].P50 == nil || *machine.Now[0].P50 <= 0 {
		t.Errorf("submitted now: %+v", machine.Now)
	}
}

// TestJudged: a job starts, and another job is cancelled. A service that was killed judges as a
// service that was not killed.
func TestJudged(t *testing.T) {
	c, dir := newCluster(t), filepath.Join(t.TempDir(), "data")
	s := c.open(dir)
	c.turn(s)
	c.at = began.Add(5 * time.Minute)
	c.turn(s)
	killed := filepath.Join(t.TempDir(), "data") // what a kill leaves: the directory as it is now
	c.at = began.Add(21 * time.Minute)
	c.jobs[0].start, c.jobs[0].node = 0, 0
	c.jobs = append(c.jobs[1:2], append([]job{{id: "3", user: "ann", node: 1, start: 20 * time.Minute}}, c.jobs[4:]...)...) // 4 is gone
	c.turn(s)
	c.at = c.at.Add(5 * time.Minute)
	c.turn(s)
	if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(killed, 0o700), os.Mkdir(filepath.Join(killed, freshName), 0o700),
		os.Mkdir(filepath.Join(killed, "rmreplay-forecast-7"), 0o700)); err != nil {
		t.Fatal(err)
	}
	read := func(s *Service) (all [4]string) {
		for i, path := range []string{"/v1/accuracy", "/v1/jobs", "/v1/jobs/6_1", "/v1/machine"} {
			if status := get(t, s.Handler(nil), path, &all[i]); status != http.StatusOK {
				t.Errorf("%s: %d", path, status)
			}
		}
		return all
	}
	want := read(s)
	var judged struct{ Accuracy Accuracy }
	if err := json.Unmarshal([]byte(want[0]), &judged); err != nil {
		t.Fatal(err)
	}
	a := judged.Accuracy
	if a.All.Forecasts != 2 || a.Gone != 1 || len(a.Groups) != 1 || a.Groups[0].Lead != "15 minutes to 1 hour" && a.Groups[0].Lead != "below 15 minutes" {
		t.Errorf("judged: %+v", a)
	}
	for name, dir := range map[string]string{"killed": killed, "closed": dir} {
		if name == "closed" {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		again := c.open(dir)
		if diff := cmp.Diff(want, read(again)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "rmreplay-forecast-*")); len(left) > 0 {
			t.Errorf("%s: %v is left", name, left)
		}
		if name == "killed" {
			if err := again.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestFault: slurmctld does not answer. The forecast becomes older and is marked as stale; Slurm is
// asked less often.
func TestFault(t *testing.T) {
	c := newCluster(t)
	s := c.open(filepath.Join(t.TempDir(), "data"))
	c.turn(s)
	if got := s.pause(time.Minute); got != 4*time.Minute {
		t.Errorf("a pause of %v", got)
	}
	s.tally.captureSeconds = 60
	if got := s.pause(time.Minute); got != 9*time.Minute {
		t.Errorf("a pause of %v after a capture of a minute", got)
	}
	c.failure = &capture.CommandError{Words: []string{"scontrol", "show", "job"}, Err: errors.New("no answer within 1m0s")}
	var pauses []time.Duration
	var a jobAnswer
	for range 6 {
		c.at = c.at.Add(5 * time.Minute)
		c.turn(s)
		pauses = append(pauses, s.pause(0))
		a = jobAnswer{}
		get(t, s.Handler(nil), "/v1/jobs/3", &a)
		if age := c.at.Sub(began); a.Forecast.Age != age.Seconds() || a.Forecast.Stale != (age > 15*time.Minute) ||
			(a.Jobs[0].Look == nil) != a.Forecast.Stale {
			t.Errorf("after %v: %+v, look again %v", age, a.Forecast, a.Jobs[0].Look)
		}
	}
	m := 5 * time.Minute
	if diff := cmp.Diff([]time.Duration{m, 2 * m, 4 * m, 8 * m, 8 * m, 8 * m}, pauses); diff != "" {
		t.Error(diff)
	}
	want := "slurmctld does not answer since 2024-03-05T12:05:00Z: scontrol show job: no answer within 1m0s"
	if a.Forecast.Fault == nil || a.Forecast.Fault.Text != want || !a.Forecast.Fault.Since.Equal(began.Add(m)) {
		t.Errorf("%+v, want %s", a.Forecast.Fault, want)
	}
	var figures string
	get(t, s.Handler(nil), "/metrics", &figures)
	for _, line := range []string{"rmreplay_forecast_stale 1\n", "rmreplay_forecast_age_seconds 1800\n",
		`rmreplay_forecast_steps_failed_total{step="capture"} 6`} {
		if !strings.Contains(figures, line) {
			t.Errorf("no %s in %s", line, figures)
		}
	}
	if strings.Contains(figures, "expected_wait") {
		t.Error("the waits of a stale forecast are shown")
	}
	c.failure = nil
	c.turn(s)
	a = jobAnswer{}
	if get(t, s.Handler(nil), "/v1/jobs/3", &a); a.Forecast.Fault != nil || a.Forecast.Stale || s.pause(m) > m {
		t.Errorf("%+v", a.Forecast)
	}
	get(t, s.Handler(nil), "/metrics", &figures)
	for _, line := range []string{"rmreplay_forecast_stale 0\n", `rmreplay_forecast_expected_wait_seconds{partition="batch",quantile="0.5",size="1 node"}`} {
		if !strings.Contains(figures, line) {
			t.Errorf("no %s in %s", line, figures)
		}
	}
	if last := c.asked[len(c.asked)-1]; !strings.HasSuffix(last.Earlier, "/capture") || last.Timeout != time.Minute {
		t.Errorf("asked for %+v", last)
	}
}

// TestHorizon: after a forecast that took too long the horizon is shorter. It grows again when
// forecasts are faster.
func TestHorizon(t *testing.T) {
	c := newCluster(t)
	s := c.open(filepath.Join(t.TempDir(), "data"))
	slow := time.Duration(0)
	s.opts.now = func() time.Time { // each look at the clock takes time
		c.at = c.at.Add(slow)
		return c.at
	}
	c.turn(s)
	if s.horizon != 24*time.Hour {
		t.Errorf("a horizon of %v, want 24h", s.horizon)
	}
	slow = 10 * time.Minute
	c.turn(s)
	if s.horizon != 6*time.Hour { // a quarter: a forecast may take 2.5 minutes
		t.Errorf("a horizon of %v, want 6h", s.horizon)
	}
	slow = 0
	c.turn(s)
	if notes := s.known.Round.Report.Notes; s.horizon != 24*time.Hour || !s.known.Round.Report.Horizon.Equal(s.known.Round.Report.At.Add(24*time.Hour)) {
		t.Errorf("a horizon of %v, notes %q", s.horizon, notes)
	}
}
