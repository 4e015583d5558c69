package sitecmd

import (
	"fmt"
	"math"
	"strings"
	"time"

	"rmreplay/internal/quantity"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/complete"
)

// unplaced returns the jobs of a completed workload that got no partition, because none of the site's partitions can
// run them. A text has the ID of a job and what it requests, such as "7 (2 nodes or more, 96 CPUs, --gres=gpu:4)". The
// result is empty if the options leave the partition out, or if the site's partitions are not known.
func unplaced(w *workload.Workload, opts *complete.Options) (list []string) {
	if opts.Rules[workload.FieldPartition] == complete.None || len(opts.Site.Partitions) == 0 {
		return nil
	}
	for _, job := range w.Jobs.All() {
		if job.Partition != "" {
			continue
		}
		cpus := workload.CPUs(&job.Request)
		if job.Recorded != nil {
			cpus = max(cpus, job.Recorded.Processors)
		}
		nodes := quantity.Regular(max(job.MinNodes, 1), "node")
		switch {
		case job.MaxNodes == 0:
			nodes += " or more"
		case job.MaxNodes > job.MinNodes:
			nodes = fmt.Sprintf("%d to %d nodes", max(job.MinNodes, 1), job.MaxNodes)
		}
		parts := []string{nodes, quantity.Regular(cpus, "CPU")}
		if 0 < job.RunTime && job.RunTime < math.MaxInt64 {
			parts = append(parts, "run time "+job.RunTime.Round(time.Second).String())
		}
		for _, o := range []struct{ option, value string }{
			{"--gres", job.GRES}, {"--gpus", job.GPUs}, {"--gpus-per-node", job.GPUsPerNode}, {"--gpus-per-socket", job.GPUsPerSocket},
			{"--gpus-per-task", job.GPUsPerTask}, {"--constraint", job.Constraint},
		} {
			if o.value != "" {
				parts = append(parts, o.option+"="+o.value)
			}
		}
		for _, o := range []struct {
			option string
			value  int64
		}{
			{"--mem", job.MemPerNode}, {"--mem-per-cpu", job.MemPerCPU}, {"--mem-per-gpu", job.MemPerGPU},
			{"--ntasks-per-node", int64(job.TasksPerNode)}, {"--cpus-per-task", int64(job.CPUsPerTask)},
			{"--mincpus", int64(job.MinCPUsPerNode)},
		} {
			if o.value > 1 {
				parts = append(parts, fmt.Sprintf("%s=%d", o.option, o.value))
			}
		}
		list = append(list, fmt.Sprintf("%s (%s)", job.ID, strings.Join(parts, ", ")))
	}
	return list
}
