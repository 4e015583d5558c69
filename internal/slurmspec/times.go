package slurmspec

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
)

// MaxSeconds is a century, the longest span of time that the functions here read. A sum of a few spans up to MaxSeconds
// does not overflow.
const MaxSeconds = 100 * 365 * 86400

// ParseSeconds reads a number of seconds of at most a hundred years. The number may have a sign
// and a fraction.
func ParseSeconds(s string) (time.Duration, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || math.Abs(f) > MaxSeconds {
		return 0, errors.New("not a number of seconds")
	}
	return time.Duration(math.Round(f * float64(time.Second))), nil
}

// timeSpecForms maps the separators of a span of time to the units of its numbers
// (time_str2secs in parse_time.c).
var timeSpecForms = map[string][]time.Duration{
	"":    {time.Minute},
	":":   {time.Minute, time.Second},
	"::":  {time.Hour, time.Minute, time.Second},
	"-":   {24 * time.Hour, time.Hour},
	"-:":  {24 * time.Hour, time.Hour, time.Minute},
	"-::": {24 * time.Hour, time.Hour, time.Minute, time.Second},
}

var errTimeLimit = errors.New("not a time limit (want minutes, HH:MM:SS or D-HH:MM:SS)")

// ParseTimeSpec reads a span of time to the second: minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM or
// D-HH:MM:SS. It returns [hpc.Unlimited] for "infinite", "unlimited" and -1.
func ParseTimeSpec(s string) (time.Duration, error) {
	if s == "-1" || strings.EqualFold(s, "infinite") || strings.EqualFold(s, "unlimited") {
		return hpc.Unlimited, nil
	}
	var separators []byte
	for i := range len(s) {
		if s[i] == '-' || s[i] == ':' {
			separators = append(separators, s[i])
		}
	}
	units := timeSpecForms[string(separators)]
	if units == nil {
		return 0, errTimeLimit
	}
	numbers := strings.FieldsFunc(s, func(r rune) bool { return r == '-' || r == ':' })
	daysOnly := string(separators) == "-" && len(numbers) == 1 && strings.HasSuffix(s, "-") // Slurm reads "1-" as a day
	if len(numbers) != len(units) && !daysOnly {
		return 0, errTimeLimit
	}
	var total time.Duration
	for i, number := range numbers {
		n, err := strconv.ParseUint(number, 10, 31)
		if err != nil {
			return 0, errTimeLimit
		}
		if n > MaxSeconds/uint64(units[i]/time.Second) {
			return 0, errors.New("longer than 100 years (want UNLIMITED)")
		}
		total += time.Duration(n) * units[i]
	}
	return total, nil
}

// ParseTimeLimit reads a time limit as sbatch -t takes it. It rounds up to whole minutes and
// returns [hpc.Unlimited] for 0 (arg_set_time_limit in slurm_opt.c).
func ParseTimeLimit(s string) (time.Duration, error) {
	d, err := ParseTimeSpec(s)
	if err != nil || d == hpc.Unlimited {
		return d, err
	}
	if d == 0 {
		return hpc.Unlimited, nil
	}
	return (d + time.Minute - 1).Truncate(time.Minute), nil
}

// FormatSpan writes a span of time as D-HH:MM:SS, or as HH:MM:SS if it is shorter than a day,
// and [hpc.Unlimited] as UNLIMITED. It drops fractions of a second.
func FormatSpan(d time.Duration) string {
	if d == hpc.Unlimited {
		return "UNLIMITED"
	}
	s := int64(d / time.Second)
	text := fmt.Sprintf("%02d:%02d:%02d", s/3600%24, s/60%60, s%60)
	if days := s / 86400; days > 0 {
		text = fmt.Sprintf("%d-%s", days, text)
	}
	return text
}

// Minutes returns a span of time in Slurm's minutes, rounded up (time_str2mins in
// parse_time.c). It returns [NoVal], Slurm's "not given", for 0, and [Infinite] for
// [hpc.Unlimited]. A negative span is an error.
func Minutes(d time.Duration) (uint32, error) {
	switch {
	case d == 0:
		return NoVal, nil
	case d == hpc.Unlimited:
		return Infinite, nil
	case d < 0:
		return 0, fmt.Errorf("%v is negative", d)
	}
	return uint32((d-1)/time.Minute) + 1, nil // the longest Duration is 154 million minutes
}

// SecondsUp returns the first whole second that is not before t, in seconds since the Unix
// epoch.
func SecondsUp(t hpc.Time) int64 {
	sec := t.UnixSeconds()
	if hpc.Unix(sec) < t {
		sec++
	}
	return sec
}

// FormatTime writes an instant as Slurm's commands do ("2024-03-01T08:00:00"), in UTC. It
// returns "" for the zero instant.
func FormatTime(t hpc.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Std().Format("2006-01-02T15:04:05")
}

// Given returns the text of a column of sacct, and "" for the words that mean "nothing".
func Given(text string) string {
	switch text {
	case "Unknown", "None", "None assigned":
		return ""
	}
	return text
}
