// Package preemption decides which running jobs slurmctld preempts for a pending job. It finds the
// candidates, which the job may preempt (the plugins preempt/qos and preempt/partition_prio, and
// preempt.c), and the candidates that must end for the job (_run_now and _will_run_test of the select
// plugins). The caller ends these jobs.
package preemption

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/rm/slurmmodel/accounts"
	"rmreplay/internal/rm/slurmmodel/keys"
	"rmreplay/internal/rm/slurmmodel/parameters"
	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/slurmspec"
)

// Mode says what happens to preempted jobs.
type Mode uint8

// The modes of PreemptMode.
const (
	Off Mode = iota
	Cancel
	Requeue
	Suspend
)

// modeOf reads a PreemptMode of the cluster, a QOS or a partition. The result within reports the
// word WITHIN. GANG is ignored.
func modeOf(text string) (mode Mode, within bool) {
	for word := range strings.SplitSeq(strings.ToLower(text), ",") {
		switch strings.TrimSpace(word) {
		case "cancel":
			mode = Cancel
		case "requeue":
			mode = Requeue
		case "suspend", "on":
			mode = Suspend
		case "within":
			within = true
		}
	}
	return mode, within
}

// Settings are the keys of slurm.conf about preemption.
type Settings struct {
	byQOS         bool // preempt/qos; otherwise preempt/partition_prio
	mode          Mode
	within        bool
	exempt        int64 // seconds
	renewed       int64 // when [Settings.RenewExempt] was last true, in seconds since 1970
	youngestFirst bool
	strictOrder   bool
	rounds        int    // preempt_reorder_count
	maxPriority   uint32 // jobs with a higher priority are not preempted (min_exempt_priority)
	maxRetries    int    // MaxBatchRequeue
	rest          int64  // seconds after a preemption in which the job may not preempt again
}

// Read reads the settings. It returns nil if jobs are never preempted.
func Read(get keys.Get, par *parameters.Parameters, rules parameters.Rules) *Settings {
	kind := strings.TrimPrefix(strings.ToLower(keys.Value(get, "PreemptType")), "preempt/")
	mode, within := modeOf(keys.Value(get, "PreemptMode"))
	if kind != "qos" && kind != "partition_prio" || mode == Off && !within {
		return nil
	}
	s := &Settings{
		byQOS: kind == "qos", mode: mode, within: within, rounds: 1, maxPriority: slurmspec.NoVal,
		maxRetries: int(keys.Number(get, "MaxBatchRequeue", 5)), rest: par.KillWait + keys.Number(get, "MessageTimeout", 10),
	}
	if d, err := slurmspec.ParseTimeSpec(keys.Value(get, "PreemptExemptTime")); err == nil && d > 0 {
		s.exempt = int64(d / time.Second)
	}
	o := keys.OptionsOf(get)
	s.youngestFirst, s.strictOrder = o.Has("preempt_youngest_first"), o.Has("preempt_strict_order")
	s.rounds = int(o.Number("preempt_reorder_count", 1))
	if rules.WholeSeconds { // PreemptParameters exists since 23.02
		o := keys.Options(strings.ToLower(keys.Value(get, "PreemptParameters")))
		s.youngestFirst, s.strictOrder = s.youngestFirst || o.Has("youngest_first"), s.strictOrder || o.Has("strict_order")
		s.rounds = int(o.Number("reorder_count", int64(s.rounds)))
		s.maxPriority = uint32(o.Number("min_exempt_priority", int64(s.maxPriority)))
	}
	return s
}

// Partition has the properties of a partition on which preemption depends.
type Partition struct {
	Nodes selection.Bits
	Tier  int
	QOS   *accounts.QOS
	mode  Mode
	own   bool  // the partition sets its own mode
	grace int64 // seconds
}

// NewPartition reads GraceTime and PreemptMode from a partition's line.
func NewPartition(get keys.Get, nodes selection.Bits, tier int) *Partition {
	p := &Partition{Nodes: nodes, Tier: tier, grace: keys.Number(get, "GraceTime", 0)}
	if text := keys.Value(get, "PreemptMode"); text != "" {
		p.mode, _ = modeOf(text)
		p.own = true
	}
	return p
}

// Keeps reports whether PreemptMode=OFF protects the partition's jobs from preemption.
func (p *Partition) Keeps() bool { return p.own && p.mode == Off }

// Job has the properties of a job on which preemption depends, and the job's own state of
// preemption.
type Job struct {
	QOS       *accounts.QOS // nil if the job has none
	Partition *Partition
	Priority  uint32
	// Requeue says that the job may return to the queue (--requeue or JobRequeue).
	Requeue bool
	// Alone says that the job is not willing to share its nodes. It is false while the job is suspended.
	Alone bool
	// Start is when the job started, and End when its time limit ends, in seconds since 1970.
	Start, End int64
	// Allocation is the running job's allocation.
	Allocation *selection.Allocation
	// Place is the job's index in slurmctld's list of jobs.
	Place int
	// Began is when the job last preempted jobs, in seconds since 1970; 0 if never. Underway says
	// that the job did so in the present pass or cycle.
	Began    int64
	Underway bool
	// Told is when the job was warned, or stopped, because it is preempted, in seconds since 1970;
	// 0 if never. By is the job that preempted it: its ID in the workload, or ID_TASK for a task.
	Told int64
	By   string

	// usable decides the order of the candidates in the next try: the candidate with the largest number
	// comes first. slurmctld does not reset this number between two tries (usable_nodes).
	usable  int
	retries int // how often the job returned to the queue because its script ended in a grace time
}

// mayPreempt reports whether a job may preempt another job, by tier or QOS (preempt_p_preemptable).
func (s *Settings) mayPreempt(by, job *Job) bool {
	if !s.byQOS {
		return job.Partition.Tier < by.Partition.Tier && (!job.Partition.own || job.Partition.mode != Off)
	}
	switch {
	case by.QOS == nil || job.QOS == nil:
		return false
	case by.QOS == job.QOS:
		_, within := modeOf(by.QOS.PreemptMode)
		return (within || s.within) && by.Priority > job.Priority
	}
	return slices.Contains(by.QOS.Preempts, job.QOS)
}

// Before reports whether job a comes before job b in the queue because a could preempt b
// (preempt_p_job_preempt_check).
func (s *Settings) Before(a, b *Job) bool {
	if s.byQOS {
		return s.mayPreempt(a, b)
	}
	return a.Partition.Tier > b.Partition.Tier && a.Partition.Nodes.Overlaps(b.Partition.Nodes)
}

// ModeOf returns what happens to a job if it is preempted. With nil settings it is always Off.
func (s *Settings) ModeOf(job *Job) Mode {
	if s == nil {
		return Off
	}
	mode := s.mode
	switch {
	case s.byQOS && job.QOS != nil && job.QOS.PreemptMode != "" && job.QOS.PreemptMode != "cluster":
		mode, _ = modeOf(job.QOS.PreemptMode)
	case !s.byQOS && job.Partition.own:
		mode = job.Partition.mode
	}
	return mode
}

// Grace returns for how many seconds a preempted job may still run.
func (s *Settings) Grace(job *Job) int64 {
	switch {
	case !s.byQOS:
		return job.Partition.grace
	case job.QOS == nil:
		return 0
	}
	return job.QOS.GraceTime
}

// exemptUntil returns until when PreemptExemptTime protects a job, in seconds since 1970
// (acct_policy_get_preemptable_time).
func (s *Settings) exemptUntil(job *Job) int64 {
	first, second := job.QOS, job.Partition.QOS
	if second != nil && (first == nil || !first.OverPartQOS) {
		first, second = second, first
	}
	for _, q := range []*accounts.QOS{first, second} {
		if q != nil && q.PreemptExempt >= 0 {
			return job.Start + q.PreemptExempt
		}
	}
	return job.Start + s.exempt
}

// MayBePreempted reports whether another job, the parameter by, may preempt a running job at the
// second now.
func (s *Settings) MayBePreempted(job, by *Job, now int64) bool {
	return s.mayPreempt(by, job) && job.Priority <= s.maxPriority && now >= s.exemptUntil(job) &&
		job.Allocation.Nodes.Overlaps(by.Partition.Nodes)
}

// Order sorts candidates into the order in which slurmctld tries them
// (slurm_find_preemptable_jobs).
func (s *Settings) Order(candidates []*Job) {
	slices.SortFunc(candidates, func(a, b *Job) int {
		order := cmp.Compare(s.rank(a), s.rank(b))
		if s.youngestFirst {
			order = cmp.Compare(b.Start, a.Start)
		}
		return cmp.Or(order, cmp.Compare(a.Place, b.Place))
	})
}

// rank is lower for jobs that are preempted earlier: jobs of low tiers or QOS, and among these
// small jobs (_gen_job_prio).
func (s *Settings) rank(job *Job) uint32 {
	high := uint32(0)
	switch {
	case !s.byQOS:
		high = uint32(job.Partition.Tier)
	case job.QOS != nil:
		high = min(job.QOS.Priority, 0xffff)
	}
	return high<<16 + uint32(min(len(job.Allocation.Parts), 0xffff))
}

// Sort sorts a queue by a comparison that may be intransitive, as it is with preemption. The result then
// depends on the algorithm, so Sort is a merge sort of halves like the C library's qsort.
func Sort[T any](list []T, compare func(a, b T) int) {
	if len(list) < 2 {
		return
	}
	half := len(list) / 2
	Sort(list[:half], compare)
	Sort(list[half:], compare)
	left, right := slices.Clone(list[:half]), list[half:]
	for i := range list {
		switch {
		case len(left) == 0:
			return
		case len(right) == 0 || compare(left[0], right[0]) <= 0:
			list[i], left = left[0], left[1:]
		default:
			list[i], right = right[0], right[1:]
		}
	}
}

// Begin reports whether a job may preempt others now. The job may not do so for some seconds after
// it preempted jobs, because the preempted jobs may still be on their nodes.
func (s *Settings) Begin(job *Job, now int64) bool {
	if job.Began > now-s.rest && job.Began != 0 {
		return false
	}
	job.Began, job.Underway = now, true
	return true
}

// Fate is what happens to a job that is preempted.
type Fate uint8

// The results of [Settings.Stop].
const (
	Stays   Fate = iota // nothing happens until the grace time is over
	Warned              // the grace time begins
	Leaves              // the job ends
	Returns             // the job returns to the queue
)

// Stop preempts a job for another job, the parameter by, at the second now (slurm_job_preempt). A
// job with a grace time is first warned: its End becomes the end of the grace time.
func (s *Settings) Stop(job *Job, by string, now int64) Fate {
	if job.Told == 0 {
		grace := s.Grace(job)
		job.Told, job.End = now, min(job.End, now+grace)
		if grace > 0 {
			return Warned
		}
	}
	if now < job.End {
		return Stays
	}
	job.Told, job.By = now, by
	if s.Returns(job) {
		return Returns
	}
	return Leaves
}

// Returns reports whether a job returns to the queue when it is preempted.
func (s *Settings) Returns(job *Job) bool { return job.Requeue && s.ModeOf(job) == Requeue }

// Retry reports whether a job whose script ended in its grace time returns to the queue, and counts
// such returns.
func (s *Settings) Retry(job *Job) bool {
	retry := s.Returns(job)
	if retry {
		job.retries++
	}
	return retry
}

// TooMany reports whether Retry has returned a job so often that slurmctld holds it (MaxBatchRequeue). If so, TooMany
// resets the count.
func (s *Settings) TooMany(job *Job) bool {
	if s == nil || job.retries < s.maxRetries {
		return false
	}
	job.retries = 0
	return true
}

// SetAside clears Began and Underway if the job has preempted jobs in this cycle, so that the next task of the array
// may preempt jobs, too. In this case SetAside returns the old value of Began, and otherwise its argument.
func (j *Job) SetAside(began int64) int64 {
	if j.Underway {
		began, j.Began, j.Underway = j.Began, 0, false
	}
	return began
}

// Restore sets Began to the value that SetAside returned, if the job has preempted no jobs since that call.
func (j *Job) Restore(began int64) {
	if j.Began == 0 && began != 0 {
		j.Began, j.Underway = began, true
	}
}

// Renew clears the state of the last run, when a job returns to the queue.
func (j *Job) Renew() { j.Told, j.By = 0, "" }
