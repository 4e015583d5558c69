// Package hpctest makes random values of the types of package hpc for property tests. Only
// tests import it.
package hpctest

import (
	"reflect"
	"time"

	"pgregory.net/rapid"

	"rmreplay/internal/hpc"
)

// Draw sets the value to which v points, with all fields of all structs in it, to random values. It uses only the
// types, so a new field of hpc.Job becomes part of every property that uses Draw. Instants are after the Unix epoch.
// Durations are not negative, or [hpc.Unlimited]. Pointers may be nil; slices and maps may be empty.
func Draw[T any](t *rapid.T, label string, v *T) {
	draw(t, label, reflect.ValueOf(v).Elem())
}

func draw(t *rapid.T, label string, v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *hpc.Time:
		*x = hpc.Time(rapid.Int64Range(1, 4e18).Draw(t, label))
		return
	case *time.Duration:
		*x = time.Duration(rapid.Int64Range(0, 1e17).Draw(t, label))
		if rapid.IntRange(0, 4).Draw(t, label) == 0 {
			*x = hpc.Unlimited
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			draw(t, label+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, label) {
			v.Set(reflect.New(v.Type().Elem()))
			draw(t, label, v.Elem())
		}
	case reflect.Slice:
		for range rapid.IntRange(0, 3).Draw(t, label) {
			element := reflect.New(v.Type().Elem()).Elem()
			draw(t, label, element)
			v.Set(reflect.Append(v, element))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range rapid.IntRange(0, 3).Draw(t, label) {
			key, element := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			draw(t, label, key)
			draw(t, label, element)
			v.SetMapIndex(key, element)
		}
	case reflect.String:
		v.SetString(rapid.String().Draw(t, label))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, label))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(rapid.Int32().Draw(t, label)))
	case reflect.Uint8:
		v.SetUint(uint64(rapid.IntRange(0, 9).Draw(t, label)))
	case reflect.Uint32:
		v.SetUint(uint64(rapid.Uint32().Draw(t, label)))
	default:
		t.Fatalf("%s: no generator for %s", label, v.Type())
	}
}
