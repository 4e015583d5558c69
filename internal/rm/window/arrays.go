package window

import (
	"rmreplay/internal/hpc"
)

// ArrayOf returns the workload's ID of the array to which a job belongs, or "" if it belongs to no
// array. A window divides arrays into jobs called ARRAY_TASK ([arrays.Split]).
func ArrayOf(job *hpc.Job) string {
	if array, _, ok := hpc.SplitTask(job.ID); ok && job.Reservation == Reservation {
		return array
	}
	if job.Array != "" {
		return job.ID
	}
	return ""
}
