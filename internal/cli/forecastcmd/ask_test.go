package forecastcmd

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/quantity"
)

const answered = `{"forecast":{"at":"2024-03-05T12:00:00Z","age_s":120,"stale":false},"jobs":[
{"id":"17","state":"pending","user":"ann\u001b[2J","partition":"batch","name":"x","cpus":64,"limit_s":7200,"submit":"2024-03-05T11:00:00Z",
"p10":"2024-03-05T12:30:00Z","p50":"2024-03-05T13:00:00Z","p90":null,"beyond_horizon":["p90"],"within":[{"within_s":3600,"probability":0.5}],
"ahead":{"jobs":3,"node_hours":12.4},"waits_for":{"reason":"Priority","words":"priority: behind jobs with a higher priority"},
"slurm_start":"2024-03-05T18:00:00Z","look_again":"2024-03-05T12:15:00Z"},
{"id":"18_2","state":"running","user":"bob","partition":"gpu","start":"2024-03-05T10:00:00Z"}]}`

// TestAsk asks servers with a fresh and with a stale forecast, a server that refuses, and a server
// that is not there.
func TestAsk(t *testing.T) {
	answer, status := answered, http.StatusOK
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.EscapedPath() != "/v1/jobs/17" || r.Header.Get("Authorization") != "Bearer abc" {
			t.Errorf("%s, %q", r.URL, r.Header)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(answer))
	}))
	defer web.Close()
	file := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(file, []byte("Bearer abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func(server string) (string, error) {
		var out bytes.Buffer
		c := commands{console.Output{Stdout: &out}}.newAsk()
		c.SilenceErrors, c.SilenceUsage = true, true
		c.SetArgs([]string{"17", "--server", server, "--server-auth", file})
		err := c.ExecuteContext(t.Context())
		return strings.ReplaceAll(out.String(), quantity.Space, " "), err
	}
	said, err := ask(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"in batch: waits (64 CPUs, limit 02:00:00)\n", "P10         Tue 5 Mar 2024 12:30\n", "P90         after the end of the forecast\n",
		"within 01:00:00 50.0 %\n", "waits for   priority: behind", "Slurm says  Priority\n", "before it   3 jobs of the partition, 12 node hours at most\n",
		"look again  Tue 5 Mar 2024 12:15\n", "job 18_2 of bob in gpu: runs since Tue 5 Mar 2024 10:00\n", "forecast of 2024-03-05T12:00:00Z, 2 min old\n",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in:\n%s", want, said)
		}
	}
	if strings.Contains(said, "\x1b") {
		t.Errorf("a user's name controls the terminal: %q", said)
	}
	exit := func(err error) int {
		var e *console.ExitError
		if errors.As(err, &e) {
			return e.Code
		}
		return -1
	}
	answer = strings.Replace(answered, `"stale":false`, `"stale":true,"fault":{"since":"2024-03-05T12:01:00Z","text":"slurmctld does not answer since X"}`, 1)
	said, err = ask(web.URL)
	if exit(err) != console.ExitInvalid || !strings.Contains(err.Error(), "stale") || !strings.Contains(err.Error(), "slurmctld does not answer since X") ||
		!strings.Contains(said, "P10") {
		t.Errorf("a stale forecast: %v, %s", err, said)
	}
	answer, status = `{"error":"job 17 neither waited nor ran"}`, http.StatusNotFound
	if _, err = ask(web.URL); exit(err) != console.ExitBadInput || err.Error() != "job 17 neither waited nor ran" {
		t.Errorf("a refusal: %v", err)
	}
	answer, status = `{"jobs":[{"id":"17"}]}`, http.StatusOK
	if _, err = ask(web.URL); err == nil || !strings.Contains(err.Error(), "not an answer of forecast serve") {
		t.Errorf("another server's JSON: %v", err)
	}
	answer = "<html>"
	if _, err = ask(web.URL); err == nil || !strings.Contains(err.Error(), "not JSON of forecast serve") {
		t.Errorf("another server: %v", err)
	}
	if _, err = ask(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "want a server of rmreplay forecast serve at --server") {
		t.Errorf("no server: %v", err)
	}
}

// TestAskSooner checks the text about changes that would make a job start sooner.
func TestAskSooner(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.EscapedPath() != "/v1/jobs/17/sooner" {
			t.Errorf("%s", r.URL)
		}
		_, _ = w.Write([]byte(`{"forecast":{"at":"2024-03-05T12:00:00Z","age_s":120,"stale":false},"job":"17",
			"p50":"2024-03-05T12:30:00Z","p90":null,"beyond_horizon":["p90"],"not_tried":["QOS=x"],"changes":[
			{"change":"TimeLimit=01:00:00","command":"scontrol update JobId=17 TimeLimit=01:00:00","condition":"if the job ends in time",
			"p10":null,"p50":"2024-03-05T12:20:00Z","p90":"2024-03-05T13:00:00Z","gain_p50_s":600,"gain_p90_s":7200,"at_least":["p90"]},
			{"change":"QOS=low","command":"scontrol update JobId=17 QOS=low\u001b[2J","p10":null,"p50":null,"p90":null,"gain_p50_s":null,"gain_p90_s":null,"why":"it is refused"}]}`))
	}))
	defer web.Close()
	var out bytes.Buffer
	c := commands{console.Output{Stdout: &out}}.newAsk()
	c.SetArgs([]string{"17", "--sooner", "--server", web.URL})
	if err := c.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	said := strings.ReplaceAll(out.String(), quantity.Space, " ")
	for _, want := range []string{
		"job 17 as it is\n  P50         Tue 5 Mar 2024 12:30\n  P90         after the end of the forecast\n",
		"scontrol update JobId=17 TimeLimit=01:00:00\n  P50         Tue 5 Mar 2024 12:20 (sooner: 10 min)\n",
		"(sooner: at least 2 h)\n  condition   if the job ends in time\n", "(sooner: not known)\n  never       it is refused\n",
		"the time was too short for QOS=x\n", "2 min old\n",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in:\n%s", want, said)
		}
	}
	if strings.Contains(said, "\x1b") {
		t.Errorf("a name controls the terminal: %q", said)
	}
}

// TestServeZone: the service's pages show times in the zone of --timezone, or in UTC if it is not
// given.
func TestServeZone(t *testing.T) {
	for _, want := range []string{"UTC", "Europe/Zurich"} {
		flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		opts := serveOptions{every: time.Minute, keep: 24 * time.Hour, timeout: time.Minute}
		opts.add(flags, time.Hour)
		opts.zone.Add(flags)
		if err := flags.Parse([]string{"--timezone", want}); err != nil {
			t.Fatal(err)
		}
		how, err := commands{}.serviceOptions(&opts)
		if err != nil || how.Zone.String() != want {
			t.Errorf("zone %v, error %v, want %s", how.Zone, err, want)
		}
	}
}
