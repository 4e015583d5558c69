package policy

import (
	"math"

	"rmreplay/internal/rm/sim"
)

// order is an order of the queue: the job with the lowest key is the first.
type order struct {
	name string
	// key computes a job's key from the numbers that a scheduler may use.
	key func(facts) float64
	// changes says that keys change while the jobs wait.
	changes bool
	doc     string
}

// facts are the numbers from which keys are computed.
type facts struct {
	r float64 // expected run time, seconds: the time limit, or the prediction
	n float64 // processors
	s float64 // submit time, seconds since the simulation began, at least 1
	w float64 // time that the job has waited, seconds
}

// arrival is the order of arrival: all keys are equal.
var arrival = order{key: func(facts) float64 { return 0 }}

// orders are the queue orders that EASY can be combined with. Carastan-Santos, de Camargo, Trystram and Zrigui
// recommend SAF in "One can only gain by replacing EASY backfilling" (CCGrid 2019). WFP3 and UNICEF are from Tang, Lan,
// Desai and Buettner, "Fault-aware, utility-based job scheduling on Blue Gene/P systems" (CLUSTER 2009).
// Carastan-Santos and de Camargo found F1 to F4 by regression, in "Obtaining dynamic scheduling policies with
// simulation and machine learning" (SC'17, table 3). Their table 3 also has the forms of WFP3 and UNICEF used here. The
// constants are as printed there; a test compares the functions with the functions of the unrounded constants.
var orders = []order{
	{name: "sjf", doc: "shortest time limit first", key: func(j facts) float64 { return j.r }},
	{name: "ljf", doc: "longest time limit first", key: func(j facts) float64 { return -j.r }},
	{name: "saf", doc: "smallest area (time limit x processors) first", key: func(j facts) float64 { return j.r * j.n }},
	{name: "laf", doc: "largest area first", key: func(j facts) float64 { return -j.r * j.n }},
	{name: "wfp3", doc: "highest (wait / time limit)^3 x processors first", changes: true,
		key: func(j facts) float64 { q := j.w / j.r; return -q * q * q * j.n }},
	{name: "unicef", doc: "highest wait / (log2(processors) x limit) first", changes: true, key: unicef},
	{name: "f1", doc: "lowest log10(r) n + 870 log10(s)",
		key: func(j facts) float64 { return math.Log10(j.r)*j.n + 870*math.Log10(j.s) }},
	{name: "f2", doc: "lowest sqrt(r) n + 25600 log10(s)",
		key: func(j facts) float64 { return math.Sqrt(j.r)*j.n + 25600*math.Log10(j.s) }},
	{name: "f3", doc: "lowest r n + 6860000 log10(s)",
		key: func(j facts) float64 { return j.r*j.n + 6.86e6*math.Log10(j.s) }},
	{name: "f4", doc: "lowest r sqrt(n) + 530000 log10(s)",
		key: func(j facts) float64 { return j.r*math.Sqrt(j.n) + 5.30e5*math.Log10(j.s) }},
}

// unicef is the formula of UNICEF. Jobs of one processor are the first: the logarithm of 1 in the
// denominator is 0.
func unicef(j facts) float64 {
	if j.n <= 1 {
		return math.Inf(-1)
	}
	return -j.w / (math.Log2(j.n) * j.r)
}

// keys returns a function that computes a job's key at the machine's current instant.
func (o order) keys(m *sim.Machine) func(*sim.Job) float64 {
	epoch := m.Now()
	return func(j *sim.Job) float64 {
		return o.key(facts{
			r: max(j.Expected.Seconds(), 1),
			n: float64(j.Size),
			s: max(j.Submit.Sub(epoch).Seconds(), 1),
			w: m.Now().Sub(j.Submit).Seconds(),
		})
	}
}

// policy is textbook EASY backfilling with this order of the queue. The first job has the
// reservation, and the others are backfilled in the order.
func (o order) policy(m *sim.Machine) sim.Policy { return newEASY(m, o, TieRules{}) }
