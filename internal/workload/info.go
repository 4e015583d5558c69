package workload

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
)

// Info is a summary of a workload: what its jobs ask for, and when they are submitted. A job
// array counts as one job and as one task for each index. Every other job is one task.
type Info struct {
	Source       string   `json:"source"`
	Jobs         int      `json:"jobs"`
	Tasks        int      `json:"tasks"`
	Arrays       int      `json:"arrays"`
	NodeEvents   int      `json:"node_events"`
	Reservations int      `json:"reservation_events"`
	Actions      int      `json:"actions"`
	FirstSubmit  hpc.Time `json:"-"`
	LastSubmit   hpc.Time `json:"-"`
	First        string   `json:"first_submit"` // RFC 3339
	Last         string   `json:"last_submit"`
	// Begin is the window's start, or the first submission of a workload without a window. WindowS
	// is the time from Begin to the last submission, in seconds.
	Begin   hpc.Time `json:"-"`
	WindowS float64  `json:"window_s"`
	// Preset is the number of jobs that run when the window begins. Waiting is the number of
	// jobs that wait then.
	Preset       int `json:"preset_jobs"`
	Waiting      int `json:"waiting_jobs"`
	WaitingTasks int `json:"waiting_tasks"` // the tasks of the waiting jobs

	// The jobs by the names that they request, the most frequent name first.
	Users      []Tally `json:"users"`
	Accounts   []Tally `json:"accounts"`
	Partitions []Tally `json:"partitions"`
	QOS        []Tally `json:"qos"`

	WithDependency int `json:"jobs_with_dependency"`
	WithGPUs       int `json:"jobs_with_gres"`
	Exclusive      int `json:"jobs_exclusive"`
	// WithCancellation is the number of jobs that the workload cancels some time after their submission. In a workload
	// from accounting records, these jobs ended before they started.
	WithCancellation int `json:"jobs_with_cancellation"`
	// UntilLimit is the number of jobs with a limit and a run time that exceeds it or has no end. UntilLimitTasks is the
	// number of such tasks.
	UntilLimit      int `json:"jobs_until_time_limit"`
	UntilLimitTasks int `json:"tasks_until_time_limit"`
	Failing         int `json:"jobs_with_exit_code"`
	// Endless is the number of jobs with neither a run time nor a time limit. Only the limit
	// of their partition ends them. The offered work does not include them.
	Endless int `json:"jobs_without_end"`
	// DuplicateIDs is the number of jobs with the ID of an earlier job. No engine plays a workload with duplicate IDs.
	DuplicateIDs int `json:"jobs_with_duplicate_id"`
	// NeverStarted is the number of tasks that, according to the record, ended before they started, or had not started
	// when it ended. NeverStartedCPUS is their part of the offered work. How long they would have run is not known, so the
	// offered work counts their time limits, unless the workload has shorter run times. The figures about used time omit
	// them.
	NeverStarted       int     `json:"tasks_never_started"`
	NeverStartedCPUS   float64 `json:"never_started_cpu_s"`
	neverStartedLimits int     // the tasks whose time limits count

	// Offered work is the number of requested processors (or nodes) times the time for which the job
	// runs if nobody cancels it: its run time, but at most its time limit. For a job that requests
	// whole nodes only the requested processors count.
	OfferedCPUS  float64 `json:"offered_cpu_s"`
	OfferedNodeS float64 `json:"offered_node_s"` // offered work of the jobs that request nodes
	// BeforeCPUS is the part of OfferedCPUS that the jobs did before the window.
	BeforeCPUS float64 `json:"before_window_cpu_s"`

	// Requested and used time are sums over the tasks that have both a time limit and an end. The used time of a job with
	// a cancellation ends with the cancellation. Without a recorded start it is counted from the submission. UsedShare is
	// the mean of used/requested time over these tasks.
	RequestedS float64 `json:"requested_time_s"`
	UsedS      float64 `json:"used_time_s"`
	UsedShare  float64 `json:"mean_used_share"`
	// Limitless is the number of ended tasks that are in none of these figures because they have no
	// time limit.
	Limitless int `json:"tasks_without_limit"`
	// UsedDeciles counts tasks by used/requested time: [0,10 %), ..., [90 %,100 %].
	UsedDeciles [10]int `json:"used_share_deciles"`

	Sizes SizeTable `json:"size_by_duration"`
	// PerHour counts the submissions of each hour of the window. PerHour and PerHourOfDay leave out
	// submissions before the window.
	PerHour []int `json:"submissions_by_hour"`
	// PerHourOfDay counts the submissions of each hour of the day, in UTC.
	PerHourOfDay [24]int `json:"submissions_by_hour_of_day"`
	// Rules counts the records of the whole source by rule, even if the workload has only some of the source's jobs.
	Rules map[string]int `json:"rules,omitempty"`
	// Unusable is the number of records of the source that are not jobs to replay; 0 if the workload has only some of the
	// source's jobs.
	Unusable int `json:"unusable_records"`
	// MachineProcessors is the size of the machine that the workload was recorded on. OfferedLoad
	// is the load that the submissions of the window offer ([OfferedLoad]). Both are 0 if the size is not known.
	MachineProcessors int     `json:"machine_processors"`
	OfferedLoad       float64 `json:"offered_load"`
}

// Tally is the number of jobs with a name, and their offered work in CPU-seconds. The empty name
// has the jobs that give no name.
type Tally struct {
	Name        string  `json:"name"`
	Jobs        int     `json:"jobs"`
	OfferedCPUS float64 `json:"offered_cpu_s"`
}

// SizeTable counts jobs by size and by duration. Sizes are nodes if most jobs ask for nodes, and
// otherwise CPUs, in classes 1, 2, 3-4, 5-8, ...
type SizeTable struct {
	Unit      string   `json:"unit"` // "nodes" or "cpus"
	Sizes     []string `json:"sizes"`
	Durations []string `json:"durations"`
	Jobs      [][]int  `json:"jobs"` // by size, then by duration
	// NeverStarted is the number of jobs that, according to the record, did not start; see [Info.NeverStarted]. Jobs that
	// never started are not in the table.
	NeverStarted int `json:"never_started"`
}

// durationClasses are the upper bounds of the columns of a [SizeTable]. The last column has no
// bound.
var durationClasses = []struct {
	name  string
	below time.Duration
}{
	{"<1m", time.Minute}, {"<10m", 10 * time.Minute}, {"<30m", 30 * time.Minute}, {"<1h", time.Hour},
	{"<4h", 4 * time.Hour}, {"<12h", 12 * time.Hour}, {"<1d", 24 * time.Hour}, {"1d+", hpc.Unlimited},
}

// NewInfo summarizes a workload. Its jobs must be in the order of their submission, as every
// reader returns them.
func NewInfo(w *Workload) *Info {
	info := &Info{
		Source: w.Source, Jobs: w.Jobs.Len(), Rules: w.Rules, Unusable: len(w.Unusable),
		MachineProcessors: w.MachineProcessors,
		NodeEvents:        len(w.NodeEvents), Reservations: len(w.Reservations), Actions: len(w.Actions),
		Sizes: newSizeTable(&w.Jobs),
	}
	if w.Jobs.Len() == 0 {
		return info
	}
	info.FirstSubmit, info.LastSubmit = w.Jobs.Submit(0), w.Jobs.Submit(w.Jobs.Len()-1)
	info.First, info.Last = info.FirstSubmit.String(), info.LastSubmit.String()
	info.Begin = cmp.Or(w.Start, info.FirstSubmit)
	window := max(0, info.LastSubmit.Sub(info.Begin))
	info.WindowS = window.Seconds()
	info.PerHour = make([]int, int(window/time.Hour)+1)
	info.PerHourOfDay = HoursOfDay(w, time.UTC)
	var users, accounts, partitions, qos tallies
	submitted := 0.0 // the offered work of the jobs that are submitted in the window
	for _, job := range w.Jobs.All() {
		work := info.add(job)
		switch {
		case w.Preset(job):
			info.Preset++
		case job.Submit < info.Begin:
			info.Waiting++
			info.WaitingTasks += len(TasksOf(job))
		default:
			info.PerHour[job.Submit.Sub(info.Begin)/time.Hour]++
			submitted += work
		}
		users.add(job.User, work)
		accounts.add(job.Account, work)
		partitions.add(job.Partition, work)
		qos.add(job.QOS, work)
	}
	info.DuplicateIDs = duplicateIDs(w)
	info.Users, info.Accounts = users.sorted(), accounts.sorted()
	info.Partitions, info.QOS = partitions.sorted(), qos.sorted()
	if n := sum(info.UsedDeciles[:]); n > 0 {
		info.UsedShare /= float64(n)
	}
	info.OfferedLoad = OfferedLoad(submitted, w.MachineProcessors, info.Begin, info.LastSubmit)
	return info
}

// duplicateIDs returns how many jobs have the ID of an earlier job. It keeps a hash of each ID, and
// compares only the IDs with equal hashes.
func duplicateIDs(w *Workload) (n int) {
	hash := func(id string) uint64 {
		h := fnv.New64a()
		_, _ = io.WriteString(h, id) // never fails
		return h.Sum64()
	}
	hashes := make([]uint64, 0, w.Jobs.Len())
	for _, job := range w.Jobs.All() {
		hashes = append(hashes, hash(job.ID))
	}
	slices.Sort(hashes)
	several := map[uint64]bool{}
	for i, h := range hashes {
		if i > 0 && h == hashes[i-1] {
			several[h] = true
		}
	}
	if len(several) == 0 {
		return 0
	}
	seen := map[string]bool{}
	for _, job := range w.Jobs.All() {
		if seen[job.ID] {
			n++
		} else if several[hash(job.ID)] {
			seen[strings.Clone(job.ID)] = true
		}
	}
	return n
}

// HoursOfDay counts the submissions of the window by the hour of the day in a time zone.
func HoursOfDay(w *Workload, zone *time.Location) (counts [24]int) {
	for i := range w.Jobs.Len() {
		if submit := w.Jobs.Submit(i); submit >= w.Start {
			counts[submit.Std().In(zone).Hour()]++
		}
	}
	return counts
}

// add counts a job and returns its offered work in CPU-seconds.
func (info *Info) add(job *hpc.Job) float64 {
	info.countKinds(job)
	tasks := TasksOf(job)
	info.Tasks += len(tasks)
	size := CPUs(&job.Request)
	info.countUntilLimit(job, tasks)
	for _, task := range tasks {
		d, ends := Occupied(job.RunTimeOf(task), job.TimeLimit)
		if !ends {
			continue
		}
		info.OfferedNodeS += float64(job.MinNodes) * d.Seconds()
		if start := recordedStart(job, task); start != 0 && start < info.Begin {
			info.BeforeCPUS += float64(size) * min(d, info.Begin.Sub(start)).Seconds()
		}
		if neverStarted(job, task) {
			info.NeverStarted++
			info.NeverStartedCPUS += float64(size) * d.Seconds()
			if d == job.TimeLimit {
				info.neverStartedLimits++
			}
			continue
		}
		if job.CancelAfter > 0 {
			start := cmp.Or(recordedStart(job, task), job.Submit)
			d = min(d, max(0, job.Submit.Add(job.CancelAfter).Sub(start)))
		}
		info.addUse(d, job.TimeLimit)
	}
	work := OfferedWork(job)
	info.OfferedCPUS += work
	return work
}

// countUntilLimit counts the tasks whose run time exceeds the job's time limit.
func (info *Info) countUntilLimit(job *hpc.Job, tasks []int) {
	before := info.UntilLimitTasks
	for _, task := range tasks {
		if Exceeds(job.RunTimeOf(task), job.TimeLimit) && !neverStarted(job, task) {
			info.UntilLimitTasks++
		}
	}
	if info.UntilLimitTasks > before {
		info.UntilLimit++
	}
}

// OfferedWork returns the offered work of a job in CPU-seconds: for each task, the requested processors times the time
// for which the task runs if nobody cancels it, its run time, but at most the time limit. Tasks without an end do not
// count.
func OfferedWork(job *hpc.Job) (work float64) {
	size := float64(CPUs(&job.Request))
	for _, task := range TasksOf(job) {
		if d, ends := Occupied(job.RunTimeOf(task), job.TimeLimit); ends {
			work += size * d.Seconds()
		}
	}
	return work
}

// OfferedLoad returns the offered load of a window: the offered work of the jobs that were submitted in it, divided by
// the machine's processors and by the time until the last of these submissions. The load of an overloaded machine is
// above 1. It is 0 if the number of processors is not known, and for a window without length.
func OfferedLoad(work float64, processors int, begin, last hpc.Time) float64 {
	if processors <= 0 || last <= begin {
		return 0
	}
	return work / (float64(processors) * last.Sub(begin).Seconds())
}

// Counted returns the number of jobs in words. If some jobs are arrays, the text also has the number of tasks, because
// a run has a row, and an SWF log a record, for each task.
func Counted(jobs *Jobs) string {
	arrays, tasks := 0, 0
	for _, job := range jobs.All() {
		if job.Array != "" {
			arrays++
		}
		tasks += len(TasksOf(job))
	}
	return quantity.Regular(jobs.Len(), "job") + inTasks(arrays, tasks)
}

func inTasks(arrays, tasks int) string {
	return note(arrays > 0, " (%s, %s in all)", quantity.Regular(arrays, "array"), quantity.Regular(tasks, "task"))
}

// neverStarted reports whether, according to the record, a task ended without a start, or still waited.
func neverStarted(job *hpc.Job, task int) bool {
	if job.Recorded == nil {
		return false
	}
	rec := job.Recorded.OfTask(task)
	return rec.State.Ended() && rec.NeverStarted() || rec.State == hpc.Pending && rec.Start == 0
}

func recordedStart(job *hpc.Job, task int) hpc.Time {
	if job.Recorded == nil {
		return 0
	}
	return job.Recorded.OfTask(task).Start
}

func (info *Info) countKinds(job *hpc.Job) {
	for _, kind := range []struct {
		counter *int
		is      bool
	}{
		{&info.Arrays, job.Array != ""},
		{&info.WithDependency, job.Dependency != ""},
		{&info.WithGPUs, strings.Contains(job.GRES, "gpu") || job.GPUs != "" || job.GPUsPerNode != "" ||
			job.GPUsPerTask != "" || job.GPUsPerSocket != ""},
		{&info.Exclusive, job.Exclusive != ""},
		{&info.WithCancellation, job.CancelAfter > 0},
		{&info.Failing, job.ExitCode != 0 || len(job.TaskExitCodes) > 0},
		{&info.Endless, !endsByItself(job)},
	} {
		if kind.is {
			*kind.counter++
		}
	}
}

func endsByItself(job *hpc.Job) bool {
	_, ends := Occupied(job.RunTime, job.TimeLimit)
	return ends
}

// addUse counts how much of its time limit a task used.
func (info *Info) addUse(used, limit time.Duration) {
	if limit <= 0 || limit == hpc.Unlimited {
		info.Limitless++
		return
	}
	share := float64(used) / float64(limit)
	info.RequestedS += limit.Seconds()
	info.UsedS += used.Seconds()
	info.UsedShare += share
	info.UsedDeciles[max(0, min(int(share*10), 9))]++
}

// Occupied returns how long a job holds its nodes if nobody interrupts it. The result ends is
// false if neither the run time nor the limit ends the job.
func Occupied(runTime, limit time.Duration) (d time.Duration, ends bool) {
	if Exceeds(runTime, limit) {
		runTime = limit
	}
	return runTime, runTime != hpc.Unlimited
}

// Exceeds reports whether the limit ends a job with this run time. As in Slurm, a job that runs exactly as long as its
// limit ends by itself. A limit of 0 is no limit.
func Exceeds(runTime, limit time.Duration) bool { return limit > 0 && runTime > limit }

// Ran returns how long a recorded job ran: its run time, or less if a cancellation, for example,
// ended it earlier. It returns the run time of a job whose start or end is not recorded.
func Ran(rec *hpc.Recorded, runTime time.Duration) time.Duration {
	if rec == nil || rec.Start.IsZero() || rec.End.IsZero() {
		return runTime
	}
	return min(runTime, rec.End.Sub(rec.Start))
}

// TasksOf returns the task indices of a job array, or [-1] for a job that is not an array.
func TasksOf(job *hpc.Job) []int {
	if job.Array != "" {
		if a, err := hpc.ParseArray(job.Array); err == nil {
			return a.Tasks
		}
	}
	return []int{-1}
}

// CPUs returns the number of CPUs that the request itself asks for: tasks times CPUs per task, with
// one task per node by default. The resource manager may allocate more (whole cores, whole nodes,
// CPUs for memory).
func CPUs(r *hpc.Request) int {
	nodes := max(r.MinNodes, 1)
	tasks := r.Tasks
	if tasks == 0 {
		tasks = nodes * max(r.TasksPerNode, 1)
	}
	return max(tasks*max(r.CPUsPerTask, 1), nodes*r.MinCPUsPerNode)
}

func newSizeTable(jobs *Jobs) SizeTable {
	withNodes := 0
	for _, job := range jobs.All() {
		if job.MinNodes > 0 {
			withNodes++
		}
	}
	byNodes := 2*withNodes > jobs.Len()
	t := SizeTable{Unit: "cpus"}
	if byNodes {
		t.Unit = "nodes"
	}
	for _, c := range durationClasses {
		t.Durations = append(t.Durations, c.name)
	}
	for _, job := range jobs.All() {
		if neverStarted(job, -1) {
			t.NeverStarted++
			continue
		}
		size := CPUs(&job.Request)
		if byNodes {
			size = max(job.MinNodes, 1)
		}
		t.add(size, job)
	}
	return t
}

func (t *SizeTable) add(size int, job *hpc.Job) {
	row := 0
	for size > 1<<row {
		row++
	}
	for len(t.Sizes) <= row {
		t.Sizes = append(t.Sizes, sizeClass(len(t.Sizes)))
		t.Jobs = append(t.Jobs, make([]int, len(durationClasses)))
	}
	d, _ := Occupied(job.RunTime, job.TimeLimit)
	column := slices.IndexFunc(durationClasses, func(c struct {
		name  string
		below time.Duration
	}) bool {
		return d < c.below
	})
	if column < 0 {
		column = len(durationClasses) - 1
	}
	t.Jobs[row][column]++
}

// sizeClass names the class of sizes above 2^(row-1) up to 2^row.
func sizeClass(row int) string {
	if row < 2 {
		return fmt.Sprint(1 << row)
	}
	return fmt.Sprintf("%d-%d", 1<<(row-1)+1, 1<<row)
}

// tallies collects jobs by name.
type tallies map[string]*Tally

func (t *tallies) add(name string, work float64) {
	if *t == nil {
		*t = make(tallies)
	}
	entry := (*t)[name]
	if entry == nil {
		entry = &Tally{Name: name}
		(*t)[name] = entry
	}
	entry.Jobs++
	entry.OfferedCPUS += work
}

func (t tallies) sorted() []Tally {
	list := make([]Tally, 0, len(t))
	for _, entry := range t {
		list = append(list, *entry)
	}
	slices.SortFunc(list, func(a, b Tally) int {
		switch {
		case a.Jobs != b.Jobs:
			return b.Jobs - a.Jobs
		default:
			return strings.Compare(a.Name, b.Name)
		}
	})
	return list
}

func sum(list []int) int {
	total := 0
	for _, n := range list {
		total += n
	}
	return total
}

// Render writes the summary as text of at most 100 columns. Dates are in the given time zone.
func (info *Info) Render(w io.Writer, zone *time.Location) error {
	p := printer{w: w}
	p.line("%s", info.Source)
	p.line("  jobs          %d%s", info.Jobs, inTasks(info.Arrays, info.Tasks))
	p.line("  window        %s", span(info, zone))
	if info.Preset+info.Waiting > 0 {
		p.line("  at its start  %d %s, %d wait%s", info.Preset, quantity.Plural(info.Preset, "job runs", "jobs run"), info.Waiting,
			note(info.WaitingTasks > info.Waiting, ", with arrays %d tasks", info.WaitingTasks))
	}
	p.line("  offered work  %s CPU-hours%s", hours(info.OfferedCPUS),
		note(info.OfferedNodeS > 0, "; %s node-hours by jobs that name nodes", hours(info.OfferedNodeS)))
	if info.WithCancellation > 0 {
		p.line("                (without planned cancellations: as long as the jobs would run)")
	}
	if info.NeverStarted > 0 {
		noun := "job"
		if info.Arrays > 0 {
			noun = "task" // a task of an array, or a job
		}
		until, limits := "", info.neverStartedLimits
		if limits > 0 {
			until = note(limits < info.NeverStarted, ", %d of these", limits)
			until = cmp.Or(until, ",") + " until " + quantity.Plural(limits, "its limit", "their limits")
		}
		p.line("                %s CPU-hours of it by %s that never started%s", hours(info.NeverStartedCPUS),
			quantity.Regular(info.NeverStarted, noun), until)
	}
	if info.BeforeCPUS > 0 {
		p.line("                %s CPU-hours of it before the window, by jobs that run at its start", hours(info.BeforeCPUS))
	}
	if info.OfferedLoad > 0 {
		p.line("  offered load  %.1f %% of %d %s over the window", 100*info.OfferedLoad, info.MachineProcessors,
			quantity.Plural(info.MachineProcessors, "processor", "processors"))
	}
	if info.RequestedS > 0 {
		p.line("  time          %s of %s hours requested are used; on average %.0f %% of a job's limit", hours(info.UsedS),
			hours(info.RequestedS), 100*info.UsedShare)
		if info.WithCancellation > 0 {
			p.line("                (with planned cancellations: they end jobs before their run time or limit)")
		}
		if info.Limitless > 0 {
			p.line("                (without %s that %s no time limit)", quantity.Regular(info.Limitless, "task"),
				quantity.Plural(info.Limitless, "has", "have"))
		}
	} else {
		p.line("  time          the jobs have no time limits, so the use of limits is not known")
	}
	p.kinds(info)
	p.tally("user", "users", info.Users)
	p.tally("account", "accounts", info.Accounts)
	p.tally("partition", "partitions", info.Partitions)
	p.tally("QOS", "QOS", info.QOS)
	p.sizes(info.Sizes, info.WithCancellation > 0)
	p.deciles(info.UsedDeciles, info.WithCancellation > 0)
	p.hours(info.PerHour)
	for _, rule := range sortedKeys(info.Rules) {
		n, of := info.Rules[rule], "record"
		if rule == RuleLeftProcessors {
			of = "processor"
		}
		p.line("  rule %-28s %6d %s of the whole source", rule, n, quantity.Plural(n, of, of+"s"))
	}
	return p.err
}

// printer keeps the first error of many small writes.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// kind is a number of jobs or of other entries of a workload.
type kind struct {
	n    int
	what string
}

func (p *printer) kinds(info *Info) {
	tasks := note(info.UntilLimitTasks > info.UntilLimit, "(%d tasks) ", info.UntilLimitTasks)
	p.counts("  of the jobs   ", []kind{
		{info.UntilLimit, tasks + "would exceed their limit unless cancelled"}, {info.Failing, "end with an exit code"},
		{info.WithCancellation, "with a planned cancellation"},
		{info.WithDependency, "with a dependency"}, {info.WithGPUs, "with GRES"}, {info.Exclusive, "exclusive"},
		{info.Endless, "without run time and limit"}, {info.DuplicateIDs, "have the ID of another job"},
	})
	p.counts("  besides jobs  ", []kind{
		{info.NodeEvents, quantity.Plural(info.NodeEvents, "node event", "node events")},
		{info.Reservations, quantity.Plural(info.Reservations, "reservation event", "reservation events")},
		{info.Actions, quantity.Plural(info.Actions, "action", "actions")},
		{info.Unusable, quantity.Plural(info.Unusable, "unusable record", "unusable records") + " of the source"},
	})
}

// counts prints the numbers that are not 0.
func (p *printer) counts(heading string, kinds []kind) {
	var parts []string
	for _, k := range kinds {
		if k.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", k.n, k.what))
		}
	}
	p.wrapped(heading, parts)
}

// wrapped prints a comma list after a heading, in lines of at most 100 columns.
func (p *printer) wrapped(heading string, parts []string) {
	text, indent := heading, strings.Repeat(" ", len(heading))
	for i, part := range parts {
		if i < len(parts)-1 {
			part += ","
		}
		if len(text)+len(part) > 99 && text != indent {
			p.line("%s", strings.TrimRight(text, " "))
			text = indent
		}
		text += part + " "
	}
	if len(parts) > 0 {
		p.line("%s", strings.TrimRight(text, " "))
	}
}

// maxNames is the number of names of a tally that are printed.
const maxNames = 8

func (p *printer) tally(one, many string, list []Tally) {
	var parts []string
	for i, t := range list {
		if i == maxNames {
			parts = append(parts, fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		name := t.Name
		switch {
		case name == "":
			name = "(none)"
		case len(name) > 40:
			name = name[:37] + "..."
		}
		parts = append(parts, fmt.Sprintf("%s %d", name, t.Jobs))
	}
	p.wrapped(fmt.Sprintf("  %-13s ", fmt.Sprintf("%d %s", len(list), quantity.Plural(len(list), one, many))), parts)
}

func (p *printer) sizes(t SizeTable, cancelled bool) {
	if len(t.Sizes) == 0 {
		return
	}
	p.line("")
	p.line("  jobs by size and run time%s%s", note(cancelled, " without planned cancellations"), note(t.NeverStarted > 0, ", without %s that never started", quantity.Regular(t.NeverStarted, "job")))
	table := quantity.NewTable(append([]int{0, 14}, slices.Repeat([]int{9}, len(t.Durations)+1)...)...)
	row := []any{"", t.Unit}
	for _, d := range t.Durations {
		row = append(row, d)
	}
	table.Row(append(row, "all")...)
	for i, size := range t.Sizes {
		row := []any{"", size}
		for _, n := range t.Jobs[i] {
			row = append(row, dotIfZero(n))
		}
		table.Row(append(row, sum(t.Jobs[i]))...)
	}
	p.line("%s", strings.TrimSuffix(table.String(), "\n"))
}

func dotIfZero(n int) string {
	if n == 0 {
		return "."
	}
	return fmt.Sprint(n)
}

func (p *printer) deciles(counts [10]int, cancelled bool) {
	if sum(counts[:]) == 0 {
		return
	}
	p.line("")
	p.line("  tasks by used share of the time limit%s", note(cancelled, ", with planned cancellations"))
	table := quantity.NewTable(append([]int{4}, slices.Repeat([]int{9}, len(counts))...)...)
	heads, values := []any{""}, []any{""}
	for i, n := range counts {
		heads, values = append(heads, fmt.Sprintf("%d-%d%%", 10*i, 10*i+10)), append(values, dotIfZero(n))
	}
	table.Row(heads...)
	table.Row(values...)
	p.line("%s", strings.TrimSuffix(table.String(), "\n"))
}

// maxBars is the largest number of bars in the histogram of submissions. In a longer window each
// bar has several hours.
const maxBars = 24

func (p *printer) hours(perHour []int) {
	if len(perHour) == 0 {
		return
	}
	step := (len(perHour) + maxBars - 1) / maxBars
	bars := make([]int, 0, maxBars)
	for chunk := range slices.Chunk(perHour, step) {
		bars = append(bars, sum(chunk))
	}
	highest := max(slices.Max(bars), 1)
	p.line("")
	p.line("  submissions by hour of the window")
	for i, n := range bars {
		bar := strings.Repeat("#", int(math.Ceil(float64(n)*60/float64(highest))))
		p.line("%s", strings.TrimRight(fmt.Sprintf("  %8dh %8d  %s", i*step, n, bar), " "))
	}
}

func note(when bool, format string, args ...any) string {
	if !when {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

func span(info *Info, zone *time.Location) string {
	if info.Jobs == 0 {
		return "none"
	}
	return fmt.Sprintf("%s to the last submission, %s (%.1f h)", info.Begin.Text(zone), info.LastSubmit.Text(zone), info.WindowS/3600)
}

func hours(s float64) string { return fmt.Sprintf("%.1f", s/3600) }

// sortedKeys returns the keys of a map in order. It allocates nothing for an empty map, which most
// jobs have.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	if len(m) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}
