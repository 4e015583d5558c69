package finished

import (
	"fmt"
	"io"

	"rmreplay/internal/workload"
)

// Reader reads the records of finished jobs from one or several files. Several are common, because
// resource managers begin a new file each day or month.
type Reader interface {
	// Read reads a file. Errors contain name and the line, and say what would be right. After an
	// error, the reader must not be used again.
	Read(r io.Reader, name string) error
	// Finish returns the workload of all files. missing names the fields that all records lack, with
	// the consequences.
	Finish() (w *workload.Workload, missing []string, err error)
}

// NewReader is a function that returns a [Reader] of a format. source describes the origin of the
// jobs.
type NewReader func(source string, opts workload.ReadOptions) Reader

// Read reads a workload from a single file, like [workload.Format.Read].
func (n NewReader) Read(r io.Reader, name string, opts workload.ReadOptions) (*workload.Workload, error) {
	reader := n(name, opts)
	if err := reader.Read(r, name); err != nil {
		return nil, err
	}
	w, _, err := reader.Finish()
	return w, err
}

// Close calls [Builder.Finish], and returns the results of [Reader.Finish]. The parameter what is
// the name of the format for error messages.
func (b *Builder) Close(what string) (w *workload.Workload, missing []string, err error) {
	if w, err = b.Finish(); err != nil {
		return nil, nil, fmt.Errorf("reading %s: %s: %w", what, b.w.Source, err)
	}
	return w, b.Missing(), nil
}

// OtherCluster reports whether a job must be left out because it ran on a different cluster than
// the options name. It counts a job that must be left out. It returns an error for jobs of several
// clusters if the options name no cluster. A job with an empty name of the cluster is never left
// out.
func (b *Builder) OtherCluster(name string) (bool, error) {
	switch {
	case name == "":
	case b.opts.Record != nil && b.opts.Cluster == "": // each record has its own cluster, so several clusters are allowed
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

// Options returns the options of the builder.
func (b *Builder) Options() *workload.ReadOptions { return &b.opts }
