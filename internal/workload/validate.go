package workload

import (
	"fmt"
	"iter"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmspec/sbatch"
	"rmreplay/internal/spelling"
)

// Cluster has the facts about the cluster that [Validate] uses. A nil map and 0 nodes mean "not
// known", and Validate leaves out the checks that need them.
type Cluster struct {
	Partitions map[string]int  // the number of nodes of each partition
	Users      map[string]bool // users that exist on the cluster; the workload's own users exist as well
	Features   map[string]bool // the features that some node has
	Nodes      int             // the number of nodes
	NodeNames  map[string]bool
	// MaxArraySize is the key of slurm.conf: one more than the largest index. 0 means not
	// known.
	MaxArraySize int
	// WholeMemory are the partitions that allocate memory but have no default for it: a job that requests
	// no memory gets all memory of its nodes. The default partition is also listed under the empty name.
	WholeMemory map[string]bool
}

// WindowReservation is the name of the reservation in which preset jobs run until the window
// begins.
const WindowReservation = "rmreplay_window"

// Severity is the effect of a problem on a replay.
type Severity string

const (
	// Error makes the replay meaningless: the workload does not say what the replay should
	// do.
	Error Severity = "error"
	// Warning is a fault that the resource manager handles itself, for example by a rejection or a
	// timeout. The user may or may not want that.
	Warning Severity = "warning"
)

// Problem is one finding of [Validate].
type Problem struct {
	Severity Severity `json:"severity"`
	Job      string   `json:"job,omitempty"` // the workload's ID; empty for other records
	Rule     string   `json:"rule"`
	Text     string   `json:"text"` // the fault, and a correct value
}

// String returns the problem as one line of text.
func (p Problem) String() string {
	if p.Job == "" {
		return fmt.Sprintf("%s: %s (%s)", p.Severity, p.Text, p.Rule)
	}
	return fmt.Sprintf("%s: job %s: %s (%s)", p.Severity, p.Job, p.Text, p.Rule)
}

// The rules of [Validate], as [Problem.Rule] names them.
const (
	RuleNoJobs            = "no_jobs"
	RuleNoID              = "no_id"
	RuleDuplicateID       = "duplicate_id"
	RuleBeforeEpoch       = "submit_before_epoch"
	RuleEventBeforeEpoch  = "event_before_epoch"
	RuleAfterLastInstant  = "after_last_instant"
	RuleEndBeforeSubmit   = "end_before_submit"
	RuleNegativeTime      = "negative_time"
	RuleNegativeNumber    = "negative_number"
	RuleRecordedRuns      = "recorded_runs"
	RuleBadExitCode       = "bad_exit_code"
	RuleBadIO             = "bad_io"
	RuleOverLimit         = "run_time_over_limit"
	RuleNoEnd             = "no_run_time_and_no_limit"
	RuleNoUser            = "no_user"
	RuleMissingFields     = "missing_fields"
	RuleUnknownUser       = "unknown_user"
	RuleBadUserName       = "bad_user_name"
	RuleUnknownPartition  = "unknown_partition"
	RuleTooManyNodes      = "too_many_nodes"
	RuleUnknownFeature    = "unknown_feature"
	RuleAllMemory         = "takes_all_memory"
	RuleBadArray          = "bad_array"
	RuleNoSuchTask        = "no_such_task"
	RuleTooManyTasks      = "too_many_tasks"
	RuleBadDependency     = "bad_dependency"
	RuleUnknownDependency = "dependency_on_unknown_job"
	RuleLaterDependency   = "dependency_on_later_job"
	RuleSelfDependency    = "dependency_on_itself"
	RuleCycle             = "dependency_cycle"
	RuleBadHosts          = "bad_host_list"
	RuleUnknownNode       = "unknown_node"
	RuleBadReservation    = "bad_reservation"
	RuleSameReservation   = "reservation_name_taken"
	RulePresetNodes       = "preset_without_nodes"
	RulePresetArray       = "preset_array"
	RulePresetOver        = "preset_before_window"
)

// Validate returns every fault of a workload that would spoil a replay on the cluster, in the order
// of the jobs. It does not check accounts, QOS and limits, which only the resource manager has.
func Validate(w *Workload, cluster Cluster) []Problem { return ValidateIn(w, cluster, time.UTC) }

// ValidateIn is [Validate], with dates in the texts in the given time zone.
func ValidateIn(w *Workload, cluster Cluster, zone *time.Location) []Problem {
	v := validator{w: w, cluster: cluster, zone: zone, users: make(map[string]bool, len(w.Users))}
	if w.Jobs.Len() == 0 {
		v.report(Error, "", RuleNoJobs, "the workload has no job")
	}
	for _, u := range w.Users {
		v.users[u.Name] = true
		if err := checkNames(u); err != nil {
			v.report(Error, "", RuleBadUserName, "the workload's %v", err)
		}
	}
	v.lacks()
	parts := InParts(&w.Jobs, v.part)
	v.identities(parts)
	v.allTasks(parts)
	depends := false
	for _, part := range parts {
		v.problems = append(v.problems, part.problems...)
		depends = depends || part.depends
	}
	if depends {
		v.allDependencies()
	}
	v.inOrder()
	v.cycles()
	v.gaps()
	v.events()
	v.instants()
	problems := make([]Problem, len(v.problems))
	for i, p := range v.problems {
		problems[i] = p.Problem
	}
	return inOne(inOne(problems, RulePresetNodes), RuleAllMemory)
}

// inOne combines the problems of a rule that many jobs break for the same reason: it keeps the
// first problem and adds the number of jobs.
func inOne(problems []Problem, rule string) []Problem {
	first, n := -1, 0
	for i := range problems {
		if problems[i].Rule == rule {
			if n++; n == 1 {
				first = i
			}
		}
	}
	if n < 2 {
		return problems
	}
	problems[first].Text += fmt.Sprintf("; the same is true of %d %s in all", n, quantity.Plural(n, "job", "jobs"))
	rest := slices.DeleteFunc(problems[first+1:], func(p Problem) bool { return p.Rule == rule })
	return problems[:first+1+len(rest)]
}

// aFewJobs is the largest number of jobs without a user that are reported one by one. If more jobs
// lack a user, the whole column is missing.
const aFewJobs = 10

// lacks reports once which columns the record of the workload lacks, if time limits or users are
// among them. A replay without time limits and users shows little.
func (v *validator) lacks() {
	var texts []string
	worth := false
	for _, l := range Lacks(v.w) {
		if most := v.w.Jobs.Len() / 2; l.Jobs <= most && (l.Field != FieldUser || l.Jobs <= aFewJobs) {
			continue // a job without a limit may get the default
		}
		texts = append(texts, l.Text(v.w.Jobs.Len()))
		v.usersSaid = v.usersSaid || l.Field == FieldUser
		worth = worth || l.Field == FieldUser || l.Field == FieldTimeLimit
	}
	if worth {
		v.report(Warning, "", RuleMissingFields, "not recorded: %s (rmreplay workload complete makes them by declared rules)", strings.Join(texts, ", "))
	}
}

// validator checks a workload, or a part of its jobs.
type validator struct {
	w       *Workload
	cluster Cluster
	zone    *time.Location // time zone of the dates in texts
	users   map[string]bool
	// usersSaid is true if a single problem has reported all jobs without a user.
	usersSaid bool
	byID      map[string]int      // jobs by their IDs
	edges     map[string][]string // job -> the jobs that it depends on
	at        int                 // index of the present job
	problems  []found

	// The fields of a part of the jobs:
	ids       []string
	depends   bool // whether a job depends on others
	taskCount int  // number of tasks of arrays
}

// A few lines can request more tasks than fit into memory, so the number of tasks is limited to maxTasks or, if that is
// more, to tasksPerJob on average over all jobs.
const (
	maxTasks    = 1_000_000
	tasksPerJob = 100
)

// allTasks reports a problem if the workload's arrays together have too many tasks.
func (v *validator) allTasks(parts []*validator) {
	n, most := 0, max(maxTasks, tasksPerJob*v.w.Jobs.Len())
	for _, part := range parts {
		n += part.taskCount
	}
	if n > most {
		v.report(Error, "", RuleTooManyTasks, "the job arrays have %d tasks together (want at most %d)", n, most)
	}
}

// found is a problem of a job, with the job's index.
type found struct {
	Problem
	at int
}

// part makes the checks that need one job at a time.
func (v *validator) part(jobs iter.Seq2[int, *hpc.Job]) *validator {
	p := &validator{w: v.w, cluster: v.cluster, zone: v.zone, users: v.users, usersSaid: v.usersSaid}
	p.ids = make([]string, 0, v.w.Jobs.Len()/runtime.GOMAXPROCS(0)+1)
	for i, job := range jobs {
		p.at = i
		p.ids = append(p.ids, job.ID)
		p.depends = p.depends || job.Dependency != ""
		p.numbers(job)
		p.times(job)
		p.user(job)
		p.size(job)
		p.array(job)
	}
	return p
}

// inOrder sorts the problems by job. The problems of one job keep their order.
func (v *validator) inOrder() {
	slices.SortStableFunc(v.problems, func(a, b found) int { return a.at - b.at })
}

func (v *validator) report(s Severity, job, rule, format string, args ...any) {
	v.problems = append(v.problems, found{Problem{s, job, rule, fmt.Sprintf(format, args...)}, v.at})
}

// identities checks the IDs of all jobs.
func (v *validator) identities(parts []*validator) {
	v.byID = make(map[string]int, v.w.Jobs.Len())
	for _, part := range parts {
		for _, id := range part.ids {
			_, taken := v.byID[id]
			switch {
			case id == "":
				v.report(Error, "", RuleNoID, "a job submitted at %s has no ID", v.date(v.w.Jobs.Submit(v.at)))
			case taken:
				v.report(Error, id, RuleDuplicateID, "another job has this ID")
			default:
				v.byID[id] = v.at
			}
			v.at++
		}
	}
}

// recordedRuns checks the recorded runs of a job. For an array it reports the first task whose runs
// are impossible.
func (v *validator) recordedRuns(job *hpc.Job) {
	if job.Recorded == nil || job.Recorded.IsEmpty() && len(job.Recorded.TaskInterruptions) == 0 {
		return
	}
	tasks := []int{-1}
	if len(job.Recorded.TaskInterruptions) > 0 {
		tasks = sortedKeys(job.Recorded.TaskInterruptions)
	}
	for _, task := range tasks {
		one := job.Recorded.OfTask(task)
		if err := one.CheckRuns(); err != nil {
			v.report(Error, job.ID, RuleRecordedRuns, "%v", err)
			return
		}
	}
}

func (v *validator) numbers(job *hpc.Job) {
	if field := negativeField(&job.Request); field != "" {
		v.report(Error, job.ID, RuleNegativeNumber, "%s is negative", field)
	}
	if r := job.Recorded; r != nil && r.Processors < 0 {
		v.report(Error, job.ID, RuleNegativeNumber, "recorded.processors is negative")
	}
	if r := job.Recorded; r != nil && min(r.UsedMemory, r.MovedBytes) < 0 {
		v.report(Error, job.ID, RuleNegativeNumber, "recorded.used_memory_kib or recorded.moved_bytes is negative")
	}
	v.recordedRuns(job)
	if err := hpc.CheckPhases(job.IO); err != nil {
		v.report(Error, job.ID, RuleBadIO, "its I/O has %v", err)
	}
	if !isExitCode(job.ExitCode) {
		v.report(Error, job.ID, RuleBadExitCode, "ends with exit code %d (want 0 to 255)", job.ExitCode)
	}
	for _, task := range sortedKeys(job.TaskExitCodes) {
		if code := job.TaskExitCodes[task]; !isExitCode(code) {
			v.report(Error, job.ID, RuleBadExitCode, "task %d ends with exit code %d (want 0 to 255)", task, code)
			break
		}
	}
}

func isExitCode(code int) bool { return code >= 0 && code <= 255 }

// negativeField returns the name of a number of the request that is negative and must not be,
// or "".
func negativeField(r *hpc.Request) string {
	for _, f := range []struct {
		name  string
		value int
	}{
		{"min_nodes", r.MinNodes}, {"max_nodes", r.MaxNodes}, {"tasks", r.Tasks}, {"tasks_per_node", r.TasksPerNode},
		{"tasks_per_socket", r.TasksPerSocket}, {"tasks_per_core", r.TasksPerCore}, {"tasks_per_gpu", r.TasksPerGPU},
		{"cpus_per_task", r.CPUsPerTask}, {"min_cpus_per_node", r.MinCPUsPerNode}, {"sockets_per_node", r.SocketsPerNode},
		{"cores_per_socket", r.CoresPerSocket}, {"threads_per_core", r.ThreadsPerCore}, {"core_spec", r.CoreSpec},
		{"thread_spec", r.ThreadSpec}, {"cpus_per_gpu", r.CPUsPerGPU}, {"switches", r.Switches},
	} {
		if f.value < 0 {
			return f.name
		}
	}
	for _, f := range []struct {
		name    string
		value   int64
		minimum int64
	}{
		{"mem_per_node_mib", r.MemPerNode, hpc.AllMemory}, {"mem_per_cpu_mib", r.MemPerCPU, 0}, {"mem_per_gpu_mib", r.MemPerGPU, 0},
		{"tmp_disk_mib", r.TmpDisk, 0},
	} {
		if f.value < f.minimum {
			return f.name
		}
	}
	return ""
}

func (v *validator) times(job *hpc.Job) {
	if job.Submit < v.w.Epoch && v.w.Start == 0 {
		v.report(Error, job.ID, RuleBeforeEpoch, "submitted at %s, before the epoch %s", v.date(job.Submit), v.date(v.w.Epoch))
	}
	v.happens(job.ID, "submitted", job.Submit)
	if job.EndAt != 0 && job.EndAt < job.Submit {
		v.report(Error, job.ID, RuleEndBeforeSubmit, "ends at %s, before it is submitted at %s", v.date(job.EndAt), v.date(job.Submit))
	}
	if v.w.Preset(job) {
		v.preset(job)
	}
	if min(job.TimeLimit, job.RunTime, job.CancelAfter, job.TimeMin, job.Begin, job.Deadline, job.SwitchWait, job.DelayBoot) < 0 {
		v.report(Error, job.ID, RuleNegativeTime, "a time limit, run time or delay is negative")
		return
	}
	for _, task := range sortedKeys(job.TaskRunTimes) {
		if d := job.TaskRunTimes[task]; d < 0 {
			v.report(Error, job.ID, RuleNegativeTime, "task %d %s for %s (want 0 or more)", task,
				quantity.Plural(task, "run", "runs"), d)
			return
		}
	}
	switch {
	case job.TimeLimit > 0 && job.RunTime != hpc.Unlimited && job.RunTime > job.TimeLimit && !timedOut(job, -1):
		v.report(Warning, job.ID, RuleOverLimit, "runs for %s but its time limit is %s: it will end in TIMEOUT", job.RunTime, job.TimeLimit)
	case !endsByItself(job) && job.CancelAfter == 0:
		v.report(Warning, job.ID, RuleNoEnd, "neither a run time nor a time limit: only the partition's limit will end it")
	}
}

// happens reports a problem if an instant is [hpc.Never], which no replay reaches.
func (v *validator) happens(job, what string, at hpc.Time) {
	if at == hpc.Never {
		v.report(Error, job, RuleAfterLastInstant, "%s at %s, the last instant that rmreplay can represent (want an earlier one)", what, v.date(at))
	}
}

func (v *validator) user(job *hpc.Job) {
	if err := hpc.CheckUserName(job.User); err != nil {
		v.report(Error, job.ID, RuleBadUserName, "user %v", err)
	}
	switch {
	case job.User == "" && v.usersSaid:
	case job.User == "":
		v.report(Warning, job.ID, RuleNoUser, "it has no user (want --uid=NAME, or user in a trace; rmreplay workload complete makes users)")
	case job.IsMade("user"): // a replay creates the user
	case v.cluster.Users != nil && !v.cluster.Users[job.User] && !v.users[job.User]:
		v.report(Warning, job.ID, RuleUnknownUser, "user %s is neither the cluster's nor the workload's", job.User)
	}
}

func (v *validator) size(job *hpc.Job) {
	nodes := v.cluster.Nodes
	if v.cluster.Partitions != nil && job.Partition != "" {
		largest := 0
		for name := range strings.SplitSeq(job.Partition, ",") {
			n, ok := v.cluster.Partitions[name]
			if !ok {
				v.report(Warning, job.ID, RuleUnknownPartition, "the cluster has no partition %s%s", name,
					spelling.Suggest(name, slices.Sorted(maps.Keys(v.cluster.Partitions))))
				continue
			}
			largest = max(largest, n)
		}
		if largest > 0 {
			nodes = largest
		}
	}
	if v.cluster.WholeMemory[job.Partition] && job.MemPerNode == 0 && job.MemPerCPU == 0 && job.MemPerGPU == 0 {
		v.report(Warning, job.ID, RuleAllMemory, "asks for no memory, and its partition has no DefMemPerCPU or DefMemPerNode: "+
			"it takes all memory of its nodes, and no job runs beside it (rmreplay workload complete gives it memory)")
	}
	if nodes > 0 && job.MinNodes > nodes {
		v.report(Warning, job.ID, RuleTooManyNodes, "asks for %d %s, where there are %d", job.MinNodes,
			quantity.Plural(job.MinNodes, "node", "nodes"), nodes)
	}
	for _, expr := range []string{job.NodeList, job.Exclude} {
		if _, err := hostlist.Count(expr); err != nil {
			v.report(Error, job.ID, RuleBadHosts, "%v", err)
		}
	}
	v.features(job)
}

// features checks the names of features in a constraint. It leaves operators and counts to
// Slurm.
func (v *validator) features(job *hpc.Job) {
	if v.cluster.Features == nil {
		return
	}
	names := strings.FieldsFunc(job.Constraint, func(r rune) bool { return strings.ContainsRune("&|,[]()!", r) })
	for _, name := range names {
		name, _, _ = strings.Cut(name, "*") // "rack1*2" asks for two nodes
		if name != "" && !v.cluster.Features[name] {
			v.report(Warning, job.ID, RuleUnknownFeature, "no node has the feature %s", name)
		}
	}
}

func (v *validator) array(job *hpc.Job) {
	if job.Array == "" {
		if len(job.TaskRunTimes) > 0 {
			v.report(Warning, job.ID, RuleNoSuchTask, "task_run_times_s has no effect: the job is not an array")
		}
		return
	}
	a, err := hpc.ParseArray(job.Array)
	if err != nil {
		v.report(Error, job.ID, RuleBadArray, "array %s: %v", job.Array, err)
		return
	}
	v.taskCount += len(a.Tasks)
	v.tasks(job, a)
	last := a.Tasks[len(a.Tasks)-1]
	if limit := v.cluster.MaxArraySize; limit > 0 && last >= limit {
		v.report(Warning, job.ID, RuleBadArray, "array index %d is not below the cluster's MaxArraySize=%d", last, limit)
	}
}

// timedOut reports whether a job ended in TIMEOUT when it was recorded, so that another timeout is
// not a surprise.
func timedOut(job *hpc.Job, task int) bool {
	return job.Recorded != nil && job.Recorded.OfTask(task).State == hpc.TimedOut
}

// tasks checks the run times of single tasks of an array.
func (v *validator) tasks(job *hpc.Job, a hpc.Array) {
	missing, over := 0, 0
	for _, task := range sortedKeys(job.TaskRunTimes) {
		_, has := slices.BinarySearch(a.Tasks, task)
		switch d := job.TaskRunTimes[task]; {
		case !has:
			if missing++; missing == 1 {
				v.report(Warning, job.ID, RuleNoSuchTask, "task_run_times_s has task %d, which the array %s does not have", task, job.Array)
			}
		case job.TimeLimit > 0 && d != hpc.Unlimited && d > job.TimeLimit && !timedOut(job, task):
			if over++; over == 1 {
				v.report(Warning, job.ID, RuleOverLimit, "task %d %s for %s but the time limit is %s: it will end in TIMEOUT", task, quantity.Plural(task, "run", "runs"), d, job.TimeLimit)
			}
		}
	}
}

// allDependencies checks the dependencies. It needs the IDs of all jobs.
func (v *validator) allDependencies() {
	for i, job := range v.w.Jobs.All() {
		v.at = i
		v.dependencies(job)
	}
}

func (v *validator) dependencies(job *hpc.Job) {
	if job.Dependency == "" {
		return
	}
	deps, err := sbatch.ParseDependency(job.Dependency)
	if err != nil {
		v.report(Error, job.ID, RuleBadDependency, "%s: %v", job.Dependency, err)
		return
	}
	for _, d := range deps.List {
		if d.Job != "" {
			v.dependency(job, d)
		}
	}
}

func (v *validator) dependency(job *hpc.Job, d sbatch.Dependency) {
	id := d.Job
	other, known := v.byID[id]
	if !known {
		id, _, _ = d.Task()
		other, known = v.byID[id]
	}
	switch {
	case !known:
		v.report(Error, job.ID, RuleUnknownDependency, "depends on %s, which is not a job of the workload", d.Job)
	case id == job.ID:
		v.report(Error, job.ID, RuleSelfDependency, "depends on itself")
	default:
		if submit := v.w.Jobs.Submit(other); submit > job.Submit {
			v.report(Warning, job.ID, RuleLaterDependency, "depends on %s, which is submitted later, at %s", id, submit)
		}
		if v.edges == nil {
			v.edges = make(map[string][]string)
		}
		v.edges[job.ID] = append(v.edges[job.ID], id)
	}
}

// cycles reports every cycle of dependencies once, with the jobs on it. It uses an explicit stack
// in place of recursion, because a chain of dependencies may be long.
func (v *validator) cycles() {
	if len(v.edges) == 0 {
		return
	}
	const (
		unseen = iota
		onPath
		done
	)
	state := make(map[string]int, len(v.edges))
	for _, job := range v.w.Jobs.All() {
		path := []string{job.ID}
		for len(path) > 0 {
			id := path[len(path)-1]
			if state[id] == done {
				path = path[:len(path)-1]
				continue
			}
			state[id] = onPath
			if next := slices.IndexFunc(v.edges[id], func(other string) bool { return state[other] == unseen }); next >= 0 {
				path = append(path, v.edges[id][next])
				continue
			}
			for _, other := range v.edges[id] {
				if state[other] == onPath {
					cycle := path[slices.Index(path, other):]
					v.report(Error, other, RuleCycle, "depends on itself by way of %s", strings.Join(cycle, " -> "))
				}
			}
			state[id] = done
		}
	}
}

// gaps reports a submission so long after the previous submission that the recording clock must
// have been wrong. A replay would simulate the whole gap.
func (v *validator) gaps() {
	if v.w.Start == 0 && v.w.Jobs.Len() > 0 {
		submit := v.w.Jobs.Submit(0)
		if gap := submit.Sub(v.w.Epoch); gap > MaxGap {
			v.report(Warning, v.w.Jobs.At(0).ID, RuleClockJump, "the first job is submitted at %s, %.0f days after the epoch %s (want an epoch near it)",
				v.date(submit), gap.Hours()/24, v.epoch())
		}
	}
	for i := 1; i < v.w.Jobs.Len(); i++ {
		submit := v.w.Jobs.Submit(i)
		if gap := submit.Sub(v.w.Jobs.Submit(i - 1)); gap > MaxGap {
			v.report(Warning, v.w.Jobs.At(i).ID, RuleClockJump, "submitted at %s, %.0f days after the previous job", v.date(submit), gap.Hours()/24)
		}
	}
}

// date returns an instant as text.
func (v *validator) date(t hpc.Time) string { return t.Text(v.zone) }

// epoch returns the workload's epoch as text, or the Unix epoch if the workload's epoch is not set.
func (v *validator) epoch() string { return v.w.Epoch.Std().In(v.zone).Format(time.RFC3339Nano) }

// instants checks that events and actions happen during the replay. It allows reservations that are made before the
// epoch, because they exist when the replay begins.
func (v *validator) instants() {
	last := v.w.Epoch
	if n := v.w.Jobs.Len(); n > 0 {
		last = v.w.Jobs.Submit(n - 1)
	}
	late := func(what string, at hpc.Time) {
		if gap := at.Sub(last); gap > MaxGap {
			v.report(Warning, "", RuleClockJump, "%s at %s: %.0f days after the last submission", what, v.date(at), gap.Hours()/24)
		}
	}
	early := func(what string, at hpc.Time) {
		if v.w.Start == 0 && at < v.w.Epoch {
			v.report(Warning, "", RuleEventBeforeEpoch, "%s at %s: before the epoch %s, so it happens at the epoch", what, v.date(at), v.epoch())
		}
	}
	for _, e := range v.w.NodeEvents {
		v.happens("", "node event", e.At)
		early("node event", e.At)
		late("node event", e.At)
	}
	for _, e := range v.w.Reservations {
		v.happens("", "reservation "+e.Name, e.At)
		late("reservation "+e.Name, e.At)
	}
	for _, a := range v.w.Actions {
		v.happens("", "action", a.At)
		early("action", a.At)
		late("action", a.At)
	}
}

// preset checks that a preset job is not an array, that its nodes are recorded without
// repetitions, and that the job did not end before the window's start.
func (v *validator) preset(job *hpc.Job) {
	r := job.Recorded
	switch {
	case job.Array != "":
		v.report(Error, job.ID, RulePresetArray, "a job array cannot be running when the window begins; its tasks can, as jobs of their own")
	case r.Nodes == "":
		v.report(Error, job.ID, RulePresetNodes, "it ran when the window began, but its nodes are not recorded (want records with node lists; "+
			"free nodes, with workload complete --cluster DIR; or no such jobs, with workload transform --filter 'not preset')")
	case r.End != 0 && r.End < v.w.Start:
		v.report(Error, job.ID, RulePresetOver, "it ended at %s, before the window's start %s", v.date(r.End), v.date(v.w.Start))
	default:
		v.hosts("the recorded nodes of job "+job.ID, r.Nodes)
		if twice := repeated(r.Nodes); twice != "" {
			v.report(Error, job.ID, RuleBadHosts, "its recorded nodes name %s twice (want each once)", twice)
		}
	}
}

// repeated returns a host that occurs twice in a list, or "".
func repeated(list string) string {
	names, err := hostlist.Expand(list)
	if err != nil {
		return "" // another check reports it
	}
	slices.Sort(names)
	for i := 1; i < len(names); i++ {
		if names[i] == names[i-1] {
			return names[i]
		}
	}
	return ""
}

// events checks the entries of the workload that are not jobs.
func (v *validator) events() {
	for _, e := range v.w.NodeEvents {
		if strings.EqualFold(e.Nodes, "ALL") {
			v.report(Error, "", RuleBadHosts, "node event at %s: %s is not a host list (want the nodes' names; ALL is for reservations only)", v.date(e.At), e.Nodes)
			continue
		}
		v.hosts("node event at "+v.date(e.At), e.Nodes)
	}
	there := newStanding()
	for i := range v.w.Reservations {
		e := &v.w.Reservations[i]
		v.reservation(e)
		if old := there.find(e.Name); old != nil && e.Action == "create" {
			v.sameName(old, e)
		}
		there.apply(*e)
	}
}

// sameName reports a reservation whose name is in use when it is created. It leaves two cases to
// Slurm. An administrator's action may have deleted the earlier reservation, and Slurm keeps a
// name for a moment after its reservation's end.
func (v *validator) sameName(old *hpc.Reservation, e *hpc.ReservationEvent) {
	end := endOf(old)
	until := "does not end by itself"
	if end != 0 {
		until = "ends at " + v.date(end)
	}
	switch {
	case !hasEnded(old, *e):
		severity := Error
		if len(v.w.Actions) > 0 {
			severity = Warning
		}
		v.report(severity, "", RuleSameReservation, "reservation %s at %s: a reservation with this name exists, which %s (want a delete before, or another name)", e.Name, v.date(e.At), until)
	case e.At > v.w.Start && end.Add(ReservationLinger) > e.At:
		v.report(Warning, "", RuleSameReservation, "reservation %s at %s: Slurm may still have the reservation with this name, which %s (want this event %.0f s later, or a delete before)", e.Name, v.date(e.At), until, ReservationLinger.Seconds())
	}
}

// reservation checks what Slurm requires of a reservation.
func (v *validator) reservation(e *hpc.ReservationEvent) {
	what := fmt.Sprintf("reservation %s at %s", e.Name, v.date(e.At))
	bad := func(format string, args ...any) {
		v.report(Error, "", RuleBadReservation, "%s: %s", what, fmt.Sprintf(format, args...))
	}
	if e.Name == WindowReservation && v.w.Start != 0 {
		bad("rmreplay makes a reservation with this name before the window (want another name)")
	}
	if !strings.EqualFold(e.Nodes, "ALL") {
		v.hosts(what, e.Nodes)
	}
	for _, text := range e.Flags {
		if _, err := slurmspec.ParseReservationFlag(text); err != nil {
			bad("%v", err)
		}
	}
	if e.Duration < 0 || e.NodeCount < 0 {
		bad("its duration or number of nodes is negative")
	}
	nodes := v.cluster.Nodes
	if n, ok := v.cluster.Partitions[e.Partition]; ok {
		nodes = n
	}
	if nodes > 0 && e.NodeCount > nodes {
		v.report(Warning, "", RuleTooManyNodes, "%s: asks for %d nodes, where there are %d", what, e.NodeCount, nodes)
	}
	if e.Action != "create" {
		return
	}
	for _, f := range []struct {
		missing bool
		want    string
	}{
		{e.Start == 0, "start"},
		{e.Duration == 0, "duration_s"},
		{len(e.Users) == 0 && len(e.Accounts) == 0, "users or accounts"},
		{e.Nodes == "" && e.NodeCount == 0 && e.Licenses == "" && e.Partition == "", "nodes, node_count, licenses or partition"},
	} {
		if f.missing {
			bad("Slurm refuses a reservation without %s", f.want)
		}
	}
}

// hosts checks a host list. It does not report a node that the cluster lacks: a changed cluster
// may lack it on purpose, and the resource manager will refuse the node.
func (v *validator) hosts(what, expr string) {
	_, err := hostlist.Count(expr)
	var names []string
	if err == nil && v.cluster.NodeNames != nil {
		names, err = hostlist.Expand(expr)
	}
	if err != nil {
		v.report(Error, "", RuleBadHosts, "%s: %v", what, err)
		return
	}
	for _, name := range names {
		if !v.cluster.NodeNames[name] {
			v.report(Warning, "", RuleUnknownNode, "%s: the cluster has no node %s", what, name)
			return
		}
	}
}
