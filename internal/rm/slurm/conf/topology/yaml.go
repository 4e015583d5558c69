package topology

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"rmreplay/internal/spelling"
)

// The limits of a file. The limits bound the time for a hostile file: the YAML parser's time grows with the square of a
// line's length and of the depth.
const (
	maxBytes = 4 << 20
	maxLine  = 16 << 10
	maxDepth = 16
)

// kind is the type of a key's value.
type kind uint8

const (
	aText kind = iota
	aFlag
	aNumber
	numbers
	anObject
	objects      // a list of objects, or a single object
	flagOrObject // "flat: true", or "flat:" with options
)

// field describes the value of a key.
type field struct {
	kind kind
	of   schema // the keys of an object
}

// schema lists the keys of an object.
type schema map[string]field

var dims = field{anObject, schema{"x": {kind: aNumber}, "y": {kind: aNumber}, "z": {kind: aNumber}}}

// grammar has the keys of one topology.
var grammar = schema{
	"topology":        {kind: aText},
	"cluster_default": {kind: aFlag},
	"tree": {anObject, schema{"switches": {objects, schema{
		"switch": {kind: aText}, "children": {kind: aText}, "nodes": {kind: aText}}}}},
	"block": {anObject, schema{"block_sizes": {kind: numbers}, "blocks": {objects, schema{
		"block": {kind: aText}, "nodes": {kind: aText}}}}},
	"flat": {flagOrObject, schema{"alpha_step_rank": {kind: aFlag}}},
	"ring": {anObject, schema{"rings": {objects, schema{
		"ring": {kind: aText}, "nodes": {kind: aText}}}}},
	"torus3d": {anObject, schema{"toruses": {objects, schema{
		"name": {kind: aText}, "nodes": {kind: aText}, "dims": dims,
		"placements": {objects, schema{"dims": dims, "anchor_seed": dims, "anchor_spacing": dims}},
		"regions":    {objects, schema{"anchor": dims, "dims": dims, "nodes": {kind: aText}}}}}}},
}

// value is a value of the file.
type value struct {
	line   int
	text   string // the text of a text or a number
	flag   bool
	list   []value
	fields map[string]value
}

// has reports whether an object has a key.
func (v value) has(key string) bool {
	_, ok := v.fields[key]
	return ok
}

// reader reads the values of a file.
type reader struct {
	name     string
	warnings []string
}

// errorf returns an error that begins with the file and a line.
func (r *reader) errorf(line int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", r.name, line, fmt.Errorf(format, args...))
}

func (r *reader) warnf(line int, format string, args ...any) {
	r.warnings = append(r.warnings, fmt.Sprintf("%s:%d: %s", r.name, line, fmt.Sprintf(format, args...)))
}

// document returns the topologies of a file: a list, or a single topology.
func (r *reader) document(text []byte) ([]value, error) {
	if err := r.checkLimits(text); err != nil {
		return nil, err
	}
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, r.syntaxError(err)
	}
	switch {
	case len(file.Docs) > 1:
		return nil, fmt.Errorf("%s: %d documents (want one document with a list of topologies)", r.name, len(file.Docs))
	case len(file.Docs) == 0 || file.Docs[0].Body == nil:
		return nil, nil
	}
	v, err := r.value(file.Docs[0].Body, field{objects, grammar}, "the file")
	return v.list, err
}

// syntaxError returns the parser's message with the line, without the excerpt of the file.
func (r *reader) syntaxError(err error) error {
	var syntax yaml.Error
	if errors.As(err, &syntax) && syntax.GetToken() != nil {
		return r.errorf(syntax.GetToken().Position.Line, "not YAML: %s", syntax.GetMessage())
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return fmt.Errorf("%s: not YAML: %s", r.name, first)
}

// checkLimits checks a text before it is parsed.
func (r *reader) checkLimits(text []byte) error {
	if len(text) > maxBytes {
		return fmt.Errorf("%s: more than %d MiB (want less)", r.name, maxBytes>>20)
	}
	depth, number := 0, 0
	for line := range bytes.Lines(text) {
		number++
		switch {
		case len(line) > maxLine:
			return r.errorf(number, "line of %d bytes (want at most %d)", len(line), maxLine)
		case bytes.IndexByte(line, 0) >= 0:
			return r.errorf(number, "NUL byte: not a text file")
		case bytes.Count(line, []byte("- ")) > maxDepth:
			return r.errorf(number, "lists are nested more than %d deep", maxDepth)
		}
		for _, c := range line {
			switch c {
			case '[', '{':
				depth++
			case ']', '}':
				depth = max(0, depth-1)
			}
			if depth > maxDepth {
				return r.errorf(number, "brackets are open more than %d deep", maxDepth)
			}
		}
	}
	return nil
}

// value reads a YAML node as a value of the field's kind. In messages, what names the value.
func (r *reader) value(n ast.Node, f field, what string) (value, error) {
	v := value{line: n.GetToken().Position.Line}
	switch n := n.(type) {
	case *ast.AliasNode, *ast.AnchorNode:
		return v, r.errorf(v.line, "%s: Slurm reads no aliases (want the text in full)", what)
	case *ast.TagNode:
		return r.value(n.Value, f, what)
	case ast.MapNode:
		switch f.kind {
		case anObject, flagOrObject:
			return v, r.object(&v, n, f.of, what)
		case objects:
			one := value{line: v.line}
			err := r.object(&one, n, f.of, what)
			v.list = []value{one}
			return v, err
		}
	case *ast.SequenceNode:
		if f.kind == numbers || f.kind == objects {
			return v, r.sequence(&v, n, f, what)
		}
	case ast.ScalarNode:
		if f.kind != anObject && f.kind != objects && f.kind != numbers {
			return v, r.scalar(&v, n, f.kind, what)
		}
	}
	want := map[kind]string{
		aText: "a text", aFlag: "true or false", aNumber: "a number", numbers: "a list of numbers",
		anObject: "keys with values",
		objects:  "a list of objects", flagOrObject: "true, or keys with values",
	}[f.kind]
	return v, r.errorf(v.line, "%s: not %s", what, want)
}

func (r *reader) object(v *value, n ast.MapNode, keys schema, what string) error {
	v.fields = map[string]value{}
	for pairs := n.MapRange(); pairs.Next(); {
		line := pairs.Key().GetToken().Position.Line
		key := pairs.Key().GetToken().Value
		f, known := keys[key]
		switch {
		case !known:
			hint := ""
			if near := spelling.Nearest(strings.ToLower(key), len(key)/3, slices.Collect(maps.Keys(keys))); near != "" {
				hint = "; did you mean " + near + "?"
			}
			r.warnf(line, "%s has no key %.40q: Slurm ignores it%s", what, key, hint)
			continue
		case v.has(key):
			return r.errorf(line, "%s is set twice", key)
		}
		got, err := r.value(pairs.Value(), f, key)
		if err != nil {
			return err
		}
		v.fields[key] = got
	}
	return nil
}

func (r *reader) sequence(v *value, n *ast.SequenceNode, f field, what string) error {
	element := field{anObject, f.of}
	if f.kind == numbers {
		element = field{kind: aNumber}
	}
	for _, item := range n.Values {
		if item == nil {
			return r.errorf(v.line, "%s: empty entry", what)
		}
		got, err := r.value(item, element, what)
		if err != nil {
			return err
		}
		v.list = append(v.list, got)
	}
	return nil
}

// scalar reads a text, a number or a flag. The words for flags are from data_convert_type in
// src/common/data.c.
func (r *reader) scalar(v *value, n ast.ScalarNode, k kind, what string) error {
	v.text = n.GetToken().Value
	switch n := n.(type) {
	case *ast.LiteralNode:
		v.text = strings.TrimSpace(n.Value.Value)
	case *ast.NullNode:
		v.text = ""
	}
	switch k {
	case aNumber:
		if _, err := strconv.ParseInt(v.text, 10, 32); err != nil {
			return r.errorf(v.line, "%s: %.40q: not a number", what, v.text)
		}
	case aFlag, flagOrObject:
		switch strings.ToLower(v.text) {
		case "true", "t", "yes", "y", "up", "on", "1":
			v.flag = true
		case "false", "f", "no", "n", "down", "off", "0", "":
		default:
			return r.errorf(v.line, "%s: %.40q: not a flag (want true or false)", what, v.text)
		}
	}
	return nil
}
