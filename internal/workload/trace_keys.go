package workload

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// encoding/json takes a key in any case for the field that it resembles, and of a key that
// comes twice it takes the last. Both are somebody's mistake, of which a part would be lost
// without a word.

// record is what keys a JSON object may have that is read into a struct.
type record struct {
	fields map[string]int // each key's number
	types  []reflect.Type // of the values, by number
}

var recordTypes sync.Map // of *record by reflect.Type

// recordOf returns the keys of a struct's type.
func recordOf(t reflect.Type) *record {
	if r, ok := recordTypes.Load(t); ok {
		return r.(*record)
	}
	r := &record{fields: map[string]int{}}
	r.add(t)
	recordTypes.Store(t, r)
	return r
}

// add adds the keys of a struct and of those embedded in it.
func (r *record) add(t reflect.Type) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			r.add(f.Type)
		case name != "" && name != "-":
			r.fields[name] = len(r.types)
			r.types = append(r.types, f.Type)
		}
	}
}

// checkKeys returns an error for a key of the JSON text, which encoding/json has read into a
// value of the type t, that is not exactly a field's name, or that comes twice.
func checkKeys(text []byte, t reflect.Type) error {
	k := keyScanner{text: text}
	return k.value(t)
}

// keyScanner goes through JSON text that is known to be well-formed.
type keyScanner struct {
	text []byte
	at   int
}

// value goes through a value to be read into a t; nil if that is not known.
func (k *keyScanner) value(t reflect.Type) error {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	k.space()
	switch k.text[k.at] {
	case '{':
		return k.object(t)
	case '[':
		return k.list(t)
	case '"':
		k.skipString()
	default: // a number, true, false or null
		for k.at < len(k.text) && !strings.ContainsRune(",]} \t\r\n", rune(k.text[k.at])) {
			k.at++
		}
	}
	return nil
}

func (k *keyScanner) object(t reflect.Type) error {
	var keys objectKeys
	if t != nil && t.Kind() == reflect.Struct {
		keys.record = recordOf(t)
	} else if t != nil && t.Kind() == reflect.Map {
		keys.each = t.Elem()
	}
	for k.at++; k.next('}'); {
		begin := k.at
		k.skipString()
		of, err := keys.add(k.text[begin:k.at])
		if err != nil {
			return err
		}
		k.space()
		k.at++ // the colon
		if err := k.value(of); err != nil {
			return err
		}
	}
	return nil
}

func (k *keyScanner) list(t reflect.Type) error {
	var each reflect.Type
	if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
		each = t.Elem()
	}
	for k.at++; k.next(']'); {
		if err := k.value(each); err != nil {
			return err
		}
	}
	return nil
}

// next goes to the next element, or behind the end.
func (k *keyScanner) next(end byte) bool {
	k.space()
	if k.text[k.at] == ',' {
		k.at++
		k.space()
	}
	if k.text[k.at] == end {
		k.at++
		return false
	}
	return true
}

func (k *keyScanner) space() {
	for k.at < len(k.text) && strings.IndexByte(" \t\r\n", k.text[k.at]) >= 0 {
		k.at++
	}
}

func (k *keyScanner) skipString() {
	for k.at++; k.text[k.at] != '"'; k.at++ {
		if k.text[k.at] == '\\' {
			k.at++
		}
	}
	k.at++
}

// objectKeys are the keys of an object so far.
type objectKeys struct {
	record *record      // of a struct
	each   reflect.Type // of the values of a map
	seen   [4]uint64    // by number of the field, a bit each
	others map[string]bool
}

// add takes a key, in its quotes, and returns the type of its value.
func (o *objectKeys) add(quoted []byte) (reflect.Type, error) {
	key := quoted[1 : len(quoted)-1]
	if strings.IndexByte(string(key), '\\') >= 0 {
		var s string
		if err := json.Unmarshal(quoted, &s); err != nil {
			return nil, err
		}
		key = []byte(s)
	}
	if o.record == nil {
		if o.others[string(key)] {
			return nil, fmt.Errorf("%s: twice in one record", key)
		}
		if o.others == nil {
			o.others = map[string]bool{}
		}
		o.others[string(key)] = true
		return o.each, nil
	}
	n, ok := o.record.fields[string(key)]
	if !ok {
		return nil, fmt.Errorf("%s: not a field of this record (want it in lower case)", key)
	}
	if o.seen[n/64]&(1<<(n%64)) != 0 {
		return nil, fmt.Errorf("%s: twice in one record", key)
	}
	o.seen[n/64] |= 1 << (n % 64)
	return o.record.types[n], nil
}
