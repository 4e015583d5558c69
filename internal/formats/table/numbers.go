package table

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// separators are the characters in numbers apart from digits: decimal separators and thousands separators.
const separators = ".,'\u2019\u00a0\u202f"

// notation says how a table writes its numbers.
type notation struct {
	decimal string // the character before a fraction, "." or ","; "" if it is not known
	guessed bool   // decimal is not from the map, but from the values
}

// split returns the number at the beginning of a text, with its separators, and the rest of the text.
func split(text string) (number, rest string) {
	at := strings.IndexFunc(text, func(r rune) bool { return !isDigit(r) && !strings.ContainsRune(separators, r) })
	if at < 0 {
		at = len(text)
	}
	number = strings.TrimRight(text[:at], "\u00a0\u202f") // a blank before a unit
	return number, text[len(number):]
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

func notDigit(r rune) bool { return !isDigit(r) }

// unseparated returns a number in Go's notation. The parameter decimal is the decimal separator. ok is false unless
// another separator divides the whole part into groups of three digits.
func unseparated(number, decimal string) (plain string, ok bool) {
	whole, fraction, has := strings.Cut(number, decimal)
	if strings.ContainsFunc(fraction, notDigit) {
		return "", false
	}
	if at := strings.IndexFunc(whole, notDigit); at >= 0 {
		separator := string([]rune(whole[at:])[:1])
		groups := strings.Split(whole, separator)
		for i, group := range groups {
			if strings.ContainsFunc(group, notDigit) || i > 0 && len(group) != 3 {
				return "", false
			}
		}
		if first := groups[0]; len(first) < 1 || len(first) > 3 || first[0] == '0' {
			return "", false
		}
		whole = strings.Join(groups, "")
	}
	if has {
		whole += "." + fraction
	}
	return whole, whole != "" && whole != "."
}

// plain returns a text whose number is in Go's notation. If the table's notation is not known, a
// comma stays in the text. The error says that the number is not in the table's notation.
func (n notation) plain(text string) (string, error) {
	number, rest := split(text)
	if !strings.ContainsAny(number, separators) || n.decimal == "" && strings.Contains(number, ",") {
		return text, nil
	}
	decimal := n.decimal
	if decimal == "" {
		decimal = "."
	}
	plain, ok := unseparated(number, decimal)
	switch {
	case ok:
		return plain + rest, nil
	case decimal == "," && strings.Contains(number, "."):
		if n.guessed {
			return "", errors.New(`not a number with a decimal comma, as most of the table are (want 1.234,5, or decimal: "." in the map)`)
		}
		return "", errors.New("not a number with a decimal comma, as the map says (want 1.234,5)")
	}
	return text, nil // for example a date
}

// errComma says that a number cannot be read without a setting in the map.
var errComma = errors.New(`a number with a comma (want decimal: "," in the map if a fraction follows, and otherwise decimal: ".")`)

// hasComma reports whether a text is a number with a comma that may be a decimal separator or a thousands separator.
func hasComma(text string) bool {
	number, _ := split(text)
	_, fraction := unseparated(number, ",")
	_, thousands := unseparated(number, ".")
	return strings.Contains(number, ",") && (fraction || thousands)
}

// notWhole returns the error in a count that has a fraction.
func notWhole(text string) error {
	if thousands, ok := unseparated(text, ","); ok {
		return fmt.Errorf(`not a whole number (want decimal: "," in the map if it is %s)`, thousands)
	}
	return errors.New("not a whole number (want times: 1 in the map to round it up)")
}

// evidence counts the numbers that can be read with only one of the two decimal separators.
type evidence struct {
	comma, point string // an example of each
	balance      int    // numbers with a comma less those with a point
}

// add adds the number at the beginning of a text.
func (e *evidence) add(text string) {
	number, _ := split(text)
	if !strings.ContainsAny(number, ".,") {
		return
	}
	_, comma := unseparated(number, ",")
	_, point := unseparated(number, ".")
	switch {
	case comma && !point:
		e.comma = text
		e.balance++
	case point && !comma:
		e.point = text
		e.balance--
	}
}

// decimal returns the decimal separator that most numbers need, with an example. It returns "" if no number needs one,
// or if as many numbers need the other.
func (e *evidence) decimal() (decimal, example string) {
	switch {
	case e.balance > 0:
		return ",", e.comma
	case e.balance < 0:
		return ".", e.point
	}
	return "", ""
}

// measures reports whether the values of a kind are numbers with or without a unit.
func (k kind) measures() bool { return k == aCount || k == aDuration || k == aMemory }

// notationOf returns how a table writes numbers: as the map says, or else as the rows in the first
// bytes of the file do. Parquet and JSON have numbers.
func (s *Reader) notationOf(t table, head []byte) notation {
	text, ok := t.(*textTable)
	if s.m.Decimal != "" || !ok {
		return notation{decimal: s.m.Decimal}
	}
	columns, err := s.columns(t)
	if err != nil {
		return notation{} // the caller finds the same error
	}
	var names []string
	for _, c := range columns {
		if s.kinds[c.field].measures() && c.name != "" {
			names = append(names, c.name)
		}
	}
	var e evidence
	_ = text.begin(head).each(names, func(r *row) error { // the last row may be cut off
		for _, cell := range r.cells {
			e.add(cell)
		}
		return nil
	})
	decimal, _ := e.decimal()
	return notation{decimal, decimal != ""}
}

// plain returns the text of a field in Go's notation of numbers, and counts a job for which this is a
// guess.
func (v *values) plain(name, text string) (string, error) {
	n, kind := v.s.numbers, v.s.kinds[name]
	if !kind.measures() && kind != anInstant && kind != anExitCode || v.s.m.Fields[name].Value != "" {
		return text, nil
	}
	if _, rest := split(text); rest != "" && !kind.measures() {
		return text, nil
	}
	plain, err := n.plain(text)
	v.guessed = v.guessed || err == nil && n.guessed && plain != text
	return plain, err
}

// measured reports whether a column has the name of a field of one of the kinds.
func measured(column string, kinds ...kind) bool {
	name, _ := hinted(column)
	return slices.ContainsFunc(fieldSpecs, func(spec fieldSpec) bool {
		return slices.Contains(kinds, spec.kind) && (slices.Contains(spec.aliases, name) || slices.Contains(spec.aliases, plain(column)))
	})
}

// numeric returns the columns with the names of counts, durations and memory or, if their names say
// nothing, those in which all values are numbers.
func (p *proposal) numeric() (list []string) {
	for _, column := range p.columns {
		if measured(column, aCount, aDuration, aMemory) {
			list = append(list, column)
		}
	}
	if list != nil {
		return list
	}
	other := func(text string) bool {
		_, rest := split(text)
		return rest != ""
	}
	for _, column := range p.columns {
		if !slices.ContainsFunc(p.values[column], other) {
			list = append(list, column)
		}
	}
	return list
}

// readNumbers decides how the table writes numbers, and translates the sampled values. If no other number shows the
// notation, a count such as 1.024 does: counts are whole, so its point must separate thousands.
func (p *proposal) readNumbers() {
	if _, ok := p.table.(*textTable); !ok {
		return
	}
	var e evidence
	grouped := ""
	for _, column := range p.numeric() {
		for _, text := range p.values[column] {
			e.add(text)
			if _, ok := unseparated(text, ","); ok && hasFraction(text) && measured(column, aCount) {
				grouped = text
			}
		}
	}
	decimal, example := e.decimal()
	if decimal == "" && grouped != "" {
		decimal, example = ",", grouped
	}
	numbers, changed := notation{decimal: decimal}, false
	translate := func(list []string) {
		for i, text := range list {
			plain, err := numbers.plain(text)
			if err == nil && plain != text {
				list[i], changed = plain, true
			}
		}
	}
	for _, row := range p.rows {
		translate(row)
	}
	for _, values := range p.values {
		translate(values)
	}
	if changed && decimal != "" {
		p.decimal, p.shows = decimal, "the values have "+shorten(example)
		if grouped != "" && decimal == "," {
			whole, _ := unseparated(grouped, ",")
			p.shows += ", so that " + shorten(grouped) + " is " + whole
		}
	}
}

// hasFraction reports whether a text is a number that is not whole.
func hasFraction(text string) bool {
	n, err := strconv.ParseFloat(text, 64)
	return err == nil && n != math.Trunc(n)
}
