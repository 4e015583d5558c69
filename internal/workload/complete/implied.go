package complete

import (
	"cmp"
	"slices"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// atOnce is the longest wait with which a job counts as started at its submission.
const atOnce = time.Minute

// maxPassed is the largest number of waiting jobs that the search for the first larger job
// considers.
const maxPassed = 100

// implied lowers a limit if a backfill scheduler could not have started the job with it. Suppose that a job started at
// once while a larger, earlier job waited. Then the job's limit ended before the larger job's reservation, or the job
// did not need the larger job's processors. The reservation follows from the drawn limits of the jobs that ran (the
// shadow time of EASY; Mu'alem and Feitelson, TPDS 2001). If the longest run time of the batch contradicts this, the
// limit stays, because the site's scheduler had another reason.
func (m *maker) implied() {
	machine := m.processors()
	order := make([]int, 0, len(m.facts))
	for i := range m.facts {
		if m.facts[i].start != 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(m.facts[a].start, m.facts[b].start) })
	r := running{free: machine}
	queue := waiting{facts: m.facts}
	for _, i := range order {
		f := &m.facts[i]
		r.until(f.start)
		if bound, ok := m.shadow(f, &r, &queue); ok && f.made&bit(workload.FieldTimeLimit) != 0 && f.limit > bound && !f.timedOut {
			m.lower(f.batch, bound)
		}
		r.add(f)
	}
}

// lower lowers the limit of a batch, if its run times allow it.
func (m *maker) lower(of int, bound time.Duration) {
	b := &m.batches[of]
	limit, ok := roundDown(max(b.run, time.Minute), bound)
	if !ok || b.ended > 0 {
		return
	}
	for _, place := range b.jobs {
		if f := &m.facts[place]; f.made&bit(workload.FieldTimeLimit) != 0 && !f.timedOut {
			f.limit = min(f.limit, limit)
		}
	}
}

// processors returns the size of the machine, in processors: from the site, from the workload, or
// otherwise the largest number in use at one time.
func (m *maker) processors() int {
	if n := cmp.Or(m.c.Site.Processors, m.w.MachineProcessors); n > 0 {
		return n
	}
	type change struct {
		at   hpc.Time
		cpus int
	}
	var changes []change
	for i := range m.facts {
		if f := &m.facts[i]; f.start != 0 && f.end > f.start {
			changes = append(changes, change{f.start, f.cpus}, change{f.end, -f.cpus})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.cpus, b.cpus)) })
	busy, most := 0, 0
	for _, c := range changes {
		busy += c.cpus
		most = max(most, busy)
	}
	return most
}

// shadow returns the time from a job's start to the reservation of the first larger waiting job. ok
// is true if the job started at once and needs processors of the larger job.
func (m *maker) shadow(f *fact, r *running, queue *waiting) (time.Duration, bool) {
	if f.start.Sub(f.submit) > atOnce {
		return 0, false
	}
	head := queue.larger(f)
	if head == nil {
		return 0, false
	}
	at, spare, ok := r.reservation(head.cpus)
	return at.Sub(f.start), ok && f.cpus > spare && at > f.start
}

// running are the jobs that run at an instant.
type running struct {
	free int
	ends []hold // sorted by limit
}

// hold is a job that holds processors.
type hold struct {
	end, limit hpc.Time
	cpus       int
}

// until removes the jobs that have ended.
func (r *running) until(now hpc.Time) {
	r.ends = slices.DeleteFunc(r.ends, func(h hold) bool {
		if h.end > now {
			return false
		}
		r.free += h.cpus
		return true
	})
}

func (r *running) add(f *fact) {
	if f.end <= f.start {
		return
	}
	h := hold{f.end, max(f.start.Add(f.limit), f.end), f.cpus}
	at, _ := slices.BinarySearchFunc(r.ends, h.limit, func(h hold, limit hpc.Time) int { return cmp.Compare(h.limit, limit) })
	r.ends = slices.Insert(r.ends, at, h)
	r.free -= h.cpus
}

// reservation returns when enough processors are free if the running jobs run to their limits. It also returns
// how many processors then remain free. ok is false if enough processors are already free, or never will be.
func (r *running) reservation(cpus int) (at hpc.Time, spare int, ok bool) {
	free := r.free
	if free >= cpus {
		return 0, 0, false
	}
	for _, h := range r.ends {
		if free += h.cpus; free >= cpus {
			return h.limit, free - cpus, true
		}
	}
	return 0, 0, false
}

// waiting has the jobs in the order of submission, and the index of the first job that has not
// started.
type waiting struct {
	facts []fact
	first int
}

// larger returns the first job that was submitted before f, still waits when f starts, and requests
// more processors than f. It returns nil without such a job. Calls must be in the order of starts.
func (q *waiting) larger(f *fact) *fact {
	waits := func(o *fact) bool { return o.start > f.start && o.submit < f.submit }
	for q.first < len(q.facts) && q.facts[q.first].start <= f.start && q.facts[q.first].submit < f.submit {
		q.first++
	}
	passed := 0
	for i := q.first; i < len(q.facts) && q.facts[i].submit < f.submit && passed < maxPassed; i++ {
		o := &q.facts[i]
		if !waits(o) {
			continue
		}
		if o.cpus > f.cpus {
			return o
		}
		passed++
	}
	return nil
}
