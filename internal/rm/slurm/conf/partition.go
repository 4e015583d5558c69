package conf

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/conf/syntax"
	"rmreplay/internal/slurmspec"
)

// Partition is a partition as slurmctld builds it.
type Partition struct {
	Name    string
	Default bool
	// Nodes are the names of its nodes, in the line's order. ALL and node sets are resolved.
	Nodes []string
	// AllowAccounts, AllowGroups, AllowQOS and their opposites are nil without a restriction.
	AllowAccounts, DenyAccounts []string
	AllowGroups                 []string
	AllowQOS, DenyQOS           []string
	// QOS is the partition's own QOS, or empty.
	QOS string
	// Attributes are the attributes of the PartitionName=DEFAULT lines above the partition, followed
	// by its own attributes.
	Attributes []Attribute
	File       string
	Line       int
}

// DefaultPartition returns the name of the default partition; empty if no partition is the default.
func (c *Cluster) DefaultPartition() string {
	for _, p := range c.Partitions {
		if p.Default {
			return p.Name
		}
	}
	return ""
}

// DefaultLimit returns the longest default time limit of the partitions: DefaultTime, or else
// MaxTime. It ignores partitions without a limit. It returns 0 if no partition has a limit.
func (c *Cluster) DefaultLimit() time.Duration {
	var longest time.Duration
	for _, p := range c.Partitions {
		longest = max(longest, p.DefaultLimit())
	}
	return longest
}

// DefaultLimit returns the time limit of a job that requests none: the partition's DefaultTime, or
// else its MaxTime. It returns 0 if there is no limit.
func (p Partition) DefaultLimit() time.Duration {
	text, _ := p.Get("DefaultTime")
	if text == "" || strings.EqualFold(text, "NONE") {
		text, _ = p.Get("MaxTime")
	}
	if d, err := slurmspec.ParseTimeLimit(text); err == nil && d != hpc.Unlimited {
		return d
	}
	return 0
}

// Get returns an attribute in slurm.conf's form: the line's own value, or else the default. It
// compares keys without case.
func (p Partition) Get(key string) (string, bool) { return lookup(p.Attributes, key) }

// notInherited are the attributes of PartitionName=DEFAULT that other partitions do not inherit
// (src/common/read_config.c, _parse_partitionname).
var notInherited = []string{"DisableRootJobs", "ExclusiveUser", "SelectTypeParameters", "SuspendTime"}

func (c *Cluster) resolvePartitions() error {
	sets, err := c.nodeSets()
	if err != nil {
		return err
	}
	var defaults []Attribute
	var errs []error
	index := make(map[string]int) // in c.Partitions, by name
	for _, s := range c.all("PartitionName") {
		if strings.EqualFold(s.Value, "DEFAULT") {
			defaults = override(defaults, slices.DeleteFunc(slices.Clone(s.Attributes), func(a Attribute) bool {
				return slices.ContainsFunc(notInherited, func(k string) bool { return strings.EqualFold(k, a.Key) })
			}))
			continue
		}
		p, err := c.partition(s, defaults, sets)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if i, twice := index[p.Name]; twice {
			errs = append(errs, s.errorf("partition %s is defined twice (first in %s:%d)", p.Name, c.Partitions[i].File, c.Partitions[i].Line))
			continue
		}
		index[p.Name] = len(c.Partitions)
		c.Partitions = append(c.Partitions, p)
	}
	if len(errs) == 0 && len(c.Partitions) == 0 {
		return fmt.Errorf("%s: no partitions (want PartitionName=… lines)", c.Path)
	}
	c.chooseDefault()
	return errors.Join(errs...)
}

// chooseDefault keeps the last of several default partitions, as Slurm does.
func (c *Cluster) chooseDefault() {
	last := -1
	for i := range c.Partitions {
		if !c.Partitions[i].Default {
			continue
		}
		if last >= 0 {
			c.Partitions[last].Default = false
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s:%d: partition %s is not the default: %s has Default=YES too, and the last one counts",
				c.Partitions[last].File, c.Partitions[last].Line, c.Partitions[last].Name, c.Partitions[i].Name))
		}
		last = i
	}
}

func (c *Cluster) partition(s Statement, defaults []Attribute, sets map[string]nodeSet) (Partition, error) {
	p := Partition{Name: s.Value, File: s.File, Line: s.Line,
		Attributes: slices.Concat(defaults, s.Attributes)}
	if v, ok := p.Get("Default"); ok {
		p.Default, _ = syntax.ParseBool(v) // checked by the parser
	}
	p.AllowAccounts, p.DenyAccounts = p.allowed("AllowAccounts", true), p.allowed("DenyAccounts", true)
	p.AllowGroups = p.allowed("AllowGroups", false)
	p.AllowQOS, p.DenyQOS = p.allowed("AllowQos", true), p.allowed("DenyQos", true)
	if p.AllowAccounts != nil {
		p.DenyAccounts = nil
	}
	if p.AllowQOS != nil {
		p.DenyQOS = nil
	}
	p.QOS, _ = p.Get("QOS")
	nodes, _ := p.Get("Nodes")
	var err error
	if p.Nodes, err = c.expandNodes(nodes, sets); err != nil {
		return p, s.errorf("partition %s: Nodes=%s: %w", p.Name, syntax.Shorten(nodes), err)
	}
	return p, nil
}

// allowed returns a list of names, or nil for ALL. Slurm stores the names of accounts and QOS in lower case.
func (p Partition) allowed(key string, lower bool) []string {
	v, _ := p.Get(key)
	if strings.EqualFold(v, "ALL") {
		return nil
	}
	if lower {
		v = strings.ToLower(v)
	}
	return syntax.List(v)
}

// nodeSet is a NodeSet line.
type nodeSet struct {
	feature string
	nodes   []string
}

// nodeSets returns the node sets by name. If several node sets have the same name, the first counts.
func (c *Cluster) nodeSets() (map[string]nodeSet, error) {
	sets := make(map[string]nodeSet)
	var errs []error
	for _, s := range c.all("NodeSet") {
		var set nodeSet
		set.feature, _ = s.Get("Feature")
		nodes, _ := s.Get("Nodes")
		var err error
		if set.nodes, err = c.expand(nodes); err != nil {
			errs = append(errs, s.errorf("NodeSet=%s: Nodes=%s: %w", s.Value, syntax.Shorten(nodes), err))
			continue
		}
		if unknown := c.unknownNodes(set.nodes); len(unknown) > 0 {
			errs = append(errs, s.errorf("NodeSet=%s: no such node: %s", s.Value, hostlist.Compress(unknown)))
			continue
		}
		if _, twice := sets[s.Value]; !twice {
			sets[s.Value] = set
		}
	}
	return sets, errors.Join(errs...)
}

// expandNodes returns the nodes in a partition's Nodes=, each once. The value has names, node sets, or ALL.
func (c *Cluster) expandNodes(expr string, sets map[string]nodeSet) ([]string, error) {
	if strings.EqualFold(expr, "ALL") {
		names := make([]string, len(c.Nodes))
		for i := range c.Nodes {
			names[i] = c.Nodes[i].Name
		}
		return names, c.charge(len(names))
	}
	words, err := c.expand(expr)
	if err != nil {
		return nil, err
	}
	var names, unknown []string
	seen := make(map[string]bool)
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	for _, word := range words {
		if set, ok := sets[word]; ok {
			if err := c.charge(len(c.Nodes)); err != nil {
				return nil, err
			}
			c.eachOfSet(set, add)
		} else if i, ok := c.nodeIndex[word]; ok {
			add(c.Nodes[i].Name) // not word: it would keep the whole list in memory
		} else {
			unknown = append(unknown, word)
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("no such node: %s", hostlist.Compress(unknown))
	}
	return names, nil
}

// eachOfSet calls visit for the nodes of a set: first the nodes with its feature, then its named nodes.
func (c *Cluster) eachOfSet(s nodeSet, visit func(string)) {
	if s.feature != "" {
		for i := range c.Nodes {
			if slices.Contains(c.Nodes[i].Features, s.feature) {
				visit(c.Nodes[i].Name)
			}
		}
	}
	for _, name := range s.nodes {
		visit(name)
	}
}

func (c *Cluster) unknownNodes(names []string) []string {
	var unknown []string
	for _, name := range names {
		if _, ok := c.nodeIndex[name]; !ok {
			unknown = append(unknown, name)
		}
	}
	return unknown
}
