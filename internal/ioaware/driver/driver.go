// Package driver decides from outside a cluster's scheduler when the cluster's jobs start. The jobs
// wait held. In rounds, the driver plans by the rules of package ioaware, and releases the jobs
// that start now. The cluster's scheduler then chooses their nodes and starts them.
//
// The package does no I/O and reads no clock: a [Cluster] returns the state and carries out the
// decisions. A replay under virtual time and a live cluster implement it.
package driver

import (
	"errors"
	"maps"
	"slices"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/ioaware"
)

// Cluster is a cluster whose jobs wait held.
type Cluster interface {
	// State returns the state of the cluster. The caller may change what it returns.
	State() (State, error)
	// Release lets the cluster's scheduler start a held job, and Hold keeps a pending job from
	// starting. An error concerns only this job, which may have ended meanwhile.
	Release(job string) error
	Hold(job string) error
}

// State is the state of a cluster at an instant.
type State struct {
	Now hpc.Time
	ioaware.Cluster
	Running []Running
	// Pending are the jobs that the driver may start, in the order of their priority. Jobs of other
	// partitions, and jobs that their users or an administrator hold, are not among them.
	Pending []Pending
}

// Running is a running job, whoever started it.
type Running struct {
	ID string // the cluster's name of the job
	ioaware.Running
}

// Pending is a pending job.
type Pending struct {
	ID string
	ioaware.Job
	// Released says that the job is not held: it was released, and has not started.
	Released bool
}

// Driver plans rounds. If a driver dies, a new driver takes over the jobs that it finds.
type Driver struct {
	Options ioaware.Options
	// Patience is how long a released job may take to start. After that the driver holds it again,
	// because something outside the plan keeps it from starting: the position of the free nodes, a
	// reservation or a limit.
	Patience time.Duration

	waits map[string]*wait // by job
}

// PatienceOf returns the patience for rounds at an interval; 0 for rounds that follow changes. Every
// slurmctld that has time to schedule at all starts a job within 10 seconds.
func PatienceOf(interval time.Duration) time.Duration {
	if interval == 0 {
		return ioaware.MostPause
	}
	return max(interval, 10*time.Second)
}

// wait is what the driver remembers about a pending job.
type wait struct {
	released hpc.Time // 0 if it is held
	tries    int      // releases after which the job did not start
	next     hpc.Time // the earliest instant of the next release
}

// The shortest and the longest pause after a release without a start; the pause doubles each time.
// A replay gives up a job that was released mostTries times.
const (
	firstPause = 2 * time.Minute
	mostPause  = time.Hour
	mostTries  = 8
)

// Round is what a round decided.
type Round struct {
	ioaware.Round
	Released []string // jobs that start now
	Held     []string // jobs that were released, did not start and are held again
	// Open says that a later round can release more jobs, even if no job is submitted.
	Open bool
	// Failed joins the errors of all refused releases and holds.
	Failed error
}

// Round plans a round and carries it out. It returns an error if the state could not be read. Then
// nothing was decided.
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
		round.Open = round.Open || start.At != hpc.Never && w.tries < mostTries
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

// divide returns the running jobs and the jobs that the plan may start. A released job counts as
// running until the patience is over; then divide holds it again.
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
			w.next = state.Now.Add(min(firstPause<<min(w.tries, mostTries), mostPause))
			w.tries, w.released = w.tries+1, 0
			round.Held = append(round.Held, job.ID)
		}
		if w.next > state.Now {
			round.Open = round.Open || w.tries < mostTries
			continue
		}
		candidates = append(candidates, job)
	}
	return running, candidates
}

// Pools makes pools of sets of nodes in service, by name.
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

// Uses returns the number of nodes that a job may have in each pool, for a job whose nodes are not
// known.
func Uses(pools map[string]ioaware.Pool, job *ioaware.Job) map[string]int {
	uses := map[string]int{}
	for _, pool := range pools[job.Pool].Overlaps {
		uses[pool] = job.Nodes
	}
	return uses
}

// take adds the licenses of a released job, which the cluster does not count yet.
func take(c *ioaware.Cluster, licenses map[string]int64) {
	for name, n := range licenses {
		if l, known := c.Licenses[name]; known {
			l.Used += n
			c.Licenses[name] = l
		}
	}
}

// remember drops what the driver knows about jobs that are no longer pending.
func (d *Driver) remember(pending []Pending) {
	waits := make(map[string]*wait, len(pending))
	for i := range pending {
		job := &pending[i]
		w := d.waits[job.ID]
		if w == nil {
			w = &wait{}
		}
		if !job.Released && w.released != 0 { // it was held, or requeued, by somebody else
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
