package coverage

import (
	"slices"
	"strings"

	"rmreplay/internal/rm/slurmmodel"
	"rmreplay/internal/rm/slurmmodel/keys"
)

// plugins names a plugin that the model lacks; "" if it lacks none. slurmctld does not start with a plugin that
// does not exist, such as a mistyped one.
func plugins(c *slurmmodel.Config) string {
	for _, one := range []struct {
		key   string
		known []string
	}{
		{"PriorityType", []string{"", "basic", "multifactor"}}, {"SchedulerType", []string{"", "backfill", "builtin"}},
		{"PreemptType", []string{"", "none", "qos", "partition_prio"}},
	} {
		value := strings.ToLower(keys.Value(c.Get, one.key))
		if name := value[strings.LastIndex(value, "/")+1:]; !slices.Contains(one.known, name) {
			return one.key + "=" + value
		}
	}
	return ""
}

// preemption describes a setting of preemption that a configuration has and the model lacks; "" if
// the model has all of them.
func preemption(c *slurmmodel.Config) string {
	kind := strings.ToLower(keys.Value(c.Get, "PreemptType"))
	if kind == "" || kind == "preempt/none" {
		return ""
	}
	modes := []string{keys.Value(c.Get, "PreemptMode")}
	for _, p := range c.Partitions {
		modes = append(modes, keys.Value(p.Get, "PreemptMode"))
	}
	if c.Associations != nil {
		for _, q := range c.Associations.Policies {
			modes = append(modes, q.PreemptMode)
		}
	}
	for _, mode := range modes {
		for word := range strings.SplitSeq(strings.ToUpper(mode), ",") {
			if strings.TrimSpace(word) == "PRIORITY" {
				return "preemption with PreemptMode=" + strings.ToUpper(mode)
			}
		}
	}
	options := strings.ToLower(keys.Value(c.Get, "PreemptParameters") + "," + keys.Value(c.Get, "SlurmctldParameters"))
	for _, one := range []string{"reclaim_licenses", "send_user_signal"} {
		if strings.Contains(options, one) {
			return "preemption with " + one
		}
	}
	return ""
}
