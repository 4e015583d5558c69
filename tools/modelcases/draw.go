package main

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
)

// Case is a small cluster and a workload.
type Case struct {
	Family, Cluster, Lines string
	Seed                   uint64 // seed of the runs
}

// family is a kind of cases, which tests one feature of Slurm. draw changes a plain cluster and its
// jobs.
type family struct {
	name string
	draw func(d *drawing)
}

var families = []family{
	{"shared", (*drawing).shared},
	{"queues", (*drawing).queues},
	{"arrays", (*drawing).arrays},
	{"gpus", (*drawing).gpus},
	{"features", (*drawing).features},
	{"partitions", (*drawing).manyPartitions},
	{"tree", (*drawing).tree},
	{"fairshare", (*drawing).fairshare},
	{"limits", (*drawing).limits},
	{"nodes", (*drawing).events},
	{"reservations", (*drawing).reservations},
}

// newer are families that were added later. Each of them has its own case numbers, the first from
// 1,000,000 on and the second from 2,000,000 on. So the cases of the older families keep their numbers.
var newer = []family{
	{"licenses", (*drawing).licenses},
	{"deadlines", (*drawing).deadlines},
	{"jobgpus", (*drawing).jobGPUs},
	{"preemption", (*drawing).preemption},
	{"suspension", (*drawing).suspension},
	{"linear", (*drawing).linear},
	{"lineartree", (*drawing).linearTree},
	{"linearkinds", (*drawing).linearKinds},
	{"owners", (*drawing).owners},
	{"oversubscribe", (*drawing).oversubscribe},
	{"magnetic", (*drawing).magnetic},
	{"attracted", (*drawing).attracted},
	{"cpulimits", (*drawing).cpuLimits},
	{"brackets", (*drawing).brackets},
	{"gpudefaults", (*drawing).gpuDefaults},
	{"cpus", (*drawing).consumableCPUs}, // from 17,000,001 on
}

// ofEach is the number of case numbers of a newer family.
const ofEach = 1_000_000

// Draw returns the case with a number. The same number always gives the same case.
func Draw(number uint64) Case {
	d := &drawing{Rand: rand.New(rand.NewPCG(number, 0x6361736573))}
	f := families[number%uint64(len(families))]
	if k := min(number/ofEach, uint64(len(newer))); k > 0 {
		f = newer[k-1]
	}
	d.plain()
	f.draw(d)
	return Case{Family: f.name, Cluster: d.cluster(), Lines: d.lines(), Seed: number + 1}
}

// drawing is a case under construction, with the random numbers that it is drawn from.
type drawing struct {
	*rand.Rand
	conf       map[string]string
	order      []string // keys of conf, in order
	nodes      []string // lines of slurm.conf
	names      []string // names of the nodes
	cores      int      // cores of a node
	sockets    int      // sockets of a node
	memory     int      // memory of a node, in MiB
	partitions []string // lines of slurm.conf
	files      []string // further files, in the form of a scenario
	jobs       int
	// Each function of job returns options for the job with an index, or "".
	job   []func(i int) string
	extra []string // lines of the workload that are not jobs
	pace  []int    // seconds between submissions
	wide  int      // the largest number of tasks of a job
	chain bool     // jobs may depend on others
}

func pick[T any](d *drawing, list ...T) T { return list[d.IntN(len(list))] }

func (d *drawing) chance(p float64) bool { return d.Float64() < p }

// set sets a key of slurm.conf.
func (d *drawing) set(key, value string) {
	if _, ok := d.conf[key]; !ok {
		d.order = append(d.order, key)
	}
	d.conf[key] = value
}

// plain draws the parts that each case has: nodes with cores and memory, and the parameters of the
// scheduler.
func (d *drawing) plain() {
	d.conf = map[string]string{}
	d.set("ClusterName", "tiny")
	d.set("SlurmctldHost", "ctl")
	d.set("SlurmUser", "slurm")
	d.set("StateSaveLocation", "/var/spool/slurmctld")
	d.set("SelectType", "select/cons_tres")
	d.set("SelectTypeParameters", pick(d, "CR_Core_Memory", "CR_Core_Memory", "CR_Core", "CR_Core_Memory,CR_LLN"))
	if d.chance(.7) {
		d.set("PriorityType", "priority/multifactor")
		d.set("PriorityWeightAge", pick(d, "0", "1000"))
		d.set("PriorityMaxAge", pick(d, "0:10:00", "1:00:00", "7-0"))
		d.set("PriorityWeightJobSize", pick(d, "0", "1000"))
		if d.chance(.3) {
			d.set("PriorityFavorSmall", "YES")
		}
		d.set("PriorityWeightPartition", "500")
		d.set("PriorityCalcPeriod", pick(d, "1", "2", "5"))
	} else {
		d.set("PriorityType", "priority/basic")
	}
	var scheduler []string
	for _, o := range []struct {
		name   string
		values []string
		p      float64
	}{
		{"bf_interval", []string{"5", "10", "30", "60"}, .6}, {"bf_resolution", []string{"1", "60", "300"}, .3},
		{"bf_max_job_test", []string{"5", "20", "100"}, .3}, {"default_queue_depth", []string{"5", "10", "100"}, .3},
		{"sched_interval", []string{"10", "30", "60"}, .4}, {"bf_window", []string{"60", "1440"}, .2},
		{"bf_max_job_user", []string{"2", "10"}, .15}, {"bf_max_job_part", []string{"5", "20"}, .1},
		{"sched_min_interval", []string{"0", "1000000", "5000000"}, .2}, {"partition_job_depth", []string{"3", "10"}, .1},
	} {
		if d.chance(o.p) {
			scheduler = append(scheduler, o.name+"="+pick(d, o.values...))
		}
	}
	for _, o := range []string{"bf_continue", "defer", "bf_one_resv_per_job", "pack_serial_at_end",
		"assoc_limit_stop", "bf_window_linear=60",
		"bf_min_prio_reserve=100", "bf_running_job_reserve"} {
		if d.chance(.08) {
			scheduler = append(scheduler, o)
		}
	}
	if len(scheduler) > 0 {
		d.set("SchedulerParameters", strings.Join(scheduler, ","))
	}
	sockets := pick(d, 1, 2)
	perSocket := pick(d, 2, 4, 8)
	threads := pick(d, 1, 1, 1, 2)
	d.sockets, d.cores, d.memory = sockets, sockets*perSocket, pick(d, 8000, 16000, 64000)
	for i := range pick(d, 3, 5, 8, 12) {
		d.names = append(d.names, fmt.Sprintf("a%d", i+1))
	}
	d.nodes = []string{fmt.Sprintf("NodeName=a[1-%d] CPUs=%d Sockets=%d CoresPerSocket=%d ThreadsPerCore=%d RealMemory=%d",
		len(d.names), d.cores*threads, sockets, perSocket, threads, d.memory)}
	d.partitions = []string{fmt.Sprintf("PartitionName=all Nodes=ALL Default=YES DefMemPerCPU=%d MaxTime=60",
		d.memory/(2*d.cores*threads))}
	d.jobs, d.pace, d.wide = 20+d.IntN(80), []int{0, 0, 1, 1, 5, 12, 15, 20, 20}, max(2, d.cores*len(d.names)/3)
}

// shared draws requests of cores and memory.
func (d *drawing) shared() {
	d.job = append(d.job, func(int) string {
		switch d.IntN(9) {
		case 0:
			return fmt.Sprintf("-c %d", 1+d.IntN(d.cores))
		case 1:
			return fmt.Sprintf("--mem=%d", d.memory/pick(d, 1, 2, 3, 8))
		case 2:
			return fmt.Sprintf("--mem-per-cpu=%d", d.memory/d.cores/pick(d, 1, 2, 4))
		case 3:
			return fmt.Sprintf("-N %d -n %d --ntasks-per-node=%d", 2, 4, 2)
		case 4:
			return "--exclusive"
		case 5:
			return fmt.Sprintf("-N %d", 1+d.IntN(len(d.names)))
		case 6:
			return pick(d, "--spread-job", "--contiguous", "--nice=50", "--threads-per-core=1")
		}
		return ""
	})
}

// queues draws many jobs on few nodes.
func (d *drawing) queues() {
	d.jobs, d.pace = 100+d.IntN(100), []int{0, 0, 0, 1, 2, 5}
	d.set("PriorityType", pick(d, "priority/basic", "priority/multifactor"))
	if d.chance(.5) {
		d.partitions[0] = strings.Replace(d.partitions[0], "Default=YES", "Default=YES OverSubscribe=EXCLUSIVE", 1)
	}
	d.job = append(d.job, func(int) string {
		if d.chance(.1) {
			return "--time-min=1"
		}
		return ""
	})
}

// arrays draws arrays, dependencies, begin times and holds.
func (d *drawing) arrays() {
	d.chain = true
	d.job = append(d.job, func(i int) string {
		switch d.IntN(8) {
		case 0:
			return fmt.Sprintf("-a 1-%d", 2+d.IntN(8))
		case 1:
			return fmt.Sprintf("-a 0-%d%%%d", 3+d.IntN(8), 1+d.IntN(3))
		case 2:
			return fmt.Sprintf("--begin=now+%d", 30+d.IntN(600))
		case 3:
			return pick(d, "-H", "--nice=100", "--nice=1")
		}
		return ""
	})
}

// gpus draws nodes with GPUs, and jobs that ask for some on each node.
func (d *drawing) gpus() {
	number, typed := d.withGPUs()
	d.job = append(d.job, func(int) string {
		n := 1 + d.IntN(number)
		switch d.IntN(6) {
		case 0, 1:
			return fmt.Sprintf("--gres=gpu:%d", n)
		case 2:
			if typed {
				return fmt.Sprintf("--gres=gpu:fast:%d", n)
			}
			return fmt.Sprintf("--gpus-per-node=%d", n)
		case 3:
			return fmt.Sprintf("-N 2 -n 2 --gpus-per-node=%d", n)
		}
		return ""
	})
}

// jobGPUs draws jobs that ask for GPUs per job, per task or per socket, and for CPUs and memory per
// GPU.
func (d *drawing) jobGPUs() {
	number, typed := d.withGPUs()
	places := typed || strings.Contains(d.files[0], "Cores=")
	d.job = append(d.job, func(int) string {
		n := 1 + d.IntN(number)
		switch d.IntN(10) {
		case 0, 1:
			return fmt.Sprintf("--gpus=%d", 1+d.IntN(2*number))
		case 2:
			return fmt.Sprintf("-n %d --gpus-per-task=%d", 1+d.IntN(4), 1+d.IntN(2))
		case 3:
			return fmt.Sprintf("-N 2 -n 4 --gpus=%d", 2+d.IntN(number))
		case 4:
			return fmt.Sprintf("-n 1 --gpus=%d --cpus-per-gpu=%d", n, 1+d.IntN(2))
		case 5:
			return fmt.Sprintf("-n 1 --gpus-per-node=%d --cpus-per-gpu=1", n)
		case 6:
			return fmt.Sprintf("--gpus=%d --mem-per-gpu=%d", n, d.memory/pick(d, 8, 16))
		case 7:
			if sockets := 1 + d.IntN(d.sockets); places {
				return fmt.Sprintf("--sockets-per-node=%d --gpus-per-socket=1", sockets)
			}
		}
		return ""
	})
}

// withGPUs gives the nodes GPUs. It returns their number on each node, and whether they have a
// type.
func (d *drawing) withGPUs() (number int, typed bool) {
	d.set("GresTypes", "gpu")
	typed, number = d.chance(.5), pick(d, 2, 4, 8)
	what := fmt.Sprintf("gpu:%d", number)
	if typed {
		what = fmt.Sprintf("gpu:fast:%d", number)
	}
	d.nodes[0] += " Gres=" + what
	line := "Name=gpu"
	if typed {
		line += " Type=fast"
	}
	half := number/2 - 1
	text := fmt.Sprintf("%s File=/dev/nvidia[0-%d]\n%s File=/dev/nvidia[%d-%d]", line, half, line, half+1, number-1)
	if d.chance(.4) && d.sockets > 1 { // since 23.11 Cores= must be those of whole sockets
		text = fmt.Sprintf("%s File=/dev/nvidia[0-%d] Cores=0-%d\n%s File=/dev/nvidia[%d-%d] Cores=%d-%d",
			line, half, d.cores/2-1,
			line, half+1, number-1, d.cores/2, d.cores-1)
	}
	d.files = append(d.files, "-- gres.conf --\n"+text)
	return number, typed
}

// features draws kinds of nodes with weights and features.
func (d *drawing) features() {
	d.nodes[0] += fmt.Sprintf(" Weight=%d Feature=old", pick(d, 1, 5, 10))
	d.nodes = append(d.nodes, fmt.Sprintf(
		"NodeName=b[1-4] CPUs=16 Sockets=2 CoresPerSocket=8 RealMemory=64000 Weight=%d Feature=new,%s",
		pick(d, 1, 3, 10), pick(d, "fast", "big,fast")),
		"NodeName=c1 CPUs=4 CoresPerSocket=4 RealMemory=256000 Weight=20 Feature=big")
	d.job = append(d.job, func(int) string {
		return pick(d, "", "", "", "-C new", "-C old", "-C fast|old", "-C new&fast", "-C big", "-w a1",
			"-x a1,b2", "--mem=60000", "-N 2-3",
			"--exclusive -C new")
	})
}

// manyPartitions draws partitions with tiers and limits over the same nodes, and jobs that name
// several partitions.
func (d *drawing) manyPartitions() {
	last := len(d.names)
	half := max(1, last/2)
	for _, p := range []struct{ name, nodes string }{
		{"long", fmt.Sprintf("a[1-%d]", half)}, {"short", "ALL"}, {"top", fmt.Sprintf("a[%d-%d]", half, last)},
	} {
		line := fmt.Sprintf("PartitionName=%s Nodes=%s MaxTime=%d DefMemPerCPU=100", p.name, p.nodes, pick(d, 60, 120))
		for _, o := range []struct {
			text string
			p    float64
		}{
			{fmt.Sprintf("PriorityTier=%d", pick(d, 1, 2, 5)), .5},
			{fmt.Sprintf("PriorityJobFactor=%d", pick(d, 1, 10, 100)), .4},
			{fmt.Sprintf("MaxNodes=%d", pick(d, 1, 2, half)), .3}, {"OverSubscribe=EXCLUSIVE", .2}, {"LLN=YES", .1},
		} {
			if d.chance(o.p) {
				line += " " + o.text
			}
		}
		d.partitions = append(d.partitions, line)
	}
	d.job = append(d.job, func(int) string {
		return pick(d, "", "-p long", "-p short", "-p top", "-p short,long", "-p all,top", "-p long,short,top")
	})
}

// tree draws switches, and jobs that ask for nodes on few switches.
func (d *drawing) tree() {
	d.nodes[0] = strings.Replace(d.nodes[0], fmt.Sprintf("a[1-%d]", len(d.names)), "a[1-12]", 1)
	for len(d.names) < 12 {
		d.names = append(d.names, fmt.Sprintf("a%d", len(d.names)+1))
	}
	d.set("TopologyPlugin", "topology/tree")
	leaf := pick(d, 3, 4, 6)
	var text strings.Builder
	for k := range 12 / leaf {
		fmt.Fprintf(&text, "SwitchName=s%d Nodes=a[%d-%d]\n", k+1, k*leaf+1, (k+1)*leaf)
	}
	fmt.Fprintf(&text, "SwitchName=top Switches=s[1-%d]", 12/leaf)
	d.files = append(d.files, "-- topology.conf --\n"+text.String())
	d.job = append(d.job, func(int) string {
		n := 1 + d.IntN(8)
		switch d.IntN(4) {
		case 0:
			return fmt.Sprintf("-N %d", n)
		case 1:
			return fmt.Sprintf("-N %d --switches=1@%d", 1+d.IntN(leaf), 1+d.IntN(5))
		case 2:
			return fmt.Sprintf("-N %d --exclusive", n)
		}
		return ""
	})
}

// accounting draws accounts, users and QOS. assoc and qos draw further options of each association
// and of each QOS.
func (d *drawing) accounting(enforce string, assoc, qos func() string) {
	d.set("AccountingStorageType", "accounting_storage/slurmdbd")
	d.set("AccountingStorageEnforce", enforce)
	d.set("PriorityType", "priority/multifactor")
	d.set("PriorityWeightFairshare", pick(d, "1000", "10000"))
	d.set("PriorityWeightQOS", "1000")
	d.set("PriorityDecayHalfLife", pick(d, "0:30:00", "4:00:00", "7-0"))
	lines := []string{"add qos name=high priority=100 " + qos(), "add qos name=low priority=1 " + qos(),
		"modify qos where name=normal set priority=10", "add cluster name=tiny fairshare=1 qos=normal,high,low",
		"add account name=red description=red organization=x fairshare=3 " + assoc(),
		"add account name=blue description=blue organization=x fairshare=1 " + assoc(),
		"add account name=sky description=sky organization=x parent=blue fairshare=2 " + assoc()}
	for _, u := range [][2]string{{"ann", "red"}, {"bob", "red"}, {"cat", "blue"}, {"dan", "sky"}} {
		lines = append(lines, fmt.Sprintf("add user name=%s account=%s defaultaccount=%s fairshare=%d %s",
			u[0], u[1], u[1], 1+d.IntN(5), assoc()))
	}
	d.files = append(d.files, "-- accounts.sacctmgr --\n"+strings.Join(lines, "\n"))
	d.job = append(d.job, func(int) string { return pick(d, "", "", "-q high", "-q low") })
}

// fairshare draws users with shares.
func (d *drawing) fairshare() {
	if d.chance(.3) {
		d.set("PriorityFlags", pick(d, "NO_FAIR_TREE", "MAX_TRES", "SMALL_RELATIVE_TO_TIME", "ACCRUE_ALWAYS"))
	}
	if d.chance(.3) {
		d.set("PriorityWeightTRES", "cpu=1000,mem=500")
	}
	nothing := func() string { return "" }
	d.accounting("associations", nothing, nothing)
}

// limits draws limits of associations and QOS.
func (d *drawing) limits() {
	draw := func(p float64, list ...string) func() string {
		return func() string {
			var out []string
			for _, one := range list {
				name, values, _ := strings.Cut(one, "=")
				if d.chance(p) {
					out = append(out, name+"="+pick(d, strings.Split(values, "|")...))
				}
			}
			return strings.Join(out, " ")
		}
	}
	common := []string{"grptres=cpu=8|cpu=16|node=3|mem=20000", "grpjobs=3|6", "grpsubmitjobs=8|15",
		"maxtresperjob=cpu=6|node=2|mem=9000",
		"maxwall=10|30", "grptresrunmins=cpu=200|cpu=600"}
	p := pick(d, .1, .2, .35)
	d.accounting(pick(d, "associations,limits,qos", "associations,limits", "associations,limits,qos,safe"),
		draw(p, append(common, "maxjobs=2|4", "maxsubmitjobs=5|10")...),
		draw(p, append(common, "maxjobsperuser=2|3", "maxtresperuser=cpu=4|cpu=12|node=2", "maxjobsperaccount=3|5",
			"maxtresperaccount=cpu=10|mem=20000", "maxsubmitjobsperuser=6|12", "mintresperjob=cpu=2", "usagefactor=0.5|2")...))
}

// events draws nodes that fail, are drained and return.
func (d *drawing) events() {
	if d.chance(.3) {
		d.set("JobRequeue", "0")
	}
	for at := 60 + d.IntN(200); at < 900; at += 40 + d.IntN(300) {
		d.extra = append(d.extra, fmt.Sprintf("node at=%d %s %s test", at, pick(d, d.names...),
			pick(d, "down", "drain", "resume", "resume")))
	}
	for i, name := range d.names {
		d.extra = append(d.extra, fmt.Sprintf("node at=%d %s resume", 1000+i, name))
	}
	d.job = append(d.job, func(int) string { return pick(d, "", "", "", "--no-requeue", "--requeue", "-N 2", "-a 1-3") })
}

// reservations draws reservations of nodes for users, and maintenance.
func (d *drawing) reservations() {
	for i := range 1 + d.IntN(3) {
		start := 100 + d.IntN(900)
		at := start - d.IntN(start)
		d.extra = append(d.extra, fmt.Sprintf("reservation at=%d create r%d start=%d duration=%d nodes=%s users=%s",
			at, i, start,
			60*(1+d.IntN(15)), pick(d, d.names...), pick(d, "root", "ann", "bob,cat")))
	}
	d.job = append(d.job, func(int) string { return pick(d, "", "", "", "", "-N 2", "--reservation=r0") })
}

// magnetic draws reservations that attract the jobs of their users or accounts.
func (d *drawing) magnetic() {
	if d.chance(.5) {
		d.manyPartitions()
	}
	d.jobs, d.pace = 50+d.IntN(90), []int{0, 0, 0, 1, 2, 5, 10, 20}
	if d.chance(.3) {
		nothing := func() string { return "" }
		d.accounting("associations", nothing, nothing)
	}
	for _, o := range []string{
		"bf_allow_magnetic_slot", "bf_max_job_start=2", "sched_max_job_start=2", "bf_max_job_test=10",
	} {
		if d.chance(.15) {
			d.set("SchedulerParameters", strings.TrimPrefix(d.conf["SchedulerParameters"]+","+o, ","))
		}
	}
	count := 1 + d.IntN(3)
	for i := range count {
		start := d.IntN(700)
		at := start - d.IntN(start+1)
		flags := pick(d, "MAGNETIC", "MAGNETIC", "MAGNETIC", "MAGNETIC,IGNORE_JOBS", "MAGNETIC,OVERLAP",
			"MAGNETIC,NO_HOLD_JOBS_AFTER_END", "MAGNETIC,PURGE_COMP", "MAGNETIC,PURGE_COMP=1:00", "PURGE_COMP=2:00",
			"MAGNETIC,HOURLY", "IGNORE_JOBS")
		who := "users=" + pick(d, "ann", "bob,cat", "ann,bob,cat,dan", "dan")
		if d.conf["AccountingStorageType"] != "" && d.chance(.5) {
			who = "accounts=" + pick(d, "red", "blue")
		}
		nodes := fmt.Sprintf("count=%d", 1+d.IntN(3))
		if d.chance(.6) {
			first := d.IntN(len(d.names))
			nodes = "nodes=" + strings.Join(d.names[first:min(len(d.names), first+1+d.IntN(2))], ",")
		}
		d.extra = append(d.extra, fmt.Sprintf("reservation at=%d create r%d start=%d duration=%d %s %s flags=%s",
			at, i, start, 60*(2+d.IntN(20)), nodes, who, flags))
		if d.chance(.2) {
			d.extra = append(d.extra, fmt.Sprintf("reservation at=%d update r%d flags=%s", at+d.IntN(300), i,
				pick(d, "-MAGNETIC", "MAGNETIC", "PURGE_COMP=1:30")))
		}
	}
	d.job = append(d.job, func(int) string {
		return pick(d, "", "", "", "", "-N 2", "--exclusive", "-a 1-5", "-a 1-6%2",
			fmt.Sprintf("--reservation=r%d", d.IntN(count)), "-w "+pick(d, d.names...))
	})
}

// attracted draws magnetic reservations that slurmctld does not refuse: they are created early, on named nodes,
// and each has its own nodes.
func (d *drawing) attracted() {
	d.magnetic()
	d.extra = nil
	d.Shuffle(len(d.names), func(i, k int) { d.names[i], d.names[k] = d.names[k], d.names[i] })
	for i := range 1 + d.IntN(3) {
		start := 20 + d.IntN(300)
		const line = "reservation at=%d create r%d start=%d duration=%d nodes=%s users=%s flags=IGNORE_JOBS,%s"
		d.extra = append(d.extra, fmt.Sprintf(line,
			d.IntN(20), i, start, 60*(3+d.IntN(25)), d.names[i], pick(d, "ann", "bob,cat", "ann,bob,cat,dan", "dan"),
			pick(d, "MAGNETIC", "MAGNETIC", "MAGNETIC,NO_HOLD_JOBS_AFTER_END", "MAGNETIC,PURGE_COMP=1:00", "MAGNETIC,HOURLY")))
	}
}

// cpuLimits draws partitions whose jobs may together use only some CPUs of each node or socket.
func (d *drawing) cpuLimits() {
	if d.chance(.7) {
		d.manyPartitions()
	}
	gpus := 0
	if d.chance(.25) {
		gpus, _ = d.withGPUs()
	}
	if d.chance(.3) {
		d.events()
	}
	d.jobs, d.pace = 40+d.IntN(60), []int{0, 0, 0, 1, 2, 5, 10}
	limited := d.IntN(len(d.partitions))
	for i := range d.partitions {
		if i == limited || d.chance(.4) {
			d.partitions[i] += fmt.Sprintf(" MaxCPUsPerNode=%d", 1+d.IntN(d.cores))
		}
		if d.chance(.3) {
			d.partitions[i] += fmt.Sprintf(" MaxCPUsPerSocket=%d", 1+d.IntN(max(2, d.cores/d.sockets)))
		}
	}
	d.job = append(d.job, func(int) string {
		switch d.IntN(14) {
		case 0, 1:
			return fmt.Sprintf("-c %d", 1+d.IntN(d.cores))
		case 2:
			return fmt.Sprintf("-N %d", 1+d.IntN(len(d.names)))
		case 3:
			return fmt.Sprintf("-N 2 -n 4 --ntasks-per-node=%d", pick(d, 1, 2, 2))
		case 4:
			return pick(d, "--exclusive", "--exclusive=user", "--spread-job", "--contiguous", "-N 1", "--threads-per-core=1")
		case 5:
			return pick(d, "--ntasks-per-core=1", "--ntasks-per-socket=1", "--ntasks-per-socket=2", "-m block:block")
		case 6:
			return pick(d, "-a 1-4", "-a 1-6%2", "--nice=50")
		case 7:
			return "-w " + pick(d, d.names...)
		case 8, 9:
			if gpus > 0 {
				return pick(d, fmt.Sprintf("--gres=gpu:%d", 1+d.IntN(gpus)), fmt.Sprintf("--gpus=%d", 1+d.IntN(gpus)))
			}
		}
		return ""
	})
}

// gpuDefaults draws CPUs and memory for each GPU that slurm.conf gives to jobs, for the cluster and for partitions.
func (d *drawing) gpuDefaults() {
	number, typed := d.withGPUs()
	places := typed || strings.Contains(d.files[0], "Cores=")
	if d.chance(.5) {
		d.manyPartitions()
	}
	if d.chance(.2) {
		d.limits()
	}
	d.jobs, d.pace = 40+d.IntN(60), []int{0, 0, 1, 2, 5, 10}
	cpus := func() string { return fmt.Sprint(1 + d.IntN(max(1, 2*d.cores/number))) }
	memory := func() string { return fmt.Sprint(d.memory / number / pick(d, 1, 2, 3, 4)) }
	if d.chance(.6) {
		d.set("DefCpuPerGPU", cpus())
	}
	if d.chance(.6) {
		d.set("DefMemPerGPU", memory())
	}
	for i := range d.partitions {
		if i > 0 && d.chance(.3) {
			d.partitions[i] = defaultMemory.ReplaceAllString(d.partitions[i], "")
		}
		if d.chance(.5) {
			d.partitions[i] += " DefCpuPerGPU=" + cpus()
		}
		if d.chance(.5) {
			d.partitions[i] += " DefMemPerGPU=" + memory()
		}
	}
	d.job = append(d.job, func(i int) string {
		n := 1 + d.IntN(number)
		if i%9 == 0 {
			return ""
		}
		switch d.IntN(10) {
		case 0:
			return fmt.Sprintf("--gres=gpu:%d", n)
		case 1, 2:
			return fmt.Sprintf("--gpus=%d", 1+d.IntN(2*number))
		case 3:
			return fmt.Sprintf("-N 2 -n %d --gpus-per-node=%d", 2+d.IntN(4), n)
		case 4, 5:
			return fmt.Sprintf("-n %d --gpus-per-task=%d", 1+d.IntN(4), 1+d.IntN(2))
		case 6:
			if sockets := 1 + d.IntN(d.sockets); places {
				return fmt.Sprintf("--sockets-per-node=%d --gpus-per-socket=1", sockets)
			}
		case 7:
			return fmt.Sprintf("-n 1 --gpus-per-node=%d", n)
		case 8:
			if typed {
				return fmt.Sprintf("-n 1 --gres=gpu:fast:%d", n)
			}
		}
		return ""
	}, func(i int) string {
		if i%9 == 0 {
			return fmt.Sprintf("--gpus=%d %s", 1+d.IntN(number), pick(d,
				fmt.Sprintf("--mem-per-gpu=%d", d.memory/number/2), "-n 1 --cpus-per-gpu=1", "-n 1 --cpus-per-gpu=2"))
		}
		switch d.IntN(16) {
		case 0:
			return fmt.Sprintf("-c %d", 1+d.IntN(max(1, d.cores/2)))
		case 1:
			return fmt.Sprintf("--mem=%d", d.memory/pick(d, 2, 4, 8))
		case 2:
			return fmt.Sprintf("--mem-per-cpu=%d", d.memory/d.cores/pick(d, 1, 2, 4))
		case 3:
			return pick(d, "--exclusive", "-a 1-4", "--nice=50", "--ntasks-per-node=2")
		}
		return ""
	})
}

var defaultMemory = regexp.MustCompile(` DefMemPerCPU=\d+`)

// consumableCPUs draws nodes whose CPUs are consumable resources (CR_CPU), with and without threads.
func (d *drawing) consumableCPUs() {
	threads, all := pick(d, 1, 2, 2, 2), 1 // all is the number of CPUs of a core
	if threads == 2 {
		all = pick(d, 1, 2, 2)
	}
	d.nodes[0] = fmt.Sprintf("NodeName=a[1-%d] CPUs=%d Sockets=%d CoresPerSocket=%d ThreadsPerCore=%d RealMemory=%d",
		len(d.names), d.cores*all, d.sockets, d.cores/d.sockets, threads, d.memory)
	d.partitions[0] = fmt.Sprintf("PartitionName=all Nodes=ALL Default=YES DefMemPerCPU=%d MaxTime=60",
		d.memory/(2*d.cores*all))
	d.set("SelectTypeParameters", pick(d, "CR_CPU", "CR_CPU", "CR_CPU_Memory", "CR_CPU_Memory", "CR_CPU_Memory,CR_LLN"))
	gpus := 0
	if d.chance(.4) {
		gpus, _ = d.withGPUs()
	}
	switch d.IntN(4) {
	case 0:
		d.manyPartitions()
	case 1:
		d.fairshare()
	}
	d.jobs, d.pace = 50+d.IntN(90), []int{0, 0, 0, 1, 2, 5, 10}
	d.job = append(d.job, func(int) string {
		switch d.IntN(20) {
		case 0, 1:
			return fmt.Sprintf("-c %d", 1+d.IntN(d.cores))
		case 2:
			return fmt.Sprintf("-N 2 -n 4 --ntasks-per-node=2 -c %d", pick(d, 1, 1, 2, 3))
		case 3:
			return fmt.Sprintf("--ntasks-per-core=%d", pick(d, 1, 1, 2))
		case 4:
			return fmt.Sprintf("-n %d -c %d --ntasks-per-core=1", 1+d.IntN(3), 2+d.IntN(2))
		case 5:
			return pick(d, "--threads-per-core=1", "--threads-per-core=1 -c 2", "--threads-per-core=2")
		case 6:
			return "--hint=nomultithread"
		case 7:
			return pick(d, "-B 1", "-B 1:2", "-B 2:1", "-B 1:1:1", "-B *:2:1")
		case 8, 9:
			return fmt.Sprintf("--mem-per-cpu=%d", d.memory/d.cores/pick(d, 1, 2, 3, 4))
		case 10:
			return fmt.Sprintf("--mem-per-cpu=%d %s", d.memory/d.cores/pick(d, 1, 2, 3), pick(d, "--ntasks-per-core=1",
				"--threads-per-core=1", "--hint=nomultithread", "--exclusive", "-N 2", "-c 3"))
		case 11:
			return pick(d, "--exclusive", "--exclusive --threads-per-core=1", "-N 2 --exclusive", "--mem=0")
		case 12:
			return pick(d, "-m block:block", "-m block:cyclic", "-m cyclic:cyclic", "-m cyclic", "--ntasks-per-socket=1",
				"--ntasks-per-socket=2")
		case 13:
			return fmt.Sprintf("-N %d", 1+d.IntN(len(d.names)))
		case 14:
			return pick(d, "-a 1-4", "-a 1-6%2", "--contiguous -N 2", "--spread-job", fmt.Sprintf("--mem=%d", d.memory/2))
		case 15, 16, 17:
			if gpus > 0 {
				n := 1 + d.IntN(gpus)
				return pick(d, fmt.Sprintf("--gres=gpu:%d", n), fmt.Sprintf("--gpus=%d", n),
					fmt.Sprintf("-n 2 --gpus-per-task=%d", 1+d.IntN(2)),
					fmt.Sprintf("-n 1 --gpus=%d --cpus-per-gpu=%d", n, 1+d.IntN(3)))
			}
		}
		return ""
	})
}

// brackets draws nodes of several racks, and jobs whose nodes must be in the same one of some racks.
func (d *drawing) brackets() {
	d.nodes[0] += fmt.Sprintf(" Weight=%d Feature=old,r1", pick(d, 1, 5))
	d.nodes = append(d.nodes,
		fmt.Sprintf("NodeName=b[1-4] CPUs=8 CoresPerSocket=8 RealMemory=32000 Weight=%d Feature=new,r2", pick(d, 1, 5)),
		fmt.Sprintf("NodeName=c[1-3] CPUs=4 CoresPerSocket=4 RealMemory=16000 Weight=%d Feature=new,%s", pick(d, 1, 3),
			pick(d, "r1", "r3", "r1,r2")))
	for _, more := range []func(){d.manyPartitions, func() { d.withGPUs() }, d.events} {
		if d.chance(.3) {
			more()
			break
		}
	}
	d.jobs, d.pace = 50+d.IntN(80), []int{0, 0, 0, 1, 2, 5, 10}
	d.job = append(d.job, func(int) string {
		options := pick(d, "", "", "-C [r1|r2]", "-C [r1|r2]", "-C [r2|r1]", "-C [r2|r1|old]", "-C new&[r1|r2]",
			"-C [r1|r2]&new", "-C [old|new]", "-C [new|old]", "-C r1|r2", "-C new")
		return strings.TrimSpace(options + " " + pick(d, "", "", "", "-N 2", "-N 3", "-N 2-4", "--exclusive -N 2", "-a 1-3",
			"--contiguous -N 2", "-c 2"))
	})
}

// licenses draws licences, jobs that ask for some and, in some cases, several partitions.
func (d *drawing) licenses() {
	d.set("Licenses", fmt.Sprintf("a:%d,b:%d", 1+d.IntN(4), 2+d.IntN(6)))
	if d.chance(.4) {
		d.manyPartitions()
	}
	d.job = append(d.job, func(int) string {
		return pick(d, "", "", "-L a", "-L b:2", "-L a,b", "-L b", "-L a -a 1-4", "-L b -N 2", "-L a --exclusive")
	})
}

// owners draws jobs that share nodes only with jobs of their user, in partitions of several states.
func (d *drawing) owners() {
	d.manyPartitions()
	for i := range d.partitions {
		if d.chance(.3) {
			d.partitions[i] += " ExclusiveUser=YES"
		}
		if i > 0 && d.chance(.3) {
			d.partitions[i] += " State=" + pick(d, "DOWN", "DRAIN", "DRAIN Alternate=all", "INACTIVE")
		}
	}
	d.job = append(d.job, func(int) string {
		return pick(d, "", "", "", "--exclusive=user", "--exclusive=user -N 2", "--exclusive", "-N 3",
			"--exclusive=user -a 1-3")
	})
}

// deadlines draws jobs that must end in time, some with a shortest time limit.
func (d *drawing) deadlines() {
	d.jobs, d.pace = 50+d.IntN(100), []int{0, 0, 0, 1, 2, 5, 10}
	if d.chance(.3) {
		d.partitions[0] += fmt.Sprintf(" DefaultTime=%d", 2+d.IntN(20))
	}
	d.job = append(d.job, func(int) string {
		switch d.IntN(8) {
		case 0, 1:
			return fmt.Sprintf("--deadline=now+%d", 900+d.IntN(1500))
		case 2:
			return fmt.Sprintf("--deadline=now+%d --time-min=%d", 200+d.IntN(900), 1+d.IntN(2))
		case 3:
			return fmt.Sprintf("--deadline=now+%d -a 1-5", 900+d.IntN(900))
		case 4:
			return "--time-min=1"
		}
		return ""
	})
}

// preemption draws jobs that preempt others, by their QOS or partitions.
func (d *drawing) preemption() {
	d.jobs, d.pace = 40+d.IntN(80), []int{0, 0, 1, 3, 10, 30}
	d.set("PreemptMode", pick(d, "REQUEUE", "REQUEUE", "CANCEL"))
	if d.chance(.2) {
		d.set("PreemptExemptTime", pick(d, "0:01:00", "0:05:00"))
	}
	if o := pick(d, "", "", "preempt_youngest_first", "preempt_strict_order", "preempt_reorder_count=3"); o != "" {
		d.set("SchedulerParameters", strings.TrimPrefix(d.conf["SchedulerParameters"]+","+o, ","))
	}
	own := func(p float64, options ...string) string {
		if d.chance(p) {
			return " " + pick(d, options...)
		}
		return ""
	}
	d.job = append(d.job, func(int) string {
		return pick(d, "", "", "", "", "-a 1-4", "--no-requeue", "-N 2", "--exclusive")
	})
	if d.chance(.5) {
		d.set("PreemptType", "preempt/partition_prio")
		for i, name := range []string{"low", "mid", "high"} {
			line := fmt.Sprintf("PartitionName=%s Nodes=ALL MaxTime=120 DefMemPerCPU=100 PriorityTier=%d", name, 1+2*i)
			line += own(.3, "PreemptMode=OFF", "PreemptMode=CANCEL", "PreemptMode=REQUEUE")
			d.partitions = append(d.partitions, line+own(.2, "GraceTime=30", "GraceTime=120"))
		}
		d.job = append(d.job, func(int) string {
			return pick(d, "", "-p low", "-p low", "-p mid", "-p high", "-p low,high")
		})
		return
	}
	d.set("PreemptType", "preempt/qos")
	if d.chance(.2) {
		d.set("PreemptMode", d.conf["PreemptMode"]+",WITHIN")
	}
	nothing := func() string { return "" }
	d.accounting("associations", nothing, nothing)
	modes := func() string {
		return own(.3, "preemptmode=cancel", "preemptmode=requeue") + own(.2, "gracetime=30", "gracetime=120") +
			own(.15, "preemptexempttime=00:02:00")
	}
	lines := fmt.Sprintf("modify qos where name=high set preempt=%s%s\nmodify qos where name=normal set %s%s\n"+
		"modify qos where name=low set priority=%d%s\nadd cluster ", pick(d, "low", "low,normal"), modes(),
		pick(d, "priority=10", "preempt=low"), modes(), pick(d, 1, 5), modes())
	last := len(d.files) - 1
	d.files[last] = strings.Replace(d.files[last], "add cluster ", lines, 1)
}

// suspension draws jobs that suspend others, by their QOS or partitions, and take turns with them.
func (d *drawing) suspension() {
	d.preemption()
	d.set("PreemptMode", "SUSPEND,GANG")
	d.set("SchedulerTimeSlice", pick(d, "20", "30", "60"))
	for i, line := range d.partitions { // other modes of partitions and QOS would end jobs
		d.partitions[i] = otherModes.ReplaceAllString(line, "")
	}
	for i, text := range d.files {
		d.files[i] = otherModes.ReplaceAllString(text, "")
	}
}

// oversubscribe draws partitions whose jobs may share cores. In some cases other partitions have the same nodes.
func (d *drawing) oversubscribe() {
	if d.chance(.6) {
		d.manyPartitions()
	}
	gpus := 0
	if d.chance(.2) {
		gpus, _ = d.withGPUs()
	}
	d.jobs, d.pace = 60+d.IntN(120), []int{0, 0, 0, 1, 2, 5, 10}
	for i := range d.partitions {
		own := pick(d, "YES:2", "YES", "FORCE:1", "FORCE:2", "FORCE:4")
		if i > 0 {
			own = pick(d, "NO", "NO", "EXCLUSIVE", "YES", "YES:2", "YES:3", "FORCE", "FORCE:1", "FORCE:1", "FORCE:2", "FORCE:3")
		}
		d.partitions[i] = sharing.ReplaceAllString(d.partitions[i], "") + " OverSubscribe=" + own
	}
	d.set("SelectTypeParameters", pick(d, "CR_Core", "CR_Core_Memory", "CR_Core_Memory,CR_CORE_DEFAULT_DIST_BLOCK"))
	d.job = append(d.job, func(int) string {
		switch d.IntN(12) {
		case 0, 1, 2, 3:
			return "--oversubscribe"
		case 4:
			return pick(d, "--exclusive", "--exclusive", "--mem=0")
		case 5:
			return fmt.Sprintf("-N %d", 1+d.IntN(len(d.names)))
		case 6:
			return fmt.Sprintf("-c %d --oversubscribe", 1+d.IntN(d.cores))
		case 7:
			return pick(d, "-a 1-4", "-a 1-4 --oversubscribe", "-m block:block", "-N 2 -n 4 --ntasks-per-node=2")
		case 8:
			if gpus > 0 {
				return fmt.Sprintf("--gres=gpu:%d", 1+d.IntN(gpus))
			}
		}
		return ""
	})
}

var sharing = regexp.MustCompile(` OverSubscribe=\S+`)

var otherModes = regexp.MustCompile(`(?i) (preemptmode=\w+|gracetime=\d+|preemptexempttime=[0-9:]+)`)

// linear draws whole nodes (select/linear) with the jobs of another family.
func (d *drawing) linear() {
	pick(d, (*drawing).shared, (*drawing).queues, (*drawing).arrays, (*drawing).gpus, (*drawing).manyPartitions,
		(*drawing).fairshare, (*drawing).limits, (*drawing).events, (*drawing).reservations, (*drawing).licenses,
		(*drawing).deadlines)(d)
	d.wholeNodes()
}

// linearKinds draws whole nodes of several kinds. Before 23.02, backfill of slurmctld may then never end. In all
// releases it may never end for jobs with a range of nodes.
func (d *drawing) linearKinds() {
	d.features()
	features := d.job[len(d.job)-1]
	d.job[len(d.job)-1] = func(i int) string { return strings.Replace(features(i), "-N 2-3", "-N 2", 1) }
	d.wholeNodes()
}

// linearTree draws whole nodes with switches. slurmctld refuses both together since 24.05.
func (d *drawing) linearTree() {
	d.tree()
	if d.chance(.3) {
		d.set("TopologyParam", pick(d, "TopoOptional", "Dragonfly"))
	}
	d.wholeNodes()
}

func (d *drawing) wholeNodes() {
	d.set("SelectType", "select/linear")
	d.set("SelectTypeParameters", pick(d, "", "CR_Memory"))
}

// cluster returns the files of the cluster.
func (d *drawing) cluster() string {
	var b strings.Builder
	b.WriteString("-- slurm.conf --\n")
	if d.conf["AccountingStorageType"] == "" { // backfill of 22.05 crashes with this option if jobs have no QOS
		d.conf["SchedulerParameters"] = strings.TrimPrefix(strings.TrimSuffix(strings.Replace(d.conf["SchedulerParameters"],
			",assoc_limit_stop", "", 1), "assoc_limit_stop"), ",")
	}
	for _, key := range d.order {
		if value := d.conf[key]; value != "" { // SchedulerParameters may have become empty
			fmt.Fprintf(&b, "%s=%s\n", key, value)
		}
	}
	b.WriteString(strings.Join(append(d.nodes, d.partitions...), "\n"))
	const users = "-- users --\nann:1001:red:2001\nbob:1002:red:2001\ncat:1003:blue:2002\ndan:1004:blue:2002"
	for _, f := range append(d.files, users) {
		b.WriteString("\n" + f)
	}
	return b.String()
}

// lines returns the lines of the workload.
func (d *drawing) lines() string {
	var b strings.Builder
	for at, i := 0, 0; i < d.jobs; i++ {
		at += pick(d, d.pace...)
		limit := 2 + d.IntN(14)
		words := []string{fmt.Sprintf("job j%d at=%d run=%d", i, at, 20+d.IntN(50*limit))}
		if d.chance(.05) {
			words = append(words, fmt.Sprintf("cancel=%d", 1+d.IntN(300)))
		}
		if d.chance(.05) {
			words = append(words, "exit=1")
		}
		words = append(words, fmt.Sprintf("-t %d --uid=%s", limit, pick(d, "ann", "bob", "cat", "dan")))
		var own []string
		for _, more := range d.job {
			if text := more(i); text != "" {
				own = append(own, text)
			}
		}
		options := strings.Join(own, " ")
		if !strings.Contains(options, "-n ") {
			words = append(words, fmt.Sprintf("-n %d", 1+d.IntN(pick(d, 2, 4, d.wide))))
		}
		if d.chain && i > 3 && d.chance(.15) {
			options += fmt.Sprintf(" -d %s:j%d", pick(d, "afterok", "afterany", "after", "afternotok"), i-1-d.IntN(3))
		}
		words = append(words, strings.TrimSpace(options))
		b.WriteString(strings.TrimSpace(strings.Join(words, " ")) + "\n")
	}
	for _, line := range d.extra {
		b.WriteString(line + "\n")
	}
	return b.String()
}
