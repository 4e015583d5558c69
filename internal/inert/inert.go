// Package inert writes texts that others have chosen, such as names of jobs, without effect on the
// program that shows them: spreadsheets run formulas, and terminals obey control sequences.
package inert

import (
	"encoding/csv"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// number matches cells that begin like a formula and are numbers.
var number = regexp.MustCompile(`^[+-]([0-9]*\.?[0-9]+([eE][+-]?[0-9]+)?|Inf)$`)

// formula reports whether spreadsheets read a cell, without the quotes at its beginning, as a
// formula. The characters come from OWASP's page on CSV injection.
func formula(text string) bool {
	text = strings.TrimLeft(text, "'")
	first, _ := utf8.DecodeRuneInString(text)
	return text != "" && strings.ContainsRune("=+-@\t\r\n＝＋－＠", first) && !number.MatchString(text)
}

// Cell returns a text as a cell of a CSV file: with a quote (') before it if a spreadsheet would
// read it as a formula. Numbers do not change.
func Cell(text string) string {
	if formula(text) {
		return "'" + text
	}
	return text
}

// Text returns the text of a cell that [Cell] has made.
func Text(cell string) string {
	if strings.HasPrefix(cell, "'") && formula(cell) {
		return cell[1:]
	}
	return cell
}

// Writer writes CSV as [csv.Writer] does, with each cell as [Cell] makes it.
type Writer struct {
	*csv.Writer
	cells []string
}

// NewWriter returns a writer of CSV.
func NewWriter(w io.Writer) *Writer { return &Writer{Writer: csv.NewWriter(w)} }

// Write writes a row. Its error is the error of the underlying writer.
func (w *Writer) Write(row []string) error {
	w.cells = w.cells[:0]
	for _, text := range row {
		w.cells = append(w.cells, Cell(text))
	}
	return w.Writer.Write(w.cells)
}

// Lines returns a text of one or more lines for a terminal. It makes three kinds of characters
// visible, such as \x1b and \u202e: the control characters of C0 and C1, bytes that are not UTF-8,
// and characters that change the direction of the text or end a line. Tabs and line feeds stay.
func Lines(text string) string { return visible(text, "\n\t") }

// Line is [Lines] for a part of a line, such as a cell of a table: tabs and line feeds become visible,
// too.
func Line(text string) string { return visible(text, "") }

// JSON returns a JSON text with the same value, in which the characters that [Lines] makes visible are escaped.
func JSON(text []byte) []byte {
	if strings.IndexFunc(string(text), acts) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range string(text) {
		if acts(r) && r != '\n' && r != '\t' && r != '\r' { // white space between values
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return []byte(b.String())
}

// acts reports whether a terminal may do something else with a character than show it.
func acts(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

func visible(text, keep string) string {
	wrong := func(r rune) bool { return acts(r) && !strings.ContainsRune(keep, r) }
	if utf8.ValidString(text) && strings.IndexFunc(text, wrong) < 0 {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1, r < utf8.RuneSelf && wrong(r):
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case wrong(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(text[:size])
		}
		text = text[size:]
	}
	return b.String()
}
