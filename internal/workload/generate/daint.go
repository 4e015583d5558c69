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
	"rmreplay/internal/quantity"
	"rmreplay/internal/workload"
)

// The machine of daint/slurm.conf: GPU nodes first, then multicore nodes.
const (
	gpuNodes    = 5320
	mcNodes     = 1819
	gpuNodeCPUs = 24
	mcNodeCPUs  = 72
)

// The loads of the day (section V.B): the share of the nodes that the preset jobs use when the
// window begins, and the share of each day's node-hours that the jobs request.
const (
	gpuLoad = 0.97
	mcLoad  = 0.54
)

// The jobs of the day (section V.B).
const (
	dayJobs    = 6025
	presetJobs = 783
	newJobs    = dayJobs - presetJobs
	mcJobs     = 2409 // new jobs on multicore nodes
	otherJobs  = 169  // new jobs in other partitions than normal

	fiveDaysJobs = 35162 // the jobs of the five days of section VI.C
)

// DefaultGPULoad is the share of the GPU nodes' node-hours that the jobs of the paper's day
// ask for.
const DefaultGPULoad = gpuLoad

// DaintOptions are the options of [Daint]. GPULoad must be set; [DefaultGPULoad] is the
// load of the paper's day.
type DaintOptions struct {
	// Days is the number of days on which jobs are submitted. If it is 0, there are as many
	// days as Jobs needs, at least 1.
	Days int
	// Jobs is the total number of jobs, at least the number of one day (6,025). If it is 0, the number of jobs follows
	// from the wanted load of each day. With any other number the days may miss the wanted loads; [DaintDays.Loads] has
	// the actual loads.
	Jobs int
	// GPULoad is the share of the GPU nodes' node-hours that the jobs of a day ask for. Above 1, a
	// queue builds up, as on the saturated days of section VIII. The first day then has more jobs
	// than Table I. Below 0.97 the first day has fewer.
	GPULoad float64
	Seed    uint64
}

// DaintDays is the result of [Daint].
type DaintDays struct {
	Workload *workload.Workload
	Files    map[string]string // files of the cluster directory, by name
	Loads    []Load            // loads of the GPU nodes, then of the multicore nodes
}

// Load is the share of the node-hours of one kind of nodes that the jobs of each day ask for. For
// preset jobs only the time after the window's start counts.
type Load struct {
	Feature string // feature of the nodes
	Nodes   string // the name of the kind for people
	Wanted  float64
	Days    []float64
}

// Lowest returns the smallest load of a day.
func (l *Load) Lowest() float64 { return slices.Min(l.Days) }

// Highest returns the largest load of a day.
func (l *Load) Highest() float64 { return slices.Max(l.Days) }

// Mean returns the mean of the days' loads.
func (l *Load) Mean() float64 {
	total := 0.0
	for _, x := range l.Days {
		total += x
	}
	return total / float64(len(l.Days))
}

// nearLoad is the largest deviation from the wanted load that counts as reaching it, as a
// share of the nodes' node-hours.
const nearLoad = 0.01

// Met reports whether the load of every day is within nearLoad of the wanted load.
func (l *Load) Met() bool {
	return l.Highest()-l.Wanted <= nearLoad && l.Wanted-l.Lowest() <= nearLoad
}

// daintStart is the start of the window: the day of Table I. The instant, in UTC, replaces the
// site's own midnight.
var daintStart = hpc.Time(time.Date(2017, 10, 6, 0, 0, 0, 0, time.UTC).UnixNano())

//go:embed daint
var daintCluster embed.FS

// Daint makes days of a machine like Piz Daint, and the files of its cluster directory, after
// Martinasso et al., "RM-Replay" (SC'18), section V.
//
// The first day has exactly the jobs of the paper's Table I by nodes and duration. 783 of them are
// running when the window begins; they use 97 % of the GPU nodes and 54 % of the multicore nodes.
// On every day the jobs ask for the same share of the node-hours of each kind of nodes. A further
// day has no preset jobs of its own, so it has more new jobs of the same mix.
//
// The error says which option is out of range. A number of jobs is out of range if a day would
// have no jobs, or if the jobs of a day would request more than three times the machine.
func Daint(o DaintOptions) (*DaintDays, error) {
	switch {
	case o.Days < 0:
		return nil, fmt.Errorf("days %d: negative (want 0 or more)", o.Days)
	case o.Days > maxDays:
		return nil, fmt.Errorf("days %d: more than %d", o.Days, maxDays)
	case o.Jobs != 0 && o.Jobs < dayJobs:
		return nil, fmt.Errorf("jobs %d: fewer than in a day (want %d or more)", o.Jobs, dayJobs)
	case o.Jobs > maxDays*maxJobsPerDay:
		return nil, fmt.Errorf("jobs %d: more than %d", o.Jobs, maxDays*maxJobsPerDay)
	}
	if !(o.GPULoad >= minLoad && o.GPULoad <= maxLoad) {
		return nil, fmt.Errorf("gpu-load %g: not a load (want %g to %g)", o.GPULoad, minLoad, maxLoad)
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

// The lowest and the highest load that can be requested. The preset jobs alone would exceed a lower load.
const (
	minLoad = 0.5
	maxLoad = 3.0
)

// Bounds of the options: the largest workload still fits into memory.
const (
	maxDays       = 366
	maxJobsPerDay = 50000
)

// daint is a workload under construction.
type daint struct {
	rng     *rand.Rand
	people  *people
	presets []*draft
	days    [][]*draft // new jobs by day
	loads   []Load     // loads by kind of nodes
	pools   [2]*pool   // pools by kind of nodes
	jobs    []*hpc.Job

	nodeEventList   []hpc.NodeEvent
	reservationList []hpc.ReservationEvent
	reserved        map[int]bool // nodes that have a reservation
}

// kind is a kind of nodes: GPU or multicore.
type kind int

const (
	gpu kind = iota
	mc
)

// feature returns the node feature that a job asks for.
func (k kind) feature() string { return [...]string{"gpu", "mc"}[k] }

// String returns the name of the kind for people.
func (k kind) String() string { return [...]string{"GPU", "multicore"}[k] }

// first and count give the nodes of the kind; the machine's nodes are numbered from 1.
func (k kind) first() int    { return [...]int{1, gpuNodes + 1}[k] }
func (k kind) count() int    { return [...]int{gpuNodes, mcNodes}[k] }
func (k kind) cpus() int     { return [...]int{gpuNodeCPUs, mcNodeCPUs}[k] }
func (k kind) load() float64 { return [...]float64{gpuLoad, mcLoad}[k] }

// dayWork returns the node-hours that the jobs of a day should ask for.
func (k kind) dayWork() float64 { return 24 * float64(k.count()) * k.load() }

// draw decides how many jobs each day has, and the size and run time of each.
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
		return fmt.Errorf("jobs %d: too few for %d %s: some would have no jobs (want more jobs or fewer days)",
			o.Jobs, len(counts), quantity.Plural(len(counts), "day", "days"))
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

// measure computes the loads that the jobs ask for. It returns an error if the number of jobs is
// given and a load is above maxLoad.
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
		if most := load.Highest(); o.Jobs != 0 && most > maxLoad+nearLoad {
			return fmt.Errorf("jobs %d: the jobs ask for %.2f times the %s nodes' node-hours on one of %d %s "+
				"(want at most %g: fewer jobs, or more days)",
				o.Jobs, most, k, len(g.days), quantity.Plural(len(g.days), "day", "days"), maxLoad)
		}
		g.loads = append(g.loads, load)
	}
	return nil
}

// pinLargest gives the three longest jobs of 65 to 128 nodes the sizes and run times of the
// paper.
func pinLargest(list []*draft) {
	i := 0
	for _, d := range list {
		if i < len(largest) && d.size == 7 && d.duration == 5 {
			d.nodes, d.runTime, d.timesOut, d.pinned = largest[i].nodes, largest[i].runTime, false, true
			i++
		}
	}
}

// dayCounts returns the number of new jobs of each day. The jobs of every day must have the wanted
// node-hours. On the first day, the preset jobs contribute the node-hours in left.
func dayCounts(o DaintOptions, rest []*draft, wanted, left float64) []int {
	mean := 0.0
	for _, d := range rest {
		mean += d.work() / float64(len(rest))
	}
	// even is the number of jobs of a day without preset jobs. At the paper's load or above, or if the
	// number of jobs is given, it is at least the average of the five days of section VI.C.
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
	for i := 1; i < days; i++ { // further jobs are spread evenly
		counts[i] = further*i/(days-1) - further*(i-1)/(days-1)
	}
	return counts
}

// bendTo shapes the jobs so that they request the wanted node-hours, as far as their cells of Table
// I allow.
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

// choosePresets chooses the jobs of the list that run when the window begins, and returns the other
// jobs. The longer a job runs, the more probable is its choice. The probability also depends on the
// job's size, with a weight that makes the preset jobs reach their load.
func (g *daint) choosePresets(list []*draft) []*draft {
	want := 0.0
	for _, k := range []kind{gpu, mc} {
		want += k.load() * float64(k.count())
	}
	choose := func(power float64) float64 {
		sortBy(list, func(d *draft) float64 {
			if d.size == len(sizeClasses)-1 {
				return math.Inf(1) // otherwise a single job would decide how many nodes are in use
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

// evenOut swaps chosen jobs with others until the sum of measure over the chosen jobs differs from the wanted value by
// at most few. The parameter over is the excess at the beginning. The jobs nearest to the border between the two lists
// are swapped first.
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

// sortBy sorts drafts by a key. If the key is an exponentially distributed number divided
// by a weight, the first n drafts are a weighted choice without replacement.
func sortBy(list []*draft, key func(*draft) float64) {
	for _, d := range list {
		d.key = key(d)
	}
	slices.SortStableFunc(list, func(a, b *draft) int { return cmp.Compare(a.key, b.key) })
}

func swap[T any](list []T) func(i, j int) {
	return func(i, j int) { list[i], list[j] = list[j], list[i] }
}

// splitPresets assigns as many preset jobs to the multicore nodes as these have room for, and the
// others to the GPU nodes. The time that a preset job has run is uniformly distributed.
func (g *daint) splitPresets() {
	room := int(math.Round(mcLoad * mcNodes))
	for _, d := range g.presets {
		d.partition = "normal"
		d.runTime = max(d.runTime, shortestPreset)
		if d.nodes <= room && d.nodes <= maxMCNodes {
			d.kind = mc
			room -= d.nodes
		}
		d.age = max(time.Duration(g.rng.Float64()*float64(d.runTime)).Truncate(time.Second), time.Second)
		d.age = min(d.age, d.runTime-time.Second)
	}
}

// shortestPreset is the shortest run time of a preset job: it runs one second before the window's
// start and one second after it.
const shortestPreset = 2 * time.Second

// presetWork returns the node-hours that the preset jobs still need after the window's
// start.
func (g *daint) presetWork(k kind) float64 {
	total := 0.0
	for _, d := range g.presets {
		if d.kind == k {
			total += float64(d.nodes) * (d.runTime - d.age).Hours()
		}
	}
	return total
}

// maxMCNodes is the size of the largest job on multicore nodes.
const maxMCNodes = 256

// other is a partition other than normal.
type other struct {
	name       string
	jobs       int // its number of jobs, of the 169 in other partitions
	nodes      [2]int
	maxRunTime time.Duration // run time
	limit      time.Duration
	gpuOnly    bool
	mcOnly     bool
}

var others = []other{
	{name: "large", jobs: 3, nodes: [2]int{129, 4400}, maxRunTime: 11 * time.Hour, limit: 12 * time.Hour, gpuOnly: true},
	{name: "debug", jobs: 96, nodes: [2]int{1, 4}, maxRunTime: 29 * time.Minute, limit: 30 * time.Minute},
	{name: "prepost", jobs: 38, nodes: [2]int{1, 1}, maxRunTime: 29 * time.Minute, limit: 30 * time.Minute, mcOnly: true},
	{name: "low", jobs: 20, nodes: [2]int{1, 64}, maxRunTime: 5 * time.Hour, limit: 6 * time.Hour},
	{name: "xfer", jobs: 12, nodes: [2]int{1, 1}, maxRunTime: 4 * time.Hour, limit: 24 * time.Hour, mcOnly: true},
}

// assign gives the new jobs of a day their partition and their kind of nodes. The multicore
// nodes get the wanted work, and the GPU nodes get the rest.
func (g *daint) assign(day []*draft, mcWork float64) {
	normal := g.toOthers(day)
	n := len(day) * mcJobs / newJobs
	for _, d := range day {
		if d.kind == mc {
			mcWork -= d.work()
		}
	}
	small := slices.DeleteFunc(slices.Clone(normal), func(d *draft) bool { return d.nodes > maxMCNodes })
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

// toOthers moves jobs to the other partitions, as many as these should have, and returns the rest.
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
				d.partition, d.maxRunTime = o.name, o.limit
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
	inLimit := d.runTime <= o.maxRunTime || d.timesOut && d.runTime <= o.limit
	return d.nodes >= o.nodes[0] && d.nodes <= o.nodes[1] && inLimit
}
