package alternatives

import (
	"fmt"
	"slices"
	"testing"

	"rmreplay/internal/rm/nodeset"
)

// TestRead reads constraints. Those with want "" are lacking.
func TestRead(t *testing.T) {
	for text, want := range map[string]string{
		"":            `"" [] []`,
		"a&b|c":       `"a&b|c" [] []`,
		"[a|b]":       `"" ["a" "b"] ["a" "b"]`,
		"x&[a|b|c]":   `"x" ["a" "b" "c"] ["x" "a" "b" "c"]`,
		"x,y&[a|b]&z": `"x&y&z" ["a" "b"] ["x" "y" "a" "b" "z"]`,
		"[a|b]&z":     `"z" ["a" "b"] ["a" "b" "z"]`,
		"[a&b]":       "", "[a*2&b*1]": "", "a*2": "", "(a|b)&c": "", "[(a&b)|c]": "", "x|[a|b]": "", "[a|b]|x": "",
		"[a|b": "", "x[a|b]": "", "[a]": "", "[a|b]x": "", "[a|b]&[c|d]": "",
	} {
		c, ok := Read(text)
		got := fmt.Sprintf("%q %q %q", c.Common, c.OneOf, c.Terms)
		if !ok {
			got = ""
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// TestSets has the feature a on nodes 0 to 2, b on 2 and 3, and x on 1 to 4.
func TestSets(t *testing.T) {
	set := func(nodes ...int) nodeset.Set {
		s := nodeset.New(6)
		for _, i := range nodes {
			s.Set(i)
		}
		return s
	}
	list := func(s nodeset.Set) string { return fmt.Sprint(slices.Collect(s.All)) }
	with := map[string]nodeset.Set{"a": set(0, 1, 2), "b": set(2, 3), "x": set(1, 2, 3, 4), "none": set()}
	for text, want := range map[string][2]string{
		"x":             {" [1 2 3 4 5]/[3 4 5]", " [1 2 3 4 5]"},
		"x&[a|none|b]":  {" [1 2]/[] [2 3]/[3]", " [1 2 3 4] [1 2] [2 3]"},
		"[none|none]&x": {"", " [1 2 3 4]"},
	} {
		c, _ := Read(text)
		s := c.Find(func(feature string) nodeset.Set { return with[feature] })
		var split, each string
		for among, able := range s.Split(set(1, 2, 3, 4, 5), set(3, 4, 5)) {
			split += " " + list(among) + "/" + list(able)
		}
		for some := range s.Each(set(1, 2, 3, 4, 5), 2) {
			each += " " + list(some)
		}
		if split != want[0] || each != want[1] {
			t.Errorf("%s: %q, %q, want %q", text, split, each, want)
		}
	}
}
