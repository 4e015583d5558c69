package search

import (
	"encoding/json"
	"math/bits"
	"slices"
	"strings"
	"testing"
)

// TestFilterPath compares filters with what Elasticsearch keeps of the same answer.
func TestFilterPath(t *testing.T) {
	const body = `{"took":3,"hits":{"total":{"value":2},"hits":[{"_id":"a","sort":[1]},{"_id":"b","x":{"_id":"c"}}]}}`
	for filter, want := range map[string]string{
		"":                    body,
		"took":                `{"took":3}`,
		"t*,hits.total":       `{"hits":{"total":{"value":2}},"took":3}`,
		"hits.hits._id":       `{"hits":{"hits":[{"_id":"a"},{"_id":"b"}]}}`,
		"**._id":              `{"hits":{"hits":[{"_id":"a"},{"_id":"b","x":{"_id":"c"}}]}}`,
		"**.**.x.**._id":      `{"hits":{"hits":[{"x":{"_id":"c"}}]}}`,
		"hits.total.**":       `{"hits":{"total":{"value":2}}}`,
		"hits,-hits.**._id":   `{"hits":{"hits":[{"sort":[1]},{"x":{}}],"total":{"value":2}}}`,
		"-hits":               `{"took":3}`,
		"nothing,hits.took.a": `{}`,
	} {
		f, err := newPathFilter(filter)
		if err != nil {
			t.Errorf("%s: %v", filter, err)
			continue
		}
		got, err := json.Marshal(f.apply(json.RawMessage(body)))
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, want %s (%v)", filter, got, want, err)
		}
	}
}

// TestPlaces follows filters down a deep answer. The number of places must not grow with the depth: each of
// the ways to divide 40 members among 31 asterisks would be more than any memory holds.
func TestPlaces(t *testing.T) {
	one := strings.Repeat("**.", maxSegments-1) + "x"
	f, err := newPathFilter(strings.TrimSuffix(strings.Repeat(one+",", maxPaths), ","))
	if err != nil {
		t.Fatal(err)
	}
	at := f.includes.begin()
	for depth := range 40 {
		below, some, whole := f.includes.step(at, "y")
		n := 0
		for _, of := range below {
			n += bits.OnesCount32(of)
		}
		if n > maxPaths*maxSegments || !some || whole {
			t.Fatalf("depth %d: %d places, %v %v", depth, n, some, whole)
		}
		if depth > 0 && !slices.Equal(below, at) {
			t.Fatalf("depth %d: %b, want %b", depth, below, at)
		}
		at = below
	}
	if _, _, whole := f.includes.step(at, "x"); !whole {
		t.Error("x is not found")
	}
	for filter, want := range map[string]string{
		strings.Repeat("**.", 200) + "x":     "201 segments (want at most 32)",
		strings.Repeat("a,", maxPaths) + "a": "65 paths (want at most 64)",
	} {
		if _, err := newPathFilter(filter); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %q", filter, err, want)
		}
	}
}
