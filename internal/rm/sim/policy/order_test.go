package policy

import (
	"math"
	"testing"
)

// TestLearnedConstants compares the constants of F1 to F4 with the constants of the public simulator of
// Carastan-Santos and de Camargo (github.com/fredgrub/scheduling-simulator, src/tester). Their paper
// prints them with three digits (SC'17, table 3). The simulator has the fitted function a·f(r) × b·g(n)
// + c·log10(s). Divided by a·b, this is the printed function, which orders jobs in the same way.
func TestLearnedConstants(t *testing.T) {
	for _, tt := range []struct {
		name    string
		a, b, c float64
	}{
		{"f1", 0.0155183403, 0.0005149209, 0.0069596182},
		{"f2", 0.0000342717, 0.0076562110, 0.0067364626},
		{"f3", 0.2188093701, 0.0000000049, 0.0073580361},
		{"f4", 0.0056500287, 0.0000024814, 0.0074444355},
	} {
		key := orderNamed(t, tt.name).key
		// If the submit time is ten times as large, the key grows by the constant.
		got := key(facts{r: 7200, n: 16, s: 10000}) - key(facts{r: 7200, n: 16, s: 1000})
		fitted := tt.c / (tt.a * tt.b)
		if math.Abs(got/fitted-1) > 0.003 {
			t.Errorf("%s: %g, want %g to three digits", tt.name, got, fitted)
		}
	}
}

// TestKeys checks the keys of one job, computed by hand: 2 h on 16 processors, submitted 1000 s
// after the beginning, after a wait of 4 h.
func TestKeys(t *testing.T) {
	job := facts{r: 7200, n: 16, s: 1000, w: 14400}
	for name, want := range map[string]float64{
		"sjf": 7200, "ljf": -7200, "saf": 115200, "laf": -115200,
		"wfp3":   -128, // -2^3 x 16
		"unicef": -0.5, // -14400 / (4 x 7200)
		"f1":     2671.717, "f2": 78157.645, "f3": 20695200, "f4": 1618800,
	} {
		if got := orderNamed(t, name).key(job); math.Abs(got-want) > 0.001 {
			t.Errorf("%s: %.3f, want %.3f", name, got, want)
		}
	}
	if got := unicef(facts{r: 7200, n: 1, s: 1000}); !math.IsInf(got, -1) {
		t.Errorf("unicef of one processor: %g, want it before all others", got)
	}
}

func orderNamed(t *testing.T, name string) order {
	t.Helper()
	for _, o := range orders {
		if o.name == name {
			return o
		}
	}
	t.Fatalf("no order %s", name)
	return order{}
}
