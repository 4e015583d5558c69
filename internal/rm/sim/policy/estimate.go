package policy

import (
	"strings"

	"rmreplay/internal/ioaware"
)

// EstimateName returns the name of the estimates with which a policy plans ("x2" for
// "io-aware:estimate=x2"), for [ioaware.ParseEstimator]. It returns an empty string if the policy
// has no estimates.
func EstimateName(text string) string {
	name, rest, _ := strings.Cut(text, ":")
	if options := ioOptions(name); options != nil {
		return options.EstimateName(rest)
	}
	return ioaware.EstimateName(text)
}
