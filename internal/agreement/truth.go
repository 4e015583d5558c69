// Package agreement measures how well the model of Slurm's scheduler agrees with Slurm on a recorded replay.
// [Follower] makes the model decide in Slurm's state: even if the model decides differently, the jobs start and end
// as in the record. So each decision is compared separately, and a difference does not cause further differences.
package agreement

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
)

// key is a job, or a task of an array.
type key struct {
	job  string
	task int
}

func (k key) String() string {
	if k.task < 0 {
		return k.job
	}
	return fmt.Sprintf("%s_%d", k.job, k.task)
}

// period is a run of a job in the record.
type period struct {
	key
	begin    hpc.Time // with nanoseconds
	nodes    string
	number   int   // the number of the task's earlier runs
	end      int64 // the second in which the task released its nodes; 0 if the record ends earlier
	requeued bool  // whether the job returned to the queue after this run
	state    hpc.State
	priority uint32 // priority at the start; 0 if not known, or if the job started at once
}

// truth has the runs and the waits of a record's jobs.
type truth struct {
	periods  []*period // in the order of their begins
	byKey    map[key][]*period
	bySecond map[int64][]*period // by the second of their begin
	waiting  []run.Event
	asked    map[key]bool // jobs with a recorded reason
	waited   int          // jobs that waited a second or more
}

// tail is how long before the end of an interrupted record the comparison ends. The last seconds before
// an interruption may be missing in the record.
const tail = 10 * time.Second

// until returns the instant up to which a record can be compared. It returns [hpc.Never] for a
// complete record.
func until(m *run.Manifest) hpc.Time {
	if m.State == run.StateComplete {
		return hpc.Never
	}
	return hpc.Unix(m.VirtualEnd.Add(-tail).UnixSeconds())
}

// A job that starts at most atOnce after it became eligible counts as started at once.
const atOnce = 10 * time.Second

// readTruth reads a record.
func readTruth(r *run.Run) (*truth, error) {
	events, err := r.Events()
	if err != nil {
		return nil, err
	}
	rows, err := r.Jobs()
	if err != nil {
		return nil, err
	}
	t := &truth{byKey: map[key][]*period{}, bySecond: map[int64][]*period{}, asked: map[key]bool{}}
	for i := range events {
		t.add(&events[i])
	}
	for i := range rows {
		row := &rows[i]
		list := t.byKey[key{row.Job, row.Task}]
		if row.Start.UnixSeconds() > row.Submit.UnixSeconds() {
			t.waited++
		}
		if len(list) == 0 {
			continue
		}
		p := list[len(list)-1]
		// For a job that started at once, the accounting has the priority at the submission.
		if row.Start.Sub(max(row.Submit, row.Eligible)) > atOnce {
			p.priority = row.Priority
		}
	}
	slices.SortStableFunc(t.periods, func(a, b *period) int { return cmp.Compare(a.begin, b.begin) })
	return t, nil
}

// add adds an event.
func (t *truth) add(e *run.Event) {
	k := key{e.Job, e.Task}
	list := t.byKey[k]
	switch e.Kind {
	case rm.Started:
		p := &period{key: k, number: len(list), begin: e.At, nodes: e.Nodes}
		t.periods, t.byKey[k] = append(t.periods, p), append(list, p)
		second := e.At.UnixSeconds()
		t.bySecond[second] = append(t.bySecond[second], p)
	case rm.Ended, rm.Requeue:
		if len(list) == 0 || list[len(list)-1].end != 0 {
			return
		}
		p := list[len(list)-1]
		p.end, p.state, p.requeued = e.End.UnixSeconds(), e.State, e.Kind == rm.Requeue
		if e.End == 0 {
			p.end = e.At.UnixSeconds()
		}
	case rm.Waiting:
		t.waiting = append(t.waiting, *e)
		t.asked[k] = t.asked[k] || e.Reason != ""
	}
}

// run returns a task's run with the given number, which counts from 0; nil if the record has no
// such run.
func (t *truth) run(k key, number int) *period {
	if list := t.byKey[k]; number < len(list) {
		return list[number]
	}
	return nil
}
