package origin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "rmreplay/internal/accounting/engine/enginetest" // the accounting server answers in tests, too
	"rmreplay/internal/accounting/service"
	"rmreplay/internal/chromium"
	"rmreplay/internal/hpc"
	"rmreplay/internal/ioservice"
	"rmreplay/internal/ioservice/server"
	"rmreplay/internal/predict"
	"rmreplay/internal/predict/model"
	predictservice "rmreplay/internal/predict/service"
	"rmreplay/internal/workload"
)

// asked is a request that reached a server, and the status of its answer.
type asked struct {
	method, path, host, site, dest string
	status                         int
}

// tap passes requests on to a server as they are, and keeps what was asked.
type tap struct {
	mu   sync.Mutex
	seen []asked
}

// listen makes the address at which clients reach the server.
func (p *tap) listen(t *testing.T, server string) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	open.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			stop := context.AfterFunc(ctx, func() { _ = client.Close() })
			open.Go(func() {
				defer stop()
				defer client.Close()
				p.pass(client, server)
			})
		}
	})
	t.Cleanup(func() { _ = listener.Close(); cancel(); open.Wait() })
	return listener.Addr().String()
}

// pass passes the requests of one connection on.
func (p *tap) pass(client net.Conn, server string) {
	behind, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer behind.Close()
	from, back := bufio.NewReader(client), bufio.NewReader(behind)
	for {
		request, err := http.ReadRequest(from)
		if err != nil {
			return
		}
		h := request.Header
		one := asked{request.Method, request.URL.Path, request.Host, h.Get("Sec-Fetch-Site"), h.Get("Sec-Fetch-Dest"), 0}
		if request.Write(behind) != nil {
			return
		}
		answer, err := http.ReadResponse(back, request)
		if err != nil {
			return
		}
		one.status = answer.StatusCode
		p.mu.Lock()
		p.seen = append(p.seen, one)
		p.mu.Unlock()
		err = answer.Write(client)
		if _ = answer.Body.Close(); err != nil {
			return
		}
	}
}

// victim is a server, with what hostile pages would read, change and link to.
type victim struct {
	name    string
	tap     tap
	address string
	reads   []string
	sends   [2]string // path and body
	page    string    // a page to which others may link; "" if there is none
	state   string    // path of the server's data
}

func (v *victim) url(path string) string { return "http://" + v.address + path }

// count returns how many requests that match were answered with a status.
func (v *victim) count(status int, matches func(*asked) bool) (n int) {
	v.tap.mu.Lock()
	defer v.tap.mu.Unlock()
	for i := range v.tap.seen {
		if one := &v.tap.seen[i]; one.status == status && matches(one) {
			n++
		}
	}
	return n
}

// known returns the server's data as a program reads them.
func (v *victim) known(t *testing.T) string {
	t.Helper()
	answer, err := http.Get(v.url(v.state))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s %v", v.name, answer.Status, text, err)
	}
	return string(text)
}

// program sends the requests of the pages as a program does.
func (v *victim) program(t *testing.T) {
	t.Helper()
	answer, err := http.Post(v.url(v.sends[0]), "application/json", strings.NewReader(v.sends[1]))
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode >= 300 {
		t.Errorf("%s: a program: %s", v.name, answer.Status)
	}
}

func accountingVictim(t *testing.T) *victim {
	v := &victim{
		name: "accounting", page: "/_ui/", state: "/_count", sends: [2]string{"/vale/_doc?refresh=true", `{"jobid":7,"job_name":"planted"}`},
		reads: []string{"/_ui/api/v1/panels/jobs", "/vale/_search", "/_count", "/_ui/api/v1/views"},
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended, address := make(chan error, 1), make(chan string, 1)
	go func() {
		opts := service.Serve{
			Data: t.TempDir(), Listen: []string{"127.0.0.1:0"}, MemoryMiB: 256, Store: service.Embedded, ClusterName: "vale",
		}
		ended <- service.New().Serve(ctx, opts, func(format string, args ...any) {
			if _, after, found := strings.Cut(fmt.Sprintf(format, args...), "receiving on http://"); found {
				at, _, _ := strings.Cut(after, ": ")
				address <- at
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case at := <-address:
		v.address = v.tap.listen(t, at)
	case err := <-ended:
		ended <- err
		t.Fatal("the server ended")
	}
	return v
}

func predictVictim(t *testing.T) *victim {
	w := new(workload.Workload)
	for i := range 100 {
		j := &hpc.Job{ID: fmt.Sprint(i), Submit: hpc.Unix(1e9 + int64(i)*600)}
		j.User, j.Tasks, j.TimeLimit, j.RunTime = "u", 1, time.Hour, time.Minute
		w.Jobs.Append(j)
	}
	cases, err := predict.CasesOf(w)
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.Train(t.Context(), cases, model.TrainOptions{Kind: model.Forest})
	if err != nil {
		t.Fatal(err)
	}
	s := predictservice.New(m, predictservice.Options{Now: func() hpc.Time { return hpc.Unix(2e9) }})
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	v := &victim{name: "predict", state: "/v1/model", reads: []string{"/v1/model"}, sends: [2]string{
		"/v1/events", `{"events":[{"event":"end","id":"1","at":"2020-01-01T00:00:00Z","state":"COMPLETED"}]}`,
	}}
	v.address = v.tap.listen(t, web.Listener.Addr().String())
	return v
}

const processed = `{"type":"process_job","job_id":"7","variety_id":"planted","req_id":"1"}`

// ioVictim returns io's HTTP side, and the address of its TCP port.
func ioVictim(t *testing.T) (v *victim, tcp string) {
	config := ioservice.DefaultConfig()
	config.Bandwidth = 10_000
	known, err := ioservice.New(config, nil, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &server.Server{Service: known, Now: func() hpc.Time { return hpc.Unix(1e9) }, Limits: server.DefaultLimits()}
	web := httptest.NewServer(s.Handler(nil))
	t.Cleanup(web.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	v = &victim{name: "io", state: "/v1/status", reads: []string{"/v1/status", "/v1/classes"}, sends: [2]string{"/v1/process_job", processed}}
	v.address = v.tap.listen(t, web.Listener.Addr().String())
	return v, listener.Addr().String()
}

// attack is the script of a page of another site. It sends requests to a server, and returns what
// the page could read.
const attack = `async (reads, send, body) => {
	const got = [], later = (ms) => new Promise((done) => setTimeout(done, ms));
	const put = (name, set) => { const e = document.createElement(name); set(e); document.body.append(e); return e; };
	const frames = [];
	for (const url of reads) {
		frames.push(put("iframe", (e) => e.src = url));
		put("object", (e) => e.data = url);
		put("embed", (e) => e.src = url);
		put("img", (e) => e.src = url);
		put("script", (e) => e.src = url);
		put("link", (e) => { e.rel = "stylesheet"; e.href = url; });
	}
	const ask = async (url, how) => {
		try {
			const text = await (await fetch(url, how)).text();
			if (text) got.push(url + ": " + text);
		} catch (e) { /* as it should */ }
	};
	for (const url of reads) {
		await ask(url, {mode: "no-cors"});
		await ask(url, {mode: "cors"});
	}
	await ask(send, {mode: "no-cors", method: "POST", body});
	await ask(send, {mode: "cors", method: "POST", headers: {"Content-Type": "application/json"}, body});
	for (const target of ["frame", "_blank"]) {
		put("iframe", (e) => e.name = "frame");
		const form = put("form", (e) => { e.method = "POST"; e.action = send; e.enctype = "text/plain"; e.target = target; });
		const field = put("input", (e) => { e.name = body.slice(0, -2); e.value = body.slice(-2); });
		form.append(field);
		form.submit();
	}
	const opened = reads.map((url) => window.open(url, "_blank"));
	await later(300);
	for (const one of [...frames.map((f) => f.contentWindow), ...opened]) {
		try { if (one?.document.body.textContent) got.push("window: " + one.document.body.textContent); } catch (e) { /* as it should */ }
	}
	return got;
}`

// read runs a function of JavaScript with the user's permission to open windows, and returns what it could read.
func read(t *testing.T, b *chromium.Browser, function string, args ...any) []string {
	t.Helper()
	text, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Result           struct{ Value []string }
		ExceptionDetails *json.RawMessage
	}
	b.Call("Runtime.evaluate", map[string]any{
		"expression": "(" + function + ")(..." + string(text) + ")", "returnByValue": true, "awaitPromise": true, "userGesture": true,
	}, &answer)
	if answer.ExceptionDetails != nil {
		t.Fatalf("%s", *answer.ExceptionDetails)
	}
	return answer.Result.Value
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 200 {
		if holds() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("%s: not within 10 s", what)
}

// TestHostilePages lets pages of other sites send requests to the three servers through a user's
// Chromium.
func TestHostilePages(t *testing.T) {
	b := chromium.Open(t, "--host-resolver-rules=MAP *.test 127.0.0.1", "--disable-popup-blocking")
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!doctype html><title>evil</title><body>")
	}))
	defer evil.Close()
	_, port, err := net.SplitHostPort(evil.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	page := "http://evil.test:" + port + "/"
	io, tcp := ioVictim(t)
	for _, v := range []*victim{accountingVictim(t), predictVictim(t), io} {
		t.Run(v.name, func(t *testing.T) {
			before := v.known(t)
			t.Run("pages", func(t *testing.T) { v.underAttack(t, b.Tab(t), page) })
			t.Run("rebinding", func(t *testing.T) { v.rebound(t, b.Tab(t)) })
			if after := v.known(t); after != before {
				t.Errorf("pages of other sites changed %s to %s", before, after)
			}
			t.Run("own", func(t *testing.T) { v.own(t, b.Tab(t), page) })
			if v.program(t); v.known(t) == before {
				t.Errorf("what the pages sent would change nothing: %s", before)
			}
		})
	}
	t.Run("tcp", func(t *testing.T) { overTCP(t, b.Tab(t), page, tcp, io) })
}

// underAttack opens a page of another site and checks that all that it does is refused.
func (v *victim) underAttack(t *testing.T, b *chromium.Browser, page string) {
	var reads []string
	for _, path := range v.reads {
		reads = append(reads, v.url(path))
	}
	if v.page != "" {
		reads = append(reads, v.url(v.page))
	}
	b.OpenURL(page)
	if got := read(t, b, attack, reads, v.url(v.sends[0]), v.sends[1]); len(got) > 0 {
		t.Errorf("the page read %q", got)
	}
	for _, u := range reads {
		path := strings.TrimPrefix(u, v.url(""))
		for _, dest := range []string{"iframe", "object", "embed", "image", "script", "style", "empty", "document"} {
			want := http.StatusForbidden
			if path == v.page && dest == "document" {
				want = http.StatusOK
			}
			eventually(t, dest+" of "+path, func() bool {
				return v.count(want, func(one *asked) bool { return one.path == path && one.dest == dest && one.method == "GET" }) > 0
			})
		}
	}
	for _, dest := range []string{"empty", "iframe", "document"} {
		eventually(t, "sending as "+dest, func() bool {
			return v.count(http.StatusForbidden, func(one *asked) bool { return one.method == "POST" && one.dest == dest }) > 0
		})
	}
	eventually(t, "asking whether it may send JSON", func() bool {
		return v.count(http.StatusForbidden, func(one *asked) bool { return one.method == "OPTIONS" }) > 0
	})
	foreign := func(one *asked) bool {
		return one.site == "cross-site" && (one.path != v.page || one.dest != "document")
	}
	for _, status := range []int{200, 201, 202, 204, 302, 400, 404, 405, 415} {
		if n := v.count(status, foreign); n > 0 {
			t.Errorf("%d requests of a page of another site have the status %d", n, status)
		}
	}
}

// rebound opens the server by a name of another site, as if the page of that site had come from
// this server.
func (v *victim) rebound(t *testing.T, b *chromium.Browser) {
	own, err := url.Parse(v.url(""))
	if err != nil {
		t.Fatal(err)
	}
	host := "rebound.test:" + own.Port()
	b.Call("Page.setBypassCSP", map[string]any{"enabled": true}, nil) // with it, the page would lack the server's policy
	b.OpenURL("http://" + host + v.reads[0])
	paths := append(slices.Clone(v.reads), v.page)
	statuses := read(t, b, `async (paths, send, body) => {
		const answers = [];
		for (const path of paths) answers.push(await fetch(path));
		answers.push(await fetch(send, {method: "POST", headers: {"Content-Type": "application/json"}, body}));
		return answers.map((a) => String(a.status));
	}`, paths, v.sends[0], v.sends[1])
	if len(statuses) != len(paths)+1 || slices.ContainsFunc(statuses, func(s string) bool { return s != "403" }) {
		t.Errorf("by the name of another site: %q", statuses)
	}
	if n := v.count(403, func(one *asked) bool { return one.host == host }); n < len(paths)+2 {
		t.Errorf("%d requests of %s reached the server", n, host)
	}
}

// own checks that the user, the server's own pages and links to its pages still work.
func (v *victim) own(t *testing.T, b *chromium.Browser, page string) {
	if v.page != "" {
		link := func(one *asked) bool { return one.path == v.page && one.site == "cross-site" }
		before := v.count(http.StatusOK, link)
		b.OpenURL(page)
		read(t, b, `(url) => { setTimeout(() => location = url); return []; }`, v.url(v.page))
		eventually(t, "a link, and what its page asks", func() bool {
			asks := func(one *asked) bool { return one.site == "same-origin" && strings.Contains(one.path, "/api/") }
			return v.count(http.StatusOK, link) > before && v.count(http.StatusOK, asks) > 0
		})
	}
	b.Call("Page.setBypassCSP", map[string]any{"enabled": true}, nil) // an API's answer is not a page, but has a policy
	b.OpenURL(v.url(v.state))
	got := read(t, b, `async (state, send, body) => {
		const answers = [await fetch(state), await fetch(send, {method: "POST", headers: {"Content-Type": "application/json"}, body})];
		return [document.body.textContent, ...answers.map((a) => String(a.status))];
	}`, v.state, v.sends[0], strings.ReplaceAll(strings.ReplaceAll(v.sends[1], `7`, `8`), `"id":"1"`, `"id":"2"`))
	if len(got) != 3 || !strings.HasPrefix(got[0], "{") || got[1] != "200" || got[2][0] != '2' {
		t.Errorf("the server's own page: %q", got)
	}
}

// overTCP has a page send requests of io's TCP protocol in the bodies of HTTP requests.
func overTCP(t *testing.T, b *chromium.Browser, page, tcp string, v *victim) {
	before := v.known(t)
	conn, err := net.Dial("tcp", tcp)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	b.OpenURL(page)
	body := strings.Replace(processed, `"7"`, `"9"`, 1)
	if got := read(t, b, attack, []string{"http://" + tcp + "/"}, "http://"+tcp+"/", body+strings.Repeat("\n"+body, 1000)); len(got) > 0 {
		t.Errorf("the page read %q", got)
	}
	if after := v.known(t); after != before {
		t.Errorf("a page changed %s to %s", before, after)
	}
	if _, err := conn.Write([]byte(body)); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	buffer := make([]byte, 1024)
	n, err := conn.Read(buffer)
	if err != nil || !strings.Contains(string(buffer[:n]), "ACK") || v.known(t) == before {
		t.Errorf("a program: %q, %v", buffer[:n], err)
	}
}
