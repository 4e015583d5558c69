package swf

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// decimal is the number mantissa / 10^decimals. It preserves trailing zeros.
type decimal struct {
	mantissa int64
	decimals uint8
}

// record is a record's 18 numbers.
type record [fieldCount]decimal

var unknownNumber = decimal{mantissa: -1}

// parseRecord reads a line of 18 numbers.
func parseRecord(line []byte, r *record) error {
	field := 0
	for i := 0; i < len(line); {
		if isBlank(line[i]) {
			i++
			continue
		}
		start := i
		for i < len(line) && !isBlank(line[i]) {
			i++
		}
		if field == fieldCount {
			return fmt.Errorf("more than %d fields", fieldCount)
		}
		var ok bool
		if r[field], ok = parseDecimal(line[start:i]); !ok {
			return fmt.Errorf("field %d: %.40q: not a number", field+1, line[start:i])
		}
		field++
	}
	if field < fieldCount {
		return fmt.Errorf("%d fields (want %d)", field, fieldCount)
	}
	return nil
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// parseDecimal reads a decimal number with at most 18 digits. It may have a minus sign and a
// decimal point.
func parseDecimal(text []byte) (d decimal, ok bool) {
	digits, point := 0, -1
	for i, c := range text {
		switch {
		case c >= '0' && c <= '9' && digits < 18:
			d.mantissa = 10*d.mantissa + int64(c-'0')
			digits++
		case c == '.' && point < 0 && digits > 0:
			point = digits
		case c == '-' && i == 0:
		default:
			return d, false
		}
	}
	if digits == 0 || point == digits {
		return d, false
	}
	if point >= 0 {
		d.decimals = uint8(digits - point)
	}
	if text[0] == '-' {
		d.mantissa = -d.mantissa
	}
	return d, true
}

// appendDecimal writes a number as parseDecimal reads it.
func appendDecimal(buf []byte, d decimal) []byte {
	if d.mantissa < 0 {
		buf = append(buf, '-')
	}
	digits := strconv.FormatUint(magnitude(d.mantissa), 10)
	if d.decimals == 0 {
		return append(buf, digits...)
	}
	if missing := int(d.decimals) + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	point := len(digits) - int(d.decimals)
	return append(append(append(buf, digits[:point]...), '.'), digits[point:]...)
}

var powersOf10 = func() (p [19]int64) {
	p[0] = 1
	for i := 1; i < len(p); i++ {
		p[i] = 10 * p[i-1]
	}
	return p
}()

// whole returns the integer part of the number.
func whole(d decimal) int64 { return d.mantissa / powersOf10[min(d.decimals, 18)] }

// duration returns a number of seconds, at most [maxSeconds], as a duration.
func duration(d decimal) time.Duration {
	if d.decimals > 9 {
		return time.Duration(d.mantissa / powersOf10[min(d.decimals-9, 18)])
	}
	return time.Duration(d.mantissa * powersOf10[9-d.decimals])
}

// decimalSeconds returns a duration in seconds with as few decimals as possible.
func decimalSeconds(d time.Duration) decimal {
	if d%time.Second == 0 {
		return decimal{mantissa: int64(d / time.Second)}
	}
	n := decimal{mantissa: int64(d), decimals: 9}
	for n.mantissa%10 == 0 {
		n.mantissa /= 10
		n.decimals--
	}
	return n
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return uint64(-n)
	}
	return uint64(n)
}
