package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/accounting/store"
	"rmreplay/internal/chromium"
	"rmreplay/internal/quantity"
)

var healthBegin = time.Date(2024, 3, 5, 10, 0, 0, 0, time.UTC)

// addHealth adds an hour of figures of a cluster, one at the end of each minute. Minutes 20 to 39 are missing.
func (s *site) addHealth(cluster string) {
	s.t.Helper()
	var list []store.Health
	for i := range 60 {
		if i >= 20 && i < 40 {
			continue
		}
		list = append(list, store.Health{
			Cluster: cluster, At: healthBegin.Add(time.Duration(i)*time.Minute + 59*time.Second), Interval: time.Minute, Threads: 3, AgentQueue: int64(i), DBDQueue: 1, Pending: int64(100 + i), Running: 7,
			Submitted: 5, Started: 4, Backfilled: 1, Completed: 2, Table: 9,
			Main:     store.Cycles{Count: 10, Sum: 20 * time.Millisecond, Longest: 7 * time.Millisecond, Depth: 500, Last: time.Millisecond, Queue: 50},
			Backfill: store.Cycles{Count: 2, Sum: 3 * time.Second, Longest: 2 * time.Second, Depth: 200, Tried: 40, Last: time.Second, Queue: 60},
			Counts: []store.HealthCount{
				{Kind: store.MainExit, Name: "end_job_queue", Count: 10}, {Kind: store.BackfillExit, Name: "bf_max_time", Count: 2},
				{Kind: store.Requests, Name: "REQUEST_PING", Count: 6, Micros: 3_000_000}, {Kind: store.Requests, Name: "<script>", Count: 1, Micros: 5},
			},
		})
	}
	if err := s.store.AddHealth(list...); err != nil {
		s.t.Fatal(err)
	}
}

// TestHealth checks the figures of every panel about schedulers in each format, with a gap in the
// figures.
func TestHealth(t *testing.T) {
	s := serve(t, 50)
	for _, p := range healthPanels { // the store has no figures
		if r := s.panel(p.name); len(r.Columns) == 0 || r.Error != "" {
			t.Errorf("%s: %+v", p.name, r)
		}
	}
	if page := s.get("", http.StatusOK); strings.Contains(page, "Scheduler health") {
		t.Error("a link to figures that nobody has")
	}
	s.addHealth("vale")
	s.addHealth("dale")
	s.addHealth("vale") // replaces the figures that are there
	for _, c := range []struct {
		panel, column string
		want          float64
	}{
		{"health-main", "cycles", 400}, {"health-main", "covered", 40 * 60}, {"health-main", "mean", 2 * 40}, {"health-main", "longest", 7 * 40}, {"health-main", "above", 5 * 40},
		{"health-backfill", "mean", 1500 * 40}, {"health-depth", "tried", 20 * 40}, {"health-depth", "looked_at", 80 * 40}, {"health-depth", "main_depth", 50 * 40},
		{"health-starts", "backfilled", 40}, {"health-starts", "others", 3 * 40}, {"health-jobs", "running", 7 * 40}, {"health-agents", "dbd_queue", 40},
		{"health-main-exits", "end_job_queue", 400}, {"health-backfill-exits", "bf_max_time", 80},
		{"health-requests", "REQUEST_PING", 240}, {"health-request-time", "REQUEST_PING", 3 * 40},
	} {
		r := s.panel(c.panel, "last", "all", "f", "cluster=vale")
		if got := r.sum(c.column); got < c.want-1e-6 || got > c.want+1e-6 {
			t.Errorf("%s: the sum of %s is %v (want %v)", c.panel, c.column, got, c.want)
		}
		if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "20") || !strings.Contains(r.Notes[0], "without figures") {
			t.Errorf("%s: %q", c.panel, r.Notes)
		}
		for _, row := range r.Rows { // a number that is not known is null, never 0
			if r.Columns[2].Name != "covered" || (row[2] == 0.0) != (row[3] == nil) {
				t.Errorf("%s: %v", c.panel, row)
			}
		}
		text := s.get("api/v1/panels/"+c.panel+"?last=all&format=csv&f=cluster%3Dvale", http.StatusOK)
		if lines := strings.Split(strings.TrimSpace(text), "\n"); len(lines) != len(r.Rows)+1 || !strings.Contains(lines[0], c.column) {
			t.Errorf("%s: %.300s", c.panel, text)
		}
		if html := s.get("api/v1/panels/"+c.panel+"?last=all&format=html", http.StatusOK); !strings.Contains(html, "<svg") || strings.Contains(html, "<script>") {
			t.Errorf("%s: %.300s", c.panel, html)
		}
	}
	// Buckets of an hour have the sums and the maxima of their minutes.
	r := s.panel("health-agents", "from", "2024-03-05", "until", "2024-03-06", "f", "cluster=vale")
	if got := r.sum("agent_queue"); got < 59 {
		t.Errorf("the longest queues add up to %v", got)
	}
	// Two equal clusters have twice the jobs, messages and cycles of one cluster, and the same
	// means, also of queues, longest times and covered time.
	for _, c := range []struct{ panel, twice, once string }{
		{"health-main", "cycles", "covered mean longest last above"}, {"health-backfill", "cycles", "covered mean longest last above"},
		{"health-jobs", "running pending", "covered"}, {"health-agents", "agent_queue dbd_queue threads agents", "covered"},
		{"health-starts", "backfilled others submitted completed", "covered"}, {"health-depth", "cycles", "covered tried looked_at depth main_depth queue table main_queue"},
	} {
		for _, last := range []string{"all", "30d"} { // buckets of one interval, and of several
			both, one := s.panel(c.panel, "last", last), s.panel(c.panel, "last", last, "f", "cluster=dale")
			for times, names := range map[float64]string{1: c.once, 2: c.twice} {
				for _, name := range strings.Fields(names) {
					if got, want := both.sum(name), times*one.sum(name); got < want-1e-6 || got > want+1e-6 || got == 0 && name != "agents" {
						t.Errorf("%s of the last %s: %s is %v for both clusters (want %v)", c.panel, last, name, got, want)
					}
				}
			}
		}
	}
}

// TestHealthZero distinguishes what did not happen, a true 0, from what nobody counted.
func TestHealthZero(t *testing.T) {
	s := serve(t, 50)
	at := func(minute int) time.Time { return healthBegin.Add(time.Duration(minute)*time.Minute + 59*time.Second) }
	ping := []store.HealthCount{{Kind: store.Requests, Name: "REQUEST_PING", Count: 6, Micros: 3_000_000},
		{Kind: store.MainExit, Name: "end_job_queue", Count: 4}, {Kind: store.BackfillExit, Name: "end_job_queue", Count: 1}}
	err := s.store.AddHealth(store.Health{Cluster: "vale", At: at(0), Interval: time.Minute, Counts: ping},
		store.Health{Cluster: "vale", At: at(1), Interval: time.Minute, Table: 5, // idle
			Main: store.Cycles{Last: time.Second, Queue: 7}, Backfill: store.Cycles{Last: time.Second, Queue: 7}},
		store.Health{Cluster: "vale", At: at(3)}, // the first answer after a restart
		store.Health{Cluster: "vale", At: at(4), Interval: time.Minute, Counts: ping})
	if err != nil {
		t.Fatal(err)
	}
	for panel, first := range map[string]float64{
		"health-requests": 6, "health-request-time": 3, "health-main-exits": 4, "health-backfill-exits": 1,
	} {
		r := s.panel(panel, "last", "all")
		got := r.Columns[2].Name
		for _, row := range r.Rows {
			got += fmt.Sprint(row[2:])
		}
		if want := fmt.Sprintf("covered[60 %v][60 0][0 <nil>][0 <nil>][60 %v]", first, first); got != want {
			t.Errorf("%s: %s, want %s", panel, got, want)
		}
		if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "2"+quantity.Space+"bars of 5 without figures") {
			t.Errorf("%s: %q", panel, r.Notes)
		}
		text := s.get("api/v1/panels/"+panel+"?last=all&format=csv", http.StatusOK)
		lines := strings.Split(strings.TrimSpace(text), "\n")
		if len(lines) != 6 || !strings.HasSuffix(lines[2], ",60,0") || !strings.HasSuffix(lines[3], ",0,") {
			t.Errorf("%s: %s", panel, text)
		}
	}
	r := s.panel("health-main", "last", "all") // there was no cycle, whose time would be known
	if r.Rows[1][3] != 0.0 || r.Rows[1][4] != nil || r.Rows[1][5] != nil {
		t.Errorf("an interval without a cycle: %v", r.Rows[1])
	}
	for panel, columns := range map[string]string{"health-depth": "tried queue table main_queue", "health-main": "last", "health-backfill": "last"} {
		r := s.panel(panel, "last", "all", "f", "cluster=vale") // no cycle: the answer describes an older cycle
		for _, name := range strings.Fields(columns) {
			i := slices.IndexFunc(r.Columns, func(c struct{ Name string }) bool { return c.Name == name })
			if r.Rows[1][i] != nil {
				t.Errorf("%s of %s without a cycle is %v", name, panel, r.Rows[1][i])
			}
		}
	}
	old := store.Health{Cluster: "old", At: at(0), Interval: time.Minute, Main: store.Cycles{Count: 3}}
	if err := s.store.AddHealth(old); err != nil {
		t.Fatal(err)
	}
	r = s.panel("health-main-exits", "last", "all", "f", "cluster=old")
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "No such event was counted for old: ") || !strings.HasSuffix(r.Notes[0], whoCountsExits) {
		t.Errorf("an old release: %q", r.Notes)
	}
	r = s.panel("health-backfill-exits", "last", "all", "f", "cluster=old")
	if diff := cmp.Diff([]string{"No cycle in this range: old."}, r.Notes); diff != "" {
		t.Errorf("a scheduler without cycles (-want +got)\n%s", diff)
	}
	for panel, who := range map[string]string{"health-main-exits": whoCountsExits, "health-requests": whoCountsRequests, "health-request-time": whoCountsRequests} {
		notes := strings.Join(s.panel(panel, "last", "all").Notes, " ") // vale counts, old does not
		if !strings.Contains(notes, "No such event was counted for old: ") || !strings.Contains(notes, who) {
			t.Errorf("%s of all clusters: %q", panel, notes)
		}
	}
	idle := old // the bars before old's beginning are empty, and its requests took no time
	idle.Counts = []store.HealthCount{{Kind: store.Requests, Name: "REQUEST_PING", Count: 6}}
	if err := s.store.AddHealth(idle); err != nil {
		t.Fatal(err)
	}
	html := s.get("api/v1/panels/health-request-time?format=html&from=2024-03-05T09:30:00Z&until=2024-03-05T10:30:00Z&f=cluster%3Dold", http.StatusOK)
	if want := "REQUEST_PING <span>0" + quantity.Space + "s</span>"; !strings.Contains(html, want) {
		t.Errorf("requests of 0 s beside bars without figures: no %q", want)
	}
	r = s.panel("health-jobs", "last", "all", "f", "cluster=vale") // an answer without counters tells the queue
	if len(r.Notes) == 0 || !strings.Contains(r.Notes[0], "1"+quantity.Space+"bar of 5 without figures") {
		t.Errorf("%q", r.Notes)
	}
}

// TestHealthTimes checks that figures are drawn at the time of their events. The figures of an
// hour are in the bar of that hour, even if the range has only a part of it. The figures of an
// interval across two bars are spread evenly over its time.
func TestHealthTimes(t *testing.T) {
	s := serve(t, 50)
	hourly := func(cluster string, offset time.Duration) {
		var list []store.Health
		for i := range 6 {
			list = append(list, store.Health{
				Cluster: cluster, At: healthBegin.Add(time.Duration(i+1)*time.Hour + offset), Interval: time.Hour,
				Running: int64(i + 1), Started: 60 * int64(i+1),
				Main:   store.Cycles{Count: 60, Sum: time.Minute, Longest: time.Second / 2},
				Counts: []store.HealthCount{{Kind: store.Requests, Name: "REQUEST_PING", Count: 60 * int64(i+1)}}})
		}
		if err := s.store.AddHealth(list...); err != nil {
			t.Fatal(err)
		}
	}
	hourly("even", -time.Second)
	hourly("odd", 15*time.Minute-time.Second)
	for _, c := range []struct{ cluster, from, until, want, running string }{
		{"even", "", "", "10 60 11 120 12 180", "1 2 3"},
		{"even", "2024-03-05T10:30:00Z", "2024-03-05T10:45:00Z", "10 60", "1"},
		{"even", "2024-03-05T11:59:59Z", "2024-03-05T12:00:01Z", "11 120 12 180", "2 3"},
		{"odd", "2024-03-05T09:00:00Z", "2024-03-05T12:30:00Z", "9 <nil> 10 45 11 105 12 165", "<nil> <nil> 1 2"},
	} {
		query := []string{"f", "cluster=" + c.cluster, "from", c.from, "until", c.until}
		if c.from == "" {
			query = []string{"f", "cluster=" + c.cluster, "last", "all"}
		}
		for _, panel := range []string{"health-starts", "health-requests"} {
			r := s.panel(panel, query...)
			column := map[string]int{"health-starts": 4, "health-requests": 3}[panel]
			got := ""
			for _, row := range r.Rows {
				from, err := time.Parse(time.RFC3339, row[0].(string))
				until, err2 := time.Parse(time.RFC3339, row[1].(string))
				if err != nil || err2 != nil || until.Sub(from) != time.Hour || from.Minute() != 0 {
					t.Errorf("%+v: a bar from %v until %v", c, row[0], row[1])
				}
				got += fmt.Sprint(" ", from.Hour(), " ", row[column])
			}
			if !strings.HasPrefix(got, " "+c.want) || c.from != "" && got != " "+c.want {
				t.Errorf("%s: %+v:%s", panel, c, got)
			}
		}
		got := ""
		for _, row := range s.panel("health-jobs", query...).Rows {
			got += fmt.Sprint(" ", row[3])
		}
		if !strings.HasPrefix(got, " "+c.running) {
			t.Errorf("%+v: running:%s", c, got)
		}
		for _, row := range s.panel("health-main", query...).Rows {
			if row[3] != nil && (row[4] != 1000.0 || row[5] != 1000.0) { // a longest cycle below the mean is not the longest
				t.Errorf("%+v: cycles %v", c, row)
			}
		}
	}
	for _, name := range []string{"even", "odd"} {
		if got := s.panel("health-starts", "last", "all", "f", "cluster="+name); got.sum("others") != 1260 {
			t.Errorf("%s: %v starts, want those of all intervals", name, got.sum("others"))
		}
	}
	if got := s.panel("health-requests", "last", "all"); got.sum("REQUEST_PING") != 2520 {
		t.Errorf("%v requests to both, want 2520", got.sum("REQUEST_PING"))
	}
}

// TestHealthGaps checks the explanation of a view without figures: for a scheduler that is polled,
// for a replay, and for a simulated run or imported jobs, which have no figures.
func TestHealthGaps(t *testing.T) {
	s := serve(t, 50)
	const silent, replayed, none = "nobody asked slurmctld", "the record of a replay has figures for every ten minutes", "simulations and imported jobs have none"
	gaps := func(query ...string) string {
		return strings.Join(s.panel("health-jobs", append([]string{"last", "all"}, query...)...).Notes, "\n")
	}
	if got := gaps(); !strings.Contains(got, none) || strings.Contains(got, silent) {
		t.Errorf("a store without figures: %q", got)
	}
	for _, name := range []string{"replayed", "simulated"} {
		if err := s.store.SetCluster(store.Cluster{Name: name, Kind: kindRun}); err != nil {
			t.Fatal(err)
		}
	}
	s.addHealth("replayed")
	if got := gaps(); !strings.Contains(got, replayed) || strings.Contains(got, silent) {
		t.Errorf("a replay alone: %q", got)
	}
	s.addHealth("vale")
	for query, want := range map[string][3]bool{"": {true, true, false}, "vale": {true, false, false}, "replayed": {false, true, false}, "simulated": {false, false, true}} {
		var filter []string
		if query != "" {
			filter = []string{"f", "cluster=" + query}
		}
		got := gaps(filter...)
		for i, text := range []string{silent, replayed, none} {
			if strings.Contains(got, text) != want[i] {
				t.Errorf("%s: %q, whether %q: want %v", query, got, text, want[i])
			}
		}
	}
}

// TestIdleBars counts the bars that have figures and no cycle of the scheduler.
func TestIdleBars(t *testing.T) {
	s := serve(t, 50)
	var list []store.Health
	for i := range 6 {
		h := store.Health{Cluster: "vale", At: healthBegin.Add(time.Duration(i+1)*10*time.Minute - time.Second), Interval: 10 * time.Minute}
		h.Main.Count, h.Backfill.Count = 1, int64(i%3) // no backfill in bars 0 and 3
		list = append(list, h)
	}
	if err := s.store.AddHealth(list...); err != nil {
		t.Fatal(err)
	}
	until := healthBegin.Add(time.Hour).Format(time.RFC3339)
	for panel, want := range map[string]string{"health-backfill": "2 bars of 6 with figures, but without cycles of the scheduler.", "health-main": ""} {
		r := s.panel(panel, "from", healthBegin.Format(time.RFC3339), "until", until)
		got := strings.ReplaceAll(strings.Join(r.Notes, " "), quantity.Space, " ")
		if want == "" && strings.Contains(got, "without a cycle") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", panel, got, want)
		}
	}
}

// TestOutsideRun checks that a panel says that a run had not begun or was over. Only the other
// gaps are explained by the record's steps.
func TestOutsideRun(t *testing.T) {
	s := serve(t, 50)
	s.addRun("what-if")
	if err := s.store.SetCluster(store.Cluster{Name: "what-if", Kind: kindRun}); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"2023-11-20T09:30:00Z 2023-11-20T10:30:00Z": "",
		"2023-11-20T08:30:00Z 2023-11-20T11:30:00Z": "12 bars of 18 without figures: the run had not begun or was over.",
		"2023-11-20T10:20:00Z 2023-11-20T10:40:00Z": "1 bar of 2 without figures: the run had not begun or was over.",
		"2024-11-20T10:00:00Z 2024-11-20T11:00:00Z": "6 bars of 6 without figures: the run had not begun or was over.",
	} {
		from, until, _ := strings.Cut(query, " ")
		r := s.panel("health-jobs", "from", from, "until", until, "f", "cluster=what-if")
		if got := strings.ReplaceAll(strings.Join(r.Notes, " "), quantity.Space, " "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

// TestBetweenRuns checks what a panel says about bars between two runs, and about a bar in which a
// run's slurmctld started but was not asked.
func TestBetweenRuns(t *testing.T) {
	s := serve(t, 50)
	day := time.Date(2024, 3, 5, 0, 0, 0, 0, time.UTC)
	var list []store.Health
	for i := range 12 {
		at, name := day.Add(time.Duration(i)*10*time.Minute+8*time.Minute-time.Second), "one"
		if i >= 6 {
			at, name = at.AddDate(0, 0, 1), "two"
		}
		list = append(list, store.Health{Cluster: name, At: at, Interval: 10 * time.Minute, Running: 3})
	}
	if err := s.store.AddHealth(list...); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two"} {
		if err := s.store.SetCluster(store.Cluster{Name: name, Kind: kindRun}); err != nil {
			t.Fatal(err)
		}
	}
	for query, want := range map[string]string{
		"f=cluster%3Done&from=2024-03-04T23:50:00Z&until=2024-03-05T00:30:00Z": "1 bar of 4 without figures: slurmctld had not been asked yet.",
		"f=cluster%3Done&from=2024-03-04T23:30:00Z&until=2024-03-05T00:30:00Z": "2 bars of 6 without figures: the run had not begun or was over. 1 bar of 6 without figures: slurmctld had not been asked yet.",
		"from=2024-03-05T00:00:00Z&until=2024-03-05T12:00:00Z":                 "66 bars of 72 without figures: no run covers them.",
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		var pairs []string
		for name := range values {
			pairs = append(pairs, name, values.Get(name))
		}
		for _, panel := range []string{"health-jobs", "health-agents"} {
			r := s.panel(panel, pairs...)
			got := strings.ReplaceAll(strings.Join(r.Notes, " "), quantity.Space, " ")
			if got, _, _ = strings.Cut(got, " All values"); got != want {
				t.Errorf("%s, %s: %q, want %q", panel, query, got, want)
			}
		}
	}
}

// TestWindowNote checks that a panel of a run with a window says where the run's figures begin,
// even beside another scheduler. There is no note if the view begins later.
func TestWindowNote(t *testing.T) {
	s := serve(t, 50)
	s.addHealth("vale")
	s.addRun("what-if")
	window := time.Date(2023, 11, 20, 9, 30, 0, 0, time.UTC)
	if err := s.store.SetCluster(store.Cluster{Name: "what-if", Kind: kindRun, Window: window}); err != nil {
		t.Fatal(err)
	}
	const note = "The figures of what-if begin with its window, at 2023-11-20 09:30:00. Jobs that ran at that time, if any, were started by rmreplay before."
	for query, want := range map[string]bool{
		"last=24h&f=cluster%3Dwhat-if": true, "last=all&f=cluster%3Dwhat-if": true, "last=all&f=cluster%3Dvale": false,
		"from=2023-11-20T09:31:00Z&until=2023-11-20T10:00:00Z&f=cluster%3Dwhat-if": false, "last=all&a=vale&b=what-if&align=begin": true,
	} {
		text := strings.ReplaceAll(s.get("api/v1/panels/health-starts?format=html&"+query, http.StatusOK), quantity.Space, " ")
		if strings.Contains(text, note) != want {
			t.Errorf("%s: whether %q: want %v in %.2000s", query, note, want, text)
		}
	}
}

// TestHealthPair checks the page for two schedulers if only one is named. As on the page for two
// clusters, the other scheduler is the first of the rest, and an error says what is missing.
func TestHealthPair(t *testing.T) {
	s := serve(t, 50)
	s.addHealth("vale")
	if err := errors.Join(s.store.SetCluster(store.Cluster{Name: "dale", Kind: "site"}), s.store.SetCluster(store.Cluster{Name: "easy", Kind: kindRun})); err != nil {
		t.Fatal(err)
	}
	if text := s.get("health?a=vale", http.StatusNotFound); !strings.Contains(text, "a comparison needs two schedulers with names; the store has 1") {
		t.Errorf("one scheduler: %s", text)
	}
	s.addHealth("dale")
	for query, want := range map[string]string{"a=vale": "Scheduler health of vale and dale", "b=vale": "Scheduler health of dale and vale"} {
		if text := s.get("health?"+query, http.StatusOK); !strings.Contains(text, want) {
			t.Errorf("%s: the page is not about %q", query, want)
		}
	}
	if text := s.get("health?a=vale&b=nowhere", http.StatusNotFound); !strings.Contains(text, "there is no cluster &#34;nowhere&#34; (there are dale, vale)") {
		t.Errorf("an unknown scheduler: %s", text)
	}
	if text := s.get("health?a=vale&b=easy", http.StatusNotFound); !strings.Contains(text, "&#34;easy&#34; has no figures of a scheduler (these have: dale, vale)") {
		t.Errorf("a cluster with jobs only: %s", text)
	}
	link := regexp.MustCompile(`href="(health[^"]*)"`)
	for query, want := range map[string]string{"a=vale&b=easy": "", "a=easy&b=vale": "", "a=vale&b=dale": "a=vale b=dale ", "a=vale&b=dale&align=begin": "a=vale b=dale begin"} {
		got := ""
		if found := link.FindStringSubmatch(s.get("compare?last=all&"+query, http.StatusOK)); found != nil {
			values, _ := url.ParseQuery(strings.TrimPrefix(strings.ReplaceAll(found[1], "&amp;", "&"), "health?"))
			got = "a=" + values.Get("a") + " b=" + values.Get("b") + " " + values.Get("align")
		}
		if got != want {
			t.Errorf("compare?%s: the link to the schedulers has %q, want %q", query, got, want)
		}
	}
}

// TestRates checks that a chart of the largest numbers says which of two sides was asked less often.
func TestRates(t *testing.T) {
	s := serve(t, 50)
	s.addHealth("vale")
	s.addHealth("dale")
	s.addRun("what-if")
	const note = "sdiag's answers are 10 min apart in what-if, and 1 min in vale. So what-if lacks more peaks, and for this reason alone its largest numbers can be lower."
	for query, want := range map[string]int{"health-jobs?a=vale&b=what-if": 1, "health-agents?a=what-if&b=vale": 1, "health-jobs?a=vale&b=dale": 0,
		"health-starts?a=vale&b=what-if": 0, "health-jobs?f=cluster%3Dwhat-if": 0} {
		html := strings.ReplaceAll(s.get("api/v1/panels/"+query+"&format=html&last=all", http.StatusOK), quantity.Space, " ")
		if got := strings.Count(strings.ReplaceAll(html, "&#39;", "'"), note); got != want || want == 0 && strings.Contains(html, "lacks more peaks") {
			t.Errorf("%s: %d times %q, want %d", query, got, note, want)
		}
	}
}

// TestOnlyRuns checks the pages of a store with runs only. The first page shows two runs beside each other, over all
// time, and no link between the pages leads to a page that leads back. The page about their schedulers leads to the
// comparison of the same runs.
func TestOnlyRuns(t *testing.T) {
	var jobs []string
	for i, name := range []string{"one", "two", "three"} {
		jobs = append(jobs, fmt.Sprintf(`{"jobid":%d,"cluster":%q,"state":"COMPLETED","@start":"2024-03-01T00:00:00","@end":"2024-03-01T01:00:00","nodes":"n1"}`, i+1, name))
	}
	s := serve(t, 0, jobs...)
	for _, name := range []string{"one", "two", "three"} {
		s.addRun(name)
		if err := s.store.SetCluster(store.Cluster{Name: name, Kind: kindRun}); err != nil {
			t.Fatal(err)
		}
	}
	link := func(page, text string) string {
		found := regexp.MustCompile(`href="([^"]*)">` + text + `<`).FindStringSubmatch(page)
		if found == nil {
			t.Fatalf("no link %q in %.3000s", text, page)
		}
		return strings.ReplaceAll(found[1], "&amp;", "&")
	}
	first := s.get("", http.StatusOK)
	for _, want := range []string{"<h1>one and three</h1>", `<option value="all" selected>`} {
		if !strings.Contains(first, want) {
			t.Errorf("no %q in %.3000s", want, first)
		}
	}
	for _, page := range []string{link(first, "One view"), link(s.get("?f=cluster%3Done", http.StatusOK), "All clusters")} {
		if page := s.get(strings.TrimPrefix(page, "./"), http.StatusOK); !strings.Contains(page, "<h1>Finished jobs</h1>") {
			t.Errorf("%s does not lead to the page of all jobs", page)
		}
	}
	for query, want := range map[string]string{"a=two&b=one&align=begin&last=all": "compare?a=two&align=begin&b=one&last=all", "f=cluster%3Done": "./?f=cluster%3Done&last=all"} {
		if got := link(s.get("health?"+query, http.StatusOK), "Finished jobs"); got != want {
			t.Errorf("health?%s leads to %s, want %s", query, got, want)
		}
	}
}

// TestHealthPage opens the page about schedulers, and sends requests that this page must refuse.
func TestHealthPage(t *testing.T) {
	s := serve(t, 50)
	s.addHealth("vale")
	s.addHealth("dale")
	page := s.get("health?static=1", http.StatusOK)
	for _, want := range []string{"<h1>Scheduler health</h1>", "for slurmdbd at any instant at which slurmctld was asked", "Queues and tables are means of the last cycles that sdiag showed, also over clusters.", "Finished jobs</a>", "health-main-heading", "health-request-time-heading", "bf_max_time", "&lt;script&gt;", "cancelled counts requests to cancel jobs, failed counts failures of Slurm, not of jobs", "240" + quantity.Space + "s", "cluster%3Ddale", "a=dale&amp;b=vale"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if !strings.Contains(page, `<option value="24h" selected>`) {
		t.Error("the page is not about 24 hours")
	}
	if strings.Contains(page, `name="q"`) || strings.Contains(page, "panel-summary") {
		t.Error("the page is about jobs")
	}
	if page := s.get("?last=all", http.StatusOK); !strings.Contains(page, `href="health?from=`) {
		t.Error("the page about jobs has no link to the schedulers")
	}
	page = s.get("health?static=1&a=vale&b=dale&last=all", http.StatusOK)
	for _, want := range []string{"Scheduler health of vale and dale", "<h3>vale</h3>", "<h3>dale</h3>", `One view`} {
		if !strings.Contains(page, want) {
			t.Errorf("the comparison has no %q", want)
		}
	}
	for _, query := range []string{"f=user_name%3Dx", "q=x", "f=cluster!%3Dvale", "last=x"} {
		if text := s.get("api/v1/panels/health-main?"+query, http.StatusBadRequest); !strings.Contains(text, `"error"`) {
			t.Errorf("%s: %s", query, text)
		}
		s.get("health?"+query, http.StatusBadRequest)
	}
}

// TestHealthInBrowser opens the page about schedulers, selects a range in a chart, saves the view,
// and follows the link to the jobs in the same range of time.
func TestHealthInBrowser(t *testing.T) {
	s := serve(t, 50)
	s.addHealth("vale")
	s.addHealth("dale")
	r := &reader{chromium.Open(t).Tab(t), t, s}
	r.visit("health")
	if n := r.text(`String(document.querySelectorAll("#panels .plot svg.spots").length)`); n != fmt.Sprint(len(healthPanels)) {
		t.Errorf("%s charts, want %d", n, len(healthPanels))
	}
	r.Picture("health")
	if faint := r.Faint(); len(faint) > 0 {
		t.Errorf("texts that are hard to read: %v", faint)
	}
	r.drag("health-main", 0.5, 0.9)
	time.Sleep(100 * time.Millisecond)
	r.loaded()
	if v := r.parameters(); v.Get("from") == "" || v.Get("until") == "" || !strings.HasSuffix(r.text("location.pathname"), "/health") {
		t.Errorf("after a selection the page is %s", r.text("location.href"))
	}
	r.Eval(`document.querySelector("#views").open = true; document.querySelector("#view-name").value = "cycles"; document.querySelector("[data-save]").requestSubmit()`, nil)
	var saved bool
	for start := time.Now(); !saved && time.Since(start) < time.Minute; time.Sleep(50 * time.Millisecond) {
		r.Eval(`document.querySelector("#status").textContent.includes("Saved")`, &saved)
	}
	if list := s.get("api/v1/views", http.StatusOK); !strings.Contains(list, `"url":"health?`) {
		t.Errorf("the saved views: %s", list)
	}
	if href := r.text(`[...document.querySelectorAll("nav a")].find((e) => e.textContent === "Finished jobs").getAttribute("href")`); !strings.Contains(href, "from=") {
		t.Errorf("the link to the jobs is %s", href)
	}
	for _, text := range r.Errors {
		t.Errorf("on the console: %s", text)
	}
}

// TestTogetherInBrowser shows two schedulers in one chart, chooses how to align them, and views the
// page in the dark theme, on a phone and in print.
func TestTogetherInBrowser(t *testing.T) {
	s := serve(t, 50)
	s.addHealth("vale")
	s.addRun("what-if")
	r := &reader{chromium.Open(t).Tab(t), t, s}
	r.visit("health?last=all&a=vale&b=what-if")
	r.Picture("together")
	if faint := r.Faint(); len(faint) > 0 {
		t.Errorf("texts that are hard to read: %v", faint)
	}
	r.Eval(`(() => { const list = document.querySelector("select[name=align]"); list.value = "begin"; list.form.requestSubmit() })()`, nil)
	for start := time.Now(); !strings.Contains(r.text("location.search"), "align=begin"); time.Sleep(50 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatalf("after a choice the page is %s", r.text("location.href"))
		}
	}
	r.loaded()
	if text := r.text(`document.querySelector("#panel-health-main").innerText`); !strings.Contains(text, "2023-11-20") {
		t.Errorf("the panel says %s", text)
	}
	r.drag("health-main", 0.2, 0.6)
	time.Sleep(100 * time.Millisecond)
	r.loaded()
	if v := r.parameters(); !strings.HasPrefix(v.Get("from"), "2024-03-05T10:") || v.Get("align") != "begin" || v.Get("b") != "what-if" || !strings.HasPrefix(v.Get("shift"), "-") {
		t.Errorf("after a selection the page is %s", r.text("location.href"))
	}
	r.visit("health?last=all&a=vale&b=what-if&align=begin")
	r.Call("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": "dark"}}}, nil)
	r.Picture("together-dark")
	if faint := r.Faint(); len(faint) > 0 {
		t.Errorf("texts that are hard to read in the dark: %v", faint)
	}
	r.Call("Emulation.setEmulatedMedia", map[string]any{"media": "print"}, nil)
	r.Picture("together-print")
	r.Call("Emulation.setEmulatedMedia", map[string]any{}, nil)
	r.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true}, nil)
	r.visit("health?last=all&a=vale&b=what-if&align=begin")
	var wide int
	r.Eval("document.documentElement.scrollWidth", &wide)
	if wide > 390 {
		t.Errorf("on a phone the page is %d pixels wide", wide)
	}
	r.Picture("together-phone-top")
	r.Eval(`document.querySelector("#panel-health-main").scrollIntoView()`, nil)
	r.Picture("together-phone")
	for _, text := range r.Errors {
		t.Errorf("on the console: %s", text)
	}
}

// TestExpireHealth checks that figures expire independently of jobs.
func TestExpireHealth(t *testing.T) {
	s := serve(t, 50)
	if removed, err := s.store.ExpireHealth(healthBegin); removed != 0 || err != nil {
		t.Errorf("an empty store: %d, %v", removed, err)
	}
	s.addHealth("vale")
	s.addRun("what-if")
	if err := s.store.SetCluster(store.Cluster{Name: "what-if", Kind: "run"}); err != nil {
		t.Fatal(err)
	}
	if removed, err := s.store.ExpireHealth(healthBegin.Add(10 * time.Minute)); removed != 10 || err != nil {
		t.Errorf("%d, %v", removed, err)
	}
	if runs := s.number("SELECT count(*)::DOUBLE FROM health WHERE cluster = 'what-if'"); runs != 6 {
		t.Errorf("%v of 6 intervals of a run are left", runs)
	}
	if cycles, counts, jobs := s.number("SELECT sum(main_cycles)::DOUBLE FROM health WHERE cluster = 'vale'"), s.number("SELECT count(*)::DOUBLE FROM health_counts"), s.number("SELECT count(*)::DOUBLE FROM jobs"); cycles != 300 || counts != 120 || jobs != 50 {
		t.Errorf("%v cycles, %v counts, %v jobs", cycles, counts, jobs)
	}
}

// addRun adds an hour of figures of a run, one every ten minutes.
func (s *site) addRun(name string) {
	s.t.Helper()
	var list []store.Health
	at := time.Date(2023, 11, 20, 9, 29, 59, 0, time.UTC)
	for i := range 6 {
		list = append(list, store.Health{
			Cluster: name, At: at.Add(time.Duration(i+1) * 10 * time.Minute), Interval: 10 * time.Minute, Pending: 50, Running: int64(i), Started: 30, Backfilled: 9,
			Main: store.Cycles{Count: 5, Sum: 50 * time.Millisecond, Longest: 12 * time.Millisecond},
		})
	}
	if err := s.store.AddHealth(list...); err != nil {
		s.t.Fatal(err)
	}
}

// TestTogether aligns the figures of a cluster and of a run. The run is on another day, and has
// figures every ten minutes.
func TestTogether(t *testing.T) {
	s := serve(t, 50)
	s.addHealth("vale")
	s.addRun("what-if")
	const both = "api/v1/panels/health-main?format=html&last=all&a=vale&b=what-if"
	for _, c := range []struct{ query, from, to string }{
		{"", "2023-11-20 10:00:00", "2024-03-05 10:00:00"}, // no figures at the same time
		{"&align=day", "2023-11-20 10:00:00", "2024-03-05 10:00:00"},
		{"&align=begin", "2023-11-20 09:30:00", "2024-03-05 10:00:00"},
		{"&align=day&zone=Asia/Tokyo", "2023-11-20 19:00:00", "2024-03-05 19:00:00"},
		{"&align=time", "", ""},
	} {
		html := strings.ReplaceAll(s.get(both+c.query, http.StatusOK), quantity.Space, " ")
		if n := strings.Count(html, `<svg class="spots"`); n != 1 {
			t.Errorf("%s: %d charts, want one of both", c.query, n)
		}
		for _, want := range []string{"<h3>vale</h3>", "<h3>what-if</h3>", "mean, vale", "longest, what-if"} {
			if !strings.Contains(html, want) {
				t.Errorf("%s: no %q", c.query, want)
			}
		}
		note := fmt.Sprintf("The times of this side are moved: %s is drawn at %s.", c.from, c.to)
		if moved := strings.Contains(html, "is drawn at"); moved != (c.from != "") || moved && !strings.Contains(html, note) {
			t.Errorf("%s: not %q in %.3000s", c.query, note, html)
		}
		if html := s.get(strings.Replace(both, "health-main", "health-main-exits", 1)+c.query, http.StatusOK); strings.Contains(html, "is drawn at") {
			t.Errorf("%s: a chart of one side has its own times, but not in %.2000s", c.query, html)
		}
		// Buckets are as long as the run's intervals, so that its lines have no gaps.
		if lines := strings.Count(html, "stroke-dasharray"); lines != 2 {
			t.Errorf("%s: %d dashed lines", c.query, lines)
		}
	}
	if html := s.get("api/v1/panels/health-main-exits?format=html&last=all&a=vale&b=what-if", http.StatusOK); !strings.Contains(html, "<h3>what-if</h3>") {
		t.Errorf("%.300s", html)
	}
	page := s.get("health?static=1&last=all&a=vale&b=what-if", http.StatusOK)
	if !strings.Contains(page, `<select name="align">`) || !strings.Contains(page, `<option value="day" selected>`) {
		t.Error("the page does not say how the schedulers are aligned")
	}
	html := s.get("api/v1/panels/health-depth?format=html&last=all&a=vale&b=what-if", http.StatusOK)
	for text, want := range map[string]bool{"only looked at (depth), and the queue. " + aboutQueues: true,
		"queue, vale": true, "jobs that it only looked at.": false} {
		if strings.Contains(html, text) != want {
			t.Errorf("the chart of depths: whether %q: want %v", text, want)
		}
	}
	html = s.get("api/v1/panels/health-starts?format=html&last=all&a=vale&b=what-if", http.StatusOK)
	for _, want := range []string{"backfilled, what-if <span>27", "others, what-if <span>63"} {
		if !strings.Contains(html, want) {
			t.Errorf("the legend of starts: no %q in %.2000s", want, html)
		}
	}
	s.get("api/v1/panels/health-main?a=vale&b=what-if&align=x", http.StatusBadRequest)
}

// TestTogetherColours compares schedulers whose cycles ended for different reasons. A reason has
// the same colour in both charts, and a reason of only one side is 0 on the other side.
func TestTogetherColours(t *testing.T) {
	s := serve(t, 50)
	for cluster, counts := range map[string][]store.HealthCount{
		"deep":  {{Kind: store.BackfillExit, Name: "end_job_queue", Count: 60}},
		"short": {{Kind: store.BackfillExit, Name: "bf_max_job_test", Count: 50}, {Kind: store.BackfillExit, Name: "end_job_queue", Count: 10}},
	} {
		one := store.Health{Cluster: cluster, At: healthBegin, Interval: 10 * time.Minute, Counts: counts}
		if err := s.store.AddHealth(one); err != nil {
			t.Fatal(err)
		}
	}
	html := s.get("api/v1/panels/health-backfill-exits?format=html&last=all&a=short&b=deep", http.StatusOK)
	entry := regexp.MustCompile(`<i class="([a-z -]+)"></i>\s*([a-z_]+) <span>([0-9]+)`)
	var legend [][]string
	for _, found := range entry.FindAllStringSubmatch(html, -1) {
		legend = append(legend, found[1:])
	}
	want := [][]string{{"blue", "end_job_queue", "10"}, {"vermilion", "bf_max_job_test", "50"}, {"blue", "end_job_queue", "60"},
		{"vermilion", "bf_max_job_test", "0"}}
	if !reflect.DeepEqual(legend, want) {
		t.Errorf("legends %q, want %q in %.2000s", legend, want, html)
	}
}

// TestQueueIsMean checks that the queue and the table of a bar are means of the answers, as the depth is.
func TestQueueIsMean(t *testing.T) {
	s := serve(t, 50)
	for i, queue := range []int64{10, 40, 10} {
		one := store.Health{Cluster: "vale", At: healthBegin.Add(time.Duration(i) * 10 * time.Minute), Interval: 10 * time.Minute,
			Main:     store.Cycles{Count: 1, Queue: queue},
			Backfill: store.Cycles{Count: 1, Depth: 20, Queue: queue}, Table: 2 * queue}
		if err := s.store.AddHealth(one); err != nil {
			t.Fatal(err)
		}
	}
	r := s.panel("health-depth", "from", "2024-03-05T10:00:00Z", "until", "2024-03-06T10:00:00Z")
	for name, want := range map[string]float64{"queue": 20, "main_queue": 20, "table": 40, "depth": 20} {
		if got := r.sum(name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// TestTogetherRuns aligns runs by their workloads: slurmctld of a run starts minutes before the workload, here on the
// day before.
func TestTogetherRuns(t *testing.T) {
	s := serve(t, 50)
	run := func(name string, first, begin time.Time) {
		var list []store.Health
		for i := range 6 {
			list = append(list, store.Health{Cluster: name, At: first.Add(time.Duration(i+1)*10*time.Minute - time.Second),
				Interval: 10 * time.Minute, Running: int64(i)})
		}
		if err := errors.Join(s.store.AddHealth(list...), s.store.SetCluster(store.Cluster{Name: name, Kind: kindRun, Begin: begin})); err != nil {
			t.Fatal(err)
		}
	}
	midnight := time.Date(2024, 3, 5, 0, 0, 0, 0, time.UTC)
	run("one", midnight.Add(-3*time.Minute), midnight)
	run("two", midnight.Add(-6*time.Minute), midnight) // another seed
	run("window", midnight.Add(11*time.Hour), midnight.Add(11*time.Hour))
	run("later", midnight.Add(5*24*time.Hour-time.Minute), midnight.AddDate(0, 0, 5))
	for query, want := range map[string]string{
		"a=one&b=two&last=all&align=begin":                                      "",
		"a=two&b=one&last=all&align=begin":                                      "",
		"a=one&b=two&last=all&align=day":                                        "",
		"a=window&b=one&last=all&align=day":                                     "",
		"a=one&b=window&last=all&align=day":                                     "",
		"a=one&b=later&last=24h":                                                "2024-03-09 00:57:00 is drawn at 2024-03-04 00:57:00",
		"a=one&b=later&last=all&align=day":                                      "2024-03-09 23:57:00 is drawn at 2024-03-04 23:57:00",
		"a=one&b=later&last=all&align=begin":                                    "2024-03-09 23:57:00 is drawn at 2024-03-04 23:57:00",
		"a=one&b=two&from=2024-04-10T00:00&until=2024-04-11T00:00":              "2024-03-05 00:00:00 is drawn at 2024-04-10 00:00:00",
		"a=one&b=two&from=2024-04-10T09:00&until=2024-04-11T00:00&align=begin":  "2024-03-05 00:00:00 is drawn at 2024-04-10 09:00:00",
		"a=one&b=window&from=2024-04-10T09:00&until=2024-04-11T00:00&align=day": "2024-03-05 09:00:00 is drawn at 2024-04-10 09:00:00",
	} {
		html := strings.ReplaceAll(s.get("api/v1/panels/health-jobs?format=html&"+query, http.StatusOK), quantity.Space, " ")
		_, moved, _ := strings.Cut(html, "The times of this side are moved: ")
		if moved, _, _ = strings.Cut(moved, "."); moved != want {
			t.Errorf("%s: %q, want %q", query, moved, want)
		}
	}
	// As they were, everything is everything of both, also if the second begins earlier.
	for _, query := range []string{"a=window&b=one", "a=one&b=window"} {
		html := strings.ReplaceAll(s.get("health?static=1&last=all&align=time&"+query, http.StatusOK), quantity.Space, " ")
		if want := "2024-03-04 23:57:00 to 2024-03-05 12:00:00"; !strings.Contains(html, want) {
			_, text, _ := strings.Cut(html, "Time:")
			t.Errorf("%s: no %q in %.200s", query, want, text)
		}
	}
}
