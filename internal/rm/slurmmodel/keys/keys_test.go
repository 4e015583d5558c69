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
// case. For a value that is not a number, it expects the default.
func TestOptionsAreFoundAsSlurmctldFindsThem(t *testing.T) {
	o := OptionsOf(lines("SchedulerParameters=BF_Interval=45,bf_max_job_test=x,bf_busy_nodes"))
	if got := o.Number("bf_interval", 30); got != 45 {
		t.Errorf("bf_interval is %d, want 45", got)
	}
	if got := o.Number("bf_max_job_test", 500); got != 500 {
		t.Errorf("bf_max_job_test=x is %d, want the default, 500", got)
	}
	if !o.Has("bf_busy_nodes") || o.Has("bf_one_resv_per_job") {
		t.Error("bf_busy_nodes is not found, or an option that is not there is")
	}
}
