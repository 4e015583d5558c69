package history

import "rmreplay/internal/slurmspec"

// Behaviour is a change of what Slurm does under an unchanged configuration. The change may give a
// workload another schedule.
type Behaviour struct {
	// Since is the release that brought the change, with its patch. All newer series have it.
	Since slurmspec.Release
	// Topic is the part of Slurm that behaves differently.
	Topic Topic
	// What is the change as a sentence without a period.
	What string
	// Source names the place in Slurm's source or release notes that shows the change.
	Source string
}

// Topic is a part of Slurm.
type Topic string

// The topics of changes.
const (
	Submission Topic = "submission" // what sbatch asks for, and what slurmctld accepts
	MainLoop   Topic = "main loop"  // of slurmctld: the main scheduler, and time limits
	Backfill   Topic = "backfill"
	Placement  Topic = "placement" // which nodes a job gets
)

// Behaviours are the known changes of behaviour from 22.05.8 to 26.05.3, oldest first. The list has changes that can
// affect ordinary batch jobs. The list is not complete: each series changed some thousand lines of the scheduler.
var Behaviours = []Behaviour{
	{patch(slurmspec.R2302, 0), Submission, "slurmctld refuses afterok and afternotok on a job that it has forgotten; " +
		"before, it treated the dependency as met",
		"src/slurmctld/job_scheduler.c, _parse_dependency_jobid_new"},
	{patch(slurmspec.R2302, 0), Submission, "sbatch leaves the number of tasks to slurmctld if --ntasks-per-node is " +
		"given without --ntasks",
		"src/sbatch/opt.c, _opt_verify; RELEASE_NOTES of 23.02"},
	{patch(slurmspec.R2302, 1), Backfill, "bf_max_job_test counts the tasks of job arrays differently",
		"NEWS of 23.02.1"},
	{patch(slurmspec.R2311, 0), MainLoop, "slurmctld's main loop, which starts jobs and tests time limits, wakes at " +
		"whole seconds; before, it slept for a second after each round",
		"src/slurmctld/controller.c, _slurmctld_background"},
	{patch(slurmspec.R2311, 2), Submission, "sbatch -n with --ntasks-per-node and without -N requests the resulting " +
		"number of nodes; before, slurmctld assumed one node for such a job in its job-size priority and its size limits",
		"src/common/slurm_opt.c, slurm_opt_create_job_desc; NEWS of 23.11.2"},
	{patch(slurmspec.R2311, 2), Backfill, "backfill starts no job beyond its window (bf_window)",
		"NEWS of 23.11.2"},
	{patch(slurmspec.R2405, 4), Backfill, "backfill does not plan two jobs on the same resources if the time limit of " +
		"one is below bf_resolution",
		"NEWS of 24.05.4"},
	{patch(slurmspec.R2411, 0), Backfill, "backfill plans a start for some jobs that it did not plan before, so that " +
		"jobs " +
		"of lower priority no longer delay them",
		"NEWS of 24.11.0rc1"},
	{patch(slurmspec.R2411, 0), Submission, "to start a job at its submission, slurmctld also considers the submission " +
		"times of jobs of the same priority, and the priority tiers of partitions",
		"NEWS of 24.11.0rc1"},
	{patch(slurmspec.R2505, 1), Backfill, "running jobs do not delay jobs that backfill plans on other nodes",
		"CHANGELOG of 25.05.1"},
	{patch(slurmspec.R2511, 4), Backfill, "with bf_continue a backfill cycle continues when the state of a node changes",
		"CHANGELOG of 25.11.4"},
	{patch(slurmspec.R2511, 5), Backfill, "backfill heeds OverSubscribe=EXCLUSIVE of a partition",
		"CHANGELOG of 25.11.5"},
	{patch(slurmspec.R2605, 0), Placement, "a job of at most one node gets the first node, in the order of weights, " +
		"that can run it; before, the topology plugin chose among all nodes",
		"src/plugins/select/cons_tres/job_test.c, _get_one_res; CHANGELOG of 26.05.0rc1"},
}

// patch returns a release of a series.
func patch(series slurmspec.Release, number int) slurmspec.Release {
	series.Patch = number
	return series
}

// BehavioursBetween returns the changes that only one of two releases has, oldest first. A series
// without a patch counts as its first release.
func BehavioursBetween(a, b slurmspec.Release) []Behaviour {
	a, b = first(a), first(b)
	if a.Compare(b) > 0 {
		a, b = b, a
	}
	var list []Behaviour
	for _, change := range Behaviours {
		if change.Since.Compare(a) > 0 && change.Since.Compare(b) <= 0 {
			list = append(list, change)
		}
	}
	return list
}

func first(r slurmspec.Release) slurmspec.Release {
	r.Patch = max(r.Patch, 0)
	return r
}
