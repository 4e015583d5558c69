package search

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
)

func TestSmoke(t *testing.T) {
	ctx := context.Background()
	s, err := store.Open(ctx, "", store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := storetest.Fill(ctx, s, 1, 3000); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	Register(mux, s, Options{})
	for _, c := range []string{
		`{"size":1}`,
		`{"size":2,"_source":["jobid","user*"],"sort":[{"@end":"desc"},"jobid"],"query":{"bool":{"must":[{"term":{"state":"COMPLETED"}}],"must_not":[{"match":{"partition.keyword":"gpu"}}]}},"fields":["@start","std_err","derived_ec"]}`,
		`{"size":0,"query":{"query_string":{"query":"state:COMP* AND jobid:[10 TO 200} AND @end:>2024-01-01"}},"aggs":{"u":{"terms":{"field":"username","size":2},"aggs":{"d":{"date_histogram":{"field":"@end","calendar_interval":"day","time_zone":"Europe/Berlin"},"aggs":{"c":{"sum":{"field":"cpu_hours"}},"p":{"percentiles":{"field":"elapsed"}}}}}}}}`,
		`{"size":0,"aggs":{"f":{"filters":{"filters":{"a":{"term":{"partition":"gpu"}},"b":{"range":{"elapsed":{"gt":100}}}}},"aggs":{"s":{"extended_stats":{"field":"elapsed"}},"t":{"terms":{"field":"qos"}},"r":{"range":{"field":"elapsed","ranges":[{"to":100},{"from":50}]},"aggs":{"x":{"cardinality":{"field":"username"}}}}}},"h":{"histogram":{"field":"elapsed","interval":5000}},"m":{"max":{"field":"@end"}},"mo":{"date_histogram":{"field":"@start","calendar_interval":"month"}}}}`,
		`{"size":1,"query":{"prefix":{"std_err":"/home"}},"sort":[{"std_err":"desc"}],"search_after":["/home/user1"]}`,
		`{"size":0,"query":{"range":{"weird.thing":{"gte":5}}},"aggs":{"w":{"terms":{"field":"other","missing":"none"}}}}`,
	} {
		r := httptest.NewRequest("POST", "/slurm/_search?typed_keys", strings.NewReader(c))
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		b, _ := io.ReadAll(w.Body)
		t.Log(c, "\n", w.Code, string(b[:min(len(b), 2500)]))
	}
}
