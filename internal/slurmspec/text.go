package slurmspec

import (
	"strings"
	"unicode"
)

// OneLine replaces the line breaks and other control characters of a text by blanks.
func OneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}
