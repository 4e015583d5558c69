package figure

import (
	"strings"
	"testing"
	"time"

	"gonum.org/v1/plot"
)

// Ticks are at round dates of the zone, also where clocks change, and name each day once.
func TestDateTicks(t *testing.T) {
	zurich, err := time.LoadLocation("Europe/Zurich")
	if err != nil {
		t.Skipf("SKIPPED: no time zones: %v", err)
	}
	for name, c := range map[string]struct {
		from   string
		length time.Duration
		zone   *time.Location
		want   string
	}{
		"hours":               {"2024-03-05T00:06:00Z", 37 * time.Hour, time.UTC, "06:00/5 Mar 2024 12:00 18:00 00:00/6 Mar 06:00 12:00"},
		"minutes":             {"2024-03-05T00:06:00Z", 40 * time.Minute, time.UTC, "00:10/5 Mar 2024 00:15 00:20 00:25 00:30 00:35 00:40 00:45"},
		"clocks are put on":   {"2024-03-30T12:00:00Z", 36 * time.Hour, zurich, "18:00/30 Mar 2024 00:00/31 Mar 06:00 12:00 18:00 00:00/1 Apr"},
		"clocks are put back": {"2024-10-26T16:00:00Z", 24 * time.Hour, zurich, "18:00/26 Oct 2024 21:00 00:00/27 Oct 03:00 06:00 09:00 12:00 15:00"},
		"days":                {"2024-03-05T12:00:00Z", 8 * 24 * time.Hour, time.UTC, "6 Mar/2024 7 Mar 8 Mar 9 Mar 10 Mar 11 Mar 12 Mar 13 Mar"},
		"Mondays":             {"2024-03-05T00:00:00Z", 60 * 24 * time.Hour, time.UTC, "11 Mar/2024 18 Mar 25 Mar 1 Apr 8 Apr 15 Apr 22 Apr 29 Apr"},
		"months":              {"1996-09-30T10:38:00Z", 333 * 24 * time.Hour, time.UTC, "Nov/1996 Jan/1997 Mar May Jul"},
		"years":               {"1990-01-01T00:00:00Z", 8 * 366 * 24 * time.Hour, time.UTC, "1990 1991 1992 1993 1994 1995 1996 1997 1998"},
	} {
		t.Run(name, func(t *testing.T) {
			from, err := time.Parse(time.RFC3339, c.from)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, tick := range (DateTicks{Zone: c.zone}).Ticks(float64(from.Unix()), float64(from.Add(c.length).Unix())) {
				got = append(got, strings.ReplaceAll(tick.Label, "\n", "/"))
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("%s\nwant\n%s", text, c.want)
			}
		})
	}
}

// One large difference leaves room for small differences, and their order stays.
func TestSignedScale(t *testing.T) {
	s := signedScale{unit: 1}
	const low, high = -10, 1e7
	before := -1.0
	for _, v := range []float64{-10, -1, 0, 1, 60, 3600, 86400, 1e7} {
		at := s.Normalize(low, high, v)
		if at <= before || at > 1 {
			t.Errorf("%v is at %v, after %v", v, at, before)
		}
		before = at
	}
	if at, zero := s.Normalize(low, high, 60), s.Normalize(low, high, 0); at-zero < 0.15 {
		t.Errorf("a minute is at %v and 0 at %v: a difference of months flattens it", at, zero)
	}
	labels := 0
	for _, tick := range DifferenceTicks().Ticks(low, high) {
		if tick.Label != "" {
			labels++
		}
	}
	if labels < 4 || labels > 12 {
		t.Errorf("%d labels", labels)
	}
}

// TestEnds checks that an axis without a round value still has two ticks.
func TestEnds(t *testing.T) {
	for name, ticks := range map[string][]plot.Tick{"durations": DurationTicks{}.Ticks(15, 25), "powers": LogTicks{}.Ticks(1.2, 1.8), "minor ones": LogTicks{}.Ticks(2, 8)} {
		if len(ticks) != 2 || ticks[0].Label == "" || ticks[1].Label == "" {
			t.Errorf("%s: %v", name, ticks)
		}
	}
}
