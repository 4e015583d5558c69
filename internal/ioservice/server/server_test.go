package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"rmreplay/internal/accounting/servertest"
	"rmreplay/internal/hpc"
	"rmreplay/internal/ioservice"
	"rmreplay/internal/ioservice/counters"
	"rmreplay/internal/wal"
)

// forkClient behaves like the client in the Slurm-LDMS project's fork of Slurm. It keeps one
// connection, sends requests without a newline, and reads an answer with one call of up to 1,024
// bytes. It tries three times, each time on a new connection.
type forkClient struct {
	address string
	conn    net.Conn
	count   int
}

func (c *forkClient) ask(fields map[string]any) (map[string]any, error) {
	var last error
	for range 3 {
		if c.conn == nil {
			conn, err := net.Dial("tcp", c.address)
			if err != nil {
				return nil, err // as the fork, which then gives up
			}
			c.conn = conn
		}
		answer, err := c.once(fields)
		if err == nil {
			return answer, nil
		}
		last = err
		_ = c.conn.Close()
		c.conn = nil
	}
	return nil, fmt.Errorf("tried 3 times: %w", last)
}

func (c *forkClient) once(fields map[string]any) (map[string]any, error) {
	c.count++
	id := fmt.Sprint(c.count)
	fields["req_id"] = id
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	if _, err := c.conn.Write(text); err != nil {
		return nil, err
	}
	buffer := make([]byte, 1024)
	n, err := c.conn.Read(buffer)
	if err != nil {
		return nil, err
	}
	var answer map[string]any
	if err := json.Unmarshal(buffer[:n], &answer); err != nil {
		return nil, fmt.Errorf("%w: %q", err, buffer[:n])
	}
	if answer["req_id"] != id {
		return nil, fmt.Errorf("the answer is to %v, not to %s", answer["req_id"], id)
	}
	return answer, nil
}

// steady is a source with the same use for every job.
type steady struct{}

func (steady) Use(ioservice.Job) (counters.Use, bool) {
	return counters.Use{Start: hpc.Unix(1), End: hpc.Unix(61), RunTime: time.Minute, Mean: 1000, Variance: 100}, true
}
func (steady) Rate(hpc.Time, hpc.Time) (float64, bool) { return 1000, true }

func newService(t testing.TB, log ioservice.Log, saved []byte, records [][]byte) *ioservice.Service {
	t.Helper()
	config := ioservice.DefaultConfig()
	config.Bandwidth = 10_000
	s, err := ioservice.New(config, []ioservice.Source{steady{}}, log, saved, records)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// serve runs a server on a free port until the test ends. It returns the server and its address.
func serve(t testing.TB, change func(*Limits)) (*Server, string) {
	t.Helper()
	s := &Server{Service: newService(t, nil, nil, nil), Now: func() hpc.Time { return hpc.Unix(1_700_000_000) }, Limits: DefaultLimits()}
	if change != nil {
		change(&s.Limits)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	return s, listener.Addr().String()
}

func usage() map[string]any { return map[string]any{"type": "usage", "request": []string{"lustre"}} }

// works fails the test if a new client gets no good answer.
func works(t *testing.T, address string) {
	t.Helper()
	c := forkClient{address: address}
	answer, err := c.ask(usage())
	if err != nil || answer["status"] != "OK" {
		t.Errorf("%v, %v", answer, err)
	}
	if c.conn != nil {
		_ = c.conn.Close()
	}
}

func TestForkClient(t *testing.T) {
	s, address := serve(t, nil)
	c := forkClient{address: address}
	class := ioservice.ClassOfArguments([]string{"job", "1"})
	answer, err := c.ask(map[string]any{"type": "variety_id/auto", "script_args": []string{"job", "1"}, "script_name": "#!/bin/sh\n" + strings.Repeat("echo }{\"\\ \n", 10_000), "min_nodes": "1", "max_nodes": "-2", "UID": "0"})
	if err != nil || answer["variety_id"] != class {
		t.Errorf("%v, %v", answer, err)
	}
	if answer, err = c.ask(map[string]any{"type": "process_job", "job_id": "12", "variety_id": class}); err != nil || answer["status"] != "ACK" {
		t.Errorf("%v, %v", answer, err)
	}
	if err := s.Service.Advance(hpc.Unix(1_700_000_020)); err != nil {
		t.Fatal(err)
	}
	answer, err = c.ask(map[string]any{"type": "job_utilization", "variety_id": class})
	if diff := cmp.Diff(map[string]any{"time_limit": "1", "lustre": "1000"}, answer["response"]); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
	s.closeAll() // like a restart of the service: the client must try again
	if answer, err = c.ask(usage()); err != nil || answer["status"] != "OK" {
		t.Errorf("%v, %v", answer, err)
	}
	_ = c.conn.Close()
}

// TestEpilogProgram sends the message of the Slurm-LDMS project's epilog program
// (slurm_epilog_variety_id, sevi.c): one object as cJSON prints it, without a newline, on a
// connection that the program closes after the answer. White space before the object must not
// matter.
func TestEpilogProgram(t *testing.T) {
	s, address := serve(t, nil)
	for i, before := range []string{"", " ", "\n", "\r\n\t  \n"} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		const request = `%s{"type":"process_job","job_id":"%d","variety_id":"75711587824953c3","req_id":"1"}`
		if _, err := fmt.Fprintf(conn, request, before, 40+i); err != nil {
			t.Fatal(err)
		}
		buffer := make([]byte, 4096)
		n, err := conn.Read(buffer)
		if got := string(buffer[:n]); err != nil || got != `{"req_id":"1","status":"ACK"}`+"\n" {
			t.Errorf("%q before it: %q, %v", before, got, err)
		}
		_ = conn.Close()
	}
	if err := s.Service.Advance(hpc.Unix(1_700_000_020)); err != nil {
		t.Fatal(err)
	}
	if _, known := s.Service.Predict("75711587824953c3"); !known {
		t.Error("the jobs taught the service nothing")
	}
}

// TestStream: a request may arrive in pieces, and several requests may arrive together.
func TestStream(t *testing.T) {
	_, address := serve(t, nil)
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	text := `{"type":"variety_id/manual","variety_name":"a}\"{","req_id":"1"}{"type":"usage","req_id":"2"}` + "\n \r\n" + `{"type":"usage","x":{"y":[{}]},"req_id":"3"}`
	for i := range len(text) {
		if _, err := conn.Write([]byte{text[i]}); err != nil {
			t.Fatal(err)
		}
	}
	r := bufio.NewReader(conn)
	for _, want := range []string{`{"req_id":"1","status":"OK"`, `{"req_id":"2","status":"OK"`, `{"req_id":"3","status":"OK"`} {
		if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, want) {
			t.Errorf("%q, %v, want %s", line, err, want)
		}
	}
}

// TestBadClients: others are served although some clients send garbage or requests that never end,
// read no answers, or are idle.
func TestBadClients(t *testing.T) {
	_, address := serve(t, func(l *Limits) {
		l.Connections, l.Message, l.Request, l.Write = 8, 10_000, 50*time.Millisecond, 50*time.Millisecond
	})
	dial := func(text string) net.Conn {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	read := func(conn net.Conn) string {
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		text, err := io.ReadAll(conn)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("the connection is not closed")
		}
		return string(text)
	}
	refused := `{"req_id":"error","status":"error","error":"JSON decode error"}` + "\n"
	const request = `{"type":"usage","req_id":"7"}`
	for _, garbage := range []string{
		"GET / HTTP/1.1\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: 29\r\n\r\n" + request, "garbage" + request,
		"[" + request + "]", "\x16\x03\x01", "}",
	} {
		if got := read(dial(garbage)); got != refused {
			t.Errorf("%q: %q", garbage, got)
		}
		got := read(dial(request + garbage))
		if !strings.HasPrefix(got, `{"req_id":"7","status":"OK"`) || !strings.HasSuffix(got, "}\n"+refused) {
			t.Errorf("a request, then %q: %q", garbage, got)
		}
	}
	if got := read(dial(`{"type":"usage","req_id":"1`)); got != "" {
		t.Errorf("half a request: %q", got)
	}
	if got := read(dial(`{"x":"` + strings.Repeat("a", 20_000))); got != "" && !strings.Contains(got, "more than 10000 bytes") {
		t.Errorf("a long request: %q", got)
	}
	for range 40 { // these clients connect and send nothing
		dial("")
		works(t, address)
	}
	flood := dial("")
	var group sync.WaitGroup
	group.Go(func() { // a client that sends requests and does not read answers
		for err := error(nil); err == nil; {
			_, err = flood.Write(bytes.Repeat([]byte(`{"type":"usage","req_id":"1"}`), 1000))
		}
	})
	works(t, address)
	group.Wait()
	works(t, address)
}

// TestHalfOpenClients: a client that has closed its sending side after a request gets the answer.
// Others are served although some clients vanish within a request or before the answer.
func TestHalfOpenClients(t *testing.T) {
	_, address := serve(t, func(l *Limits) { l.Connections = 4 })
	dial := func(text string) *net.TCPConn {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		return conn.(*net.TCPConn)
	}
	const request = `{"type":"usage","request":["lustre"],"req_id":"7"}`
	half := dial(request)
	defer half.Close()
	if err := half.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(half); err != nil || !strings.HasPrefix(string(answer), `{"req_id":"7","status":"OK"`) {
		t.Errorf("%q, %v", answer, err)
	}
	for i := range 40 {
		text := request[:len(request)-i%2*10] // every second request is cut
		conn := dial(text)
		if err := errors.Join(conn.SetLinger(0), conn.Close()); err != nil { // sends a reset, like a node that crashes
			t.Fatal(err)
		}
		works(t, address)
	}
}

func TestFramer(t *testing.T) {
	var f framer
	var got []string
	feed := func(text string) {
		f.add([]byte(text))
		for {
			object, bad := f.next()
			if object == nil && !bad {
				return
			}
			got = append(got, string(object))
		}
	}
	feed(` {"a":"}"} {`)
	feed(`"b":{}`)
	feed(`} x{}`)
	if diff := cmp.Diff([]string{`{"a":"}"}`, `{"b":{}}`, ""}, got); diff != "" || f.pending() != 0 {
		t.Errorf("%s, %d pending", diff, f.pending())
	}
}

func FuzzFramer(f *testing.F) {
	f.Add([]byte(`{"a":"}"} {}x{`), 3)
	f.Add([]byte(`{"\\\"":{}}`), 1)
	f.Fuzz(func(t *testing.T, data []byte, piece int) {
		var frames framer
		for chunk := range slices.Chunk(data, min(max(1, piece), 100)) {
			frames.add(chunk)
			for range len(data) + 2 {
				object, bad := frames.next()
				if object == nil && !bad {
					break
				}
				if !bad && (object[0] != '{' || object[len(object)-1] != '}') {
					t.Fatalf("%q", object)
				}
			}
			if frames.pending() > len(data) {
				t.Fatalf("%d bytes pending of %d", frames.pending(), len(data))
			}
		}
	})
}

// TestSchemathesis lets the fuzzer Schemathesis make requests from the interface's description.
func TestSchemathesis(t *testing.T) {
	servertest.Python(t, "schemathesis")
	s := &Server{Service: newService(t, nil, nil, nil), Now: func() hpc.Time { return hpc.Unix(1_700_000_000) }, Limits: DefaultLimits()}
	web := httptest.NewServer(s.Handler(func() any { return map[string]int{"samples": 3} }))
	defer web.Close()
	servertest.Schemathesis(t, "../../../docs/schemas/io.openapi.json", web.URL)
}

// TestHTTP sends requests to every described route, and validates the answers with the description.
func TestHTTP(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "schemas", "io.openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("io.json", doc); err != nil {
		t.Fatal(err)
	}
	var api struct {
		Paths map[string]map[string]struct {
			RequestBody struct {
				Content map[string]struct {
					Example json.RawMessage `json:"example"`
				} `json:"content"`
			} `json:"requestBody"`
			Responses map[string]any `json:"responses"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(text, &api); err != nil {
		t.Fatal(err)
	}
	s := &Server{Service: newService(t, nil, nil, nil), Now: func() hpc.Time { return hpc.Unix(1_700_000_000) }, Limits: DefaultLimits()}
	s.Limits.Message = 5000
	web := httptest.NewServer(s.Handler(func() any { return map[string]int{"samples": 3} }))
	defer web.Close()
	if err := s.Service.Learn(1, ioservice.Job{ID: "1", Class: "c", Name: "ior"}, counters.Use{RunTime: time.Minute, Mean: 1000}); err != nil {
		t.Fatal(err)
	}
	described := map[string]string{}
	for path, methods := range api.Paths {
		for method, operation := range methods {
			described[path] = strings.ToUpper(method)
			bodies := []string{"of another site", "", "{}", "[", strings.Repeat("x", 6000)}
			bodies = append(bodies, string(operation.RequestBody.Content["application/json"].Example))
			for i, body := range bodies {
				site := "same-origin"
				if i == 0 {
					site = "cross-site"
				}
				code, answer := exchange(t, strings.ToUpper(method), web.URL+path, body, site)
				if (code == http.StatusForbidden) != (i == 0) {
					t.Errorf("%s %s %.20q, %s: %d %s", method, path, body, site, code, answer)
				}
				if _, known := operation.Responses[fmt.Sprint(code)]; !known {
					t.Errorf("%s %s: status %d is not described: %s", method, path, code, answer)
					continue
				}
				if i == len(bodies)-1 && code >= 300 {
					t.Errorf("%s %s: the example gets %d: %s", method, path, code, answer)
				}
				where := "io.json#/paths/" + strings.ReplaceAll(strings.ReplaceAll(path, "~", "~0"), "/", "~1") + "/" + method + "/responses/" + fmt.Sprint(code) + "/content/application~1json/schema"
				schema, err := compiler.Compile(where)
				if err != nil {
					t.Fatal(err)
				}
				value, err := jsonschema.UnmarshalJSON(bytes.NewReader(answer))
				if err == nil {
					err = schema.Validate(value)
				}
				if err != nil {
					t.Errorf("%s %s: %v: %s", method, path, err, answer)
				}
			}
		}
	}
	if diff := cmp.Diff(Routes(), described); diff != "" {
		t.Errorf("routes and described paths differ: %s", diff)
	}
	response, err := http.Post(web.URL+"/v1/usage", "text/plain", strings.NewReader("{}"))
	if err != nil || response.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("a form: %v, %v", response, err)
	}
	_ = response.Body.Close()
}

// exchange sends a request as a browser does. site is the browser's Sec-Fetch-Site: same-origin
// for a page of the service, cross-site for a page of another site. The results are the status and
// the body of the answer.
func exchange(t *testing.T, method, url, body, site string) (int, []byte) {
	t.Helper()
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Sec-Fetch-Site", site)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, text
}

// BenchmarkRequests measures usage requests on one connection, as the fork's scheduler makes them.
func BenchmarkRequests(b *testing.B) {
	_, address := serve(b, nil)
	c := forkClient{address: address}
	for b.Loop() {
		if _, err := c.ask(usage()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	_ = c.conn.Close()
}

// BenchmarkProcess measures requests whose answers wait for the disk, on 8 connections per CPU.
func BenchmarkProcess(b *testing.B) {
	log, saved, records, err := wal.OpenState(filepath.Join(b.TempDir(), "state"), "io")
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	s, address := serve(b, nil)
	s.Service = newService(b, log, saved, records)
	var next atomic.Int64
	b.SetParallelism(8)
	b.RunParallel(func(p *testing.PB) {
		c := forkClient{address: address}
		for p.Next() {
			id := next.Add(1)
			if answer, err := c.ask(map[string]any{"type": "process_job", "job_id": fmt.Sprint(id), "variety_id": "c"}); err != nil || answer["status"] != "ACK" {
				b.Errorf("%v, %v", answer, err)
				return
			}
			if id%10_000 == 0 {
				if err := s.Service.Advance(hpc.Unix(1_800_000_000)); err != nil {
					b.Error(err)
				}
			}
		}
		if c.conn != nil {
			_ = c.conn.Close()
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}
