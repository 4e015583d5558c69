package example

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// jobCount is the number of submissions of the day. An array counts as one.
const jobCount = 600

// midnight is the beginning of the day, a Tuesday.
var midnight = hpc.Time(time.Date(2024, 3, 5, 0, 0, 0, 0, time.UTC).UnixNano())

// hourWeights are the relative numbers of submissions by hour: few at night, most before
// and after lunch.
var hourWeights = [24]float64{3, 3, 2, 2, 2, 2, 3, 5, 9, 12, 13, 12, 9, 10, 13, 12, 10, 8, 6, 5, 4, 4, 4, 4}

// The share of the machine's capacity over a day that the jobs request, by pool. On the CPU nodes,
// exclusive jobs and memory use more capacity than the jobs request.
const (
	cpuLoad = 0.88
	gpuLoad = 0.86
)

// The capacity of the machine in a day, in CPU-seconds and GPU-seconds.
const (
	cpuCapacity = cpuNodes * coresPerCPUNode * 86400.0
	gpuCapacity = gpuNodes * gpusPerNode * 86400.0
)

// maxRunTime keeps jobs below the time limit of every partition, a day.
const maxRunTime = 14 * time.Hour

// generator makes the day. All random numbers come from rng, in a fixed order.
type generator struct {
	rng  *rand.Rand
	jobs []*hpc.Job
}

// day makes the day in several passes. Jobs that time out, fail or are cancelled change the load,
// but only a finished pass shows which jobs these are. Each pass therefore corrects the error of
// the previous pass, and day returns the best pass.
func day(seed uint64) *workload.Workload {
	var best *workload.Workload
	cpuAim, gpuAim, missed := cpuLoad, gpuLoad, math.Inf(1)
	for range 8 {
		w := attempt(seed, cpuAim, gpuAim)
		cpu, gpu := loads(&w.Jobs)
		if m := max(math.Abs(cpu-cpuLoad), math.Abs(gpu-gpuLoad)); m < missed {
			best, missed = w, m
		}
		cpuAim *= cpuLoad / cpu
		gpuAim *= gpuLoad / gpu
	}
	return best
}

// loads returns the share of a day for which the jobs would occupy the CPU nodes and the GPUs if
// each job ran for its whole run time.
func loads(jobs *workload.Jobs) (cpu, gpu float64) {
	for _, job := range jobs.All() {
		run := *job
		if run.RunTime == hpc.Unlimited {
			run.RunTime = run.TimeLimit
		}
		if isGPUJob(&run) {
			gpu += gpuWork(&run)
		} else {
			cpu += cpuWork(&run)
		}
	}
	return cpu / cpuCapacity, gpu / gpuCapacity
}

func attempt(seed uint64, cpuAim, gpuAim float64) *workload.Workload {
	g := generator{rng: rand.New(rand.NewPCG(seed, 0x7276616c65))}
	for i, at := range g.arrivals() {
		job := g.job()
		job.ID = fmt.Sprintf("d%04d", i+1)
		job.Submit = at
		g.jobs = append(g.jobs, job)
	}
	g.calibrate(isCPUJob, cpuAim*cpuCapacity, cpuWork)
	g.calibrate(isGPUJob, gpuAim*gpuCapacity, gpuWork)
	g.taskRunTimes()
	g.timeLimits()
	g.fates()
	g.qos()
	g.dependencies()
	return &workload.Workload{Jobs: workload.JobsOf(g.jobs...), Epoch: midnight,
		Source: fmt.Sprintf("rmreplay example, seed %d", seed)}
}

// arrivals returns the submit times, in order, in whole seconds.
func (g *generator) arrivals() []hpc.Time {
	total := 0.0
	for _, weight := range hourWeights {
		total += weight
	}
	list := make([]hpc.Time, jobCount)
	for i := range list {
		u, hour := g.rng.Float64()*total, 0
		for u >= hourWeights[hour] && hour < 23 {
			u -= hourWeights[hour]
			hour++
		}
		list[i] = midnight + hpc.Unix(int64(hour*3600+g.rng.IntN(3600)))
	}
	slices.SortFunc(list, cmp.Compare)
	return list
}

// kind is one kind of job, with its frequency and a function that makes it.
type kind struct {
	share int // per cent
	make  func(*generator, *hpc.Job)
}

var kinds = []kind{
	{26, (*generator).smallJob},
	{28, (*generator).parallelJob},
	{7, (*generator).memoryJob},
	{5, (*generator).exclusiveJob},
	{11, (*generator).debugJob},
	{4, (*generator).arrayJob},
	{19, (*generator).gpuJob},
}

func (g *generator) job() *hpc.Job {
	job := &hpc.Job{}
	pick := g.rng.IntN(100)
	for _, k := range kinds {
		if pick < k.share {
			k.make(g, job)
			break
		}
		pick -= k.share
	}
	g.owner(job)
	return job
}

// owner picks a user. Some users submit far more than others, and most GPU jobs belong to
// the users of machine learning.
func (g *generator) owner(job *hpc.Job) {
	first, last := 3, 8 // the accounts of science and engineering
	if isGPUJob(job) && g.rng.IntN(4) > 0 {
		first, last = 8, 10
	}
	a := accounts[first+g.rng.IntN(last-first)]
	i := int(float64(len(a.users)) * math.Pow(g.rng.Float64(), 1.8))
	job.User, job.Account = a.users[i], a.name
}

func (g *generator) smallJob(job *hpc.Job) {
	job.Name = g.choose("fit", "post", "analyse", "convert")
	job.Partition = "batch"
	job.Tasks, job.CPUsPerTask = 1, 1<<g.rng.IntN(5)
	job.RunTime = g.logNormal(25*time.Minute, 1.3)
}

func (g *generator) parallelJob(job *hpc.Job) {
	job.Name = g.choose("md", "cfd", "lattice", "dft", "mesh")
	job.Partition = "batch"
	nodes := []int{1, 1, 1, 2, 2, 2, 4, 4, 8, 12}[g.rng.IntN(10)]
	job.MinNodes, job.MaxNodes = nodes, nodes
	job.TasksPerNode = []int{16, 32, 32, 32}[g.rng.IntN(4)]
	job.Tasks = nodes * job.TasksPerNode
	if nodes > 4 && g.rng.IntN(3) == 0 {
		job.Switches, job.SwitchWait = 1, 10*time.Minute
	}
	job.RunTime = g.logNormal(50*time.Minute, 1.1)
}

func (g *generator) memoryJob(job *hpc.Job) {
	job.Name = g.choose("assembly", "graph")
	job.Partition = "batch"
	job.Tasks, job.CPUsPerTask = 1, 8
	job.MemPerNode = int64(90000 + 1000*g.rng.IntN(90))
	job.RunTime = g.logNormal(90*time.Minute, 0.9)
}

func (g *generator) exclusiveJob(job *hpc.Job) {
	job.Name = g.choose("bench", "coupled")
	job.Partition = "batch"
	nodes := 1 + g.rng.IntN(4)
	job.MinNodes, job.MaxNodes, job.Tasks = nodes, nodes, 8*nodes
	job.Exclusive = "node"
	job.RunTime = g.logNormal(30*time.Minute, 0.9)
}

func (g *generator) debugJob(job *hpc.Job) {
	job.Name = "test"
	job.Partition = "debug"
	nodes := 1 + g.rng.IntN(2)
	job.MinNodes, job.MaxNodes = nodes, nodes
	job.Tasks = nodes * 4 * (1 + g.rng.IntN(4))
	job.RunTime = min(g.logNormal(2*time.Minute, 1), 20*time.Minute)
}

func (g *generator) arrayJob(job *hpc.Job) {
	job.Name = g.choose("sweep", "ensemble")
	job.Partition = "batch"
	job.Array = fmt.Sprintf("1-%d%%%d", 8+4*g.rng.IntN(7), 4+4*g.rng.IntN(4))
	job.Tasks, job.CPUsPerTask = 1, 4<<g.rng.IntN(2)
	job.RunTime = g.logNormal(15*time.Minute, 0.8)
}

func (g *generator) gpuJob(job *hpc.Job) {
	job.Name = g.choose("train", "finetune", "infer")
	job.Partition = "gpu"
	gpus, nodes := []int{1, 1, 1, 2, 2, 4}[g.rng.IntN(6)], 1
	if gpus == gpusPerNode {
		nodes = []int{1, 1, 2, 4}[g.rng.IntN(4)]
	}
	job.GRES = fmt.Sprintf("gpu:a100:%d", gpus)
	job.MinNodes, job.MaxNodes = nodes, nodes
	job.TasksPerNode, job.Tasks, job.CPUsPerTask = gpus, gpus*nodes, 8
	job.RunTime = g.logNormal(70*time.Minute, 1.1)
}

func (g *generator) choose(names ...string) string { return names[g.rng.IntN(len(names))] }

// logNormal returns a duration in whole seconds with the given median. sigma is the standard
// deviation of its logarithm.
func (g *generator) logNormal(median time.Duration, sigma float64) time.Duration {
	d := time.Duration(float64(median) * math.Exp(sigma*g.rng.NormFloat64()))
	return max(min(d, maxRunTime), 10*time.Second).Round(time.Second)
}

func isGPUJob(job *hpc.Job) bool { return job.Partition == "gpu" }
func isCPUJob(job *hpc.Job) bool { return !isGPUJob(job) }

// cpuWork returns the CPU-seconds that a job uses on the CPU nodes.
func cpuWork(job *hpc.Job) float64 {
	cpus := workload.CPUs(&job.Request)
	if job.Exclusive != "" {
		cpus = job.MinNodes * coresPerCPUNode
	}
	return float64(cpus*taskCount(job)) * job.RunTime.Seconds()
}

// gpuWork returns the GPU-seconds that a job uses.
func gpuWork(job *hpc.Job) float64 { return float64(job.Tasks) * job.RunTime.Seconds() }

func taskCount(job *hpc.Job) int {
	first, last := 0, 0
	if n, _ := fmt.Sscanf(job.Array, "%d-%d", &first, &last); n != 2 {
		return 1
	}
	return last - first + 1
}

// calibrate stretches the run times of a pool's jobs until they add up to the wanted work.
// It needs several rounds because run times have a maximum.
func (g *generator) calibrate(belongs func(*hpc.Job) bool, want float64, work func(*hpc.Job) float64) {
	for range 12 {
		got := 0.0
		for _, job := range g.jobs {
			if belongs(job) {
				got += work(job)
			}
		}
		for _, job := range g.jobs {
			if belongs(job) && job.Partition != "debug" {
				d := time.Duration(float64(job.RunTime) * want / got)
				job.RunTime = max(min(d, maxRunTime), time.Second).Round(time.Second)
			}
		}
	}
}

// taskRunTimes gives the tasks of an array different run times.
func (g *generator) taskRunTimes() {
	for _, job := range g.jobs {
		if job.Array == "" {
			continue
		}
		job.TaskRunTimes = make(map[int]time.Duration)
		for task := 1; task <= taskCount(job); task++ {
			d := time.Duration(float64(job.RunTime) * (0.7 + 0.6*g.rng.Float64()))
			job.TaskRunTimes[task] = d.Round(time.Second)
		}
	}
}

// roundLimits are the time limits that people use.
var roundLimits = []time.Duration{
	10 * time.Minute, 15 * time.Minute, 20 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour,
	4 * time.Hour, 6 * time.Hour, 8 * time.Hour, 12 * time.Hour, 16 * time.Hour, 24 * time.Hour,
}

// timeLimits gives every job a round time limit, mostly far above its run time. A few jobs have no
// time limit, if the partition's default is long enough.
func (g *generator) timeLimits() {
	for _, job := range g.jobs {
		longest := job.RunTime
		for _, d := range job.TaskRunTimes {
			longest = max(longest, d)
		}
		asked := time.Duration(float64(longest) * (1.1 + 4*g.rng.Float64()*g.rng.Float64()))
		// Draw the number for every job, so that all passes use the same random numbers.
		if g.rng.IntN(12) == 0 && job.Partition == "batch" && longest < 40*time.Minute {
			continue
		}
		i, _ := slices.BinarySearch(roundLimits, asked)
		job.TimeLimit = roundLimits[min(i, len(roundLimits)-1)]
		if job.Partition == "debug" {
			job.TimeLimit = min(job.TimeLimit, 30*time.Minute)
		}
	}
}

// fates makes some jobs time out, some fail early, and some be cancelled.
func (g *generator) fates() {
	for _, job := range g.jobs {
		switch fate := g.rng.IntN(100); {
		case fate < 4 && job.Array == "" && job.TimeLimit > 0 && job.TimeLimit <= 4*time.Hour:
			job.RunTime = hpc.Unlimited
		case fate >= 4 && fate < 9:
			job.ExitCode = []int{1, 1, 2, 127, 139}[g.rng.IntN(5)]
			if job.Array == "" {
				job.RunTime = max(job.RunTime/8, time.Second).Round(time.Second)
			}
		case fate >= 9 && fate < 13:
			job.CancelAfter = (time.Minute + g.logNormal(20*time.Minute, 1)).Round(time.Second)
		case fate == 13:
			job.Begin = time.Duration(1+g.rng.IntN(3)) * time.Hour
		case fate == 14:
			job.Nice = 1000
		}
	}
}

// qos puts urgent jobs into "high" and long jobs into "long", if the limits of these QOS allow the
// jobs to run.
func (g *generator) qos() {
	for _, job := range g.jobs {
		cpus := workload.CPUs(&job.Request)
		job.QOS = "normal"
		switch {
		case job.Exclusive != "" || job.Partition == "debug":
		case job.TimeLimit >= 16*time.Hour && cpus <= longCPUs/2:
			job.QOS = "long"
		case g.rng.IntN(10) == 0 && cpus <= highCPUsPerUser/2 && job.Array == "":
			job.QOS = "high"
		}
	}
}

// dependencies makes some jobs depend on an earlier job of the same user that probably has
// not ended.
func (g *generator) dependencies() {
	latest := make(map[string]*hpc.Job)
	for _, job := range g.jobs {
		earlier := latest[job.User]
		latest[job.User] = job
		if earlier == nil || job.Submit.Sub(earlier.Submit) > 2*time.Hour {
			continue
		}
		switch g.rng.IntN(12) {
		case 0:
			job.Dependency = "afterok:" + earlier.ID
		case 1:
			job.Dependency = "afterany:" + earlier.ID
		case 2:
			if g.rng.IntN(3) == 0 {
				job.Dependency = "singleton"
			}
		}
	}
}
