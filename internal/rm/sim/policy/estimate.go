package policy

import (
	"strings"

	"rmreplay/internal/ioaware"
)

// EstimateName returns the name, for [ioaware.ParseEstimator], of the estimates that a policy plans
// with ("io-aware:estimate=x2"), or a strategy of [ParseStrategy]. It returns an empty string for one
// without estimates.
func EstimateName(text string) string {
	name, rest, _ := strings.Cut(text, ":")
	options := ioOptions(name)
	if options == nil {
		of, err := ParseStrategy(name)
		if err != nil {
			return ""
		}
		options = &of
	}
	estimate := "perfect"
	if options.Estimator == (ioaware.Nothing{}) {
		estimate = ""
	}
	for option := range strings.SplitSeq(rest, ",") {
		if value, given := strings.CutPrefix(option, "estimate="); given {
			estimate = value
		}
	}
	if estimate == "none" {
		return ""
	}
	return estimate
}
