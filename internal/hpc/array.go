package hpc

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxArrayIndex is the largest index of a job array that any configuration of
// Slurm allows (MaxArraySize in slurm.conf is at most 4000001).
const MaxArrayIndex = 4000000

// Array is a parsed [Request.Array]. ParseArray returns it.
type Array struct {
	Tasks []int // the task indices, ascending, each once
	Limit int   // how many tasks may run at once; 0 for any number
}

var errArray = errors.New("not an array (want 0-15, 1,3,5-7 or 0-15:4, perhaps with %LIMIT)")

// maxArrayElements is how many elements a specification may name, duplicates included. Without this
// limit, a specification that repeats its ranges could use up all memory.
const maxArrayElements = 2 * MaxArrayIndex

// ParseArray reads a job array's indices like _valid_array_inx in Slurm's src/slurmctld/job_mgr.c: numbers, and
// ranges with an optional step. An optional limit on the number of running tasks follows ("1-10:2%3"). An error
// says what is wrong with the specification. It does not repeat the specification, because the caller names it.
func ParseArray(spec string) (Array, error) {
	var a Array
	indices, limit, hasLimit := strings.Cut(spec, "%")
	if hasLimit {
		n, ok := arrayNumber(limit)
		if !ok {
			return Array{}, errArray
		}
		a.Limit = n
	}
	indices = strings.TrimSuffix(strings.TrimPrefix(indices, "["), "]")
	for part := range strings.SplitSeq(indices, ",") {
		first, last, step, err := parseArrayRange(part)
		if err != nil {
			return Array{}, err
		}
		if (last-first)/step+1 > maxArrayElements-len(a.Tasks) {
			return Array{}, fmt.Errorf("more than %d tasks", MaxArrayIndex)
		}
		for i := first; i <= last; i += step {
			a.Tasks = append(a.Tasks, i)
		}
	}
	slices.Sort(a.Tasks)
	a.Tasks = slices.Compact(a.Tasks)
	return a, nil
}

// TasksOf returns the tasks of a job array, and [-1] for a job that is not an array. It also
// returns [-1] for a job whose Array cannot be read, because the submission of that job fails.
func TasksOf(job *Job) []int {
	if job.Array != "" {
		if array, err := ParseArray(job.Array); err == nil {
			return array.Tasks
		}
	}
	return []int{-1}
}

// parseArrayRange reads one element of an array: "5", "1-4" or "1-9:2".
func parseArrayRange(s string) (first, last, step int, err error) {
	bounds, every, hasStep := strings.Cut(s, ":")
	low, high, isRange := strings.Cut(bounds, "-")
	if hasStep && !isRange {
		return 0, 0, 0, errArray
	}
	if !isRange {
		high = low
	}
	if !hasStep {
		every = "1"
	}
	first, ok1 := arrayNumber(low)
	last, ok2 := arrayNumber(high)
	step, ok3 := arrayNumber(every)
	switch {
	case !ok1 || !ok2 || !ok3 || step == 0:
		return 0, 0, 0, errArray
	case last < first:
		return 0, 0, 0, fmt.Errorf("range %s runs backwards", bounds)
	case last > MaxArrayIndex:
		return 0, 0, 0, fmt.Errorf("index %d is above %d", last, MaxArrayIndex)
	}
	return first, last, step, nil
}

// arrayNumber reads a number below 2^31 that consists of digits only.
func arrayNumber(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err == nil
}

// SplitTask divides the ID of a job that is a task of an array, ARRAY_TASK. ok is false for other IDs.
func SplitTask(id string) (array string, task int, ok bool) {
	on := strings.LastIndexByte(id, '_')
	if on <= 0 {
		return "", 0, false
	}
	n, err := strconv.ParseUint(id[on+1:], 10, 31)
	return id[:on], int(n), err == nil
}

// SplitPart returns the ID of the array of a part, ARRAY#NUMBER, which the builder of workloads makes of some tasks of
// an array. isPart is false for other IDs, which SplitPart returns unchanged.
func SplitPart(id string) (array string, isPart bool) {
	array, part, isPart := strings.Cut(id, "#")
	if n, err := strconv.ParseUint(part, 10, 31); !isPart || err != nil || n < 2 {
		return id, false
	}
	return array, true
}

// ArrayOfTask returns the array and the number of a task that is a task of a job (task is not -1), or a job of its own
// ([SplitTask]). The array of a part is the whole array ([SplitPart]). ok is false for other jobs.
func ArrayOfTask(id string, task int) (array string, number int, ok bool) {
	array, number, ok = id, task, task >= 0
	if !ok {
		if array, number, ok = SplitTask(id); !ok {
			return id, -1, false
		}
	}
	array, _ = SplitPart(array)
	return array, number, true
}
