package transform

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/workload"
)

// SwitchOptions are the options of [Switches].
type SwitchOptions struct {
	Switches   int           // the largest number of leaf switches
	MinNodes   int           // smallest size of the chosen jobs, in nodes
	MinRuntime time.Duration // the chosen jobs run longer than this
	Wait       time.Duration // how long such a job waits for the switches; 0 for Slurm's default
}

// Switches makes jobs ask for nodes on few leaf switches, as sbatch --switches does.
// Martinasso et al. (SC'18, section VIII.A) do so for jobs of at least 64, 32 or 16 nodes
// that run more than ten minutes. Preset jobs keep their nodes. The error says which option
// is out of range.
func Switches(o SwitchOptions) (Step, error) {
	if o.Switches < 1 || o.MinNodes < 0 || o.MinRuntime < 0 || o.Wait < 0 {
		return Step{}, fmt.Errorf("%d switches for %d %s and %s (want 1 or more switches, and 0 or more for the rest)",
			o.Switches, o.MinNodes, quantity.Plural(o.MinNodes, "node", "nodes"), o.MinRuntime)
	}
	text := fmt.Sprintf("--switches %d --min-nodes %d --min-runtime %g", o.Switches, o.MinNodes, o.MinRuntime.Seconds())
	if o.Wait > 0 {
		text += fmt.Sprintf(" --switch-wait %g", o.Wait.Seconds())
	}
	return Step{text, func(w *workload.Workload, _ *Environment) error {
		for i, job := range w.Jobs.All() {
			run := min(job.RunTime, limitOf(job))
			if w.Preset(job) || job.MinNodes < o.MinNodes || run <= o.MinRuntime {
				continue
			}
			job.Switches, job.SwitchWait = o.Switches, o.Wait
			w.Jobs.Set(i, job)
		}
		return nil
	}}, nil
}

// limitOf returns the job's time limit, or Unlimited if the job does not ask for a limit.
func limitOf(job *hpc.Job) time.Duration {
	if job.TimeLimit <= 0 {
		return hpc.Unlimited
	}
	return job.TimeLimit
}

// ScaleArrivals multiplies the time of every submission since the window's start, or since the first submission. With a
// factor below 1 jobs arrive faster, with a factor above 1 slower. Jobs submitted before the window, node events and
// reservations keep their times. ScaleArrivals returns an error if the factor is not above 0.
func ScaleArrivals(factor float64) (Step, error) {
	if err := checkFactor(factor); err != nil {
		return Step{}, err
	}
	return Step{fmt.Sprintf("--scale-arrivals %g", factor), func(w *workload.Workload, _ *Environment) error {
		start := origin(w)
		for i, job := range w.Jobs.All() {
			if job.Submit < start {
				continue
			}
			job.Submit = start.Add(scaled(job.Submit.Sub(start), factor))
			w.Jobs.Set(i, job)
		}
		return nil
	}}, nil
}

// ScaleRuntime multiplies run times. It multiplies time limits as well, up to the partition's limit. For a preset job
// it multiplies only the run time after the window's start. ScaleRuntime returns an error if the factor is not above 0.
func ScaleRuntime(factor float64) (Step, error) {
	if err := checkFactor(factor); err != nil {
		return Step{}, err
	}
	return Step{fmt.Sprintf("--scale-runtime %g", factor), func(w *workload.Workload, env *Environment) error {
		limits := newCaps(w, env)
		for i, job := range w.Jobs.All() {
			done := time.Duration(0)
			if w.Preset(job) {
				done = w.Start.Sub(job.Recorded.Start)
			}
			job.RunTime = scaledBeyond(job.RunTime, done, factor)
			for task, d := range job.TaskRunTimes {
				job.TaskRunTimes[task] = scaledBeyond(d, done, factor)
			}
			if job.TimeLimit > 0 {
				most := max(limits.of(job), job.TimeLimit)
				setLimit(job, min(scaledBeyond(job.TimeLimit, done, factor), most))
			}
			if job.EndAt > w.Start {
				job.EndAt = w.Start.Add(scaled(job.EndAt.Sub(w.Start), factor))
			}
			if w.Preset(job) && job.Recorded.End > w.Start {
				r := job.Recorded
				r.End = w.Start.Add(scaled(r.End.Sub(w.Start), factor))
				r.Suspensions = slices.DeleteFunc(r.Suspensions, func(s hpc.Suspension) bool { return max(s.From, s.To) > r.End })
			}
			w.Jobs.Set(i, job)
		}
		return nil
	}}, nil
}

// ScaleNodes multiplies the numbers of nodes, tasks and GPUs that jobs ask for, and rounds them. A number stays at
// least 1, and the number of nodes at most the partition's. A job that names its nodes, and a preset job, can only
// become smaller. A job that becomes smaller keeps the first of its nodes. ScaleNodes returns an error if the factor is
// not above 0.
func ScaleNodes(factor float64) (Step, error) {
	if err := checkFactor(factor); err != nil {
		return Step{}, err
	}
	return Step{fmt.Sprintf("--scale-nodes %g", factor), func(w *workload.Workload, env *Environment) error {
		for i, job := range w.Jobs.All() {
			if err := scaleNodes(w, env, job, factor); err != nil {
				return fmt.Errorf("job %s: %w", job.ID, err)
			}
			w.Jobs.Set(i, job)
		}
		w.MachineNodes = int(math.Round(float64(w.MachineNodes) * factor))
		w.MachineProcessors = int(math.Round(float64(w.MachineProcessors) * factor))
		return nil
	}}, nil
}

func scaleNodes(w *workload.Workload, env *Environment, job *hpc.Job, factor float64) error {
	pinned := job.NodeList != "" || w.Preset(job)
	if pinned && factor > 1 {
		return nil
	}
	before := *job
	most := env.Partitions[job.Partition].Nodes
	job.MinNodes, job.MaxNodes = times(job.MinNodes, factor, most), times(job.MaxNodes, factor, most)
	if job.TasksPerNode > 0 && job.MinNodes > 0 && before.Tasks == before.MinNodes*job.TasksPerNode {
		job.Tasks = job.MinNodes * job.TasksPerNode
	} else {
		job.Tasks = max(times(job.Tasks, factor, 0), min(job.Tasks, job.MinNodes))
	}
	if gpus, err := strconv.Atoi(job.GPUs); err == nil {
		job.GPUs = strconv.Itoa(times(gpus, factor, 0))
	}
	if pinned {
		if err := shrinkLists(job); err != nil {
			return err
		}
	}
	return nil
}

// shrinkLists cuts the job's node lists to the number of nodes that it asks for.
func shrinkLists(job *hpc.Job) error {
	lists := []*string{&job.NodeList}
	if job.Recorded != nil {
		lists = append(lists, &job.Recorded.Nodes)
	}
	for _, list := range lists {
		names, err := hostlist.Expand(*list)
		if err != nil {
			return err
		}
		if n := max(job.MaxNodes, job.MinNodes); n > 0 && n < len(names) {
			*list = hostlist.Compress(names[:n])
			if job.Recorded != nil && list == &job.Recorded.Nodes {
				job.Recorded.Processors = job.Recorded.Processors * n / len(names)
			}
		}
	}
	return nil
}

// times multiplies a count. A count that is not 0 stays at least 1. If maxNodes is not 0, the result
// is at most maxNodes.
func times(n int, factor float64, maxNodes int) int {
	if n <= 0 {
		return n
	}
	scaled := max(int(math.Round(min(float64(n)*factor, math.MaxInt32))), 1)
	if maxNodes > 0 {
		scaled = min(scaled, max(maxNodes, 1))
	}
	return scaled
}

func checkFactor(factor float64) error {
	if !(factor > 0) || factor > 1e6 {
		return fmt.Errorf("%g: not a factor (want more than 0, such as 0.8)", factor)
	}
	return nil
}

// scaled multiplies a duration and rounds it to milliseconds.
func scaled(d time.Duration, factor float64) time.Duration {
	x := float64(d) * factor
	if x >= float64(hpc.Unlimited) {
		return hpc.Unlimited
	}
	return time.Duration(x).Round(time.Millisecond)
}

// scaledBeyond multiplies the part of a duration that exceeds the duration over.
func scaledBeyond(d, over time.Duration, factor float64) time.Duration {
	if d == hpc.Unlimited || d <= over {
		return d
	}
	return over + scaled(d-over, factor)
}
