package ioaware

import (
	"fmt"
	"strings"
)

// ParseStrategy parses the name of a strategy. It accepts the names in this package, in the paper
// ("I/O-aware", "workload-adaptive") and in the plugin's configuration and README ("aware",
// "two_group", "Two-group"), in upper or lower case.
func ParseStrategy(name string) (Strategy, error) {
	switch strings.ReplaceAll(strings.ToLower(name), "_", "-") {
	case "baseline":
		return Baseline, nil
	case "aware", "io-aware", "i/o-aware", "none":
		return Aware, nil
	case "two-group", "workload-adaptive":
		return TwoGroup, nil
	}
	return "", fmt.Errorf("%q: not a strategy (want baseline, aware or two-group)", name)
}
