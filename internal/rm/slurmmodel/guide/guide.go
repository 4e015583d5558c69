// Package guide lets another scheduler's decisions overrule those of the model.
package guide

import (
	"fmt"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
)

// Guide replaces the model's decisions by those of another scheduler (the field Guide of
// slurmmodel.Config). The model then makes each of its decisions in the state of the other scheduler. The
// workload's inputs stay the same.
type Guide interface {
	// Pass is called when a pass of the main scheduler or a cycle of backfill begins. queue has
	// the jobs that the pass or cycle will consider, in order.
	Pass(backfill bool, queue []Task)
	// Start is called when the model would start a job on nodes, a host list. It returns the nodes
	// on which the job starts, or "" to keep the job waiting. If the job keeps waiting, the result
	// blocks says whether the jobs behind it in its partition must wait, too.
	Start(v View, nodes string) (on string, blocks bool)
	// End is called when the model would end a running job. It reports whether the job ends now.
	End(t Task) bool
}

// Task names one run of a job, or of a task of an array.
type Task struct {
	Job  string // the workload's ID
	Task int    // -1 if the job is not an array; the first of several tasks that share a record
	// Restarts is the number of earlier runs.
	Restarts int
}

// Name returns the name of the task: ID, or ID_TASK.
func (t Task) Name() string {
	if t.Task < 0 {
		return t.Job
	}
	return fmt.Sprintf("%s_%d", t.Job, t.Task)
}

// View is the model's state of a job at an instant.
type View struct {
	Task
	Partition string
	State     hpc.State
	Priority  uint32
	Parts     []rm.PriorityPart
	Reason    string   // in Slurm's words
	Planned   hpc.Time // start that backfill has planned; 0 if it plans no start
	Backfill  rm.Backfill
	// IdleNodes is the number of nodes in the job's partition that are in service and have no jobs.
	IdleNodes int
}
