package values

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/rm/slurm/conf/syntax"
	"rmreplay/internal/slurmspec/history"
	"rmreplay/internal/spelling"
)

// option says which values one option of a list may have. The zero option is a flag.
type option struct {
	number   bool
	min, max int64    // of a number
	words    []string // the values of an option that is neither a flag nor a number
}

const unbounded = math.MaxInt32 // slurmctld reads these numbers with atoi

func from(minimum int64) option    { return option{number: true, min: minimum, max: unbounded} }
func within(a, b int64) option     { return option{number: true, min: a, max: b} }
func oneOf(words ...string) option { return option{words: words} }

// The values that set or remove a flag of a list.
const (
	On  = "true"
	Off = "false"
)

// schedulerOptions are the options of SchedulerParameters of 22.05 to 26.05 with the numbers that
// slurmctld accepts: slurm.conf(5), _load_config in src/plugins/sched/backfill/backfill.c and
// schedule in src/slurmctld/job_scheduler.c. For any other number slurmctld logs an error and uses
// its default.
var schedulerOptions = map[string]option{
	"allow_zero_lic":               {},
	"assoc_limit_stop":             {},
	"batch_sched_delay":            from(0),
	"bb_array_stage_cnt":           from(1),
	"bf_allow_magnetic_slot":       {},
	"bf_busy_nodes":                {},
	"bf_continue":                  {},
	"bf_hetjob_immediate":          {},
	"bf_hetjob_prio":               oneOf("min", "avg", "max"),
	"bf_interval":                  within(-1, 10800),
	"bf_job_part_count_reserve":    within(0, 100_000),
	"bf_licenses":                  {},
	"bf_max_job_array_resv":        within(0, 1000),
	"bf_max_job_assoc":             from(0),
	"bf_max_job_part":              from(0),
	"bf_max_job_start":             within(0, 10_000),
	"bf_max_job_test":              within(1, 1_000_000),
	"bf_max_job_user":              from(0),
	"bf_max_job_user_part":         from(0),
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
	"bf_window_linear":             from(1),
	"bf_yield_interval":            within(1, 10_000_000),
	"bf_yield_rpc_cnt":             within(0, 200),
	"bf_yield_rpc_count":           within(0, 200),
	"bf_yield_sleep":               within(1, 10_000_000),
	"build_queue_timeout":          from(100),
	"correspond_after_task_cnt":    from(10),
	"default_queue_depth":          from(0),
	"defer":                        {},
	"defer_batch":                  {},
	"delay_boot":                   from(0),
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
	"max_array_tasks":              from(1),
	"max_rpc_cnt":                  within(0, 1000),
	"max_rpc_count":                within(0, 1000),
	"max_sched_time":               from(1),
	"max_script_size":              within(1, 512<<20),
	"max_submit_line_size":         from(1),
	"max_switch_wait":              from(0),
	"no_backup_scheduling":         {},
	"no_env_cache":                 {},
	"nohold_on_prolog_fail":        {},
	"pack_serial_at_end":           {},
	"partition_job_depth":          from(0),
	"preempt_reorder_count":        from(0),
	"preempt_send_user_signal":     {},
	"preempt_strict_order":         {},
	"preempt_youngest_first":       {},
	"reduce_completing_frag":       {},
	"requeue_delay":                from(0),
	"requeue_on_resume_failure":    {},
	"requeue_setup_env_fail":       {},
	"salloc_wait_nodes":            {},
	"sbatch_wait_nodes":            {},
	"sched_interval":               from(-1),
	"sched_max_job_start":          from(0),
	"sched_min_interval":           from(0),
	"spec_cores_first":             {},
	"step_retry_count":             from(0),
	"step_retry_time":              from(0),
	"time_min_as_soft_limit":       {},
	"whole_hetjob":                 {},
	"whole_pack":                   {},
}

// flags returns options without values.
func flags(names ...string) map[string]option {
	all := map[string]option{}
	for _, name := range names {
		all[name] = option{}
	}
	return all
}

// lists has the keys of slurm.conf that are lists of options, if all possible options are known.
var lists = map[string]map[string]option{
	"accountingstorageenforce": of("AccountingStorageEnforce"),
	"dependencyparameters": {
		"disable_remote_singleton": {}, "kill_invalid_depend": {}, "max_depend_depth": from(1),
	},
	"preemptparameters": {
		"min_exempt_priority": from(0), "reclaim_licenses": {}, "reorder_count": from(0), "send_user_signal": {},
		"strict_order": {}, "suspend_grace_time": from(0), "youngest_first": {},
	},
	"priorityflags": flags("accrue_always", "calculate_running", "depth_oblivious", "incr_only", "max_tres",
		"max_tres_gres",
		"no_fair_tree", "no_normal_all", "no_normal_assoc", "no_normal_part", "no_normal_qos", "no_normal_tres",
		"small_relative_to_time"),
	"prologflags":          of("PrologFlags"),
	"schedulerparameters":  schedulerOptions,
	"selecttypeparameters": of("SelectTypeParameters"),
}

// HasOptions reports whether all options of a key are known.
func HasOptions(key string) bool { return lists[strings.ToLower(key)] != nil }

// of returns the options of a key. The history of the releases has all of them.
func of(key string) map[string]option {
	list := history.Options[key]
	return flags(slices.Concat(list.Always, slices.Collect(maps.Keys(list.Some)))...)
}

// CheckOption checks an option of a list and its value.
func CheckOption(key, name, value string) error {
	known := lists[strings.ToLower(key)]
	o, ok := known[strings.ToLower(name)]
	if !ok {
		return fmt.Errorf("%s has no option %s%s", key, name, DidYouMean(name, maps.Keys(known)))
	}
	if value == Off {
		return nil
	}
	if err := o.check(value, " or false"); err != nil {
		return fmt.Errorf("%s=%.40s: %w", name, value, err)
	}
	return nil
}

// check checks the value of an option. An error lists the right values; the parameter otherwise is
// appended to this list.
func (o option) check(value, otherwise string) error {
	switch {
	case o.number:
		n, err := strconv.ParseInt(value, 10, 64)
		if err == nil && o.min <= n && n <= o.max {
			return nil
		}
		why, limit := "slurmctld would use its default", fmt.Sprintf(" to %d", o.max)
		if err != nil {
			why = "not a whole number"
		}
		if o.max == unbounded {
			limit = ""
		}
		return fmt.Errorf("%s (want a whole number from %d%s%s)", why, o.min, limit, otherwise)
	case o.words != nil:
		if !slices.Contains(o.words, strings.ToLower(value)) {
			return fmt.Errorf("not a value of this option (want %s%s)", strings.Join(o.words, ", "), otherwise)
		}
	case value != On:
		return errors.New("this option is a flag and takes no other value (want true or false)")
	}
	return nil
}

// Ignored returns the mistakes in a whole list: items that slurmctld accepts, but ignores or misunderstands.
func Ignored(key, list string) (mistakes []string) {
	known := lists[strings.ToLower(key)]
	if known == nil {
		return nil
	}
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		name, value, valued := strings.Cut(item, "=")
		o, ok := known[strings.ToLower(name)]
		switch {
		case item == "", ok && !o.number && o.words == nil: // slurmctld finds the name of a flag, whatever follows
		case !ok:
			mistakes = append(mistakes, fmt.Sprintf("%s has no option %.60s%s", key, name, DidYouMean(name, maps.Keys(known))))
		case !valued:
			mistakes = append(mistakes, fmt.Sprintf("%s: %s: %v", key, item, o.check("", "")))
		default:
			if err := o.check(value, ""); err != nil {
				mistakes = append(mistakes, fmt.Sprintf("%s: %.60s: %v", key, item, err))
			}
		}
	}
	return mistakes
}

// Misspelled returns, for a key whose unknown options slurmctld ignores, those that are spelled almost like a
// known one. slurmctld finds an option anywhere in the text of the list.
func Misspelled(key, list string) (mistakes []string) {
	known := lists[strings.ToLower(key)]
	if known == nil || history.Options[key].Refused {
		return nil
	}
	for _, item := range syntax.List(strings.ToLower(list)) {
		found := slices.ContainsFunc(slices.Collect(maps.Keys(known)), func(name string) bool {
			if o := known[name]; o.number || o.words != nil {
				name += "="
			}
			return strings.Contains(item, name)
		})
		name, _, _ := strings.Cut(item, "=")
		near := spelling.Nearest(name, 2, slices.Collect(maps.Keys(known)))
		if _, ok := known[name]; !found && !ok && near != "" {
			mistakes = append(mistakes, fmt.Sprintf("%s has no option %s, so Slurm ignores it; did you mean %s?", key, name, near))
		}
	}
	return mistakes
}

// DidYouMean suggests the known name that is nearest to a wrong one.
func DidYouMean(wrong string, known func(func(string) bool)) string {
	if len(wrong) > 60 {
		return ""
	}
	if near := spelling.Nearest(strings.ToLower(wrong), 1+len(wrong)/3, slices.Collect(known)); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}
