package licenses

import (
	"slices"
	"testing"
)

func TestRead(t *testing.T) {
	for text, want := range map[string]Request{
		"":                  {},
		"matlab":            {List: []License{{"matlab", 1}}},
		"matlab:2,ansys":    {List: []License{{"matlab", 2}, {"ansys", 1}}},
		"matlab:2;matlab:3": {List: []License{{"matlab", 5}}},
		"b=4":               {List: []License{{"b", 4}}},
		"b:2|a":             {List: []License{{"b", 2}, {"a", 1}}, Any: true},
	} {
		if got := Read(text); !slices.Equal(got.List, want.List) || got.Any != want.Any {
			t.Errorf("Read(%q) = %v, want %v", text, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	for text, want := range map[string]bool{"": false, "a": true, "c,b:2": true, "ab": false} {
		if got := Read(text).Names([]License{{"a", 1}, {"b", 1}}); got != want {
			t.Errorf("%q names a or b: %t, want %t", text, got, want)
		}
	}
}

// TestPool checks that jobs get free licences, all of a list or the first free alternative, and
// return them.
func TestPool(t *testing.T) {
	p := New("a:2,b:1")
	take := func(text string) []License {
		t.Helper()
		list, ok := p.Choose(Read(text))
		if !ok {
			t.Fatalf("%s is not free, want it to be", text)
		}
		p.Take(list)
		return list
	}
	busy := func(text string) {
		t.Helper()
		if list, ok := p.Choose(Read(text)); ok {
			t.Errorf("%s is free as %v, want it to be in use", text, list)
		}
	}
	first := take("a")
	take("")
	busy("a:2")
	busy("a,b:2")
	if got := take("a:2|b|a"); !slices.Equal(got, []License{{"b", 1}}) {
		t.Errorf("of the alternatives the job has %v, want b", got)
	}
	busy("b|a:2")
	p.Return(first)
	take("a:2")
	busy("a|b")
}
