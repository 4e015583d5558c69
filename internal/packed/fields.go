package packed

import (
	"math/bits"
	"reflect"
	"unsafe"
)

// Fields finds the fields of a struct that are set: of a hundred, most of which are not, in
// a fraction of the time that package reflect takes.
type Fields[T any] struct{ layout *layout }

// NewFields is for the structs that a [Store] holds, without structs in them. It panics if
// T is none.
func NewFields[T any]() Fields[T] {
	t := reflect.TypeFor[T]()
	for i := range t.NumField() {
		if t.Field(i).Type.Kind() == reflect.Struct {
			panic("packed: " + t.String() + " has a struct in it")
		}
	}
	return Fields[T]{newPacker(t).root}
}

// AppendSet appends the places, in the order of declaration, of those that are not zero.
func (f Fields[T]) AppendSet(list []int, v *T) []int {
	for i, s := range f.layout.shape(unsafe.Pointer(v)) {
		for ; s != 0; s &= s - 1 {
			list = append(list, 64*i+bits.TrailingZeros64(s))
		}
	}
	return list
}
