package experiment

import (
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rmreplay/internal/hpc"
	"rmreplay/internal/ioaware"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm/slurm"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// withoutIO returns a warning if no job of a workload uses a file system.
func withoutIO(w *workload.Workload, systems []hpc.FileSystem) []run.Warning {
	if len(replay.FileSystemUsers(w, systems)) > 0 {
		return nil
	}
	return []run.Warning{{Code: "no-io", Text: "no job of the workload uses a file system, so bandwidths neither delay nor " +
		"slow jobs (want a workload with I/O, for example of rmreplay io assign)", Count: 1}}
}

// describeFileSystems returns the record's description of file systems.
func describeFileSystems(systems []hpc.FileSystem) (list []run.FileSystem) {
	for _, f := range systems {
		list = append(list, run.FileSystem(f))
	}
	return list
}

// scheduleIO changes the cluster's configuration if the specification has a driver. The driver
// then decides when jobs start.
func (e *slurmEngine) scheduleIO() error {
	if e.spec.IOSchedule == "" {
		return nil
	}
	how, err := ioaware.ParsePlanning(e.spec.IOSchedule)
	if err != nil {
		return &FieldError{"io-schedule", err}
	}
	e.ioSchedule, e.cluster = &how, slurm.Outside(e.cluster)
	return nil
}

// decideStarts adds the driver that decides on starts to the controller, if the specification has such a driver. The
// driver's CPU time is added to cpu.
func (e *slurmEngine) decideStarts(c replay.Controller, w *workload.Workload, engine *slurm.Engine,
	cpu *time.Duration) replay.Controller {
	if e.ioSchedule == nil {
		return c
	}
	how := replay.Starts{
		Options: e.ioSchedule.Options, Interval: e.ioSchedule.Interval, Estimator: e.ioSchedule.Estimator,
		NodesOf: nodesNeeded(e.cluster), PoolOf: nodesAllowed(e.cluster), DefaultLimit: e.cluster.DefaultLimit(),
	}
	for _, n := range e.cluster.Nodes {
		how.Nodes = append(how.Nodes, n.Name)
	}
	licenses, _ := e.cluster.Get("Licenses")
	how.Licenses = ioaware.ParseLicenses(licenses)
	if len(e.fileSystems) > 0 {
		system := e.fileSystems[0].Complete()
		how.FileSystem = system
		how.Measured = func() int64 { return system.LicensesOf(float64(engine.IOLoad(system.Name).Granted)) }
		how.NextPhase = engine.NextPhase
	}
	return &timed{replay.DecideStarts(c, w, how), cpu}
}

// timed adds up the CPU time of a controller.
type timed struct {
	replay.Controller
	cpu *time.Duration
}

// Event implements [replay.Controller].
func (t *timed) Event(event *replay.Event) replay.Decisions {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadCPU()
	d := t.Controller.Event(event)
	*t.cpu += threadCPU() - before
	return d
}

// threadCPU returns the CPU time of this thread; 0 if it is not known.
func threadCPU() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// nodesAllowed returns a function that returns a name for a set of nodes, and the nodes of this set.
// It considers the nodes of the job's partitions that have all features of the job's constraint. A
// constraint with other operators than "&" and "," allows all nodes of the partitions.
func nodesAllowed(c *conf.Cluster) func(job *hpc.Job) (string, []string) {
	features := make(map[string][]string, len(c.Nodes))
	for _, n := range c.Nodes {
		features[n.Name] = n.Features
	}
	known := map[string][]string{}
	return func(job *hpc.Job) (string, []string) {
		partitions, constraint := job.Partition, job.Constraint
		if partitions == "" {
			partitions = c.DefaultPartition()
		}
		if strings.ContainsAny(constraint, "|[]*()") {
			constraint = ""
		}
		name := partitions + " " + constraint
		list, found := known[name]
		if found {
			return name, list
		}
		wanted := strings.FieldsFunc(constraint, func(r rune) bool { return r == '&' || r == ',' })
		for _, p := range c.Partitions {
			if !slices.Contains(strings.Split(partitions, ","), p.Name) {
				continue
			}
			for _, n := range p.Nodes {
				if !slices.ContainsFunc(wanted, func(f string) bool { return !slices.Contains(features[n], f) }) {
					list = append(list, n)
				}
			}
		}
		known[name] = list
		return name, list
	}
}

// nodesNeeded returns a function that returns how many nodes of a cluster a job needs. The result is the larger of two
// numbers: the requested number of nodes, and how many of the partition's largest nodes the job's tasks fill.
func nodesNeeded(c *conf.Cluster) func(job *hpc.Job) int {
	cpus := make(map[string]int, len(c.Nodes))
	for _, n := range c.Nodes {
		cpus[n.Name] = n.CPUs
	}
	largest := map[string]int{}
	for _, p := range c.Partitions {
		for _, name := range p.Nodes {
			largest[p.Name] = max(largest[p.Name], cpus[name])
		}
	}
	return func(job *hpc.Job) int {
		partition, _, _ := strings.Cut(job.Partition, ",")
		if partition == "" {
			partition = c.DefaultPartition()
		}
		tasks, each := max(job.Tasks, 1), max(job.CPUsPerTask, 1)
		perNode := max(largest[partition]/each, 1)
		if job.TasksPerNode > 0 {
			perNode = min(perNode, job.TasksPerNode)
		}
		return max(job.MinNodes, (tasks+perNode-1)/perNode, 1)
	}
}
