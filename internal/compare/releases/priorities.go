package releases

import (
	"slices"

	"rmreplay/internal/hpc"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
)

// Priorities says how many jobs had different priorities at their submission. The tasks of an array count as one
// job.
type Priorities struct {
	Compared  int `json:"compared"`
	Different int `json:"different"`
	// First is the first job with a different priority, in the order of submission. Baseline and Set are its
	// priorities. At is its submission in the baseline.
	First    string   `json:"first_job,omitempty"`
	At       hpc.Time `json:"-"`
	Baseline uint32   `json:"baseline,omitempty"`
	Set      uint32   `json:"set,omitempty"`

	changed []Changed // all these jobs, in the order of submission
}

// Changed is a job with a different priority at its submission.
type Changed struct {
	Job           string
	Baseline, Set uint32 // the priorities

	queued []span
}

// span is a period in which a job of one of the runs was in the queue and could start, on the baseline's dates. At the
// end of the period, the job started or was cancelled; the end is 0 if the job never started.
type span struct{ from, to hpc.Time }

// Waiting returns the first job with a different priority that waited at an instant in one of the runs, and did not
// start at this instant there. Only such a job can change what the scheduler does then. A job that waited for its
// dependencies, its begin time or a hold is not among them. Waiting returns nil if there is no such job, or if the
// parameter except is the only such job.
func (p *Priorities) Waiting(at hpc.Time, except string) *Changed {
	for i := range p.changed {
		c := &p.changed[i]
		if c.Job != except && slices.ContainsFunc(c.queued, func(s span) bool {
			return s.from <= at && (s.to == 0 || s.to > at)
		}) {
			return c
		}
	}
	return nil
}

func priorities(baseline, set Side) Priorities {
	var p Priorities
	number := map[string]int{} // the index of each job in changed
	others := set.priorities()
	mine := baseline.priorities()
	for i := range baseline.Rows {
		job := baseline.Rows[i].Job
		a, ok := mine[job]
		b, ok2 := others[job]
		delete(mine, job) // the next row may be another task of the same array
		if !ok || !ok2 {
			continue
		}
		p.Compared++
		if a == b {
			continue
		}
		if p.Different++; p.Different == 1 {
			p.First, p.At, p.Baseline, p.Set = job, baseline.Rows[i].Submit, a, b
		}
		number[job] = len(p.changed)
		p.changed = append(p.changed, Changed{Job: job, Baseline: a, Set: b})
	}
	for _, side := range []Side{baseline, set} {
		for i := range side.Rows {
			if k, ok := number[side.Rows[i].Job]; ok {
				p.changed[k].queued = side.appendQueued(p.changed[k].queued, &side.Rows[i])
			}
		}
	}
	return p
}

// appendQueued appends the times in which a job was in the queue and might start.
func (s Side) appendQueued(list []span, row *run.Row) []span {
	for _, q := range waits.AppendQueued(nil, row) {
		period := span{from: max(q.From, q.Eligible).Add(s.Shift)}
		if q.To != 0 {
			period.to = q.To.Add(s.Shift)
		}
		list = append(list, period)
	}
	return list
}

// priorities returns the jobs' priorities at their submission.
func (s Side) priorities() map[string]uint32 {
	if s.Log == nil {
		return nil
	}
	list := make(map[string]uint32, len(s.Rows))
	for i := range s.Rows {
		if priority, ok := s.Log.Priorities[s.Rows[i].RMJob]; ok {
			list[s.Rows[i].Job] = priority
		}
	}
	return list
}
