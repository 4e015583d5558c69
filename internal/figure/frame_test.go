package figure

import (
	"image/color"
	"math"
	"regexp"
	"strconv"
	"testing"

	"gonum.org/v1/plot"
)

// A frame says where a bar is drawn.
func TestFrameIsWhereBarsAre(t *testing.T) {
	for name, legend := range map[string]Legend{"plain": nil, "legend": Swatches{{Colour(0), "bars"}}} {
		p := NewPlot("", "x", "y")
		if err := AddBars(p, []float64{10, 20, 30}, [][]float64{{0, 8}}, Colour); err != nil {
			t.Fatal(err)
		}
		p.Y.Min, p.Y.Max = 0, 16
		f := &Figure{Name: "f", Width: 400, Height: 200, Legend: legend, Plots: []*plot.Plot{p}}
		svg, err := f.SVG()
		if err != nil {
			t.Fatal(err)
		}
		frame := f.Frame()
		// The last path of the bars' colour is their area. The picture's origin is the lower left corner.
		areas := regexp.MustCompile(`<path d="([^"]*)"\s*style="fill:var\(--blue,[^"]*"`).FindAllStringSubmatch(string(svg), -1)
		if len(areas) == 0 {
			t.Fatalf("%s: no bars in %s", name, svg)
		}
		left, right := math.Inf(1), math.Inf(-1)
		for _, m := range regexp.MustCompile(`[ML]([-0-9.]+),([-0-9.]+)`).FindAllStringSubmatch(areas[len(areas)-1][1], -1) {
			x, errX := strconv.ParseFloat(m[1], 64)
			if errX != nil {
				t.Fatal(m)
			}
			left, right = min(left, x), max(right, x)
		}
		// vgsvg draws in points, or with 90 dots per inch.
		width, said := right-left, (frame.X(30)-frame.X(10))*float64(f.Width)
		if math.Abs(width/said-1) > 0.02 && math.Abs(width/said-90.0/72) > 0.02 {
			t.Errorf("%s: bars %v wide, the frame says %v", name, width, said)
		}
		if got, want := frame.Y(8), (frame.Top+frame.Bottom)/2; math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: the middle is at %v, want %v", name, got, want)
		}
		if frame.Left <= 0 || frame.Right > 1 || frame.Top < 0 || frame.Bottom >= 1 || frame.X(10) != frame.Left {
			t.Errorf("%s: %+v", name, frame)
		}
	}
}

// A whole ring has the area of a ring, and a wedge begins at the top.
func TestWedge(t *testing.T) {
	area := func(outline []struct{ X, Y float64 }) (sum float64) {
		for i, a := range outline {
			b := outline[(i+1)%len(outline)]
			sum += (a.X*b.Y - b.X*a.Y) / 2
		}
		return math.Abs(sum)
	}
	convert := func(inner, outer, from, to float64) (points []struct{ X, Y float64 }) {
		for _, p := range Wedge(inner, outer, from, to) {
			points = append(points, struct{ X, Y float64 }{p.X, p.Y})
		}
		return points
	}
	if got, want := area(convert(0.5, 1, 0, 1)), math.Pi*0.75; math.Abs(got-want) > 0.01*want {
		t.Errorf("a ring of %v, want %v", got, want)
	}
	if got, want := area(convert(0, 1, 0.1, 0.35)), math.Pi/4; math.Abs(got-want) > 0.01*want {
		t.Errorf("a quarter of %v, want %v", got, want)
	}
	if p := convert(0, 1, 0, 0.25)[0]; math.Abs(p.X) > 1e-9 || math.Abs(p.Y-1) > 1e-9 {
		t.Errorf("begins at %+v", p)
	}
	p := NewPlot("", "", "")
	if err := AddWedge(p, Wedge(0, 1, 0, 1), color.Black); err != nil {
		t.Error(err)
	}
}

// Each text of a figure on a page has a width, and only known colours become variables of the page.
func TestTextsAndColoursOfThePage(t *testing.T) {
	p := NewPlot("", "x & <y>", "y")
	svg, err := (&Figure{Name: "f", Width: 400, Height: 200, Plots: []*plot.Plot{p}}).SVG()
	if err != nil {
		t.Fatal(err)
	}
	texts := regexp.MustCompile(`<text [^>]*>`).FindAllString(string(svg), -1)
	if len(texts) < 3 {
		t.Fatalf("only %d texts: %s", len(texts), svg)
	}
	for _, text := range texts {
		if !regexp.MustCompile(` textLength="[1-9][0-9.]*" `).MatchString(text) {
			t.Errorf("%s has no width", text)
		}
	}
	const given = `<a style="fill:#000000;stroke:#123456"/>#000000<text font-size:9px>not whole`
	if got, want := string(fitText(themed([]byte(given)))), `<a style="fill:var(--ink,#000000);stroke:#123456"/>#000000<text font-size:9px>not whole`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
