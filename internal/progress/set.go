package progress

import (
	"fmt"
	"time"

	"rmreplay/internal/quantity"
	"rmreplay/internal/replay"
)

// Set is the progress of a set of realizations. Each realization has a number.
type Set struct {
	total   int
	batch   Batch
	running map[int]*realization
}

// realization is a realization that runs.
type realization struct {
	begun   time.Time
	share   float64
	history History
}

// NewSet returns the progress of a set. The parameter total is the number of realizations, and
// parallel is the number of realizations that run at the same time.
func NewSet(total, parallel int) *Set {
	return &Set{total: total, batch: Batch{Parallel: parallel}, running: map[int]*realization{}}
}

// Begin notes that a realization begins.
func (s *Set) Begin(number int, now time.Time) { s.running[number] = &realization{begun: now} }

// Observe notes the progress of a realization.
func (s *Set) Observe(number int, now time.Time, p *replay.Progress) {
	r := s.running[number]
	r.share = Share(p)
	r.history.Add(Snapshot{Elapsed: now.Sub(r.begun), Progress: *p})
}

// End notes that a realization has ended.
func (s *Set) End(number int, now time.Time) {
	s.batch.Ended = append(s.batch.Ended, now.Sub(s.running[number].begun))
	delete(s.running, number)
}

// Parts describes the whole set.
func (s *Set) Parts(now time.Time) []Part {
	ended := len(s.batch.Ended)
	sum := float64(ended)
	s.batch.Waiting, s.batch.Running = s.total-ended-len(s.running), nil
	for _, r := range s.running {
		s.batch.Running = append(s.batch.Running, Running{now.Sub(r.begun), r.history.Left()})
		sum += r.share
	}
	return []Part{
		{0, fmt.Sprintf("%3.0f%%", 100*sum/float64(s.total))},
		{2, fmt.Sprintf("%d of %d %s done", ended, s.total, quantity.Plural(s.total, "realization", "realizations"))},
		{3, fmt.Sprintf("%d running", len(s.running))},
		Remaining(s.batch.Left(), ended < s.total),
	}
}
