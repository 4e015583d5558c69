package selection

// late is the memory in MiB that a test wants on each node before it gives the job the defaults for GPUs.
type late struct {
	is     bool
	memory int64
}

// take returns the memory in MiB that each node must have for the job in the next test. If an earlier test has given
// the job memory for each GPU, this memory replaces Memory.
func (l *late) take(r *Request) int64 {
	switch {
	case l.is:
		l.is = false
		return l.memory
	case r.MemoryPerDevice > 0:
		r.Memory, r.MemoryPerCPU = 0, false
	}
	return r.LeastMemory()
}

// Refit gives a request what tests have set in an earlier version of the same request, and sets its class.
func (x *Tester) Refit(r, earlier *Request) {
	r.KeepTested(earlier)
	x.Classify(r)
}

// takesDefaults reports whether [Tester.giveDefaults] may change a request or the memory that a test wants.
func (x *Tester) takesDefaults(r *Request) bool {
	return len(r.Devices) > 0 && (x.hasDefaults || r.MemoryPerDevice > 0)
}

// giveDefaults gives a job DefCpuPerGPU and DefMemPerGPU of its partition, as each test does (_set_gpu_defaults). A
// test looks for nodes with enough memory before it gives the defaults. The returned function restores Memory, unless
// mode is WillRun.
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
