package experiment

import (
	"fmt"
	"math"
	"time"

	"rmreplay/internal/replay"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/workload"
)

// Spec describes one replay or simulation. It is plain data: nothing of it is opened or
// started before [Run] or [Prepare].
type Spec struct {
	Workload Workload
	// Exactly one of Slurm and Simulator is set: the engine.
	Slurm     *Slurm
	Simulator *Simulator

	// Users says how users react to what becomes of their jobs. Its seed is not used:
	// Seed is.
	Users replay.Feedback
	// Performance is how fast the nodes are: run times are divided by it, and time limits
	// are not. 1 if 0.
	Performance float64
	// FixedPriorities gives every job the priority that the workload records.
	FixedPriorities bool
	// Seed is that of everything that is drawn.
	Seed uint64
	// DrainLimit is the virtual time without any event after which the jobs that are left
	// are given up. [DefaultDrainLimit] if 0.
	DrainLimit time.Duration

	// Output is the directory of the record, or of the set of records. Overwrite replaces
	// a record that is there.
	Output    string
	Overwrite bool

	// Command and Version are noted in the record: the command line that asks for the run,
	// and the version of the program.
	Command []string
	Version string
}

// Workload is the workload of a run: a value, or the path of one in any known format. With
// both, the path is only noted in the record.
type Workload struct {
	Path  string
	Value *workload.Workload
}

// DefaultDrainLimit is the drain limit of a [Spec] that gives none.
const DefaultDrainLimit = 24 * time.Hour

// Slurm says how the workload is replayed on the stock Slurm daemons.
type Slurm struct {
	// Cluster is the cluster directory. NodeFactor multiplies the number of its nodes of
	// each kind; 0 leaves the nodes alone.
	Cluster    string
	NodeFactor float64
	// The delays on the nodes, as [rmreplay/internal/rm/slurm/nodes.ParseDelay] reads them:
	// before a job's script starts, of the prolog, and of the epilog. Empty for none.
	LaunchDelay, PrologDelay, EpilogDelay string
	// Lead is the virtual time for which Slurm has run when the workload begins, at least
	// [ShortestLead]. Zero draws one to six minutes from the seed.
	Lead time.Duration
	// ClockFactor is how much virtual time a second of slurmctld's computing takes, in
	// seconds. Zero is the frozen clock.
	ClockFactor float64
	// WithoutAccounting leaves slurmdbd out even if the site has it.
	WithoutAccounting bool
	// AllowShell lets those of the workload's actions run that may write files or run
	// programs: shell lines, and some subcommands of Slurm's commands.
	AllowShell bool
}

// Simulator says how the workload is simulated.
type Simulator struct {
	Policy string   // a name of package policy, with its options; "easy" if empty
	Ties   sim.Ties // the order of what happens at one instant; [sim.EndsFirst] if empty
	// Cluster is a cluster directory whose nodes and partitions are simulated. Without one,
	// Processors and Nodes say how large the machine is; where both are 0, the workload does.
	Cluster    string
	Processors int
	Nodes      int
	// NodeFactor multiplies the size of the machine; 0 leaves it alone.
	NodeFactor float64
	// AtLeastTwice raises time limits to twice the run time, so that no job is killed.
	AtLeastTwice bool
}

// ShortestLead is what slurmctld and the nodes need before they can take a job.
const ShortestLead = 5 * time.Second

// mostClockFactor is more than any controller is slower than this machine.
const mostClockFactor = 1e6

// complete sets what the specification leaves to defaults.
func (s *Spec) complete() {
	if s.DrainLimit == 0 {
		s.DrainLimit = DefaultDrainLimit
	}
	if s.Performance == 0 {
		s.Performance = 1
	}
	if s.Users.Model == "" {
		s.Users.Model = replay.None
	}
}

// check says what is wrong with the fields that all engines share.
func (s *Spec) check() error {
	switch {
	case (s.Slurm == nil) == (s.Simulator == nil):
		return fieldError("engine", "is missing, or there are two (want either Slurm or the simulator)")
	case s.Workload.Path == "" && s.Workload.Value == nil:
		return fieldError("workload", "is missing (want a path or a value)")
	case s.Output == "":
		return fieldError("output", "is missing (want a directory for the record)")
	case s.DrainLimit < 0:
		return fieldError("drain-limit", "%v: not above 0 (want, for example, 24h)", s.DrainLimit)
	case s.Users.Jitter < 0:
		return fieldError("jitter", "%v: negative", s.Users.Jitter)
	case !isFactor(s.Performance):
		return fieldError("perf", "%g: not a factor (want, for example, 2 or 0.5)", s.Performance)
	}
	return nil
}

// isFactor reports whether f is positive and finite.
func isFactor(f float64) bool { return f > 0 && !math.IsInf(f, 0) }

// users returns the users as the run with the given seed plays them.
func (s *Spec) users(seed uint64) replay.Feedback {
	f := s.Users
	f.Seed = seed
	return f
}

// fieldError makes a [FieldError].
func fieldError(field, format string, args ...any) error {
	return &FieldError{Field: field, Err: fmt.Errorf(format, args...)}
}
