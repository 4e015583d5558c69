package slurm

import (
	"fmt"
	"slices"
	"strconv"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/jobcomp"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/slurmspec"
)

// askAbout asks slurmctld for the state of a job whose record is incomplete. It reports the end of
// the job's run when slurmctld has answered. slurmctld holds its locks until it has logged why it
// preempted the job, so the log line precedes the answer.
func (j *jobs) askAbout(c jobcomp.Record, in *instance) {
	j.askSoon(c.Job, func(infos []rpc.JobInfo, err error) {
		if err != nil {
			j.warn("job-unknown", fmt.Sprintf("asking slurmctld about job %s, which ended as %s: %v", in.of.job.ID,
				c.Outcome.State, err), true)
			j.over(c.Job, in, c.Outcome, false)
			return
		}
		for i := range infos {
			if info := &infos[i]; info.JobID == c.Job {
				if c.Truncated {
					complete(&c.Outcome, info, in)
				}
				if c.Outcome.State == hpc.Preempted {
					j.preempted(c.Job, &c.Outcome)
				}
				j.over(c.Job, in, c.Outcome, info.Requeued())
				return
			}
		}
		j.over(c.Job, in, c.Outcome, false)
	})
}

// askSoon asks slurmctld for the records of a job just after the current instant. At the current
// instant, slurmctld still handles messages of nodes. A request would change the order in which
// its threads run.
func (j *jobs) askSoon(job uint32, answered func([]rpc.JobInfo, error)) {
	j.At(j.Now()+1, func() {
		j.ask(rpc.RequestJobInfoSingle, j.codec.Body(&rpc.JobInfoRequest{Job: job}), func(reply *rpc.Message, err error) {
			answered(jobInfos(reply, err))
		})
	})
}

// preempted adds the preempting job to the outcome of a preempted job: the job's ID in the
// workload, or Slurm's job number for a job outside the workload.
func (j *jobs) preempted(number uint32, o *rm.Outcome) {
	by, ok, err := j.endings.By(number, o.End)
	j.Fail(err)
	in := j.byNumber[by.Number]
	switch {
	case !ok:
	case in == nil:
		o.PreemptedBy = strconv.FormatUint(uint64(by.Number), 10)
	case by.Task != "" && in.of.whole == nil:
		o.PreemptedBy = in.of.job.ID + "_" + by.Task
	case in.task >= 0:
		o.PreemptedBy = in.of.job.ID + "_" + strconv.Itoa(in.task)
	default:
		o.PreemptedBy = in.of.job.ID
	}
}

// whyCancelled returns the reason [slurmspec.NeverSatisfied] if slurmctld or the user cancelled a job whose
// dependencies can never be met, and "" otherwise.
func (j *jobs) whyCancelled(number uint32, s *submission, state hpc.State) string {
	if state != hpc.Cancelled || s.job.Dependency == "" {
		return ""
	}
	reason := slurmspec.NeverSatisfied.String()
	never, err := j.endings.NeverSatisfied(number)
	if j.Fail(err); !never && j.reasons.told[number].reason != reason {
		return ""
	}
	return reason
}

// askForPriority asks slurmctld for the priority with which a job started. The engine asks only about jobs that waited.
// For all other jobs, accounting has the right priority: the priority when the job became eligible (job_start in
// as_mysql_job.c). askForPriority sends one request at a time, because slurmctld defers scheduling while many requests
// are pending (max_rpc_cnt).
func (j *jobs) askForPriority(job uint32) {
	j.priorities = append(j.priorities, job)
	if len(j.priorities) == 1 {
		j.askForNextPriority()
	}
}

func (j *jobs) askForNextPriority() {
	job := j.priorities[0]
	j.ask(rpc.RequestJobInfoSingle, j.codec.Body(&rpc.JobInfoRequest{Job: job}), func(reply *rpc.Message, err error) {
		if j.priorities = j.priorities[1:]; len(j.priorities) > 0 {
			defer j.askForNextPriority()
		}
		infos, err := jobInfos(reply, err)
		in := j.byNumber[job]
		if err != nil || in == nil {
			return // the job has ended; its priority comes from accounting
		}
		for i := range infos {
			if info := &infos[i]; info.JobID == job && info.State == hpc.Running {
				in.priority = info.Priority
			}
		}
	})
}

// complete adds the fields that a truncated record lacks.
func complete(o *rm.Outcome, info *rpc.JobInfo, in *instance) {
	if !info.Requeued() {
		o.State = info.State
		o.Submit = hpc.Unix(info.Submit)
		o.Start, o.End = hpc.Unix(info.Start), hpc.Unix(info.End)
	}
	o.Eligible = hpc.Unix(info.Eligible)
	o.Account, o.QOS, o.Partition, o.Reservation = info.Account, info.QOS, info.Partition, info.Reservation
	o.TRES = info.TRESAlloc
	o.Restarts = info.Restarts
	exit := slurmspec.ExitCodeOfWait(info.ExitCode)
	o.ExitCode, o.Signal = exit.Status, exit.Signal
	if in.nodes != "" {
		o.Nodes, o.NodeCount, o.Processors = in.nodes, in.nodeCount, in.cpus
	}
}

// askForTasks asks slurmctld which tasks of an array it still has. The engine asks when slurmctld
// has reused the array's own record for a task and that task has ended. slurmctld does not report
// the end of a task that is cancelled before it has its own record (scancel 1_7: job_str_signal in
// job_mgr.c).
func (j *jobs) askForTasks(s *submission) {
	j.askSoon(s.number, func(infos []rpc.JobInfo, err error) {
		if err != nil {
			j.warn("job-unknown", fmt.Sprintf("asking slurmctld about the tasks of job %s: %v", s.job.ID, err), true)
			return
		}
		now := hpc.Unix(j.Now().UnixSeconds())
		for _, task := range s.tasks {
			known := func(info rpc.JobInfo) bool { return info.ArrayTaskID == uint32(task) || info.Waiting(task) }
			if s.fates[task] == inArray && !slices.ContainsFunc(infos, known) {
				j.taskOver(0, s, task, rm.Outcome{State: hpc.Cancelled, End: now}, false)
			}
		}
	})
}

// jobInfos returns the job records in a reply.
func jobInfos(reply *rpc.Message, err error) ([]rpc.JobInfo, error) {
	if err != nil {
		return nil, err
	}
	return rpc.DecodeJobInfo(reply)
}
