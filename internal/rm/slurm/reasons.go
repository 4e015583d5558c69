package slurm

import (
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/slurmspec"
)

// reasons asks slurmctld at regular intervals of virtual time why jobs are pending, and reports
// changes. It sends squeue's request (REQUEST_JOB_INFO) with the numbers of the pending jobs.
// slurmctld answers with read locks only and, with the frozen clock, without virtual time. So the
// requests do not change the schedule. The engine misses a reason that begins and ends between two
// requests, and the reason of a job that starts before the first request.
type reasons struct {
	*jobs
	// every is the interval between two requests; 0 for no requests.
	every time.Duration
	armed bool
	// seen is the number of the run's events at the last request. skipped counts the intervals since
	// then without a request, because there was no event.
	seen, skipped int
	// queue are the numbers of jobs that may be pending, in the order in which they became pending.
	// told is the last report about each job.
	queue []uint32
	told  map[uint32]told
}

// told is the last report about a pending job.
type told struct {
	reason  string
	planned bool // the backfill scheduler had planned the job's start
}

const (
	// reasonOffset keeps requests away from whole seconds, when slurmctld's own threads wake.
	reasonOffset = 500 * time.Millisecond
	// maxSkipped is the number of intervals without an event after which the engine asks anyway,
	// because reasons may also change with time alone.
	maxSkipped = 5
	// reasonsAtOnce is the largest number of pending jobs for which the engine asks at every
	// interval. With n times as many jobs, the engine asks n times less often, so requests take no
	// more time in total.
	reasonsAtOnce = 500
)

// waits records that a job is pending, again or for the first time.
func (r *reasons) waits(number uint32) {
	if r.every <= 0 {
		return
	}
	if _, known := r.told[number]; !known {
		r.queue = append(r.queue, number)
	}
	r.told[number] = told{}
	r.arm()
}

// arm sets the timer of the next question.
func (r *reasons) arm() {
	if r.armed || len(r.queue) == 0 {
		return
	}
	r.armed = true
	pause := r.every * time.Duration(1+(len(r.queue)-1)/reasonsAtOnce)
	next := (int64(r.Now())/int64(pause) + 1) * int64(pause)
	r.At(hpc.Time(next).Add(reasonOffset), r.due)
}

// due sends a request if there were events since the last request, or if maxSkipped intervals have
// passed without a request.
func (r *reasons) due() {
	if r.seen == r.emitted && r.skipped < maxSkipped {
		r.skipped++
		r.armed = false
		r.arm()
		return
	}
	r.seen, r.skipped = r.emitted, 0
	r.askForAll()
}

// askForAll asks about all jobs that may be pending.
func (r *reasons) askForAll() {
	r.queue = slices.DeleteFunc(r.queue, func(number uint32) bool {
		if r.isPending(number) {
			return false
		}
		delete(r.told, number)
		return true
	})
	if len(r.queue) == 0 {
		r.armed = false
		return
	}
	r.ask(rpc.RequestJobInfo, r.codec.Body(&rpc.JobsInfoRequest{Jobs: r.queue}), func(reply *rpc.Message, err error) {
		r.armed = false
		infos, err := jobInfos(reply, err)
		if err != nil {
			r.warn("reasons-missed", "slurmctld did not say why jobs are pending: "+err.Error(), false)
		}
		r.seen = r.emitted // do not count the events that this answer causes
		for i := range infos {
			r.tell(&infos[i])
			if infos[i].State == hpc.Pending && infos[i].Reason == slurmspec.NoReason {
				r.seen = -1 // slurmctld has not tried this job yet: ask again at the next interval
			}
		}
		r.arm()
	})
}

// isPending reports whether a job, or at least one task of an array, is still pending.
func (r *reasons) isPending(number uint32) bool {
	in := r.byNumber[number]
	if in == nil || r.running[number] {
		return false
	}
	s := in.of
	if number == s.number && in.task < 0 && s.job.Array != "" {
		return slices.ContainsFunc(s.tasks, func(task int) bool { return s.fates[task] == inArray })
	}
	return s.fates[in.task] != over
}

// tell reports the reason of a pending job if the reason has changed, or if the backfill scheduler
// has now planned the job.
func (r *reasons) tell(info *rpc.JobInfo) {
	in := r.byNumber[info.JobID]
	if in == nil || info.State != hpc.Pending || info.Reason == slurmspec.NoReason {
		return
	}
	in.eligible = hpc.Unix(info.Eligible)
	text := info.Reason.String()
	if info.Description != "" {
		text += ": " + strings.TrimPrefix(slurmspec.OneLine(info.Description), text+", ")
	}
	planned := hpc.Time(0)
	if info.Start > info.Eligible && info.Start > r.Now().UnixSeconds() {
		planned = hpc.Unix(info.Start)
	}
	before := r.told[info.JobID]
	if before.reason == text && (before.planned || planned == 0) {
		return
	}
	r.told[info.JobID] = told{text, before.planned || planned != 0}
	r.emit(rm.Event{Kind: rm.Waiting, Job: in.of.job.ID, Task: in.task, RMJob: info.JobID, Reason: text,
		Outcome: &rm.Outcome{
			State: hpc.Pending, Start: planned, Partition: info.Partition, Priority: info.Priority,
		}})
}
