package web

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/question"
	"rmreplay/internal/accounting/receive"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
	"rmreplay/internal/accounting/web/views"
)

// TestUtilization compares the processors in use with a sum over every second of the range.
func TestUtilization(t *testing.T) {
	s := serve(t, 1500)
	if err := s.store.SetCluster(store.Cluster{Name: "vale", Kind: "site", CPUs: document.KnownInt(1_000_000)}); err != nil {
		t.Fatal(err)
	}
	type job struct{ start, end, cpus float64 }
	var jobs []job
	err := s.store.Read(t.Context(), func(v *store.Snapshot) error {
		rows, err := v.Query("SELECT epoch(start_time), epoch(end_time), cpus FROM jobs")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var j job
			if err := rows.Scan(&j.start, &j.end, &j.cpus); err != nil {
				return err
			}
			jobs = append(jobs, j)
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	for from, until := range map[string]string{"2024-03-01T00:20:00": "2024-03-01T03:10:30", "2024-03-01T02:07:13": "2024-03-02T18:40:05", "2024-03-01T00:40:00": "2024-03-04T05:20:00"} {
		r := s.panel("utilization", "from", from, "until", until)
		if n := len(r.Rows); n < 40 || strings.TrimSuffix(r.Rows[n-1][1].(string), "Z") < until {
			t.Errorf("from %s until %s: %d buckets, the last is %v", from, until, n, r.Rows[n-1])
		}
		for _, row := range r.Rows {
			from, errFrom := time.Parse(time.RFC3339, row[0].(string))
			until, errUntil := time.Parse(time.RFC3339, row[1].(string))
			if errFrom != nil || errUntil != nil {
				t.Fatal(row)
			}
			busy, a, b := 0.0, float64(from.Unix()), float64(until.Unix())
			for _, j := range jobs {
				busy += j.cpus * max(0, min(b, j.end)-max(a, j.start))
			}
			if got, want := row[2].(float64), busy/(b-a); math.Abs(got-want) > 1e-6*want+1e-3 {
				t.Errorf("%v: %v processors in use, want %v", row[0], got, want)
			}
			if got, want := row[3].(float64), 100*busy/(b-a)/1_000_000; math.Abs(got-want) > 1e-6 { // rounded to six decimals
				t.Errorf("%v: %v %%, want %v", row[0], got, want)
			}
		}
	}
}

// TestUtilizationAtEnd checks that the last bucket ends with the newest end, not with a quarter of an hour.
func TestUtilizationAtEnd(t *testing.T) {
	const job = `{"jobid":1,"cluster":"vale","state":"COMPLETED","@start":"2024-03-01T00:00:00","@end":"2024-03-02T07:07:29","total_cpus":8,"nodes":"n"}`
	rows := serve(t, 0, job).panel("utilization", "last", "1d").Rows
	if last := rows[len(rows)-1]; last[1] != "2024-03-02T07:07:30Z" || last[2].(float64) < 7.9 || last[2].(float64) > 8 {
		t.Errorf("the last bucket is %v, want 8 processors until 07:07:30", last)
	}
}

// TestCapacity checks that utilization is relative to the clusters whose jobs the filter can
// choose.
func TestCapacity(t *testing.T) {
	s := serve(t, 200, `{"jobid":1,"cluster":"vast","state":"COMPLETED","@start":"2024-03-01T00:00:00","@end":"2024-03-01T01:00:00","total_cpus":1,"nodes":"n"}`)
	addRun(t, s)
	for name, cpus := range map[string]int64{"vale": 500, "replay-1": 200} {
		if err := s.store.SetCluster(store.Cluster{Name: name, Kind: "site", CPUs: document.KnownInt(cpus)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		parameters []string
		want       string
	}{
		{nil, "not known"}, // the number of processors of vast is unknown
		{[]string{"f", "cluster=vale"}, "100 % are 500"},
		{[]string{"f", "cluster=vale", "f", "cluster=replay-1"}, "100 % are 700"},
		{[]string{"f", "cluster!=vast"}, "100 % are 700"},
		{[]string{"f", "cluster!=vast", "f", "cluster!=vale", "f", "partition=batch"}, "100 % are 200"},
		{[]string{"f", "cluster=vale", "f", "cluster=replay-1", "q", "-cluster:replay-1"}, "100 % are 500"},
		{[]string{"q", "cluster:vale"}, "100 % are 500"},
		{[]string{"q", "cluster:(vale OR replay-1)"}, "100 % are 700"},
		{[]string{"q", "cluster:vale nodes>0"}, "100 % are 500"},
		{[]string{"q", "cluster:vale OR nodes>0"}, "not known"},
		{[]string{"q", "NOT (cluster:vast OR nodes>1000)"}, "100 % are 700"},
		{[]string{"q", "NOT (cluster:vast nodes>1000)"}, "not known"},
		{[]string{"q", "cluster:re?lay*"}, "100 % are 200"},
		{[]string{"q", "cluster:va?e"}, "100 % are 500"},
		{[]string{"q", "cluster<s"}, "100 % are 200"},
		{[]string{"q", "user_name:user001"}, "not known"},
	} {
		r := s.panel("utilization", append([]string{"last", "all"}, c.parameters...)...)
		if !strings.Contains(strings.Join(r.Notes, ""), c.want) {
			t.Errorf("%q: %q, want %s", c.parameters, r.Notes, c.want)
		}
	}
}

// TestBuckets checks that buckets of days follow the time zone, even when clocks change, and that
// every bucket has the jobs that ended in it.
func TestBuckets(t *testing.T) {
	var documents []string
	end := time.Date(2024, 3, 28, 0, 30, 0, 0, time.UTC)
	for i := range 200 {
		at := end.Add(time.Duration(i) * time.Hour)
		documents = append(documents, fmt.Sprintf(`{"jobid":%d,"username":"u","state":"COMPLETED","cluster":"vale","nodes":"n1","elapsed":60,"@submit":%[2]q,"@start":%[2]q,"@end":%[3]q}`,
			i+1, at.Add(-time.Minute).Format("2006-01-02T15:04:05"), at.Format("2006-01-02T15:04:05")))
	}
	s := serve(t, 0, documents...)
	for _, c := range []struct{ zone, last, first string }{
		{"Europe/Zurich", "100d", "T00:00:00+01:00"}, {"UTC", "100d", "T00:00:00Z"}, {"Asia/Kolkata", "7d", ""}, {"America/New_York", "3d", ""},
	} {
		r := s.panel("jobs", "zone", c.zone, "last", c.last)
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Skipf("SKIPPED: no time zones: %v", err)
		}
		total := 0.0
		for i, row := range r.Rows {
			from, errFrom := time.Parse(time.RFC3339, row[0].(string))
			until, errUntil := time.Parse(time.RFC3339, row[1].(string))
			if errFrom != nil || errUntil != nil || !from.Before(until) {
				t.Fatalf("%s: %v", c.zone, row)
			}
			if c.last == "100d" && i > 0 && from.In(zone).Hour() != 0 {
				t.Errorf("%s: a day begins at %v", c.zone, from.In(zone))
			}
			want := 0.0
			for k := range 200 {
				if at := end.Add(time.Duration(k) * time.Hour); !at.Before(from) && at.Before(until) {
					want++
				}
			}
			got := 0.0
			if len(row) > 2 {
				got = row[2].(float64)
			}
			if total += got; got != want {
				t.Errorf("%s: %v to %v: %v jobs, want %v", c.zone, row[0], row[1], got, want)
			}
		}
		if c.last == "100d" && total != 200 {
			t.Errorf("%s: %v jobs, want 200", c.zone, total)
		}
	}
	// The heat map uses the zone, too: 00:30 UTC is 01:30 in winter and 02:30 in summer.
	week := s.panel("week", "zone", "Europe/Zurich", "last", "all")
	winter, summer := 0.0, 0.0
	for _, row := range week.Rows {
		if row[0] == "Thursday" && row[1] == 1.0 {
			winter += row[2].(float64)
		}
		if row[0] == "Monday" && row[1] == 2.0 {
			summer += row[2].(float64)
		}
	}
	if winter != 1+1 || summer != 1 { // Thursdays at 01:29: 28 March (00:29 UTC) and 4 April (3 April, 23:29 UTC)
		t.Errorf("%v jobs on Thursdays from 01:00, %v on Mondays from 02:00", winter, summer)
	}
}

// TestRepeatedHour checks that each bar's link opens the bar's range, even in the hour that is
// repeated when clocks are put back.
func TestRepeatedHour(t *testing.T) {
	s := serve(t, 100)
	if err := s.store.AddHealth(store.Health{Cluster: "vale", At: healthBegin}); err != nil {
		t.Fatal(err)
	}
	v := newServer(s.store, nil)
	open := func(query string) (*request, *sizes) {
		t.Helper()
		values, err := url.ParseQuery(strings.TrimPrefix(query, "?"))
		if err != nil {
			t.Fatal(err)
		}
		r, sizes, err := v.read(t.Context(), values)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		return r, sizes
	}
	r, sizes := open("zone=Europe/Zurich&from=2024-10-26T12:00&until=2024-10-27T12:00")
	if span := r.until.Sub(r.from); span != 25*time.Hour {
		t.Fatalf("the range has %v", span)
	}
	for _, name := range []string{"jobs", "waste"} {
		a, err := v.ask(t.Context(), panelOf(name), r, sizes)
		if err != nil {
			t.Fatal(err)
		}
		if len(a.table.Rows) < 25 {
			t.Fatalf("%s: %d bars", name, len(a.table.Rows))
		}
		for i, row := range a.table.Rows {
			if bar, _ := open(a.table.links[i]); !bar.from.Equal(row[0].(time.Time)) || !bar.until.Equal(row[1].(time.Time)) {
				t.Errorf("%s: the bar from %v until %v leads to %v until %v", name, row[0], row[1], bar.from, bar.until)
			}
		}
	}
	// The links to the schedulers and to one side's CSV contain a range, too.
	page := s.get("?zone=Europe/Zurich&from=2024-10-27T02:00:00%2B01:00&until=2024-10-27T12:00", http.StatusOK)
	if !strings.Contains(page, `href="health?from=2024-10-27T02%3A00%3A00%2B01%3A00&amp;`) || !strings.Contains(page, `value="2024-10-27T02:00:00" data-exact="2024-10-27T02:00:00&#43;01:00"`) {
		t.Errorf("the page leads elsewhere: %.4000s", page)
	}
	html := s.get("api/v1/panels/jobs?format=html&a=vale&b=vale&zone=Europe/Zurich&from=2024-10-27T02:00:00%2B01:00&until=2024-10-27T12:00", http.StatusOK)
	if !strings.Contains(html, "csv&amp;from=2024-10-27T02%3A00%3A00%2B01%3A00") {
		t.Errorf("the CSV is of another range: %s", html[strings.Index(html, `class="tools"`):])
	}
}

// TestAligned aligns a run of other days with a cluster. Links and selections in the run's charts
// use the page's range.
func TestAligned(t *testing.T) {
	var documents []string
	first := time.Date(2023, 11, 20, 6, 30, 0, 0, time.UTC)
	for i := range 60 {
		at := first.Add(time.Duration(i) * time.Hour).Format("2006-01-02T15:04:05")
		documents = append(documents, fmt.Sprintf(`{"jobid":%d,"state":"COMPLETED","cluster":"what-if","nodes":"n1","elapsed":60,"@submit":%[2]q,"@start":%[2]q,"@end":%[2]q}`, i+1, at))
	}
	s := serve(t, 2000, documents...) // from 2024-03-01 at midnight
	v := newServer(s.store, nil)
	ask := func(query string) (r, second *request, a *answer, jobs float64) {
		t.Helper()
		values, err := url.ParseQuery(strings.TrimPrefix(query, "?"))
		if err != nil {
			t.Fatal(err)
		}
		r, sizes, err := v.read(t.Context(), values)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		if second, err = r.of("what-if", "-b"); err != nil {
			t.Fatal(err)
		}
		if a, err = v.ask(t.Context(), panelOf("jobs"), second, sizes); err != nil {
			t.Fatal(err)
		}
		for _, row := range a.table.Rows {
			if len(row) > 2 {
				jobs += value(row[2])
			}
		}
		return r, second, a, jobs
	}
	const both, day = "a=vale&b=what-if&", "from=2024-03-01&until=2024-03-02"
	for _, c := range []struct {
		query, from string
		jobs        float64
	}{
		{day, "2023-11-20T00:00:00Z", 18}, {day + "&align=day", "2023-11-20T00:00:00Z", 18}, {day + "&align=begin", "2023-11-20T06:30:00Z", 24},
		{day + "&align=time", "2024-03-01T00:00:00Z", 0}, {"last=all", "2023-11-20T00:", 60}, {"last=all&align=time", "2023-11-20T06:30:00Z", 60},
		{"last=all&align=begin", "2023-11-20T06:30:00Z", 60},
	} {
		_, second, a, jobs := ask(both + c.query)
		if from := second.from.Format(time.RFC3339); !strings.HasPrefix(from, c.from) || jobs != c.jobs {
			t.Errorf("%s: the second one has %v jobs from %s, want %v from %s", c.query, jobs, from, c.jobs, c.from)
		}
		for i, row := range a.table.Rows {
			if _, bar, _, _ := ask(a.table.links[i]); !bar.from.Equal(row[0].(time.Time)) || !bar.until.Equal(row[1].(time.Time)) {
				t.Fatalf("%s: the bar from %v until %v leads to %v until %v", c.query, row[0], row[1], bar.from, bar.until)
			}
		}
	}
	// The arrows, and the link to the other page, keep the alignment.
	for _, align := range []string{"day", "begin"} {
		r, second, _, _ := ask(both + day + "&align=" + align)
		page := s.get("compare?"+both+day+"&align="+align, http.StatusOK)
		for _, arrow := range []string{"Earlier", "Later"} {
			found := regexp.MustCompile(`<a href="([^"]*)" aria-label="` + arrow).FindStringSubmatch(page)
			if found == nil {
				t.Fatalf("no link %s", arrow)
			}
			to, moved, _, _ := ask(html.UnescapeString(found[1]))
			if got, want := moved.from.Sub(to.from), second.from.Sub(r.from); got != want || to.from.Equal(r.from) || to.alignment != align {
				t.Errorf("align=%s, %s: the second one is moved by %v (%s), want %v", align, arrow, got, to.alignment, want)
			}
		}
	}
	if text := s.get("compare?"+both+day+"&align=day&shift=1", http.StatusBadRequest); !strings.Contains(text, "is not a duration (want, for example, -36h)") {
		t.Errorf("a wrong shift: %.3000s", text)
	}
	html := strings.ReplaceAll(s.get("api/v1/panels/jobs?format=html&"+both+day, http.StatusOK), "&#43;", "+")
	if low := fmt.Sprintf(`data-low="%g"`, float64(time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC).Unix())); strings.Count(html, low) != 2 {
		t.Errorf("a selection is not in the range of the page: no %s twice in %q", low, regexp.MustCompile(`data-low="[^"]*"`).FindAllString(html, -1))
	}
	page := s.get("compare?"+both+day, http.StatusOK)
	if !strings.Contains(page, `<select name="align">`) || !strings.Contains(page, `<option value="day" selected>`) {
		t.Error("the page does not say how the two are aligned")
	}
	s.get("api/v1/panels/jobs?align=x&"+both, http.StatusBadRequest)
	for _, query := range []string{both + day, "a=vale&format=json", "b=vale&format=csv", both + "format=csv"} {
		if text := s.get("api/v1/panels/jobs?"+query, http.StatusBadRequest); !strings.Contains(text, "want f=cluster=NAME") {
			t.Errorf("%s: %s", query, text)
		}
	}
}

// TestEverything checks that "everything" includes exactly the jobs that ended, and that the
// utilization begins when the first job started.
func TestEverything(t *testing.T) {
	s := serve(t, 0,
		`{"jobid":1,"cluster":"vale","state":"COMPLETED","@submit":"2024-03-01T00:00:00","@start":"2024-03-01T01:00:00","@end":"2024-03-01T05:00:00","total_cpus":4,"nodes":"n"}`,
		`{"jobid":2,"cluster":"vale","state":"FAILED","@submit":"2024-03-01T00:00:00","@start":"2024-03-01T06:00:00","@end":"2024-03-01T07:00:00","total_cpus":4,"nodes":"n"}`,
		`{"jobid":3,"cluster":"vale","state":"RUNNING","@submit":"2024-03-01T00:00:00","@start":"2024-03-01T00:30:00","total_cpus":4,"nodes":"n"}`,
		`{"jobid":4,"cluster":"vale","state":"PENDING","@submit":"2024-03-01T00:00:00","total_cpus":4}`,
		`{"jobid":5,"cluster":"moor","state":"COMPLETED","@submit":"2024-03-01T00:00:00","@start":"2024-03-01T00:00:00","@end":"2024-03-01T06:00:00","total_cpus":8,"nodes":"n"}`,
	)
	query := []string{"last", "all", "f", "cluster=vale"}
	if r := s.panel("summary", query...); r.sum("jobs") != 2 || r.sum("failed") != 50 {
		t.Errorf("the summary is %v, want 2 jobs, half of them failed", r.Rows)
	}
	if r := s.panel("table", query...); len(r.Rows) != 2 {
		t.Errorf("%d jobs in the table, want those that ended: %v", len(r.Rows), r.Rows)
	}
	used := func(r rows) (hours float64) {
		t.Helper()
		for _, row := range r.Rows {
			from, err := time.Parse(time.RFC3339, row[0].(string))
			until, errUntil := time.Parse(time.RFC3339, row[1].(string))
			if err != nil || errUntil != nil {
				t.Fatal(row)
			}
			hours += row[2].(float64) * until.Sub(from).Hours()
		}
		return hours
	}
	if r := s.panel("utilization", query...); r.Rows[0][0] != "2024-03-01T01:00:00Z" || math.Abs(used(r)-20) > 1e-3 {
		t.Errorf("%v CPU hours from %v, want 20 from 01:00", used(r), r.Rows[0][0])
	}
	// Both parts of a comparison begin with the first start of both.
	html := s.get("api/v1/panels/utilization?format=html&a=vale&b=moor&last=all", http.StatusOK)
	low := fmt.Sprintf(`data-low="%g"`, float64(time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC).Unix()))
	if strings.Count(strings.ReplaceAll(html, "&#43;", "+"), low) != 2 {
		t.Errorf("no %s twice in %q", low, regexp.MustCompile(`data-low="[^"]*"`).FindAllString(html, -1))
	}
}

// TestDoubts checks that the pages with jobs of a run that is not valid, and only these, mark the run
// as not valid.
func TestDoubts(t *testing.T) {
	s := serve(t, 10)
	addRun(t, s)
	s.addHealth("vale")
	s.addHealth("replay-1")
	if err := s.store.SetCluster(store.Cluster{Name: "replay-1", Kind: kindRun, Doubt: "it was interrupted"}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{
		"": 1, "?f=cluster%3Dreplay-1&last=all": 1, "?f=cluster%3Dvale": 0, "?q=-cluster:replay-1": 0, "compare?a=vale&b=replay-1&static=1": 1,
		"compare?a=vale&b=vale": 0, "health": 1, "health?a=vale&b=replay-1": 1, "?f=cluster%3Dreplay-1&q=user_nam:x": 1,
	} {
		status := http.StatusOK
		if strings.Contains(path, "user_nam:") {
			status = http.StatusBadRequest
		}
		if n := strings.Count(s.get(path, status), "The run replay-1 is not valid: it was interrupted."); n != want {
			t.Errorf("%q says it %d times, want %d", path, n, want)
		}
	}
	if text := s.get("api/v1/clusters", http.StatusOK); strings.Count(text, `"not_valid_reason":"it was interrupted"`) != 1 {
		t.Errorf("the clusters: %s", text)
	}
}

// TestGroupings checks that the panel of groups takes the words that Slurm's users know.
func TestGroupings(t *testing.T) {
	s := serve(t, 50)
	for by, column := range map[string]string{"user": "user_name", "account": "account", "partition": "partition", "qos": "qos"} {
		if r := s.panel("groups", "last", "all", "by", by); r.Columns[0].Name != column || len(r.Rows) == 0 {
			t.Errorf("by=%s: %+v", by, r)
		}
	}
}

// TestExitCodes checks that queries, the table and its order agree with the panel of exit codes: a
// job that never ran has no exit code, and has used no part of its limit.
func TestExitCodes(t *testing.T) {
	s := serve(t, 0,
		`{"jobid":1,"cluster":"vale","state":"CANCELLED","exit_code":"0:0","derived_ec":"0:0","time_limit":3600,"@submit":"2024-03-01T00:00:00","@start":"Unknown","@end":"2024-03-01T07:00:00","nodes":"(null)","total_cpus":4}`,
		`{"jobid":2,"cluster":"vale","state":"COMPLETED","exit_code":"0:0","derived_ec":"0:0","time_limit":3600,"@submit":"2024-03-01T00:00:00","@start":"2024-03-01T01:00:00","@end":"2024-03-01T02:00:00","total_cpus":4,"nodes":"n"}`,
	)
	for _, column := range []string{"exit_code", "exit_signal", "derived_code", "derived_signal", "limit_used"} {
		for query, want := range map[string]float64{column + "<=100": 1, column + "!=*": 1, column + ":*": 1, "": 2} {
			if got := s.panel("summary", "q", query).sum("jobs"); got != want {
				t.Errorf("%q finds %v jobs, want %v", query, got, want)
			}
		}
		r := s.panel("table", "columns", "jobid,"+column, "sort", column)
		if r.Rows[0][1] != 2.0 || r.Rows[0][2] == nil || r.Rows[1][2] != nil {
			t.Errorf("%s: the rows are %v, want the job that ran first, and no value for the other job", column, r.Rows)
		}
	}
}

// TestLastJobs checks that an open range of a comparison includes the last jobs of both clusters,
// whichever cluster comes first, if both clusters have jobs in the range.
func TestLastJobs(t *testing.T) {
	var documents []string
	for i, at := range []string{"short 01T01", "short 02T01", "long 01T02", "long 02T05", "long 03T07", "later 20T01"} {
		cluster, end, _ := strings.Cut(at, " ")
		documents = append(documents, fmt.Sprintf(`{"jobid":%d,"state":"COMPLETED","cluster":%q,"nodes":"n1","total_cpus":4,"@submit":"2024-03-01T00:00:00","@start":"2024-03-01T00:00:00","@end":"2024-03-%s:00:00"}`, i+1, cluster, end))
	}
	s := serve(t, 0, documents...)
	for _, c := range []struct{ query, jobs string }{
		{"a=short&b=long", "2 3"}, {"a=long&b=short", "3 2"}, {"a=short&b=long&from=2024-03-01", "2 3"},
		{"a=short&b=long&last=2d", "1 2"}, {"a=long&b=short&last=2d", "2 1"}, {"a=short&b=long&last=1d", "1 1"},
		{"a=short&b=long&last=1d&until=2024-03-03", "1 1"}, {"a=short&b=long&last=all", "2 3"},
		{"a=short&b=later&last=7d&align=time", "2 0"}, {"a=short&b=later&last=30d&align=time", "2 1"},
	} {
		var jobs []string
		html := s.get("api/v1/panels/summary?format=html&"+c.query, http.StatusOK)
		for _, found := range regexp.MustCompile(`<dt>jobs</dt><dd>(\d+)</dd>`).FindAllStringSubmatch(html, -1) {
			jobs = append(jobs, found[1])
		}
		if got := strings.Join(jobs, " "); got != c.jobs {
			t.Errorf("%s: %s jobs, want %s", c.query, got, c.jobs)
		}
	}
}

// TestClasses checks that every integer is in the class whose edges enclose it.
func TestClasses(t *testing.T) {
	for _, classes := range []int{1, 2} {
		for x := range 5000 {
			class := int64(math.Floor(math.Log2(float64(x)+0.5) * float64(classes)))
			if low, high := question.ClassEdge(class, classes), question.ClassEdge(class+1, classes); float64(x) < low || float64(x) >= high {
				t.Errorf("%d is in the class from %v below %v", x, low, high)
			}
		}
	}
}

// TestAbsurdJobs checks that documents with absurd values do not break panels, or the range of time
// for other jobs.
func TestAbsurdJobs(t *testing.T) {
	s := serve(t, 100,
		`{"jobid":1000001,"cluster":"vale","state":"COMPLETED","@start":"2024-03-01T00:00:00","@end":"9999-12-31T23:59:59","elapsed":9223372036854775807,"total_cpus":9223372036854775807,"time_limit":9223372036854775807,"total_nodes":9223372036854775807,"nodes":"n"}`,
		`{"jobid":1000002,"cluster":"vale","state":"COMPLETED","@start":"1970-01-01T00:00:01","@end":"1970-01-01T00:00:00","elapsed":-5,"total_cpus":-3,"time_limit":0,"nodes":"n"}`,
		`{"jobid":1000003,"cluster":"vale","state":"\u202eDETELPMOC","exit_code":"256:300","@end":"Unknown","@submit":"None"}`,
		`{}`, `not json`, `{"cluster":"","username":"","jobid":"x"}`)
	for _, p := range panels {
		for _, last := range []string{"all", "30d", "1h"} {
			s.get("api/v1/panels/"+p.name+"?format=html&last="+last, http.StatusOK)
			if r := s.panel(p.name, "last", last); r.Error != "" {
				t.Errorf("%s: %s", p.name, r.Error)
			}
		}
	}
	if got := s.panel("summary", "last", "30d").sum("jobs"); got < 100 || got > 106 {
		t.Errorf("the last 30 days have %v jobs", got)
	}
	// A cluster without a name comes first in the list, and cannot be compared.
	if n := s.number("SELECT count(*)::DOUBLE FROM jobs WHERE cluster = ''"); n != 1 {
		t.Fatalf("%v jobs have a cluster without a name", n)
	}
	for query, want := range map[string]string{"": "slurm and vale", "?a=vale": "vale and slurm", "?b=slurm": "vale and slurm"} {
		if page := s.get("compare"+query, http.StatusOK); !strings.Contains(page, "<h1>"+want+"</h1>") || strings.Contains(page, "<option></option>") {
			t.Errorf("%s: not %s in %.2000s", query, want, page)
		}
	}
}

// TestUnknownAmounts: unknown amounts are not 0, notes count the jobs with unknown amounts, and
// distributions omit jobs that never ran. A job that exceeded its limit does not reduce the waste of others.
func TestUnknownAmounts(t *testing.T) {
	job := func(id int, rest string) string {
		return fmt.Sprintf(`{"jobid":%d,"cluster":"vale","@submit":"2024-03-01T00:00:00","@end":"2024-03-01T02:00:00",%s}`, id, rest)
	}
	const ran, never = `"@start":"2024-03-01T01:00:00","state":"COMPLETED"`, `"@start":"2024-03-01T02:00:00","nodes":"(null)","state":"CANCELLED","total_cpus":8,"total_nodes":2,"time_limit":7200`
	s := serve(t, 0, job(1, ran), job(2, ran+`,"nodes":"n[1-3]"`), job(3, never))
	const records, limits = ": their records do not say how many ", ": they have no time limit, or their records lack the limit."
	for name, want := range map[string]string{
		"summary": "[[3 0 0 3600 <nil> 2 <nil> <nil> <nil> 3 <nil>]] 1 job never ran and is not in the mean wait. 1 job that ran is not in the node hours: its record does not say " +
			"how many nodes it had. 2 jobs that ran are not in the CPU hours" + records + "processors they had. 2 jobs that ran are not in the GPU hours" +
			records + "GPUs they had. 2 jobs that ran are not in the requested and unused CPU hours" + limits,
		"runs":   "[[2896 4096 2 <nil> 100]] 50 % or more are below 1 h 8 min, where a bar ends. 90 % or more are below 1 h 8 min, where a bar ends. 1 job never ran and is not in the panel.",
		"waits":  "[[2896 4096 2 <nil> 100]] 50 % or more are below 1 h 8 min, where a bar ends. 90 % or more are below 1 h 8 min, where a bar ends. 1 job never ran and is not in the panel.",
		"sizes":  "[[2 4 1 <nil> 100]] 50 % or more are below 4, where a bar ends. 90 % or more are below 4, where a bar ends. 1 job never ran and is not in the panel. 1 job that ran is not in the panel: its record does not say how many nodes it had.",
		"exits":  "[[2024-03-01T02:00:00Z 2024-03-01T02:00:01Z 2]] 1 job never ran and is not in the panel.",
		"limits": "[] 1 job never ran and is not in the panel. 2 jobs that ran are not in the panel" + limits,
		"waste":  "[[2024-03-01T02:00:00Z 2024-03-01T02:00:01Z <nil> 0 0 <nil>]] 2 jobs that ran are not in the CPU hours" + records + "processors they had. 2 jobs that ran are not in the requested and unused CPU hours" + limits,
	} {
		r := s.panel(name, "last", "all")
		if said := strings.ReplaceAll(fmt.Sprint(r.Rows)+" "+strings.Join(r.Notes, " "), "\u00a0", " "); said != want {
			t.Errorf("%s: %s\nwant %s", name, said, want)
		}
		s.get("api/v1/panels/"+name+"?last=all&format=html", http.StatusOK)
	}
	if tiles := s.get("api/v1/panels/summary?last=all&format=html", http.StatusOK); strings.Count(tiles, "<dd>–</dd>") != 5 {
		t.Errorf("not five numbers that are not known: %s", tiles)
	}
	if waste := s.get("api/v1/panels/waste?last=all&format=html", http.StatusOK); !strings.Contains(waste, "asked for, not used <span>–</span>") {
		t.Errorf("what was not used is not unknown: %s", waste)
	}
	for _, name := range []string{"users", "accounts", "partitions", "names", "groups", "reasons", "week"} {
		notes := strings.ReplaceAll(strings.Join(s.panel(name, "last", "all").Notes, " "), "\u00a0", " ")
		if want := "1 job never ran and is not in the mean wait."; !strings.Contains(notes, want) {
			t.Errorf("%s: notes %q, want %q", name, notes, want)
		}
	}
	full := serve(t, 0, job(1, ran+`,"nodes":"n1","total_cpus":4,"time_limit":7200`), job(2, ran+`,"nodes":"n1","total_cpus":400,"time_limit":60`), job(3, never))
	for _, name := range []string{"summary", "waste", "users"} {
		if got := full.panel(name, "last", "all").sum(map[bool]string{true: "unused", false: "unused_cpu_hours"}[name == "waste"]); got != 4 {
			t.Errorf("%s: %v CPU hours were asked for and not used, want the 4 of the first job", name, got)
		}
	}
}

// TestAddedUp checks that a sum over a cluster and a run has a note beside it, and a sum over
// clusters alone has not.
func TestAddedUp(t *testing.T) {
	var jobs []string
	for i, cluster := range []string{"vale", "moor", "what-if", "production"} {
		jobs = append(jobs, fmt.Sprintf(`{"jobid":%d,"cluster":%q,"state":"COMPLETED","@start":"2024-03-01T00:00:00","@end":"2024-03-01T01:00:00","nodes":"n1"}`, i+1, cluster))
	}
	s := serve(t, 0, jobs...)
	for _, run := range []string{"what-if", "production"} {
		if err := s.store.SetCluster(store.Cluster{Name: run, Kind: kindRun}); err != nil {
			t.Fatal(err)
		}
	}
	for query, want := range map[string]string{
		"":                              "over the cluster moor, the cluster vale, the run production and the run what-if.",
		"cluster:(vale OR what-if)":     "over the cluster vale and the run what-if.",
		"cluster:(moor OR vale)":        "",
		"cluster:what-if":               "",
		"-cluster:vale -cluster:moor":   "over the run production and the run what-if.",
		"user_name:ann OR cluster:vale": "over the cluster moor, the cluster vale, the run production and the run what-if.",
	} {
		notes := strings.Join(s.panel("summary", "last", "all", "q", query).Notes, " ")
		if !strings.Contains(notes, want) || want == "" && strings.Contains(notes, "sums over") {
			t.Errorf("%s: %q, want %q", query, notes, want)
		}
	}
	if page := s.get("?last=all", http.StatusOK); strings.Count(page, " (run)</a>") != 2 {
		t.Error("the page does not tell runs from clusters")
	}
}

// TestAnswersAreKept checks that a kept answer equals the query's answer, even after a panel has
// used it, and that new jobs appear.
func TestAnswersAreKept(t *testing.T) {
	s := serve(t, 500)
	v := newServer(s.store, nil)
	ask := func(p *panel) string {
		t.Helper()
		r, sizes, err := v.read(t.Context(), url.Values{"last": {"all"}})
		if err != nil {
			t.Fatal(err)
		}
		a, err := v.ask(t.Context(), p, r, sizes)
		if err != nil {
			t.Fatal(err)
		}
		a.took = 0
		text, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, p := range panels {
		if first, second := ask(p), ask(p); first != second {
			t.Errorf("%s: first %s\nthen %s", p.name, first, second)
		}
	}
	before := ask(panelOf("summary"))
	if err := storetest.Fill(t.Context(), s.store, 501, 600); err != nil {
		t.Fatal(err)
	}
	v.sizes.expire = time.Time{}
	if after := ask(panelOf("summary")); after == before {
		t.Errorf("new jobs are not seen: %s", after)
	}
}

// TestViews saves, lists, replaces and deletes views, also after a restart, and checks that wrong
// requests are refused.
func TestViews(t *testing.T) {
	s := serve(t, 10)
	send := func(method, name, kind, body string) int {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), method, s.URL+receive.Pages+"api/v1/views/"+name, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", kind)
		answer, err := s.Client().Do(q)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	for _, c := range []struct {
		method, name, kind, body string
		want                     int
	}{
		{"PUT", "week", "application/json", `{"url":"?last=7d"}`, 200},
		{"PUT", "week", "application/json; charset=utf-8", `{"url":"?last=7d&f=state%3DFAILED"}`, 200},
		{"PUT", "two%20runs%2F1", "application/json", `{"url":"compare?a=x&b=y"}`, 200},
		{"PUT", "bad", "application/json", `{"url":"javascript:alert(1)"}`, 400},
		{"PUT", "bad", "application/json", `{"url":"//example.org/?last=7d"}`, 400},
		{"PUT", "bad", "application/json", `{"url":"?last=soon"}`, 200}, // the parameters are checked when the view is opened
		{"DELETE", "bad", "", "", 204},
		{"PUT", "bad", "application/json", `{"url":"?f=nothing%3D1"}`, 400},
		{"PUT", "bad", "text/plain", `{"url":"?last=7d"}`, 415},
		{"PUT", "bad", "application/json", `{`, 400},
		{"PUT", "bad", "application/json", `{"url":"?last=7d","name":"good"}`, 400},
		{"PUT", "bad", "application/json", `{"url":"?q=` + strings.Repeat("a", 20000) + `"}`, 400},
		{"PUT", strings.Repeat("x", 101), "application/json", `{"url":"?"}`, 400},
		{"DELETE", "nothing", "", "", 404},
	} {
		if got := send(c.method, c.name, c.kind, c.body); got != c.want {
			t.Errorf("%s %s %.40s: %d, want %d", c.method, c.name, c.body, got, c.want)
		}
	}
	mux := http.NewServeMux()
	Register(mux, s.store, nil) // as after a restart
	again := httptest.NewServer(mux)
	defer again.Close()
	for _, at := range []string{s.URL, again.URL} {
		answer, err := s.Client().Get(at + receive.Pages + "api/v1/views")
		if err != nil {
			t.Fatal(err)
		}
		var list []views.View
		if err := json.NewDecoder(answer.Body).Decode(&list); err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		want := []views.View{{Name: "two runs/1", URL: "compare?a=x&b=y"}, {Name: "week", URL: "?f=state%3DFAILED&last=7d"}}
		if !slices.Equal(list, want) {
			t.Errorf("%v, want %v", list, want)
		}
	}
	info, err := os.Stat(filepath.Join(s.store.Dir(), "views.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.store.Dir(), ".views-*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// TestHeaders checks the security headers of the pages, and that texts of a job cannot run as code.
func TestHeaders(t *testing.T) {
	s := serve(t, 10, hostile())
	if err := os.MkdirAll(filepath.Join(s.store.Dir(), "reports"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.store.Dir(), "reports", "vale.html"), []byte("<p>report</p>"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, policy := range map[string]string{
		"": "script-src 'self'", "jobs/11": "script-src 'self'", "api/v1/panels/jobs?format=html": "script-src 'self'", "api/v1/": "default-src 'none'", "nothing?q=<script>": "",
		"reports/vale": "sandbox allow-scripts",
	} {
		answer, err := s.Client().Get(s.URL + receive.Pages + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if got := answer.Header.Get("Content-Security-Policy"); !strings.Contains(got, policy) || policy != "" && (answer.Header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(got, "frame-ancestors 'none'")) {
			t.Errorf("%q: %q", path, answer.Header)
		}
		if strings.Contains(string(text), "<script>") || strings.Contains(string(text), "onerror=\"") {
			t.Errorf("%q: %s", path, text)
		}
	}
	for _, p := range panels {
		if text := s.get("api/v1/panels/"+p.name+"?format=html&last=all", 200); strings.Contains(text, "<script") || strings.Contains(text, "<img") {
			t.Errorf("%s has a job's script: %s", p.name, text)
		}
	}
	if text := s.get("jobs/11", 200); !strings.Contains(text, "&lt;script&gt;document.title=") || !strings.Contains(text, "srun ./a.out") {
		t.Errorf("the job's page does not show its script: %s", text)
	}
}

// TestClusterColumn checks that the table of jobs names the cluster if it shows jobs of several clusters, unless the
// request names the columns. The note of utilization names the clusters of unknown size.
func TestClusterColumn(t *testing.T) {
	s := serve(t, 0, `{"jobid":1,"cluster":"vale","state":"COMPLETED","@start":"2024-03-01T00:00:00","@end":"2024-03-01T01:00:00"}`,
		`{"jobid":2,"cluster":"dale","state":"COMPLETED","@start":"2024-03-01T00:00:00","@end":"2024-03-01T01:00:00"}`)
	if err := s.store.SetCluster(store.Cluster{Name: "vale", Kind: "site", CPUs: document.KnownInt(8)}); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]bool{"": true, "&f=cluster%3Dvale": false, "&columns=jobid": false, "&columns=cluster": true} {
		head, _, _ := strings.Cut(s.get("api/v1/panels/table?format=csv&last=all"+query, http.StatusOK), "\n")
		if got := strings.Contains(head, "cluster"); got != want {
			t.Errorf("%q: columns %s", query, head)
		}
	}
	const note = "The number of processors of dale is not known"
	if text := s.get("api/v1/panels/utilization?format=html&last=all", http.StatusOK); !strings.Contains(strings.ReplaceAll(text, "\u00a0", " "), note) {
		t.Errorf("no %q in %.2000s", note, text)
	}
}
