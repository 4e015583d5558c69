package slurmspec

import (
	"strings"
	"unicode"
)

// OneLine is a text with blanks for its line breaks and other control characters.
func OneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}
