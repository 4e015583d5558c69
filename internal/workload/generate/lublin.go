package generate

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/workload"
)

// LublinOptions are the options of [Lublin].
type LublinOptions struct {
	Jobs int // 1000 if 0
	// Processors is the size of the machine; 128 if 0, the size of the machines of the
	// model's logs.
	Processors int
	// Nodes makes the jobs ask for whole nodes. Processors then counts nodes.
	Nodes bool
	// Untyped draws from the parameters for all jobs together; otherwise batch and interactive jobs are drawn as two
	// streams.
	Untyped bool
	// Users is the number of users; 50 if 0. The model itself has no users.
	Users int
	// Start is the midnight at which the first day begins.
	Start hpc.Time
	Seed  uint64
}

// lublinClass is a class of jobs with its parameters. The names come from the tables of Lublin and
// Feitelson, "The workload on parallel supercomputers: modeling the characteristics of rigid
// jobs", Journal of Parallel and Distributed Computing 63(11), 2003.
type lublinClass struct {
	name string
	// Sizes: a job is serial with probability serial. Otherwise its size is 2^x with
	// two-stage uniform x, rounded to an integer with probability pow2. x is below med with
	// probability uProb.
	serial, pow2, uLow, uProb float64
	uHighLess                 float64 // the largest x is log2 of the machine's size minus this
	// Run times: ln t is Gamma(a1, b1) with probability p = pa*n + pb for n processors,
	// otherwise Gamma(a2, b2).
	a1, b1, a2, b2, pa, pb float64
	// Arrivals: ln of the time to the next arrival is Gamma(arrive, bArrive) at the mean
	// rate of the day. Gamma(aDay, bDay) gives the weights of its half-hours.
	arrive, bArrive, aDay, bDay float64
}

// The published parameters. The first factor of arrive is the value for the rush hours. The second
// factor (ARAR) converts it to the whole day.
var (
	lublinBatch = lublinClass{
		name: "batch", serial: 0.2927, pow2: 0.6686, uLow: 1.2, uProb: 0.875,
		a1: 6.57, b1: 0.823, a2: 639.1, b2: 0.0156, pa: -0.003, pb: 0.6986,
		arrive: 6.0415 * 1.0519, bArrive: 0.8531, aDay: 6.1271, bDay: 5.2740,
	}
	lublinInteractive = lublinClass{
		name: "interactive", serial: 0.1541, pow2: 0.625, uLow: 1, uProb: 0.705, uHighLess: 1.5,
		a1: 3.8351, b1: 0.6605, a2: 7.073, b2: 0.6856, pa: -0.0118, pb: 0.9156,
		arrive: 6.5510 * 0.9797, bArrive: 0.6621, aDay: 8.9186, bDay: 3.6680,
	}
	lublinAll = lublinClass{
		name: "job", serial: 0.244, pow2: 0.576, uLow: 0.8, uProb: 0.86,
		a1: 4.2, b1: 0.94, a2: 312, b2: 0.03, pa: -0.0054, pb: 0.78,
		arrive: 10.2303 * 1.0225, bArrive: 0.4871, aDay: 8.1737, bDay: 3.9631,
	}
)

const (
	medBelow     = 2.5 // the two stages of sizes meet this far below the largest size (published: 1.5 to 3.5)
	maxLogRun    = 12  // no job runs longer than exp(12) s, which is 45.2 h
	maxLogGap    = 13  // no gap is longer than exp(13) s
	buckets      = 48  // half-hours
	bucketLength = 1800.0
	cycleStart   = 11 // the half-hour at which the gamma distribution of the day begins
)

// lublinLimit is the time limit of all jobs: the longest run time in full hours. The model
// has no time limits; transformations make realistic limits.
const lublinLimit = 46 * time.Hour

// Lublin draws a workload from the model of Lublin and Feitelson (2003) with its published
// parameters. The error says which option is out of range.
func Lublin(o LublinOptions) (*workload.Workload, error) {
	o.Jobs, o.Processors, o.Users = cmp.Or(o.Jobs, 1000), cmp.Or(o.Processors, 128), cmp.Or(o.Users, 50)
	switch {
	case o.Jobs < 0 || o.Jobs > maxDrawn:
		return nil, fmt.Errorf("jobs %d: not a number of jobs (want 1 to %d)", o.Jobs, maxDrawn)
	case o.Processors < 4 || o.Processors > 1<<24:
		return nil, fmt.Errorf("processors %d: not a size for the model (want 4 to %d)", o.Processors, 1<<24)
	case o.Users < 0 || o.Users > 1<<16:
		return nil, fmt.Errorf("users %d: not a number of users (want 1 to %d)", o.Users, 1<<16)
	}
	classes := []*lublinClass{&lublinBatch, &lublinInteractive}
	if o.Untyped {
		classes = []*lublinClass{&lublinAll}
	}
	w := &workload.Workload{
		Epoch: o.Start, Users: lublinUsers(o.Users), MachineProcessors: o.Processors,
		Source: fmt.Sprintf("Lublin-Feitelson model, %d %s, seed %d", o.Processors,
			quantity.Plural(o.Processors, "processor", "processors"), o.Seed),
	}
	if o.Nodes {
		w.MachineNodes, w.MachineProcessors = o.Processors, 0
	}
	for i, c := range classes {
		rng := rand.New(rand.NewPCG(o.Seed, uint64(i)))
		arrivals := newArrivals(rng, c)
		for range o.Jobs { // o.Jobs arrivals of each class; the cut below keeps the first o.Jobs of all
			job := c.job(rng, &o)
			job.Submit = o.Start.Add(time.Duration(arrivals.next() * float64(time.Second)).Truncate(time.Second))
			w.Jobs.Append(job)
		}
	}
	w.Jobs.Sort()
	w.Jobs = w.Jobs.First(o.Jobs)
	assignUsers(rand.New(rand.NewPCG(o.Seed, 2)), w)
	return w, nil
}

// maxDrawn is the largest number of jobs that can be drawn; all are held in memory.
const maxDrawn = 10_000_000

// job draws a job without its submit time.
func (c *lublinClass) job(rng *rand.Rand, o *LublinOptions) *hpc.Job {
	n := c.drawSize(rng, o.Processors)
	job := &hpc.Job{}
	job.Name = c.name
	job.RunTime = c.drawRunTime(rng, n)
	job.TimeLimit = lublinLimit
	job.Tasks = n
	if o.Nodes {
		job.MinNodes, job.MaxNodes = n, n
	}
	return job
}

// drawSize draws the number of processors of a job.
func (c *lublinClass) drawSize(rng *rand.Rand, machine int) int {
	u := rng.Float64()
	if u <= c.serial {
		return 1
	}
	high := max(math.Log2(float64(machine))-c.uHighLess, c.uLow)
	med := max(high-medBelow, c.uLow)
	x := med + rng.Float64()*(high-med)
	if rng.Float64() <= c.uProb {
		x = c.uLow + rng.Float64()*(med-c.uLow)
	}
	if u <= c.serial+c.pow2 {
		x = math.Round(x)
	}
	return min(int(math.Round(math.Exp2(x))), machine)
}

// drawRunTime draws the run time of a job on n processors, in whole seconds.
func (c *lublinClass) drawRunTime(rng *rand.Rand, n int) time.Duration {
	p := min(max(c.pa*float64(n)+c.pb, 0), 1)
	for {
		g := distuv.Gamma{Alpha: c.a2, Beta: 1 / c.b2, Src: rng}
		if rng.Float64() <= p {
			g = distuv.Gamma{Alpha: c.a1, Beta: 1 / c.b1, Src: rng}
		}
		if x := g.Rand(); x <= maxLogRun {
			return time.Duration(math.Exp(x)) * time.Second
		}
	}
}

// arrivals is a stream of arrival instants. Its clock counts points. At the mean rate of the day,
// a half-hour is one point, and a half-hour with twice the jobs is two points.
type arrivals struct {
	gap        distuv.Gamma // the gap: logarithm of seconds, at the mean rate
	cumulative [buckets + 1]float64
	points     float64
}

func newArrivals(rng *rand.Rand, c *lublinClass) *arrivals {
	a := &arrivals{gap: distuv.Gamma{Alpha: c.arrive, Beta: 1 / c.bArrive, Src: rng}}
	weights := c.dayWeights()
	for i, w := range weights {
		a.cumulative[i+1] = a.cumulative[i] + w
	}
	return a
}

// dayWeights returns the weight of each half-hour: its share of the day's jobs times the
// number of half-hours, so that the mean is 1. Gamma(aDay, bDay) is cut into half-hours
// from cycleStart on.
func (c *lublinClass) dayWeights() [buckets]float64 {
	var weights [buckets]float64
	total := 0.0
	cdf := func(x float64) float64 { return mathext.GammaIncReg(c.aDay, x/c.bDay) }
	for i := cycleStart; i < buckets+cycleStart; i++ {
		w := cdf(float64(i)+0.5) - cdf(float64(i)-0.5)
		weights[(i-1)%buckets] = w
		total += w
	}
	for i := range weights {
		weights[i] *= buckets / total
	}
	return weights
}

// next returns the next instant, in seconds from the first midnight.
func (a *arrivals) next() float64 {
	x := a.gap.Rand()
	for x > maxLogGap {
		x = a.gap.Rand()
	}
	a.points += math.Exp(x) / bucketLength
	day, rest := math.Floor(a.points/buckets), math.Mod(a.points, buckets)
	i, found := slices.BinarySearch(a.cumulative[:], rest)
	if !found {
		i--
	}
	i = min(max(i, 0), buckets-1)
	within := 0.0
	if w := a.cumulative[i+1] - a.cumulative[i]; w > 0 {
		within = (rest - a.cumulative[i]) / w
	}
	return (day*buckets + float64(i) + within) * bucketLength
}

// lublinUsers invents n users.
func lublinUsers(n int) []hpc.User {
	users := make([]hpc.User, n)
	for i := range users {
		users[i] = hpc.User{Name: fmt.Sprintf("u%04d", i+1), UID: uint32(firstID + i), Group: "users", GID: firstID}
	}
	return users
}

// assignUsers gives the jobs IDs in their order, and users by Zipf's law.
func assignUsers(rng *rand.Rand, w *workload.Workload) {
	weights := make([]float64, len(w.Users))
	for i := range weights {
		weights[i] = 1 / float64(i+1)
	}
	for i, job := range w.Jobs.All() {
		job.ID = fmt.Sprintf("j%06d", i+1)
		job.User = w.Users[pick(rng, weights)].Name
		w.Jobs.Set(i, job)
	}
}
