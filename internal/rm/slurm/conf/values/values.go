// Package values finds values of slurm.conf that keep slurmctld from starting. The parser checks only the types of
// values. The checks follow _validate_and_set_defaults and _parse_partitionname in src/common/read_config.c,
// preempt_mode_num in slurm_protocol_defs.c, and the plugins select and gres, of Slurm 22.05 to 26.05. If only some of
// these releases have a key or an option, package [rmreplay/internal/slurmspec/history] lists it. The adaptation
// translates keys and options that a release lacks before this package checks them.
package values

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/rm/slurm/conf/syntax"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmspec/history"
	"rmreplay/internal/spelling"
)

// check returns an error for a value that slurmctld refuses.
type check func(value string) error

// keys has the checks of the keys that stand alone on their lines.
var keys = map[string]check{
	"AccountingStorageTRES": trackable,
	"EnforcePartLimits":     one("NO, ANY or ALL", "no", "any", "all", "yes", "up", "true", "1", "down", "false", "0"),
	"FirstJobId":            atLeast(1),
	"Licenses":              licences,
	"MaxDBDMsgs":            atLeast(10000),
	"MaxJobCount":           atLeast(1),
	"MaxStepCount":          atLeast(1),
	"PreemptExemptTime":     span,
	"PreemptMode":           preemptMode,
	"PriorityCalcPeriod":    period,
	"PriorityDecayHalfLife": span,
	"PriorityMaxAge":        span,
	"PriorityUsageResetPeriod": one("NONE, NOW, DAILY, WEEKLY, MONTHLY, QUARTERLY or YEARLY", "none", "now", "daily",
		"weekly", "monthly", "quarterly", "yearly"),
	"PropagateResourceLimits":       resourceLimits,
	"PropagateResourceLimitsExcept": resourceLimits,
	"SchedulerParameters":           schedulerParameters,
	"SelectTypeParameters":          selectTypeParameters,
}

// partition has the checks of the attributes of partitions.
var partition = map[string]check{
	"DefaultTime":          span,
	"Exclusive":            one("NO, NODE, USER or TOPO", "no", "none", "node", "user", "topo"),
	"MaxTime":              span,
	"OverSubscribe":        overSubscribe,
	"PreemptMode":          preemptMode,
	"SelectTypeParameters": prefix("CR_Core, CR_Core_Memory, CR_Socket or CR_Socket_Memory", "cr_core", "cr_socket"),
	"Shared":               overSubscribe,
	"State":                prefix("UP, DOWN, DRAIN or INACTIVE", "up", "down", "drain", "inactive"),
	"TRESBillingWeights":   Weights,
}

// Check returns an error if slurmctld refuses the value of a key that stands alone on its line.
// The error says what would be right. The case of the key does not matter.
func Check(key, value string) error { return apply(keys, key, value) }

// CheckPartition is [Check] for an attribute of a PartitionName line.
func CheckPartition(attribute, value string) error { return apply(partition, attribute, value) }

func apply(checks map[string]check, key, value string) error {
	if err := knownOptions(key, value); err != nil {
		return err
	}
	for name, c := range checks {
		if strings.EqualFold(name, key) {
			return c(value)
		}
	}
	return nil
}

// knownOptions refuses an option that no release knows. It does so only for keys whose unknown
// options slurmctld refuses.
func knownOptions(key, value string) error {
	for name, list := range history.Options {
		for _, option := range strings.Split(value, ",") {
			option = strings.TrimSpace(option)
			if option != "" && strings.EqualFold(name, key) && !list.Knows(history.OptionName(option)) {
				known := slices.Concat(list.Always, slices.Collect(maps.Keys(list.Some)))
				releases := slurmspec.SupportedReleases()
				return fmt.Errorf("no release from %v to %v knows %s (%s)", releases[0], releases[len(releases)-1],
					option, spelling.Meant(option, slices.Sorted(slices.Values(known))))
			}
		}
	}
	return nil
}

func one(want string, accepted ...string) check {
	return func(value string) error {
		if slices.Contains(accepted, strings.ToLower(value)) {
			return nil
		}
		return fmt.Errorf("slurmctld does not know this value (want %s)", want)
	}
}

func prefix(want string, accepted ...string) check {
	return func(value string) error {
		for _, p := range accepted {
			if strings.HasPrefix(strings.ToLower(value), p) {
				return nil
			}
		}
		return fmt.Errorf("slurmctld does not know this value (want %s)", want)
	}
}

// atLeast checks a number. The parser has refused values that are not numbers.
func atLeast(minimum uint64) check {
	return func(value string) error {
		if n, err := syntax.ParseUint(value, 1<<32-1); err == nil && n < minimum {
			return fmt.Errorf("slurmctld refuses this value (want %d or more)", minimum)
		}
		return nil
	}
}

// spanSyntax is the syntax that _is_valid_timespec in src/common/parse_time.c accepts, except negative numbers.
var spanSyntax = regexp.MustCompile(`^(\d+(:\d+){0,2}|\d+-\d*|\d+-\d+(:\d+){1,2})$`)

// span checks the syntax of a time such as MaxTime, as slurmctld does. It sets no upper bound.
func span(value string) error {
	if endless(value) || spanSyntax.MatchString(value) {
		return nil
	}
	return errors.New("not a time (want minutes, HH:MM:SS, D-HH:MM:SS or INFINITE)")
}

func endless(value string) bool {
	return value == "-1" || strings.EqualFold(value, "INFINITE") || strings.EqualFold(value, "UNLIMITED")
}

// period checks a span of at least a minute.
func period(value string) error {
	if err := span(value); err != nil || endless(value) || strings.Trim(value, "0:-") == "" {
		return errors.New("not a period of a minute or more (want minutes, HH:MM:SS or D-HH:MM:SS)")
	}
	return nil
}

// licences checks a list of licences (_build_license_list in src/slurmctld/licenses.c).
func licences(value string) error {
	for _, entry := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ';' }) {
		_, count, _ := strings.Cut(entry, ":")
		if strings.Trim(count, "0123456789") != "" || strings.ContainsAny(entry, " \t") {
			return fmt.Errorf("%s: not a licence (want NAME or NAME:COUNT; sacctmgr adds the licences of a server as resources)",
				entry)
		}
	}
	return nil
}

// trackable checks a list of trackable resources (_init_tres in src/slurmctld/controller.c).
func trackable(value string) error {
	for name := range strings.SplitSeq(value, ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		kind, _, named := strings.Cut(name, "/")
		alone := slices.Contains([]string{"", "billing", "cpu", "energy", "mem", "node", "pages", "vmem"}, name)
		if !alone && (!named || !slices.Contains([]string{"bb", "fs", "gres", "ic", "license"}, kind)) {
			return fmt.Errorf("%s: not a trackable resource (want cpu, mem, node, energy, billing, vmem, pages, fs/disk, "+
				"or gres/NAME, license/NAME, bb/NAME and ic/NAME)", name)
		}
	}
	return nil
}

// weight is an item of a list of weights. slurmctld reads the number with strtod, and looks only
// at the first letter after it (_tres_weight_item in src/common/assoc_mgr.c).
var weight = regexp.MustCompile(`(?i)^[^=\s]+=([+-]?(\d+\.?\d*|\.\d+|0x[0-9a-f.]+|inf(inity)?)(e[+-]?\d+)?([kmgtp].*)?|[kmgtp].*)$`)

// Weights returns an error if slurmctld refuses a list of weights of TRES, such as the value of PriorityWeightTRES or
// TRESBillingWeights. It does not check that the cluster tracks these TRES.
func Weights(value string) error {
	for item := range strings.SplitSeq(value, ",") {
		if item != "" && !weight.MatchString(item) {
			return fmt.Errorf("%q: not a weight (want NAME=NUMBER, such as cpu=1.0 or mem=0.25G)", item)
		}
	}
	return nil
}

// processLimits are the names that PropagateResourceLimits may list, with or without the prefix RLIMIT_.
var processLimits = []string{"AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "RSS", "STACK"}

// resourceLimits checks a list of limits of processes (parse_rlimits in src/common/slurm_rlimits_info.c).
func resourceLimits(value string) error {
	if value == "ALL" || value == "NONE" {
		return nil
	}
	for _, name := range strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(", \t", r) }) {
		if !slices.Contains(processLimits, strings.TrimPrefix(name, "RLIMIT_")) {
			return fmt.Errorf("%s: not a limit of processes (want ALL, NONE or a list of %s)", name,
				strings.Join(processLimits, ", "))
		}
	}
	return nil
}

func overSubscribe(value string) error {
	name, _, counted := strings.Cut(strings.ToUpper(value), ":")
	switch name {
	case "YES", "FORCE": // Slurm ignores a wrong count
		return nil
	case "NO", "EXCLUSIVE":
		if !counted {
			return nil
		}
	}
	return errors.New("slurmctld does not know this value (want NO, EXCLUSIVE, YES[:COUNT] or FORCE[:COUNT])")
}

// schedulerParameters checks the two options whose values have an upper bound.
func schedulerParameters(value string) error {
	for _, limit := range []struct {
		option   string
		maxValue int64
	}{{"max_script_size=", 512 << 20}, {"max_submit_line_size=", 2 << 20}} {
		_, rest, found := strings.Cut(strings.ToLower(value), limit.option)
		digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
		if n, err := strconv.ParseInt(digits, 10, 64); found && digits != "" && (err != nil || n > limit.maxValue) {
			return fmt.Errorf("%s%s: more than slurmctld accepts (want at most %d)", limit.option, digits, limit.maxValue)
		}
	}
	return nil
}

// words splits a comma list into lower-case words without empty ones.
func words(list string) []string {
	return strings.FieldsFunc(strings.ToLower(list), func(r rune) bool { return r == ',' })
}
