package search

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/accounting/search/query"
	"rmreplay/internal/accounting/store/storetest"
)

// checker checks the texts of statements: they have a question mark for each argument, and no word that
// the source of this program does not have. So nothing that a client sends can be in them.
type checker struct{ words map[string]bool }

var word = regexp.MustCompile(`[A-Za-z_]+`)

func newChecker(f *testing.F) *checker {
	c := &checker{map[string]bool{}}
	for _, pattern := range []string{"*.go", "query/*.go", "../store/columns.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatal(pattern, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			for _, w := range word.FindAllString(string(text), -1) {
				c.words[w] = true
			}
		}
	}
	return c
}

func (c *checker) check(t *testing.T, s query.SQL) {
	t.Helper()
	storetest.CheckStatement(t, c.words, s.Text, len(s.Args))
}

// request checks all statements of a request.
func (c *checker) request(t *testing.T, r *request) {
	c.check(t, r.tables())
	c.check(t, r.behind)
	for _, k := range r.sorts {
		c.check(t, k.expr)
	}
	for _, f := range r.fields {
		c.check(t, f.field.Expr)
	}
	if r.aggregations != nil {
		c.level(t, &evaluation{from: r.tables()}, node{self: r.aggregations})
	}
}

// level checks the statement of an aggregation, as if the one above it had a bucket, and those below.
func (c *checker) level(t *testing.T, e *evaluation, n node) {
	var keys []any
	for _, b := range n.path {
		keys = append(keys, map[string]any{"VARCHAR": "x", "BIGINT": int64(1), "DOUBLE": 1.0}[b.keyType])
	}
	path := n.path
	if n.self.buckets != nil {
		path = append(path[:len(path):len(path)], n.self.buckets)
	}
	statement, _ := e.statement(n, path, map[string]*bucket{"": newBucket(keys, 1)})
	c.check(t, statement)
	for _, child := range n.self.children {
		if child.buckets != nil {
			c.level(t, e, node{path, child})
		}
	}
}

var instant = time.Date(2024, 4, 1, 0, 0, 0, 0, time.UTC)

// FuzzStatements checks that a search's body is an error, or becomes statements without anything of it in
// their texts. FuzzSearch runs such statements.
func FuzzStatements(f *testing.F) {
	for _, body := range []string{
		`{"query":{"bool":{"must":[{"term":{"state":"COMPLETED"}}],"should":{"range":{"@end":{"gte":"now-7d/d","time_zone":"Europe/Berlin"}}},"minimum_should_match":"50%"}}}`,
		`{"size":3,"sort":[{"@end":{"order":"desc","missing":"_first"}},"jobid"],"search_after":[1709280213000,7],"_source":{"includes":["job*"]},"fields":["*",{"field":"@end","format":"yyyy"}]}`,
		`{"size":0,"aggs":{"a":{"terms":{"field":"username","order":{"s.avg":"desc"},"missing":"x","exclude":["y'"]},"aggs":{"s":{"stats":{"field":"elapsed"}},"w":{"weighted_avg":{"value":{"field":"@end","missing":0},"weight":{"field":"total_cpus"}}}}}}}`,
		`{"aggs":{"a":{"histogram":{"field":"cpu_hours","interval":1e-300}},"c":{"filters":{"filters":[{"ids":{"values":["vale:1:2"]}},{"terms":{"x/~.y":["1"]}}]},"aggs":{"d":{"range":{"field":"elapsed","ranges":[{"from":-1e308,"to":1e308}]}}}}}}`,
		`{"query":{"wildcard":{"job_name":"*'; DROP TABLE jobs; --?\\"}}}`, `{"query":{"term":{"a'); DELETE FROM jobs; --":"?"}}}`, `{"aggs":{"a":{"date_histogram":{"field":"@end","calendar_interval":"year","format":"yyyy||MM","time_zone":"America/St_Johns"}}}}`,
	} {
		f.Add(body)
	}
	c := newChecker(f)
	f.Fuzz(func(t *testing.T, body string) {
		m, err := decode([]byte(body))
		if err != nil {
			return
		}
		if r, err := newRequest(m, instant); err == nil {
			c.request(t, r)
		}
	})
}

// FuzzQueryStatements is FuzzStatements for query strings.
func FuzzQueryStatements(f *testing.F) {
	for _, q := range []string{
		"", "*:*", "state:COMPLETED AND (jobid:[1 TO 5} OR NOT username:user00?)", `job_name:"a \" b"~2^3`, "@end:>=now-1d/d", "_exists_:x -y +z", `a\`, "((((", "x:[* TO", "'; DROP TABLE jobs; --", "a.b/c~d:1", "\xff:\x00", "jobid:1e5 && !q || (r)",
	} {
		f.Add(q)
	}
	c := newChecker(f)
	f.Fuzz(func(t *testing.T, q string) {
		text, err := json.Marshal(map[string]any{"query": map[string]any{"query_string": map[string]any{"query": q}}})
		if err != nil {
			t.Fatal(err)
		}
		m, err := decode(text)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := newRequest(m, instant); err == nil {
			c.request(t, r)
		}
	})
}
