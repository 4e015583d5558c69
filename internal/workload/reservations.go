package workload

import (
	"slices"
	"strings"

	"rmreplay/internal/hpc"
)

// ReservationsAt cuts the events of reservations at an instant: open has an event that
// creates each reservation that there is then, as it had become, when it was created. What
// ended or was deleted before is gone. rest are the events behind the instant.
func ReservationsAt(events []hpc.ReservationEvent, at hpc.Time) (open, rest []hpc.ReservationEvent) {
	for _, ev := range events {
		if ev.At > at {
			rest = append(rest, ev)
			continue
		}
		i := slices.IndexFunc(open, func(o hpc.ReservationEvent) bool { return o.Name == ev.Name })
		switch {
		case ev.Action == "create" && i < 0:
			open = append(open, ev)
		case i < 0:
		case ev.Action == "delete":
			open = slices.Delete(open, i, i+1)
		case ev.Action == "update":
			open[i].Reservation = updated(open[i].Reservation, ev.Reservation)
		}
	}
	gone := map[string]bool{}
	open = slices.DeleteFunc(open, func(o hpc.ReservationEvent) bool {
		comesAgain := o.Recurring() || o.HasFlag("TIME_FLOAT")
		ended := !comesAgain && o.Duration > 0 && o.Duration != hpc.Unlimited && o.Start.Add(o.Duration) <= at
		gone[o.Name] = ended
		return ended
	})
	rest = slices.DeleteFunc(rest, func(ev hpc.ReservationEvent) bool { return gone[ev.Name] && ev.Action != "create" })
	return open, rest
}

// updated is a reservation with what an update sets of it.
func updated(r, update hpc.Reservation) hpc.Reservation {
	for _, field := range []struct {
		set bool
		do  func()
	}{
		{update.Start != 0, func() { r.Start = update.Start }},
		{update.Duration != 0, func() { r.Duration = update.Duration }},
		{update.Nodes != "", func() { r.Nodes, r.NodeCount = update.Nodes, 0 }},
		{update.NodeCount != 0, func() { r.NodeCount, r.Nodes = update.NodeCount, "" }},
		{update.Partition != "", func() { r.Partition = update.Partition }},
		{update.Users != nil, func() { r.Users = update.Users }},
		{update.Accounts != nil, func() { r.Accounts = update.Accounts }},
		{update.Flags != nil, func() { r.Flags = updatedFlags(r.Flags, update.Flags) }},
		{update.Licenses != "", func() { r.Licenses = update.Licenses }},
		{update.Features != "", func() { r.Features = update.Features }},
	} {
		if field.set {
			field.do()
		}
	}
	return r
}

// updatedFlags adds flags to those that there are, and takes off those with a minus, as
// Slurm does.
func updatedFlags(flags, update []string) []string {
	flags = slices.Clone(flags)
	for _, flag := range update {
		name, removed := strings.CutPrefix(flag, "-")
		flags = slices.DeleteFunc(flags, func(f string) bool { return strings.EqualFold(f, name) })
		if !removed {
			flags = append(flags, flag)
		}
	}
	return flags
}
