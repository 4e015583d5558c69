package agreement

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"rmreplay/internal/rm"
)

// Report is how well the model's single decisions agree with those of a record.
type Report struct {
	// Instants is the number of seconds that are counted, of AllInstants in which there were decisions.
	Instants, AllInstants int
	// Decisions are those at these instants: for each job in a queue, whether it starts. Starts are those
	// of them in which one of both starts the job, and Nodes those in which both do.
	Decisions, Starts, Nodes Count
	// Reasons, Plans, Priorities and Ends are compared where the record has them, over the whole run.
	Reasons, Plans, Priorities, Ends Count
	// Jobs is the number of jobs that waited, Asked that of jobs with a recorded reason.
	Jobs, Asked int
	// Failed counts what the record says and the model could not carry out.
	Failed map[string]int
	// Differences are in the order of time. Those of starts and nodes are at the counted instants.
	Differences []Difference
}

// unseen is what nobody can read from outside slurmctld. The model has its own values of it.
const unseen = "not in the record, so that the model has its own: weights of nodes and sizes of jobs that earlier " +
	"tests left, usage between two decays, the plan of backfill, instants of passes without a start"

// Render writes the report, with at most a number of differences. recorded and model are the scheduler's
// counters of both; either may be nil. It returns w's error.
func (r *Report) Render(w io.Writer, differences int, recorded, model *rm.Scheduler) error {
	p := printer{w: w}
	p.line("decisions at %d of %d instants: %s; starts %s; nodes %s",
		r.Instants, r.AllInstants, r.Decisions, r.Starts, r.Nodes)
	p.line("over the run: reasons %s, plans %s, priorities %s, ends %s", r.Reasons, r.Plans, r.Priorities, r.Ends)
	if recorded != nil && model != nil {
		p.line("passes of the main scheduler %d (the model %d), cycles of backfill %d (%d), jobs backfilled %d (%d)",
			recorded.MainCycles, model.MainCycles, recorded.BackfillCycles, model.BackfillCycles,
			recorded.JobsBackfilled, model.JobsBackfilled)
	}
	p.line("%d of %d jobs that waited have a recorded reason", r.Asked, r.Jobs)
	for _, what := range slices.Sorted(maps.Keys(r.Failed)) {
		p.line("not carried out: %d %s", r.Failed[what], what)
	}
	p.line("%s", unseen)
	for i := range r.Differences[:min(differences, len(r.Differences))] {
		p.line("  %s", &r.Differences[i])
	}
	if more := len(r.Differences) - differences; more > 0 {
		p.line("  and %d more", more)
	}
	return p.err
}

// printer writes lines, and keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}
