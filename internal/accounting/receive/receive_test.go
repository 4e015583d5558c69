package receive_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/access"
	"rmreplay/internal/accounting/intake"
	"rmreplay/internal/accounting/receive"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
)

// serve starts a server with a new data directory.
func serve(t testing.TB, who *access.Access) (*httptest.Server, *intake.Intake) {
	t.Helper()
	in, err := intake.Open(context.Background(), t.TempDir(), intake.Options{Now: time.Now, Report: func(err error) { t.Log(err) }})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(receive.New(in, who))
	t.Cleanup(func() {
		server.Close()
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	})
	return server, in
}

// send sends a request, and returns the status and the decoded body of the response.
func send(t testing.TB, method, url, body string, header ...string) (int, map[string]any) {
	t.Helper()
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%s %s: %s", method, url, text)
	}
	return response.StatusCode, v
}

// row runs a query that returns one text, after all documents have been applied.
func row(t testing.TB, in *intake.Intake, query string) (text string) {
	t.Helper()
	if err := in.Wait(context.Background(), in.Status().Received); err != nil {
		t.Fatal(err)
	}
	err := in.Store().Read(context.Background(), func(v *store.Snapshot) error { return v.Scan(query, nil, &text) })
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestDocuments sends single documents, also odd ones, to each path. All are stored.
func TestDocuments(t *testing.T) {
	server, in := serve(t, nil)
	document := func(n int64) string { return string(storetest.Entry(n).Document) }
	for i, path := range []string{"/slurm/_doc", "/slurm/_doc/x", "/slurm/jobcomp", "/slurm", "/", "/slurm/_create/7", "/slurm/_doc/"} {
		if status, v := send(t, "POST", server.URL+path, document(int64(i+1))); status != http.StatusCreated || v["result"] != "created" {
			t.Errorf("%s: %d %v", path, status, v)
		}
	}
	if got := row(t, in, "SELECT count(*) || ' ' || count(DISTINCT id) || ' ' || min(collection) FROM jobs"); got != "7 7 slurm" {
		t.Error(got)
	}
	odd := []string{
		"no JSON", "{", "[]", "7", `{"jobid":"seven"}`, `{"jobid":1,"jobid":2,"@start":"yesterday"}`, `{"jobid":9e99,"later":{"a":[1,{"b":2}]}}`,
		"{\"jobid\":3,\"job_name\":\"M\xfcller\",\"@start\":\"2024-03-01T00:00:00\",\"@end\":\"2024-03-01T00:00:01\",\"nodes\":\"n1\",\"state\":\"COMPLETED\"}",
		`{"jobid":4,"job_name":"nul \u0000 and \ud800 half","@submit":"2024-03-01T00:00:00"}`, strings.Repeat(`{"a":`, 100_000),
		`{"jobid":5,"elapsed":-99999999999999999999,"total_cpus":-1,"time_limit":18446744073709551615,"tres_alloc":"cpu=,mem=x,,=="}`,
		`{"state":"PENDING","@end":"9999-12-31T23:59:59","@start":"0000-00-00T00:00:00","@submit":"Unknown"}`, `{"jobid":6}{"jobid":7}`,
	}
	for _, text := range odd {
		if status, v := send(t, "POST", server.URL+"/odd/_doc?refresh=wait_for", text); status != http.StatusCreated {
			t.Errorf("%.60q: %d %v", text, status, v)
		}
	}
	want := fmt.Sprint(len(odd), " ", len(odd))
	if got := row(t, in, "SELECT count(*) || ' ' || count(marks) FROM jobs WHERE collection = 'odd'"); got != want {
		t.Errorf("%s of the odd documents were kept and marked, want %s", got, want)
	}
	if got := row(t, in, "SELECT job_name FROM jobs WHERE jobid = 3 AND collection = 'odd'"); got != "Müller" {
		t.Error(got)
	}
	if got := strings.Join(slices.Sorted(maps.Keys(in.Store().Summary().Counts)), " "); !strings.Contains(got, "bad_value") || !strings.Contains(got, "not_utf8") {
		t.Error(got)
	}
	for _, c := range []struct{ method, path, body string }{{"POST", "/slurm/_doc", " "}, {"POST", "/_all/_doc", "{}"}, {"POST", "/slurm/_frobnicate", "{}"}} {
		if status, v := send(t, c.method, server.URL+c.path, c.body); status != http.StatusBadRequest {
			t.Errorf("%s %s: %d %v", c.method, c.path, status, v)
		}
	}
}

// TestSame checks how several documents about one run replace each other.
func TestSame(t *testing.T) {
	server, in := serve(t, nil)
	const (
		ran     = `{"jobid":1,"@submit":"2024-03-01T00:00:00","@start":"2024-03-01T00:01:00","@end":"2024-03-01T00:02:00","nodes":"n1","state":"PENDING","cluster":"vale"}`
		again   = `{"jobid":1,"@submit":"2024-03-01T00:02:00","@start":"2024-03-01T00:05:00","@end":"2024-03-01T00:06:00","nodes":"n1","state":"COMPLETED","cluster":"vale"}`
		changed = `{"jobid":1,"@submit":"2024-03-01T00:02:00","@start":"2024-03-01T00:05:00","@end":"2024-03-01T00:07:00","nodes":"n1","state":"NODE_FAIL","cluster":"vale"}`
		began   = `{"jobid":1,"@submit":"2024-03-01T00:02:00","@start":"2024-03-01T00:05:00","nodes":"n1","cluster":"vale"}`
		reused  = `{"jobid":1,"@submit":"2025-03-01T00:00:00","@start":"Unknown","@end":"2025-03-01T00:00:09","state":"CANCELLED","cluster":"vale"}`
		other   = `{"jobid":1,"@submit":"2024-03-01T00:02:00","@start":"2024-03-01T00:05:00","@end":"2024-03-01T00:06:00","nodes":"n1","state":"COMPLETED","cluster":"moor"}`
	)
	for _, step := range []struct{ document, want string }{
		{began, "1"},
		{ran, "1 -PENDING"},
		{ran, "1 -PENDING"}, // sent again because the response was lost
		{again, "COMPLETED -PENDING"},
		{again, "COMPLETED -PENDING"},
		{changed, "NODE_FAIL -PENDING"},
		{began, "NODE_FAIL -PENDING"},
		{reused, "CANCELLED -NODE_FAIL -PENDING"},
		{other, "CANCELLED -COMPLETED -NODE_FAIL -PENDING"},
	} {
		if status, v := send(t, "POST", server.URL+"/slurm/_doc?refresh", step.document); status != http.StatusCreated {
			t.Fatal(v)
		}
		if got := row(t, in, "SELECT string_agg(coalesce(state, '1'), ' -' ORDER BY coalesce(state, '1')) FROM jobs"); got != step.want {
			t.Errorf("after %s: %s, want %s", step.document, got, step.want)
		}
	}
	if got := row(t, in, `SELECT count(*) || ' ' || count(document) FROM jobs`); got != "4 4" {
		t.Error(got)
	}
	if out := in.Status().Outcome; out != (store.Outcome{Added: 4, Duplicate: 3, Replaced: 2}) {
		t.Errorf("%+v", out)
	}
	// The same in one batch.
	server, in = serve(t, nil)
	var bulk strings.Builder
	for _, text := range []string{began, ran, ran, again, again, changed, began, reused, other} {
		bulk.WriteString("{\"index\":{}}\n" + text + "\n")
	}
	if status, v := send(t, "POST", server.URL+"/slurm/_bulk?refresh", bulk.String()); status != http.StatusOK || v["errors"] != false {
		t.Fatal(v)
	}
	if got := row(t, in, "SELECT string_agg(state, ' ' ORDER BY state) FROM jobs"); got != "CANCELLED COMPLETED NODE_FAIL PENDING" {
		t.Error(got)
	}
}

func TestBulk(t *testing.T) {
	server, in := serve(t, nil)
	var body bytes.Buffer
	inflate := gzip.NewWriter(&body)
	for n := range int64(500) {
		fmt.Fprintf(inflate, "{\"create\":{\"_index\":\"slurm\"}}\n%s\n", storetest.Entry(n+1).Document)
	}
	if err := inflate.Close(); err != nil {
		t.Fatal(err)
	}
	status, v := send(t, "POST", server.URL+"/_bulk", body.String(), "Content-Encoding", "gzip")
	if status != http.StatusOK || v["errors"] != false || len(v["items"].([]any)) != 500 {
		t.Fatal(status, v)
	}
	if got := row(t, in, "SELECT count(*)::VARCHAR FROM jobs"); got != "500" {
		t.Error(got)
	}
	status, v = send(t, "POST", server.URL+"/a/_bulk", "{\"delete\":{\"_id\":\"1\"}}\n{\"update\":{}}\n{}\n{\"index\":{\"_index\":\"_x\"}}\n{}\n\n{\"index\":{}}\n{\"jobid\":1}")
	if status != http.StatusOK || v["errors"] != true {
		t.Fatal(status, v)
	}
	var kinds []string
	for _, it := range v["items"].([]any) {
		for name, result := range it.(map[string]any) {
			kinds = append(kinds, fmt.Sprint(name, " ", result.(map[string]any)["status"]))
		}
	}
	if got := strings.Join(kinds, ", "); got != "delete 400, update 400, index 400, index 201" {
		t.Error(got)
	}
	for _, text := range []string{"", "\n\n", "{}\n{}", "no JSON\n{}", `{"index":{}}`} {
		if status, v := send(t, "POST", server.URL+"/a/_bulk", text); status != http.StatusBadRequest {
			t.Errorf("%q: %d %v", text, status, v)
		}
	}
}

// TestBodies checks the limits of bodies, and that a client sends a long body after 100 Continue.
func TestBodies(t *testing.T) {
	server, in := serve(t, nil)
	var bomb bytes.Buffer
	inflate := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range receive.MaxBody>>20 + 2 {
		if _, err := inflate.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := inflate.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		body, encoding string
		want           int
	}{
		{bomb.String(), "gzip", http.StatusRequestEntityTooLarge},
		{"plain", "gzip", http.StatusBadRequest},
		{"x", "zstd", http.StatusUnsupportedMediaType},
		{`{"jobid":1,"script":"` + strings.Repeat("x", 3<<20) + `"}`, "", http.StatusCreated},
	} {
		header := []string{"Expect", "100-continue"}
		if c.encoding != "" {
			header = append(header, "Content-Encoding", c.encoding)
		}
		if status, v := send(t, "POST", server.URL+"/slurm/_doc", c.body, header...); status != c.want {
			t.Errorf("%s %.20q: %d %v", c.encoding, c.body, status, v)
		}
	}
	if got := row(t, in, "SELECT script_bytes || ' ' || octet_length(document) FROM jobs"); got != fmt.Sprint(3<<20, " ", 3<<20+23) {
		t.Error(got)
	}
}

func TestAccess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access")
	write := func(text string, mode os.FileMode) (*access.Access, error) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		return access.Read(file, receive.Ingest, receive.Read, receive.All)
	}
	for _, c := range []struct {
		text string
		mode os.FileMode
		want string
	}{
		{"all a b", 0o644, "chmod 600"}, {"", 0o600, "it has no credentials"}, {"write a b", 0o600, ":1: role"}, {"# x\n\nall a", 0o600, ":3: 2 words"},
		{"all a:b c", 0o600, ":1: user"}, {"read ann x\nall token y\nall token z\ningest ann z", 0o600, ":4: user \"ann\" has a password in line 1"},
	} {
		if _, err := write(c.text, c.mode); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.text, err)
		}
	}
	who, err := write("ingest slurm s3cret\nread token abc\n all root pass", 0o600)
	if err != nil {
		t.Fatal(err)
	}
	server, _ := serve(t, who)
	basic := func(user, password string) string {
		r := httptest.NewRequest("GET", "/", nil)
		r.SetBasicAuth(user, password)
		return r.Header.Get("Authorization")
	}
	for _, c := range []struct {
		credentials  string
		ingest, read int
	}{
		{"", 401, 401}, {basic("slurm", "s3cret"), 201, 403}, {basic("slurm", "abc"), 401, 401}, {"Bearer abc", 403, 404}, {"ApiKey abc", 403, 404},
		{basic("root", "pass"), 201, 404}, {basic("token", "abc"), 401, 401}, {"Basic !!", 401, 401}, {"Bearer", 401, 401},
	} {
		if status, v := send(t, "POST", server.URL+"/slurm/_doc", `{"jobid":1}`, "Authorization", c.credentials); status != c.ingest {
			t.Errorf("%s: ingest %d %v", c.credentials, status, v)
		}
		request, _ := http.NewRequest("GET", server.URL+receive.Pages, nil)
		request.Header.Set("Authorization", c.credentials)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != c.read {
			t.Errorf("%s: read %d", c.credentials, response.StatusCode)
		}
	}
	// Without credentials, pages of other sites must not be able to reach the server through a
	// browser.
	server, _ = serve(t, nil)
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	evil := "evil.example:9200" // a name whose owner lets it resolve to 127.0.0.1
	for _, c := range []struct {
		method, host string
		header       []string
		want         int
	}{
		{"POST", "127.0.0.1", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"POST", "127.0.0.1", []string{"Origin", "http://example.org"}, 403},
		{"GET", evil, nil, 403},
		{"GET", evil, []string{"Sec-Fetch-Site", "same-origin"}, 403},
		{"POST", evil, []string{"Origin", "http://" + evil}, 403},
		{"POST", evil, nil, 201}, // slurmctld, with a name from /etc/hosts
		{"GET", "localhost:9200", nil, 404},
		{"GET", "[::1]:9200", nil, 404},
		{"GET", own, nil, 404},
		{"POST", "localhost:9200", []string{"Origin", "http://localhost:9200"}, 201},
	} {
		if got := browse(t, server.URL, c.method, c.host, c.header...); got != c.want {
			t.Errorf("%s of %s, %q: %d, want %d", c.method, c.host, c.header, got, c.want)
		}
	}
	// Other sites may link to the pages.
	for path, want := range map[string]bool{
		"/": true, receive.Pages: true, receive.Pages + "jobs/1": true,
		receive.Pages + "api/v1/panels/jobs": false, receive.Pages + "api": false, "/_search": false, "/slurm/_search": false, "/openapi.json": false,
	} {
		request, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Site": "cross-site", "Mode": "navigate", "Dest": "document"} {
			request.Header.Set("Sec-Fetch-"+name, value)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if (response.StatusCode != http.StatusForbidden) != want {
			t.Errorf("a link to %s: %d", path, response.StatusCode)
		}
	}
	// A browser adds a known password even to requests from other sites' pages.
	server, _ = serve(t, who)
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "http://example.org"}} {
		if got := browse(t, server.URL, "POST", "127.0.0.1", append(header, "Authorization", basic("root", "pass"))...); got != http.StatusForbidden {
			t.Errorf("with a password, %q: %d", header, got)
		}
	}
	if got := browse(t, server.URL, "POST", "slurm.example.org", "Authorization", basic("root", "pass")); got != http.StatusCreated {
		t.Errorf("with a password, by a name: %d", got)
	}
}

// browse sends a document or requests the pages, with the given Host, and returns the status.
func browse(t *testing.T, server, method, host string, header ...string) int {
	t.Helper()
	path, body := "/slurm/_doc", "{}"
	if method == http.MethodGet {
		path, body = receive.Pages, ""
	}
	request, err := http.NewRequest(method, server+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}

// TestSlow checks that clients that send no body, or only a part of a body, lose their connection
// and the turns for larger bodies. Pauses of the server do not count as the client's.
func TestSlow(t *testing.T) {
	in, err := intake.Open(context.Background(), t.TempDir(), intake.Options{Now: time.Now, Report: func(err error) { t.Log(err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	file := filepath.Join(t.TempDir(), "access")
	if err := os.WriteFile(file, []byte("all root pass"), 0o600); err != nil {
		t.Fatal(err)
	}
	who, err := access.Read(file, receive.Ingest, receive.Read, receive.All)
	if err != nil {
		t.Fatal(err)
	}
	handler := receive.New(in, who)
	handler.Hurry(300 * time.Millisecond)
	handler.API.HandleFunc("POST /{index}/_slow", func(w http.ResponseWriter, r *http.Request) {
		first := make([]byte, 1)
		_, err := io.ReadFull(r.Body, first)
		time.Sleep(600 * time.Millisecond)
		rest, err2 := io.ReadAll(r.Body)
		time.Sleep(600 * time.Millisecond) // after the body, there is no deadline
		if r.Context().Err() != nil {
			t.Errorf("the request ended: %v", r.Context().Err())
		}
		fmt.Fprint(w, len(rest), err, err2)
	})
	server := httptest.NewServer(handler)
	defer server.Close()
	const password = "Authorization: Basic cm9vdDpwYXNz\r\n"
	var conns []net.Conn
	ask := func(text string) net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	defer func() {
		for _, conn := range conns {
			conn.Close()
		}
	}()
	const header = "POST /slurm/_doc HTTP/1.1\r\nHost: x\r\n"
	for _, c := range []struct{ text, want string }{
		{header + "Content-Length: 100\r\n\r\n", "HTTP/1.1 401"},
		{header + password + "Content-Length: 100\r\n\r\n", "HTTP/1.1 400"},
		{"POST /slurm/_search HTTP/1.1\r\nHost: x\r\n" + password + "Transfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 400"},
	} {
		conn := ask(c.text)
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		answer, err := io.ReadAll(conn) // until the server closes the connection
		if err != nil || !strings.HasPrefix(string(answer), c.want) {
			t.Errorf("%q: %.100q %v, want %s", c.text, answer, err, c.want)
		}
	}
	for range 4 { // one for each turn
		ask(header + password + "Content-Length: 100000000\r\n\r\n" + strings.Repeat(" ", 1<<20+1))
	}
	large := `{"jobid":1,"script":"` + strings.Repeat("x", 2<<20) + `"}`
	for range 50 {
		status, v := send(t, "POST", server.URL+"/slurm/_doc", large, "Authorization", "Basic cm9vdDpwYXNz")
		if status == http.StatusCreated {
			large = ""
			break
		}
		if status != http.StatusServiceUnavailable {
			t.Fatal(status, v)
		}
	}
	if large != "" {
		t.Error("clients that never send their bodies' ends keep all turns")
	}
	request, _ := http.NewRequest("POST", server.URL+"/slurm/_slow", strings.NewReader(strings.Repeat("x", 1<<19)))
	request.SetBasicAuth("root", "pass")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); string(text) != fmt.Sprint(1<<19-1, nil, nil) || err != nil {
		t.Errorf("%s %v", text, err)
	}
}

// TestManyActions checks that a small body cannot take gigabytes of memory.
func TestManyActions(t *testing.T) {
	server, _ := serve(t, nil)
	text := strings.Repeat("{\"index\":{}}\n{}\n", receive.MaxActions+1)
	if status, v := send(t, "POST", server.URL+"/slurm/_bulk", text); status != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %v", status, v)
	}
}

// TestRoot checks that a browser that requests the root is redirected to the pages, with its query,
// and that other clients get the server's name and version.
func TestRoot(t *testing.T) {
	server, _ := serve(t, nil)
	for _, c := range []struct{ path, accept, location string }{
		{"/", "text/html,*/*", receive.Pages}, {"/?q=user%3Aann&from=now-7d", "text/html", receive.Pages + "?q=user%3Aann&from=now-7d"},
		{"/", "application/json", ""},
	} {
		request := httptest.NewRequest("GET", c.path, nil)
		request.Host = "localhost:9200"
		request.Header.Set("Accept", c.accept)
		answer := httptest.NewRecorder()
		server.Config.Handler.ServeHTTP(answer, request)
		if got := answer.Header().Get("Location"); got != c.location || (answer.Code == http.StatusFound) != (c.location != "") {
			t.Errorf("%s for %s: %d, %q", c.path, c.accept, answer.Code, got)
		}
	}
}
