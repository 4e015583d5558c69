package conf

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/rm/slurm/conf/kinds"
)

// Factor returns the number of nodes divided by their number in slurm.conf. It is 1 unless the
// cluster comes from [Cluster.Scale].
func (c *Cluster) Factor() float64 { return cmp.Or(c.factor, 1) }

// Scale returns the cluster with another number of nodes: the old number times the factor, rounded. Scale answers
// questions such as "what if we had half the machine?". Each kind gets its share, at least one node; see [kinds.Kinds.Scale].
// Nodes are of one kind if they have the same hardware, features, generic resources and weight and are in the same
// partitions. Scale removes the last nodes of a kind, or adds copies of its first nodes, named x2-NAME, x3-NAME and so
// on. A copy is in the same partitions, on the same switches and in the same lines of gres.conf as its original.
// Scale fails if a factor other than 1 does not change the number of nodes.
//
// Scale keeps everything else: limits of partitions and accounts, licences, and the nodes that
// jobs request by name. It does not change the receiver. [Adapt] reports the changes.
func (c *Cluster) Scale(factor float64) (*Cluster, error) {
	if !(factor > 0) || math.IsInf(factor, 0) {
		return nil, fmt.Errorf("scaling the nodes of %s by %g: not a factor (want a number above 0)", c.Path, factor)
	}
	if n := len(c.Nodes); float64(n)*factor > maxNodes {
		return nil, fmt.Errorf("scaling the nodes of %s by %g: %d nodes would become %.3g (want at most %d)",
			c.Path, factor, n, float64(n)*factor, maxNodes)
	}
	if c.TopologyYAML != nil {
		return nil, fmt.Errorf("scaling the nodes of %s by %g: the nodes in %s cannot be scaled (want a topology.conf)", c.Path, factor, topologyYAML)
	}
	becomes, mismatch, err := c.kinds().Scale(factor)
	if err != nil {
		return nil, fmt.Errorf("scaling the nodes of %s by %g: %w", c.Path, factor, err)
	}
	sc := &scaling{cluster: c, factor: factor, becomes: becomes}
	out := &Cluster{Path: c.Path, SiteRelease: c.SiteRelease, Database: c.Database, Accounts: c.Accounts, AccountsFile: c.AccountsFile, Users: c.Users, nodeIndex: make(map[string]int), factor: c.Factor() * factor, private: c.private}
	for _, s := range c.Statements {
		if scaled, stays := sc.statement(s); stays {
			out.Statements = append(out.Statements, scaled)
		}
	}
	if c.GRES != nil {
		out.GRES = []Statement{}
		for _, s := range c.GRES {
			if scaled, stays := sc.gres(s); stays {
				out.GRES = append(out.GRES, scaled)
			}
		}
	}
	out.Topology = sc.topology()
	out.changed = append(slices.Clip(c.changed), sc.changes...)
	if err := out.resolve(); err != nil {
		return nil, fmt.Errorf("scaling the nodes of %s by %g: %w", c.Path, factor, err)
	}
	if mismatch != "" {
		out.Mismatch = fmt.Sprintf("%s: %s", c.Path, mismatch)
		out.Warnings = append(out.Warnings, out.Mismatch)
	}
	return out, nil
}

// kinds returns the cluster's nodes by kind.
func (c *Cluster) kinds() kinds.Kinds {
	in := make(map[string][]string, len(c.Nodes))
	for _, p := range c.Partitions {
		for _, name := range p.Nodes {
			in[name] = append(in[name], p.Name)
		}
	}
	return kinds.Of(c.Nodes, in)
}

// scaling rewrites statements for other numbers of nodes.
type scaling struct {
	cluster *Cluster
	factor  float64
	becomes map[string][]string
	changes []Change
}

// names scales a list of nodes. The original nodes come first, then all second copies, and so on.
// A name that is not the name of a node stays unchanged.
func (sc *scaling) names(names []string) []string {
	var out []string
	for round := 0; ; round++ {
		before := len(out)
		for _, name := range names {
			to, known := sc.becomes[name]
			switch _, isNode := sc.cluster.nodeIndex[name]; {
			case known && round < len(to):
				out = append(out, to[round])
			case !known && !isNode && round == 0:
				out = append(out, name)
			}
		}
		if len(out) == before && round > 0 {
			return out
		}
	}
}

// list scales a host list and reports whether any nodes are left. It does not change a list with a
// mistake. [Cluster.resolve] reports the mistake.
func (sc *scaling) list(expr string) (string, bool) {
	if strings.EqualFold(expr, "ALL") || expr == "" {
		return expr, true
	}
	names, err := hostlist.Expand(expr)
	if err != nil {
		return expr, true
	}
	scaled := sc.names(names)
	if slices.Equal(scaled, names) {
		return expr, true // in the site's spelling
	}
	return hostlist.Compress(scaled), len(scaled) > 0
}

// statement scales a line of slurm.conf. It returns false if the line must be removed.
func (sc *scaling) statement(s Statement) (Statement, bool) {
	switch strings.ToLower(s.Key) {
	case "nodename", "downnodes":
		if strings.EqualFold(s.Value, "DEFAULT") {
			return s, true
		}
		return sc.value(s)
	case "nodeset": // not needed: the scaled partitions list their nodes
		sc.note("NodeSet", s.Value, "", s)
		return s, false
	case "partitionname":
		return sc.partition(s), true
	}
	return s, true
}

func (sc *scaling) value(s Statement) (Statement, bool) {
	to, stays := sc.list(s.Value)
	if to != s.Value {
		sc.note(s.Key, s.Value, to, s)
	}
	s.Value = to
	return s, stays
}

// partition rewrites the node list of a partition; a partition with all nodes stays as it is.
func (sc *scaling) partition(s Statement) Statement {
	i := slices.IndexFunc(sc.cluster.Partitions, func(p Partition) bool { return p.Name == s.Value })
	if i < 0 { // PartitionName=DEFAULT: every partition lists its own nodes
		return withoutNodes(s)
	}
	p := sc.cluster.Partitions[i]
	from, given := p.Get("Nodes")
	if !given || strings.EqualFold(from, "ALL") {
		return s
	}
	to := hostlist.Compress(sc.names(p.Nodes))
	s = withoutNodes(s)
	s.Attributes = append(s.Attributes, Attribute{"Nodes", to})
	if to != from {
		sc.note("PartitionName="+p.Name+" Nodes", from, to, s)
	}
	return s
}

// withoutNodes removes the attribute Nodes from a statement, unless its value is ALL.
func withoutNodes(s Statement) Statement {
	s.Attributes = slices.DeleteFunc(slices.Clone(s.Attributes), func(a Attribute) bool {
		return strings.EqualFold(a.Key, "Nodes") && !strings.EqualFold(a.Value, "ALL")
	})
	return s
}

func (sc *scaling) gres(s Statement) (Statement, bool) {
	if !strings.EqualFold(s.Key, "NodeName") {
		return s, true
	}
	return sc.value(s)
}

// topology scales topology.conf. It removes switches that have no nodes left, and then switches
// that have no switches left below them. The result is nil if the site has no topology.conf.
func (sc *scaling) topology() []Statement {
	if sc.cluster.Topology == nil {
		return nil
	}
	out := []Statement{}
	gone := map[string]bool{}
	for _, s := range sc.cluster.Topology {
		scaled, stays := sc.attribute(s, "Nodes", sc.list)
		if !stays {
			gone[s.Value] = true
			continue
		}
		out = append(out, scaled)
	}
	for found := len(gone) > 0; found; {
		found = false
		out = slices.DeleteFunc(out, func(s Statement) bool {
			_, stays := sc.attribute(s, "Switches", func(expr string) (string, bool) { return without(expr, gone) })
			if !stays {
				gone[s.Value], found = true, true
			}
			return !stays
		})
	}
	for i := range out {
		out[i], _ = sc.attribute(out[i], "Switches", func(expr string) (string, bool) { return without(expr, gone) })
	}
	sc.noteSwitches(out)
	return out
}

// noteSwitches reports changed and removed switches.
func (sc *scaling) noteSwitches(scaled []Statement) {
	below := func(s Statement) string { return firstOf(s, "Nodes", "Switches") }
	for _, s := range sc.cluster.Topology {
		to := ""
		if i := slices.IndexFunc(scaled, func(other Statement) bool { return other.Value == s.Value }); i >= 0 {
			to = below(scaled[i])
		}
		if from := below(s); from != to {
			sc.note("SwitchName="+s.Value, from, to, s)
		}
	}
}

// attribute changes a statement's attribute, if present, and reports whether the statement stays.
func (sc *scaling) attribute(s Statement, key string, change func(string) (string, bool)) (Statement, bool) {
	s.Attributes = slices.Clone(s.Attributes)
	stays := true
	for i, a := range s.Attributes {
		if strings.EqualFold(a.Key, key) {
			s.Attributes[i].Value, stays = change(a.Value)
		}
	}
	return s, stays
}

// without removes names from a host list and reports whether any are left.
func without(expr string, gone map[string]bool) (string, bool) {
	names, err := hostlist.Expand(expr)
	if err != nil {
		return expr, true
	}
	left := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return gone[name] })
	if len(left) == len(names) {
		return expr, true
	}
	return hostlist.Compress(left), len(left) > 0
}

func (sc *scaling) note(key, from, to string, s Statement) {
	sc.changes = append(sc.changes, Change{Key: key, From: from, To: to, File: s.File, Line: s.Line,
		Reason: fmt.Sprintf("the number of nodes is scaled by %g", sc.factor)})
}
