// Package answers is how slurmctld learns that the nodes of an ended job are free.
package answers

import (
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurmmodel/selection"
)

// Answers are what the nodes of an ended job send. Nodes that are down send nothing, and are in neither set.
type Answers struct {
	// Telling are the nodes that send a message of their own at once (MESSAGE_EPILOG_COMPLETE). slurmctld
	// makes a pass at such a message if it is the job's last answer.
	Telling selection.Bits
	// Others report their end in the answer to slurmctld's message that ends the job. A pass is queued afterwards.
	Others selection.Bits
	// Delay is how long the answers of the others take.
	Delay time.Duration
}

// unreachable is how long slurmctld tries to reach a node that is down. The answers of a job's other nodes come
// afterwards, since slurmctld waits for one tree of messages (start_msg_tree in forward.c).
const unreachable = 10 * time.Millisecond

// Of returns the answers of a job's nodes; up are the nodes in service. With an epilog each node sends a message when
// it ends. Without one, only the first node does, if the job's end kills the script there (_rpc_terminate_job in
// slurmd's req.c).
func Of(nodes, up selection.Bits, killed, epilog bool) Answers {
	others := nodes.Clone()
	others.And(up)
	a := Answers{Telling: others.Clone(), Others: others}
	if host := nodes.Next(0); !epilog {
		a.Telling.Reset()
		if killed && others.Has(host) {
			a.Telling.Set(host)
		}
	}
	if others.Count() < nodes.Count() {
		a.Delay = unreachable
	}
	others.AndNot(a.Telling)
	return a
}

// Microsecond is an instant as slurmctld reads it.
func Microsecond(t hpc.Time) hpc.Time { return t - t%hpc.Time(time.Microsecond) }

// All returns the nodes that answer slurmctld.
func (a *Answers) All() selection.Bits {
	all := a.Telling.Clone()
	all.Or(a.Others)
	return all
}
