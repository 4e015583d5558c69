package finished

import (
	"fmt"
	"io"

	"rmreplay/internal/workload"
)

// Reader reads the records of finished jobs of one file, or of several: resource managers begin
// a new file each day or month.
type Reader interface {
	// Read reads a file. name stands for the file in errors, which also have the line and say
	// what would be right. No other method may be called after an error.
	Read(r io.Reader, name string) error
	// Finish returns the workload of all files. missing says what no record has, and what
	// follows from that.
	Finish() (w *workload.Workload, missing []string, err error)
}

// NewReader makes a [Reader] of a format. source names where the jobs come from.
type NewReader func(source string, opts workload.ReadOptions) Reader

// One reads a workload from a single file, as [workload.Format.Read] does.
func (n NewReader) One(r io.Reader, name string, opts workload.ReadOptions) (*workload.Workload, error) {
	reader := n(name, opts)
	if err := reader.Read(r, name); err != nil {
		return nil, err
	}
	w, _, err := reader.Finish()
	return w, err
}

// Close finishes the builder ([Builder.Finish]) and returns what [Reader.Finish] returns. what
// names the format in the error.
func (b *Builder) Close(what string) (w *workload.Workload, missing []string, err error) {
	if w, err = b.Finish(); err != nil {
		return nil, nil, fmt.Errorf("reading %s: %s: %w", what, b.w.Source, err)
	}
	return w, b.Missing(), nil
}

// OtherCluster reports whether a job is to be left out because it ran on another cluster than the
// options ask for, and counts it. Jobs of several clusters are an error if the options name none.
// An empty name fits every cluster.
func (b *Builder) OtherCluster(name string) (bool, error) {
	switch {
	case name == "":
	case b.opts.Record != nil && b.opts.Cluster == "": // a record says its cluster
	case b.opts.Cluster != "":
		if name != b.opts.Cluster {
			b.Note(NoteOtherCluster)
			return true, nil
		}
	case b.cluster == "":
		b.cluster = name
	case name != b.cluster:
		return false, fmt.Errorf("jobs of cluster %s and of %s (want --cluster-name with one of them)", b.cluster, name)
	}
	return false, nil
}

// Options returns the options that the builder was made with.
func (b *Builder) Options() *workload.ReadOptions { return &b.opts }
