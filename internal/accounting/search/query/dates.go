package query

import (
	"strconv"
	"strings"
	"time"
)

// defaultFormat is the format of dates where a request names none.
const defaultFormat = "strict_date_optional_time||epoch_millis"

// Unit is a unit of date math and of calendar intervals.
type Unit byte

// The units.
const (
	Year    Unit = 'y'
	Quarter Unit = 'q'
	Month   Unit = 'M'
	Week    Unit = 'w'
	Day     Unit = 'd'
	Hour    Unit = 'h'
	Minute  Unit = 'm'
	Second  Unit = 's'
	milli   Unit = 0
)

// Add adds n units. A day that the month does not have becomes the month's last one.
func (u Unit) Add(t time.Time, n int) time.Time {
	var months int
	switch u {
	case Year:
		months = 12 * n
	case Quarter:
		months = 3 * n
	case Month:
		months = n
	case Week:
		return t.AddDate(0, 0, 7*n)
	case Day:
		return t.AddDate(0, 0, n)
	case Hour:
		return t.Add(time.Duration(n) * time.Hour)
	case Minute:
		return t.Add(time.Duration(n) * time.Minute)
	case Second:
		return t.Add(time.Duration(n) * time.Second)
	default:
		return t.Add(time.Duration(n) * time.Millisecond)
	}
	first := time.Date(t.Year(), t.Month()+time.Month(months), 1, 0, 0, 0, 0, time.UTC)
	last := first.AddDate(0, 1, -1).Day()
	return time.Date(first.Year(), first.Month(), min(t.Day(), last), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), t.Location())
}

// Floor returns the beginning of the unit that an instant is in. Weeks begin on Mondays.
func (u Unit) Floor(t time.Time) time.Time {
	y, m, d := t.Date()
	switch u {
	case Year:
		m, d = 1, 1
	case Quarter:
		m, d = (m-1)/3*3+1, 1
	case Month:
		d = 1
	case Week:
		d -= (int(t.Weekday()) + 6) % 7
	case Day:
	case Hour:
		return t.Add(-time.Duration(t.Minute())*time.Minute - time.Duration(t.Second())*time.Second - time.Duration(t.Nanosecond()))
	case Minute:
		return t.Add(-time.Duration(t.Second())*time.Second - time.Duration(t.Nanosecond()))
	case Second:
		return t.Truncate(time.Second)
	default:
		return t.Truncate(time.Millisecond)
	}
	return time.Date(y, m, d, 0, 0, 0, 0, t.Location())
}

// Dates reads and writes dates in the formats of a request.
type Dates struct {
	formats []string
	zone    *time.Location
	now     time.Time
}

// NewDates returns the reader of a format, which may name several, separated by "||". Dates without
// a zone are in the one given.
func NewDates(format string, zone *time.Location, now time.Time) (*Dates, error) {
	if format == "" {
		format = defaultFormat
	}
	d := &Dates{formats: strings.Split(format, "||"), zone: zone, now: now}
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
// Unit that it has.
func layout(pattern string) (layout string, smallest Unit, err error) {
	if p, ok := named[strings.TrimPrefix(pattern, "strict_")]; ok {
		pattern = p
	}
	tokens := []struct {
		java, golang string
		unit         Unit
	}{
		{"yyyy", "2006", Year}, {"uuuu", "2006", Year}, {"yy", "06", Year}, {"MMMM", "January", Month}, {"MMM", "Jan", Month}, {"MM", "01", Month}, {"M", "1", Month},
		{"dd", "02", Day}, {"d", "2", Day}, {"EEEE", "Monday", 'E'}, {"EEE", "Mon", 'E'}, {"HH", "15", Hour}, {"hh", "03", Hour}, {"h", "3", Hour}, {"a", "PM", 'E'},
		{"mm", "04", Minute}, {"m", "4", Minute}, {"ss", "05", Second}, {"s", "5", Second},
		{".SSSSSS", ".000000", milli}, {".SSS", ".000", milli}, {"XXX", "Z07:00", 'E'}, {"XX", "Z0700", 'E'}, {"X", "Z07", 'E'}, {"ZZ", "-07:00", 'E'}, {"Z", "-0700", 'E'},
	}
	order := map[Unit]int{Year: 1, Month: 2, Day: 3, Hour: 4, Minute: 5, Second: 6, milli: 7}
	smallest = Year
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
				return "", 0, Illegal("Invalid format: [%s]: a quote without its end", pattern)
			}
			literal := rest[1 : 1+end]
			if literal == "" {
				literal = "'"
			}
			if strings.ContainsAny(literal, "0123456789JMPZ_") {
				return "", 0, Unsupported("the date format [%s]: the literal '%s'", pattern, literal)
			}
			b.WriteString(literal)
			rest = rest[end+2:]
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_':
			return "", 0, Unsupported("the date format [%s]: at [%s], it", pattern, rest)
		default:
			b.WriteByte(c)
			rest = rest[1:]
		}
	}
	return b.String(), smallest, nil
}

// Format writes an instant in the first format.
func (d *Dates) Format(t time.Time) string {
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

// Parse reads a date with its date math, such as now-7d/d or 2024-03-01||+1M/d, in milliseconds. With
// up, what is not said is as late as possible: the end of the day of 2024-03-01, as for "at most".
func (d *Dates) Parse(text string, up bool) (time.Time, error) {
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
			t = smallest.Add(smallest.Floor(t), 1).Add(-time.Millisecond)
		}
		return t, nil
	}
	return time.Time{}, Fault(400, "parse_exception", "failed to parse date field ["+text+"] with format ["+strings.Join(d.formats, "||")+"]")
}

// read reads a date in one format, and returns the smallest unit that it says.
func (d *Dates) read(text, format string) (t time.Time, smallest Unit, ok bool) {
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
			smallest = Second
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
func (d *Dates) optionalTime(text string) (t time.Time, smallest Unit, ok bool) {
	for _, zone := range []string{"", "Z07:00", "Z0700", "Z07"} {
		for _, f := range []struct {
			layout   string
			smallest Unit
		}{
			{"2006-01-02T15:04:05", Second}, {"2006-01-02", Day}, {"2006-01-02T15:04", Minute}, {"2006-01-02T15", Hour}, {"2006-01", Month}, {"2006", Year},
		} {
			t, err := time.ParseInLocation(f.layout+zone, text, d.zone)
			if err != nil {
				continue
			}
			if f.smallest == Second && len(text) > 19 && (text[19] == '.' || text[19] == ',') {
				return t.Truncate(time.Millisecond), milli, true
			}
			return t, f.smallest, true
		}
	}
	return t, 0, false
}

// maxMath bounds the numbers of date math.
const maxMath = 1_000_000

func (d *Dates) math(text string, t time.Time, math string, up bool) (time.Time, error) {
	fault := func() (time.Time, error) {
		return time.Time{}, Fault(400, "parse_exception", "failed to parse date field ["+text+"]: the date math ["+math+"] is no list of +NUNIT, -NUNIT and /UNIT with the units y, M, w, d, h, m, s")
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
		u := Unit(rest[0])
		if u == 'H' {
			u = Hour
		}
		if !strings.ContainsRune("yMwdhms", rune(u)) {
			return fault()
		}
		rest = rest[1:]
		switch operator {
		case '+':
			t = u.Add(t, n)
		case '-':
			t = u.Add(t, -n)
		default:
			t = u.Floor(t)
			if up {
				t = u.Add(t, 1).Add(-time.Millisecond)
			}
		}
		if t.Year() < 1 || t.Year() > 9999 {
			return fault()
		}
	}
	return t, nil
}

// Zone returns the time zone of a name of the IANA or of an offset such as +01:00.
func Zone(name string) (*time.Location, error) {
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
	return nil, Illegal("unknown time-zone ID: %s", name)
}
