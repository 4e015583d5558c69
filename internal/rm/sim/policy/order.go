package policy

import (
	"math"

	"rmreplay/internal/rm/sim"
)

// order is an order of the queue: the job with the lowest key comes first.
type order struct {
	name string
	// key is computed from what a scheduler can know of a job.
	key func(facts) float64
	// changes says that keys change while the jobs wait.
	changes bool
	doc     string
}

// facts are what a queue order goes by.
type facts struct {
	r float64 // time limit, seconds: the user's estimate of the run time
	n float64 // processors
	s float64 // submit time, seconds since the simulation began, at least 1
	w float64 // how long it has waited, seconds
}

// arrival is the order in which the jobs came.
var arrival = order{key: func(facts) float64 { return 0 }}

// orders are the queue orders that EASY can be combined with. SAF is the one that
// Carastan-Santos, de Camargo, Trystram and Zrigui, "One can only gain by replacing EASY
// backfilling" (CCGrid 2019) recommend. WFP3 and UNICEF are from Tang, Lan, Desai and
// Buettner, "Fault-aware, utility-based job scheduling on Blue Gene/P systems" (CLUSTER
// 2009); F1 to F4 were found by regression in Carastan-Santos and de Camargo, "Obtaining
// dynamic scheduling policies with simulation and machine learning" (SC'17, table 3),
// which also has the forms of WFP3 and UNICEF used here. Their constants are those of the
// printed functions; a test holds them against the unrounded ones.
var orders = []order{
	{name: "sjf", doc: "shortest time limit first", key: func(j facts) float64 { return j.r }},
	{name: "ljf", doc: "longest time limit first", key: func(j facts) float64 { return -j.r }},
	{name: "saf", doc: "smallest area (time limit x processors) first", key: func(j facts) float64 { return j.r * j.n }},
	{name: "laf", doc: "largest area first", key: func(j facts) float64 { return -j.r * j.n }},
	{name: "wfp3", doc: "highest (wait / time limit)^3 x processors first", changes: true,
		key: func(j facts) float64 { q := j.w / j.r; return -q * q * q * j.n }},
	{name: "unicef", doc: "highest wait / (log2(processors) x time limit) first", changes: true, key: unicef},
	{name: "f1", doc: "lowest log10(r) n + 870 log10(s)",
		key: func(j facts) float64 { return math.Log10(j.r)*j.n + 870*math.Log10(j.s) }},
	{name: "f2", doc: "lowest sqrt(r) n + 25600 log10(s)",
		key: func(j facts) float64 { return math.Sqrt(j.r)*j.n + 25600*math.Log10(j.s) }},
	{name: "f3", doc: "lowest r n + 6860000 log10(s)",
		key: func(j facts) float64 { return j.r*j.n + 6.86e6*math.Log10(j.s) }},
	{name: "f4", doc: "lowest r sqrt(n) + 530000 log10(s)",
		key: func(j facts) float64 { return j.r*math.Sqrt(j.n) + 5.30e5*math.Log10(j.s) }},
}

// unicef is the limit of its formula for jobs of one processor, whose logarithm is 0:
// they come first.
func unicef(j facts) float64 {
	if j.n <= 1 {
		return math.Inf(-1)
	}
	return -j.w / (math.Log2(j.n) * j.r)
}

// keys returns the order's key of a job on a machine, as of now.
func (o order) keys(m *sim.Machine) func(*sim.Job) float64 {
	epoch := m.Now()
	return func(j *sim.Job) float64 {
		return o.key(facts{
			r: max(j.Limit.Seconds(), 1),
			n: float64(j.Size),
			s: max(j.Submit.Sub(epoch).Seconds(), 1),
			w: m.Now().Sub(j.Submit).Seconds(),
		})
	}
}

// policy is textbook EASY backfilling under this order: the head of the queue in the
// order has the reservation, and the others are backfilled in the order.
func (o order) policy(m *sim.Machine) sim.Policy { return newEASY(m, o, TieRules{}) }
