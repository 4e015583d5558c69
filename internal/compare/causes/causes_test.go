package causes

import (
	"strings"
	"testing"

	"rmreplay/internal/run"
)

// TestConfigurationIsACause: if the record lacks only reservations, outages and the jobs before, as most records do, the
// first cause is another configuration of Slurm. Other data that it lacks comes first.
func TestConfigurationIsACause(t *testing.T) {
	for code, first := range map[string]string{"node-events": "another configuration or release of Slurm",
		"window": "another configuration or release of Slurm", "qos": "lacks qos"} {
		lacks := map[string]string{"reservations": "lacks reservations", code: "lacks " + code}
		list := List(&run.Verdict{}, &Facts{Lacks: lacks, Recorded: &run.Manifest{}, Replayed: &run.Manifest{}})
		if text := strings.Join(list, "\n"); !strings.HasPrefix(list[0], first) ||
			!strings.Contains(text, "another configuration or release") || !strings.Contains(text, "lacks "+code) {
			t.Errorf("%s: %q", code, list)
		}
	}
}

// TestLimitsAreTheFirstCause: many jobs that a replay ends at too short limits explain its waits before anything else.
func TestLimitsAreTheFirstCause(t *testing.T) {
	for _, affects := range []bool{true, false} {
		replayed := &run.Manifest{Warnings: []run.Warning{{Code: run.EndsAtLimit, Text: "limits", AffectsResult: affects}}}
		list := List(&run.Verdict{}, &Facts{Later: "later", Recorded: &run.Manifest{}, Replayed: replayed})
		if (list[0] == "limits") != affects {
			t.Errorf("affects the result %t: %q", affects, list)
		}
	}
}

// TestUsageIsACause: a policy that does not use fair-share cannot make jobs wait longer because usage or QOS are not recorded.
func TestUsageIsACause(t *testing.T) {
	for policy, want := range map[string]bool{"easy": false, "slurm": true} {
		list := List(&run.Verdict{ReplayedMean: 1}, &Facts{Lacks: map[string]string{"usage": "lacks usage", "qos": "lacks qos", "window": "lacks window"},
			Recorded: &run.Manifest{}, Replayed: &run.Manifest{Engine: "sim", Policy: policy}})
		if text := strings.Join(list, "\n"); strings.Contains(text, "lacks usage") != want || strings.Contains(text, "lacks qos") != want || strings.Contains(text, "lacks window") {
			t.Errorf("%s: %q", policy, list)
		}
	}
}
