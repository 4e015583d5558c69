package gang

import (
	"strings"
	"time"

	"rmreplay/internal/rm/slurmmodel/keys"
	"rmreplay/internal/rm/slurmmodel/parameters"
	"rmreplay/internal/rm/slurmmodel/rows"
)

// Settings are the keys of slurm.conf for jobs that share cores.
type Settings struct {
	Gang   bool             // PreemptMode=GANG
	Slice  time.Duration    // time slice of gang scheduling
	Search rows.Search      // how jobs find cores to share
	Rows   []rows.Partition // one for each partition
}

// Read reads the settings. The parameter partitions must have their tiers and, as the numbers of rows, how many
// jobs may have the same core; preempt/qos adds a row. The result has no rows if jobs never share cores. The
// parameter shared says that partitions have OverSubscribe=YES or FORCE.
func Read(get keys.Get, rules parameters.Rules, partitions []rows.Partition, shared bool) Settings {
	gang := strings.Contains(strings.ToUpper(keys.Value(get, "PreemptMode")), "GANG")
	if !gang && !shared {
		return Settings{}
	}
	kind := strings.ToLower(keys.Value(get, "PreemptType"))
	s := Settings{
		Gang: gang, Slice: time.Duration(keys.Number(get, "SchedulerTimeSlice", 30)) * time.Second, Rows: partitions,
		Search: rows.Search{
			ByTier: strings.Contains(kind, "partition"), ByQOS: strings.Contains(kind, "qos"), Since2411: rules.Since2411,
		},
	}
	for i := range partitions {
		if partitions[i].Rows = max(1, partitions[i].Rows); s.Search.ByQOS {
			partitions[i].Rows++
		}
	}
	return s
}
