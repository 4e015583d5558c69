package question

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Filter chooses jobs. It is an [All], [Any], [Not], [Known], [Compare], [Like], [Failed], [Lost]
// or [Ran]. A comparison never matches a job without a value in its column.
type Filter interface{ filter() }

// All is true if each of its filters is true.
type All []Filter

// Any is true if at least one of its filters is true.
type Any []Filter

// Not is true if its filter is not true.
type Not struct{ Of Filter }

// Known is true for jobs that have a value in a column.
type Known struct{ Column string }

// Compare is true if a column's value has the relation Op (=, <, <=, > or >=) to Value. Value is a
// string, a float64 or a [time.Time], according to the column's type.
type Compare struct {
	Column string
	Op     string
	Value  any
}

// Like is true if a column's text matches a pattern: * stands for any number of characters, ? for
// one character, and \ quotes the next character. AnyCase ignores the case of letters.
type Like struct {
	Column  string
	Pattern string
	AnyCase bool
}

// Failed is true for jobs that ended in one of [FailedStates].
type Failed struct{}

// FailedStates are the job states that count as failures.
var FailedStates = []string{"FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"}

// Lost is true for runs whose document says that they ended with a requeue of their job (Job.Lost in package
// document). All other runs are counted as jobs.
type Lost struct{}

// Ran is true for jobs that have processors, a start time, and an end time that is not before the
// start.
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

// longestPattern is the highest number of characters in a pattern. Matching takes time in
// proportion to the lengths of the pattern and of the text.
const longestPattern = 256

// newLike returns the filter of a pattern that a user wrote.
func newLike(column, pattern string, anyCase bool) (Filter, error) {
	if n := utf8.RuneCountInString(pattern); n > longestPattern {
		return nil, fmt.Errorf("%s: a pattern of %d characters (want at most %d)", column, n, longestPattern)
	}
	return Like{column, pattern, anyCase}, nil
}

// Regexp returns the pattern as a regular expression in RE2's syntax, which matches in linear time.
// The expression has no anchors: the caller adds them, and sets the flag s so that a dot matches
// newlines.
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

// Possible decides a filter for a job of which only the text in one column is known. holds says whether the filter can
// be true, fails whether it can be false.
func Possible(f Filter, column, value string) (holds, fails bool) {
	switch f := f.(type) {
	case All:
		holds = true
		for _, part := range f {
			can, cannot := Possible(part, column, value)
			holds, fails = holds && can, fails || cannot
		}
		return holds, fails
	case Any:
		fails = true
		for _, part := range f {
			can, cannot := Possible(part, column, value)
			holds, fails = holds || can, fails && cannot
		}
		return holds, fails
	case Not:
		fails, holds = Possible(f.Of, column, value)
		return holds, fails
	case Compare:
		if f.Column == column {
			order := strings.Compare(value, f.Value.(string))
			holds = strings.Contains(f.Op, "=") && order == 0 || strings.Contains(f.Op, "<") && order < 0 ||
				strings.Contains(f.Op, ">") && order > 0
			return holds, !holds
		}
	case Like:
		if f.Column == column {
			holds = f.Matches(value)
			return holds, !holds
		}
	}
	return true, true
}
