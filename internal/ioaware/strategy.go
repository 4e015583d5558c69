package ioaware

import (
	"fmt"
	"strings"
)

// ParseStrategy reads the name of a strategy. It takes the names of this package, of the paper
// ("I/O-aware", "workload-adaptive") and of the plugin's configuration and README ("aware",
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
