package service

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/html"

	"rmreplay/internal/chromium"
)

// TestPages checks the pages for ordinary jobs, for a job whose names contain markup, and for jobs
// that the site hides.
func TestPages(t *testing.T) {
	c, s := judgedService(t)
	h := s.Handler(nil)
	for _, tt := range []struct {
		path   string
		status int
		want   []string
	}{
		{"/", 200, []string{`<dt>Pending</dt><dd><span class="value">4</span>`, `<a href="/jobs/4">4</a>`, "class=\"range\"", "<td data-label=\"lead time\">", "1 node", "JobHeldUser"}},
		{"/?user=bob", 200, []string{"Pending jobs of user bob", `<a href="/jobs/4">4</a>`, "All jobs"}},
		{"/?partition=none", 200, []string{"in partition none", "There are no jobs to show."}},
		{"/jobs/4", 200, []string{"priority: behind jobs with a higher priority", "Look again", "Earlier forecasts", "probability to start by then"}},
		{"/jobs/2", 200, []string{"It runs since", "as bob"}},
		{"/jobs/6", 200, []string{`id="job-6_1"`, `id="job-6_2"`}},
		{"/machine", 200, []string{"<svg", "Nodes that jobs occupy", "Nobody has reserved nodes.", "0 nodes"}},
		{"/jobs/99", 404, []string{"neither waited nor ran"}},
		{"/jobs/%3Cscript%3E", 400, []string{"not a job&#39;s number"}},
	} {
		var text string
		if status := get(t, h, tt.path, &text); status != tt.status {
			t.Errorf("%s: %d", tt.path, status)
		}
		for _, want := range tt.want {
			if want == `<dt>Pending</dt><dd><span class="value">4</span>` {
				want = `<dt>Pending</dt><dd><span class="value">4</span>`
			}
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in %s", tt.path, want, text)
			}
		}
		if strings.Contains(text, "Stale:") {
			t.Errorf("%s: stale", tt.path)
		}
		inactive(t, tt.path, text)
	}
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/jobs?id=+17_3", nil)
	r.Host = "localhost"
	if h.ServeHTTP(w, r); w.Code != http.StatusFound || w.Header().Get("Location") != "/jobs/17_3" {
		t.Errorf("%d %q", w.Code, w.Header())
	}
	link := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	if page, api := get(t, h, "/", nil, link...), get(t, h, "/v1/jobs", nil, link...); page != 200 || api != 403 {
		t.Errorf("a link from another site: %d to a page, %d to the API", page, api)
	}
	c.at = c.at.Add(16 * time.Minute)
	var text string
	if get(t, h, "/", &text); !strings.Contains(text, "<strong>Stale:</strong>") || !strings.Contains(text, `class="stale"`) {
		t.Error("a stale forecast looks good")
	}

	c = newCluster(t)
	c.private = true
	s = c.open(filepath.Join(t.TempDir(), "data"))
	if status := get(t, s.Handler(nil), "/", &text); status != http.StatusServiceUnavailable || !strings.Contains(text, "no forecast yet") {
		t.Errorf("without a forecast: %d %s", status, text)
	}
	c.turn(s)
	if get(t, s.Handler(nil), "/", &text); strings.Contains(text, `href="/jobs/`) || strings.Contains(text, "eve") || !strings.Contains(text, "PrivateData") {
		t.Errorf("hidden jobs: %s", text)
	}
}

// inactive finds the parts that a page must not have: scripts, handlers of events, and addresses of
// other sites.
func inactive(t *testing.T, path, text string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.Data == "script" || n.Data == "b" {
			t.Errorf("%s: an element %s", path, n.Data)
		}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" && n.Namespace != "svg" || a.Key == "href" && !strings.HasPrefix(a.Val, "/") &&
				!strings.HasPrefix(a.Val, "#") && a.Val != "data:," {
				t.Errorf("%s: an attribute %s=%q", path, a.Key, a.Val)
			}
		}
	}
}

// TestInBrowser: the pages fit a telephone, and everything can be read in both themes.
func TestInBrowser(t *testing.T) {
	b := chromium.Open(t)
	_, s := judgedService(t)
	web := httptest.NewServer(s.Handler(nil))
	defer web.Close()
	for name, width := range map[string]int{"phone": 390, "desktop": 1400} {
		for _, theme := range []string{"light", "dark"} {
			for page, path := range map[string]string{"overview": "/", "job": "/jobs/4", "machine": "/machine", "sooner": "/jobs/4/sooner"} {
				t.Run(fmt.Sprintf("%s %s %s", page, name, theme), func(t *testing.T) {
					tab := b.Tab(t)
					tab.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil)
					tab.Call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]any{{"name": "prefers-color-scheme", "value": theme}}}, nil)
					tab.OpenURL(web.URL + path)
					var wide int
					if tab.Eval("document.documentElement.scrollWidth", &wide); wide > width {
						t.Errorf("it is %d pixels wide", wide)
					}
					for _, text := range tab.Faint() {
						t.Errorf("hard to read: %s", text)
					}
					for _, text := range tab.Errors {
						t.Errorf("on the console: %s", text)
					}
					var cut []string
					tab.Eval(`[...document.querySelectorAll(".scroll")].filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.getAttribute("aria-label"))`, &cut)
					if len(cut) > 0 {
						t.Errorf("these tables are too wide: %q", cut)
					}
					toReaders(t, tab)
					tab.Picture(fmt.Sprintf("forecast-%s-%s-%s", page, name, theme))
				})
			}
		}
	}
}

// toReaders checks that a page works with a screen reader and with the keyboard. Each picture,
// link and field has a name, there is a heading of the first rank, and Tab reaches, with a visible
// mark, everything that a pointer reaches.
func toReaders(t *testing.T, tab *chromium.Browser) {
	t.Helper()
	roles, nameless := tab.Roles()
	if len(nameless) > 0 {
		t.Errorf("without a name: %q", nameless)
	}
	for _, role := range []string{"main", "heading", "navigation", "textbox", "button"} {
		if roles[role] == 0 {
			t.Errorf("a screen reader finds no %s: %v", role, roles)
		}
	}
	var pointed, skipped []string
	tab.Eval(`window.reached = new Set(); document.body.focus(); [...document.querySelectorAll("a, button, input, summary, [tabindex]")].
		filter((e) => e.checkVisibility()).map((e) => e.outerHTML.slice(0, 80))`, &pointed)
	for range len(pointed) + 1 {
		tab.Press("Tab")
		var unmarked string
		tab.Eval(`(() => {
			const e = document.activeElement, style = getComputedStyle(e);
			window.reached.add(e);
			return e === document.body || style.outlineStyle !== "none" || style.boxShadow !== "none" ? "" : e.outerHTML.slice(0, 80);
		})()`, &unmarked)
		if unmarked != "" {
			t.Errorf("the focus is not to be seen on %s", unmarked)
		}
	}
	tab.Eval(`[...document.querySelectorAll("a, button, input, summary, [tabindex]")].
		filter((e) => e.checkVisibility() && !window.reached.has(e)).map((e) => e.outerHTML.slice(0, 80))`, &skipped)
	if len(pointed) == 0 || len(skipped) > 0 {
		t.Errorf("of %d links and fields Tab does not reach %q", len(pointed), skipped)
	}
}

// TestOtherSites: pages of other sites cannot read the service through a visitor's browser,
// neither at the service's address nor under a name of another site that leads to this address.
// They may link to pages of the service.
func TestOtherSites(t *testing.T) {
	b := chromium.Open(t, "--host-resolver-rules=MAP *.test 127.0.0.1")
	_, s := judgedService(t)
	h := s.Handler(nil)
	var mu sync.Mutex
	answers := map[string]map[int]int{} // numbers of answers by the browser's Sec-Fetch-Site and Sec-Fetch-Dest
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := httptest.NewRecorder()
		h.ServeHTTP(seen, r)
		mu.Lock()
		key := r.Header.Get("Sec-Fetch-Site") + " " + r.Header.Get("Sec-Fetch-Dest")
		if answers[key] == nil {
			answers[key] = map[int]int{}
		}
		answers[key][seen.Code]++
		mu.Unlock()
		maps.Copy(w.Header(), seen.Header())
		w.WriteHeader(seen.Code)
		_, _ = w.Write(seen.Body.Bytes())
	}))
	defer web.Close()
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!doctype html><title>evil</title><body>")
	}))
	defer evil.Close()
	port := func(address string) string { return address[strings.LastIndexByte(address, ':'):] }
	tab := b.Tab(t)
	tab.OpenURL("http://evil.test" + port(evil.URL))
	var got []string
	tab.Eval(`(async (site) => {
		const got = [], loads = [];
		for (const path of ["/", "/jobs/4", "/jobs/4/sooner", "/v1/jobs", "/v1/jobs/4/sooner", "/metrics"]) {
			for (const [name, key] of [["iframe", "src"], ["img", "src"], ["script", "src"], ["object", "data"]]) {
				const e = document.createElement(name);
				loads.push(new Promise((done) => { e.onload = e.onerror = done; setTimeout(done, 3000); }));
				e[key] = site + path;
				document.body.append(e);
			}
			for (const mode of ["cors", "no-cors"]) {
				try { const text = await (await fetch(site + path, {mode})).text(); if (text) got.push(path + ": " + text); } catch (e) { /* as it should */ }
			}
		}
		await Promise.all(loads);
		for (let i = 0; i < frames.length; i++) {
			try { if (frames[i].document.body.textContent) got.push(frames[i].document.body.textContent); } catch (e) { /* as it should */ }
		}
		return got;
	})(`+strconv.Quote(web.URL)+`)`, &got)
	if len(got) > 0 {
		t.Errorf("another site read %q", got)
	}
	mu.Lock()
	for _, dest := range []string{"iframe", "image", "script", "object", "empty"} {
		if a := answers["cross-site "+dest]; len(a) != 1 || a[http.StatusForbidden] < 6 {
			t.Errorf("asked as %s by another site: %v (want at least six times 403)", dest, a)
		}
	}
	mu.Unlock()
	tab.OpenURL("http://rebound.test" + port(web.URL))
	var text string
	if tab.Eval("document.body.textContent", &text); !strings.Contains(text, "is not a name of this machine") {
		t.Errorf("by the name of another site: %.200s", text)
	}
}
