package answers

import (
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurmmodel/parameters"
	"rmreplay/internal/rm/slurmmodel/selection"
)

// Departures are the jobs that leave their nodes.
type Departures struct {
	Line Line[Message]
	// Closed has the nodes of running jobs that share no nodes (no bit in share_node_bitmap).
	Closed selection.Bits
	// Jobs is the number of jobs that leave.
	Jobs   int
	on     []int16 // number of leaving jobs on each node
	closed []int16 // number of running jobs on each node that share no nodes (no_share_job_cnt)
}

// Departure is a job that leaves its nodes.
type Departure struct {
	left int    // nodes that have not answered
	over func() // ends the job
}

// Message is what a node tells: that a job has left it.
type Message struct {
	of   *Departure
	node int
}

// NewDepartures returns the departures on a number of nodes of a release.
func NewDepartures(nodes int, rules parameters.Rules) Departures {
	return Departures{
		Line: Line[Message]{Threads: Threads(rules)}, Closed: selection.NewBits(nodes), on: make([]int16, nodes),
		closed: make([]int16, nodes),
	}
}

// Close notes that a job that shares no nodes runs on nodes; without runs, that it is suspended there, or ends.
func (s *Departures) Close(nodes selection.Bits, runs bool) {
	for i := range nodes.All {
		if runs {
			s.closed[i]++
		} else {
			s.closed[i]--
		}
		s.Closed.Put(i, s.closed[i] > 0)
	}
}

// Begin notes that a job leaves nodes, each of which will answer. The last answer calls over.
func (s *Departures) Begin(nodes selection.Bits, over func()) *Departure {
	s.Jobs++
	for i := range nodes.All {
		s.on[i]++
	}
	return &Departure{nodes.Count(), func() { s.Jobs--; over() }}
}

// Exclude removes the nodes that jobs are leaving from a set.
func (s *Departures) Exclude(set selection.Bits) {
	for i := 0; s.Jobs > 0 && i < len(s.on); i++ {
		if s.on[i] > 0 {
			set.Clear(i)
		}
	}
}

// Any reports whether a job leaves one of the nodes of a set.
func (s *Departures) Any(set selection.Bits) bool {
	for i := range set.All {
		if s.on[i] > 0 {
			return true
		}
	}
	return false
}

// Tell adds the messages that nodes send at an instant. many says that many agents are at work.
func (s *Departures) Tell(at hpc.Time, d *Departure, nodes selection.Bits, many bool) {
	for node := range nodes.All {
		s.Line.Come(at, Message{d, node}, Throttle(many))
	}
}

// Serve serves the message that is due, and reports whether it is the last of its job.
func (s *Departures) Serve(many bool) bool {
	m := s.Line.Serve(Throttle(many))
	return s.free(m.of, m.node)
}

// Answer notes the answers of nodes that a job has left. It reports whether they are the job's last ones.
func (s *Departures) Answer(d *Departure, nodes selection.Bits) (last bool) {
	for node := range nodes.All {
		last = s.free(d, node)
	}
	return last
}

func (s *Departures) free(d *Departure, node int) bool {
	s.on[node]--
	if d.left--; d.left > 0 {
		return false
	}
	d.over()
	return true
}
