package question

import (
	"fmt"
	"strings"

	"rmreplay/internal/accounting/store"
	"rmreplay/internal/spelling"
)

// Type is the type of a field's values.
type Type int

// The types of fields.
const (
	Text Type = iota
	Integer
	Decimal
	Instant
)

// Field is something that jobs can be filtered by.
type Field struct {
	Name     string
	Type     Type
	Computed bool // true for a field that is computed and is not a column of the store
	Doc      string
}

// Columns lists the names of the store's columns, in the store's order.
var Columns = func() (names []string) {
	for _, c := range store.Columns {
		names = append(names, c.Name)
	}
	return names
}()

// Fields maps names to fields. A column has two names: its own and the key of Slurm's job document. The column of
// users has a third name.
var Fields = func() map[string]*Field {
	all := make(map[string]*Field)
	for _, c := range store.Columns {
		f := &Field{Name: c.Name, Doc: c.Doc}
		switch {
		case strings.HasPrefix(c.Type, "BIGINT"):
			f.Type = Integer
		case strings.HasPrefix(c.Type, "DOUBLE"):
			f.Type = Decimal
		case strings.HasPrefix(c.Type, "TIMESTAMP"):
			f.Type = Instant
		}
		all[c.Name] = f
	}
	for _, c := range store.Columns {
		if _, taken := all[c.Field]; c.Field != "" && !taken {
			all[c.Field] = all[c.Name]
		}
	}
	all["user"] = all["user_name"] // the word of Slurm's commands
	for _, f := range []*Field{
		{"id", Text, true, "cluster, jobid and run, separated by colons"},
		{"limit_used", Decimal, true, "run time in per cent of the time limit; not known for a job that never ran"},
		{"hour", Integer, true, "hour of the submission, 0 to 23"},
		{"weekday", Integer, true, "weekday of the submission, 0 (Sunday) to 6"},
	} {
		all[f.Name] = f
	}
	return all
}()

// LookUp returns the field of a name. The error for an unknown name suggests a similar name.
func LookUp(name string) (*Field, error) {
	if f, ok := Fields[name]; ok {
		return f, nil
	}
	known := make([]string, 0, len(Fields))
	for k := range Fields {
		known = append(known, k)
	}
	if near := spelling.Nearest(name, 3, known); near != "" {
		return nil, fmt.Errorf("there is no field %q (did you mean %q?)", name, near)
	}
	return nil, fmt.Errorf("there is no field %q (want a column of the table of jobs, such as user_name or elapsed_s)",
		name)
}
