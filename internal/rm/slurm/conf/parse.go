package conf

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
)

// Statement is one logical line of a configuration file: a key with its value. The line of a key
// that describes an object (NodeName, PartitionName, SwitchName and others) also has attributes.
type Statement struct {
	// File and Line are the position of its beginning. Line counts from 1.
	File string
	Line int
	// Key has the spelling of the file. Keys are compared without case.
	Key string
	// Operator is the sign before "=" ('+' in "Key+=x"), or 0. Slurm 22.05 parses it and ignores
	// it: the value replaces the earlier one.
	Operator byte
	// Value is the value without quotes and escapes.
	Value      string
	Attributes []Attribute
}

// Attribute is one Key=Value of a statement after its first.
type Attribute struct {
	Key, Value string
}

// Get returns the value of an attribute and whether there is one. For a repeated attribute it
// returns the last value. It compares keys without case.
func (s Statement) Get(key string) (string, bool) { return lookup(s.Attributes, key) }

func lookup(attrs []Attribute, key string) (string, bool) {
	for _, a := range slices.Backward(attrs) {
		if strings.EqualFold(a.Key, key) {
			return a.Value, true
		}
	}
	return "", false
}

// errorf returns an error that begins with the statement's file and line.
func (s Statement) errorf(format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", s.File, s.Line, fmt.Errorf(format, args...))
}

func (s Statement) warningf(format string, args ...any) string {
	return fmt.Sprintf("%s:%d: %s", s.File, s.Line, fmt.Sprintf(format, args...))
}

// String formats the statement as a line. The parser reads it back as the same statement.
func (s Statement) String() string {
	var b strings.Builder
	b.WriteString(s.Key)
	if s.Operator != 0 {
		b.WriteByte(s.Operator)
	}
	b.WriteByte('=')
	b.WriteString(quoteValue(s.Value))
	for _, a := range s.Attributes {
		b.WriteByte(' ')
		b.WriteString(a.Key)
		b.WriteByte('=')
		b.WriteString(quoteValue(a.Value))
	}
	return b.String()
}

// quoteValue formats a value so that the parser reads it back. The parser removes escapes before
// it looks at quotes, so a value may need both.
func quoteValue(v string) string {
	bare := v != "" && !strings.ContainsFunc(v, func(r rune) bool { return r < 0x80 && isSpace(byte(r)) })
	// A bare value that looks quoted would lose its quotes.
	if bare && len(v) >= 2 && v[0] == '"' && strings.IndexByte(v[1:], '"') == len(v)-2 {
		bare = false
	}
	v = strings.NewReplacer(`\`, `\\`, `#`, `\#`).Replace(v)
	if bare {
		return v
	}
	return `"` + v + `"`
}

// isSpace is C's isspace in the C locale, as Slurm's parser uses it.
func isSpace(c byte) bool { return c == ' ' || ('\t' <= c && c <= '\r') }

func isBlank(s string) bool {
	for i := range len(s) {
		if !isSpace(s[i]) {
			return false
		}
	}
	return true
}

// logicalLine is a line as Slurm's _get_next_line returns it: physical lines joined at trailing
// backslashes, without comments and escapes.
type logicalLine struct {
	number int // of the first physical line, from 1
	text   string
}

// logicalLines splits a file as Slurm does (src/common/parse_config.c,
// _get_next_line). Comments are cut from each physical line before the backslash
// is looked for, so "a \ # note" continues, and a comment line in the middle of a
// continued statement ends it.
func logicalLines(data []byte) iter.Seq[logicalLine] {
	return func(yield func(logicalLine) bool) {
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
			if continued && len(data) > 0 { // the last line of the file may end in a backslash
				continue
			}
			if !yield(logicalLine{first, unescape(joined.String())}) {
				return
			}
			joined.Reset()
			first = 0
		}
	}
}

// cutComment removes a comment. It begins at the first "#" after an even number of backslashes.
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

// cutContinuation reports whether the next line continues this one: it ends in an odd number of
// backslashes, after which blanks may follow. It returns the text before the last backslash.
func cutContinuation(line string) (string, bool) {
	end := len(line)
	for end > 0 && isSpace(line[end-1]) {
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

// pair is one Key=Value of a line.
type pair struct {
	key, value string
	operator   byte
}

// cutPair cuts the first Key=Value from a line. It accepts the same text as Slurm's regular
// expression (keyvalue_pattern): blanks around "=", a sign just before it, and a value in quotes.
// A blank or the end of the line must follow the closing quote, and there is no escape for a
// quote inside. ok is false if the line does not begin with a pair.
func cutPair(line string) (p pair, rest string, ok bool) {
	i := skipSpace(line, 0)
	start := i
	for i < len(line) && isKeyByte(line[i]) {
		i++
	}
	if i == start {
		return pair{}, line, false
	}
	p.key = line[start:i]
	i = skipSpace(line, i)
	if i < len(line) && strings.IndexByte("-*+/", line[i]) >= 0 {
		p.operator = line[i]
		i++
	}
	if i >= len(line) || line[i] != '=' {
		return pair{}, line, false
	}
	i = skipSpace(line, i+1)
	if i == len(line) {
		return pair{}, line, false
	}
	if line[i] == '"' {
		if n := strings.IndexByte(line[i+1:], '"'); n >= 0 {
			after := i + n + 2
			if after == len(line) || isSpace(line[after]) {
				p.value = line[i+1 : i+1+n]
				return p, line[after:], true
			}
		}
	}
	end := i
	for end < len(line) && !isSpace(line[end]) {
		end++
	}
	p.value = line[i:end]
	return p, line[end:], true
}

func skipSpace(s string, i int) int {
	for i < len(s) && isSpace(s[i]) {
		i++
	}
	return i
}

func isKeyByte(c byte) bool {
	return c == '_' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// maxIncludeDepth ends a cycle of files that include each other under different names. The
// parser finds other cycles by name.
const maxIncludeDepth = 32

// maxErrors is the largest number of mistakes in one error.
const maxErrors = 20

// parser reads one configuration file with all files that it includes.
type parser struct {
	grammar grammar
	files   *files
	open    []string // the files being read, outermost first
	found   []Statement
	errs    []error
	stopped bool // at the limit of mistakes or of statements
}

// parse reads a file and the files that it includes. The error has up to maxErrors mistakes, each
// with its file and line.
func parse(path string, g grammar, files *files) ([]Statement, error) {
	p := &parser{grammar: g, files: files}
	data, err := files.read(path)
	if err != nil {
		return nil, err
	}
	p.file(path, data)
	if len(p.errs) > 0 {
		return nil, errors.Join(p.errs...)
	}
	return p.found, nil
}

func (p *parser) failf(file string, line int, format string, args ...any) {
	if !p.stopped {
		p.errs = append(p.errs, fmt.Errorf("%s:%d: %w", file, line, fmt.Errorf(format, args...)))
		p.stopped = len(p.errs) >= maxErrors
	}
}

func (p *parser) file(path string, data []byte) {
	p.open = append(p.open, path)
	for line := range logicalLines(data) {
		if p.stopped {
			break
		}
		if len(line.text) > maxLine {
			p.failf(path, line.number, "%w", errTooLong)
			continue
		}
		if name, rest, ok := cutInclude(line.text); ok {
			p.include(path, line.number, name, rest)
			continue
		}
		if isBlank(line.text) {
			continue
		}
		p.statement(path, line)
	}
	p.open = p.open[:len(p.open)-1]
}

// cutInclude splits an Include directive. Slurm recognises it only at the very beginning of a
// line.
func cutInclude(line string) (name, rest string, ok bool) {
	const word = "include"
	if len(line) <= len(word) || !strings.EqualFold(line[:len(word)], word) || !isSpace(line[len(word)]) {
		return "", "", false
	}
	start := skipSpace(line, len(word))
	end := start
	for end < len(line) && !isSpace(line[end]) {
		end++
	}
	return line[start:end], line[end:], true
}

func (p *parser) include(file string, line int, name, rest string) {
	switch {
	case name == "":
		p.failf(file, line, "Include names no file (want Include FILE)")
		return
	case !isBlank(rest):
		p.failf(file, line, "unexpected %q after Include %s (want one file)", strings.TrimSpace(rest), name)
		return
	}
	if strings.Contains(name, "%c") {
		cluster, ok := p.last("ClusterName")
		if !ok {
			p.failf(file, line, "Include %s: %%c is the cluster's name, but ClusterName is not set above this line", name)
			return
		}
		name = strings.ReplaceAll(name, "%c", strings.ToLower(cluster))
	}
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(file), path)
	}
	switch {
	case slices.Contains(p.open, path):
		p.failf(file, line, "Include %s: the file includes itself", name)
		return
	case len(p.open) >= maxIncludeDepth:
		p.failf(file, line, "Include %s: files include each other more than %d deep", name, maxIncludeDepth)
		return
	}
	data, err := p.files.read(path)
	if err != nil {
		p.failf(file, line, "Include %s: %w", name, err)
		return
	}
	p.file(path, data)
}

// last returns the last value of a key among the statements read so far.
func (p *parser) last(key string) (string, bool) {
	for _, s := range slices.Backward(p.found) {
		if strings.EqualFold(s.Key, key) {
			return s.Value, true
		}
	}
	return "", false
}

func (p *parser) statement(file string, line logicalLine) {
	first, rest, ok := cutPair(line.text)
	if !ok {
		p.failf(file, line.number, "%q: not Key=Value", shorten(strings.TrimSpace(line.text)))
		return
	}
	k, known := p.grammar.lookup(first.key)
	if !known {
		p.failf(file, line.number, "%s: unrecognized key%s", first.key, p.grammar.suggest(first.key))
		return
	}
	if err := k.check(first.value); err != nil {
		p.failf(file, line.number, "%s=%s: %w", first.key, first.value, err)
		return
	}
	s := Statement{File: file, Line: line.number, Key: first.key, Operator: first.operator, Value: first.value}
	if p.files.statements++; p.files.statements > maxStatements {
		p.failf(file, line.number, "more than %d statements in the cluster's files together (want fewer; a NodeName line may name many nodes)", maxStatements)
		p.stopped = true
		return
	}
	if k.attributes == nil {
		if !isBlank(rest) {
			p.failf(file, line.number, "unexpected %q after %s=%s (one key on a line; quote a value that has blanks)",
				shorten(strings.TrimSpace(rest)), first.key, first.value)
			return
		}
		p.found = append(p.found, s)
		return
	}
	if p.attributes(&s, rest, k.attributes) {
		p.found = append(p.found, s)
	}
}

func (p *parser) attributes(s *Statement, rest string, known grammar) bool {
	for !isBlank(rest) {
		a, after, ok := cutPair(rest)
		if !ok {
			p.failf(s.File, s.Line, "%q in the line of %s=%s: not Key=Value", shorten(strings.TrimSpace(rest)), s.Key, s.Value)
			return false
		}
		k, isKnown := known.lookup(a.key)
		if !isKnown {
			p.failf(s.File, s.Line, "%s: unrecognized key in the line of %s=%s%s", a.key, s.Key, s.Value, known.suggest(a.key))
			return false
		}
		if err := k.check(a.value); err != nil {
			p.failf(s.File, s.Line, "%s=%s: %w", a.key, a.value, err)
			return false
		}
		s.Attributes = append(s.Attributes, Attribute{a.key, a.value})
		rest = after
	}
	return true
}

// shorten cuts a long text for an error message.
func shorten(s string) string {
	const limit = 60
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
