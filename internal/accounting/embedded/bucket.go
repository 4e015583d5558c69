package embedded

import (
	"fmt"
	"strings"
	"time"

	"rmreplay/internal/accounting/question"
	"rmreplay/internal/accounting/rollup"
)

// bucket has the SQL that groups jobs by a [question.Key].
type bucket struct {
	groups []string // SQL over jobs, one or two expressions
	// groups is nil for a bucket that depends on a time. Such a bucket uses instant, the name of a column of instants,
	// and of, a function that returns the SQL of the group. The argument of this function is the SQL of an instant in
	// microseconds since 1970. quarters says that all instants in the same quarter of an hour are in the same group.
	instant  string
	of       func(micros string) string
	quarters bool
	implied  []string // SQL of conditions that are true for the jobs in all buckets
	key      string   // SQL of the key; %[1]s and %[2]s are replaced by the groups
	values   *question.Values
	low, end int64 // buckets have the numbers low to end-1; if end is 0, every number is valid
}

// newBucket returns the grouping for a key.
func newBucket(k question.Key, c columns, clock question.Clock) (*bucket, error) {
	var column string
	switch k := k.(type) {
	case question.Instants:
		column = k.Column
	case question.Classes:
		column = k.Column
	case question.Steps:
		column = k.Column
	case question.Values:
		if column = k.Column; column == question.Exit {
			column = "exit_code"
		}
	case question.WeekHours:
		column = "submit_time"
	default:
		return nil, fmt.Errorf("grouping by a key of the type %T is not supported", k)
	}
	sql, err := c.column(column)
	if err != nil {
		return nil, err
	}
	b := &bucket{key: "%[1]s"}
	switch k := k.(type) {
	case question.Instants:
		b.instant, b.quarters = sql, true
		for _, e := range k.Edges {
			b.quarters = b.quarters && e.UnixMicro()%quarter == 0
		}
		b.of = func(micros string) string { return number(micros, k.Edges) }
		if b.end = int64(len(k.Edges) - 1); k.Before {
			b.low = -1
		}
	case question.WeekHours:
		b.instant, b.quarters = sql, clock.Within(quarter*time.Microsecond)
		b.of = func(micros string) string { return weekHour(clock, micros) }
		b.implied = []string{sql + " IS NOT NULL"}
	case question.Classes:
		b.groups, b.implied = []string{rollup.Class(sql, k.Each)}, []string{sql + " >= 0"}
	case question.Steps:
		b.groups = []string{fmt.Sprintf("floor(least(%s::DOUBLE / %d, %d))::BIGINT", sql, k.Width, k.Count-1)}
		b.implied = []string{sql + " >= 0"}
		if k.Column == "limit_used" && k.Width == 5 && k.Count == 21 {
			b.groups = []string{rollup.LimitUsed + "::BIGINT"}
			b.implied = []string{"limit_s > 0", "elapsed_s IS NOT NULL", rollup.Started}
		}
		b.end = int64(k.Count)
	case question.Values:
		b.groups, b.values = []string{"coalesce(" + sql + ", '')"}, &k
		if k.Column == question.Exit {
			b.groups, b.key = []string{"exit_code", "exit_signal"}, "coalesce(%[1]s || ':' || %[2]s, '')"
		}
	}
	return b, nil
}

// quarter is a quarter of an hour in microseconds. Instants in rollups are rounded to this step.
const quarter = rollup.Quarter * 1_000_000

// number returns the SQL that computes the number of an instant's bucket. micros is the SQL of the instant in
// microseconds since 1970. Each pair of consecutive edges encloses a bucket. The number is -1 before the first edge,
// and the number of buckets after the last edge and for NULL.
func number(micros string, edges []time.Time) string {
	type run struct { // consecutive buckets of the same length
		first       int
		begin, step int64
	}
	var runs []run
	for i := range len(edges) - 1 {
		begin := edges[i].UnixMicro()
		step := edges[i+1].UnixMicro() - begin
		if len(runs) == 0 || runs[len(runs)-1].step != step {
			runs = append(runs, run{i, begin, step})
		}
	}
	var b strings.Builder
	for i, r := range runs {
		if i+1 < len(runs) {
			fmt.Fprintf(&b, "CASE WHEN %s < %d THEN ", micros, runs[i+1].begin)
		}
		// SQL rounds a quotient towards 0, so the dividend must not be negative. It is an instant after
		// 1970.
		fmt.Fprintf(&b, "(%s - %d) // %d - %d", micros, r.begin%r.step, r.step, r.begin/r.step-int64(r.first))
		if i+1 < len(runs) {
			b.WriteString(" ELSE ")
		}
	}
	b.WriteString(strings.Repeat(" END", len(runs)-1))
	return fmt.Sprintf("greatest(least(%s, %d), -1)", b.String(), len(edges)-1)
}
