package parameters

import "rmreplay/internal/slurmspec"

// Rules are the differences between Slurm's releases that the model has.
type Rules struct {
	// WholeSeconds says that the background loop wakes at whole seconds (since 23.11). Before, the loop wakes a second
	// after its last turn, so it keeps the phase of slurmctld's start.
	WholeSeconds bool
	// RoundUp says that ends of planned jobs are rounded up to a multiple of bf_resolution (since 24.11). Before, these
	// ends are rounded down.
	RoundUp bool
	// RefuseForgotten says that slurmctld refuses afterok and afternotok on a job that it has
	// forgotten (since 23.02).
	RefuseForgotten bool
	// Since2411 and Since2605 stand for many rules of 24.11 and 26.05, mostly of the will-run test
	// and of backfill. Since2505 is about the threads that serve messages.
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
