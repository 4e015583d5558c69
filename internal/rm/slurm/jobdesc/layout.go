package jobdesc

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/slurmspec"
)

// layout holds the options from which sbatch derives the numbers of nodes, tasks and CPUs. A
// number of 0 means "not given", except for numbers with their own flag.
type layout struct {
	minNodes, maxNodes      int
	nodesSet                bool
	tasks                   int
	tasksSet                bool
	sockets, cores, threads int
	tasksPerCore            int
	minCPUs                 int // per node; -1 if not given
	tasksPerNode            int
	hosts                   []string
	dist                    uint32
	planeSize               uint32
	nodeList                string
	// since2302 is set for sbatch since 23.02, which derives less: the tasks per node do not
	// determine the number of tasks, and a node list does not change a given number of nodes.
	since2302 bool
}

// setLayout sets nodes, tasks and CPUs. The order of the steps follows _opt_verify (sbatch/opt.c), because each step
// reads values that earlier steps set.
func (s *Submission) setLayout(j *rpc.JobDesc) error {
	l := layout{
		minNodes: 1, tasks: 1, minCPUs: -1,
		sockets: s.SocketsPerNode, cores: s.CoresPerSocket, threads: s.ThreadsPerCore,
		tasksPerCore: s.TasksPerCore, nodeList: s.NodeList, tasksPerNode: s.TasksPerNode,
		since2302: s.Release.Since(slurmspec.R2302),
	}
	if s.MinNodes > 0 || s.MaxNodes > 0 {
		l.minNodes, l.maxNodes, l.nodesSet = max(s.MinNodes, 1), s.MaxNodes, true
	}
	if s.Tasks > 0 {
		l.tasks, l.tasksSet = s.Tasks, true
	}
	if s.MinCPUsPerNode > 0 {
		l.minCPUs = s.MinCPUsPerNode
	}
	var err error
	if l.dist, l.planeSize, err = distribution(s.Distribution); err != nil {
		return err
	}
	if err := l.applyHint(s.Hint, s.TasksPerCore > 0 || s.ThreadsPerCore > 0); err != nil {
		return err
	}
	if err := l.applyNodeList(); err != nil {
		return err
	}
	if !l.since2302 && s.TasksPerNode > 0 && !l.tasksSet && (l.maxNodes == 0 || l.minNodes == l.maxNodes) {
		l.tasks, l.tasksSet = l.minNodes*s.TasksPerNode, true
	}
	if s.CPUsPerTask > 0 {
		l.minCPUs = max(l.minCPUs, s.CPUsPerTask)
	}
	if err := l.balance(); err != nil {
		return err
	}
	l.fill(s, j)
	return nil
}

// applyHint turns --hint into other options (validate_hint_option in slurm_opt.c, verify_hint in
// proc_args.c). Explicit numbers of tasks or threads per core override the hint. The hint
// overrides sockets and cores.
func (l *layout) applyHint(hint string, explicit bool) error {
	if hint == "" || explicit {
		return nil
	}
	l.sockets, l.cores, l.threads, l.tasksPerCore = 0, 0, 0, 0
	for _, h := range strings.Split(hint, ",") {
		switch strings.ToLower(h) {
		case "compute_bound":
			l.sockets, l.cores, l.threads = 0, 0, 1
		case "memory_bound":
			l.cores, l.threads = 1, 1
		case "multithread":
			l.threads, l.tasksPerCore = 0, int(slurmspec.Infinite16)
		case "nomultithread":
			l.threads = 1
		default:
			return fmt.Errorf("--hint %q is not known (want compute_bound, memory_bound, multithread or nomultithread)", h)
		}
	}
	return nil
}

// applyNodeList raises the minimum number of nodes to the number of the named nodes.
func (l *layout) applyNodeList() error {
	if l.nodeList == "" {
		if l.dist&distBase == distArbitrary {
			return fmt.Errorf("--distribution=arbitrary needs a node list")
		}
		return nil
	}
	if l.since2302 && l.nodesSet && l.dist&distBase != distArbitrary {
		return nil
	}
	hosts, err := nodeNames(l.nodeList)
	if err != nil {
		return fmt.Errorf("--nodelist %q: %w", l.nodeList, err)
	}
	l.hosts = hosts
	if l.nodesSet {
		l.minNodes = max(len(hosts), l.minNodes)
	} else {
		l.minNodes = len(hosts)
	}
	l.nodesSet = true
	return nil
}

// maxNodeNames is Slurm's limit for the number of names in one range of a host list (MAX_RANGE in
// hostlist.c). The driver applies it to a whole node list.
const maxNodeNames = 1 << 16

// nodeNames returns the names of a node list, sorted and without duplicates, as hostlist_uniq
// does.
func nodeNames(list string) ([]string, error) {
	names, err := hostlist.ExpandAtMost(list, maxNodeNames)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, errors.New("no node is named")
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// balance derives the number of tasks from the number of nodes. It limits the number of nodes to
// the number of tasks.
func (l *layout) balance() error {
	if l.dist&distBase == distPlane && l.tasks/int(l.planeSize) < l.minNodes &&
		(l.minNodes-1)*int(l.planeSize) >= l.tasks {
		return fmt.Errorf("%d tasks are too few for a plane distribution over %d nodes", l.tasks, l.minNodes)
	}
	switch {
	case l.nodesSet && !l.tasksSet && (l.minNodes == l.maxNodes || l.maxNodes == 0) &&
		(!l.since2302 || l.tasksPerNode <= 0):
		l.tasks = max(l.minNodes, 1)
		for _, n := range []int{l.sockets, l.cores, l.threads} {
			if n > 0 {
				l.tasks *= n
				l.tasksSet = true
			}
		}
	case l.nodesSet && l.tasksSet:
		if l.tasks < l.maxNodes {
			l.maxNodes = l.tasks
		}
		if l.tasks < l.minNodes {
			l.minNodes, l.maxNodes = l.tasks, l.tasks
			if !l.since2302 && len(l.hosts) > l.minNodes {
				l.nodeList = strings.Join(l.hosts[:l.minNodes], ",")
			}
		}
	}
	if l.dist&distBase == distArbitrary && !l.tasksSet {
		l.tasks, l.tasksSet = len(l.hosts), true
	}
	return nil
}

// fill sets the numbers in the description (slurm_opt_create_job_desc in slurm_opt.c).
func (l *layout) fill(s *Submission, j *rpc.JobDesc) {
	j.TaskDist, j.ReqNodes = l.dist, l.nodeList
	if l.planeSize != 0 {
		j.PlaneSize = uint16(l.planeSize)
	}
	if l.tasksSet {
		j.Flags |= rpc.FlagTasksSet
		j.Tasks = uint32(l.tasks)
	}
	tasks := l.tasks
	if l.since2302 && l.tasksPerNode > 0 && !l.tasksSet && (l.maxNodes == 0 || l.minNodes == l.maxNodes) {
		tasks = l.minNodes * l.tasksPerNode
	}
	switch {
	case s.Overcommit:
		j.MinCPUs = uint32(max(l.minNodes, 1))
	case s.CPUsPerTask > 0:
		j.MinCPUs = uint32(tasks) * uint32(s.CPUsPerTask)
	default:
		j.MinCPUs = uint32(tasks)
	}
	if s.CPUsPerTask > 0 {
		j.Flags |= rpc.FlagCPUsSet
		j.CPUsPerTask = uint16(s.CPUsPerTask)
	}
	if l.nodesSet {
		j.MinNodes = uint32(l.minNodes)
		if l.maxNodes != 0 {
			j.MaxNodes = uint32(l.maxNodes)
		}
	} else if s.Release.Since(slurmspec.R2311) && l.tasksSet && l.tasksPerNode > 0 {
		j.MinNodes = uint32((l.tasks + l.tasksPerNode - 1) / l.tasksPerNode)
	}
	if l.minCPUs >= 0 {
		j.MinCPUsPerNode = uint16(l.minCPUs)
	}
	for _, f := range []struct {
		field *uint16
		value int
	}{
		{&j.SocketsPerNode, l.sockets},
		{&j.CoresPerSocket, l.cores},
		{&j.ThreadsPerCore, l.threads},
		{&j.TasksPerNode, s.TasksPerNode},
		{&j.TasksPerSocket, s.TasksPerSocket},
		{&j.TasksPerCore, l.tasksPerCore},
		{&j.TasksPerTRES, s.TasksPerGPU},
	} {
		if f.value > 0 {
			*f.field = uint16(f.value)
		}
	}
}

// Task distributions (enum task_dist_states in slurm.h): four bits each for nodes, sockets and
// cores.
const (
	distCyclic    = 1
	distBlock     = 2
	distFCyclic   = 3 // for sockets and cores
	distArbitrary = 3 // of nodes
	distPlane     = 4
	distBase      = uint32(0xffff)
	distPack      = uint32(0x800000)
	distNoPack    = uint32(0x400000)
)

// distribution reads -m: "block|cyclic|arbitrary|plane=N[:sockets[:cores]][,pack]"
// (verify_dist_type in proc_args.c).
func distribution(spec string) (dist, planeSize uint32, err error) {
	bad := func() (uint32, uint32, error) {
		return 0, 0, fmt.Errorf("--distribution %q is not known (want block, cyclic, arbitrary or plane=N, for "+
			"nodes:sockets:cores)", spec)
	}
	lower := strings.ToLower(spec)
	if lower == "" {
		return rpc.DistUnknown, 0, nil
	}
	if strings.HasPrefix(lower, "plane") {
		_, size, _ := strings.Cut(lower, "=")
		n, err := strconv.ParseUint(size, 10, 15)
		if err != nil || n == 0 {
			return 0, 0, fmt.Errorf("--distribution %q: the plane's size is missing or not possible "+
				"(want plane=N, with N from 1 to 32767)", spec)
		}
		return distPlane, uint32(n), nil
	}
	base, flag, flagged := strings.Cut(lower, ",")
	if base == "pack" || base == "nopack" {
		base, flag, flagged, dist = "", base, true, rpc.DistUnknown
	}
	if base != "" {
		var ok bool
		if dist, ok = distributionBase(strings.Split(base, ":")); !ok {
			return bad()
		}
	}
	if flagged {
		switch flag {
		case "pack":
			dist |= distPack
		case "nopack":
			dist |= distNoPack
		default:
			return bad()
		}
	}
	return dist, 0, nil
}

// distributionBase reads the levels of a distribution. "*" is the default: block for nodes,
// cyclic for sockets, and for cores the distribution of the sockets.
func distributionBase(levels []string) (uint32, bool) {
	if len(levels) > 3 {
		return 0, false
	}
	if len(levels) == 1 && (levels[0] == "arbitrary" || levels[0] == "hostfile") {
		return distArbitrary, true
	}
	var dist, socket uint32
	for i, word := range levels {
		var n uint32
		switch {
		case word == "cyclic":
			n = distCyclic
		case word == "block":
			n = distBlock
		case word == "fcyclic" && i > 0:
			n = distFCyclic
		case word == "*":
			n = []uint32{distBlock, distCyclic, socket}[i]
		default:
			return 0, false
		}
		if i == 1 {
			socket = n
		}
		dist |= n << (4 * i)
	}
	return dist, true
}
