package transform

import (
	"fmt"
	"strings"
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// Maintenance reserves nodes (a host list, or ALL) for maintenance, from an instant for a
// duration. The reservation exists from the beginning of the workload, as if it had been
// announced. A job does not start if it would run into the reservation, but jobs that already run
// may run into it. The error says what is wrong with an argument. The step fails for an instant
// before the workload begins, and for nodes that the cluster does not have.
func Maintenance(from hpc.Time, length time.Duration, nodes string) (Step, error) {
	switch {
	case length <= 0 || length == hpc.Unlimited:
		return Step{}, fmt.Errorf("%v: not the duration of a maintenance (want a time above 0, such as 8h)", length)
	case nodes == "":
		nodes = "ALL"
	}
	text := "--maintenance " + instant(from) + "/" + hpc.FormatDuration(length)
	if nodes != "ALL" {
		text += "/" + nodes
	}
	return Step{text, func(w *workload.Workload, env *Environment) error {
		if err := env.hasNodes(nodes); err != nil {
			return err
		}
		begin := w.Start
		if begin == 0 {
			begin = w.Epoch
			if w.Jobs.Len() > 0 {
				begin = min(begin, w.Jobs.Submit(0))
			}
		}
		if from < begin {
			return fmt.Errorf("%s is before the workload begins, at %s (want a later instant)", from, begin)
		}
		if last, ok := lastSubmit(w); ok && from > last {
			env.note("the maintenance begins after the last submission, at %s: it delays only jobs that wait until then, "+
				"or whose time limits reach it", last)
		}
		taken := map[string]bool{}
		for _, ev := range w.Reservations {
			taken[ev.Name] = true
		}
		reservation := hpc.Reservation{
			Name: freeName("maintenance", taken), Start: from, Duration: length, Nodes: nodes, Users: []string{"root"},
			Flags: []string{slurmspec.FlagMaint, "IGNORE_JOBS"},
		}
		w.Reservations = append(w.Reservations, hpc.ReservationEvent{At: begin, Action: "create", Reservation: reservation})
		if n := w.PresetsInto(&reservation); n > 0 {
			env.note("jobs that run when the window begins, and still run when the maintenance begins: %d", n)
		}
		return nil
	}}, nil
}

// lastSubmit returns the last submission of a workload. ok is false for a workload without jobs.
func lastSubmit(w *workload.Workload) (last hpc.Time, ok bool) {
	if w.Jobs.Len() == 0 {
		return 0, false
	}
	return w.Jobs.Submit(w.Jobs.Len() - 1), true
}

// hasNodes returns an error for a host list with a name that no node of the cluster has.
func (env *Environment) hasNodes(list string) error {
	if strings.EqualFold(list, "ALL") {
		return nil
	}
	names, err := hostlist.Expand(list)
	if err != nil {
		return fmt.Errorf("nodes %s: %w", list, err)
	}
	for _, name := range names {
		if env.NodeNames != nil && !env.NodeNames[name] {
			return fmt.Errorf("node %s does not exist in the cluster (want names of its slurm.conf, or ALL)", name)
		}
	}
	return nil
}
