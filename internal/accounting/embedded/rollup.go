package embedded

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/accounting/question"
	"rmreplay/internal/accounting/rollup"
)

// cells is a rollup. columns maps an SQL expression over jobs to the rollup's column that has the values of this
// expression. So a rollup can answer a question if columns contains all expressions of the question.
type cells struct {
	*rollup.Rollup
	columns map[string]string
}

// rollups are the store's rollups, ordered by their number of keys, because few keys make few
// cells.
var rollups = func() (list []cells) {
	for _, r := range slices.SortedFunc(maps.Values(rollup.Rollups), func(a, b *rollup.Rollup) int {
		return cmp.Or(len(a.Keys)-len(b.Keys), strings.Compare(a.Name, b.Name))
	}) {
		has := map[string]string{"coalesce(cluster, '')": "cluster"}
		for name, sql := range r.Keys {
			has[sql] = name
		}
		for _, name := range r.Measures {
			has[rollup.Measures[name]] = name
		}
		list = append(list, cells{r, has})
	}
	return list
}()

// gap is a set of jobs for which cells cannot be used: the jobs of the view for which the SQL condition where is true.
type gap struct{ view, where string }

// source returns the SQL of a table of cells. The table has the stored cells of the days that match the condition
// days, and cells that are computed from the jobs of the gaps. Each job is counted once. The condition where applies
// to the stored and to the computed cells, so it can use only the column cluster. If named is set, the table has the
// column cluster.
//
// Each gap is a separate scan, because DuckDB can skip rows outside one range of ends, but not
// outside several. The column pad is never used. Without an unused column in a UNION, DuckDB reads
// all columns of the tables, including the documents.
func (c cells) source(days string, gaps []gap, where part, named bool) (source part) {
	names, list := []string{"NULL AS pad"}, []string{"NULL AS pad"}
	if named {
		names, list = append(names, "cluster"), append(list, "cluster")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Keys)) {
		names, list = append(names, name), append(list, c.Keys[name]+" AS "+name)
	}
	for _, name := range c.Measures {
		names, list = append(names, name), append(list, rollup.Measures[name]+" AS "+name)
	}
	parts := []string{fmt.Sprintf("SELECT %s FROM daily_%s WHERE %s AND (%s)", strings.Join(names, ", "), c.Name, days,
		where.text)}
	source.args = slices.Clone(where.args)
	for _, g := range gaps {
		if c.Where != "" {
			g.where += " AND " + c.Where
		}
		parts = append(parts, fmt.Sprintf("SELECT %s FROM %s WHERE %s AND (%s) GROUP BY ALL", strings.Join(list, ", "),
			g.view, g.where, where.text))
		source.args = append(source.args, where.args...)
	}
	source.text = "(" + strings.Join(parts, " UNION ALL ") + ")"
	return source
}

// column implements [columns] for text columns that are keys of the rollup.
func (c cells) column(name string) (string, bool) {
	if name == "cluster" {
		return name, true
	}
	sql, ok := ofJobs(question.Clock{})(name)
	key, known := c.columns["coalesce("+sql+", '')"]
	return fmt.Sprintf(unknownIfEmpty, key), ok && known
}

// group returns the SQL, over cells, of the groups of a bucket.
func (c cells) group(b *bucket) (groups []string, ok bool) {
	if b.of != nil {
		at, ok := c.columns[fmt.Sprintf("%s // %d", micros(b.instant), quarter)]
		return []string{b.of(fmt.Sprintf("(%s * %d)", at, quarter))}, ok && b.quarters
	}
	for _, sql := range b.groups {
		name, ok := c.columns[sql]
		if !ok {
			return nil, false
		}
		groups = append(groups, name)
	}
	return groups, true
}

// sum returns the SQL, over cells, of the sum of an aggregate. If there is a filter, sum prefers a column of the cells
// that aggregates only the filter's jobs. If the cells lack such a column, the SQL applies the filter to the cells.
func (c cells) sum(a aggregate, f question.Filter) (part, bool) {
	if f == nil {
		name, ok := c.columns[a.call+a.cast]
		return part{text: "sum(" + name + ")"}, ok
	}
	jobs, err := ofJobs(question.Clock{}).filter(f)
	if name, ok := c.columns[a.where(jobs).text]; ok && err == nil {
		return part{text: "sum(" + name + ")"}, true
	}
	own, err := columns(c.column).filter(f)
	name, ok := c.columns[a.call+a.cast]
	return aggregate{"sum(" + name + ")", ""}.where(own), ok && err == nil
}

// measure returns the SQL of a measure over cells.
func (c cells) measure(m question.Measure) (part, bool) {
	column, times, field, err := ofJobs(question.Clock{}).operands(m)
	if err != nil {
		return part{}, false
	}
	switch m.Kind {
	case question.Count:
		p, ok := c.sum(aggregate{"count(*)", ""}, m.Where)
		return part{"coalesce(" + p.text + ", 0)::BIGINT", p.args}, ok
	case question.Sum:
		return c.sum(sumOf(field, column), m.Where)
	case question.Unused:
		return c.sum(aggregate{"sum(" + rollup.Unused + ")", ""}, m.Where)
	case question.Mean:
		sum, ok := c.sum(sumOf(field, column), m.Where)
		number, known := c.sum(aggregate{"count(" + column + ")", ""}, m.Where)
		return part{sum.text + " / nullif(" + number.text + ", 0)", slices.Concat(sum.args, number.args)}, ok && known
	case question.Distinct:
		own, ok := c.column(m.Column)
		return part{text: "count(DISTINCT " + own + ")"}, ok && m.Where == nil
	case question.Least, question.Most:
		call := extreme(m.Kind) + "(%s)"
		name, ok := c.columns[fmt.Sprintf(call, column)]
		return part{text: number1970(field, fmt.Sprintf(call, name))}, ok && m.Where == nil
	case question.Moment:
		at, ok := c.columns[fmt.Sprintf("%s // %d", micros(column), quarter)]
		// A cell's column counts seconds from the beginning of the quarter of an hour.
		rest, some := c.columns[fmt.Sprintf("sum(%s::DOUBLE * ((%s %% %d) / 1e6))", times, micros(column), quarter)]
		weight, all := c.columns["sum("+times+")::DOUBLE"]
		return part{text: fmt.Sprintf("sum(%s + %s * ((%s * %d - %d) / 1e6))", rest, weight, at, quarter,
				m.Since.UnixMicro())},
			ok && some && all && m.Where == nil
	}
	return part{}, false
}

// span is a range of end times. A zero instant means no limit. Without limits, the range includes
// jobs without an end.
type span struct{ from, until time.Time }

// narrow limits the range by a filter. It returns false if the filter does not limit the range.
func (s *span) narrow(f question.Filter) bool {
	c, ok := f.(question.Compare)
	at, instant := c.Value.(time.Time)
	switch {
	case !ok || !instant || c.Column != "end_time":
		return false
	case c.Op == ">=":
		if at.After(s.from) {
			s.from = at
		}
	case c.Op == "<":
		if s.until.IsZero() || at.Before(s.until) {
			s.until = at
		}
	default:
		return false
	}
	return true
}

// sql returns the conditions of the range.
func (s span) sql() (list []part) {
	if !s.from.IsZero() {
		list = append(list, part{text: "end_time >= " + Timestamp(s.from)})
	}
	if !s.until.IsZero() {
		list = append(list, part{text: "end_time < " + Timestamp(s.until)})
	}
	return list
}

// split divides a range of ends in two: cells is the condition for the cells of whole days, and
// gaps are the remaining jobs. ok is false if the range contains no whole day.
//
// Only this function defines which jobs have cells: the jobs in the view tight, but not in the
// view loose.
func (s span) split() (cells string, gaps []gap, ok bool) {
	const day = 24 * 60 * 60
	all := join(s.sql(), " AND ", "true").text
	loose := gap{"loose", all}
	if s == (span{}) {
		return "true", []gap{loose}, true
	}
	var days []string
	first, last := span{from: s.from}, span{until: s.until} // the incomplete days at both ends
	if !s.from.IsZero() {
		begin := s.from.Add(day*time.Second-1).Unix() / day
		first.until = time.Unix(begin*day, 0).UTC()
		days = append(days, fmt.Sprintf("day >= %d", begin))
	}
	if !s.until.IsZero() {
		end := s.until.Unix() / day
		last.from = time.Unix(end*day, 0).UTC()
		days = append(days, fmt.Sprintf("day < %d", end))
	}
	if !s.from.IsZero() && !s.until.IsZero() && !first.until.Before(last.from) {
		return "", nil, false
	}
	for _, end := range []span{first, last} {
		if !end.from.IsZero() && end.from.Before(end.until) {
			gaps = append(gaps, gap{"tight", join(end.sql(), " AND ", "true").text})
		}
	}
	return strings.Join(days, " AND "), append(gaps, loose), true
}
