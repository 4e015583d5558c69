package tune

import (
	"context"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

// number is a parameter of a synthetic surface.
func number(name string, low, high float64, now string) Parameter {
	return Parameter{Name: name, Kind: Real, Low: low, High: high, Now: now}
}

// surface measures settings on a function of their numbers, with an error for each run that depends
// on the setting and the block, and another that all settings of a block share.
type surface struct {
	space Space
	of    func(x []float64) float64
	noise float64
	seed  uint64
	runs  int
	// limited, if it is there, gives the value of the first constraint.
	limited func(x []float64) float64
}

func (f *surface) at(s Setting) []float64 {
	x := make([]float64, len(f.space))
	for i := range f.space {
		value := f.space[i].Now
		if s != nil && s[i] != "" {
			value = s[i]
		}
		x[i], _ = strconv.ParseFloat(value, 64)
	}
	return x
}

func (f *surface) run(s Setting, block int) Measurement {
	f.runs++
	text := f.space.Name(s)
	hash := uint64(14695981039346656037)
	for _, c := range []byte(text) {
		hash = (hash ^ uint64(c)) * 1099511628211
	}
	own := rand.New(rand.NewPCG(f.seed^hash, uint64(block)+1))
	common := rand.New(rand.NewPCG(f.seed, uint64(block)+1))
	x := f.at(s)
	m := Measurement{Objective: f.of(x) + f.noise*own.NormFloat64() + 3*f.noise*common.NormFloat64()}
	if f.limited != nil {
		m.Limited = map[Quantity]float64{{}: f.limited(x)}
	}
	return m
}

func (f *surface) measure(_ context.Context, trials []Trial) ([]Measurement, error) {
	var list []Measurement
	for _, t := range trials {
		list = append(list, f.run(t.Setting, t.Block))
	}
	return list, nil
}

// whole runs a search and the proof of its result, as a tuning does.
func whole(t *testing.T, f *surface, goal Goal, budget int) (*Found, *Proof, Outcome) {
	t.Helper()
	s := Search{Space: f.space, Goal: goal, Blocks: 6, Budget: budget, Seed: f.seed, Measure: f.measure}
	found, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if found.Runs != f.runs || found.Runs > budget {
		t.Fatalf("%d runs counted, %d made, with a budget of %d", found.Runs, f.runs, budget)
	}
	if found.Best == found.Site {
		return found, nil, NothingFound
	}
	var pairs []Pair
	for i := range 10 {
		pairs = append(pairs, Pair{Site: f.run(nil, 1000+i), Best: f.run(found.Best.Setting, 1000+i)})
	}
	proof, outcome := goal.Prove(pairs, f.seed)
	return found, proof, outcome
}

var lower = Goal{Metric: "mean_bounded_slowdown", Lower: true}

// bowl has its minimum of 1 at (0.8, 0.2), and does not depend on the third number.
func bowl(x []float64) float64 {
	return 1 + 10*(x[0]-0.8)*(x[0]-0.8) + 10*(x[1]-0.2)*(x[1]-0.2)
}

func TestFindsTheMinimum(t *testing.T) {
	found, distance := 0, 0.0
	const searches = 20
	for seed := range uint64(searches) {
		f := &surface{space: Space{number("a", 0, 1, "0.1"), number("b", 0, 1, "0.9"), number("c", 0, 1, "0.5")}, of: bowl, noise: 0.2, seed: seed}
		result, proof, outcome := whole(t, f, lower, 150)
		if outcome != Better {
			continue
		}
		found++
		x := f.at(result.Best.Setting)
		distance += math.Hypot(x[0]-0.8, x[1]-0.2) / searches
		// The site has 10.8; the interval is about the true gain in 95 % of cases.
		if truth := bowl(f.at(nil)) - bowl(x); float64(proof.Gain) < truth-1 || float64(proof.Gain) > truth+1 {
			t.Errorf("seed %d: gain %v, truly %v", seed, proof.Gain, truth)
		}
		if result.Best.Setting[2] != "" {
			t.Errorf("seed %d: c = %s is recommended, on which nothing depends", seed, result.Best.Setting[2])
		}
	}
	if found != searches || distance > 0.25 {
		t.Errorf("%d of %d searches found a better setting, at a mean distance of %.2f from the best", found, searches, distance)
	}
}

// TestNothingToFind holds that tuning finds nothing where there is nothing: on surfaces of noise
// alone, at most 5 % of 1,000 searches come to a better setting.
func TestNothingToFind(t *testing.T) {
	const searches = 1000
	count := map[Outcome]int{}
	for seed := range uint64(searches) {
		f := &surface{
			space: Space{number("a", 0, 1, "0.1"), number("b", 0, 1, "0.9"), number("c", 0, 1, "0.5")},
			of:    func([]float64) float64 { return 10 }, noise: 1, seed: 1000 + seed,
		}
		_, _, outcome := whole(t, f, lower, 100)
		count[outcome]++
	}
	t.Logf("of %d searches: %v", searches, count)
	if count[Better] > searches*5/100 {
		t.Errorf("%d of %d searches found something in noise", count[Better], searches)
	}
	if count[NotProven] == 0 {
		t.Error("no search came to a proof, so nothing was tested")
	}
}
