package sbatch

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
)

var errInstant = errors.New("not a time (want now+1hour, HH:MM, MM/DD/YY or YYYY-MM-DD[THH:MM[:SS]])")

// deltaUnits are the units of "now+COUNT UNIT". The user may also write their plurals.
var deltaUnits = []struct {
	name string
	unit time.Duration
}{
	{"second", time.Second}, {"minute", time.Minute}, {"hour", time.Hour},
	{"day", 24 * time.Hour}, {"week", 7 * 24 * time.Hour}, {"", time.Second},
}

// clockNames are the times of day that have names in Slurm, in hours.
var clockNames = map[string]int{"midnight": 0, "noon": 12, "fika": 15, "teatime": 16}

// parseInstant reads an instant as --begin and --deadline do (parse_time in parse_time.c), for a
// user who types it at the instant now, in UTC. A time of day without a date means its next
// occurrence, and a date without a year means its next occurrence.
func parseInstant(s string, now hpc.Time) (hpc.Time, error) {
	if len(s) > 3 && strings.EqualFold(s[:3], "uts") {
		n, err := strconv.ParseInt(s[3:], 10, 64)
		if err != nil || n < 1000000 || n > 1<<33 {
			return 0, errInstant
		}
		return hpc.Unix(n), nil
	}
	text := strings.ToLower(strings.TrimSpace(s))
	if rest, ok := strings.CutPrefix(text, "now"); ok {
		d, err := parseDelta(rest)
		return now.Add(d), err
	}
	return parseCalendar(text, now)
}

// parseDelta reads the text after "now": nothing, or a sign, a count and a unit.
func parseDelta(s string) (time.Duration, error) {
	s = strings.ReplaceAll(s, " ", "")
	if s == "" {
		return 0, nil
	}
	sign := time.Duration(1)
	switch s[0] {
	case '-':
		sign = -1
	case '+':
	default:
		return 0, errInstant
	}
	s = s[1:]
	digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
	count, err := strconv.ParseInt(s[:digits], 10, 32)
	if err != nil {
		return 0, errInstant
	}
	for _, u := range deltaUnits {
		if s[digits:] == u.name || u.name != "" && s[digits:] == u.name+"s" {
			if count > int64(slurmspec.MaxSeconds)/int64(u.unit/time.Second) {
				return 0, errInstant
			}
			return sign * time.Duration(count) * u.unit, nil
		}
	}
	return 0, errInstant
}

// parseCalendar reads a date, a time of day, or both in either order.
func parseCalendar(text string, now hpc.Time) (hpc.Time, error) {
	var (
		date, clock         time.Time
		hasDate, hasClock   bool
		hasYear             = true
		today               = now.Std().Truncate(24 * time.Hour)
		isoDateTime         = len(text) > 10 && text[4] == '-' && text[10] == 't'
		words, sawMeridiems = strings.Fields(text), false
	)
	if isoDateTime {
		words = []string{text[:10], text[11:]}
	}
	for i, word := range words {
		if sawMeridiems {
			sawMeridiems = false
			continue
		}
		if i+1 < len(words) && (words[i+1] == "am" || words[i+1] == "pm") {
			word += words[i+1]
			sawMeridiems = true
		}
		if at, ok := parseClock(word); ok && !hasClock {
			clock, hasClock = at, true
			continue
		}
		day, year, ok := parseDay(word, today)
		if !ok || hasDate {
			return 0, errInstant
		}
		date, hasYear, hasDate = day, year, true
	}
	if !hasDate && !hasClock {
		return 0, errInstant
	}
	ofDay := time.Duration(clock.Hour())*time.Hour + time.Duration(clock.Minute())*time.Minute +
		time.Duration(clock.Second())*time.Second
	return nextInstant(date, ofDay, hasDate, hasYear, now), nil
}

// nextInstant completes an instant without a date, or without a year, to the next one after the
// instant now. Slurm compares whole minutes.
func nextInstant(date time.Time, ofDay time.Duration, hasDate, hasYear bool, now hpc.Time) hpc.Time {
	minute := now.Std().Truncate(time.Minute)
	if !hasDate {
		date = now.Std().Truncate(24 * time.Hour)
		if !date.Add(ofDay).Truncate(time.Minute).After(minute) {
			date = date.AddDate(0, 0, 1)
		}
	} else if !hasYear && !date.Add(ofDay).Truncate(time.Minute).After(minute) {
		date = date.AddDate(1, 0, 0)
	}
	return hpc.Time(date.Add(ofDay).UnixNano())
}

func parseClock(word string) (time.Time, bool) {
	if hour, ok := clockNames[word]; ok {
		return time.Date(0, 1, 1, hour, 0, 0, 0, time.UTC), true
	}
	for _, layout := range []string{"15:04", "15:04:05", "3:04pm", "3:04:05pm"} {
		if t, err := time.Parse(layout, word); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// parseDay reads a date. year is false if the date has no year, and parseDay took the current
// year.
func parseDay(word string, today time.Time) (day time.Time, year, ok bool) {
	switch word {
	case "today":
		return today, true, true
	case "tomorrow":
		return today.AddDate(0, 0, 1), true, true
	}
	for _, layout := range []string{"2006-1-2", "1/2/06", "1.2.06", "010206"} {
		if t, err := time.Parse(layout, word); err == nil {
			if layout != "2006-1-2" && t.Year() < 2000 {
				t = t.AddDate(100, 0, 0) // a year of two digits is of this century
			}
			return t, true, true
		}
	}
	for _, layout := range []string{"1/2", "1.2", "0102"} {
		if t, err := time.Parse(layout, word); err == nil {
			return time.Date(today.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC), false, true
		}
	}
	return time.Time{}, false, false
}
