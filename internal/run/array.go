package run

import (
	"slices"
	"strconv"
	"strings"
)

// maxArrayTasks is the largest array that Slurm can be configured for
// (slurm.conf(5), MaxArraySize).
const maxArrayTasks = 4_000_001

// arrayTasks lists the tasks of an array specification in ascending order:
// "0-6:2%3" is 0, 2, 4, 6. It reports false for one that it cannot read, whose
// tasks then get their rows as their events come.
func arrayTasks(spec string) ([]int, bool) {
	spec, _, _ = strings.Cut(spec, "%")
	var tasks []int
	for part := range strings.SplitSeq(spec, ",") {
		first, last, step, ok := arrayRange(part)
		if !ok || (last-first)/step+1 > maxArrayTasks-len(tasks) {
			return nil, false
		}
		for t := first; t <= last; t += step {
			tasks = append(tasks, t)
		}
	}
	slices.Sort(tasks)
	return slices.Compact(tasks), true
}

// arrayRange reads one element of an array specification: "5", "1-4" or "1-9:2".
func arrayRange(s string) (first, last, step int, ok bool) {
	bounds, every, hasStep := strings.Cut(s, ":")
	low, high, isRange := strings.Cut(bounds, "-")
	if !isRange {
		high = low
	}
	first, ok1 := taskNumber(low)
	last, ok2 := taskNumber(high)
	step, ok3 := 1, true
	if hasStep {
		step, ok3 = taskNumber(every)
	}
	return first, last, step, ok1 && ok2 && ok3 && step > 0 && first <= last
}

// taskNumber reads a decimal number that is small enough for a task.
func taskNumber(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err == nil && n < maxArrayTasks
}
