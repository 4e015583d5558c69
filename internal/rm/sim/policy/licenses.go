package policy

import (
	"cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/ioaware"
	"rmreplay/internal/rm/sim"
)

// bfLicenses is slurmctld with SchedulerParameters=bf_licenses. Its main scheduler goes through the queue from the
// head. The main scheduler stops at the first job that waits for licenses (_schedule in Slurm's
// src/slurmctld/job_scheduler.c) or for nodes, as if all jobs were in one partition. The main scheduler runs when a job
// has ended, and soon after submissions. The backfill scheduler plans all other starts, in rounds at its interval.
type bfLicenses struct {
	withFileSystem // the backfill scheduler
	submissions    ioaware.Rounds
	look           hpc.Time // when the main scheduler next runs because of a submission; 0 without a submission
}

func newBFLicenses(m *sim.Machine, options ioaware.Planning) *bfLicenses {
	m.ReserveIdle() // slurmctld first tests the nodes on which the job could start now
	options.Interval = cmp.Or(options.Interval, ioaware.MostPause)
	return &bfLicenses{withFileSystem: newWithFileSystem(m, options)}
}

// Add implements [sim.Policy].
func (p *bfLicenses) Add(j *sim.Job) {
	p.withFileSystem.Add(j)
	if p.look != 0 {
		return
	}
	p.look = p.submissions.Next(p.machine.Now(), true)
	p.machine.Wake(p.look, func() bool { return true })
}

// Schedule implements [sim.Policy].
func (p *bfLicenses) Schedule() {
	p.first()
	p.withFileSystem.Schedule()
}

// first does a pass of the main scheduler.
func (p *bfLicenses) first() {
	if now := p.machine.Now(); p.look != 0 && now >= p.look {
		p.submissions.Planned(now)
		p.look = 0
	}
	free := p.system.Licenses
	for j := range p.machine.Running() {
		free -= p.request(j)
	}
	n := 0
	for _, j := range p.queue {
		use := p.request(j)
		if use > free || !p.machine.Fits(j) {
			break
		}
		p.machine.Start(j)
		free -= use
		n++
	}
	clear(p.queue[:n])
	p.queue = p.queue[n:]
}

// request returns how many licenses of the file system a job requests.
func (p *bfLicenses) request(j *sim.Job) int64 {
	planned := p.job(j)
	return planned.Licenses[p.system.Name]
}
