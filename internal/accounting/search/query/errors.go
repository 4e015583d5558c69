// Package query compiles Elasticsearch's query DSL and Lucene's query strings to SQL conditions.
//
// A condition is a text with question marks, and their values. The text consists of constants of
// this package and names of columns. What a client sends is always passed as a value.
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

// Error is an error in Elasticsearch's format.
type Error struct {
	Status       int
	Kind, Reason string
}

func (e *Error) Error() string { return e.Kind + ": " + e.Reason }

// Fault returns an error with its HTTP status.
func Fault(status int, kind, reason string) *Error {
	return &Error{Status: status, Kind: kind, Reason: reason}
}

// Parsing returns the error for a body of the wrong form.
func Parsing(format string, args ...any) error {
	return Fault(http.StatusBadRequest, "parsing_exception", fmt.Sprintf(format, args...))
}

// Illegal returns the error for an invalid value.
func Illegal(format string, args ...any) error {
	return Fault(http.StatusBadRequest, "illegal_argument_exception", fmt.Sprintf(format, args...))
}

// Unsupported returns the error for a feature of Elasticsearch that this server lacks.
func Unsupported(format string, args ...any) error {
	return Fault(http.StatusBadRequest, "unsupported_operation_exception", fmt.Sprintf(format,
		args...)+" is not supported by this server")
}

// AsError converts every error to Elasticsearch's format.
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

// Body returns the error as the body of a response.
func (e *Error) Body() map[string]any {
	cause := map[string]any{"type": e.Kind, "reason": e.Reason}
	return map[string]any{
		"error":  map[string]any{"type": e.Kind, "reason": e.Reason, "root_cause": []any{cause}},
		"status": e.Status,
	}
}

// The functions below expect JSON values in which numbers were decoded as json.Number.

// KindOf returns the name of a JSON value's kind, as in Elasticsearch's messages.
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

// Reader reads JSON values. Err is the first error; results after an error are meaningless.
type Reader struct{ Err error }

// Fail sets Err, unless there was an error before.
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

// OnlyMember returns the only member of an object. Any other number of members is an error.
func (r *Reader) OnlyMember(where string, v any) (name string, value any) {
	m := r.Object(where, v)
	if len(m) != 1 {
		r.Fail(Parsing("[%s] wants an object with one member, not %d", where, len(m)))
	}
	for name, value = range m {
	}
	return name, value
}

// List returns the elements of an array. A value that is not an array is its only element.
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

// Scalars returns the texts of an array, or of a single value. More than maxItems values are an error.
func (r *Reader) Scalars(where string, v any, maxItems int) (list []string) {
	if n := len(List(v)); n > maxItems {
		r.Fail(Illegal("[%s] has %d values (want at most %d)", where, n, maxItems))
		return nil
	}
	for _, e := range List(v) {
		list = append(list, r.Scalar(where, e))
	}
	return list
}

// Float returns a finite number. A string with a number is allowed, too.
func (r *Reader) Float(where string, v any) float64 {
	s := r.Scalar(where, v)
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
		r.Fail(Illegal("[%s]: [%s] is not a number", where, s))
		return 0
	}
	return x
}

// Body is an object in a request, read by a Reader.
type Body struct {
	*Reader
	Where   string // the object's name in error messages
	Members map[string]any
}

// Read starts to read an object. A member that is not in the parameter names is an error.
func (r *Reader) Read(where string, v any, names ...string) *Body {
	b := &Body{Reader: r, Where: where, Members: r.Object(where, v)}
	for _, name := range slices.Sorted(maps.Keys(b.Members)) {
		if !slices.Contains(names, name) {
			r.Fail(Unsupported("[%s] with [%s]", where, name))
		}
	}
	return b
}

// Given reports whether the object has a member with a value other than null.
func (b *Body) Given(name string) bool { return b.Members[name] != nil }

// Text returns the text of a member, or byDefault if it is absent.
func (b *Body) Text(name, byDefault string) string {
	if _, given := b.Members[name]; !given {
		return byDefault
	}
	return b.Scalar(b.Where+"."+name, b.Members[name])
}

// Whole returns the integer in a member, which must be from minValue to maxValue, or byDefault without the
// member.
func (b *Body) Whole(name string, byDefault, minValue, maxValue int64) int64 {
	if !b.Given(name) {
		return byDefault
	}
	s := b.Text(name, "")
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil:
		b.Fail(Illegal("[%s] %s: %q is not an integer", b.Where, name, s))
	case n < minValue || n > maxValue:
		b.Fail(Illegal("[%s] %s: %d (want %d to %d)", b.Where, name, n, minValue, maxValue))
	}
	return n
}

// Number returns the finite number in a member, or byDefault without the member.
func (b *Body) Number(name string, byDefault float64) float64 {
	if _, given := b.Members[name]; !given {
		return byDefault
	}
	return b.Float(b.Where+"."+name, b.Members[name])
}

// Boolean returns the boolean in a member, or byDefault without the member.
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
