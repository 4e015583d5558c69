package tune

import (
	"strings"
	"testing"
)

// A parameter that slurm.conf does not have is shown with Slurm's default, if the default is known.
func TestDefaultOfSetting(t *testing.T) {
	f := &File{Slurm: &slurm{}, Space: Space{
		{Name: "SchedulerParameters.bf_interval", Kind: Integer, Low: 10, High: 90},
		{Name: "SchedulerParameters.bf_continue", Kind: Categorical, Values: []string{"true", "false"}},
		{Name: "partition batch MaxTime", Kind: Categorical, Values: []string{"1-0", "2-0"}},
		{Name: "TopologyParam", Kind: Categorical, Values: []string{"a", "b"}},
		{Name: "KillWait", Kind: Integer, Low: 1, High: 90, Now: "60"},
	}}
	var r Result
	for i := range f.Space {
		r.Setting = append(r.Setting, f.change(i))
	}
	var b strings.Builder
	r.renderSetting(&b)
	got := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{
		"bf_interval 30 (default) -> as it is", "bf_continue false (default) ->", "MaxTime UNLIMITED (default) ->",
		"TopologyParam not set ->",
		"KillWait 60 -> as it is",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, &b)
		}
	}
}
