package forecast

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/experiment"
	"rmreplay/internal/forecast/unmet"
	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/rm"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// realization is one run of a queue. It ends as soon as all jobs in the field open have started. Jobs that can never
// start are not in open. The realization also ends if every remaining job in open requests more than a limit allows.
type realization struct {
	from  hpc.Time
	until hpc.Time // the realization does not end before this instant, except at the horizon
	// horizon is the last instant of the forecast; [hpc.Never] without a horizon. The field ended is when the run ended.
	horizon, ended hpc.Time
	starts         map[Key][]hpc.Time // the starts of each job at the instant from or later, in order
	sizes          map[Key][2]int     // the nodes and the processors that each of these jobs got
	// open are the tasks for which the realization waits, by job; -1 for a job that is not an array.
	open map[string]map[int]bool
	// whole says that starts are whole seconds, as in Slurm. Each launch is taken as the start, because slurmctld mostly
	// launches a script in the second of the allocation, and reports a longer delay only when the job ends.
	whole bool
	unmet *unmet.Jobs
	// reasons has the last reason for which each job waited. The map beyond has those jobs of open that request more than
	// a limit allows for one job. The jobs in beyond start in no realization, unless somebody changes the limit.
	reasons map[Key]string
	beyond  map[string]bool
	// elsewhere has those jobs of open that may run in several partitions with different limits.
	elsewhere map[string]bool
	changes   bool            // commands of the workload may change limits
	past      map[string]bool // preset jobs that end before the instant
	warnings  []string        // the engine's warnings
	occupied  *occupied       // nil unless the forecast has an occupancy
	late      int             // running jobs of the queue that did not run at the instant in this realization
	lost      int             // pending jobs of the queue that were refused
	refused   string          // the first refused job, and why it was refused
}

// watch returns a realization that waits for pending jobs of a queue, except those that never start.
func (q *Queue) watch(w *workload.Workload, pending []Key, opts Options) *realization {
	r := &realization{from: q.At, starts: map[Key][]hpc.Time{}, sizes: map[Key][2]int{}, open: map[string]map[int]bool{},
		whole: LikeSlurm(&opts.Engine), unmet: unmet.New(w), past: q.past, reasons: map[Key]string{},
		beyond: map[string]bool{}, elsewhere: map[string]bool{}, changes: len(w.Actions) > 0}
	for _, key := range pending {
		if r.open[key.Job] == nil {
			r.open[key.Job] = map[int]bool{}
		}
		r.open[key.Job][key.Task] = true
	}
	if opts.Occupancy > 0 {
		r.occupied = &occupied{grid: opts.grid(q.At), use: use{}, running: map[Key]placed{}}
		r.until = q.At
		if opts.Arrivals == Recent { // the occupancy counts jobs that arrive later than the last start of a waiting job
			r.until = q.At.Add(time.Duration(r.occupied.n) * r.occupied.step)
		}
	}
	for _, job := range w.Jobs.All() {
		if strings.Contains(job.Partition, ",") {
			r.elsewhere[job.ID] = true
		}
	}
	for _, key := range pending {
		if reason := q.Reasons[key]; r.whole && reason != "" {
			r.waits(key, reason)
		}
	}
	r.never(r.unmet.Add(q.held(opts)))
	return r
}

// spec returns the specification of a realization, for [experiment.Watch].
func (q *Queue) spec(w *workload.Workload, opts Options, dir string, seed uint64) experiment.Spec {
	spec := opts.Engine
	spec.Workload = experiment.Workload{Value: w}
	spec.Output, spec.Seed = dir, seed
	if spec.Slurm == nil {
		simulator := *spec.Simulator
		spec.Simulator = &simulator
		if q.states == nil && LikeSlurm(&spec) {
			simulator.Lead, _ = q.Phase.Align(w.Begin(), q.At) // the model's first backfill cycle is within 30 seconds
		}
		return spec
	}
	slurm := *spec.Slurm
	spec.Slurm = &slurm
	if q.states == nil {
		slurm.Lead, slurm.PreRollBackfill = q.Phase.Align(w.Begin(), q.At)
	}
	return spec
}

// play runs the realization. The directory of the specification exists only during the run.
func (r *realization) play(ctx context.Context, spec experiment.Spec) error {
	if len(r.open) == 0 && r.until == 0 {
		return nil
	}
	if err := os.Mkdir(spec.Output, 0o777); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(spec.Output) }() // only temporary files
	end := r.horizon
	if end != hpc.Never {
		end = end.Add(time.Second) // on Slurm, starts of an instant are reported within a second
	}
	result, err := experiment.Watch(ctx, spec, experiment.Watcher{See: r.see, Until: end})
	if err != nil {
		return err
	}
	r.ended = result.Now
	for _, w := range result.Warnings {
		r.warnings = append(r.warnings, w.Text)
	}
	r.late = len(slices.DeleteFunc(result.LatePresets, func(job string) bool { return r.past[job] }))
	return nil
}

// see processes an event of the run.
func (r *realization) see(e rm.Event) error {
	if e.Job == "" {
		return nil
	}
	if r.occupied != nil {
		r.occupied.see(e)
	}
	switch e.Kind {
	case rm.Started:
		start := e.Outcome.Start
		if r.whole {
			start = hpc.Unix(start.UnixSeconds())
		}
		if start < r.from {
			return nil
		}
		key := Key{e.Job, e.Task}
		r.starts[key] = append(r.starts[key], start)
		r.sizes[key] = [2]int{e.Outcome.NodeCount, e.Outcome.Processors}
	case rm.Refused:
		if len(r.open[e.Job]) > 0 {
			if r.lost++; r.lost == 1 {
				r.refused = "job " + e.Job + ": " + e.Reason
			}
		}
		r.never([]string{e.Job})
	case rm.Ended:
		r.never(r.unmet.Ended(e.Job, e.Task, e.Outcome.State, e.At))
	case rm.Dependency:
		r.never(r.unmet.Add([]string{e.Job}))
	case rm.Waiting:
		r.waits(Key{e.Job, e.Task}, e.Reason)
	default:
		return nil
	}
	if tasks := r.open[e.Job]; tasks != nil && e.Kind != rm.Dependency && e.Kind != rm.Waiting && e.At >= r.from {
		delete(tasks, e.Task)
		if len(tasks) == 0 {
			delete(r.open, e.Job)
			delete(r.beyond, e.Job)
		}
	}
	if len(r.open) == len(r.beyond) && e.At >= r.until && (len(r.open) == 0 || e.At >= r.from) {
		return experiment.ErrEnough
	}
	return nil
}

// waits stores the reason for which a job waits.
func (r *realization) waits(key Key, reason string) {
	r.reasons[key] = reason
	switch {
	case r.open[key.Job] == nil:
	case slurmspec.AboveLimit(reason) && !r.elsewhere[key.Job] && !r.changes:
		r.beyond[key.Job] = true
	default:
		delete(r.beyond, key.Job)
	}
}

// why returns the last reason of a job that has not started; "" if it is not known.
func (r *realization) why(key Key) string {
	return cmp.Or(r.reasons[key], r.reasons[Key{key.Job, -1}])
}

// start returns the first start of a job at an instant or later. It returns [Later] if the job still
// waited at the horizon, where the realization ended, and [hpc.Never] if the job does not start.
func (r *realization) start(key Key, from hpc.Time) hpc.Time {
	for _, at := range r.starts[key] {
		if at >= from {
			return seen(at, r.horizon)
		}
	}
	if (r.ended > r.horizon || r.beyond[key.Job] && r.horizon != hpc.Never) && r.open[key.Job][key.Task] {
		return Later
	}
	return hpc.Never
}

// never removes jobs that can never start from the field open.
func (r *realization) never(jobs []string) {
	for _, job := range jobs {
		delete(r.open, job)
		delete(r.beyond, job)
	}
}

// doubtsOf returns notes about realizations. Each note counts realizations in which a running job of the
// queue did not run at the beginning, in which a pending job was refused, or in which the engine warned.
func doubtsOf(all []*realization) (list []string) {
	late, lost, refused := 0, 0, ""
	warned := map[string]int{}
	for _, r := range all {
		for _, text := range slices.Compact(slices.Sorted(slices.Values(r.warnings))) {
			warned[text]++
		}
		if r.late > 0 {
			late++
		}
		if r.lost > 0 {
			lost++
			refused = cmp.Or(refused, r.refused)
		}
	}
	if late > 0 {
		list = append(list, fmt.Sprintf(
			"in %d of %d %s a job that runs now did not run at the beginning, so its nodes were free too early", late, len(all),
			quantity.Plural(len(all), "realization", "realizations")))
	}
	if lost > 0 {
		list = append(list, fmt.Sprintf("in %d of %d %s a pending job was refused, and so never starts (%s)", lost,
			len(all), quantity.Plural(len(all), "realization", "realizations"), refused))
	}
	for _, text := range slices.Sorted(maps.Keys(warned)) {
		list = append(list, fmt.Sprintf("in %d of %d %s: %s", warned[text], len(all),
			quantity.Plural(len(all), "realization", "realizations"), text))
	}
	return list
}
