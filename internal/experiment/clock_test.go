package experiment

import "testing"

func TestParseClock(t *testing.T) {
	for _, tt := range []struct {
		model string
		want  float64
		bad   bool
	}{
		{"frozen", 0, false}, {"measured", 1, false}, {"measured=1.5", 1.5, false}, {"measured=20", 20, false},
		{"", 0, true}, {"frozen=1", 0, true}, {"measured=", 0, true}, {"measured=0", 0, true}, {"measured=-1", 0, true},
		{"measured=NaN", 0, true}, {"measured=Inf", 0, true}, {"real", 0, true},
	} {
		got, err := ParseClock(tt.model)
		if (err != nil) != tt.bad || got != tt.want {
			t.Errorf("%q: %v, %v; want %v", tt.model, got, err, tt.want)
		}
		if err == nil {
			if c := describeClock(got); (c.Model == "frozen") != (got == 0) || c.Factor != got {
				t.Errorf("%q is recorded as %+v", tt.model, c)
			}
		}
	}
}
