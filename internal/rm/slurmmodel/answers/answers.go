// Package answers models the messages that the nodes of an ended job send to slurmctld when they are
// free.
package answers

import (
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurmmodel/selection"
)

// Answers says how the nodes of an ended job report to slurmctld. Nodes that are down do not
// report; they are in neither set.
type Answers struct {
	// Telling are the nodes that at once send the message MESSAGE_EPILOG_COMPLETE. If this message is the
	// job's last answer, slurmctld makes a scheduling pass when it serves the message.
	Telling selection.Bits
	// Others are the nodes that report in their answer to slurmctld's message to end the job. After the
	// job's last answer of this kind, slurmctld queues a pass.
	Others selection.Bits
	// Delay is how long the answers of Others take.
	Delay time.Duration
}

// unreachable is how long slurmctld tries to reach a node that is down. The answers of the job's
// other nodes come after this time, because slurmctld waits for the whole tree of messages
// (start_msg_tree in forward.c).
const unreachable = 10 * time.Millisecond

// Expect returns how a job's nodes report. The parameter up has the nodes in service. If an epilog is configured, each
// node sends a message when its epilog ends. Otherwise only the job's first node may send a message. The first node
// sends a message if the end of the job kills the script (_rpc_terminate_job in slurmd's req.c).
func Expect(nodes, up selection.Bits, killed, epilog bool) Answers {
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

// After adds a time to an instant of slurmctld's clock, which slurmctld reads in whole microseconds.
func After(t hpc.Time, d time.Duration) hpc.Time { return t.Add(d) - t%hpc.Time(time.Microsecond) }

// Later adds whole seconds to t until the sum is not earlier than the parameter before.
func Later(t, before hpc.Time) hpc.Time {
	if early := before - t; early > 0 {
		t += (early + hpc.Second - 1) / hpc.Second * hpc.Second
	}
	return t
}

// All returns the nodes that report to slurmctld.
func (a *Answers) All() selection.Bits {
	all := a.Telling.Clone()
	all.Or(a.Others)
	return all
}
