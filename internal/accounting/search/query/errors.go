// Package query turns queries in the forms of Elasticsearch, which are its query DSL and Lucene's
// query strings, into conditions of SQL.
//
// A condition is a text with question marks and their values. The text consists of constants of
// this package and names of columns. What a client sends is always a value.
package query

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/accounting/engine"
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
	return Fault(http.StatusBadRequest, "unsupported_operation_exception", fmt.Sprintf(format,
		args...)+" is not supported by this server")
}

// AsError gives every error the form of Elasticsearch's.
func AsError(err error) *Error {
	var known *Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, engine.ErrTime):
		return Fault(http.StatusServiceUnavailable, "timeout_exception", err.Error())
	case errors.Is(err, engine.ErrAbsent), errors.Is(err, engine.ErrClosed):
		return Fault(http.StatusServiceUnavailable, "unavailable_exception", err.Error())
	case errors.Is(err, engine.ErrMemory), errors.Is(err, engine.ErrLarge), errors.Is(err, engine.ErrBusy):
		return Fault(http.StatusTooManyRequests, "circuit_breaking_exception", err.Error())
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

// The functions below read JSON values that were decoded with json.Number for numbers.

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

// Reader reads JSON values. Its first error stays in Err; what it reads then has no meaning.
type Reader struct{ Err error }

// Fail notes an error, unless there is one already.
func (r *Reader) Fail(err error) {
	if r.Err == nil {
		r.Err = err
	}
}

// Object returns a value that must be an object.
func (r *Reader) Object(where string, v any) map[string]any {
	m, ok := v.(map[string]any)
	if !ok {
		r.Fail(Parsing("[%s] wants an object, not %s", where, KindOf(v)))
	}
	return m
}

// Only returns the single member of an object.
func (r *Reader) Only(where string, v any) (name string, value any) {
	m := r.Object(where, v)
	if len(m) != 1 {
		r.Fail(Parsing("[%s] wants an object with one member, not %d", where, len(m)))
	}
	for name, value = range m {
	}
	return name, value
}

// List returns the elements of an array, or a single value as the only element.
func List(v any) []any {
	if a, ok := v.([]any); ok {
		return a
	}
	return []any{v}
}

// Scalar returns the text of a string, number or boolean.
func (r *Reader) Scalar(where string, v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	r.Fail(Parsing("[%s] wants a string, number or boolean, not %s", where, KindOf(v)))
	return ""
}

// Scalars returns the texts of an array, or of a single value. More than most values are an error.
func (r *Reader) Scalars(where string, v any, most int) (list []string) {
	if n := len(List(v)); n > most {
		r.Fail(Illegal("[%s] has %d values (want at most %d)", where, n, most))
		return nil
	}
	for _, e := range List(v) {
		list = append(list, r.Scalar(where, e))
	}
	return list
}

// Float returns a finite number, which may be the text of a string.
func (r *Reader) Float(where string, v any) float64 {
	s := r.Scalar(where, v)
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
		r.Fail(Illegal("[%s]: [%s] is no number", where, s))
		return 0
	}
	return x
}

// Body is an object of a request that a Reader reads.
type Body struct {
	*Reader
	Where   string // what it is, for errors
	Members map[string]any
}

// Read begins to read an object. Members with other names than those given are an error.
func (r *Reader) Read(where string, v any, names ...string) *Body {
	b := &Body{Reader: r, Where: where, Members: r.Object(where, v)}
	for _, name := range slices.Sorted(maps.Keys(b.Members)) {
		if !slices.Contains(names, name) {
			r.Fail(Unsupported("[%s] with [%s]", where, name))
		}
	}
	return b
}

// Given reports whether the object has a member, which is not null.
func (b *Body) Given(name string) bool { return b.Members[name] != nil }

// Text returns the text of a member, or byDefault if it is absent.
func (b *Body) Text(name, byDefault string) string {
	if _, given := b.Members[name]; !given {
		return byDefault
	}
	return b.Scalar(b.Where+"."+name, b.Members[name])
}

// Whole returns the integer of a member within bounds, or byDefault if it is absent.
func (b *Body) Whole(name string, byDefault, least, most int64) int64 {
	if !b.Given(name) {
		return byDefault
	}
	s := b.Text(name, "")
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil:
		b.Fail(Illegal("[%s] %s: %q is no integer", b.Where, name, s))
	case n < least || n > most:
		b.Fail(Illegal("[%s] %s: %d (want %d to %d)", b.Where, name, n, least, most))
	}
	return n
}

// Number returns the finite number of a member, or byDefault if it is absent.
func (b *Body) Number(name string, byDefault float64) float64 {
	if _, given := b.Members[name]; !given {
		return byDefault
	}
	return b.Float(b.Where+"."+name, b.Members[name])
}

// Boolean returns the truth value of a member, or byDefault if it is absent.
func (b *Body) Boolean(name string, byDefault bool) bool {
	if !b.Given(name) {
		return byDefault
	}
	s := b.Text(name, "")
	if s != "true" && s != "false" {
		b.Fail(Illegal("[%s] %s wants true or false", b.Where, name))
	}
	return s == "true"
}
