package conf

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/conf/syntax"
	"rmreplay/internal/rm/slurm/conf/values"
)

// nodeLine is one NodeName statement that defines nodes, with the values of the
// NodeName=DEFAULT lines above it.
type nodeLine struct {
	statement Statement
	defaults  []Attribute // attributes of the DEFAULT lines above
	hardware  hpc.Node    // the same for all nodes of the line
	first     int         // index of its first node in Cluster.Nodes
	count     int
}

// get returns the value of an attribute: the line's own value, or else the default.
func (l nodeLine) get(key string) (string, bool) {
	if v, ok := l.statement.Get(key); ok {
		return v, true
	}
	return lookup(l.defaults, key)
}

// number returns a numeric attribute. The parser has checked the values.
func (l nodeLine) number(key string) (uint64, bool) {
	v, ok := l.get(key)
	if !ok {
		return 0, false
	}
	k, _ := nodeAttributes.Lookup(key)
	maximum := uint64(math.MaxUint16)
	switch k.Kind {
	case u32:
		maximum = math.MaxUint32
	case u64:
		maximum = math.MaxUint64
	}
	n, err := syntax.ParseUint(v, maximum)
	return n, err == nil
}

func (l nodeLine) numberOr(key string, otherwise int) int {
	if n, ok := l.number(key); ok {
		return int(min(n, math.MaxInt64))
	}
	return otherwise
}

// feature returns the node's features. The attribute has two names. A value in the line itself,
// under either name, has precedence over the defaults.
func (l nodeLine) feature() string {
	for _, key := range []string{"Feature", "Features"} {
		if v, ok := l.statement.Get(key); ok {
			return v
		}
	}
	for _, key := range []string{"Feature", "Features"} {
		if v, ok := lookup(l.defaults, key); ok {
			return v
		}
	}
	return ""
}

// resolveNodes builds the nodes. A NodeName=DEFAULT line adds to earlier DEFAULT lines and applies
// to the lines below it.
func (c *Cluster) resolveNodes() error {
	var defaults []Attribute
	var errs []error
	for _, s := range c.all("NodeName") {
		if strings.EqualFold(s.Value, "DEFAULT") {
			if err := checkNodeDefaults(s); err != nil {
				errs = append(errs, err)
			}
			defaults = override(defaults, s.Attributes)
			continue
		}
		if err := c.addNodes(nodeLine{statement: s, defaults: defaults}); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 && len(c.Nodes) == 0 {
		return fmt.Errorf("%s: no nodes (want NodeName=… lines)", c.Path)
	}
	return errors.Join(errs...)
}

// override merges a DEFAULT line into the attributes of earlier DEFAULT lines. It keeps only the
// last value of a key, because a file may have very many such lines.
func override(defaults, next []Attribute) []Attribute {
	var out []Attribute
	seen := make(map[string]bool)
	for _, a := range slices.Backward(slices.Concat(defaults, next)) {
		if key := strings.ToLower(a.Key); !seen[key] {
			seen[key] = true
			out = append(out, a)
		}
	}
	slices.Reverse(out)
	return out
}

func checkNodeDefaults(s Statement) error {
	for _, key := range []string{"NodeHostname", "BcastAddr", "NodeAddr"} {
		if _, ok := s.Get(key); ok {
			return s.errorf("%s is not allowed with NodeName=DEFAULT (want it on the lines of the nodes)", key)
		}
	}
	return nil
}

func (c *Cluster) addNodes(l nodeLine) error {
	s := l.statement
	if strings.EqualFold(s.Value, "ALL") {
		return s.errorf("NodeName=%s: a word that Slurm reserves (want the nodes' names)", s.Value)
	}
	names, err := c.expand(s.Value)
	if err != nil {
		return s.errorf("NodeName=%s: %w", syntax.Shorten(s.Value), err)
	}
	if len(c.Nodes)+len(names) > maxNodes {
		return s.errorf("NodeName=%s: more than %d nodes in the cluster", syntax.Shorten(s.Value), maxNodes)
	}
	if len(names) == 0 {
		return s.errorf("NodeName has no names")
	}
	if l.hardware, err = c.hardware(l); err != nil {
		return err
	}
	l.first, l.count = len(c.Nodes), len(names)
	for _, name := range names {
		if before, ok := c.nodeIndex[name]; ok {
			return s.errorf("node %s is defined twice (first in %s)", name, c.lineOf(before))
		}
		n := l.hardware
		n.Name = name
		c.nodeIndex[name] = len(c.Nodes)
		c.Nodes = append(c.Nodes, n)
	}
	c.nodeLines = append(c.nodeLines, l)
	return nil
}

func (c *Cluster) lineOf(node int) string {
	for _, l := range c.nodeLines {
		if node < l.first+l.count {
			return fmt.Sprintf("%s:%d", l.statement.File, l.statement.Line)
		}
	}
	return "the same line"
}

// hardware computes a node from a line's attributes as slurmctld does
// (src/common/read_config.c, _parse_nodename). Each of slurmctld's corrections is a warning.
func (c *Cluster) hardware(l nodeLine) (hpc.Node, error) {
	s := l.statement
	n := hpc.Node{
		Boards:         c.atLeastOne(l, "Boards"),
		CoresPerSocket: c.atLeastOne(l, "CoresPerSocket"),
		ThreadsPerCore: c.atLeastOne(l, "ThreadsPerCore"),
		RealMemory:     int64(l.numberOr("RealMemory", 1)),
		TmpDisk:        int64(l.numberOr("TmpDisk", 0)),
		CoreSpecCount:  l.numberOr("CoreSpecCount", 0),
		MemSpecLimit:   int64(l.numberOr("MemSpecLimit", 0)),
		Weight:         1,
		Features:       syntax.List(l.feature()),
	}
	if w, ok := l.number("Weight"); ok {
		n.Weight = uint32(min(w, math.MaxUint32-1))
	}
	n.CPUSpecList, _ = l.get("CPUSpecList")
	c.countProcessors(l, &n)
	c.checkReserved(l, &n)
	state, _ := l.get("State")
	var err error
	if n.State, err = values.NodeState(state); err != nil {
		return n, s.errorf("State=%s: %w", state, err)
	}
	return n, nil
}

// atLeastOne returns a count. The default and the smallest value are 1.
func (c *Cluster) atLeastOne(l nodeLine, key string) int {
	v := l.numberOr(key, 1)
	if v == 0 {
		c.warn(l.statement, "%s=0 is not possible; Slurm uses 1", key)
		return 1
	}
	return v
}

// countProcessors sets Sockets and CPUs. If one is missing, it is computed from the other.
func (c *Cluster) countProcessors(l nodeLine, n *hpc.Node) {
	perSocket := n.CoresPerSocket * n.ThreadsPerCore
	_, hasCPUs := l.number("CPUs")
	if hasCPUs {
		n.CPUs = c.atLeastOne(l, "CPUs")
	} else if _, hasCPUs = l.number("Procs"); hasCPUs {
		n.CPUs = c.atLeastOne(l, "Procs")
	}
	_, hasSockets := l.number("Sockets")
	_, hasPerBoard := l.number("SocketsPerBoard")
	if hasSockets && hasPerBoard {
		c.warn(l.statement, "Sockets and SocketsPerBoard exclude each other; Slurm uses SocketsPerBoard")
		hasSockets = false
	}
	switch {
	case hasSockets:
		n.Sockets = c.atLeastOne(l, "Sockets")
	case hasPerBoard:
		n.Sockets = n.Boards * c.atLeastOne(l, "SocketsPerBoard")
	case hasCPUs && n.CPUs >= perSocket && n.CPUs%perSocket == 0:
		n.Sockets = n.CPUs / perSocket
	default:
		n.Sockets = n.Boards
	}
	if !hasCPUs {
		n.CPUs = n.Sockets * perSocket
	}
	if n.Sockets < n.Boards {
		c.warn(l.statement, "Sockets=%d is less than Boards=%d; Slurm uses Boards=1", n.Sockets, n.Boards)
		n.Boards = 1
	}
	if n.CPUs != n.Sockets && n.CPUs != n.Sockets*n.CoresPerSocket && n.CPUs != n.Sockets*perSocket {
		c.warn(l.statement, "CPUs=%d is not the number of sockets, cores or threads (%d, %d, %d); Slurm uses CPUs=%d",
			n.CPUs, n.Sockets, n.Sockets*n.CoresPerSocket, n.Sockets*perSocket, n.Sockets*perSocket)
		n.CPUs = n.Sockets * perSocket
	}
}

// checkReserved corrects the cores and the memory that the node reserves for the system.
func (c *Cluster) checkReserved(l nodeLine, n *hpc.Node) {
	if n.CoreSpecCount > 0 && n.CoreSpecCount >= n.Sockets*n.CoresPerSocket {
		c.warn(l.statement, "CoreSpecCount=%d leaves no core; Slurm uses 1", n.CoreSpecCount)
		n.CoreSpecCount = 1
	}
	if n.CoreSpecCount > 0 && n.CPUSpecList != "" {
		c.warn(l.statement, "CoreSpecCount is ignored with CPUSpecList")
		n.CoreSpecCount = 0
	}
	if n.MemSpecLimit > 0 && n.MemSpecLimit >= n.RealMemory {
		c.warn(l.statement, "MemSpecLimit=%d is not less than RealMemory=%d; Slurm uses 0", n.MemSpecLimit, n.RealMemory)
		n.MemSpecLimit = 0
	}
}

// resolveDownNodes sets the states of the nodes in DownNodes lines. A mistake in such a line is a warning, because
// Slurm only logs it.
func (c *Cluster) resolveDownNodes() {
	for _, s := range c.all("DownNodes") {
		state := "DOWN"
		if v, ok := s.Get("State"); ok {
			var err error
			if state, err = values.NodeState(v); err != nil {
				c.warn(s, "DownNodes=%s is ignored: State=%s: %v", s.Value, v, err)
				continue
			}
		}
		names, err := c.expand(s.Value)
		if err != nil {
			c.warn(s, "DownNodes=%s is ignored: %v", syntax.Shorten(s.Value), err)
			continue
		}
		for _, name := range names {
			if i, ok := c.nodeIndex[name]; ok && state != "" {
				c.Nodes[i].State = state
			}
		}
		if unknown := c.unknownNodes(names); len(unknown) > 0 {
			c.warn(s, "DownNodes=%s: there is no node %s", syntax.Shorten(s.Value), hostlist.Compress(unknown))
		}
	}
}
