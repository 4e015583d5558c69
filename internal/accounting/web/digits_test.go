package web

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/accounting/store"
)

// manyDigits matches a number with too many digits: more than six decimals, or a negative exponent.
var manyDigits = regexp.MustCompile(`\d\.\d{7,}|\d[eE]-\d`)

// TestDigits checks that no number has too many digits, in the cells of all panels in JSON, CSV and
// HTML, and in the pages' texts.
func TestDigits(t *testing.T) {
	s := serve(t, 700)
	s.addHealth("vale")
	s.addFrozen("still")
	tags := regexp.MustCompile(`(?s)<script.*?</script>|<style.*?</style>|<[^>]*>`)
	check := func(path string) {
		text := s.get(path, http.StatusOK)
		if strings.Contains(path, "html") || !strings.HasPrefix(path, "api/") {
			text = tags.ReplaceAllString(text, " ")
		}
		if strings.TrimSpace(text) == "" {
			t.Errorf("%s is empty", path)
		}
		if found := manyDigits.FindAllString(text, 5); found != nil {
			t.Errorf("%s has %q", path, found)
		}
	}
	for _, path := range []string{"?static=1&last=all", "jobs/5?static=1", "jobs/6?static=1", "health?static=1&last=all", "health?static=1&last=all&a=vale&b=still"} {
		check(path)
	}
	for _, list := range [][]*panel{panels, healthPanels} {
		for _, p := range list {
			for _, format := range []string{"json", "csv", "html"} {
				check("api/v1/panels/" + p.name + "?last=all&format=" + format)
			}
		}
	}
}

// addFrozen adds figures of a scheduler on the frozen clock, where only one type of request took
// time.
func (s *site) addFrozen(cluster string) {
	s.t.Helper()
	var list []store.Health
	for i := range 6 {
		list = append(list, store.Health{
			Cluster: cluster, At: healthBegin.Add(time.Duration(i) * 10 * time.Minute), Interval: 10 * time.Minute, Pending: 3, Started: 4,
			Main: store.Cycles{Count: 10, Depth: 500}, Backfill: store.Cycles{Count: 2, Depth: 200, Tried: 40},
			Counts: []store.HealthCount{{Kind: store.Requests, Name: "REQUEST_PING", Count: 3, Micros: 7 * int64(i%2)}},
		})
	}
	if err := s.store.AddHealth(list...); err != nil {
		s.t.Fatal(err)
	}
}

// TestFrozenHealth checks that charts explain why all their values are 0, that charts of times say
// that computing took no time in a run, and that other charts have no such notes.
func TestFrozenHealth(t *testing.T) {
	s := serve(t, 50)
	s.addFrozen("still")
	s.addHealth("vale")
	if err := s.store.SetCluster(store.Cluster{Name: "still", Kind: kindRun, Frozen: true, Simulated: true}); err != nil {
		t.Fatal(err)
	}
	const frozen, zero, model = "Computing took no virtual time in still", "All values in the chart are 0.", "The model of slurmctld has no messages, so still has none."
	for _, c := range []struct {
		cluster, panel, note string
	}{
		{"still", "health-main", frozen}, {"still", "health-backfill", frozen}, {"still", "health-main", zero}, {"still", "health-agents", zero}, {"still", "health-agents", model},
		{"still", "health-jobs", ""}, {"still", "health-starts", ""}, {"still", "health-requests", ""}, {"still", "health-request-time", frozen},
		{"vale", "health-main", ""}, {"vale", "health-backfill", ""}, {"vale", "health-agents", ""},
	} {
		notes := strings.Join(s.panel(c.panel, "last", "all", "f", "cluster="+c.cluster).Notes, "\n")
		if c.note != "" && !strings.Contains(notes, c.note) || c.note == "" && (strings.Contains(notes, frozen) || strings.Contains(notes, zero)) {
			t.Errorf("%s of %s says %q, want %q", c.panel, c.cluster, notes, c.note)
		}
		html := s.get("api/v1/panels/"+c.panel+"?last=all&format=html&f=cluster%3D"+c.cluster, http.StatusOK)
		if !strings.Contains(html, c.note) {
			t.Errorf("the page's %s of %s does not say %q", c.panel, c.cluster, c.note)
		}
	}
	// Times of 0 do not lower the means of all clusters.
	r := s.panel("health-main", "last", "all")
	notes := strings.Join(r.Notes, "\n")
	wrong := slices.ContainsFunc(r.Rows, func(row []any) bool { return row[4] != nil && row[4] != 2.0 })
	if wrong || !strings.Contains(notes, "The means leave out still, because computing took no virtual time in this run") {
		t.Errorf("times of all clusters: %q, %v, want means of 2 ms", notes, r.Rows)
	}
	if notes := s.panel("health-starts", "last", "all").Notes; strings.Contains(strings.Join(notes, "\n"), "leave out still") {
		t.Errorf("starts of all clusters: %q", notes)
	}
	// They are shown for a range in which no other scheduler has figures.
	notes = strings.Join(s.panel("health-main", "from", "2024-03-05T09:50:00Z", "until", "2024-03-05T10:00:00Z").Notes, "\n")
	if strings.Contains(notes, "leave out still") || !strings.Contains(notes, zero) {
		t.Errorf("before the figures of vale: %q", notes)
	}
	if err := s.store.SetCluster(store.Cluster{Name: "vale", Kind: kindRun}); err != nil {
		t.Fatal(err)
	}
	const machine = "The times of vale are those of the machine that replayed."
	for panel, want := range map[string]bool{"health-main": true, "health-request-time": true, "health-jobs": false} {
		if notes := s.panel(panel, "last", "all").Notes; strings.Contains(strings.Join(notes, "\n"), machine) != want {
			t.Errorf("%s of a measured run: %q", panel, notes)
		}
	}
	if err := s.store.SetCluster(store.Cluster{Name: "vale", Kind: kindRun, Simulated: true}); err != nil {
		t.Fatal(err)
	}
	if notes := s.panel("health-main", "last", "all").Notes; strings.Contains(strings.Join(notes, "\n"), machine) {
		t.Errorf("times of a model: %q", notes)
	}
	// A chart of two schedulers has the values of both.
	html := s.get("api/v1/panels/health-main?last=all&format=html&a=vale&b=still", http.StatusOK)
	if !strings.Contains(html, "All values of still in the chart are 0.") || strings.Contains(html, "All values of vale") || strings.Contains(html, zero) {
		t.Errorf("the panel of two schedulers says %.2000s", html)
	}
}
