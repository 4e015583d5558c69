package nodes

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestParseDelay(t *testing.T) {
	for _, tt := range []struct {
		spec, text string
		low, high  time.Duration // bounds of the random delay
	}{
		{"", "0s", 0, 0},
		{"0s", "0s", 0, 0},
		{"lognormal:0s,1e7", "0s", 0, 0},
		{"2s", "2s", 2 * time.Second, 2 * time.Second},
		{"00:00:02", "00:00:02", 2 * time.Second, 2 * time.Second},
		{"1.5m", "1.5m", 90 * time.Second, 90 * time.Second},
		{"uniform:1s,5s", "uniform:1s,5s", time.Second, 5 * time.Second},
		{"uniform:3s,3s", "uniform:3s,3s", 3 * time.Second, 3 * time.Second},
		{"exp:2s", "exp:2s", 0, time.Minute},
		{"lognormal:2s,0", "lognormal:2s,0", 2*time.Second - 1, 2 * time.Second},
	} {
		d, err := ParseDelay(tt.spec)
		if err != nil {
			t.Errorf("ParseDelay(%q): %v", tt.spec, err)
			continue
		}
		if d.String() != tt.text || d.IsZero() != (tt.high == 0) {
			t.Errorf("ParseDelay(%q) is %q, none: %v", tt.spec, d, d.IsZero())
		}
		delays := Delays{Seed: 1}
		for job := range uint32(200) {
			if got := delays.of(d, "launch", job, 0, "n1"); got < tt.low || got > tt.high {
				t.Fatalf("%q drew %v, want %v to %v", tt.spec, got, tt.low, tt.high)
			}
		}
	}
}

func TestParseDelayRefuses(t *testing.T) {
	for _, spec := range []string{
		"12:30", "soon", "-1s", ":", "2s,3s", ",", "constant:", "uniform:1s", "uniform:5s,1s", "uniform:1s,2s,3s", "uniform:,", "exp:", "exp:-1s",
		"exp:1s,2s", "lognormal:1s", "lognormal:1s,x", "lognormal:1s,-1", "lognormal:1s,1,1", "8761h", "exp:2562047h", "lognormal:1s,NaN", "lognormal:1s,Inf", "gauss:1s,1s",
	} {
		if d, err := ParseDelay(spec); err == nil {
			t.Errorf("ParseDelay(%q) = %v, want an error", spec, d)
		}
	}
}

// FuzzParseDelay checks that a distribution that can be read gives no negative delay, and that its
// String reads as the same distribution.
func FuzzParseDelay(f *testing.F) {
	for _, s := range []string{"", "2s", "uniform:1s,5s", "exp:2s", "lognormal:2s,0.5", "lognormal:2s,1e300", "exp:8760h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		d, err := ParseDelay(spec)
		if err != nil {
			return
		}
		again, err := ParseDelay(d.String())
		if err != nil || again.String() != d.String() {
			t.Fatalf("%q says that it is %q, which reads as %v, %v", spec, d, again, err)
		}
		delays := Delays{Seed: 7}
		for job := range uint32(20) {
			if got := delays.of(d, "epilog", job, 1, "n1"); got < 0 {
				t.Fatalf("%q drew %v", spec, got)
			}
		}
	})
}

// A random delay depends on the seed, its kind, the job, its restarts and the node, and on nothing
// else.
func TestDelaysAreReproducible(t *testing.T) {
	d, err := ParseDelay("uniform:0s,1000h")
	if err != nil {
		t.Fatal(err)
	}
	sample := func(seed uint64, kind string, job uint32, restarts int, node string) time.Duration {
		delays := Delays{Seed: seed}
		return delays.of(d, kind, job, restarts, node)
	}
	first := sample(1, "launch", 10, 0, "n1")
	if again := sample(1, "launch", 10, 0, "n1"); again != first {
		t.Errorf("the delay is %v and then %v", first, again)
	}
	others := []time.Duration{
		first, sample(2, "launch", 10, 0, "n1"), sample(1, "epilog", 10, 0, "n1"), sample(1, "launch", 11, 0, "n1"), sample(1, "launch", 10, 1, "n1"), sample(1, "launch", 10, 0, "n2"),
	}
	slices.Sort(others)
	if n := len(slices.Compact(others)); n != 6 {
		t.Errorf("%d of six delays differ, want all six", n)
	}
}

// Over many jobs, the mean delay is the mean of the distribution.
func TestDelayMeans(t *testing.T) {
	const n = 20000
	for spec, want := range map[string]float64{"uniform:1s,5s": 3, "exp:2s": 2, "lognormal:2s,0.5": 2 * math.Exp(0.125)} {
		d, err := ParseDelay(spec)
		if err != nil {
			t.Fatal(err)
		}
		delays, sum := Delays{Seed: 3}, 0.0
		for job := range uint32(n) {
			sum += delays.of(d, "launch", job, 0, "n1").Seconds()
		}
		if mean := sum / n; math.Abs(mean-want) > 0.05*want {
			t.Errorf("%s: mean %.3f s of %d delays, want %.3f", spec, mean, n, want)
		}
	}
}
