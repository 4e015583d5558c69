package experiment

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"rmreplay/internal/bundle"
	"rmreplay/internal/hpc"
	"rmreplay/internal/output"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/conf/syntax"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/transform"
)

// OpenCluster reads a cluster: path is its directory, its slurm.conf, or a bundle. It multiplies
// the number of nodes by factor unless factor is 0. It fails with an [InputError].
func OpenCluster(path string, factor float64) (*conf.Cluster, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, inputError(fmt.Errorf("reading cluster: %w", err))
	}
	open := conf.OpenFile
	switch {
	case info.IsDir():
		open = conf.Open
	case bundle.IsFile(path):
		open = openBundled
	}
	c, err := open(path)
	if err == nil && factor != 0 && factor != 1 {
		c, err = c.Scale(factor)
	}
	return c, inputError(err)
}

// machine is a simulated cluster, with the facts that checks of a workload use.
type machine struct {
	cluster *conf.Cluster
	facts   workload.Cluster
}

// open reads the simulated cluster, unless a run that shares it has read it.
func (s *Simulator) open() (m machine, err error) {
	if s.Opened != nil {
		return s.Opened()
	}
	if m.cluster, err = OpenCluster(s.Cluster, s.NodeFactor); err == nil {
		m.facts = ClusterFacts(m.cluster)
	}
	return m, err
}

// Sharing returns a specification whose simulations read the cluster only once. Later changes of its files have no
// effect.
func (s Spec) Sharing() Spec {
	if s.Simulator != nil && s.Simulator.Opened == nil {
		simulator := *s.Simulator
		simulator.Opened = sync.OnceValues(s.Simulator.open)
		s.Simulator = &simulator
	}
	return s
}

// openBundled reads the cluster in a bundle. It unpacks the files into a temporary directory, and removes the directory
// after reading. Errors name the bundle instead of the temporary directory.
func openBundled(path string) (*conf.Cluster, error) {
	files, err := bundle.ReadCluster(path)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "rmreplay-bundle-")
	if err != nil {
		return nil, fmt.Errorf("reading bundle: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // an error leaves only temporary files
	for name, text := range files {
		if err := output.Text(filepath.Join(dir, name), text); err != nil {
			return nil, fmt.Errorf("reading bundle: %w", err)
		}
	}
	c, err := conf.Open(dir)
	if err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), dir, path))
	}
	c.Path, c.AccountsFile = strings.Replace(c.Path, dir, path, 1), strings.Replace(c.AccountsFile, dir, path, 1)
	for i := range c.Warnings {
		c.Warnings[i] = strings.ReplaceAll(c.Warnings[i], dir, path)
	}
	for _, list := range [][]conf.Statement{c.Statements, c.GRES, c.Topology} {
		for i := range list {
			list[i].File = strings.Replace(list[i].File, dir, path, 1)
		}
	}
	return c, nil
}

// ClusterFacts returns the facts about a cluster that the checks of a workload use.
func ClusterFacts(c *conf.Cluster) workload.Cluster {
	known := workload.Cluster{
		Partitions: map[string]int{}, Features: map[string]bool{}, Nodes: len(c.Nodes), NodeNames: map[string]bool{},
		MaxArraySize: maxArraySize(c), WholeMemory: map[string]bool{},
	}
	for _, p := range c.Partitions {
		known.Partitions[p.Name] = len(p.Nodes)
	}
	if site := Site(c); site.CountsMemory {
		for _, p := range site.Partitions {
			known.WholeMemory[p.Name] = !p.DefaultMemory
			if p.Default {
				known.WholeMemory[""] = !p.DefaultMemory
			}
		}
	}
	for _, n := range c.Nodes {
		known.NodeNames[n.Name] = true
		for _, f := range n.Features {
			known.Features[f] = true
		}
	}
	if c.Users != nil {
		known.Users = map[string]bool{}
		for _, u := range c.Users {
			known.Users[u.Name] = true
		}
	}
	return known
}

// maxArraySize returns one more than the largest index of a job array. It returns 0, which means
// unknown, if the configured value cannot be read.
func maxArraySize(c *conf.Cluster) int {
	const byDefault = 1001 // slurm.conf(5), MaxArraySize
	value, ok := c.Get("MaxArraySize")
	if !ok {
		return byDefault
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		return 0
	}
	return n
}

// Partitions returns the facts about a cluster that transforms of a workload use. The map also
// has the default partition under the empty name.
func Partitions(c *conf.Cluster) map[string]transform.Partition {
	partitions := map[string]transform.Partition{}
	for _, p := range c.Partitions {
		t := transform.Partition{MaxTime: hpc.Unlimited, Nodes: len(p.Nodes)}
		if text, ok := p.Get("MaxTime"); ok {
			if d, err := slurmspec.ParseTimeLimit(text); err == nil {
				t.MaxTime = d
			}
		}
		t.DefaultTime = min(cmp.Or(p.DefaultLimit(), hpc.Unlimited), t.MaxTime)
		partitions[p.Name] = t
		if p.Default {
			partitions[""] = t
		}
	}
	return partitions
}

// capacity returns the size of the machine, from which utilization is computed.
func capacity(c *conf.Cluster) run.Cluster {
	out := run.Cluster{Name: c.Name, Nodes: len(c.Nodes)}
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

// simulatedCluster returns the cluster of a site in the simulator's form.
func simulatedCluster(c *conf.Cluster) (*sim.Cluster, error) {
	kind, _ := c.Get("SelectType")
	dependencies, _ := c.Get("DependencyParameters")
	out := &sim.Cluster{
		Nodes:             slices.Clone(c.Nodes),
		CountMemory:       countsMemory(c),
		WholeNodes:        strings.EqualFold(kind, "select/linear"),
		MaxArraySize:      maxArraySize(c),
		KillInvalidDepend: strings.Contains(strings.ToLower(dependencies), "kill_invalid_depend"),
	}
	var err error
	if out.MinJobAge, err = minJobAge(c); err != nil {
		return nil, err
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

// minJobAge returns the time after a job's end at which slurmctld removes the job; 0 if it never removes jobs.
func minJobAge(c *conf.Cluster) (time.Duration, error) {
	const byDefault = 300 * time.Second // slurm.conf(5), MinJobAge
	value, ok := c.Get("MinJobAge")
	if !ok {
		return byDefault, nil
	}
	n, err := syntax.ParseUint(value, math.MaxUint32) // as slurmctld reads it
	if err != nil {
		return 0, fmt.Errorf("MinJobAge=%s: %w", value, err)
	}
	return time.Duration(n) * time.Second, nil
}

func simulatedPartition(c *conf.Cluster, p conf.Partition) (sim.Partition, error) {
	sp := sim.Partition{Name: p.Name, Nodes: p.Nodes, Default: p.Default}
	for _, t := range []struct {
		key string
		to  *time.Duration
	}{{"MaxTime", &sp.MaxTime}, {"DefaultTime", &sp.DefaultTime}} {
		text, given := p.Get(t.key)
		if !given || slices.Contains([]string{"UNLIMITED", "INFINITE", "NONE"}, strings.ToUpper(text)) {
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
	accepts, starts := slurmspec.PartitionState(p.Get)
	sp.Closed, sp.Stopped = !accepts, !starts
	share, _ := p.Get("OverSubscribe")
	sp.WholeNodes = strings.EqualFold(share, "EXCLUSIVE")
	return sp, nil
}
