package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Numbers of questions that may wait for a seat (the right to use an engine). More questions are refused.
const (
	quickQueue = 64
	slowQueue  = 32
)

// lanes gives seats to questions. A seat is the right to use an engine. The quick lane has all seats that the slow
// lane does not use.
type lanes struct {
	all, slow int // number of all seats, and the highest number in the slow lane

	mu        sync.Mutex
	taken     int // taken seats of both lanes
	takenSlow int
	quickLine []*seat // in the order of arrival
	slowLine  []*seat
}

func newLanes(all, slow int) *lanes { return &lanes{all: all, slow: min(all, slow)} }

// seat is the seat of one question, or the question's position in the queue for a seat.
type seat struct {
	lanes *lanes
	given chan struct{} // receives a value when the seat is given to a waiting question
	taken bool
	slow  bool
}

// enter waits for a seat in the quick lane.
func (l *lanes) enter(ctx context.Context) (*seat, error) {
	s := &seat{lanes: l, given: make(chan struct{}, 1)}
	l.mu.Lock()
	if len(l.quickLine) >= quickQueue {
		l.mu.Unlock()
		return nil, fmt.Errorf("%w (%d wait)", ErrBusy, quickQueue)
	}
	l.quickLine = append(l.quickLine, s)
	l.seat()
	l.mu.Unlock()
	return s, s.await(ctx)
}

// seat gives free seats to waiting questions. Questions for the slow lane come first, because they
// have waited longer, and because they cannot take the quick lane's last seats.
func (l *lanes) seat() {
	for len(l.slowLine) > 0 && l.taken < l.all && l.takenSlow < l.slow {
		s := l.slowLine[0]
		l.slowLine = l.slowLine[1:]
		l.taken++
		l.takenSlow++
		s.taken, s.slow = true, true
		s.given <- struct{}{}
	}
	for len(l.quickLine) > 0 && l.taken < l.all {
		s := l.quickLine[0]
		l.quickLine = l.quickLine[1:]
		l.taken++
		s.taken = true
		s.given <- struct{}{}
	}
}

// await waits until the seat is given. If the question's time ends first, the error is [ErrBusy],
// because other questions had all seats.
func (s *seat) await(ctx context.Context) error {
	select {
	case <-s.given:
		return nil
	case <-ctx.Done():
	}
	s.leave()
	cause := context.Cause(ctx)
	if ctx.Err() == context.DeadlineExceeded {
		return fmt.Errorf("%w: %w while the query waited", ErrBusy, cause)
	}
	return cause
}

// leave gives up the seat, or stops waiting for one.
func (s *seat) leave() {
	l := s.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	is := func(other *seat) bool { return other == s }
	l.quickLine = slices.DeleteFunc(l.quickLine, is)
	l.slowLine = slices.DeleteFunc(l.slowLine, is)
	if s.taken {
		l.taken--
		if s.slow {
			l.takenSlow--
		}
	}
	s.taken, s.slow = false, false
	l.seat()
}

// slower moves a question with a seat to the slow lane, and reports whether this was possible. If
// the slow lane is full, the question keeps its seat until [seat.wait].
func (s *seat) slower() bool {
	l := s.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.slow {
		return true
	}
	if l.takenSlow >= l.slow {
		return false
	}
	s.slow = true
	l.takenSlow++
	return true
}

// wait gives up the seat and waits for a seat in the slow lane.
func (s *seat) wait(ctx context.Context) error {
	s.leave()
	l := s.lanes
	l.mu.Lock()
	if len(l.slowLine) >= slowQueue {
		l.mu.Unlock()
		return fmt.Errorf("%w (%d long queries wait)", ErrBusy, slowQueue)
	}
	l.slowLine = append(l.slowLine, s)
	l.seat()
	l.mu.Unlock()
	return s.await(ctx)
}

// isSlow reports whether the question is in the slow lane.
func (s *seat) isSlow() bool {
	s.lanes.mu.Lock()
	defer s.lanes.mu.Unlock()
	return s.slow
}
