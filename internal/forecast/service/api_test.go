package service

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"rmreplay/docs/schemas"
	"rmreplay/internal/access"
	"rmreplay/internal/accounting/servertest"
)

// judgedService returns a service with forecasts, some of them judged.
func judgedService(t *testing.T) (*cluster, *Service) {
	t.Helper()
	c := newCluster(t)
	s := c.open(filepath.Join(t.TempDir(), "data"))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for range 3 {
		c.turn(s)
		c.at = c.at.Add(5 * time.Minute)
	}
	c.jobs[0].start, c.jobs[0].id, c.jobs[0].user = 14*time.Minute, "3", "ann"
	c.jobs = slices.Delete(c.jobs, 2, 3)
	c.turn(s)
	return c, s
}

// TestOpenAPI compares the description with the handlers: the paths are the same, and answers are valid.
func TestOpenAPI(t *testing.T) {
	_, s := judgedService(t)
	empty := newCluster(t).open(filepath.Join(t.TempDir(), "data"))
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemas.Forecast))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("api.json", doc); err != nil {
		t.Fatal(err)
	}
	var api struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct {
				Ref string `json:"$ref"`
			}
		}
	}
	if err := json.Unmarshal(schemas.Forecast, &api); err != nil {
		t.Fatal(err)
	}
	var described []string
	for path := range api.Paths {
		described = append(described, "GET "+path)
	}
	slices.Sort(described)
	if diff := cmp.Diff(slices.Sorted(slices.Values(s.Routes())), described); diff != "" {
		t.Errorf("the paths of the handlers and of the description differ: %s", diff)
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D")
	for _, path := range described {
		path = strings.TrimPrefix(path, "GET ")
		for i, service := range []*Service{s, empty, s, s} {
			asked := strings.Replace(path, "{id}", []string{"4", "4", "99", "x"}[i], 1)
			var text string
			status := get(t, service.Handler(nil), asked, &text)
			kind := "application/json"
			if path == "/metrics" {
				kind = "text/plain"
			}
			answer, known := api.Paths[path]["get"].Responses[fmt.Sprint(status)]
			if !known {
				t.Errorf("%s: status %d is not described: %s", asked, status, text)
				continue
			}
			if kind == "text/plain" {
				continue
			}
			at := "#/paths/" + escape.Replace(path) + "/get/responses/" + fmt.Sprint(status)
			if answer.Ref != "" {
				at = answer.Ref
			}
			schema, err := compiler.Compile("api.json" + at + "/content/" + escape.Replace(kind) + "/schema")
			if err != nil {
				t.Fatal(err)
			}
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
			if err == nil {
				err = schema.Validate(value)
			}
			if err != nil {
				t.Errorf("%s: %v: %s", asked, err, text)
			}
		}
	}
}

// TestSchemathesis lets a fuzzer send requests that follow the service's description.
func TestSchemathesis(t *testing.T) {
	servertest.Python(t, "schemathesis")
	_, s := judgedService(t)
	web := httptest.NewServer(s.Handler(nil))
	defer web.Close()
	servertest.Schemathesis(t, "../../../docs/schemas/forecast.openapi.json", web.URL)
}

// TestWho checks which jobs a client sees if the site hides jobs, and which clients are refused.
func TestWho(t *testing.T) {
	c := newCluster(t)
	c.private = true
	s := c.open(filepath.Join(t.TempDir(), "data"))
	c.turn(s)
	file := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(file, []byte("user ann secret\nall root pass\nuser token abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	credentials, err := access.Read(file, User, All)
	if err != nil {
		t.Fatal(err)
	}
	basic := func(user, password string) string {
		r := httptest.NewRequest("GET", "/", nil)
		r.SetBasicAuth(user, password)
		return r.Header.Get("Authorization")
	}
	for _, tt := range []struct {
		name, header string
		credentials  *access.Access
		seen         int // pending jobs
		mine, other  int // HTTP statuses of a job of ann's and of a job of bob's
	}{
		{"nobody", "", nil, 0, 404, 404}, {"without credentials", "", credentials, 0, 401, 401},
		{"wrong", basic("ann", "pass"), credentials, 0, 401, 401}, {"ann", basic("ann", "secret"), credentials, 1, 200, 404},
		{"root", basic("root", "pass"), credentials, 5, 200, 200}, {"a token", "Bearer abc", credentials, 0, 404, 404},
	} {
		h := s.Handler(tt.credentials)
		var a jobAnswer
		get(t, h, "/v1/jobs", &a, "Authorization", tt.header)
		mine := get(t, h, "/v1/jobs/3", nil, "Authorization", tt.header)
		other := get(t, h, "/v1/jobs/4", nil, "Authorization", tt.header)
		running := get(t, h, "/v1/jobs/2", nil, "Authorization", tt.header)
		if len(a.Jobs) != tt.seen || a.Pending != tt.seen || mine != tt.mine || other != tt.other || running != tt.other {
			t.Errorf("%s: %d jobs, %d %d %d", tt.name, len(a.Jobs), mine, other, running)
		}
	}
	for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "http://evil.example"}} {
		if status := get(t, s.Handler(nil), "/v1/status", nil, headers...); status != http.StatusForbidden {
			t.Errorf("%q: %d", headers, status)
		}
	}
}

// TestSocket: on a Unix socket the service knows who asks. A killed service leaves its socket,
// which the next service replaces.
func TestSocket(t *testing.T) {
	c := newCluster(t)
	c.private = true
	s := c.open(filepath.Join(t.TempDir(), "data"))
	c.turn(s)
	path := filepath.Join(t.TempDir(), "socket")
	left, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	left.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), path); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a second service: %v", err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, s.Handler(nil), []net.Listener{l}) }()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	response, err := client.Get("http://localhost/v1/jobs")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var a jobAnswer
	if err := json.NewDecoder(response.Body).Decode(&a); err != nil || len(a.Jobs) != 5 { // the owner sees all
		t.Errorf("%v, %d jobs", err, len(a.Jobs))
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for address, want := range map[string]string{
		"0.0.0.0:80": "all users of the network", "x": "want HOST:PORT", "127.0.0.1:1": "", "localhost:1": "", "/run/x": "", "[::1]:2": "",
	} {
		err := CheckAddress(address, false)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := CheckAddress("0.0.0.0:80", true); err != nil {
		t.Error(err)
	}
}
