package jobjson

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"rmreplay/internal/spelling"
)

// Unmarshal reads one JSON object into the struct that v points to. A key must be spelled
// exactly as a field of the struct and may come only once. A number may have an exponent, and a whole
// number may have a fraction of zeros. Errors name the field and say what would be right.
func Unmarshal(text []byte, v any) error {
	err := json.Unmarshal(text, v, strict)
	if err == nil {
		return nil
	}
	if plain := plainNumbers(text); plain != nil { // after a failure, because few texts need it
		err = json.Unmarshal(plain, v, strict)
	}
	return explain(err, reflect.TypeOf(v))
}

var strict = json.RejectUnknownMembers(true)

// UnmarshalKnown is [Unmarshal], but ignores unknown keys and accepts duplicate keys. The last
// value of a duplicate key counts.
func UnmarshalKnown(text []byte, v any) error {
	if err := json.Unmarshal(text, v, lenient); err != nil {
		return explain(err, reflect.TypeOf(v))
	}
	return nil
}

var lenient = jsontext.AllowDuplicateNames(true)

// valueError is the error for a text that is not a value of its field.
type valueError struct{ text, problem string }

func (e *valueError) Error() string { return e.text + ": " + e.problem }

// explain says in a user's words why a text is not a value of the type. It returns nil if err is nil.
func explain(err error, t reflect.Type) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		switch {
		case errors.Is(e, jsontext.ErrDuplicateName):
			return fmt.Errorf("%s: the key occurs twice in one record", e.JSONPointer.LastToken())
		case errors.Is(e, io.ErrUnexpectedEOF):
			return errors.New("not JSON: the line ends too early")
		}
		return fmt.Errorf("not JSON: %w at byte %d", e.Err, e.ByteOffset)
	}
	e, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			return errors.New("not JSON: the line ends too early")
		}
		return err
	}
	if errors.Is(e, json.ErrUnknownName) {
		name := e.JSONPointer.LastToken()
		return fmt.Errorf("%s: not a field of this record%s", name, hint(name, t))
	}
	field := fieldOf(e.JSONPointer)
	if bad, ok := errors.AsType[*valueError](err); ok {
		return fmt.Errorf("%s: %w", field, bad)
	}
	found := kindNames[e.JSONKind]
	if field == "" {
		return fmt.Errorf("a record is a %s (want an object, {...})", found)
	}
	if e.JSONKind == '0' && len(e.JSONValue) > 0 {
		found += " " + string(e.JSONValue)
	}
	return fmt.Errorf("%s: is a %s (want %s)", field, found, e.GoType)
}

var kindNames = map[jsontext.Kind]string{
	'n': "null", 't': "bool", 'f': "bool", '"': "string", '0': "number", '{': "object", '[': "list",
}

// fieldOf writes a pointer as "recorded.start". Numbers are left out: they are the tasks in maps such as
// task_starts.
func fieldOf(pointer jsontext.Pointer) string {
	var parts []string
	for token := range pointer.Tokens() {
		if strings.Trim(token, "-0123456789") != "" {
			parts = append(parts, token)
		}
	}
	return strings.Join(parts, ".")
}

// hint names the field of a struct's type that an unknown name most likely means.
func hint(name string, t reflect.Type) string {
	names := namesOf(t, nil)
	for _, known := range names {
		if known != name && known == strings.ToLower(name) {
			return " (want it in lower case)"
		}
	}
	if meant := Meant(name, names); meant != "" {
		return " (" + meant + ")"
	}
	return ""
}

// usualNames are names of values in other tools, without underscores. Each name has the fields
// that contain these values.
var usualNames = func() map[string][]string {
	all := map[string][]string{}
	for fields, names := range map[string]string{
		"tasks cpus_per_task": "cpus ncpus reqcpus alloccpus numcpus cores ncores numcores procs nprocs processors slots",
		"tasks":               "ntasks numtasks", "min_nodes": "nodes nnodes numnodes reqnodes",
		"mem_per_node_mib mem_per_cpu_mib": "mem memory reqmem", "time_limit_s": "walltime limit",
		"run_time_s": "elapsed elapsedraw duration", "submit": "submitted submittime", "id": "job jobid jobnumber",
		"partition": "queue", "user": "username owner", "account": "project", "recorded_start": "start starttime started",
		"recorded_end": "end endtime ended", "recorded_state": "state status",
	} {
		for name := range strings.FieldsSeq(names) {
			all[name] = strings.Fields(fields)
		}
	}
	return all
}()

// Meant says which of the known names a wrong name most likely means: "did you mean NAME?", or "".
// It looks for the wrong name among the usual names of other tools, and then for the nearest known
// name.
func Meant(name string, known []string) string {
	absent := func(field string) bool { return !slices.Contains(known, field) }
	meant := slices.DeleteFunc(slices.Clone(usualNames[bare(name)]), absent)
	if near := Nearest(name, known); len(meant) == 0 && near != "" {
		meant = []string{near}
	}
	if len(meant) == 0 {
		return ""
	}
	return "did you mean " + strings.Join(meant, " and ") + "?"
}

// namesOf appends the JSON names of the fields of a struct's type and of the structs in it.
func namesOf(t reflect.Type, names []string) []string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[Instant]() {
		return names
	}
	for f := range t.Fields() {
		if name := jsonName(f); name != "" && name != "-" {
			names = append(names, name)
		}
		names = namesOf(f.Type, names)
	}
	return names
}

// Nearest returns the known name that a wrong name most likely means. It is a name that differs
// only in case, underscores or unit, or else the name with the fewest edits, if these are at most
// a third of its letters. It returns "" if no name is near.
func Nearest(name string, known []string) string {
	plain := bare(name)
	for _, k := range known {
		if bare(k) == plain {
			return k
		}
	}
	return spelling.Nearest(strings.ToLower(name), len(name)/3, known)
}

// bare returns a name in lower case without its underscores and its unit.
func bare(name string) string {
	name = strings.ToLower(name)
	name = strings.TrimSuffix(strings.TrimSuffix(name, "_s"), "_mib")
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(name)
}
