// Package quantity writes numbers, durations and dates for people. All output for people has one
// format: thousands have separators, a number and its unit stay on one line, and a duration names
// its two largest units.
package quantity

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"rmreplay/internal/hpc"
)

const (
	// Space keeps a number and its unit on one line.
	Space = "\u00a0"
	// Unknown is the text of a number without a value.
	Unknown = "–"
)

// Count formats a whole number with separators of thousands: 28,475.
func Count(n int) string {
	digits := strconv.Itoa(n)
	sign := ""
	if n < 0 {
		sign, digits = "−", digits[1:]
	}
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return sign + digits
}

// Counted formats a number of things: 1 job, 28,475 jobs.
func Counted(n int, one, many string) string {
	if n == 1 {
		return "1" + Space + one
	}
	return Count(n) + Space + many
}

// Regular writes a number without separators, and a noun whose plural ends in s: 1 job, 28475 jobs.
func Regular(n int, noun string) string { return fmt.Sprintf("%d %s", n, Plural(n, noun, noun+"s")) }

// Plural returns the form of a word for a number of things.
func Plural[N ~int | ~int32 | ~int64 | ~uint32](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Decimal formats a number with three digits or more: 28,475, 193.8, 3.07, 0.0042.
func Decimal[F ~float64](f F) string {
	v := math.Abs(float64(f))
	switch {
	case !known(f):
		return Unknown
	case v >= 1e12:
		return fmt.Sprintf("%.3g", float64(f))
	case v == math.Trunc(v) || v >= 1000:
		return Count(int(math.Round(float64(f))))
	}
	decimals := 2
	switch {
	case v >= 100:
		decimals = 1
	case v < 0.1:
		decimals = 1 - int(math.Floor(math.Log10(v)))
	}
	if v >= 1e-6 {
		decimals = min(decimals, 6)
	} else if decimals > 6 {
		return Minus(fmt.Sprintf("%.2g", float64(f)))
	}
	return Minus(strconv.FormatFloat(float64(f), 'f', decimals, 64))
}

// known reports whether a number has a value.
func known[F ~float64](f F) bool { return !math.IsNaN(float64(f)) && !math.IsInf(float64(f), 0) }

// Significant formats a number with three significant digits, or with all digits before the decimal point if it is 100
// or more: 5.76, 57.6, 5760. Numbers nearer to 0 than 0.0005 are "0". The text of a number without a value is "-".
func Significant[F ~float64](f F) string {
	decimals := 0
	if known(f) && math.Abs(float64(f)) >= 0.0005 {
		_, exponent, _ := strings.Cut(strconv.FormatFloat(float64(f), 'e', 2, 64), "e")
		tens, _ := strconv.Atoi(exponent) // always a number
		decimals = max(0, 2-tens)
	}
	return Format("%."+strconv.Itoa(decimals)+"f", f)
}

// Format formats a number with a verb of package fmt, without the sign of a zero. The text of a number without a
// value is "-".
func Format[F ~float64](format string, f F) string {
	if !known(f) {
		return "-"
	}
	text := fmt.Sprintf(format, float64(f))
	if rest, negative := strings.CutPrefix(text, "-"); negative && !strings.ContainsAny(rest, "123456789") {
		return rest
	}
	return text
}

// Minus replaces the hyphen before a negative number by a minus sign.
func Minus(text string) string {
	if rest, ok := strings.CutPrefix(text, "-"); ok {
		return "−" + rest
	}
	return text
}

// Percent formats a ratio: 46.9 %.
func Percent[F ~float64](f F) string {
	if !known(f) {
		return Unknown
	}
	v := math.Round(1000*float64(f))/10 + 0 // without the sign of -0
	if math.Abs(v) >= 1000 {
		return Decimal(float64(math.Round(v))) + Space + "%"
	}
	return Minus(strconv.FormatFloat(v, 'f', 1, 64)) + Space + "%"
}

// Share formats a part of a whole: 46.9 %.
func Share(part, whole int) string { return Percent(float64(float64(part) / float64(whole))) }

// Roughly formats seconds in one unit, the largest in which their number is at least 1: 1.5 d, 34.1 min, 8 s.
func Roughly(seconds float64) string {
	for _, unit := range []struct {
		seconds float64
		name    string
	}{{86400, "d"}, {3600, "h"}, {60, "min"}} {
		if n := seconds / unit.seconds; n >= 1 {
			return strings.TrimSuffix(strconv.FormatFloat(n, 'f', 1, 64), ".0") + Space + unit.name
		}
	}
	return strconv.FormatFloat(seconds, 'f', 0, 64) + Space + "s"
}

// Duration formats seconds with their two largest units: 1 d 13 h, 44 min 35 s, 31.5 s.
func Duration[F ~float64](f F) string {
	if !known(f) || math.Abs(float64(f)) > math.MaxInt64/1e9 {
		return Unknown
	}
	sign, v := "", float64(f)
	if v < 0 {
		sign, v = "−", -v
	}
	tenths := math.Round(v * 10)
	if tenths < 600 {
		if v > 0 && v < 1 {
			return sign + Decimal(float64(v)) + Space + "s"
		}
		return sign + strconv.FormatFloat(tenths/10, 'f', -1, 64) + Space + "s"
	}
	const minute, hour, day = 60, 3600, 86400
	switch s := int(math.Round(v)); {
	case s < hour:
		return sign + twoUnits(s, minute, "min", 1, "s")
	case round(s, minute) < day:
		return sign + twoUnits(round(s, minute), hour, "h", minute, "min")
	case round(s, hour) < 100*day:
		return sign + twoUnits(round(s, hour), day, "d", hour, "h")
	default:
		return sign + Count(round(s, day)/day) + Space + "d"
	}
}

func round(n, to int) int { return (n + to/2) / to * to }

// twoUnits formats seconds in a large and a small unit. A small unit of 0 is left
// out: 2 h, not 2 h 0 min.
func twoUnits(s, large int, largeName string, small int, smallName string) string {
	text := strconv.Itoa(s/large) + Space + largeName
	if rest := s % large / small; rest > 0 {
		text += Space + strconv.Itoa(rest) + Space + smallName
	}
	return text
}

// Signed puts a plus sign before the text of a positive number.
func Signed[F ~float64](f F, text string) string {
	if known(f) && f > 0 && strings.ContainsAny(text, "123456789") {
		return "+" + text
	}
	return text
}

// SignedPercent formats a relative difference: +12.3 %.
func SignedPercent[F ~float64](f F) string { return Signed(f, Percent(f)) }

// SignedDuration formats a difference of durations: +1 h 5 min.
func SignedDuration[F ~float64](f F) string { return Signed(f, Duration(f)) }

// Probability formats a p-value.
func Probability[F ~float64](p F) string {
	switch {
	case !known(p):
		return Unknown
	case p < 0.001:
		return fmt.Sprintf("%.1e", float64(p))
	}
	return fmt.Sprintf("%.3f", float64(p))
}

// Date formats an instant in a time zone: Tue 5 Mar 2024 14:07.
func Date(t hpc.Time, zone *time.Location) string { return format(t, zone, "Mon 2 Jan 2006 15:04") }

// Instant is [Date] with seconds.
func Instant(t hpc.Time, zone *time.Location) string {
	return format(t, zone, "Mon 2 Jan 2006 15:04:05")
}

func format(t hpc.Time, zone *time.Location, layout string) string {
	if t == 0 {
		return Unknown
	}
	return strings.ReplaceAll(t.Std().In(zone).Format(layout), " ", Space)
}

// OrUnknown returns a text, or [Unknown] if the text is empty.
func OrUnknown(s string) string {
	if s == "" {
		return Unknown
	}
	return s
}

// longestName is the largest number of characters of a [Name].
const longestName = 40

// Name returns a name from a workload for texts and figures. It has no control characters,
// which could reverse the text around it, and it is not longer than a line.
func Name(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
			return '\ufffd'
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
	if runes := []rune(s); len(runes) > longestName {
		s = string(runes[:longestName-1]) + "…"
	}
	return OrUnknown(s)
}

// Few returns the first n entries of a list, and the number of further entries, as text.
func Few(list []string, n int) string {
	if len(list) <= n {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:n], ", "), len(list)-n)
}
