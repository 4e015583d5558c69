package workload

import (
	"io"
	"time"

	"rmreplay/internal/hpc"
)

// Format is a file format of workloads. Each format is a separate package below
// internal/formats; package formats lists them.
type Format struct {
	// Name is the format's name on the command line, and the ending of its files' names.
	Name string
	// Doc says in one line what the format is.
	Doc string
	// Looks says how a file of the format begins. If no format recognizes a file, the error lists
	// the Looks of all formats.
	Looks string
	// Recognize returns the confidence that a file is of this format. head is the beginning of the uncompressed file. head
	// has at least a part of the first line with content.
	Recognize func(head []byte) Confidence
	// Read reads a workload. name is the source's name in errors. Errors also have the line, and say
	// what would be right.
	Read func(r io.Reader, name string, opts ReadOptions) (*Workload, error)
	// Write writes a workload and counts what the format cannot express.
	Write func(w io.Writer, wl *Workload) (Losses, error)
}

// Confidence is the confidence that a file is of a format.
type Confidence int

// The degrees of confidence. If several formats recognize a file, the format with the highest
// degree reads it.
const (
	No    Confidence = iota // the file is of another format
	Maybe                   // the file is of this format unless another format returns Sure
	Sure
)

// ReadOptions are the choices in reading a workload.
type ReadOptions struct {
	// Epoch is the instant from which relative times count if the source does not have it; 0 means
	// DefaultEpoch.
	Epoch hpc.Time
	// Strict makes it an error if a rule applies to a record: reading ends at the first such record.
	Strict bool
	// Lean leaves out each job's [Origin]. Only writers of the source's own format use origins;
	// replays do not.
	Lean bool
	// Progress, if not nil, is called now and then with the progress of the reading. For a file, Progress gets the bytes
	// read and their total (0 if it is not a regular file). For a database, Progress gets the number of jobs read, and 0.
	Progress func(done, all int64)

	// The following options apply only to the records of Slurm's accounting.

	// Start and End cut out a window; 0 means no bound. A job that runs at Start is preset: see
	// [Workload.Start].
	Start, End hpc.Time
	// Zone is the time zone of times without a zone; nil means UTC.
	Zone *time.Location
	// Cluster is the cluster whose jobs are read, if a source has several clusters.
	Cluster string
	// Latest is the last instant that a record can know, such as the time of the file's last change; zero means no bound.
	// A later end counts as a mistake, unless the record's run time agrees with it.
	Latest time.Time
	// Record, if not nil, is called with each record of a job. The argument is a *finished.Job that
	// Record may keep. The workload then has no jobs, and the records may be of several clusters.
	Record func(record any) error
}

// DefaultEpoch is the beginning of a source with only relative times, unless the user gives
// another instant: 2024-01-01T00:00:00Z, a Monday.
var DefaultEpoch = hpc.Time(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())

// Location returns the time zone of times without a zone.
func (o *ReadOptions) Location() *time.Location {
	if o.Zone == nil {
		return time.UTC
	}
	return o.Zone
}

// EpochOrDefault returns the instant from which relative times count.
func (o *ReadOptions) EpochOrDefault() hpc.Time {
	if o.Epoch.IsZero() {
		return DefaultEpoch
	}
	return o.Epoch
}

// InWindow reports whether a job with these times belongs to the window: it was
// submitted before the window's end and had not ended at its start (Martinasso et
// al., SC'18, Fig. 2). An end of 0 is not known.
func (o *ReadOptions) InWindow(submit, end hpc.Time) bool {
	return (o.End.IsZero() || submit < o.End) && (end.IsZero() || o.Start.IsZero() || end > o.Start)
}
