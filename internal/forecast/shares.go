package forecast

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"sync"
	"time"

	"rmreplay/internal/forecast/empirical"
	"rmreplay/internal/forecast/nested"
	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/stats"
)

// Shares is a [Learner] that needs no training. A job's distribution is made of the shares of the time limit that
// earlier jobs used, multiplied by the job's own limit. For jobs without a limit it is made of run times. The earlier
// jobs form groups, from narrow to wide: the job's class ([predict.Class]); its user's jobs with its limit, partition
// and constraint; all users' jobs with these three; all users' jobs with its limit; all jobs. In each group the jobs
// that started last count, even if they have not ended: see [Shares.weigh].
//
// A few jobs do not show the whole distribution of run times in a group, so each group's distribution is mixed with
// the distribution of the next wider group. The mixture is the posterior of a Dirichlet process, given the group's
// ended jobs, and the mean of the process is the wider group's distribution (Ferguson, The Annals of Statistics 1(2),
// 1973). The concentration of the process is the weight of the wider group, expressed as a number of jobs
// ([Shares.learnConcentrations]).
type Shares struct {
	open    map[int64]*share // jobs that wait or run
	started map[group][]*share
	// first is the time of the first known end. Ends before it are not known.
	first hpc.Time
	// concentration has a value for each level except the last level. It is nil if the values must be
	// learned again.
	concentration []float64
	// spread has the concentrations that are learned from how similar the jobs of a group are ([nested.Concentrations]).
	spread []float64
	// weighed caches the results of [Shares.weigh] for an instant, until the next start or end: jobs that wait at the
	// same time share wide groups.
	weighed   map[groupLimit]weighed
	weighedAt hpc.Time
}

type groupLimit struct {
	group
	limit float64
}

type weighed struct {
	masses []empirical.Mass
	// tail is the weight of jobs that are longer than all ended jobs of the group. The Seconds of tail are the longest run
	// time so far.
	tail    empirical.Mass
	ended   int
	running []float64 // how long the running jobs have run so far, in seconds; only if no job of the group has ended
}

// share is a job from which the run times of other jobs are predicted.
type share struct {
	groups     [levels]group
	limit      float64  // in seconds; 0 for none
	start, end hpc.Time // 0 if the job has not started or not ended
}

// used returns the share of its limit that an ended job used, or its run time in seconds if it has no limit.
func (s *share) used() float64 {
	return s.end.Sub(s.start).Seconds() / cmp.Or(s.limit, 1)
}

// group is a group of jobs. Levels count from the narrowest group to the widest.
type group struct {
	level                 int
	class                 predict.ClassKey
	partition, constraint string
}

const levels = 5

// most is the maximum number of jobs that count in a group, by level. The jobs that started last count.
var most = [levels]int{100, 500, 5000, 5000, 5000}

// NewShares returns a learner without jobs.
func NewShares() *Shares {
	return &Shares{open: map[int64]*share{}, started: map[group][]*share{}}
}

// groupsOf returns the groups to which a job belongs. If its comment names a class, the first group has only the
// user's jobs.
func groupsOf(r *hpc.Request) [levels]group {
	class := predict.Class(r)
	class.User = r.User
	limit := time.Duration(predict.Limit(r) * float64(time.Second))
	ofUser, ofLimit := predict.ClassKey{User: r.User, Limit: limit}, predict.ClassKey{Limit: limit}
	return [levels]group{
		{0, class, "", ""},
		{1, ofUser, r.Partition, r.Constraint},
		{2, ofLimit, r.Partition, r.Constraint},
		{3, ofLimit, "", ""},
		{level: 4},
	}
}

// Submit is [predict.Predictor.Submit].
func (s *Shares) Submit(job predict.Submission) predict.Prediction {
	s.open[job.Number] = &share{groups: groupsOf(job.Request), limit: predict.Limit(job.Request)}
	return predict.Prediction{}
}

// Start is [predict.Predictor.Start].
func (s *Shares) Start(number int64, at hpc.Time) {
	job := s.open[number]
	if job == nil {
		return
	}
	job.start, s.weighed = at, nil
	for _, group := range job.groups {
		list := s.started[group]
		if len(list) >= 2*most[group.level] { // not at every start, because this moves all elements
			list = append(list[:0], list[len(list)-most[group.level]+1:]...)
		}
		s.started[group] = append(list, job)
	}
}

// End is [predict.Predictor.End].
func (s *Shares) End(number int64, at hpc.Time, _ hpc.State) {
	if job := s.open[number]; job != nil && job.start != 0 {
		job.end = max(at, job.start)
		s.first = cmp.Or(s.first, at)
		s.concentration, s.weighed = nil, nil
	}
	delete(s.open, number)
}

// last returns the last jobs of a group that started.
func (s *Shares) last(of group) []*share {
	started := s.started[of]
	return started[max(len(started)-most[of.level], 0):]
}

// Predict is [predict.Predictor.Predict]: three quantiles of the distribution.
func (s *Shares) Predict(job predict.Submission) predict.Prediction {
	d := s.Distribution(job)
	return predict.Prediction{
		P10: d.QuantileAfter(0.1, 0), P50: d.QuantileAfter(0.5, 0), P90: d.QuantileAfter(0.9, 0),
		Limit: predict.Limit(job.Request),
	}.Sound()
}

// Distribution is [Learner.Distribution].
func (s *Shares) Distribution(job predict.Submission) Distribution {
	if s.concentration == nil {
		s.learnConcentrations()
	}
	limit := predict.Limit(job.Request)
	d := pooled{limit: limit}
	for level, group := range groupsOf(job.Request) {
		of := pool{group: group, weighed: s.weighGroup(group, job.At, limit)}
		if level < levels-1 {
			of.wider = s.concentration[level]
			of.spread = min(of.wider, s.spread[level])
		}
		d.levels = append(d.levels, of)
	}
	if d.levels[levels-1].ended == 0 { // all shares of the limit are equally likely
		return predict.Prediction{P10: 0.1 * limit, P50: 0.5 * limit, P90: 0.9 * limit, Limit: limit}
	}
	d.mean = sync.OnceValue(d.expected)
	return d
}

// pooled is a job's distribution, learned from the job's groups (levels, the narrowest group
// first). Its quantiles come from the mean of the groups' possible distributions. Realizations do
// not need this mean, because they draw from the levels.
type pooled struct {
	mean   func() empirical.Distribution
	levels []pool
	limit  float64 // in seconds; 0 for none
}

// QuantileAfter is [Distribution.QuantileAfter].
func (d pooled) QuantileAfter(q, elapsed float64) float64 { return d.mean().QuantileAfter(q, elapsed) }

// pool is a group with its jobs.
type pool struct {
	group group
	weighed
	wider float64 // the concentration: the weight of the wider groups, as a number of jobs
	// A realization draws the part of the distribution that comes from the wider group with the concentration spread. If
	// the jobs within groups are similar, spread is smaller than wider, so that the draws for two groups differ more.
	spread float64
}

// expected returns the expected distribution.
func (d pooled) expected() empirical.Distribution {
	var mixed []empirical.Mass
	left := 1.0 // the share of this group and the wider groups
	for i, of := range d.levels {
		share := 1.0
		if i < len(d.levels)-1 {
			share = float64(of.ended) / (float64(of.ended) + of.wider)
		}
		for _, m := range append(of.masses[:len(of.masses):len(of.masses)], of.evenly(d.limit)...) {
			mixed = append(mixed, empirical.Mass{Seconds: m.Seconds, Weight: m.Weight * share * left})
		}
		left *= 1 - share
	}
	return empirical.New(empirical.Sorted(mixed), d.limit)
}

// weighGroup applies weigh to the last jobs of a group.
func (s *Shares) weighGroup(of group, at hpc.Time, limit float64) weighed {
	if s.weighed == nil || s.weighedAt != at {
		s.weighed, s.weighedAt = map[groupLimit]weighed{}, at
	}
	key := groupLimit{of, limit}
	known, ok := s.weighed[key]
	if !ok {
		known = s.weigh(s.last(of), at, limit)
		known.masses = empirical.Thin(known.masses)
		s.weighed[key] = known
	}
	return known
}

// weigh estimates the distribution of run times from ended and running jobs: the shares of their limits, times the
// given limit ([stats.ProductLimit]). It corrects two errors: short jobs end first, so the jobs that have ended are
// too short on average; and short jobs that started before the first known end are missing, so the known jobs of that
// time are too long. The parameter limit is in seconds, or 0. If no job has ended, there is no distribution.
func (s *Shares) weigh(jobs []*share, at hpc.Time, limit float64) (w weighed) {
	longest := 0.0
	list := make([]stats.Observation, len(jobs))
	for i, job := range jobs {
		ran := stats.Observation{Time: job.end.Sub(job.start).Seconds(), Weight: 1, Censored: job.end == 0}
		if ran.Censored { // the job still runs
			ran.Time = max(at.Sub(job.start).Seconds(), 0)
		}
		if job.start < s.first {
			ran.Entry = min(s.first.Sub(job.start).Seconds(), ran.Time)
		}
		if limit > 0 && job.limit > 0 {
			ran.Time *= limit / job.limit
			ran.Entry *= limit / job.limit
		}
		if limit > 0 {
			ran.Time = min(ran.Time, limit)
		}
		longest = max(longest, ran.Time)
		list[i] = ran
	}
	longer := 1.0 // the share of longer jobs
	for seconds, rest := range stats.ProductLimit(list) {
		w.masses = append(w.masses, empirical.Mass{Seconds: seconds, Weight: longer - rest})
		longer = rest
	}
	const rounding = 1e-9
	w.ended = len(w.masses)
	if w.ended > 0 && longer > rounding {
		w.tail = empirical.Mass{Seconds: longest, Weight: longer}
	}
	if w.ended == 0 {
		for _, job := range list {
			w.running = append(w.running, job.Time)
		}
	}
	return w
}

// evenly spreads the tail between the longest job and the limit. Without a limit, the tail has the run time of the
// longest job.
func (w *weighed) evenly(limit float64) (masses []empirical.Mass) {
	const pieces = 10
	for i := range pieces {
		after := (float64(i) + 0.5) / pieces * max(limit-w.tail.Seconds, 0)
		masses = append(masses, empirical.Mass{Seconds: w.tail.Seconds + after, Weight: w.tail.Weight / pieces})
	}
	if w.tail.Weight == 0 {
		return nil
	}
	return masses
}

// concentrations are the values from which learnConcentrations chooses. With the last value, infinity, the narrower
// group does not count.
var concentrations = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, math.Inf(1)}

// learnConcentrations finds the concentration of each level that would have predicted the last
// jobs best. Each job is predicted from the jobs that had ended when it started. The best
// concentration maximizes the likelihood of the bins in which the jobs' used shares are. The edges
// of the bins are quantiles of all shares. The wider levels are learned first.
func (s *Shares) learnConcentrations() {
	const bins = 20
	var ended []*share
	for _, job := range s.last(group{level: levels - 1}) {
		if job.end != 0 {
			ended = append(ended, job)
		}
	}
	shares := make([]float64, len(ended))
	for i, job := range ended {
		shares[i] = job.used()
	}
	s.learnSpread(ended, shares)
	sort.Float64s(shares)
	var edges [bins - 1]float64
	for i := range edges {
		if len(shares) > 0 {
			edges[i] = shares[(i+1)*len(shares)/bins]
		}
	}
	binOf := func(job *share) int {
		return sort.Search(len(edges), func(i int) bool { return edges[i] > job.used() })
	}

	// seen counts the earlier jobs of one of a job's groups. The field all is the number of the group's jobs that had
	// ended when the job started, and same is how many of these jobs are in the job's bin.
	type seen struct{ all, same float64 }
	type tally struct {
		all  float64
		bins [bins]float64
	}
	byEnd := slices.Clone(ended)
	slices.SortStableFunc(byEnd, func(a, b *share) int { return cmp.Compare(a.end, b.end) })
	tallies := map[group]*tally{}
	before := make([][levels]seen, len(ended))
	for i, job := range ended { // in the order of their starts
		for len(byEnd) > 0 && byEnd[0].end <= job.start {
			for _, group := range byEnd[0].groups {
				t := tallies[group]
				if t == nil {
					t = &tally{}
					tallies[group] = t
				}
				t.all++
				t.bins[binOf(byEnd[0])]++
			}
			byEnd = byEnd[1:]
		}
		for level, group := range job.groups {
			if t := tallies[group]; t != nil {
				before[i][level] = seen{t.all, t.bins[binOf(job)]}
			}
		}
	}

	likely := make([]float64, len(ended)) // the probability of the job's bin, from the wider levels
	for i := range likely {
		all := before[i][levels-1]
		likely[i] = (all.same + 1.0/bins) / (all.all + 1)
	}
	s.concentration = make([]float64, levels-1)
	for level := levels - 2; level >= 0; level-- {
		mix := func(i int, c float64) float64 {
			if math.IsInf(c, 1) {
				return likely[i]
			}
			return (before[i][level].same + c*likely[i]) / (before[i][level].all + c)
		}
		best := math.Inf(-1)
		for _, c := range concentrations {
			sum := 0.0
			for i := range likely {
				sum += math.Log(mix(i, c))
			}
			if sum > best {
				best, s.concentration[level] = sum, c
			}
		}
		for i := range likely {
			likely[i] = mix(i, s.concentration[level])
		}
	}
}

// learnSpread learns how similar the jobs of a group are, from the ranks of the shares that ended jobs used.
func (s *Shares) learnSpread(ended []*share, shares []float64) {
	groups := make([][]group, len(ended))
	for i, job := range ended {
		groups[i] = slices.Clone(job.groups[:])
		groups[i][0].partition, groups[i][0].constraint = groups[i][1].partition, groups[i][1].constraint
	}
	if s.spread = nested.Concentrations(nested.Ranks(shares), groups); s.spread == nil {
		s.spread = slices.Repeat([]float64{math.Inf(1)}, levels-1)
	}
}
