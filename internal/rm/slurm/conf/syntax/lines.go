package syntax

import (
	"bytes"
	"iter"
	"strings"
)

// Quote formats a value so that the parser reads it back. The parser removes escapes before it
// looks at quotes, so a value may need both quotes and escapes.
func Quote(v string) string {
	bare := v != "" && !strings.ContainsFunc(v, func(r rune) bool { return r < 0x80 && IsSpace(byte(r)) })
	// The parser would remove the quotes of an unquoted value that looks quoted.
	if bare && len(v) >= 2 && v[0] == '"' && strings.IndexByte(v[1:], '"') == len(v)-2 {
		bare = false
	}
	v = strings.NewReplacer(`\`, `\\`, `#`, `\#`).Replace(v)
	if bare {
		return v
	}
	return `"` + v + `"`
}

// IsSpace is C's isspace in the C locale, as Slurm's parser uses it.
func IsSpace(c byte) bool { return c == ' ' || ('\t' <= c && c <= '\r') }

// IsBlank reports whether s has only spaces or is empty.
func IsBlank(s string) bool {
	for i := range len(s) {
		if !IsSpace(s[i]) {
			return false
		}
	}
	return true
}

// Line is a line as Slurm's _get_next_line returns it: physical lines joined at trailing
// backslashes, without comments and escapes.
type Line struct {
	Number int // of the first physical line, from 1
	Text   string
}

// Lines splits a file as Slurm does (src/common/parse_config.c, _get_next_line). It removes the
// comment from each physical line before it looks for a backslash at the end. So "a \ # note"
// continues on the next line, and a comment line in the middle of a continued statement ends the
// statement.
func Lines(data []byte) iter.Seq[Line] {
	return func(yield func(Line) bool) {
		var joined strings.Builder
		number, first := 0, 0
		for len(data) > 0 {
			end := bytes.IndexByte(data, '\n') + 1
			if end == 0 {
				end = len(data)
			}
			number++
			if first == 0 {
				first = number
			}
			text, continued := cutContinuation(cutComment(string(data[:end])))
			data = data[end:]
			joined.WriteString(text)
			if continued && len(data) > 0 { // the last line may end in a backslash
				continue
			}
			if !yield(Line{first, unescape(joined.String())}) {
				return
			}
			joined.Reset()
			first = 0
		}
	}
}

// cutComment removes a comment. A comment begins at the first "#" after an even number of
// backslashes.
func cutComment(line string) string {
	backslashes := 0
	for i := range len(line) {
		switch {
		case line[i] == '#' && backslashes%2 == 0:
			return line[:i]
		case line[i] == '\\':
			backslashes++
		default:
			backslashes = 0
		}
	}
	return line
}

// cutContinuation reports whether the line continues on the next line: it ends in an odd number of
// backslashes, perhaps followed by blanks. It returns the text before the last backslash.
func cutContinuation(line string) (string, bool) {
	end := len(line)
	for end > 0 && IsSpace(line[end-1]) {
		end--
	}
	backslashes := 0
	for backslashes < end && line[end-1-backslashes] == '\\' {
		backslashes++
	}
	if backslashes%2 == 1 {
		return line[:end-1], true
	}
	return line, false
}

// unescape removes each backslash and keeps the character after it.
func unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			i++
			if i == len(s) {
				break
			}
		}
		out = append(out, s[i])
	}
	return string(out)
}

// Pair is one Key=Value of a line.
type Pair struct {
	Key, Value string
	Operator   byte
}

// CutPair cuts the first Key=Value from a line. It accepts the same text as Slurm's regular
// expression (keyvalue_pattern): blanks around "=", a sign just before it, and a value in quotes.
// A blank or the end of the line must follow the closing quote. A quoted value cannot contain a
// quote. ok is false if the line does not begin with a pair.
func CutPair(line string) (p Pair, rest string, ok bool) {
	i := SkipSpace(line, 0)
	start := i
	for i < len(line) && isKeyByte(line[i]) {
		i++
	}
	if i == start {
		return Pair{}, line, false
	}
	p.Key = line[start:i]
	i = SkipSpace(line, i)
	if i < len(line) && strings.IndexByte("-*+/", line[i]) >= 0 {
		p.Operator = line[i]
		i++
	}
	if i >= len(line) || line[i] != '=' {
		return Pair{}, line, false
	}
	i = SkipSpace(line, i+1)
	if i == len(line) {
		return Pair{}, line, false
	}
	if line[i] == '"' {
		if n := strings.IndexByte(line[i+1:], '"'); n >= 0 {
			after := i + n + 2
			if after == len(line) || IsSpace(line[after]) {
				p.Value = line[i+1 : i+1+n]
				return p, line[after:], true
			}
		}
	}
	end := i
	for end < len(line) && !IsSpace(line[end]) {
		end++
	}
	p.Value = line[i:end]
	return p, line[end:], true
}

// SkipSpace returns the index of the first byte of s at or after i that is not a space, or
// len(s) if only spaces follow.
func SkipSpace(s string, i int) int {
	for i < len(s) && IsSpace(s[i]) {
		i++
	}
	return i
}

func isKeyByte(c byte) bool {
	return c == '_' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// CutInclude splits an Include directive. Slurm recognises it only at the very beginning of a
// line.
func CutInclude(line string) (name, rest string, ok bool) {
	const word = "include"
	if len(line) <= len(word) || !strings.EqualFold(line[:len(word)], word) || !IsSpace(line[len(word)]) {
		return "", "", false
	}
	start := SkipSpace(line, len(word))
	end := start
	for end < len(line) && !IsSpace(line[end]) {
		end++
	}
	return line[start:end], line[end:], true
}

// Shorten cuts a long text for an error message.
func Shorten(s string) string {
	const limit = 60
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
