package quantity

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTable(t *testing.T) {
	table := NewTable(8, 10, 8)
	table.Row("", "A", "relative")
	table.Row("wait [s]", 8277.4, "+275913.3%", "  *")
	table.Row("é", "", "1")
	want := "                 A    relative\nwait [s]    8277.4  +275913.3%  *\né                            1\n"
	if got := table.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// Whatever the cells are, two blanks or more are between columns, and every cell of a column ends at the same place.
func TestColumnsDoNotTouch(t *testing.T) {
	cell := rapid.StringMatching(`[a-z0-9.%+é-]{1,20}`)
	rapid.Check(t, func(t *rapid.T) {
		widths := rapid.SliceOfN(rapid.IntRange(0, 15), 2, 6).Draw(t, "widths")
		table := NewTable(widths...)
		var rows [][]string
		for range rapid.IntRange(1, 5).Draw(t, "rows") {
			row := rapid.SliceOfN(cell, len(widths), len(widths)).Draw(t, "row")
			cells := make([]any, len(row))
			for i := range row {
				cells[i] = row[i]
			}
			table.Row(cells...)
			rows = append(rows, row)
		}
		length := 0
		for k, line := range strings.Split(strings.TrimSuffix(table.String(), "\n"), "\n") {
			got := regexp.MustCompile(` {2,}`).Split(line, -1)
			if strings.Join(got, "|") != strings.Join(rows[k], "|") {
				t.Fatalf("cells %q of %q, want %q", got, line, rows[k])
			}
			if n := len([]rune(line)); k > 0 && n != length {
				t.Fatalf("line %q has %d columns, the one before %d", line, n, length)
			} else {
				length = n
			}
		}
	})
}

// touching are columns of a format that touch if a figure is larger than its author thought.
var touching = regexp.MustCompile(`%-?[0-9]+[sdqvt]%-?[0-9*]+(\.[0-9]+)?[sdqvtfg]`)

// No package prints a table with a format whose columns can touch: [Table] is for tables.
func TestTablesAreTables(t *testing.T) {
	for _, sample := range []string{"%-24s%12s", `"%9d%9s\n"`, "%12s%-8.3f"} {
		if !touching.MatchString(sample) {
			t.Errorf("%q is not found", sample)
		}
	}
	for _, root := range []string{"../../internal", "../../cmd"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for i, line := range bytes.Split(text, []byte("\n")) {
				if found := touching.Find(line); found != nil {
					t.Errorf("%s:%d: columns of %q touch if a figure is large (want a quantity.Table)", path, i+1, found)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
