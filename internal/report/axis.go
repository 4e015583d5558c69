package report

import (
	"math"
	"time"

	"gonum.org/v1/plot"
)

// dateTicks are the ticks of an axis of instants, in seconds since 1970: round hours or days in
// a time zone.
type dateTicks struct{ zone *time.Location }

// Ticks implements [plot.Ticker].
func (t dateTicks) Ticks(low, high float64) []plot.Tick {
	const most = 7
	hours := []float64{1.0 / 60, 1.0 / 12, 0.5, 1, 2, 3, 6, 12, 24, 48, 168, 336, 672, 2016, 8760}
	step, format := hours[len(hours)-1], "2006-01-02"
	for _, h := range hours {
		if (high-low)/3600 <= h*most {
			step = h
			break
		}
	}
	if step < 24 {
		format = "2 Jan 15:04"
	}
	year, month, day := time.Unix(int64(low), 0).In(t.zone).Date()
	var ticks []plot.Tick
	for k := 0; ; k++ {
		// Days count by the calendar, because not all of them have 24 hours.
		minutes := int(math.Round(float64(k) * step * 60))
		at := time.Date(year, month, day, 0, minutes, 0, 0, t.zone)
		x := float64(at.Unix())
		if x > high {
			return ticks
		}
		if x >= low {
			ticks = append(ticks, plot.Tick{Value: x, Label: at.Format(format)})
		}
	}
}
