package elastic

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"

	"rmreplay/internal/accounting/question"
)

// object is a JSON object in a request.
type object = map[string]any

// instantFormat formats instants in UTC as Elasticsearch's strict_date_optional_time.
const instantFormat = "2006-01-02T15:04:05.000Z"

var (
	everything = object{"match_all": object{}}
	nothing    = object{"match_none": object{}}
)

// filter returns the query for a filter.
func (f *fields) filter(chosen question.Filter) (object, error) {
	switch chosen := chosen.(type) {
	case nil:
		return everything, nil
	case question.All:
		list, err := f.filters(chosen)
		if len(list) == 0 {
			return everything, err
		}
		return object{"bool": object{"filter": list}}, err
	case question.Any:
		list, err := f.filters(chosen)
		if len(list) == 0 {
			return nothing, err
		}
		return object{"bool": object{"should": list, "minimum_should_match": 1}}, err
	case question.Not:
		of, err := f.filter(chosen.Of)
		return object{"bool": object{"must_not": []object{of}}}, err
	case question.Failed:
		states := question.Any{}
		for _, state := range question.FailedStates {
			states = append(states, question.Compare{Column: "state", Op: "=", Value: state})
		}
		return f.filter(states)
	case question.Lost:
		if lost, err := f.of("lost"); err == nil && lost.name != "" {
			return f.filter(question.Compare{Column: "lost", Op: "=", Value: 1.0})
		}
		return f.filter(question.All{question.Known{Column: "start_time"}, question.Known{Column: "end_time"}, question.Any{
			question.Compare{Column: "state", Op: "=", Value: "PENDING"},
			question.Compare{Column: "state", Op: "=", Value: "REQUEUED"},
		}})
	case question.Ran:
		// A job with a run time of 0 held no processors.
		return f.filter(question.All{
			question.Compare{Column: "elapsed_s", Op: ">", Value: 0.0}, question.Compare{Column: "cpus", Op: ">", Value: 0.0},
		})
	case question.Known:
		field, err := f.of(chosen.Column)
		if err != nil || field.name == "" {
			return nothing, err
		}
		return f.started(chosen.Column, f.exists(chosen.Column, field)), nil
	case question.Like:
		field, err := f.of(chosen.Column)
		if err != nil || field.name == "" {
			return nothing, err
		}
		return f.like(field.name, chosen), nil
	case question.Compare:
		field, err := f.of(chosen.Column)
		if err != nil || field.name == "" {
			return nothing, err
		}
		return f.started(chosen.Column, field.compare(chosen.Op, chosen.Value)), nil
	}
	return nil, fmt.Errorf("a filter of the type %T is not supported", chosen)
}

// like returns the query for a pattern. Elasticsearch ignores the case only of ASCII letters. For
// other letters, the query is a regular expression that matches both cases.
func (f *fields) like(name string, l question.Like) object {
	folds := func(c rune) bool { return c > unicode.MaxASCII && unicode.SimpleFold(c) != c }
	switch {
	case !l.AnyCase:
		return object{"wildcard": object{name: object{"value": l.Pattern}}}
	case f.ownAPI || !strings.ContainsFunc(l.Pattern, folds):
		return object{"wildcard": object{name: object{"value": l.Pattern, "case_insensitive": true}}}
	}
	return object{"regexp": object{name: object{"value": anyCase(l.Pattern), "flags": "NONE"}}}
}

// anyCase converts a pattern to a regular expression of Lucene that ignores case.
func anyCase(pattern string) string {
	var b strings.Builder
	quoted := false
	for _, c := range pattern {
		switch {
		case !quoted && c == '\\':
			quoted = true
			continue
		case !quoted && c == '*':
			b.WriteString(".*")
		case !quoted && c == '?':
			b.WriteByte('.')
		case unicode.SimpleFold(c) != c:
			b.WriteString("[" + string(c))
			for other := unicode.SimpleFold(c); other != c; other = unicode.SimpleFold(other) {
				b.WriteRune(other)
			}
			b.WriteByte(']')
		case c > unicode.MaxASCII || unicode.IsDigit(c):
			b.WriteRune(c)
		default:
			b.WriteString(`\` + string(c))
		}
		quoted = false
	}
	if quoted { // a backslash at the end is an ordinary character
		b.WriteString(`\\`)
	}
	return b.String()
}

func (f *fields) filters(list []question.Filter) (all []object, err error) {
	for _, one := range list {
		part, err := f.filter(one)
		if err != nil {
			return nil, err
		}
		all = append(all, part)
	}
	return all, nil
}

// ifRan lists the columns that are valid only for jobs that ran. In Slurm's documents, jobs that
// never ran have other values in them: the time of the end as the start, and 0:0 as the exit code.
var ifRan = map[string]bool{"start_time": true, "exit_code": true, "exit_signal": true, "derived_code": true,
	"derived_signal": true, "limit_used": true}

// started excludes jobs that never ran from a query about a column of [ifRan].
func (f *fields) started(column string, query object) object {
	nodes, err := f.of("node_list")
	if !ifRan[column] || err != nil || nodes.name == "" {
		return query
	}
	return object{"bool": object{"filter": []object{query}, "must_not": []object{{"terms": object{nodes.name: notRun}}}}}
}

// exists returns the query for jobs that have a value. The empty text counts as missing.
func (f *fields) exists(column string, of field) object {
	query := object{"exists": object{"field": of.name}}
	if f := question.Fields[column]; f.Type != question.Text {
		return query
	}
	return object{"bool": object{"filter": []object{query}, "must_not": []object{{"term": object{of.name: ""}}}}}
}

// compare returns the query for a comparison. op is one of =, <, <=, > and >=.
func (f field) compare(op string, value any) object {
	operator := map[string]string{"<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}[op]
	switch v := value.(type) {
	case time.Time:
		text := v.UTC().Format(instantFormat)
		body := object{"format": "strict_date_optional_time"}
		if op == "=" {
			body["gte"], body["lte"] = text, text
		} else {
			body[operator] = text
		}
		return object{"range": object{f.name: body}}
	case float64:
		if whole := math.Ceil(v); f.integer && whole != v {
			// No integer equals v.
			switch op {
			case "=":
				return nothing
			case "<", "<=":
				operator = "lt"
			default:
				operator = "gte"
			}
			value = whole
		}
	}
	if op == "=" {
		return object{"term": object{f.name: object{"value": value}}}
	}
	return object{"range": object{f.name: object{operator: value}}}
}
