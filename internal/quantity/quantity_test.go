package quantity

import (
	"math"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
)

func TestNumbers(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		what, got, want string
	}{
		{"Count", Count(28475), "28,475"},
		{"Count", Count(-1234567), "−1,234,567"},
		{"Count", Count(999), "999"},
		{"Counted", Counted(1, "job", "jobs"), "1 job"},
		{"Counted", Counted(0, "job", "jobs"), "0 jobs"},
		{"Counted", Counted(1000, "job", "jobs"), "1,000 jobs"},
		{"Decimal", Decimal(float64(3.0712)), "3.07"},
		{"Decimal", Decimal(float64(193.82)), "193.8"},
		{"Decimal", Decimal(float64(12345.6)), "12,346"},
		{"Decimal", Decimal(float64(-0.0706)), "−0.071"},
		{"Decimal", Decimal(nan), "–"},
		{"Percent", Percent(float64(0.46888)), "46.9 %"},
		{"Percent", Percent(float64(-0.0001)), "0.0 %"},
		{"Percent", Percent(float64(123.4)), "12,340 %"},
		{"SignedPercent", SignedPercent(float64(0.0001)), "0.0 %"},
		{"SignedPercent", SignedPercent(float64(0.5)), "+50.0 %"},
		{"Duration", Duration(float64(0)), "0 s"},
		{"Duration", Duration(float64(0.25)), "0.25 s"},
		{"Duration", Duration(float64(31.5)), "31.5 s"},
		{"Duration", Duration(float64(59.96)), "1 min"},
		{"Duration", Duration(float64(2675)), "44 min 35 s"},
		{"Duration", Duration(float64(3599.6)), "1 h"},
		{"Duration", Duration(float64(3600)), "1 h"},
		{"Duration", Duration(float64(47829)), "13 h 17 min"},
		{"Duration", Duration(float64(86399)), "1 d"},
		{"Duration", Duration(float64(134209)), "1 d 13 h"},
		{"Duration", Duration(333 * 86400.0), "333 d"},
		{"Duration", Duration(float64(-90)), "−1 min 30 s"},
		{"Duration", Duration(nan), "–"},
		{"SignedDuration", SignedDuration(float64(3900)), "+1 h 5 min"},
		{"SignedDuration", SignedDuration(float64(0)), "0 s"},
		{"Date", Date(hpc.Unix(1_700_049_600), time.UTC), "Wed 15 Nov 2023 12:00"},
		{"Date", Date(0, time.UTC), "–"},
		{"Name", Name(""), "–"},
		{"Name", Name("a\u202eb\x00c"), "a\ufffdb\ufffdc"},
		{"Name", Name(strings.Repeat("x", 50)), strings.Repeat("x", 39) + "…"},
	} {
		if got := strings.ReplaceAll(c.got, Space, " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

// TestRoughly writes durations in their largest unit.
// TestFormat: a zero has no sign, and a number without a value is a hyphen.
func TestFormat(t *testing.T) {
	for want, f := range map[string]float64{"0 s": -0.4, "-3 s": -3, "5 s": 5, "-": math.NaN()} {
		if got := Format("%.0f s", f); got != want {
			t.Errorf("%v: %q, want %q", f, got, want)
		}
	}
}

func TestSignificant(t *testing.T) {
	for f, want := range map[float64]string{0: "0", 5.7642: "5.76", -2.953: "-2.95", 9.996: "10.0", 57.64: "57.6", 99.96: "100", 576.4: "576", 57642: "57642",
		0.0123: "0.0123", 1e-9: "0", -1e-9: "0", math.Inf(1): "-"} {
		if got := Significant(f); got != want {
			t.Errorf("%g: %s, want %s", f, got, want)
		}
	}
}

func TestRoughly(t *testing.T) {
	for seconds, want := range map[float64]string{0: "0 s", 8: "8 s", 60: "1 min", 2048: "34.1 min", 65536: "18.2 h", 129600: "1.5 d"} {
		if got := strings.ReplaceAll(Roughly(seconds), Space, " "); got != want {
			t.Errorf("%g s: %q, want %q", seconds, got, want)
		}
	}
}
