// Package question is what the dashboards ask about finished jobs, whoever keeps the jobs: which of
// them (a [Filter]), in which buckets (a [Key]), and what of each bucket (a [Measure]). It also reads
// the language in which people write filters ([Reader]).
//
// The embedded store answers with SQL, and a cluster of Elasticsearch or OpenSearch with searches.
package question

import "time"

// Question asks for a row for each bucket that has jobs: its keys, and then its measures.
type Question struct {
	Where    Filter
	By       []Key // from the outside to the inside; without any there is one row
	Measures []Measure
}

// Key sorts jobs into buckets. It is a [Ranges], [Instants], [Values], [Hours] or [Running].
type Key interface{ key() }

// Ranges are buckets of a column of numbers: from each edge until before the next one. The last
// bucket has no end if Open. A row has the bucket's number, from 0, as an int64.
type Ranges struct {
	Column string
	Edges  []float64 // ascending
	Open   bool
}

// Instants are buckets of a column of instants, as [Ranges] are of numbers.
type Instants struct {
	Column string
	Edges  []time.Time // ascending
}

// Exit is a column for [Values] alone: the text of Slurm's exit_code, such as 3:0.
const Exit = "exit"

// Values are buckets of a column's texts. A row has the text, which is empty for jobs without one.
type Values struct {
	Column string
	Most   int // the buckets that there are at most: those with the most of the measure By
	By     int
	First  bool // others are not wanted; without it, an answer notes what it leaves out
}

// Hours are buckets of a column of instants that begin at multiples of a step since 1970. A row has
// the beginning, as a [time.Time].
type Hours struct {
	Column string
	Step   time.Duration
}

// Running are buckets of the jobs that ran at an instant: a job is in all whose instant is after its
// start and not after its end. A row has the instant's number, from 0, as an int64.
type Running struct{ At []time.Time }

func (Ranges) key()   {}
func (Instants) key() {}
func (Values) key()   {}
func (Hours) key()    {}
func (Running) key()  {}

// Kind is what a [Measure] computes.
type Kind int

// The kinds of measures. A row has an int64 for Count and Distinct, and a float64 for the others, or
// nil where no job of the bucket has the column. Instants are in milliseconds since 1970.
const (
	Count    Kind = iota // jobs
	Distinct             // different values of the column
	Sum
	Mean
	Least
	Most
	Product // sum of the column times the column Times, over the jobs that have both
)

// Measure is a number of a bucket's jobs.
type Measure struct {
	Kind   Kind
	Column string
	Times  string
	Where  Filter // only these jobs; nil for all
}

// Answer is the answer to a [Question].
type Answer struct {
	Rows  [][]any
	Notes []string // what the reader must know of the rows, as sentences
}

// Page asks for the documents of jobs.
type Page struct {
	Where      Filter
	Sort       string // column; jobs without a value come last
	Descending bool
	From, Most int
}

// Job is a job's document where the jobs are kept.
type Job struct {
	ID       string // of the document there
	Cluster  string // for a document that does not say it
	Document []byte // as Slurm or a record has it
}

// AbsentError is the error of a question about a column that the jobs' keeper does not have.
type AbsentError struct {
	Column string
	Why    string
}

// Error implements error.
func (e *AbsentError) Error() string { return e.Column + ": " + e.Why }
