package sbatch

import (
	"errors"
	"fmt"
	"strings"
)

// Split splits a command line into words as a POSIX shell does. Blanks separate words, single
// quotes preserve all characters, double quotes preserve all but a backslash before ", \, $ or
// `, and a backslash outside quotes preserves the next character. Split expands nothing. The
// error says which quote is not closed.
func Split(line string) ([]string, error) {
	var (
		words  []string
		word   strings.Builder
		inWord bool
	)
	for i := 0; i < len(line); i++ {
		switch c := line[i]; c {
		case ' ', '\t', '\r', '\n':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		case '\'', '"':
			inside, length, ok := quoted(line[i:])
			if !ok {
				return nil, fmt.Errorf("a quote (%c) is not closed", c)
			}
			word.WriteString(inside)
			i += length - 1
			inWord = true
		case '\\':
			if i+1 == len(line) {
				return nil, errors.New(`\ at the end of the line`)
			}
			i++
			word.WriteByte(line[i])
			inWord = true
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// quoted returns the text inside the quotes that s starts with, and the number of bytes of s
// that it read.
func quoted(s string) (inside string, length int, ok bool) {
	if s[0] == '\'' {
		end := strings.IndexByte(s[1:], '\'')
		if end < 0 {
			return "", 0, false
		}
		return s[1 : 1+end], end + 2, true
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), i + 1, true
		case s[i] == '\\' && i+1 < len(s) && strings.IndexByte("\"\\$`", s[i+1]) >= 0:
			i++
			b.WriteByte(s[i])
		default:
			b.WriteByte(s[i])
		}
	}
	return "", 0, false
}
