package hpc

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

var errNotDuration = errors.New(
	"not a duration (want, for example, 90s, 5m, 1h30m, 2d, 08:00:00, 1-12:00:00 or a number of seconds)")

// ParseDuration reads a duration as people write it: 90s, 5m, 1h30m, 2d, HH:MM:SS,
// D-HH:MM:SS as Slurm prints it, or a plain number of seconds. The error says which forms are
// accepted.
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

// ofSeconds refuses what is not a number and what a duration cannot hold.
func ofSeconds(s float64) (time.Duration, error) {
	if math.IsNaN(s) || math.Abs(s) > math.MaxInt64/float64(time.Second)/2 {
		return 0, errNotDuration
	}
	return time.Duration(math.Round(s * float64(time.Second))), nil
}

// parseClock reads HH:MM:SS and D-HH:MM:SS. Two numbers are refused: Slurm reads them as
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

// FormatDuration writes a duration without the units that are zero: 24h, 1h30m; 0 for none.
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
