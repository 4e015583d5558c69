package spelling

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestNearest(t *testing.T) {
	names := []string{"time-limit", "time-min", "nodes", "node-list", "procs"}
	for _, tt := range []struct {
		mistyped string
		most     int
		want     string
	}{
		{"nodes", 0, "nodes"}, {"node", 0, ""}, {"node", 1, "nodes"}, {"ndoes", 1, "nodes"}, {"time-lmit", 3, "time-limit"},
		{"time-mit", 3, "time-min"}, {"pros", 1, "procs"}, {"walltime", 2, ""}, {"", 3, ""}, {"", 5, ""},
		{"foo", 3, ""}, {"ndse", 3, "nodes"}, {"procx", 5, "procs"},
	} {
		reversed := slices.Clone(names)
		slices.Reverse(reversed)
		for _, known := range [][]string{names, reversed} {
			if got := Nearest(tt.mistyped, tt.most, known); got != tt.want {
				t.Errorf("%s, at most %d edits, among %v: %q, want %q", tt.mistyped, tt.most, known, got, tt.want)
			}
		}
	}
}

// slowDistance is the definition of the distance, without a table and without a limit.
func slowDistance(a, b string) int {
	if a == "" || b == "" {
		return len(a) + len(b)
	}
	change := 1
	if a[0] == b[0] {
		change = 0
	}
	d := min(slowDistance(a[1:], b)+1, slowDistance(a, b[1:])+1, slowDistance(a[1:], b[1:])+change)
	if len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] {
		d = min(d, slowDistance(a[2:], b[2:])+1)
	}
	return d
}

func TestSuggest(t *testing.T) {
	known := []string{"batch", "gpu", "Long"}
	for wrong, want := range map[string]string{"bacth": " (did you mean batch?)", "BATCH": " (did you mean batch?)", "long": " (did you mean Long?)", "other": ""} {
		if got := Suggest(wrong, known); got != want {
			t.Errorf("%s: %q, want %q", wrong, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	words := rapid.StringMatching(`[abc]{0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b, limit := words.Draw(t, "a"), words.Draw(t, "b"), rapid.IntRange(0, 7).Draw(t, "limit")
		got, want := distance(a, b, limit), slowDistance(a, b)
		if want <= limit && got != want || want > limit && got <= limit {
			t.Fatalf("%q and %q: %d edits, want %d (limit %d)", a, b, got, want, limit)
		}
	})
}
