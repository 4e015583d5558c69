// Package queues has the sorted queue of a scheduler.
package queues

import (
	"cmp"
	"slices"

	"rmreplay/internal/rm/slurmmodel/preemption"
	"rmreplay/internal/rm/slurmmodel/priority"
)

// Queue has records of jobs that may start. Sorting moves only the short ranks, not the records, because a
// pass of a long queue may end after a few records.
type Queue[R any] struct {
	records []R             // in the order of slurmctld's list of jobs
	order   []priority.Rank // in slurmctld's order; Place is the index in records
}

// Clear removes all records.
func (q *Queue[R]) Clear() { q.records, q.order = q.records[:0], q.order[:0] }

// Add adds a record with its rank. It sets the rank's Place.
func (q *Queue[R]) Add(r R, rank priority.Rank) {
	rank.Place = int32(len(q.records))
	q.order, q.records = append(q.order, rank), append(q.records, r)
}

// Len returns the number of records.
func (q *Queue[R]) Len() int { return len(q.order) }

// At returns a record of the sorted queue.
func (q *Queue[R]) At(i int) R { return q.records[q.order[i].Place] }

// Sort sorts the queue (sort_job_queue2 in job_scheduler.c). With preemption the function before
// compares records before their ranks are compared.
func (q *Queue[R]) Sort(preempts bool, before func(a, b *R) int) {
	if !preempts {
		slices.SortFunc(q.order, priority.Rank.Compare)
		return
	}
	preemption.Sort(q.order, func(a, b priority.Rank) int {
		return cmp.Or(before(&q.records[a.Place], &q.records[b.Place]), a.Compare(b))
	})
}
