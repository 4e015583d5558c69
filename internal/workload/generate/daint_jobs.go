package generate

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/workload"
)

// pool is the nodes of one kind at the window's start, by number.
type pool struct {
	free []int
	down []int
}

// The numbers of nodes, by kind, that are out of service when the window begins.
var downAtStart = [2]int{12, 5}

// place puts the preset jobs on nodes of their kind. The placement resembles that of a machine
// after long use. Each job gets a range of free nodes, mostly neighbours, with gaps.
func (g *daint) place() {
	for k := range g.pools {
		p := &pool{}
		g.pools[k] = p
		for i := range kind(k).count() {
			p.free = append(p.free, kind(k).first()+i)
		}
		for range downAtStart[k] {
			i := g.rng.IntN(len(p.free))
			p.down = append(p.down, p.free[i])
			p.free = slices.Delete(p.free, i, i+1)
		}
	}
	for _, d := range g.presets {
		p := g.pools[d.kind]
		at := g.rng.IntN(len(p.free) - d.nodes + 1)
		d.taken = slices.Clone(p.free[at : at+d.nodes])
		p.free = slices.Delete(p.free, at, at+d.nodes)
	}
}

func nodeName(number int) string { return fmt.Sprintf("nid%05d", number) }

func nodeList(numbers []int) string {
	names := make([]string, len(numbers))
	for i, n := range slices.Sorted(slices.Values(numbers)) {
		names[i] = nodeName(n)
	}
	return hostlist.Compress(names)
}

// jobsOfDays makes jobs of all drafts.
func (g *daint) jobsOfDays() {
	for _, d := range g.presets {
		g.jobs = append(g.jobs, g.presetJob(d))
	}
	for i, day := range g.days {
		times := g.arrivals(i, len(day))
		for n, d := range day {
			job := g.job(d)
			job.Submit = times[n]
			g.fate(job)
			g.jobs = append(g.jobs, job)
		}
	}
	g.backlog()
	sortJobs(g.jobs)
	for i, job := range g.jobs {
		job.ID = fmt.Sprintf("j%06d", i+1)
	}
	g.dependencies()
}

// daintHours are the hourly submissions of Fig. 4: people work from morning to evening, and
// scripts submit at night too.
var daintHours = []float64{
	6, 5, 5, 5, 5, 5, 5, 7, 11, 16, 18, 17, 14, 16, 18, 19, 17, 14, 11, 9, 8, 8, 7, 7,
}

// arrivals returns n instants of a day, in whole seconds and in order.
func (g *daint) arrivals(day, n int) []hpc.Time {
	list := make([]hpc.Time, n)
	for i := range list {
		hour := pick(g.rng, daintHours)
		list[i] = daintStart.Add(time.Duration(day)*24*time.Hour + time.Duration(hour)*time.Hour +
			time.Duration(g.rng.IntN(3600))*time.Second)
	}
	slices.SortFunc(list, cmp.Compare)
	return list
}

// tasksPerNode are the usual numbers of tasks per node, by kind of node: one per node, one per
// core, or a number in between.
var tasksPerNode = [2][]int{{1, 12, 12, 12, 4}, {36, 36, 36, 18, 1}}

// job makes a job of a draft, without its submit time.
func (g *daint) job(d *draft) *hpc.Job {
	who := g.people.someone(g.rng)
	job := &hpc.Job{}
	job.Name = jobNames[g.rng.IntN(len(jobNames))]
	job.User, job.Account, job.Partition = who.name, who.account, d.partition
	job.Constraint = d.kind.feature()
	job.MinNodes, job.MaxNodes = d.nodes, d.nodes
	choice := tasksPerNode[d.kind]
	job.TasksPerNode = choice[g.rng.IntN(len(choice))]
	job.Tasks = job.TasksPerNode * d.nodes
	most := d.maxRunTime
	if most == 0 {
		most = 24 * time.Hour
	}
	if d.timesOut {
		job.TimeLimit, job.RunTime = d.runTime, hpc.Unlimited
	} else {
		need := d.runTime + min(d.runTime/50, 10*time.Minute) + time.Second
		job.TimeLimit, job.RunTime = who.limit(g.rng, min(need, most), most), d.runTime
	}
	return job
}

var jobNames = []string{"md", "cp2k", "lattice", "climate", "cfd", "dft", "train", "post", "test", "sweep", "hydro",
	"plasma"}

// presetJob makes a job that runs when the window begins.
func (g *daint) presetJob(d *draft) *hpc.Job {
	job := g.job(d)
	start := daintStart.Add(-d.age)
	wait := min(time.Duration(g.rng.ExpFloat64()*float64(2*time.Hour)), 24*time.Hour).Round(time.Second)
	job.Submit = start.Add(-wait)
	state := hpc.Completed
	if d.timesOut {
		state = hpc.TimedOut
	}
	job.Recorded = &hpc.Recorded{
		Eligible: job.Submit, Start: start, End: start.Add(d.runTime), State: state,
		Nodes: nodeList(d.taken), Processors: d.nodes * d.kind.cpus(),
	}
	return job
}

// fate makes some jobs fail, and makes users cancel some of the short jobs.
func (g *daint) fate(job *hpc.Job) {
	switch f := g.rng.IntN(100); {
	case f < 6 && job.RunTime != hpc.Unlimited:
		job.ExitCode = []int{1, 1, 2, 127, 139}[g.rng.IntN(5)]
	case f < 8 && job.RunTime <= time.Hour:
		job.CancelAfter = time.Minute + time.Duration(g.rng.ExpFloat64()*float64(30*time.Minute)).Round(time.Second)
	}
}

// backlogJobs is the number of the first day's GPU jobs that wait when the window begins, because
// a full machine has a queue.
const backlogJobs = 120

// backlog moves the submissions of some of the first day's GPU jobs before the window.
func (g *daint) backlog() {
	first := g.jobs[presetJobs : presetJobs+len(g.days[0])]
	n := 0
	for _, i := range g.rng.Perm(len(first)) {
		job := first[i]
		if n == backlogJobs || job.Partition != "normal" || job.Constraint != gpu.feature() || job.CancelAfter > 0 {
			continue
		}
		job.Submit = daintStart.Add(-time.Minute - time.Duration(g.rng.ExpFloat64()*float64(90*time.Minute)).Round(
			time.Second))
		n++
	}
}

// dependencies makes some of the new jobs depend on an earlier job of the same user.
func (g *daint) dependencies() {
	latest := map[string]*hpc.Job{}
	for _, job := range g.jobs {
		if job.Recorded != nil || job.Submit < daintStart {
			continue
		}
		earlier := latest[job.User]
		latest[job.User] = job
		if earlier == nil || g.rng.IntN(16) > 0 || job.Submit.Sub(earlier.Submit) > 2*time.Hour {
			continue
		}
		job.Dependency = "afterany:" + earlier.ID
		if earlier.ExitCode == 0 && earlier.CancelAfter == 0 && earlier.RunTime != hpc.Unlimited {
			job.Dependency = "afterok:" + earlier.ID
		}
	}
}

func (g *daint) workload(seed uint64) *workload.Workload {
	return &workload.Workload{
		Jobs: workload.JobsOf(g.jobs...), NodeEvents: g.nodeEventList, Reservations: g.reservationList,
		Start: daintStart, Epoch: daintStart, Usage: g.people.usage(),
		Source: fmt.Sprintf("rmreplay daint, %d %s, seed %d", len(g.days),
			quantity.Plural(len(g.days), "day", "days"), seed),
	}
}
