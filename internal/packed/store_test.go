package packed_test

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rmreplay/internal/packed"
)

type point struct{ X, Y int64 }

// every has a field of each kind that a store supports.
type every struct {
	Bool    bool
	Int8    int8
	Int16   int16
	Int32   int32
	Int64   int64
	Int     int
	Uint8   uint8
	Uint16  uint16
	Uint32  uint32
	Uint64  uint64
	Float64 float64
	String  string
	Other   string
	Struct  point
	Number  *uint32
	Flag    *bool
	Pointer *point
	List    []point
	Words   []string
	Table   map[int]string
}

// draw returns a value of any type, zero or not.
func draw(t *rapid.T, of reflect.Type) reflect.Value {
	v := reflect.New(of).Elem()
	if rapid.Bool().Draw(t, "zero") {
		return v
	}
	switch of.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(rapid.OneOf(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.String()).Draw(t, "text"))
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Int:
		seconds := rapid.Map(rapid.Int64Range(-1<<33, 1<<33), func(s int64) int64 { return s * 1e9 })
		x := rapid.OneOf(rapid.Int64(), seconds, rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64})).Draw(t, "number")
		v.SetInt(x >> (64 - of.Bits()))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "number") >> (64 - of.Bits()))
	case reflect.Float64:
		v.SetFloat(rapid.Float64().Draw(t, "number"))
	case reflect.Struct:
		for i := range of.NumField() {
			if of.Field(i).IsExported() {
				v.Field(i).Set(draw(t, of.Field(i).Type))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(of.Elem()))
		v.Elem().Set(draw(t, of.Elem()))
	case reflect.Slice:
		n := rapid.IntRange(0, 3).Draw(t, "length")
		v.Set(reflect.MakeSlice(of, n, n))
		for i := range n {
			v.Index(i).Set(draw(t, of.Elem()))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(of))
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			v.SetMapIndex(draw(t, of.Key()), draw(t, of.Elem()))
		}
	default:
		t.Fatalf("no way to draw %s", of)
	}
	return v
}

// TestStoreKeepsEverything checks that Get returns the value that was put. Nil may become empty,
// and empty may become nil.
func TestStoreKeepsEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := packed.NewStore[every]()
		var refs []packed.Ref
		var want []every
		for range rapid.IntRange(1, 20).Draw(t, "records") {
			v := draw(t, reflect.TypeFor[every]()).Interface().(every)
			refs, want = append(refs, s.Put(&v)), append(want, v)
		}
		got := every{String: "of another record", Table: map[int]string{1: "x"}}
		for i := range want {
			s.Get(refs[i], &got)
			if diff := cmp.Diff(want[i], got, cmp.AllowUnexported(every{})); diff != "" {
				t.Fatalf("record %d: -put +got\n%s", i, diff)
			}
		}
	})
}

func TestNumbersAreShort(t *testing.T) {
	type number struct{ X int64 }
	for _, c := range []struct {
		x    int64
		most int // bytes, including the shape
	}{
		{0, 1}, {1, 2}, {-31, 2}, {1000, 3}, {3600e9, 3}, {1700000000e9, 6}, {1700000000e9 + 1, 10}, {math.MaxInt64, 10}, {math.MinInt64, 10},
	} {
		s := packed.NewStore[number]()
		first, second := s.Put(&number{c.x}), s.Put(&number{c.x})
		if n := int(second - first); n > c.most {
			t.Errorf("%d: %d bytes, want at most %d", c.x, n, c.most)
		}
	}
}

// TestStrings checks that repeated strings are in the table, and the strings of a column without
// repetitions are not. Both kinds must be read back unchanged.
func TestStrings(t *testing.T) {
	type named struct{ ID, User string }
	s := packed.NewStore[named]()
	const n = 10000
	refs := make([]packed.Ref, n)
	of := func(i int) named {
		return named{fmt.Sprintf("job-%d", i), strings.Repeat("u", i%50+20)}
	}
	for i := range refs {
		v := of(i)
		refs[i] = s.Put(&v)
	}
	var got named
	for i, ref := range refs {
		if s.Get(ref, &got); got != of(i) {
			t.Fatalf("record %d: %v, want %v", i, got, of(i))
		}
	}
	if size := refs[n-1] - refs[n-2]; size > 12 { // shape, length and "job-9999", place of the user
		t.Errorf("a record of %d bytes", size)
	}
}

func TestLargeRecords(t *testing.T) {
	s := packed.NewStore[every]()
	var refs []packed.Ref
	for i := range 5 {
		refs = append(refs, s.Put(&every{Int: i, Words: []string{strings.Repeat("x", i*100_000)}}))
	}
	for i, ref := range refs {
		var got every
		if s.Get(ref, &got); got.Int != i || len(got.Words[0]) != i*100_000 {
			t.Errorf("record %d: %d and %d bytes", i, got.Int, len(got.Words[0]))
		}
	}
}

func TestWhatCannotBePacked(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a store of channels")
		}
	}()
	packed.NewStore[struct{ C chan int }]()
}
