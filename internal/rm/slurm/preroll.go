package slurm

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// prerollScheduling has the scheduling parameters of the pre-roll. Within a second of a
// submission, the main scheduler looks at the first few jobs of the queue. It looks at the whole
// queue once an hour. Backfill is off (-1), or so rare that only its phase matters.
const prerollScheduling = "default_queue_depth=%d,batch_sched_delay=0,sched_interval=3600,bf_interval=%d"

// prerollSlack is the number of jobs that the scheduler looks at beyond a burst of preset jobs.
// They are preset jobs that wait for nodes of other jobs that end a little late.
const prerollSlack = 8

// queueParameters has the prefixes of the options in SchedulerParameters that decide when and how
// the schedulers and preemption go through the queue. All other options decide which jobs
// slurmctld accepts and which resources they get.
var queueParameters = []string{"assoc_limit_", "batch_sched_delay", "bf_", "build_queue_timeout", "default_queue_depth",
	"defer",
	"max_job_bf", "max_rpc_c", "max_sched_time", "partition_job_depth", "preempt_", "reduce_completing_frag", "sched_"}

// preRoll changes the scheduling parameters of an adapted slurm.conf for the time before a
// workload's window begins. Until the window begins, slurmctld looks no further down the queue
// than the preset jobs, of which at most burst start together. Only preset jobs may start then.
// With the site's parameters the schedulers would keep trying all other jobs, which takes as
// much CPU time as a day of a full machine.
//
// backfill is the interval of backfill cycles, which the barrier keeps from starting jobs; 0 for none.
func preRoll(adapted []byte, burst int, backfill time.Duration) []byte {
	every := -1
	if backfill > 0 {
		every = int(backfill / time.Second)
	}
	return replace(adapted, "SchedulerParameters", func(site string) string {
		rest := slices.DeleteFunc(options(site), func(option string) bool {
			return slices.ContainsFunc(queueParameters, func(p string) bool { return hasPrefixFold(option, p) })
		})
		return strings.Join(append(rest, fmt.Sprintf(prerollScheduling, burst+prerollSlack, every)), ",")
	})
}

// keepPartitions changes an adapted slurm.conf. When slurmctld reads the result, it keeps an
// administrator's changes to partitions (_restore_part_state in read_config.c).
func keepPartitions(adapted []byte) []byte {
	return replace(adapted, "ReconfigFlags", func(string) string { return "KeepPartInfo" })
}

// replace replaces the value of a key in an adapted slurm.conf. value returns the new value for
// the old one.
func replace(adapted []byte, key string, value func(site string) string) []byte {
	site := ""
	lines := slices.DeleteFunc(bytes.SplitAfter(adapted, []byte("\n")), func(line []byte) bool {
		if !hasPrefixFold(string(line), key+"=") {
			return false
		}
		site = strings.TrimSpace(string(line[len(key)+1:]))
		return true
	})
	return append(bytes.Join(lines, nil), key+"="+value(site)+"\n"...)
}

// options splits a list of options, such as SchedulerParameters.
func options(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

// hasPrefixFold reports whether s begins with a prefix, without regard to case.
func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
