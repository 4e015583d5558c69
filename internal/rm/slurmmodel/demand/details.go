package demand

import (
	"slices"

	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/rm/slurmmodel/keys"
	"rmreplay/internal/rm/slurmmodel/parameters"
	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/rm/slurmmodel/sharing"
	"rmreplay/internal/rm/slurmmodel/words"
	"rmreplay/internal/slurmspec"
)

// Details are the sizes that a submission gives for a job (job_details in slurmctld.h).
type Details struct {
	Request            selection.Request
	MinNodes, MaxNodes int // MaxNodes is 0 without a maximum
	UseMinNodes        bool
	// ImplicitMax says that MaxNodes was computed from the number of tasks; since 26.05
	// (JOB_IMPLICIT_MAX_NODES).
	ImplicitMax bool
	Sharing     sharing.Job
	// ExclusiveUser says that the job shares its nodes only with jobs of its user (--exclusive=user).
	ExclusiveUser bool
	// OwnMemory says that the submission asks for memory. Otherwise the partition decides the
	// memory.
	OwnMemory  bool
	SwitchWait int64 // seconds
}

// Read reads the numbers of nodes, tasks, CPUs and other resources from a submission
// (_validate_job_desc and _copy_job_desc_to_job_record in job_mgr.c). The parameter nodes is the
// cluster's number of nodes; maxSwitchWait is max_switch_wait in seconds. Read returns an error if
// generic resources cannot be read.
func Read(d *rpc.JobDesc, nodes int, maxSwitchWait int64, rules parameters.Rules) (j Details, err error) {
	r := &j.Request
	given, given16 := keys.Given, keys.Given16
	j.MinNodes, j.MaxNodes = max(1, given(d.MinNodes)), given(d.MaxNodes)
	j.UseMinNodes = d.Flags&rpc.FlagUseMinNodes != 0
	r.MaxNodes, r.MinCPUs = j.MaxNodes, given(d.MinCPUs)
	if r.MinCPUs == 0 {
		r.MinCPUs = j.MinNodes
	}
	r.Tasks, r.TasksPerNode, r.CPUsPerTask = given(d.Tasks), given16(d.TasksPerNode), max(1, given16(d.CPUsPerTask))
	r.OwnTasks = d.Flags&rpc.FlagTasksSet != 0
	r.BaseCPUsPerTask, r.OwnCPUsPerTask = r.CPUsPerTask, d.CPUsPerTask != slurmspec.NoVal16
	if r.TasksPerNode > 0 && d.MinNodes != slurmspec.NoVal && r.Tasks == 0 {
		r.Tasks = r.TasksPerNode * j.MinNodes
	}
	r.Overcommit = d.Overcommit == 1
	if !r.Overcommit && r.Tasks > r.MinCPUs {
		r.MinCPUs = r.Tasks * r.CPUsPerTask
	}
	r.MinCPUsPerNode = max(1, given16(d.MinCPUsPerNode))
	if r.TasksPerNode > 0 && !r.Overcommit && r.Tasks > 1 {
		r.MinCPUsPerNode = max(r.MinCPUsPerNode, r.CPUsPerTask*r.TasksPerNode)
	}
	r.MinCPUsPerNode = max(r.MinCPUsPerNode, r.CPUsPerTask)
	r.TasksPerSocket, r.TasksPerCore = given16(d.TasksPerSocket), given16(d.TasksPerCore)
	r.SocketsPerNode, r.CoresPerSocket = given16(d.SocketsPerNode), given16(d.CoresPerSocket)
	r.ThreadsPerCore = given16(d.ThreadsPerCore)
	r.Contiguous, r.Spread = d.Contiguous == 1, d.Flags&rpc.FlagSpreadJob != 0
	r.BlockCores = d.TaskDist>>4&0xf == 2
	r.Switches, j.SwitchWait = given(d.ReqSwitch), maxSwitchWait
	if w := given(d.Wait4Switch); d.Wait4Switch != slurmspec.NoVal {
		j.SwitchWait = min(j.SwitchWait, int64(w))
	}
	j.limitNodes(nodes, rules)
	if j.OwnMemory = d.MinMemory != slurmspec.NoVal64; j.OwnMemory {
		r.Memory = int64(d.MinMemory &^ slurmspec.MemPerCPU)
		r.MemoryPerCPU = d.MinMemory&slurmspec.MemPerCPU != 0 && r.Memory > 0
	}
	j.Sharing, j.ExclusiveUser = sharing.Of(d.Shared), d.Shared == 2
	if r.Devices, err = devices(d); err != nil {
		return j, err
	}
	for k := range r.Devices {
		one := &r.Devices[k]
		r.MemoryPerDevice = max(r.MemoryPerDevice, one.MemoryPer)
		if one.PerTask > 0 && one.PerJob == 0 {
			one.PerJob = r.Tasks * one.PerTask
		}
	}
	if r.OwnMemory = j.OwnMemory; j.OwnMemory {
		r.MemoryPerDevice = 0
	}
	return j, nil
}

// devices reads the generic resources of a submission (gres_job_state_validate in gres.c).
func devices(d *rpc.JobDesc) (list []selection.DeviceRequest, err error) {
	for _, of := range []struct {
		text string
		set  func(r *selection.DeviceRequest, n int)
	}{
		{d.CPUsPerTRES, func(r *selection.DeviceRequest, n int) { r.CPUsPer = n }},
		{d.TRESPerJob, func(r *selection.DeviceRequest, n int) { r.PerJob = n }},
		{d.TRESPerNode, func(r *selection.DeviceRequest, n int) { r.Count = n }},
		{d.TRESPerSocket, func(r *selection.DeviceRequest, n int) { r.PerSocket = n }},
		{d.TRESPerTask, func(r *selection.DeviceRequest, n int) { r.PerTask = n }},
		{d.MemPerTRES, func(r *selection.DeviceRequest, n int) { r.MemoryPer = int64(n) }},
	} {
		given, err := words.ReadDevices(of.text)
		if err != nil {
			return nil, err
		}
		for _, one := range given {
			same := func(r selection.DeviceRequest) bool { return r.Kind == one.Kind && r.Type == one.Type }
			at := slices.IndexFunc(list, same)
			if at < 0 {
				at = len(list)
				list = append(list, selection.DeviceRequest{Kind: one.Kind, Type: one.Type})
			}
			of.set(&list[at], one.Count)
		}
	}
	return withTypes(list), nil
}

// withTypes copies CPUs and memory per resource from a request without a type to the requests for a
// type of the same resource. It drops requests without a number.
func withTypes(list []selection.DeviceRequest) []selection.DeviceRequest {
	counted := list[:0:0]
	for _, one := range list {
		if one.Count+one.PerJob+one.PerSocket+one.PerTask == 0 {
			continue
		}
		for _, of := range list {
			if of.Kind == one.Kind && of.Type == "" {
				one.CPUsPer, one.MemoryPer = max(one.CPUsPer, of.CPUsPer), max(one.MemoryPer, of.MemoryPer)
			}
		}
		counted = append(counted, one)
	}
	return counted
}

// limitNodes sets a maximum of nodes that follows from the number of tasks: for jobs with
// --spread-job, and since 26.05 for all jobs that give no maximum.
func (j *Details) limitNodes(nodes int, rules parameters.Rules) {
	r := &j.Request
	if r.Spread && j.MaxNodes == 0 && r.Tasks > 0 {
		j.MaxNodes = min(nodes, r.Tasks)
		r.MaxNodes = j.MaxNodes
	}
	if j.MaxNodes == 0 && r.Tasks > 0 && rules.Since2605 {
		j.MaxNodes, j.UseMinNodes, j.ImplicitMax = r.Tasks, true, true
		if r.TasksPerNode > 0 {
			j.MaxNodes = max(j.MinNodes, (r.Tasks+r.TasksPerNode-1)/r.TasksPerNode)
		}
		r.MaxNodes = j.MaxNodes
	}
}
