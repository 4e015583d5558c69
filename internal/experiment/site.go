package experiment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/jobjson"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm/slurm/admission"
	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurmmodel/keys"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/complete"
)

// countsMemory reports whether Slurm allocates memory to jobs.
func countsMemory(c *conf.Cluster) bool {
	parameters, _ := c.On(slurmspec.R2205)("SelectTypeParameters")
	return strings.Contains(strings.ToLower(parameters), "memory")
}

// Site returns those facts about a cluster that package complete uses to choose missing values of a workload. Hidden
// and down partitions are left out. The default partition is slurm.conf's default or, if slurm.conf names no default,
// the largest partition.
func Site(c *conf.Cluster) workload.SiteFacts {
	facts := workload.SiteFacts{Processors: capacity(c).Processors, QOS: siteQOS(c), CountsMemory: countsMemory(c)}
	if kind, _ := c.On(slurmspec.R2205)("PriorityType"); strings.EqualFold(kind, "priority/multifactor") {
		if halfLife, err := decayHalfLife(c); err == nil {
			facts.HalfLife = jobjson.Seconds(halfLife)
		}
	}
	largest, named := -1, c.DefaultPartition()
	for _, p := range c.Partitions {
		if !open(p) {
			continue
		}
		facts.Partitions = append(facts.Partitions, sitePartition(c, p))
		at := len(facts.Partitions) - 1
		if p.Name == named || named == "" && (largest < 0 || len(p.Nodes) > facts.Partitions[largest].Nodes) {
			largest = at
		}
	}
	if largest >= 0 {
		facts.Partitions[largest].Default = true
	}
	return facts
}

// open reports whether users may see a partition and run jobs in it.
func open(p conf.Partition) bool {
	hidden, _ := p.Get("Hidden")
	_, starts := slurmspec.PartitionState(p.Get)
	return !strings.EqualFold(hidden, "YES") && starts
}

func sitePartition(c *conf.Cluster, p conf.Partition) workload.SitePartition {
	sp := workload.SitePartition{Name: p.Name, Nodes: len(p.Nodes), NodeList: hostlist.Compress(p.Nodes),
		MaxNodes: int(keys.Number(p.Get, "MaxNodes", 0))}
	text, _ := p.Get("MaxTime")
	if d, err := slurmspec.ParseTimeLimit(text); err == nil && d != hpc.Unlimited {
		sp.MaxTime = jobjson.Seconds(d)
	}
	for _, name := range p.AllowQOS {
		sp.QOS = append(sp.QOS, strings.ToLower(name))
	}
	for _, name := range p.Nodes {
		if i, known := c.Node(name); known {
			sp.AddNode(&c.Nodes[i])
		}
	}
	for _, key := range []string{"DefMemPerCPU", "DefMemPerNode"} {
		_, own := p.Get(key)
		_, all := c.Get(key)
		sp.DefaultMemory = sp.DefaultMemory || own || all
	}
	return sp
}

// siteQOS returns the QOS that the cluster's commands for sacctmgr declare. The usual QOS come first: QOS with the name
// of a partition, and QOS that Slurm itself makes. All others follow in the order of their names. Without commands for
// sacctmgr, siteQOS returns the QOS that the partitions need, without limits.
func siteQOS(c *conf.Cluster) (list []workload.SiteQOS) {
	if c.Accounts == nil {
		return neededQOS(c)
	}
	declared := admission.Declared(c, c.Accounts)
	for name, policy := range declared.Policies {
		q := workload.SiteQOS{Name: name}
		if policy.MaxWall != nil {
			q.MaxTime = jobjson.Seconds(time.Duration(*policy.MaxWall) * time.Minute)
		}
		q.Nodes, q.CPUs = maxPerJob(policy, "node"), maxPerJob(policy, "cpu")
		if policy.MaxJobs != nil {
			q.Running = int(*policy.MaxJobs)
		}
		if policy.MaxSubmit != nil {
			q.Submitted = int(*policy.MaxSubmit)
		}
		list = append(list, q)
	}
	usual := func(q workload.SiteQOS) int {
		if q.Name == "normal" || slices.ContainsFunc(c.Partitions, func(p conf.Partition) bool { return strings.EqualFold(p.Name, q.Name) }) {
			return 0
		}
		return 1
	}
	slices.SortFunc(list, func(a, b workload.SiteQOS) int {
		return cmp.Or(cmp.Compare(usual(a), usual(b)), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// administrators has strings that occur in the names of QOS for administrators.
var administrators = []string{"adm", "root", "maint", "operator", "sysop"}

// ordinary returns the first QOS of a list that ordinary users probably may use. It skips QOS with an administrators'
// name, and QOS that a hidden or down partition allows, because these are probably for maintenance. If no QOS is left,
// ordinary returns the first QOS of the list.
func ordinary(c *conf.Cluster, names []string) string {
	for _, name := range names {
		lower := strings.ToLower(name)
		kept := slices.ContainsFunc(administrators, func(part string) bool { return strings.Contains(lower, part) }) ||
			slices.ContainsFunc(c.Partitions, func(p conf.Partition) bool {
				return !open(p) && slices.ContainsFunc(p.AllowQOS, func(q string) bool { return strings.EqualFold(q, name) })
			})
		if !kept {
			return name
		}
	}
	return names[0]
}

// neededQOS returns a QOS for each open partition: the QOS with the partition's name or, if it
// does not exist, the first QOS that the partition allows and that ordinary users may use. If
// every partition allows the QOS normal, the list is nil.
func neededQOS(c *conf.Cluster) (list []workload.SiteQOS) {
	const own = "normal"
	needed := false
	for _, p := range c.Partitions {
		if !open(p) {
			continue
		}
		name := own
		allows := func(name string) bool {
			return slices.ContainsFunc(p.AllowQOS, func(q string) bool { return strings.EqualFold(q, name) })
		}
		if len(p.AllowQOS) > 0 && !allows(own) {
			needed, name = true, strings.ToLower(ordinary(c, p.AllowQOS))
			if allows(p.Name) {
				name = strings.ToLower(p.Name)
			}
		}
		if !slices.ContainsFunc(list, func(q workload.SiteQOS) bool { return q.Name == name }) {
			list = append(list, workload.SiteQOS{Name: name})
		}
	}
	if !needed {
		return nil
	}
	return list
}

// maxPerJob returns how much of a resource a QOS allows for one job; 0 without a limit. Limits per user, per account
// and of the whole QOS count as well, because a job that exceeds one of these limits never starts.
func maxPerJob(policy *associations.Policy, resource string) (most int) {
	for _, limits := range []associations.TRES{policy.MaxTRESPerJob, policy.MaxTRESPerUser, policy.MaxTRESPerAccount, policy.GrpTRES} {
		if limit, set := limits[resource]; set && limit > 0 && (most == 0 || int(limit) < most) {
			most = int(limit)
		}
	}
	return most
}

// draw returns the run for a realization of a set. In its workload, the fields that were not
// recorded are drawn again. If rules made no field, draw returns p itself.
func (p *Prepared) draw(set Set, r *Realization) (*Prepared, error) {
	if p.workload.Completion == nil {
		return p, nil
	}
	one := *p
	var err error
	one.workload, err = complete.Redraw(p.workload, func(place int, _ workload.Field) uint64 {
		return set.drawOf(place, len(p.workload.Completion.Fields), r.Number, p.spec.Seed)
	})
	if err != nil {
		return nil, inputError(err)
	}
	one.controller, err = replay.NewControllers(one.workload, p.spec.Users)
	return &one, inputError(err)
}

// drawOf returns the seed with which a realization draws a field. number is the number of the realization, and place is
// the index of the field. In the first half of the realizations, realization i has draw i of every field. The second
// half uses the same draws of each field once more, in a different order for each field, so two realizations share the
// draw of at most one field. The correlation of the results of two realizations that share a draw is the part of the
// variance that this field causes. The method is replicated sampling (McKay, NUREG/CR-6311, 1995; Mara and Rakoto
// Joseph, J. Stat. Comput. Simul. 78, 2008). If a half has fewer realizations than there are fields, there are too few
// orders, and no draw is used twice.
func (s Set) drawOf(place, fields, number int, seed uint64) uint64 {
	i, half := number-1, s.Count/2
	if i < half || i >= 2*half || half < fields {
		return seed + uint64(i)
	}
	return seed + uint64((i-half+place)%half)
}

// DrawnAnew returns a text that names the fields that each realization of a workload draws again;
// "" if it draws no field.
func DrawnAnew(fields []workload.MadeField) string {
	var parts []string
	for _, f := range fields {
		parts = append(parts, fmt.Sprintf("%s (%s)", f.Field.Words(), f.Rule))
	}
	return strings.Join(parts, ", ")
}

// withMade returns a cluster whose commands for sacctmgr also make those users, accounts and QOS of a workload that
// rules made.
func withMade(c *conf.Cluster, w *workload.Workload) *conf.Cluster {
	if w.Completion == nil {
		return c
	}
	accounts, _ := c.AccountCommands(w.Submitters())
	declared := admission.Declared(c, accounts)
	commands := complete.Associations(w, declared.Accounts, declared.QOS, declared.Has)
	if commands == "" {
		return c
	}
	with := *c
	with.Accounts = slices.Concat(accounts, []byte("\n"+commands))
	with.AccountsFile = cmp.Or(c.AccountsFile, "the made accounts")
	return &with
}
