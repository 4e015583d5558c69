package question

import "time"

// Clock is the time of day of a zone for a reader who looks at a range of time. Before the range,
// clocks have the offset of its beginning, and after the range the offset of its end.
type Clock struct {
	Zone        *time.Location // nil for UTC
	From, Until time.Time
}

// mostChanges bounds how many changes of a clock's offset are followed. Two centuries have fewer.
const mostChanges = 500

// Offset is a clock's offset from UTC before an instant; positive east of Greenwich.
type Offset struct {
	Until   time.Time // zero for the last one
	Seconds int64
}

// Offsets returns the clock's offsets in their order.
func (c Clock) Offsets() (list []Offset) {
	zone, at := c.Zone, c.From
	if zone == nil {
		zone = time.UTC
	}
	for {
		_, offset := at.In(zone).Zone()
		_, end := at.In(zone).ZoneBounds()
		if end.IsZero() || end.After(c.Until) || len(list) == mostChanges {
			return append(list, Offset{Seconds: int64(offset)})
		}
		list = append(list, Offset{end, int64(offset)})
		at = end
	}
}

// Within reports whether all changes and offsets are multiples of a step.
func (c Clock) Within(step time.Duration) bool {
	seconds := int64(step / time.Second)
	for _, o := range c.Offsets() {
		if o.Seconds%seconds != 0 || !o.Until.IsZero() && o.Until.Unix()%seconds != 0 {
			return false
		}
	}
	return true
}

// WeekHour returns the hour of the week of an instant from 1970 on: 0 is Monday from 00:00 to 01:00.
func (c Clock) WeekHour(at time.Time) int64 {
	for _, o := range c.Offsets() {
		if o.Until.IsZero() || at.Before(o.Until) {
			return ((at.Unix()+o.Seconds)/3600 + 72) % 168 // 1970-01-01 was a Thursday
		}
	}
	return 0
}
