package complete

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"rmreplay/internal/hpc"
	"rmreplay/internal/jobjson"
	"rmreplay/internal/workload"
)

type jsonSeconds = jobjson.Seconds

// partition returns the facts about a partition, or about the default partition if the name is
// empty. It returns nil if the facts are not known.
func (m *maker) partition(name string) *workload.SitePartition {
	for i := range m.c.Site.Partitions {
		if p := &m.c.Site.Partitions[i]; p.Name == name || name == "" && p.Default {
			return p
		}
	}
	return nil
}

// holds reports whether a partition can run a job: it has the nodes with their CPUs, memory, generic
// resources and features, and a long enough limit.
func holds(p *workload.SitePartition, f *fact) bool {
	return f.need.fits(p) && (p.MaxTime == 0 || f.run <= 0 || jsonSeconds(f.run) <= p.MaxTime)
}

// partitions gives each batch a partition.
func (m *maker) partitions(field *workload.MadeField) {
	names, named := namesOf(field)
	m.eachBatch(field, func(b *batch, lacking []*fact, set func(*fact)) {
		var name string
		largest := *lacking[0]
		largest.run = b.run
		if named {
			name = pick(m.rng, m.holding(names, &largest))
		} else {
			name = m.fitting(&largest)
		}
		if name == "" {
			return // the batch fits into no partition: the scheduler will report that
		}
		for _, f := range lacking {
			f.partition = name
			set(f)
		}
	})
}

// holding returns those of the named partitions that can run a job. If none of them can, it returns all of them.
func (m *maker) holding(names []weighted, f *fact) []weighted {
	able := slices.DeleteFunc(slices.Clone(names), func(w weighted) bool {
		p := m.partition(w.name)
		return p != nil && !holds(p, f)
	})
	if len(able) == 0 {
		return names
	}
	return able
}

// fitting returns the default partition or, if the job does not fit into it, the smallest partition
// into which the job fits.
func (m *maker) fitting(f *fact) (name string) {
	if p := m.partition(""); p != nil && holds(p, f) {
		return p.Name
	}
	smallest := math.MaxInt
	for i := range m.c.Site.Partitions {
		if p := &m.c.Site.Partitions[i]; holds(p, f) && p.Nodes < smallest {
			name, smallest = p.Name, p.Nodes
		}
	}
	return name
}

// exclusive draws a share of the batches whose jobs fill their nodes. These jobs then request whole nodes. A job that requests whole nodes gets
// the same CPUs, but starts only on empty nodes.
func (m *maker) exclusive(field *workload.MadeField) {
	share := between(m.rng, 0.5, 1)
	m.eachBatch(field, func(_ *batch, lacking []*fact, set func(*fact)) {
		chosen := m.rng.Float64() < share
		for _, f := range lacking {
			p := m.partition(f.partition)
			if chosen && p != nil && f.nodes > 0 && p.NodeCPUs > 0 && f.cpus >= f.nodes*p.NodeCPUs {
				f.exclusive = "node"
				set(f)
			}
		}
	})
}

// memory gives each job its memory per CPU, in MiB.
func (m *maker) memory(field *workload.MadeField) {
	const gib = 1024
	fixed, err := strconv.ParseInt(field.Rule, 10, 64)
	m.eachBatch(field, func(_ *batch, lacking []*fact, set func(*fact)) {
		factor, share := between(m.rng, 1, 2), between(m.rng, 0.25, 1)
		for _, f := range lacking {
			p := m.partition(f.partition)
			switch {
			case err == nil:
				f.memory = fixed
			case field.Rule == "used" && f.usedMemory > 0:
				f.memory = max(1, int64(math.Ceil(float64(f.usedMemory)/gib*factor/gib))) * gib
			case p != nil && !p.DefaultMemory && p.NodeCPUs > 0 && p.NodeMemory > 0:
				f.memory = max(1, int64(share*float64(p.NodeMemory)/float64(p.NodeCPUs)))
			default:
				continue
			}
			if p != nil && p.NodeCPUs > 0 && p.NodeMemory > 0 {
				f.memory = max(1, min(f.memory, p.NodeMemory/int64(p.NodeCPUs)))
			}
			set(f)
		}
	})
}

// atOnce returns two numbers from the record: the largest number of the given jobs that ran at the same time, and the
// largest number that were pending or running at the same time.
func (m *maker) atOnce(jobs []int) (running, submitted int) {
	type change struct {
		at     hpc.Time
		run, n int
	}
	var changes []change
	for _, i := range jobs {
		f := &m.facts[i]
		if f.end > 0 {
			changes = append(changes, change{f.submit, 0, 1}, change{f.end, 0, -1})
		}
		if f.start > 0 && f.end > f.start {
			changes = append(changes, change{f.start, 1, 0}, change{f.end, -1, 0})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { // at one instant, ends are before starts
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.run+a.n, b.run+b.n))
	})
	run, n := 0, 0
	for _, c := range changes {
		run, n = run+c.run, n+c.n
		running, submitted = max(running, run), max(submitted, n)
	}
	return running, submitted
}

// beside returns the jobs that, according to the record, were pending or running at the same time as jobs of a batch.
func (m *maker) beside(b *batch, jobs []int) (list []int) {
	first, last := hpc.Never, hpc.Time(0)
	for _, i := range b.jobs {
		first, last = min(first, m.facts[i].submit), max(last, m.facts[i].end)
	}
	for _, i := range jobs {
		if f := &m.facts[i]; f.submit < last && f.end > first {
			list = append(list, i)
		}
	}
	return list
}

// counting returns, in the site's order, the QOS whose limits on a user's running and submitted
// jobs admit a batch together with the user's other jobs. The numbers of jobs come from the
// record.
func (m *maker) counting(b *batch, others func(qos string) []int) (list []*workload.SiteQOS) {
	for i := range m.c.Site.QOS {
		q := &m.c.Site.QOS[i]
		if q.Running > 0 || q.Submitted > 0 {
			running, submitted := m.atOnce(slices.Concat(b.jobs, m.beside(b, others(q.Name))))
			if q.Running > 0 && running > q.Running || q.Submitted > 0 && submitted > q.Submitted {
				continue
			}
		}
		list = append(list, q)
	}
	return list
}

// fittingQOS returns the QOS of a list that a partition allows and whose limits admit the job.
func fittingQOS(all []*workload.SiteQOS, f *fact, p *workload.SitePartition) (list []*workload.SiteQOS) {
	for _, q := range all {
		allowed := p == nil || len(p.QOS) == 0 || slices.Contains(p.QOS, q.Name)
		if allowed && (q.Nodes == 0 || f.nodes <= q.Nodes) && (q.CPUs == 0 || f.cpus <= q.CPUs) &&
			(q.MaxTime == 0 || jsonSeconds(f.limit) <= q.MaxTime) {
			list = append(list, q)
		}
	}
	return list
}

// qos gives each batch a QOS that admits all its jobs: the first such QOS or, with a random probability,
// another one. A QOS that limits a user's number of jobs must also admit the user's earlier batches. If no
// QOS admits both, the earlier batches are ignored, because only the rule for users gave them to this user.
func (m *maker) qos(field *workload.MadeField) {
	names, named := namesOf(field)
	usual := between(m.rng, 0.6, 0.95)
	has := map[[2]string][]int{} // the jobs of a user in a QOS
	for i := range m.facts {
		if f := &m.facts[i]; f.qos != "" {
			has[[2]string{f.user, f.qos}] = append(has[[2]string{f.user, f.qos}], i)
		}
	}
	m.eachBatch(field, func(b *batch, lacking []*fact, set func(*fact)) {
		common, other, place := m.rng.Float64() < usual, m.rng.Float64(), ""
		var allowed []*workload.SiteQOS
		if named {
			place = pick(m.rng, names)
		} else {
			allowed = m.counting(b, func(qos string) []int { return has[[2]string{lacking[0].user, qos}] })
		}
		for _, f := range lacking {
			f.qos = place
			list := fittingQOS(allowed, f, m.partition(f.partition))
			if len(list) == 0 && !named {
				list = fittingQOS(b.qos, f, m.partition(f.partition))
			}
			if len(list) > 0 {
				f.qos = list[0].Name
				if !common && len(list) > 1 {
					f.qos = list[1+int(other*float64(len(list)-1))].Name
				}
			}
			if f.qos != "" {
				set(f)
			}
		}
		for _, i := range b.jobs {
			if f := &m.facts[i]; f.lacks(field.Field) {
				has[[2]string{f.user, f.qos}] = append(has[[2]string{f.user, f.qos}], i)
			}
		}
	})
}

// Learn learns the data of the rules "like" from a log: the limits of its batches and the shares of
// its users. If the log lacks limits or users, their part of the result is empty.
func Learn(w *workload.Workload) *workload.Likeness {
	m := newMaker(w, &workload.Completion{})
	l := &workload.Likeness{Source: w.Source}
	users := map[string]float64{}
	for i := range m.batches {
		f := &m.facts[m.batches[i].jobs[0]]
		if f.user != "" {
			users[f.user]++
		}
		if f.limit <= 0 || m.batches[i].run <= 0 {
			continue
		}
		k := runClass(m.batches[i].run)
		for len(l.Limits) <= k {
			l.Limits = append(l.Limits, nil)
		}
		l.Limits[k] = append(l.Limits[k], jsonSeconds(f.limit))
	}
	const most = 200
	for k, list := range l.Limits {
		slices.Sort(list)
		if len(list) > most {
			thin := make([]jsonSeconds, most)
			for i := range thin {
				thin[i] = list[(2*i+1)*len(list)/(2*most)]
			}
			l.Limits[k] = thin
		}
	}
	for _, n := range users {
		l.Users = append(l.Users, n/float64(len(m.batches)))
	}
	slices.SortFunc(l.Users, func(a, b float64) int { return cmp.Compare(b, a) })
	l.Users = l.Users[:min(len(l.Users), maxUsers)]
	return l
}
