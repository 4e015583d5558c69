package finished

import (
	"fmt"
	"io"
	"slices"
	"strings"

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
// the options name, or than the first job if the options name no cluster. It counts a job that must be left out. If the
// options name no cluster, [Builder.Finish] returns an error that names all clusters. A job with an empty name of the
// cluster is never left out.
func (b *Builder) OtherCluster(name string) bool {
	switch {
	case name == "":
	case b.opts.Record != nil && b.opts.Cluster == "": // each record has its own cluster, so several clusters are allowed
	case b.opts.Cluster != "":
		if name != b.opts.Cluster {
			b.Note(NoteOtherCluster)
			return true
		}
	case len(b.clusters) == 0:
		b.clusters = []string{name}
	case name != b.clusters[0]:
		if !slices.Contains(b.clusters, name) {
			b.clusters = append(b.clusters, name)
		}
		return true
	}
	return false
}

// SeveralClusters returns an error about a source with jobs of several clusters. The error names at most ten of them.
func SeveralClusters(names []string) error {
	const most = 10
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Errorf("jobs of %d clusters: %s (want --cluster-name with one of them)", len(names), text)
}

// Options returns the options of the builder.
func (b *Builder) Options() *workload.ReadOptions { return &b.opts }
