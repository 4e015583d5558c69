// Package spelling finds the known name that a mistyped name most likely means. All code that reads
// names uses it: names of flags and commands, of the options of sbatch, and of the keys of
// slurm.conf, JSON and CSV.
package spelling

import (
	"slices"
	"strings"
)

// Nearest returns the known name that is the fewest edits away from a mistyped name; of several such names, the first
// in alphabetical order. It returns "" if every known name is more than maxEdits edits away. The
// number of edits must also not exceed half of the mistyped name's length: foo and qos, for
// example, share a letter only by chance. An edit inserts, deletes or replaces a byte, or swaps two
// neighbours (Damerau and Levenshtein, with no byte edited twice).
func Nearest(mistyped string, maxEdits int, known []string) string {
	maxEdits = min(maxEdits, max(1, len(mistyped)/2))
	best, least := "", maxEdits+1
	for _, name := range known {
		d := distance(mistyped, name, least)
		if d < least || d == least && best != "" && name < best {
			best, least = name, d
		}
	}
	return best
}

// Meant returns the end of an error about a wrong name: "did you mean NAME?", or else "want" and
// all known names. The case of letters does not count, and the beginning of a single name is
// enough.
func Meant(wrong string, known []string) string {
	lower := strings.ToLower(wrong)
	near := Nearest(lower, max(1, len(lower)/3), known)
	if near == "" && len(lower) > 1 {
		for _, name := range known {
			switch longer := strings.HasPrefix(name, lower) || strings.HasPrefix(lower, name); {
			case longer && near != "":
				return "want " + strings.Join(known, ", ")
			case longer:
				near = name
			}
		}
	}
	if near != "" {
		return "did you mean " + near + "?"
	}
	return "want " + strings.Join(known, ", ")
}

// Suggest returns " (did you mean NAME?)" with the known name that is most similar to a wrong name, or "" if none is
// similar. A name that differs only in the case of letters is similar.
func Suggest(wrong string, known []string) string {
	near := Nearest(wrong, 1+len(wrong)/3, known)
	if i := slices.IndexFunc(known, func(name string) bool { return strings.EqualFold(name, wrong) }); i >= 0 {
		near = known[i]
	}
	if near == "" {
		return ""
	}
	return " (did you mean " + near + "?)"
}

// distance returns the number of edits between two names, or some number above limit if
// there are more than limit.
func distance(a, b string, limit int) int {
	if d := len(a) - len(b); d > limit || -d > limit {
		return limit + 1
	}
	// Three rows of the table are enough: row[j] is the distance of a[:i] and b[:j].
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		if slices.Min(row) > limit && slices.Min(last) > limit {
			return limit + 1
		}
	}
	return row[len(b)]
}
