package flags

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

var errNotDuration = errors.New("not a duration (want, for example, 90s, 5m, 1h30m, 2d, 08:00:00, 1-12:00:00 or a number of seconds)")

// ParseDuration reads a duration in any form that flags take: 90s, 5m, 1h30m, 2d, HH:MM:SS,
// D-HH:MM:SS as Slurm prints it, or a plain number of seconds.
func ParseDuration(text string) (time.Duration, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		return ofSeconds(seconds)
	}
	if strings.Contains(text, ":") {
		return parseClock(text)
	}
	rest, negative := strings.CutPrefix(text, "-")
	days, more, found := strings.Cut(rest, "d")
	if !found {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, errNotDuration
		}
		return d, nil
	}
	n, err := strconv.ParseFloat(days, 64)
	if err != nil || n < 0 {
		return 0, errNotDuration
	}
	d := time.Duration(0)
	if more != "" {
		if d, err = time.ParseDuration(more); err != nil || d < 0 {
			return 0, errNotDuration
		}
	}
	if negative {
		return ofSeconds(-n*86400 - d.Seconds())
	}
	return ofSeconds(n*86400 + d.Seconds())
}

// ofSeconds returns an error for a text that is no number, and for one that a duration cannot
// hold.
func ofSeconds(s float64) (time.Duration, error) {
	if math.IsNaN(s) || math.Abs(s) > math.MaxInt64/float64(time.Second)/2 {
		return 0, errNotDuration
	}
	return time.Duration(math.Round(s * float64(time.Second))), nil
}

// parseClock reads HH:MM:SS and D-HH:MM:SS. It refuses two numbers, because Slurm reads them as
// minutes and seconds, and a person as hours and minutes.
func parseClock(text string) (time.Duration, error) {
	days, clock, dayed := strings.Cut(text, "-")
	if !dayed {
		days, clock = "0", text
	}
	parts := strings.Split(clock, ":")
	if len(parts) != 3 {
		return 0, errNotDuration
	}
	total := 0
	for i, part := range append([]string{days}, parts...) {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 || n > 1e6 || i >= 2 && n > 59 {
			return 0, errNotDuration
		}
		total = total*[]int{1, 24, 60, 60}[i] + n
	}
	return time.Duration(total) * time.Second, nil
}

// FormatDuration writes a duration without the units that are zero: 24h, 1h30m. It writes 0 for
// no duration.
func FormatDuration(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// duration is the value of a flag.
type duration time.Duration

func (d *duration) String() string { return FormatDuration(time.Duration(*d)) }
func (d *duration) Type() string   { return "duration" }
func (d *duration) Set(text string) error {
	parsed, err := ParseDuration(text)
	if err == nil {
		*d = duration(parsed)
	}
	return err
}

// Duration adds a flag whose value [ParseDuration] reads.
func Duration(f *pflag.FlagSet, to *time.Duration, name string, byDefault time.Duration, usage string) {
	*to = byDefault
	f.Var((*duration)(to), name, usage)
}
