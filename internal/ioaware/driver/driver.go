// Package driver decides, from outside a cluster's scheduler, when jobs start. All jobs are held
// when they are submitted. The driver plans in rounds by the rules of package ioaware, and releases
// the jobs that start now. The cluster's scheduler then chooses their nodes and starts them.
//
// The package does no I/O and reads no clock: a [Cluster] returns the state and carries out the
// decisions. A replay under virtual time and a live cluster implement [Cluster].
package driver

import (
	"errors"
	"maps"
	"slices"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/ioaware"
)

// Cluster is a cluster whose jobs are held until the driver releases them.
type Cluster interface {
	// State returns the state of the cluster. The caller may change what it returns.
	State() (State, error)
	// Release lets the cluster's scheduler start a held job, and Hold keeps a pending job from
	// starting. An error concerns only this job, which may have ended in the meantime.
	Release(job string) error
	Hold(job string) error
}

// State is the state of a cluster at an instant.
type State struct {
	Now hpc.Time
	ioaware.Cluster
	Running []Running
	// Pending are the jobs that the driver may start, in order of priority. The list does not have
	// jobs of other partitions, and jobs that their users or an administrator hold.
	Pending []Pending
}

// Running is a running job, whether or not the driver started it.
type Running struct {
	ID string // the job's name in the cluster
	ioaware.Running
}

// Pending is a pending job.
type Pending struct {
	ID string
	ioaware.Job
	// Released is true for a job that was released but has not started.
	Released bool
}

// Driver plans rounds. After a driver has died, a new driver takes over its jobs.
type Driver struct {
	Options ioaware.Options
	// Patience is how long a released job may take to start. After that, the driver holds the job
	// again: something that the plan ignores keeps the job from starting, such as the location of the
	// free nodes, a reservation or a limit.
	Patience time.Duration

	waits map[string]*wait // by job
}

// PatienceOf returns the patience for rounds at a fixed interval, or for rounds that follow changes
// if interval is 0. Unless it is overloaded, slurmctld starts a released job within 10 seconds.
func PatienceOf(interval time.Duration) time.Duration {
	if interval == 0 {
		return ioaware.MostPause
	}
	return max(interval, 10*time.Second)
}

// wait is what the driver stores about a pending job from round to round.
type wait struct {
	released hpc.Time // 0 for a held job
	tries    int      // number of releases after which the job did not start
	next     hpc.Time // the earliest instant of the next release
}

// The shortest and the longest pause after a release without a start; the pause doubles each time.
// A replay gives up a job after maxTries releases.
const (
	firstPause = 2 * time.Minute
	maxPause   = time.Hour
	maxTries   = 8
)

// Round is the result of a round.
type Round struct {
	ioaware.Round
	Released []string // jobs that were released now
	Held     []string // jobs that did not start after their release, and were held again
	// Open says that a later round can release more jobs, even if no job is submitted.
	Open bool
	// Failed joins the errors of all refused releases and holds.
	Failed error
}

// Round plans a round and carries it out. If the state cannot be read, it returns an error and
// decides nothing.
func (d *Driver) Round(c Cluster) (Round, error) {
	state, err := c.State()
	if err != nil {
		return Round{}, err
	}
	d.remember(state.Pending)
	var round Round
	running, candidates := d.divide(c, &state, &round)
	jobs := make([]ioaware.Job, len(candidates))
	for i, job := range candidates {
		jobs[i] = job.Job
	}
	options := d.Options
	options.StartsOnly = len(running) > 0
	round.Round = ioaware.Plan(state.Now, &state.Cluster, running, jobs, options)
	for _, start := range round.Starts {
		job := candidates[start.Job]
		w := d.waits[job.ID]
		round.Open = round.Open || start.At != hpc.Never && w.tries < maxTries
		if start.At != state.Now {
			continue
		}
		if err := c.Release(job.ID); err != nil {
			round.Failed = errors.Join(round.Failed, err)
			continue
		}
		w.released = state.Now
		round.Released = append(round.Released, job.ID)
	}
	round.Open = round.Open || len(state.Running) > 0
	return round, nil
}

// divide returns the running jobs, and the jobs that the plan may start. A released job counts as
// running until its patience is over; then divide holds the job again.
func (d *Driver) divide(c Cluster, state *State, round *Round) (running []ioaware.Running, candidates []*Pending) {
	for i := range state.Running {
		running = append(running, state.Running[i].Running)
	}
	for i := range state.Pending {
		job := &state.Pending[i]
		w := d.waits[job.ID]
		if job.Released && w.released == 0 {
			w.released = state.Now // released by an earlier driver
		}
		switch {
		case job.Released && state.Now.Sub(w.released) < d.Patience:
			running = append(running, ioaware.Running{Job: job.Job, End: after(state.Now, job.Limit),
				Uses: Uses(state.Pools, &job.Job)})
			take(&state.Cluster, job.Licenses)
			round.Open = true
			continue
		case job.Released:
			if err := c.Hold(job.ID); err != nil {
				round.Failed = errors.Join(round.Failed, err)
				continue
			}
			w.next = state.Now.Add(min(firstPause<<min(w.tries, maxTries), maxPause))
			w.tries, w.released = w.tries+1, 0
			round.Held = append(round.Held, job.ID)
		}
		if w.next > state.Now {
			round.Open = round.Open || w.tries < maxTries
			continue
		}
		candidates = append(candidates, job)
	}
	return running, candidates
}

// Pools makes pools from sets of nodes in service.
func Pools(members map[string]map[string]bool) map[string]ioaware.Pool {
	pools := make(map[string]ioaware.Pool, len(members))
	names := slices.Sorted(maps.Keys(members))
	for _, name := range names {
		p := ioaware.Pool{Nodes: len(members[name])}
		for _, other := range names {
			if name == other || share(members[name], members[other]) {
				p.Overlaps = append(p.Overlaps, other)
			}
		}
		pools[name] = p
	}
	return pools
}

func share(a, b map[string]bool) bool {
	for n := range a {
		if b[n] {
			return true
		}
	}
	return false
}

// Uses returns the number of nodes that a job may have in each pool, for a job whose nodes are
// unknown.
func Uses(pools map[string]ioaware.Pool, job *ioaware.Job) map[string]int {
	uses := map[string]int{}
	for _, pool := range pools[job.Pool].Overlaps {
		uses[pool] = job.Nodes
	}
	return uses
}

// take counts the licenses of a released job as used; the cluster does not count them yet.
func take(c *ioaware.Cluster, licenses map[string]int64) {
	for name, n := range licenses {
		if l, known := c.Licenses[name]; known {
			l.Used += n
			c.Licenses[name] = l
		}
	}
}

// remember removes the stored data of jobs that are no longer pending.
func (d *Driver) remember(pending []Pending) {
	waits := make(map[string]*wait, len(pending))
	for i := range pending {
		job := &pending[i]
		w := d.waits[job.ID]
		if w == nil {
			w = &wait{}
		}
		if !job.Released && w.released != 0 { // the job was held or requeued by someone else
			w.released = 0
		}
		waits[job.ID] = w
	}
	d.waits = waits
}

// after returns t + d; [hpc.Never] if d is unlimited.
func after(t hpc.Time, d time.Duration) hpc.Time {
	if d == hpc.Unlimited || hpc.Time(d) > hpc.Never-t {
		return hpc.Never
	}
	return t.Add(d)
}
