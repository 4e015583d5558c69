package hostlist

import (
	"cmp"
	"strings"
)

// Natural compares names with numbers by their value: n2 comes before n10.
func Natural(a, b string) int {
	for a != "" && b != "" {
		wordA, numberA, restA := cutNumber(a)
		wordB, numberB, restB := cutNumber(b)
		if c := cmp.Compare(wordA, wordB); c != 0 {
			return c
		}
		// Of two numbers without leading zeros, the longer one is larger. Numbers of equal
		// length compare as text.
		x, y := strings.TrimLeft(numberA, "0"), strings.TrimLeft(numberB, "0")
		if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y), cmp.Compare(len(numberA), len(numberB))); c != 0 {
			return c
		}
		a, b = restA, restB
	}
	return cmp.Compare(len(a), len(b))
}

// cutNumber splits a name around its first number.
func cutNumber(s string) (word, number, rest string) {
	digit := func(r rune) bool { return '0' <= r && r <= '9' }
	i := strings.IndexFunc(s, digit)
	if i < 0 {
		return s, "", ""
	}
	n := strings.IndexFunc(s[i:], func(r rune) bool { return !digit(r) })
	if n < 0 {
		return s[:i], s[i:], ""
	}
	return s[:i], s[i : i+n], s[i+n:]
}
