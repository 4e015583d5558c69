package slurmspec

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"rmreplay/internal/hpc"
)

// The names of the reservation flags that rmreplay acts on.
const (
	FlagMaint      = "MAINT"
	FlagFlex       = "FLEX"
	FlagOverlap    = "OVERLAP"
	FlagIgnoreJobs = "IGNORE_JOBS"
	FlagTimeFloat  = "TIME_FLOAT"
	FlagPurgeComp  = "PURGE_COMP"
	FlagPartNodes  = "PART_NODES"
	FlagNoHold     = "NO_HOLD_JOBS_AFTER_END"
)

// ReservationFlagSpec is one flag that a reservation can have.
type ReservationFlagSpec struct {
	Name string // as scontrol prints it
	// On is the bit that sets the flag, and Off the bit that removes it. Off is 0 if Slurm
	// cannot remove the flag from a reservation (RESERVE_FLAG_ in slurm.h).
	On, Off uint64
	// Changes says that Slurm itself changes the times or nodes of a reservation with the flag.
	Changes bool
}

// ReservationFlags are the flags that a reservation can have, by their bits
// (parse_resv_flags in proc_args.c, RESERVE_FLAG_ in slurm.h).
var ReservationFlags = []ReservationFlagSpec{
	{Name: FlagMaint, On: 1 << 0, Off: 1 << 1},
	{Name: "DAILY", On: 1 << 2, Off: 1 << 3, Changes: true},
	{Name: "WEEKLY", On: 1 << 4, Off: 1 << 5, Changes: true},
	{Name: FlagIgnoreJobs, On: 1 << 6, Off: 1 << 7},
	{Name: "ANY_NODES", On: 1 << 8, Off: 1 << 9},
	{Name: "STATIC", On: 1 << 10, Off: 1 << 11},
	{Name: FlagPartNodes, On: 1 << 12, Off: 1 << 13},
	{Name: FlagOverlap, On: 1 << 14},
	{Name: "FIRST_CORES", On: 1 << 16},
	{Name: FlagTimeFloat, On: 1 << 17, Changes: true},
	{Name: "REPLACE", On: 1 << 18, Changes: true},
	{Name: FlagPurgeComp, On: 1 << 20, Off: 1 << 31, Changes: true},
	{Name: "WEEKDAY", On: 1 << 21, Off: 1 << 22, Changes: true},
	{Name: "WEEKEND", On: 1 << 23, Off: 1 << 24, Changes: true},
	{Name: FlagFlex, On: 1 << 25, Off: 1 << 26},
	{Name: FlagNoHold, On: 1 << 29},
	{Name: "REPLACE_DOWN", On: 1 << 30, Changes: true},
	{Name: "MAGNETIC", On: 1 << 32, Off: 1 << 33},
	{Name: "HOURLY", On: 1 << 35, Off: 1 << 36, Changes: true},
}

// otherFlagNames are the synonyms that scontrol accepts for flags.
var otherFlagNames = map[string]string{
	"MAINTENANCE": FlagMaint, "LICENSE_ONLY": "ANY_NODES", "STATIC_ALLOC": "STATIC", "PROMISCUOUS": "MAGNETIC",
	"NO_HOLD_JOBS_AFTER": FlagNoHold,
}

func flagNamed(name string) (spec ReservationFlagSpec, known bool) {
	for _, f := range ReservationFlags {
		if f.Name == name {
			return f, true
		}
	}
	return ReservationFlagSpec{}, false
}

// ReservationFlag is a flag as a command sets or removes it.
type ReservationFlag struct {
	Name string
	// Off says that the command removes the flag.
	Off bool
	// Time is the TIME of PURGE_COMP=TIME, or 0 if it is not given.
	Time time.Duration
}

// Bit returns the bit that represents the command in a request.
func (f ReservationFlag) Bit() uint64 {
	spec, _ := flagNamed(f.Name)
	if f.Off {
		return spec.Off
	}
	return spec.On
}

// Changes reports whether Slurm itself changes the times or nodes of a reservation with the
// flag.
func (f ReservationFlag) Changes() bool {
	spec, _ := flagNamed(f.Name)
	return spec.Changes
}

// ParseReservationFlag reads a flag as scontrol accepts it: a name with an optional sign before it.
// "=TIME" may follow PURGE_COMP. The error repeats the flag and says what is wrong with it.
func ParseReservationFlag(text string) (flag ReservationFlag, err error) {
	name, value, valued := strings.Cut(strings.ToUpper(text), "=")
	name, flag.Off = strings.CutPrefix(strings.TrimPrefix(name, "+"), "-")
	if other, known := otherFlagNames[name]; known {
		name = other
	}
	flag.Name = name
	spec, known := flagNamed(name)
	switch {
	case !known:
		return flag, fmt.Errorf("flag %q is not known", text)
	case flag.Off && spec.Off == 0:
		return flag, fmt.Errorf("flag %q: Slurm cannot remove %s from a reservation", text, name)
	case valued && name != FlagPurgeComp:
		return flag, fmt.Errorf("flag %q: %s has no value", text, name)
	case valued:
		if flag.Time, err = ParseTimeSpec(value); err == nil && flag.Time == hpc.Unlimited {
			err = errors.New("want a time")
		}
		if err != nil {
			return flag, fmt.Errorf("flag %q: %w", text, err)
		}
	}
	return flag, nil
}

// RecordedFlags returns the names of the flags in the flags column of slurmdbd's reservation
// table. It omits TIME_FLOAT, because Slurm does not record such reservations in slurmdbd, and
// PURGE_COMP, because Slurm does not record the time of this flag.
func RecordedFlags(bits uint64) (names []string) {
	for _, f := range ReservationFlags {
		if bits&f.On != 0 && f.Name != FlagTimeFloat && f.Name != FlagPurgeComp {
			names = append(names, f.Name)
		}
	}
	return names
}
