package sim

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/nodeset"
	"rmreplay/internal/rm/sim/amount"
	"rmreplay/internal/rm/sim/partition"
	"rmreplay/internal/slurmspec/sbatch"
)

// demand is a job's demand for nodes.
type demand struct {
	tasks              int
	minNodes, maxNodes int // maxNodes is 0 if there is no maximum
	tasksPerNode       int // at most; 0 if there is no maximum
	perNode, perTask   []int64
	// among are the nodes on which the job may run. required is the number of nodes that the job names. The nodes that the
	// request names are the first nodes of the list among, and the job needs all named nodes.
	among    *nodeSet
	required int

	partition   *Partition
	reservation string

	possible bool // whether the job could run on an empty machine with all nodes in service
	size     int  // processors that a job will hold, as far as known before its start
	failed   failure

	emptyKind int32 // the kind of node that emptyRoom is for; 0 for none
	emptyRoom int
}

// demandKey has equal values for equal demands.
type demandKey struct {
	tasks, minNodes, maxNodes, tasksPerNode, required int
	among                                             *nodeSet
	partition                                         *Partition
	reservation, resources                            string
}

// maxDemands is the largest number of stored demands. The limit is needed because the demands of
// ended jobs stay stored.
const maxDemands = 1 << 16

// shared returns the stored demand that is equal to q, so that equal demands share memory.
func (n *nodes) shared(q *demand) *demand {
	var resources []byte
	for _, amount := range slices.Concat(q.perNode, q.perTask) {
		resources = binary.AppendVarint(resources, amount)
	}
	key := demandKey{q.tasks, q.minNodes, q.maxNodes, q.tasksPerNode, q.required, q.among, q.partition, q.reservation, string(resources)}
	if known, ok := n.demands[key]; ok {
		return known
	}
	if len(n.demands) >= maxDemands {
		clear(n.demands)
	}
	n.demands[key] = q
	q.measure(n)
	return q
}

// measure computes whether a job with the demand could run on the empty machine with all nodes in
// service, and how many processors the job would hold.
func (q *demand) measure(n *nodes) {
	n.hypothetical = true
	defer func() { n.hypothetical = false }()
	q.possible = n.place(&Job{demand: q}, n.m.now)
	switch {
	case q.perNode[cpu] != wholeNode:
		q.size = int(min(amount.Product(int64(q.tasks), q.perTask[cpu]), math.MaxInt32))
	case q.possible:
		q.size = n.found.processors
	}
}

// setKey has the job options that restrict the nodes.
type setKey struct{ partition, constraint, nodes, exclude string }

// demand computes the demand of a request. An error says why the job can never run.
func (n *nodes) demand(r *hpc.Request) (*demand, error) {
	p, err := partition.Find(n.cluster.Partitions, r.Partition)
	if err != nil {
		return nil, err
	}
	q := &demand{
		minNodes: max(r.MinNodes, 1), maxNodes: r.MaxNodes, tasksPerNode: r.TasksPerNode,
		perNode: make([]int64, len(n.resources)), perTask: make([]int64, len(n.resources)),
		partition: p, reservation: r.Reservation,
	}
	q.tasks = max(r.Tasks, q.minNodes, 1)
	if r.Tasks == 0 {
		q.tasks = int(amount.Product(int64(q.minNodes), int64(r.TasksPerNode)))
	}
	if r.Tasks > 0 && r.MaxNodes == 0 && r.MinNodes > 0 {
		q.minNodes = min(r.MinNodes, q.tasks)
	}
	q.perTask[cpu] = min(int64(max(r.CPUsPerTask, 1)), amount.Most)
	if err := n.generic(q, r); err != nil {
		return nil, err
	}
	n.memory(q, r)
	if r.Exclusive != "" || p.WholeNodes || n.cluster.WholeNodes {
		// The job gets the whole node, but each task still needs its processors.
		q.tasksPerNode = amount.MinPositive(q.tasksPerNode, n.largest[p]/int(q.perTask[cpu]))
		q.perNode[cpu] = wholeNode
	}
	if err := n.among(q, r); err != nil {
		return nil, err
	}
	return q, nil
}

// memory computes the memory of a request.
func (n *nodes) memory(q *demand, r *hpc.Request) {
	p := q.partition
	switch {
	case !n.cluster.CountMemory:
	case r.MemPerNode == hpc.AllMemory:
		q.perNode[mem] = wholeNode
	case r.MemPerNode > 0:
		q.perNode[mem] = r.MemPerNode
	case r.MemPerCPU > 0:
		q.perTask[mem] = amount.Product(r.MemPerCPU, q.perTask[cpu])
	case r.MemPerGPU > 0:
		q.perNode[mem] = amount.PerGPU(r.MemPerGPU, n.gpus(q.perNode))
		q.perTask[mem] = amount.PerGPU(r.MemPerGPU, n.gpus(q.perTask))
	case p.DefMemPerCPU > 0:
		q.perTask[mem] = amount.Product(p.DefMemPerCPU, q.perTask[cpu])
	case p.DefMemPerNode > 0:
		q.perNode[mem] = p.DefMemPerNode
	default:
		q.perNode[mem] = wholeNode
	}
}

// gpus returns the number of GPUs in a list of resources.
func (n *nodes) gpus(of []int64) int64 {
	if i := slices.Index(n.resources, "gpu"); i >= 0 {
		return of[i]
	}
	return 0
}

// generic computes the generic resources of a request, including GPUs.
func (n *nodes) generic(q *demand, r *hpc.Request) error {
	for _, ask := range []struct {
		spec, prefix string
		into         []int64
	}{{r.GRES, "", q.perNode}, {r.GPUsPerNode, "gpu:", q.perNode}, {r.GPUsPerTask, "gpu:", q.perTask}} {
		for part := range strings.SplitSeq(ask.spec, ",") {
			if part == "" {
				continue
			}
			if err := n.count(ask.into, strings.TrimPrefix(ask.prefix+part, "gres:"), 1); err != nil {
				return err
			}
		}
	}
	if r.GPUs != "" {
		if err := n.spreadGPUs(q, r); err != nil {
			return err
		}
	}
	if r.CPUsPerGPU > 0 {
		whole := amount.PerGPU(amount.Product(int64(r.CPUsPerGPU), int64(q.minNodes)), n.gpus(q.perNode))
		tasks := int64(min(q.tasks, amount.Most))
		q.perTask[cpu] = max(q.perTask[cpu], (whole+tasks-1)/tasks, amount.PerGPU(int64(r.CPUsPerGPU), n.gpus(q.perTask)))
	}
	return nil
}

// spreadGPUs divides the GPUs of -G evenly among the job's nodes. If the number of nodes is not
// given, spreadGPUs uses the smallest number with enough GPUs.
func (n *nodes) spreadGPUs(q *demand, r *hpc.Request) error {
	for part := range strings.SplitSeq(r.GPUs, ",") {
		asked := make([]int64, len(n.resources))
		if err := n.count(asked, "gpu:"+part, 1); err != nil {
			return err
		}
		total, most := n.gpus(asked), int64(0)
		for i := range n.list {
			most = max(most, n.gpus(n.list[i].has))
		}
		if r.MinNodes == 0 && most > 0 {
			q.minNodes = max(q.minNodes, int((total+most-1)/most))
			q.tasks = max(q.tasks, q.minNodes)
		}
		for i, c := range asked {
			q.perNode[i] += (c + int64(q.minNodes) - 1) / int64(q.minNodes)
		}
	}
	return nil
}

// count adds a resource such as "gpu:a100:2", "gpu:2" or "gpu" to a list of resources.
func (n *nodes) count(into []int64, spec string, times int64) error {
	parts := strings.Split(spec, ":")
	number := int64(1)
	if last := parts[len(parts)-1]; len(parts) > 1 {
		if v, err := strconv.ParseInt(last, 10, 32); err == nil && v >= 0 {
			number, parts = v, parts[:len(parts)-1]
		}
	}
	for k := range parts {
		name := strings.Join(parts[:k+1], ":")
		i := slices.Index(n.resources, name)
		if i < 0 {
			return fmt.Errorf("no node has %s", name)
		}
		into[i] += number * times
	}
	return nil
}

// among finds the nodes on which a job may run: the nodes of its partition with its features. Nodes that the job
// names are the first. The others are ordered by weight, then as in the configuration.
func (n *nodes) among(q *demand, r *hpc.Request) error {
	required, err := hostlist.Expand(r.NodeList)
	if err != nil {
		return fmt.Errorf("--nodelist=%s: %w", r.NodeList, err)
	}
	slices.Sort(required)
	required = slices.Compact(required)
	q.required = len(required)
	q.minNodes = max(q.minNodes, q.required)
	q.tasks = max(q.tasks, q.minNodes)
	key := setKey{q.partition.Name, r.Constraint, r.NodeList, r.Exclude}
	if set, known := n.sets[key]; known {
		q.among = set
		return nil
	}
	set, err := n.serving(q.partition, r, required)
	if err != nil {
		return err
	}
	if n.setSize += len(set); n.setSize > maxInSets {
		clear(n.sets)
		n.setSize = len(set)
	}
	q.among = n.newNodeSet(set)
	n.sets[key] = q.among
	return nil
}

// serving returns the nodes of a partition with a request's features, in the order of preference.
func (n *nodes) serving(p *Partition, r *hpc.Request, required []string) ([]int32, error) {
	if len(required) > 0 {
		return n.namedFirst(p, r, required)
	}
	excluded, err := hostlist.Expand(r.Exclude)
	if err != nil {
		return nil, fmt.Errorf("--exclude=%s: %w", r.Exclude, err)
	}
	wants, err := sbatch.ParseFeatures(r.Constraint)
	if err != nil {
		return nil, err
	}
	var set []int32
	for _, name := range p.Nodes {
		i := n.index[name]
		if wants.Met(n.list[i].Features) && !slices.Contains(excluded, name) {
			set = append(set, int32(i))
		}
	}
	slices.SortStableFunc(set, func(a, b int32) int {
		return cmp.Or(cmp.Compare(n.list[a].Weight, n.list[b].Weight), int(a-b))
	})
	return set, nil
}

// namedFirst returns the nodes that can serve a request. The nodes that the request names come
// first; it returns an error if one of them cannot serve the request.
func (n *nodes) namedFirst(p *Partition, r *hpc.Request, required []string) ([]int32, error) {
	unnamed, all := *r, demand{partition: p}
	unnamed.NodeList = ""
	if err := n.among(&all, &unnamed); err != nil {
		return nil, err
	}
	named := nodeset.New(len(n.list))
	for _, name := range required {
		if i, known := n.index[name]; known {
			named.Set(i)
		}
	}
	first := slices.DeleteFunc(slices.Clone(all.among.nodes), func(i int32) bool { return !named.Has(int(i)) })
	others := slices.DeleteFunc(slices.Clone(all.among.nodes), func(i int32) bool { return named.Has(int(i)) })
	if len(first) < len(required) {
		return nil, fmt.Errorf("--nodelist=%s: the job may not use all of these nodes", r.NodeList)
	}
	return append(first, others...), nil
}

// nodeSet is the set of nodes on which the jobs with the same options may run.
type nodeSet struct {
	nodes     []int32 // in the order of preference
	ascending bool    // nodes are in the order of the machine's list
	members   nodeset.Set
	positions []int32 // the position in nodes of each node of the machine, or -1; nil until needed
}

// newNodeSet returns the set of nodes in an order of preference.
func (n *nodes) newNodeSet(list []int32) *nodeSet {
	set := &nodeSet{nodes: list, ascending: slices.IsSorted(list), members: nodeset.New(len(n.list))}
	for _, i := range list {
		set.members.Set(int(i))
	}
	return set
}

// maxInSets is the largest sum of the sizes of all sets. The maximum limits the memory of the sets.
const maxInSets = 1 << 22

// measure computes a job's demand, size and time limit. An error says why the job can never run.
func (n *nodes) measure(j *Job) error {
	q, err := n.demand(j.Request)
	if err != nil {
		return err
	}
	p := q.partition
	if j.Limit <= 0 {
		j.Limit = cmp.Or(p.DefaultTime, p.MaxTime, hpc.Unlimited)
	}
	if p.Closed && !j.of.preset {
		return fmt.Errorf("partition %s accepts no jobs", p.Name)
	}
	if p.MaxTime > 0 && j.Limit > p.MaxTime && !j.of.preset { // a job that runs keeps its limit
		return fmt.Errorf("time limit %s: above %s of partition %s", j.Limit, p.MaxTime, p.Name)
	}
	if q.reservation != "" {
		r := n.find(q.reservation)
		switch {
		case r == nil:
			return fmt.Errorf("there is no reservation %s", q.reservation)
		case !r.allows(j.Request.User, j.Request.Account):
			return fmt.Errorf("user %s may not use reservation %s", j.Request.User, q.reservation)
		}
	}
	if q = n.shared(q); !q.possible {
		return errors.New("asks for more than its permitted nodes have")
	}
	j.demand, j.Size = q, q.size
	return nil
}
