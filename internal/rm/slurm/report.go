package slurm

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/audit"
	"rmreplay/internal/rm/slurm/counters"
	"rmreplay/internal/rm/slurm/network"
	"rmreplay/internal/run"
)

// Facts are what a run's record and its workload say, for the comparison with slurmdbd.
type Facts struct {
	// Rows are the rows of the record.
	Rows iter.Seq[*run.Row]
	// Begin is when virtual time began to matter; node events before it happened then.
	Begin        hpc.Time
	NodeEvents   []hpc.NodeEvent
	Reservations []hpc.ReservationEvent
	// OthersAct says that something else than these events, such as an action, may have
	// changed nodes and reservations.
	OthersAct bool
}

// Report is what the end of a run's record needs to know of the engine.
type Report struct {
	// End is the virtual time at which the workload ended.
	End hpc.Time
	// DaemonCPU is the CPU time, user and system, of each daemon up to then, and PeakMemory the
	// largest resident set of each in bytes.
	DaemonCPU  map[string]time.Duration
	PeakMemory map[string]int64
	// ClockSteps is how often virtual time was advanced. Computing is the virtual time that
	// slurmctld's threads have spent computing, all threads together; 0 with the frozen clock.
	ClockSteps uint64
	Computing  time.Duration
	// Scheduler is what slurmctld has counted since the workload began, as sdiag shows it; nil
	// for a run that failed.
	Scheduler *run.Scheduler
	// Warnings are what the engine has noticed.
	Warnings []Warning
	// Unfinished describes the administrator's actions that have not ended.
	Unfinished []string

	// Logs are texts for the log directory by file name: what sacct and sacctmgr have printed.
	Logs map[string]string
	// Jobs is what slurmdbd has of the jobs, to complete the record's rows; nil without
	// accounting.
	Jobs *audit.Jobs
	// Comparisons say what slurmdbd has differently; none without accounting.
	Comparisons []Comparison
}

// Comparison is one comparison with slurmdbd.
type Comparison struct {
	// Code is that of the warning that a difference deserves: "sacct-differs".
	Code string
	// What was compared: "the record", "the workload's events".
	What string
	// Differences has one sentence for each difference.
	Differences []string
	// Err is why nothing could be compared; nil if it was.
	Err error
}

// flushTime is virtual time in which slurmctld's agent empties its queue for slurmdbd.
const flushTime = 30 * time.Second

// Report says what remains to be said when the workload has ended. It lets virtual time pass
// until slurmctld has answered and slurmdbd has everything. With nil facts, for a run that has
// failed, it asks no daemon. After an error the report has what was known until then.
func (e *Engine) Report(ctx context.Context, facts *Facts) (*Report, error) {
	r := &Report{End: e.Now(), DaemonCPU: e.cpu(), Logs: map[string]string{}}
	var err error
	if facts != nil {
		if r.Scheduler, err = e.scheduler(ctx); err == nil {
			r.Unfinished = e.actions.unfinished()
			err = e.compare(ctx, r, facts)
		}
	}
	r.Warnings = e.takeWarnings()
	r.PeakMemory = e.loop.daemons.PeakMemory()
	stats := e.loop.clock.Stats()
	r.ClockSteps, r.Computing = stats.InPlace+stats.Driver, stats.Charged
	return r, err
}

// takeWarnings returns what has been noticed since the last call.
func (e *Engine) takeWarnings() []Warning {
	w := e.loop.warnings
	e.loop.warnings = nil
	return w
}

// scheduler asks slurmctld for its statistics and warns of what in them, and in the daemons'
// logs, makes the result doubtful.
func (e *Engine) scheduler(ctx context.Context) (*run.Scheduler, error) {
	total := &run.Scheduler{}
	// slurmctld reports the last job's end in the midst of a request that it has not counted yet.
	if err := e.loop.quietly(ctx, e.Now().Add(time.Second)); err != nil {
		return total, err
	}
	e.counters.Ask()
	if err := e.loop.Until(ctx, e.counters.Answered); err != nil {
		return total, err
	}
	if err := e.counters.Err(); err != nil && !errors.Is(err, network.ErrNoAnswer) {
		e.loop.warn("statistics-missing", fmt.Sprintf("asking slurmctld for its statistics: %v", err), false)
	}
	*total = e.counters.Total()
	parameters, _ := e.cfg.Cluster.Get("SchedulerParameters")
	counters.CheckBackfill(total, parameters, e.cfg.ClockFactor == 0, e.loop.warn)
	return total, counters.CheckLosses(e.cfg.LogDir, e.loop.warn)
}

// sacct returns what slurmdbd has of the run's jobs, after the time that slurmctld needs to
// send its last records. It is empty without accounting.
func (e *Engine) sacct(ctx context.Context) (string, error) {
	if e.database == nil {
		return "", nil
	}
	if err := e.loop.quietly(ctx, e.Now().Add(flushTime)); err != nil {
		return "", err
	}
	return e.database.Sacct(ctx, e.Now())
}

// compare compares what the record and the workload say with what slurmdbd has.
func (e *Engine) compare(ctx context.Context, r *Report, facts *Facts) error {
	text, err := e.sacct(ctx)
	if err != nil || text == "" {
		return err
	}
	r.Logs["sacct.txt"] = text
	jobs := Comparison{Code: "sacct-differs", What: "the record"}
	if r.Jobs, jobs.Err = audit.ParseJobs(text); jobs.Err == nil {
		jobs.Differences = r.Jobs.Compare(facts.Rows)
	}
	r.Comparisons = append(r.Comparisons, jobs)
	outages, err := e.database.Outages(ctx, e.Now())
	if err != nil {
		return err
	}
	reservations, err := e.database.Reservations(ctx, e.Now())
	if err != nil {
		return err
	}
	r.Logs["outages.txt"], r.Logs["reservations.txt"] = outages, reservations
	events := Comparison{Code: "events-differ", What: "the workload's events"}
	events.Differences, events.Err = facts.compareEvents(outages, reservations, r.End)
	r.Comparisons = append(r.Comparisons, events)
	return nil
}

// compareEvents compares the events up to end with what slurmdbd has of nodes and
// reservations.
func (f *Facts) compareEvents(outages, reservations string, end hpc.Time) ([]string, error) {
	nodeEvents := slices.DeleteFunc(slices.Clone(f.NodeEvents), func(ev hpc.NodeEvent) bool { return ev.At > end })
	differences, err := audit.Outages(outages, nodeEvents, f.Begin, f.OthersAct)
	if err != nil || f.OthersAct {
		return differences, err
	}
	booked := slices.DeleteFunc(slices.Clone(f.Reservations), func(ev hpc.ReservationEvent) bool { return ev.At > end })
	more, err := audit.Reservations(reservations, booked)
	return append(differences, more...), err
}
