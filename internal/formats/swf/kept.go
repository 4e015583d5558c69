package swf

import (
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/jobjson"
	"rmreplay/internal/workload"
)

// keptNumber is a number of a record that cannot be derived from the job.
type keptNumber struct {
	field int // from 1, as the format's definition numbers them
	// The field read has the number in the log, and the field derived the number that the unchanged job gives. As long as
	// the job still gives the number derived, the writer writes the log's number. After a change of the job, it writes
	// the number that the changed job gives.
	read, derived decimal
}

// A kept number is packed into [workload.Origin.Extra]: a byte with the field and three flags, the
// number in the log and, if known, the derived number.
const (
	readHasDecimals = 1 << (5 + iota)
	derivedUnknown
	derivedHasDecimals
	fieldMask = readHasDecimals - 1
)

// appendKept packs a number.
func appendKept(b []byte, n keptNumber) []byte {
	first := byte(n.field)
	if n.read.decimals != 0 {
		first |= readHasDecimals
	}
	if n.derived == unknownNumber {
		first |= derivedUnknown
	}
	if n.derived.decimals != 0 {
		first |= derivedHasDecimals
	}
	b = appendPacked(append(b, first), n.read)
	if n.derived != unknownNumber {
		b = appendPacked(b, n.derived)
	}
	return b
}

func appendPacked(b []byte, d decimal) []byte {
	b = binary.AppendVarint(b, d.mantissa)
	if d.decimals != 0 {
		b = append(b, d.decimals)
	}
	return b
}

// keptNumbers unpacks what appendKept packed.
func keptNumbers(extra string) iter.Seq[keptNumber] {
	return func(yield func(keptNumber) bool) {
		for b := []byte(extra); len(b) > 0; {
			first := b[0]
			n := keptNumber{field: int(first & fieldMask), derived: unknownNumber}
			n.read, b = unpackNumber(b[1:], first&readHasDecimals != 0)
			if first&derivedUnknown == 0 {
				n.derived, b = unpackNumber(b, first&derivedHasDecimals != 0)
			}
			if !yield(n) {
				return
			}
		}
	}
}

func unpackNumber(b []byte, hasDecimals bool) (d decimal, rest []byte) {
	mantissa, length := binary.Varint(b)
	d.mantissa, b = mantissa, b[length:]
	if hasDecimals {
		d.decimals, b = b[0], b[1:]
	}
	return d, b
}

// Kept is the part of a job's SWF record that a trace stores. The trace leaves out numbers that follow from the job;
// [Complete] derives them again.
type Kept struct {
	Record int            `json:"record"`
	Fields map[int]string `json:"fields"` // the numbers in the log's notation
}

// AppendKept appends the JSON object of [Kept] for a job from an SWF log.
func AppendKept(b []byte, o workload.Origin) []byte {
	fields := map[string]string{}
	for n := range keptNumbers(o.Extra) {
		fields[strconv.Itoa(n.field)] = string(appendDecimal(nil, n.read))
	}
	b = append(b, '{')
	if o.Record != 0 {
		b = strconv.AppendInt(append(b, `"record":`...), int64(o.Record), 10)
	}
	if len(fields) > 0 {
		if o.Record != 0 {
			b = append(b, ',')
		}
		b = append(b, `"fields":{`...)
		for i, field := range slices.Sorted(maps.Keys(fields)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(jobjson.AppendString(b, field), ':')
			b = jobjson.AppendString(b, fields[field])
		}
		b = append(b, '}')
	}
	return append(b, '}')
}

// Origin returns the job's record for [Complete].
func (k *Kept) Origin() (workload.Origin, error) {
	var extra []byte
	for _, field := range slices.Sorted(maps.Keys(k.Fields)) {
		n, ok := parseDecimal([]byte(k.Fields[field]))
		if !ok || field < 1 || field > fieldCount {
			return workload.Origin{}, fmt.Errorf("swf: fields: field %d has the value %q (want fields from 1 to %d, and numbers as their values)", field,
				k.Fields[field], fieldCount)
		}
		extra = appendKept(extra, keptNumber{field: field, read: n, derived: unknownNumber})
	}
	return workload.Origin{Record: k.Record, Extra: string(extra)}, nil
}

// Complete derives the numbers in the records of a trace's jobs, except for the kept numbers, as
// the reader of the log did.
func Complete(w *workload.Workload) {
	var names *names
	for i, job := range w.Jobs.All() {
		origin := w.Jobs.Origin(i)
		if origin.Extra == "" {
			continue
		}
		if names == nil {
			names = namesOf(w.Header)
		}
		derived := names.record(job, w.Epoch)
		var extra []byte
		for n := range keptNumbers(origin.Extra) {
			n.derived = derived[n.field-1]
			extra = appendKept(extra, n)
		}
		origin.Extra = string(extra)
		w.Jobs.SetOrigin(i, origin)
	}
}

// fieldNames are the names of the fields.
var fieldNames = map[int]string{
	fieldWait: "wait time", fieldRunTime: "run time", fieldAllocated: "allocated processors",
	fieldCPUTime: "average CPU time", fieldMemory: "used memory", fieldRequested: "requested processors",
	fieldTimeLimit: "requested time", fieldRequestedMemory: "requested memory", fieldStatus: "status",
	fieldUser: "user", fieldGroup: "group", fieldExecutable: "executable", fieldQueue: "queue",
	fieldPartition: "partition", fieldBefore: "preceding job", fieldThinkTime: "think time",
	fieldNumber: "job number", fieldSubmit: "submit time",
}

// Lost counts, for each field of a log, the jobs whose record has a number that the jobs cannot express, and the
// lines of the log's header. Only logs and traces can store both.
func Lost(losses workload.Losses, w *workload.Workload) {
	losses.Add("lines of the log's header", len(w.Header))
	for i := range w.Jobs.Len() {
		for n := range keptNumbers(w.Jobs.Origin(i).Extra) {
			losses.Add(fmt.Sprintf("SWF field %d (%s)", n.field, fieldNames[n.field-1]), 1)
		}
	}
}

// namesOf reads the names of numbers from the header of a log.
func namesOf(header []string) *names {
	n := newNames()
	for _, text := range header {
		if key, value, found := strings.Cut(text, ":"); found {
			n.comment(strings.TrimSpace(key), value)
		}
	}
	return n
}
