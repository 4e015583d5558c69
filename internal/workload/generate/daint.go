package generate

import (
	"cmp"
	"embed"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// The machine, as daint/slurm.conf has it: GPU nodes first, then multicore nodes.
const (
	gpuNodes    = 5320
	mcNodes     = 1819
	gpuNodeCPUs = 24
	mcNodeCPUs  = 72
)

// What the day is made to (section V.B): the share of the nodes that the preset jobs
// hold when the window begins, and the share of the node-hours of every day that the
// jobs ask for.
const (
	gpuLoad = 0.97
	mcLoad  = 0.54
)

// The jobs of the day (section V.B).
const (
	dayJobs    = 6025
	presetJobs = 783
	newJobs    = dayJobs - presetJobs
	mcJobs     = 2409 // of the new ones
	otherJobs  = 169  // of the new ones, in other partitions than normal

	fiveDaysJobs = 35162 // of the five days of section VI.C
)

// DefaultGPULoad is the share of the GPU nodes' node-hours that the jobs of the paper's
// day ask for.
const DefaultGPULoad = gpuLoad

// DaintOptions say how long a trace [Daint] makes.
type DaintOptions struct {
	// Days is how many days jobs are submitted; 1 if 0 and Jobs does not ask for more.
	Days int
	// Jobs is how many jobs there are in all, at least those of a day (6,025). If 0,
	// there are as many as load the machine evenly. With other numbers the days may not
	// come to the loads that are wanted: [DaintDays.Loads] has what they came to.
	Jobs int
	// GPULoad is the share of the GPU nodes' node-hours that the jobs of a day ask for.
	// With more than 1 a queue builds up, as on the saturated days of section VIII; the
	// first day then has more jobs than Table I, and with less than 0.97 fewer.
	GPULoad float64
	Seed    uint64
}

// DaintDays is what [Daint] makes.
type DaintDays struct {
	Workload *workload.Workload
	Files    map[string]string // those of the cluster directory, by name
	Loads    []Load            // of the GPU nodes, then of the multicore nodes
}

// Load is the share of the node-hours of one kind of nodes that the jobs of each day ask
// for, preset jobs with what is left of them.
type Load struct {
	Feature string // of the nodes
	Nodes   string // what people call them
	Wanted  float64
	Days    []float64
}

// Lowest is the least of the days' loads.
func (l *Load) Lowest() float64 { return slices.Min(l.Days) }

// Highest is the greatest of them.
func (l *Load) Highest() float64 { return slices.Max(l.Days) }

// Mean is their average.
func (l *Load) Mean() float64 {
	total := 0.0
	for _, x := range l.Days {
		total += x
	}
	return total / float64(len(l.Days))
}

// nearLoad is how near the days come to a load, of the node-hours of the nodes.
const nearLoad = 0.01

// Met reports whether every day comes within one per cent of the nodes' node-hours to
// what is wanted.
func (l *Load) Met() bool {
	return l.Highest()-l.Wanted <= nearLoad && l.Wanted-l.Lowest() <= nearLoad
}

// daintStart is the window's start: the day of Table I, in the site's own time.
var daintStart = hpc.Time(time.Date(2017, 10, 6, 0, 0, 0, 0, time.UTC).UnixNano())

//go:embed daint
var daintCluster embed.FS

// Daint makes days of a machine like Piz Daint, and the files of its cluster directory,
// after Martinasso et al., "RM-Replay" (SC'18), section V.
//
// The first day has exactly the jobs of the paper's Table I by nodes and duration, of
// which 783 run when the window begins; they hold 97 % of the GPU nodes and 54 % of the
// multicore nodes. Every day, the jobs ask for as much of the node-hours of either kind.
// A further day has no preset jobs of its own, so it takes more new ones, of the same
// mix, to load the machine as much. The error says which option is not possible; a number
// of jobs is not that leaves a day without any, or asks for more than three times the
// machine.
func Daint(o DaintOptions) (*DaintDays, error) {
	switch {
	case o.Days < 0:
		return nil, fmt.Errorf("days %d: negative", o.Days)
	case o.Days > maxDays:
		return nil, fmt.Errorf("days %d: more than %d", o.Days, maxDays)
	case o.Jobs != 0 && o.Jobs < dayJobs:
		return nil, fmt.Errorf("jobs %d: fewer than the %d of a day", o.Jobs, dayJobs)
	case o.Jobs > maxDays*maxJobsPerDay:
		return nil, fmt.Errorf("jobs %d: more than %d", o.Jobs, maxDays*maxJobsPerDay)
	}
	if !(o.GPULoad >= leastLoad && o.GPULoad <= mostLoad) {
		return nil, fmt.Errorf("gpu-load %g: not a load (want %g to %g)", o.GPULoad, leastLoad, mostLoad)
	}
	g := &daint{rng: rand.New(rand.NewPCG(o.Seed, 0x6461696e74))}
	g.people = newPeople(g.rng)
	if err := g.draw(o); err != nil {
		return nil, err
	}
	g.place()
	g.jobsOfDays()
	g.reservations()
	g.nodeEvents()
	w := g.workload(o.Seed)
	files := map[string]string{"users": g.people.usersFile(), "accounts.sacctmgr": g.people.accountsFile()}
	for _, name := range []string{"slurm.conf", "gres.conf", "topology.conf"} {
		text, err := daintCluster.ReadFile("daint/" + name)
		if err != nil {
			panic(err) // the files are part of the binary
		}
		files[name] = string(text)
	}
	return &DaintDays{Workload: w, Files: files, Loads: g.loads}, nil
}

// The loads that can be asked for. Below, there is no room beside the preset jobs.
const (
	leastLoad = 0.5
	mostLoad  = 3.0
)

// More than anybody asks for, and little enough to be made in memory.
const (
	maxDays       = 366
	maxJobsPerDay = 50000
)

// daint is a workload in the making.
type daint struct {
	rng     *rand.Rand
	people  *people
	presets []*draft
	days    [][]*draft // new jobs by day
	loads   []Load     // by kind
	pools   [2]*pool   // by kind
	jobs    []*hpc.Job

	nodeEventList   []hpc.NodeEvent
	reservationList []hpc.ReservationEvent
	reserved        map[int]bool // nodes that some reservation is for
}

// kind is a kind of nodes.
type kind int

const (
	gpu kind = iota
	mc
)

// feature is what a job asks for.
func (k kind) feature() string { return [...]string{"gpu", "mc"}[k] }

// String is what people call the kind.
func (k kind) String() string { return [...]string{"GPU", "multicore"}[k] }

// first and count are the kind's nodes, numbered from 1.
func (k kind) first() int    { return [...]int{1, gpuNodes + 1}[k] }
func (k kind) count() int    { return [...]int{gpuNodes, mcNodes}[k] }
func (k kind) cpus() int     { return [...]int{gpuNodeCPUs, mcNodeCPUs}[k] }
func (k kind) load() float64 { return [...]float64{gpuLoad, mcLoad}[k] }

// dayWork is what a day's jobs are to ask for of the kind, in node-hours.
func (k kind) dayWork() float64 { return 24 * float64(k.count()) * k.load() }

// draw decides how many jobs there are on each day, and the size and run time of all.
func (g *daint) draw(o DaintOptions) error {
	first := table(g.rng)
	for _, d := range first {
		d.shape(neutral)
	}
	pinLargest(first)
	rest := g.choosePresets(first)
	wanted := gpu.dayWork()*o.GPULoad/gpuLoad + mc.dayWork()
	left := g.presetWork(gpu) + g.presetWork(mc)
	counts := dayCounts(o, rest, wanted, left)
	if least := slices.Min(counts); least <= 0 {
		return fmt.Errorf("jobs %d: too few for %d days, some of which would have none (want more jobs, or fewer days)", o.Jobs, len(counts))
	}
	for i, n := range counts {
		day, target := rest, wanted-left
		if i > 0 {
			target = wanted
		}
		if i > 0 || n != len(rest) {
			day = more(g.rng, rest, n)
		}
		bendTo(day, target)
		mcWork := mc.dayWork()
		if i == 0 {
			mcWork -= g.presetWork(mc)
		}
		g.assign(day, mcWork)
		g.days = append(g.days, day)
	}
	return g.measure(o)
}

// measure finds what the days' jobs ask for of either kind of nodes. More than can be
// asked for by a load cannot be asked for by a number of jobs either.
func (g *daint) measure(o DaintOptions) error {
	for _, k := range []kind{gpu, mc} {
		load := Load{Feature: k.feature(), Nodes: k.String(), Wanted: k.load()}
		if k == gpu {
			load.Wanted = o.GPULoad
		}
		for i, day := range g.days {
			work := 0.0
			if i == 0 {
				work = g.presetWork(k)
			}
			for _, d := range day {
				if d.kind == k {
					work += d.work()
				}
			}
			load.Days = append(load.Days, work/(24*float64(k.count())))
		}
		if most := load.Highest(); o.Jobs != 0 && most > mostLoad+nearLoad {
			return fmt.Errorf("jobs %d: ask for %.2f times the %s nodes' node-hours on one of %d days (want at most %g: fewer jobs, or more days)",
				o.Jobs, most, k, len(g.days), mostLoad)
		}
		g.loads = append(g.loads, load)
	}
	return nil
}

// pinLargest makes the three longest of the class of 65 to 128 nodes what the paper says.
func pinLargest(list []*draft) {
	i := 0
	for _, d := range list {
		if i < len(largest) && d.size == 7 && d.duration == 5 {
			d.nodes, d.runTime, d.timesOut, d.pinned = largest[i].nodes, largest[i].runTime, false, true
			i++
		}
	}
}

// dayCounts is how many new jobs each day has. Every day wants so many node-hours, of
// which the preset jobs bring some to the first.
func dayCounts(o DaintOptions, rest []*draft, wanted, left float64) []int {
	mean := 0.0
	for _, d := range rest {
		mean += d.work() / float64(len(rest))
	}
	// On a day without preset jobs. At the paper's load it has at least what the five days
	// of section VI.C had, and so it has where only the number of jobs is given.
	even := int(math.Round(wanted / mean))
	if o.GPULoad >= gpuLoad || o.Jobs != 0 {
		even = max(even, (fiveDaysJobs-dayJobs+3)/4)
	}
	days := max(o.Days, 1)
	if o.Days == 0 && o.Jobs > dayJobs {
		days = 1 + int(math.Round(float64(o.Jobs-dayJobs)/float64(even)))
	}
	counts := make([]int, days)
	counts[0] = newJobs
	if o.GPULoad != gpuLoad {
		counts[0] = max(int(math.Round((wanted-left)/mean)), newJobs/4)
	}
	if o.Jobs == 0 {
		for i := 1; i < days; i++ {
			counts[i] = even
		}
		return counts
	}
	if days == 1 {
		counts[0] = o.Jobs - presetJobs
		return counts
	}
	further := max(o.Jobs-presetJobs-counts[0], 0)
	for i := 1; i < days; i++ { // spread evenly
		counts[i] = further*i/(days-1) - further*(i-1)/(days-1)
	}
	return counts
}

// bendTo shapes the jobs so that they ask for so many node-hours, as far as they can
// in their cells.
func bendTo(list []*draft, want float64) {
	work := func(bend float64) float64 {
		total := 0.0
		for _, d := range list {
			if !d.pinned {
				d.shape(bend)
			}
			total += d.work()
		}
		return total
	}
	work(bisect(0, 1, want, work))
}

// choosePresets takes the jobs that run when the window begins out of the list, and
// returns the rest. A job is the more likely to be found running the longer it runs;
// how much its size counts is what brings their nodes to the load.
func (g *daint) choosePresets(list []*draft) []*draft {
	want := 0.0
	for _, k := range []kind{gpu, mc} {
		want += k.load() * float64(k.count())
	}
	choose := func(power float64) float64 {
		sortBy(list, func(d *draft) float64 {
			if d.size == len(sizeClasses)-1 {
				return math.Inf(1) // a single job would decide how full the machine is
			}
			return d.presetChance / (d.runTime.Hours() * math.Pow(float64(d.nodes), power))
		})
		nodes := 0
		for _, d := range list[:presetJobs] {
			nodes += d.nodes
		}
		return float64(nodes)
	}
	over := choose(bisect(-2, 2, want, choose)) - want
	evenOut(list[:presetJobs], list[presetJobs:], over, 3, func(d *draft) float64 { return float64(d.nodes) })
	g.presets = slices.Clone(list[:presetJobs])
	rest := slices.Clone(list[presetJobs:])
	g.rng.Shuffle(len(g.presets), swap(g.presets))
	g.rng.Shuffle(len(rest), swap(rest))
	g.splitPresets()
	return rest
}

// evenOut swaps jobs between the chosen and the others, of which the last chosen and the
// first of the others are the nearest to it, until the measures of the chosen add up to
// no more than a few above or below what is wanted.
func evenOut(chosen, others []*draft, over, few float64, measure func(*draft) float64) {
	for i := len(chosen) - 1; i >= 0 && math.Abs(over) > few; i-- {
		for j := range others {
			rest := over - measure(chosen[i]) + measure(others[j])
			if math.Abs(rest) <= math.Abs(over)/2 && !math.IsInf(others[j].key, 1) {
				chosen[i], others[j] = others[j], chosen[i]
				over = rest
				break
			}
		}
	}
}

// sortBy sorts drafts by a key. With an exponential number divided by a weight for it,
// the first n are a weighted choice without replacement.
func sortBy(list []*draft, key func(*draft) float64) {
	for _, d := range list {
		d.key = key(d)
	}
	slices.SortStableFunc(list, func(a, b *draft) int { return cmp.Compare(a.key, b.key) })
}

func swap[T any](list []T) func(i, j int) {
	return func(i, j int) { list[i], list[j] = list[j], list[i] }
}

// splitPresets gives the multicore nodes as many preset jobs as they have room for,
// and the GPU nodes the others. How long each has run already is uniform.
func (g *daint) splitPresets() {
	room := int(math.Round(mcLoad * mcNodes))
	for _, d := range g.presets {
		d.partition = "normal"
		d.runTime = max(d.runTime, shortestPreset)
		if d.nodes <= room && d.nodes <= mostMCNodes {
			d.kind = mc
			room -= d.nodes
		}
		d.age = max(time.Duration(g.rng.Float64()*float64(d.runTime)).Truncate(time.Second), time.Second)
		d.age = min(d.age, d.runTime-time.Second)
	}
}

// shortestPreset has a second before the window's start and one after it.
const shortestPreset = 2 * time.Second

// presetWork is what the preset jobs still have to do, in node-hours.
func (g *daint) presetWork(k kind) float64 {
	total := 0.0
	for _, d := range g.presets {
		if d.kind == k {
			total += float64(d.nodes) * (d.runTime - d.age).Hours()
		}
	}
	return total
}

// mostMCNodes is the largest job on multicore nodes.
const mostMCNodes = 256

// other is a partition beside normal.
type other struct {
	name    string
	jobs    int // of the 169
	nodes   [2]int
	most    time.Duration // run time
	limit   time.Duration
	gpuOnly bool
	mcOnly  bool
}

var others = []other{
	{name: "large", jobs: 3, nodes: [2]int{129, 4400}, most: 11 * time.Hour, limit: 12 * time.Hour, gpuOnly: true},
	{name: "debug", jobs: 96, nodes: [2]int{1, 4}, most: 29 * time.Minute, limit: 30 * time.Minute},
	{name: "prepost", jobs: 38, nodes: [2]int{1, 1}, most: 29 * time.Minute, limit: 30 * time.Minute, mcOnly: true},
	{name: "low", jobs: 20, nodes: [2]int{1, 64}, most: 5 * time.Hour, limit: 6 * time.Hour},
	{name: "xfer", jobs: 12, nodes: [2]int{1, 1}, most: 4 * time.Hour, limit: 24 * time.Hour, mcOnly: true},
}

// assign gives the new jobs of a day their partition and their kind of nodes, so that
// the multicore nodes get the work that is wanted; the GPU nodes get the rest.
func (g *daint) assign(day []*draft, mcWork float64) {
	normal := g.toOthers(day)
	n := len(day) * mcJobs / newJobs
	for _, d := range day {
		if d.kind == mc {
			mcWork -= d.work()
		}
	}
	small := slices.DeleteFunc(slices.Clone(normal), func(d *draft) bool { return d.nodes > mostMCNodes })
	n = min(n, len(small))
	choose := func(power float64) float64 {
		sortBy(small, func(d *draft) float64 { return d.mcChance / math.Pow(d.work()+0.05, power) })
		work := 0.0
		for _, d := range small[:n] {
			work += d.work()
		}
		return work
	}
	over := choose(bisect(-2, 2, mcWork, choose)) - mcWork
	evenOut(small[:n], small[n:], over, 20, (*draft).work)
	for _, d := range small[:n] {
		d.kind = mc
	}
}

// toOthers puts the share of other partitions there, and returns the rest.
func (g *daint) toOthers(day []*draft) []*draft {
	var normal []*draft
	left := make([]int, len(others))
	for i, o := range others {
		left[i] = int(math.Round(float64(o.jobs) * float64(len(day)) / newJobs))
	}
	for _, d := range day {
		d.partition = "normal"
		for i, o := range others {
			if left[i] > 0 && o.fits(d) {
				left[i]--
				d.partition, d.most = o.name, o.limit
				if o.mcOnly || !o.gpuOnly && g.rng.IntN(3) == 0 {
					d.kind = mc
				}
				break
			}
		}
		if d.partition == "normal" {
			normal = append(normal, d)
		}
	}
	return normal
}

func (o *other) fits(d *draft) bool {
	inLimit := d.runTime <= o.most || d.timesOut && d.runTime <= o.limit
	return d.nodes >= o.nodes[0] && d.nodes <= o.nodes[1] && inLimit
}
