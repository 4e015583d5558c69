package run

import (
	"fmt"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
)

// Administration is what happened to the machine in a run: the workload's node events and
// reservations that the resource manager carried out, in order.
type Administration struct {
	NodeEvents   []hpc.NodeEvent
	Reservations []hpc.ReservationEvent
}

// Administration returns the run's administration. It leaves out what the resource manager refused,
// and what had not happened when the run ended.
func (r *Run) Administration() (a Administration, err error) {
	w, err := r.Setting()
	if err != nil {
		return a, fmt.Errorf("reading run record %s: %w", r.Dir, err)
	}
	if len(w.NodeEvents)+len(w.Reservations) == 0 {
		return a, nil // no need to read the events
	}
	events, err := r.Events()
	if err != nil {
		return a, fmt.Errorf("reading run record %s: %w", r.Dir, err)
	}
	done := newAnswers(events)
	for _, ev := range w.NodeEvents {
		if at, ok := done.take(rm.NodeState, ev.Nodes+" "+ev.State, ev.Reason); ok {
			ev.At = at
			a.NodeEvents = append(a.NodeEvents, ev)
		}
	}
	for _, ev := range w.Reservations {
		if at, ok := done.take(rm.Reserved, ev.Action+" "+ev.Name, ""); ok {
			ev.At = at
			a.Reservations = append(a.Reservations, ev)
		}
	}
	return a, nil
}

// answers are the resource manager's answers to node events and reservations, in order. The method
// take empties the text of an answer that it has returned.
type answers struct{ list []Event }

func newAnswers(events []Event) *answers {
	var a answers
	for _, ev := range events {
		if ev.Kind == rm.NodeState || ev.Kind == rm.Reserved {
			a.list = append(a.list, ev)
		}
	}
	return &a
}

// take removes the first answer to a request, and returns when the request was answered and whether it was carried out.
// If the simulator refused the request, the answer begins with "refused: ". If slurmctld refused the request, the
// answer has the request, the administrator's reason and ": refused: ". The administrator's reason may also contain ":
// refused: ".
func (a *answers) take(kind rm.EventKind, request, reason string) (at hpc.Time, done bool) {
	for len(a.list) > 0 && a.list[0].Reason == "" {
		a.list = a.list[1:]
	}
	for i, ev := range a.list {
		text, refused := strings.CutPrefix(ev.Reason, "refused: ")
		if ev.Kind != kind || text != request && !strings.HasPrefix(text, request+": ") {
			continue
		}
		a.list[i].Reason = ""
		const no = ": refused: "
		return ev.At, !refused && strings.Count(text, no) <= strings.Count(": "+reason, no)
	}
	return 0, false
}
