package workload

import (
	"cmp"
	"iter"
	"reflect"
	"runtime"
	"slices"
	"sync"

	"rmreplay/internal/hpc"
	"rmreplay/internal/packed"
)

// Jobs are the jobs of a workload, each packed to the fields that it sets: an [hpc.Job] has
// a field for every option of sbatch, and takes 832 bytes; a job of a log takes some fifty
// here. The zero Jobs are none.
//
// A job that is read is a copy. To change one of the list, put the copy back with Set.
// A copy of Jobs is like a copy of a slice: what one of them sets or puts into another
// order the other one sees; see [Jobs.Clone]. Several goroutines may read them at once.
type Jobs struct {
	list  []packedJob
	store *packed.Store[hpc.Job]
}

// packedJob has beside the job what jobs are put in order by.
type packedJob struct {
	submit hpc.Time
	ref    packed.Ref
}

// JobsOf packs jobs.
func JobsOf(jobs ...*hpc.Job) Jobs {
	var l Jobs
	l.list = slices.Grow(l.list, len(jobs))
	for _, job := range jobs {
		l.Append(job)
	}
	return l
}

// pack makes a record of a job.
func (l *Jobs) pack(job *hpc.Job) packedJob {
	if l.store == nil {
		l.store = packed.NewStore[hpc.Job]()
	}
	return packedJob{job.Submit, l.store.Put(job)}
}

// Len is how many there are.
func (l *Jobs) Len() int { return len(l.list) }

// Append adds a job behind the others.
func (l *Jobs) Append(job *hpc.Job) { l.list = append(l.list, l.pack(job)) }

// Concat adds the jobs of another list behind the others.
func (l *Jobs) Concat(other *Jobs) {
	for _, job := range other.All() {
		l.Append(job)
	}
}

// At returns job i, from 0, as a copy that is the caller's.
func (l *Jobs) At(i int) *hpc.Job {
	job := new(hpc.Job)
	l.Get(i, job)
	return job
}

// Get makes *job a copy of job i. What its Recorded and SWF point to, if they do, is written
// over and used again.
func (l *Jobs) Get(i int, job *hpc.Job) { l.store.Get(l.list[i].ref, job) }

// Submit returns the submit time of job i.
func (l *Jobs) Submit(i int) hpc.Time { return l.list[i].submit }

// Set replaces job i.
func (l *Jobs) Set(i int, job *hpc.Job) { l.list[i] = l.pack(job) }

// Change changes job i.
func (l *Jobs) Change(i int, change func(*hpc.Job)) {
	job := l.At(i)
	change(job)
	l.Set(i, job)
}

// All visits every job. A job is valid until the next one comes: who keeps it keeps a copy.
// Set may replace it meanwhile.
func (l *Jobs) All() iter.Seq2[int, *hpc.Job] { return l.between(0, l.Len()) }

// InParts has as many goroutines as there are processors visit a part of the jobs each, and
// returns what they return, in the order of the jobs. As in [Jobs.All], a job is valid until
// the next one comes.
func InParts[R any](l *Jobs, visit func(iter.Seq2[int, *hpc.Job]) R) []R {
	results := make([]R, runtime.GOMAXPROCS(0))
	var group sync.WaitGroup
	for part := range results {
		from, to := part*l.Len()/len(results), (part+1)*l.Len()/len(results)
		group.Go(func() { results[part] = visit(l.between(from, to)) })
	}
	group.Wait()
	return results
}

// between visits the jobs from one place up to, but without, another.
func (l *Jobs) between(from, to int) iter.Seq2[int, *hpc.Job] {
	return func(yield func(int, *hpc.Job) bool) {
		job := new(hpc.Job)
		for i := from; i < to; i++ {
			l.Get(i, job)
			if !yield(i, job) {
				return
			}
		}
	}
}

// List returns copies of all of them.
func (l *Jobs) List() []*hpc.Job {
	list := make([]*hpc.Job, len(l.list))
	for i := range list {
		list[i] = l.At(i)
	}
	return list
}

// First are the first n of them, as far as there are so many, in a list of its own.
func (l *Jobs) First(n int) Jobs {
	return Jobs{slices.Clone(l.list[:min(n, len(l.list))]), l.store}
}

// Clone returns a list of its own of the same jobs.
func (l *Jobs) Clone() Jobs { return l.First(len(l.list)) }

// Pick returns the jobs at these places, in their order.
func (l *Jobs) Pick(places []int) Jobs {
	list := make([]packedJob, len(places))
	for i, place := range places {
		list[i] = l.list[place]
	}
	return Jobs{list, l.store}
}

// Delete removes the jobs for which unwanted is true.
func (l *Jobs) Delete(unwanted func(*hpc.Job) bool) {
	kept := l.list[:0]
	for i, job := range l.All() {
		if !unwanted(job) {
			kept = append(kept, l.list[i])
		}
	}
	clear(l.list[len(kept):])
	l.list = kept
}

// Sort puts the jobs into the order of their submission; those of one instant keep theirs.
func (l *Jobs) Sort() {
	slices.SortStableFunc(l.list, func(a, b packedJob) int { return cmp.Compare(a.submit, b.submit) })
}

// Equal reports whether the same jobs are in both lists, in the same order.
func (l Jobs) Equal(other Jobs) bool {
	if l.Len() != other.Len() {
		return false
	}
	for i, job := range l.All() {
		if !reflect.DeepEqual(job, other.At(i)) {
			return false
		}
	}
	return true
}
