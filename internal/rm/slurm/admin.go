package slurm

import (
	"fmt"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/slurmspec"
)

// SetNode implements [rm.ResourceManager] as scontrol does. A node that is down answers no
// message until it is resumed.
func (e *Engine) SetNode(ev hpc.NodeEvent) error {
	update, err := rpc.NewNodeUpdate(ev)
	if err != nil {
		return err
	}
	names, err := hostlist.Expand(ev.Nodes)
	if err != nil {
		return fmt.Errorf("node event: %w", err)
	}
	done := rm.Event{Kind: rm.NodeState, Task: -1, Reason: ev.Nodes + " " + ev.State}
	if update.Reason != "" {
		done.Reason += ": " + update.Reason
	}
	var answered func()
	switch update.State {
	case slurmspec.NodeDown:
		for _, name := range names { // slurmctld refuses unknown names
			e.nodes.Down(name)
		}
	case slurmspec.NodeResume:
		// The node registers after slurmctld's answer. If the node registered earlier, it might already be in service, and
		// slurmctld refuses to resume a node that is in service.
		answered = func() {
			for _, name := range names {
				e.nodes.Up(name)
			}
		}
	}
	e.administer(rpc.RequestUpdateNode, e.loop.codec.Body(update), done, answered)
	return nil
}

// Reserve implements [rm.ResourceManager] as scontrol does.
func (e *Engine) Reserve(ev hpc.ReservationEvent) error {
	done := rm.Event{Kind: rm.Reserved, Task: -1, Reason: ev.Action + " " + ev.Name}
	if ev.Action == "delete" {
		e.administer(rpc.RequestDeleteReservation, e.loop.codec.Body(&rpc.DeleteReservation{Name: ev.Name}), done, nil)
		return nil
	}
	desc, err := rpc.NewReservationDesc(ev.Reservation, ev.Action == "update")
	if err != nil {
		return fmt.Errorf("reservation %s: %w", ev.Name, err)
	}
	typ := rpc.RequestCreateReservation
	if ev.Action == "update" {
		typ = rpc.RequestUpdateReservation
	}
	e.administer(typ, e.loop.codec.Body(desc), done, nil)
	return nil
}

// administer sends an administrator's request. When slurmctld has answered, administer emits the
// event done and calls then, which may be nil. A refusal is added to the event's reason. A refusal
// affects the result: from then on, the replay's cluster differs from the workload's.
func (e *Engine) administer(typ rpc.Type, body []byte, done rm.Event, then func()) {
	m := &rpc.Message{Type: typ, Host: "localhost", Body: body}
	e.loop.input(func() {
		e.loop.sendInput(m, func(reply *rpc.Message, err error) {
			if err == nil {
				err = rpc.ReplyError(reply)
			}
			if err != nil {
				e.loop.warn("event-refused", fmt.Sprintf("at %s, %s: %v", e.loop.Now(), done.Reason, err), true)
				done.Reason += ": refused: " + err.Error()
			}
			e.loop.emit(done)
			if then != nil {
				then()
			}
		})
	})
}
