package sacct

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
)

// maxSeconds bounds every duration, so that sums cannot overflow.
const maxSeconds = 4e9

var errNotDuration = errors.New("not a duration (want D-HH:MM:SS)")

// parseClock reads "[D-]HH:MM:SS", "D-HH:MM", "MM:SS" or "MM:SS.mmm". An empty text is 0.
func parseClock(text []byte) (time.Duration, error) {
	s := string(text)
	if s == "" || s == "Unknown" || s == "INVALID" {
		return 0, nil
	}
	var total int64 // seconds
	days, rest, dayed := strings.Cut(s, "-")
	if dayed {
		n, err := strconv.ParseUint(days, 10, 17)
		if err != nil {
			return 0, errNotDuration
		}
		total, s = int64(n)*86400, rest
	}
	var fraction time.Duration
	if whole, digits, found := strings.Cut(s, "."); found {
		n, err := strconv.ParseUint((digits + "000000000")[:9], 10, 32)
		if err != nil || len(digits) > 9 {
			return 0, errNotDuration
		}
		s, fraction = whole, time.Duration(n)
	}
	parts := strings.Split(s, ":")
	if len(parts) < 2 || len(parts) > 3 {
		return 0, errNotDuration
	}
	var clock int64
	for _, p := range parts {
		n, err := strconv.ParseUint(p, 10, 24)
		if err != nil {
			return 0, errNotDuration
		}
		clock = 60*clock + int64(n)
	}
	if dayed && len(parts) == 2 {
		clock *= 60 // hours and minutes
	}
	if total += clock; total > maxSeconds {
		return 0, errNotDuration
	}
	return time.Duration(total)*time.Second + fraction, nil
}

// elapsed reads how long a job ran. It returns -1 if neither column has the time.
func elapsed(raw, clock []byte) (time.Duration, error) {
	if len(raw) > 0 {
		n, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil || n < 0 || n > maxSeconds {
			return -1, errNotDuration
		}
		return time.Duration(n) * time.Second, nil
	}
	if len(clock) == 0 || string(clock) == "Unknown" || string(clock) == "INVALID" {
		return -1, nil
	}
	d, err := parseClock(clock)
	if err != nil {
		return -1, err
	}
	return d, nil
}

// sacctLimit reads a time limit. It returns 0 if the job had its partition's limit.
func sacctLimit(raw, clock []byte) (time.Duration, error) {
	for _, text := range [][]byte{clock, raw} {
		switch string(text) {
		case "UNLIMITED":
			return hpc.Unlimited, nil
		case "Partition_Limit", "INVALID", "Unknown":
			return 0, nil
		}
	}
	if len(clock) > 0 {
		return parseClock(clock)
	}
	if len(raw) == 0 {
		return 0, nil
	}
	minutes, err := strconv.ParseUint(string(raw), 10, 26)
	if err != nil {
		return 0, errors.New("not a time limit (want minutes)")
	}
	return time.Duration(minutes) * time.Minute, nil
}

// parseAmount reads a count. A suffix K, M or G multiplies it.
func parseAmount(text []byte) (int, error) {
	if len(text) == 0 {
		return 0, nil
	}
	f, err := slurmspec.ParseScaled(string(text))
	if err != nil || f > math.MaxInt32 {
		return 0, errors.New("not a count")
	}
	if f != math.Trunc(f) {
		return 0, errors.New("not a whole number (want a file that sacct wrote: it writes no fractions and separators here)")
	}
	return int(f), nil
}

// usage reads a list with the total usage of a step's tasks (TRESUsageInTot, TRESUsageOutTot):
// memory, and data moved from or to disks, in bytes. A resource that is not in the list is 0.
func usage(list string) (memory, disk float64, err error) {
	for name, amount := range slurmspec.TRES(list) {
		to := &memory
		switch name {
		case "mem":
		case "fs/disk":
			to = &disk
		default:
			continue
		}
		if *to, err = slurmspec.ParseScaled(amount); err != nil {
			return 0, 0, fmt.Errorf("%s=%s: %w", name, amount, err)
		}
	}
	return memory, disk, nil
}

func parseUint32(text []byte) (uint32, bool) {
	if len(text) == 0 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text), 10, 32)
	return uint32(n), err == nil
}

// parseJobID reads "17", "17_3", "17_[4-9%2]" and "17+1".
func parseJobID(r *finished.Job, text string) error {
	id, err := slurmspec.ParseJobID(text)
	r.ID, r.Number, r.ArrayTask, r.ArrayRest = text, id.Number, id.Task, id.Rest
	if id.Component >= 0 {
		r.HetJob, r.HetOffset = id.Number, id.Component
	}
	if strings.Contains(text, "_") {
		r.ArrayJob = id.Number
	}
	if r.ArrayJob != 0 || r.HetJob != 0 {
		r.Number = 0 // their own numbers are in JobIDRaw
	}
	return err
}

// requestedMemory reads ReqMem. Up to Slurm 20.11 sacct prints "2800Mc" for memory per CPU and
// "100Gn" for memory per node; later releases print the memory of the whole job, "500G".
func requestedMemory(r *finished.Job, text string) error {
	if text == "" || text == "?" {
		return nil
	}
	amount, where := text, byte(0)
	if last := text[len(text)-1]; last == 'c' || last == 'n' {
		amount, where = text[:len(text)-1], last
	}
	mib, err := slurmspec.ParseMemory(amount)
	if err != nil {
		return err
	}
	switch where {
	case 'c':
		r.MemPerCPU = mib
	case 'n':
		if r.MemPerNode = mib; mib == 0 {
			r.MemPerNode = hpc.AllMemory
		}
	default:
		r.Memory = mib
	}
	return nil
}
