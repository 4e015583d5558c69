package complete

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// need has the requests of a job that only some partitions can fulfil.
type need struct {
	nodes, cpus, maxNodes int   // maxNodes is 0 if the job may run on any number of nodes
	nodeCPUs              int   // on each node
	memory, cpuMemory     int64 // MiB, on each node and for each CPU
	devices               []device
	features              string // the value of --constraint
}

// device is a request for a generic resource.
type device struct {
	name, model  string // the model is slurm.conf's type, or ""
	node, inAll  int64  // amounts on each node, and in the whole job
	taskOrSocket int64  // smallest amount on one node
}

// needOf returns what a job requests. The parameter cpus is the number of processors of the job.
func needOf(r *hpc.Request, cpus int) need {
	n := need{
		nodes: r.MinNodes, cpus: cpus, maxNodes: r.MaxNodes, features: r.Constraint,
		nodeCPUs: max(r.MinCPUsPerNode, r.TasksPerNode*max(r.CPUsPerTask, 1), r.CPUsPerTask),
		memory:   max(r.MemPerNode, 0), cpuMemory: r.MemPerCPU,
	}
	tasks, tasksOnNode := int64(max(r.Tasks, r.MinNodes*r.TasksPerNode, 1)), int64(max(r.TasksPerNode, 1))
	n.add(r.GRES, "", func(d *device, count int64) { d.node = count })
	n.add(r.GPUs, "gpu:", func(d *device, count int64) { d.inAll = count })
	n.add(r.GPUsPerNode, "gpu:", func(d *device, count int64) { d.node = count })
	n.add(r.GPUsPerSocket, "gpu:", func(d *device, count int64) { d.taskOrSocket = count * int64(max(r.SocketsPerNode, 1)) })
	n.add(r.GPUsPerTask, "gpu:", func(d *device, count int64) { d.taskOrSocket, d.inAll = count*tasksOnNode, count*tasks })
	if r.TasksPerGPU > 0 && r.Tasks > 0 && !slices.ContainsFunc(n.devices, device.isGPU) {
		n.devices = append(n.devices, device{name: "gpu", inAll: int64((r.Tasks + r.TasksPerGPU - 1) / r.TasksPerGPU)})
	}
	onNode, inAll := int64(0), int64(0)
	for _, d := range n.devices {
		if d.isGPU() {
			onNode += max(d.node, d.taskOrSocket, min(d.inAll, 1))
			inAll += max(d.inAll, d.node*int64(max(r.MinNodes, 1)))
		}
	}
	n.memory, n.nodeCPUs = max(n.memory, onNode*r.MemPerGPU), max(n.nodeCPUs, int(onNode)*r.CPUsPerGPU)
	n.cpus = max(n.cpus, int(inAll)*r.CPUsPerGPU)
	return n
}

func (d device) isGPU() bool { return d.name == "gpu" }

// add adds the devices of a list such as "gpu:a100:2,nvme:1", whose words lack the given prefix.
func (n *need) add(list, prefix string, set func(d *device, count int64)) {
	for word := range strings.SplitSeq(list, ",") {
		if list == "" {
			continue
		}
		name, model, count, ok := slurmspec.GRESWord(prefix + word)
		if !ok || count == 0 {
			continue
		}
		at := slices.IndexFunc(n.devices, func(d device) bool { return d.name == name && d.model == model })
		if at < 0 {
			at, n.devices = len(n.devices), append(n.devices, device{name: name, model: model})
		}
		set(&n.devices[at], count)
	}
}

// key returns a text that is equal for equal needs.
func (n *need) key() string { return fmt.Sprint(*n) }

// fits reports whether the nodes of a partition can run a job with this need. As in Slurm, the job may get more nodes
// than its smallest number, up to its largest number and the partition's MaxNodes (slurmctld's node_scheduler.c,
// select_nodes). If the kinds of the nodes are not known, only the numbers of nodes count.
func (n *need) fits(p *workload.SitePartition) bool {
	most := p.Nodes
	for _, limit := range []int{n.maxNodes, p.MaxNodes} {
		if limit > 0 {
			most = min(most, limit)
		}
	}
	if n.nodes > most || n.cpus > most*p.NodeCPUs {
		return false
	}
	if len(p.Kinds) == 0 {
		return true
	}
	var able []workload.NodeKind // nodes with the job's features, memory and devices, with the CPUs for the job
	counted := strings.Contains(n.features, "*")
	for _, k := range p.Kinds {
		if !counted && !hasFeatures(n.features, k.Features) || n.memory > k.Memory || n.lacksDevices(k) {
			continue
		}
		if n.cpuMemory > 0 {
			k.CPUs = int(min(int64(k.CPUs), k.Memory/n.cpuMemory))
		}
		if k.CPUs >= max(n.nodeCPUs, 1) {
			able = append(able, k)
		}
	}
	if counted && !enoughOfEach(n.features, able) ||
		n.most(able, most, func(k workload.NodeKind) int64 { return int64(k.CPUs) }) < int64(n.cpus) {
		return false
	}
	return !slices.ContainsFunc(n.devices, func(d device) bool { return n.most(able, most, d.on) < d.inAll })
}

// most returns the largest amount that at most so many nodes of a job can have together; -1 if there
// are too few nodes.
func (n *need) most(able []workload.NodeKind, nodes int, of func(workload.NodeKind) int64) (sum int64) {
	able = slices.Clone(able)
	slices.SortStableFunc(able, func(a, b workload.NodeKind) int { return cmp.Compare(of(b), of(a)) })
	all := 0
	for _, k := range able {
		taken := min(k.Nodes, nodes-all)
		all, sum = all+taken, sum+int64(taken)*of(k)
	}
	if all < max(n.nodes, 1) {
		return -1
	}
	return sum
}

func (n *need) lacksDevices(k workload.NodeKind) bool {
	return slices.ContainsFunc(n.devices, func(d device) bool { return d.on(k) < max(d.node, d.taskOrSocket, 1) })
}

// on returns how many of the devices a node has.
func (d device) on(k workload.NodeKind) (sum int64) {
	for _, word := range k.GRES {
		if name, model, count, ok := slurmspec.GRESWord(word); ok && name == d.name && (d.model == "" || d.model == model) {
			sum += count
		}
	}
	return sum
}

// hasFeatures evaluates a value of --constraint for a node: names with "&", "," and "|" from left to
// right, and groups in parentheses or brackets.
func hasFeatures(expression string, features []string) bool {
	if expression == "" {
		return true
	}
	result, _ := group(expression, features)
	return result
}

// group evaluates an expression until the end of its group, and returns what follows the group.
func group(rest string, features []string) (result bool, behind string) {
	result, and := true, true
	for rest != "" {
		var has bool
		if rest[0] == '(' || rest[0] == '[' {
			has, rest = group(rest[1:], features)
		} else {
			end := strings.IndexAny(rest, "&|,()[]")
			if end < 0 {
				end = len(rest)
			}
			has, rest = slices.Contains(features, strings.TrimSpace(rest[:end])), rest[end:]
		}
		if and {
			result = result && has
		} else {
			result = result || has
		}
		if rest == "" {
			break
		}
		operator := rest[0]
		rest = rest[1:]
		if operator == ')' || operator == ']' {
			return result, rest
		}
		and = operator != '|'
	}
	return result, ""
}

// enoughOfEach reports whether there are enough nodes for each part of a value of --constraint such as
// "[rack1*2&rack2*4]".
func enoughOfEach(expression string, kinds []workload.NodeKind) bool {
	for part := range strings.FieldsFuncSeq(expression, func(r rune) bool { return strings.ContainsRune("&,[]()", r) }) {
		name, count, _ := strings.Cut(part, "*")
		wanted, err := strconv.Atoi(count)
		if err != nil {
			wanted = 1
		}
		nodes := 0
		for _, k := range kinds {
			if hasFeatures(name, k.Features) {
				nodes += k.Nodes
			}
		}
		if nodes < wanted {
			return false
		}
	}
	return true
}
