package forecast

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"rmreplay/internal/forecast/empirical"
	"rmreplay/internal/forecast/nested"
)

// posterior has the distributions of a realization. The few jobs of a user or an array that have ended do not show
// exactly how long that user's jobs or that array's tasks run. If the prediction for one of these jobs is too short,
// the predictions for the others are probably also too short. So a realization first draws a distribution for each
// group, from the distributions that are likely given the group's ended jobs. The realization then draws run times from
// the distribution of the job's group. In one realization all jobs of a group are therefore long, or all are short.
//
// The distribution of the widest group is a Bayesian bootstrap of its jobs (Rubin, "The Bayesian bootstrap", The
// Annals of Statistics 9(1), 1981). The distribution of each narrower group is a draw of the Dirichlet process of
// [Shares]: it has the group's jobs, and sticks (Sethuraman, "A constructive definition of Dirichlet priors",
// Statistica Sinica 4(2), 1994) from the wider group's draw, with weights that are gamma variables. A group that has
// the same jobs as the wider group has the same distribution.
type posterior struct {
	seed  [8]byte // the seed of the realization
	drawn map[groupLimit]*drawn
}

// drawn is a distribution that was drawn, with the draw of the wider group.
type drawn struct {
	empirical.Distribution
	wider *drawn // nil for the widest group
}

// QuantileAfter is [Distribution.QuantileAfter]. If a job has run longer than the longest time drawn for its group,
// the distribution drawn for the wider group is used.
func (d *drawn) QuantileAfter(q, elapsed float64) float64 {
	if d.wider != nil && elapsed > d.Longest() {
		return d.wider.QuantileAfter(q, elapsed)
	}
	return d.Distribution.QuantileAfter(q, elapsed)
}

func newPosterior(seed uint64, realization int) *posterior {
	p := &posterior{drawn: map[groupLimit]*drawn{}}
	binary.LittleEndian.PutUint64(p.seed[:], seed+uint64(realization)*0x9e3779b97f4a7c15)
	return p
}

// draw draws a distribution. The draw for a group depends only on the seed, the realization and the group.
func (p *posterior) draw(d Distribution) Distribution {
	learned, ok := d.(pooled)
	if !ok {
		return d
	}
	return p.level(learned.levels, learned.limit)
}

// level draws the distribution of levels[0], after it has drawn the distribution of levels[1], the
// wider group. levels must not be empty.
func (p *posterior) level(levels []pool, limit float64) *drawn {
	of := &levels[0]
	key := groupLimit{of.group, limit}
	if known, ok := p.drawn[key]; ok {
		return known
	}
	name := fnv.New64a()
	_, _ = name.Write(p.seed[:])              // a hash returns no error
	_, _ = fmt.Fprintf(name, "%+v", of.group) // without the limit: one seed for jobs of all limits
	rng := rand.New(rand.NewPCG(name.Sum64(), 21))
	one := &drawn{}
	if len(levels) > 1 {
		one.wider = p.level(levels[1:], limit)
		if of.ended > 0 && of.ended == levels[1].ended {
			p.drawn[key] = one.wider
			return one.wider
		}
	}
	one.Distribution = one.likely(rng, of, limit)
	p.drawn[key] = one
	return one
}

// candidates is the number of distributions from which the function likely chooses.
const candidates = 50

// likely draws a group's distribution. If jobs of the group run and no job of the group has ended, likely draws several
// distributions and chooses one. The weight of a distribution is its probability of run times beyond the present run
// times of the running jobs (sampling importance resampling: Rubin, "Using the SIR algorithm to simulate posterior
// distributions", 1988).
func (d *drawn) likely(rng *rand.Rand, of *pool, limit float64) empirical.Distribution {
	if len(of.running) == 0 || d.wider == nil {
		masses, own := d.propose(nil, rng, of, limit)
		return d.distribution(masses, own, limit)
	}
	// The largest sum of log weight and Gumbel noise is a weighted choice. The candidates are in descending order of their
	// noise, because then most candidates need not be drawn.
	var noise [candidates]float64
	for i := range noise {
		noise[i] = -math.Log(rng.ExpFloat64())
	}
	slices.SortFunc(noise[:], func(a, b float64) int { return cmp.Compare(b, a) })
	var best empirical.Distribution
	var masses []empirical.Mass
	highest := math.Inf(-1)
	for _, weight := range noise {
		if weight <= highest {
			break // no log weight is above 0, so no later candidate has a larger sum
		}
		var own int
		masses, own = d.propose(masses[:0], rng, of, limit)
		one := d.distribution(masses, own, limit)
		for _, elapsed := range of.running {
			weight += math.Log(max(one.Longer(elapsed), shortfall))
		}
		if weight > highest {
			best, highest = one, weight
		}
	}
	return best
}

// shortfall is the probability that a job runs longer than a distribution says.
const shortfall = 0.01

// propose draws the weights of a group's distribution, given the group's ended jobs, and appends them to masses: first
// the group's own weights, and then the weights of the sticks. The own weights are those of the group's run times and
// of its tail. The tail also consists of sticks. The tail's sticks are drawn from the part of the wider group's draw
// that is longer than the group's longest job so far (Susarla and Van Ryzin, "Nonparametric Bayesian estimation of
// survival curves from incomplete observations", Journal of the American Statistical Association 71(356), 1976).
func (d *drawn) propose(masses []empirical.Mass, rng *rand.Rand, of *pool, limit float64) (all []empirical.Mass,
	own int) {
	add := func(list []empirical.Mass) {
		for _, m := range list {
			masses = append(masses, empirical.Mass{Seconds: m.Seconds, Weight: nested.Gamma(rng, m.Weight*float64(of.ended))})
		}
	}
	add(of.masses)
	if d.wider == nil {
		add(of.evenly(limit))
		return masses, len(masses)
	}
	if own = len(masses); of.tail.Weight > 0 {
		weight, longest := of.tail.Weight*float64(of.ended), of.tail.Seconds
		masses = nested.Sticks(masses, rng, weight, min(of.wider, of.spread)*d.wider.Longer(longest))
		for ; own < len(masses); own++ {
			masses[own].Seconds = d.wider.QuantileAfter(masses[own].Seconds, longest)
		}
	}
	return nested.Sticks(masses, rng, of.wider, of.spread), own
}

// distribution returns the distribution with the weights that propose drew. It changes masses.
func (d *drawn) distribution(masses []empirical.Mass, own int, limit float64) empirical.Distribution {
	for i := own; i < len(masses); i++ {
		masses[i].Seconds = d.wider.Distribution.QuantileAfter(masses[i].Seconds, 0)
	}
	return empirical.New(empirical.Sorted(masses), limit)
}
