// Package compactjson encodes structs without JSON names as compact JSON objects. The fields get
// snake_case names with units, and fields with the value zero are left out. The names come from the
// type, so an object has every field that is added to the type.
package compactjson

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"

	"rmreplay/internal/hpc"
	"rmreplay/internal/packed"
)

// Codec encodes structs of type T, which have no JSON names.
type Codec[T any] struct {
	wire   reflect.Type
	fields []field
	set    packed.Fields[T]
}

// field says how one field is encoded.
type field struct {
	label string // `"run_time_ns":`
	kind  reflect.Kind
}

// New makes the codec of a struct type.
func New[T any]() Codec[T] {
	c, t := Codec[T]{set: packed.NewFields[T]()}, reflect.TypeFor[T]()
	fields := make([]reflect.StructField, t.NumField())
	for i := range fields {
		f := t.Field(i)
		name := wireName(f)
		fields[i] = reflect.StructField{
			Name: f.Name,
			Type: f.Type,
			Tag:  reflect.StructTag(`json:"` + name + `,omitzero"`),
		}
		c.fields = append(c.fields, field{`"` + name + `":`, f.Type.Kind()})
	}
	c.wire = reflect.StructOf(fields)
	return c
}

// Append encodes the struct that v points to. A journal has one or two objects for each job of a
// run, and most of their fields are zero. Append visits only the other fields, which is ten times
// as fast as building a value for encoding/json.
func (c Codec[T]) Append(b []byte, v *T) ([]byte, error) {
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
		return AppendString(b, v.String())
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

// AppendString encodes a string as encoding/json does.
func AppendString(b []byte, s string) ([]byte, error) {
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

// Decode reads data into the struct that v points to.
func (c Codec[T]) Decode(data []byte, v *T) error {
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
	case f.Name == "TimeLimit": // the field of rm.Outcome is in whole seconds
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
