package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
)

// outranking counts the processors of the jobs that started while this job waited behind jobs with a higher priority.
func (s *Story) outranking(rec *Record, row *run.Row) {
	var behind []waits.Period
	for _, span := range waits.Decompose(row, rec.end) {
		if n := len(behind); span.Part != waits.Priority {
			continue
		} else if n > 0 && behind[n-1].To == span.From {
			behind[n-1].To = span.To
		} else {
			behind = append(behind, waits.Period{From: span.From, To: span.To})
		}
	}
	if len(behind) == 0 {
		return
	}
	known := rec.priorities(row)
	s.ranks = len(known.own) > 0
	for i := range rec.rows {
		other := &rec.rows[i]
		if other == row || !shareNodes(row, other) {
			continue
		}
		for _, r := range other.Runs() {
			if !during(behind, r.Start) {
				continue
			}
			s.before += r.Processors
			if !s.ranks {
				continue
			}
			priority, gap := known.at(r.Start)
			if float64(startPriority(other, r.Start)) > priority {
				s.higher += r.Processors
			}
			s.gap = max(s.gap, gap)
		}
	}
}

// startPriority returns the priority of a job when one of its runs started. For a lost run, it is the last recorded
// priority before the start.
func startPriority(row *run.Row, start hpc.Time) uint32 {
	p := row.Priority
	for _, span := range row.Reasons {
		if span.Priority != 0 && span.From <= start && start < row.Start {
			p = span.Priority
		}
	}
	return p
}

// ranking is the priority of a waiting job over time.
type ranking struct {
	// own has the job's recorded priorities, in order of time. If the record has the parts of priorities, these are
	// without the points of fair-share.
	own []rank
	// shares has the points of fair-share of the job's user in the job's account, from all their jobs. It is nil if
	// the record does not have the parts of priorities.
	shares []rank
}

// rank is a priority, or a part of it, from an instant on.
type rank struct {
	at     hpc.Time
	points float64
}

// shared identifies jobs that have the same points of fair-share.
type shared struct{ user, account string }

// priorities returns the priorities of a job before its first start. A requeued job does not count
// as waiting for its priority ([waits.Requeued]). If the job started only once, the last of them
// is the priority at its start: the record has only the priority at the last start. The ranking is
// empty if the record has no priority while the job waited.
func (rec *Record) priorities(row *run.Row) (known ranking) {
	var parts [][]rm.PriorityPart
	start := row.FirstStart()
	for _, span := range row.Reasons {
		if span.Priority != 0 && (start == 0 || span.From < start) {
			known.own, parts = append(known.own, rank{span.From, float64(span.Priority)}), append(parts, span.Parts)
		}
	}
	if len(known.own) > 0 && start != 0 && start == row.Start && row.Priority != 0 {
		known.own, parts = append(known.own, rank{row.Start, float64(row.Priority)}), append(parts, row.PriorityParts)
	}
	if slices.ContainsFunc(parts, func(p []rm.PriorityPart) bool { return len(p) == 0 }) {
		return known
	}
	for i := range known.own {
		known.own[i].points -= fairShare(parts[i])
	}
	known.shares = rec.sharesOf(row)
	return known
}

// fairShare returns the points of fair-share; 0 if parts does not have them.
func fairShare(parts []rm.PriorityPart) (points float64) {
	for _, p := range parts {
		if p.Name == "fairshare" {
			points += p.Points
		}
	}
	return points
}

// sharesOf returns the points of fair-share of a job's user and account over time, from the priorities of all their
// jobs.
func (rec *Record) sharesOf(row *run.Row) []rank {
	if rec.shares == nil {
		rec.shares = map[shared][]rank{}
		for i := range rec.rows {
			row := &rec.rows[i]
			add := func(at hpc.Time, parts []rm.PriorityPart) {
				if of := (shared{row.User, row.Account}); len(parts) > 0 {
					rec.shares[of] = append(rec.shares[of], rank{at, fairShare(parts)})
				}
			}
			for _, span := range row.Reasons {
				add(span.From, span.Parts)
			}
			if row.Start != 0 {
				add(row.Start, row.PriorityParts)
			}
		}
		for _, list := range rec.shares {
			slices.SortStableFunc(list, func(a, b rank) int { return cmp.Compare(a.at, b.at) })
		}
	}
	return rec.shares[shared{row.User, row.Account}]
}

// until returns the number of ranks at or before an instant.
func until(list []rank, t hpc.Time) int {
	i, _ := slices.BinarySearchFunc(list, t, func(r rank, t hpc.Time) int {
		if r.at <= t {
			return -1
		}
		return 1
	})
	return i
}

// nearest returns the points at the date that is nearest to an instant.
func nearest(list []rank, t hpc.Time) float64 {
	i := until(list, t)
	if i == len(list) || i > 0 && t.Sub(list[i-1].at) <= list[i].at.Sub(t) {
		i--
	}
	return list[i].points
}

// at returns the priority at an instant. Between two recorded priorities of the job it interpolates, because the
// points of age grow linearly. After the last recorded priority, it returns that priority. The points of fair-share
// change in steps, so those at the nearest date count. If the record does not have the parts of priorities,
// fair-share may have changed unnoticed. Then gap is the time between the two priorities if they differ, or the time
// since the last priority.
func (known *ranking) at(t hpc.Time) (priority float64, gap time.Duration) {
	i := until(known.own, t)
	switch i {
	case 0:
		priority = known.own[0].points
	case len(known.own):
		priority, gap = known.own[i-1].points, t.Sub(known.own[i-1].at)
	default:
		a, b := known.own[i-1], known.own[i]
		priority = a.points + (b.points-a.points)*float64(t.Sub(a.at))/float64(b.at.Sub(a.at))
		if a.points != b.points {
			gap = b.at.Sub(a.at)
		}
	}
	if known.shares != nil {
		// Priorities are whole numbers. Without the addition, rounding could make an equal priority seem higher.
		return priority + nearest(known.shares, t) + 1e-6, 0
	}
	return priority, gap
}

// fewMinutes is the default of Slurm's PriorityCalcPeriod, the time between two computations of fair-share. A shorter
// gap between priorities does not matter.
const fewMinutes = 5 * time.Minute

// ranked returns the cause of the job's low priority ([Cause]).
func (s *Story) ranked() Cause {
	waited := 0.0
	for _, span := range s.Reasons {
		if span.Part == waits.Priority {
			waited += span.Seconds
		}
	}
	text := fmt.Sprintf("for %.0f %% of its wait it waited %s", 100*waited/s.Wait, waits.Priority.Meaning())
	if !s.ranks {
		text += "; the record does not have its priority while it waited, so it is not known how many processors these jobs used"
	} else {
		about, gap := "", ""
		if s.gap > fewMinutes {
			about = "about "
			gap = fmt.Sprintf(" (the record lacks its priority for up to %s)", span(s.gap.Seconds()))
		}
		text += fmt.Sprintf(", and jobs of its partition that started with a higher priority got %s%d of the "+
			"%d %s that jobs of this partition got in that time%s", about, s.higher, s.before, quantity.Plural(s.before, "processor", "processors"),
			gap)
		if s.higher < s.CPUs {
			text += fmt.Sprintf(" (it needs %d)", s.CPUs)
		}
	}
	return Cause{Kind: Ranked, Weight: waited / s.Wait * s.outranked(), Text: text}
}

// outranked returns a factor of the weight of [Story.ranked]: the share of the jobs with a higher
// priority in the processors of the jobs that started before this job. It is 1 if the record does
// not show which jobs had a higher priority.
func (s *Story) outranked() float64 {
	if s.before == 0 || s.Priority == 0 {
		return 0
	}
	if !s.ranks {
		return 1
	}
	enough := min(1, float64(s.higher)/float64(max(1, s.CPUs)))
	return float64(s.higher) / float64(s.before) * enough
}
