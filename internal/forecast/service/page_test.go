package service

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"rmreplay/internal/chromium"
)

// TestPages: what the pages show of jobs, of one whose names would be markup, and of those that the site hides.
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
		{"/?partition=none", 200, []string{"in partition none", "There are none to show."}},
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

// inactive finds what a page must not have: scripts, handlers of events, and addresses of other sites.
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
					tab.Picture(fmt.Sprintf("forecast-%s-%s-%s", page, name, theme))
				})
			}
		}
	}
}
