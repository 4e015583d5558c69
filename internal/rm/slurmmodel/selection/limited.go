package selection

import "rmreplay/internal/rm/slurmmodel/cpulimits"

// allow reduces what a node offers to the limits of the job's partition, see [cpulimits.Limit.Allow]. In 24.11, cores
// of other partitions' jobs count as long as no job has started in the job's partition.
func (m *Machine) allow(t *test, node int) int {
	r, at := t.request, &t.rooms[node]
	if m.limitOf(t.state, r) == 0 {
		return cpulimits.Unlimited
	}
	used := make([]int16, len(at.cores))
	switch s := t.state; {
	case t.allCores:
	case s.limited.Begun(r.Partition):
		copy(used, s.limited.Of(r.Partition, node))
	case m.Since2411 && !m.Since2605:
		for k, free := range at.cores {
			used[k] = int16(m.Nodes[node].Cores) - free
		}
	}
	j := cpulimits.Job{
		Whole: r.Exclusive || r.OneUser && !m.Since2411, CPUsPerTask: r.CPUsPerTask, TasksPerCore: r.TasksPerCore,
		TasksPerSocket: r.TasksPerSocket, ThreadsPerCore: r.ThreadsPerCore,
	}
	return m.Limits[r.Partition].Allow(j, used, at.cores, m.Nodes[node].Threads)
}

// limitOf returns a word that says which limits a test considers; 0 for none. The answer to the test depends on it.
func (m *Machine) limitOf(s *State, r *Request) uint64 {
	if m.Limits == nil || !m.Limits[r.Partition].IsSet() {
		return 0
	}
	return uint64(r.Partition+1)<<2 | bit(s.limited.Begun(r.Partition), 1) | bit(r.OneUser, 0)
}
