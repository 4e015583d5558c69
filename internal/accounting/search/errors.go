package search

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"rmreplay/internal/accounting/store"
)

// apiError is an error in the form of Elasticsearch's.
type apiError struct {
	status       int
	kind, reason string
}

func (e *apiError) Error() string { return e.kind + ": " + e.reason }

// parsing is the error of a body that does not have the form that it should have.
func parsing(format string, args ...any) error {
	return &apiError{http.StatusBadRequest, "parsing_exception", fmt.Sprintf(format, args...)}
}

// illegal is the error of a value that makes no sense.
func illegal(format string, args ...any) error {
	return &apiError{http.StatusBadRequest, "illegal_argument_exception", fmt.Sprintf(format, args...)}
}

// unsupported is the error of what Elasticsearch can do and this server cannot.
func unsupported(format string, args ...any) error {
	return &apiError{http.StatusBadRequest, "unsupported_operation_exception", fmt.Sprintf(format, args...) + " is not supported by this server"}
}

// asAPIError gives every error the form of Elasticsearch's.
func asAPIError(err error) *apiError {
	var known *apiError
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, store.ErrReadTime):
		return &apiError{http.StatusServiceUnavailable, "timeout_exception", err.Error()}
	case strings.Contains(err.Error(), "Out of Memory Error"):
		return &apiError{http.StatusTooManyRequests, "circuit_breaking_exception", "the query needs more memory than it may have: " + err.Error()}
	case strings.Contains(err.Error(), "Conversion Error"), strings.Contains(err.Error(), "Out of Range Error"):
		return &apiError{http.StatusBadRequest, "illegal_argument_exception", err.Error()}
	}
	return &apiError{http.StatusInternalServerError, "exception", err.Error()}
}

// body returns what the server answers.
func (e *apiError) body() map[string]any {
	cause := map[string]any{"type": e.kind, "reason": e.reason}
	return map[string]any{
		"error":  map[string]any{"type": e.kind, "reason": e.reason, "root_cause": []any{cause}},
		"status": e.status,
	}
}

// The functions below read a JSON value that was decoded with json.Number for numbers.

// kindOf names a JSON value's kind as Elasticsearch's messages do.
func kindOf(v any) string {
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

// object returns a value that must be an object.
func object(where string, v any) (map[string]any, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, parsing("[%s] wants an object, not %s", where, kindOf(v))
	}
	return m, nil
}

// only returns the single member of an object.
func only(where string, v any) (name string, value any, err error) {
	m, err := object(where, v)
	if err != nil {
		return "", nil, err
	}
	if len(m) != 1 {
		return "", nil, parsing("[%s] wants an object with one member, not %d", where, len(m))
	}
	for name, value = range m {
	}
	return name, value, nil
}

// known fails for the first member, in no order, that is not in the list.
func known(where string, m map[string]any, names ...string) error {
next:
	for name := range m {
		for _, n := range names {
			if name == n {
				continue next
			}
		}
		return unsupported("[%s] with [%s]", where, name)
	}
	return nil
}

// list returns the elements of an array, or a single value as the only element.
func list(v any) []any {
	if a, ok := v.([]any); ok {
		return a
	}
	return []any{v}
}

// scalar returns the text of a string, number or boolean.
func scalar(where string, v any) (string, error) {
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
	return "", parsing("[%s] wants a string, number or boolean, not %s", where, kindOf(v))
}

// text returns the string of a member, or byDefault if it is absent.
func text(where string, m map[string]any, name, byDefault string) (string, error) {
	v, given := m[name]
	if !given {
		return byDefault, nil
	}
	return scalar(where+"."+name, v)
}

// whole returns the integer of a member within bounds, or byDefault if it is absent.
func whole(where string, m map[string]any, name string, byDefault, least, most int64) (int64, error) {
	v, given := m[name]
	if !given || v == nil {
		return byDefault, nil
	}
	s, err := scalar(where+"."+name, v)
	if err != nil {
		return 0, err
	}
	n, err := json.Number(s).Int64()
	if err != nil {
		return 0, illegal("[%s] %s: %q is no integer", where, name, s)
	}
	if n < least || n > most {
		return 0, illegal("[%s] %s: %d (want %d to %d)", where, name, n, least, most)
	}
	return n, nil
}

// boolean returns the truth value of a member, or byDefault if it is absent.
func boolean(where string, m map[string]any, name string, byDefault bool) (bool, error) {
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
	return false, illegal("[%s] %s wants true or false", where, name)
}
