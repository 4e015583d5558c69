package quantity

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Table writes rows in columns for a terminal: the first column aligned to the left, all others to
// the right. A column has the requested width, and is wider if a cell would otherwise have less
// than two blanks before it.
type Table struct {
	widths []int
	rows   [][]string
}

// NewTable returns a table whose columns have at least the given widths, the blanks before a cell included.
func NewTable(widths ...int) *Table { return &Table{widths: widths} }

// Row adds a row. A cell beyond the last column ends the line, and is written as it is.
func (t *Table) Row(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = fmt.Sprint(cell)
	}
	t.rows = append(t.rows, row)
}

// String returns the rows, each as a line.
func (t *Table) String() string {
	var b strings.Builder
	lines := make([]strings.Builder, len(t.rows))
	for i, width := range t.widths {
		for _, row := range t.rows {
			if i < len(row) {
				width = max(width, utf8.RuneCountInString(row[i])+2*min(i, 1))
			}
		}
		if i == 0 {
			width = -width
		}
		for k, row := range t.rows {
			if i < len(row) {
				fmt.Fprintf(&lines[k], "%*s", width, row[i])
			}
		}
	}
	for k, row := range t.rows {
		for _, cell := range row[min(len(t.widths), len(row)):] {
			lines[k].WriteString(cell)
		}
		b.WriteString(strings.TrimRight(lines[k].String(), " ") + "\n")
	}
	return b.String()
}
