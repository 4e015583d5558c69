// Package flags holds what the flags of all commands have in common: flags for durations,
// instants, time zones and factors, the earlier names of flags, and the name that a mistyped
// one most likely stands for.
package flags

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Alias makes earlier names of flags work as their present names do. The help has the
// present names only.
func Alias(f *pflag.FlagSet, present map[string]string) {
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if now, ok := present[name]; ok {
			name = now
		}
		return pflag.NormalizedName(name)
	})
}

// Nearest returns the name that a mistyped one most likely stands for: the one with the
// fewest letters to insert, delete, replace or swap, at most a third of the mistyped ones; or
// else the only one that begins with it. It returns an empty string if there is none.
func Nearest(mistyped string, names []string) string {
	best, least := "", max(1, len(mistyped)/3)+1
	for _, name := range slices.Sorted(slices.Values(names)) {
		if d := distance(mistyped, name); d < least {
			best, least = name, d
		}
	}
	if best != "" || len(mistyped) < 2 {
		return best
	}
	longer := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.HasPrefix(name, mistyped) })
	if len(longer) == 1 {
		return longer[0]
	}
	return ""
}

// distance is the number of letters to insert, delete, replace or swap with the next one, so
// that a becomes b (Damerau and Levenshtein, with no letter changed twice).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			if i == 0 || j == 0 {
				rows[i][j] = i + j
				continue
			}
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
