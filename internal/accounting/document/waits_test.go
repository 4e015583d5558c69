package document_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/waits"
)

// The document of a run has the parts of a wait in whole seconds. Their sum is the wait, and each
// differs from the run's record by at most a second.
func TestWaitsOfRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := waits.Sums{Eligible: rapid.Bool().Draw(t, "eligible")}
		for i := range s.Parts {
			if rapid.Bool().Draw(t, "has") {
				s.Parts[i] = time.Duration(rapid.Int64Range(0, int64(90*time.Second)).Draw(t, "part"))
				s.Wait += s.Parts[i]
			}
		}
		if s.Eligible {
			s.SinceEligible = time.Duration(rapid.Int64Range(0, int64(s.Wait)).Draw(t, "since"))
		}
		text := document.WaitsText(&s)
		j := document.Parse(fmt.Appendf(nil, `{"jobid":7,"cluster":"moor","@submit":"2024-03-01T00:00:00","@start":"2024-03-01T00:01:00",`+
			`"@end":"2024-03-01T00:02:00","nodes":"n1","waits":%q}`, text), "")
		sum := int64(0)
		for i, part := range j.WaitParts {
			sum += part.Value
			if d := time.Duration(part.Value)*time.Second - s.Parts[i]; !part.Known || d > time.Second || d < -time.Second {
				t.Fatalf("%s: %s is %d s (want %s)", text, waits.Parts[i], part.Value, s.Parts[i])
			}
		}
		if j.Wait != document.KnownInt(int64(s.Wait.Round(time.Second)/time.Second)) || sum != j.Wait.Value || j.Marks != 0 {
			t.Fatalf("%s: wait %+v, parts %d (want %s); marks %v", text, j.Wait, sum, s.Wait, j.Marks.Names())
		}
		if j.SinceEligible.Known != s.Eligible {
			t.Fatalf("%s: since eligible %+v", text, j.SinceEligible)
		}
	})
}

// A document of Slurm gives the wait, the wait since eligible, and, for a job with a dependency,
// how long the job waited for it. The rest is unknown. Invalid values are ignored.
func TestWaitsOfSlurm(t *testing.T) {
	const times = `"jobid":7,"cluster":"moor","@submit":"2024-03-01T00:00:00","@start":"2024-03-01T00:01:00","@end":"2024-03-01T00:02:00","nodes":"n1"`
	known := document.KnownInt
	for text, want := range map[string]struct {
		wait, since, dependency, unknown document.Int
		marks                            document.Marks
	}{
		times: {wait: known(60), unknown: known(60)},
		times + `,"@eligible":"2024-03-01T00:00:40"`:                                {known(60), known(20), document.Int{}, known(60), 0},
		times + `,"@eligible":"2024-03-01T00:00:40","orig_dependency":"afterok:6"`:  {known(60), known(20), known(40), known(20), 0},
		times + `,"@eligible":"2024-02-01T00:00:40"`:                                {known(60), known(60), document.Int{}, known(60), 0},
		times + `,"@eligible":"2024-03-01T00:01:40"`:                                {known(60), known(0), document.Int{}, known(60), 0},
		times + `,"waits":"dependency=50,unknown=0,since_eligible=10"`:              {known(50), known(10), known(50), known(0), 0},
		times + `,"waits":"dependency=-50,unknown=0"`:                               {known(60), document.Int{}, document.Int{}, known(60), document.BadValue},
		times + `,"waits":"luck=50"`:                                                {known(60), document.Int{}, document.Int{}, known(60), document.BadValue},
		times + fmt.Sprintf(`,"waits":"unknown=%d"`, int64(slurmspec.MaxSeconds)+1): {known(60), document.Int{}, document.Int{}, known(60), document.BadValue},
		`"jobid":7,"cluster":"moor","@submit":"2024-03-01T00:02:00","@start":"2024-03-01T00:01:00","@end":"2024-03-01T00:02:00","nodes":"n1"`: {marks: document.TimesReverse},
	} {
		j := document.Parse([]byte("{"+text+"}"), "")
		if j.Wait != want.wait || j.SinceEligible != want.since || j.WaitParts[0] != want.dependency || j.WaitParts[10] != want.unknown || j.Marks != want.marks {
			t.Errorf("%s: %+v", text, j)
		}
	}
}
