package slurmspec

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// JobID is a job as Slurm's commands write it: "17", "17_3" (a task of an array), "17_[4-9%2]"
// (the tasks of an array without their own record), or "17+1" (a component of a heterogeneous
// job).
type JobID struct {
	// Number is the number of the job, of the array, or of the first component.
	Number uint32
	// Task is the index of a task of an array, or -1.
	Task int
	// Rest lists the tasks that share one record because they have not started: "4-9%2".
	Rest string
	// Component is the offset of a component of a heterogeneous job, or -1.
	Component int
}

// NewJobID returns the ID of a job that is neither a task nor a component.
func NewJobID(number uint32) JobID { return JobID{Number: number, Task: -1, Component: -1} }

// ParseJobID reads the ID of a job. The error says which part is not a number.
func ParseJobID(text string) (JobID, error) {
	digits := len(text)
	if at := strings.IndexAny(text, "_+"); at >= 0 {
		digits = at
	}
	number, err := strconv.ParseUint(text[:digits], 10, 32)
	if err != nil {
		return JobID{}, fmt.Errorf("%.40q: not a job's number", text)
	}
	id, rest := NewJobID(uint32(number)), text[digits:]
	switch {
	case rest == "":
		return id, nil
	case strings.HasPrefix(rest, "_["):
		id.Rest = strings.TrimSuffix(rest[2:], "]")
		return id, nil
	}
	n, err := strconv.ParseUint(rest[1:], 10, 31)
	switch {
	case rest[0] == '_' && err != nil:
		return JobID{}, fmt.Errorf("%.40q: %.20q is not a task's number", text, rest[1:])
	case rest[0] == '_':
		id.Task = int(n)
	default: // sacct may have cut the column before the offset: then n is 0
		id.Component = int(n)
	}
	return id, nil
}

// String returns the ID as Slurm's commands write it.
func (id JobID) String() string {
	number := strconv.FormatUint(uint64(id.Number), 10)
	switch {
	case id.Task >= 0:
		return number + "_" + strconv.Itoa(id.Task)
	case id.Rest != "":
		return number + "_[" + id.Rest + "]"
	case id.Component >= 0:
		return number + "+" + strconv.Itoa(id.Component)
	}
	return number
}

// ArrayTasks returns the tasks of an array that have not started, in the form of sbatch's --array.
// The accounting has a list, "[4-9%2]", or a set of bits in hexadecimal, "0x3F0%2", as Slurm's
// bit_fmt_hexmask writes it.
func ArrayTasks(text string) string {
	text = strings.Trim(text, "[]")
	mask, limit, limited := strings.Cut(text, "%")
	digits, isMask := strings.CutPrefix(strings.ToLower(mask), "0x")
	if !isMask {
		return text
	}
	bits, ok := new(big.Int).SetString(digits, 16)
	if !ok || bits.Sign() < 0 {
		return text // the parser of arrays will report the error
	}
	var ranges []string
	for i := 0; i < bits.BitLen(); i++ {
		if bits.Bit(i) == 0 {
			continue
		}
		first := i
		for bits.Bit(i+1) == 1 {
			i++
		}
		ranges = append(ranges, fmt.Sprintf("%d-%d", first, i))
	}
	list := strings.Join(ranges, ",")
	if limited {
		list += "%" + limit
	}
	return list
}
