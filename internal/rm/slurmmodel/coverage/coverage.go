// Package coverage finds the features that a configuration and a workload use and that the model of
// Slurm lacks.
package coverage

import (
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurmmodel"
	"rmreplay/internal/rm/slurmmodel/alternatives"
	"rmreplay/internal/rm/slurmmodel/config"
	"rmreplay/internal/rm/slurmmodel/cpulimits"
	"rmreplay/internal/rm/slurmmodel/keys"
	"rmreplay/internal/rm/slurmmodel/partitions"
	"rmreplay/internal/rm/slurmmodel/reservations"
	"rmreplay/internal/rm/slurmmodel/sharing"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// Missing is a feature that a configuration or a workload uses and that the model lacks.
type Missing struct {
	What string
	Jobs int // number of jobs concerned; all jobs of the workload if the configuration uses the feature
}

// String returns the description: "reservations (12 jobs)".
func (m Missing) String() string { return fmt.Sprintf("%s (%d jobs)", m.What, m.Jobs) }

// Lacks returns the features that a configuration and a workload use and that the model lacks, with
// the number of jobs concerned.
func Lacks(cfg *slurmmodel.Config, w *workload.Workload) []Missing {
	var list []Missing
	for _, rule := range configurationRules {
		if what := rule(cfg); what != "" {
			list = append(list, Missing{what, w.Jobs.Len()})
		}
	}
	counts := make([]int, len(jobRules))
	more := 0
	for _, job := range w.Jobs.All() {
		if limitsGPUMemory(cfg, job) {
			more++
		}
		for i := range jobRules {
			if jobRules[i].asks(job) {
				counts[i]++
			}
		}
	}
	for i, n := range counts {
		if n > 0 {
			list = append(list, Missing{jobRules[i].what, n})
		}
	}
	if more > 0 {
		list = append(list, Missing{"MaxMemPerCPU and MaxMemPerNode with --mem-per-gpu or DefMemPerGPU", more})
	}
	if what, n := jobGPUs(cfg, w); n > 0 {
		list = append(list, Missing{what, n})
	}
	if what, n := countedGPUs(cfg, w); n > 0 {
		list = append(list, Missing{what, n})
	}
	if what, n := ranges(cfg, w); n > 0 {
		list = append(list, Missing{what, n})
	}
	if what, n := brackets(cfg, w); n > 0 {
		list = append(list, Missing{what, n})
	}
	if what := unlikeReservations(cfg, w.Reservations); what != "" {
		list = append(list, Missing{what, w.Jobs.Len()})
	}
	if len(w.NodeEvents) > 0 {
		list = append(list, nodeEvents(w)...)
	}
	return list
}

// nodeEvents returns what the model lacks for a workload with node events.
func nodeEvents(w *workload.Workload) (list []Missing) {
	survivors := 0
	for _, job := range w.Jobs.All() {
		if job.NoKill {
			survivors++
		}
	}
	if survivors > 0 {
		list = append(list, Missing{"jobs that outlive their nodes (--no-kill)", survivors})
	}
	return list
}

// jobGPUs describes a kind of requests for GPUs that the model lacks, and counts the jobs with such
// a request. The model lacks GPUs per socket if gres.conf does not give the GPUs' cores: slurmctld
// then gives different GPUs than the job asks for.
func jobGPUs(cfg *slurmmodel.Config, w *workload.Workload) (what string, jobs int) {
	nowhere := func(n hpc.Node) bool {
		return slices.ContainsFunc(n.GRES, func(g hpc.GRES) bool { return g.Name == "gpu" && g.Type == "" && g.Cores == "" })
	}
	unplaced := slices.ContainsFunc(cfg.Nodes, nowhere)
	for _, j := range w.Jobs.All() {
		if unplaced && j.GPUsPerSocket != "" {
			jobs++
		}
	}
	return "GPUs for a socket on nodes whose GPUs have neither cores nor types", jobs
}

// countedGPUs describes requests for GPUs on nodes whose GPUs have types but no files in gres.conf, and counts the
// jobs. If a job asks for GPUs for the job, a socket or a task, slurmctld does not free them after it, because it does
// not count their types (_job_alloc in gres_ctld.c). Neither does it count them as the model does if a node has several
// types, and the job asks for none of them.
func countedGPUs(cfg *slurmmodel.Config, w *workload.Workload) (what string, jobs int) {
	counted, several := false, false
	for _, n := range cfg.Nodes {
		types := 0
		for _, g := range n.GRES {
			if g.Name == "gpu" && g.Type != "" && !g.File {
				types++
			}
		}
		counted, several = counted || types > 0, several || types > 1
	}
	for _, j := range w.Jobs.All() {
		anyType := j.GPUsPerNode != "" && !strings.Contains(j.GPUsPerNode, ":")
		for one := range strings.SplitSeq(j.GRES, ",") {
			name, kind, _, ok := slurmspec.GRESWord(one)
			anyType = anyType || ok && name == "gpu" && kind == ""
		}
		if counted && j.GPUs+j.GPUsPerSocket+j.GPUsPerTask != "" || several && anyType {
			jobs++
		}
	}
	return "GPUs for a job, a socket or a task, or of any of several types of a node, where gres.conf has no files of " +
		"typed GPUs", jobs
}

// unlikeReservations describes features that reservations use and the model lacks; "" if there are
// none.
func unlikeReservations(cfg *slurmmodel.Config, events []hpc.ReservationEvent) string {
	unsupported := reservations.Unsupported
	if cfg.Release.Since(slurmspec.R2605) {
		unsupported = append(slices.Clip(unsupported), slurmspec.FlagFlex) // Slurm starts the jobs of FLEX at other times
	}
	var what []string
	for i := range events {
		r := &events[i].Reservation
		for _, flag := range unsupported {
			if r.HasFlag(flag) {
				what = append(what, flag)
			}
		}
		if r.Licenses != "" {
			what = append(what, "licences")
		}
		if r.Features != "" {
			what = append(what, "features")
		}
	}
	if len(what) == 0 {
		return ""
	}
	slices.Sort(what)
	return "reservations with " + strings.Join(slices.Compact(what), ", ")
}

// fewMessages is more than the number of messages that slurmctld serves at once on the frozen clock. With
// fewer messages, backfill does not prolong its pauses (yield_rpc_cnt in
// src/plugins/sched/backfill/backfill.c).
const fewMessages = 20

// configurationRules each return a feature that a configuration uses and the model lacks, or "".
var configurationRules = []func(*slurmmodel.Config) string{
	func(c *slurmmodel.Config) string {
		kind := strings.ToLower(keys.Value(c.Get, "SelectType"))
		if kind == "" || strings.HasSuffix(kind, "cons_tres") || isLinear(c) {
			return ""
		}
		return "SelectType=" + kind
	},
	func(c *slurmmodel.Config) string {
		for i := range c.Nodes {
			switch n := &c.Nodes[i]; {
			case n.State != "" && n.State != "CLOUD": // like a replay, the model keeps cloud nodes always on
				return "State of nodes in slurm.conf"
			case n.CoreSpecCount > 0 || n.CPUSpecList != "":
				return "specialized cores of nodes"
			}
		}
		return ""
	},
	plugins, preemption, wholeNodes,
	func(c *slurmmodel.Config) string {
		params := strings.ToUpper(keys.Value(c.Get, "SelectTypeParameters"))
		for _, one := range []string{"CR_SOCKET", "CR_ONE_TASK_PER_CORE"} {
			if strings.Contains(params, one) {
				return "SelectTypeParameters=" + one
			}
		}
		if strings.Contains(params, "CR_CPU") && !isLinear(c) && turnsCPUs(c) {
			return "SelectTypeParameters=CR_CPU with gang scheduling"
		}
		return ""
	},
	func(c *slurmmodel.Config) string {
		switch plugin := strings.ToLower(keys.Value(c.Get, "TopologyPlugin")); plugin {
		case "", "topology/tree", "topology/none", "topology/default", "topology/flat":
			return ""
		default:
			return "TopologyPlugin=" + plugin
		}
	},
	func(c *slurmmodel.Config) string {
		variant := strings.ToLower(keys.Value(c.Get, "TopologyParam"))
		if c.Release.Since(slurmspec.R2311) && strings.Contains(variant, "dragonfly") {
			return "TopologyParam=Dragonfly"
		}
		return ""
	},
	func(c *slurmmodel.Config) string {
		o := keys.OptionsOf(c.Get)
		for _, one := range []string{"bf_licenses", "bf_topopt_enable", "bf_max_job_assoc"} {
			if o.Has(one) {
				return "SchedulerParameters=" + one
			}
		}
		// max_rpc_cnt matters if it is small: on the frozen clock slurmctld has few threads that
		// serve messages.
		if n := o.Number("max_rpc_cnt", 0); n > 0 && n < fewMessages {
			return fmt.Sprintf("SchedulerParameters=max_rpc_cnt=%d", n)
		}
		return ""
	},
	func(c *slurmmodel.Config) string {
		kind := strings.ToLower(keys.Value(c.Get, "PreemptType"))
		preempts := kind != "" && kind != "preempt/none" ||
			strings.Contains(strings.ToUpper(keys.Value(c.Get, "PreemptMode")), "GANG")
		for _, p := range c.Partitions {
			if text := keys.Value(p.Get, "ExclusiveTopo"); text != "" && !strings.EqualFold(text, "NO") {
				return "ExclusiveTopo of partitions"
			}
			if preempts && sharing.Read(p.Get).Shares() {
				return "OverSubscribe with preemption"
			}
		}
		return ""
	},
	func(c *slurmmodel.Config) string {
		limits := func(p config.Partition) bool { return cpulimits.Read(p.Get, c.Release).IsSet() }
		shares := func(p config.Partition) bool { return sharing.Read(p.Get).Shares() }
		gang := strings.Contains(strings.ToUpper(keys.Value(c.Get, "PreemptMode")), "GANG")
		if !isLinear(c) && slices.ContainsFunc(c.Partitions, limits) && (gang || slices.ContainsFunc(c.Partitions, shares)) {
			return "MaxCPUsPerNode or MaxCPUsPerSocket where jobs share cores"
		}
		return ""
	},
}

// turnsCPUs reports whether jobs take turns with CPUs that are not cores, if the configuration has CR_CPU (_get_gr_type
// in gang.c).
func turnsCPUs(c *slurmmodel.Config) bool {
	if !strings.Contains(strings.ToUpper(keys.Value(c.Get, "PreemptMode")), "GANG") {
		return false
	}
	task := strings.ToLower(keys.Value(c.Get, "TaskPlugin"))
	return task == "" || task == "task/none" || slices.ContainsFunc(c.Nodes, func(n hpc.Node) bool {
		return n.CPUs != n.Sockets*n.CoresPerSocket
	})
}

// jobRules each describe a feature that the model lacks, and report whether a job uses it.
var jobRules = []struct {
	what string
	asks func(*hpc.Job) bool
}{
	{"several reservations for a job", func(j *hpc.Job) bool { return strings.Contains(j.Reservation, ",") }},
	{"licences of other servers", func(j *hpc.Job) bool { return strings.Contains(j.Licenses, "@") }},
	{"tasks for each GPU", func(j *hpc.Job) bool { return j.TasksPerGPU > 0 }},
	{"--gres-flags=enforce-binding", func(j *hpc.Job) bool { return strings.EqualFold(j.GRESFlags, "enforce-binding") }},
	{"features with counts or parentheses", func(j *hpc.Job) bool {
		_, ok := alternatives.Read(j.Constraint)
		return !ok
	}},
	{"features in brackets with --nodelist", func(j *hpc.Job) bool {
		return strings.Contains(j.Constraint, "[") && j.NodeList != ""
	}},
	{"--prefer", func(j *hpc.Job) bool { return j.Prefer != "" }},
	{"--exclusive=mcs", func(j *hpc.Job) bool { return j.Exclusive == "mcs" }},
	{"shards and MPS of GPUs", asksSharedGPU},
	{"specialized cores", func(j *hpc.Job) bool { return j.CoreSpec > 0 || j.ThreadSpec > 0 }},
	{"burst buffers", func(j *hpc.Job) bool { return j.BurstBuffer != "" }},
	{"plane and arbitrary distributions", func(j *hpc.Job) bool {
		d := strings.ToLower(j.Distribution)
		return strings.HasPrefix(d, "plane") || strings.HasPrefix(d, "arbitrary") || strings.HasPrefix(d, "hostfile")
	}},
}

// asksSharedGPU reports whether a job asks for a part of a GPU. A job that shares a GPU takes no free GPU (--gres=gpu),
// and no part of a GPU that another job has (gres_id_sharing in src/interfaces/gres.c).
func asksSharedGPU(j *hpc.Job) bool {
	for one := range strings.SplitSeq(j.GRES, ",") {
		if name, _, _, ok := slurmspec.GRESWord(one); ok && (name == "shard" || name == "mps") {
			return true
		}
	}
	return false
}

// limitsGPUMemory reports whether a job gets memory for each GPU in a partition with a limit of memory.
func limitsGPUMemory(c *slurmmodel.Config, job *hpc.Job) bool {
	gpus := job.GPUs + job.GPUsPerNode + job.GPUsPerSocket + job.GPUsPerTask
	if job.MemPerGPU == 0 && gpus == "" && !strings.Contains(job.GRES, "gpu") {
		return false
	}
	for _, p := range c.Partitions {
		limit := partitions.ReadLimit(nil, nil, p.Get, c.Get)
		given := keys.Number(p.Get, "DefMemPerGPU", keys.Number(c.Get, "DefMemPerGPU", 0)) > 0 || job.MemPerGPU > 0
		if given && limit.Most > 0 && (job.Partition == "" || slices.Contains(strings.Split(job.Partition, ","), p.Name)) {
			return true
		}
	}
	return false
}
