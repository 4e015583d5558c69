package search_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/search"
	"rmreplay/internal/accounting/store"
)

// The tests in this file send random requests and compare the answers with a slow and obvious
// evaluation over the same documents. The evaluation shares no code with the package.

var now = time.Date(2024, 4, 3, 10, 20, 30, 0, time.UTC)

// job is a document for the evaluation.
type job map[string]any

const (
	stamp        = "2006-01-02T15:04:05"
	arrivalStamp = stamp + ".000000"
)

// randomJobs draws documents in which fields are absent, texts have unusual characters, and some
// members lack a column. Their times are around a change of clocks in Berlin.
func randomJobs(t *rapid.T) (jobs []job) {
	pick := func(label string, from ...string) string { return rapid.SampledFrom(from).Draw(t, label) }
	n := rapid.IntRange(1, 60).Draw(t, "jobs")
	for i := range n {
		j := job{"jobid": float64(i + 1), "cluster": "c", "nodes": "n" + strconv.Itoa(i%3)}
		// Several jobs arrive within a millisecond, and not in the order of their numbers.
		j["arrived"] = now.Add(time.Duration(rapid.IntRange(0, 4000).Draw(t, "arrived")) * time.Microsecond).Format(arrivalStamp)
		begin := time.Date(2024, 3, 29, 0, 0, 0, 0, time.UTC)
		start := begin.Add(time.Duration(rapid.IntRange(0, 4*86400).Draw(t, "start")) * time.Second)
		elapsed := rapid.SampledFrom([]int{0, 1, 59, 60, 100, 3600, 5000, 86400}).Draw(t, "elapsed")
		j["@submit"] = start.Add(-time.Minute).Format(stamp)
		j["@start"] = start.Format(stamp)
		j["@end"] = start.Add(time.Duration(elapsed) * time.Second).Format(stamp)
		j["elapsed"] = float64(elapsed)
		cpus := rapid.SampledFrom([]int{1, 2, 64, 4096}).Draw(t, "cpus")
		j["total_cpus"] = float64(cpus)
		j["total_nodes"] = float64(1)
		j["cpu_hours"] = float64(elapsed) * float64(cpus) / 3600
		j["state"] = pick("state", "COMPLETED", "COMPLETED", "FAILED", "TIMEOUT")
		j["exit_code"] = pick("exit", "0:0", "1:0", "0:15")
		for _, member := range [][]string{
			{"username", "", "ann", "bob", "Bob", "zoë"},
			{"partition", "", "batch", "gpu", "gpu,batch"},
			{"job_name", "", "a", "a b", "x*y", "100%", "un_der", `back\slash`, `q"uote`, "'; DROP TABLE jobs; --", "AND", "(par)", "/path/x", "α:β"},
			{"color", "", "red", "blue", "dark red"},
			{"odd~na/me", "", "1", "2"},
		} {
			if v := pick(member[0], member[1:]...); v != "" {
				j[member[0]] = v
			}
		}
		if rapid.Bool().Draw(t, "limited") {
			j["time_limit"] = float64(rapid.SampledFrom([]int{60, 3600, 86400}).Draw(t, "limit"))
		}
		if rapid.Bool().Draw(t, "meta") {
			j["meta"] = map[string]any{"rack": pick("rack", "r1", "r2")}
		}
		if rapid.Bool().Draw(t, "weighed") {
			j["weight"] = rapid.SampledFrom([]float64{-1, 0, 2.5, 10}).Draw(t, "weight")
		}
		jobs = append(jobs, j)
	}
	return jobs
}

// get returns the value of a field, or nil.
func (j job) get(field string) any {
	field = strings.TrimSuffix(field, ".keyword")
	if field == "meta.rack" {
		if m, ok := j["meta"].(map[string]any); ok {
			return m["rack"]
		}
		return nil
	}
	return j[field]
}

// time returns a date of a job.
func (j job) time(field string) time.Time {
	t, err := time.Parse(stamp, j[field].(string))
	if err != nil {
		panic(err)
	}
	return t
}

func (j job) id() string {
	return fmt.Sprintf("c:%d:%d", int(j["jobid"].(float64)), j.time("@start").Unix())
}

// fixture is a server with jobs.
type fixture struct {
	jobs   []job
	mux    *http.ServeMux
	server *search.Server
}

func newFixture(t interface{ Fatal(...any) }, s *store.Store, jobs []job, first int64) *fixture {
	return newIndexed(t, s, jobs, first, "slurm")
}

func newIndexed(t interface{ Fatal(...any) }, s *store.Store, jobs []job, first int64, index string) *fixture {
	var entries []store.Entry
	for i, j := range jobs {
		text, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		seq := first + int64(i)
		entries = append(entries, store.Entry{Seq: seq, Arrived: j.time("arrived"), Source: store.Received, Index: index, Document: text, Job: document.Parse(text, cmp.Or(map[string]string{"slurm": "c"}[index], index))})
	}
	if _, err := s.Apply(context.Background(), entries); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	return &fixture{jobs, mux, search.Register(mux, s, search.Options{Now: func() time.Time { return now }})}
}

// ask sends a request, and returns the status and the decoded body of the response.
func (f *fixture) ask(t interface{ Fatalf(string, ...any) }, method, path string, body any) (int, map[string]any) {
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatalf("%v", err)
	}
	w := httptest.NewRecorder()
	f.mux.ServeHTTP(w, httptest.NewRequest(method, path, bytes.NewReader(text)))
	var answer map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s %s %s: %v: %s", method, path, text, err, w.Body)
	}
	return w.Code, answer
}

// ids returns the _ids of a search's hits, and their sort values.
func (f *fixture) ids(t interface{ Fatalf(string, ...any) }, body map[string]any) (ids []string, sorts []any) {
	status, answer := f.ask(t, "POST", "/slurm/_search", body)
	text, _ := json.Marshal(body)
	if status != 200 {
		t.Fatalf("%s: %v", text, answer)
	}
	for _, h := range answer["hits"].(map[string]any)["hits"].([]any) {
		hit := h.(map[string]any)
		ids = append(ids, hit["_id"].(string))
		if s, ok := hit["sort"].([]any); ok {
			sorts = s
		}
	}
	return ids, sorts
}

// question is a query in three forms: as query DSL, as query string, and as a Go function.
type question struct {
	dsl    any
	lucene string // empty if there is no query string for it
	match  func(j job) bool
}

type m = map[string]any

var (
	textFields = []string{"username", "username.keyword", "partition", "job_name", "state", "exit_code", "color", "color.keyword", "meta.rack", "odd~na/me"}
	numFields  = []string{"jobid", "elapsed", "total_cpus", "cpu_hours", "time_limit", "weight"}
	dateFields = []string{"@start", "@end", "@submit"}
	someTexts  = []string{"ann", "bob", "Bob", "zoë", "batch", "gpu,batch", "a", "a b", "x*y", "100%", "un_der", `back\slash`, `q"uote`, "'; DROP TABLE jobs; --", "AND", "(par)", "/path/x", "α:β", "COMPLETED", "0:15", "dark red", "r1", "2", "nothing"}
)

func escapeLucene(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune(`+-!(){}[]^"~*?:\/ &|<>=`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

func escapeWildcard(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`).Replace(s)
}

func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

func drawQuestion(t *rapid.T, depth int) question {
	kinds := []string{"term", "terms", "number", "range", "dates", "exists", "prefix", "wildcard", "ids", "all", "textrange"}
	if depth > 0 {
		kinds = append(kinds, "bool", "bool", "and", "or", "not")
	}
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "term":
		f, v := rapid.SampledFrom(textFields).Draw(t, "field"), rapid.SampledFrom(someTexts).Draw(t, "value")
		dsl := rapid.SampledFrom([]any{m{"term": m{f: v}}, m{"term": m{f: m{"value": v}}}, m{"match": m{f: v}}, m{"match_phrase": m{f: m{"query": v}}}}).Draw(t, "form")
		lucene := escapeLucene(f) + ":" + quoted(v)
		if rapid.Bool().Draw(t, "bare") {
			lucene = escapeLucene(f) + ":" + escapeLucene(v)
		}
		return question{dsl, lucene, func(j job) bool { return j.get(f) == v }}
	case "terms":
		f := rapid.SampledFrom(textFields).Draw(t, "field")
		values := rapid.SliceOfN(rapid.SampledFrom(someTexts), 0, 4).Draw(t, "values")
		return question{m{"terms": m{f: values}}, "", func(j job) bool { s, ok := j.get(f).(string); return ok && slices.Contains(values, s) }}
	case "number":
		f := rapid.SampledFrom(numFields[:5]).Draw(t, "field")
		v := rapid.SampledFrom([]float64{0, 1, 2, 2.5, 60, 64, 3600, 1e6}).Draw(t, "value")
		return question{m{"term": m{f: v}}, f + ":" + strconv.FormatFloat(v, 'f', -1, 64), func(j job) bool { return j.get(f) == v }}
	case "range", "dates", "textrange":
		return drawRange(t)
	case "exists":
		f := rapid.SampledFrom(slices.Concat(textFields, numFields, dateFields, []string{"nowhere"})).Draw(t, "field")
		lucene := rapid.SampledFrom([]string{"_exists_:" + escapeLucene(f), escapeLucene(f) + ":*"}).Draw(t, "form")
		return question{m{"exists": m{"field": f}}, lucene, func(j job) bool { return j.get(f) != nil }}
	case "prefix":
		f := rapid.SampledFrom(textFields).Draw(t, "field")
		v := rapid.SampledFrom([]string{"", "b", "B", "gpu", "x*", "100%", `back\`, "un_", "/"}).Draw(t, "value")
		anyCase := rapid.Bool().Draw(t, "any case")
		q := question{dsl: m{"prefix": m{f: m{"value": v, "case_insensitive": anyCase}}}}
		if !anyCase && v != "" {
			q.lucene = escapeLucene(f) + ":" + escapeLucene(v) + "*"
		}
		q.match = func(j job) bool {
			s, ok := j.get(f).(string)
			if anyCase {
				return ok && strings.HasPrefix(strings.ToLower(s), strings.ToLower(v))
			}
			return ok && strings.HasPrefix(s, v)
		}
		return q
	case "wildcard":
		f := rapid.SampledFrom(textFields).Draw(t, "field")
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"*", "?", "b", "o", "a", " ", "_", "%", `\`, "x", "*", "e", "ë"}), 1, 5).Draw(t, "parts")
		var pattern, lucene strings.Builder
		for _, p := range parts {
			if p == "*" || p == "?" {
				pattern.WriteString(p)
				lucene.WriteString(p)
			} else {
				pattern.WriteString(escapeWildcard(p))
				lucene.WriteString(escapeLucene(p))
			}
		}
		anyCase := rapid.Bool().Draw(t, "any case")
		q := question{dsl: m{"wildcard": m{f: m{"value": pattern.String(), "case_insensitive": anyCase}}}}
		if !anyCase {
			q.lucene = escapeLucene(f) + ":" + lucene.String()
		}
		q.match = func(j job) bool {
			s, ok := j.get(f).(string)
			if anyCase {
				s = strings.ToLower(s)
			}
			return ok && glob(parts, []rune(s))
		}
		return q
	case "ids":
		var ids []string
		for _, n := range rapid.SliceOfN(rapid.IntRange(1, 60), 0, 3).Draw(t, "numbers") {
			ids = append(ids, fmt.Sprintf("c:%d:%d", n, 1711700000+n))
		}
		ids = append(ids, "no id")
		return question{m{"ids": m{"values": ids}}, "", func(j job) bool { return slices.Contains(ids, j.id()) }}
	case "bool":
		return drawBool(t, depth-1)
	case "and", "or":
		a, b := drawQuestion(t, depth-1), drawQuestion(t, depth-1)
		and := rapid.Bool().Draw(t, "and")
		q := question{dsl: m{"bool": m{"must": []any{a.dsl, b.dsl}}}, match: func(j job) bool { return a.match(j) && b.match(j) }}
		operator := rapid.SampledFrom([]string{" AND ", " && "}).Draw(t, "operator")
		if !and {
			q = question{dsl: m{"bool": m{"should": []any{a.dsl, b.dsl}}}, match: func(j job) bool { return a.match(j) || b.match(j) }}
			operator = rapid.SampledFrom([]string{" OR ", " || ", " "}).Draw(t, "operator")
		}
		if a.lucene != "" && b.lucene != "" {
			q.lucene = "(" + a.lucene + operator + b.lucene + ")"
		}
		return q
	case "not":
		a := drawQuestion(t, depth-1)
		q := question{dsl: m{"bool": m{"must_not": a.dsl}}, match: func(j job) bool { return !a.match(j) }}
		if a.lucene != "" {
			q.lucene = rapid.SampledFrom([]string{"(NOT ", "(-", "(!"}).Draw(t, "not") + a.lucene + ")"
		}
		return q
	}
	return question{m{"match_all": m{}}, "*:*", func(job) bool { return true }}
}

func drawRange(t *rapid.T) question {
	kind := rapid.SampledFrom([]string{"number", "date", "text"}).Draw(t, "range")
	low, high := rapid.SampledFrom([]string{"", "gt", "gte"}).Draw(t, "low"), rapid.SampledFrom([]string{"", "lt", "lte"}).Draw(t, "high")
	body := m{}
	open, end, from, to := "[", "]", "*", "*"
	if low == "gt" {
		open = "{"
	}
	if high == "lt" {
		end = "}"
	}
	within := func(c int, operator string) bool {
		switch operator {
		case "gt":
			return c > 0
		case "gte":
			return c >= 0
		case "lt":
			return c < 0
		case "lte":
			return c <= 0
		}
		return true
	}
	var f string
	var compare func(j job, to string) int
	var lowTo, highTo string
	switch kind {
	case "number":
		f = rapid.SampledFrom(numFields).Draw(t, "field")
		a, b := rapid.SampledFrom([]float64{-5, 0, 1, 2.5, 64, 3600}).Draw(t, "a"), rapid.SampledFrom([]float64{0, 10, 64, 4096, 90000}).Draw(t, "b")
		lowTo, highTo = strconv.FormatFloat(a, 'f', -1, 64), strconv.FormatFloat(b, 'f', -1, 64)
		if low != "" {
			body[low], from = a, lowTo
		}
		if high != "" {
			body[high], to = b, highTo
		}
		compare = func(j job, to string) int {
			x, _ := strconv.ParseFloat(to, 64)
			return cmp.Compare(j.get(f).(float64), x)
		}
	case "text":
		f = rapid.SampledFrom([]string{"username", "state", "color"}).Draw(t, "field")
		lowTo, highTo = rapid.SampledFrom([]string{"a", "bob", "dark"}).Draw(t, "a"), rapid.SampledFrom([]string{"b", "red", "zzz"}).Draw(t, "b")
		if low != "" {
			body[low], from = lowTo, lowTo
		}
		if high != "" {
			body[high], to = highTo, highTo
		}
		compare = func(j job, to string) int { return strings.Compare(j.get(f).(string), to) }
	default:
		return drawDates(t)
	}
	return question{m{"range": m{f: body}}, escapeLucene(f) + ":" + open + from + " TO " + to + end, func(j job) bool {
		if j.get(f) == nil {
			return false
		}
		return (low == "" || within(compare(j, lowTo), low)) && (high == "" || within(compare(j, highTo), high))
	}}
}

// instantText is a date in a request, with the first and the last second that the date means.
type instantText struct {
	text        string
	first, last time.Time
}

func drawDates(t *rapid.T) question {
	f := rapid.SampledFrom(dateFields).Draw(t, "field")
	day := func(y int, m time.Month, d, h, mi, s int) time.Time { return time.Date(y, m, d, h, mi, s, 0, time.UTC) }
	texts := []instantText{
		{"2024-03-30", day(2024, 3, 30, 0, 0, 0), day(2024, 3, 30, 23, 59, 59)},
		{"2024-03", day(2024, 3, 1, 0, 0, 0), day(2024, 3, 31, 23, 59, 59)},
		{"2024-03-31T12:30:00", day(2024, 3, 31, 12, 30, 0), day(2024, 3, 31, 12, 30, 0)},
		{"2024-03-31T12:30:00.000+02:00", day(2024, 3, 31, 10, 30, 0), day(2024, 3, 31, 10, 30, 0)},
		{"2024-03-31T12:30:00||-1d/d", day(2024, 3, 30, 0, 0, 0), day(2024, 3, 30, 23, 59, 59)},
		{"now-2d", day(2024, 4, 1, 10, 20, 30), day(2024, 4, 1, 10, 20, 30)},
		{"now-3d/d", day(2024, 3, 31, 0, 0, 0), day(2024, 3, 31, 23, 59, 59)},
		{"now/w", day(2024, 4, 1, 0, 0, 0), day(2024, 4, 7, 23, 59, 59)},
		{"now-1M/M", day(2024, 3, 1, 0, 0, 0), day(2024, 3, 31, 23, 59, 59)},
		{"now-100h", day(2024, 3, 30, 6, 20, 30), day(2024, 3, 30, 6, 20, 30)},
		{"1711800000000", time.Unix(1711800000, 0), time.Unix(1711800000, 0)},
	}
	low, high := rapid.SampledFrom(texts).Draw(t, "from"), rapid.SampledFrom(texts).Draw(t, "to")
	lowKind, highKind := rapid.SampledFrom([]string{"", "gt", "gte"}).Draw(t, "low"), rapid.SampledFrom([]string{"", "lt", "lte"}).Draw(t, "high")
	body := m{}
	open, end, from, to := "[", "]", "*", "*"
	if lowKind != "" {
		body[lowKind], from = low.text, quoted(low.text)
	}
	if highKind != "" {
		body[highKind], to = high.text, quoted(high.text)
	}
	if lowKind == "gt" {
		open = "{"
	}
	if highKind == "lt" {
		end = "}"
	}
	return question{m{"range": m{f: body}}, escapeLucene(f) + ":" + open + from + " TO " + to + end, func(j job) bool {
		at := j.time(f)
		switch {
		case lowKind == "gt" && !at.After(low.last), lowKind == "gte" && at.Before(low.first):
			return false
		case highKind == "lt" && !at.Before(high.first), highKind == "lte" && at.After(high.last):
			return false
		}
		return true
	}}
}

func drawBool(t *rapid.T, depth int) question {
	draw := func(name string) (list []question) {
		for range rapid.IntRange(0, 3).Draw(t, name) {
			list = append(list, drawQuestion(t, depth))
		}
		return list
	}
	must, filter, should, mustNot := draw("must"), draw("filter"), draw("should"), draw("must not")
	body := m{}
	for name, list := range map[string][]question{"must": must, "filter": filter, "should": should, "must_not": mustNot} {
		var dsl []any
		for _, q := range list {
			dsl = append(dsl, q.dsl)
		}
		if dsl != nil {
			body[name] = dsl
		}
	}
	least := 0
	if len(must)+len(filter) == 0 && len(should) > 0 {
		least = 1
	}
	if rapid.Bool().Draw(t, "minimum given") {
		form := rapid.SampledFrom([]any{0, "0", 1, 2, -1, -3}).Draw(t, "minimum")
		body["minimum_should_match"] = form
		n := len(should)
		given := map[any]int{0: 0, "0": 0, 1: 1, 2: 2, -1: n - 1, -3: n - 3}[form]
		if given > 0 && (n > 0 || len(must)+len(filter) > 0) {
			least = given
		}
	}
	return question{dsl: m{"bool": body}, match: func(j job) bool {
		matching := 0
		for _, q := range should {
			if q.match(j) {
				matching++
			}
		}
		for _, q := range slices.Concat(must, filter) {
			if !q.match(j) {
				return false
			}
		}
		for _, q := range mustNot {
			if q.match(j) {
				return false
			}
		}
		return matching >= least
	}}
}

// TestMinimumShouldMatch checks values that result in 0: clauses that Lucene requires must stay
// required.
func TestMinimumShouldMatch(t *testing.T) {
	f := synthetic(t, 9)
	one, two := m{"term": m{"jobid": 1}}, m{"term": m{"jobid": 2}}
	for _, c := range []struct {
		query m
		want  int
	}{
		{m{"should": []any{one, two}, "minimum_should_match": "0"}, 2},
		{m{"should": []any{one, two}, "minimum_should_match": -2, "must_not": one}, 1},
		{m{"should": one, "filter": two, "minimum_should_match": 0}, 1},
		{m{"filter": two, "minimum_should_match": 1}, 0},
		{m{"must_not": two, "minimum_should_match": 1}, 8},
		{m{"minimum_should_match": 1}, 9},
		{m{"should": []any{one, two}, "minimum_should_match": nil}, 2},
		{m{"should": one, "minimum_should_match": 2}, 0},
	} {
		if ids, _ := f.ids(t, m{"query": m{"bool": c.query}}); len(ids) != c.want {
			t.Errorf("%v: %v, want %d jobs", c.query, ids, c.want)
		}
	}
}

// glob reports whether the parts of a wildcard match a text.
func glob(parts []string, text []rune) bool {
	if len(parts) == 0 {
		return len(text) == 0
	}
	switch parts[0] {
	case "*":
		for i := range len(text) + 1 {
			if glob(parts[1:], text[i:]) {
				return true
			}
		}
		return false
	case "?":
		return len(text) > 0 && glob(parts[1:], text[1:])
	}
	r := []rune(strings.TrimSuffix(parts[0], " literal"))
	return len(text) > 0 && text[0] == r[len(r)-1] && glob(parts[1:], text[1:])
}

// TestWildcards compares wildcards with the slow matcher. Patterns and texts use few characters, so
// that they often match.
func TestWildcards(t *testing.T) {
	s, err := store.Open(context.Background(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	letters := []string{"a", "b", "a", "b", ".", "\\", "\n", "é", "(", "$", "[", "%", "_", "*", "?", "A"}
	var jobs []job
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		var name strings.Builder
		for range random.IntN(13) {
			name.WriteString(letters[random.IntN(random.IntN(len(letters))+1)])
		}
		jobs = append(jobs, job{"jobid": float64(i + 1), "@submit": now.Format(stamp), "arrived": now.Format(arrivalStamp), "job_name": "x" + name.String(), "free": "x" + name.String()})
	}
	f := newFixture(t, s, jobs, 1)
	rapid.Check(t, func(t *rapid.T) {
		parts := append([]string{"x"}, rapid.SliceOfN(rapid.SampledFrom([]string{"*", "*", "?", "a", "b", "a", "b", ".", "\\", "\n", "é", "(", "$", "[", "%", "_", `\*`, `\?`}), 0, 12).Draw(t, "parts")...)
		if rapid.Bool().Draw(t, "open") {
			parts[0] = "*"
		}
		var pattern, query strings.Builder
		literals := slices.Clone(parts)
		for i, p := range parts {
			switch p {
			case "*", "?":
				pattern.WriteString(p)
				query.WriteString(p)
				continue
			case `\*`, `\?`:
				literals[i] = p + " literal"
				p = p[1:]
			}
			pattern.WriteString(escapeWildcard(p))
			query.WriteString(escapeLucene(p))
		}
		var want []any
		for _, j := range jobs {
			if glob(literals, []rune(j["job_name"].(string))) {
				want = append(want, j["jobid"])
			}
		}
		forms := []any{m{"wildcard": m{"job_name": pattern.String()}}, m{"wildcard": m{"free": pattern.String()}}}
		if !strings.Contains(query.String(), "\n") {
			forms = append(forms, m{"query_string": m{"query": "job_name:" + query.String()}})
		}
		for _, form := range forms {
			_, answer := f.ask(t, "POST", "/_search", m{"query": form, "size": 1000, "_source": "jobid"})
			hits, _ := answer["hits"].(map[string]any)
			var got []any
			for _, h := range hits["hits"].([]any) {
				got = append(got, h.(map[string]any)["_source"].(map[string]any)["jobid"])
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%v: %v, want %v", form, got, want)
			}
		}
	})
}

// withJobs draws jobs, and calls check with a server over these jobs.
func withJobs(t *rapid.T, check func(f *fixture)) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "rmreplay-search-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := store.Open(ctx, dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	check(newFixture(t, s, randomJobs(t), 1))
}

func TestQueries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		withJobs(t, func(f *fixture) {
			for range 12 {
				q := drawQuestion(t, 3)
				var want []string
				for _, j := range f.jobs {
					if q.match(j) {
						want = append(want, j.id())
					}
				}
				forms := []any{q.dsl}
				if q.lucene != "" {
					forms = append(forms, m{"query_string": m{"query": q.lucene}})
				}
				for _, form := range forms {
					got, _ := f.ids(t, m{"query": form, "size": 1000})
					if !slices.Equal(got, want) {
						text, _ := json.Marshal(form)
						t.Fatalf("%s:\n%v\nwant\n%v", text, got, want)
					}
					status, answer := f.ask(t, "POST", "/_count", m{"query": form})
					if status != 200 || answer["count"] != float64(len(want)) {
						t.Fatalf("count: %v, want %d", answer, len(want))
					}
				}
			}
		})
	})
}

// TestOperators compares query strings without parentheses with the rules of Lucene's classic
// parser: AND requires the clauses on both sides, + requires its clause, NOT and - forbid theirs.
// Other clauses matter only if nothing is required.
func TestOperators(t *testing.T) {
	f := synthetic(t, 9)
	rapid.Check(t, func(t *rapid.T) {
		type clause struct {
			numbers             [2]int
			required, forbidden bool
		}
		var clauses []clause
		var text strings.Builder
		for i := range rapid.IntRange(1, 5).Draw(t, "clauses") {
			operator := rapid.SampledFrom([]string{" ", " OR ", " || ", " AND ", " && "}).Draw(t, "operator")
			sign := rapid.SampledFrom([]string{"", "", "+", "-", "!", "NOT "}).Draw(t, "sign")
			c := clause{numbers: [2]int{rapid.IntRange(1, 9).Draw(t, "a"), rapid.IntRange(1, 9).Draw(t, "b")}}
			c.forbidden = sign == "-" || sign == "!" || sign == "NOT "
			and := i > 0 && strings.ContainsAny(operator, "A&")
			c.required = !c.forbidden && (sign == "+" || and)
			if and && !clauses[i-1].forbidden {
				clauses[i-1].required = true
			}
			if i > 0 {
				text.WriteString(operator)
			}
			fmt.Fprintf(&text, "%sjobid:(%d %d)", sign, c.numbers[0], c.numbers[1])
			clauses = append(clauses, c)
		}
		var want []any
		for n := 1; n <= 9; n++ {
			some, optional, required, matches := false, false, false, true
			for _, c := range clauses {
				has := slices.Contains(c.numbers[:], n)
				matches = matches && (!c.forbidden || !has) && (!c.required || has)
				required = required || c.required
				if !c.required && !c.forbidden {
					optional, some = true, some || has
				}
			}
			if matches && (required || !optional || some) {
				want = append(want, float64(n))
			}
		}
		_, answer := f.ask(t, "POST", "/_search", m{"query": m{"query_string": m{"query": text.String()}}, "sort": "jobid"})
		var got []any
		for _, h := range answer["hits"].(map[string]any)["hits"].([]any) {
			got = append(got, h.(map[string]any)["sort"].([]any)[0])
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s: %v, want %v", &text, got, want)
		}
	})
}

// TestPages reads all jobs in pages, by search_after and by from.
func TestPages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		withJobs(t, func(f *fixture) {
			field := rapid.SampledFrom(slices.Concat(textFields, numFields, dateFields, []string{"arrived", "arrived"})).Draw(t, "field")
			descending, first := rapid.Bool().Draw(t, "descending"), rapid.Bool().Draw(t, "missing first")
			want := slices.Clone(f.jobs)
			slices.SortStableFunc(want, func(a, b job) int {
				x, y := a.get(field), b.get(field)
				if field == "arrived" { // dates have milliseconds
					x, y = a.time(field).UnixMilli(), b.time(field).UnixMilli()
				}
				if x == nil || y == nil {
					switch {
					case x == nil && y == nil:
						return cmp.Compare(b["jobid"].(float64), a["jobid"].(float64))
					case (x == nil) == first:
						return -1
					}
					return 1
				}
				var c int
				if ms, ok := x.(int64); ok {
					c = cmp.Compare(ms, y.(int64))
				} else if n, ok := x.(float64); ok && field != "weight" {
					c = cmp.Compare(n, y.(float64))
				} else {
					c = strings.Compare(fmt.Sprint(x), fmt.Sprint(y))
				}
				if descending {
					c = -c
				}
				return cmp.Or(c, cmp.Compare(b["jobid"].(float64), a["jobid"].(float64)))
			})
			var ids []string
			for _, j := range want {
				ids = append(ids, j.id())
			}
			order, missing := "asc", "_last"
			if descending {
				order = "desc"
			}
			if first {
				missing = "_first"
			}
			size := rapid.IntRange(1, 20).Draw(t, "size")
			body := m{"sort": []any{m{field: m{"order": order, "missing": missing}}, m{"jobid": "desc"}}, "size": size}
			var after, from []string
			for {
				page, last := f.ids(t, body)
				after = append(after, page...)
				if len(page) < size || len(after) > len(ids) {
					break
				}
				body["search_after"] = last
			}
			delete(body, "search_after")
			for len(from) < len(ids) {
				body["from"] = len(from)
				page, _ := f.ids(t, body)
				if len(page) == 0 {
					break
				}
				from = append(from, page...)
			}
			if !slices.Equal(after, ids) || !slices.Equal(from, ids) {
				t.Fatalf("%v:\nsearch_after %v\nfrom %v\nwant %v", body, after, from, ids)
			}
		})
	})
}

// TestArrived checks that all requests round the instant of the arrival down to milliseconds.
func TestArrived(t *testing.T) {
	s, err := store.Open(context.Background(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var jobs []job
	for i, us := range []int{999, 1000, 1001, 1999, 2000} { // in milliseconds: 0, 1, 1, 1, 2
		at := now.Add(time.Duration(us) * time.Microsecond).Format(arrivalStamp)
		jobs = append(jobs, job{"jobid": float64(i + 1), "@submit": now.Format(stamp), "arrived": at})
	}
	f := newFixture(t, s, jobs, 1)
	for condition, want := range map[string]int{"gte": 4, "gt": 1, "lte": 4, "lt": 1} {
		if ids, _ := f.ids(t, m{"query": m{"range": m{"arrived": m{condition: "2024-04-03T10:20:30.001"}}}}); len(ids) != want {
			t.Errorf("%s: %v, want %d jobs", condition, ids, want)
		}
	}
	if ids, _ := f.ids(t, m{"query": m{"term": m{"arrived": "2024-04-03T10:20:30.001Z"}}}); len(ids) != 3 {
		t.Errorf("%v", ids)
	}
	middle := float64(now.UnixMilli() + 1)
	status, answer := f.ask(t, "POST", "/slurm/_search", m{
		"size": 1, "sort": []any{m{"arrived": "desc"}}, "docvalue_fields": []any{m{"field": "arrived", "format": "strict_date_optional_time"}},
		"aggs": m{
			"each": m{"terms": m{"field": "arrived"}}, "different": m{"cardinality": m{"field": "arrived"}}, "first": m{"min": m{"field": "arrived"}},
			"parts": m{"date_range": m{"field": "arrived", "ranges": []any{m{"from": middle, "to": middle + 1}}}},
		},
	})
	counts := []any{}
	aggregations, _ := answer["aggregations"].(map[string]any)
	if status != 200 {
		t.Fatal(answer)
	}
	for _, b := range aggregations["each"].(map[string]any)["buckets"].([]any) {
		counts = append(counts, b.(map[string]any)["doc_count"])
	}
	if fmt.Sprint(counts) != "[3 1 1]" || aggregations["different"].(map[string]any)["value"] != 3.0 || aggregations["first"].(map[string]any)["value"] != middle-1 ||
		aggregations["parts"].(map[string]any)["buckets"].([]any)[0].(map[string]any)["doc_count"] != 3.0 {
		t.Errorf("%v", aggregations)
	}
	hit := answer["hits"].(map[string]any)["hits"].([]any)[0].(map[string]any)
	if fmt.Sprint(hit["sort"], hit["fields"]) != fmt.Sprint([]any{middle + 1}, m{"arrived": []any{"2024-04-03T10:20:30.002Z"}}) {
		t.Errorf("%v %v", hit["sort"], hit["fields"])
	}
}

// same compares two answers. The last digits of numbers may differ, because sums depend on the
// order of summation.
func same(got, want any) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || len(g) != len(w) {
			return fmt.Sprintf("%v, want %v", got, want)
		}
		for name := range w {
			if _, there := g[name]; !there {
				return fmt.Sprintf("no %s in %v, want %v", name, got, want)
			}
			if s := same(g[name], w[name]); s != "" {
				return name + ": " + s
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return fmt.Sprintf("%v, want %v", got, want)
		}
		for i := range w {
			if s := same(g[i], w[i]); s != "" {
				return fmt.Sprintf("%d: %s", i, s)
			}
		}
		return ""
	case float64:
		g, ok := got.(float64)
		if ok && math.Abs(g-w) <= 1e-9*max(1, math.Abs(g), math.Abs(w)) {
			return ""
		}
	default:
		if got == want {
			return ""
		}
	}
	return fmt.Sprintf("%v, want %v", got, want)
}
