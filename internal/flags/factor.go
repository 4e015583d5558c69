package flags

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// ErrNotFactor says that a text is not a factor.
var ErrNotFactor = errors.New("not a factor (want, for example, x2 or x0.5)")

// ParseFactor reads x2, 2x, 2, x0.5 or 50%. An empty text gives 0. It fails with [ErrNotFactor].
func ParseFactor(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	number, percent := strings.CutSuffix(strings.TrimSuffix(strings.TrimPrefix(text, "x"), "x"), "%")
	f, err := strconv.ParseFloat(number, 64)
	if percent {
		f /= 100
	}
	if err != nil || !(f > 0) || math.IsInf(f, 0) {
		return 0, ErrNotFactor
	}
	return f, nil
}
