package question

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Filter chooses jobs. It is an [All], [Any], [Not], [Known], [Compare], [Like], [Failed], [Lost] or [Ran]. A job
// without a value of a column matches no comparison with it.
type Filter interface{ filter() }

// All holds if each of its filters does.
type All []Filter

// Any holds if one of its filters does.
type Any []Filter

// Not holds if its filter does not.
type Not struct{ Of Filter }

// Known holds for jobs that have a value of a column.
type Known struct{ Column string }

// Compare holds if a column stands in a relation to a value: one of =, <, <=, > and >=. The value is
// a string, a float64 or a [time.Time], as the column is.
type Compare struct {
	Column string
	Op     string
	Value  any
}

// Like holds if a column's text matches a pattern, in which * stands for any characters, ? for one,
// and \ quotes a character. Upper and lower case are the same if AnyCase.
type Like struct {
	Column  string
	Pattern string
	AnyCase bool
}

// Failed holds for jobs that ended in one of [FailedStates].
type Failed struct{}

// FailedStates are the states of failed jobs.
var FailedStates = []string{"FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"}

// Lost holds for runs that were lost: their jobs went back to the queue. Each job has one run that was not lost.
type Lost struct{}

// Ran holds for jobs that held processors between a known start and a known end.
type Ran struct{}

func (All) filter()     {}
func (Any) filter()     {}
func (Not) filter()     {}
func (Known) filter()   {}
func (Compare) filter() {}
func (Like) filter()    {}
func (Failed) filter()  {}
func (Lost) filter()    {}
func (Ran) filter()     {}

// longestPattern is how many characters a pattern has at most. A match takes time in proportion to the pattern
// and to the text.
const longestPattern = 256

// newLike returns the filter of a pattern, which people have written.
func newLike(column, pattern string, anyCase bool) (Filter, error) {
	if n := utf8.RuneCountInString(pattern); n > longestPattern {
		return nil, fmt.Errorf("%s: a pattern of %d characters (want at most %d)", column, n, longestPattern)
	}
	return Like{column, pattern, anyCase}, nil
}

// Regexp returns the pattern as a regular expression of RE2, which matches in linear time and in which a dot must
// stand for every character (the flag s). The expression is about the whole text.
func (l Like) Regexp() string {
	var b strings.Builder
	for rest := l.Pattern; rest != ""; {
		c, size := utf8.DecodeRuneInString(rest)
		text := rest[:size]
		rest = rest[size:]
		switch {
		case c == '*':
			b.WriteString(".*")
			rest = strings.TrimLeft(rest, "*")
			continue
		case c == '?':
			b.WriteByte('.')
			continue
		case c == '\\' && rest != "":
			_, size = utf8.DecodeRuneInString(rest)
			text, rest = rest[:size], rest[size:]
		}
		b.WriteString(regexp.QuoteMeta(text))
	}
	return b.String()
}

// Matches reports whether the pattern matches a text.
func (l Like) Matches(text string) bool {
	flags := "(?s)"
	if l.AnyCase {
		flags = "(?si)"
	}
	r, err := regexp.Compile(flags + "^(?:" + l.Regexp() + ")$")
	return err == nil && r.MatchString(text)
}
