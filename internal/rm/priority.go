package rm

// PriorityPart is a part of a job's priority, in points.
type PriorityPart struct {
	// Name is a column of Slurm's sprio -l in lower case: age, assoc, fairshare, jobsize, partition,
	// qos, site, nice, or tres/ and a resource.
	Name string `parquet:"name,dict" json:"name"`
	// Points is what the part adds to the priority; below 0 for a nice value that lowers the priority.
	Points float64 `parquet:"points" json:"points"`
}

// Backfill is what the backfill scheduler did with a job in a cycle.
type Backfill string

// The results of a backfill cycle for a job that the cycle does not start.
const (
	// Planned jobs have a planned start, and nodes that are reserved for them from that start on.
	Planned Backfill = "planned"
	// NotReached are jobs that the cycle did not reach. The cycle ended earlier because of
	// bf_max_job_test, bf_max_job_start, bf_node_space_size or bf_max_time, or after a pause.
	NotReached Backfill = "not-reached"
	// UserDepth and PartitionDepth are jobs above bf_max_job_user, bf_max_job_part or
	// bf_max_job_user_part.
	UserDepth      Backfill = "user-depth"
	PartitionDepth Backfill = "partition-depth"
	// OverLimit are jobs that a limit of an association or a QOS keeps pending.
	OverLimit Backfill = "over-limit"
	// NoNodes are jobs for which planned jobs leave too few nodes at every start within bf_window.
	NoNodes Backfill = "no-nodes"
	// BeyondWindow are jobs whose earliest start would be after bf_window.
	BeyondWindow Backfill = "beyond-window"
	// NotPlanned are jobs that cannot start now and that a setting excludes from the plan:
	// bf_min_age_reserve, bf_min_prio_reserve, bf_one_resv_per_job, bf_job_part_count_reserve, or
	// NoReserve of the QOS.
	NotPlanned Backfill = "not-planned"
)

// Tried reports whether a cycle looked for nodes for the job.
func (b Backfill) Tried() bool {
	return b == Planned || b == NoNodes || b == BeyondWindow || b == NotPlanned || b == OverLimit
}

// Meaning describes in words what a cycle did with a job.
func (b Backfill) Meaning() string { return backfillMeanings[b] }

var backfillMeanings = map[Backfill]string{
	Planned:        "planned the job",
	NotReached:     "ended before it reached the job",
	UserDepth:      "had tried as many jobs of the user as it may (bf_max_job_user)",
	PartitionDepth: "had tried as many jobs of the partition as it may (bf_max_job_part)",
	OverLimit:      "found the job over a limit of its association or QOS",
	NoNodes:        "found too few nodes that are free of planned jobs",
	BeyondWindow:   "could start the job only after bf_window",
	NotPlanned:     "could not start the job at once, and may not plan its start",
}
