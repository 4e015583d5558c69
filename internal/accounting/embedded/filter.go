package embedded

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/accounting/question"
	"rmreplay/internal/accounting/rollup"
)

// part is a part of a statement. Texts from users are in args, never in text.
type part struct {
	text string
	args []any
}

// join joins conditions by an operator. For an empty list, it returns the SQL none.
func join(list []part, by, none string) (all part) {
	var texts []string
	for _, p := range list {
		texts = append(texts, "("+p.text+")")
		all.args = append(all.args, p.args...)
	}
	if all.text = strings.Join(texts, by); all.text == "" {
		all.text = none
	}
	return all
}

// columns returns the SQL of a column, over jobs or over the cells of a rollup. It returns false
// for a column that does not exist there.
type columns func(name string) (sql string, ok bool)

// ofJobs returns the columns of the table jobs. clock determines the hour and the weekday.
func ofJobs(clock question.Clock) columns {
	return func(name string) (string, bool) {
		switch name {
		case "partition":
			return `"partition"`, true
		case "limit_used":
			return "(CASE WHEN " + rollup.Started + " THEN 100::DOUBLE * elapsed_s / nullif(limit_s, 0) END)", true
		case "hour":
			return "(" + weekHour(clock, micros("submit_time")) + " % 24)", true
		case "weekday":
			return "((" + weekHour(clock, micros("submit_time")) + " // 24 + 1) % 7)", true // clock's weeks begin on Monday
		}
		f, ok := question.Fields[name]
		return name, ok && f.Name == name
	}
}

// micros returns the SQL of a column of instants in microseconds since 1970.
func micros(column string) string { return "epoch_us(" + column + ")" }

// weekHour returns SQL for the hour of the week of an instant in microseconds since 1970.
func weekHour(clock question.Clock, instant string) string {
	changes, offsets := "", clock.Offsets()
	for _, o := range offsets[:len(offsets)-1] {
		changes += fmt.Sprintf(" WHEN %s < %d THEN %d", instant, o.Until.UnixMicro(), 1_000_000*o.Seconds)
	}
	offset := strconv.FormatInt(1_000_000*offsets[len(offsets)-1].Seconds, 10)
	if changes != "" {
		offset = "CASE" + changes + " ELSE " + offset + " END"
	}
	return "(((" + instant + " + " + offset + ") // 3600000000 + 72) % 168)" // 1970-01-01 was a Thursday
}

// filter returns the SQL of a filter. For a job that does not match, the SQL is false or NULL.
func (c columns) filter(f question.Filter) (part, error) {
	switch f := f.(type) {
	case nil:
		return part{text: "true"}, nil
	case question.All:
		return c.filters(f, " AND ", "true")
	case question.Any:
		return c.filters(f, " OR ", "false")
	case question.Failed:
		state, err := c.column("state")
		return part{text: rollup.Failed(known(state))}, err
	case question.Lost:
		_, err := c.column("lost")
		return part{text: rollup.Lost}, err
	case question.Ran:
		_, err := c.column("start_time") // cells lack this column, so they return an error
		return part{text: rollup.Ran}, err
	case question.Known:
		column, err := c.column(f.Column)
		return part{text: column + " IS NOT NULL"}, err
	case question.Compare:
		return c.compare(f, f.Op)
	case question.Like:
		column, err := c.column(f.Column)
		flags := "s" // a dot matches a line break, too
		if f.AnyCase {
			flags = "si"
		}
		// LIKE would take exponential time for patterns with several asterisks.
		return part{"regexp_full_match(" + column + ", ?, '" + flags + "')", []any{f.Regexp()}}, err
	case question.Not:
		switch of := f.Of.(type) {
		case question.Known:
			column, err := c.column(of.Column)
			return part{text: column + " IS NULL"}, err
		case question.Compare:
			if of.Op == "=" {
				return c.compare(of, "IS DISTINCT FROM")
			}
		}
		p, err := c.filter(f.Of)
		return part{"NOT coalesce(" + p.text + ", false)", p.args}, err
	}
	return part{}, fmt.Errorf("a filter of the type %T is not supported", f)
}

func (c columns) filters(list []question.Filter, by, none string) (part, error) {
	var parts []part
	for _, f := range list {
		p, err := c.filter(f)
		if err != nil {
			return part{}, err
		}
		parts = append(parts, p)
	}
	return join(parts, by, none), nil
}

func (c columns) column(name string) (string, error) {
	sql, ok := c(name)
	if !ok {
		return "", fmt.Errorf("there is no column %q", name)
	}
	return sql, nil
}

// compare returns the SQL of a comparison. Numbers and instants become literals in the SQL, because
// DuckDB can skip rows only with literals. They have been parsed, so they cannot inject SQL.
func (c columns) compare(f question.Compare, op string) (part, error) {
	column, err := c.column(f.Column)
	text := column + " " + op + " "
	switch v := f.Value.(type) {
	case float64:
		if v == math.Trunc(v) {
			return part{text: text + strconv.FormatInt(int64(v), 10)}, err
		}
		return part{text: text + strconv.FormatFloat(v, 'e', -1, 64)}, err
	case time.Time:
		return part{text: text + Timestamp(v)}, err
	case string:
		if v != "" && op[0] != '<' && op[0] != '>' {
			text = known(column) + " " + op + " "
		}
		return part{text + "?", []any{v}}, err
	}
	return part{}, fmt.Errorf("%s: a value of the type %T is not supported", f.Column, f.Value)
}

// unknownIfEmpty is the SQL that reads a text column from a rollup's key: the empty text becomes NULL.
const unknownIfEmpty = "nullif(%s, '')"

// known returns the SQL of a column that is compared with a text other than "". It omits nullif, because DuckDB then
// compares each text in a dictionary only once.
func known(column string) string {
	var key string
	if n, err := fmt.Sscanf(column, strings.Replace(unknownIfEmpty, "%s", "%1s", 1), &key); n == 1 && err == nil {
		return key
	}
	return column
}

// Timestamp returns an instant as a SQL literal.
func Timestamp(t time.Time) string {
	return "TIMESTAMP '" + t.UTC().Format("2006-01-02 15:04:05.999999") + "'"
}
