package forecast

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat/distuv"

	"rmreplay/internal/forecast/empirical"
)

// posterior has the distributions of a realization. A few jobs do not show how long the jobs of a user or an array
// really run, and an error in one job's run time is probably an error in all. So a realization first draws a
// distribution for each group, from the distributions that are likely given the jobs that have ended. It then draws
// the jobs' run times from their group's distribution: a realization's jobs of a group are long or short together.
//
// The distribution of the widest group is a Bayesian bootstrap of its jobs (Rubin, "The Bayesian bootstrap", The
// Annals of Statistics 9(1), 1981). The distribution of each narrower group is a draw of the Dirichlet process of
// [Shares]: it has the group's jobs, and sticks (Sethuraman, "A constructive definition of Dirichlet priors",
// Statistica Sinica 4(2), 1994) from the wider group's draw, with weights that are gamma variables.
type posterior struct {
	seed  [8]byte // the seed of the realization
	drawn map[groupLimit]*drawn
}

// drawn is a distribution that was drawn, with the draw of the wider group.
type drawn struct {
	empirical.Distribution
	wider *drawn // nil for the widest group
}

// QuantileAfter is [Distribution.QuantileAfter]. For a job that has run longer than the longest time drawn for
// its group, the wider group counts: the time drawn may be shorter than the jobs that still run.
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

// level draws the distribution of levels[0], after it has drawn the distribution of levels[1], the wider group.
// levels is not empty.
func (p *posterior) level(levels []pool, limit float64) *drawn {
	of := &levels[0]
	key := groupLimit{of.group, limit}
	if known, ok := p.drawn[key]; ok {
		return known
	}
	name := fnv.New64a()
	_, _ = name.Write(p.seed[:])              // a hash returns no error
	_, _ = fmt.Fprintf(name, "%+v", of.group) // not the limit: jobs with all limits are long or short together
	rng := rand.New(rand.NewPCG(name.Sum64(), 21))
	one := &drawn{}
	if len(levels) > 1 {
		one.wider = p.level(levels[1:], limit)
	}
	one.Distribution = one.likely(rng, of, limit)
	p.drawn[key] = one
	return one
}

// candidates is the number of distributions from which likely chooses.
const candidates = 50

// likely draws a group's distribution. If jobs of the group run and none has ended, likely draws several
// distributions, and takes one with the probability that jobs run longer than these have run (sampling importance
// resampling: Rubin, "Using the SIR algorithm to simulate posterior distributions", 1988).
func (d *drawn) likely(rng *rand.Rand, of *pool, limit float64) empirical.Distribution {
	if len(of.running) == 0 || d.wider == nil {
		return d.distribution(d.propose(nil, rng, of), of, limit)
	}
	var best empirical.Distribution
	var masses []empirical.Mass
	highest := math.Inf(-1)
	for range candidates {
		masses = d.propose(masses[:0], rng, of)
		weight := -math.Log(rng.ExpFloat64()) // the largest sum of log weight and Gumbel noise is a weighted choice
		if weight <= highest {
			continue // no log weight is above 0
		}
		one := d.distribution(masses, of, limit)
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

// propose appends to masses the weights of a group's distribution, given the group's ended jobs: first those of the
// group's own run times, and then the sticks.
func (d *drawn) propose(masses []empirical.Mass, rng *rand.Rand, of *pool) []empirical.Mass {
	for _, m := range of.masses {
		masses = append(masses, empirical.Mass{Seconds: m.Seconds, Weight: gamma(rng, m.Weight*float64(of.ended))})
	}
	if d.wider != nil {
		masses = sticks(masses, rng, of.wider, of.spread)
	}
	return masses
}

// distribution makes the distribution of weights that propose drew, and changes masses.
func (d *drawn) distribution(masses []empirical.Mass, of *pool, limit float64) empirical.Distribution {
	for i := len(of.masses); i < len(masses); i++ {
		masses[i].Seconds = d.wider.Distribution.QuantileAfter(masses[i].Seconds, 0)
	}
	return empirical.New(empirical.Sorted(masses), limit)
}

// A stick is not a single run time, because all jobs of a group would then have this run time. A stick is a few
// (pieces) run times that are close to each other (near) in the wider distribution.
const (
	pieces = 5
	near   = 0.1
)

// maxSticks bounds the sticks of a draw. With a large concentration, many sticks are close to the wider distribution
// itself.
const maxSticks = 200

// sticks draws the part of the wider distribution in a group's distribution, and appends it to list. Seconds are not
// run times yet, but the sticks' quantiles in the wider distribution. The weights add up to a gamma variable whose
// mean is weight. The concentration says how much the groups differ; it is at most weight.
func sticks(list []empirical.Mass, rng *rand.Rand, weight, concentration float64) []empirical.Mass {
	weight = min(weight, 1e6)
	concentration = min(max(concentration, 0.01), weight)
	if concentration > maxSticks/5 {
		for i := range maxSticks {
			list = append(list, empirical.Mass{Seconds: (float64(i) + 0.5) / maxSticks,
				Weight: gamma(rng, concentration/maxSticks) * weight / concentration})
		}
		return list
	}
	left := gamma(rng, weight)
	for total, most := left, len(list)+maxSticks; len(list) < most && left > total/1000; {
		share, at := 1-math.Pow(rng.Float64(), 1/concentration), rng.Float64()
		for k := range pieces {
			place := math.Abs(at + near*(float64(k)/(pieces-1)-0.5))
			list = append(list, empirical.Mass{Seconds: min(place, 2-place), Weight: left * share / pieces})
		}
		left *= 1 - share
	}
	return list
}

// gamma draws from the gamma distribution with a shape and the scale 1.
func gamma(rng *rand.Rand, shape float64) float64 {
	return distuv.Gamma{Alpha: max(shape, 1e-3), Beta: 1, Src: rng}.Rand()
}
