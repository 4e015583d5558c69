package slurm

import (
	"fmt"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/rpc"
)

// SetNode implements [rm.ResourceManager], as scontrol does.
func (e *Engine) SetNode(ev hpc.NodeEvent) error {
	update, err := rpc.NewNodeUpdate(ev)
	if err != nil {
		return err
	}
	e.administer(rpc.RequestUpdateNode, update.Append(nil), rm.Event{
		Kind: rm.NodeState, Task: -1, Reason: fmt.Sprintf("%s %s: %s", ev.Nodes, ev.State, update.Reason),
	})
	return nil
}

// Reserve implements [rm.ResourceManager], as scontrol does.
func (e *Engine) Reserve(ev hpc.ReservationEvent) error {
	done := rm.Event{Kind: rm.Reserved, Task: -1, Reason: ev.Action + " " + ev.Name}
	if ev.Action == "delete" {
		e.administer(rpc.RequestDeleteReservation, rpc.AppendReservationName(nil, ev.Name), done)
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
	e.administer(typ, desc.Append(nil), done)
	return nil
}

// administer sends an administrator's request. done is the event when slurmctld has
// answered; a refusal is added to its reason and makes the result doubtful, for the
// machine is not what the workload says.
func (e *Engine) administer(typ rpc.Type, body []byte, done rm.Event) {
	m := &rpc.Message{Type: typ, Host: "localhost", Body: body}
	e.network.send(m, func(reply *rpc.Message, err error) {
		if err == nil {
			err = rpc.ReplyError(reply)
		}
		if err != nil {
			e.warn("event-refused", fmt.Sprintf("%s: %v", done.Reason, err), true)
			done.Reason += ": refused: " + err.Error()
		}
		e.emit(done)
	})
}
