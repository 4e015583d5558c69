package elastic

import (
	"fmt"
	"math"
	"time"

	"rmreplay/internal/accounting/question"
)

// object is an object of a request.
type object = map[string]any

// instantFormat writes instants as the format strict_date_optional_time has them, in UTC.
const instantFormat = "2006-01-02T15:04:05.000Z"

var (
	everything = object{"match_all": object{}}
	nothing    = object{"match_none": object{}}
)

// filter returns the query of a filter.
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
	case question.Ran:
		// No job that ran for no time holds processors.
		return f.filter(question.All{
			question.Compare{Column: "elapsed_s", Op: ">", Value: 0.0}, question.Compare{Column: "cpus", Op: ">", Value: 0.0},
		})
	case question.Known:
		field, err := f.of(chosen.Column)
		if err != nil || field.name == "" {
			return nothing, err
		}
		return f.exists(chosen.Column, field), nil
	case question.Like:
		field, err := f.of(chosen.Column)
		if err != nil || field.name == "" {
			return nothing, err
		}
		body := object{"value": chosen.Pattern}
		if chosen.AnyCase {
			body["case_insensitive"] = true
		}
		return object{"wildcard": object{field.name: body}}, nil
	case question.Compare:
		field, err := f.of(chosen.Column)
		if err != nil || field.name == "" {
			return nothing, err
		}
		return field.compare(chosen.Op, chosen.Value), nil
	}
	return nil, fmt.Errorf("a filter of the type %T", chosen)
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

// exists holds for jobs that have a value. "" counts as missing.
func (f *fields) exists(column string, of field) object {
	query := object{"exists": object{"field": of.name}}
	if f := question.Fields[column]; f.Type != question.Text {
		return query
	}
	return object{"bool": object{"filter": []object{query}, "must_not": []object{{"term": object{of.name: ""}}}}}
}

// compare returns the query of a comparison. op is one of =, <, <=, > and >=.
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
