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

// TestFiguresLint holds names, types and help texts against Prometheus's conventions, with a scheduler's.
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
	f := &s.figures.scheduler
	for name, got := range map[string]float64{
		"7 pending":   testutil.ToFloat64(f.gauges[0].gauge.WithLabelValues("vale")) - 7,
		"6 submitted": testutil.ToFloat64(f.counters[0].counter.WithLabelValues("vale")) - 6,
		"8 pings":     testutil.ToFloat64(f.requests.WithLabelValues("vale", "REQUEST_PING")) - 8,
		"seen":        testutil.ToFloat64(f.seen.WithLabelValues("vale")) - 1700000000,
	} {
		if got != 0 {
			t.Errorf("%s: off by %g", name, got)
		}
	}
}

// TestGrafana holds the dashboard of packaging/grafana against the figures that it asks for.
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
	for _, c := range f.scheduler.collectors() {
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
					t.Errorf("%s asks for %s, which is no figure of the server", p.Title, name)
				}
			}
		}
	}
	if asked == 0 {
		t.Error("the dashboard asks for nothing")
	}
}
