// Package flags has the common parts of all commands' flags: flags for durations, instants, time
// zones and factors, the earlier names of flags, and the suggestion for a mistyped name.
package flags

import (
	"slices"
	"strings"

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

// Nearest returns the name that a mistyped name most likely means. It is the name that is the
// fewest edits away, if this is one edit, or at most one edit for every three letters. Otherwise it
// is the only name that begins with the mistyped name. It returns "" if no name fits.
func Nearest(mistyped string, names []string) string {
	near := spelling.Nearest(mistyped, max(1, len(mistyped)/3), names)
	if near != "" || len(mistyped) < 2 {
		return near
	}
	longer := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.HasPrefix(name, mistyped) })
	if len(longer) == 1 {
		return longer[0]
	}
	return ""
}
