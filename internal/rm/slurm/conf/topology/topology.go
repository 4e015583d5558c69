package topology

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmspec/history"
)

// File is a topology.yaml, or the switches of a topology.conf.
type File struct {
	// Topologies are the file's topologies. The cluster's default comes first.
	Topologies []Topology
	// Warnings are about text that slurmctld ignores. Each has the file and the line.
	Warnings []string

	r reader
}

// Topology is one topology of a file.
type Topology struct {
	// Name is the name with which partitions select the topology.
	Name string
	// Plugin is the plugin that places jobs: "topology/tree".
	Plugin string
	// Groups are the topology's switches, blocks, rings or toruses.
	Groups []Group
	// Sizes are the sizes of blocks in nodes. The planning base comes first.
	Sizes []int

	line      int
	isDefault bool
}

// Group is a switch, a block, a ring or a torus.
type Group struct {
	// Name identifies the group in its topology. Nodes is a host list of nodes. Children is a host
	// list of switches.
	Name, Nodes, Children string
	// At is the group's file and line.
	At string
}

// errorf returns an error that begins with the group's file and line.
func (g *Group) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: %w", g.At, fmt.Errorf(format, args...))
}

// kinds has the key of each plugin, the key of the list of its groups, and the key of a group's
// name.
var kinds = []struct{ key, groups, name string }{
	{"block", "blocks", "block"}, {"flat", "", ""}, {"ring", "rings", "ring"},
	{"torus3d", "toruses", "name"}, {"tree", "switches", "switch"},
}

// Parse reads a file. name is the file's name in messages. The error is about the first mistake
// that keeps slurmctld from starting, or says that the file exceeds this package's limits of size
// or depth.
func Parse(name string, text []byte) (*File, error) {
	f := &File{r: reader{name: name}}
	list, err := f.r.document(text)
	if err != nil {
		return nil, err
	}
	for _, v := range list {
		t, err := f.topology(v)
		if err != nil {
			return nil, err
		}
		if before := slices.IndexFunc(f.Topologies, func(o Topology) bool { return o.Name == t.Name }); before >= 0 {
			return nil, f.r.errorf(v.line, "topology %s is defined twice (first in line %d)", t.Name, f.Topologies[before].line)
		}
		f.Topologies = append(f.Topologies, t)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf(`%s: no topology (want a list of topologies, such as "- topology: default" with "flat: true")`,
			name)
	}
	slices.SortStableFunc(f.Topologies, func(a, b Topology) int {
		return cmp.Compare(rank(a), rank(b))
	})
	f.Warnings = f.r.warnings
	return f, nil
}

// Tree makes a File of the switches of a topology.conf. It returns the same errors as [Parse].
func Tree(name string, switches []Group) (*File, error) {
	f := &File{r: reader{name: name}, Topologies: []Topology{{Name: "default", Plugin: "topology/tree", Groups: switches}}}
	if len(switches) == 0 {
		return f, nil // slurmctld starts without switches
	}
	return f, f.checkGroups(&f.Topologies[0])
}

func rank(t Topology) int {
	if t.isDefault {
		return 0
	}
	return 1
}

// topology reads one topology, which must have exactly one plugin.
func (f *File) topology(v value) (Topology, error) {
	t := Topology{Name: v.fields["topology"].text, isDefault: v.fields["cluster_default"].flag, line: v.line}
	for _, k := range kinds {
		options, ok := v.fields[k.key]
		if !ok || k.key == "flat" && options.fields == nil && !options.flag {
			continue
		}
		if t.Plugin != "" {
			return t, f.r.errorf(options.line, "topology %s has %s and %s (want one plugin)", t.Name,
				strings.TrimPrefix(t.Plugin, "topology/"), k.key)
		}
		t.Plugin = "topology/" + k.key
		for _, g := range options.fields[k.groups].list {
			t.Groups = append(t.Groups, Group{
				Name: g.fields[k.name].text, Nodes: nodesOf(g), Children: g.fields["children"].text,
				At: fmt.Sprintf("%s:%d", f.r.name, g.line),
			})
		}
		for _, size := range options.fields["block_sizes"].list {
			n, _ := strconv.Atoi(size.text) // the reader has checked it
			t.Sizes = append(t.Sizes, n)
		}
	}
	switch {
	case t.Name == "":
		return t, f.r.errorf(v.line, "topology without a name (want topology: NAME)")
	case t.Plugin == "":
		return t, f.r.errorf(v.line, "topology %s has no plugin (want one of block, flat, ring, torus3d or tree)", t.Name)
	}
	return t, f.checkGroups(&t)
}

// nouns are the words for the groups of each plugin.
var nouns = map[string]string{"topology/tree": "switch", "topology/block": "block", "topology/ring": "ring",
	"topology/torus3d": "torus"}

// nodesOf returns the nodes of a group and, for a torus, of its regions.
func nodesOf(g value) string {
	lists := []string{g.fields["nodes"].text}
	for _, region := range g.fields["regions"].list {
		lists = append(lists, region.fields["nodes"].text)
	}
	return strings.Join(slices.DeleteFunc(lists, func(s string) bool { return s == "" }), ",")
}

// checkGroups checks switches and blocks as switch_record_validate and block_record_validate do
// (src/plugins/topology/tree/switch_record.c, block/block_record.c).
func (f *File) checkGroups(t *Topology) error {
	if t.Plugin == "topology/flat" {
		return nil
	}
	if len(t.Groups) == 0 {
		return f.r.errorf(t.line, "topology %s has no switches, blocks, rings or toruses", t.Name)
	}
	what := nouns[t.Plugin]
	places := map[string]string{}
	for i := range t.Groups {
		g := &t.Groups[i]
		switch before, twice := places[g.Name]; {
		case g.Name == "":
			return g.errorf("a %s without a name", what)
		case twice:
			return g.errorf("%s %s is defined twice (first in %s)", what, g.Name, before)
		}
		places[g.Name] = g.At
		if g.Nodes != "" && g.Children != "" {
			f.r.warnings = append(f.r.warnings, fmt.Sprintf("%s: switch %s has nodes and children: Slurm ignores the children",
				g.At, g.Name))
			g.Children = ""
		}
	}
	switch t.Plugin {
	case "topology/tree":
		return f.checkTree(t)
	case "topology/block":
		return f.checkSizes(t)
	}
	return nil
}

// maxLevels is the number of levels of switches that slurmctld resolves.
const maxLevels = 20

// checkTree checks that every child exists and that the switches form no cycle.
func (f *File) checkTree(t *Topology) error {
	level := make(map[string]int, len(t.Groups)) // 0: not known yet
	for _, g := range t.Groups {
		level[g.Name] = 0
	}
	children := map[string][]string{}
	for i := range t.Groups {
		g := &t.Groups[i]
		if g.Children == "" {
			level[g.Name] = 1
			continue
		}
		names, err := hostlist.ExpandAtMost(g.Children, len(t.Groups))
		if err != nil {
			return g.errorf("switch %s: children %.60s: %w", g.Name, g.Children, err)
		}
		children[g.Name] = names
		for _, child := range names {
			if _, exists := level[child]; !exists || child == g.Name {
				return g.errorf("switch %s: no such switch: %s", g.Name, child)
			}
		}
	}
	for range maxLevels {
		for _, g := range t.Groups {
			resolved := level[g.Name] == 0
			for _, child := range children[g.Name] {
				resolved = resolved && level[child] > 0
			}
			if resolved {
				level[g.Name] = 2
			}
		}
	}
	for i := range t.Groups {
		if g := &t.Groups[i]; level[g.Name] == 0 {
			return g.errorf("switch %s: the switches are not a tree of at most %d levels", g.Name, maxLevels)
		}
	}
	return nil
}

// checkSizes checks the sizes of blocks: each is the base times a power of two.
func (f *File) checkSizes(t *Topology) error {
	for _, size := range t.Sizes {
		if size <= 0 || size%t.Sizes[0] != 0 || bits.OnesCount(uint(size/t.Sizes[0])) != 1 || size/t.Sizes[0] >= 1<<16 {
			return f.r.errorf(t.line, "topology %s: block size %d: not the base %d times a power of two", t.Name, size,
				t.Sizes[0])
		}
	}
	return nil
}

// Cluster describes the cluster that a file must fit.
type Cluster struct {
	// Nodes are the names of all nodes. Known reports whether a node has the given name.
	Nodes []string
	Known func(name string) bool
	// Expand expands a host list of nodes.
	Expand func(list string) ([]string, error)
	// Partitions has the name of each partition's topology, by partition.
	Partitions map[string]string
	// OwnPlaces is set if NodeName lines of slurm.conf have Topology=.
	OwnPlaces bool
}

// Check checks the names of nodes in the file, and the topologies that partitions name. The error
// is about a mistake that keeps slurmctld from starting.
func (f *File) Check(c Cluster) (warnings []string, err error) {
	for partition, name := range c.Partitions {
		if !slices.ContainsFunc(f.Topologies, func(t Topology) bool { return t.Name == name }) {
			return nil, fmt.Errorf("%s: partition %s has Topology=%s, which the file does not define", f.r.name, partition, name)
		}
	}
	for _, t := range f.Topologies {
		placed := map[string]bool{}
		for i := range t.Groups {
			g := &t.Groups[i]
			names, err := c.expand(*g)
			if err != nil {
				return nil, g.errorf("%s %s: nodes %.60s: %w", nouns[t.Plugin], g.Name, g.Nodes, err)
			}
			var unknown []string
			for _, name := range names {
				if placed[name] = true; !c.Known(name) {
					unknown = append(unknown, name)
				}
			}
			if unknown != nil {
				warnings = append(warnings, fmt.Sprintf("%s: %s %s: no such node: %s; Slurm ignores it", g.At, nouns[t.Plugin],
					g.Name, hostlist.Compress(unknown)))
			}
		}
		lost := slices.DeleteFunc(slices.Clone(c.Nodes), func(name string) bool { return placed[name] })
		if t.Plugin != "topology/flat" && len(lost) > 0 && !c.OwnPlaces {
			warnings = append(warnings, fmt.Sprintf("%s: no %s of topology %s has %s", f.r.name, nouns[t.Plugin], t.Name,
				hostlist.Compress(lost)))
		}
	}
	return warnings, nil
}

func (c Cluster) expand(g Group) ([]string, error) {
	switch {
	case g.Nodes == "":
		return nil, nil
	case strings.EqualFold(g.Nodes, "ALL"):
		return c.Nodes, nil
	}
	return c.Expand(g.Nodes)
}

// Missing returns the first plugin of the file that the release lacks; "" if the release has all
// of them.
func (f *File) Missing(release slurmspec.Release) string {
	for _, t := range f.Topologies {
		if life, ok := history.Plugins[t.Plugin]; ok && !life.Includes(release) {
			return t.Plugin
		}
	}
	return ""
}
