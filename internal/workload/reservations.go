package workload

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload/sbatch"
)

// ReservationFlag is a flag of a reservation.
type ReservationFlag struct {
	Name string
	// Off takes the flag off.
	Off bool
	// Time is that of PURGE_COMP=TIME, 0 without.
	Time time.Duration
}

// ReservationFlags are the flags that a reservation can have, as scontrol prints them, and
// whether they can be taken off (parse_resv_flags in Slurm's src/common/proc_args.c).
var ReservationFlags = map[string]bool{
	"MAINT": true, "FLEX": true, "OVERLAP": false, "IGNORE_JOBS": true, "HOURLY": true, "DAILY": true, "WEEKDAY": true,
	"WEEKEND": true, "WEEKLY": true, "ANY_NODES": true, "STATIC": true, "PART_NODES": true, "FIRST_CORES": false,
	"TIME_FLOAT": false, "REPLACE": false, "REPLACE_DOWN": false, "PURGE_COMP": true, "NO_HOLD_JOBS_AFTER_END": false,
	"MAGNETIC": true,
}

// otherFlags are other words for the flags.
var otherFlags = map[string]string{
	"MAINTENANCE": "MAINT", "LICENSE_ONLY": "ANY_NODES", "STATIC_ALLOC": "STATIC", "PROMISCUOUS": "MAGNETIC",
	"NO_HOLD_JOBS_AFTER": "NO_HOLD_JOBS_AFTER_END",
}

// ParseReservationFlag reads a flag as a reservation of a workload has it: a name, perhaps
// with a sign before it, and PURGE_COMP perhaps with a time behind it.
func ParseReservationFlag(text string) (flag ReservationFlag, err error) {
	name, value, valued := strings.Cut(strings.ToUpper(text), "=")
	name, flag.Off = strings.CutPrefix(strings.TrimPrefix(name, "+"), "-")
	if other, known := otherFlags[name]; known {
		name = other
	}
	flag.Name = name
	canBeOff, known := ReservationFlags[name]
	switch {
	case !known:
		return flag, fmt.Errorf("flag %q is not known", text)
	case flag.Off && !canBeOff:
		return flag, fmt.Errorf("flag %q: Slurm takes %s off no reservation", text, name)
	case valued && name != "PURGE_COMP":
		return flag, fmt.Errorf("flag %q: %s has no value", text, name)
	case valued:
		if flag.Time, err = sbatch.ParseTimeSpec(value); err == nil && flag.Time == hpc.Unlimited {
			err = fmt.Errorf("want a time")
		}
		if err != nil {
			return flag, fmt.Errorf("flag %q: %w", text, err)
		}
	}
	return flag, nil
}

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
