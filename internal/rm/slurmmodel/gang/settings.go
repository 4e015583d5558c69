package gang

import (
	"strings"
	"time"

	"rmreplay/internal/rm/slurmmodel/keys"
	"rmreplay/internal/rm/slurmmodel/parameters"
	"rmreplay/internal/rm/slurmmodel/rows"
)

// Settings are the keys of slurm.conf for gang scheduling.
type Settings struct {
	Slice  time.Duration
	Search rows.Search      // how jobs find cores to share
	Rows   []rows.Partition // one for each partition
}

// Read reads the settings. The parameter partitions must have their tiers; Read sets their numbers
// of rows. The result is nil without PreemptMode=GANG.
func Read(get keys.Get, rules parameters.Rules, partitions []rows.Partition) *Settings {
	if !strings.Contains(strings.ToUpper(keys.Value(get, "PreemptMode")), "GANG") {
		return nil
	}
	kind := strings.ToLower(keys.Value(get, "PreemptType"))
	s := &Settings{
		Slice: time.Duration(keys.Number(get, "SchedulerTimeSlice", 30)) * time.Second, Rows: partitions,
		Search: rows.Search{
			ByTier: strings.Contains(kind, "partition"), ByQOS: strings.Contains(kind, "qos"), Since2411: rules.Since2411,
		},
	}
	for i := range partitions {
		if partitions[i].Rows = 1; s.Search.ByQOS {
			partitions[i].Rows = 2
		}
	}
	return s
}
