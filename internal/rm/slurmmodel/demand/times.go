package demand

import (
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/slurmspec"
)

// Times are the time limits of a submission.
type Times struct {
	Limit, Shortest int64 // minutes; Limit is -1 and Shortest (--time-min) is 0 if not given
	Endless         bool
}

// ReadTimes reads the time limits of a submission. The parameter byAdmin says that an operator raises the limit above
// MaxTime. The parameter usual is DefaultTime of the job's partition, -1 without one, and longest is the limit of a job
// without a limit; both are in minutes.
func ReadTimes(d *rpc.JobDesc, byAdmin bool, usual, longest int64) Times {
	t := Times{Limit: -1}
	switch {
	case byAdmin:
		t.Limit, t.Endless = min(int64(d.TimeLimit), longest), d.TimeLimit == slurmspec.Infinite
	case d.TimeLimit != slurmspec.NoVal && d.TimeLimit != slurmspec.Infinite:
		t.Limit = int64(d.TimeLimit)
	case d.TimeLimit == slurmspec.NoVal && usual >= 0:
		t.Limit = usual
	}
	if d.TimeMin != slurmspec.NoVal && !byAdmin {
		t.Shortest = int64(d.TimeMin)
	}
	if d.Deadline > 0 && d.TimeLimit == slurmspec.NoVal && t.Limit < 0 && t.Shortest == 0 {
		t.Shortest = 1
	}
	return t
}
