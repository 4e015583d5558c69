package sim

import (
	"cmp"

	"rmreplay/internal/hpc"
)

// ownName is the user and the name of a job. Singletons with the same ownName wait for each other.
// If a job has no name, its ID is its name, as in a replay on Slurm.
type ownName struct{ user, name string }

func ownNameOf(job *hpc.Job) ownName { return ownName{job.User, cmp.Or(job.Name, job.ID)} }

// namesakes are the submissions with the same ownName.
type namesakes struct {
	list    []*submission // in the order of submission; those at the front may have ended
	running int           // number of running tasks
	waiting []*condition  // singletons, in the order of submission; those at the front may be decided
}

// nameOf returns the namesakes of a job, or nil if no job has been a singleton yet.
func (e *Engine) nameOf(job *hpc.Job) *namesakes {
	if e.names == nil {
		return nil
	}
	key := ownNameOf(job)
	n := e.names[key]
	if n == nil {
		n = &namesakes{}
		e.names[key] = n
	}
	return n
}

// awaitSingleton makes a singleton wait for the other jobs with its ownName.
func (e *Engine) awaitSingleton(c *condition) {
	if e.names == nil {
		e.names = map[ownName]*namesakes{}
		for i := range e.jobs {
			s := e.jobs[i].submission
			if s.open == 0 {
				continue
			}
			n := e.nameOf(s.job)
			n.list = append(n.list, s)
			n.running += int(s.open - s.pending)
		}
	}
	n := e.nameOf(c.needs.of.job)
	n.waiting = append(n.waiting, c)
	n.check(e)
}

// check meets the condition of the first waiting singleton if no other job with its ownName runs and no earlier job
// with this name is pending (_find_singleton_job in Slurm's src/slurmctld/job_scheduler.c). Later singletons wait.
func (n *namesakes) check(e *Engine) {
	for len(n.waiting) > 0 && n.waiting[0].needs.decided {
		n.waiting = n.waiting[1:]
	}
	for len(n.list) > 0 && n.list[0].open == 0 {
		n.list = n.list[1:]
	}
	if len(n.waiting) == 0 || n.running > 0 || len(n.list) == 0 || n.list[0] != n.waiting[0].needs.of {
		return
	}
	c := n.waiting[0]
	n.waiting = n.waiting[1:]
	c.needs.meet(e)
}
