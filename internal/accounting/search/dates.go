package search

import (
	"strconv"
	"strings"
	"time"
)

// defaultFormat is the format of dates where a request names none.
const defaultFormat = "strict_date_optional_time||epoch_millis"

// unit is a unit of date math and of calendar intervals.
type unit byte

const (
	year    unit = 'y'
	quarter unit = 'q'
	month   unit = 'M'
	week    unit = 'w'
	day     unit = 'd'
	hour    unit = 'h'
	minute  unit = 'm'
	second  unit = 's'
	milli   unit = 0
)

// add adds n units. A day that the month does not have becomes the month's last one.
func (u unit) add(t time.Time, n int) time.Time {
	months := 0
	switch u {
	case year:
		months = 12 * n
	case quarter:
		months = 3 * n
	case month:
		months = n
	case week:
		return t.AddDate(0, 0, 7*n)
	case day:
		return t.AddDate(0, 0, n)
	case hour:
		return t.Add(time.Duration(n) * time.Hour)
	case minute:
		return t.Add(time.Duration(n) * time.Minute)
	case second:
		return t.Add(time.Duration(n) * time.Second)
	default:
		return t.Add(time.Duration(n) * time.Millisecond)
	}
	first := time.Date(t.Year(), t.Month()+time.Month(months), 1, 0, 0, 0, 0, time.UTC)
	last := first.AddDate(0, 1, -1).Day()
	return time.Date(first.Year(), first.Month(), min(t.Day(), last), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), t.Location())
}

// floor returns the beginning of the unit that an instant is in. Weeks begin on Mondays.
func (u unit) floor(t time.Time) time.Time {
	y, m, d := t.Date()
	switch u {
	case year:
		m, d = 1, 1
	case quarter:
		m, d = (m-1)/3*3+1, 1
	case month:
		d = 1
	case week:
		d -= (int(t.Weekday()) + 6) % 7
	case day:
	case hour:
		return t.Add(-time.Duration(t.Minute())*time.Minute - time.Duration(t.Second())*time.Second - time.Duration(t.Nanosecond()))
	case minute:
		return t.Add(-time.Duration(t.Second())*time.Second - time.Duration(t.Nanosecond()))
	case second:
		return t.Truncate(time.Second)
	default:
		return t.Truncate(time.Millisecond)
	}
	return time.Date(y, m, d, 0, 0, 0, 0, t.Location())
}

// dates reads and writes dates in the formats of a request.
type dates struct {
	formats []string
	zone    *time.Location
	now     time.Time
}

// newDates returns the reader of a format, which may name several, separated by "||". Dates without
// a zone are in the one given.
func newDates(format string, zone *time.Location, now time.Time) (*dates, error) {
	if format == "" {
		format = defaultFormat
	}
	d := &dates{formats: strings.Split(format, "||"), zone: zone, now: now}
	for _, f := range d.formats {
		switch f {
		case "epoch_millis", "epoch_second", "iso8601", "strict_date_optional_time", "date_optional_time", "strict_date_optional_time_nanos":
		default:
			if _, _, err := layout(f); err != nil {
				return nil, err
			}
		}
	}
	return d, nil
}

// named are formats with names, as patterns.
var named = map[string]string{
	"date": "yyyy-MM-dd", "strict_date": "yyyy-MM-dd", "basic_date": "yyyyMMdd", "year": "yyyy", "year_month": "yyyy-MM", "year_month_day": "yyyy-MM-dd",
	"date_hour": "yyyy-MM-dd'T'HH", "date_hour_minute": "yyyy-MM-dd'T'HH:mm", "date_hour_minute_second": "yyyy-MM-dd'T'HH:mm:ss",
	"date_time": "yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "date_time_no_millis": "yyyy-MM-dd'T'HH:mm:ssXXX",
}

// layout translates a pattern of Java's DateTimeFormatter to Go's layout, and returns the smallest
// unit that it has.
func layout(pattern string) (layout string, smallest unit, err error) {
	if p, ok := named[strings.TrimPrefix(pattern, "strict_")]; ok {
		pattern = p
	}
	tokens := []struct {
		java, golang string
		unit         unit
	}{
		{"yyyy", "2006", year}, {"uuuu", "2006", year}, {"yy", "06", year}, {"MMMM", "January", month}, {"MMM", "Jan", month}, {"MM", "01", month}, {"M", "1", month},
		{"dd", "02", day}, {"d", "2", day}, {"EEEE", "Monday", 'E'}, {"EEE", "Mon", 'E'}, {"HH", "15", hour}, {"hh", "03", hour}, {"h", "3", hour}, {"a", "PM", 'E'},
		{"mm", "04", minute}, {"m", "4", minute}, {"ss", "05", second}, {"s", "5", second},
		{".SSSSSS", ".000000", milli}, {".SSS", ".000", milli}, {"XXX", "Z07:00", 'E'}, {"XX", "Z0700", 'E'}, {"X", "Z07", 'E'}, {"ZZ", "-07:00", 'E'}, {"Z", "-0700", 'E'},
	}
	order := map[unit]int{year: 1, month: 2, day: 3, hour: 4, minute: 5, second: 6, milli: 7}
	smallest = year
	var b strings.Builder
	rest := pattern
next:
	for rest != "" {
		for _, t := range tokens {
			if strings.HasPrefix(rest, t.java) {
				b.WriteString(t.golang)
				if order[t.unit] > order[smallest] {
					smallest = t.unit
				}
				rest = rest[len(t.java):]
				continue next
			}
		}
		c := rest[0]
		switch {
		case c == '\'':
			end := strings.IndexByte(rest[1:], '\'')
			if end < 0 {
				return "", 0, illegal("Invalid format: [%s]: a quote without its end", pattern)
			}
			literal := rest[1 : 1+end]
			if literal == "" {
				literal = "'"
			}
			if strings.ContainsAny(literal, "0123456789JMPZ_") {
				return "", 0, unsupported("the date format [%s]: the literal '%s'", pattern, literal)
			}
			b.WriteString(literal)
			rest = rest[end+2:]
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_':
			return "", 0, unsupported("the date format [%s]: at [%s], it", pattern, rest)
		default:
			b.WriteByte(c)
			rest = rest[1:]
		}
	}
	return b.String(), smallest, nil
}

// format writes an instant in the first format.
func (d *dates) format(t time.Time) string {
	t = t.In(d.zone)
	switch f := d.formats[0]; f {
	case "epoch_millis":
		return strconv.FormatInt(t.UnixMilli(), 10)
	case "epoch_second":
		return strconv.FormatInt(t.Unix(), 10)
	case "iso8601", "strict_date_optional_time", "date_optional_time", "strict_date_optional_time_nanos":
		return t.Format("2006-01-02T15:04:05.000Z07:00")
	default:
		l, _, _ := layout(f) // newDates has checked it
		return t.Format(l)
	}
}

// parse reads a date with its date math, such as now-7d/d or 2024-03-01||+1M/d, in milliseconds. With
// up, what is not said is as late as possible: the end of the day of 2024-03-01, as for "at most".
func (d *dates) parse(text string, up bool) (time.Time, error) {
	if math, ok := strings.CutPrefix(text, "now"); ok {
		return d.math(text, d.now.In(d.zone), math, up)
	}
	anchor, math, hasMath := strings.Cut(text, "||")
	for _, f := range d.formats {
		t, smallest, ok := d.read(anchor, f)
		if !ok {
			continue
		}
		if y := t.Year(); y < 1 || y > 9999 {
			break
		}
		if hasMath {
			return d.math(text, t, math, up)
		}
		if up && smallest != milli {
			t = smallest.add(smallest.floor(t), 1).Add(-time.Millisecond)
		}
		return t, nil
	}
	return time.Time{}, &apiError{400, "parse_exception", "failed to parse date field [" + text + "] with format [" + strings.Join(d.formats, "||") + "]"}
}

// read reads a date in one format, and returns the smallest unit that it says.
func (d *dates) read(text, format string) (t time.Time, smallest unit, ok bool) {
	switch format {
	case "epoch_millis", "epoch_second":
		n, err := strconv.ParseFloat(text, 64)
		if format == "epoch_second" {
			n *= 1000
		}
		if err != nil || !(n > -1e14 && n < 1e15) {
			return t, 0, false
		}
		if format == "epoch_second" && !strings.Contains(text, ".") {
			smallest = second
		}
		return time.UnixMilli(int64(n)).In(d.zone), smallest, true
	case "iso8601", "strict_date_optional_time", "date_optional_time", "strict_date_optional_time_nanos":
		return d.optionalTime(text)
	}
	l, smallest, err := layout(format)
	if err != nil {
		return t, 0, false
	}
	t, err = time.ParseInLocation(l, text, d.zone)
	return t, smallest, err == nil
}

// optionalTime reads a date of ISO 8601 whose end may be missing: 2024, 2024-03, 2024-03-01T12Z, ...
func (d *dates) optionalTime(text string) (t time.Time, smallest unit, ok bool) {
	for _, zone := range []string{"", "Z07:00", "Z0700", "Z07"} {
		for _, f := range []struct {
			layout   string
			smallest unit
		}{
			{"2006-01-02T15:04:05", second}, {"2006-01-02", day}, {"2006-01-02T15:04", minute}, {"2006-01-02T15", hour}, {"2006-01", month}, {"2006", year},
		} {
			t, err := time.ParseInLocation(f.layout+zone, text, d.zone)
			if err != nil {
				continue
			}
			if f.smallest == second && len(text) > 19 && (text[19] == '.' || text[19] == ',') {
				return t.Truncate(time.Millisecond), milli, true
			}
			return t, f.smallest, true
		}
	}
	return t, 0, false
}

// maxMath bounds the numbers of date math.
const maxMath = 1_000_000

func (d *dates) math(text string, t time.Time, math string, up bool) (time.Time, error) {
	fault := func() (time.Time, error) {
		return time.Time{}, &apiError{400, "parse_exception", "failed to parse date field [" + text + "]: the date math [" + math + "] is no list of +NUNIT, -NUNIT and /UNIT with the units y, M, w, d, h, m, s"}
	}
	t = t.Truncate(time.Millisecond)
	for rest := math; rest != ""; {
		operator := rest[0]
		rest = rest[1:]
		n, digits := 1, 0
		for digits < len(rest) && '0' <= rest[digits] && rest[digits] <= '9' {
			digits++
		}
		if digits > 0 {
			var err error
			if n, err = strconv.Atoi(rest[:digits]); err != nil || n > maxMath {
				return fault()
			}
		}
		rest = rest[digits:]
		if rest == "" || !strings.ContainsRune("+-/", rune(operator)) || operator == '/' && digits > 0 {
			return fault()
		}
		u := unit(rest[0])
		if u == 'H' {
			u = hour
		}
		if !strings.ContainsRune("yMwdhms", rune(u)) {
			return fault()
		}
		rest = rest[1:]
		switch operator {
		case '+':
			t = u.add(t, n)
		case '-':
			t = u.add(t, -n)
		default:
			t = u.floor(t)
			if up {
				t = u.add(t, 1).Add(-time.Millisecond)
			}
		}
		if t.Year() < 1 || t.Year() > 9999 {
			return fault()
		}
	}
	return t, nil
}

// zone returns the time zone of a name of the IANA or of an offset such as +01:00.
func zone(name string) (*time.Location, error) {
	switch name {
	case "", "Z", "UTC", "GMT":
		return time.UTC, nil
	}
	if name[0] == '+' || name[0] == '-' {
		for _, l := range []string{"-07:00", "-0700", "-07"} {
			if t, err := time.Parse(l, name); err == nil {
				_, offset := t.Zone()
				if offset == 0 {
					return time.UTC, nil
				}
				return time.FixedZone(name, offset), nil
			}
		}
	} else if name != "Local" {
		if l, err := time.LoadLocation(name); err == nil {
			return l, nil
		}
	}
	return nil, illegal("unknown time-zone ID: %s", name)
}
