package jobjson

import (
	"testing"
	"time"
)

func TestSeconds(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 1: "0.000000001", -1: "-0.000000001", 1500000000: "1.5", -61e9: "-61", 1<<62 + 1: "4611686018.427387905"} {
		got := string(AppendSeconds(nil, time.Duration(n)))
		back, err := ParseSeconds(got)
		if got != want || int64(back) != n || err != nil {
			t.Errorf("%d: %s, and back %d, %v; want %s", n, got, back, err, want)
		}
	}
	for _, s := range []string{"", "-", ".5", "5.", "1.0000000001", "99999999999", "0x1", "1_0", "+1", "--1"} {
		if n, err := ParseSeconds(s); err == nil {
			t.Errorf("%q: %d, want an error", s, n)
		}
	}
}
