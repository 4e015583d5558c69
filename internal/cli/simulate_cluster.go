package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec"
)

// simulatedCluster is a site's cluster as far as the simulator knows what it consists of.
func simulatedCluster(c *conf.Cluster) (*sim.Cluster, error) {
	parameters, _ := c.Get("SelectTypeParameters")
	kind, _ := c.Get("SelectType")
	out := &sim.Cluster{
		Nodes:       slices.Clone(c.Nodes),
		CountMemory: strings.Contains(strings.ToLower(parameters), "memory"),
		WholeNodes:  strings.EqualFold(kind, "select/linear"),
	}
	for _, p := range c.Partitions {
		sp, err := simulatedPartition(c, p)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: partition %s: %w", p.File, p.Line, p.Name, err)
		}
		out.Partitions = append(out.Partitions, sp)
	}
	return out, nil
}

func simulatedPartition(c *conf.Cluster, p conf.Partition) (sim.Partition, error) {
	sp := sim.Partition{Name: p.Name, Nodes: p.Nodes, Default: p.Default}
	for _, t := range []struct {
		key string
		to  *time.Duration
	}{{"MaxTime", &sp.MaxTime}, {"DefaultTime", &sp.DefaultTime}} {
		text, given := p.Get(t.key)
		if !given || strings.EqualFold(text, "UNLIMITED") || strings.EqualFold(text, "INFINITE") || strings.EqualFold(text, "NONE") {
			continue
		}
		d, err := slurmspec.ParseTimeLimit(text)
		if err != nil {
			return sp, fmt.Errorf("%s=%s: %w", t.key, text, err)
		}
		if d != hpc.Unlimited {
			*t.to = d
		}
	}
	for _, m := range []struct {
		key string
		to  *int64
	}{{"DefMemPerCPU", &sp.DefMemPerCPU}, {"DefMemPerNode", &sp.DefMemPerNode}} {
		text, given := p.Get(m.key)
		if !given {
			text, given = c.Get(m.key)
		}
		if given {
			if n, err := strconv.ParseInt(text, 10, 64); err == nil {
				*m.to = n
			}
		}
	}
	share, _ := p.Get("OverSubscribe")
	sp.WholeNodes = strings.EqualFold(share, "EXCLUSIVE")
	return sp, nil
}

// simulatedCapacity is what utilization refers to.
func simulatedCapacity(name string, c *sim.Cluster) run.Cluster {
	out := run.Cluster{Name: name, Nodes: len(c.Nodes)}
	cpus := make(map[string]int, len(c.Nodes))
	for _, n := range c.Nodes {
		out.Processors += n.CPUs
		cpus[n.Name] = n.CPUs
	}
	for _, p := range c.Partitions {
		rp := run.Partition{Name: p.Name, Nodes: len(p.Nodes)}
		for _, n := range p.Nodes {
			rp.Processors += cpus[n]
		}
		out.Partitions = append(out.Partitions, rp)
	}
	return out
}
