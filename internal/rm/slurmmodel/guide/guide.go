// Package guide lets another scheduler's decisions overrule those of the model.
package guide

import (
	"fmt"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
)

// Guide overrules the model, so that the model makes each decision in the state of another scheduler
// (Guide in the configuration of package slurmmodel). The inputs of the workload stay the same.
type Guide interface {
	// Pass says that a pass of the main scheduler, or a cycle of backfill, begins with a queue of jobs.
	Pass(backfill bool, queue []Task)
	// Start says that the model would start a job on nodes, a host list. It returns the nodes on which the
	// job starts; "" keeps it waiting, and blocks says whether the jobs behind it in its partition wait
	// with it.
	Start(v View, nodes string) (on string, blocks bool)
	// End reports whether a running job ends now, when the model would end it.
	End(t Task) bool
}

// Task names a job, or a task of an array, in its present run.
type Task struct {
	Job  string // the workload's ID
	Task int    // -1 for a job that is no array; the first one of tasks that pend together
	// Restarts is the number of its earlier runs.
	Restarts int
}

// Name returns the name of the task: ID, or ID_TASK.
func (t Task) Name() string {
	if t.Task < 0 {
		return t.Job
	}
	return fmt.Sprintf("%s_%d", t.Job, t.Task)
}

// View is what the model knows of a job at an instant.
type View struct {
	Task
	Partition string
	State     hpc.State
	Priority  uint32
	Parts     []rm.PriorityPart
	Reason    string   // in Slurm's words
	Planned   hpc.Time // start that backfill plans; 0 for none
	Backfill  rm.Backfill
	// IdleNodes is the number of nodes of its partition in service and without jobs.
	IdleNodes int
}
