package search

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/accounting/search/query"
)

const (
	hourMillis = int64(time.Hour / time.Millisecond)
	dayMillis  = 24 * hourMillis
	// maxOffset is the largest offset of a date_histogram, in milliseconds.
	maxOffset = 366 * dayMillis
	// latest is the last year for which changes of time zones are used.
	latest = 2100
)

// interval says how a date_histogram divides time into buckets.
type interval struct {
	calendar query.Unit // 0 for a fixed interval
	length   int64      // in milliseconds; 0 for months, quarters and years
	offset   int64      // delay of the beginnings of buckets, in milliseconds
	location *time.Location
	// short is true for intervals that divide an hour. Their keys are instants. The keys of other
	// intervals are local times, as milliseconds since 1970, because a day may have 23 hours.
	short bool
	now   time.Time
}

var calendarUnits = map[string]query.Unit{
	"1m": query.Minute, "minute": query.Minute, "1h": query.Hour, "hour": query.Hour, "1d": query.Day,
	"day": query.Day, "1w": query.Week, "week": query.Week,
	"1M": query.Month, "month": query.Month, "1q": query.Quarter, "quarter": query.Quarter, "1y": query.Year,
	"year": query.Year,
}

func newInterval(m *query.Body, location *time.Location, now time.Time) *interval {
	step := &interval{location: location, now: now}
	calendar, fixed := m.Text("calendar_interval", ""), m.Text("fixed_interval", "")
	var err error
	switch {
	case calendar != "" && fixed != "":
		m.Fail(query.Illegal("Cannot use [fixed_interval] with [calendar_interval] configuration option."))
	case calendar != "":
		step.calendar = calendarUnits[calendar]
		if step.calendar == 0 {
			m.Fail(query.Illegal("The supplied interval [%s] could not be parsed as a calendar interval.", calendar))
		}
		step.length = map[query.Unit]int64{query.Minute: 60_000, query.Hour: hourMillis, query.Day: dayMillis,
			query.Week: 7 * dayMillis}[step.calendar]
	default:
		if step.length, err = millis(fixed); err != nil || step.length <= 0 {
			m.Fail(query.Illegal("Invalid interval specified: [%s] wants calendar_interval, "+
				"or fixed_interval as a number with ms, s, m, h or d, not [%s]",
				m.Where, fixed))
		}
	}
	offset := m.Text("offset", "0ms")
	if step.offset, err = millis(strings.TrimPrefix(offset, "+")); err != nil || step.offset < -maxOffset ||
		step.offset > maxOffset {
		m.Fail(query.Illegal("[%s] offset [%s]: it wants a number with ms, s, m, h or d, up to a year", m.Where, offset))
	}
	step.short = step.length > 0 && hourMillis%step.length == 0
	return step
}

// millis parses a length of time such as 90m or -6h.
func millis(text string) (int64, error) {
	digits := strings.TrimRight(text, "mshd")
	units := map[string]int64{"ms": 1, "s": 1000, "m": 60_000, "h": hourMillis, "d": dayMillis}
	n, err := strconv.ParseInt(digits, 10, 64)
	unit, ok := units[text[len(digits):]]
	if err != nil || !ok || n > 1e9 || n < -1e9 {
		return 0, query.Illegal("[%s] is not a length of time", text)
	}
	return n * unit, nil
}

// shift returns the SQL of the zone's offset from UTC at an instant, in milliseconds, positive in
// the east. If the offset never changes, isConstant is true and constant is the offset.
func (s *interval) shift(instant query.SQL) (expr query.SQL, constant int64, isConstant bool) {
	ahead := func(t time.Time) int64 {
		_, seconds := t.In(s.location).Zone()
		return int64(seconds) * 1000
	}
	first := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	type change struct {
		at    time.Time
		ahead int64
	}
	changes := []change{{first, ahead(first)}}
	for t := first; t.Year() <= latest; {
		_, end := t.In(s.location).ZoneBounds()
		if end.IsZero() || end.Year() > latest {
			break
		}
		if !end.After(t) { // after the last known change of the zone, ZoneBounds returns that change again
			t = t.Add(24 * time.Hour)
			continue
		}
		if a := ahead(end); a != changes[len(changes)-1].ahead {
			changes = append(changes, change{end, a})
		}
		t = end
	}
	if len(changes) == 1 {
		return query.SQL{}, changes[0].ahead, true
	}
	// The database evaluates a CASE only for jobs that no earlier case matched. So the cases of the
	// latest years come first, and all future changes are in one case.
	soon := s.now.AddDate(1, 0, 0)
	var past, future strings.Builder
	var args, later []any
	for i := len(changes) - 1; i > 0; i-- {
		c := changes[i]
		at := c.at.UnixMicro() + s.offset*1000
		to, list := &past, &args
		if c.at.After(soon) {
			to, list = &future, &later
		}
		fmt.Fprintf(to, " WHEN %s >= make_timestamp(%d) THEN %d", instant.Text, at, c.ahead)
		*list = append(*list, instant.Args...)
	}
	text := "CASE"
	if future.Len() > 0 {
		last := ahead(soon)
		text += fmt.Sprintf(" WHEN %s >= make_timestamp(%d) THEN CASE%s ELSE %d END", instant.Text,
			soon.UnixMicro()+s.offset*1000, future.String(), last)
		args = append(append(append([]any{}, instant.Args...), later...), args...)
	}
	return query.SQL{Text: text + past.String() + fmt.Sprintf(" ELSE %d END", changes[0].ahead), Args: args}, 0, false
}

// key returns the SQL of the key of an instant's bucket.
func (s *interval) key(instant query.SQL) query.SQL {
	utc := query.Expression(fmt.Sprintf("(epoch_ms(%%s) - %d)", s.offset), instant)
	shift, constant, isConstant := s.shift(instant)
	local := query.Expression("(%s + %s)", utc, shift)
	if isConstant {
		local = query.Expression(fmt.Sprintf("(%%s + %d)", constant), utc)
	}
	switch {
	case s.length == 0:
		part := map[query.Unit]string{query.Month: "month", query.Quarter: "quarter", query.Year: "year"}[s.calendar]
		return query.Expression("epoch_ms(date_trunc('"+part+"', make_timestamp(%s * 1000))::TIMESTAMP)", local)
	case s.short && !isConstant:
		return query.Expression(fmt.Sprintf("(%%s - (%%s + %d) %%%% %d)", s.positive(), s.length), utc, local)
	case s.short:
		return query.Expression(fmt.Sprintf("((%%s + %d) // %d * %d - %d)", s.positive(), s.length, s.length,
			s.positive()+constant), local)
	}
	return query.Expression(fmt.Sprintf("((%%s + %d) // %d * %d - %d)", s.positive()-s.begin(), s.length, s.length,
		s.positive()-s.begin()), local)
}

// positive returns a multiple of the interval's length. The multiple is so large that its sum with
// any time is positive. This is necessary because the database's division rounds towards 0.
func (s *interval) positive() int64 {
	return (2*maxOffset/s.length + 1) * s.length
}

// begin returns the offset of the first interval: weeks begin on Monday, but 1970 began on a
// Thursday.
func (s *interval) begin() int64 {
	if s.calendar == query.Week {
		return 4 * dayMillis
	}
	return 0
}

// instant returns the instant at which the bucket with the given key begins.
func (s *interval) instant(key int64) time.Time {
	t := time.UnixMilli(key).UTC()
	if !s.short {
		t = time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), s.location)
	}
	return t.Add(time.Duration(s.offset) * time.Millisecond)
}

// of returns the key of the bucket that contains an instant.
func (s *interval) of(t time.Time) int64 {
	t = t.Add(-time.Duration(s.offset) * time.Millisecond).In(s.location)
	_, ahead := t.Zone()
	utc := t.UnixMilli()
	local := utc + int64(ahead)*1000
	if s.length == 0 {
		return s.calendar.Floor(time.UnixMilli(local).UTC()).UnixMilli()
	}
	within := (local - s.begin()) % s.length
	if within < 0 {
		within += s.length
	}
	if s.short {
		return utc - within
	}
	return local - within
}

// next returns the key of the next bucket.
func (s *interval) next(key int64) int64 {
	if s.length == 0 {
		return s.calendar.Add(time.UnixMilli(key).UTC(), 1).UnixMilli()
	}
	return key + s.length
}
