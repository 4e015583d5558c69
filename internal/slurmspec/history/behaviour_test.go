package history

import (
	"slices"
	"testing"

	"rmreplay/internal/slurmspec"
)

func TestBehavioursBetween(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want []string // the releases that brought a change
	}{
		{"22.05.8", "22.05.11", nil},
		{"23.02.0", "23.02.1", []string{"23.02.1"}},
		{"23.02.1", "23.02.0", []string{"23.02.1"}},
		{"23.02.7", "23.11.1", []string{"23.11.0"}},
		{"23.02", "23.02.1", []string{"23.02.1"}}, // a series is its first release
		{"23.11.1", "24.05.0", []string{"23.11.2", "23.11.2"}},
		{"24.11.5", "26.05.5", []string{"25.05.1", "25.11.4", "25.11.5", "26.05.0"}},
		{"26.05.5", "26.05.5", nil},
	} {
		a, err := slurmspec.ParseRelease(test.a)
		if err != nil {
			t.Fatal(err)
		}
		b, err := slurmspec.ParseRelease(test.b)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, change := range BehavioursBetween(a, b) {
			got = append(got, change.Since.String())
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("between %s and %s: %v, want %v", test.a, test.b, got, test.want)
		}
	}
	if !slices.IsSortedFunc(Behaviours, func(a, b Behaviour) int { return a.Since.Compare(b.Since) }) {
		t.Error("the changes are not in the order of releases")
	}
}
