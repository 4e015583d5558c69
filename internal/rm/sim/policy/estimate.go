package policy

import (
	"strings"

	"rmreplay/internal/ioaware"
)

// EstimateName returns the name, for [ioaware.ParseEstimator], of the estimates that a policy plans
// with ("io-aware:estimate=x2"). It returns an empty string for one without estimates.
func EstimateName(text string) string {
	name, rest, _ := strings.Cut(text, ":")
	if options := ioOptions(name); options != nil {
		return options.EstimateName(rest)
	}
	return ioaware.EstimateName(text)
}
