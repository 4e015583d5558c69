package coverage

import (
	"slices"
	"strings"

	"rmreplay/internal/rm/slurmmodel"
	"rmreplay/internal/rm/slurmmodel/config"
	"rmreplay/internal/rm/slurmmodel/keys"
	"rmreplay/internal/rm/slurmmodel/linear"
	"rmreplay/internal/rm/slurmmodel/sharing"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// isLinear reports whether a configuration has select/linear.
func isLinear(c *slurmmodel.Config) bool { return linear.IsConfigured(c.Get) }

// wholeNodes describes a setting that the model lacks with select/linear; "" if the model has all of them.
func wholeNodes(c *slurmmodel.Config) string {
	if !isLinear(c) {
		return ""
	}
	if kind := strings.ToLower(keys.Value(c.Get, "PreemptType")); kind != "" && kind != "preempt/none" {
		return "preemption with select/linear"
	}
	if !c.Release.Since(slurmspec.R2302) && unlike(c) { // backfill may test nodes of other jobs (_will_run_test)
		return "select/linear before 23.02 on nodes with different numbers of CPUs"
	}
	for _, p := range c.Partitions {
		if sharing.Read(p.Get).Shares() {
			return "OverSubscribe with select/linear"
		}
	}
	return ""
}

// unlike reports whether a partition has nodes with different numbers of CPUs.
func unlike(c *slurmmodel.Config) bool {
	cpus := map[string]int{}
	for i := range c.Nodes {
		cpus[c.Nodes[i].Name] = c.Nodes[i].CPUs
	}
	return slices.ContainsFunc(c.Partitions, func(p config.Partition) bool {
		return slices.ContainsFunc(p.Nodes, func(name string) bool { return cpus[name] != cpus[p.Nodes[0]] })
	})
}

// ranges describes and counts the jobs with a range of nodes (-N 2-4) on a cluster with select/linear and nodes
// with different numbers of CPUs. If such a job finds fewer nodes than it wants, slurmctld gives it nodes of
// other jobs, and may never end a cycle of backfill (_job_test in select_linear.c).
func ranges(c *slurmmodel.Config, w *workload.Workload) (what string, jobs int) {
	if isLinear(c) && unlike(c) {
		for _, j := range w.Jobs.All() {
			if j.MaxNodes > max(1, j.MinNodes) {
				jobs++
			}
		}
	}
	return "ranges of nodes with select/linear on nodes with different numbers of CPUs", jobs
}

// brackets describes and counts the jobs with features in brackets on a cluster with select/linear, which tests the
// nodes of each weight with each feature on its own.
func brackets(c *slurmmodel.Config, w *workload.Workload) (what string, jobs int) {
	if isLinear(c) {
		for _, j := range w.Jobs.All() {
			if strings.Contains(j.Constraint, "[") {
				jobs++
			}
		}
	}
	return "features in brackets with select/linear", jobs
}
