package search_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"rmreplay/internal/accounting/intake"
	"rmreplay/internal/accounting/receive"
	"rmreplay/internal/accounting/search"
	"rmreplay/internal/accounting/servertest"
)

// clientsModule has programs with the official clients of Elasticsearch and OpenSearch. It is a
// separate module, so that this program does not depend on the clients.
const clientsModule = "../../../tools/searchclients"

// clientJobs is the number of jobs that the clients store. Job i, from 1, has the number i and a
// run time of i seconds.
const clientJobs = 240

var clientBegin = time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC)

// clientDocument returns the document of job i, which is submitted and starts i minutes after
// clientBegin.
func clientDocument(i int) map[string]any {
	pick := func(yes bool, a, b string) string {
		if yes {
			return a
		}
		return b
	}
	start := clientBegin.Add(time.Duration(i) * time.Minute)
	d := m{
		"jobid": i, "username": fmt.Sprintf("u%d", i%4), "partition": pick(i%3 == 0, "gpu", "batch"), "state": pick(i%10 == 0, "FAILED", "COMPLETED"),
		"exit_code": pick(i%10 == 0, "1:0", "0:0"), "job_name": fmt.Sprintf("step-%d", i%5), "elapsed": i, "total_cpus": 2, "total_nodes": 1, "nodes": "n1",
		"@submit": start.Format(stamp), "@start": start.Format(stamp), "@end": start.Add(time.Duration(i) * time.Second).Format(stamp),
		"meta": m{"rack": fmt.Sprintf("r%d", i%2)},
	}
	if i%2 == 0 {
		d["account"] = "even"
	}
	return d
}

func clientID(i int) string {
	return fmt.Sprintf("vale:%d:%d", i, clientBegin.Add(time.Duration(i)*time.Minute).Unix())
}

// clientQuestions are searches, with the number of hits and parts of the response that they must
// produce. status is not 0 if the response must be an error.
var clientQuestions = []struct {
	name   string
	body   m
	total  int
	want   m
	status int
}{
	{name: "match_all", body: m{"query": m{"match_all": m{}}}, total: 240},
	{name: "match_none", body: m{"query": m{"match_none": m{}}}},
	{name: "term", body: m{"query": m{"term": m{"state": "FAILED"}}}, total: 24},
	{name: "terms", body: m{"query": m{"terms": m{"jobid": []any{1, 2, 500}}}}, total: 2},
	{name: "range", body: m{"query": m{"range": m{"jobid": m{"gte": 10, "lt": 20}}}}, total: 10},
	{name: "range of dates", body: m{"query": m{"range": m{"@submit": m{"gte": "2024-03-01T01:00:00", "lt": "2024-03-01||+2h"}}}}, total: 60},
	{name: "match", body: m{"query": m{"match": m{"username": "u1"}}}, total: 60},
	{name: "match_phrase", body: m{"query": m{"match_phrase": m{"job_name": "step-1"}}}, total: 48},
	{name: "prefix", body: m{"query": m{"prefix": m{"partition": "gp"}}}, total: 80},
	{name: "wildcard", body: m{"query": m{"wildcard": m{"job_name": m{"value": "st*-2"}}}}, total: 48},
	{name: "exists", body: m{"query": m{"exists": m{"field": "account"}}}, total: 120},
	{name: "ids", body: m{"query": m{"ids": m{"values": []any{clientID(3), clientID(9), "vale:1:1"}}}}, total: 2},
	{name: "query_string", body: m{"query": m{"query_string": m{"query": "state:FAILED AND jobid:[1 TO 100]"}}}, total: 10},
	{name: "member without a column", body: m{"query": m{"term": m{"meta.rack": "r1"}}}, total: 120},
	{name: "bool", body: m{"query": m{"bool": m{"must": []any{m{"term": m{"partition": "gpu"}}}, "must_not": []any{m{"term": m{"state": "FAILED"}}},
		"should": []any{m{"term": m{"username": "u1"}}, m{"term": m{"username": "u3"}}}, "minimum_should_match": 1, "filter": []any{m{"range": m{"jobid": m{"lte": 120}}}}}}}, total: 20},
	{name: "sort and page", body: m{"sort": []any{m{"elapsed": m{"order": "desc"}}}, "from": 1, "size": 2, "_source": []any{"jobid"}}, total: 240,
		want: m{"hits": m{"hits": []any{m{"_id": clientID(239), "_source": m{"jobid": 239}, "sort": []any{239}}, m{"_id": clientID(238)}}}}},
	{name: "metrics", body: m{"size": 0, "aggs": m{
		"sum": m{"sum": m{"field": "elapsed"}}, "avg": m{"avg": m{"field": "elapsed"}}, "min": m{"min": m{"field": "elapsed"}}, "max": m{"max": m{"field": "elapsed"}},
		"count": m{"value_count": m{"field": "account"}}, "stats": m{"stats": m{"field": "elapsed"}}, "more": m{"extended_stats": m{"field": "elapsed"}},
		"users": m{"cardinality": m{"field": "username"}}, "half": m{"percentiles": m{"field": "elapsed", "percents": []any{50}}}}}, total: 240,
		want: m{"aggregations": m{
			"sum": m{"value": 28920}, "avg": m{"value": 120.5}, "min": m{"value": 1}, "max": m{"value": 240}, "count": m{"value": 120},
			"stats": m{"count": 240, "min": 1, "max": 240, "avg": 120.5, "sum": 28920}, "more": m{"variance": 57599.0 / 12}, "users": m{"value": 4},
			"half": m{"values": m{"50.0": 120.5}}}}},
	{name: "weighted_avg", body: m{"size": 0, "aggs": m{"w": m{"weighted_avg": m{"value": m{"field": "jobid"}, "weight": m{"field": "elapsed"}}}}}, total: 240,
		want: m{"aggregations": m{"w": m{"value": 481.0 / 3}}}},
	{name: "terms with a metric below", body: m{"size": 0, "aggs": m{"p": m{"terms": m{"field": "partition", "order": m{"t": "desc"}}, "aggs": m{"t": m{"sum": m{"field": "elapsed"}}}}}}, total: 240,
		want: m{"aggregations": m{"p": m{"buckets": []any{m{"key": "batch", "doc_count": 160, "t": m{"value": 19200}}, m{"key": "gpu", "doc_count": 80, "t": m{"value": 9720}}}}}}},
	{name: "date_histogram", body: m{"size": 0, "aggs": m{"h": m{"date_histogram": m{"field": "@submit", "fixed_interval": "1h"}}}}, total: 240,
		want: m{"aggregations": m{"h": m{"buckets": []any{m{"key": 1709251200000, "doc_count": 59}, m{"doc_count": 60}, m{"doc_count": 60}, m{"doc_count": 60}, m{"doc_count": 1}}}}}},
	{name: "calendar interval", body: m{"size": 0, "aggs": m{"d": m{"date_histogram": m{"field": "@submit", "calendar_interval": "day", "time_zone": "America/New_York"}}}}, total: 240,
		want: m{"aggregations": m{"d": m{"buckets": []any{m{"doc_count": 240}}}}}},
	{name: "histogram", body: m{"size": 0, "aggs": m{"e": m{"histogram": m{"field": "elapsed", "interval": 100}}}}, total: 240,
		want: m{"aggregations": m{"e": m{"buckets": []any{m{"key": 0, "doc_count": 99}, m{"key": 100, "doc_count": 100}, m{"key": 200, "doc_count": 41}}}}}},
	{name: "range buckets", body: m{"size": 0, "aggs": m{"e": m{"range": m{"field": "elapsed", "ranges": []any{m{"to": 11}, m{"from": 11}}}}}}, total: 240,
		want: m{"aggregations": m{"e": m{"buckets": []any{m{"doc_count": 10}, m{"doc_count": 230}}}}}},
	{name: "date_range", body: m{"size": 0, "aggs": m{"e": m{"date_range": m{"field": "@submit", "ranges": []any{m{"to": "2024-03-01T00:30:00"}}}}}}, total: 240,
		want: m{"aggregations": m{"e": m{"buckets": []any{m{"doc_count": 29}}}}}},
	{name: "filter and filters", body: m{"size": 0, "aggs": m{"f": m{"filter": m{"term": m{"state": "FAILED"}}}, "g": m{"filters": m{"filters": m{"one": m{"term": m{"username": "u1"}}, "all": m{"match_all": m{}}}}}, "n": m{"missing": m{"field": "account"}}}}, total: 240,
		want: m{"aggregations": m{"f": m{"doc_count": 24}, "g": m{"buckets": m{"one": m{"doc_count": 60}, "all": m{"doc_count": 240}}}, "n": m{"doc_count": 120}}}},
	{name: "unknown query", body: m{"query": m{"fuzzy": m{"username": m{"value": "u"}}}}, status: 400},
	{name: "unknown aggregation", body: m{"size": 0, "aggs": m{"x": m{"geohash_grid": m{"field": "meta"}}}}, status: 400},
	{name: "wrong value", body: m{"query": m{"term": m{"jobid": m{"value": "seven"}}}}, status: 400},
}

// said is a line of a client's output.
type said struct {
	Name    string `json:"name"`
	Answer  any    `json:"answer"`
	Failure *struct {
		Class, Type, Reason string
		Status              int
	} `json:"failure"`
}

// TestClients lets the official clients store jobs and use everything that the API supports. The
// typed API of go-elasticsearch takes minutes to compile, and is only tested with
// RMREPLAY_LONG_TESTS.
func TestClients(t *testing.T) {
	for _, c := range []struct {
		name, program string
		failure       string // the type of the client's errors
	}{
		{name: "go-elasticsearch 9, esapi", program: "elasticlow", failure: "*esapi.Response"},
		{name: "go-elasticsearch 9, typed", program: "elastictyped", failure: "*types.ElasticsearchError"},
		{name: "opensearch-go 4", program: "opensearch", failure: "*opensearch.StructError"},
		{name: "@elastic/elasticsearch 9", program: "node", failure: "ResponseError"},
		{name: "elasticsearch-py 9", program: "elasticsearch", failure: "ApiError"},
		{name: "opensearch-py 3", program: "opensearchpy", failure: "TransportError"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.program == "elastictyped" && os.Getenv("RMREPLAY_LONG_TESTS") == "" {
				t.Skip("SKIPPED: the typed client; set RMREPLAY_LONG_TESTS=1 for it")
			}
			dir := t.TempDir()
			checkClient(t, c.failure, askClient(t, clientCommand(t, c.program, dir), dir))
		})
	}
}

// clientCommand prepares a client's program and returns the command that starts it.
func clientCommand(t *testing.T, program, dir string) []string {
	t.Helper()
	switch program {
	case "node":
		return nodeClient(t)
	case "elasticsearch", "opensearchpy":
		return []string{servertest.Python(t, "python"), filepath.Join(clientsModule, "python", "client.py"), program}
	}
	path := filepath.Join(dir, program)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./"+program)
	build.Dir, build.Env = clientsModule, append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", program, err, out)
	}
	return []string{path}
}

// nodeClient installs the npm package in the user's cache, unless it is there, and returns the
// command.
func nodeClient(t *testing.T) []string {
	t.Helper()
	for _, program := range []string{"npm", "node"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED, @elastic/elasticsearch is not tested: %s is not installed", program)
		}
	}
	source := filepath.Join(clientsModule, "node")
	lock, err := os.ReadFile(filepath.Join(source, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	modules := filepath.Join(cache, "rmreplay", "tests", "searchclients")
	done := filepath.Join(modules, "installed.json") // a copy of the lock file with which the modules were installed
	if have, err := os.ReadFile(done); err != nil || !bytes.Equal(have, lock) {
		if err := os.MkdirAll(modules, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"package.json", "package-lock.json"} {
			text, err := os.ReadFile(filepath.Join(source, name))
			if err == nil {
				err = os.WriteFile(filepath.Join(modules, name), text, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		install := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=optional")
		install.Dir = modules
		if out, err := install.CombinedOutput(); err != nil {
			t.Skipf("SKIPPED, @elastic/elasticsearch is not tested: npm ci: %v\n%s", err, out)
		}
		if err := os.WriteFile(done, lock, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"node", filepath.Join(source, "client.mjs"), modules}
}

// askClient starts a server and runs a client against it. It returns the client's output lines by
// name.
func askClient(t *testing.T, command []string, dir string) map[string]said {
	t.Helper()
	in, err := intake.Open(t.Context(), filepath.Join(dir, "data"), intake.Options{Now: time.Now, Report: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}()
	handler := receive.New(in, nil)
	search.Register(handler.API, in.Store(), search.Options{
		Now:     func() time.Time { return now },
		Refresh: func(ctx context.Context) error { return in.Wait(ctx, in.Status().Received) },
	})
	server := httptest.NewServer(handler)
	defer server.Close()

	var documents, questions []any
	for i := 1; i <= clientJobs; i++ {
		documents = append(documents, clientDocument(i))
	}
	for _, q := range clientQuestions {
		questions = append(questions, m{"name": q.name, "body": q.body})
	}
	for name, v := range map[string]any{"documents.json": documents, "questions.json": questions} {
		text, err := json.Marshal(v)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	command = append(command, server.URL, dir)
	run := exec.CommandContext(ctx, command[0], command[1:]...)
	var stderr bytes.Buffer
	run.Stderr = &stderr
	out, err := run.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	answers := map[string]said{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var one said
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		answers[one.Name] = one
	}
	return answers
}

// checkClient checks a client's output.
func checkClient(t *testing.T, failure string, answers map[string]said) {
	t.Helper()
	var searched []any
	for _, q := range clientQuestions {
		a, ok := answers[q.name]
		switch {
		case !ok:
			t.Errorf("%s: not asked", q.name)
		case q.status != 0:
			if a.Failure == nil || a.Failure.Status != q.status || a.Failure.Class != failure || a.Failure.Type == "" || a.Failure.Reason == "" {
				t.Errorf("%s: %+v (want a %s with the status %d)", q.name, a, failure, q.status)
			}
		case a.Failure != nil:
			t.Errorf("%s: %+v", q.name, *a.Failure)
		default:
			want := m{"hits": m{"total": m{"value": q.total, "relation": "eq"}}}
			searched = append(searched, want)
			err := contains(want, a.Answer)
			if q.want != nil {
				err = errors.Join(err, contains(q.want, a.Answer))
			}
			if err != nil {
				t.Errorf("%s: %v", q.name, err)
			}
		}
	}
	for name, want := range map[string]any{
		"info": m{"version": m{"number": search.Version}}, "bulk": clientJobs - 1, "count": m{"count": 24}, "msearch": m{"responses": searched},
		"index":   m{"_id": clientID(1), "result": "created"},
		"mapping": m{"vale": m{"mappings": m{"properties": m{"username": m{"type": "keyword"}, "@end": m{"type": "date"}, "elapsed": m{"type": "long"}}}}},
	} {
		if err := contains(want, answers[name].Answer); err != nil {
			t.Errorf("%s: %v %+v", name, err, answers[name].Failure)
		}
	}
	if f := answers["absent"].Failure; f == nil || f.Status != 404 || f.Type != "index_not_found_exception" {
		t.Errorf("an absent index: %+v", answers["absent"])
	}
	// Job i ends i minutes and i seconds after clientBegin, so the first jobs are on the last page.
	var ids []any
	for i := clientJobs; i > 0; i-- {
		ids = append(ids, clientID(i))
	}
	if err := contains(ids, answers["walk"].Answer); err != nil {
		t.Errorf("walk: %v", err)
	}
}

// contains checks that got has everything in want. Objects in got may have more members, but arrays
// must have the same elements.
func contains(want, got any) error {
	text, err := json.Marshal(want)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &want); err != nil {
		return err
	}
	return within("", want, got)
}

func within(path string, want, got any) error {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: %v (want an object)", path, got)
		}
		for name, w := range want {
			if err := within(path+"."+name, w, object[name]); err != nil {
				return err
			}
		}
		return nil
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return fmt.Errorf("%s: %v (want %d elements)", path, got, len(want))
		}
		for i, w := range want {
			if err := within(fmt.Sprintf("%s[%d]", path, i), w, list[i]); err != nil {
				return err
			}
		}
		return nil
	case float64:
		number, ok := got.(float64)
		if !ok || math.Abs(number-want) > 1e-9*math.Abs(want) {
			return fmt.Errorf("%s: %v (want %v)", path, got, want)
		}
		return nil
	}
	if got != want {
		return fmt.Errorf("%s: %v (want %v)", path, got, want)
	}
	return nil
}

// TestContains checks that contains can fail.
func TestContains(t *testing.T) {
	for _, c := range []struct {
		want, got string
		ok        bool
	}{
		{`{"a":[1,{"b":"x"}]}`, `{"a":[1,{"b":"x","c":2}],"d":3}`, true}, {`{"a":1}`, `{"a":2}`, false}, {`{"a":1}`, `{}`, false},
		{`[1]`, `[1,2]`, false}, {`null`, `{}`, false}, {`"x"`, `1`, false}, {`{"a":{}}`, `{"a":[]}`, false},
	} {
		var got any
		if err := json.Unmarshal([]byte(c.got), &got); err != nil {
			t.Fatal(err)
		}
		if err := contains(json.RawMessage(c.want), got); (err == nil) != c.ok {
			t.Errorf("%s in %s: %v", c.want, c.got, err)
		}
	}
}
