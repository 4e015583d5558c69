// Package fairstart computes fair start times, and from them how unfair a schedule was.
//
// The fair start time of a job is the instant at which it would have started if no job had come
// after it (Sabin, Kochhar and Sadayappan, "Job Fairness in Non-Preemptive Job Scheduling", ICPP
// 2004). A job that starts after its fair start time was delayed by a later job. Causes are a
// priority, backfilling with a wrong time limit, or the order of the queue. Under first come,
// first served no job is treated unfairly.
//
// # One simulation for each job that waited
//
// A scheduler does not know the future. So the run itself is the beginning of the simulation that
// the definition asks for, up to the submission of the job. From there the simulator plays only
// the jobs that have come so far, until the job starts. Most jobs need no simulation: they started
// at once, or no job came while they waited. Their start is fair.
//
// [Compute] first plays the whole run in the simulator, with a policy, on a pool of processors. If
// the simulator repeats all starts of the run, the fair start times are exact. Then the simulation
// of a job begins at the last instant at which no job waited: at such an instant, the running jobs
// determine the state of every policy. The state of a queue that is not empty cannot be taken from
// a record. If the simulator does not repeat the run, as with runs of Slurm, fair start times come
// from a model. The model begins with the run's own state at the submission of the job: the
// running jobs with their starts and time limits, and the waiting jobs. A job may then seem to be
// treated unfairly, not because of later jobs, but because the policy would have started it
// earlier than Slurm. [metrics.FairStart.Agreement] says how much the model is like the run.
// Compare such figures between runs of one workload only.
//
// The model has processors and time limits. It has no nodes, memory, licences, limits of users or
// reservations. If partitions share no processors, each has a pool of its own.
package fairstart

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/sim/policy"
	"rmreplay/internal/run"
)

// OwnPolicy means the policy of a simulated run. For runs of Slurm and of its model, and for
// recorded workloads, it means easy-textbook.
const OwnPolicy = "own"

// tolerance is the largest difference between two starts that count as equal. It is Slurm's resolution.
const tolerance = time.Second

// A computation is exact if at most maxArrivals jobs were submitted since the queue was last empty.
// After more jobs, the simulation begins with the jobs that run and wait at the submission of the
// job. This takes less time, but is not exact.
const maxArrivals = 5000

// Policy is the value of a flag: a name that [Compute] accepts, or empty without fair start times.
type Policy string

// String returns the name.
func (p *Policy) String() string { return string(*p) }

// Set sets the name. It returns an error for a name that [Compute] does not accept.
func (p *Policy) Set(name string) error {
	if _, err := policy.New(name); name != OwnPolicy && err != nil {
		return fmt.Errorf("%w, or %s", err, OwnPolicy)
	}
	*p = Policy(name)
	return nil
}

// Type returns the kind of the value.
func (p *Policy) Type() string { return "string" }

// Add adds the unfairness to the summary of a run, if the policy is not empty. It returns the error of
// reading the run's jobs, or of [Compute].
func (p *Policy) Add(s *metrics.Summary, r *run.Run, of metrics.Options) error {
	if *p == "" {
		return nil
	}
	rows, err := r.Jobs()
	if err == nil {
		s.FairStart, err = Compute(rows, &r.Manifest, string(*p), of)
	}
	return err
}

// Compute returns the unfairness of a run by fair start times. The parameter name is a policy of the simulator, or
// [OwnPolicy]. Compute returns an error for another name, and for a run whose record does not say how many processors
// the machine had. The jobs for which [metrics.Options.LeavesOut] holds do not count.
func Compute(rows []run.Row, m *run.Manifest, name string, of metrics.Options) (*metrics.FairStart, error) {
	if name == OwnPolicy {
		if name = m.Policy; name == "" || m.OfSlurm() {
			name = "easy-textbook"
		}
	}
	decide, err := policy.New(name)
	if err != nil {
		return nil, fmt.Errorf("computing fair start times: %w", err)
	}
	if m.Cluster.Processors <= 0 {
		return nil, errors.New("computing fair start times: the record does not say how many processors the machine had")
	}
	pools, leftOut, err := divide(rows, m, of)
	if err != nil {
		return nil, fmt.Errorf("computing fair start times: %w", err)
	}
	f := &metrics.FairStart{Policy: name, Exact: true, LeftOut: leftOut}
	alike := 0
	for _, p := range pools {
		p.policy, p.epoch = decide, m.VirtualStart
		same, exact, err := p.imitate()
		if err != nil {
			return nil, fmt.Errorf("computing fair start times: %w", err)
		}
		alike += same
		f.Exact = f.Exact && exact
		if err := p.compute(exact); err != nil {
			return nil, fmt.Errorf("computing fair start times: %w", err)
		}
	}
	sum(f, pools, alike)
	return f, nil
}

// sum adds up the misses of all jobs.
func sum(f *metrics.FairStart, pools []*pool, alike int) {
	total, largest := 0.0, 0.0
	for _, p := range pools {
		f.Approximated += p.approximated
		for i := range p.jobs {
			j := &p.jobs[i]
			if !j.counted {
				continue
			}
			if p.fair[i] == 0 {
				f.LeftOut++
				continue
			}
			f.Jobs++
			if miss := j.start.Sub(p.fair[i]); miss > tolerance {
				f.Unfair++
				total += miss.Seconds()
				largest = max(largest, miss.Seconds())
			}
		}
	}
	f.Agreement, f.MeanMiss = ratio(float64(alike), f.Jobs), ratio(total, f.Jobs)
	f.MeanUnfairMiss, f.MaxMiss = ratio(total, f.Unfair), metrics.Float(largest)
	f.Exact = f.Exact && f.Approximated == 0
}

func ratio(a float64, n int) metrics.Float {
	if n == 0 {
		return metrics.NoValue()
	}
	return metrics.Float(a / float64(n))
}

// job is a period in which a job of the run had processors.
type job struct {
	arrival, start, end hpc.Time // end is hpc.Never for a job that still runs
	size                int
	limit               time.Duration // time limit, at least end − start
	// measured says that the job has a fair start time. Other periods only occupy processors:
	// preset jobs, and the runs of requeued and suspended jobs.
	measured bool
	// counted says that the job is measured, and was submitted in the interval of the options.
	counted bool
}

// pool is a set of processors that jobs share, with its jobs in the order of their arrival.
type pool struct {
	processors int
	jobs       []job
	policy     sim.NewPolicy
	ties       sim.Ties
	epoch      hpc.Time

	fair         []hpc.Time // the fair start of each job; 0 if the job never starts in the simulation
	approximated int
}

// divide returns the pools of a run with their jobs, and the number of accepted jobs that can have no
// fair start time. It returns the error of reading a request.
func divide(rows []run.Row, m *run.Manifest, options metrics.Options) (pools []*pool, leftOut int, err error) {
	limited, err := limitedArrays(rows, m)
	if err != nil {
		return nil, 0, err
	}
	of := partitions(m)
	if len(of) == 0 {
		of[""] = &pool{processors: m.Cluster.Processors}
	}
	var held []run.Segment
	for i := range rows {
		r := &rows[i]
		if r.State == hpc.Rejected {
			continue
		}
		p := of[""]
		if p == nil {
			p = of[r.Partition]
		}
		held = r.AppendHeld(held[:0])
		arrival, outside := max(r.Submit, r.Eligible), options.LeavesOut(r)
		measured := p != nil && !limited[r.Job] && len(held) == 1 && arrival != 0 && r.Start >= max(arrival, m.WindowStart) &&
			(r.End == 0 || r.End >= r.Start)
		for _, s := range held {
			if p == nil || s.Processors <= 0 || s.Processors > p.processors || s.Start == 0 || s.End != 0 && s.End < s.Start {
				measured = false
				continue
			}
			j := job{arrival: s.Start, start: s.Start, end: s.End, size: s.Processors, limit: r.TimeLimit}
			if measured {
				j.arrival, j.measured, j.counted = arrival, true, !outside
			}
			if j.end == 0 {
				j.end = hpc.Never
			} else if ran := s.End.Sub(s.Start); j.limit > 0 {
				j.limit = max(j.limit, ran)
			}
			p.jobs = append(p.jobs, j)
		}
		if !measured && !outside {
			leftOut++
		}
	}
	for _, p := range of {
		if len(p.jobs) > 0 {
			slices.SortStableFunc(p.jobs, func(a, b job) int { return cmp.Compare(a.arrival, b.arrival) })
			pools = append(pools, p)
		}
	}
	return pools, leftOut, nil
}

// limitedArrays returns the arrays of a run of Slurm whose tasks wait for each other (--array=1-9%2).
// Slurm counts such tasks as eligible, so a record does not say from when they might have started.
func limitedArrays(rows []run.Row, m *run.Manifest) (map[string]bool, error) {
	limited := map[string]bool{}
	if m.Engine == "sim" {
		return limited, nil
	}
	for i := range rows {
		if r := &rows[i]; r.Task >= 0 && r.Request != "" {
			asked, err := run.DecodeJob([]byte(r.Request))
			if err != nil {
				return nil, fmt.Errorf("job %s: %w", r.Job, err)
			}
			limited[r.Job] = limited[r.Job] || strings.Contains(asked.Array, "%")
		}
	}
	return limited, nil
}

// partitions returns a pool for each partition, by name. It returns no pools if partitions share
// processors or if the record lacks their sizes.
func partitions(m *run.Manifest) map[string]*pool {
	of, all := map[string]*pool{}, 0
	for _, p := range m.Cluster.Partitions {
		of[p.Name] = &pool{processors: p.Processors}
		all += p.Processors
	}
	if len(of) < 2 || all != m.Cluster.Processors {
		clear(of)
	}
	return of
}

// imitate simulates all jobs of the pool. It returns how many measured jobs start as in the run,
// and whether all jobs start at exactly the same instants. It chooses the order of events at one
// instant with which more jobs start as in the run.
func (p *pool) imitate() (same int, exact bool, err error) {
	same = -1
	for _, ties := range []sim.Ties{sim.EndsFirst, sim.ArrivalsFirst} {
		p.ties = ties
		starts, err := p.play(nil, p.jobs, -1)
		if err != nil {
			return 0, false, err
		}
		n, all := 0, true
		for i := range p.jobs {
			all = all && starts[i] == p.jobs[i].start
			if d := starts[i].Sub(p.jobs[i].start); p.jobs[i].counted && starts[i] != 0 && -tolerance <= d && d <= tolerance {
				n++
			}
		}
		if all {
			return n, true, nil
		}
		same = max(same, n)
	}
	p.ties = sim.EndsFirst
	return same, false, nil
}

// compute computes the fair start times of all jobs.
func (p *pool) compute(exact bool) error {
	p.fair = make([]hpc.Time, len(p.jobs))
	bases := p.bases()
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	var here present
	for i := range p.jobs {
		j := &p.jobs[i]
		next := i + 1 // the first job that came after job i
		if p.fair[i] = j.start; !j.counted || j.start == j.arrival || next == len(p.jobs) || p.jobs[next].arrival > j.start {
			continue
		}
		base := i
		if exact && i-bases[i] <= maxArrivals {
			base = bases[i]
		} else if exact {
			p.approximated++
		}
		running, waiting := here.advance(p.jobs, base)
		group.Go(func() error {
			list := slices.Concat(waiting, p.jobs[base:i+1])
			starts, err := p.play(running, list, len(list)-1)
			if err == nil {
				p.fair[i] = starts[len(list)-1]
			}
			return err
		})
	}
	return group.Wait()
}

// bases returns, for each job, the last job up to and including this job with two properties. No job waited when it
// arrived, and no earlier job started or ended at its arrival. The state of the machine at such an arrival follows
// from the running jobs.
func (p *pool) bases() []int {
	ends := make([]hpc.Time, 0, len(p.jobs))
	for i := range p.jobs {
		ends = append(ends, p.jobs[i].end)
	}
	slices.Sort(ends)
	bases := make([]int, len(p.jobs))
	base, lastStart := 0, hpc.Time(math.MinInt64)
	for i := range p.jobs {
		at := p.jobs[i].arrival
		if i == 0 || at > p.jobs[i-1].arrival {
			k := sort.Search(len(ends), func(k int) bool { return ends[k] >= at })
			if lastStart < at && (k == len(ends) || ends[k] != at) {
				base = i
			}
		}
		lastStart = max(lastStart, p.jobs[i].start)
		bases[i] = base
	}
	return bases
}

// present has the jobs that have arrived and have not ended at an instant. [present.advance] moves
// it to the next instant.
type present struct {
	jobs []job
	next int // the first job that has not arrived
}

// advance returns two lists of earlier jobs in their state at the arrival of job number before: the
// running jobs in the order of their starts, and the waiting jobs in the order of their arrival.
// Jobs that end at this instant have ended. The index must not decrease from call to call.
func (h *present) advance(jobs []job, before int) (running, waiting []job) {
	at := jobs[before].arrival
	h.jobs = append(h.jobs, jobs[h.next:before]...)
	h.next = before
	h.jobs = slices.DeleteFunc(h.jobs, func(j job) bool { return j.end <= at })
	for _, j := range h.jobs {
		if j.start > at || j.start == at && j.measured {
			j.arrival = at
			waiting = append(waiting, j)
		} else {
			running = append(running, j)
		}
	}
	slices.SortStableFunc(running, func(a, b job) int { return cmp.Compare(a.start, b.start) })
	for i := range running {
		j := &running[i]
		if j.limit > 0 && j.limit != hpc.Unlimited {
			j.limit = max(j.limit-at.Sub(j.start), 1)
		}
		j.arrival, j.start = at, at
	}
	return running, waiting
}

// play plays the running jobs and the jobs of the list, each at its arrival, and returns the starts
// of the jobs of the list. It stops when the list's job at the index until has started. If until is
// -1, it plays the whole list.
func (p *pool) play(running, list []job, until int) ([]hpc.Time, error) {
	epoch := p.epoch
	if len(list) > 0 && (epoch == 0 || epoch > list[0].arrival) {
		epoch = list[0].arrival
	}
	engine, err := sim.New(sim.Config{Processors: p.processors, Policy: p.policy, Ties: p.ties, Epoch: epoch, Lean: true})
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	starts := make([]hpc.Time, len(list))
	all := slices.Concat(running, list)
	jobs := make([]hpc.Job, len(all))
	next, open := 0, len(list)
	for open > 0 && (until < 0 || starts[until] == 0) {
		for ; next < len(all) && all[next].arrival <= engine.Now(); next++ {
			jobs[next] = all[next].asked(next)
			if err := engine.Submit(&jobs[next]); err != nil {
				return nil, err
			}
		}
		limit := hpc.Never
		if next < len(all) {
			limit = all[next].arrival
		}
		events, err := engine.AdvanceTo(ctx, limit)
		if err != nil {
			return nil, err
		}
		if len(events) == 0 && limit == hpc.Never {
			break // the jobs that wait now never start
		}
		for i := range events {
			if k := events[i].Submission - 1 - len(running); events[i].Kind == rm.Started && k >= 0 {
				starts[k] = events[i].At
				open--
			}
		}
	}
	return starts, nil
}

// asked returns the job in the simulator's form.
func (j *job) asked(number int) hpc.Job {
	a := hpc.Job{ID: strconv.Itoa(number)}
	a.Tasks, a.CPUsPerTask, a.TimeLimit = j.size, 1, j.limit
	a.RunTime = hpc.Unlimited
	if j.end != hpc.Never {
		a.RunTime = j.end.Sub(j.start)
	}
	return a
}
