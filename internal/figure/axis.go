package figure

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/quantity"

	"gonum.org/v1/plot"
)

// DateTicks are the ticks of an axis of instants, in seconds since 1970: round hours, days,
// Mondays, months or years in a time zone. A tick's label has the day or the year only if they
// differ from the previous tick's.
type DateTicks struct {
	Zone *time.Location
	Most int // number of dates that fit below the axis; 0 for ten
}

// calendarStep is a distance of ticks on the calendar. Only one of its units is not 0.
type calendarStep struct{ minutes, days, months int }

// calendarSteps are sorted. Steps of weeks begin on a Monday, and steps of months on the first day
// of a month.
var calendarSteps = []calendarStep{
	{minutes: 1}, {minutes: 2}, {minutes: 5}, {minutes: 10}, {minutes: 30}, {minutes: 60}, {minutes: 120}, {minutes: 180},
	{minutes: 360}, {minutes: 720},
	{days: 1}, {days: 2}, {days: 7}, {days: 14}, {months: 1}, {months: 2}, {months: 3}, {months: 6}, {months: 12},
	{months: 24}, {months: 60}, {months: 120},
}

// maxDates is the number of dates that fit below the axis of a [Wide] figure.
const maxDates = 10

// seconds is the length of a step.
func (s calendarStep) seconds() float64 {
	return float64(s.minutes)*60 + float64(s.days)*86400 + float64(s.months)*30.44*86400
}

// first returns the last round instant of the step that is not after t.
func (s calendarStep) first(t time.Time) time.Time {
	year, month, day := t.Date()
	switch {
	case s.months > 0:
		months := year*12 + int(month) - 1
		return time.Date(0, time.Month(months/s.months*s.months+1), 1, 0, 0, 0, 0, t.Location())
	case s.days > 0 && s.days%7 == 0:
		return time.Date(year, month, day-(int(t.Weekday())+6)%7, 0, 0, 0, 0, t.Location())
	case s.days > 0:
		return time.Date(year, month, day, 0, 0, 0, 0, t.Location())
	}
	return time.Date(year, month, day, 0, (t.Hour()*60+t.Minute())/s.minutes*s.minutes, 0, 0, t.Location())
}

// next returns the round instant of the step after t. t must be a round instant of the step. Hours
// stay round when daylight saving time begins or ends.
func (s calendarStep) next(t time.Time) time.Time {
	if s.months > 0 || s.days > 0 {
		return t.AddDate(0, s.months, s.days)
	}
	for after := s.minutes; ; after += min(s.minutes, 60) {
		if next := s.first(t.Add(time.Duration(after) * time.Minute)); next.After(t) {
			return next
		}
	}
}

// Ticks implements [plot.Ticker].
func (d DateTicks) Ticks(low, high float64) []plot.Tick {
	most := cmp.Or(d.Most, maxDates)
	step := calendarSteps[len(calendarSteps)-1]
	for _, s := range calendarSteps {
		if (high-low)/s.seconds() <= float64(most) {
			step = s
			break
		}
	}
	var ticks []plot.Tick
	var before time.Time
	for at := step.first(d.at(low)); len(ticks) <= 2*most && float64(at.Unix()) <= high; at = step.next(at) {
		if float64(at.Unix()) < low {
			continue
		}
		ticks = append(ticks, plot.Tick{Value: float64(at.Unix()), Label: step.label(at, before)})
		before = at
	}
	return ticks
}

func (d DateTicks) at(seconds float64) time.Time { return time.Unix(int64(seconds), 0).In(d.Zone) }

// label returns the label of a tick. Its second line has the day or the year if this changes.
func (s calendarStep) label(at, before time.Time) string {
	switch {
	case s.months >= 12:
		return at.Format("2006")
	case s.months > 0 && at.Year() != before.Year():
		return at.Format("Jan\n2006")
	case s.months > 0:
		return at.Format("Jan")
	case s.days > 0 && at.Year() != before.Year():
		return at.Format("2 Jan\n2006")
	case s.days > 0:
		return at.Format("2 Jan")
	case before.IsZero():
		return at.Format("15:04\n2 Jan 2006")
	case at.YearDay() != before.YearDay():
		return at.Format("15:04\n2 Jan")
	}
	return at.Format("15:04")
}

// DurationTicks are the ticks of a logarithmic axis of seconds, at common durations such as an hour
// or a day.
type DurationTicks struct{}

var roundDurations = []float64{
	1e-3, 1e-2, 0.1, 1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400, 365 * 86400, 3650 * 86400,
}

// Ticks implements [plot.Ticker].
func (DurationTicks) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for _, v := range roundDurations {
		if v >= low*0.999 && v <= high*1.001 {
			ticks = append(ticks, plot.Tick{Value: v, Label: quantity.Duration((v))})
		}
	}
	if ticks == nil {
		return ends(low, high, quantity.Duration)
	}
	return ticks
}

// ends returns ticks at both ends of an axis, for an axis without round values.
func ends(low, high float64, label func(float64) string) []plot.Tick {
	return []plot.Tick{{Value: low, Label: label(low)}, {Value: high, Label: label(high)}}
}

// signedScale is a scale for differences of all sizes. Like asinh, it is linear around 0 and
// logarithmic for larger values, so that small differences remain visible beside a large difference.
type signedScale struct{ unit float64 }

func (s signedScale) position(v float64) float64 { return math.Asinh(v / s.unit) }

// Normalize implements [plot.Normalizer].
func (s signedScale) Normalize(low, high, v float64) float64 {
	return (s.position(v) - s.position(low)) / (s.position(high) - s.position(low))
}

// signedTicks are ticks on both sides of 0 at given sizes. A size whose label would cover another
// label has no tick.
type signedTicks struct {
	signedScale
	sizes []float64 // ascending
	label func(float64) string
	most  int // the number of labels for which there is room
}

// Ticks implements [plot.Ticker].
func (t signedTicks) Ticks(low, high float64) []plot.Tick {
	ticks := []plot.Tick{{Value: 0, Label: t.label(0)}}
	if low > 0 || high < 0 {
		ticks = nil
	}
	apart := (t.position(high) - t.position(low)) / float64(t.most)
	for _, sign := range []float64{1, -1} {
		last := 0.0
		for _, size := range t.sizes {
			v := sign * size
			if v < low || v > high || math.Abs(t.position(v)-last) < apart {
				continue
			}
			last = t.position(v)
			ticks = append(ticks, plot.Tick{Value: v, Label: t.label(v)})
		}
	}
	return ticks
}

// plainMinus replaces the minus sign by a hyphen: the fonts of PDF files have no minus sign.
func plainMinus(text string) string { return strings.ReplaceAll(text, "−", "-") }

// DifferenceTicks are the ticks of differences of durations.
func DifferenceTicks() signedTicks {
	return signedTicks{signedScale{unit: 1}, []float64{1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400,
		365 * 86400},
		func(v float64) string { return plainMinus(quantity.SignedDuration((v))) }, 9}
}

// PercentTicks are the ticks of relative differences in per cent.
func PercentTicks() signedTicks {
	return signedTicks{signedScale{unit: 1}, []float64{1, 3, 10, 30, 100, 300, 1000, 1e4, 1e5, 1e6},
		func(v float64) string {
			if v == 0 {
				return "0"
			}
			return plainMinus(quantity.Signed((v), quantity.Count(int(v))))
		}, 16}
}

// roundTicks draws at most a given number of labelled ticks, at multiples of 1, 2 or 5 times a power
// of ten. gonum's default ticks sometimes have only two labels where there is room for eight.
type roundTicks struct{ most int }

// Ticks implements [plot.Ticker].
func (t roundTicks) Ticks(low, high float64) []plot.Tick {
	return ticksEvery(RoundStep(high-low, t.most), low, high)
}

// RoundStep returns the smallest round step that fits into a span at most the given number of
// times; 0 if the span is not positive.
func RoundStep(span float64, maxTicks int) float64 {
	if !(span > 0) || math.IsInf(span, 0) {
		return 0
	}
	for power := math.Pow(10, math.Floor(math.Log10(span/float64(maxTicks)))); ; power *= 10 {
		for _, factor := range []float64{1, 2, 5} {
			if step := factor * power; span/step <= float64(maxTicks) {
				return step
			}
		}
	}
}

// ticksEvery returns labelled ticks at the multiples of a step.
func ticksEvery(step, low, high float64) []plot.Tick {
	if step == 0 {
		return nil
	}
	decimals := max(0, int(math.Ceil(-math.Log10(step)-1e-9)))
	var ticks []plot.Tick
	for k := math.Ceil(low/step - 1e-9); k*step <= high+1e-9*step; k++ {
		value := k*step + 0 // converts -0 to 0
		ticks = append(ticks, plot.Tick{Value: value, Label: tickLabel(value, decimals)})
	}
	return ticks
}

// tickLabel formats the value of a tick. Large numbers have separators.
func tickLabel(value float64, decimals int) string {
	if decimals == 0 && math.Abs(value) < 1e15 {
		return plainMinus(quantity.Count(int(math.Round(value))))
	}
	return strconv.FormatFloat(value, 'f', decimals, 64)
}

// shareTicks are the ticks of an axis of shares.
type shareTicks struct{}

// Ticks implements [plot.Ticker].
func (shareTicks) Ticks(_, _ float64) []plot.Tick {
	var ticks []plot.Tick
	for i := range 5 {
		ticks = append(ticks, plot.Tick{Value: float64(i) / 4, Label: fmt.Sprintf("%d %%", 25*i)})
	}
	return ticks
}

// LogTicks are powers of ten, with minor ticks between them.
type LogTicks struct{}

// Ticks implements [plot.Ticker].
func (LogTicks) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for decade := math.Pow(10, math.Floor(math.Log10(low))); decade <= high; decade *= 10 {
		for k := 1.0; k < 10; k++ {
			v := decade * k
			if v < low*0.999 || v > high*1.001 {
				continue
			}
			label := ""
			if k == 1 {
				label = tickLabel(v, max(0, int(math.Ceil(-math.Log10(v)-1e-9))))
			}
			ticks = append(ticks, plot.Tick{Value: v, Label: label})
		}
	}
	if !slices.ContainsFunc(ticks, func(t plot.Tick) bool { return t.Label != "" }) {
		return ends(low, high, func(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) })
	}
	return ticks
}

// CellEdges are at most Most ticks at the lower edges of the cells of a heat map. The first tick is at the cell
// First.
type CellEdges struct {
	First, Cells, Most int
	Label              func(cell int) string
}

// Ticks implements [plot.Ticker].
func (e CellEdges) Ticks(_, _ float64) (ticks []plot.Tick) {
	every := (e.Cells + e.Most - 1) / e.Most
	for i := e.First; i < e.Cells; i += every {
		ticks = append(ticks, plot.Tick{Value: float64(i) - 0.5, Label: e.Label(i)})
	}
	return ticks
}

// CellNames are ticks at the centres of the cells of a heat map; a cell with an empty name has no
// tick.
type CellNames []string

// Ticks implements [plot.Ticker].
func (l CellNames) Ticks(_, _ float64) (ticks []plot.Tick) {
	for i, text := range l {
		if text != "" {
			ticks = append(ticks, plot.Tick{Value: float64(i), Label: text})
		}
	}
	return ticks
}

// HourTicks are the even hours of a day, 0 to 22.
type HourTicks struct{}

// Ticks implements [plot.Ticker].
func (HourTicks) Ticks(_, _ float64) []plot.Tick {
	var ticks []plot.Tick
	for h := 0; h < 24; h += 2 {
		ticks = append(ticks, plot.Tick{Value: float64(h), Label: fmt.Sprintf("%02d", h)})
	}
	return ticks
}

// RowTicks are ticks with the numbers of rows, from the top. The value is the number of rows.
type RowTicks int

// Ticks implements [plot.Ticker].
func (rows RowTicks) Ticks(_, _ float64) []plot.Tick {
	var ticks []plot.Tick
	for _, tick := range (plot.DefaultTicks{}).Ticks(0, float64(rows)) {
		if !tick.IsMinor() && tick.Value >= 0 && tick.Value <= float64(rows) {
			ticks = append(ticks, plot.Tick{Value: float64(rows) - tick.Value, Label: fmt.Sprintf("%.0f", tick.Value)})
		}
	}
	return ticks
}
