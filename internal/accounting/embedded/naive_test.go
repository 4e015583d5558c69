package embedded

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"rmreplay/internal/accounting/question"
)

// job maps the columns of the table jobs to a row's values. get also derives the computed fields.
type job map[string]any

// get returns a value of a job: an int64, a float64, a string, a time or nil.
func (j job) get(column string, c question.Clock) any {
	switch column {
	case "limit_used":
		limit, known := j["limit_s"].(int64)
		elapsed, ran := j["elapsed_s"].(int64)
		if !known || !ran || limit == 0 || j["start_time"] == nil {
			return nil
		}
		return 100 * float64(elapsed) / float64(limit)
	case "hour", "weekday":
		at, ok := j["submit_time"].(time.Time)
		if !ok {
			return nil
		}
		if column == "hour" {
			return hourOfWeek(at, c) % 24
		}
		return (hourOfWeek(at, c)/24 + 1) % 7
	case question.Exit:
		if j["exit_code"] == nil {
			return nil
		}
		return fmt.Sprintf("%d:%d", j["exit_code"], j["exit_signal"])
	}
	return j[column]
}

// hourOfWeek finds the hour of the week by the local time that package time computes.
func hourOfWeek(at time.Time, c question.Clock) int64 {
	reference := at
	if at.Before(c.From) {
		reference = c.From
	} else if at.After(c.Until) {
		reference = c.Until
	}
	zone := c.Zone
	if zone == nil {
		zone = time.UTC
	}
	_, offset := reference.In(zone).Zone()
	wall := at.UTC().Add(time.Duration(offset) * time.Second)
	return int64((wall.Weekday()+6)%7)*24 + int64(wall.Hour())
}

func asNumber(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// holds reports whether a filter chooses a job.
func holds(f question.Filter, j job, c question.Clock) bool {
	switch f := f.(type) {
	case nil:
		return true
	case question.All:
		return !slices.ContainsFunc(f, func(one question.Filter) bool { return !holds(one, j, c) })
	case question.Any:
		return slices.ContainsFunc(f, func(one question.Filter) bool { return holds(one, j, c) })
	case question.Not:
		return !holds(f.Of, j, c)
	case question.Known:
		return j.get(f.Column, c) != nil
	case question.Failed:
		state, _ := j["state"].(string)
		return slices.Contains(question.FailedStates, state)
	case question.Lost:
		return j["lost"] == int64(1)
	case question.Ran:
		cpus, _ := j["cpus"].(int64)
		start, began := j["start_time"].(time.Time)
		end, ended := j["end_time"].(time.Time)
		return cpus > 0 && began && ended && !start.After(end)
	case question.Like:
		text, ok := j.get(f.Column, c).(string)
		return ok && matches([]rune(f.Pattern), []rune(text), f.AnyCase)
	case question.Compare:
		var order int
		switch v := j.get(f.Column, c).(type) {
		case nil:
			return false
		case string:
			order = strings.Compare(v, f.Value.(string))
		case time.Time:
			order = v.Compare(f.Value.(time.Time))
		default:
			n, _ := asNumber(v)
			order = cmp.Compare(n, f.Value.(float64))
		}
		return order == 0 && strings.Contains(f.Op, "=") || order < 0 && f.Op[0] == '<' || order > 0 && f.Op[0] == '>'
	}
	panic(fmt.Sprintf("a filter of the type %T", f))
}

// matches is the simplest matcher: a table of which prefixes of the pattern match which prefixes of
// the text.
func matches(pattern, text []rune, anyCase bool) bool {
	type token struct {
		c   rune
		any bool // c is * or ? as a wildcard
	}
	var tokens []token
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		switch {
		case c == '\\' && i+1 < len(pattern):
			i++
			tokens = append(tokens, token{pattern[i], false})
		default:
			tokens = append(tokens, token{c, c == '*' || c == '?'})
		}
	}
	row := make([]bool, len(text)+1)
	row[0] = true
	for _, t := range tokens {
		next := make([]bool, len(text)+1)
		for n := range next {
			switch {
			case t.any && t.c == '*':
				next[n] = row[n] || n > 0 && next[n-1]
			case n > 0 && row[n-1]:
				next[n] = t.any || text[n-1] == t.c || anyCase && folded(text[n-1], t.c)
			}
		}
		row = next
	}
	return row[len(text)]
}

// folded reports whether two characters differ only in their case.
func folded(a, b rune) bool {
	for f := unicode.SimpleFold(a); f != a; f = unicode.SimpleFold(f) {
		if f == b {
			return true
		}
	}
	return a == b
}

// keyOf returns the key of a job, and false if the job belongs to no bucket.
func keyOf(k question.Key, j job, c question.Clock) (any, bool) {
	switch k := k.(type) {
	case question.Values:
		text, _ := j.get(k.Column, c).(string)
		return text, true
	case question.WeekHours:
		at, ok := j["submit_time"].(time.Time)
		if !ok {
			return nil, false
		}
		return hourOfWeek(at, c), true
	case question.Instants:
		at, ok := j.get(k.Column, c).(time.Time)
		if !ok || !at.Before(k.Edges[len(k.Edges)-1]) {
			return nil, false
		}
		n := int64(-1)
		for _, e := range k.Edges {
			if !at.Before(e) {
				n++
			}
		}
		return n, n >= 0 || k.Before
	case question.Classes:
		v, ok := asNumber(j.get(k.Column, c))
		n := int64(-k.Each)
		for question.ClassEdge(n+1, k.Each) <= v {
			n++
		}
		return n, ok && v >= 0
	case question.Steps:
		v, ok := asNumber(j.get(k.Column, c))
		return min(int64(math.Floor(v/float64(k.Width))), int64(k.Count-1)), ok && v >= 0
	}
	panic(fmt.Sprintf("a key of the type %T", k))
}

// measureOf computes a measure over jobs.
func measureOf(m question.Measure, jobs []job, c question.Clock) any {
	var numbers []float64
	texts, count := make(map[any]bool), int64(0)
	for _, j := range jobs {
		if !holds(m.Where, j, c) {
			continue
		}
		count++
		product := func(v float64, factor string) {
			if n, ok := asNumber(j.get(factor, c)); ok {
				numbers = append(numbers, v*n)
			}
		}
		limit, limited := asNumber(j["limit_s"])
		elapsed, ran := asNumber(j["elapsed_s"])
		switch v := j.get(m.Column, c).(type) {
		case time.Time:
			if m.Kind == question.Moment {
				product(float64(v.UnixMicro()-m.Since.UnixMicro())/1e6, m.Times)
			} else {
				numbers = append(numbers, float64(v.UnixMilli()))
			}
		case string:
			texts[v] = true
		case int64, float64:
			n, _ := asNumber(v)
			numbers = append(numbers, n)
		case nil:
			if m.Kind == question.Unused && limited && ran && j["start_time"] != nil && j["lost"] != int64(1) {
				product(max(0, limit-elapsed), "cpus")
			}
		}
	}
	switch sum := 0.0; {
	case m.Kind == question.Count:
		return count
	case m.Kind == question.Distinct:
		return int64(len(texts))
	case len(numbers) == 0:
		return nil
	case m.Kind == question.Least:
		return slices.Min(numbers)
	case m.Kind == question.Most:
		return slices.Max(numbers)
	default:
		for _, n := range numbers {
			sum += n
		}
		if m.Kind == question.Mean {
			sum /= float64(len(numbers))
		}
		return sum
	}
}

// naive answers a question by examining every job.
func naive(q question.Question, all []job) (a question.Answer, left int64) {
	var chosen []job
	for _, j := range all {
		if holds(q.Where, j, q.Clock) {
			chosen = append(chosen, j)
		}
	}
	var divide func(keys []any, by []question.Key, jobs []job)
	divide = func(keys []any, by []question.Key, jobs []job) {
		if len(by) == 0 {
			row := slices.Clone(keys)
			for _, m := range q.Measures {
				row = append(row, measureOf(m, jobs, q.Clock))
			}
			a.Rows = append(a.Rows, row)
			return
		}
		buckets := make(map[any][]job)
		var order []any
		for _, j := range jobs {
			if key, ok := keyOf(by[0], j, q.Clock); !ok {
				if len(keys) == 0 && q.Counted() {
					a.Outside++
				}
			} else if buckets[key] = append(buckets[key], j); len(buckets[key]) == 1 {
				order = append(order, key)
			}
		}
		values, texts := by[0].(question.Values)
		slices.SortFunc(order, func(x, y any) int {
			if !texts {
				return cmp.Compare(x.(int64), y.(int64))
			}
			weight := func(key any) float64 {
				if len(by) > 1 {
					return float64(len(buckets[key]))
				}
				n, _ := asNumber(measureOf(q.Measures[values.By], buckets[key], q.Clock))
				return n
			}
			return cmp.Or(cmp.Compare(weight(y), weight(x)), strings.Compare(x.(string), y.(string)))
		})
		for i, key := range order {
			if texts && i >= values.Most {
				left += int64(len(buckets[key]))
				continue
			}
			divide(append(slices.Clone(keys), key), by[1:], buckets[key])
		}
	}
	divide(nil, q.By, chosen)
	return a, left
}
