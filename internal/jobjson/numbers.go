package jobjson

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxPoint limits numbers without an exponent: [plainNumber] writes at most maxPoint digits before
// the point, and at most maxPoint zeros after it. A duration has at most 10 such digits and 9 such
// zeros.
const maxPoint = 30

// plainNumbers writes the numbers of a JSON text without exponents and without trailing zeros of a
// fraction. JSON libraries write 0.000000001 as 1e-09, and 4 as 4.0. It returns nil if the text is
// not JSON, or if no number changes.
func plainNumbers(text []byte) []byte {
	var plain bytes.Buffer
	enc, dec := jsontext.NewEncoder(&plain, lenient), jsontext.NewDecoder(bytes.NewReader(text), lenient)
	changed := false
	for dec.StackDepth() > 0 || plain.Len() == 0 {
		if dec.PeekKind() != '0' {
			token, err := dec.ReadToken()
			if err != nil || enc.WriteToken(token) != nil {
				return nil
			}
			continue
		}
		value, err := dec.ReadValue()
		if err != nil {
			return nil
		}
		number := plainNumber(string(value))
		changed = changed || number != string(value)
		if enc.WriteValue(jsontext.Value(number)) != nil {
			return nil
		}
	}
	if !changed {
		return nil
	}
	return plain.Bytes()
}

// plainNumber writes a JSON number as a decimal number of the same value. A number whose decimal form
// is long stays as it is.
func plainNumber(number string) string {
	unsigned, negative := strings.CutPrefix(number, "-")
	mantissa, exponent := unsigned, 0
	if at := strings.IndexAny(unsigned, "eE"); at >= 0 {
		n, err := strconv.Atoi(unsigned[at+1:])
		if err != nil {
			return number
		}
		mantissa, exponent = unsigned[:at], n
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	if exponent < -maxPoint || exponent > maxPoint {
		return number
	}
	digits := strings.Repeat("0", maxPoint) + whole + fraction + strings.Repeat("0", maxPoint)
	point := maxPoint + len(whole) + exponent
	plain := cmp.Or(strings.TrimLeft(digits[:point], "0"), "0")
	if fraction := strings.TrimRight(digits[point:], "0"); fraction != "" {
		plain += "." + fraction
	}
	if negative {
		return "-" + plain
	}
	return plain
}
