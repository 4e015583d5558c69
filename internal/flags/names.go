// Package flags holds what the flags of all commands share: how a duration, an instant, a time
// zone and a factor are written, the earlier names of flags, and the suggestion for a mistyped
// name.
package flags

import (
	"github.com/spf13/pflag"

	"rmreplay/internal/spelling"
)

// Alias makes earlier names of flags work as their present names do. The help shows only the
// present names.
func Alias(f *pflag.FlagSet, present map[string]string) {
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if now, ok := present[name]; ok {
			name = now
		}
		return pflag.NormalizedName(name)
	})
}

// Nearest returns the name that a mistyped one most likely stands for: the one that is the
// fewest edits away, at most a third of its letters and at least one. It returns "" if there
// is none.
func Nearest(mistyped string, names []string) string {
	return spelling.Nearest(mistyped, max(1, len(mistyped)/3), names)
}
