// Package jobjson has the JSON form of a job: what it asks for, how it behaves, and what became of
// it. The trace format and the run record both use it.
//
// Durations are decimal numbers of seconds with names that end in _s, memory is in MiB,
// and instants are RFC 3339. A reader also accepts an instant as seconds from the source's epoch.
// Fields that are not set are left out, except for run_time_s.
package jobjson

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"rmreplay/internal/hpc"
)

// Seconds is a duration written as a decimal number of seconds, exact to the
// nanosecond, or as "unlimited" for [hpc.Unlimited].
type Seconds time.Duration

// IsZero makes "omitzero" leave out a duration that is not set.
func (d Seconds) IsZero() bool { return d == 0 }

// MarshalJSON writes the duration.
func (d Seconds) MarshalJSON() ([]byte, error) { return d.append(nil), nil }

func (d Seconds) append(b []byte) []byte {
	if time.Duration(d) == hpc.Unlimited {
		return append(b, `"unlimited"`...)
	}
	return AppendSeconds(b, time.Duration(d))
}

// UnmarshalJSONFrom reads the duration.
func (d *Seconds) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	text, err := dec.ReadValue()
	if err != nil {
		return err
	}
	if string(text) == `"unlimited"` {
		*d = Seconds(hpc.Unlimited)
		return nil
	}
	n, err := ParseSeconds(string(text))
	if err != nil {
		return &valueError{string(text), `not a duration (want seconds or "unlimited")`}
	}
	*d = Seconds(n)
	return nil
}

// Instant is an hpc.Time written in RFC 3339. A number is read as seconds from the
// source's epoch. relative says that the epoch is not added yet.
type Instant struct {
	time     hpc.Time
	relative bool
}

// InstantOf returns a known instant.
func InstantOf(t hpc.Time) Instant { return Instant{time: t} }

// IsZero makes "omitzero" leave out an instant that is not set.
func (t Instant) IsZero() bool { return t.time == 0 && !t.relative }

// Relative reports whether the instant counts from an epoch.
func (t Instant) Relative() bool { return t.relative }

// MarshalJSON writes the instant.
func (t Instant) MarshalJSON() ([]byte, error) { return t.append(nil), nil }

func (t Instant) append(b []byte) []byte {
	b = t.time.Std().AppendFormat(append(b, '"'), time.RFC3339Nano)
	return append(b, '"')
}

// UnmarshalJSONFrom reads the instant.
func (t *Instant) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	text, err := dec.ReadValue()
	if err != nil {
		return err
	}
	if len(text) > 1 && text[0] == '"' {
		at, err := hpc.ParseDateTime(string(text[1 : len(text)-1]))
		if err == nil {
			*t = Instant{time: at}
			return nil
		}
	} else if d, err := ParseSeconds(string(text)); err == nil {
		*t = Instant{time: hpc.Time(d), relative: true}
		return nil
	}
	return &valueError{string(text), `not a time (want "2024-03-01T08:00:00Z", or seconds from the epoch)`}
}

// At returns the instant. A relative instant counts from the epoch.
func (t Instant) At(epoch *Epoch) hpc.Time {
	if !t.relative {
		return t.time
	}
	epoch.Used = true
	return epoch.Time.Add(time.Duration(t.time))
}

// Epoch is the instant from which the relative instants of a source count.
type Epoch struct {
	Time hpc.Time
	Used bool // At was called for a relative instant
}

// AppendSeconds writes a duration as decimal seconds without trailing zeros.
func AppendSeconds(b []byte, d time.Duration) []byte {
	n := int64(d)
	if n < 0 {
		b = append(b, '-')
	}
	whole, fraction := n/int64(time.Second), n%int64(time.Second)
	b = strconv.AppendUint(b, magnitude(whole), 10)
	if fraction == 0 {
		return b
	}
	digits := strconv.FormatUint(magnitude(fraction)+uint64(time.Second), 10)[1:]
	return append(append(b, '.'), strings.TrimRight(digits, "0")...)
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return uint64(-n)
	}
	return uint64(n)
}

var errNotSeconds = errors.New("not seconds")

// ParseSeconds reads decimal seconds exactly, without a float. Digits beyond the nanosecond are
// an error, and so is a number that a duration cannot hold.
func ParseSeconds(s string) (time.Duration, error) {
	unsigned, negative := strings.CutPrefix(s, "-")
	whole, fraction, hasFraction := strings.Cut(unsigned, ".")
	if whole == "" || len(fraction) > 9 || hasFraction && fraction == "" {
		return 0, errNotSeconds
	}
	sec, err := strconv.ParseUint(whole, 10, 63)
	if err != nil || sec > uint64(hpc.Unlimited/time.Second)-1 {
		return 0, errNotSeconds
	}
	var nanos uint64
	if hasFraction {
		if nanos, err = strconv.ParseUint(fraction+"000000000"[len(fraction):], 10, 63); err != nil {
			return 0, errNotSeconds
		}
	}
	d := time.Duration(sec)*time.Second + time.Duration(nanos)
	if negative {
		d = -d
	}
	return d, nil
}
