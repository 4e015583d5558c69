package web

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"rmreplay/internal/accounting/question"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
)

// TestQueries compares the results of queries with the results of equivalent SQL.
func TestQueries(t *testing.T) {
	s := serve(t, 2000, `{"jobid":99007,"username":"a_b%c","job_name":"two \"words\" *","state":"FAILED","cluster":"vale","@submit":"2024-03-01T01:00:00","@start":"2024-03-01T01:00:00","@end":"2024-03-01T02:00:00","nodes":"n1","elapsed":3600}`)
	for query, sql := range map[string]string{
		"":                                   "true",
		"user_name:user001":                  "user_name = 'user001'",
		"username:user001":                   "user_name = 'user001'", // Slurm's key
		"state:failed":                       "state = 'FAILED'",
		"state:(FAILED OR TIMEOUT)":          "state IN ('FAILED', 'TIMEOUT')",
		"state:(FAILED TIMEOUT) nodes>1":     "state IN ('FAILED', 'TIMEOUT') AND nodes > 1",
		"-state:COMPLETED":                   "state <> 'COMPLETED'",
		"NOT (state:COMPLETED OR nodes=1)":   "NOT coalesce(state = 'COMPLETED' OR nodes = 1, false)",
		"user_name:user00*":                  "user_name LIKE 'user00%'",
		"user_name:user?01":                  "user_name LIKE 'user_01'",
		`user_name:a_b%c`:                    "user_name = 'a_b%c'",
		`user_name:a?b%*`:                    `user_name = 'a_b%c'`,
		`user_name:a_*`:                      `user_name = 'a_b%c'`, // an underscore is not a wildcard
		`user_name:"user00*"`:                "false",
		`job_name:"two \"words\" *"`:         "jobid = 99007",
		"elapsed_s>2h elapsed_s<=1d":         "elapsed_s > 7200 AND elapsed_s <= 86400",
		"elapsed_s:[3600 TO 7200]":           "elapsed_s BETWEEN 3600 AND 7200",
		"elapsed_s:>=3600":                   "elapsed_s >= 3600",
		"end_time<2024-03-01T02:00":          "end_time < TIMESTAMP '2024-03-01 02:00:00'",
		`qos:"" `:                            "qos IS NULL",
		"qos:*":                              "qos IS NOT NULL",
		"qos!=*":                             "qos IS NULL",
		"hour:1":                             "hour(submit_time) = 1",
		"weekday=5 limit_used>=50":           "isodow(submit_time) = 5 AND elapsed_s >= 0.5 * limit_s",
		"words":                              "jobid = 99007",
		"7":                                  "jobid = 7 OR contains(user_name, '7') OR contains(job_name, '7') OR contains(account, '7')",
		"gpu OR debug AND state:TIMEOUT":     "\"partition\" = 'gpu' OR \"partition\" = 'debug' AND state = 'TIMEOUT'",
		"ORDER":                              "false", // not a keyword
		"id:" + "vale:99007:1709254800":      "jobid = 99007",
		"job_name:(\"x'; DROP TABLE jobs\")": "false",
	} {
		table := s.panel("summary", "last", "all", "q", query)
		got, _ := table.Rows[0][0].(float64)
		if want := s.number("SELECT count(*)::DOUBLE FROM jobs WHERE " + sql); got != want {
			t.Errorf("%q finds %v jobs, want %v", query, got, want)
		}
	}
	// Filters with = on one field are alternatives. All other filters must be true.
	for _, c := range []struct {
		filters []string
		sql     string
	}{
		{[]string{"state=FAILED", "state=TIMEOUT", "nodes>=2"}, "state IN ('FAILED', 'TIMEOUT') AND nodes >= 2"},
		{[]string{"state!=FAILED", "state!=TIMEOUT"}, "state NOT IN ('FAILED', 'TIMEOUT')"},
		{[]string{"qos="}, "qos IS NULL"},
		{[]string{"qos!="}, "qos IS NOT NULL"},
		{[]string{"user_name=user00*"}, "false"}, // * is not a wildcard in a filter
	} {
		parameters := []string{"last", "all"}
		for _, f := range c.filters {
			parameters = append(parameters, "f", f)
		}
		if got, want := s.panel("summary", parameters...).Rows[0][0], s.number("SELECT count(*)::DOUBLE FROM jobs WHERE "+c.sql); got != want {
			t.Errorf("%q: %v jobs, want %v", c.filters, got, want)
		}
	}
}

// TestWrongRequests checks that errors name what is wrong, and that their status blames the client
// (4xx).
func TestWrongRequests(t *testing.T) {
	s := serve(t, 10)
	for query, want := range map[string]string{
		"q=user_nam:x":                     `user_name`,
		"q=(":                              "want a value here",
		"q=(state:FAILED":                  "without its",
		"q=state:FAILED)":                  "unexpected",
		`q=user_name:"x`:                   "closing",
		"q=ann OR":                         "want a value here",
		"q=OR ann":                         "no condition before",
		"q=(ann OR)":                       "want a value here",
		"q=ann AND OR bob":                 "no condition before",
		"q=elapsed_s>soon":                 "not a number or a duration",
		"q=elapsed_s:[1 2]":                "TO",
		"q=" + strings.Repeat("(", 30):     "are nested more than",
		"q=" + strings.Repeat("a ", 101):   "more than 100",
		"q=" + strings.Repeat("a", 5000):   "5000 bytes",
		"f=nobody":                         "is not a filter",
		"f=nothing=1":                      "no field",
		"f=elapsed_s>":                     "no value",
		"f=" + strings.Repeat("a", 2000):   "2000 bytes",
		strings.Repeat("f=state=X&", 51):   "51 filters",
		"from=yesterday":                   "is not an instant",
		"from=2024-03-02&until=2024-03-01": "is empty",
		"last=soon":                        "is not a duration",
		"last=9999999y":                    "longer than 200 years",
		"zone=Nowhere":                     "not a time zone",
		"zone=../../etc/passwd":            "not a time zone",
		"sort=-jobs;drop":                  "no field",
		"columns=jobid,nothing":            "no field",
		"rows=-1":                          "is not a number",
		"rows=0":                           "want 1 to 1000",
		"rows=1001":                        "want 1 to 1000",
		"format=xml":                       "want json, csv or html",
		"cluster=vale":                     "want the filter f=cluster=VALUE",
		"form=2024-03-01":                  "want from",
		"nonsense=1":                       "want from, until, last",
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Logf("%s: %v", query, err)
			values = url.Values{"sort": {"-jobs;drop"}}
		}
		if text := s.get("api/v1/panels/jobs?"+values.Encode(), 400); !strings.Contains(text, want) {
			t.Errorf("%.60s: %s, want %q", query, text, want)
		}
	}
	s.get("api/v1/panels/nothing", 404)
	s.get("jobs/12345", 404)
	s.get("jobs/x", 400)
	s.get("assets/page.html", 404)
	s.get("reports/..%2f..%2fjobs.duckdb", 404)
	s.get("compare", 404) // there is only one cluster
	for _, path := range []string{"?user=ann", "?cluster=vale", "api/v1/clusters?last=7d", "api/v1/views?f=x", "health?clusters=vale", "jobs/1?zones=UTC", "api/v1/?x"} {
		if text := s.get(path, 400); !strings.Contains(text, "is not a parameter (want ") {
			t.Errorf("%s: %.2000s", path, text)
		}
	}
}

// TestMistakes checks that the page for a request with a mistake keeps all other parameters.
func TestMistakes(t *testing.T) {
	s := serve(t, 100)
	addRun(t, s)
	const others = "&f=state%3DFAILED&f=cluster%3Dvale&from=2024-03-01T02:00&until=2024-03-01T04:00&zone=Asia/Tokyo&columns=jobid,nodes&rows=7&sort=-nodes&refresh=60"
	for _, mistake := range []string{"q=user_nam:x", "f=user_nam=x", "page=x", "q=nodes:x"} {
		page := s.get("?"+mistake+others, http.StatusBadRequest)
		for _, want := range []string{
			`role="alert"`, "<li>state = FAILED ", `aria-current="true">vale<`, `name="from" value="2024-03-01T02:00:00"`, `name="until" value="2024-03-01T04:00:00"`, `name="zone" value="Asia/Tokyo"`,
			`name="columns" value="jobid,nodes"`, `name="rows" value="7"`, `name="sort" value="-nodes"`, `<option value="60" selected>`,
		} {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the page has no %s", mistake, want)
			}
		}
	}
	page := s.get("?zone=Nowhere&last=7d&q=nodes%3E1", http.StatusBadRequest)
	for _, want := range []string{`name="zone" value="UTC"`, `<option value="7d" selected>`, `name="q" value="nodes&gt;1"`} {
		if !strings.Contains(page, want) {
			t.Errorf("a wrong zone: the page has no %s", want)
		}
	}
	if page := s.get("compare?a=vale&b=moor&last=all", http.StatusNotFound); !strings.Contains(page, "there is no cluster &#34;moor&#34; (there are replay-1, vale)") {
		t.Errorf("an unknown cluster: %.2000s", page)
	}
	page = s.get("compare?a=replay-1&b=vale&q=user_nam:x&last=7d", http.StatusBadRequest)
	if !strings.Contains(page, "<h1>replay-1 and vale</h1>") || !strings.Contains(page, `<option value="7d" selected>`) {
		t.Errorf("the comparison is lost: %.2000s", page)
	}
}

// FuzzRequest checks that no parameters lead to SQL that DuckDB cannot parse, or that contains a
// text that the reader sent.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		"q=user_name:alice+state:(FAILED OR TIMEOUT)+elapsed_s>2h", "f=partition%3Dgpu&f=state!%3DX&last=7d&zone=Europe/Zurich", "q=-(a OR \"b c\") AND nodes:[1 TO 5]",
		"from=2024-03-01&until=2024-04-01&sort=-user_name&columns=jobid,hour&rows=5&page=2", "q='; DROP TABLE jobs; --", "last=all&zone=Australia/Lord_Howe", "q=hour:3 limit_used<5e1",
	} {
		f.Add(seed)
	}
	s, err := store.Open(f.Context(), f.TempDir(), store.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := s.Close(); err != nil {
			f.Error(err)
		}
	})
	if err := storetest.Fill(f.Context(), s, 1, 50); err != nil {
		f.Fatal(err)
	}
	v := newServer(s, nil)
	f.Fuzz(func(t *testing.T, text string) {
		values, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		r, sizes, err := v.read(t.Context(), values)
		if err != nil {
			return
		}
		for _, p := range []*panel{panelOf("jobs"), panelOf("week"), panelOf("table")} {
			a, err := v.ask(t.Context(), p, r, sizes)
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			var own scale
			own.include(a.table)
			if _, err := a.part(p.draw, own); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
		}
	})
}

// TestJobZone checks that a job's page names the time zone of the page from which it was opened,
// and uses this zone.
func TestJobZone(t *testing.T) {
	s := serve(t, 10)
	const zone = "zone=Asia%2FTokyo"
	if table := s.get("api/v1/panels/table?format=html&last=all&zone=Asia/Tokyo", http.StatusOK); !strings.Contains(table, `href="jobs/1?`+zone+`"`) {
		t.Errorf("the table does not open jobs in its zone: %.3000s", table)
	}
	if part := s.get("jobs/1?part=1&zone=Asia/Tokyo", http.StatusOK); !strings.Contains(part, `href="jobs/1?`+zone+`"`) {
		t.Errorf("the opened job does not lead to a page in its zone: %s", part)
	}
	page := s.get("jobs/1?zone=Asia/Tokyo", http.StatusOK)
	for _, want := range []string{"in the zone Asia/Tokyo", "submission (Asia/Tokyo)", `href="../?` + zone + `"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s: %s", want, page)
		}
	}
	if page := s.get("jobs/1", http.StatusOK); !strings.Contains(page, "in the zone UTC") || !strings.Contains(page, "submission (UTC)") {
		t.Errorf("without a zone: %s", page)
	}
}

// TestIdle checks which clusters' processors count as 100 % of the capacity.
func TestIdle(t *testing.T) {
	cpus := func(n int64) *int64 { return &n }
	idle, busy, unknown := size{Name: "idle", CPUs: cpus(16)}, size{Name: "busy", Jobs: 3, CPUs: cpus(4)}, size{Name: "unknown", Jobs: 1}
	for want, list := range map[int64][]size{16: {idle}, 4: {idle, busy}, 0: {idle, busy, unknown}} {
		got, names := (&sizes{list: list}).capacity(question.All{})
		if got != want || (got == 0) != slices.Equal(names, []string{"unknown"}) {
			t.Errorf("%v: %d processors, unknown %v, want %d", list, got, names, want)
		}
	}
	if text, err := json.Marshal(idle); err != nil || string(text) != `{"name":"idle","jobs":0,"cpus":16}` {
		t.Errorf("%s %v", text, err)
	}
}

// TestPrinted checks that a printed page describes its content.
func TestPrinted(t *testing.T) {
	s := serve(t, 10)
	for query, want := range map[string]string{
		"last=all&q=state:FAILED&f=cluster%3Dvale":   `<p class="printed">Cluster: vale; Query: state:FAILED; Time: 2024`,
		"from=2024-03-01&refresh=60&zone=Asia/Tokyo": "Time: since 2024-03-01",
		"last=7d&refresh=60":                         "Time: last 7d, UTC</p>",
	} {
		if page := s.get("?"+query, http.StatusOK); !strings.Contains(page, want) {
			t.Errorf("%s: the page has no %s", query, want)
		}
	}
}
