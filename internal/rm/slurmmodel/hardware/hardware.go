package hardware

import "rmreplay/internal/rm/nodeset"

// Node is the hardware of a node.
type Node struct {
	Name                    string
	Sockets, Cores, Threads int   // Cores of a socket, Threads of a core
	CPUs                    int   // as in slurm.conf
	Memory                  int64 // for jobs, in MiB
	MemSpecLimit            int64 // memory in MiB that no job gets
	Weight                  uint64
	Devices                 []Device
}

// CoreCount returns the number of cores.
func (n *Node) CoreCount() int { return n.Sockets * n.Cores }

// CountFor returns how many of a node's generic resources match a request.
func (n *Node) CountFor(d *DeviceRequest) (sum int) {
	for i := range n.Devices {
		if d.Wants(&n.Devices[i]) {
			sum += n.Devices[i].Count
		}
	}
	return sum
}

// Device is a generic resource of a node, of one type.
type Device struct {
	Kind, Type string
	// Count is the total. BySocket is the number at each socket; nil if the resources are equally
	// close to all cores.
	Count    int
	BySocket []int
	// Cores has the cores close to the resources; nil if all cores are.
	Cores nodeset.Set
	// ByType says that slurmctld only counts the resources of each type, because gres.conf has no files of them.
	ByType bool
}

// Switch is a switch of topology/tree.
type Switch struct {
	Name  string
	Nodes nodeset.Set // all nodes below the switch
	// Parent is the index of the switch above. A switch at the top has its own index.
	Parent int
	// Level is 0 for a leaf.
	Level int
	// Distance has the number of links to each switch, or Far.
	Distance []int
}

// Far is the distance of two switches that are not connected.
const Far = 1 << 30

// Distances returns the number of links from a switch to each switch, or Far.
func Distances(list []Switch, from int) []int {
	dist := make([]int, len(list))
	for i := range dist {
		dist[i] = Far
	}
	dist[from] = 0
	for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for i := range list {
			linked := list[i].Parent == at || list[at].Parent == i
			if linked && dist[i] == Far {
				dist[i] = dist[at] + 1
				queue = append(queue, i)
			}
		}
	}
	return dist
}
