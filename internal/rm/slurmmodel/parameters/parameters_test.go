package parameters

import (
	"reflect"
	"strings"
	"testing"

	"rmreplay/internal/slurmspec/options"
)

// The defaults of package options are those of the model: with a default in slurm.conf, nothing changes.
func TestDefaults(t *testing.T) {
	read := func(name, value string) *Parameters {
		key, option, isOption := strings.Cut(name, ".")
		if isOption {
			value = option + "=" + value
		}
		return Read(func(asked string) (string, bool) {
			if strings.EqualFold(asked, key) {
				return value, true
			}
			return "", false
		})
	}
	names := []string{"CompleteWait", "JobRequeue", "KillWait", "MessageTimeout", "MinJobAge", "OverTimeLimit",
		"ResvOverRun", "FirstJobId", "PriorityCalcPeriod", "SchedulerType"}
	for name, o := range options.Scheduler {
		if o.Number {
			names = append(names, "SchedulerParameters."+name)
		}
	}
	known := 0
	for _, name := range names {
		value := options.Default(name)
		if value == "" {
			continue
		}
		known++
		if got, want := read(name, value), read("", ""); !reflect.DeepEqual(got, want) {
			t.Errorf("%s=%s: %+v, want as without it: %+v", name, value, got, want)
		}
	}
	if known < 25 {
		t.Errorf("%d defaults are known", known)
	}
}
