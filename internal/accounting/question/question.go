// Package question defines the questions that the dashboards ask about finished jobs,
// independently of where the jobs are stored. A question selects jobs (a [Filter]), groups them
// into buckets (a [Key]), and computes figures for each bucket (a [Measure]). The package also
// parses the language in which users write filters ([Reader]).
//
// Two packages answer questions: accounting/embedded with SQL on the store, and accounting/elastic
// with searches in an Elasticsearch or OpenSearch cluster.
package question

import (
	"fmt"
	"slices"
	"time"
)

// Question asks for one row per bucket that has jobs. A row has the keys, and then the measures.
type Question struct {
	Where    Filter // nil for all jobs
	By       []Key  // from the outermost to the innermost; with an empty list, the answer is one row
	Measures []Measure
	Clock    Clock // the clock for [WeekHours] and for the columns hour and weekday
}

// Counted reports whether the answer says how many jobs are outside of all buckets of the outermost
// key. The outermost key must be an [Instants], all inner keys must be [Values], and a measure must
// be a [Count] of all jobs.
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

// counts reports whether a measure counts all jobs.
func (q Question) counts() bool {
	return slices.ContainsFunc(q.Measures, func(m Measure) bool { return m.Kind == Count && m.Where == nil })
}

// Check returns an error for a question that cannot be answered, for example because it has too few
// edges.
func (q Question) Check() error {
	for i, k := range q.By {
		if e, ok := k.(Instants); ok && len(e.Edges) < 2 {
			return fmt.Errorf("%s: %d edges of buckets (want two or more)", e.Column, len(e.Edges))
		}
		v, ok := k.(Values)
		if !ok && i > 0 {
			if outer, ok := q.By[i-1].(Values); ok {
				return fmt.Errorf("the key inside the values of %s does not group by a text (want question.Values)",
					outer.Column)
			}
		}
		if ok && (!q.counts() || v.By >= len(q.Measures)) {
			return fmt.Errorf("ordering the values of %s: the question has no count of all jobs, or no measure %d",
				v.Column, v.By)
		}
	}
	return nil
}

// Key sorts jobs into buckets. It is an [Instants], [Values], [Classes], [Steps] or [WeekHours]. A
// job that belongs to no bucket is left out of the answer.
type Key interface{ key() }

// Instants makes buckets of a column of instants. A bucket goes from one edge to just before the
// next. A row has the bucket's number as an int64, from 0.
type Instants struct {
	Column string
	Edges  []time.Time // ascending, two or more
	Before bool        // adds bucket -1 for the jobs before the first edge
}

// Exit is a column that only [Values] can use: the text of Slurm's exit_code, for example 3:0.
const Exit = "exit"

// Values makes a bucket for each text in a column. A row has the text, shortened by [Cut]; it is
// empty for jobs without a text.
type Values struct {
	Column string
	// Most is the highest number of buckets that the answer has within each bucket of the next outer key. The answer has
	// the buckets with the highest values of a measure: By is this measure's index. The measure must be a count or a sum
	// over all jobs. If Values has an inner key, the answer has the buckets with the most jobs instead. Among equal
	// buckets, the answer has those whose texts come first in alphabetical order. The question must have a [Count] of all
	// jobs, and all keys inside of Values must be Values.
	Most, By int
	First    bool // omits the other buckets without a note; otherwise a note counts their jobs
}

// Classes makes buckets of a column of integers that are not negative. The buckets' widths grow
// exponentially: Each is the number of buckets per doubling. A row has the bucket's number as an
// int64; [ClassEdge] returns the bucket's lower edge.
type Classes struct {
	Column string
	Each   int
}

// Steps makes Count buckets of equal width, for a column of numbers that are not negative. The last bucket has no
// upper edge. A row has the bucket's number as an int64, from 0.
type Steps struct {
	Column string
	Width  int
	Count  int
}

// WeekHours makes buckets of the submit time by the hour of the week: 0 is Monday from 00:00 to
// 01:00. A row has the hour as an int64.
type WeekHours struct{}

func (Instants) key()  {}
func (Values) key()    {}
func (Classes) key()   {}
func (Steps) key()     {}
func (WeekHours) key() {}

// Kind is what a [Measure] computes.
type Kind int

// The kinds of measures. In a row, Count and Distinct are an int64, and the others a float64. They
// are nil if no job of the bucket has a value in the column. Instants are in milliseconds since
// 1970.
const (
	Count    Kind = iota // number of runs; counting the runs that were not [Lost] gives the number of jobs
	Distinct             // number of different values of a text column
	Sum
	Mean
	Least
	Most
	Unused // CPU seconds within the time limits that the jobs did not use; lost runs count as 0
	Moment // sum over jobs of: seconds from Since to the column's instant, times the column Times
)

// Measure is one number for a bucket. A product counts only jobs that have a value for each factor.
type Measure struct {
	Kind   Kind
	Column string
	Times  string
	Since  time.Time
	Where  Filter // counts only these jobs; nil for all
}

// Answer is the answer to a [Question].
type Answer struct {
	Rows [][]any
	// Outside is the number of jobs outside of all buckets of the outermost key, if [Question.Counted] is true; otherwise
	// 0.
	Outside int64
	Notes   []string // what the reader must know about the rows, in sentences
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

// Job is a job as the store or the Elasticsearch cluster returned it.
type Job struct {
	ID      string
	Cluster string // empty if the document does not name the cluster
	// Values are the values of the requested columns: an int64, a float64, a string, a time or nil.
	Values   []any
	Document []byte // the JSON from Slurm or from a record; nil in a list
}

// LongestText is the number of characters of a job's text that pages show.
const LongestText = 4096

// Cut shortens a text to [LongestText] characters, and marks the cut with an ellipsis. Users choose
// texts of their jobs, such as the name, so these texts can be long.
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

// AbsentError says that the store or the Elasticsearch cluster does not have a requested column or ID.
type AbsentError struct {
	Column string
	Why    string
}

// Error implements error.
func (e *AbsentError) Error() string { return e.Column + ": " + e.Why }

// RemoteError is an error that another server returned.
type RemoteError struct{ Err error }

// Error implements error.
func (e *RemoteError) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e *RemoteError) Unwrap() error { return e.Err }
