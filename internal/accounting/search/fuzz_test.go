package search_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/accounting/search"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
)

// fuzzServer returns a function that sends a request to a server with 50 jobs. It checks that the
// response is an answer, or an error that blames the request, and that all jobs are still there.
func fuzzServer(f *testing.F) func(t *testing.T, method, path, body string) {
	s, err := store.Open(context.Background(), f.TempDir(), store.Options{ReadTime: 5 * time.Second, Memory: 128})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := s.Close(); err != nil {
			f.Error(err)
		}
	})
	if err := storetest.Fill(context.Background(), s, 1, 50); err != nil {
		f.Fatal(err)
	}
	mux := http.NewServeMux()
	search.Register(mux, s, search.Options{Now: func() time.Time { return now }})
	send := func(method, path, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(method, "/", strings.NewReader(body))
		u, err := url.ParseRequestURI(path)
		if err != nil {
			return nil
		}
		r.URL = u
		mux.ServeHTTP(w, r)
		return w
	}
	n := 0
	return func(t *testing.T, method, path, body string) {
		w := send(method, path, body)
		if w == nil || w.Code >= 300 && w.Code < 400 { // the multiplexer redirects to a cleaned path
			return
		}
		if w.Code >= 500 && w.Code != http.StatusServiceUnavailable || w.Code == http.StatusOK && !json.Valid(w.Body.Bytes()) && !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
			t.Errorf("%s %s %s: %d %s", method, path, body, w.Code, w.Body)
		}
		if n++; n%64 != 1 {
			return
		}
		if w := send("GET", "/_count", ""); !strings.Contains(w.Body.String(), `"count":50`) {
			t.Fatalf("after %s %s %s: %s", method, path, body, w.Body)
		}
	}
}

func FuzzSearch(f *testing.F) {
	check := fuzzServer(f)
	for _, body := range []string{
		`{}`, `null`, `[]`, `{"query":{"match_all":{}}}`, `{"query":{"bool":{"must":[{"term":{"state":"COMPLETED"}}],"should":{"range":{"@end":{"gte":"now-7d/d","time_zone":"Europe/Berlin"}}},"minimum_should_match":"50%"}}}`,
		`{"size":3,"sort":[{"@end":{"order":"desc","missing":"_first"}},"jobid"],"search_after":[1709280213000,7],"_source":{"includes":["job*"],"excludes":["jobid"]},"fields":["*",{"field":"@end","format":"yyyy"}]}`,
		`{"size":0,"aggs":{"a":{"terms":{"field":"username","order":{"s.avg":"desc"}},"aggs":{"s":{"stats":{"field":"elapsed"}},"h":{"date_histogram":{"field":"@end","fixed_interval":"90m","time_zone":"America/St_Johns","offset":"+6h","extended_bounds":{"min":"2024-02-01","max":"now"}}}}}}}`,
		`{"aggs":{"a":{"histogram":{"field":"cpu_hours","interval":1e-300}},"b":{"percentiles":{"field":"elapsed","percents":[1e-9,99.99]}},"c":{"filters":{"filters":[{"ids":{"values":["vale:1:2"]}},{"terms":{"x/~.y":["1"]}}]},"aggs":{"d":{"range":{"field":"elapsed","ranges":[{"from":-1e308,"to":1e308}]}}}}}}`,
		`{"query":{"wildcard":{"job_name":"*'; DROP TABLE jobs; --?\\"}}}`, `{"query":{"query_string":{"query":"state:(A OR B) AND NOT jobid:[1 TO *} x*","fields":["user*^2","@end"]}}}`,
		`{"query":{"range":{"x":{"gt":1e400}}}}`, `{"query":{"term":{"elapsed":9223372036854775808}}}`, `{"aggs":{"a":{"sum":{"field":"array_job_id","missing":1e308}},"b":{"date_histogram":{"field":"@end","calendar_interval":"year","format":"yyyy||MM"}}}}`,
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) { check(t, "POST", "/slurm/_search?typed_keys", body) })
}

func FuzzQueryString(f *testing.F) {
	check := fuzzServer(f)
	for _, q := range []string{
		"", "*:*", "state:COMPLETED AND (jobid:[1 TO 5} OR NOT username:user00?)", `job_name:"a \" b"~2^3`, "@end:>=now-1d/d", "_exists_:x -y +z", `a\`, "((((", "x:[* TO", "/re/", "a~", "'; DROP TABLE jobs; --", "a.b/c~d:1", "\xff:\x00", "jobid:1e5 && !q || (r)",
	} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, q string) { check(t, "GET", "/_search?size=1&q="+url.QueryEscape(q), "") })
}

func FuzzParameters(f *testing.F) {
	check := fuzzServer(f)
	for _, path := range []string{
		"/_search?sort=jobid:desc,@end&from=3&size=2&_source_includes=a*,b", "/slurm,-x*/_count?q=a:b&df=state", "/_mapping", "/s*/_field_caps?fields=*", "/slurm/_doc/vale:1:17?_source=false",
		"/_cat/indices?v&h=index", "/slurm/_source/a:b:c", "/?pretty", "/_search?filter_path=hits.**._id,-took&track_total_hits=1", "/_search?filter_path=" + strings.Repeat("**.", 200) + "x", "/_search?filter_path=" + strings.Repeat("**.", 30) + "x,-**.**",
		"/%ff/_search", "/a'b/_search?ignore_unavailable",
	} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) { check(t, "GET", path, "") })
}
