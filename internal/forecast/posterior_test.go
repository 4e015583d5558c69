package forecast

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"rmreplay/internal/forecast/empirical"
)

// TestPosterior: over many realizations, the mean of the drawn distributions is the learned
// distribution. Jobs of one class are long or short together. Jobs of users whose jobs have
// nothing in common are not.
func TestPosterior(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	var jobs []past
	for i := range 200 { // a class has three jobs, which run nearly as long as each other
		share := rng.Float64()
		for range 3 {
			jobs = append(jobs, past{user: fmt.Sprint("u", i%20), name: fmt.Sprint("n", i), start: float64(len(jobs)) * 100,
				ran: (share + 0.02*rng.Float64()) / 1.1 * 3600, limit: 3600})
		}
	}
	const now = 1e6
	s, _ := learnPast(jobs, 0, now)
	one := s.Distribution(past{user: "u1", name: "new", limit: 3600}.submission(now))
	other := s.Distribution(past{user: "u1", name: "newer", limit: 3600}.submission(now))
	short := s.Distribution(past{user: "u1", name: "new", limit: 600}.submission(now))
	const n = 600
	var seconds []float64
	var first, second, third, shorter [n]float64
	for i := range n {
		p := newPosterior(7, i)
		if again := newPosterior(7, i).draw(one).QuantileAfter(0.3, 0); again != p.draw(one).QuantileAfter(0.3, 0) {
			t.Fatalf("realization %d: another draw of the same", i)
		}
		first[i], second[i] = p.draw(one).QuantileAfter(rng.Float64(), 0), p.draw(one).QuantileAfter(rng.Float64(), 0)
		third[i], shorter[i] = p.draw(other).QuantileAfter(rng.Float64(), 0), p.draw(short).QuantileAfter(rng.Float64(), 0)
		if ran := p.draw(one).QuantileAfter(rng.Float64(), 3000); ran < 3000 || ran > 3600 {
			t.Fatalf("a job that has run for 3000 of 3600 seconds: %.0f s", ran)
		}
		seconds = append(seconds, first[i])
	}
	slices.Sort(seconds)
	for i, got := range deciles(seconds) {
		if share := place(one, got, 0); math.Abs(share-float64(i+1)/10) > 0.06 {
			t.Errorf("decile %d of the draws is %.0f s, the quantile %.3f of what is learned", i+1, got, share)
		}
	}
	if r := correlation(first[:], second[:]); r < 0.5 {
		t.Errorf("two jobs of a class: correlation %.2f, want 0.5 or more", r)
	}
	if r := correlation(first[:], third[:]); math.Abs(r) > 0.15 {
		t.Errorf("jobs of two classes: correlation %.2f", r)
	}
	if longest := slices.Max(shorter[:]); longest > 600 {
		t.Errorf("a limit of 600 s: a run time of %.0f s", longest)
	}
	if d := (uniform{1, 2}); newPosterior(1, 1).draw(d) != Distribution(d) {
		t.Error("the distribution of a model changes")
	}
}

func correlation(a, b []float64) float64 {
	var ma, mb, saa, sbb, sab float64
	for i := range a {
		ma, mb = ma+a[i]/float64(len(a)), mb+b[i]/float64(len(b))
	}
	for i := range a {
		saa, sbb, sab = saa+(a[i]-ma)*(a[i]-ma), sbb+(b[i]-mb)*(b[i]-mb), sab+(a[i]-ma)*(b[i]-mb)
	}
	return sab / math.Sqrt(saa*sbb)
}

// TestTail: jobs of a class have run longer than the jobs that have ended. If the other jobs use
// at most half of their limits, these jobs do so, too.
func TestTail(t *testing.T) {
	const now, limit = 1e6, 3600.0
	rng := rand.New(rand.NewPCG(1, 10))
	var jobs []past
	for i := range 400 { // a user's ten jobs run nearly as long as each other
		typical := float64(i / 10 * 7 % 40)
		jobs = append(jobs, past{user: fmt.Sprint("u", i/10), name: "n", start: float64(i) * 1000,
			ran: limit / 2 * (typical + rng.Float64()) / 41, limit: limit})
	}
	for i := range 20 {
		one := past{user: "v", name: "new", start: now - 0.12*limit, ran: 0.4 * limit, limit: limit}
		if i < 3 {
			one.ran = 0.1 * limit
		}
		jobs = append(jobs, one)
	}
	s, _ := learnPast(jobs, 0, now)
	d := s.Distribution(past{user: "v", name: "new", limit: limit}.submission(now))
	for i := range 50 {
		if ran := newPosterior(7, i).draw(d).QuantileAfter(rng.Float64(), 0.12*limit); ran > limit/2 {
			t.Errorf("realization %d: a run time of %.0f s, want at most %.0f s", i, ran, limit/2)
		}
	}
}

// TestLikely: two jobs of a group run for half of their limit, and none has ended. The mean of the
// chosen distributions equals the mean of many proposed distributions, each weighted with the
// probability that the two jobs run so long.
func TestLikely(t *testing.T) {
	const limit, draws = 3600.0, 3000
	var masses []empirical.Mass
	for i := range 100 {
		masses = append(masses, empirical.Mass{Seconds: (float64(i) + 0.5) / 100 * limit, Weight: 0.01})
	}
	d := &drawn{wider: &drawn{Distribution: empirical.New(masses, limit)}}
	of := &pool{weighed: weighed{running: []float64{limit / 2, limit / 2}}, wider: 2, spread: 2}
	rng := rand.New(rand.NewPCG(1, 11))
	var chosen, sum, weights float64
	for range draws {
		chosen += d.likely(rng, of, limit).Longer(0.75*limit) / draws
		list, own := d.propose(nil, rng, of, limit)
		one := d.distribution(list, own, limit)
		weight := math.Pow(max(one.Longer(limit/2), shortfall), 2)
		sum, weights = sum+weight*one.Longer(0.75*limit), weights+weight
	}
	if want := sum / weights; math.Abs(chosen-want) > 0.03 { // four standard errors, and without the weights it is 0.25
		t.Errorf("a share of %.3f runs longer than three quarters of the limit, want %.3f", chosen, want)
	}
}
