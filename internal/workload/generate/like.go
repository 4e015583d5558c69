package generate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/workload"
)

// LikeOptions are the options of [Like].
type LikeOptions struct {
	Jobs int // 0: as many as the model has
	Seed uint64
}

// Like draws a workload that resembles a given workload in the following properties:
//
//   - Arrivals: the rate by hour and, if the log has at least four weeks, by weekday; and the gaps
//     between submissions. Like measures the log's gaps in operational time, in which the rate is
//     constant, and draws from these gaps.
//   - Users: how active each is, and how often consecutive jobs have the same user.
//   - Jobs: Like draws a job at random from the user's jobs. As often as users repeat themselves,
//     it draws from the jobs with the same request as the user's previous job. Sizes, time limits
//     and run times thus have the same relation. The run time is multiplied by a log-normal number
//     with median 1, but stays within the time limit.
//
// Dependencies, reservations, recorded fates and node events are not drawn. The error says what
// the workload lacks.
func Like(model *workload.Workload, o LikeOptions) (*workload.Workload, error) {
	jobs := model.Jobs.List()
	sortJobs(jobs)
	if len(jobs) < minModelJobs {
		return nil, fmt.Errorf("%d %s too few to learn from (want at least %d)", len(jobs),
			quantity.Plural(len(jobs), "job is", "jobs are"), minModelJobs)
	}
	if jobs[len(jobs)-1].Submit == jobs[0].Submit {
		return nil, errors.New("all jobs are submitted at one instant (want jobs from which arrivals can be learned)")
	}
	n := cmp.Or(o.Jobs, len(jobs))
	if n < 0 || n > maxDrawn {
		return nil, fmt.Errorf("jobs %d: not a number of jobs (want 1 to %d)", n, maxDrawn)
	}
	rng := rand.New(rand.NewPCG(o.Seed, 0x6c696b65))
	clock := newRateClock(jobs)
	people := newHabits(jobs)
	w := &workload.Workload{
		Epoch: min(clock.origin, jobs[0].Submit), Users: slices.Clone(model.Users),
		MachineNodes: model.MachineNodes, MachineProcessors: model.MachineProcessors,
		Source: fmt.Sprintf("like %s, seed %d", model.Source, o.Seed),
	}
	at := clock.operational(jobs[0].Submit)
	for i := range n {
		if i > 0 {
			at += clock.gaps[rng.IntN(len(clock.gaps))]
		}
		job := people.next(rng)
		job.ID = fmt.Sprintf("j%06d", i+1)
		job.Submit = clock.real(at)
		w.Jobs.Append(job)
	}
	return w, nil
}

// minModelJobs is the smallest number of jobs that can show habits.
const minModelJobs = 20

// rateClock converts real time to operational time and back. Operational time passes in
// proportion to the mean rate of submissions at the hour of the day or week.
type rateClock struct {
	origin     hpc.Time // a midnight; if the cycle is a week, a Monday's
	hours      int      // number of hours in the cycle: 24 or 168
	cumulative []float64
	gaps       []float64 // the log's gaps, in operational hours
}

// weeksForWeekdays is the length that a log needs to show how weekdays differ.
const weeksForWeekdays = 4

func newRateClock(jobs []*hpc.Job) *rateClock {
	first, last := jobs[0].Submit, jobs[len(jobs)-1].Submit
	const day = 24 * time.Hour
	c := &rateClock{hours: 24, origin: first - first%hpc.Time(day)}
	if last.Sub(first) >= weeksForWeekdays*7*day {
		c.hours = 168
		c.origin = c.origin.Add(-time.Duration((int(c.origin.Std().Weekday())+6)%7) * day)
	}
	counts, spans := make([]float64, c.hours), make([]float64, c.hours)
	for _, job := range jobs {
		counts[c.hour(job.Submit)]++
	}
	for t := first - first%hpc.Time(time.Hour); t <= last; t = t.Add(time.Hour) {
		spans[c.hour(t)]++ // number of occurrences of this hour
	}
	mean := float64(len(jobs)) / last.Sub(first).Hours()
	c.cumulative = make([]float64, c.hours+1)
	for i := range counts {
		// An hour without submissions still gets some rate. Without it, operational time
		// would stand still in a log of a few days.
		rate := max(counts[i]/max(spans[i], 1), mean/100)
		if spans[i] == 0 {
			rate = mean
		}
		c.cumulative[i+1] = c.cumulative[i] + rate/mean
	}
	before := c.operational(first)
	for _, job := range jobs[1:] {
		now := c.operational(job.Submit)
		c.gaps = append(c.gaps, now-before)
		before = now
	}
	return c
}

// hour returns the hour of the cycle of an instant.
func (c *rateClock) hour(t hpc.Time) int {
	h := int(t.Sub(c.origin) / time.Hour % time.Duration(c.hours))
	return (h + c.hours) % c.hours
}

func (c *rateClock) operational(t hpc.Time) float64 {
	h := t.Sub(c.origin).Hours()
	cycle := math.Floor(h / float64(c.hours))
	h -= cycle * float64(c.hours)
	i := min(int(h), c.hours-1)
	return cycle*c.cumulative[c.hours] + c.cumulative[i] + (h-float64(i))*(c.cumulative[i+1]-c.cumulative[i])
}

// real returns the instant, in whole seconds, of the operational time x.
func (c *rateClock) real(x float64) hpc.Time {
	cycle := math.Floor(x / c.cumulative[c.hours])
	x -= cycle * c.cumulative[c.hours]
	i, found := slices.BinarySearch(c.cumulative, x)
	if !found {
		i--
	}
	i = min(max(i, 0), c.hours-1)
	h := cycle*float64(c.hours) + float64(i) + (x-c.cumulative[i])/(c.cumulative[i+1]-c.cumulative[i])
	return c.origin.Add(time.Duration(h * float64(time.Hour)).Round(time.Second))
}

// userHabits has the users' requests and the order of their submissions.
type userHabits struct {
	users    []*userHabit
	activity []float64 // cumulative
	stay     float64   // the probability, beyond chance, that the next job has the same user
	again    float64   // the probability, beyond chance, that a user's next job repeats the last request
	user     *userHabit
}

// userHabit has one user's requests.
type userHabit struct {
	jobs  []*hpc.Job
	alike map[request][]*hpc.Job
	last  *hpc.Job
}

// request is the part of a job that a user repeats.
type request struct {
	nodes, tasks, cpus int
	limit              time.Duration
	partition          string
}

func requestOf(job *hpc.Job) request {
	return request{job.MinNodes, job.Tasks, job.CPUsPerTask, job.TimeLimit, job.Partition}
}

func newHabits(jobs []*hpc.Job) *userHabits {
	h := &userHabits{}
	byName := map[string]*userHabit{}
	same, repeats := 0, 0
	for i, job := range jobs {
		u := byName[job.User]
		if u == nil {
			u = &userHabit{alike: map[request][]*hpc.Job{}}
			byName[job.User] = u
			h.users = append(h.users, u)
		}
		if i > 0 && jobs[i-1].User == job.User {
			same++
		}
		key := requestOf(job)
		if u.last != nil && requestOf(u.last) == key {
			repeats++
		}
		u.jobs, u.alike[key], u.last = append(u.jobs, job), append(u.alike[key], job), job
	}
	h.chances(len(jobs), same, repeats)
	return h
}

// chances computes the fields stay and again: how often users stay, and repeat a request, beyond
// pure chance.
func (h *userHabits) chances(jobs, same, repeats int) {
	sameByChance, repeatsByChance, total := 0.0, 0.0, 0.0
	for _, u := range h.users {
		n := float64(len(u.jobs))
		share := n / float64(jobs)
		sameByChance += share * share
		total += share
		h.activity = append(h.activity, total)
		for _, list := range u.alike {
			x := float64(len(list)) / n
			repeatsByChance += (n - 1) * x * x
		}
		u.last = nil
	}
	pairs := float64(jobs - len(h.users))
	h.stay = beyondChance(float64(same)/float64(jobs-1), sameByChance)
	if pairs > 0 {
		h.again = beyondChance(float64(repeats)/pairs, repeatsByChance/pairs)
	}
}

// beyondChance returns the probability s with observed = s + (1-s)*chance.
func beyondChance(observed, chance float64) float64 {
	if chance >= 1 {
		return 0
	}
	return max(0, (observed-chance)/(1-chance))
}

// next draws a job.
func (h *userHabits) next(rng *rand.Rand) *hpc.Job {
	if h.user == nil || rng.Float64() >= h.stay {
		i, _ := slices.BinarySearch(h.activity, rng.Float64())
		h.user = h.users[min(i, len(h.users)-1)]
	}
	from := h.user.jobs
	if last := h.user.last; last != nil && rng.Float64() < h.again {
		from = h.user.alike[requestOf(last)]
	}
	h.user.last = from[rng.IntN(len(from))]
	return drawn(rng, h.user.last)
}

// spread is the standard deviation of the logarithm of the random factor for run times.
const spread = 0.1

// drawn returns a new job like the given job.
func drawn(rng *rand.Rand, source *hpc.Job) *hpc.Job {
	job := &hpc.Job{Request: source.Request, Behaviour: source.Behaviour}
	job.Dependency, job.Reservation, job.NodeList, job.Exclude, job.Priority = "", "", "", "", nil
	factor := math.Exp(spread * rng.NormFloat64())
	job.RunTime = stretched(source.RunTime, source.TimeLimit, factor)
	job.EndAt = 0
	if source.TaskRunTimes != nil {
		job.TaskRunTimes = make(map[int]time.Duration, len(source.TaskRunTimes))
		for task, d := range source.TaskRunTimes {
			job.TaskRunTimes[task] = stretched(d, source.TimeLimit, factor)
		}
	}
	return job
}

// nearLimit is a share of the time limit: a job that runs at least this long counts as ended by
// its limit.
const nearLimit = 0.9

// stretched multiplies a run time, in whole seconds. A job that ended before its limit still ends
// before it. A job that ended at its limit, or nearly, keeps its run time.
func stretched(d, limit time.Duration, factor float64) time.Duration {
	if d == hpc.Unlimited || limit > 0 && d.Seconds() >= nearLimit*limit.Seconds() {
		return d
	}
	d = time.Duration(float64(d) * factor).Round(time.Second)
	if limit > time.Second {
		d = min(d, limit-time.Second)
	}
	return d
}
