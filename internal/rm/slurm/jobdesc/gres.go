package jobdesc

import (
	"strconv"
	"strings"

	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/slurmspec"
)

// setGRES sets the generic resources, written as TRES: "gpu:2" becomes "gres:gpu:2"
// (gres_prepend_tres_type in gres.c, xfmt_tres in proc_args.c).
func (s *Submission) setGRES(j *rpc.JobDesc) {
	j.TRESPerJob = gpuTRES(s.GPUs)
	j.TRESPerNode = gpuTRES(s.GPUsPerNode)
	j.TRESPerSocket = gpuTRES(s.GPUsPerSocket)
	j.TRESPerTask = gpuTRES(s.GPUsPerTask)
	if s.CPUsPerGPU > 0 {
		j.CPUsPerTRES = "gres:gpu:" + strconv.Itoa(s.CPUsPerGPU)
	}
	if s.GRES == "" || strings.EqualFold(s.GRES, "none") {
		return
	}
	gres := "gres:" + strings.ReplaceAll(s.GRES, ",", ",gres:")
	gres = strings.ReplaceAll(gres, "gres:gres:", "gres:")
	if j.TRESPerNode != "" {
		gres = j.TRESPerNode + "," + gres
	}
	j.TRESPerNode = gres
}

// setTRES2311 writes the generic resources as sbatch does since 23.11: "gres/gpu:2". Per task it writes "gres/gpu=2",
// and since 24.05 also "cpu=4". setTRES2311 binds a task's resources to the task (_set_tres_per_task_from_sibling_opt
// and _implicitly_bind_tres_per_task in slurm_opt.c).
func (s *Submission) setTRES2311(j *rpc.JobDesc) {
	for _, list := range []*string{&j.TRESPerJob, &j.TRESPerNode, &j.TRESPerSocket, &j.CPUsPerTRES, &j.MemPerTRES} {
		*list = strings.ReplaceAll(*list, "gres:", "gres/")
	}
	var perTask []string
	if s.CPUsPerTask > 0 && s.Release.Since(slurmspec.R2405) {
		perTask = append(perTask, "cpu="+strconv.Itoa(s.CPUsPerTask))
	}
	if s.GPUsPerTask != "" {
		// sbatch reads only one type and one count.
		name, count := "gres/gpu", s.GPUsPerTask
		if at := strings.IndexAny(count, ":="); at >= 0 {
			name, count = name+":"+count[:at], count[at+1:]
		}
		digits := len(count) - len(strings.TrimLeft(count, "0123456789"))
		count = count[:digits]
		perTask = append(perTask, name+"="+count)
		j.TRESBind = "gres/gpu:per_task:" + count
	}
	j.TRESPerTask = strings.Join(perTask, ",")
}

// gpuTRES writes the value of one of the --gpus options as TRES.
func gpuTRES(spec string) string {
	var words []string
	for _, w := range strings.Split(spec, ",") {
		if w != "" {
			words = append(words, "gres:gpu:"+w)
		}
	}
	return strings.Join(words, ",")
}

// gresRequest is a job's request for one type of one generic resource. A number of 0 means "not
// given".
type gresRequest struct {
	name, typ                           string
	perJob, perNode, perSocket, perTask uint64
	cpusPer, total                      uint64
}

// gresRequests collects a job's requests by resource and type, in order.
type gresRequests []*gresRequest

// each calls f for every "gres:name[:type][:count]" in a list. f gets the resource's request and
// the count. The count is 1 for a word with an unreadable count, which slurmctld refuses.
func (g *gresRequests) each(list string, f func(r *gresRequest, count uint64)) {
	if list == "" {
		return
	}
	for _, word := range strings.Split(list, ",") {
		parts := strings.Split(strings.TrimPrefix(word, "gres:"), ":")
		count, typ := uint64(1), ""
		if n, ok := gresCount(parts[len(parts)-1]); ok && len(parts) > 1 {
			count, parts = n, parts[:len(parts)-1]
		}
		if len(parts) > 1 {
			typ = parts[1]
		}
		f(g.record(parts[0], typ), count)
	}
}

// record returns the request for a resource and type. It adds the request if the list lacks it.
func (g *gresRequests) record(name, typ string) *gresRequest {
	for _, r := range *g {
		if r.name == name && r.typ == typ {
			return r
		}
	}
	r := &gresRequest{name: name, typ: typ}
	*g = append(*g, r)
	return r
}

// gresCount reads a count with an optional unit (k, m, g, t, p of 1024).
func gresCount(word string) (uint64, bool) {
	shift := 0
	if word != "" {
		if i := strings.IndexByte("kmgtp", word[len(word)-1]|0x20); i >= 0 {
			shift, word = 10*(i+1), word[:len(word)-1]
		}
	}
	n, err := strconv.ParseUint(word, 10, 32)
	return n << shift, err == nil
}

// deriveFromGRES sets the numbers that follow from the generic resources, as sbatch does when it
// checks them (gres_job_state_validate and _test_gres_cnt in gres.c). It leaves contradictory
// requests as they are: slurmctld makes the same check and refuses them. Since 24.05 the CPUs per
// gpu also raise the minimum number of CPUs.
func deriveFromGRES(j *rpc.JobDesc, release slurmspec.Release) {
	perTask := j.TRESPerTask != "" || j.TasksPerTRES != slurmspec.NoVal16
	if perTask && j.Tasks == slurmspec.NoVal && j.MinNodes != slurmspec.NoVal && j.MinNodes == j.MaxNodes {
		switch {
		case j.TasksPerTRES != slurmspec.NoVal16:
			j.Tasks = j.MinNodes * uint32(j.TasksPerTRES)
		case j.TasksPerNode != slurmspec.NoVal16:
			j.Tasks = j.MinNodes * uint32(j.TasksPerNode)
		case j.CPUsPerTask == slurmspec.NoVal16:
			j.Tasks = j.MinNodes
		}
	}
	requests, gpu := requestsOf(j)
	if n := uint64(j.TasksPerTRES); j.TasksPerTRES != slurmspec.NoVal16 && n != 0 {
		switch {
		case gpu:
			var gpus uint64
			for _, r := range requests {
				if r.name == "gpu" {
					gpus += r.total
				}
			}
			j.Tasks = uint32(gpus * n)
		case j.Tasks != 0 && j.Tasks != slurmspec.NoVal:
			r := requests.record("gpu", "")
			r.perJob = uint64(j.Tasks) / n
		}
	}
	var gpus, cpusPer uint64
	for _, r := range requests {
		deriveFrom(j, r)
		if r.name == "gpu" {
			gpus, cpusPer = gpus+r.total, max(cpusPer, r.cpusPer)
		}
	}
	if release.Since(slurmspec.R2405) && gpus*cpusPer > uint64(j.MinCPUs) {
		j.MinCPUs = uint32(min(gpus*cpusPer, uint64(slurmspec.NoVal)-1))
	}
}

// requestsOf collects the job's requests. gpu is set if one of the requests is for GPUs.
func requestsOf(j *rpc.JobDesc) (g gresRequests, gpu bool) {
	raise := func(r *gresRequest, total uint64) {
		gpu = gpu || r.name == "gpu"
		r.total = max(r.total, total)
	}
	g.each(j.CPUsPerTRES, func(r *gresRequest, n uint64) { r.cpusPer = n })
	g.each(j.TRESPerJob, func(r *gresRequest, n uint64) { r.perJob = n; raise(r, n) })
	g.each(j.TRESPerNode, func(r *gresRequest, n uint64) {
		r.perNode = n
		if j.MinNodes != slurmspec.NoVal {
			n *= uint64(j.MinNodes)
		}
		raise(r, n)
	})
	g.each(j.TRESPerSocket, func(r *gresRequest, n uint64) {
		r.perSocket = n
		switch {
		case j.MinNodes != slurmspec.NoVal && j.SocketsPerNode != slurmspec.NoVal16:
			n *= uint64(j.MinNodes) * uint64(j.SocketsPerNode)
		case j.Tasks != slurmspec.NoVal && j.TasksPerSocket != slurmspec.NoVal16 && j.TasksPerSocket != 0:
			n *= (uint64(j.Tasks) + uint64(j.TasksPerSocket) - 1) / uint64(j.TasksPerSocket)
		}
		raise(r, n)
	})
	g.each(j.TRESPerTask, func(r *gresRequest, n uint64) {
		r.perTask = n
		if j.Tasks != slurmspec.NoVal {
			n *= uint64(j.Tasks)
		}
		raise(r, n)
	})
	return g, gpu
}

// deriveFrom sets the numbers that follow from one request. Like slurmctld, it skips a step if the
// numbers do not divide evenly.
func deriveFrom(j *rpc.JobDesc, r *gresRequest) {
	if r.perJob != 0 && r.perNode != 0 && r.perJob%r.perNode == 0 {
		nodes := r.perJob / r.perNode
		if (j.MinNodes == slurmspec.NoVal || nodes >= uint64(j.MinNodes)) && nodes <= uint64(j.MaxNodes) {
			j.MinNodes, j.MaxNodes = uint32(nodes), uint32(nodes)
		}
	}
	if r.perTask != 0 {
		switch {
		case r.perJob != 0:
			if j.Tasks == slurmspec.NoVal && r.perJob%r.perTask == 0 {
				j.Tasks = uint32(r.perJob / r.perTask)
			}
		case j.Tasks != slurmspec.NoVal:
			r.perJob = uint64(j.Tasks) * r.perTask
		}
		quotient(&j.TasksPerNode, r.perNode, r.perTask)
		quotient(&j.TasksPerSocket, r.perSocket, r.perTask)
		if r.cpusPer != 0 && (j.CPUsPerTask == slurmspec.NoVal16 || j.CPUsPerTask == 0) {
			j.CPUsPerTask = uint16(r.cpusPer * r.perTask)
		}
	}
	if r.perJob != 0 && j.MaxNodes != slurmspec.NoVal && r.perJob < uint64(j.MaxNodes) {
		j.MaxNodes = uint32(r.perJob)
	}
}

// quotient sets *field to total / per, unless *field is given or the division leaves a remainder.
func quotient(field *uint16, total, per uint64) {
	if total != 0 && total%per == 0 && (*field == slurmspec.NoVal16 || *field == 0) {
		*field = uint16(total / per)
	}
}
