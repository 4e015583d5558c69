// Package series divides nodes into series of successive nodes, and finds the series that fits a job best.
// Slurm's select plugins share this rule (_eval_nodes in cons_common/job_test.c, _job_test in
// select_linear.c).
package series

// Series is a row of successive nodes that can serve a job. They have the same weight, except for
// --contiguous.
type Series struct {
	First, Last int // indices of nodes
	Nodes, CPUs int // without those of nodes that the job names
	Required    int // the first node of the series that the job names, or -1
	Weight      uint64
	Devices     []int // resources of the nodes for each request that is for the whole job
}

// Divider divides nodes into series. Call Name and Add in the order of the nodes.
type Divider struct {
	// Contiguous says that the job asks for contiguous nodes, so that nodes of a series may differ in weight.
	Contiguous bool

	list    []Series
	current Series
	begun   bool
}

// Name adds a node that the job names.
func (d *Divider) Name(node int, weight uint64) {
	if s := d.at(node, weight); s.Required < 0 {
		s.Required = node
	}
}

// Add adds a node with CPUs for the job, and returns the node's series. It is valid until the next call.
func (d *Divider) Add(node, cpus int, weight uint64) *Series {
	s := d.at(node, weight)
	s.Nodes++
	s.CPUs += cpus
	s.Weight = weight
	return s
}

// at returns the series of a node.
func (d *Divider) at(node int, weight uint64) *Series {
	s := &d.current
	if !d.begun || node != s.Last+1 || !d.Contiguous && s.Nodes > 0 && weight != s.Weight {
		d.end()
	}
	if s.Nodes == 0 {
		s.First = node
	}
	s.Last = node
	return s
}

func (d *Divider) end() {
	if d.current.Nodes > 0 {
		d.list = append(d.list, d.current)
	}
	d.current, d.begun = Series{Required: -1}, true
}

// All returns the series that have nodes which the job does not name.
func (d *Divider) All() []Series {
	d.end()
	return d.list
}

// Best returns the series that fits the rest of a job best, or nil. The parameter named says that the job
// names nodes. The function sufficient reports whether a series has all that the job still needs.
func Best(list []Series, contiguous, named bool, sufficient func(*Series) bool) *Series {
	var best *Series
	for i := range list {
		s := &list[i]
		if s.Nodes == 0 || contiguous && named && s.Required < 0 {
			continue
		}
		better := best == nil || best.Required < 0 && s.Required >= 0 || s.Weight < best.Weight
		if !better && s.Weight == best.Weight {
			enough, was := sufficient(s), sufficient(best)
			better = enough && !was || enough && s.CPUs < best.CPUs || !enough && s.CPUs > best.CPUs
		}
		if !better && contiguous {
			better = sufficient(s) && !sufficient(best)
		}
		if better {
			best = s
		}
	}
	return best
}

// Order returns the nodes of a series in the order in which a job takes them. If the job names a node of the
// series, it takes the nodes after that node first, then those before it, backwards.
func (s *Series) Order() []int {
	from := s.First
	if s.Required >= 0 {
		from = s.Required
	}
	order := make([]int, 0, s.Last-s.First+1)
	for i := from; i <= s.Last; i++ {
		order = append(order, i)
	}
	for i := from - 1; i >= s.First; i-- {
		order = append(order, i)
	}
	return order
}
