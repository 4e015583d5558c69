package jobtable

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"rmreplay/internal/inert"
	"rmreplay/internal/quantity"
)

// Version is the version of the JSON encoding of a [Table].
const Version = 1

// Document is the JSON of a table. Each row has the columns' keys; a value that a job does not have
// is null.
type Document struct {
	Version int              `json:"rmreplay_jobs"`
	Run     string           `json:"run"`
	Jobs    int              `json:"jobs"`    // of the run; each task of a rejected array counts
	Matched int              `json:"matched"` // jobs that the filter keeps
	Columns []string         `json:"columns"`
	Rows    []map[string]any `json:"rows"` // at most as many as the limit
}

// Document returns the table for JSON. name is the run's name.
func (t *Table) Document(name string) Document {
	d := Document{Version: Version, Run: name, Jobs: t.Jobs, Matched: t.Matched, Columns: []string{},
		Rows: []map[string]any{}}
	for _, c := range t.Columns {
		d.Columns = append(d.Columns, c.Key())
	}
	for _, r := range t.Rows {
		row := make(map[string]any, len(t.Columns))
		for _, c := range t.Columns {
			row[c.Key()] = c.value(r)
		}
		d.Rows = append(d.Rows, row)
	}
	return d
}

// CSV writes the table in the form of RFC 4180, with a header.
func (t *Table) CSV(w io.Writer) error {
	out := inert.NewWriter(w)
	line := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		line[i] = c.Key()
	}
	if err := out.Write(line); err != nil {
		return err
	}
	for _, r := range t.Rows {
		for i, c := range t.Columns {
			line[i] = c.forPrograms(r)
		}
		if err := out.Write(line); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// Render writes the table for people, with dates in a time zone. The last line says how many jobs
// there are.
func (t *Table) Render(w io.Writer, zone *time.Location) error {
	lines := make([][]string, 0, len(t.Rows)+1)
	head := make([]string, len(t.Columns))
	width := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		head[i] = c.Name
	}
	lines = append(lines, head)
	for _, r := range t.Rows {
		line := make([]string, len(t.Columns))
		for i, c := range t.Columns {
			line[i] = c.forPeople(r, zone)
		}
		lines = append(lines, line)
	}
	for _, line := range lines {
		for i, text := range line {
			width[i] = max(width[i], utf8.RuneCountInString(text))
		}
	}
	var b bytes.Buffer
	for _, line := range lines {
		for i, text := range line {
			if i > 0 {
				b.WriteString("  ")
			}
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(text))
			switch {
			case t.Columns[i].number != nil: // numbers to the right
				b.WriteString(pad + text)
			case i == len(line)-1:
				b.WriteString(text)
			default:
				b.WriteString(text + pad)
			}
		}
		b.WriteByte('\n')
	}
	shown, arrays := countJobs(t.Rows), ""
	if shown > len(t.Rows) {
		arrays = fmt.Sprintf("; %s above: a rejected array is one line, and each of its tasks is a job",
			quantity.Regular(len(t.Rows), "line"))
	}
	switch {
	case shown < t.Matched:
		fmt.Fprintf(&b, "%d of %d %s (%d in the run)%s\n", shown, t.Matched,
			quantity.Plural(t.Matched, "job", "jobs"), t.Jobs, arrays)
	case t.Matched < t.Jobs:
		fmt.Fprintf(&b, "%d of %d %s%s\n", t.Matched, t.Jobs, quantity.Plural(t.Jobs, "job", "jobs"), arrays)
	default:
		fmt.Fprintf(&b, "%d %s%s\n", t.Jobs, quantity.Plural(t.Jobs, "job", "jobs"), arrays)
	}
	_, err := w.Write(b.Bytes())
	return err
}
