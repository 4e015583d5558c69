package coverage

import (
	"strings"

	"rmreplay/internal/rm/slurmmodel"
	"rmreplay/internal/rm/slurmmodel/keys"
)

// preemption describes what the preemption of a configuration uses and the model does not have; ""
// if it has all.
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
