package policy

import (
	"strings"

	"rmreplay/internal/ioaware"
)

// EstimateName returns the name of the estimates with which a policy plans, for
// [ioaware.ParseEstimator]: "x2" for "io-aware:estimate=x2". It returns "" if the policy has no
// estimates.
func EstimateName(text string) string {
	name, rest, _ := strings.Cut(text, ":")
	if options := ioOptions(name); options != nil {
		return options.EstimateName(rest)
	}
	return ioaware.EstimateName(text)
}
