package experiment

import (
	"fmt"
	"math"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/workload"
)

// Spec describes one replay or simulation. It is plain data: only [Run] and [Prepare] open its files.
type Spec struct {
	Workload Workload
	// Exactly one of Slurm and Simulator is set: the engine of the run.
	Slurm     *Slurm
	Simulator *Simulator

	// Users says how users react to the results of their jobs. The seed in it is ignored: [Spec.Seed] is used.
	Users replay.Feedback
	// Performance is the speed of the nodes relative to the recorded nodes. Run times are divided by
	// it; time limits are not changed. 0 means 1.
	Performance float64
	// TwiceRunTime raises time limits to twice the run time, so that they cut no run short.
	TwiceRunTime bool
	// FixedPriorities sets the priority of every job to its recorded priority, if there is one.
	FixedPriorities bool
	// Seed decides everything that is random.
	Seed uint64
	// DrainLimit is a virtual time. If nothing happens for this time, the run ends without the
	// remaining jobs. 0 means [DefaultDrainLimit].
	DrainLimit time.Duration

	// Output is the directory of the record, or of the set of records. Overwrite allows the
	// run to replace an existing record.
	Output    string
	Overwrite bool

	// Command is the command line of the run, and Version the version of the program. Both are written into the record.
	Command []string
	Version string
}

// Workload is the workload of a run: a value, or the path of a workload in any known format. If
// both are set, the path is only written into the record.
type Workload struct {
	Path  string
	Value *workload.Workload
	// SHA256 is the hash of the file from which Value was copied, or "" if the file itself is read.
	SHA256 string
}

// DefaultDrainLimit is the drain limit of a [Spec] that gives no drain limit.
const DefaultDrainLimit = 24 * time.Hour

// defaultPolicy is the policy of a [Simulator] that names no policy.
const defaultPolicy = "easy"

// Slurm says how the workload is replayed on the stock Slurm daemons. Its JSON keys are used in the record.
type Slurm struct {
	// Installation is the Slurm that runs: a directory or a version, as
	// [rmreplay/internal/rm/slurm/install.FindSlurm] reads it. "" means the default.
	Installation string `json:"installation,omitempty"`
	// SiteSlurm is the release of Slurm that the cluster's configuration is for, such as "22.05". If it is "", the
	// release is found from the configuration's keys ([rmreplay/internal/rm/slurm/conf.Cluster.Releases]).
	SiteSlurm string `json:"site_slurm,omitempty"`
	// Cluster is the cluster directory. NodeFactor multiplies the number of nodes. 0 means 1.
	Cluster    string  `json:"cluster"`
	NodeFactor float64 `json:"node_factor,omitempty"`
	// The delays on the nodes: the time before a job's script starts, the duration of the prolog, and the duration
	// of the epilog. For the syntax, see [rmreplay/internal/rm/slurm/nodes.ParseDelay]. "" means no delay.
	LaunchDelay string `json:"launch_delay,omitempty"`
	PrologDelay string `json:"prolog_delay,omitempty"`
	EpilogDelay string `json:"epilog_delay,omitempty"`
	// Lead is the virtual time for which Slurm has run when the workload begins, at least
	// [ShortestLead]. If it is 0, a random lead of one to six minutes is drawn with the seed.
	Lead time.Duration `json:"lead_ns,omitempty"`
	// PreRollBackfill is the interval of backfill cycles from slurmctld's start to the window, in whole seconds and at
	// most three hours. Backfill cycles before the window do not start jobs. The first cycle in the window is at the end
	// of such an interval, counted from slurmctld's start. With 0 there are no cycles before the window, and the first
	// cycle is within 30 seconds. From release 23.11 on this has no effect, because slurmctld restarts itself at the
	// window's start.
	PreRollBackfill time.Duration `json:"pre_roll_backfill_ns,omitempty"`
	// ClockFactor is the number of virtual seconds that a second of slurmctld's CPU time takes. 0 is the frozen clock.
	ClockFactor float64 `json:"clock_factor,omitempty"`
	// ReasonsEvery is the virtual time between two queries for the reasons of pending jobs. 0 means
	// no queries. With the measured clock, the queries would take virtual time.
	ReasonsEvery time.Duration `json:"reasons_every_ns,omitempty"`
	// WithoutAccounting leaves out slurmdbd even if the site uses it.
	WithoutAccounting bool `json:"without_accounting,omitempty"`
	// FileSystems are the file systems that the jobs share. They replace the workload's file systems of the same name.
	FileSystems []hpc.FileSystem `json:"-"`
	// IOSchedule is the strategy by which a driver outside slurmctld decides on the starts of jobs,
	// in the syntax of [rmreplay/internal/ioaware.ParsePlanning]. If it is "", slurmctld decides.
	IOSchedule string `json:"io_schedule,omitempty"`
	// AllowShell allows actions of the workload that may write files or run programs: shell lines, and some subcommands
	// of Slurm's commands.
	AllowShell bool `json:"allow_shell,omitempty"`
}

// Simulator says how the workload is simulated. Its JSON keys are used in the record.
type Simulator struct {
	Policy string   `json:"policy"` // a name of package policy, with its options; "easy" if empty
	Ties   sim.Ties `json:"ties"`   // the order of what happens at one instant; [sim.EndsFirst] if empty
	// Cluster is a cluster directory whose nodes and partitions are simulated. Without a cluster,
	// Processors and Nodes (or the workload, if both are 0) give the machine's size.
	Cluster    string `json:"cluster,omitempty"`
	Processors int    `json:"processors,omitempty"`
	Nodes      int    `json:"nodes,omitempty"`
	// NodeFactor multiplies the size of the machine. 0 means 1.
	NodeFactor float64 `json:"node_factor,omitempty"`
	// FileSystems are the file systems that the jobs share. They replace the workload's file systems of the same name.
	FileSystems []hpc.FileSystem `json:"-"`
	// Release is the release of Slurm that the policy [SlurmPolicy] models, such as "24.11"; "" means [ModelRelease]. Lead
	// is the virtual time between the start of the modelled slurmctld and the begin of the workload, as in [Slurm].
	Release string        `json:"release,omitempty"`
	Lead    time.Duration `json:"lead_ns,omitempty"`
	// Clock is the virtual time of the modelled slurmctld's computing, as [ModelClock] returns it; ""
	// if computing takes no virtual time.
	Clock string `json:"clock,omitempty"`
	// Opened opens the cluster once for all runs that share it ([Spec.Sharing]); it may be nil.
	Opened func() (machine, error) `json:"-"`
}

// SlurmPolicy is the policy that is a model of Slurm's scheduler, with the site's slurm.conf. ModelRelease is the
// release of Slurm that it models unless another release is named.
const (
	SlurmPolicy  = "slurm"
	ModelRelease = "22.05"
)

// models reports whether the simulation is a model of Slurm.
func (s *Simulator) models() bool { return s.Policy == SlurmPolicy }

// Ties converts a name to a value of [Simulator.Ties].
func Ties(name string) sim.Ties { return sim.Ties(name) }

// ShortestLead is the time that slurmctld and the nodes need before they can accept a job.
const ShortestLead = 5 * time.Second

// maxClockFactor is the largest accepted factor of the measured clock. No real controller is a million times slower
// than this machine.
const maxClockFactor = 1e6

// complete sets the defaults of a specification.
func (s *Spec) complete() {
	if s.DrainLimit == 0 {
		s.DrainLimit = DefaultDrainLimit
	}
	if s.Performance == 0 {
		s.Performance = 1
	}
	if s.Users.Model == "" {
		s.Users.Model = replay.NoFeedback
	}
}

// check returns an error if a field that all engines share is wrong.
func (s *Spec) check() error {
	switch {
	case (s.Slurm == nil) == (s.Simulator == nil):
		return fieldError("engine", "is missing, or two engines are given (want either Slurm or the simulator)")
	case s.Workload.Path == "" && s.Workload.Value == nil:
		return fieldError("workload", "is missing (want a path or a value)")
	case s.Output == "":
		return fieldError("output", "is missing (want a directory for the record)")
	case s.DrainLimit < 0:
		return fieldError("drain-limit", "%v: not above 0 (want, for example, 24h)", s.DrainLimit)
	case s.Users.Jitter < 0:
		return fieldError("jitter", "%v: negative (want 0 or more)", s.Users.Jitter)
	case !isFactor(s.Performance):
		return fieldError("perf", "%g: not a factor (want, for example, 2 or 0.5)", s.Performance)
	}
	return nil
}

// rewriters returns the rewriters of jobs that do not depend on the engine. TwiceRunTime computes limits from the
// recorded run times, so it comes before Performance, which changes run times.
func (s *Spec) rewriters() (list []replay.Rewriter) {
	if s.TwiceRunTime {
		list = append(list, replay.TwiceRunTime)
	}
	if s.Performance != 0 && s.Performance != 1 {
		list = append(list, replay.Performance(s.Performance))
	}
	return list
}

// isFactor reports whether f is positive and finite.
func isFactor(f float64) bool { return f > 0 && !math.IsInf(f, 0) }

// fieldError makes a [FieldError].
func fieldError(field, format string, args ...any) error {
	return &FieldError{Field: field, Err: fmt.Errorf(format, args...)}
}
