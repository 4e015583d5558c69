package elastic

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/accounting/forward"
	"rmreplay/internal/accounting/question"
	"rmreplay/internal/accounting/search/query"
	"rmreplay/internal/accounting/store"
)

// fieldsKept is how long the names of fields are cached. The names change when an index is created,
// or when a document has a new key.
const fieldsKept = time.Minute

// fields maps the store's columns to the cluster's fields.
type fields struct {
	columns map[string]field
	ownAPI  bool
}

// field is the cluster's field for a column.
type field struct {
	name    string // empty if no document has the field
	kind    string // type in the mapping; empty for the field _index
	why     string // why the column cannot be used; empty if it can
	derived bool   // only package forward adds this field to documents
	integer bool
}

// capability describes a field of one type, in a response to _field_caps.
type capability struct {
	Aggregatable bool `json:"aggregatable"`
	Searchable   bool `json:"searchable"`
}

// known returns the fields. It requests them again when they are older than [fieldsKept].
func (c *Cluster) known(ctx context.Context) (*fields, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fields != nil && time.Now().Before(c.expires) {
		return c.fields, nil
	}
	var answer struct {
		Fields map[string]map[string]capability `json:"fields"`
	}
	if err := c.do(ctx, http.MethodGet, "/"+url.PathEscape(c.index)+"/_field_caps?fields=*", nil, &answer); err != nil {
		return nil, err
	}
	own := ownAPI(answer.Fields)
	f := &fields{map[string]field{question.Exit: resolve(&question.Field{Name: question.Exit, Type: question.Text},
		answer.Fields, own)}, own}
	for name, known := range question.Fields {
		if name == known.Name {
			f.columns[name] = resolve(known, answer.Fields, own)
		}
	}
	c.fields, c.expires = f, time.Now().Add(fieldsKept)
	return f, nil
}

// ownAPI reports whether the fields come from this program's own search API, which also has the
// columns that documents lack.
func ownAPI(known map[string]map[string]capability) bool {
	for _, name := range []string{"mem_mib", "node_hours", "exit_status", "limit_used", "script_bytes"} {
		if len(known[name]) == 0 {
			return false
		}
	}
	return true
}

// names returns the possible names of a column in an Elasticsearch cluster. Package forward adds the columns that
// Slurm's documents lack in the member [forward.Member]. derived is true if only this member has the column.
func names(f *question.Field, ownAPI bool) (list []string, derived bool) {
	own := forward.Member + "." + f.Name
	switch f.Name {
	case "hour", "weekday":
		return nil, true // these columns depend on the reader's time zone
	case question.Exit:
		return []string{"exit_code"}, false
	case "id", "limit_used":
		if ownAPI && f.Name != "id" {
			own = f.Name
		}
		return []string{own}, true
	case "cluster":
		// The plugin's documents have the field cluster, and package forward adds it to other documents. If an index's
		// mapping lacks this field, queries use the field cluster of the member. A query can use only one of the two.
		return []string{f.Name, own}, false
	}
	for _, c := range store.Columns {
		if c.Name != f.Name {
			continue
		}
		if forward.Derived(c) {
			if ownAPI {
				own = query.NameOf(c)
			}
			return []string{own}, true
		}
		return []string{query.NameOf(c)}, false
	}
	return nil, true
}

// resolve finds the field of a column among the fields of a cluster.
func resolve(f *question.Field, known map[string]map[string]capability, ownAPI bool) field {
	candidates, derived := names(f, ownAPI)
	out := field{integer: f.Type == question.Integer}
	for _, name := range candidates {
		types, ok := known[name]
		if !ok {
			continue
		}
		out.derived = strings.HasPrefix(name, forward.Member+".")
		if out.name, out.why = usable(name, f.Type, types, known); out.why == "" {
			out.kind = kinds(known[out.name])[0]
		}
		if out.why == "" || !derived {
			return out
		}
	}
	switch {
	case f.Name == "cluster" || f.Name == "collection":
		return field{name: "_index"}
	case derived && out.why == "":
		out.why = "the documents that Slurm itself sends to a cluster do not have it"
	}
	return out
}

// kinds returns the types that a field has in the indices, without indices that lack the field.
func kinds(types map[string]capability) (list []string) {
	for kind := range types {
		if kind != "unmapped" {
			list = append(list, kind)
		}
	}
	slices.Sort(list)
	return list
}

// usable returns the name under which a field of these types can be compared, sorted and counted.
// If this is impossible, it returns the reason.
func usable(name string, want question.Type, types map[string]capability, known map[string]map[string]capability) (use,
	why string) {
	list := kinds(types)
	if len(list) != 1 {
		return "", fmt.Sprintf("the field %s has several types in the indices of the Elasticsearch cluster: "+
			"%s", name, strings.Join(list, ", "))
	}
	kind := list[0]
	numbers := []string{"long", "integer", "short", "byte", "unsigned_long", "double", "float", "half_float",
		"scaled_float"}
	switch want {
	case question.Text:
		if kind == "text" {
			if sub := known[name+".keyword"]; len(sub) == 1 && sub["keyword"].Aggregatable {
				return name + ".keyword", ""
			}
			return "", fmt.Sprintf("the field %s is of the type text, without a sub-field %s.keyword", name, name)
		}
		if slices.Contains([]string{"keyword", "constant_keyword", "wildcard", "ip"}, kind) {
			return name, ""
		}
	case question.Instant:
		if kind == "date" || kind == "date_nanos" {
			return name, ""
		}
		return "", fmt.Sprintf("the field %s is of the type %s in the Elasticsearch cluster (want date: make the index "+
			"with such a "+
			"mapping, and index the documents anew)", name, kind)
	default:
		if slices.Contains(numbers, kind) {
			return name, ""
		}
	}
	return "", fmt.Sprintf("the field %s is of the type %s in the Elasticsearch cluster", name, kind)
}

// of returns the field of a column. The field's name is empty if no document has the column.
func (f *fields) of(column string) (field, error) {
	known, ok := f.columns[column]
	switch {
	case !ok:
		return field{}, fmt.Errorf("there is no column %q", column)
	case known.why != "":
		return field{}, &question.AbsentError{Column: column, Why: known.why}
	}
	return known, nil
}
