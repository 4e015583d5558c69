package question

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Reader parses filters that users write.
type Reader struct {
	Zone *time.Location // applies to instants without a zone
	Now  time.Time
}

// Compare returns the filter for a field, a relation (=, !=, <, <=, > or >=) and a value. The empty
// value with = chooses jobs for which the field is unknown. If the parameter wild is true, * in a
// text stands for any number of characters and ? for one character.
func (r Reader) Compare(f *Field, op, value string, wild bool) (Filter, error) {
	if value == "" {
		switch op {
		case "=":
			return Not{Known{f.Name}}, nil
		case "!=":
			return Known{f.Name}, nil
		}
		return nil, fmt.Errorf("%s%s: no value (want one, such as %s%s10)", f.Name, op, f.Name, op)
	}
	negated := op == "!="
	if negated {
		op = "="
	}
	var c Filter
	if f.Type == Text {
		if f.Name == "state" {
			value = strings.ToUpper(value)
		}
		c = Compare{f.Name, op, value}
		if wild && op == "=" && strings.ContainsAny(value, "*?") {
			var err error
			if c, err = newLike(f.Name, strings.ReplaceAll(value, `\`, `\\`), false); err != nil {
				return nil, err
			}
		}
	} else {
		v, err := r.value(f, value)
		if err != nil {
			return nil, err
		}
		c = Compare{f.Name, op, v}
	}
	if negated {
		return Not{c}, nil
	}
	return c, nil
}

// value parses a number or an instant, according to the field's type.
func (r Reader) value(f *Field, value string) (any, error) {
	if f.Type == Instant {
		t, err := ParseInstant(value, r.Zone, r.Now)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		return t, nil
	}
	v, err := strconv.ParseFloat(value, 64)
	if err != nil && strings.HasSuffix(f.Name, "_s") {
		var d time.Duration
		d, err = ParseDuration(value)
		v = d.Seconds()
	}
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || math.Abs(v) > 1<<53 {
		return nil, fmt.Errorf("%s: %q is not a number%s", f.Name, value,
			map[bool]string{true: " or a duration (want one such as 3600, 90m or 2h)"}[strings.HasSuffix(f.Name, "_s")])
	}
	return v, nil
}

// ParseInstant parses a date (2024-03-05), a time (2024-03-05T14:07, optionally with seconds and a
// zone), or a time relative to now (now-7d). Times without a zone are in the given zone.
func ParseInstant(value string, zone *time.Location, now time.Time) (time.Time, error) {
	if value == "now" {
		return now, nil
	}
	if before, ok := strings.CutPrefix(value, "now-"); ok {
		d, err := ParseDuration(before)
		return now.Add(-d), err
	}
	for _, layout := range []string{"2006-01-02", "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04",
		"2006-01-02 15:04:05", time.RFC3339} {
		if t, err := time.ParseInLocation(layout, value, zone); err == nil {
			if t.Year() < 1970 || t.Year() > 2200 {
				break
			}
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not an instant (want one such as 2024-03-05T14:07, or now-7d)", value)
}

var durationText = regexp.MustCompile(`^([0-9]{1,7})([smhdwy])$`)

// ParseDuration parses a number with a unit: seconds, minutes, hours, days, weeks or years of 365
// days.
func ParseDuration(value string) (time.Duration, error) {
	m := durationText.FindStringSubmatch(value)
	if m == nil {
		return 0, fmt.Errorf("%q is not a duration (want one such as 90s, 30m, 12h, 7d, 4w or 1y)", value)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return 0, err
	}
	unit := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
		"w": 7 * 24 * time.Hour, "y": 365 * 24 * time.Hour}[m[2]]
	if n > int((200*365*24*time.Hour)/unit) {
		return 0, fmt.Errorf("%q is longer than 200 years", value)
	}
	return time.Duration(n) * unit, nil
}

// Term is a filter that a click on a dashboard adds: a field, a relation and a value.
type Term struct {
	Field *Field
	Op    string
	Value string
}

// String returns the term as written in a URL.
func (t Term) String() string { return t.Field.Name + t.Op + t.Value }

var termText = regexp.MustCompile(`^(@?[a-z_]+)(!=|<=|>=|=|<|>)((?s).*)$`)

// ParseTerm parses a term, for example partition=gpu or elapsed_s>=3600.
func ParseTerm(s string) (Term, error) {
	m := termText.FindStringSubmatch(s)
	if m == nil {
		return Term{}, fmt.Errorf("%q is not a filter (want a field, one of = != < <= > >=, and a value)", s)
	}
	f, err := LookUp(m[1])
	return Term{f, m[2], m[3]}, err
}

// Terms returns the filter that combines all terms. Terms with = on the same field are
// alternatives.
func (r Reader) Terms(list []Term) (Filter, error) {
	all := All{}
	alternatives := make(map[string]int) // maps a field's name to the index of its alternatives in all
	for _, t := range list {
		c, err := r.Compare(t.Field, t.Op, t.Value, false)
		if err != nil {
			return nil, err
		}
		if at, ok := alternatives[t.Field.Name]; ok && t.Op == "=" {
			all[at] = Any{all[at], c}
			continue
		}
		if t.Op == "=" {
			alternatives[t.Field.Name] = len(all)
		}
		all = append(all, c)
	}
	return all, nil
}
