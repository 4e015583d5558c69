package conf

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"rmreplay/internal/filekind"
	"rmreplay/internal/rm/slurm/conf/syntax"
)

// Statement is one logical line of a configuration file: a key with its value. A line that
// describes an object (NodeName, PartitionName, SwitchName and others) also has attributes.
type Statement struct {
	// File and Line say where the statement begins. Line counts from 1.
	File string
	Line int
	// Key has the spelling of the file. Keys are compared without case.
	Key string
	// Operator is the sign before "=" ('+' in "Key+=x"), or 0. Slurm parses the sign and ignores it: the new value
	// replaces an earlier value.
	Operator byte
	// Value is the value without quotes and escapes.
	Value      string
	Attributes []Attribute
}

// Attribute is one Key=Value after the first Key=Value of a statement.
type Attribute struct {
	Key, Value string
}

// Get returns the value of an attribute and whether there is one. For a repeated attribute it returns the last value.
// Get compares keys without case.
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
	b.WriteString(syntax.Quote(s.Value))
	for _, a := range s.Attributes {
		b.WriteByte(' ')
		b.WriteString(a.Key)
		b.WriteByte('=')
		b.WriteString(syntax.Quote(a.Value))
	}
	return b.String()
}

// maxIncludeDepth stops a cycle of files that include each other under different names. The parser
// recognizes all other cycles by the files' names.
const maxIncludeDepth = 32

// maxErrors is the largest number of mistakes that one error reports.
const maxErrors = 20

// parser reads one configuration file with all files that it includes.
type parser struct {
	grammar syntax.Grammar
	files   *files
	open    []string // the files being read, outermost first
	found   []Statement
	errs    []error
	stopped bool // the parser has reached the limit of mistakes or of statements
}

// parse reads a file and the files that it includes. The error has up to maxErrors mistakes, each
// with its file and line.
func parse(path string, g syntax.Grammar, files *files) ([]Statement, error) {
	p := &parser{grammar: g, files: files}
	data, err := files.read(path)
	if err != nil {
		return nil, err
	}
	p.file(path, data)
	if kind, known := filekind.Detect(data); len(p.errs) > 0 && known && !kind.Slurm {
		return nil, fmt.Errorf("%s: %s, not a configuration of Slurm (%s)", path, kind.Name, kind.Want)
	}
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
	for line := range syntax.Lines(data) {
		if p.stopped {
			break
		}
		if len(line.Text) > maxLine {
			p.failf(path, line.Number, "%w", errTooLong)
			continue
		}
		if name, rest, ok := syntax.CutInclude(line.Text); ok {
			p.include(path, line.Number, name, rest)
			continue
		}
		if syntax.IsBlank(line.Text) {
			continue
		}
		p.statement(path, line)
	}
	p.open = p.open[:len(p.open)-1]
}

func (p *parser) include(file string, line int, name, rest string) {
	switch {
	case name == "":
		p.failf(file, line, "Include names no file (want Include FILE)")
		return
	case !syntax.IsBlank(rest):
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
	path := filepath.Join(filepath.Dir(file), name)
	beside := path
	if filepath.IsAbs(name) { // an absolute path may belong to another cluster on this machine
		path, beside = filepath.Clean(name), filepath.Join(filepath.Dir(p.open[0]), filepath.Base(name))
		if _, err := p.files.open(beside); err == nil && beside != path {
			p.files.notes = append(p.files.notes, fmt.Sprintf("%s:%d: Include %s: %s beside slurm.conf is read in its place", file, line, name, beside))
			path = beside
		}
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
	if errors.Is(err, fs.ErrNotExist) { // the included file is missing
		err = fmt.Errorf("no such file (want a copy of the site's file as %s)", beside)
	}
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

func (p *parser) statement(file string, line syntax.Line) {
	first, rest, ok := syntax.CutPair(line.Text)
	if !ok {
		p.failf(file, line.Number, "%q: not Key=Value", syntax.Shorten(strings.TrimSpace(line.Text)))
		return
	}
	k, known := p.grammar.Lookup(first.Key)
	if !known {
		p.failf(file, line.Number, "%s: unrecognized key%s", first.Key, p.grammar.Suggest(first.Key))
		return
	}
	if err := k.Kind.Check(first.Value); err != nil {
		p.failf(file, line.Number, "%s=%s: %w", first.Key, first.Value, err)
		return
	}
	s := Statement{File: file, Line: line.Number, Key: first.Key, Operator: first.Operator, Value: first.Value}
	if p.files.statements++; p.files.statements > maxStatements {
		p.failf(file, line.Number, "more than %d statements in the cluster's files together (want fewer; a NodeName line may name many nodes)", maxStatements)
		p.stopped = true
		return
	}
	if k.Attributes == nil {
		if !syntax.IsBlank(rest) {
			p.failf(file, line.Number, "unexpected %q after %s=%s (one key on a line; quote a value that has blanks)",
				syntax.Shorten(strings.TrimSpace(rest)), first.Key, first.Value)
			return
		}
		p.found = append(p.found, s)
		return
	}
	if p.attributes(&s, rest, k.Attributes) {
		p.found = append(p.found, s)
	}
}

func (p *parser) attributes(s *Statement, rest string, known syntax.Grammar) bool {
	for !syntax.IsBlank(rest) {
		a, after, ok := syntax.CutPair(rest)
		if !ok {
			p.failf(s.File, s.Line, "%q in the line of %s=%s: not Key=Value", syntax.Shorten(strings.TrimSpace(rest)), s.Key, s.Value)
			return false
		}
		k, isKnown := known.Lookup(a.Key)
		if !isKnown {
			p.failf(s.File, s.Line, "%s: unrecognized key in the line of %s=%s%s", a.Key, s.Key, s.Value, known.Suggest(a.Key))
			return false
		}
		if err := k.Kind.Check(a.Value); err != nil {
			p.failf(s.File, s.Line, "%s=%s: %w", a.Key, a.Value, err)
			return false
		}
		s.Attributes = append(s.Attributes, Attribute{a.Key, a.Value})
		rest = after
	}
	return true
}
