package slurm

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/rm/window"
)

// preRoll gives an adapted slurm.conf the scheduling parameters for the time before a workload's
// window ([window.Scheduling]).
func preRoll(adapted []byte, burst int, backfill time.Duration) []byte {
	return replace(adapted, "SchedulerParameters", func(site string) string {
		return window.Scheduling(site, burst, backfill)
	})
}

// keepPartitions changes an adapted slurm.conf: when slurmctld reads the result, slurmctld keeps
// an administrator's changes to partitions (_restore_part_state in read_config.c).
func keepPartitions(adapted []byte) []byte {
	return replace(adapted, "ReconfigFlags", func(string) string { return "KeepPartInfo" })
}

// replace replaces the value of a key in an adapted slurm.conf. value returns the new value for an
// old value.
func replace(adapted []byte, key string, value func(site string) string) []byte {
	site := ""
	lines := slices.DeleteFunc(bytes.SplitAfter(adapted, []byte("\n")), func(line []byte) bool {
		if !hasPrefixFold(string(line), key+"=") {
			return false
		}
		site = strings.TrimSpace(string(line[len(key)+1:]))
		return true
	})
	return append(bytes.Join(lines, nil), key+"="+value(site)+"\n"...)
}

// hasPrefixFold reports whether s begins with prefix, ignoring case.
func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
