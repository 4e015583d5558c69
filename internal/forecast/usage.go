package forecast

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"rmreplay/internal/experiment"
	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
)

// UseCluster adds to each queue of a run the fair-share usage and the phase of slurmctld's periodic work at the
// queue's instant. The half-life of usage (PriorityDecayHalfLife) and the periods come from slurm.conf. Only Slurm
// and the model of Slurm use them.
func (c *Course) UseCluster(dir string) error {
	cluster, err := experiment.OpenCluster(dir, 0)
	if err != nil {
		return err
	}
	c.halfLife = 7 * 24 * time.Hour // slurm.conf(5)
	if text, given := cluster.Get("PriorityDecayHalfLife"); given {
		if c.halfLife, err = slurmspec.ParseTimeLimit(text); err != nil {
			return fmt.Errorf("reading %s: PriorityDecayHalfLife=%s: %w", cluster.Path, text, err)
		}
	}
	if c.Manifest.OfSlurm() {
		made, err := experiment.SpecOf(c.Dir, &c.Manifest)
		if err != nil {
			return err
		}
		lead := experiment.DrawLead(c.Manifest.Seed)
		switch {
		case made.Slurm != nil:
			lead = cmp.Or(made.Slurm.Lead, lead)
		case made.Simulator != nil:
			lead = cmp.Or(made.Simulator.Lead, lead)
		}
		c.phase.Began = c.Manifest.VirtualStart.Add(-lead)
	}
	return c.phase.Use(cluster)
}

// UseCluster sets the periods of slurmctld's periodic work in a queue from a site's slurm.conf.
func (q *Queue) UseCluster(dir string) error {
	cluster, err := experiment.OpenCluster(dir, 0)
	if err != nil {
		return err
	}
	return q.Phase.Use(cluster)
}

// Priorities returns a note if the slurm.conf in a directory configures priorities that a
// simulator does not model. It returns "" otherwise, and if it cannot read the file.
func Priorities(dir string) string {
	cluster, err := experiment.OpenCluster(dir, 0)
	if err != nil {
		return "" // the engine says what is wrong
	}
	if kind, _ := cluster.Get("PriorityType"); kind != "priority/multifactor" {
		return ""
	}
	return "the site has priority/multifactor, and the simulator ignores priorities (want --policy slurm, or " +
		"--engine slurm)"
}

// usage returns the usage of each user in each account at an instant: the usage at the run's beginning and the
// processor seconds since then, less the decay. It equals Slurm's usage if there are no TRESBillingWeights and no
// usage factors of QOS. Jobs without an account are left out.
func (c *Course) usage(at hpc.Time) []hpc.Usage {
	if c.halfLife == 0 {
		return nil
	}
	began := cmp.Or(c.workload.Start, c.workload.Epoch)
	type owner struct{ account, user string }
	sums := map[owner]float64{}
	for _, u := range c.workload.Usage {
		sums[owner{u.Account, u.User}] += u.Raw * c.left(at.Sub(began))
	}
	jobs := map[string]owner{}
	for _, job := range c.workload.Jobs.All() {
		if job.Account != "" && job.User != "" {
			jobs[job.ID] = owner{job.Account, job.User}
		}
	}
	for _, one := range c.staysBefore(at) {
		if who, known := jobs[one.key.Job]; known {
			from, to := max(one.start, began), min(one.end, at)
			if to > from {
				sums[who] += float64(one.processors) * (c.sinceThen(at.Sub(from)) - c.sinceThen(at.Sub(to)))
			}
		}
	}
	var list []hpc.Usage
	for who, raw := range sums {
		list = append(list, hpc.Usage{Account: who.account, User: who.user, Raw: raw})
	}
	slices.SortFunc(list, func(a, b hpc.Usage) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.User, b.User))
	})
	return list
}

// left returns the share of a usage that is left after a time of decay.
func (c *Course) left(after time.Duration) float64 {
	if c.halfLife == hpc.Unlimited {
		return 1
	}
	return math.Exp2(-after.Seconds() / c.halfLife.Seconds())
}

// sinceThen returns the usage, in processor seconds after decay, of one processor that was used during the last
// d: the integral of left from 0 to d.
func (c *Course) sinceThen(d time.Duration) float64 {
	if c.halfLife == hpc.Unlimited {
		return d.Seconds()
	}
	h := c.halfLife.Seconds() / math.Ln2
	return h * -math.Expm1(-d.Seconds()/h)
}
