package generate

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/workload"
)

// IOOptions are the options of [IO].
type IOOptions struct {
	// Set is the set of jobs, one of [IOSets]; two-jobs if empty.
	Set string
	// Cycles is how often the set's groups are submitted one after the other; 8 if 0. Counts has the
	// number of jobs of each group. If there are fewer counts than groups, the last count is used for
	// the rest.
	Cycles int
	Counts []int
	// FileSystem is the file system to which the jobs write. The default bandwidth is 200 MiB/s, and
	// the default name is lustre.
	FileSystem hpc.FileSystem
	// Rate is the rate at which a job writes when no other job writes, in bytes per second; 0 means
	// 50 MiB/s.
	Rate int64
	// Declare makes writing jobs request as many licenses as their mean rate needs.
	Declare bool
	Start   hpc.Time
	Seed    uint64
}

// ioJob is a class of jobs of the experiments (see [IO]): a job writes files, and sleeps before and
// after that.
type ioJob struct {
	name   string
	limit  time.Duration
	volume int64 // bytes
	sleep  time.Duration
}

// ioClasses are the classes of the authors' scripts (see [IO]). A job writes 32 blocks of 32 MiB
// 16, 8, 6, 4 or 2 times, and sleeps partly before and partly after that.
var ioClasses = []ioJob{
	{"job1", 50 * time.Minute, 16 << 30, 0},
	{"job2", 40 * time.Minute, 8 << 30, 100 * time.Second},
	{"job3", 20 * time.Minute, 6 << 30, 200 * time.Second},
	{"job4", 20 * time.Minute, 4 << 30, 300 * time.Second},
	{"job5", 30 * time.Minute, 2 << 30, 400 * time.Second},
	{"job6", 40 * time.Minute, 0, 300 * time.Second},
}

// ioSets are the sets of classes by name, with the default numbers of jobs.
var ioSets = map[string]struct {
	classes []ioJob
	counts  []int
}{
	"two-jobs": {[]ioJob{ioClasses[0], ioClasses[5]}, []int{10, 50}},
	"six-jobs": {ioClasses, []int{10}},
}

// IOSets are the names of the sets of [IO].
var IOSets = []string{"two-jobs", "six-jobs"}

// The timing of the experiments: a script submits a job every ten seconds.
const (
	ioGap  = 10 * time.Second
	ioMost = 1 << 20 // highest number of jobs
)

// IO makes the workloads of the experiments that tested workload-adaptive scheduling: jobs of one
// node that write or sleep, on a machine of eight nodes. The classes, limits and the order come
// from the authors' public scripts (algo74/vagrant-lustre-ldms-slurm, test-twojobs.3.sh and
// test-sixjobs.3.sh). The scripts do not say how fast a job writes when it is alone, and how much
// jobs of a class differ. Here a job's rate varies by 5 % around [IOOptions.Rate], a submission is
// up to two seconds late, and a start takes up to five seconds.
func IO(o IOOptions) (*workload.Workload, error) {
	if o.Set == "" {
		o.Set = IOSets[0]
	}
	set, known := ioSets[o.Set]
	if !known {
		return nil, fmt.Errorf("set %q: not a set (want two-jobs or six-jobs)", o.Set)
	}
	if o.Cycles == 0 {
		o.Cycles = 8
	}
	if len(o.Counts) == 0 {
		o.Counts = set.counts
	}
	perCycle := 0
	for i := range set.classes {
		n := o.Counts[min(i, len(o.Counts)-1)]
		if n < 0 || n > ioMost {
			return nil, fmt.Errorf("counts: %d: not a number of jobs (want 0 to %d)", n, ioMost)
		}
		perCycle += n
	}
	switch {
	case len(o.Counts) > len(set.classes):
		return nil, fmt.Errorf("counts: %d numbers, but %s has only %d %s", len(o.Counts), o.Set, len(set.classes),
			quantity.Plural(len(set.classes), "group", "groups"))
	case o.Cycles < 0 || perCycle == 0 || o.Cycles > ioMost/perCycle:
		return nil, fmt.Errorf("cycles: %d %s of %d %s (want 1 to %d jobs)", o.Cycles,
			quantity.Plural(o.Cycles, "cycle", "cycles"), perCycle, quantity.Plural(perCycle, "job", "jobs"), ioMost)
	case o.Rate < 0:
		return nil, fmt.Errorf("rate: %d bytes/s (want more than 0)", o.Rate)
	}
	f := fileSystemOf(o.FileSystem)
	if o.Rate == 0 {
		o.Rate = 50 << 20
	}
	if err := f.Check(); err != nil {
		return nil, fmt.Errorf("filesystem: %w", err)
	}
	rng := rand.New(rand.NewPCG(o.Seed, 0x10))
	w := &workload.Workload{
		Epoch: o.Start, Source: "rmreplay workload generate io " + o.Set, MachineNodes: 8, MachineProcessors: 8,
		FileSystems: []hpc.FileSystem{f},
	}
	at := o.Start.Add(ioGap)
	for range o.Cycles {
		for i, class := range set.classes {
			for range o.Counts[min(i, len(o.Counts)-1)] {
				job := class.job(rng, &f, &o)
				job.ID = strconv.Itoa(w.Jobs.Len() + 1)
				job.Submit = at.Add(time.Duration(rng.Int64N(int64(2 * time.Second))))
				w.Jobs.Append(job)
				at = at.Add(ioGap)
			}
		}
	}
	w.Sort()
	return w, nil
}

// fileSystemOf completes the file system of an option.
func fileSystemOf(f hpc.FileSystem) hpc.FileSystem {
	if f.Name == "" {
		f.Name = "lustre"
	}
	if f.Bandwidth == 0 {
		f.Bandwidth = 200 << 20
	}
	return f
}

// job draws a job of the class.
func (c *ioJob) job(rng *rand.Rand, f *hpc.FileSystem, o *IOOptions) *hpc.Job {
	job := &hpc.Job{Request: hpc.Request{
		Name: c.name, User: "u1", MinNodes: 1, MaxNodes: 1, Tasks: 1, TimeLimit: c.limit, Comment: "jobtype=" + c.name + ";",
	}}
	front := time.Duration(0)
	if c.volume > 0 && c.sleep > 0 {
		front = time.Duration(rng.Int64N(int64(c.sleep/time.Second))) * time.Second
	}
	front += time.Duration(rng.Int64N(int64(5 * time.Second)))
	if c.volume == 0 {
		job.RunTime = front + c.sleep
		return job
	}
	rate := int64(float64(o.Rate) * math.Exp(0.05*rng.NormFloat64()))
	writing := time.Duration(float64(c.volume) / float64(rate) * float64(time.Second))
	job.IO = []hpc.Phase{{Duration: front + 1}, {Duration: writing + 1, FileSystem: f.Name, Rate: rate}}
	job.RunTime = front + writing + 2
	if c.sleep > 0 {
		job.RunTime = c.sleep + writing + time.Duration(rng.Int64N(int64(5*time.Second))) + 7*time.Second
	}
	if o.Declare {
		mean := float64(c.volume) / job.RunTime.Seconds()
		job.Licenses = fmt.Sprintf("%s:%d", f.Name, min(f.LicensesOf(mean), f.Complete().Licenses))
	}
	return job
}

// MixOptions are the options of [AddIO].
type MixOptions struct {
	FileSystem hpc.FileSystem // as in [IOOptions]
	// Load is the mean rate of all jobs together from the first submission to the last, as a share of
	// the bandwidth; 0 means 0.5.
	Load float64
	Seed uint64
}

// AddIO gives the jobs of a workload I/O by class. It does not change jobs that already have I/O,
// or arrays. Jobs with the same user and name are one class. Of the classes, 60 % only compute. 25
// % write checkpoints (four times 3 % of the run time), 10 % read their input in the first tenth
// of the run, and 5 % move data all the time. The rates per node of the classes are log-normal
// (the standard deviation of the logarithm is 1), and are then scaled to the load. The shares are
// assumptions of this generator, not measurements.
func AddIO(w *workload.Workload, o MixOptions) error {
	f := fileSystemOf(o.FileSystem)
	if o.Load == 0 {
		o.Load = 0.5
	}
	switch err := f.Check(); {
	case err != nil:
		return fmt.Errorf("filesystem: %w", err)
	case !(o.Load > 0) || o.Load > 100:
		return fmt.Errorf("load: %v: not a share of the bandwidth (want, for example, 0.5)", o.Load)
	case w.Jobs.Len() == 0:
		return errors.New("the workload has no jobs")
	}
	span := w.Jobs.Submit(w.Jobs.Len() - 1).Sub(w.Jobs.Submit(0)).Seconds()
	volume := 0.0
	for _, job := range w.Jobs.All() {
		for _, p := range mixPhases(job, f.Name, o.Seed, 1) {
			volume += float64(p.Rate) * p.Duration.Seconds()
		}
	}
	if volume == 0 || span == 0 {
		return errors.New("no class of the workload's jobs does I/O (want more jobs, or another seed)")
	}
	scale := o.Load * float64(f.Bandwidth) * span / volume
	for i, job := range w.Jobs.All() {
		if phases := mixPhases(job, f.Name, o.Seed, scale); phases != nil {
			job.IO = phases
			w.Jobs.Set(i, job)
		}
	}
	for i := range w.FileSystems {
		if w.FileSystems[i].Name == f.Name {
			w.FileSystems[i] = f
			return nil
		}
	}
	w.FileSystems = append(w.FileSystems, f)
	return nil
}

// mixPhases returns the phases of a job by its class, or nil.
func mixPhases(job *hpc.Job, fileSystem string, seed uint64, scale float64) []hpc.Phase {
	if len(job.IO) > 0 || job.Array != "" || job.RunTime < time.Minute || job.RunTime == hpc.Unlimited {
		return nil
	}
	h := fnv.New64a()
	h.Write([]byte(job.User + "\x00" + job.Name))
	rng := rand.New(rand.NewPCG(seed, h.Sum64()))
	kind := rng.Float64()
	nodes := max(job.MinNodes, 1)
	rate := int64(min(1e6*scale*float64(nodes)*math.Exp(rng.NormFloat64()), 1<<60))
	if rate < 1 {
		rate = 1
	}
	io := func(part float64) hpc.Phase {
		return hpc.Phase{Duration: time.Duration(part * float64(job.RunTime)), FileSystem: fileSystem, Rate: rate}
	}
	compute := func(part float64) hpc.Phase { return hpc.Phase{Duration: time.Duration(part * float64(job.RunTime))} }
	switch {
	case kind < 0.60:
		return nil
	case kind < 0.85:
		var list []hpc.Phase
		for range 4 {
			list = append(list, compute(0.22), io(0.03))
		}
		return list
	case kind < 0.95:
		return []hpc.Phase{io(0.1)}
	}
	return []hpc.Phase{io(1)}
}
