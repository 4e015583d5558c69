// Package hpc has the types of batch scheduling that all other packages use: times, jobs, nodes,
// reservations, users. They are plain data: the package does no I/O, and its only logic is
// arithmetic and the parsing of single values.
//
// Unless a comment says otherwise, durations are [time.Duration], instants are [Time], memory is
// in MiB, and every other number is a count.
package hpc

import (
	"fmt"
	"time"
)

// Time is an instant of virtual (or recorded) time in nanoseconds since the
// Unix epoch, UTC. The zero Time means "not set".
type Time int64

// Second is the resolution at which Slurm records times.
const Second = Time(time.Second)

// Unix returns the instant of the given seconds since the Unix epoch.
func Unix(sec int64) Time { return Time(sec) * Second }

// Add returns t shifted by d. It returns [Never] if the sum exceeds the largest Time.
func (t Time) Add(d time.Duration) Time {
	sum := t + Time(d)
	if d > 0 && sum < t {
		return Never
	}
	return sum
}

// Sub returns the duration from u to t.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Seconds returns t in seconds since the Unix epoch.
func (t Time) Seconds() float64 { return float64(t) / float64(Second) }

// UnixSeconds returns t in whole seconds since the Unix epoch, rounded down.
func (t Time) UnixSeconds() int64 {
	s := int64(t / Second)
	if t%Second < 0 {
		s--
	}
	return s
}

// IsZero reports whether t is not set.
func (t Time) IsZero() bool { return t == 0 }

// Std returns t as a UTC [time.Time].
func (t Time) Std() time.Time { return time.Unix(0, int64(t)).UTC() }

// String formats t as RFC 3339 in UTC, with a fraction of a second only if that is not 0.
func (t Time) String() string { return t.Text(time.UTC) }

// Text is [Time.String] in another time zone: 2024-03-05T13:00:00+01:00.
func (t Time) Text(zone *time.Location) string {
	if t.IsZero() {
		return "unset"
	}
	return t.Std().In(zone).Format(time.RFC3339Nano)
}

// Never is after every other instant.
const Never = Time(1<<63 - 1)

// ParseTime reads a time in one of the forms of [ParseDateTime], or as seconds since the
// Unix epoch. The error says which forms are accepted.
func ParseTime(s string) (Time, error) {
	if t, err := ParseDateTime(s); err == nil {
		return t, nil
	}
	var sec float64
	if n, err := fmt.Sscanf(s+"\n", "%g\n", &sec); n == 1 && err == nil {
		return Time(sec * float64(Second)), nil
	}
	return 0, fmt.Errorf("%q: not a time (want 2024-03-01T08:00:00Z or seconds since 1970)", s)
}

// ParseDateTime reads RFC 3339 ("2024-03-01T08:00:00Z"). A time without a zone, as sacct prints it, is in UTC.
// ParseDateTime accepts the years 1678 to 2262, the range of [Time]. The error says which form is wanted.
func ParseDateTime(s string) (Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02T15:04"} {
		if t, err := time.Parse(layout, s); err == nil && Time(t.UnixNano()).Std().Equal(t) {
			return Time(t.UnixNano()), nil
		}
	}
	return 0, fmt.Errorf("%q: not a time (want 2024-03-01T08:00:00Z)", s)
}
