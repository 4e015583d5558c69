package tune

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

func randomOf(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// TestValues checks that every value that a search draws lies in the range, and that position returns
// the position from which a value was drawn.
func TestValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Parameter{Name: "x", Kind: rapid.SampledFrom([]Kind{Integer, Real}).Draw(t, "kind"), Log: rapid.Bool().Draw(t, "log")}
		p.Low = float64(rapid.IntRange(1, 5000).Draw(t, "low"))
		p.High = p.Low + float64(rapid.IntRange(1, 100_000).Draw(t, "width"))
		if !p.Log {
			p.Low -= 3000
		}
		u := rapid.Float64Range(0, 1).Draw(t, "u")
		text := p.at(u)
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || v < p.Low || v > p.High || p.Kind == Integer && v != float64(int64(v)) {
			t.Fatalf("%+v at %v: %s", p, u, text)
		}
		at, ok := p.position(text)
		if !ok || at < 0 || at > 1 {
			t.Fatalf("%+v: %s is at %v", p, text, at)
		}
		// The value at the position of a value is the same value.
		if again := p.at(at); again != text && p.Kind == Integer && p.High < 1000 {
			t.Fatalf("%+v: %s leads to %s", p, text, again)
		}
	})
}

// TestEachWholeNumber checks that small ranges of whole numbers are drawn evenly, the ends too.
func TestEachWholeNumber(t *testing.T) {
	p := Parameter{Kind: Integer, Low: 2, High: 5}
	count := map[string]int{}
	for i := range 400 {
		count[p.at((float64(i)+0.5)/400)]++
	}
	for _, v := range []string{"2", "3", "4", "5"} {
		if count[v] != 100 {
			t.Errorf("%s: %d of 400", v, count[v])
		}
	}
}

func TestNormalize(t *testing.T) {
	space := Space{
		{Name: "mode", Kind: Categorical, Values: []string{"a", "b"}, Now: "a"},
		{Name: "n", Kind: Integer, Low: 0, High: 100, Now: "010", When: &Condition{0, []string{"b"}}},
	}
	for _, test := range []struct{ in, want Setting }{
		{Setting{"a", "5"}, Setting{"", ""}},   // a is the site's value, and n has no effect with a
		{Setting{"b", "5"}, Setting{"b", "5"}}, //
		{Setting{"b", "10"}, Setting{"b", ""}}, // 10 and 010 are equal
		{Setting{"", "5"}, Setting{"", ""}},    // the site's own value decides the condition
		{Setting{"b", "100"}, Setting{"b", "100"}},
	} {
		if got := space.normalize(slices.Clone(test.in)); !slices.Equal(got, test.want) {
			t.Errorf("%q: %q, want %q", test.in, got, test.want)
		}
	}
	if space.Name(Setting{"", ""}) != space.Name(nil) {
		t.Error("a setting that changes nothing has another name than the site's own")
	}
}

// TestHypercube divides a range into n shares and checks that one of n values lies in each share.
func TestHypercube(t *testing.T) {
	space := Space{number("a", 0, 1, ""), {Name: "b", Kind: Categorical, Values: []string{"x", "y"}}}
	shares, values := map[int]int{}, map[string]int{}
	for _, s := range space.hypercube(10, randomOf(3)) {
		v, _ := strconv.ParseFloat(s[0], 64)
		shares[min(int(v*10), 9)]++
		values[s[1]]++
	}
	if len(shares) < 9 || values["x"] != 5 { // rounding to three digits may move a value into the next share
		t.Errorf("%v %v", shares, values)
	}
}
