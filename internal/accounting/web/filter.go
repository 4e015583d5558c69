package web

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/accounting/store"
	"rmreplay/internal/spelling"
)

// kind is what the values of a field are.
type kind int

const (
	text kind = iota
	integer
	decimal
	instant
)

// field is something that jobs can be filtered by.
type field struct {
	Name string
	kind kind
	sql  func(r *request) string // its value; the text has no values of users
	Doc  string
}

// fields has each field by its name and by the key of Slurm's document. columns has the names of
// the columns in their order.
var fields, columns = func() (map[string]*field, []string) {
	all := make(map[string]*field)
	var names []string
	for _, c := range store.Columns {
		f := &field{Name: c.Name, Doc: c.Doc, sql: func(*request) string { return `"` + c.Name + `"` }}
		switch {
		case strings.HasPrefix(c.Type, "BIGINT"):
			f.kind = integer
		case strings.HasPrefix(c.Type, "DOUBLE"):
			f.kind = decimal
		case strings.HasPrefix(c.Type, "TIMESTAMP"):
			f.kind = instant
		}
		all[c.Name] = f
		names = append(names, c.Name)
	}
	for _, c := range store.Columns {
		if _, taken := all[c.Field]; c.Field != "" && !taken {
			all[c.Field] = all[c.Name]
		}
	}
	for _, f := range []*field{
		{"id", text, func(*request) string { return "id" }, "cluster, jobid and run, separated by colons"},
		{"limit_used", decimal, func(*request) string { return "(100::DOUBLE * elapsed_s / nullif(limit_s, 0))" }, "run time in per cent of the time limit"},
		{"hour", integer, func(r *request) string { return "(" + r.weekHour("submit_time") + " % 24)" }, "hour of the submission, 0 to 23"},
		{"weekday", integer, func(r *request) string { return "(" + r.weekHour("submit_time") + " // 24)" }, "weekday of the submission, 0 (Monday) to 6"},
	} {
		all[f.Name] = f
	}
	return all, names
}()

// lookUp returns a field. The error names the nearest one.
func lookUp(name string) (*field, error) {
	if f, ok := fields[name]; ok {
		return f, nil
	}
	known := make([]string, 0, len(fields))
	for k := range fields {
		known = append(known, k)
	}
	if near := spelling.Nearest(name, 3, known); near != "" {
		return nil, fmt.Errorf("there is no field %q (want, perhaps, %q)", name, near)
	}
	return nil, fmt.Errorf("there is no field %q (want a column of the table of jobs, such as user_name or elapsed_s)", name)
}

// condition is a part of a WHERE clause. Values of users are in args alone.
type condition struct {
	sql  string
	args []any
}

// and joins conditions, all of which must hold.
func and(list ...condition) condition { return join(" AND ", "true", list) }

// or joins conditions, one of which must hold.
func or(list ...condition) condition { return join(" OR ", "false", list) }

func join(by, none string, list []condition) condition {
	var parts []string
	var all condition
	for _, c := range list {
		parts = append(parts, "("+c.sql+")")
		all.args = append(all.args, c.args...)
	}
	if all.sql = strings.Join(parts, by); all.sql == "" {
		all.sql = none
	}
	return all
}

// compare returns the condition that a field stands in a relation to a value: one of =, !=, <, <=,
// > and >=. An empty value stands for "not known". In a text, * stands for any characters and ? for
// one, if wild.
func (r *request) compare(f *field, op, value string, wild bool) (condition, error) {
	sql := f.sql(r)
	if value == "" {
		switch op {
		case "=":
			return condition{sql: sql + " IS NULL"}, nil
		case "!=":
			return condition{sql: sql + " IS NOT NULL"}, nil
		}
		return condition{}, fmt.Errorf("%s%s: no value (want one, such as %s%s10)", f.Name, op, f.Name, op)
	}
	if f.kind == text {
		if f.Name == "state" {
			value = strings.ToUpper(value)
		}
		if wild && strings.ContainsAny(value, "*?") && (op == "=" || op == "!=") {
			like := strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`, "*", "%", "?", "_").Replace(value)
			c := condition{sql + ` LIKE ? ESCAPE '\'`, []any{like}}
			if op == "!=" {
				c.sql = "NOT coalesce(" + c.sql + ", false)"
			}
			return c, nil
		}
		if op == "!=" {
			op = "IS DISTINCT FROM"
		}
		return condition{sql + " " + op + " ?", []any{value}}, nil
	}
	literal, err := r.literal(f, value)
	if err != nil {
		return condition{}, err
	}
	if op == "!=" {
		op = "IS DISTINCT FROM"
	}
	return condition{sql: sql + " " + op + " " + literal}, nil
}

// literal returns a number or an instant as SQL has it. It is written from the value that was
// parsed. DuckDB prunes rows by constants.
func (r *request) literal(f *field, value string) (string, error) {
	if f.kind == instant {
		t, err := parseInstant(value, r.zone, r.now)
		if err != nil {
			return "", fmt.Errorf("%s: %w", f.Name, err)
		}
		return timestamp(t), nil
	}
	v, err := strconv.ParseFloat(value, 64)
	if err != nil && strings.HasSuffix(f.Name, "_s") {
		var d time.Duration
		d, err = parseDuration(value)
		v = d.Seconds()
	}
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || math.Abs(v) > 1<<53 {
		return "", fmt.Errorf("%s: %q is no number%s", f.Name, value, map[bool]string{true: " and no duration (want one such as 3600, 90m or 2h)"}[strings.HasSuffix(f.Name, "_s")])
	}
	if v == math.Trunc(v) {
		return strconv.FormatInt(int64(v), 10), nil
	}
	return strconv.FormatFloat(v, 'e', -1, 64), nil
}

// timestamp returns an instant as SQL has it.
func timestamp(t time.Time) string {
	return "TIMESTAMP '" + t.UTC().Format("2006-01-02 15:04:05.999999") + "'"
}

// parseInstant reads 2024-03-05, 2024-03-05T14:07, with seconds and a zone if need be, or a time
// before now, such as now-7d.
func parseInstant(value string, zone *time.Location, now time.Time) (time.Time, error) {
	if value == "now" {
		return now, nil
	}
	if before, ok := strings.CutPrefix(value, "now-"); ok {
		d, err := parseDuration(before)
		return now.Add(-d), err
	}
	for _, layout := range []string{"2006-01-02", "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02 15:04:05", time.RFC3339} {
		if t, err := time.ParseInLocation(layout, value, zone); err == nil {
			if t.Year() < 1970 || t.Year() > 2200 {
				break
			}
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no instant (want one such as 2024-03-05T14:07, or now-7d)", value)
}

var durationText = regexp.MustCompile(`^([0-9]{1,7})([smhdwy])$`)

// parseDuration reads a number of seconds, minutes, hours, days, weeks or years of 365 days.
func parseDuration(value string) (time.Duration, error) {
	m := durationText.FindStringSubmatch(value)
	if m == nil {
		return 0, fmt.Errorf("%q is no duration (want one such as 90s, 30m, 12h, 7d, 4w or 1y)", value)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return 0, err
	}
	unit := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour, "y": 365 * 24 * time.Hour}[m[2]]
	if n > int((200*365*24*time.Hour)/unit) {
		return 0, fmt.Errorf("%q is longer than 200 years", value)
	}
	return time.Duration(n) * unit, nil
}

// term is a filter that a click adds: a field, a relation and a value.
type term struct {
	field *field
	op    string
	value string
}

var termText = regexp.MustCompile(`^(@?[a-z_]+)(!=|<=|>=|=|<|>)((?s).*)$`)

// parseTerm reads a term, such as partition=gpu or elapsed_s>=3600.
func parseTerm(s string) (term, error) {
	m := termText.FindStringSubmatch(s)
	if m == nil {
		return term{}, fmt.Errorf("%q is no filter (want a field, one of = != < <= > >=, and a value)", s)
	}
	f, err := lookUp(m[1])
	return term{f, m[2], m[3]}, err
}

// String returns the term as it stands in a URL.
func (t term) String() string { return t.field.Name + t.op + t.value }

// where returns the condition of all terms. Terms with = about the same field are alternatives.
func (r *request) terms() (condition, error) {
	var all []condition
	alternatives := make(map[string]int) // of a field in all
	for _, t := range r.filters {
		c, err := r.compare(t.field, t.op, t.value, false)
		if err != nil {
			return condition{}, err
		}
		if at, ok := alternatives[t.field.Name]; ok && t.op == "=" {
			all[at] = or(all[at], c)
			continue
		}
		if t.op == "=" {
			alternatives[t.field.Name] = len(all)
		}
		all = append(all, c)
	}
	return and(all...), nil
}
