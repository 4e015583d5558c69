package window

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// scheduling has Slurm's scheduling parameters of the pre-roll. Within a second of a submission, the main scheduler
// looks at the first few jobs of the queue. The main scheduler looks at the whole queue once an hour. bf_interval is -1
// if backfill is off.
const scheduling = "default_queue_depth=%d,batch_sched_delay=0,sched_interval=3600,bf_interval=%d"

// PresetLead is how long before its start a preset job is submitted. slurmctld looks for jobs to
// start once a second, at some instant within the second. With this lead, slurmctld starts the job
// in its recorded second, not in the second before. A job that starts early may reach its time
// limit early.
const PresetLead = 100 * time.Microsecond

// slack is the number of jobs beyond a burst of preset jobs that the scheduler examines: earlier
// preset jobs may still wait, because jobs that end a little late hold their nodes.
const slack = 8

// queueOptions has the prefixes of the SchedulerParameters options that decide when and how the
// schedulers and preemption work through the queue. All other options decide which jobs slurmctld
// accepts and which resources they get.
var queueOptions = []string{
	"assoc_limit_", "batch_sched_delay", "bf_", "build_queue_timeout", "default_queue_depth", "defer", "max_job_bf", "max_rpc_c",
	"max_sched_time", "partition_job_depth", "preempt_", "reduce_completing_frag", "sched_",
}

// Scheduling returns the SchedulerParameters of the pre-roll. They are derived from the site's SchedulerParameters.
// burst is the largest number of preset jobs that start together. Until the window begins, only preset jobs may start,
// and slurmctld looks no further down the queue. With the site's parameters the schedulers would try all other jobs
// again and again. These attempts would take as much CPU time as a day of a full machine.
//
// backfill is the interval of backfill cycles; 0 turns backfill off. Because of the barrier these
// cycles start no jobs.
func Scheduling(site string, burst int, backfill time.Duration) string {
	every := -1
	if backfill > 0 {
		every = int(backfill / time.Second)
	}
	return strings.Join(append(WithoutQueue(site), fmt.Sprintf(scheduling, burst+slack, every)), ",")
}

// WithoutQueue removes the options in queueOptions from the value of SchedulerParameters.
func WithoutQueue(site string) []string {
	list := strings.FieldsFunc(site, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	return slices.DeleteFunc(list, func(option string) bool {
		return slices.ContainsFunc(queueOptions, func(prefix string) bool {
			return len(option) >= len(prefix) && strings.EqualFold(option[:len(prefix)], prefix)
		})
	})
}

// Keys returns a function that reads keys of slurm.conf as slurmctld has them before the window
// begins.
func Keys(get func(string) (string, bool), burst int) func(string) (string, bool) {
	return func(key string) (string, bool) {
		text, known := get(key)
		if key == "SchedulerParameters" {
			return Scheduling(text, burst, 0), true
		}
		return text, known
	}
}
