package report

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"rmreplay/internal/compare"
)

// screenshots is a directory for pictures of the pages.
var screenshots = flag.String("screenshots", "", "directory for pictures of the pages that the browser tests open")

// The limits for a run of 10,000 jobs on 7,000 nodes.
const (
	largestPage  = 15 << 20
	firstViewMax = time.Second
)

// browser is a Chromium that the test controls through a pipe (the DevTools protocol).
type browser struct {
	t       *testing.T
	send    *os.File
	receive *bufio.Reader
	session string
	last    *int     // number of the last command, of all tabs
	errors  []string // console messages of pages, and exceptions
	events  map[string]int
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

// openBrowser starts Chromium, or skips the test loudly.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("SKIPPED, the report is not tested in a browser: chromium is not installed (tools/install-deps chromium)")
	}
	fromUs, send, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	receive, fromIt, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{t: t, send: send, receive: bufio.NewReaderSize(receive, 1<<20), last: new(int), events: make(map[string]int)}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	process := exec.CommandContext(ctx, path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "--window-size=1280,900", "about:blank")
	process.ExtraFiles = []*os.File{fromUs, fromIt} // its descriptors 3 and 4
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

// tab opens a tab for one test. Only one is used at a time.
func (b *browser) tab(t *testing.T) *browser {
	t.Helper()
	own := *b
	b = &own
	b.t, b.errors, b.events = t, nil, make(map[string]int)
	var target struct{ TargetID, SessionID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	b.session = target.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Accessibility"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

// call sends a command and waits for its answer.
func (b *browser) call(method string, params, result any) {
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

// next reads one message and records the complaints of a page.
func (b *browser) next() message {
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
		b.errors = append(b.errors, string(m.Params))
	}
	return m
}

// open loads a page and waits until it is loaded.
func (b *browser) open(path string) {
	b.t.Helper()
	loaded := b.events["Page.loadEventFired"]
	b.call("Page.navigate", map[string]any{"url": "file://" + path}, nil)
	for b.events["Page.loadEventFired"] == loaded {
		b.next()
	}
}

// eval evaluates an expression of JavaScript, which may be a promise.
func (b *browser) eval(expression string, result any) {
	b.t.Helper()
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &answer)
	if answer.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, *answer.ExceptionDetails)
	}
	if result != nil {
		if err := json.Unmarshal(answer.Result.Value, result); err != nil {
			b.t.Fatalf("%s: %s: %v", expression, answer.Result.Value, err)
		}
	}
}

// mainThread returns the processor time that the page's main thread has used.
func (b *browser) mainThread() time.Duration {
	b.t.Helper()
	var answer struct {
		Metrics []struct {
			Name  string
			Value float64
		}
	}
	b.call("Performance.getMetrics", nil, &answer)
	for _, m := range answer.Metrics {
		if m.Name == "TaskDuration" {
			return time.Duration(m.Value * float64(time.Second))
		}
	}
	b.t.Fatal("chromium does not tell its TaskDuration")
	return 0
}

// press types a key.
func (b *browser) press(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		for _, kind := range []string{"keyDown", "keyUp"} {
			b.call("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": key}, nil)
		}
	}
	b.eval("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))", nil)
}

// picture saves what is visible, if the flag asks for it.
func (b *browser) picture(name string) {
	b.t.Helper()
	if *screenshots == "" {
		return
	}
	var answer struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"format": "png"}, &answer)
	b.keep(name+".png", answer.Data)
}

func (b *browser) keep(name, encoded string) {
	b.t.Helper()
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

func savePage(t *testing.T, write func(io.Writer) error) (path string, size int) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "report.html")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(write(file), file.Close()); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, int(info.Size())
}

// TestInBrowser opens pages in a real browser, one after the other.
func TestInBrowser(t *testing.T) {
	b := openBrowser(t)
	for name, test := range map[string]func(*testing.T, *browser){
		"large run": largeRun, "chart by keyboard": chartByKeyboard, "chart shows its jobs": chartShowsItsJobs, "chart by pointer": chartByPointer,
		"chart shows bands": chartShowsBands, "without scripts": withoutScripts,
		"narrow window": narrowWindow, "light and dark": lightAndDark, "tables fit": tablesFit, "dark figures": darkFigures,
	} {
		t.Run(name, func(t *testing.T) {
			tab := b.tab(t)
			test(t, tab)
			for _, text := range tab.errors {
				t.Errorf("on the console: %s", text)
			}
		})
	}
}

// withoutScripts checks that the page has its pictures and tables without scripts and on
// paper.
func withoutScripts(t *testing.T, b *browser) {
	path, _ := savePage(t, mustReport(t).WriteHTML)
	b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	b.open(path)
	var tree struct {
		Nodes []struct {
			Role, Name struct{ Value any }
			Ignored    bool
		}
	}
	b.call("Accessibility.getFullAXTree", nil, &tree)
	roles := make(map[string]int)
	for _, n := range tree.Nodes {
		if n.Ignored {
			continue
		}
		role := fmt.Sprint(n.Role.Value)
		roles[role]++
		switch role {
		case "image", "img", "graphics-document", "link", "button", "region", "navigation":
			if name := fmt.Sprint(n.Name.Value); name == "" || name == "<nil>" {
				t.Errorf("%s without a name", role)
			}
		}
	}
	for role, least := range map[string]int{"table": 4, "heading": 15, "main": 1, "navigation": 1, "columnheader": 20, "rowheader": 30, "figure": 8} {
		if roles[role] < least {
			t.Errorf("%d of role %s for a screen reader, want %d or more; all: %v", roles[role], role, least, roles)
		}
	}
	if pictures := roles["image"] + roles["img"]; pictures < 8 {
		t.Errorf("%d pictures for a screen reader; all: %v", pictures, roles)
	}
	var printed struct{ Data string }
	b.call("Page.printToPDF", map[string]any{"printBackground": false}, &printed)
	if *screenshots != "" {
		b.keep("print-without-scripts.pdf", printed.Data)
	}
	if len(printed.Data) < 50_000 {
		t.Errorf("a print of %d characters", len(printed.Data))
	}
}

// tablesFit checks that no table scrolls at the usual width of a window, nor on a telephone,
// with everything unfolded.
func tablesFit(t *testing.T, b *browser) {
	small := machine{nodes: 40, processors: 8}
	reacted, err := New([]compare.Set{{Name: "reacting", Runs: []compare.Realization{reacting(schedule("r", 2, 100, small))}}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]*Report{"a pair": mustReport(t), "users who react": reacted, "one run": alone(t, schedule("run", 1, 300, small), Options{})} {
		path, _ := savePage(t, r.WriteHTML)
		b.open(path)
		for _, width := range []int{1400, 390} {
			b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil)
			var wide []string
			b.eval(`(() => {
				for (const d of document.querySelectorAll("details")) d.open = true;
				return [...document.querySelectorAll(".scroll")].filter((e) => e.scrollWidth > e.clientWidth + 1)
					.map((e) => e.getAttribute("aria-label") + " " + e.scrollWidth + " > " + e.clientWidth);
			})()`, &wide)
			if len(wide) > 0 {
				t.Errorf("%s: in a window of %d these tables are too wide: %q", name, width, wide)
			}
		}
	}
	b.call("Emulation.clearDeviceMetricsOverride", nil, nil)
}

// darkFigures checks that figures are dark in the dark theme, with light text, and light on
// paper.
func darkFigures(t *testing.T, b *browser) {
	path, _ := savePage(t, mustReport(t).WriteHTML)
	b.open(path)
	dark := map[string]any{"name": "prefers-color-scheme", "value": "dark"}
	for name, media := range map[string]map[string]any{
		"dark":           {"features": []any{dark}},
		"dark, on paper": {"features": []any{dark}, "media": "print"},
	} {
		b.call("Emulation.setEmulatedMedia", media, nil)
		var wrong []string
		b.eval(fmt.Sprintf(`(() => {
			const sum = (text) => text.match(/[0-9.]+/g).slice(0, 3).map(Number).reduce((a, b) => a + b);
			const wrong = [], dark = %v;
			for (const svg of document.querySelectorAll(".plot svg")) {
				const back = sum(getComputedStyle(svg.querySelector("path")).fill), text = sum(getComputedStyle(svg.querySelector("text")).fill);
				if (dark ? back > 150 || text < 600 : back < 765 || text > 150) wrong.push(svg.closest("figure").id + " " + back + " " + text);
			}
			return wrong;
		})()`, name == "dark"), &wrong)
		if len(wrong) > 0 {
			t.Errorf("%s: background and text of these figures are wrong: %q", name, wrong)
		}
		b.eval(`document.querySelector("#machine").scrollIntoView()`, nil)
		b.picture("figures-" + name)
	}
}

// narrowWindow checks that no line is wider than a telephone, and that wide tables scroll
// in their own frames.
func narrowWindow(t *testing.T, b *browser) {
	path, _ := savePage(t, mustReport(t).WriteHTML)
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true}, nil)
	b.open(path)
	var wide struct{ Page, Window float64 }
	b.eval(`({Page: document.documentElement.scrollWidth, Window: document.documentElement.clientWidth})`, &wide)
	if wide.Page > wide.Window {
		t.Errorf("the page is %v wide in a window of %v", wide.Page, wide.Window)
	}
	for _, section := range []string{"summary", "metrics", "machine", "distances", "nodes"} {
		b.eval(`document.querySelector("#`+section+`").scrollIntoView()`, nil)
		b.picture("narrow-" + section)
	}
}

// lightAndDark checks the contrast of every text against WCAG 2.2 (4.5 to 1, success
// criterion 1.4.3), with the light and with the dark colours.
func lightAndDark(t *testing.T, b *browser) {
	path, _ := savePage(t, mustReport(t).WriteHTML)
	b.open(path)
	for _, scheme := range []string{"light", "dark"} {
		b.call("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}}, nil)
		var faint []string
		b.eval(`(() => {
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
				if (e.closest("svg, script, noscript") || ![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
				const a = light(rgb(getComputedStyle(e).color)), b = light(behind(e));
				const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
				if (contrast < 4.5) found.add(e.localName + "." + e.className + " " + contrast.toFixed(1));
			}
			return [...found];
		})()`, &faint)
		if len(faint) > 0 {
			t.Errorf("%s: too little contrast: %q", scheme, faint)
		}
		for _, section := range []string{"summary", "metrics", "machine", "distances", "nodes"} {
			b.eval(`document.querySelector("#`+section+`").scrollIntoView()`, nil)
			b.picture(scheme + "-" + section)
		}
	}
	b.call("Emulation.setEmulatedMedia", map[string]any{"media": "print"}, nil)
	b.eval(`scrollTo(0, 0)`, nil)
	b.picture("print-top")
}
