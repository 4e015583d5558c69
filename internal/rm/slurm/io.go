package slurm

import (
	"errors"
	"time"

	"rmreplay/internal/bandwidth"
	"rmreplay/internal/hpc"
)

// transfers slows down running jobs that share file systems, according to the model of package bandwidth. The script of
// such a job has an unlimited run time. The script ends when, in the model, the job has moved its data.
type transfers struct {
	*jobs
	model  *bandwidth.Model    // nil without file systems
	moving map[uint32]hpc.Time // when each job in the model was launched
	next   hpc.Time            // when the timer for the next end of a phase is due
}

func newTransfers(j *jobs, systems []hpc.FileSystem) (*transfers, error) {
	t := &transfers{jobs: j, moving: map[uint32]hpc.Time{}, next: hpc.Never}
	if len(systems) == 0 {
		return t, nil
	}
	var err error
	t.model, err = bandwidth.New(systems)
	return t, err
}

// decides reports whether the model decides when a job ends. A job with a given end (EndAt), such as a preset job, is
// not in the model. The preset job takes no bandwidth from other jobs.
func (t *transfers) decides(job *hpc.Job) bool {
	return t.model != nil && len(job.IO) > 0 && job.EndAt == 0
}

// begin adds a job to the model when its script has been launched.
func (t *transfers) begin(number uint32, in *instance) {
	if t.decides(in.of.job) {
		t.moving[number] = t.Now()
		t.model.Start(t.Now(), int(number), in.nodeCount, t.runTimeOf(in.of, in.task), in.of.job.IO)
		t.foresee()
	}
}

// end removes a job from the model when its run has ended.
func (t *transfers) end(number uint32) {
	if _, moves := t.moving[number]; moves {
		delete(t.moving, number)
		t.model.Stop(t.Now(), int(number))
		t.foresee()
	}
}

// suspend stops or continues a job.
func (t *transfers) suspend(number uint32, resumed bool) {
	if _, moves := t.moving[number]; !moves {
		return
	}
	if resumed {
		t.model.Resume(t.Now(), int(number))
	} else {
		t.model.Suspend(t.Now(), int(number))
	}
	t.foresee()
}

// foresee sets the timer for the next end of a phase.
func (t *transfers) foresee() {
	if next := t.model.Next(); next != hpc.Never && (next < t.next || t.next <= t.Now()) {
		t.next = next
		t.At(next, t.progress)
	}
}

// progress advances the model to this instant, and ends the scripts of jobs that have moved their
// data. The nodes add the delay before a script's start to the script's run time.
func (t *transfers) progress() {
	for _, number := range t.model.Advance(t.Now()) {
		launched := t.moving[uint32(number)]
		delete(t.moving, uint32(number))
		t.nodes.SetRunTime(uint32(number), t.Now().Sub(launched))
	}
	t.foresee()
}

// errMoves refuses a command that changes the run time of a running job with I/O.
var errMoves = errors.New("the run time of a job with I/O cannot be changed: it ends when its data are moved")

// runTime returns the run time of a script that is launched now; [hpc.Unlimited] if the model
// decides when the script ends.
func (t *transfers) runTime(s *submission, task int) time.Duration {
	if t.decides(s.job) {
		return hpc.Unlimited
	}
	return t.runTimeOf(s, task)
}

// NextPhase returns the next instant at which a job enters another phase of its I/O; [hpc.Never] if
// no job does.
func (e *Engine) NextPhase() hpc.Time {
	if t := e.jobs.transfers; t.model != nil {
		return t.model.NextPhase()
	}
	return hpc.Never
}

// IOLoad returns the bandwidth that the running jobs request from a file system, and the bandwidth
// that they get.
func (e *Engine) IOLoad(name string) bandwidth.Load {
	if t := e.jobs.transfers; t.model != nil {
		return t.model.Load(name)
	}
	return bandwidth.Load{}
}
