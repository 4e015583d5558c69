// Package extended has the type of number in which slurmctld stores usage: C's long double on x86-64, with
// 64 bits of mantissa. Fair Tree compares such numbers for equality. With fewer bits, two users who do not
// tie in slurmctld could tie in the model.
//
// Negative and subnormal numbers are not supported. Each operation rounds to the nearest number,
// ties to even, as the processor does.
package extended

import (
	"cmp"
	"math"
	"math/big"
	"math/bits"
)

// Float is a number of 0 or more with 64 bits of mantissa. Its zero value is 0.
type Float struct {
	// mantissa has its highest bit set unless the number is 0; the value is mantissa * 2^exponent.
	mantissa uint64
	exponent int32
}

// infinite is the exponent of infinity.
const infinite = math.MaxInt32

// Inf returns infinity.
func Inf() Float { return Float{1 << 63, infinite} }

// FromFloat returns f, or 0 if f is negative or NaN.
func FromFloat(f float64) Float {
	switch {
	case !(f > 0):
		return Float{}
	case math.IsInf(f, 1):
		return Inf()
	}
	if all := math.Float64bits(f); all>>52 > 0 { // not subnormal
		return Float{1<<63 | all<<11, int32(all>>52) - (1023 + 63)}
	}
	fraction, exponent := math.Frexp(f) // fraction in [0.5, 1) has 53 bits
	return Float{uint64(fraction*(1<<53)) << 11, int32(exponent) - 64}
}

// Parse reads a decimal number and rounds it to the nearest Float. It returns 0 for a negative
// number, and for a text that is not a number.
func Parse(text string) Float {
	f, _, err := big.ParseFloat(text, 10, 64, big.ToNearestEven)
	if err != nil || f.Sign() <= 0 {
		return Float{}
	}
	mantissa := new(big.Float)
	exponent := f.MantExp(mantissa)
	m, _ := mantissa.SetMantExp(mantissa, 64).Uint64()
	return Float{m, int32(exponent) - 64}
}

// Float64 returns the nearest float64.
func (a Float) Float64() float64 {
	if a.exponent == infinite {
		return math.Inf(1)
	}
	m := a.mantissa >> 11
	rest := a.mantissa & (1<<11 - 1)
	if rest > 1<<10 || rest == 1<<10 && m&1 == 1 {
		m++
	}
	all := math.Float64bits(float64(m))
	if of := int32(all>>52) + a.exponent + 11; m > 0 && 0 < of && of < 2047 { // neither subnormal nor infinite
		return math.Float64frombits(uint64(of)<<52 | all&(1<<52-1))
	}
	return math.Ldexp(float64(m), int(a.exponent)+11)
}

// IsZero reports whether the number is 0.
func (a Float) IsZero() bool { return a.mantissa == 0 }

// Compare returns -1, 0 or 1 as a is less than, equal to or greater than b.
func (a Float) Compare(b Float) int {
	switch {
	case a == b:
		return 0
	case a.mantissa == 0:
		return -1
	case b.mantissa == 0:
		return 1
	case a.exponent != b.exponent:
		return cmp.Compare(a.exponent, b.exponent)
	}
	return cmp.Compare(a.mantissa, b.mantissa)
}

// Add returns a + b.
func (a Float) Add(b Float) Float {
	if a.mantissa == 0 || b.exponent == infinite {
		return b
	}
	if b.mantissa == 0 || a.exponent == infinite {
		return a
	}
	if a.exponent < b.exponent {
		a, b = b, a
	}
	shift := uint(a.exponent - b.exponent)
	high, low := b.mantissa>>min(shift, 64), uint64(0)
	if shift >= 128 {
		low = 1 // set one bit: for rounding it only matters that b is not 0
	} else if shift > 64 {
		low = b.mantissa>>(shift-64) | sticky(b.mantissa<<(128-shift))
	} else if shift > 0 {
		low = b.mantissa << (64 - shift)
	}
	sum, carry := bits.Add64(a.mantissa, high, 0)
	exponent := a.exponent
	if carry == 1 {
		low = low>>1 | sum<<63 | low&1
		sum = sum>>1 | 1<<63
		exponent++
	}
	return round(sum, low, exponent)
}

// Mul returns a * b. Infinity times 0 is 0.
func (a Float) Mul(b Float) Float {
	if a.mantissa == 0 || b.mantissa == 0 {
		return Float{}
	}
	if a.exponent == infinite || b.exponent == infinite {
		return Inf()
	}
	high, low := bits.Mul64(a.mantissa, b.mantissa)
	exponent := a.exponent + b.exponent + 64
	if high>>63 == 0 {
		high = high<<1 | low>>63
		low <<= 1
		exponent--
	}
	return round(high, low, exponent)
}

// Quo returns a / b. If b is 0, the result is 0 if a is 0, and infinity otherwise.
func (a Float) Quo(b Float) Float {
	switch {
	case a.mantissa == 0 || b.exponent == infinite:
		return Float{}
	case b.mantissa == 0 || a.exponent == infinite:
		return Inf()
	}
	exponent := a.exponent - b.exponent - 64
	high := a.mantissa
	low := uint64(0)
	if high >= b.mantissa { // the quotient must fit 64 bits
		low = high << 63
		high >>= 1
		exponent++
	}
	quotient, rest := bits.Div64(high, low, b.mantissa)
	below := sticky(rest)
	if twice, carry := bits.Add64(rest, rest, 0); carry == 1 || twice > b.mantissa {
		below = 1<<63 | 1
	} else if twice == b.mantissa {
		below = 1 << 63
	}
	return round(quotient, below, exponent)
}

// round rounds a mantissa whose highest bit is set. The parameter behind has the 64 bits that follow the mantissa.
func round(mantissa, behind uint64, exponent int32) Float {
	const half = 1 << 63
	if behind > half || behind == half && mantissa&1 == 1 {
		if mantissa++; mantissa == 0 {
			mantissa = half
			exponent++
		}
	}
	return Float{mantissa, exponent}
}

// sticky returns 1 if a bit of b is set, and otherwise 0.
func sticky(b uint64) uint64 {
	if b != 0 {
		return 1
	}
	return 0
}

// FromUint returns n as a Float.
func FromUint(n uint64) Float {
	if n == 0 {
		return Float{}
	}
	shift := bits.LeadingZeros64(n)
	return Float{n << shift, int32(-shift)}
}

// Big returns the number exactly; nil for infinity.
func (a Float) Big() *big.Float {
	if a.exponent == infinite {
		return nil
	}
	m := new(big.Float).SetUint64(a.mantissa)
	return m.SetMantExp(m, int(a.exponent))
}
