package slurmspec

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
)

// LastInstant is the latest instant that a reader accepts, in seconds since the Unix epoch:
// 2200-01-01. A later instant is a mistake of a clock, and sums of times must not overflow.
const LastInstant = 7258118400

// lastYear is the last year of an instant that is written with a date.
const lastYear = 2200

// ParseInstant is [ParseTime] for an instant that must be known. Words for an unknown time
// are an error. The error says what would be right.
func ParseInstant(text string, zone *time.Location) (hpc.Time, error) {
	if at, ok := isoTime([]byte(text), zone); ok {
		return at, nil
	}
	t, err := otherTime(text, zone)
	if err == nil && t == 0 {
		err = errNotTime
	}
	return t, err
}

var errNotTime = errors.New("not a time (want 2024-03-01T08:00:00, or seconds since 1970)")

// ParseTime reads an instant as Slurm's commands print it. It is in ISO 8601 with or without a zone,
// with a T or a blank before the hour, or in seconds since 1970 (SLURM_TIME_FORMAT=%s). An instant
// without a zone is in the given zone. ParseTime returns 0 for the words that mean an unknown time.
func ParseTime(text []byte, zone *time.Location) (hpc.Time, error) {
	if t, ok := isoTime(text, zone); ok {
		return t, nil
	}
	return otherTime(string(text), zone)
}

// isoTime reads sacct's default form, "2024-03-01T08:00:00". It reads the digits itself,
// because a dump has three instants a line and time.Parse would take most of the reading.
func isoTime(text []byte, zone *time.Location) (hpc.Time, bool) {
	if len(text) != 19 || text[4] != '-' || text[7] != '-' || text[10] != 'T' && text[10] != ' ' || text[13] != ':' ||
		text[16] != ':' {
		return 0, false
	}
	ok := true
	number := func(from, to int) int {
		n := 0
		for _, c := range text[from:to] {
			ok = ok && c >= '0' && c <= '9'
			n = 10*n + int(c-'0')
		}
		return n
	}
	year, month, day := number(0, 4), number(5, 7), number(8, 10)
	hour, minute, second := number(11, 13), number(14, 16), number(17, 19)
	if !ok || year < 1970 || year > lastYear || month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 ||
		minute > 59 || second > 60 {
		return 0, false
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, 0, zone)
	if t.Day() != day && second < 60 && hour < 23 {
		return 0, false // February 30
	}
	return hpc.Unix(t.Unix()), true
}

// otherTime reads all other forms.
func otherTime(text string, zone *time.Location) (hpc.Time, error) {
	switch text = strings.TrimSpace(text); text {
	case "", "Unknown", "None", "N/A", "INVALID", "0":
		return 0, nil
	}
	if sec, err := strconv.ParseInt(text, 10, 64); err == nil {
		if sec < 0 || sec > LastInstant {
			return 0, errNotTime
		}
		return hpc.Unix(sec), nil
	}
	for _, layout := range []string{
		time.RFC3339, "2006-01-02T15:04:05-0700", "2006-01-02 15:04:05-07:00", "2006-01-02T15:04", "2006-01-02 15:04",
		"2006-01-02",
		"2006-01-02T15:04:05.999999999",
	} {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil && t.Year() >= 1970 && t.Year() <= lastYear {
			return hpc.Time(t.UnixNano()), nil
		}
	}
	return 0, errNotTime
}
