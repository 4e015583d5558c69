package window

import (
	"strings"

	"rmreplay/internal/hpc"
)

// ArrayOf returns the workload's ID of the array to which a job belongs, or "" if it belongs to no
// array. A window divides arrays into jobs called ARRAY_TASK ([arrays.Split]).
func ArrayOf(job *hpc.Job) string {
	if on := strings.LastIndexByte(job.ID, '_'); on > 0 && job.Reservation == Reservation {
		return job.ID[:on]
	}
	if job.Array != "" {
		return job.ID
	}
	return ""
}
