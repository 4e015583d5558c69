package query

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The formats of dates: milliseconds since 1970, and ISO 8601, whose last parts may be missing.
const millisFormat = "epoch_millis"

var isoFormats = []string{"strict_date_optional_time", "strict_date_optional_time_nanos", "date_optional_time",
	"iso8601"}

// defaultFormat is the format of dates if a request does not name a format.
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

// Add adds n units. If the month lacks the day, the result is the last day of the month.
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
	return time.Date(first.Year(), first.Month(), min(t.Day(), last), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(),
		t.Location())
}

// Floor returns the beginning of the unit that contains an instant. Weeks begin on Monday.
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
		within := time.Duration(t.Minute())*time.Minute + time.Duration(t.Second())*time.Second
		return t.Add(-within - time.Duration(t.Nanosecond()))
	case Minute:
		return t.Add(-time.Duration(t.Second())*time.Second - time.Duration(t.Nanosecond()))
	case Second:
		return t.Truncate(time.Second)
	default:
		return t.Truncate(time.Millisecond)
	}
	return time.Date(y, m, d, 0, 0, 0, 0, t.Location())
}

// Dates parses and formats dates in the formats of a request.
type Dates struct {
	formats []string
	zone    *time.Location
	now     time.Time
}

// Dates returns a parser for a format, or for several formats, separated by "||". An empty format
// means ISO 8601 or milliseconds. The parameter zone applies to dates without a zone.
func (c *Compiler) Dates(format string, zone *time.Location) *Dates {
	d := &Dates{formats: strings.Split(cmp.Or(format, defaultFormat), "||"), zone: zone, now: c.Now}
	for _, f := range d.formats {
		if f != millisFormat && !slices.Contains(isoFormats, f) {
			c.Fail(Unsupported("the date format [%s]", f))
		}
	}
	return d
}

// Format formats an instant in the first format.
func (d *Dates) Format(t time.Time) string {
	if d.formats[0] == millisFormat {
		return strconv.FormatInt(t.UnixMilli(), 10)
	}
	return t.In(d.zone).Format("2006-01-02T15:04:05.000Z07:00")
}

// Parse parses a date with date math, such as now-7d/d or 2024-03-01||+1M/d. If up is true, missing parts get their
// highest value: 2024-03-01 becomes the end of that day, as a condition "at most" requires.
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
	return time.Time{}, Fault(400, "parse_exception",
		"failed to parse date field ["+text+"] with format ["+strings.Join(d.formats, "||")+"]")
}

// read parses a date in one format. The result smallest is the smallest unit in the text.
func (d *Dates) read(text, format string) (t time.Time, smallest Unit, ok bool) {
	if format != millisFormat {
		return d.optionalTime(text)
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n > -1e14 && n < 1e15) {
		return t, milli, false
	}
	return time.UnixMilli(int64(n)).In(d.zone), milli, true
}

// optionalTime parses ISO 8601, whose last parts may be missing: 2024, 2024-03, 2024-03-01T12Z, ...
func (d *Dates) optionalTime(text string) (t time.Time, smallest Unit, ok bool) {
	for _, zone := range []string{"", "Z07:00", "Z0700", "Z07"} {
		for _, f := range []struct {
			layout   string
			smallest Unit
		}{
			{"2006-01-02T15:04:05", Second}, {"2006-01-02", Day}, {"2006-01-02T15:04", Minute}, {"2006-01-02T15", Hour},
			{"2006-01", Month}, {"2006", Year},
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

// maxMath is the highest number in date math.
const maxMath = 1_000_000

func (d *Dates) math(text string, t time.Time, math string, up bool) (time.Time, error) {
	fault := func() (time.Time, error) {
		return time.Time{}, Fault(400, "parse_exception",
			"failed to parse date field ["+text+"]: the date math ["+math+"] is not a list of "+
				"+NUNIT, -NUNIT and /UNIT with the units y, M, w, d, h, m, s")
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

// Zone returns a time zone by its IANA name, or by an offset such as +01:00.
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

// Zone returns the time zone in a member. UTC is the default.
func (b *Body) Zone(name string) *time.Location {
	l, err := Zone(b.Text(name, ""))
	b.Fail(err)
	return l
}
