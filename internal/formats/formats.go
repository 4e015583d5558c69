// Package formats lists the formats of workloads, and reads and writes files in these formats.
//
// To add a format, write a package with a [workload.Format] below this one, add the format to the
// list [All], and describe it in docs/FORMATS.md.
package formats

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"rmreplay/internal/finished"
	"rmreplay/internal/formats/batsim"
	"rmreplay/internal/formats/csv"
	"rmreplay/internal/formats/events"
	"rmreplay/internal/formats/gridengine"
	"rmreplay/internal/formats/gwf"
	"rmreplay/internal/formats/lsf"
	"rmreplay/internal/formats/pbs"
	"rmreplay/internal/formats/sacct"
	"rmreplay/internal/formats/swf"
	"rmreplay/internal/formats/trace"
	"rmreplay/internal/workload"
)

// All returns the formats. If two formats recognize a file with the same confidence, the earlier
// format reads it.
func All() []workload.Format {
	return []workload.Format{
		trace.Format, swf.Format, events.Format, batsim.Format, pbs.Format, lsf.Format, gridengine.Format, sacct.Format,
		csv.Format, gwf.Format,
	}
}

// Default is the name of the format that keeps all facts of a workload.
const Default = "trace"

// Names returns the names of the formats that [Write] can write.
func Names() []string {
	var names []string
	for _, f := range All() {
		if f.Write != nil {
			names = append(names, f.Name)
		}
	}
	return names
}

// ByName returns the format with this name, if [Write] can write it.
func ByName(name string) (workload.Format, error) {
	what := "not known"
	for _, f := range All() {
		if f.Name == name && f.Write != nil {
			return f, nil
		}
		if f.Name == name {
			what = "can only be read"
		}
	}
	return workload.Format{}, fmt.Errorf("format %s: %s (want %s)", name, what, strings.Join(Names(), ", "))
}

// ForFile returns the name of the format for the ending of a file's name, without a final .gz. For
// an ending of no format it returns [Default].
func ForFile(path string) string {
	path = strings.TrimSuffix(path, ".gz")
	ending := path[strings.LastIndexByte(path, '.')+1:]
	if slices.Contains(Names(), ending) {
		return ending
	}
	return Default
}

// Detect returns the format that recognizes head, the beginning of a file, with the highest
// confidence.
func Detect(head []byte) (best workload.Format, found bool) {
	surest := workload.No
	for _, f := range All() {
		if sure := f.Recognize(head); sure > surest {
			best, surest, found = f, sure, true
		}
	}
	return best, found
}

// Write writes the workload in a format and counts what the format cannot express.
func Write(w io.Writer, wl *workload.Workload, format string) (workload.Losses, error) {
	f, err := ByName(format)
	if err != nil {
		return nil, err
	}
	losses, err := f.Write(w, wl)
	if err == nil && format != swf.Format.Name && format != trace.Format.Name {
		swf.Lost(losses, wl)
	}
	if n := wl.Rules[finished.NoteRequeued]; n > 0 && err == nil { // no format can express earlier runs
		if losses == nil {
			losses = workload.Losses{}
		}
		losses.Add("earlier runs of requeued jobs of the whole source", n)
	}
	return losses, err
}
