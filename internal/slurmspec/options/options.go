// Package options has the options of lists in slurm.conf, and reads their values as slurmctld does.
package options

import (
	"math"
	"strconv"
	"strings"
)

// Option says which values one option of a list may have. The zero Option is a flag.
type Option struct {
	Number   bool
	Min, Max int64    // of a number
	NoZero   bool     // 0 is not a value of a number
	Words    []string // the values of an option that is neither a flag nor a number
}

// Unbounded is the largest number of an option without a limit.
const Unbounded = math.MaxInt32 // slurmctld reads these numbers with atoi

// From returns an option that is a number without an upper limit.
func From(minimum int64) Option { return Option{Number: true, Min: minimum, Max: Unbounded} }

func within(a, b int64) Option     { return Option{Number: true, Min: a, Max: b} }
func oneOf(words ...string) Option { return Option{Words: words} }

// Takes reports whether slurmctld accepts a number. For any other number slurmctld uses its
// default.
func (o Option) Takes(n int64) bool {
	return !o.Number || o.Min <= n && n <= o.Max && (n != 0 || !o.NoZero)
}

// Atoi reads a number as C does: it reads the first digits and ignores the rest. It returns 0 if there are no digits.
func Atoi(text string) int64 {
	text = strings.TrimLeft(text, " \t\n\v\f\r")
	end := 0
	for end < len(text) && ('0' <= text[end] && text[end] <= '9' || end == 0 && (text[0] == '-' || text[0] == '+')) {
		end++
	}
	n, _ := strconv.ParseInt(text[:end], 10, 64) // the nearest number if it is out of range
	return n
}

// Scheduler are the options of SchedulerParameters of 22.05 to 26.05 with the numbers that
// slurmctld accepts: slurm.conf(5), _load_config in src/plugins/sched/backfill/backfill.c and
// schedule in src/slurmctld/job_scheduler.c. For any other number slurmctld logs an error and uses
// its default.
var Scheduler = map[string]Option{
	"allow_zero_lic":               {},
	"assoc_limit_stop":             {},
	"batch_sched_delay":            From(0),
	"bb_array_stage_cnt":           From(1),
	"bf_allow_magnetic_slot":       {},
	"bf_busy_nodes":                {},
	"bf_continue":                  {},
	"bf_hetjob_immediate":          {},
	"bf_hetjob_prio":               oneOf("min", "avg", "max"),
	"bf_interval":                  {Number: true, Min: -1, Max: 10800, NoZero: true},
	"bf_job_part_count_reserve":    within(0, 100_000),
	"bf_licenses":                  {},
	"bf_max_job_array_resv":        within(0, 1000),
	"bf_max_job_assoc":             From(0),
	"bf_max_job_part":              From(0),
	"bf_max_job_start":             within(0, 10_000),
	"bf_max_job_test":              within(1, 1_000_000),
	"bf_max_job_user":              From(0),
	"bf_max_job_user_part":         From(0),
	"bf_max_time":                  within(1, 3600),
	"bf_min_age_reserve":           within(0, 30*24*60*60),
	"bf_min_prio_reserve":          within(1, math.MaxUint32-1),
	"bf_node_space_size":           within(2, 2_000_000),
	"bf_one_resv_per_job":          {},
	"bf_resolution":                within(1, 3600),
	"bf_running_job_reserve":       {},
	"bf_topopt_enable":             {},
	"bf_topopt_iterations":         within(2, 30),
	"bf_window":                    within(1, 30*24*60),
	"bf_window_linear":             From(1),
	"bf_yield_interval":            within(1, 10_000_000),
	"bf_yield_rpc_cnt":             within(0, 200),
	"bf_yield_rpc_count":           within(0, 200),
	"bf_yield_sleep":               within(1, 10_000_000),
	"build_queue_timeout":          From(100),
	"correspond_after_task_cnt":    From(10),
	"default_queue_depth":          From(0),
	"defer":                        {},
	"defer_batch":                  {},
	"delay_boot":                   From(0),
	"disable_hetero_steps":         {},
	"disable_hetjob_steps":         {},
	"disable_job_shrink":           {},
	"enable_hetero_steps":          {},
	"enable_hetjob_steps":          {},
	"enable_job_state_cache":       {},
	"enable_user_top":              {},
	"extra_constraints":            {},
	"ignore_constraint_validation": {},
	"ignore_numa":                  {},
	"ignore_prefer_validation":     {},
	"max_array_tasks":              From(1),
	"max_rpc_cnt":                  within(0, 1000),
	"max_rpc_count":                within(0, 1000),
	"max_sched_time":               From(1),
	"max_script_size":              within(1, 512<<20),
	"max_submit_line_size":         From(1),
	"max_switch_wait":              From(0),
	"no_backup_scheduling":         {},
	"no_env_cache":                 {},
	"nohold_on_prolog_fail":        {},
	"pack_serial_at_end":           {},
	"partition_job_depth":          From(0),
	"preempt_reorder_count":        From(0),
	"preempt_send_user_signal":     {},
	"preempt_strict_order":         {},
	"preempt_youngest_first":       {},
	"reduce_completing_frag":       {},
	"requeue_delay":                From(0),
	"requeue_on_resume_failure":    {},
	"requeue_setup_env_fail":       {},
	"salloc_wait_nodes":            {},
	"sbatch_wait_nodes":            {},
	"sched_interval":               From(-1),
	"sched_max_job_start":          From(0),
	"sched_min_interval":           From(0),
	"spec_cores_first":             {},
	"step_retry_count":             From(0),
	"step_retry_time":              From(0),
	"time_min_as_soft_limit":       {},
	"whole_hetjob":                 {},
	"whole_pack":                   {},
}
