// Package flags holds what the flags of all commands have in common: how a duration, an
// instant, a time zone and a factor are written, the earlier names of flags, and what a
// mistyped name may stand for.
package flags

import (
	"slices"

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
// fewest letters to insert, delete, replace or swap, of at most a third of its length; empty
// if there is none.
func Nearest(mistyped string, names []string) string {
	best, least := "", max(1, len(mistyped)/3)+1
	for _, name := range slices.Sorted(slices.Values(names)) {
		if d := distance(mistyped, name); d < least {
			best, least = name, d
		}
	}
	return best
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
