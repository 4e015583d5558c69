// Package question has the questions that the dashboards ask about finished jobs, whatever store or
// cluster has the jobs. A question says which jobs it is about (a [Filter]), in which buckets they
// are grouped (a [Key]), and what is computed for each bucket (a [Measure]). The package also reads
// the language in which people write filters ([Reader]).
//
// Two packages answer: accounting/embedded with SQL over the store, and accounting/elastic with searches of
// a cluster of Elasticsearch or OpenSearch.
package question

import (
	"fmt"
	"slices"
	"time"
)

// Question asks for a row for each bucket that has jobs: its keys, and then its measures.
type Question struct {
	Where    Filter // nil for all jobs
	By       []Key  // from the outside to the inside; without any there is one row
	Measures []Measure
	Clock    Clock // of [WeekHours], and of the columns hour and weekday
}

// Counted reports whether the question counts the jobs outside of the buckets of its outermost key. It does if
// that key is an [Instants], all keys inside of it are [Values], and there is a [Count] of all jobs.
func (q Question) Counted() bool {
	for i, k := range q.By {
		_, instants := k.(Instants)
		_, values := k.(Values)
		if i == 0 && !instants || i > 0 && !values {
			return false
		}
	}
	return len(q.By) > 0 && q.counts()
}

// counts reports whether there is a count of all jobs.
func (q Question) counts() bool {
	return slices.ContainsFunc(q.Measures, func(m Measure) bool { return m.Kind == Count && m.Where == nil })
}

// Check returns an error for a question that has no answer, such as one with too few edges.
func (q Question) Check() error {
	for i, k := range q.By {
		if e, ok := k.(Instants); ok && len(e.Edges) < 2 {
			return fmt.Errorf("%s: %d edges of buckets (want two or more)", e.Column, len(e.Edges))
		}
		v, ok := k.(Values)
		if !ok && i > 0 {
			if outer, ok := q.By[i-1].(Values); ok {
				return fmt.Errorf("the values of %s are not texts and hold another key (want values of texts there)", outer.Column)
			}
		}
		if ok && (!q.counts() || v.By >= len(q.Measures)) {
			return fmt.Errorf("the values of %s: want a count of all jobs, and the measure %d", v.Column, v.By)
		}
	}
	return nil
}

// Key sorts jobs into buckets. It is an [Instants], [Values], [Classes], [Steps] or [WeekHours]. A job that
// is in no bucket is in no row.
type Key interface{ key() }

// Instants are buckets of a column of instants: from each edge until before the next one. A row has the
// bucket's number, from 0, as an int64.
type Instants struct {
	Column string
	Edges  []time.Time // ascending, two or more
	Before bool        // bucket -1 has the jobs before the first edge
}

// Exit is a column for [Values] alone: the text of Slurm's exit_code, such as 3:0.
const Exit = "exit"

// Values are buckets of a column's texts. A row has the beginning of the text ([Cut]); it is empty
// for jobs without a text.
type Values struct {
	Column string
	// Most bounds the number of buckets within one bucket of the outer key. The buckets with the
	// highest measure By are kept, which is a count or a sum of all jobs; if another key is further
	// inside, the buckets with the most jobs are kept. Among equal buckets, the first texts are kept.
	// The question has a [Count] of all jobs, and only Values are inside of Values.
	Most, By int
	First    bool // only the first buckets are wanted; otherwise an answer notes how many jobs it leaves out
}

// Classes are buckets of a column of integers that are not negative. Each is the number of classes in a
// doubling. A row has the number of the class as an int64; [ClassEdge] says where the class begins.
type Classes struct {
	Column string
	Each   int
}

// Steps are buckets of a column of numbers that are not negative, of the same width. The last
// bucket has no end. A row has the bucket's number, from 0, as an int64.
type Steps struct {
	Column string
	Width  int
	Count  int
}

// WeekHours are buckets of the submissions by the hour of the week: 0 is Monday from 00:00 to 01:00. A row has
// the hour as an int64.
type WeekHours struct{}

func (Instants) key()  {}
func (Values) key()    {}
func (Classes) key()   {}
func (Steps) key()     {}
func (WeekHours) key() {}

// Kind is what a [Measure] computes.
type Kind int

// The kinds of measures. A row has an int64 for Count and Distinct, and a float64 for the others, or
// nil where no job of the bucket has the column. Instants are in milliseconds since 1970.
const (
	Count    Kind = iota // number of runs; those that were not [Lost] are as many as the jobs
	Distinct             // different values of the column, a text
	Sum
	Mean
	Least
	Most
	Unused // CPU seconds that jobs asked for by their limits and did not use; none of a run that was lost
	Moment // sum over jobs of the seconds from Since to the column, an instant, times the column Times
)

// Measure is a number of a bucket's jobs. Products are over the jobs that have all factors.
type Measure struct {
	Kind   Kind
	Column string
	Times  string
	Since  time.Time
	Where  Filter // only these jobs; nil for all
}

// Answer is the answer to a [Question].
type Answer struct {
	Rows [][]any
	// Outside is how many jobs are in no bucket of the outermost key, if [Question.Counted].
	Outside int64
	Notes   []string // what the reader must know of the rows, as sentences
}

// Page asks for a list of jobs.
type Page struct {
	Where      Filter
	Columns    []string
	Sort       string // column; jobs without a value come last
	Descending bool
	From, Most int
	Clock      Clock
}

// Job is a job as the store or the cluster has it.
type Job struct {
	ID      string
	Cluster string // for a document that does not say it
	// Values are the values of the columns that were asked for: an int64, a float64, a string, a time or nil.
	Values   []any
	Document []byte // as Slurm or a record has it; nil in a list
}

// LongestText is how many characters of a job's text pages show.
const LongestText = 4096

// Cut returns the beginning of a text that is longer than pages show. Users choose the texts of
// their jobs, so these can be long.
func Cut(text string) string {
	if len(text) <= LongestText {
		return text
	}
	n := 0
	for at := range text {
		if n++; n > LongestText {
			return text[:at] + "…"
		}
	}
	return text
}

// AbsentError is the error of a question about a column, or an ID, that the store or the cluster does not have.
type AbsentError struct {
	Column string
	Why    string
}

// Error implements error.
func (e *AbsentError) Error() string { return e.Column + ": " + e.Why }

// RemoteError is the error of another server, which this program has asked.
type RemoteError struct{ Err error }

// Error implements error.
func (e *RemoteError) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e *RemoteError) Unwrap() error { return e.Err }
