package flags

import (
	"testing"

	"github.com/spf13/pflag"
)

// Each flag of a number reads it as people write it, and keeps its own errors.
func TestNumbers(t *testing.T) {
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	whole, share, seed, memory := 0, 0.0, uint64(0), 0
	f.IntVar(&whole, "limit", 0, "")
	f.Float64Var(&share, "share", 0, "")
	f.Uint64Var(&seed, "seed", 0, "")
	Memory(f, &memory, "memory", 512, "")
	Numbers(f)
	Numbers(f) // the second call changes nothing
	if memory != 512 || f.Lookup("memory").DefValue != "512" {
		t.Errorf("memory %d by default, help %s", memory, f.Lookup("memory").DefValue)
	}
	for _, test := range []struct {
		flag, text string
		read       func() float64
		want       float64
	}{
		{"limit", "10k", func() float64 { return float64(whole) }, 10_000},
		{"limit", "1.5M", func() float64 { return float64(whole) }, 1_500_000},
		{"limit", "28,475", func() float64 { return float64(whole) }, 28_475},
		{"limit", "-3", func() float64 { return float64(whole) }, -3},
		{"share", "95%", func() float64 { return share }, 0.95},
		{"share", "0.5 %", func() float64 { return share }, 0.005},
		{"share", "0.25", func() float64 { return share }, 0.25},
		{"seed", "7", func() float64 { return float64(seed) }, 7},
		{"memory", "64", func() float64 { return float64(memory) }, 64},
		{"memory", "4G", func() float64 { return float64(memory) }, 4096},
		{"memory", "512MiB", func() float64 { return float64(memory) }, 512},
	} {
		if err := f.Set(test.flag, test.text); err != nil || test.read() != test.want {
			t.Errorf("--%s %s: %v, %v; want %v", test.flag, test.text, test.read(), err, test.want)
		}
	}
	for _, test := range [][2]string{
		{"limit", "few"}, {"limit", "1.5"}, {"limit", "1,2"}, {"limit", "0.0001k"}, {"limit", "k"}, {"limit", "1e30"}, {"limit", "5%"},
		{"share", "%"}, {"share", "half"}, {"seed", "10k"}, {"memory", "much"}, {"memory", "0.1"},
		{"share", "+20%"}, {"share", "+0.2"}, {"limit", "+5"},
	} {
		if err := f.Set(test[0], test[1]); err == nil {
			t.Errorf("--%s %s is taken", test[0], test[1])
		}
	}
}
