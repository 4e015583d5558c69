package report

import (
	"slices"
	"strings"
	"testing"

	"rmreplay/internal/compare"
)

// The page shows file systems if a run has some, with a table of every figure's numbers.
func TestFileSystemsSection(t *testing.T) {
	shared, other := schedule("shared", 1, 100, machine{nodes: 20, processors: 1}), schedule("other", 2, 100, machine{nodes: 20, processors: 1})
	withIO(&shared, 60<<20)
	none := schedule("none", 1, 100, machine{nodes: 20, processors: 1})
	of := func(r compare.Realization) compare.Set {
		return compare.Set{Name: r.Name, Runs: []compare.Realization{r}}
	}
	for name, c := range map[string]struct {
		sets  []compare.Set
		panel int // number of panels in the figure of the bandwidth
	}{
		"one run": {[]compare.Set{of(shared)}, 1}, "two": {[]compare.Set{of(shared), of(shared)}, 2},
		"one of two": {[]compare.Set{of(other), of(shared)}, 1}, "none": {[]compare.Set{of(none)}, 0},
	} {
		r, err := New(c.sets, Options{})
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(r.Sections, func(s Section) bool { return s.ID == "file-systems" })
		if (at >= 0) != (c.panel > 0) {
			t.Errorf("%s: section %d", name, at)
		}
		if at < 0 {
			continue
		}
		var figures []string
		for _, b := range r.Sections[at].Blocks {
			if f := b.Figure; f != nil {
				figures = append(figures, f.Name)
				if len(f.Plots) != c.panel || f.Data == nil || len(f.Data.Rows) < 10 {
					t.Errorf("%s, %s: %d panels, want %d, with a table", name, f.Name, len(f.Plots), c.panel)
				}
			}
		}
		if want := []string{"bandwidth", "io-licenses"}; !slices.Equal(figures, want) {
			t.Errorf("%s: figures %q, want %q", name, figures, want)
		}
		text := string(pageOf(t, r))
		for _, want := range []string{"lustre oversubscribed", "mean stretch", "the part of the time in which jobs requested more than the bandwidth"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q on the page", name, want)
			}
		}
		if strings.Contains(text, "NaN") {
			t.Errorf("%s: NaN on the page", name)
		}
		if warned := strings.Contains(text, "only B has file systems"); warned != (name == "one of two") {
			t.Errorf("%s: warned %t", name, warned)
		}
	}
	broken := shared
	broken.Rows = slices.Clone(shared.Rows)
	broken.Rows[0].Request = `{"io":[`
	if _, err := New([]compare.Set{of(broken)}, Options{}); err == nil {
		t.Error("a record with a broken request: no error")
	}
}
