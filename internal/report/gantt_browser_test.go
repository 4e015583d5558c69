package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/chromium"
	"rmreplay/internal/compare"
	"rmreplay/internal/hostlist"
)

// largeRun checks the limits for a large run: the size of the file, the time to the first
// view with the chart drawn, and the chart's response to keys.
func largeRun(t *testing.T, b *chromium.Browser) {
	large := schedule("large", 1, 10_000, machine{nodes: 7_000, processors: 32})
	r, err := New([]compare.Set{{Name: "large", Runs: []compare.Realization{large}}}, Options{Created: noon.Std()})
	if err != nil {
		t.Fatal(err)
	}
	path, size := savePage(t, r.WriteHTML)
	if size > largestPage {
		t.Errorf("the page has %d bytes, want at most %d", size, largestPage)
	}
	// Other programs slow the view down, but they do not change its processor time. The
	// test checks the processor time and logs the rest.
	b.Call("Performance.enable", map[string]any{"timeDomain": "threadTicks"}, nil)
	b.OpenFile(path)
	var milliseconds float64
	b.Eval(`new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(Math.max(performance.now(),
		...performance.getEntriesByType("paint").map((p) => p.startTime))))))`, &milliseconds)
	processor := b.MainThread()
	t.Logf("%.1f MB, first view with the chart after %.0f ms, of which the page computes %v",
		float64(size)/1e6, milliseconds, processor.Round(time.Millisecond))
	if processor > firstViewMax {
		t.Errorf("the first view takes %v of processor time, want at most %v", processor, firstViewMax)
	}
	var charts int
	b.Eval(`document.querySelectorAll("figure.gantt canvas").length`, &charts)
	if charts != 1 {
		t.Fatalf("%d charts, want 1", charts)
	}
	b.Picture("large-top")
	b.Eval(`document.querySelector("#nodes").scrollIntoView()`, nil)
	b.Picture("large-gantt")
	b.Eval(`document.querySelector("canvas").focus()`, nil)
	b.Press("+", "+", "PageUp", "PageUp", "PageUp", "ArrowRight", "ArrowDown")
	b.Picture("large-gantt-zoomed")
	var draw float64
	b.Eval(`(() => { const c = document.querySelector("figure.gantt").chart, t = performance.now(); c.reset(); c.draw(); return performance.now() - t })()`, &draw)
	t.Logf("everything drawn anew in %.0f ms", draw)
}

// chartByKeyboard uses the chart without a mouse and reads its text.
func chartByKeyboard(t *testing.T, b *chromium.Browser) {
	path, _ := savePage(t, mustReport(t).WriteHTML)
	b.OpenFile(path)
	b.Picture("pair-top")
	b.Eval(`document.querySelector("figure.gantt").scrollIntoView()`, nil)
	b.Picture("pair-gantt")
	said := func() (text string) {
		b.Eval(`document.querySelector("figure.gantt .details").innerText`, &text)
		return text
	}
	type view struct{ T0, T1, N0, N1 float64 }
	seen := func() (v view) {
		b.Eval(`(({t0, t1, n0, n1}) => ({T0: t0, T1: t1, N0: n0, N1: n1}))(document.querySelector("figure.gantt").chart.view)`, &v)
		return v
	}
	b.Eval(`document.querySelector("figure.gantt canvas").focus()`, nil)
	all := seen()
	b.Press("n")
	if got := said(); !strings.HasPrefix(got, "Job 100000\n") || !strings.Contains(got, "wait time\n") {
		t.Errorf("the first job is told as %q", got)
	}
	b.Picture("pair-gantt-job")
	b.Press("0", "+")
	if v := seen(); v.T1-v.T0 > 0.51*(all.T1-all.T0) || v.N1-v.N0 != all.N1 {
		t.Errorf("zoomed in to %+v of %+v", v, all)
	}
	if got := said(); !strings.Contains(got, "jobs run on these nodes in this time") {
		t.Errorf("the view is told as %q", got)
	}
	b.Press("PageUp", "ArrowLeft", "ArrowLeft", "ArrowLeft", "ArrowLeft", "ArrowLeft")
	if v := seen(); v.T0 != 0 || v.N1-v.N0 != all.N1/2 {
		t.Errorf("moved to the left edge: %+v", v)
	}
	b.Press("-", "-", "-", "PageDown", "PageDown")
	if v := seen(); v != all {
		t.Errorf("zoomed out to %+v, want %+v", v, all)
	}
	b.Eval(`(() => { const i = document.querySelector("figure.gantt input"); i.value = "100050"; i.dispatchEvent(new Event("change")) })()`, nil)
	if got := said(); !strings.HasPrefix(got, "Job 100050\n") {
		t.Errorf("the search found %q", got)
	}
	b.Eval(`(() => { const i = document.querySelector("figure.gantt input"); i.value = "nobody"; i.dispatchEvent(new Event("change")) })()`, nil)
	if got := said(); got != "There is no job, user or account nobody that had nodes." {
		t.Errorf("the search for what is not there said %q", got)
	}
}

// openSchedule opens the report of a run with 200 jobs on 40 nodes, and returns the run.
func openSchedule(t *testing.T, b *chromium.Browser) compare.Realization {
	one := schedule("one", 1, 200, machine{nodes: 40, processors: 8})
	r, err := New([]compare.Set{{Name: "one", Runs: []compare.Realization{one}}}, Options{Created: noon.Std()})
	if err != nil {
		t.Fatal(err)
	}
	path, _ := savePage(t, r.WriteHTML)
	b.OpenFile(path)
	return one
}

// viewCountsItsJobs checks that the text of a view counts only the jobs on the nodes that the view shows.
func viewCountsItsJobs(t *testing.T, b *chromium.Browser) {
	one := openSchedule(t, b)
	b.Eval(`document.querySelector("figure.gantt canvas").focus()`, nil)
	for range 4 {
		b.Press("PageUp")
		var text, first, last string
		b.Eval(`document.querySelector("figure.gantt .details").innerText`, &text)
		got := -1
		_, nodes, _ := strings.Cut(text, ", nodes ")
		if _, err := fmt.Sscanf(strings.ReplaceAll(nodes, ":", " :"), "%s to %s : %d jobs", &first, &last, &got); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		want := 0
		for i := range one.Rows {
			names, err := hostlist.Expand(one.Rows[i].Nodes)
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(names, func(name string) bool { return name >= first && name <= last }) {
				want++
			}
		}
		if got != want || want == len(one.Rows) {
			t.Errorf("%q, want %d of %d jobs", text, want, len(one.Rows))
		}
	}
}

// chartShowsItsJobs compares pixels of the chart with the run. A place where a job runs has
// the colour of its partition; a place without a job is white.
func chartShowsItsJobs(t *testing.T, b *chromium.Browser) {
	openSchedule(t, b)
	var wrong string
	b.Eval(`(() => {
		const c = document.querySelector("figure.gantt").chart, s = c.seg, d = c.data, all = c.canvas.getContext("2d").getImageData(0, 0, c.canvas.width, c.canvas.height).data;
		let looked = 0;
		for (let j = 0; j < d.jobs.length; j++) {
			const t = (s.start[j] + s.end[j]) / 2;
			if (s.offset[j] === s.offset[j + 1] || s.end[j] - s.start[j] < d.span / 100) continue;
			const ratio = c.canvas.width / c.canvas.getBoundingClientRect().width;
			const left = Math.round(c.left * ratio), w = c.canvas.width - left, h = c.canvas.height - Math.round(c.bottom * ratio);
			const x = left + t / d.span * w, y = (s.first[s.offset[j]] + 0.4) / d.nodes.length * h;
			const at = 4 * (Math.floor(y) * c.canvas.width + Math.floor(x)), pixel = all.slice(at, at + 4), hex = c.colours[Math.min(d.by.partition.of[j], c.colours.length - 1)], want = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
			looked++;
			if ([0, 1, 2].some((k) => Math.abs(pixel[k] - want[k]) > 3)) return "job " + d.jobs[j] + " is " + pixel + ", want " + want;
		}
		return looked > 20 ? "" : "only " + looked + " jobs were looked at";
	})()`, &wrong)
	if wrong != "" {
		t.Error(wrong)
	}
}

// openBusy opens the report of [busyMachine] and shows its chart.
func openBusy(t *testing.T, b *chromium.Browser) {
	t.Helper()
	r, err := New([]compare.Set{{Name: "busy", Runs: []compare.Realization{busyMachine()}}}, Options{Created: noon.Std()})
	if err != nil {
		t.Fatal(err)
	}
	path, _ := savePage(t, r.WriteHTML)
	b.OpenFile(path)
	b.Eval(`document.querySelector("figure.gantt").scrollIntoView()`, nil)
}

// point returns where on the window an instant and a node of the chart are.
func point(b *chromium.Browser, hours, node float64) (x, y float64) {
	var at struct{ X, Y float64 }
	b.Eval(fmt.Sprintf(`(() => {
		const c = document.querySelector("figure.gantt").chart, v = c.view, box = c.canvas.getBoundingClientRect();
		return {X: box.left + c.left + (%v * 3600 - v.t0) / (v.t1 - v.t0) * (box.width - c.left), Y: box.top + (%v - v.n0) / (v.n1 - v.n0) * (box.height - c.bottom)};
	})()`, hours, node), &at)
	return at.X, at.Y
}

// chartByPointer pins details by mouse and finger, and turns the wheel.
func chartByPointer(t *testing.T, b *chromium.Browser) {
	openBusy(t, b)
	said := func() (text string) {
		b.Eval(`document.querySelector("figure.gantt .details").innerText`, &text)
		return text
	}
	number := func(expression string) (v float64) {
		b.Eval(expression, &v)
		return v
	}
	span := func() float64 {
		return number(`(({t0, t1}) => t1 - t0)(document.querySelector("figure.gantt").chart.view)`)
	}
	scrolled := func() float64 {
		b.Eval("new Promise((done) => setTimeout(done, 300))", nil)
		return number("scrollY")
	}
	x, y := point(b, 7.5, 0.3)
	wheel := map[string]any{"deltaX": 0, "deltaY": -120}
	before, all := scrolled(), span()
	b.Mouse("mouseWheel", x, y, wheel)
	if after := scrolled(); after >= before || span() != all {
		t.Errorf("the wheel moved the page from %v to %v and the chart shows %v s of %v s, want the page to scroll", before, after, span(), all)
	}
	b.Eval(`document.querySelector("figure.gantt").scrollIntoView()`, nil)
	x, y = point(b, 7.5, 0.3)
	before = scrolled()
	b.Mouse("mouseWheel", x, y, map[string]any{"deltaX": 0, "deltaY": -120, "modifiers": 2})
	if after := scrolled(); after != before || span() >= all {
		t.Errorf("Ctrl and the wheel moved the page from %v to %v, and the chart shows %v s of %v s", before, after, span(), all)
	}
	b.Mouse("mousePressed", x, y, map[string]any{"button": "left", "clickCount": 1})
	b.Mouse("mouseReleased", x, y, map[string]any{"button": "left", "clickCount": 1})
	if got := said(); !strings.HasPrefix(got, "Job ") || !strings.Contains(got, "run time\n01:00:00") || !strings.Contains(got, "nodes\n1: n1") || !strings.Contains(got, "job </script>") {
		t.Errorf("a click says %q", got)
	}
	b.Picture("busy-details")
	before, all = scrolled(), span()
	b.Mouse("mouseWheel", x, y, wheel)
	if after := scrolled(); after != before || span() >= all {
		t.Errorf("after a click the wheel moved the page from %v to %v, and the chart shows %v s of %v s", before, after, span(), all)
	}
	b.Mouse("mouseMoved", 5, 5, nil)
	b.Mouse("mouseMoved", x, y, nil)
	all = span()
	b.Mouse("mouseWheel", x, y, wheel)
	if scrolled(); span() != all {
		t.Errorf("the wheel zooms although the pointer has left the chart since the click")
	}
	b.Eval(`(() => { const f = document.querySelector("figure.gantt"); f.scrollIntoView(); f.chart.reset(); f.chart.close(); f.chart.draw() })()`, nil)
	x, y = point(b, 9, 2.5)
	b.Call("Input.dispatchTouchEvent", map[string]any{"type": "touchStart", "touchPoints": []any{map[string]any{"x": x, "y": y}}}, nil)
	b.Call("Input.dispatchTouchEvent", map[string]any{"type": "touchEnd", "touchPoints": []any{}}, nil)
	if got := said(); !strings.HasPrefix(got, "Down ("+hostile+"): nodes n3.") || !strings.Contains(got, "until Thu 2023-11-16 00:00:00 UTC") {
		t.Errorf("a tap on an outage says %q", got)
	}
	if n := number(`document.querySelectorAll("img").length`); n != 0 {
		t.Errorf("text of the workload made %v pictures", n)
	}
	var touch string
	b.Eval(`getComputedStyle(document.querySelector("figure.gantt .chart > canvas")).touchAction`, &touch)
	if touch != "pan-y pinch-zoom" {
		t.Errorf("a finger on the chart: %q, want it to scroll the page up and down", touch)
	}
}

// chartShowsBands looks at pixels: reserved nodes and nodes out of service differ from free nodes,
// and jobs that share a node are drawn apart. The legend has the patterns.
func chartShowsBands(t *testing.T, b *chromium.Browser) {
	openBusy(t, b)
	// colours counts the colours of a part of the chart.
	colours := func(fromHour, toHour, fromNode, toNode float64) (n int) {
		x0, y0 := point(b, fromHour, fromNode)
		x1, y1 := point(b, toHour, toNode)
		b.Eval(fmt.Sprintf(`(() => {
			const c = document.querySelector("figure.gantt").chart.canvas, box = c.getBoundingClientRect(), k = c.width / box.width;
			const data = c.getContext("2d", {willReadFrequently: true}).getImageData((%v - box.left) * k, (%v - box.top) * k, %v * k, %v * k).data, seen = new Set();
			for (let i = 0; i < data.length; i += 4) seen.add(data.slice(i, i + 3).join());
			return seen.size;
		})()`, x0, y0, x1-x0, y1-y0), &n)
		return n
	}
	places := map[string][4]float64{"down": {7, 8, 2.1, 2.9}, "drained": {10.1, 11, 4.1, 4.9}, "reserved": {6, 14, 6, 8}}
	patterned := make(map[string]int)
	for name, place := range places {
		patterned[name] = colours(place[0], place[1], place[2], place[3])
	}
	b.Eval(`(() => { const c = document.querySelector("figure.gantt").chart; c.bands = c.data.bands; c.data.bands = []; c.draw(); })()`, nil)
	for name, place := range places {
		if plain := colours(place[0], place[1], place[2], place[3]); patterned[name] < plain+2 {
			t.Errorf("nodes that are %s have %d colours, and %d without a pattern", name, patterned[name], plain)
		}
	}
	b.Eval(`(() => { const c = document.querySelector("figure.gantt").chart; c.data.bands = c.bands; c.draw(); })()`, nil)
	var legend string
	b.Eval(`document.querySelector("figure.gantt .legend").innerText.replace(/\s+/g, " ").trim()`, &legend)
	if want := "batch reserved down draining or drained"; legend != want {
		t.Errorf("the legend is %q, want %q", legend, want)
	}
	// A column of one colour, crossed by the lines between jobs: the node's eight processors in
	// an hour in which jobs share it.
	var lines int
	x, y0 := point(b, 20.5, 0)
	_, y1 := point(b, 20.5, 6)
	b.Eval(fmt.Sprintf(`(() => {
		const c = document.querySelector("figure.gantt").chart.canvas, box = c.getBoundingClientRect(), k = c.width / box.width;
		const data = c.getContext("2d").getImageData((%v - box.left) * k, (%v - box.top) * k, 1, %v * k).data;
		let lines = 0;
		for (let i = 4; i < data.length; i += 4) if (data[i] > 200 && data[i - 4] < 200) lines++;
		return lines;
	})()`, x, y0, y1-y0), &lines)
	jobs := 0
	for _, row := range busyMachine().Rows {
		if row.Start == noon.Add(20*time.Hour) && row.Nodes < "n7" {
			jobs++
		}
	}
	if lines < jobs-4 {
		t.Errorf("%d lines between %d jobs", lines, jobs)
	}
	b.Eval(`(() => { const i = document.querySelector("figure.gantt input"); i.value = "user3"; i.dispatchEvent(new Event("change")) })()`, nil)
	var said string
	b.Eval(`document.querySelector("figure.gantt .details").innerText`, &said)
	if !strings.Contains(said, " jobs of user user3") {
		t.Errorf("the search for a user says %q", said)
	}
	b.Press("n")
	b.Eval(`document.querySelector("figure.gantt canvas").focus()`, nil)
	for _, scheme := range []string{"light", "dark"} {
		b.Call("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}}, nil)
		b.Eval(`document.querySelector("figure.gantt").chart.draw()`, nil)
		b.Picture("busy-found-" + scheme)
	}
	b.Eval(`document.querySelector("figure.gantt").chart.find("")`, nil)
	b.Press("x")
	b.Picture("busy-dark")
	b.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true}, nil)
	b.Eval(`document.querySelector("figure.gantt").scrollIntoView()`, nil)
	b.Press("x")
	b.Picture("busy-narrow")
	var printed struct{ Data string }
	b.Call("Page.printToPDF", map[string]any{"printBackground": false}, &printed)
	b.Keep("busy-print.pdf", printed.Data)
}
