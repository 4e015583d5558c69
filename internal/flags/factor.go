package flags

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

var errNotFactor = errors.New("not a factor (want, for example, x2, x0.5 or 120%)")

// ParseFactor reads x2, 2x, 2, x0.5 or 50%. An empty text gives 0. A sign is an error, because +20%
// could mean 0.2 or 1.2.
func ParseFactor(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	plain := strings.TrimSuffix(strings.TrimPrefix(text, "x"), "x")
	number, percent := strings.CutSuffix(plain, "%")
	f, err := strconv.ParseFloat(number, 64)
	if percent {
		f /= 100
	}
	switch signed := strings.HasPrefix(number, "+") || strings.HasPrefix(number, "-"); {
	case err != nil:
		return 0, errNotFactor
	case signed && percent && f > -1 && f < 100:
		more := "more"
		if f < 0 {
			more = "less"
		}
		return 0, fmt.Errorf("a factor has no sign (want x%.6g or %.6g%% for %s %% %s)", 1+f, 100+100*f, number[1:], more)
	case signed:
		return 0, errors.New("a factor has no sign (want, for example, x1.2 or 120% for 20 % more)")
	case !(f > 0) || math.IsInf(f, 0):
		return 0, errNotFactor
	}
	return f, nil
}
