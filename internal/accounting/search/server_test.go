package search_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/search"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
)

// synthetic returns a fixture with synthetic jobs.
func synthetic(t *testing.T, n int64) *fixture {
	t.Helper()
	s, err := store.Open(context.Background(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := storetest.Fill(context.Background(), s, 1, n); err != nil {
		t.Fatal(err)
	}
	return newFixture(t, s, nil, n+1)
}

func (f *fixture) raw(method, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	f.mux.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w
}

// TestErrors checks that wrong or unsupported requests get an error that names the cause.
func TestErrors(t *testing.T) {
	f := synthetic(t, 20)
	nested := strings.Repeat(`{"bool":{"must":`, 40) + `{"match_all":{}}` + strings.Repeat("}}", 40)
	var members, percents, different strings.Builder
	for i := range 300 {
		fmt.Fprintf(&members, `{"term":{"f%d":"x"}},`, i)
		if i < 40 {
			fmt.Fprintf(&percents, `"a%d":{"percentiles":{"field":"elapsed","percents":[50]}},`, i)
			fmt.Fprintf(&different, `"a%d":{"cardinality":{"field":"elapsed"}},`, i)
		}
	}
	many := "[" + strings.TrimSuffix(strings.Repeat(`{"match_all":{}},`, 1100), ",") + "]"
	for _, c := range []struct {
		body   string
		status int
		want   string
	}{
		{`{"query":{"fuzzy":{"state":"x"}}}`, 400, "[fuzzy]"},
		{`{"query":{"term":{"state":"x"},"match_all":{}}}`, 400, "one member"},
		{`{"query":{"match":{"state":{"query":"x","fuzziness":2}}}}`, 400, "fuzziness"},
		{`{"query":{"term":{"jobid":"abc"}}}`, 400, "abc"},
		{`{"query":{"range":{"@end":{"gte":"tomorrow"}}}}`, 400, "tomorrow"},
		{`{"query":{"range":{"@end":{"gte":"now+1x"}}}}`, 400, "now+1x"},
		{`{"query":{"range":{"@end":{"gte":"2024","time_zone":"Mars"}}}}`, 400, "[time_zone]"},
		{`{"aggs":{"x":{"date_histogram":{"field":"@end","calendar_interval":"1d","time_zone":"Mars"}}}}`, 400, "Mars"},
		{`{"query":{"range":{"@end":{"gte":"2024","format":"QQQ"}}}}`, 400, "QQQ"},
		{`{"query":{"prefix":{"jobid":"1"}}}`, 400, "jobid"},
		{`{"query":{"query_string":{"query":"a AND ("}}}`, 400, "a AND ("},
		{`{"query":{"query_string":{"query":"state:/x/"}}}`, 400, "regular expression"},
		{`{"query":` + nested + `}`, 400, "nested depth"},
		{`{"query":{"bool":{"should":` + many + `}}}`, 400, "too many clauses"},
		{`{"from":9999,"size":2}`, 400, "Result window is too large"},
		{`{"size":-1}`, 400, "size"},
		{`{"knn":{}}`, 400, "[knn]"},
		{`{"explain":true}`, 400, "[explain]"},
		{`{"sort":["jobid"],"search_after":[1,2]}`, 400, "search_after"},
		{`{"sort":[{"jobid":"up"}]}`, 400, "up"},
		{`{"sort":[{"jobid":{"mode":"min"}}]}`, 400, "[mode]"},
		{`{"sort":[{"jobid":{"numeric_type":"double"}}]}`, 400, "[numeric_type]"},
		{`{"sort":[{"jobid":{"format":"000"}}]}`, 400, "[format]"},
		{`{"script_fields":{"x":{"script":"1"}}}`, 400, "[script_fields]"},
		{`{"docvalue_fields":[{"field":"jobid","format":"000"}]}`, 400, "format"},
		{`{"query":{"term":{"state":{"value":"x","_name":"a"}}}}`, 400, "[_name]"},
		{`{"query":{"bool":{"must_not":{"match_all":{}},"adjust_pure_negative":false}}}`, 400, "[adjust_pure_negative]"},
		{`{"query":{"query_string":{"query":"a","escape":true}}}`, 400, "[escape]"},
		{`{"query":{"query_string":{"query":"*a","allow_leading_wildcard":false}}}`, 400, "[allow_leading_wildcard]"},
		{`{"query":{"wildcard":{"job_name":"*???????????"}}}`, 400, "11 question marks"},
		{`{"query":{"wildcard":{"job_name":"` + strings.Repeat("*", 1001) + `"}}}`, 400, "1001 bytes"},
		{`{"query":{"bool":{"should":[` + strings.Repeat(`{"wildcard":{"state":"a*b"}},`, 128) + `{"wildcard":{"state":"?"}}]}}}`, 400, "more than 128 wildcards"},
		{`{"query":{"bool":{"should":[` + members.String() + `{"match_all":{}}]}}}`, 400, "more than 256 fields"},
		{`{"aggs":{` + percents.String() + `"z":{"avg":{"field":"jobid"}}}}`, 400, "more than 8 aggregations of the type percentiles"},
		{`{"aggs":{"a":{"percentiles":{"field":"elapsed","percents":[` + strings.Repeat("50,", 64) + `50]}}}}`, 400, "at most 64 in all"},
		{`{"aggs":{` + different.String() + `"z":{"avg":{"field":"jobid"}}}}`, 400, "more than 32 aggregations of the type cardinality"},
		{`{"aggs":{"x":{"terms":{"field":"state","shard_min_doc_count":3}}}}`, 400, "[shard_min_doc_count]"},
		{`{"aggs":{"x":{"terms":{"field":"state","show_term_doc_count_error":true}}}}`, 400, "[show_term_doc_count_error]"},
		{`{"aggs":{"x":{"geohash_grid":{}}}}`, 400, "[geohash_grid]"},
		{`{"aggs":{"x":{"terms":{"field":"state"},"avg":{"field":"jobid"}}}}`, 400, "two aggregation"},
		{`{"aggs":{"x":{"avg":{"field":"state"}}}}`, 400, "state"},
		{`{"aggs":{"x":{"avg":{"field":"jobid"},"aggs":{"y":{"avg":{"field":"jobid"}}}}}}`, 400, "sub-aggregations"},
		{`{"aggs":{"x":{"terms":{"field":"state","order":{"y":"asc"}}}}}`, 400, "[y]"},
		{`{"aggs":{"x":{"date_histogram":{"field":"@end","calendar_interval":"2d"}}}}`, 400, "2d"},
		{`{"aggs":{"x":{"date_histogram":{"field":"@end","fixed_interval":"1ms"}}}}`, 400, "too many buckets"},
		{`{"aggs":{"x":{"histogram":{"field":"elapsed","interval":0}}}}`, 400, "interval"},
		{`{"aggs":{"x":{"terms":{"script":"1"}}}}`, 400, "script"},
		{`{"query":`, 400, "JSON"}, {`[]`, 400, "START_ARRAY"}, {`{} {}`, 400, "more text after its JSON object"},
	} {
		w := f.raw("POST", "/_search", c.body)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) || !strings.Contains(w.Body.String(), `"root_cause"`) {
			t.Errorf("%.200s: %d %s (want %d, %q)", c.body, w.Code, w.Body, c.status, c.want)
		}
	}
	ids, _ := f.ids(t, m{"query": m{"term": m{"jobid": 1}}})
	id := ids[0]
	for _, c := range []struct {
		method, path string
		status       int
		want         string
	}{
		{"GET", "/_search?sice=1", 400, "[sice]"}, {"GET", "/absent/_search", 404, "index_not_found_exception"}, {"GET", "/slurm/_nothing/x/y", 400, "no handler"},
		{"DELETE", "/slurm", 400, "no handler"}, {"GET", "/slurm/_doc/vale:1:2", 404, `"found":false`}, {"GET", "/slurm/_source/x", 400, "no handler"},
		{"GET", "/_count?index=absent", 404, "index_not_found_exception"}, {"GET", "/_count?index=slu*", 200, `"count":20`},
		{"GET", "/absent/_search?ignore_unavailable=true", 200, `"value":0`}, {"GET", "/abs*/_search", 200, `"value":0`}, {"GET", "/x*,slurm/_search?size=0", 200, `"value":20`},
		{"GET", "/slu*,-x/_search?size=0", 400, "[-x]"}, {"GET", "/_search?q=jobid:3&_source=jobid", 200, `"_source":{"jobid":3}`},
		{"GET", "/_search?size=1&sort=jobid:desc", 200, `"sort":[20]`}, {"GET", "/_search?size=1&sort=jobid:DESC", 200, `"sort":[20]`},
		{"GET", "/_search?sort=jobid:sideways", 400, "[sideways]"}, {"GET", "/_search?size=1&sort=a:b:asc", 200, `"value":20`},
		{"GET", "/_search?size=0&track_total_hits=7", 200, `"gte"`},
		{"GET", "/_count?terminate_after=1", 400, "[terminate_after]"}, {"GET", "/_count?min_score=5", 400, "[min_score]"},
		{"GET", "/slurm/_doc/" + id + "?version=2", 400, "[version]"}, {"GET", "/slurm/_doc/" + id + "?stored_fields=state", 400, "[stored_fields]"},
		{"GET", "/slurm/_doc/" + id + "?_source_includes=jobid,state&_source_excludes=state", 200, `{"jobid":1}`},
		{"GET", "/slurm/_doc/" + id + "?_source=jobid&refresh", 200, `"_source":{"jobid":1}`},
		{"GET", "/absent/_field_caps?fields=jobid&ignore_unavailable", 200, `"indices":[]`}, {"GET", "/_search?expand_wildcards=open", 400, "[expand_wildcards]"},
		{"GET", "/_field_caps?fields=*&types=long", 400, "[types]"}, {"GET", "/slurm", 400, "no handler"}, {"GET", "/_search?format=yaml", 400, "[format]"},
		{"GET", "/_cat/indices", 400, "no handler"}, {"GET", "/_search?filter_path=hits", 400, "[filter_path]"}, {"GET", "/_search?timeout=1s", 400, "[timeout]"},
		{"GET", "/_search?size=0&track_total_hits=-1", 200, `"hits":{"hits":[],"max_score":null}`},
		{"GET", "/_search?size=0&track_total_hits=false", 200, `"hits":{"hits":[],"max_score":null}`}, {"HEAD", "/", 200, ""},
	} {
		w := f.raw(c.method, c.path, "")
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) || w.Header().Get("X-Elastic-Product") != "Elasticsearch" {
			t.Errorf("%s %s: %d %s (want %d, %q)", c.method, c.path, w.Code, w.Body, c.status, c.want)
		}
	}
}

// TestScores checks that hits of a sorted search lack scores, and that odd members of a sort are
// handled.
func TestScores(t *testing.T) {
	f := synthetic(t, 3)
	for body, want := range map[string]string{
		`{"size":1,"sort":["jobid"],"_source":false}`:    `"_score":null,"sort":[1]}],"max_score":null`,
		`{"size":1,"_source":false}`:                     `"_score":1}],"max_score":1`,
		`{"size":1,"_source":false,"sort":["@nothing"]}`: `"_score":null`,
		`{"size":1,"sort":{"state":"asc","jobid":{"order":"desc"},"cluster":"asc","_doc":"asc"},"_source":false}`: `"sort":["COMPLETED",3,"vale",`,
	} {
		if w := f.raw("POST", "/_search", body); w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s, want %s", body, w.Code, w.Body, want)
		}
	}
	w := f.raw("POST", "/_msearch", "{\"index\":\"absent\"}\n{}\n{\"expand_wildcards\":[\"none\"]}\n{}\n{\"index\":[\"absent\",\"slurm\"],\"ignore_unavailable\":true}\n{\"size\":0}\n")
	for _, want := range []string{"no such index [absent]", "[expand_wildcards]", `"value":3`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: want %s", w.Body, want)
		}
	}
}

// TestManyHits finds more hits than a search counts by default.
func TestManyHits(t *testing.T) {
	f := synthetic(t, 10_001)
	for parameters, want := range map[string]string{
		"":                       `"total":{"relation":"gte","value":10000}`,
		"&track_total_hits=true": `"total":{"relation":"eq","value":10001}`,
	} {
		if w := f.raw("GET", "/_search?size=0"+parameters, ""); w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s, want %s", parameters, w.Code, w.Body, want)
		}
	}
}

// TestDocumentBytes requests more documents than an answer may have, in one search and in the
// searches of an _msearch.
func TestDocumentBytes(t *testing.T) {
	f := synthetic(t, 20)
	var search struct {
		Hits struct {
			Hits []struct {
				Source json.RawMessage `json:"_source"`
			}
		}
	}
	if err := json.Unmarshal(f.raw("GET", "/_search?size=5", "").Body.Bytes(), &search); err != nil {
		t.Fatal(err)
	}
	five := 0
	for _, h := range search.Hits.Hits {
		five += len(h.Source)
	}
	f.server.SetHitBytes(2*five + 100)
	const want = "of all hits of the request together have more than"
	for size, status := range map[int]int{5: 200, 20: 400} {
		if w := f.raw("GET", fmt.Sprintf("/_search?size=%d", size), ""); w.Code != status || (status == 400) != strings.Contains(w.Body.String(), want) {
			t.Errorf("%d documents: %d %s, want %d", size, w.Code, w.Body, status)
		}
	}
	same := "{}\n{\"size\":5,\"query\":{\"range\":{\"jobid\":{\"lte\":5}}}}\n"
	var several struct {
		Responses []struct {
			Status int
			Error  struct{ Reason string }
		}
	}
	w := f.raw("POST", "/_msearch", strings.Repeat(same, 3)+"{}\n{\"_source\":false}\n"+same)
	if err := json.Unmarshal(w.Body.Bytes(), &several); err != nil || w.Code != 200 {
		t.Fatal(w.Code, err)
	}
	for i, status := range []int{200, 200, 400, 200, 400} {
		if got := several.Responses[i]; got.Status != status || status == 400 && !strings.Contains(got.Error.Reason, want) {
			t.Errorf("search %d: %+v, want %d", i, got, status)
		}
	}
	if w := f.raw("POST", "/_msearch", same); !strings.Contains(w.Body.String(), `"status":200`) {
		t.Errorf("the next request: %s", w.Body)
	}
}

// TestBodies sends bodies that are too large, either as sent or after decompression.
func TestBodies(t *testing.T) {
	f := synthetic(t, 5)
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	for range 100 {
		if _, err := z.Write(bytes.Repeat([]byte(" "), 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if w := f.raw("POST", "/_search", strings.Repeat(" ", 2<<20)); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w, r := httptest.NewRecorder(), httptest.NewRequest("POST", "/_search", &bomb)
	r.Header.Set("Content-Encoding", "gzip")
	if f.mux.ServeHTTP(w, r); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestOddDocuments finds documents that are not UTF-8 or not JSON, and requests members of such
// documents.
func TestOddDocuments(t *testing.T) {
	s, err := store.Open(context.Background(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var entries []store.Entry
	for i, text := range []string{
		"{\"jobid\":1,\"@submit\":\"2024-03-01T00:00:00\",\"username\":\"J\xfcrgen\",\"color\":\"red\"}", `no "color"`, `{"jobid":3,"@submit":"2024-03-01T00:00:00","color":"\ud800"}`,
		`{"jobid":4,"@submit":"2024-03-01T00:00:00","color":"red","color":"blue"}`, `{"jobid":5,"@submit":"2024-03-01T00:00:00","color":["red"]}`, `{"jobid":6,"@submit":"2024-03-01T00:00:00","color":"red"}`,
	} {
		entries = append(entries, store.Entry{Seq: int64(i + 1), Arrived: now, Source: store.Received, Index: "slurm", Document: []byte(text), Job: document.Parse([]byte(text), "c")})
	}
	if _, err := s.Apply(context.Background(), entries); err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, s, nil, 7)
	ids, _ := f.ids(t, m{"query": m{"query_string": m{"query": "color:red AND jobid:[5 TO *]"}}})
	if len(ids) != 1 || !strings.HasPrefix(ids[0], "c:6:") {
		t.Errorf("%v", ids)
	}
	if ids, _ := f.ids(t, m{"query": m{"match_all": m{}}, "aggs": m{"c": m{"terms": m{"field": "color"}}}}); len(ids) != 6 {
		t.Errorf("%v", ids)
	}
	for want, query := range map[string]string{`"username":"Jürgen"`: "username:Jürgen", `"unparsed":"no \"color\""`: "marks:*not_json*"} {
		w := f.raw("POST", "/slurm/_search", `{"query":{"query_string":{"query":"`+query+`"}}}`)
		if w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %s", query, w.Body)
		}
	}
}

// TestLucene checks the meaning of Lucene's operators without parentheses.
func TestLucene(t *testing.T) {
	f := synthetic(t, 9)
	for query, want := range map[string]string{
		"jobid:1 jobid:2":                   "1 2",
		"jobid:1 OR jobid:2 AND jobid:2":    "2", // AND requires the clauses on both sides
		"+jobid:[1 TO 3] -jobid:2":          "1 3",
		"jobid:[1 TO 3] NOT jobid:2":        "1 3",
		"NOT jobid:[2 TO 9]":                "1",
		"jobid:{1 TO 3]":                    "2 3",
		"jobid:>=8":                         "8 9",
		"jobid:(1 OR 5)":                    "1 5",
		"-jobid:(1 2 3 4) AND jobid:<6":     "5",
		`cluster:vale AND jobid:(3 4)^2`:    "3 4",
		"@submit:2024-03-01T00:00:03":       "1",
		`@submit:"2024-03-01T00:00:03"`:     "1",
		"*:* AND NOT jobid:[1 TO 8]":        "9",
		"user\\*:x OR jobid:7":              "7",
		"vale AND jobid:2":                  "2", // vale matches in any field
		"jobid:1 && cluster:va?e || jobid:": "error",
	} {
		w, answer := f.ask(t, "POST", "/_search", m{"query": m{"query_string": m{"query": query}}, "sort": []any{"jobid"}})
		var got []string
		if hits, ok := answer["hits"].(map[string]any); ok {
			for _, h := range hits["hits"].([]any) {
				got = append(got, fmt.Sprint(h.(map[string]any)["_source"].(map[string]any)["jobid"]))
			}
		} else {
			got = []string{"error"}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %d %v (want %s) %v", query, w, got, want, answer["error"])
		}
	}
}

// TestSpeed measures a dashboard's requests with RMREPLAY_BENCH_JOBS jobs. Without this variable,
// the test only checks that the requests succeed.
func TestSpeed(t *testing.T) {
	jobs := int64(2000)
	if text := os.Getenv("RMREPLAY_BENCH_JOBS"); text != "" {
		if _, err := fmt.Sscan(text, &jobs); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	if err := storetest.Generate(context.Background(), dir, jobs); err != nil {
		t.Fatal(err)
	}
	opened := time.Now()
	s, err := store.Open(context.Background(), dir, store.Options{ReadTime: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	t.Logf("%d jobs: open after %v", jobs, time.Since(opened))
	mux := http.NewServeMux()
	search.Register(mux, s, search.Options{})
	last := storetest.Begin.Add(time.Duration(jobs) * (24 * time.Hour / storetest.PerDay))
	recent := fmt.Sprintf(`{"range":{"@end":{"gte":"%s"}}}`, last.AddDate(0, 0, -7).Format(time.RFC3339))
	for _, c := range []struct{ name, body string }{
		{"newest 50 jobs", `{"size":50,"sort":[{"@end":"desc"}]}`},
		{"newest 50 failed jobs of a user", `{"size":50,"sort":[{"@end":"desc"}],"query":{"bool":{"filter":[{"term":{"username":"user007"}},{"term":{"state":"FAILED"}}]}}}`},
		{"CPU hours by partition and QOS", `{"size":0,"aggs":{"p":{"terms":{"field":"partition"},"aggs":{"h":{"sum":{"field":"cpu_hours"}},"q":{"terms":{"field":"qos"},"aggs":{"h":{"sum":{"field":"cpu_hours"}}}}}}}}`},
		{"jobs by day, Berlin", `{"size":0,"aggs":{"d":{"date_histogram":{"field":"@end","calendar_interval":"day","time_zone":"Europe/Berlin"}}}}`},
		{"top 10 users by elapsed", `{"size":0,"aggs":{"u":{"terms":{"field":"username","order":{"e":"desc"}},"aggs":{"e":{"sum":{"field":"elapsed"}}}}}}`},
		{"states by day", `{"size":0,"aggs":{"d":{"date_histogram":{"field":"@end","calendar_interval":"day"},"aggs":{"s":{"terms":{"field":"state"}}}}}}`},
		{"percentiles of waits", `{"size":0,"aggs":{"w":{"percentiles":{"field":"@queue_wait"}}}}`},
		{"users by hour in 7 days", `{"size":0,"query":` + recent + `,"aggs":{"h":{"date_histogram":{"field":"@end","calendar_interval":"hour"},"aggs":{"u":{"cardinality":{"field":"username"}}}}}}`},
		{"query string", `{"size":0,"query":{"query_string":{"query":"state:FAILED AND partition:(gpu OR fat) AND elapsed:>3600"}},"aggs":{"u":{"terms":{"field":"username"}}}}`},
	} {
		var took []time.Duration
		rounds := 1
		if jobs > 100_000 {
			rounds = 20
		}
		for range rounds {
			w := httptest.NewRecorder()
			begun := time.Now()
			mux.ServeHTTP(w, httptest.NewRequest("POST", "/slurm/_search", strings.NewReader(c.body)))
			took = append(took, time.Since(begun))
			if w.Code != 200 {
				t.Errorf("%s: %s", c.name, w.Body)
			}
		}
		slices.Sort(took)
		t.Logf("%-35s median %v, 95th percentile %v", c.name, took[len(took)/2].Round(100*time.Microsecond), took[(len(took)*95-1)/100].Round(100*time.Microsecond))
	}
}
