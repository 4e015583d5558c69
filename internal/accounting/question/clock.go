package question

import "time"

// Clock computes the time of day in a zone, for a reader who looks at a range of time. Before the
// range it uses the UTC offset of the range's beginning, and after the range the offset of the
// range's end.
type Clock struct {
	Zone        *time.Location // nil for UTC
	From, Until time.Time
}

// maxChanges bounds the number of offset changes that Offsets returns. Two centuries have fewer.
const maxChanges = 500

// Offset is a clock's offset from UTC until an instant. It is positive east of Greenwich.
type Offset struct {
	Until   time.Time // zero for the last offset
	Seconds int64
}

// Offsets returns the clock's offsets in order of time.
func (c Clock) Offsets() (list []Offset) {
	zone, at := c.Zone, c.From
	if zone == nil {
		zone = time.UTC
	}
	for {
		_, offset := at.In(zone).Zone()
		_, end := at.In(zone).ZoneBounds()
		if end.IsZero() || end.After(c.Until) || len(list) == maxChanges {
			return append(list, Offset{Seconds: int64(offset)})
		}
		list = append(list, Offset{end, int64(offset)})
		at = end
	}
}

// Within reports whether every offset, and every instant at which the offset changes, is a
// multiple of step. step is a whole number of seconds.
func (c Clock) Within(step time.Duration) bool {
	seconds := int64(step / time.Second)
	for _, o := range c.Offsets() {
		if o.Seconds%seconds != 0 || !o.Until.IsZero() && o.Until.Unix()%seconds != 0 {
			return false
		}
	}
	return true
}

// WeekHour returns the hour of the week of an instant since 1970: 0 is Monday from 00:00 to 01:00.
func (c Clock) WeekHour(at time.Time) int64 {
	for _, o := range c.Offsets() {
		if o.Until.IsZero() || at.Before(o.Until) {
			return ((at.Unix()+o.Seconds)/3600 + 72) % 168 // 1970-01-01 was a Thursday
		}
	}
	return 0
}
