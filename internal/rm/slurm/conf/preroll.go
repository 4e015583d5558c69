package conf

import (
	"bytes"
	"fmt"
	"slices"
)

// prerollScheduling is a main scheduler that looks at the first few jobs of the queue when
// one is submitted, within a second, and at all of them hardly ever, and no backfill.
const prerollScheduling = "default_queue_depth=%d,batch_sched_delay=0,sched_interval=3600,bf_interval=-1"

// prerollSlack is how many jobs the scheduler looks at besides a burst of preset jobs: room
// for some that wait for nodes of others which end a little late.
const prerollSlack = 8

// PreRoll is an adapted slurm.conf for the time before a workload's window begins. Only
// preset jobs may start then, each at once and with the highest priority, and at most burst
// of them together, so that the scheduler would look in vain again and again for nodes for
// all others, which takes as long as a real day of a full machine. Nothing else differs.
func PreRoll(adapted []byte, burst int) []byte {
	lines := bytes.SplitAfter(adapted, []byte("\n"))
	lines = slices.DeleteFunc(lines, func(line []byte) bool {
		return bytes.HasPrefix(bytes.ToLower(line), []byte("schedulerparameters="))
	})
	return append(bytes.Join(lines, nil), fmt.Sprintf("SchedulerParameters="+prerollScheduling+"\n", burst+prerollSlack)...)
}
