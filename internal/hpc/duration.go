package hpc

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var errNotDuration = errors.New(
	"not a duration (want, for example, 90s, 5m, 1h30m, 2d, 08:00:00, 1-12:00:00 or a number of seconds)")

// durationUnits are the units of durations, in seconds, by their names.
var durationUnits = func() map[string]float64 {
	units := map[string]float64{}
	for names, seconds := range map[string]float64{
		"ns": 1e-9, "us µs": 1e-6, "ms": 1e-3, "s sec secs second seconds": 1, "m min mins minute minutes": 60,
		"h hr hrs hour hours": 3600, "d day days": 86400, "w week weeks": 7 * 86400,
	} {
		for name := range strings.FieldsSeq(names) {
			units[name] = seconds
		}
	}
	return units
}()

// amount matches a number with its unit at the beginning of a duration.
var amount = regexp.MustCompile(`^(\d+\.?\d*|\.\d+) *([a-zµ]*) *`)

// ParseDuration reads a duration as people write it: 90s, 5m, 1h30m, 2h30, 5 min, 2d, 1w, or a
// plain number of seconds. It also reads Slurm's forms HH:MM:SS, D-HH:MM:SS, D-HH:MM and D-HH. The
// error says which forms are accepted.
func ParseDuration(text string) (time.Duration, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		return ofSeconds(seconds)
	}
	if strings.Contains(text, ":") || dayed.MatchString(text) {
		return parseClock(text)
	}
	rest, negative := strings.CutPrefix(strings.ToLower(text), "-")
	total, last := 0.0, 0.0 // in seconds; last is the unit of the previous number
	for rest != "" {
		m := amount.FindStringSubmatch(rest)
		if m == nil {
			return 0, errNotDuration
		}
		unit, known := durationUnits[m[2]]
		switch {
		case m[2] == "" && (last == 3600 || last == 60) && len(m[0]) == len(rest): // 2h30 is 2h30m, and 2m30 is 2m30s
			unit = last / 60
		case !known:
			return 0, errNotDuration
		}
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return 0, errNotDuration
		}
		total, last, rest = total+n*unit, unit, rest[len(m[0]):]
	}
	switch {
	case last == 0:
		return 0, errNotDuration
	case negative:
		total = -total
	}
	return ofSeconds(total)
}

// ErrNoUnit is the error of [ParseWithUnit] for a number without a unit.
var ErrNoUnit = errors.New("a number without a unit")

// ParseWithUnit is [ParseDuration] for durations of hours or days, such as time limits. It refuses
// a number without a unit, because people mean hours, and Slurm's commands minutes.
func ParseWithUnit(text string) (time.Duration, error) {
	if n, err := strconv.ParseFloat(text, 64); err == nil && n != 0 {
		return 0, fmt.Errorf("%s: %w (want %[1]sd, %[1]sh, %[1]sm or %[1]ss)", text, ErrNoUnit)
	}
	return ParseDuration(text)
}

// dayed matches days and hours, as in Slurm: 1-12.
var dayed = regexp.MustCompile(`^\d+-\d+$`)

// ofSeconds converts seconds. It returns an error if s is not a number, or too large for a
// duration.
func ofSeconds(s float64) (time.Duration, error) {
	if math.IsNaN(s) || math.Abs(s) > math.MaxInt64/float64(time.Second)/2 {
		return 0, errNotDuration
	}
	return time.Duration(math.Round(s * float64(time.Second))), nil
}

// parseClock reads HH:MM:SS, D-HH:MM:SS, D-HH:MM and D-HH. It refuses two numbers without days,
// because Slurm reads them as minutes and seconds, and people as hours and minutes.
func parseClock(text string) (time.Duration, error) {
	days, clock, dayed := strings.Cut(text, "-")
	if !dayed {
		days, clock = "0", text
	}
	parts := strings.Split(clock, ":")
	if dayed {
		parts = append(parts, "00", "00")[:max(3, len(parts))]
	}
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

// FormatDuration writes a duration without the last units if they are zero: 24h, 1h30m. It writes 0
// as "0".
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
