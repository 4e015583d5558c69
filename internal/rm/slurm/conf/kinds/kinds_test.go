package kinds

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"rmreplay/internal/hpc"
)

// machine returns kinds with the given numbers of nodes.
func machine(sizes ...int) Kinds {
	var nodes []hpc.Node
	for k, size := range sizes {
		for i := range size {
			nodes = append(nodes, hpc.Node{Name: fmt.Sprintf("k%d-%d", k, i), CPUs: k + 1})
		}
	}
	return Of(nodes, nil)
}

// counts returns the number of nodes of each kind after scaling.
func counts(list Kinds, becomes map[string][]string) []int {
	out := make([]int, len(list))
	for k, names := range list {
		for _, name := range names {
			out[k] += len(becomes[name])
		}
	}
	return out
}

// TestScale: the total is rounded once, not for each kind. The text says when it is not the requested total.
func TestScale(t *testing.T) {
	for _, test := range []struct {
		factor float64
		sizes  []int
		want   []int
		text   string // of the mismatch or of the error
	}{
		{1.1, []int{4, 4, 1, 1}, []int{5, 4, 1, 1}, ""},
		{1.25, []int{4, 4, 1, 1}, []int{5, 5, 2, 1}, ""},
		{1.5, []int{4, 4, 1, 1}, []int{6, 6, 2, 1}, ""},
		{0.9, []int{4, 4, 1, 1}, []int{4, 3, 1, 1}, ""},
		{2, []int{4, 4, 1, 1}, []int{8, 8, 2, 2}, ""},
		{0.5, []int{36, 14}, []int{18, 7}, ""},
		{0.29, []int{100, 100}, []int{29, 29}, ""}, // 28.999999999999996 in floating point
		{1.1, []int{4, 14}, []int{4, 16}, ""},      // 0.4 each: the larger kind first
		{0.3, []int{4, 4, 1, 1}, []int{1, 1, 1, 1}, "10 -> 4 nodes, x0.3 asks for 3: each kind of nodes keeps at least one"},
		{1, []int{3, 1}, []int{3, 1}, ""},
		{1.01, []int{4, 4, 1, 1}, nil, "the number of nodes would stay 10 (want a factor that changes the number of nodes)"},
		{0.5, []int{1, 1, 1}, nil, "3 -> 3 nodes, x0.5 asks for 2: each kind of nodes keeps at least one (want a factor"},
	} {
		list := machine(test.sizes...)
		becomes, text, err := list.Scale(test.factor)
		if err != nil {
			text = err.Error()
		} else if got := counts(list, becomes); !slices.Equal(got, test.want) {
			t.Errorf("%v x%g: %v, want %v", test.sizes, test.factor, got, test.want)
		}
		if (err == nil) != (test.want != nil) || !strings.HasPrefix(text, test.text) || test.text == "" && text != "" {
			t.Errorf("%v x%g: text %q, want %q", test.sizes, test.factor, text, test.text)
		}
	}
}

// TestShares: every kind has its exact share to within one node, and the total is the rounded total or a text says why
// it is not.
func TestShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(1, 40), 1, 8).Draw(t, "sizes")
		factor := float64(rapid.IntRange(1, 400).Draw(t, "percent")) / 100
		list := machine(sizes...)
		becomes, text, err := list.Scale(factor)
		if err != nil {
			return
		}
		total, before := 0, 0
		for k, n := range counts(list, becomes) {
			total, before = total+n, before+sizes[k]
			if exact := float64(sizes[k]) * factor; n < 1 || math.Abs(float64(n)-exact) >= 1 {
				t.Fatalf("%d nodes x%g are %d", sizes[k], factor, n)
			}
		}
		if want := int(math.Round(float64(before) * factor)); (total != want) != (text != "") {
			t.Fatalf("%d nodes in all, want %d; text %q", total, want, text)
		}
	})
}
