package keys

import (
	"strings"
	"testing"
)

// lines returns the keys of lines such as "SelectType=select/cons_tres".
func lines(text string) func(string) (string, bool) {
	keys := map[string]string{}
	for line := range strings.FieldsSeq(text) {
		key, v, _ := strings.Cut(line, "=")
		keys[key] = v
	}
	return func(key string) (string, bool) {
		v, ok := keys[key]
		return v, ok
	}
}

// TestOptionsAreFoundAsSlurmctldFindsThem finds options anywhere in the text, in upper and lower
// case. It reads numbers with atoi, and expects the default for a number that slurmctld refuses.
func TestOptionsAreFoundAsSlurmctldFindsThem(t *testing.T) {
	o := OptionsOf(lines("SchedulerParameters=BF_Interval=45,bf_max_job_test=x,bf_busy_nodes"))
	if got := o.Number("bf_interval", 30); got != 45 {
		t.Errorf("bf_interval is %d, want 45", got)
	}
	if got := o.Number("bf_max_job_test", 500); got != 500 {
		t.Errorf("bf_max_job_test=x is %d, want the default, 500", got)
	}
	o = OptionsOf(lines("SchedulerParameters=bf_interval=5m,bf_window=0,bf_max_job_array_resv=x,bf_resolution=4000,bf_max_job_user=-1"))
	for _, c := range []struct {
		name            string
		otherwise, want int64
	}{
		{"bf_interval", 30, 5}, {"bf_window", 1440, 1440}, {"bf_max_job_array_resv", 20, 0}, {"bf_resolution", 60, 60},
		{"bf_max_job_user", 7, 7},
	} {
		if got := o.Number(c.name, c.otherwise); got != c.want {
			t.Errorf("%s is %d, want %d", c.name, got, c.want)
		}
	}
	if o = "bf_busy_nodes"; !o.Has("bf_busy_nodes") || o.Has("bf_one_resv_per_job") {
		t.Error("bf_busy_nodes is not found, or an option that is not there is")
	}
}
