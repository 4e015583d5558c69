package service

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"rmreplay/internal/accounting/intake"
	"rmreplay/internal/accounting/store"
)

// TestFiguresLint checks names, types and help texts of all metrics against Prometheus's
// conventions.
func TestFiguresLint(t *testing.T) {
	s, err := open(t.Context(), t.TempDir(), intake.Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	h := store.Health{Cluster: "vale", At: time.Unix(1700000000, 0), Pending: 7, Submitted: 3,
		Main:   store.Cycles{Count: 2, Sum: 3 * time.Second, Last: time.Second},
		Counts: []store.HealthCount{{Kind: store.Requests, Name: "REQUEST_PING", Count: 4}}}
	s.figures.scheduler.set(&h)
	s.figures.scheduler.set(&h)
	problems, err := testutil.GatherAndLint(s.figures.registry)
	if err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
	want := `# HELP rmreplay_scheduler_jobs_pending Pending jobs.
# TYPE rmreplay_scheduler_jobs_pending gauge
rmreplay_scheduler_jobs_pending{cluster="vale"} 7
# HELP rmreplay_scheduler_jobs_submitted_total Submitted jobs.
# TYPE rmreplay_scheduler_jobs_submitted_total counter
rmreplay_scheduler_jobs_submitted_total{cluster="vale"} 6
# HELP rmreplay_scheduler_requests_total Requests that slurmctld has handled, by type.
# TYPE rmreplay_scheduler_requests_total counter
rmreplay_scheduler_requests_total{cluster="vale",type="REQUEST_PING"} 8
`
	if err := testutil.GatherAndCompare(s.figures.registry, strings.NewReader(want), "rmreplay_scheduler_jobs_pending",
		"rmreplay_scheduler_jobs_submitted_total", "rmreplay_scheduler_requests_total"); err != nil {
		t.Error(err)
	}
}

// TestGrafana checks that the metrics in the dashboard of packaging/grafana exist.
func TestGrafana(t *testing.T) {
	text, err := os.ReadFile("../../../packaging/grafana/accounting.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	descriptions := make(chan *prometheus.Desc, 100)
	f := newFigures()
	f.questions.Describe(descriptions)
	f.requests.Describe(descriptions)
	(&directoryFigures{}).Describe(descriptions)
	for _, c := range f.scheduler.collectors {
		c.Describe(descriptions)
	}
	close(descriptions)
	known := map[string]bool{}
	for d := range descriptions {
		name, _, _ := strings.Cut(strings.TrimPrefix(d.String(), `Desc{fqName: "`), `"`)
		known[name] = true
	}
	names, asked := regexp.MustCompile(`rmreplay_[a-z_]+`), 0
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			for _, name := range names.FindAllString(target.Expr, -1) {
				asked++
				name = strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count")
				if !known[name] {
					t.Errorf("%s asks for %s, which is not a figure of the server", p.Title, name)
				}
			}
		}
	}
	if asked == 0 {
		t.Error("the dashboard asks for nothing")
	}
}
