package selection

// late is the memory in MiB that a test wants on each node before it gives the job the defaults for GPUs.
type late struct {
	is     bool
	memory int64
}

// take returns the memory in MiB that each node must have for the job in the next test.
func (l *late) take(r *Request) int64 {
	if !l.is {
		return r.LeastMemory()
	}
	l.is = false
	return l.memory
}

// giveDefaults gives a job DefCpuPerGPU and DefMemPerGPU of its partition, as each test does (_set_gpu_defaults). If
// an earlier test has given the job memory for each GPU, this memory replaces Memory. A test looks for nodes with
// enough memory before it gives the defaults. The returned function restores Memory, unless mode is WillRun.
func (x *Tester) giveDefaults(r *Request, mode Mode) (restore func()) {
	memory, perCPU := r.Memory, r.MemoryPerCPU
	if mode != TestOnly && r.MemoryPerDevice > 0 {
		r.Memory, r.MemoryPerCPU = 0, false
	}
	least := r.LeastMemory()
	if r.Partition < len(x.GPUs) {
		x.GPUs[r.Partition].Give(r)
	}
	if r.Unclassified && r.Class > 0 {
		x.Classify(r)
	}
	x.late = late{mode != TestOnly && r.LeastMemory() != least, least}
	return func() {
		if mode == RunNow {
			r.Memory, r.MemoryPerCPU = memory, perCPU
		}
		x.late.is = false
	}
}
