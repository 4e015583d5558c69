package workload

import (
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"rmreplay/internal/hpc"
)

// Losses says what a conversion could not write: how many jobs or other records had
// something that the format has no place for, by the name of what it was. Fields of a
// request have the names of the trace format.
type Losses map[string]int

func (l Losses) add(what string, n int) {
	if n == 0 {
		return
	}
	if l[what] += n; l[what] == 0 {
		delete(l, what)
	}
}

// String lists the losses by name, one a line.
func (l Losses) String() string {
	var b strings.Builder
	for _, what := range sortedKeys(l) {
		fmt.Fprintf(&b, "%s: %d\n", what, l[what])
	}
	return b.String()
}

// job counts the fields of the job's request that are set and not among those held.
func (l Losses) job(job *hpc.Job, held map[string]bool) {
	v := reflect.ValueOf(&job.Request).Elem()
	for _, f := range requestNames {
		if !held[f.field] && !v.Field(f.index).IsZero() {
			l[f.name]++
		}
	}
}

// events counts what is no job.
func (l Losses) events(wl *Workload) {
	l.add("reservation events", len(wl.Reservations))
	l.add("node events", len(wl.NodeEvents))
	l.add("actions", len(wl.Actions))
	l.add("usage records", len(wl.Usage))
	if wl.Start != 0 {
		l.add("window's start", 1)
	}
}

// requestName is a field of hpc.Request and what the trace format calls it.
type requestName struct {
	index       int
	field, name string
}

var requestNames = func() []requestName {
	durations := make(map[string]string)
	t := reflect.TypeFor[requestDurations]()
	for i := range t.NumField() {
		durations[t.Field(i).Name], _, _ = strings.Cut(t.Field(i).Tag.Get("json"), ",")
	}
	var names []requestName
	t = reflect.TypeFor[requestFields]()
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" {
			name = durations[field.Name]
		}
		names = append(names, requestName{i, field.Name, name})
	}
	return names
}()

// fieldSet is a set of fields of hpc.Request. A name that is none is a mistake in
// this program.
func fieldSet(fields ...string) map[string]bool {
	t := reflect.TypeFor[hpc.Request]()
	set := make(map[string]bool, len(fields))
	for _, field := range fields {
		if _, ok := t.FieldByName(field); !ok {
			panic("hpc.Request has no field " + field)
		}
		set[field] = true
	}
	return set
}

// validText returns text as UTF-8. Bytes that are none are taken for ISO 8859-1, in
// which every byte is a character.
func validText(text []byte) string {
	if utf8.Valid(text) {
		return string(text)
	}
	runes := make([]rune, len(text))
	for i, b := range text {
		runes[i] = rune(b)
	}
	return string(runes)
}
