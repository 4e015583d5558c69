package parameters

import "rmreplay/internal/slurmspec"

// Rules are the differences between releases of Slurm that the model knows.
type Rules struct {
	// WholeSeconds says that the background loop wakes at whole seconds (since 23.11). Before, it wakes a
	// second after its last turn, and keeps the phase of slurmctld's start.
	WholeSeconds bool
	// RoundUp says that planned jobs end at the next multiple of bf_resolution (since 24.11). Before, they
	// end at the previous one.
	RoundUp bool
	// RefuseForgotten says that a dependency on the success or failure of a job that slurmctld has forgotten
	// is refused (since 23.02).
	RefuseForgotten bool
	// Since2411 and Since2605 are the rules of 24.11 and 26.05 for the will-run test and for backfill's
	// tries. Since2505 is about the threads that serve messages.
	Since2411, Since2505, Since2605 bool
}

// RulesOf returns the rules of a release.
func RulesOf(r slurmspec.Release) Rules {
	return Rules{
		RefuseForgotten: r.Since(slurmspec.R2302),
		WholeSeconds:    r.Since(slurmspec.R2311), RoundUp: r.Since(slurmspec.R2411),
		Since2411: r.Since(slurmspec.R2411), Since2505: r.Since(slurmspec.R2505), Since2605: r.Since(slurmspec.R2605),
	}
}
