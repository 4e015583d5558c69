package hardware

import "slices"

// GPUDefaults are DefCpuPerGPU and DefMemPerGPU of a partition or, without them, of the cluster. Memory is in MiB.
// 0 is no default.
type GPUDefaults struct {
	CPUs   int
	Memory int64
}

// Give gives a request the defaults, and reports whether the request has changed (_set_gpu_defaults in job_test.c).
// slurmctld does so in each test of a job. A request with CPUs for each task gets no CPUs for each GPU. The tasks of
// other requests get enough CPUs for their GPUs.
func (of GPUDefaults) Give(r *Request) (changed bool) {
	if r.OwnCPUsPerTask {
		of.CPUs = 0
	}
	copied, memory := false, int64(0)
	for k := range r.Devices {
		want := r.Devices[k]
		if want.Kind == "gpu" {
			if want.DefaultCPUs, want.DefaultMemory = of.CPUs, of.Memory; !r.Counted {
				want.FirstCPUs = of.CPUs
			}
			if each := want.PerTask * of.CPUs; each > r.CPUsPerTask {
				r.CPUsPerTask, changed = each, true
			}
		}
		if want != r.Devices[k] {
			if !copied { // other records of an array have the same slice
				r.Devices, copied = slices.Clone(r.Devices), true
			}
			r.Devices[k] = want
		}
		memory = max(memory, want.Memory())
	}
	if r.OwnMemory {
		memory = 0
	}
	changed = changed || copied || !r.Counted || r.MemoryPerDevice != memory
	r.MemoryPerDevice, r.Counted = memory, true
	r.Unclassified = r.Unclassified || changed
	return changed
}

// Restore takes back the CPUs that [GPUDefaults.Give] has added to each task.
func (r *Request) Restore() {
	if r.BaseCPUsPerTask > 0 && r.CPUsPerTask != r.BaseCPUsPerTask {
		r.CPUsPerTask, r.Unclassified = r.BaseCPUsPerTask, true
	}
}

// KeepTested gives a request what tests have set in an earlier version of the same request.
func (r *Request) KeepTested(earlier *Request) {
	r.Devices, r.Counted, r.MemoryPerDevice = earlier.Devices, earlier.Counted, earlier.MemoryPerDevice
	r.Stuck = earlier.Stuck
}
