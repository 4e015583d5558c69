package extended

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestBig compares sums, products and quotients with those of package big at 64 bits.
func TestBig(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	number := func() Float {
		m := random.Uint64() | 1<<63
		switch random.IntN(4) {
		case 0:
			m &= 0xffff << 48 // numbers with few bits produce ties in rounding
		case 1:
			m |= 0xffffffffffff
		}
		return Float{m, int32(random.IntN(140)) - 70}
	}
	for range 300_000 {
		a, b := number(), number()
		x, y := exact(a), exact(b)
		for name, c := range map[string]struct {
			got  Float
			want *big.Float
		}{
			"+": {a.Add(b), fresh().Add(x, y)}, "*": {a.Mul(b), fresh().Mul(x, y)}, "/": {a.Quo(b), fresh().Quo(x, y)},
		} {
			if exact(c.got).Cmp(c.want) != 0 {
				t.Fatalf("%v %s %v: got %v, want %v", x, name, y, exact(c.got), c.want)
			}
		}
		if got, want := a.Compare(b), x.Cmp(y); got != want {
			t.Fatalf("%v and %v compare as %d, want %d", x, y, got, want)
		}
		if got, _ := x.Float64(); a.Float64() != got {
			t.Fatalf("%v is %v, want %v", x, a.Float64(), got)
		}
	}
}

func fresh() *big.Float { return new(big.Float).SetPrec(64) }

func exact(f Float) *big.Float {
	m := fresh().SetUint64(f.mantissa)
	return m.SetMantExp(m, int(f.exponent))
}

// TestEdges checks zero, infinity and the conversion from and to float64.
func TestEdges(t *testing.T) {
	for text, want := range map[string]Float{"1": FromFloat(1), "0.5": FromFloat(.5), "0": {}, "-1": {}, "x": {},
		"123456.000000": FromFloat(123456)} {
		if got := Parse(text); got != want {
			t.Errorf("%s is %v, want %v", text, got, want)
		}
	}
	if tenth := Parse("0.1"); tenth == FromFloat(0.1) || tenth.Float64() != 0.1 ||
		tenth.Big().Text('f', 21) != "0.100000000000000000001" {
		t.Errorf("0.1 is %v", tenth.Big())
	}
	zero, one, inf := FromFloat(0), FromFloat(1), Inf()
	for name, c := range map[string]struct{ got, want Float }{
		"0 + 1": {zero.Add(one), one}, "1 + 0": {one.Add(zero), one}, "0 * inf": {zero.Mul(inf), zero},
		"1 / 0": {one.Quo(zero), inf},
		"0 / 0": {zero.Quo(zero), zero}, "1 / inf": {one.Quo(inf), zero}, "inf + 1": {inf.Add(one), inf},
		"1 + inf": {one.Add(inf), inf},
		"inf * 1": {inf.Mul(one), inf}, "-1": {FromFloat(-1), zero}, "NaN": {FromFloat(math.NaN()), zero}, "+inf": {FromFloat(math.Inf(1)), inf},
	} {
		if c.got != c.want {
			t.Errorf("%s is %v, want %v", name, c.got, c.want)
		}
	}
	for _, f := range []float64{1, 0.1, math.Pi, math.MaxFloat64, 1e-300, 86400 * 1234.5, math.Inf(1)} {
		if got := FromFloat(f).Float64(); got != f {
			t.Errorf("%v became %v", f, got)
		}
	}
	if zero.Compare(one) != -1 || one.Compare(zero) != 1 || inf.Compare(one) != 1 || zero.Compare(zero) != 0 ||
		!zero.IsZero() || one.IsZero() {
		t.Error("0, 1 and infinity are out of order")
	}
}
