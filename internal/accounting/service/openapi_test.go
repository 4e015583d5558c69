package service

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"rmreplay/docs/schemas"
	"rmreplay/internal/accounting/intake"
	"rmreplay/internal/accounting/servertest"
	"rmreplay/internal/accounting/store"
)

// operation is a path's method in the description.
type operation struct {
	Parameters []struct {
		Name, In string
	}
	RequestBody struct {
		Content map[string]struct{ Example json.RawMessage }
	}
	Responses map[string]struct {
		Content map[string]struct{ Schema json.RawMessage }
	}
}

// example returns the media type and the body of an operation's example.
func (o *operation) example(t *testing.T) (kind, body string) {
	t.Helper()
	for kind, content := range o.RequestBody.Content {
		if json.Unmarshal(content.Example, &body) != nil {
			body = string(content.Example)
		}
		return kind, body
	}
	return "", ""
}

// described reads the description. schema compiles the schema of a response.
func described(t *testing.T) (paths map[string]map[string]*operation, schema func(path, method, status, kind string) *jsonschema.Schema) {
	t.Helper()
	var api struct {
		Paths map[string]map[string]*operation
	}
	if err := json.Unmarshal(schemas.Accounting, &api); err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemas.Accounting))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("api.json", doc); err != nil {
		t.Fatal(err)
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D")
	return api.Paths, func(path, method, status, kind string) *jsonschema.Schema {
		s, err := compiler.Compile("api.json#/paths/" + escape.Replace(path) + "/" + method + "/responses/" + status + "/content/" + escape.Replace(kind) + "/schema")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// TestSchemathesis runs a fuzzer against the service, according to the description. The service
// accepts any JSON as a document, and ignores unknown members in searches, which Elasticsearch's
// clients rely on. The fuzzer cannot generate lines of JSON; the tests with the official clients
// (package search) cover these.
func TestSchemathesis(t *testing.T) {
	servertest.Python(t, "schemathesis")
	s, err := open(t.Context(), t.TempDir(), intake.Options{Report: func(err error) { t.Error(err) }}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	web := httptest.NewServer(s.handler)
	defer web.Close()
	servertest.Schemathesis(t, "../../../docs/schemas/accounting.openapi.json", web.URL, "--phases", "examples,fuzzing",
		"--exclude-path-regex", "_bulk$|_msearch$", "--checks",
		"not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,response_headers_conformance")
}

// TestOpenAPI compares the description with the handlers. Paths and methods must be equal, each
// path must accept exactly the described parameters, and each response must have a described status
// and be valid.
func TestOpenAPI(t *testing.T) {
	s, err := open(t.Context(), t.TempDir(), intake.Options{Report: func(err error) { t.Error(err) }}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	paths, schema := described(t)

	var routes, known []string
	for _, r := range s.routes {
		if r != "/" { // the pattern for all other paths
			routes = append(routes, strings.ReplaceAll(r, "/{$}", "/"))
		}
	}
	for path, methods := range paths {
		for method := range methods {
			known = append(known, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(routes)
	slices.Sort(known)
	if diff := cmp.Diff(routes, known); diff != "" {
		t.Fatalf("the paths of the handlers and of the description differ: %s", diff)
	}

	send := func(method, path, kind, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(strings.ToUpper(method), path, strings.NewReader(body))
		r.Host = "localhost"
		if kind != "" {
			r.Header.Set("Content-Type", kind)
		}
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		return w
	}
	// check validates a response, and returns the status.
	check := func(path, method, what string, o *operation, w *httptest.ResponseRecorder) int {
		answer, ok := o.Responses[fmt.Sprint(w.Code)]
		if !ok {
			t.Errorf("%s %s, %s: the status %d is not described: %.300s", method, path, what, w.Code, w.Body)
			return w.Code
		}
		kind, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
		if len(answer.Content) == 0 && w.Body.Len() == 0 || w.Code == http.StatusFound {
			return w.Code
		}
		if _, ok := answer.Content[kind]; !ok {
			t.Errorf("%s %s, %s: the status %d has no %s: %.300s", method, path, what, w.Code, kind, w.Body)
			return w.Code
		}
		if kind != "application/json" {
			return w.Code
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(w.Body.Bytes()))
		if err == nil {
			err = schema(path, method, fmt.Sprint(w.Code), kind).Validate(value)
		}
		if err != nil {
			t.Errorf("%s %s, %s: %v: %.500s", method, path, what, err, w.Body)
		}
		return w.Code
	}

	post := paths["/{index}/_doc"]["post"]
	kind, document := post.example(t)
	if w := send("post", "/vale/_doc?refresh", kind, document); w.Code != http.StatusCreated {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if err := s.intake.Store().AddHealth(store.Health{Cluster: "vale", At: time.Now(), Interval: time.Minute}); err != nil {
		t.Fatal(err)
	}
	fill := func(path, name string) string {
		var seq int64 // of a job in the store; a later document replaces an earlier one
		if err := s.intake.Store().Read(t.Context(), func(v *store.Snapshot) error { return v.Scan("SELECT max(seq) FROM jobs", nil, &seq) }); err != nil {
			t.Fatal(err)
		}
		return strings.NewReplacer("{index}", "vale", "{id}", "vale:7:1709251260", "{type}", "jobcomp", "{seq}", fmt.Sprint(seq), "{name}", name).Replace(path)
	}
	// The order matters: the job in the examples has the index to which it was sent last.
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		for _, method := range slices.Sorted(maps.Keys(paths[path])) {
			o := paths[path][method]
			if method == "delete" {
				continue // done below, when there is something to delete
			}
			names := []string{"x"}
			switch {
			case strings.Contains(path, "/panels/"):
				names = []string{"summary", "table", "health-main"}
			case strings.Contains(path, "/assets/"):
				names = []string{"style.css", "app.js"}
			}
			kind, body := o.example(t)
			for _, name := range names {
				if code := check(path, method, "the example", o, send(method, fill(path, name), kind, body)); code >= 400 && !strings.Contains(path, "/reports/") && !strings.Contains(path, "/compare") {
					t.Errorf("%s %s: the example gets %d", method, path, code)
				}
			}
			for _, body := range []string{"", "{", `{"x":1}`, `[]`} {
				check(path, method, body, o, send(method, fill(path, "x"), kind, body))
			}
			check(path, method, "what is absent", o, send(method, strings.NewReplacer("{index}", "absent", "{id}", "x", "{type}", "x", "{seq}", "x", "{name}", "absent").Replace(path), kind, body))
			checkParameters(t, path, method, o, func(query string) *httptest.ResponseRecorder {
				return send(method, fill(path, names[0])+query, kind, body)
			})
		}
	}
	path := "/_ui/api/v1/views/{name}"
	for _, want := range []int{http.StatusNoContent, http.StatusNotFound} {
		if code := check(path, "delete", "a view", paths[path]["delete"], send("delete", fill(path, "x"), "", "")); code != want {
			t.Errorf("deleting a view: %d, want %d", code, want)
		}
	}
	if w := send("get", "/openapi.json", "", ""); !bytes.Equal(w.Body.Bytes(), schemas.Accounting) {
		t.Errorf("the served description: %.200s", w.Body)
	}
}

// checkParameters sends each described parameter of a search. Searches must refuse all others.
func checkParameters(t *testing.T, path, method string, o *operation, send func(query string) *httptest.ResponseRecorder) {
	t.Helper()
	search := false
	for _, p := range o.Parameters {
		search = search || p.Name == "error_trace"
	}
	if !search {
		return
	}
	for _, p := range o.Parameters {
		if p.In != "query" {
			continue
		}
		if w := send("?" + url.QueryEscape(p.Name) + "="); strings.Contains(w.Body.String(), "unrecognized parameter") {
			t.Errorf("%s %s: the parameter %s: %s", method, path, p.Name, w.Body)
		}
	}
	if w := send("?sice=1"); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "sice") {
		t.Errorf("%s %s: a parameter that is not described gets %d", method, path, w.Code)
	}
}
