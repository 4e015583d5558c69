package flags

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"rmreplay/internal/hpc"
)

// layouts are the forms of an instant. A zone may follow each of them.
var layouts = []string{"2006-01-02", "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04",
	"2006-01-02 15:04:05"}

// The years whose instants an [hpc.Time] can hold.
const firstYear, lastYear = 1678, 2261

// ParseInstant reads an instant in any form that flags take: 2024-03-05 (midnight),
// 2024-03-05T12:00 and 2024-03-05T12:00:00, or seconds since 1970. A date may have an offset
// from UTC behind it. Without an offset it is in the given zone.
func ParseInstant(text string, zone *time.Location) (hpc.Time, error) {
	for _, layout := range layouts {
		t, err := time.ParseInLocation(layout, text, zone)
		if err != nil {
			t, err = time.Parse(layout+"Z07:00", text)
		}
		if err == nil && t.Year() >= firstYear && t.Year() <= lastYear {
			return hpc.Time(t.UnixNano()), nil
		}
	}
	const most = 9e9 // seconds that a time can hold
	if s, err := strconv.ParseFloat(text, 64); err == nil && s > -most && s < most {
		return hpc.Time(s * float64(hpc.Second)), nil
	}
	return 0, fmt.Errorf("%s: not a time (want 2024-03-05, 2024-03-05T12:00 or 2024-03-05T12:00:00, with Z or +01:00 "+
		"for another zone than --timezone, or seconds since 1970)", text)
}

// Zone is the flag --timezone. It is the time zone of dates that a command prints, and of dates
// without a time zone that it reads.
type Zone struct{ location *time.Location }

// Add adds the flag. Its default is UTC.
func (z *Zone) Add(f *pflag.FlagSet) {
	z.location = time.UTC
	f.Var((*zoneValue)(z), "timezone", "time `ZONE` of dates in flags and in text output: UTC, Local or a name such as "+
		"Europe/Zurich; JSON has UTC")
}

// Location returns the time zone.
func (z *Zone) Location() *time.Location { return z.location }

// zoneValue is the value of the flag.
type zoneValue Zone

func (z *zoneValue) Type() string { return "zone" }

// String returns the name of the zone. pflag also calls it for the zero value.
func (z *zoneValue) String() string {
	if z.location == nil {
		return ""
	}
	return z.location.String()
}

func (z *zoneValue) Set(text string) error {
	location, err := time.LoadLocation(text)
	if err != nil || text == "" {
		return errors.New("not a known time zone (want UTC, Local or a name such as Europe/Zurich)")
	}
	z.location = location
	return nil
}

// Instant reads the value of the named flag in the time zone; empty gives 0.
func (z *Zone) Instant(flag, text string) (hpc.Time, error) {
	if text == "" {
		return 0, nil
	}
	t, err := ParseInstant(text, z.location)
	if err != nil {
		return 0, fmt.Errorf("--%s %w", flag, err)
	}
	return t, nil
}

// Window holds the flags --start, --end and --timezone.
type Window struct {
	Zone
	Start, End string
}

// Add adds the flags. In the help, start says what begins with the window, and end says what ends
// with it.
func (w *Window) Add(f *pflag.FlagSet, start, end string) {
	f.StringVar(&w.Start, "start", "", "`TIME` at which the window begins: "+start)
	f.StringVar(&w.End, "end", "", "`TIME` at which the window ends: "+end)
	w.Zone.Add(f)
}

// Bounds returns the instants of --start and --end. An instant is 0 if its flag was not given.
func (w *Window) Bounds() (start, end hpc.Time, err error) {
	if start, err = w.Instant("start", w.Start); err != nil {
		return 0, 0, err
	}
	if end, err = w.Instant("end", w.End); err != nil {
		return 0, 0, err
	}
	if w.Start != "" && w.End != "" && end <= start {
		return 0, 0, fmt.Errorf("--end %s is not after --start %s", w.End, w.Start)
	}
	return start, end, nil
}
