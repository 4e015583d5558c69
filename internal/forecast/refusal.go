package forecast

import (
	"cmp"
	"context"
	"strings"
	"time"

	"rmreplay/internal/experiment"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/admission"
)

// foresee says why a variant will not run, or returns "". It follows the site's rules of submissions if the scheduler
// is Slurm or the model of Slurm. Other schedulers run for a second. It returns "" if it cannot tell.
func (q *Queue) foresee(ctx context.Context, v Variant, opts Options) string {
	with := q.with(v.Request)
	engine := &opts.Engine
	switch {
	case engine.Slurm != nil:
		return with.judge(engine.Slurm.Cluster, engine.Slurm.Installation)
	case LikeSlurm(engine):
		return with.judge(engine.Simulator.Cluster, cmp.Or(engine.Simulator.Release, experiment.ModelRelease))
	case q.states != nil: // the run would be played from its beginning
		return ""
	}
	all, err := with.realize(ctx, []Key{{submitted, -1}}, Options{Engine: opts.Engine, Realizations: 1, Seed: opts.Seed,
		RunTimes: FromLimits, Arrivals: NoArrivals, Horizon: time.Second, Dir: opts.Dir})
	if err != nil || all[0].refused == "" {
		return ""
	}
	return "the scheduler will refuse the job: " + strings.TrimPrefix(all[0].refused, "job "+submitted+": ")
}

// judge says by the rules of a cluster directory why Slurm will not run the added job, or returns "".
func (q *Queue) judge(dir, release string) string {
	cluster, err := experiment.OpenCluster(dir, 0)
	if err != nil {
		return ""
	}
	site, err := experiment.Rules(q.Workload, cluster, release)
	if err != nil {
		return ""
	}
	for _, job := range q.Workload.Jobs.All() {
		if job.ID != submitted {
			continue
		}
		why := site.Judge(job, q.Reservation)
		switch {
		case why == nil:
		case why.Verdict == admission.Rejected:
			return "the scheduler will refuse the job: " + why.Text
		default:
			return "the job will never start: " + why.Text
		}
	}
	return ""
}

// Reservation returns a reservation of the queue by its name, or nil.
func (q *Queue) Reservation(name string) *hpc.Reservation {
	for i := range q.Workload.Reservations {
		if r := &q.Workload.Reservations[i].Reservation; strings.EqualFold(r.Name, name) {
			return r
		}
	}
	return nil
}
