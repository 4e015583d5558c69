package report

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"rmreplay/internal/chromium"
	"rmreplay/internal/compare"
)

// The limits for a run of 10,000 jobs on 7,000 nodes.
const (
	largestPage  = 15 << 20
	firstViewMax = time.Second
)

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
	b := chromium.Open(t)
	for name, test := range map[string]func(*testing.T, *chromium.Browser){
		"large run": largeRun, "chart by keyboard": chartByKeyboard, "chart shows its jobs": chartShowsItsJobs, "view counts its jobs": viewCountsItsJobs, "chart by pointer": chartByPointer,
		"chart shows bands": chartShowsBands, "without scripts": withoutScripts,
		"narrow window": narrowWindow, "light and dark": lightAndDark, "tables fit": tablesFit, "dark figures": darkFigures,
	} {
		t.Run(name, func(t *testing.T) {
			tab := b.Tab(t)
			test(t, tab)
			for _, text := range tab.Errors {
				t.Errorf("on the console: %s", text)
			}
		})
	}
}

// withoutScripts checks that the page shows its pictures and tables without scripts and on paper.
func withoutScripts(t *testing.T, b *chromium.Browser) {
	path, _ := savePage(t, mustReport(t).WriteHTML)
	b.Call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	b.OpenFile(path)
	var tree struct {
		Nodes []struct {
			Role, Name struct{ Value any }
			Ignored    bool
		}
	}
	b.Call("Accessibility.getFullAXTree", nil, &tree)
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
	b.Call("Page.printToPDF", map[string]any{"printBackground": false}, &printed)
	b.Keep("print-without-scripts.pdf", printed.Data)
	if len(printed.Data) < 50_000 {
		t.Errorf("a print of %d characters", len(printed.Data))
	}
}

// tablesFit checks that no table scrolls at the usual width of a window, nor on a telephone, with
// all folded parts open, and that the page has the width of the window.
func tablesFit(t *testing.T, b *chromium.Browser) {
	small := machine{nodes: 40, processors: 8}
	reacted, err := New([]compare.Set{{Name: "reacting", Runs: []compare.Realization{reacting(schedule("r", 2, 100, small))}}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]*Report{"a pair": mustReport(t), "users who react": reacted, "one run": alone(t, schedule("run", 1, 300, small), Options{})} {
		path, _ := savePage(t, r.WriteHTML)
		b.OpenFile(path)
		for _, width := range []int{1400, 390} {
			b.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil)
			var wide []string
			b.Eval(`(() => {
				for (const d of document.querySelectorAll("details")) d.open = true;
				return [...document.querySelectorAll(".scroll")].filter((e) => e.scrollWidth > e.clientWidth + 1)
					.map((e) => e.getAttribute("aria-label") + " " + e.scrollWidth + " > " + e.clientWidth);
			})()`, &wide)
			if len(wide) > 0 {
				t.Errorf("%s: in a window of %d these tables are too wide: %q", name, width, wide)
			}
			var page int
			if b.Eval("document.documentElement.scrollWidth", &page); page > width {
				t.Errorf("%s: in a window of %d the page has a width of %d", name, width, page)
			}
		}
	}
	b.Call("Emulation.clearDeviceMetricsOverride", nil, nil)
}

// darkFigures checks that in the dark theme figures are dark with light text on the screen, and
// light on paper.
func darkFigures(t *testing.T, b *chromium.Browser) {
	path, _ := savePage(t, mustReport(t).WriteHTML)
	b.OpenFile(path)
	dark := map[string]any{"name": "prefers-color-scheme", "value": "dark"}
	for name, media := range map[string]map[string]any{
		"dark":           {"features": []any{dark}},
		"dark, on paper": {"features": []any{dark}, "media": "print"},
	} {
		b.Call("Emulation.setEmulatedMedia", media, nil)
		var wrong []string
		b.Eval(fmt.Sprintf(`(() => {
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
		b.Eval(`document.querySelector("#machine").scrollIntoView()`, nil)
		b.Picture("figures-" + name)
		b.Eval(`document.querySelector("#file-systems").scrollIntoView()`, nil)
		b.Picture("file-systems-" + name)
	}
}

// narrowWindow checks that no line is wider than a telephone, and that wide tables scroll
// in their own frames.
func narrowWindow(t *testing.T, b *chromium.Browser) {
	path, _ := savePage(t, mustReport(t).WriteHTML)
	b.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true}, nil)
	b.OpenFile(path)
	var wide struct{ Page, Window float64 }
	b.Eval(`({Page: document.documentElement.scrollWidth, Window: document.documentElement.clientWidth})`, &wide)
	if wide.Page > wide.Window {
		t.Errorf("the page is %v wide in a window of %v", wide.Page, wide.Window)
	}
	var empty int // labels without a value
	b.Eval(`[...document.querySelectorAll("tbody td")].filter((c) => c.textContent === "" && getComputedStyle(c).display !== "none").length`, &empty)
	if empty > 0 {
		t.Errorf("%d cells have a label and no value", empty)
	}
	for _, section := range []string{"summary", "metrics", "machine", "file-systems", "figure-io-licenses", "distances", "nodes"} {
		b.Eval(`document.querySelector("#`+section+`").scrollIntoView()`, nil)
		b.Picture("narrow-" + section)
	}
}

// lightAndDark checks the contrast of every text against WCAG 2.2 (4.5 to 1, success
// criterion 1.4.3), with the light and with the dark colours.
func lightAndDark(t *testing.T, b *chromium.Browser) {
	path, _ := savePage(t, mustReport(t).WriteHTML)
	b.OpenFile(path)
	for _, scheme := range []string{"light", "dark"} {
		b.Call("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}}, nil)
		if faint := b.Faint(); len(faint) > 0 {
			t.Errorf("%s: too little contrast: %q", scheme, faint)
		}
		for _, section := range []string{"summary", "metrics", "machine", "file-systems", "figure-io-licenses", "distances", "nodes"} {
			b.Eval(`document.querySelector("#`+section+`").scrollIntoView()`, nil)
			b.Picture(scheme + "-" + section)
		}
	}
	b.Call("Emulation.setEmulatedMedia", map[string]any{"media": "print"}, nil)
	b.Eval(`scrollTo(0, 0)`, nil)
	b.Picture("print-top")
}
