package finished

import (
	"math"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// fromTRES fills in fields of a record from its lists of TRES. The builder does this, and not the
// readers, because every source has these lists. If only the allocation is known, the request is
// taken from it. A rule counts this, because the job may have requested less: whole nodes and
// whole cores are allocated in full. Resources that cannot be requested are counted, too.
func (b *Builder) fromTRES(r *Job) {
	got := r.takeAllocated()
	if r.WholeLine {
		return
	}
	list := r.ReqTRES
	if list != "" {
		r.take(allocated(list))
	} else {
		list = r.AllocTRES
		taken := r.ReqCPUs == 0 && got.cpus > 0
		got.cpus, got.nodes = 0, 0 // the job may have accepted more nodes
		if r.take(got) || taken {
			b.Note(NoteFromAllocation)
		}
	}
	if !r.takeOthers(list) {
		b.Note(NoteTRES)
	}
}

// takeAllocated sets the allocated processors and nodes from AllocTRES, unless other fields have
// them. It returns all amounts in AllocTRES.
func (r *Job) takeAllocated() allocation {
	got := allocated(r.AllocTRES)
	if r.AllocCPUs == 0 {
		r.AllocCPUs = got.cpus
	}
	if r.AllocNodes == 0 {
		r.AllocNodes = got.nodes
	}
	return got
}

// take fills in fields of a record from amounts of TRES, and reports whether it set memory or GPUs.
// The number of GPUs is for the whole job, not for one node.
func (r *Job) take(tres allocation) (taken bool) {
	if r.ReqCPUs == 0 {
		r.ReqCPUs = tres.cpus
	}
	if r.ReqNodes == 0 {
		r.ReqNodes = tres.nodes
	}
	if r.MemPerCPU == 0 && r.MemPerNode == 0 && r.Memory == 0 && tres.memory > 0 {
		r.Memory, taken = tres.memory, true
	}
	if r.GPUs == "" && gresGPUs(r.GRES) == 0 && tres.gpus != "" {
		r.GPUs, taken = tres.gpus, true
	}
	return taken
}

// takeOthers sets licenses and generic resources other than GPUs from a list of TRES. A request has
// generic resources per node. The result all is false if the list has something that cannot be
// requested, such as a burst buffer or an amount that cannot be divided evenly among the nodes.
func (r *Job) takeOthers(list string) (all bool) {
	if !strings.ContainsRune(list, '/') {
		return true
	}
	all = true
	if r.Licenses == "" {
		r.Licenses = slurmspec.Licenses(list)
	}
	for name, amount := range slurmspec.GRES(list) {
		if name == "gpu" || namesGRES(r.GRES, name) {
			continue
		}
		item, ok := perNode(name, amount, r.nodes())
		if !ok {
			all = false
		} else if item != "" {
			r.GRES = strings.TrimPrefix(r.GRES+","+item, ",")
		}
	}
	for name := range slurmspec.TRES(list) {
		kind, _, other := strings.Cut(name, "/")
		if other && kind != "gres" && kind != "license" {
			all = false
		}
	}
	return all
}

// perNode divides an amount of a generic resource ("4", or "a:2,b:2") by the number of nodes, for
// --gres.
func perNode(name, amount string, nodes int) (list string, ok bool) {
	var items []string
	for item := range strings.SplitSeq(amount, ",") {
		kind, number := "", item
		if at := strings.LastIndexByte(item, ':'); at >= 0 {
			kind, number = item[:at+1], item[at+1:]
		}
		f, err := slurmspec.ParseScaled(number)
		n := int64(f)
		if err != nil || f != math.Trunc(f) || f > math.MaxInt32 || n%int64(nodes) != 0 {
			return "", false
		}
		if n > 0 {
			items = append(items, name+":"+kind+strconv.FormatInt(n/int64(nodes), 10))
		}
	}
	return strings.Join(items, ","), true
}

// namesGRES reports whether a request for generic resources includes the given name.
func namesGRES(list, name string) bool {
	for item := range strings.SplitSeq(list, ",") {
		if gresName(item) == name {
			return true
		}
	}
	return false
}

// allocation has the amounts in a list of TRES.
type allocation struct {
	cpus, nodes int
	memory      int64 // MiB
	gpus        string
}

// allocated parses a list such as "billing=8,cpu=8,gres/gpu=2,mem=16G,node=1". It ignores invalid
// amounts.
func allocated(tres string) (a allocation) {
	for name, value := range slurmspec.TRES(tres) {
		switch name {
		case "cpu":
			a.cpus = amount(value)
		case "node":
			a.nodes = amount(value)
		case "mem":
			if mib, err := slurmspec.ParseMemory(value); err == nil {
				a.memory = mib
			}
		}
	}
	a.gpus = slurmspec.GPUs(tres)
	return a
}

func amount(text string) int {
	f, err := slurmspec.ParseScaled(text)
	if err != nil || f < 0 || f > math.MaxInt32 {
		return 0
	}
	return int(f)
}

// recordedSize sets a request's nodes and tasks from the record's counts. It counts the jobs whose CPUs are not known.
func (b *Builder) recordedSize(request *hpc.Request, r *Job) {
	request.MinNodes = r.ReqNodes
	if request.MinNodes == 0 {
		request.MinNodes = r.AllocNodes
	}
	if request.MinNodes == r.AllocNodes {
		request.MaxNodes = r.AllocNodes // the nodes on which the job ran; without a maximum it could get more nodes
	}
	request.Tasks = r.ReqCPUs
	if request.Tasks == 0 {
		request.Tasks = r.AllocCPUs
	}
	if request.Tasks == 0 && r.TasksPerNode == 0 {
		b.Note(NoteNoCPUs)
	}
}

// recordedMemory sets a request's memory from the record.
func recordedMemory(request *hpc.Request, r *Job) {
	switch {
	case r.MemPerCPU > 0:
		request.MemPerCPU = r.MemPerCPU
	case r.MemPerNode > 0:
		request.MemPerNode = r.MemPerNode
	case r.Memory > 0:
		request.MemPerNode = r.Memory / int64(max(request.MinNodes, r.nodes()))
	}
}

// recordedGPUs sets a request's generic resources from the record.
func recordedGPUs(request *hpc.Request, r *Job) { request.GRES, request.GPUs = r.GRES, r.GPUs }

// nodes returns the number of allocated nodes or, without an allocation, of requested nodes.
func (r *Job) nodes() int {
	if r.AllocNodes > 0 {
		return r.AllocNodes
	}
	return max(r.ReqNodes, 1)
}

// hold compares a request from the command line with the record. If they differ, or if the command
// line lacks the value, hold uses the record's value: the batch script may contain the option, and
// a user, an operator or a plugin may have changed the job. hold counts the jobs whose command
// line contradicts the record.
func (b *Builder) hold(request *hpc.Request, r *Job) error {
	var differs []string
	asked, size := *request, givesSize(request)
	if why := sizeDiffers(request, r); why != "" {
		if size {
			differs = append(differs, why)
		}
		dropSize(request)
		b.recordedSize(request, r)
		if request.MemPerCPU > 0 || request.MemPerGPU > 0 {
			request.MemPerCPU, request.MemPerGPU = 0, 0
			if recordedMemory(request, r); request.MemPerCPU == 0 && request.MemPerNode == 0 {
				request.MemPerCPU, request.MemPerGPU = asked.MemPerCPU, asked.MemPerGPU
			}
		}
	}
	if why, differ := memoryDiffers(request, r); differ {
		if why != "" {
			differs = append(differs, why)
		}
		request.MemPerNode, request.MemPerCPU, request.MemPerGPU = 0, 0, 0
		recordedMemory(request, r)
	}
	if why, differ := gpusDiffer(request, r); differ {
		if why != "" {
			differs = append(differs, why)
		}
		dropGPUs(request)
		request.GPUs = r.GPUs
	}
	addGRES(request, r.GRES)
	if limit := asked.TimeLimit; limit > 0 && r.TimeLimit > 0 && asked.TimeMin == 0 && !sameLimit(limit, r.TimeLimit) {
		differs = append(differs, "the time limit")
	}
	if differs == nil {
		return nil
	}
	return b.book.Fall(RuleSubmitLineDiffers, "job %s: its command line and its columns differ in %s", r.ID,
		strings.Join(differs, ", "))
}

// addGRES adds the generic resources that a request does not name yet. GPUs can also be in other
// options.
func addGRES(request *hpc.Request, list string) {
	gpus := request.GPUs != "" || request.GPUsPerNode != "" || request.GPUsPerSocket != "" || request.GPUsPerTask != ""
	asked := request.GRES
	for item := range strings.SplitSeq(list, ",") {
		if item != "" && !namesGRES(asked, gresName(item)) && (!gpus || !isGPU(item)) {
			request.GRES = strings.TrimPrefix(request.GRES+","+item, ",")
		}
	}
}

// givesSize reports whether a request says anything about nodes, tasks or CPUs.
func givesSize(r *hpc.Request) bool {
	bare := *r
	dropSize(&bare)
	return bare.MinNodes != r.MinNodes || bare.MaxNodes != r.MaxNodes || bare.Tasks != r.Tasks ||
		bare.TasksPerNode != r.TasksPerNode || bare.CPUsPerTask != r.CPUsPerTask || bare.MinCPUsPerNode != r.MinCPUsPerNode ||
		bare.SocketsPerNode != r.SocketsPerNode || bare.CPUsPerGPU != r.CPUsPerGPU || bare.TasksPerGPU != r.TasksPerGPU
}

// dropSize removes everything about nodes, tasks and CPUs from a request.
func dropSize(r *hpc.Request) {
	r.MinNodes, r.MaxNodes, r.Tasks, r.TasksPerNode, r.TasksPerSocket, r.TasksPerCore, r.TasksPerGPU = 0, 0, 0, 0, 0, 0, 0
	r.CPUsPerTask, r.MinCPUsPerNode, r.CPUsPerGPU = 0, 0, 0
	r.SocketsPerNode, r.CoresPerSocket, r.ThreadsPerCore = 0, 0, 0
}

// sizeDiffers returns the name of the count that differs between a request and the record; "" if they agree.
func sizeDiffers(request *hpc.Request, r *Job) string {
	if least, most := request.MinNodes, request.MaxNodes; least > 0 {
		for _, n := range []int{r.ReqNodes, r.AllocNodes} {
			if n > 0 && (n < least || most >= least && n > most) {
				return "the number of nodes"
			}
		}
	} else if !givesSize(request) && r.nodes() > 1 {
		return "the number of nodes"
	}
	asked := workload.CPUs(request)
	recorded := r.ReqCPUs
	if recorded == 0 && !givesSize(request) {
		recorded = r.AllocCPUs
	}
	switch {
	case recorded == 0 || recorded == asked:
		return ""
	case recorded > asked && mayGetMore(request):
		return ""
	}
	return "the number of CPUs"
}

// mayGetMore reports whether slurmctld may record more CPUs than tasks times CPUs per task, because
// of whole cores, whole nodes or GPUs.
func mayGetMore(r *hpc.Request) bool {
	return r.ThreadsPerCore > 0 || r.CoresPerSocket > 0 || r.TasksPerCore > 0 || r.TasksPerSocket > 0 ||
		r.Exclusive == "node" || r.CPUsPerGPU > 0 || r.TasksPerGPU > 0
}

// memoryDiffers reports whether the record's memory must replace the request's. If the request has
// memory, the result why describes the difference. Slurm records the sum over all nodes in units
// that it rounds to two decimals.
func memoryDiffers(request *hpc.Request, r *Job) (why string, differ bool) {
	const amount = "the memory"
	switch {
	case r.MemPerCPU == 0 && r.MemPerNode == 0 && r.Memory == 0:
		return "", false
	case request.MemPerNode == 0 && request.MemPerCPU == 0 && request.MemPerGPU == 0:
		return "", true
	case request.MemPerNode == hpc.AllMemory || request.MemPerGPU > 0:
		return "", false
	case r.MemPerCPU > 0:
		return amount, request.MemPerCPU > 0 && !sameAmount(request.MemPerCPU, r.MemPerCPU)
	case r.MemPerNode > 0:
		return amount, request.MemPerNode > 0 && !sameAmount(request.MemPerNode, r.MemPerNode)
	}
	total := request.MemPerNode * int64(r.nodes())
	if request.MemPerCPU > 0 {
		// Slurm counts allocated CPUs, which can be more than requested because of hyper-threading.
		for _, cpus := range []int{workload.CPUs(request), r.ReqCPUs, r.AllocCPUs} {
			if sameAmount(request.MemPerCPU*int64(cpus), r.Memory) {
				return "", false
			}
		}
		return amount, true
	}
	return amount, !sameAmount(total, r.Memory)
}

// sameAmount reports whether two amounts of memory are equal except for rounding.
func sameAmount(a, b int64) bool { return max(a, b)-min(a, b) <= max(a, b)/100+1 }

// gpusDiffer does for GPUs what [memoryDiffers] does for memory.
func gpusDiffer(request *hpc.Request, r *Job) (why string, differ bool) {
	recorded := countGPUs(r.GPUs)
	if recorded == 0 {
		return "", false
	}
	var asked int
	switch nodes := max(request.MinNodes, r.nodes()); {
	case request.GPUs != "":
		asked = countGPUs(request.GPUs)
	case request.GPUsPerNode != "":
		asked = countGPUs(request.GPUsPerNode) * nodes
	case strings.Contains(request.GRES, "gpu"):
		asked = gresGPUs(request.GRES) * nodes
	case request.GPUsPerTask != "":
		asked = countGPUs(request.GPUsPerTask) * max(request.Tasks, 1)
	case request.GPUsPerSocket != "" || request.TasksPerGPU > 0:
		return "", false
	default:
		return "", true
	}
	return "the number of GPUs", asked != recorded
}

// dropGPUs removes all GPUs from a request.
func dropGPUs(r *hpc.Request) {
	r.GPUs, r.GPUsPerNode, r.GPUsPerSocket, r.GPUsPerTask = "", "", "", ""
	var others []string
	for item := range strings.SplitSeq(r.GRES, ",") {
		if item != "" && !isGPU(item) {
			others = append(others, item)
		}
	}
	r.GRES = strings.Join(others, ",")
}

func isGPU(gres string) bool { return gresName(gres) == "gpu" }

// gresName returns the name in "gpu", "gpu:2", "gpu:a100:2" or "gres/gpu=2".
func gresName(item string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(item, "gres/"), ":")
	name, _, _ = strings.Cut(name, "=")
	return name
}

// gresGPUs returns the number of GPUs in a request for generic resources ("gpu:a100:2,nvme:1").
func gresGPUs(gres string) (n int) {
	for item := range strings.SplitSeq(gres, ",") {
		if isGPU(item) {
			n += countGPUs(item)
		}
	}
	return n
}

// countGPUs returns the number of GPUs in "2", "a100:2" or "a100:2,v100:1". A word without a number
// is one GPU.
func countGPUs(list string) (n int) {
	for item := range strings.SplitSeq(list, ",") {
		if item == "" {
			continue
		}
		last := item[strings.LastIndexAny(item, ":=")+1:]
		if k, err := strconv.Atoi(last); err == nil {
			n += k
		} else {
			n++
		}
	}
	return n
}

// sameLimit reports whether two time limits are equal after rounding up to whole minutes, as Slurm
// does.
func sameLimit(a, b time.Duration) bool { return minutes(a) == minutes(b) }

func minutes(d time.Duration) time.Duration {
	if d == hpc.Unlimited {
		return d
	}
	return (d + time.Minute - 1) / time.Minute
}

// TakeTRES fills in fields of a record from ReqTRES and AllocTRES ("cpu=4,mem=8G,node=2,gres/gpu=2"). [Builder.Add]
// calls it. A reader calls TakeTRES if it needs these fields, or the error in ReqTRES.
func TakeTRES(r *Job) error {
	r.takeAllocated()
	if err := slurmspec.CheckTRES(r.ReqTRES); err != nil {
		return err
	}
	r.take(allocated(r.ReqTRES))
	return nil
}
