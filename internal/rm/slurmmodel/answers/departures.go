package answers

import (
	"slices"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurmmodel/parameters"
	"rmreplay/internal/rm/slurmmodel/selection"
)

// Departures are the completing jobs: they have ended, and slurmctld waits for the answers of
// nodes.
type Departures struct {
	Line Line[Message]
	// Closed has the nodes of running jobs that share no nodes (no bit in share_node_bitmap).
	Closed selection.Bits
	wait   int64        // CompleteWait, in seconds
	jobs   []*Departure // the completing jobs
	on     []int16      // number of completing jobs on each node
	closed []int16      // number of running jobs on each node that share no nodes (no_share_job_cnt)
}

// Departure is a completing job.
type Departure struct {
	end       int64          // when the job ended, in seconds since 1970
	partition selection.Bits // nodes of its partition
	left      int            // nodes that have not answered
	over      func()         // called at the last answer
}

// Message is a node's message that a job is gone from the node.
type Message struct {
	of   *Departure
	node int
}

// NewDepartures returns an empty record of completing jobs for a cluster with this number of nodes. The parameter wait
// is CompleteWait, in seconds.
func NewDepartures(nodes int, wait int64, rules parameters.Rules) Departures {
	return Departures{
		wait: wait,
		Line: Line[Message]{Threads: Threads(rules)}, Closed: selection.NewBits(nodes), on: make([]int16, nodes),
		closed: make([]int16, nodes),
	}
}

// Close records that a job that shares no nodes now runs on the given nodes. If runs is false, the job no
// longer runs on them, because it was suspended or has ended.
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

// Begin adds a job that ended at a second on the given nodes of a partition. All these nodes will answer. The
// function over is called at the last answer.
func (s *Departures) Begin(end int64, nodes, partition selection.Bits, over func()) *Departure {
	for i := range nodes.All {
		s.on[i]++
	}
	d := &Departure{end, partition, nodes.Count(), over}
	s.jobs = append(s.jobs, d)
	return d
}

// Delayed returns the nodes of the partitions in which CompleteWait delays jobs at a second; nil if it delays none
// (job_is_completing in job_scheduler.c).
func (s *Departures) Delayed(second int64) (nodes selection.Bits) {
	if s.wait == 0 {
		return nil
	}
	for _, d := range s.jobs {
		if d.end < second-s.wait {
			continue
		}
		if nodes == nil {
			nodes = selection.NewBits(len(s.on))
		}
		nodes.Or(d.partition)
	}
	return nodes
}

// Exclude removes the nodes with completing jobs from a set.
func (s *Departures) Exclude(set selection.Bits) {
	for i := 0; len(s.jobs) > 0 && i < len(s.on); i++ {
		if s.on[i] > 0 {
			set.Clear(i)
		}
	}
}

// Nodes returns the nodes with completing jobs; nil if no job is completing.
func (s *Departures) Nodes() selection.Bits {
	if len(s.jobs) == 0 {
		return nil
	}
	nodes := selection.NewBits(len(s.on))
	for i, n := range s.on {
		nodes.Put(i, n > 0)
	}
	return nodes
}

// Any reports whether a node of the set has a completing job.
func (s *Departures) Any(set selection.Bits) bool {
	for i := range set.All {
		if s.on[i] > 0 {
			return true
		}
	}
	return false
}

// Tell adds the messages that nodes send at an instant about a job. The parameter many is the
// result of [agents.Pool.Many].
func (s *Departures) Tell(at hpc.Time, d *Departure, nodes selection.Bits, many bool) {
	for node := range nodes.All {
		s.Line.Come(at, Message{d, node}, Throttle(many))
	}
}

// Serve serves the message that is due. It reports whether the message was its job's last one.
func (s *Departures) Serve(many bool) bool {
	m := s.Line.Serve(Throttle(many))
	return s.free(m.of, m.node)
}

// Answer records the answers of some nodes of a completing job. It reports whether all nodes of the job
// have answered.
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
	at := slices.Index(s.jobs, d)
	s.jobs = slices.Delete(s.jobs, at, at+1)
	d.over()
	return true
}
