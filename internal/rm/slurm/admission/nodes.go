package admission

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/slurmspec"
)

// start predicts slurmctld's first attempt to start the job (_select_nodes_parts in job_mgr.c,
// select_nodes in node_scheduler.c).
func (c *creation) start() *Finding {
	if c.job.Hold || c.j.Priority == 0 {
		return nil // slurmctld does not look for nodes of a held job
	}
	several := len(c.partitions) > 1 || c.release.Since(slurmspec.R2411) || strings.Contains(c.j.Reservation, ",")
	// accepted is the finding of a partition in which slurmctld lets the job pend. failed is the finding
	// of a partition for which slurmctld may reject the job. The job may still start in another partition.
	var accepted, failed *Finding
	for _, p := range c.partitions {
		waits := c.waitsIn(p)
		if waits != nil && waits.down == nil {
			if c.enforce == enforceAll {
				return asRejected(waits.why)
			}
			skips := c.release.Since(slurmspec.R2605) && waits.why.Slurm != "PartitionTimeLimit" &&
				waits.why.Slurm != memoryReason
			if c.enforce == enforceAny || !several || skips {
				failed = cmp.Or(failed, c.unplaced(waits.why))
				continue
			}
		}
		placed := c.place(p)
		switch {
		case placed == nil && waits == nil:
			return nil // the job can start in this partition
		case placed == nil || waits != nil && waits.down != nil && c.enforce == enforceAll && several:
			accepted = waits.finding()
		case placed.Verdict == NeverStarts:
			accepted = placed
		case placed.Slurm == errPartConfig.Name() && c.enforce == enforceAll:
			return placed
		case placed.Slurm == errPartConfig.Name():
			failed = c.unplaced(placed)
		default:
			failed = placed
		}
	}
	return cmp.Or(accepted, failed)
}

// unplaced returns the finding for a job that a partition's limits exclude. slurmctld rejects the
// job if it enforces the limits (EnforcePartLimits), and otherwise queues it.
func (c *creation) unplaced(why *Finding) *Finding {
	if c.enforce == enforceNone {
		out := *why
		out.Verdict = NeverStarts
		return &out
	}
	return asRejected(why)
}

func asRejected(why *Finding) *Finding {
	out := *why
	out.Verdict, out.Slurm = Rejected, errPartConfig.Name()
	return &out
}

// memoryReason is the reason of jobs that exceed MaxMemPerCPU or MaxMemPerNode.
const memoryReason = "MaxMemPerLimit"

// waiting is why a job waits in a partition. down is set if the partition starts no jobs now.
type waiting struct{ why, down *Finding }

func (w *waiting) finding() *Finding { return cmp.Or(w.down, w.why) }

// waitsIn returns why the job waits in a partition even if all nodes are free (job_limits_check),
// or nil.
func (c *creation) waitsIn(p *partition) *waiting {
	j := *c.j
	if j.MaxNodes == 0 {
		j.MaxNodes = slurmspec.NoVal
	}
	if j.TimeMin != slurmspec.NoVal && c.enforce == enforceNone {
		j.TimeLimit = j.TimeMin // backfill may shorten the job
	}
	if why := c.access(p, &j, c.v, nil); why != nil {
		out := *why
		out.Verdict = NeverStarts
		switch why.Slurm {
		case errTimeLimit.Name():
			out.Slurm = "PartitionTimeLimit"
		case errNodeCount.Name():
			out.Slurm = "PartitionNodeLimit"
		default:
			out.Slurm = "PartitionConfig"
		}
		return &waiting{why: &out}
	}
	if state, _ := p.Get("State"); !p.sched {
		return &waiting{down: pend("PartitionDown", RulePartition, fmt.Sprintf("partition %s has State=%s and starts no jobs",
			p.Name, strings.ToUpper(state)),
			"set State=UP in slurm.conf")}
	}
	if why := fitMemory(c.withMemory(p), p).why; why != nil {
		out := *why
		out.Verdict, out.Slurm = NeverStarts, memoryReason
		return &waiting{why: &out}
	}
	return nil
}

// withMemory returns the job's request. A request without memory gets the partition's default.
func (c *creation) withMemory(p *partition) rpc.JobDesc {
	j := *c.j
	if j.MinMemory == slurmspec.NoVal64 {
		j.MinMemory = p.defMem
	}
	return j
}

// place returns why the nodes of a partition cannot run the job even if all nodes are free, or nil.
// The finding's error is errPartConfig if the partition excludes the job, and otherwise errNodeConfig.
func (c *creation) place(p *partition) *Finding {
	if c.waitsAtOnce {
		return c.waits
	}
	if why := c.wrongQOS(p, c.v); why != nil {
		return why
	}
	if why := c.wrongAccount(p, c.v); why != nil {
		return why
	}
	if c.release.Since(slurmspec.R2302) && !c.inGroup(p, c.v.user) {
		why := c.wrongGroup(p)
		why.Slurm = errPartConfig.Name()
		return why
	}
	if c.reservation != nil {
		return nil // the reservation may have any nodes, and may not have begun
	}
	j := fitMemory(c.withMemory(p), p).j
	d := c.demand(&j, p)
	if d.maxNodes < d.minNodes {
		return reject(errPartConfig, RuleNodes, fmt.Sprintf("partition %s allows %d nodes; the jobs need more", p.Name,
			d.maxNodes), "raise MaxNodes in slurm.conf")
	}
	return c.choose(p, d)
}

// demand is a job's request for all its nodes together.
type demand struct {
	j                  *rpc.JobDesc
	p                  *partition
	features           []feature
	minNodes, maxNodes int64
	cpus               int64
	tasksPerNode       int64 // 0 if not given
	cpusPerTask        int64
	exclusive          bool
	overcommit         bool
	gres               []gresDemand
}

func (c *creation) demand(j *rpc.JobDesc, p *partition) demand {
	d := demand{
		j: j, p: p, minNodes: int64(max(j.MinNodes, p.minNodes)), maxNodes: int64(p.maxNodes), cpus: int64(j.MinCPUs),
		cpusPerTask: 1,
		exclusive:   p.exclusive || j.Shared == 0, overcommit: j.Overcommit == 1, gres: gresOf(j),
	}
	if c.v.policy.Has("partitionminnodes") {
		d.minNodes = int64(j.MinNodes)
	}
	if j.MaxNodes != slurmspec.NoVal && j.MaxNodes != 0 {
		d.maxNodes = min(int64(j.MaxNodes), d.maxNodes)
		if c.v.policy.Has("partitionmaxnodes") {
			d.maxNodes = int64(j.MaxNodes)
		}
	}
	if j.CPUsPerTask != slurmspec.NoVal16 && j.CPUsPerTask > 0 {
		d.cpusPerTask = int64(j.CPUsPerTask)
	}
	if j.TasksPerNode != slurmspec.NoVal16 {
		d.tasksPerNode = int64(j.TasksPerNode)
	}
	constraint := cmp.Or(j.Prefer, j.Features)
	if j.Prefer != "" && c.anyPrefer {
		constraint = j.Features
	}
	d.features, _ = parseFeatures(constraint) // allFeatures has checked the constraint
	return d
}

// choose returns why the nodes of a partition do not suffice. It compares only sums over nodes, so it never excludes a
// job that fits, but it may return nil for a job that does not fit.
func (c *creation) choose(p *partition, d demand) *Finding {
	var able []capacity // one for each class of usable nodes
	lacking := map[string]bool{}
	for _, k := range p.classes {
		n := int64(len(k.names))
		if len(c.excluded) > 0 {
			for _, name := range k.names {
				if c.excluded[name] {
					n--
				}
			}
		}
		if n == 0 {
			continue
		}
		one, lacks := c.capacityOf(k.node, &d)
		if lacks != "" {
			lacking[lacks] = true
			continue
		}
		one.nodes, one.names = n, k.names
		able = append(able, one)
	}
	unavailable := func(rule, what string) *Finding {
		return reject(errNodeConfig, rule, fmt.Sprintf("partition %s cannot run the jobs: %s", p.Name, what),
			remedies[rule])
	}
	for _, name := range c.required {
		if !slices.ContainsFunc(able, func(k capacity) bool { return slices.Contains(k.names, name) }) {
			return unavailable(RuleNodeList, "a node of --nodelist lacks what they ask for")
		}
	}
	total := int64(0)
	for _, k := range able {
		total += k.nodes
	}
	least := d.minNodes
	if d.tasksPerNode > 0 && d.j.Tasks != slurmspec.NoVal {
		least = max(least, (int64(d.j.Tasks)+d.tasksPerNode-1)/d.tasksPerNode)
	}
	if total < least || total == 0 {
		for _, rule := range []string{RuleFeatures, RuleGRES, RuleMemory, RuleCPUs} {
			if lacking[rule] {
				return unavailable(rule, "too few of its nodes have "+words[rule])
			}
		}
		return unavailable(RuleNodes, fmt.Sprintf("only %d of its nodes can run them, and they ask for more", total))
	}
	if most(able, d.maxNodes, func(k capacity) int64 { return k.cpus }) < d.cpus && !d.overcommit {
		return unavailable(RuleCPUs, "the most nodes that they may get have too few CPUs together")
	}
	for i, g := range d.gres {
		if g.perJob > most(able, d.maxNodes, func(k capacity) int64 { return k.gres[i] }) {
			return unavailable(RuleGRES, fmt.Sprintf("the most nodes that they may get have less than %d of %s together",
				g.perJob, g))
		}
	}
	return nil
}

var words = map[string]string{
	RuleFeatures: "the features", RuleGRES: "the generic resources", RuleMemory: "the memory or the disk",
	RuleCPUs: "the CPUs, sockets, cores or threads on one node",
}

var remedies = map[string]string{
	RuleFeatures: "correct --constraint, or Features of the partition's nodes in slurm.conf",
	RuleGRES:     "correct the request, or Gres of the partition's nodes in slurm.conf",
	RuleMemory:   "let the jobs ask for less memory, or correct RealMemory and TmpDisk in slurm.conf",
	RuleCPUs:     "let the jobs ask for fewer CPUs on a node, or correct CPUs, Sockets and CoresPerSocket in slurm.conf",
	RuleNodes:    "give the partition more nodes, or let the jobs ask for fewer (workload transform --scale-nodes)",
	RuleNodeList: "take --nodelist out of the jobs",
}

// capacity is what each node of a class can give a job.
type capacity struct {
	nodes int64
	names []string
	cpus  int64
	gres  []int64 // in the order of the demand's list
}

// most returns the largest amount of one resource that n nodes can give together. The function of
// returns the amount that one node of a class can give.
func most(able []capacity, n int64, of func(capacity) int64) (sum int64) {
	sorted := slices.Clone(able)
	slices.SortFunc(sorted, func(a, b capacity) int { return cmp.Compare(of(b), of(a)) })
	for _, k := range sorted {
		take := min(n, k.nodes)
		sum += take * of(k)
		n -= take
	}
	return sum
}

// capacityOf returns what a free node can give the job, or the rule of the finding if the node can
// give nothing (_build_node_list in node_scheduler.c; can_job_run_on_node of select/cons_tres, and
// _allocate_sc). If the number depends on the release or on options, capacityOf returns the
// largest number.
func (c *creation) capacityOf(n *hpc.Node, d *demand) (k capacity, lacks string) {
	j := d.j
	memory := j.MinMemory &^ slurmspec.MemPerCPU
	perCPU := j.MinMemory&slurmspec.MemPerCPU != 0
	over := func(wanted uint16, has int) bool { return wanted != slurmspec.NoVal16 && int(wanted) > has }
	switch {
	case len(d.features) > 0 && !meets(d.features, n):
		return k, RuleFeatures
	case int(j.MinCPUsPerNode) > n.CPUs,
		over(j.SocketsPerNode, n.Sockets), over(j.CoresPerSocket, n.CoresPerSocket), over(j.ThreadsPerCore, n.ThreadsPerCore):
		return k, RuleCPUs
	case memory > uint64(n.RealMemory), j.MinTmpDisk != slurmspec.NoVal && int64(j.MinTmpDisk) > n.TmpDisk:
		return k, RuleMemory
	}
	if k.gres, lacks = gresOn(n, d.gres); lacks != "" {
		return k, lacks
	}
	if c.linear {
		k.cpus = int64(n.CPUs)
		if c.countsMemory && !perCPU && memory > uint64(n.RealMemory-n.MemSpecLimit) {
			return k, RuleMemory
		}
		return k, ""
	}
	k.cpus = cpusOn(n, d)
	if c.countsMemory {
		free := n.RealMemory - n.MemSpecLimit
		switch {
		case !perCPU && int64(memory) > free:
			return k, RuleMemory
		case perCPU && memory > 0:
			if k.cpus = min(k.cpus, free/int64(memory)); k.cpus == 0 || d.exclusive && int64(memory)*int64(n.CPUs) > free {
				return k, RuleMemory // a whole node comes with the memory of all its CPUs
			}
		}
	}
	least := d.cpusPerTask
	if d.tasksPerNode > 0 { // --overcommit does not help
		least *= d.tasksPerNode
	}
	if k.cpus < max(least, 1) || k.cpus < int64(j.MinCPUsPerNode) {
		return k, RuleCPUs
	}
	if d.tasksPerNode > 0 && !d.exclusive && int64(j.MinCPUsPerNode) > d.tasksPerNode*d.cpusPerTask {
		return k, RuleCPUs
	}
	if d.tasksPerNode > 0 && !d.exclusive && !d.overcommit {
		k.cpus = min(k.cpus, d.tasksPerNode*d.cpusPerTask)
	}
	if c.countsMemory && perCPU && memory > 0 || c.release.Since(slurmspec.R2411) && len(d.gres) == 0 {
		k.cpus -= k.cpus % d.cpusPerTask
	}
	return k, ""
}

// cpusOn returns the number of CPUs that the job may have on a node.
func cpusOn(n *hpc.Node, d *demand) int64 {
	j := d.j
	cores, threads := int64(n.Sockets*n.CoresPerSocket), int64(max(n.ThreadsPerCore, 1))
	if !d.exclusive || j.CoreSpec == slurmspec.NoVal16 {
		cores -= int64(n.CoreSpecCount)
	} else if j.CoreSpec&rpc.CoreSpecThread == 0 {
		cores -= int64(j.CoreSpec)
	}
	if t := j.TasksPerCore; t != slurmspec.NoVal16 && t != slurmspec.Infinite16 && t > 0 {
		threads = min(threads, int64(t)*d.cpusPerTask)
	}
	if t := j.ThreadsPerCore; t != slurmspec.NoVal16 && t > 0 {
		threads = min(threads, int64(t))
	}
	cpus := cores * threads
	if limit := d.p.maxCPUsPerNode; limit != slurmspec.Infinite && cpus > int64(limit) {
		if d.exclusive {
			return 0
		}
		cpus = int64(limit)
	}
	if t := j.TasksPerSocket; t != slurmspec.NoVal16 && t != slurmspec.Infinite16 && t > 0 {
		cpus = min(cpus, int64(t)*int64(n.Sockets)*d.cpusPerTask)
	}
	return cpus
}

// gresDemand is a request for one type of one generic resource.
type gresDemand struct {
	name, typ              string
	perNode, perJob, atAll int64
	total                  int64 // the number that limits count
}

func (g gresDemand) String() string {
	if g.typ != "" {
		return g.name + ":" + g.typ
	}
	return g.name
}

// gresOf collects a job's requests for generic resources.
func gresOf(j *rpc.JobDesc) (list []gresDemand) {
	at := func(name, typ string) *gresDemand {
		for i := range list {
			if list[i].name == name && list[i].typ == typ {
				return &list[i]
			}
		}
		list = append(list, gresDemand{name: name, typ: typ})
		return &list[len(list)-1]
	}
	tasks := int64(1)
	if j.Tasks != slurmspec.NoVal {
		tasks = int64(j.Tasks)
	}
	nodes := int64(1)
	if j.MinNodes != slurmspec.NoVal {
		nodes = int64(j.MinNodes)
	}
	for _, f := range []struct {
		list string
		add  func(g *gresDemand, n int64)
	}{
		{j.TRESPerJob, func(g *gresDemand, n int64) { g.perJob, g.total = n, max(g.total, n) }},
		{j.TRESPerNode, func(g *gresDemand, n int64) { g.perNode, g.total = n, max(g.total, n*nodes) }},
		{j.TRESPerSocket, func(g *gresDemand, n int64) { g.atAll, g.total = max(g.atAll, n), max(g.total, n) }},
		{j.TRESPerTask, func(g *gresDemand, n int64) {
			g.atAll, g.perJob, g.total = max(g.atAll, n), max(g.perJob, n*tasks), max(g.total, n*tasks)
		}},
	} {
		for word := range strings.SplitSeq(f.list, ",") {
			if name, typ, n, ok := slurmspec.GRESWord(word); ok && n > 0 {
				f.add(at(name, typ), n)
			}
		}
	}
	return list
}

// gresOn returns the amount that a node has for each request. If a node has too little, gresOn returns the rule of the
// finding.
func gresOn(n *hpc.Node, wanted []gresDemand) (has []int64, lacks string) {
	for _, g := range wanted {
		sum := int64(0)
		for _, of := range n.GRES {
			if of.Name == g.name && (g.typ == "" || of.Type == g.typ) {
				sum += of.Count
			}
		}
		if sum < max(g.perNode, g.atAll) || sum == 0 && g.perJob == 0 {
			return nil, RuleGRES
		}
		has = append(has, sum)
	}
	return has, ""
}

// checkGRES checks that the generic resources are known (gres_job_state_validate).
func (c *creation) checkGRES() *Finding {
	j := c.j
	if !c.consTRES && (j.TRESPerJob != "" || j.TRESPerSocket != "" || j.CPUsPerTRES != "" || j.MemPerTRES != "" ||
		strings.Contains(j.TRESPerTask, "gres")) {
		return reject(errUnsupportedGRES, RuleGRES, "the cluster's SelectType has no --gpus, --gpus-per-task, "+
			"--cpus-per-gpu and the like", "use SelectType=select/cons_tres, or --gres")
	}
	for _, list := range []string{j.TRESPerJob, j.TRESPerNode, j.TRESPerSocket, j.TRESPerTask, j.CPUsPerTRES,
		j.MemPerTRES} {
		for word := range strings.SplitSeq(list, ",") {
			if name, _, _, ok := slurmspec.GRESWord(word); ok && !c.gres[name] {
				return reject(errGRES, RuleGRES, "GresTypes in slurm.conf does not have "+name,
					"add "+name+" to GresTypes and to Gres of the nodes in slurm.conf")
			}
		}
	}
	if j.MemPerTRES != "" && !slices.ContainsFunc(gresOf(j), func(g gresDemand) bool { return g.name == "gpu" }) {
		return reject(errGRES, RuleGRES, "the jobs have --mem-per-gpu and ask for no GPU", "correct the options")
	}
	return nil
}
