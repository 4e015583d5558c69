package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"

	"rmreplay/internal/hpc"
	"rmreplay/internal/jobjson"
	"rmreplay/internal/packed"
	"rmreplay/internal/rm"
)

// The structs of package rm have no JSON names, and most of their fields are zero in most events. A
// compact codec gives the fields snake_case names with units, and omits zero fields. It derives the
// names from the type, so the journal includes every field that is added to rm.Outcome.
type compact[T any] struct {
	wire   reflect.Type
	fields []compactField
	set    packed.Fields[T]
}

// compactField says how one field is encoded.
type compactField struct {
	label string // `"run_time_ns":`
	kind  reflect.Kind
}

// newCompact makes the codec of a struct type.
func newCompact[T any]() compact[T] {
	c, t := compact[T]{set: packed.NewFields[T]()}, reflect.TypeFor[T]()
	fields := make([]reflect.StructField, t.NumField())
	for i := range fields {
		f := t.Field(i)
		name := wireName(f)
		fields[i] = reflect.StructField{
			Name: f.Name,
			Type: f.Type,
			Tag:  reflect.StructTag(`json:"` + name + `,omitzero"`),
		}
		c.fields = append(c.fields, compactField{`"` + name + `":`, f.Type.Kind()})
	}
	c.wire = reflect.StructOf(fields)
	return c
}

// append encodes the struct that v points to. A journal has one or two objects for each job of a
// run, and most of their fields are zero. append visits only the other fields, which is ten times
// as fast as building a value for encoding/json.
func (c compact[T]) append(b []byte, v *T) ([]byte, error) {
	value := reflect.ValueOf(v).Elem()
	b = append(b, '{')
	var places [16]int
	for n, i := range c.set.AppendSet(places[:0], v) {
		if n > 0 {
			b = append(b, ',')
		}
		b = append(b, c.fields[i].label...)
		var err error
		if b, err = appendJSON(b, value.Field(i), c.fields[i].kind); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// appendJSON encodes one value.
func appendJSON(b []byte, v reflect.Value, kind reflect.Kind) ([]byte, error) {
	switch kind {
	case reflect.String:
		return appendString(b, v.String())
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool()), nil
	case reflect.Int, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(b, v.Int(), 10), nil
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(b, v.Uint(), 10), nil
	}
	data, err := json.Marshal(v.Interface())
	return append(b, data...), err
}

// appendString encodes a string as encoding/json does.
func appendString(b []byte, s string) ([]byte, error) {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			data, err := json.Marshal(s)
			return append(b, data...), err
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"'), nil
}

// decode reads data into the struct that v points to.
func (c compact[T]) decode(data []byte, v *T) error {
	if len(data) == 0 {
		return nil
	}
	wire := reflect.New(c.wire)
	if err := json.Unmarshal(data, wire.Interface()); err != nil {
		return err
	}
	target := reflect.ValueOf(v).Elem()
	target.Set(wire.Elem().Convert(target.Type()))
	return nil
}

// mebibytes names the fields whose values are memory or disk space in MiB.
var mebibytes = map[string]bool{"MemPerNode": true, "MemPerCPU": true, "MemPerGPU": true, "TmpDisk": true}

// wireName is the JSON name of a field: its Go name in snake_case with its unit.
func wireName(f reflect.StructField) string {
	name := snakeCase(f.Name)
	elem := f.Type
	if elem.Kind() == reflect.Map {
		elem = elem.Elem()
	}
	switch {
	case elem == reflect.TypeFor[time.Duration](), elem == reflect.TypeFor[hpc.Time]():
		return name + "_ns"
	case mebibytes[f.Name]:
		return name + "_mib"
	case f.Name == "TimeLimit": // of rm.Outcome, in whole seconds
		return name + "_s"
	}
	return name
}

// snakeCase turns a Go name into snake_case: "MinCPUsPerNode" into "min_cpus_per_node".
func snakeCase(name string) string {
	// Without this replacement, "CPUs" would become "cp_us".
	runes := []rune(strings.NewReplacer("CPUs", "Cpus", "GPUs", "Gpus").Replace(name))
	var b strings.Builder
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) {
			endOfAcronym := i+1 < len(runes) && unicode.IsLower(runes[i+1])
			if unicode.IsLower(runes[i-1]) || endOfAcronym {
				b.WriteByte('_')
			}
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

var outcomeCodec = newCompact[rm.Outcome]()

// EncodeJob returns a whole submission as one compact JSON object in the format of package jobjson.
// It is the value of the column request of jobs.parquet.
func EncodeJob(job *hpc.Job) []byte { return jobjson.Append(nil, job) }

// DecodeJob decodes the result of [EncodeJob].
func DecodeJob(data []byte) (*hpc.Job, error) {
	if bytes.Contains(data, []byte(`"submit_ns":`)) {
		return nil, errors.New("decoding a job: it is in the form of an earlier version (want the run made again)")
	}
	var in jobjson.Job
	if err := jobjson.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("decoding a job: %w", err)
	}
	return in.Decode(&jobjson.Epoch{}), nil
}

// eventIn is an rm.Event as JSON.
type eventIn struct {
	At      hpc.Time        `json:"at_ns"`
	Kind    rm.EventKind    `json:"kind"`
	Job     string          `json:"job"`
	Task    int             `json:"task"`
	RMJob   uint32          `json:"rm_job"`
	Reason  string          `json:"reason"`
	Outcome json.RawMessage `json:"outcome"`
}

// appendEvent appends an event to b.
func appendEvent(b []byte, e rm.Event) ([]byte, error) {
	b = strconv.AppendInt(append(b, `{"at_ns":`...), int64(e.At), 10)
	var err error
	for _, f := range []struct{ label, value string }{
		{`,"kind":`, string(e.Kind)}, {`,"job":`, e.Job}, {`,"reason":`, e.Reason},
	} {
		if err == nil && f.value != "" {
			b, err = appendString(append(b, f.label...), f.value)
		}
	}
	b = strconv.AppendInt(append(b, `,"task":`...), int64(e.Task), 10)
	if e.RMJob != 0 {
		b = strconv.AppendUint(append(b, `,"rm_job":`...), uint64(e.RMJob), 10)
	}
	if err == nil && e.Outcome != nil {
		b, err = outcomeCodec.append(append(b, `,"outcome":`...), e.Outcome)
	}
	if err != nil {
		return nil, fmt.Errorf("encoding an event of job %q: %w", e.Job, err)
	}
	return append(b, '}'), nil
}

// event returns the event; it is the inverse of appendEvent.
func (in *eventIn) event() (rm.Event, error) {
	e := rm.Event{At: in.At, Kind: in.Kind, Job: in.Job, Task: in.Task, RMJob: in.RMJob, Reason: in.Reason}
	if len(in.Outcome) > 0 && string(in.Outcome) != "null" {
		e.Outcome = new(rm.Outcome)
		if err := outcomeCodec.decode(in.Outcome, e.Outcome); err != nil {
			return e, fmt.Errorf("decoding the outcome of job %q: %w", in.Job, err)
		}
	}
	return e, nil
}
