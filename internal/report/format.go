package report

import (
	"fmt"
	"strings"

	"rmreplay/internal/compare"
	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
)

// valueOf formats a value of a metric.
func valueOf(m *compare.Metric, f metrics.Float) string {
	switch {
	case m.Unit == "s":
		return quantity.Duration(f)
	case metrics.IsShare(m.Key):
		return quantity.Percent(f)
	}
	return quantity.Decimal(f)
}

// differenceOf formats a difference of two values of a metric. A difference of percentages
// is in percentage points.
func differenceOf(m *compare.Metric, f metrics.Float) string {
	switch {
	case m.Unit == "s":
		return quantity.SignedDuration(f)
	case metrics.IsShare(m.Key) && f.Known():
		return quantity.Signed(f, quantity.Minus(fmt.Sprintf("%.2f", 100*float64(f)))+quantity.Space+"pp")
	}
	return quantity.Signed(f, quantity.Decimal(f))
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
		return quantity.Unknown
	}
	return format(m, low) + " to " + format(m, high)
}
