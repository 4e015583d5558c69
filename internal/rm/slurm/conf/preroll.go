package conf

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// prerollScheduling is a main scheduler that looks at the first few jobs of the queue when
// one is submitted, within a second, and at all of them hardly ever, and no backfill.
const prerollScheduling = "default_queue_depth=%d,batch_sched_delay=0,sched_interval=3600,bf_interval=-1"

// prerollSlack is how many jobs the scheduler looks at besides a burst of preset jobs: room
// for some that wait for nodes of others which end a little late.
const prerollSlack = 8

// queueParameters are how the names of those parameters of SchedulerParameters begin that
// say when and how the schedulers and preemption go through the queue. All others are about
// which jobs slurmctld takes and what it gives them.
var queueParameters = []string{"assoc_limit_", "batch_sched_delay", "bf_", "build_queue_timeout", "default_queue_depth", "defer",
	"max_job_bf", "max_rpc_c", "max_sched_time", "partition_job_depth", "preempt_", "reduce_completing_frag", "sched_"}

// PreRoll is an adapted slurm.conf for the time before a workload's window begins. Only
// preset jobs may start then, each at once and with the highest priority, and at most burst
// of them together, so that the scheduler would look in vain again and again for nodes for
// all others, which takes as long as a real day of a full machine. Nothing else differs.
func PreRoll(adapted []byte, burst int) []byte {
	return replace(adapted, "SchedulerParameters", func(site string) string {
		rest := selectOptions(site, func(name string) bool {
			return !slices.ContainsFunc(queueParameters, func(p string) bool { return strings.HasPrefix(name, p) })
		})
		return strings.Join(append(rest, fmt.Sprintf(prerollScheduling, burst+prerollSlack)), ",")
	})
}

// KeepPartitions is an adapted slurm.conf with which slurmctld keeps, when it reads it, what
// an administrator has changed of partitions (_restore_part_state in read_config.c).
func KeepPartitions(adapted []byte) []byte {
	return replace(adapted, "ReconfigFlags", func(string) string { return "KeepPartInfo" })
}

// replace gives a key of an adapted slurm.conf another value, made of the one that it has.
func replace(adapted []byte, key string, value func(site string) string) []byte {
	prefix, site := []byte(key+"="), ""
	lines := slices.DeleteFunc(bytes.SplitAfter(adapted, []byte("\n")), func(line []byte) bool {
		if len(line) < len(prefix) || !bytes.EqualFold(line[:len(prefix)], prefix) {
			return false
		}
		site = string(bytes.TrimSpace(line[len(prefix):]))
		return true
	})
	return append(bytes.Join(lines, nil), key+"="+value(site)+"\n"...)
}
