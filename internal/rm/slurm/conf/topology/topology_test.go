package topology

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/slurmspec"
)

// cluster has the nodes n1 to n8.
func cluster() Cluster {
	nodes, _ := hostlist.Expand("n[1-8]")
	return Cluster{Nodes: nodes, Known: func(name string) bool { return slices.Contains(nodes, name) }, Expand: hostlist.Expand}
}

const tree = `---
- topology: fabric
  cluster_default: true
  tree:
    switches:
      - switch: root
        children: s[1-2]
      - {switch: s1, nodes: "n[1-4]"}
      - switch: s2
        nodes: n[5-8]
`

func block(sizes string, lists ...string) string {
	text := "topology: b\nblock:\n  block_sizes: [" + sizes + "]\n  blocks:\n"
	for i, list := range lists {
		text += fmt.Sprintf("  - block: b%d\n    nodes: %s\n", i+1, list)
	}
	return text
}

// TestOlder: releases before 25.05 get an equivalent topology if they have one. Otherwise the
// reason says why they have none.
func TestOlder(t *testing.T) {
	for name, test := range map[string]struct {
		text    string
		release slurmspec.Release
		change  func(*Cluster)
		want    string // the plugin and the lines
		reason  string
	}{
		"tree":                {tree, slurmspec.R2205, nil, "topology/tree; SwitchName=root Switches=s[1-2]; SwitchName=s1 Nodes=n[1-4]; SwitchName=s2 Nodes=n[5-8]", ""},
		"flat":                {"topology: f\nflat: true\n", slurmspec.R2205, nil, "topology/flat", ""},
		"flat with options":   {"topology: f\nflat: {alpha_step_rank: yes}\n", slurmspec.R2411, nil, "topology/flat", ""},
		"the default counts":  {"- topology: f\n  flat: true\n" + tree[4:], slurmspec.R2302, nil, "topology/tree; SwitchName=root Switches=s[1-2]; SwitchName=s1 Nodes=n[1-4]; SwitchName=s2 Nodes=n[5-8]", ""},
		"partitions agree":    {"topology: f\nflat: true\n", slurmspec.R2411, func(c *Cluster) { c.Partitions = map[string]string{"p": "f"} }, "topology/flat", ""},
		"partitions differ":   {"- topology: f\n  flat: true\n" + tree[4:], slurmspec.R2411, func(c *Cluster) { c.Partitions = map[string]string{"p": "f"} }, "", "partition p has the topology f, but Slurm 24.11 has only one"},
		"places in nodes":     {tree, slurmspec.R2411, func(c *Cluster) { c.OwnPlaces = true }, "", "slurm.conf has Topology= for nodes"},
		"switch without both": {"topology: t\ntree: {switches: [{switch: a, nodes: n1}, {switch: b}]}\n", slurmspec.R2411, nil, "", "switch b has neither nodes nor children"},
		"ring":                {"topology: r\nring: {rings: {ring: a, nodes: \"n[1-8]\"}}\n", slurmspec.R2411, nil, "", "topology/ring is not in Slurm 24.11"},
		"block":               {block("4,8", "n[1-4]", "n[5-8]"), slurmspec.R2405, nil, "topology/block; BlockName=b1 Nodes=n[1-4]; BlockName=b2 Nodes=n[5-8]; BlockSizes=4,8", ""},
		"block without sizes": {block("", "n[1-4]", "n[5-8]"), slurmspec.R2311, nil, "topology/block; BlockName=b1 Nodes=n[1-4]; BlockName=b2 Nodes=n[5-8]", ""},
		"block levels":        {block("2,8", "n[1-2]", "n[3-4]"), slurmspec.R2311, nil, "topology/block; BlockName=b1 Nodes=n[1-2]; BlockName=b2 Nodes=n[3-4]; BlockLevels=0,2", ""},
		"base of 23.11":       {block("2,4", "n[1-4]", "n[5-8]"), slurmspec.R2311, nil, "", "the base is 2 nodes, but slurmctld 23.11 always uses the size of the first block as the base (b1 has 4 nodes)"},
		"no block plugin":     {block("4", "n[1-4]"), slurmspec.R2302, nil, "", "topology/block is not in Slurm 23.02"},
		"small block":         {block("4", "n[1-4]", "n[5-7]"), slurmspec.R2411, nil, "", "block b2 has 3 nodes, and slurmctld 24.11 does not start if a block has fewer than the base of 4"},
		"unknown nodes":       {block("4", "n[1-4]", "n[5-7],x1"), slurmspec.R2411, nil, "", "block b2 has 3 nodes"},
		"block without nodes": {"topology: b\nblock:\n  blocks: {block: b1}\n", slurmspec.R2411, nil, "", "block b1 has 0 nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Parse("topology.yaml", []byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			c := cluster()
			if test.change != nil {
				test.change(&c)
			}
			plugin, lines, err := f.Older(test.release, c)
			if test.reason != "" {
				if err == nil || !strings.Contains(err.Error(), test.reason) {
					t.Errorf("error %v, want %q", err, test.reason)
				}
				return
			}
			if got := strings.Join(append([]string{plugin}, lines...), "; "); err != nil || got != test.want {
				t.Errorf("%s (%v), want %s", got, err, test.want)
			}
		})
	}
}

// TestMistakes: a mistake with which slurmctld does not start is an error with its line.
func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "no topology",
		"[]":                           "no topology",
		"tree":                         "topology.yaml:1: the file: not a list of objects",
		"- topology: [":                "topology.yaml:1: not YAML",
		"- flat: true\n":               "topology.yaml:1: topology without a name",
		"- topology: a\n":              "topology a has no plugin (want one of block, flat, ring, torus3d or tree)",
		"- topology: a\n  flat: false": "topology a has no plugin",
		"- topology: a\n  flat: maybe": `topology.yaml:2: flat: "maybe": not a flag`,
		"- topology: a\n  flat: true\n  tree: {switches: [{switch: s}]}":                                    "topology.yaml:3: topology a has flat and tree (want one plugin)",
		"- topology: a\n  flat: true\n- topology: a\n  flat: true":                                          "topology.yaml:3: topology a is defined twice (first in line 1)",
		"- topology: a\n  tree: true":                                                                       "topology.yaml:2: tree: not keys with values",
		"- topology: a\n  tree: {}":                                                                         "topology a has no switches",
		"- topology: a\n  tree: {switches: [{nodes: n1}]}":                                                  "a switch without a name",
		"- topology: a\n  tree:\n    switches:\n    - {switch: s, nodes: n1}\n    - {switch: s, nodes: n2}": "topology.yaml:5: switch s is defined twice (first in topology.yaml:4)",
		"- topology: a\n  tree: {switches: [{switch: s, children: t}]}":                                     "switch s: no such switch: t",
		"- topology: a\n  tree: {switches: [{switch: s, children: s}]}":                                     "switch s: no such switch: s",
		"- topology: a\n  tree: {switches: [{switch: s, children: t}, {switch: t, children: s}]}":           "the switches are not a tree",
		"- topology: a\n  tree: {switches: [{switch: s, children: 't['}]}":                                  "switch s: children t[",
		"- topology: a\n  block: {block_sizes: [4, 12], blocks: [{block: b, nodes: n1}]}":                   "block size 12: not the base 4 times a power of two",
		"- topology: a\n  block: {block_sizes: [0], blocks: [{block: b, nodes: n1}]}":                       "block size 0",
		"- topology: a\n  block: {block_sizes: 4, blocks: [{block: b, nodes: n1}]}":                         "block_sizes: not a list of numbers",
		"- topology: a\n  block: {block_sizes: [x], blocks: [{block: b, nodes: n1}]}":                       `block_sizes: "x": not a number`,
		"- &x\n  topology: a\n  flat: true\n- *x":                                                           "Slurm reads no aliases",
		"- topology: a\n  topology: b\n  flat: true":                                                        "topology",
		"- topology: a\n  flat: true\n---\n- topology: b\n  flat: true":                                     "2 documents",
		strings.Repeat("[", 100):                                                                            "brackets are open more than 16 deep",
		strings.Repeat("- ", 100):                                                                           "lists are nested more than 16 deep",
		"- topology: " + strings.Repeat("x", 20<<10):                                                        "line of 20492 bytes",
		"- topology: a\x00":          "NUL byte",
		strings.Repeat("#\n", 3<<20): "more than 4 MiB",
	} {
		f, err := Parse("topology.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v, %v; want %q", text, f, err, want)
		}
	}
}

// TestCheck: nodes that do not exist, nodes without a place and unknown keys are warnings; a
// partition's unknown topology is an error.
func TestCheck(t *testing.T) {
	text := strings.Replace(tree, "nodes: n[5-8]", "nodes: n[5-7],m[1-2]\n        speed: 3\n        chidren: x", 1)
	f, err := Parse("topology.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	c := cluster()
	found, err := f.Check(c)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(append(f.Warnings, found...), "\n")
	const want = `topology.yaml:11: switches has no key "speed": Slurm ignores it
topology.yaml:12: switches has no key "chidren": Slurm ignores it; did you mean children?
topology.yaml:9: switch s2: no such node: m[1-2]; Slurm ignores it
topology.yaml: no switch of topology fabric has n8`
	if got != want {
		t.Errorf("warnings:\n%s\nwant:\n%s", got, want)
	}
	c.Partitions = map[string]string{"p": "other"}
	if _, err := f.Check(c); err == nil || !strings.Contains(err.Error(), "partition p has Topology=other") {
		t.Errorf("error %v, want one about the partition", err)
	}
	if plugin := f.Missing(slurmspec.R2505); plugin != "" {
		t.Errorf("25.05 lacks %s, want nothing", plugin)
	}
	ring, err := Parse("topology.yaml", []byte("topology: r\nring: {rings: [{ring: a, nodes: n1}]}"))
	if err != nil || ring.Missing(slurmspec.R2511) != "topology/ring" || ring.Missing(slurmspec.R2605) != "" {
		t.Errorf("%v, %v; want topology/ring to be missing in 25.11 only", ring, err)
	}
}

// FuzzParse: no text makes the package panic. A file that Parse accepts has an older equivalent or
// a reason against one.
func FuzzParse(f *testing.F) {
	for _, text := range []string{tree, block("4,8", "n[1-4]", "n[5-8]"), "topology: f\nflat: true\n",
		"topology: t\ntorus3d: {toruses: [{name: t, dims: {x: 2, y: 2, z: 2}, regions: [{anchor: {x: 0}, nodes: n1}]}]}\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse("topology.yaml", text)
		if err != nil {
			return
		}
		c := cluster()
		c.Expand = func(list string) ([]string, error) { return hostlist.ExpandAtMost(list, 1000) }
		if _, err := file.Check(c); err != nil {
			return
		}
		for _, release := range []slurmspec.Release{slurmspec.R2205, slurmspec.R2311, slurmspec.R2411} {
			plugin, lines, err := file.Older(release, c)
			if err == nil && plugin != "topology/flat" && len(lines) == 0 {
				t.Errorf("%s without lines", plugin)
			}
		}
	})
}
