package workload

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
)

// The latest instant that is taken for one: a clock that runs ahead of it is wrong,
// and no sum of times overflows.
const lastYear = 2200

// ParseInstant reads an instant in any form that sacct prints; one without a zone is in
// the given one. The error says what would be right.
func ParseInstant(text string, zone *time.Location) (hpc.Time, error) {
	t, err := otherTime(text, zone)
	if at, ok := isoTime([]byte(text), zone); ok {
		return at, nil
	}
	if err == nil && t == 0 {
		err = errNotTime
	}
	return t, err
}

var errNotTime = errors.New("not a time (want 2024-03-01T08:00:00, or seconds since 1970)")

// time reads an instant as sacct prints it: in ISO 8601 with or without a zone, with a
// blank for the T, or in seconds since 1970 (SLURM_TIME_FORMAT=%s). The words for an
// unknown time give 0.
func (s *sacctReader) time(text []byte) (hpc.Time, error) {
	if t, ok := isoTime(text, s.opts.zone()); ok {
		return t, nil
	}
	return otherTime(string(text), s.opts.zone())
}

// isoTime reads the form that sacct has by default, "2024-03-01T08:00:00", in as little
// time as possible.
func isoTime(text []byte, zone *time.Location) (hpc.Time, bool) {
	if len(text) != 19 || text[4] != '-' || text[7] != '-' || text[10] != 'T' && text[10] != ' ' || text[13] != ':' || text[16] != ':' {
		return 0, false
	}
	ok := true
	number := func(from, to int) int {
		n := 0
		for _, c := range text[from:to] {
			ok = ok && c >= '0' && c <= '9'
			n = 10*n + int(c-'0')
		}
		return n
	}
	year, month, day := number(0, 4), number(5, 7), number(8, 10)
	hour, minute, second := number(11, 13), number(14, 16), number(17, 19)
	if !ok || year < 1970 || year > lastYear || month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 60 {
		return 0, false
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, 0, zone)
	if t.Day() != day && second < 60 && hour < 23 {
		return 0, false // February 30
	}
	return hpc.Unix(t.Unix()), true
}

// otherTime reads the less usual forms.
func otherTime(text string, zone *time.Location) (hpc.Time, error) {
	switch text = strings.TrimSpace(text); text {
	case "", "Unknown", "None", "N/A", "INVALID", "0":
		return 0, nil
	}
	if sec, err := strconv.ParseInt(text, 10, 64); err == nil {
		if sec < 0 || sec > 7258118400 { // 2200-01-01
			return 0, errNotTime
		}
		return hpc.Unix(sec), nil
	}
	for _, layout := range []string{
		time.RFC3339, "2006-01-02T15:04:05-0700", "2006-01-02 15:04:05-07:00", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02",
		"2006-01-02T15:04:05.999999999",
	} {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil && t.Year() >= 1970 && t.Year() <= lastYear {
			return hpc.Time(t.UnixNano()), nil
		}
	}
	return 0, errNotTime
}

var errNotDuration = errors.New("not a duration (want D-HH:MM:SS)")

// parseClock reads "[D-]HH:MM:SS", "MM:SS" or "MM:SS.mmm"; nothing is 0.
func parseClock(text []byte) (time.Duration, error) {
	s := string(text)
	if s == "" || s == "Unknown" || s == "INVALID" {
		return 0, nil
	}
	var total int64 // seconds
	if days, rest, found := strings.Cut(s, "-"); found {
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
	if total += clock; total > maxSWFSeconds {
		return 0, errNotDuration
	}
	return time.Duration(total)*time.Second + fraction, nil
}

// elapsed reads how long a job ran: -1 if neither column says.
func elapsed(raw, clock []byte) (time.Duration, error) {
	if len(raw) > 0 {
		n, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil || n < 0 || n > maxSWFSeconds {
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

// sacctLimit reads a time limit: 0 where it was the partition's.
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

// parseAmount reads a count; a K, M or G behind it multiplies it.
func parseAmount(text []byte) (int, error) {
	if len(text) == 0 {
		return 0, nil
	}
	f, err := slurmspec.ParseScaled(string(text))
	if err != nil || f > math.MaxInt32 {
		return 0, errors.New("not a count")
	}
	return int(f), nil
}

func parseUint32(text []byte) (uint32, bool) {
	if len(text) == 0 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text), 10, 32)
	return uint32(n), err == nil
}

// parseJobID reads "17", "17_3", "17_[4-9%2]" and "17+1".
func parseJobID(r *Record, text string) error {
	id, err := slurmspec.ParseJobID(text)
	r.ID, r.Number, r.ArrayTask = text, id.Number, id.Task
	r.ArrayRest, r.HetJob = id.Rest, id.Component >= 0
	if strings.Contains(text, "_") {
		r.ArrayJob = id.Number
	}
	return err
}

// requestedMemory reads ReqMem: "2800Mc" for each CPU and "100Gn" for each node up to
// Slurm 20.11, and "500G" for the whole job since.
func requestedMemory(r *Record, text string) error {
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

// requestedTRES reads what ReqTRES ("cpu=4,mem=8G,node=2,gres/gpu=2") says beyond the
// columns. GPUs are counted for the whole job.
func requestedTRES(r *Record, text string) error {
	if err := slurmspec.CheckTRES(text); err != nil {
		return err
	}
	var typed, untyped string
	for name, value := range slurmspec.TRES(text) {
		var err error
		switch {
		case name == "cpu" && r.ReqCPUs == 0:
			r.ReqCPUs, err = parseAmount([]byte(value))
		case name == "node" && r.ReqNodes == 0:
			r.ReqNodes, err = parseAmount([]byte(value))
		case name == "mem" && r.MemPerCPU == 0 && r.MemPerNode == 0:
			r.Memory, err = slurmspec.ParseMemory(value)
		case name == "gres/gpu":
			untyped = value
		case strings.HasPrefix(name, "gres/gpu:"):
			typed = strings.TrimPrefix(name, "gres/gpu:") + ":" + value
		}
		if err != nil {
			return err
		}
	}
	r.GPUs = orElse(typed, untyped)
	return nil
}
