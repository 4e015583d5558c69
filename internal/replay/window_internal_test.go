package replay

import (
	"testing"
	"time"

	"rmreplay/internal/hpc"
)

// What comes again on days of the week comes on those.
func TestUntilNext(t *testing.T) {
	for _, tt := range []struct {
		flag  string
		start time.Time
		want  []time.Weekday // of the next times
	}{
		{"WEEKDAY", time.Date(2026, 11, 19, 9, 0, 0, 0, time.UTC), []time.Weekday{time.Friday, time.Monday, time.Tuesday}},
		{"WEEKDAY", time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC), []time.Weekday{time.Monday}},
		{"WEEKEND", time.Date(2026, 11, 18, 9, 0, 0, 0, time.UTC), []time.Weekday{time.Saturday, time.Sunday, time.Saturday}},
		{"HOURLY", time.Date(2026, 11, 18, 22, 0, 0, 0, time.UTC), []time.Weekday{time.Wednesday, time.Thursday}},
	} {
		r := hpc.ReservationEvent{Reservation: hpc.Reservation{Start: hpc.Time(tt.start.UnixNano()), Flags: []string{tt.flag}}}
		for i, want := range tt.want {
			r.Start = r.Start.Add(untilNext(&r))
			if got := r.Start.Std().Weekday(); got != want {
				t.Errorf("%s from %s: %d. time is on a %s, want %s", tt.flag, tt.start, i+1, got, want)
			}
		}
	}
}
