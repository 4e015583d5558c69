package web

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/receive"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
)

// site is a test server with the pages of a store.
type site struct {
	*httptest.Server
	t     *testing.T
	store *store.Store
}

// serve serves a store with the given number of synthetic jobs and with the given documents.
func serve(t *testing.T, jobs int64, documents ...string) *site {
	t.Helper()
	s, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := storetest.Fill(t.Context(), s, 1, jobs); err != nil {
		t.Fatal(err)
	}
	var entries []store.Entry
	for i, text := range documents {
		job := document.Parse([]byte(text), "slurm")
		entries = append(entries, store.Entry{Seq: jobs + int64(i) + 1, Arrived: job.End, Source: store.Received, Index: "slurm", Document: []byte(text), Job: job})
	}
	if len(entries) > 0 {
		if _, err := s.Apply(t.Context(), entries); err != nil {
			t.Fatal(err)
		}
	}
	mux := http.NewServeMux()
	Register(mux, s, nil)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &site{server, t, s}
}

// get requests a path below the pages, checks the status, and returns the body.
func (s *site) get(path string, want int) string {
	s.t.Helper()
	answer, err := s.Client().Get(s.URL + receive.Pages + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if answer.StatusCode != want {
		s.t.Fatalf("%s: %s, want %d: %.500s", path, answer.Status, want, text)
	}
	return string(text)
}

// rows is a panel's response in JSON.
type rows struct {
	Columns []struct{ Name string }
	Rows    [][]any
	Notes   []string
	Error   string
}

func (s *site) panel(name string, parameters ...string) (r rows) {
	s.t.Helper()
	v := url.Values{}
	for i := 0; i < len(parameters); i += 2 {
		v.Add(parameters[i], parameters[i+1])
	}
	text := s.get("api/v1/panels/"+name+"?"+v.Encode(), http.StatusOK)
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		s.t.Fatalf("%s: %v: %s", name, err, text)
	}
	return r
}

// sum returns the sum of a column.
func (r rows) sum(name string) (sum float64) {
	for i, c := range r.Columns {
		if c.Name == name {
			for _, row := range r.Rows {
				v, _ := row[i].(float64)
				sum += v
			}
		}
	}
	return sum
}

func (s *site) number(sql string, args ...any) (n float64) {
	s.t.Helper()
	if err := s.store.Read(context.Background(), func(v *store.Snapshot) error { return v.Scan(sql, args, &n) }); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// TestPanels checks that every panel responds in each format, and that the panels' numbers of jobs
// agree.
func TestPanels(t *testing.T) {
	s := serve(t, 5000)
	for _, p := range panels {
		for _, parameters := range []string{"last=all", "last=1h", "last=90d&zone=Europe/Zurich&q=user_name:user00*", "f=user_name=nobody", "from=2030-01-01"} {
			s.get("api/v1/panels/"+p.name+"?"+parameters, http.StatusOK)
			if text := s.get("api/v1/panels/"+p.name+"?format=html&"+parameters, http.StatusOK); !strings.Contains(text, "<h2") {
				t.Errorf("%s: no heading in %.200s", p.name, text)
			}
			lines, err := csv.NewReader(strings.NewReader(s.get("api/v1/panels/"+p.name+"?format=csv&"+parameters, http.StatusOK))).ReadAll()
			if err != nil || len(lines) == 0 {
				t.Errorf("%s: %d lines of CSV: %v", p.name, len(lines), err)
			}
		}
	}
	for name, of := range map[string]string{"waits": "jobs", "runs": "jobs", "sizes": "jobs", "requested": "jobs", "limits": "jobs", "week": "jobs", "shares": "jobs"} {
		if got := s.panel(name, "last", "all").sum(of); got != 5000 {
			t.Errorf("%s: %v jobs, want 5000", name, got)
		}
	}
	states := s.panel("jobs", "last", "all")
	for _, c := range states.Columns[2:] {
		if got, want := states.sum(c.Name), s.number("SELECT count(*)::DOUBLE FROM jobs WHERE state = ?", c.Name); got != want {
			t.Errorf("%v jobs are %s, want %v", got, c.Name, want)
		}
	}
	waste := s.panel("waste", "last", "all")
	if got, want := waste.sum("completed")+waste.sum("failed")+waste.sum("other"), s.number("SELECT sum(cpu_hours) FROM jobs"); got < 0.999*want || got > 1.001*want {
		t.Errorf("%v CPU hours, want %v", got, want)
	}
	if got, want := s.panel("table", "last", "all", "rows", "1000").Rows[0][len(defaultColumns)-1], s.number("SELECT epoch(max(end_time)) FROM jobs"); true {
		at, err := time.Parse(time.RFC3339, got.(string))
		if err != nil || float64(at.Unix()) != want {
			t.Errorf("the newest job ended at %v (%v), want %v", got, err, want)
		}
	}
	if text := s.get("?static=1&last=all", http.StatusOK); strings.Count(text, `role="img"`) < 10 {
		t.Errorf("%d charts on the page without scripts", strings.Count(text, `role="img"`))
	}
}

// TestLinks checks that the links and the form of a panel have each parameter of the page once.
func TestLinks(t *testing.T) {
	s := serve(t, 100)
	html := s.get("api/v1/panels/table?format=html&width=700&last=all&rows=10&sort=nodes", http.StatusOK)
	links := regexp.MustCompile(`href="\?([^"]*)"`).FindAllStringSubmatch(html, -1)
	if len(links) < 10 {
		t.Fatalf("%d links in %.1000s", len(links), html)
	}
	for _, link := range links {
		v, err := url.ParseQuery(strings.ReplaceAll(link[1], "&amp;", "&"))
		if err != nil || v.Has("format") || v.Has("width") || v.Get("rows") != "10" || v.Get("last") != "all" {
			t.Errorf("the link %s: %v", link[1], err)
		}
	}
	if inputs := regexp.MustCompile(`<input[^>]* name="rows"[^>]*>`).FindAllString(html, -1); len(inputs) != 1 || !strings.Contains(inputs[0], `value="10"`) {
		t.Errorf("the numbers of rows to choose: %q", inputs)
	}
}

// TestRowsOfCSV checks that a CSV file of the table has as many jobs as asked for, and all jobs by
// default and in the page's link to the file.
func TestRowsOfCSV(t *testing.T) {
	s := serve(t, 100)
	ids := func(parameters string) (ids []string) {
		lines, err := csv.NewReader(strings.NewReader(s.get("api/v1/panels/table?last=all&columns=jobid&sort=jobid&format=csv"+parameters, http.StatusOK))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines[1:] {
			ids = append(ids, strings.Join(line, ","))
		}
		return ids
	}
	all := ids("")
	if len(all) < 26 {
		t.Fatalf("%d jobs by default, as on a page", len(all))
	}
	if got := ids("&rows=6&page=1"); !slices.Equal(got, all[6:12]) {
		t.Errorf("the second six jobs are %q, want %q", got, all[6:12])
	}
	if got := ids("&rows=50000"); !slices.Equal(got, all) {
		t.Errorf("%d jobs, want %d", len(got), len(all))
	}
	s.get("api/v1/panels/table?last=all&format=csv&rows=50001", http.StatusBadRequest)
	s.get("api/v1/panels/table?last=all&rows=1001", http.StatusBadRequest)
	html := s.get("api/v1/panels/table?format=html&last=all&rows=10&page=1", http.StatusOK)
	link := regexp.MustCompile(`href="([^"]*format=csv[^"]*)"`).FindStringSubmatch(html)
	if link == nil || strings.Contains(link[1], "rows=") || strings.Contains(link[1], "page=") {
		t.Errorf("the link to the file: %q", link)
	}
}

// TestNames checks that a path with a name leads to the jobs of that name, whatever characters the
// name has.
func TestNames(t *testing.T) {
	s := serve(t, 0)
	for path, filter := range map[string]string{
		"users/ada": "user_name = ada", "users/a%2Fb%3Fc": "user_name = a/b?c", "users/DOMAIN/ada": "user_name = DOMAIN/ada", "accounts/x%2F..%2Fy": "account = x/../y", "users/..%2F..": "user_name = ../..",
	} {
		if page := s.get(path+"?last=all", http.StatusOK); !strings.Contains(page, "<li>"+filter+" ") {
			t.Errorf("%s does not filter by %s: %.300s", path, filter, page)
		}
	}
}

// TestFormulas checks that spreadsheets see no formula in a job's texts in a CSV file, and that
// numbers and JSON are unchanged.
func TestFormulas(t *testing.T) {
	var documents []string
	names := []string{"=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\r=1", "a=1", "'x"}
	for i, name := range names {
		text, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, fmt.Sprintf(`{"jobid":%d,"job_name":%s,"state":%s,"cluster":"vale","@submit":"2024-03-01T01:00:00","@start":"Unknown","@end":"2024-03-01T02:00:00"}`, i+1, text, text))
	}
	s := serve(t, 0, documents...)
	read := func(path string) [][]string {
		t.Helper()
		lines, err := csv.NewReader(strings.NewReader(s.get(path, http.StatusOK))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		return lines
	}
	for i, line := range read("api/v1/panels/table?format=csv&last=all&columns=job_name,run&sort=jobid")[1:] {
		want := names[i]
		if strings.ContainsAny(names[i][:1], "=+-@\t\r") && names[i] != "+1" && names[i] != "-1" { // numbers are not formulas
			want = "'" + want
		}
		const run = "-1709254800" // number of the run of a job that never ran
		if !slices.Contains(line, want) || !slices.Contains(line, run) {
			t.Errorf("the job %q is %q, want %q and %s", names[i], line, want, run)
		}
	}
	if head := read("api/v1/panels/jobs?format=csv&last=all")[0]; slices.ContainsFunc(head, func(name string) bool { return strings.HasPrefix(name, "=") }) {
		t.Errorf("a state is a formula in the line of names: %q", head)
	}
	if got := s.panel("table", "last", "all", "columns", "job_name", "sort", "jobid").Rows[0][1]; got != "=1+1" {
		t.Errorf("in JSON the name is %q", got)
	}
}

// TestNoJobs requests everything from a store without jobs, which is the first thing that new users
// see.
func TestNoJobs(t *testing.T) {
	s := serve(t, 0)
	for _, path := range []string{"", "?static=1", "?last=all&static=1", "health", "health?static=1"} {
		s.get(path, http.StatusOK)
	}
	for _, list := range [][]*panel{panels, healthPanels} {
		for _, p := range list {
			for _, query := range []string{"", "?last=all", "?last=all&f=cluster=vale", "?from=2024-03-01&until=2024-03-08&format=csv", "?last=all&format=csv", "?last=all&format=html"} {
				s.get("api/v1/panels/"+p.name+query, http.StatusOK)
			}
		}
	}
}
