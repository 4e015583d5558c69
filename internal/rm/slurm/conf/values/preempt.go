package values

import (
	"errors"
	"fmt"
	"slices"

	"rmreplay/internal/rm/slurm/associations"
)

// preemptMode checks the modes in one value. The caller has checked that the release knows each mode.
func preemptMode(value string) error { return associations.ExclusiveModes(words(value)) }

// preemption checks whether PreemptMode fits PreemptType.
func preemption(get Settings) error {
	modes, plugin := words(get.lower("PreemptMode")), get.lower("PreemptType")
	suspends := slices.Contains(modes, "suspend") || slices.Contains(modes, "on")
	if suspends && !slices.Contains(modes, "gang") {
		return errors.New("slurmctld refuses SUSPEND without GANG (want SUSPEND,GANG)")
	}
	off := !slices.ContainsFunc(modes, func(mode string) bool {
		return slices.Contains([]string{"cancel", "on", "requeue", "suspend"}, mode)
	})
	switch plugin {
	case "", "preempt/none":
		if !off {
			return errors.New("slurmctld refuses this value without a PreemptType (want PreemptType=preempt/qos or " +
				"preempt/partition_prio, or PreemptMode=OFF)")
		}
	case "preempt/qos", "preempt/partition_prio":
		if off {
			return errors.New("slurmctld refuses a PreemptType without a mode (want PreemptMode=CANCEL, REQUEUE or " +
				"SUSPEND,GANG)")
		}
	}
	return nil
}

// NothingPreempts warns if PreemptType is preempt/qos and the site's commands for sacctmgr let no
// QOS preempt another QOS. slurmctld then starts, but never preempts a job. accounts are these
// commands. file is the name of their file; "" for a cluster without commands.
func NothingPreempts(get Settings, accounts []byte, file string) []string {
	preempts := func(s associations.Setting) bool { return s.Option == "preempt" && s.Value != "" && s.Value != "-1" }
	if get.lower("PreemptType") != "preempt/qos" || slices.ContainsFunc(associations.Settings(accounts), preempts) {
		return nil
	}
	where := "the cluster directory lacks accounts.sacctmgr, which could set preempt= for a QOS"
	if file != "" {
		where = file + " gives preempt= to no QOS"
	}
	return []string{fmt.Sprintf("PreemptType=preempt/qos has no effect: %s (want, for example, modify qos where name=high "+
		"set preempt=normal)", where)}
}
