package warned

import (
	"slices"
	"strings"
	"testing"

	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
)

// A warning whose numbers differ between runs is listed once. Names of jobs are not numbers.
func TestWarningsOfSet(t *testing.T) {
	set := func(texts ...string) (s []*run.Manifest) {
		for _, text := range texts {
			r := &run.Manifest{}
			if text != "" {
				r.Warnings = []run.Warning{{Code: "c", Text: text, Count: 1}}
			}
			s = append(s, r)
		}
		return s
	}
	many := set("a hint", "a hint")
	many[1].Warnings[0].Count = 4
	often := set("a hint", "a hint")
	often[0].Warnings[0].Count, often[1].Warnings[0].Count = 10, 10
	affects := set("a hint")
	affects[0].Warnings = append(affects[0].Warnings, run.Warning{Text: "bad", AffectsResult: true, Count: 2})
	for _, tt := range []struct {
		set  []*run.Manifest
		want []string
	}{
		{set("1 job waits 9m28s too short: 4711", "1 job waits 8m50s too short: 4711", "1 job waits 9m0.5s too short: 4711"),
			[]string{"1 job waits 8m50s–9m28s too short: 4711 (in all 3 runs)"}},
		{set("12 jobs: 9 %", "", "3 jobs: 10.5 %"), []string{"3–12 jobs: 9 %–10.5 % (in 2 of 3 runs)"}},
		{set("jobs 4711, 4712", "jobs 4711, 4713"), []string{"jobs 4711, 4712 (in 1 of 2 runs)", "jobs 4711, 4713 (in 1 of 2 runs)"}},
		{many, []string{"a hint (1 to 4 times in each of 2 runs)"}},
		{often, []string{"a hint (10 times in each of 2 runs)"}},
		{[]*run.Manifest{often[0], often[1], {}}, []string{"a hint (10 times in each of 2 of 3 runs)"}},
		{affects, []string{"[affects the result] bad (2 times)", "a hint"}},
	} {
		got := List(tt.set)
		for i := range got {
			got[i] = strings.ReplaceAll(got[i], quantity.Space, " ")
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
