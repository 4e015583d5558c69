package metrics

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"rmreplay/internal/hpc"
	"rmreplay/internal/run"
)

func TestGiniAndJain(t *testing.T) {
	for _, test := range []struct {
		values     []float64
		gini, jain float64
	}{
		{[]float64{5}, 0, 1},
		{[]float64{0, 0, 0}, 0, 1},
		{[]float64{7, 7, 7, 7}, 0, 1},
		{[]float64{0, 0, 0, 8}, 0.75, 0.25},                  // only one of four waits
		{[]float64{1, 2, 3, 4}, 0.25, 100.0 / (4 * 30)},      // Σ|xᵢ−xₖ| = 20, mean 2.5
		{[]float64{1e200, 1e200, 4e200}, 1.0 / 3, 36.0 / 54}, // whose squares overflow
	} {
		if g, j := Gini(test.values), Jain(test.values); math.Abs(float64(g)-test.gini) > 1e-12 || math.Abs(float64(j)-test.jain) > 1e-12 {
			t.Errorf("%v: Gini %v, Jain %v, want %v and %v", test.values, g, j, test.gini, test.jain)
		}
	}
	if Gini(nil).Known() || Jain(nil).Known() {
		t.Error("nothing has a Gini coefficient or a Jain index")
	}
	// Random values, with the sums of the definition.
	draw := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		values := make([]float64, 1+draw.IntN(30))
		sum := 0.0
		for i := range values {
			values[i] = draw.ExpFloat64()
			sum += values[i]
		}
		apart := 0.0
		for _, a := range values {
			for _, b := range values {
				apart += math.Abs(a - b)
			}
		}
		slices.Sort(values)
		n := float64(len(values))
		if want := apart / (2 * n * sum); math.Abs(float64(Gini(values))-want) > 1e-12 {
			t.Fatalf("%v: Gini %v, want %v", values, Gini(values), want)
		}
	}
}

// TestFairness: users count once, however many jobs they have.
func TestFairness(t *testing.T) {
	row := func(user, account string, wait, ran int64) run.Row {
		return run.Row{Job: user, State: hpc.Completed, User: user, Account: account, Submit: hpc.Unix(1000),
			Start: hpc.Unix(1000 + wait), End: hpc.Unix(1000 + wait + ran)}
	}
	rows := []run.Row{
		row("ada", "physics", 10, 90), row("ada", "physics", 30, 90), row("ada", "physics", 20, 90), // mean 20
		row("bo", "physics", 60, 100),
		{Job: "r", State: hpc.Rejected, User: "cem"}, {Job: "n", State: hpc.Pending, User: "dan", Submit: hpc.Unix(5)},
	}
	rows[1].Job, rows[2].Job = "a2", "a3"
	got := FairnessOf(all(rows), Options{})
	users := got[ByUser]
	if users.Groups != 2 || math.Abs(float64(users.WaitGini)-0.25) > 1e-12 || math.Abs(float64(users.WaitJain)-6400.0/(2*4000)) > 1e-12 {
		t.Errorf("users %+v, want 2 with Gini 0.25 and Jain 0.8", users)
	}
	if accounts := got[ByAccount]; accounts.Groups != 1 || accounts.WaitGini != 0 || accounts.WaitJain != 1 {
		t.Errorf("accounts %+v, want 1", accounts)
	}
	if jobs := got[ByJob]; jobs.Groups != 4 || math.Abs(float64(jobs.WaitGini)-float64(Gini([]float64{10, 20, 30, 60}))) > 1e-12 {
		t.Errorf("jobs %+v, want 4", jobs)
	}
	if s := users.SlowdownGini; math.Abs(float64(s)-float64(Gini([]float64{(100.0/90 + 120.0/90 + 110.0/90) / 3, 1.6}))) > 1e-12 {
		t.Errorf("Gini of slowdowns %v", s)
	}
	backwards := slices.Clone(rows)
	slices.Reverse(backwards)
	if again := FairnessOf(all(backwards), Options{}); again[ByUser] != users || again[ByJob] != got[ByJob] {
		t.Error("the order of the jobs matters")
	}
}

// TestFairnessFigures: every figure has a key of its own and a meaning.
func TestFairnessFigures(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range FairnessFigures {
		if seen[f.Key] || !strings.HasPrefix(f.Key, string(f.By)+"_") || strings.Contains(f.Meaning, "%!") || FigureOf(f.Key).Meaning != f.Meaning {
			t.Errorf("figure %+v", f.Figure)
		}
		seen[f.Key] = true
	}
	if len(seen) != 16 {
		t.Errorf("%d figures", len(seen))
	}
	s := &Summary{Fairness: FairnessOf(all(nil), Options{}), FairStart: &FairStart{Policy: "easy", Jobs: 4, Unfair: 1, MeanMiss: 25, MeanUnfairMiss: 100, MaxMiss: 100, Agreement: 0.5}}
	var b bytes.Buffer
	s.renderFairness(&b)
	for _, want := range []string{"users                       0", "1 of 4 jobs (25.0%) started later", "starts 50.0% of them as the run did"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
