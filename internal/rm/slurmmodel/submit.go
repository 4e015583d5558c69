package slurmmodel

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/jobdesc"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/rm/slurmmodel/hardware"
	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/slurmspec"
)

// Submit implements [rm.ResourceManager]. slurmctld answers at once.
func (e *Engine) Submit(work *hpc.Job) error {
	e.turnFirst()
	s := &submission{job: work, index: len(e.submissions) + 1}
	e.submissions = append(e.submissions, s)
	e.byID[work.ID] = s
	answer := rm.Event{At: e.now, Kind: rm.Accepted, Job: work.ID, Task: -1, Submission: s.index}
	j, err := e.create(s)
	if err == nil {
		err = e.admitToReservation(j)
		e.touch()
	}
	if err == nil {
		e.list = append(e.list, j)
		e.byNumber[j.number] = j
		if len(j.tasks) == 0 {
			e.independent(j) // sets its begin time; that of an array is set when a queue is built
		}
		e.account.prioritize(j)
		err = e.tryAtSubmission(j)
	}
	if err != nil {
		s.gone = true
		answer.Kind, answer.Reason = rm.Refused, err.Error()
		e.events = append(e.events, answer)
		e.drop(j)
		return nil
	}
	answer.RMJob = j.number
	e.stats.Submitted += uint32(max(1, len(j.tasks)))
	e.events = append(e.events, answer)
	e.loops.queued = true
	return nil
}

// drop forgets a job that is refused; nil for one that has no record.
func (e *Engine) drop(j *job) {
	if j == nil {
		return
	}
	e.account.forget(j)
	e.remove(j)
	delete(e.byNumber, j.number)
	j.of.jobs = nil
}

// create makes the record of a job (_job_create in job_mgr.c). The error says why it is refused.
func (e *Engine) create(s *submission) (*job, error) {
	work := s.job
	if why, rejected := e.cfg.Rejected[work.ID]; rejected {
		if why.Late {
			e.nextNumber++
			e.touch()
		}
		return nil, errors.New(why.Reason)
	}
	d, err := (&jobdesc.Submission{
		Request: work.Request, Script: "#!/bin/sh\n", Args: []string{"script"}, Now: e.now, Release: e.cfg.Release,
	}).JobDesc()
	if err != nil {
		return nil, err
	}
	j := &job{of: s, place: e.nextPlace, task: -1, submit: e.second(), limit: noMinutes, priority: slurmspec.NoVal}
	j.reservation = e.reservationOf(d.Reservation)
	names := d.Partition
	if names == "" && j.reservation != nil {
		names = j.reservation.Partition
	}
	if j.parts, err = e.partitionsOf(names); err != nil {
		return nil, err
	}
	j.part = j.parts[0]
	e.describeTimes(j, d)
	if err := e.describeSize(j, d); err != nil {
		return nil, err
	}
	if err := e.describeNodes(j, d); err != nil {
		return nil, err
	}
	e.tester.Classify(&j.request)
	if j.needs, err = e.needsOf(work.Dependency); err != nil {
		return nil, err
	}
	if work.Array != "" {
		a, err := hpc.ParseArray(work.Array)
		if err != nil {
			return nil, fmt.Errorf("--array=%s: %w", work.Array, err)
		}
		j.tasks = a.Tasks
		s.array = &array{limit: a.Limit}
	}
	if err := e.account.admit(j); err != nil {
		return nil, err
	}
	if e.rules.refuseForgotten && j.needs.namesForgotten() {
		e.nextNumber++ // of the submission that is refused, before the engine submits the job without these dependencies
	}
	j.number, s.number = e.nextNumber, e.nextNumber
	e.nextNumber++
	e.nextPlace++
	s.jobs = []*job{j}
	return j, nil
}

// partitionsOf returns the partitions of a list, highest tier first.
func (e *Engine) partitionsOf(names string) ([]*partition, error) {
	if names == "" {
		for i := range e.cfg.Partitions {
			if e.cfg.Partitions[i].Default {
				return []*partition{e.parts[i]}, nil
			}
		}
		return nil, errors.New("no partition specified or system default partition")
	}
	var list []*partition
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(e.parts, func(p *partition) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("invalid partition name specified: %s", name)
		}
		list = append(list, e.parts[i])
	}
	slices.SortStableFunc(list, func(a, b *partition) int { return cmp.Compare(b.tier, a.tier) })
	return list, nil
}

// describeTimes sets the time limits and instants of a job.
func (e *Engine) describeTimes(j *job, d *rpc.JobDesc) {
	switch {
	case d.TimeLimit != slurmspec.NoVal && d.TimeLimit != slurmspec.Infinite:
		j.limit = int64(d.TimeLimit)
	case d.TimeLimit == slurmspec.NoVal && j.part.defaultMinutes >= 0:
		j.limit = j.part.defaultMinutes
	}
	if d.TimeMin != slurmspec.NoVal {
		j.timeMin = int64(d.TimeMin)
	}
	if d.BeginTime > j.submit {
		j.begin = d.BeginTime
	}
	j.deadline = d.Deadline
	if d.Priority == 0 {
		j.reason = reasonHeldUser
	}
}

// describeSize sets the numbers of nodes, tasks, CPUs and so on (_validate_job_desc and
// _copy_job_desc_to_job_record in job_mgr.c).
func (e *Engine) describeSize(j *job, d *rpc.JobDesc) error {
	r := &j.request
	given := func(n uint32) int {
		if n == slurmspec.NoVal || n == slurmspec.Infinite {
			return 0
		}
		return int(n)
	}
	given16 := func(n uint16) int {
		if n == slurmspec.NoVal16 || n == slurmspec.Infinite16 {
			return 0
		}
		return int(n)
	}
	j.minNodes, j.maxNodes = max(1, given(d.MinNodes)), given(d.MaxNodes)
	j.useMinNodes = d.Flags&rpc.FlagUseMinNodes != 0
	r.MaxNodes, r.MinCPUs = j.maxNodes, given(d.MinCPUs)
	if r.MinCPUs == 0 {
		r.MinCPUs = j.minNodes
	}
	r.Tasks, r.TasksPerNode, r.CPUsPerTask = given(d.Tasks), given16(d.TasksPerNode), max(1, given16(d.CPUsPerTask))
	if r.TasksPerNode > 0 && d.MinNodes != slurmspec.NoVal && r.Tasks == 0 {
		r.Tasks = r.TasksPerNode * j.minNodes
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
	r.Switches, j.switchWait = given(d.ReqSwitch), e.par.maxSwitchWait
	if w := given(d.Wait4Switch); d.Wait4Switch != slurmspec.NoVal {
		j.switchWait = min(j.switchWait, int64(w))
	}
	if j.maxNodes == 0 && r.Tasks > 0 && e.rules.since2605 {
		j.maxNodes, j.useMinNodes = r.Tasks, true
		if r.TasksPerNode > 0 {
			j.maxNodes = max(j.minNodes, (r.Tasks+r.TasksPerNode-1)/r.TasksPerNode)
		}
		r.MaxNodes = j.maxNodes
	}
	e.describeMemory(j, d)
	r.Exclusive, r.Whole, r.LeastLoaded = d.Shared == 0 || j.part.whole, j.part.whole, j.part.leastLoaded
	var err error
	r.Devices, err = deviceRequests(d.TRESPerNode)
	return err
}

// describeMemory sets the memory that a job asks for, or its partition's default.
func (e *Engine) describeMemory(j *job, d *rpc.JobDesc) {
	r := &j.request
	if d.MinMemory == slurmspec.NoVal64 {
		r.Memory, r.MemoryPerCPU = j.part.memory, j.part.memoryPerCPU
		return
	}
	r.Memory = int64(d.MinMemory &^ slurmspec.MemPerCPU)
	r.MemoryPerCPU = d.MinMemory&slurmspec.MemPerCPU != 0 && r.Memory > 0
}

// deviceRequests reads --gres and --gpus-per-node as sbatch sends them.
func deviceRequests(list string) ([]selection.DeviceRequest, error) {
	var out []selection.DeviceRequest
	for _, word := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
		word = strings.TrimPrefix(strings.TrimPrefix(word, "gres:"), "gres/")
		parts := strings.Split(strings.ReplaceAll(word, "=", ":"), ":")
		d := selection.DeviceRequest{Kind: parts[0], Count: 1}
		last := parts[len(parts)-1]
		if n, err := strconv.Atoi(last); err == nil && len(parts) > 1 {
			d.Count, parts = n, parts[:len(parts)-1]
		}
		if len(parts) > 2 {
			return nil, fmt.Errorf("invalid generic resource (gres) specification: %s", word)
		}
		if len(parts) == 2 {
			d.Type = parts[1]
		}
		if d.Count > 0 {
			out = append(out, d)
		}
	}
	return out, nil
}

// describeNodes sets the nodes that a job names, excludes or could run on.
func (e *Engine) describeNodes(j *job, d *rpc.JobDesc) error {
	var err error
	if d.ReqNodes != "" {
		if j.request.Required, err = e.nodeSet(d.ReqNodes); err != nil {
			return err
		}
		j.minNodes = max(j.minNodes, j.request.Required.Count())
		j.request.MinCPUs = max(j.request.MinCPUs, j.minNodes)
	}
	if d.ExcNodes != "" {
		if j.excluded, err = e.nodeSet(d.ExcNodes); err != nil {
			return err
		}
	}
	j.capable = e.serving(demandOf(&j.request, d))
	return nil
}

// nodeSet returns the nodes of a host list.
func (e *Engine) nodeSet(list string) (selection.Bits, error) {
	names, err := hostlist.Expand(list)
	if err != nil {
		return nil, err
	}
	set := selection.NewBits(len(e.tester.Nodes))
	for _, name := range names {
		i, known := e.place[name]
		if !known {
			return nil, fmt.Errorf("invalid node name specified: %s", name)
		}
		set.Set(i)
	}
	return set, nil
}

// demandOf returns what a job asks of each node.
func demandOf(r *selection.Request, d *rpc.JobDesc) hardware.Demand {
	h := hardware.Demand{
		CPUs: r.MinCPUsPerNode, Sockets: r.SocketsPerNode, Cores: r.CoresPerSocket, Threads: r.ThreadsPerCore,
		Memory: r.Memory, Features: d.Features,
	}
	if r.MemoryPerCPU {
		h.Memory *= int64(max(1, r.MinCPUsPerNode))
	}
	if d.MinTmpDisk != slurmspec.NoVal {
		h.Disk = int64(d.MinTmpDisk)
	}
	return h
}

// serving returns the nodes that serve jobs with a demand. Such jobs share the set.
func (e *Engine) serving(h hardware.Demand) selection.Bits {
	if set, known := e.capable[h]; known {
		return set
	}
	set := selection.NewBits(len(e.tester.Nodes))
	for i := range e.tester.Nodes {
		if h.ServedBy(&e.tester.Nodes[i], e.configs[i]) {
			set.Set(i)
		}
	}
	e.capable[h] = set
	return set
}

// compress writes node names as a host list.
func compress(names []string) string { return hostlist.Compress(names) }
