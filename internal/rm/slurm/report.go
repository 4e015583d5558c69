package slurm

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/audit"
	"rmreplay/internal/rm/slurm/counters"
	"rmreplay/internal/rm/slurm/network"
	"rmreplay/internal/run"
)

// Facts are the parts of a run's record and workload that [Engine.Report] compares with slurmdbd's
// records.
type Facts struct {
	// Rows are the rows of the record.
	Rows iter.Seq[*run.Row]
	// Begin is when virtual time began. Earlier node events took effect at Begin.
	Begin        hpc.Time
	NodeEvents   []hpc.NodeEvent
	Reservations []hpc.ReservationEvent
	// OthersAct is set if other inputs, such as an action, may have changed nodes and reservations.
	OthersAct bool
}

// Report is the data that a run's record needs from the engine when the run ends.
type Report struct {
	// End is the virtual time at which the workload ended.
	End hpc.Time
	// DaemonCPU is the CPU time, user and system, that each daemon had used by End. PeakMemory
	// is the largest resident set of each daemon in bytes.
	DaemonCPU  map[string]time.Duration
	PeakMemory map[string]int64
	// ClockSteps is how often virtual time advanced. Computing is the virtual time that all threads
	// of slurmctld together took for computing; 0 with the frozen clock.
	ClockSteps uint64
	Computing  time.Duration
	// Scheduler are slurmctld's counters since the workload began, as sdiag shows them; nil for a
	// failed run.
	Scheduler *rm.Scheduler
	// Warnings are the engine's warnings.
	Warnings []Warning
	// Unfinished describes the administrator's actions that have not ended.
	Unfinished []string
	// NeverStart has an event for each pending job or task whose dependencies can never be met.
	NeverStart []rm.Event

	// Logs are texts for the log directory by file name: the output of sacct and sacctmgr.
	Logs map[string]string
	// Jobs are slurmdbd's records of the jobs, which complete the rows of the run's record; nil
	// without accounting.
	Jobs *audit.Jobs
	// Comparisons are the comparisons with slurmdbd; empty without accounting.
	Comparisons []Comparison
}

// Comparison is one comparison with slurmdbd.
type Comparison struct {
	// Code is the code of the warning about a difference: "sacct-differs".
	Code string
	// What names the object of the comparison: "the record", "the workload's events".
	What string
	// Differences has one sentence for each difference.
	Differences []string
	// Err says why the comparison was impossible; nil if it was possible.
	Err error
}

// flushTime is the virtual time that slurmctld's agent gets to empty its queue for slurmdbd.
const flushTime = 30 * time.Second

// Report collects the data for the run's record when the workload has ended. It runs virtual time
// until slurmctld has answered and slurmdbd has all records. For a failed run, facts is nil, and
// Report asks no daemon. If Report returns an error, the report still contains everything from
// before the error.
func (e *Engine) Report(ctx context.Context, facts *Facts) (*Report, error) {
	r := &Report{End: e.Now(), DaemonCPU: e.cpu(), Logs: map[string]string{}}
	var err error
	if facts != nil {
		if r.Scheduler, err = e.scheduler(ctx); err == nil {
			r.Unfinished = e.actions.unfinished()
			if r.NeverStart, err = e.neverStart(ctx); err == nil {
				err = e.compare(ctx, r, facts)
			}
		}
	}
	e.jobs.warnForgotten()
	r.Warnings = e.takeWarnings()
	r.PeakMemory = e.loop.daemons.PeakMemory()
	stats := e.loop.clock.Stats()
	r.ClockSteps, r.Computing = stats.InPlace+stats.Driver, stats.Charged
	return r, err
}

// maxReportWait is how long an interrupted run waits for slurmdbd's answers, in real time.
const maxReportWait = 10 * time.Second

// Interrupted returns a function that completes the rows of an interrupted run. It adds the priorities of running jobs
// and, if slurmdbd answers soon, the values that only slurmdbd has. Interrupted runs virtual time, and slurmctld then
// starts and ends jobs. The starts and ends in this time are not part of the run, so the caller must call
// [Engine.Report] first.
func (e *Engine) Interrupted() (amend func(*run.Row)) {
	ctx, cancel := context.WithTimeout(context.Background(), maxReportWait)
	defer cancel()
	priorities := map[uint32]uint32{}
	for number := range e.jobs.running {
		if in := e.jobs.byNumber[number]; in != nil {
			priorities[number] = in.priority
		}
	}
	var jobs *audit.Jobs
	if text, err := e.sacct(ctx); err == nil && text != "" {
		if known, err := audit.ParseJobs(text); err == nil {
			jobs = known
		}
	}
	return func(row *run.Row) {
		if row.Start == 0 && row.End == 0 {
			return // slurmdbd may have recorded a start after the run's end
		}
		if row.Priority == 0 && row.End == 0 {
			row.Priority = priorities[row.RMJob]
		}
		if jobs != nil {
			jobs.Amend(row)
		}
	}
}

// takeWarnings returns the warnings since the last call.
func (e *Engine) takeWarnings() []Warning {
	w := e.loop.warnings
	e.loop.warnings = nil
	return w
}

// scheduler asks slurmctld for its statistics. It warns of anything in the statistics and in the
// daemons' logs that affects the result.
func (e *Engine) scheduler(ctx context.Context) (*rm.Scheduler, error) {
	total := &rm.Scheduler{}
	// slurmctld handles the message about the last job's end first, and counts it in its statistics
	// afterwards.
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

// sacct returns slurmdbd's records of the run's jobs. First it gives slurmctld time to send its
// last records to slurmdbd. The result is empty without accounting.
func (e *Engine) sacct(ctx context.Context) (string, error) {
	if e.database == nil {
		return "", nil
	}
	if err := e.loop.quietly(ctx, e.Now().Add(flushTime)); err != nil {
		return "", err
	}
	return e.database.Sacct(ctx, e.Now())
}

// compare compares the record and the workload with slurmdbd's records.
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
	events.Differences, events.Err = facts.compareEvents(outages, reservations, r.End, e.outByConfiguration())
	r.Comparisons = append(r.Comparisons, events)
	return nil
}

// outByConfiguration returns the nodes that slurm.conf takes out of service.
func (e *Engine) outByConfiguration() (names []string) {
	for _, n := range e.conf.adapted.Nodes {
		switch n.State {
		case "DOWN", "DRAIN", "FAIL":
			names = append(names, n.Name)
		}
	}
	return names
}

// compareEvents compares the events up to end with slurmdbd's records of nodes and reservations.
// configured lists the nodes that slurm.conf takes out of service.
func (f *Facts) compareEvents(outages, reservations string, end hpc.Time, configured []string) ([]string, error) {
	nodeEvents := slices.DeleteFunc(slices.Clone(f.NodeEvents), func(ev hpc.NodeEvent) bool { return ev.At > end })
	differences, err := audit.Outages(outages, nodeEvents, f.Begin, f.OthersAct, configured)
	if err != nil || f.OthersAct {
		return differences, err
	}
	booked := slices.DeleteFunc(slices.Clone(f.Reservations), func(ev hpc.ReservationEvent) bool { return ev.At > end })
	more, err := audit.Reservations(reservations, booked)
	return append(differences, more...), err
}
