package values

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/rm/slurm/conf/syntax"
	"rmreplay/internal/slurmspec/history"
	"rmreplay/internal/slurmspec/options"
	"rmreplay/internal/spelling"
)

// The values that set or remove a flag of a list.
const (
	On  = "true"
	Off = "false"
)

// flags returns options without values.
func flags(names ...string) map[string]options.Option {
	all := map[string]options.Option{}
	for _, name := range names {
		all[name] = options.Option{}
	}
	return all
}

// lists are the keys of slurm.conf whose values are lists of options and whose options are all known.
var lists = map[string]map[string]options.Option{
	"accountingstorageenforce": of("AccountingStorageEnforce"),
	"dependencyparameters": {
		"disable_remote_singleton": {}, "kill_invalid_depend": {}, "max_depend_depth": options.From(1),
	},
	"preemptparameters": {
		"min_exempt_priority": options.From(0), "reclaim_licenses": {}, "reorder_count": options.From(0), "send_user_signal": {},
		"strict_order": {}, "suspend_grace_time": options.From(0), "youngest_first": {},
	},
	"priorityflags": flags("accrue_always", "calculate_running", "depth_oblivious", "incr_only", "max_tres",
		"max_tres_gres",
		"no_fair_tree", "no_normal_all", "no_normal_assoc", "no_normal_part", "no_normal_qos", "no_normal_tres",
		"small_relative_to_time"),
	"prologflags":          of("PrologFlags"),
	"schedulerparameters":  options.Scheduler,
	"selecttypeparameters": of("SelectTypeParameters"),
}

// HasOptions reports whether all options of a key are known.
func HasOptions(key string) bool { return lists[strings.ToLower(key)] != nil }

// of returns the options of a key. [history.Options] has the options of all releases.
func of(key string) map[string]options.Option {
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
	if err := checkValue(o, value, " or false"); err != nil {
		return fmt.Errorf("%s=%.40s: %w", name, value, err)
	}
	return nil
}

// checkValue checks the value of an option. An error lists the right values, followed by otherwise.
func checkValue(o options.Option, value, otherwise string) error {
	switch {
	case o.Number:
		_, err := strconv.ParseInt(value, 10, 64)
		n := options.Atoi(value)
		var why string
		switch {
		case err == nil && o.Takes(n):
			return nil
		case value == "":
			why = "not a whole number"
		case err == nil:
			why = "slurmctld would use its default"
		case o.Takes(n):
			why = fmt.Sprintf("not a whole number, and slurmctld would read %d", n)
		default:
			why = "not a whole number, and slurmctld would use its default"
		}
		limit := fmt.Sprintf(" to %d", o.Max)
		if o.Max == options.Unbounded {
			limit = ""
		}
		if o.NoZero {
			limit += ", but not 0"
		}
		return fmt.Errorf("%s (want a whole number from %d%s%s)", why, o.Min, limit, otherwise)
	case o.Words != nil:
		if !slices.Contains(o.Words, strings.ToLower(value)) {
			return fmt.Errorf("not a value of this option (want %s%s)", strings.Join(o.Words, ", "), otherwise)
		}
	case value != On:
		return errors.New("this option is a flag and takes no other value (want true or false)")
	}
	return nil
}

// wrongValue returns the mistake in the value of a known option; "" for a right value.
func wrongValue(key, item string, o options.Option) string {
	if !o.Number && o.Words == nil {
		return "" // slurmctld finds the flag's name and ignores the rest
	}
	_, value, _ := strings.Cut(item, "=")
	if err := checkValue(o, value, ""); err != nil {
		return fmt.Sprintf("%s: %.60s: %v", key, item, err)
	}
	return ""
}

// Ignored returns the mistakes in a whole list: items that slurmctld accepts, but ignores or misreads.
func Ignored(key, list string) (mistakes []string) {
	known := lists[strings.ToLower(key)]
	if known == nil {
		return nil
	}
	for _, item := range syntax.List(list) {
		name, _, _ := strings.Cut(item, "=")
		if o, ok := known[strings.ToLower(name)]; !ok {
			mistakes = append(mistakes, fmt.Sprintf("%s has no option %.60s%s", key, name, DidYouMean(name, maps.Keys(known))))
		} else if wrong := wrongValue(key, item, o); wrong != "" {
			mistakes = append(mistakes, wrong)
		}
	}
	return mistakes
}

// Mistakes returns the mistakes in a list whose unknown options slurmctld ignores. A mistake is a
// name spelled almost like a known option, or a value that slurmctld misreads. slurmctld finds an
// option anywhere in the text of the list.
func Mistakes(key, list string) (mistakes []string) {
	known := lists[strings.ToLower(key)]
	if known == nil || history.Options[key].Refused {
		return nil
	}
	for _, item := range syntax.List(strings.ToLower(list)) {
		name, _, _ := strings.Cut(item, "=")
		if o, ok := known[name]; ok {
			if wrong := wrongValue(key, item, o); wrong != "" {
				mistakes = append(mistakes, wrong)
			}
			continue
		}
		found := slices.ContainsFunc(slices.Collect(maps.Keys(known)), func(name string) bool {
			if o := known[name]; o.Number || o.Words != nil {
				name += "="
			}
			return strings.Contains(item, name)
		})
		near := spelling.Nearest(name, 2, slices.Collect(maps.Keys(known)))
		if !found && near != "" {
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
