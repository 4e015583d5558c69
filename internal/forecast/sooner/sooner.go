// Package sooner lists changes of a pending job that may let it start sooner: a shorter time limit, fewer nodes,
// another partition or QOS. By the site's rules ([admission.Site.Judge]), Slurm would accept each change. The package
// does not say whether a change helps: the caller must forecast the changed job.
package sooner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/experiment"
	"rmreplay/internal/forecast"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/admission"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/slurmspec"
)

// Change is a change of a pending job.
type Change struct {
	// Name is the change as an option of `scontrol update`: "TimeLimit=1:00:00".
	Name string
	// Shorter says that the time limit is shorter: Slurm kills the job if it runs longer. Fewer says
	// that the job runs on fewer nodes.
	Shorter, Fewer bool
	Request        hpc.Request
}

// The maximum numbers of other partitions and QOS in the list, and the shortest time limit.
const (
	maxPartitions = 4
	maxQOS        = 3
	minLimit      = time.Minute
)

// Changes returns the changes of a queue's job that the site allows, beginning with the changes
// that restrict the job least. dir is the site's cluster directory. Changes returns an error if
// the site's configuration cannot be read.
func Changes(q *forecast.Queue, job *hpc.Job, dir string) ([]Change, error) {
	cluster, err := experiment.OpenCluster(dir, 0)
	if err != nil {
		return nil, fmt.Errorf("listing changes of job %s: %w", job.ID, err)
	}
	site, err := experiment.Rules(q.Workload, cluster, experiment.ModelRelease)
	if err != nil {
		return nil, fmt.Errorf("listing changes of job %s: %w", job.ID, err)
	}
	f := finder{q: q, job: job, cluster: cluster, site: site}
	f.limits()
	f.partitions()
	f.qos()
	f.nodes()
	return f.list, nil
}

// finder collects changes.
type finder struct {
	q       *forecast.Queue
	job     *hpc.Job
	cluster *conf.Cluster
	site    *admission.Site
	list    []Change
}

// add adds a change if Slurm accepts it, and reports whether Slurm does.
func (f *finder) add(c Change) bool {
	changed := *f.job
	changed.Request = c.Request
	if f.site.Judge(&changed, f.q.Reservation) != nil {
		return false
	}
	f.list = append(f.list, c)
	return true
}

// limits adds changes to a half and a quarter of the time limit, in whole minutes as in slurmctld.
func (f *finder) limits() {
	limit := f.job.TimeLimit
	if limit == 0 {
		for i := range f.cluster.Partitions {
			if p := &f.cluster.Partitions[i]; p.Name == f.job.Partition {
				limit = p.DefaultLimit()
			}
		}
	}
	if limit == hpc.Unlimited {
		return
	}
	for _, part := range []time.Duration{2, 4} {
		shorter := (limit / part).Truncate(time.Minute)
		if shorter < minLimit || shorter < f.job.TimeMin {
			return
		}
		request := f.job.Request
		request.TimeLimit = shorter
		f.add(Change{Name: "TimeLimit=" + slurmspec.FormatSpan(shorter), Shorter: true, Request: request})
	}
}

// partitions adds the other partitions, the partitions with the most nodes first.
func (f *finder) partitions() {
	own := strings.Split(f.job.Partition, ",")
	others := slices.DeleteFunc(slices.Clone(f.cluster.Partitions), func(p conf.Partition) bool {
		return slices.Contains(own, p.Name) || f.job.Partition == "" && p.Default
	})
	slices.SortStableFunc(others, func(a, b conf.Partition) int { return len(b.Nodes) - len(a.Nodes) })
	n := 0
	for i := range others {
		request := f.job.Request
		request.Partition = others[i].Name
		if n < maxPartitions && f.add(Change{Name: "Partition=" + others[i].Name, Request: request}) {
			n++
		}
	}
}

// qos adds the other QOS that the user's association has and the partition allows.
func (f *finder) qos() {
	commands, _ := f.cluster.AccountCommands(f.q.Workload.Submitters())
	declared := admission.Declared(f.cluster, commands)
	names := make([]string, 0, len(declared.QOS))
	for name := range declared.QOS {
		names = append(names, name)
	}
	slices.Sort(names)
	n := 0
	for _, name := range names {
		if strings.EqualFold(name, f.job.QOS) {
			continue
		}
		request := f.job.Request
		request.QOS = name
		if n < maxQOS && f.add(Change{Name: "QOS=" + name, Request: request}) {
			n++
		}
	}
}

// nodes adds half of the nodes, with half of the tasks.
func (f *finder) nodes() {
	r := f.job.Request
	if r.MinNodes < 2 || r.NodeList != "" {
		return
	}
	half := (r.MinNodes + 1) / 2
	r.Tasks = (r.Tasks*half + r.MinNodes - 1) / r.MinNodes
	r.MaxNodes = max(half, r.MaxNodes/2)
	if f.job.MaxNodes == 0 {
		r.MaxNodes = 0
	}
	r.MinNodes = half
	name := fmt.Sprintf("NumNodes=%d", half)
	if r.Tasks > 0 {
		name += fmt.Sprintf(" NumTasks=%d", r.Tasks)
	}
	f.add(Change{Name: name, Fewer: true, Request: r})
}
