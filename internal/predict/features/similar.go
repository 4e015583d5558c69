package features

import (
	"cmp"
	"math"
	"slices"

	"rmreplay/internal/hpc"
	"rmreplay/internal/stats"
)

// The product-limit estimator with weights ([stats.ProductLimit]) estimates a distribution of run times. The estimator
// uses the user's jobs that are similar to a submission. The user's ended jobs are its observations. A running job is a
// censored observation: its run time is longer than its present age. Without running jobs, short jobs would count too
// much, because they end first.

// maxPastJobs is the maximum number of a user's ended jobs that count. Of the running jobs, only
// those among the last maxPastJobs started jobs count.
const maxPastJobs = 100

// The weight of a job is exp(-d), where d sums up these differences from the submission. Of several
// sets of values, these had the best scores on the logs KTH SP2 and CTC SP2. The scores of other
// values were a little worse.
const (
	otherName  = 4    // a different name
	otherSize  = 3    // a different number of processors, plus the logarithm of the ratio
	otherLimit = 4    // a different time limit, plus the logarithm of the ratio
	later      = 0.05 // for each job of the user that ended later or, for running jobs, that started later
)

// traits are the properties by which a user's jobs are compared.
type traits struct {
	Name string `json:"n,omitempty"`
	// Size and Limit are logarithms: of processors, and of 1 + seconds.
	Size  float64 `json:"p"`
	Limit float64 `json:"l"`
}

// traitsOf returns the traits of a job with these keys.
func traitsOf(keys *[kinds]key) traits {
	return traits{keys[ofName].name, math.Log(keys[ofSize].size), math.Log1p(keys[ofLimit].limit)}
}

// distance returns how different two jobs are.
func (t *traits) distance(other *traits) (d float64) {
	if t.Name != other.Name {
		d += otherName
	}
	if t.Size != other.Size {
		d += otherSize + math.Abs(t.Size-other.Size)
	}
	if t.Limit != other.Limit {
		d += otherLimit + math.Abs(t.Limit-other.Limit)
	}
	return d
}

// past is an ended job of a user.
type past struct {
	traits
	Seconds float64 `json:"s"`
	order   int     // the number among the user's ended jobs
}

// ended has the last ended jobs of a user, at most maxPastJobs.
type ended struct {
	byTime []past // ascending by run time
	count  int    // of all the user's ended jobs
}

// add adds an ended job. If the list is full, the job replaces the oldest job.
func (e *ended) add(t *traits, seconds float64) {
	if len(e.byTime) == maxPastJobs {
		oldest := slices.IndexFunc(e.byTime, func(p past) bool { return p.order == e.count-maxPastJobs })
		e.byTime = slices.Delete(e.byTime, oldest, oldest+1)
	}
	at, _ := slices.BinarySearchFunc(e.byTime, seconds, func(p past, s float64) int {
		if p.Seconds <= s {
			return -1
		}
		return 1
	})
	e.byTime = slices.Insert(e.byTime, at, past{*t, seconds, e.count})
	e.count++
}

// byEnd returns the jobs in the order of their ends.
func (e *ended) byEnd() []past {
	list := slices.Clone(e.byTime)
	slices.SortFunc(list, func(a, b past) int { return cmp.Compare(a.order, b.order) })
	return list
}

// remember adds an ended job to its user's ended jobs.
func (h *History) remember(j *job, seconds float64) {
	if j.past == nil {
		j.past = h.past[j.request.User]
	}
	if j.past == nil {
		j.past = new(ended)
		h.past[j.request.User] = j.past
	}
	j.past.add(&j.traits, seconds)
}

// appendSimilar adds the logarithms of the quartiles of the run time.
func (h *History) appendSimilar(x []float32, place *place, at hpc.Time) []float32 {
	e := place.past
	if e == nil {
		return append(x, missing, missing, missing)
	}
	t := place.traits
	// Both kinds of jobs are added in the order of their run times, so that the list is nearly
	// sorted.
	list := h.observations[:0]
	rest := e.byTime // ended jobs that are not yet in the list
	until := func(seconds float64) {
		for len(rest) > 0 && rest[0].Seconds <= seconds {
			p := &rest[0]
			list = append(list, stats.Observation{Time: p.Seconds,
				Weight: math.Exp(-p.distance(&t) - later*float64(e.count-1-p.order))})
			rest = rest[1:]
		}
	}
	if c := place.crowds[0]; c != nil && !h.target.Measured() { // a measured value is not known before the end
		newer := 0.0 // running jobs that started later
		for i := len(c.running) - 1; i >= 0 && c.running[len(c.running)-1].order-c.running[i].order < maxPastJobs; i-- {
			if j := c.running[i]; !j.ended {
				elapsed := max(at.Sub(j.start).Seconds(), 0)
				until(elapsed)
				list = append(list, stats.Observation{Time: elapsed, Weight: math.Exp(-j.distance(&t) - later*newer),
					Censored: true})
				newer++
			}
		}
	}
	until(math.Inf(1))
	h.observations = list
	q := quartiles(list)
	return append(x, logSeconds(q[0]), logSeconds(q[1]), logSeconds(q[2]))
}

func logSeconds(s float64) float32 { return float32(math.Log1p(s)) }

// quartiles returns the quartiles of the product-limit estimator. If the estimated share of longer run times never
// falls to the level of a quartile, this quartile is the longest observation. quartiles sorts the list, which must not
// be empty.
func quartiles(list []stats.Observation) (q [3]float64) {
	const rounding = 1e-12
	found := 0
	for seconds, longer := range stats.ProductLimit(list) {
		for ; found < len(q) && longer <= 1-0.25*float64(found+1)+rounding; found++ {
			q[found] = seconds
		}
		if found == len(q) {
			break
		}
	}
	for ; found < len(q); found++ {
		q[found] = list[len(list)-1].Time
	}
	return q
}
