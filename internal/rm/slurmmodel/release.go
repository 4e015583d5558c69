package slurmmodel

import "rmreplay/internal/slurmspec"

// rules are the differences between releases of Slurm that the model knows.
type rules struct {
	// wholeSeconds says that the background loop wakes at whole seconds (since 23.11). Before, it wakes a
	// second after its last turn, and keeps the phase of slurmctld's start.
	wholeSeconds bool
	// roundUp says that planned jobs end at the next multiple of bf_resolution (since 24.11). Before, they
	// end at the previous one.
	roundUp bool
	// refuseForgotten says that a dependency on the success or failure of a job that slurmctld has forgotten
	// is refused (since 23.02).
	refuseForgotten bool
	// since2411 are the rules of 24.11 of the will-run test and of backfill's tries, since2605 those of 26.05.
	since2411, since2605 bool
}

func rulesOf(r slurmspec.Release) rules {
	return rules{
		refuseForgotten: r.Since(slurmspec.R2302),
		wholeSeconds:    r.Since(slurmspec.R2311), roundUp: r.Since(slurmspec.R2411),
		since2411: r.Since(slurmspec.R2411), since2605: r.Since(slurmspec.R2605),
	}
}
