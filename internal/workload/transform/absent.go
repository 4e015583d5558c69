package transform

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"

	"rmreplay/internal/spelling"
)

// Compared are the texts that an expression compares with fields of jobs: "gpus" in partition ==
// "gpus". If the expression is true for no job, they may be mistyped.
type Compared struct {
	asked []comparedText
	known map[string]map[string]bool // the values of the jobs, by field
	paths map[string][]int           // the index of a field in its struct, as in [reflect.Value.FieldByIndex]
}

type comparedText struct{ field, text string }

// NewCompared finds the compared texts in an expression that [Compile] accepts for the same env.
func NewCompared(expression string, env any) *Compared {
	c := Asked()
	c.paths = make(map[string][]int)
	for _, f := range reflect.VisibleFields(reflect.TypeOf(env)) {
		if name := f.Tag.Get("expr"); name != "" && f.Type.Kind() == reflect.String {
			c.paths[name] = f.Index
		}
	}
	if tree, err := parser.Parse(expression); err == nil {
		ast.Walk(&tree.Node, c)
	}
	return c
}

// Asked returns a [Compared] without texts, for expressions in another language: the caller adds the texts with
// [Compared.Ask], and the values of the jobs with [Compared.Has].
func Asked() *Compared { return &Compared{known: make(map[string]map[string]bool)} }

// Ask adds a text that an expression compares with a field.
func (c *Compared) Ask(field, text string) {
	c.asked = append(c.asked, comparedText{field, text})
	if c.known[field] == nil {
		c.known[field] = make(map[string]bool)
	}
}

// Has adds the value that a job has in a field for which there is a compared text.
func (c *Compared) Has(field, value string) { c.known[field][value] = true }

// Fields returns the fields that are compared with texts, sorted.
func (c *Compared) Fields() []string { return sortedKeys(c.known) }

// Visit implements [ast.Visitor].
func (c *Compared) Visit(node *ast.Node) {
	n, ok := (*node).(*ast.BinaryNode)
	if !ok || n.Operator != "==" && n.Operator != "in" {
		return
	}
	field, isField := n.Left.(*ast.IdentifierNode)
	texts := []ast.Node{n.Right}
	if list, ok := n.Right.(*ast.ArrayNode); ok {
		texts = list.Nodes
	}
	if !isField || c.paths[field.Value] == nil {
		return
	}
	for _, text := range texts {
		if text, ok := text.(*ast.StringNode); ok && text.Value != "" {
			c.Ask(field.Value, text.Value)
		}
	}
}

// Add adds the values of a job. env is a struct as for [NewCompared].
func (c *Compared) Add(env any) {
	for field, values := range c.known {
		values[reflect.ValueOf(env).FieldByIndex(c.paths[field]).String()] = true
	}
}

// mostValues is the largest number of a field's values that [Compared.Absent] names.
const mostValues = 12

// Absent names the compared texts that no added job has, and for each the most similar value or
// the values that jobs have: `; no job has partition "gpus" (did you mean gpu?)`. It returns "" if
// there is no such text.
func (c *Compared) Absent() string {
	var b strings.Builder
	for _, asked := range c.asked {
		values := c.known[asked.field]
		if values[asked.text] {
			continue
		}
		names := slices.DeleteFunc(sortedKeys(values), func(name string) bool { return name == "" })
		meant := spelling.Meant(asked.text, names)
		isTask := func(name string) bool { return strings.HasPrefix(name, asked.text+"_") }
		switch {
		case asked.field == "id" && c.paths["array_id"] != nil && slices.ContainsFunc(names, isTask):
			meant = fmt.Sprintf("it is an array: want array_id == %q", asked.text)
		case len(names) == 0:
			meant = "no job has a " + asked.field
		case len(names) > mostValues && strings.HasPrefix(meant, "want "):
			meant = fmt.Sprintf("want %s or one of %d others", strings.Join(names[:mostValues], ", "), len(names)-mostValues)
		}
		fmt.Fprintf(&b, "; no job has %s %q (%s)", asked.field, asked.text, meant)
	}
	return b.String()
}
