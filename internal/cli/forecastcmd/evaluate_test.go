package forecastcmd

import (
	"regexp"
	"testing"

	"github.com/spf13/pflag"
)

// TestEvaluateFlags: the flags of `forecast evaluate` name no flag that it does not have, and no capture.
func TestEvaluateFlags(t *testing.T) {
	f := commands{}.newEvaluate().Flags()
	f.VisitAll(func(flag *pflag.Flag) {
		for _, named := range regexp.MustCompile(`--[a-z-]+|\bcapture\b`).FindAllString(flag.Usage, -1) {
			if named == "capture" || f.Lookup(named[2:]) == nil {
				t.Errorf("--%s: %q: %s", flag.Name, flag.Usage, named)
			}
		}
	})
}
