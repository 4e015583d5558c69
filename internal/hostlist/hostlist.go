// Package hostlist reads and writes Slurm's host list expressions: the compact form in which
// slurm.conf, job requests and accounting name sets of nodes.
//
// An expression is a list of names, separated by commas or, as in slurm.conf, by blanks. A name
// may have bracket groups. A group is a list of numbers and inclusive ranges, separated by commas.
// A name with several groups stands for their cross product, in which the leftmost group varies
// slowest:
//
//	n[1-4,07-09],m1        n1 n2 n3 n4 n07 n08 n09 m1
//	rack[0-1]n[1-2]        rack0n1 rack0n2 rack1n1 rack1n2
//	127.1.0.[1-250]        node addresses are written the same way
//
// A number keeps the zero padding of its range's first number. The package follows Slurm's
// src/common/hostlist.c.
package hostlist

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxNames is the largest number of names that [Expand] returns. It is far above any machine's
// node count, and keeps "n[1-999999999]" from using up the memory.
const MaxNames = 1 << 20

// Limits of one name, so that the memory for a hostile expression stays bounded.
const (
	maxText   = 255 // characters around the brackets
	maxGroups = 8   // bracket groups
	maxDigits = 18  // digits of a number; 18 digits fit an int64
)

// Expand returns the names that the expression represents, in its order and with its
// repetitions. An empty expression has no names. The error says which part of the expression is
// wrong, or that it represents more than [MaxNames] names.
func Expand(s string) ([]string, error) { return ExpandAtMost(s, MaxNames) }

// ExpandAtMost is [Expand] with a lower limit: an expression that represents more than maxNames
// names is an error. maxNames must not exceed [MaxNames].
func ExpandAtMost(s string, maxNames int) ([]string, error) {
	entries, total, err := parse(s, maxNames)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, total)
	for _, e := range entries {
		e.visit(func(name []byte) { names = append(names, string(name)) })
	}
	return names, nil
}

// Visit calls the function visit with each name that the expression represents, in its order and with its repetitions.
// A name is valid only during the call. Visit returns the errors of [Expand]; then it has not visited any name.
func Visit(s string, visit func(name []byte)) error {
	entries, _, err := parse(s, MaxNames)
	if err != nil {
		return err
	}
	for _, e := range entries {
		e.visit(visit)
	}
	return nil
}

// Count returns the number of names that the expression represents, without building them. It
// returns the errors of [Expand].
func Count(s string) (int, error) {
	_, total, err := parse(s, MaxNames)
	return total, err
}

// Compress returns an expression that represents the names, in their order. Consecutive names
// with the same prefix share a bracket group, and consecutive numbers in a group become a range.
// For sorted names Slurm itself prints the same string (hostlist_ranged_string).
func Compress(names []string) string {
	var b strings.Builder
	for i := 0; i < len(names); {
		prefix, digits := splitNumber(names[i])
		end := i + 1
		if digits != "" {
			for end < len(names) {
				p, d := splitNumber(names[end])
				if d == "" || p != prefix {
					break
				}
				end++
			}
		}
		if i > 0 {
			b.WriteByte(',')
		}
		if end == i+1 {
			b.WriteString(names[i])
		} else {
			writeGroup(&b, prefix, names[i:end])
		}
		i = end
	}
	return b.String()
}

// writeGroup writes names as one bracket group. Each name is the prefix and a number.
func writeGroup(b *strings.Builder, prefix string, names []string) {
	b.WriteString(prefix)
	b.WriteByte('[')
	for i := 0; i < len(names); {
		first := names[i][len(prefix):]
		number, _ := strconv.ParseInt(first, 10, 64)
		var buf [maxDigits + 2]byte
		last := i
		for last+1 < len(names) {
			number++
			// The next name continues the range only if its number, printed with the width of the first
			// number, gives that name.
			if string(appendPadded(buf[:0], number, len(first))) != names[last+1][len(prefix):] {
				break
			}
			last++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(first)
		if last > i {
			b.WriteByte('-')
			b.WriteString(names[last][len(prefix):])
		}
		i = last + 1
	}
	b.WriteByte(']')
}

// splitNumber splits a name into a prefix and the decimal number that ends it.
func splitNumber(name string) (prefix, digits string) {
	i := len(name)
	for i > 0 && len(name)-i < maxDigits && isDigit(name[i-1]) {
		i--
	}
	return name[:i], name[i:]
}

// entry is one name with its bracket groups. literals are the texts before, between and after
// the groups: one more than there are groups.
type entry struct {
	literals []string
	groups   [][]span
}

// span is an inclusive range of numbers. Each is printed with at least width digits.
type span struct {
	low, high int64
	width     int
}

// visit calls the function visit with the names that the entry represents.
func (e entry) visit(visit func(name []byte)) {
	var buf []byte
	var walk func(group int)
	walk = func(group int) {
		buf = append(buf, e.literals[group]...)
		if group == len(e.groups) {
			visit(buf)
			return
		}
		keep := len(buf)
		for _, sp := range e.groups[group] {
			for n := sp.low; n <= sp.high; n++ {
				buf = appendPadded(buf[:keep], n, sp.width)
				walk(group + 1)
			}
		}
		buf = buf[:keep]
	}
	walk(0)
}

// count returns the number of names that the entry represents, at most MaxNames + 1.
func (e entry) count() int64 {
	total := int64(1)
	for _, group := range e.groups {
		var n int64
		for _, sp := range group {
			// Every term is limited, so neither the sum nor the product overflows.
			n = min(n+min(sp.high-sp.low+1, MaxNames+1), MaxNames+1)
		}
		total = min(total*n, MaxNames+1)
	}
	return total
}

// appendPadded appends a number with leading zeros up to the width.
func appendPadded(buf []byte, n int64, width int) []byte {
	start := len(buf)
	buf = strconv.AppendInt(buf, n, 10)
	if missing := width - (len(buf) - start); missing > 0 {
		buf = slices.Insert(buf, start, zeros[:missing]...)
	}
	return buf
}

var zeros = []byte(strings.Repeat("0", maxDigits))

// parse reads an expression of at most maxNames names, and returns its entries and the number of
// their names.
func parse(s string, maxNames int) (entries []entry, total int, err error) {
	for s != "" {
		var word string
		word, s, err = cutEntry(s)
		if err != nil {
			return nil, 0, err
		}
		if word == "" {
			continue // Slurm also skips an empty name between two commas
		}
		e, err := parseEntry(word)
		if err != nil {
			return nil, 0, fmt.Errorf("host list %s: %w", quote(word), err)
		}
		entries = append(entries, e)
		if n := e.count(); n > int64(maxNames-total) {
			return nil, 0, fmt.Errorf("host list %s: more than %d names", quote(word), maxNames)
		}
		total += int(e.count())
	}
	return entries, total, nil
}

// cutEntry returns the first name of the expression and the rest behind the separator. A
// separator inside brackets does not end the name.
func cutEntry(s string) (word, rest string, err error) {
	open := -1
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '[':
			if open >= 0 {
				return "", "", fmt.Errorf("host list %s: '[' inside brackets", quote(s))
			}
			open = i
		case ']':
			if open < 0 {
				return "", "", fmt.Errorf("host list %s: ']' without '['", quote(s))
			}
			open = -1
		case ',', ' ', '\t', '\n', '\r':
			if open < 0 {
				return s[:i], s[i+1:], nil
			}
		}
	}
	if open >= 0 {
		return "", "", fmt.Errorf("host list %s: '[' without ']'", quote(s))
	}
	return s, "", nil
}

func parseEntry(word string) (entry, error) {
	var e entry
	text := 0
	for {
		literal, rest, found := strings.Cut(word, "[")
		e.literals = append(e.literals, literal)
		if text += len(literal); text > maxText {
			return entry{}, fmt.Errorf("more than %d characters around the brackets", maxText)
		}
		if len(e.groups) > maxGroups {
			return entry{}, fmt.Errorf("more than %d pairs of brackets", maxGroups)
		}
		if !found {
			return e, nil
		}
		inside, after, _ := strings.Cut(rest, "]")
		group, err := parseGroup(inside)
		if err != nil {
			return entry{}, err
		}
		e.groups = append(e.groups, group)
		word = after
	}
}

func parseGroup(inside string) ([]span, error) {
	if inside == "" {
		return nil, errors.New("empty brackets")
	}
	var group []span
	for part := range strings.SplitSeq(inside, ",") {
		low, high, isRange := strings.Cut(part, "-")
		first, err := parseNumber(low)
		if err != nil {
			return nil, err
		}
		last := first
		if isRange {
			if last, err = parseNumber(high); err != nil {
				return nil, err
			}
		}
		if last < first {
			return nil, fmt.Errorf("range %s runs backwards", quote(part))
		}
		group = append(group, span{low: first, high: last, width: len(low)})
	}
	return group, nil
}

func parseNumber(s string) (int64, error) {
	if s == "" || len(s) > maxDigits {
		return 0, fmt.Errorf("%s: not a number of 1 to %d digits", quote(s), maxDigits)
	}
	for i := range len(s) {
		if !isDigit(s[i]) {
			return 0, fmt.Errorf("%s: not a number (want [1-4,07-09])", quote(s))
		}
	}
	return strconv.ParseInt(s, 10, 64)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// quote quotes a part of the input for an error message, and shortens it.
func quote(s string) string {
	if len(s) > 60 {
		s = s[:57] + "..."
	}
	return strconv.Quote(s)
}
