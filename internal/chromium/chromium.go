// Package chromium controls a headless Chromium, for tests of web pages, through a pipe with the
// DevTools protocol.
package chromium

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// screenshots is a directory for pictures of the pages.
var screenshots = flag.String("screenshots", "", "directory for pictures of the pages that the browser tests open")

// Browser is a Chromium, or one of its tabs, that a test controls. Only one tab may be in use at a
// time.
type Browser struct {
	t       testing.TB
	send    *os.File
	receive *bufio.Reader
	session string
	last    *int // number of the last command, shared by all tabs
	// Errors has the pages' console messages and exceptions.
	Errors []string
	events map[string]int
}

// message is a message of the protocol.
type message struct {
	ID        int             `json:"id,omitempty"`
	Method    string          `json:"method,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// Open starts Chromium with additional command-line options. It skips the test under -short or
// without Chromium.
func Open(t testing.TB, options ...string) *Browser {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED by -short: pages in a browser")
	}
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("SKIPPED, pages are not tested in a browser: chromium is not installed (tools/install-deps chromium)")
	}
	fromUs, send, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	receive, fromIt, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	b := &Browser{t: t, send: send, receive: bufio.NewReaderSize(receive, 1<<20), last: new(int),
		events: make(map[string]int)}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	options = append([]string{"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--remote-debugging-pipe", "--user-data-dir=" + t.TempDir(), "--window-size=1280,900"}, options...)
	process := exec.CommandContext(ctx, path, append(options, "about:blank")...)
	process.ExtraFiles = []*os.File{fromUs, fromIt} // become descriptors 3 and 4
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	process.Cancel = func() error { return syscall.Kill(-process.Process.Pid, syscall.SIGKILL) }
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = fromUs.Close(), fromIt.Close()
	t.Cleanup(func() {
		cancel()
		_ = process.Wait()
		_, _ = send.Close(), receive.Close()
	})
	return b
}

// Tab opens a tab for one test. Only one tab may be in use at a time.
func (b *Browser) Tab(t testing.TB) *Browser {
	t.Helper()
	own := *b
	b = &own
	b.t, b.Errors, b.events = t, nil, make(map[string]int)
	var target struct{ TargetID, SessionID string }
	b.Call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	b.Call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	b.session = target.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Accessibility"} {
		b.Call(domain+".enable", nil, nil)
	}
	return b
}

// Call sends a command and decodes the answer into result.
func (b *Browser) Call(method string, params, result any) {
	b.t.Helper()
	*b.last++
	id := *b.last
	encoded, err := json.Marshal(params)
	if err != nil {
		b.t.Fatal(err)
	}
	if params == nil {
		encoded = nil
	}
	text, err := json.Marshal(message{ID: id, Method: method, SessionID: b.session, Params: encoded})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.send.Write(append(text, 0)); err != nil {
		b.t.Fatal(err)
	}
	for {
		m := b.next()
		if m.ID != id {
			continue
		}
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				b.t.Fatal(err)
			}
		}
		return
	}
}

// next reads one message, and records errors of pages.
func (b *Browser) next() message {
	b.t.Helper()
	text, err := b.receive.ReadBytes(0)
	if err != nil {
		b.t.Fatalf("chromium went away: %v", errors.Join(err, b.t.Context().Err()))
	}
	var m message
	if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
		b.t.Fatal(err)
	}
	b.events[m.Method]++
	switch m.Method {
	case "Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled":
		b.Errors = append(b.Errors, string(m.Params))
	}
	return m
}

// OpenFile loads a file and waits until it is loaded.
func (b *Browser) OpenFile(path string) {
	b.t.Helper()
	b.OpenURL("file://" + path)
}

// OpenURL loads a page and waits until it is loaded.
func (b *Browser) OpenURL(url string) {
	b.t.Helper()
	loaded := b.events["Page.loadEventFired"]
	b.Call("Page.navigate", map[string]any{"url": url}, nil)
	for b.events["Page.loadEventFired"] == loaded {
		b.next()
	}
}

// Eval evaluates a JavaScript expression, awaits it if it is a promise, and decodes the value into
// result.
func (b *Browser) Eval(expression string, result any) {
	b.t.Helper()
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *json.RawMessage
	}
	b.Call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true},
		&answer)
	if answer.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, *answer.ExceptionDetails)
	}
	if result != nil {
		if err := json.Unmarshal(answer.Result.Value, result); err != nil {
			b.t.Fatalf("%s: %s: %v", expression, answer.Result.Value, err)
		}
	}
}

// MainThread returns the CPU time that the page's main thread has used.
func (b *Browser) MainThread() time.Duration {
	b.t.Helper()
	var answer struct {
		Metrics []struct {
			Name  string
			Value float64
		}
	}
	b.Call("Performance.getMetrics", nil, &answer)
	for _, m := range answer.Metrics {
		if m.Name == "TaskDuration" {
			return time.Duration(m.Value * float64(time.Second))
		}
	}
	b.t.Fatal("chromium does not report its TaskDuration")
	return 0
}

// Press presses and releases keys.
func (b *Browser) Press(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		for _, kind := range []string{"keyDown", "keyUp"} {
			b.Call("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": key}, nil)
		}
	}
	b.Eval("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))", nil)
}

// Picture saves a screenshot, if the flag -screenshots is given.
func (b *Browser) Picture(name string) {
	b.t.Helper()
	if *screenshots == "" {
		return
	}
	var answer struct{ Data string }
	b.Call("Page.captureScreenshot", map[string]any{"format": "png"}, &answer)
	b.Keep(name+".png", answer.Data)
}

// Keep saves a base64-encoded file in the directory of screenshots, if the flag -screenshots is
// given.
func (b *Browser) Keep(name, encoded string) {
	b.t.Helper()
	if *screenshots == "" {
		return
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err == nil {
		err = os.MkdirAll(*screenshots, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(*screenshots, name), raw, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// Mouse sends a mouse event and waits until the page has been drawn again.
func (b *Browser) Mouse(kind string, x, y float64, more map[string]any) {
	b.t.Helper()
	event := map[string]any{"type": kind, "x": x, "y": y}
	maps.Copy(event, more)
	b.Call("Input.dispatchMouseEvent", event, nil)
	b.Eval("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))", nil)
}

// Faint returns texts whose contrast is below WCAG 2.2's minimum (4.5 to 1, success criterion
// 1.4.3).
func (b *Browser) Faint() (found []string) {
	b.Eval(`(() => {
		const rgb = (text) => text.match(/[0-9.]+/g).map(Number);
		const light = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
			.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
		const behind = (e) => {
			for (; e; e = e.parentElement) {
				const c = rgb(getComputedStyle(e).backgroundColor);
				if (c.length < 4 || c[3] > 0) return c;
			}
			return [255, 255, 255];
		};
		const found = new Set();
		for (const e of document.querySelectorAll("body *")) {
			if (e.closest("svg, script, noscript, option, datalist, #tip") ||
				![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
			const a = light(rgb(getComputedStyle(e).color)), b = light(behind(e));
			const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
			if (contrast < 4.5) found.add(e.localName + "." + e.className + " " + contrast.toFixed(1));
		}
		return [...found];
	})()`, &found)
	return found
}

// Roles counts the elements that a screen reader sees, by role. nameless lists the roles of
// pictures, links, fields, buttons and regions without a name.
func (b *Browser) Roles() (roles map[string]int, nameless []string) {
	b.t.Helper()
	var tree struct {
		Nodes []struct {
			Role, Name struct{ Value any }
			Ignored    bool
		}
	}
	b.Call("Accessibility.getFullAXTree", nil, &tree)
	roles = make(map[string]int)
	for _, n := range tree.Nodes {
		if n.Ignored {
			continue
		}
		role, _ := n.Role.Value.(string)
		roles[role]++
		switch role {
		case "image", "img", "graphics-document", "link", "button", "region", "navigation", "textbox", "combobox":
			if name, _ := n.Name.Value.(string); name == "" {
				nameless = append(nameless, role)
			}
		}
	}
	return roles, nameless
}
