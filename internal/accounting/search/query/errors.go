// Package query makes conditions of SQL of queries in the forms of Elasticsearch: its query DSL and
// Lucene's query strings.
//
// A condition is a text with question marks and their values. The text consists of constants of
// this package and names of columns. What a client sends is always a value.
package query

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"rmreplay/internal/accounting/store"
)

// Error is an error in the form of Elasticsearch's.
type Error struct {
	Status       int
	Kind, Reason string
}

func (e *Error) Error() string { return e.Kind + ": " + e.Reason }

// Fault returns an error with its HTTP status.
func Fault(status int, kind, reason string) *Error {
	return &Error{Status: status, Kind: kind, Reason: reason}
}

// Parsing is the error of a body that does not have the form that it should have.
func Parsing(format string, args ...any) error {
	return Fault(http.StatusBadRequest, "parsing_exception", fmt.Sprintf(format, args...))
}

// Illegal is the error of a value that makes no sense.
func Illegal(format string, args ...any) error {
	return Fault(http.StatusBadRequest, "illegal_argument_exception", fmt.Sprintf(format, args...))
}

// Unsupported is the error of what Elasticsearch can do and this server cannot.
func Unsupported(format string, args ...any) error {
	return Fault(http.StatusBadRequest, "unsupported_operation_exception", fmt.Sprintf(format, args...)+" is not supported by this server")
}

// AsError gives every error the form of Elasticsearch's.
func AsError(err error) *Error {
	var known *Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, store.ErrReadTime):
		return Fault(http.StatusServiceUnavailable, "timeout_exception", err.Error())
	case strings.Contains(err.Error(), "Out of Memory Error"):
		return Fault(http.StatusTooManyRequests, "circuit_breaking_exception", "the query needs more memory than it may have: "+err.Error())
	case strings.Contains(err.Error(), "Conversion Error"), strings.Contains(err.Error(), "Out of Range Error"):
		return Fault(http.StatusBadRequest, "illegal_argument_exception", err.Error())
	}
	return Fault(http.StatusInternalServerError, "exception", err.Error())
}

// Body returns what the server answers.
func (e *Error) Body() map[string]any {
	cause := map[string]any{"type": e.Kind, "reason": e.Reason}
	return map[string]any{
		"error":  map[string]any{"type": e.Kind, "reason": e.Reason, "root_cause": []any{cause}},
		"status": e.Status,
	}
}

// The functions below read a JSON value that was decoded with json.Number for numbers.

// KindOf names a JSON value's kind as Elasticsearch's messages do.
func KindOf(v any) string {
	switch v.(type) {
	case nil:
		return "VALUE_NULL"
	case bool:
		return "VALUE_BOOLEAN"
	case json.Number:
		return "VALUE_NUMBER"
	case string:
		return "VALUE_STRING"
	case []any:
		return "START_ARRAY"
	}
	return "START_OBJECT"
}

// Object returns a value that must be an object.
func Object(where string, v any) (map[string]any, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, Parsing("[%s] wants an object, not %s", where, KindOf(v))
	}
	return m, nil
}

// Only returns the single member of an object.
func Only(where string, v any) (name string, value any, err error) {
	m, err := Object(where, v)
	if err != nil {
		return "", nil, err
	}
	if len(m) != 1 {
		return "", nil, Parsing("[%s] wants an object with one member, not %d", where, len(m))
	}
	for name, value = range m {
	}
	return name, value, nil
}

// Known fails for the first member, in no order, that is not in the list.
func Known(where string, m map[string]any, names ...string) error {
next:
	for name := range m {
		for _, n := range names {
			if name == n {
				continue next
			}
		}
		return Unsupported("[%s] with [%s]", where, name)
	}
	return nil
}

// List returns the elements of an array, or a single value as the only element.
func List(v any) []any {
	if a, ok := v.([]any); ok {
		return a
	}
	return []any{v}
}

// Scalar returns the text of a string, number or boolean.
func Scalar(where string, v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	case bool:
		if v {
			return "true", nil
		}
		return "false", nil
	}
	return "", Parsing("[%s] wants a string, number or boolean, not %s", where, KindOf(v))
}

// Text returns the string of a member, or byDefault if it is absent.
func Text(where string, m map[string]any, name, byDefault string) (string, error) {
	v, given := m[name]
	if !given {
		return byDefault, nil
	}
	return Scalar(where+"."+name, v)
}

// Whole returns the integer of a member within bounds, or byDefault if it is absent.
func Whole(where string, m map[string]any, name string, byDefault, least, most int64) (int64, error) {
	v, given := m[name]
	if !given || v == nil {
		return byDefault, nil
	}
	s, err := Scalar(where+"."+name, v)
	if err != nil {
		return 0, err
	}
	n, err := json.Number(s).Int64()
	if err != nil {
		return 0, Illegal("[%s] %s: %q is no integer", where, name, s)
	}
	if n < least || n > most {
		return 0, Illegal("[%s] %s: %d (want %d to %d)", where, name, n, least, most)
	}
	return n, nil
}

// Boolean returns the truth value of a member, or byDefault if it is absent.
func Boolean(where string, m map[string]any, name string, byDefault bool) (bool, error) {
	switch v := m[name].(type) {
	case nil:
		return byDefault, nil
	case bool:
		return v, nil
	case string:
		switch v {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
	}
	return false, Illegal("[%s] %s wants true or false", where, name)
}

// Neutral fails for a boolean member that would change an answer, as every value but one does.
func Neutral(where string, m map[string]any, name string, value bool) error {
	given, err := Boolean(where, m, name, value)
	if err == nil && given != value {
		err = Unsupported("[%s] with a [%s] of [%t]", where, name, given)
	}
	return err
}
