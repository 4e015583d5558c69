// Package gang models slurmctld's gang scheduling (gang.c). It decides which of the jobs that share
// cores run, and which are suspended. A running job casts a shadow on the partitions of lower
// tiers: their jobs do not run on its cores. With each time slice, other jobs of a partition run.
package gang

import (
	"cmp"
	"slices"

	"rmreplay/internal/rm/nodeset"
	"rmreplay/internal/rm/slurmmodel/rows"
)

// Actions are the functions by which gang scheduling acts on jobs.
type Actions[J any] struct {
	// Halt resumes a job if goOn is true, and otherwise suspends it. It ignores jobs that have
	// ended.
	Halt func(job J, goOn bool)
	// Evict preempts a job, which then ends or returns to the queue.
	Evict func(J)
	// Suspends reports whether a job is suspended if jobs of higher tiers need its cores. If not,
	// the job is evicted.
	Suspends func(J) bool
}

// place says whether a job in the list of its partition runs, and why it runs.
type place uint8

const (
	waits  place = iota // GS_NO_ACTIVE
	active              // GS_ACTIVE
	filler              // GS_FILLER: the job got free cores at its start, or when other jobs left them
)

// entry is a job in a partition's list.
type entry[J any] struct {
	job     J
	cores   []int
	stopped bool
	place   place
}

type partition[J any] struct {
	tier    int
	jobs    []*entry[J]
	shadows []*entry[J] // running jobs of higher tiers
	active  int         // number of running jobs and shadows
	used    nodeset.Set
}

// Scheduler has the jobs that have started, and decides which of them run.
type Scheduler[J comparable] struct {
	Actions[J]

	partitions []*partition[J] // in the configuration's order
	order      []*partition[J] // highest tier first, after sort
	evicted    []J
}

// New returns a scheduler for these partitions and a machine with this number of cores.
func New[J comparable](partitions []rows.Partition, cores int, do Actions[J]) *Scheduler[J] {
	s := &Scheduler[J]{Actions: do}
	for _, p := range partitions {
		s.partitions = append(s.partitions, &partition[J]{tier: p.Tier, used: nodeset.New(cores)})
	}
	s.order = slices.Clone(s.partitions)
	return s
}

// Start adds a job that has got cores, and may suspend other jobs (gs_job_start). It reports
// whether the job runs.
func (s *Scheduler[J]) Start(job J, part int, cores []int) bool {
	p, e := s.partitions[part], &entry[J]{job: job, cores: cores}
	p.jobs = append(p.jobs, e)
	if p.fits(e) {
		s.admit(p, e)
		e.place = filler
		s.update()
	} else {
		s.stop(p, e)
	}
	s.evict()
	return !e.stopped
}

// End removes a job that has ended, and resumes jobs that now fit (gs_job_fini).
func (s *Scheduler[J]) End(job J, part int) {
	p := s.partitions[part]
	at := slices.IndexFunc(p.jobs, func(e *entry[J]) bool { return e.job == job })
	if at < 0 {
		return
	}
	s.clearShadow(p.jobs[at])
	p.jobs = slices.Delete(p.jobs, at, at+1)
	s.update()
}

// Slice begins a time slice (_timeslicer_thread).
func (s *Scheduler[J]) Slice() {
	s.sort()
	for _, p := range s.order {
		if p.active < len(p.jobs)+len(p.shadows) {
			s.cycle(p)
		}
	}
	s.evict()
}

func (s *Scheduler[J]) sort() {
	slices.SortStableFunc(s.order, func(a, b *partition[J]) int { return cmp.Compare(b.tier, a.tier) })
}

// fits reports whether a job shares no core with the running jobs (_job_fits_in_active_row).
func (p *partition[J]) fits(e *entry[J]) bool {
	return p.active == 0 || !slices.ContainsFunc(e.cores, p.used.Has)
}

func (p *partition[J]) add(e *entry[J]) {
	if p.active == 0 {
		p.used.Reset()
	}
	for _, c := range e.cores {
		p.used.Set(c)
	}
	p.active++
}

// admit lets a job run, and casts its shadow on the partitions of lower tiers.
func (s *Scheduler[J]) admit(p *partition[J], e *entry[J]) {
	p.add(e)
	s.castShadow(p, e)
}

func (s *Scheduler[J]) castShadow(p *partition[J], e *entry[J]) {
	for _, lower := range s.order {
		if lower.tier < p.tier && !slices.Contains(lower.shadows, e) {
			lower.shadows = append(lower.shadows, e)
		}
	}
}

func (s *Scheduler[J]) clearShadow(e *entry[J]) {
	for _, p := range s.order {
		p.shadows = slices.DeleteFunc(p.shadows, func(other *entry[J]) bool { return other == e })
	}
}

// stop suspends a job. If jobs of higher tiers need its cores, and Suspends is false for the job,
// the job is evicted instead.
func (s *Scheduler[J]) stop(p *partition[J], e *entry[J]) {
	if len(p.shadows) > 0 && !s.Suspends(e.job) {
		s.evicted = append(s.evicted, e.job)
	} else {
		s.Halt(e.job, false)
	}
	e.stopped = true
}

func (s *Scheduler[J]) resume(e *entry[J]) {
	s.Halt(e.job, true)
	e.stopped = false
}

// evict evicts the jobs that stop has listed (_preempt_job_dequeue).
func (s *Scheduler[J]) evict() {
	for len(s.evicted) > 0 {
		job := s.evicted[0]
		s.evicted = s.evicted[1:]
		s.Evict(job)
	}
}

// update decides anew which jobs run (_update_all_active_rows).
func (s *Scheduler[J]) update() {
	s.sort()
	for _, p := range s.order {
		p.active = 0
		for _, e := range p.shadows {
			p.add(e)
		}
		s.keep(p, active)
		s.keep(p, filler)
		for _, e := range p.jobs {
			if e.place != waits || !p.fits(e) {
				continue
			}
			s.admit(p, e)
			if e.place = filler; e.stopped {
				s.resume(e)
			}
		}
	}
}

// keep lets the jobs with the place kind continue to run if they still fit, and suspends those that do
// not fit.
func (s *Scheduler[J]) keep(p *partition[J], kind place) {
	for _, e := range p.jobs {
		switch {
		case e.place != kind:
		case p.fits(e):
			s.admit(p, e)
		default:
			if !e.stopped {
				s.stop(p, e)
				s.clearShadow(e)
			}
			e.place = waits
		}
	}
}

// cycle begins a time slice of a partition: jobs that ran move to the end of the list, and the
// first jobs of the list run (_cycle_job_list).
func (s *Scheduler[J]) cycle(p *partition[J]) {
	s.rotate(p)
	p.active = 0
	if len(p.jobs) > 0 {
		for _, e := range p.shadows {
			p.add(e)
		}
	}
	for _, e := range p.jobs {
		if p.fits(e) {
			p.add(e)
			e.place = active
		}
	}
	for _, e := range p.jobs {
		if e.place == waits && !e.stopped {
			s.stop(p, e)
			s.clearShadow(e)
		}
	}
	for _, e := range p.jobs {
		if e.place == active && e.stopped {
			s.resume(e)
			s.castShadow(p, e)
		}
	}
}

// rotate sets all jobs to waits, and moves the jobs that were active to the end of the list.
func (s *Scheduler[J]) rotate(p *partition[J]) {
	for i := range p.jobs {
		for p.jobs[i].place == active {
			e := p.jobs[i]
			e.place = waits
			p.jobs = append(slices.Delete(p.jobs, i, i+1), e)
		}
		if p.jobs[i].place == filler {
			p.jobs[i].place = waits
		}
	}
}
