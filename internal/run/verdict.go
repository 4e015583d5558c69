package run

import "rmreplay/internal/hpc"

// Verdict says how far a replay agrees with the record of its workload. Waits and differences are in seconds, over the
// jobs that started in both and that were not preset. Package compare makes it.
type Verdict struct {
	Jobs int `json:"jobs"`
	// SameStart is the number of jobs whose starts are at most a minute apart.
	SameStart int `json:"same_start_jobs"`
	// OnlyRecorded and OnlyReplayed count the jobs that started only in the record, or only in the
	// replay. Jobs that an interrupted replay did not reach do not count.
	OnlyRecorded int `json:"only_recorded_jobs"`
	OnlyReplayed int `json:"only_replayed_jobs"`

	RecordedMean   float64 `json:"recorded_mean_wait_s"`
	ReplayedMean   float64 `json:"replayed_mean_wait_s"`
	RecordedMedian float64 `json:"recorded_median_wait_s"`
	ReplayedMedian float64 `json:"replayed_median_wait_s"`
	MeanAbsolute   float64 `json:"mean_absolute_difference_s"`
	// Distance is the Euclidean distance between the vectors of recorded and replayed waits. For several replays, Distance
	// is the mean of their distances. BetweenReplays is the mean distance between the replays; 0 for one replay. If
	// Distance is much larger than BetweenReplays, chance does not explain it.
	Distance       float64 `json:"distance_s"`
	BetweenReplays float64 `json:"distance_between_replays_s,omitempty"`

	// First is the first job whose starts differ by more than a minute; nil without such a job.
	First *FirstDifference `json:"first_difference,omitempty"`
	// FreeNodes is the share of the recorded waits with enough free nodes: the record shows that, during the wait, as many
	// nodes were free as the job later got. FreeNodes is from 0 to 1, and 0 if the partitions are not known. A high share
	// means that jobs waited for reasons that are not in the record.
	FreeNodes float64 `json:"waits_with_free_nodes"`
	// Groups are the groups of jobs with the largest shares of the sum of absolute differences, at
	// most one of each kind, the largest first.
	Groups []VerdictGroup `json:"groups"`
	// LookAt are usual causes of such differences, the most likely first.
	LookAt []string `json:"look_at"`
}

// FirstDifference is the first job whose starts differ. Instants are RFC 3339 in UTC.
type FirstDifference struct {
	Job      string `json:"job"`
	Recorded string `json:"recorded_start"`
	Replayed string `json:"replayed_start"`
	// At is the earlier of the two starts.
	At hpc.Time `json:"-"`
}

// VerdictGroup is a group of jobs whose waits differ.
type VerdictGroup struct {
	By       string  `json:"by"` // user, account, partition, qos or size
	Name     string  `json:"name"`
	Jobs     int     `json:"jobs"`
	Share    float64 `json:"share_of_difference"` // from 0 to 1
	Recorded float64 `json:"recorded_mean_wait_s"`
	Replayed float64 `json:"replayed_mean_wait_s"`
}
