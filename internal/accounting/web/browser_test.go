package web

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/receive"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/chromium"
)

// hostileName is a job's name that would run a script if the page contained it without escaping.
const hostileName = `"><script>document.title='taken'</script><img src=x onerror="document.title='taken'">`

// hostile returns the document of a job in which every text is hostileName.
func hostile() string {
	name, err := json.Marshal(hostileName)
	if err != nil {
		panic(err) // a string can always be encoded
	}
	return fmt.Sprintf(`{"jobid":99000001,"username":%[1]s,"account":%[1]s,"partition":%[1]s,"qos":%[1]s,"job_name":%[1]s,"work_dir":"javascript:alert(1)","state":"FAILED",
		"@submit":"2024-03-01T05:00:00","@eligible":"2024-03-01T05:00:00","@start":"2024-03-01T05:10:00","@end":"2024-03-01T06:00:00","elapsed":3000,"total_cpus":64,"total_nodes":1,
		"cpu_hours":53.3,"nodes":"node1","exit_code":"1:0","cluster":"vale","time_limit":3600,"script":"#!/bin/sh\n</pre><script>document.title='taken'</script>\nsrun ./a.out","new_key":%[1]s}`, name)
}

// reader is a browser on the pages of a site.
type reader struct {
	*chromium.Browser
	t    *testing.T
	site *site
}

// visit opens a page and waits until its panels are loaded.
func (r *reader) visit(path string) {
	r.t.Helper()
	r.OpenURL(r.site.URL + receive.Pages + path)
	r.loaded()
}

// loaded waits until the panels agree with the URL.
func (r *reader) loaded() {
	r.t.Helper()
	for range 600 {
		var done bool
		r.Eval(`document.body.dataset.loaded === location.search && !document.querySelector("[aria-busy]")`, &done)
		if done {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	r.t.Fatal("the panels do not load")
}

// click clicks the first element that matches a selector and contains text, which may be empty.
func (r *reader) click(selector, text string) {
	r.t.Helper()
	var found bool
	r.Eval(fmt.Sprintf(`(() => { const e = [...document.querySelectorAll(%q)].find((e) => e.textContent.includes(%q)); e?.scrollIntoView({block: "center"});
		e?.dispatchEvent(new MouseEvent("click", {bubbles: true, cancelable: true})); return !!e; })()`, selector, text), &found)
	if !found {
		r.t.Fatalf("there is no %s with %q", selector, text)
	}
}

func (r *reader) text(expression string) (s string) {
	r.t.Helper()
	r.Eval(expression, &s)
	return s
}

// parameters returns the parameters of the page's URL.
func (r *reader) parameters() url.Values {
	r.t.Helper()
	v, err := url.ParseQuery(strings.TrimPrefix(r.text("location.search"), "?"))
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

// drag selects a range of a chart by dragging. from and to are shares of the length of its axis.
func (r *reader) drag(panel string, from, to float64) {
	r.t.Helper()
	var at struct{ Left, Right, Y float64 }
	r.Eval(fmt.Sprintf(`(() => { const p = document.querySelector("#panel-%s .plot"); p.scrollIntoView({block: "center"}); const b = p.getBoundingClientRect(), d = p.dataset;
		return {Left: b.left + b.width * d.left, Right: b.left + b.width * d.right, Y: b.top + b.height / 2}; })()`, panel), &at)
	x := func(share float64) float64 { return at.Left + share*(at.Right-at.Left) }
	button := map[string]any{"button": "left", "buttons": 1, "clickCount": 1}
	r.Mouse("mousePressed", x(from), at.Y, button)
	for i := 1; i <= 5; i++ {
		r.Mouse("mouseMoved", x(from+(to-from)*float64(i)/5), at.Y, map[string]any{"button": "left", "buttons": 1})
	}
	r.Mouse("mouseReleased", x(to), at.Y, button)
}

// TestInBrowser uses the pages in a real browser.
func TestInBrowser(t *testing.T) {
	s := serve(t, 4000, hostile())
	if err := s.store.SetCluster(store.Cluster{Name: "vale", Kind: "site", Nodes: document.KnownInt(2000), CPUs: document.KnownInt(128_000)}); err != nil {
		t.Fatal(err)
	}
	addRun(t, s)
	browser := chromium.Open(t)
	for name, test := range map[string]func(*testing.T, *reader){
		"filters": clickFilters, "brush": brushCharts, "expand": expandJob, "views": savedViews, "looks": looks, "phone": onPhone, "focus": keepsFocus, "refresh": refreshes, "compare": compareClusters, "export": exports, "errors": wrongQuery,
	} {
		t.Run(name, func(t *testing.T) {
			tab := browser.Tab(t)
			test(t, &reader{tab, t, s})
			for _, text := range tab.Errors {
				if !strings.Contains(text, "status of 400") || name != "errors" {
					t.Errorf("on the console: %s", text)
				}
			}
		})
	}
}

// addRun adds a second cluster, replay-1, with 500 jobs that run for an hour.
func addRun(t *testing.T, s *site) {
	t.Helper()
	var entries []store.Entry
	for i := range 500 {
		start := time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * time.Minute)
		text := fmt.Appendf(nil, `{"jobid":%d,"username":"user%03d","partition":"batch","qos":"normal","account":"account01","state":"COMPLETED","cluster":"replay-1","elapsed":3600,
			"@submit":%q,"@eligible":%q,"@start":%q,"@end":%q,"total_cpus":64,"total_nodes":1,"cpu_hours":64,"nodes":"node1","exit_code":"0:0","time_limit":7200}`, i+1, i%20,
			start.Format("2006-01-02T15:04:05"), start.Format("2006-01-02T15:04:05"), start.Format("2006-01-02T15:04:05"), start.Add(time.Hour).Format("2006-01-02T15:04:05"))
		job := document.Parse(text, "run")
		entries = append(entries, store.Entry{Seq: 100_000 + int64(i), Arrived: job.End, Source: store.FromRun, Document: text, Job: job})
	}
	if _, err := s.store.Apply(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
}

// clickFilters clicks on a legend, on a part of a chart and in a table; each click adds a filter.
// Then it goes back, and removes a filter.
func clickFilters(t *testing.T, r *reader) {
	r.visit("?last=all")
	r.click("#panel-jobs .legend a", "FAILED")
	r.loaded()
	if f := r.parameters()["f"]; len(f) != 1 || f[0] != "state=FAILED" {
		t.Errorf("after a click on the legend the filters are %q", f)
	}
	if got, want := r.text(`document.querySelector("#panel-summary dd").textContent`), fmt.Sprintf("%.0f", r.site.number("SELECT count(*)::DOUBLE FROM jobs WHERE state = 'FAILED'")); got != want {
		t.Errorf("%s jobs, want %s", got, want)
	}
	r.click("#panel-shares .spots a", "")
	r.loaded()
	if f := r.parameters()["f"]; len(f) != 3 || !strings.HasPrefix(f[1], "partition=") || !strings.HasPrefix(f[2], "qos=") {
		t.Errorf("after a click on the ring the filters are %q", f)
	}
	r.click("#panel-users tbody a", "user")
	r.loaded()
	if got := r.text(`document.querySelector("h1").textContent`); !strings.HasPrefix(got, "User user") && !strings.HasPrefix(got, "Partition") {
		t.Errorf("the page is about %q", got)
	}
	for range 3 {
		r.Eval(`history.back()`, nil)
		time.Sleep(100 * time.Millisecond)
		r.loaded()
	}
	if f := r.parameters()["f"]; len(f) != 0 {
		t.Errorf("after going back the filters are %q", f)
	}
	r.visit("?last=all&f=state%3DFAILED")
	r.click(".chips a", "×")
	r.loaded()
	if f := r.parameters()["f"]; len(f) != 0 {
		t.Errorf("after removing them the filters are %q", f)
	}
	// Use the query bar by keyboard.
	r.Eval(`document.querySelector("[name=q]").focus(); document.querySelector("[name=q]").value = "state:TIMEOUT elapsed_s>1h"; document.querySelector("[name=q]").form.requestSubmit()`, nil)
	r.loaded()
	want := r.site.number("SELECT count(*)::DOUBLE FROM jobs WHERE state = 'TIMEOUT' AND elapsed_s > 3600")
	if got := strings.ReplaceAll(r.text(`document.querySelector("#panel-summary dd").textContent`), "\u202f", ""); got != fmt.Sprintf("%.0f", want) {
		t.Errorf("the query found %s jobs, want %v", got, want)
	}
}

// brushCharts selects a range of time, and a range of run times, by dragging.
func brushCharts(t *testing.T, r *reader) {
	r.visit("?last=all")
	r.drag("jobs", 0.25, 0.75)
	r.loaded()
	v := r.parameters()
	from, errFrom := time.Parse(time.RFC3339, v.Get("from"))
	until, errUntil := time.Parse(time.RFC3339, v.Get("until"))
	if errFrom != nil || errUntil != nil || !from.Before(until) || v.Get("last") != "" {
		t.Fatalf("the range is %q to %q", v.Get("from"), v.Get("until"))
	}
	if all := until.Sub(from); all > 80*time.Hour {
		t.Errorf("half of the chart has %v", all)
	}
	r.drag("runs", 0.5, 0.7)
	r.loaded()
	if f := r.parameters()["f"]; len(f) != 2 || !strings.HasPrefix(f[0], "elapsed_s>=") || !strings.HasPrefix(f[1], "elapsed_s<") {
		t.Errorf("the filters are %q", f)
	}
	// Unchanged controls keep the range, although both its ends are 02:00 in Zurich on that day.
	r.visit("?zone=Europe/Zurich&from=2024-10-27T02:00:00%2B02:00&until=2024-10-27T02:00:00%2B01:00")
	r.Eval(`document.querySelector("[name=q]").value = "nodes>1"; document.querySelector("[name=q]").form.requestSubmit()`, nil)
	r.wait(`location.search.includes("q=nodes")`)
	r.loaded()
	if v := r.parameters(); v.Get("from") != "2024-10-27T02:00:00+02:00" || v.Get("until") != "2024-10-27T02:00:00+01:00" {
		t.Errorf("the range became %q to %q", v.Get("from"), v.Get("until"))
	}
	// A click opens the bar's link, and is not a selection.
	r.visit("?last=all")
	r.click("#panel-jobs .spots a", "")
	r.loaded()
	if v := r.parameters(); v.Get("from") == "" || v.Get("until") == "" {
		t.Errorf("a click on a bar leads to %v", v)
	}
}

// expandJob opens a job below its row. No script in the job's texts runs.
func expandJob(t *testing.T, r *reader) {
	r.visit("?last=all&f=jobid%3D99000001")
	r.click("#panel-table a[data-expand]", "99000001")
	text := ""
	for range 100 {
		if text = r.text(`document.querySelector(".opened")?.innerText || ""`); text != "" {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, want := range []string{"srun ./a.out", "<script>document.title='taken'</script>", "new_key", "exit_code"} {
		if !strings.Contains(text, want) {
			t.Errorf("the job's details have no %q: %s", want, text)
		}
	}
	r.Picture("job")
	if title := r.text("document.title"); strings.Contains(title, "taken") {
		t.Error("a script of a job ran")
	}
	var elements int
	r.Eval(`document.querySelectorAll("main script, main img, [onerror], a[href^='javascript']").length`, &elements)
	if elements != 0 {
		t.Errorf("%d elements come from a job", elements)
	}
	r.click("#panel-table a[data-expand]", "99000001")
	if got := r.text(`document.querySelector(".opened")?.innerText || ""`); got != "" {
		t.Error("the row does not close")
	}
}

// savedViews saves a view, opens it by its link, and deletes it.
func savedViews(t *testing.T, r *reader) {
	r.visit("?last=all&f=state%3DTIMEOUT&q=nodes%3E1")
	r.Eval(`document.querySelector("#views").open = true; document.querySelector("#view-name").value = "late <b>jobs</b>"; document.querySelector("#view-name").form.requestSubmit()`, nil)
	r.wait(`document.querySelector("#views ul").textContent.includes("late <b>jobs</b>")`)
	r.visit("?last=1h")
	link := r.text(`[...document.querySelectorAll("#views ul a")].find((a) => a.textContent.includes("late")).getAttribute("href")`)
	r.visit(strings.TrimPrefix(link, "./"))
	if v := r.parameters(); v.Get("last") != "all" || v.Get("q") != "nodes>1" || v.Get("f") != "state=TIMEOUT" {
		t.Errorf("the view opens %v", v)
	}
	r.click("[data-delete]", "×")
	r.wait(`!document.querySelector("#views ul").textContent.includes("late")`)
}

// wait waits until an expression is true.
func (r *reader) wait(expression string) {
	r.t.Helper()
	for range 200 {
		var done bool
		if r.Eval("!!("+expression+")", &done); done {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	r.t.Fatalf("not so after 10 s: %s", expression)
}

// enter presses Enter on the first element that matches a selector and contains text, and waits for
// the URL to change.
func (r *reader) enter(selector, text string) {
	r.t.Helper()
	before := r.text("location.search")
	r.Eval(fmt.Sprintf(`[...document.querySelectorAll(%q)].find((e) => e.textContent.includes(%q)).focus()`, selector, text), nil)
	for _, kind := range []string{"keyDown", "keyUp"} {
		r.Call("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": "Enter", "code": "Enter", "text": "\r", "windowsVirtualKeyCode": 13}, nil)
	}
	r.wait(fmt.Sprintf("location.search !== %q", before))
	r.loaded()
}

// focused describes the element that has the focus, and the part of the page that contains it.
func (r *reader) focused() string {
	r.t.Helper()
	return r.text(`(({activeElement: e}) => (e.closest("[data-panel], #controls")?.id ?? "nothing") + ": " + (e.getAttribute("aria-label") || e.textContent))(document)`)
}

// keepsFocus follows links by keyboard. Afterwards the focus is on the same element, or on the
// heading of its part.
func keepsFocus(t *testing.T, r *reader) {
	r.visit("?last=all&f=state%3DFAILED&f=nodes%3E%3D1")
	for _, c := range []struct{ selector, text, want string }{
		{"#panel-table thead a", "nodes", "panel-table: nodes"},
		{"#panel-table .moves a", "Next page", "panel-table: Next page →"},
		{"#panel-table .moves a", "Previous page", "panel-table: Jobs"}, // the first page has no page before it
		{"#panel-users tbody a", "user", ""},
		{".clusters a", "vale", "controls: vale"},
		{".chips a", "≠", "controls: Negate the filter"},
		{".chips a[aria-label^=Remove]", "×", "controls: "},
	} {
		if c.text == "user" {
			c.want = "panel-users: " + r.text(`document.querySelector("#panel-users tbody a").textContent`)
		}
		r.enter(c.selector, c.text)
		if got := r.focused(); got != c.want && (c.text != "×" || !strings.HasPrefix(got, c.want)) {
			t.Errorf("after Enter on %s the focus is on %q, want %q", c.text, got, c.want)
		}
	}
}

// refreshes lets a page reload its panels. The panel in use remains, and screen readers are not
// notified.
func refreshes(t *testing.T, r *reader) {
	r.visit("?last=all&refresh=5")
	r.Eval(`window.said = 0; new MutationObserver(() => said++).observe(document.querySelector("#status"), {childList: true, characterData: true, subtree: true});
		document.querySelector("#panel-table a[data-expand]").focus(); document.activeElement.click();
		document.querySelector("#panel-users h2").before("to be replaced")`, nil)
	r.wait(`document.querySelector(".opened")`)
	before := r.focused()
	r.Eval(`window.plot = document.querySelector("#panel-jobs .plot"); plot.dispatchEvent(new PointerEvent("pointerdown", {bubbles: true, button: 0, clientX: 300}))`, nil)
	r.wait(`!document.querySelector("#panel-users").textContent.includes("to be replaced")`)
	r.loaded()
	var open, dragging bool
	var said int
	r.Eval(`!!document.querySelector("#panel-table .opened")`, &open)
	r.Eval(`plot.isConnected`, &dragging)
	r.Eval(`said`, &said)
	if got := r.focused(); !open || !dragging || got != before || said > 0 {
		t.Errorf("after a refresh the job is open: %v, the chart is dragged on: %v, the focus is on %q (want %q), and %d texts were announced", open, dragging, got, before, said)
	}
	// After the focus has left a panel, the panel is reloaded.
	r.Eval(`document.activeElement.blur(); document.querySelector(".opened").remove(); document.querySelector("#panel-table h2").before("to be replaced")`, nil)
	r.wait(`!document.querySelector("#panel-table").textContent.includes("to be replaced")`)
}

// onPhone opens the table of jobs, a job and the saved views in a narrow window. Nothing overflows
// the window.
func onPhone(t *testing.T, r *reader) {
	r.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": true}, nil)
	outside := func(what string) {
		t.Helper()
		var found []string
		r.Eval(fmt.Sprintf(`[...document.querySelectorAll(%q)].filter((e) => e.getClientRects().length).map((e) => [e, e.getBoundingClientRect()]).filter(([, b]) => b.left < 0 || b.right > 390)
			.map(([e, b]) => e.tagName + " from " + b.left + " to " + b.right + ": " + e.textContent.slice(0, 40))`, what), &found)
		if len(found) > 0 {
			t.Errorf("%d of %s are outside of the window, such as %s", len(found), what, found[0])
		}
	}
	for i, page := range []string{"?last=all", "?last=all&f=jobid%3D99000001", "compare?last=all&a=vale&b=replay-1"} {
		r.visit(page)
		r.Eval(`document.querySelector("#views").open = true`, nil)
		outside("#views > div, #views > div *")
		r.Picture(fmt.Sprint("phone-menu-", i))
		r.Eval(`document.querySelector("#views").open = false; document.querySelector("#panel-table").scrollIntoView()`, nil)
		outside("#panel-table, #panel-table .scroll, #panel-table :is(tr, th, td, th a, td a)")
		r.Picture(fmt.Sprint("phone-jobs-", i))
		var inner bool
		r.Eval(`[...document.querySelectorAll("#panel-table .scroll")].some((e) => e.scrollWidth > e.clientWidth)`, &inner)
		if inner {
			t.Errorf("%s: the table of jobs scrolls to the side", page)
		}
	}
	var label string
	r.Eval(`getComputedStyle(document.querySelector("#panel-table tbody td[data-label=user_name]"), "::before").content`, &label)
	if !strings.Contains(label, "user_name") {
		t.Errorf("a value has the label %s", label)
	}
	r.visit("?last=all&f=jobid%3D99000001")
	r.click("#panel-table a[data-expand]", "99000001")
	r.wait(`document.querySelector(".opened")`)
	r.Eval(`document.querySelector(".opened").scrollIntoView()`, nil)
	r.Picture("phone-job")
	outside(".opened, .opened :is(dl, dt, dd, pre)")
}

// looks checks the page in the light and the dark theme, on a phone and on paper.
func looks(t *testing.T, r *reader) {
	for name, v := range map[string]struct {
		width, height int
		scheme, media string
	}{"light": {1400, 1000, "light", ""}, "dark": {1400, 1000, "dark", ""}, "phone": {390, 844, "light", ""}} {
		r.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": v.width, "height": v.height, "deviceScaleFactor": 1, "mobile": v.width < 500}, nil)
		r.Call("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": v.scheme}}}, nil)
		r.visit("?last=all")
		var wide struct{ Page, Window float64 }
		r.Eval(`({Page: document.documentElement.scrollWidth, Window: document.documentElement.clientWidth})`, &wide)
		if wide.Page > wide.Window {
			t.Errorf("%s: the page is %v wide in a window of %v", name, wide.Page, wide.Window)
		}
		if faint := r.Faint(); len(faint) > 0 {
			t.Errorf("%s: too little contrast: %q", name, faint)
		}
		var black []string
		r.Eval(`[...document.querySelectorAll(".plot svg :is(path, text)")].filter((e) => getComputedStyle(e).fill === "rgb(0, 0, 0)").map((e) => e.outerHTML.slice(0, 300))`, &black)
		if v.scheme == "dark" && len(black) > 0 {
			t.Errorf("%s: %d areas and texts of figures are black, such as %s", name, len(black), black[0])
		}
		for _, panel := range []string{"summary", "users", "runs", "waste", "week", "table"} {
			r.Eval(`document.querySelector("#panel-`+panel+`").scrollIntoView()`, nil)
			r.Picture(name + "-" + panel)
		}
	}
	r.Call("Emulation.clearDeviceMetricsOverride", nil, nil)
	roles, nameless := r.Roles()
	if len(nameless) > 0 {
		t.Errorf("without a name: %q", nameless)
	}
	if pictures := roles["image"] + roles["img"]; pictures < 10 || roles["heading"] < len(panels) || roles["table"] < 3 {
		t.Errorf("for a screen reader there are %v", roles)
	}
	var printed struct{ Data string }
	r.Call("Page.printToPDF", map[string]any{"printBackground": false}, &printed)
	r.Keep("print.pdf", printed.Data)
	if len(printed.Data) < 50_000 {
		t.Errorf("a print of %d characters", len(printed.Data))
	}
	// Without scripts, the page contains its panels, too.
	r.Call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	r.OpenURL(r.site.URL + receive.Pages + "?last=all&static=1")
	r.Call("Emulation.setScriptExecutionDisabled", map[string]any{"value": false}, nil)
	var charts int
	r.Eval(`document.querySelectorAll(".plot svg[role=img]").length`, &charts)
	if charts < 10 {
		t.Errorf("%d charts without scripts", charts)
	}
}

// compareClusters shows two clusters beside each other and filters both.
func compareClusters(t *testing.T, r *reader) {
	r.visit("compare?a=vale&b=replay-1&last=all&f=user_name%3Duser003")
	r.Picture("compare")
	var numbers []string
	r.Eval(`[...document.querySelectorAll("#panel-summary .part")].map((p) => p.querySelector("h3").textContent + " " + p.querySelector("dd").textContent)`, &numbers)
	want := func(cluster string) string {
		return fmt.Sprintf("%s %.0f", cluster, r.site.number("SELECT count(*)::DOUBLE FROM jobs WHERE cluster = ? AND user_name = 'user003'", cluster))
	}
	if len(numbers) != 2 || numbers[0] != want("vale") || numbers[1] != want("replay-1") {
		t.Errorf("the two have %q jobs, want %q and %q", numbers, want("vale"), want("replay-1"))
	}
	var ids struct{ All, Different int }
	r.Eval(`(() => { const ids = [...document.querySelectorAll("[id]")].map((e) => e.id); return {All: ids.length, Different: new Set(ids).size}; })()`, &ids)
	if ids.All != ids.Different {
		t.Errorf("%d elements have %d ids", ids.All, ids.Different)
	}
	r.Eval(`document.querySelector("#panel-waits").scrollIntoView()`, nil)
	r.Picture("compare-waits")
}

// exports saves a panel and the table of jobs as CSV.
func exports(t *testing.T, r *reader) {
	dir := t.TempDir()
	r.Call("Page.setDownloadBehavior", map[string]any{"behavior": "allow", "downloadPath": dir}, nil)
	r.visit("?last=all&f=cluster%3Dreplay-1&f=user_name%3Duser003&columns=jobid,user_name,elapsed_s&sort=jobid&rows=10")
	for panel, want := range map[string]struct {
		lines int
		first string
	}{"users": {2, "user_name,jobs,elapsed,cpu_hours,wait,wait_since_eligible,failed,unused_cpu_hours\nuser003,25,25,1600,0,0,0,1600\n"}, "table": {26, ",jobid,user_name,elapsed_s\n"}} {
		r.click("#panel-"+panel+" .tools a", "CSV")
		var text []byte
		for range 200 {
			var err error
			if text, err = os.ReadFile(filepath.Join(dir, panel+".csv")); err == nil {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		if n := strings.Count(string(text), "\n"); n != want.lines || !strings.Contains(string(text), want.first) {
			t.Errorf("%s: the file has %d lines, want %d: %.300s", panel, n, want.lines, text)
		}
	}
}

// wrongQuery enters a wrong query, sees the error, and corrects the query. Meanwhile the panels, which still answer the
// query before, are as dim as while they load. So they are if the server does not answer.
func wrongQuery(t *testing.T, r *reader) {
	r.visit("?last=all")
	r.Eval(`document.querySelector("[name=q]").value = "user_nam:alice"; document.querySelector("[name=q]").form.requestSubmit()`, nil)
	r.wait(`document.querySelector("#controls .warning")?.textContent.includes("user_name")`)
	dim := func(when string, want bool) {
		t.Helper()
		var bright, dimmed int
		const count = `[...document.querySelectorAll("[data-panel] > h2")].map((e) =>
			getComputedStyle(e).opacity * getComputedStyle(e.parentElement).opacity).filter((o) => o %s).length`
		r.Eval(fmt.Sprintf(count, "=== 1"), &bright)
		r.Eval(fmt.Sprintf(count, "< 0.6"), &dimmed)
		if want && (bright > 0 || dimmed == 0) || !want && (bright == 0 || dimmed > 0) {
			t.Errorf("%s, %d panels are dimmed and %d are not", when, dimmed, bright)
		}
	}
	dim("with a wrong query", true)
	r.Picture("wrong")
	r.Eval(`document.querySelector("[name=q]").value = "user_name:user001"; document.querySelector("[name=q]").form.requestSubmit()`, nil)
	r.wait(`!document.querySelector("#controls .warning")`)
	r.loaded()
	dim("after the query was corrected", false)
	r.Eval(`window.answers = fetch;
		window.fetch = (url, options) =>
			String(url).includes("/panels/") ? Promise.reject(new Error("lost")) : answers(url, options);
		document.querySelector("[name=q]").value = "user_name:user002"; document.querySelector("[name=q]").form.requestSubmit()`, nil)
	r.wait(`document.querySelector("[data-panel] > .warning")`)
	r.loaded()
	dim("without an answer", true)
	r.Eval(`window.fetch = () => Promise.reject(new Error("lost")); document.querySelector("[name=q]").form.requestSubmit()`, nil)
	r.wait(`document.querySelector("#status").textContent.includes("lost")`)
	dim("without a page", true)
	r.Eval(`window.fetch = answers; document.querySelector("[name=q]").form.requestSubmit()`, nil)
	r.wait(`!document.querySelector("[data-panel] > .warning")`)
	r.loaded()
	dim("with answers again", false)
}
