package conf

import (
	"bytes"
	"slices"
)

// prerollScheduling is a main scheduler that looks at a few jobs when one is submitted,
// and at all of them hardly ever, and no backfill.
const prerollScheduling = "default_queue_depth=50,sched_interval=3600,bf_interval=-1"

// PreRoll is an adapted slurm.conf for the time before a workload's window begins. Only
// preset jobs may start then, each at once and with the highest priority, so that the
// scheduler would look in vain again and again for nodes for all others, which takes as
// long as a real day of a full machine. Nothing else differs.
func PreRoll(adapted []byte) []byte {
	lines := bytes.SplitAfter(adapted, []byte("\n"))
	lines = slices.DeleteFunc(lines, func(line []byte) bool {
		return bytes.HasPrefix(bytes.ToLower(line), []byte("schedulerparameters="))
	})
	return append(bytes.Join(lines, nil), "SchedulerParameters="+prerollScheduling+"\n"...)
}
