package slurm

import (
	"context"
	"fmt"

	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/slurmspec"
)

// neverStart asks slurmctld for the reasons of all jobs that have dependencies and have not ended.
// It returns an event for each job whose dependencies can never be met. slurmctld does not report
// this on its own.
func (e *Engine) neverStart(ctx context.Context) (events []rm.Event, err error) {
	for _, s := range e.jobs.submissions {
		if s.number == 0 || s.ended == len(s.tasks) || s.job.Dependency == "" {
			continue
		}
		answered := false
		e.loop.ask(rpc.RequestJobInfoSingle, e.loop.codec.Body(&rpc.JobInfoRequest{Job: s.number}),
			func(reply *rpc.Message, err error) {
				answered = true
				infos, err := jobInfos(reply, err)
				if err != nil {
					e.loop.warn("job-unknown", fmt.Sprintf("asking slurmctld why job %s is pending: %v", s.job.ID, err), false)
					return
				}
				for i := range infos {
					events = append(events, s.neverStarts(&infos[i])...)
				}
			})
		if err := e.loop.Until(ctx, func() bool { return answered }); err != nil {
			return events, err
		}
	}
	for i := range events {
		events[i].At = e.Now()
	}
	return events, nil
}

// neverStarts returns an event for each task in slurmctld's job record, if its dependencies can
// never be met.
func (s *submission) neverStarts(info *rpc.JobInfo) (events []rm.Event) {
	if info.Reason != slurmspec.NeverSatisfied {
		return nil
	}
	for _, task := range s.tasks {
		if task < 0 || info.ArrayTaskID == uint32(task) || info.Waiting(task) {
			events = append(events, rm.Event{Kind: rm.Dependency, Job: s.job.ID, Task: task, RMJob: info.JobID,
				Reason: info.Reason.String()})
		}
	}
	return events
}
