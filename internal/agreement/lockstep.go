package agreement

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"rmreplay/internal/experiment"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
)

// Lockstep says how well the model's single decisions agree with the decisions in a record. The
// model makes each decision in Slurm's state.
type Lockstep struct {
	// AllInstants is the number of seconds with decisions. Instants is the number of seconds whose
	// decisions are counted.
	Instants    int `json:"instants"`
	AllInstants int `json:"all_instants"`
	// Decisions counts the decisions at these instants: for each job in a queue, whether the job
	// starts. Starts counts the decisions in which Slurm or the model starts the job. Nodes counts
	// the decisions in which both start the job.
	Decisions Count `json:"decisions"`
	Starts    Count `json:"starts"`
	Nodes     Count `json:"nodes"`
	// Reasons, Plans, Priorities and Ends compare, over the whole run, those values that the record contains.
	Reasons    Count `json:"reasons"`
	Plans      Count `json:"plans"`
	Priorities Count `json:"priorities"`
	Ends       Count `json:"ends"`
	// Jobs is the number of jobs that waited, and Asked the number of jobs with a recorded reason.
	Jobs  int `json:"jobs_that_waited"`
	Asked int `json:"jobs_with_reasons"`
	// Failed counts the recorded starts and ends that the model could not carry out, by the reason.
	Failed map[string]int `json:"not_carried_out,omitempty"`
	// Kinds counts the differences. Differences of starts and nodes count only at the counted instants.
	Kinds map[Kind]int `json:"kinds,omitempty"`
	// Differences are the first differences of each kind, in the order of time.
	Differences []Difference `json:"differences,omitempty"`

	all []Difference
	// recorded and model are the scheduler's counters in the record and in the model; nil if they are
	// not known.
	recorded, model *rm.Scheduler
}

// unseen is a text about the state that cannot be read from outside slurmctld. The model computes the hidden state
// itself.
const unseen = "not in the record: node weights and job sizes that earlier tests of jobs changed, usage between two " +
	"decays, backfill's plan, or instants of passes that started no job (the model computes its own values)"

// shown is the number of differences of a kind that a report shows.
const shown = 3

// follow makes the model of a specification follow a record.
func follow(ctx context.Context, spec experiment.Spec, record *run.Run, instants int) (*Lockstep, error) {
	follower, err := NewFollower(record)
	if err != nil {
		return nil, err
	}
	counted, err := experiment.Follow(ctx, spec, follower, until(&record.Manifest))
	if err != nil {
		return nil, err
	}
	l := follower.Report(instants, spec.Seed)
	l.recorded, l.model = record.Manifest.Scheduler, counted
	return l, nil
}

// finish counts the differences by kind, and selects the differences that a report shows.
func (l *Lockstep) finish() {
	l.Kinds, l.Differences = map[Kind]int{}, nil
	for i := range l.all {
		d := l.all[i]
		if l.Kinds[d.Kind]++; l.Kinds[d.Kind] <= shown {
			l.Differences = append(l.Differences, d)
		}
	}
}

// join adds the comparisons with another record.
func (l *Lockstep) join(o *Lockstep) {
	l.Instants, l.AllInstants = l.Instants+o.Instants, l.AllInstants+o.AllInstants
	for _, c := range []struct{ to, from *Count }{
		{&l.Decisions, &o.Decisions}, {&l.Starts, &o.Starts}, {&l.Nodes, &o.Nodes}, {&l.Reasons, &o.Reasons},
		{&l.Plans, &o.Plans}, {&l.Priorities, &o.Priorities}, {&l.Ends, &o.Ends},
	} {
		c.to.join(*c.from)
	}
	l.Jobs, l.Asked = l.Jobs+o.Jobs, l.Asked+o.Asked
	if l.Failed == nil {
		l.Failed = map[string]int{}
	}
	for what, n := range o.Failed {
		l.Failed[what] += n
	}
	l.all = append(l.all, o.all...)
}

// render writes the comparison of single decisions.
func (l *Lockstep) render(b *strings.Builder) {
	fmt.Fprintf(b, "\nsingle decisions, each in Slurm's state (%d of %d seconds with decisions)\n", l.Instants,
		l.AllInstants)
	for _, line := range []struct {
		name string
		is   Count
	}{
		{"decisions", l.Decisions}, {"starts", l.Starts}, {"nodes", l.Nodes}, {"reasons to wait", l.Reasons},
		{"planned starts", l.Plans}, {"priorities", l.Priorities}, {"ends", l.Ends},
	} {
		fmt.Fprintf(b, "  %-16s %s\n", line.name, line.is)
	}
	if l.recorded != nil && l.model != nil {
		fmt.Fprintf(b, "  cycles           main scheduler %d (the model %d), backfill %d (%d), jobs backfilled %d (%d)\n",
			l.recorded.MainCycles, l.model.MainCycles, l.recorded.BackfillCycles, l.model.BackfillCycles,
			l.recorded.JobsBackfilled, l.model.JobsBackfilled)
	}
	for _, what := range slices.Sorted(maps.Keys(l.Failed)) {
		fmt.Fprintf(b, "  not carried out: %d %s\n", l.Failed[what], what)
	}
	for i := range l.Differences {
		fmt.Fprintf(b, "  %s\n", &l.Differences[i])
	}
	if more := len(l.all) - len(l.Differences); more > 0 {
		fmt.Fprintf(b, "  and %d more (--json counts them by kind)\n", more)
	}
	fmt.Fprintf(b, "  %s\n", unseen)
}
