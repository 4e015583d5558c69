package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"rmreplay/internal/compare"
	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
)

// Numbers of the page are in one format: thousands have separators, a number and its unit
// stay on one line, and a duration names its two largest units.

const (
	// space keeps a number and its unit on one line.
	space = "\u00a0"
	// unknown stands for a number without a value.
	unknown = "–"
)

// count formats a whole number with separators of thousands: 28,475.
func count(n int) string {
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

// counted formats a number of things: 1 job, 28,475 jobs.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1" + space + one
	}
	return count(n) + space + many
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// decimal formats a number with three digits or more: 28,475, 193.8, 3.07, 0.0042.
func decimal(f metrics.Float) string {
	v := math.Abs(float64(f))
	switch {
	case !f.Known():
		return unknown
	case v >= 1e12:
		return fmt.Sprintf("%.3g", float64(f))
	case v == math.Trunc(v) || v >= 1000:
		return count(int(math.Round(float64(f))))
	}
	decimals := 2
	switch {
	case v >= 100:
		decimals = 1
	case v < 0.1:
		decimals = 1 - int(math.Floor(math.Log10(v)))
	}
	if decimals > 6 {
		return minus(fmt.Sprintf("%.2g", float64(f)))
	}
	return minus(strconv.FormatFloat(float64(f), 'f', decimals, 64))
}

// minus replaces the hyphen before a negative number by a minus sign.
func minus(text string) string {
	if rest, ok := strings.CutPrefix(text, "-"); ok {
		return "−" + rest
	}
	return text
}

// percent formats a ratio: 46.9 %.
func percent(f metrics.Float) string {
	if !f.Known() {
		return unknown
	}
	v := math.Round(1000*float64(f))/10 + 0 // without the sign of -0
	if math.Abs(v) >= 1000 {
		return decimal(metrics.Float(math.Round(v))) + space + "%"
	}
	return minus(strconv.FormatFloat(v, 'f', 1, 64)) + space + "%"
}

// share formats a part of a whole: 46.9 %.
func share(part, whole int) string { return percent(metrics.Float(float64(part) / float64(whole))) }

// duration formats seconds with their two largest units: 1 d 13 h, 44 min 35 s, 31.5 s.
func duration(f metrics.Float) string {
	if !f.Known() || math.Abs(float64(f)) > math.MaxInt64/1e9 {
		return unknown
	}
	sign, v := "", float64(f)
	if v < 0 {
		sign, v = "−", -v
	}
	tenths := math.Round(v * 10)
	if tenths < 600 {
		if v > 0 && v < 1 {
			return sign + decimal(metrics.Float(v)) + space + "s"
		}
		return sign + strconv.FormatFloat(tenths/10, 'f', -1, 64) + space + "s"
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
		return sign + count(round(s, day)/day) + space + "d"
	}
}

func round(n, to int) int { return (n + to/2) / to * to }

// twoUnits formats seconds in a large and a small unit. It leaves out zero small units.
func twoUnits(s, large int, largeName string, small int, smallName string) string {
	text := strconv.Itoa(s/large) + space + largeName
	if rest := s % large / small; rest > 0 {
		text += space + strconv.Itoa(rest) + space + smallName
	}
	return text
}

// signed puts a plus sign before the text of a positive number.
func signed(f metrics.Float, text string) string {
	if f.Known() && f > 0 && strings.ContainsAny(text, "123456789") {
		return "+" + text
	}
	return text
}

// signedPercent formats a relative difference: +12.3 %.
func signedPercent(f metrics.Float) string { return signed(f, percent(f)) }

// signedDuration formats a difference of durations: +1 h 5 min.
func signedDuration(f metrics.Float) string { return signed(f, duration(f)) }

// valueOf formats a value of a metric.
func valueOf(m *compare.Metric, f metrics.Float) string {
	switch {
	case m.Unit == "s":
		return duration(f)
	case m.Key == "utilization":
		return percent(f)
	}
	return decimal(f)
}

// differenceOf formats a difference of two values of a metric. A difference of percentages
// is in percentage points.
func differenceOf(m *compare.Metric, f metrics.Float) string {
	switch {
	case m.Unit == "s":
		return signedDuration(f)
	case m.Key == "utilization" && f.Known():
		return signed(f, minus(fmt.Sprintf("%.2f", 100*float64(f)))+space+"pp")
	}
	return signed(f, decimal(f))
}

// labelOf names a metric with its unit. Durations have their units in their values.
func labelOf(m *compare.Metric) string {
	if m.Unit == "" || m.Unit == "s" || strings.HasSuffix(m.Label, m.Unit) {
		return m.Label
	}
	return m.Label + " [" + m.Unit + "]"
}

// interval formats the ends of an interval.
func interval(format func(*compare.Metric, metrics.Float) string, m *compare.Metric, low, high metrics.Float) string {
	if !low.Known() || !high.Known() {
		return unknown
	}
	return format(m, low) + " to " + format(m, high)
}

func probability(p metrics.Float) string {
	switch {
	case !p.Known():
		return unknown
	case p < 0.001:
		return fmt.Sprintf("%.1e", float64(p))
	}
	return fmt.Sprintf("%.3f", float64(p))
}

// date formats an instant in a time zone: Tue 5 Mar 2024 14:07.
func date(t hpc.Time, zone *time.Location) string {
	if t == 0 {
		return unknown
	}
	return strings.ReplaceAll(t.Std().In(zone).Format("Mon 2 Jan 2006 15:04"), " ", space)
}

func dash(s string) string {
	if s == "" {
		return unknown
	}
	return s
}

// longestName is the number of characters of a name in texts and figures.
const longestName = 40

// name returns a name from a workload for texts and figures. It has no control characters,
// which could reverse the text around it, and it is not longer than a line.
func name(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
			return '\ufffd'
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
	if runes := []rune(s); len(runes) > longestName {
		s = string(runes[:longestName-1]) + "…"
	}
	return dash(s)
}
