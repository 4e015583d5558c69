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

// Jobs are the jobs of a workload, packed: only fields that are set take space. An [hpc.Job] has a
// field for every option of sbatch and takes over 800 bytes; a packed job of a log takes about 50.
// The zero Jobs has no jobs.
//
// The methods return copies of jobs. To change a job of the list, put the changed copy back
// with Set. A copy of Jobs shares its jobs and their order with the original, as a copy of a
// slice does; see [Jobs.Clone]. Several goroutines may read the same Jobs at once.
type Jobs struct {
	list  []packedJob
	store *packed.Store[hpc.Job]
	// origins are indices into records, one for each job of list. origins is nil while no job has an origin.
	origins []packed.Ref
	records *packed.Store[Origin] // its first record means no origin
}

// Origin is a job's record in the source of its workload. It stays with the job through every
// change of the list until SetOrigin replaces it. An appended job has no origin.
type Origin struct {
	// Record is the record's number in the source, counted from 1; 0 if it is not known.
	Record int
	// Extra has the facts of the record that the job cannot express. Only the package of the
	// source's format can read it.
	Extra string
}

// packedJob has the submit time beside the job, because jobs are sorted by the submit time.
type packedJob struct {
	submit hpc.Time
	ref    packed.Ref
}

// JobsOf returns a list of these jobs.
func JobsOf(jobs ...*hpc.Job) Jobs {
	var l Jobs
	l.list = slices.Grow(l.list, len(jobs))
	for _, job := range jobs {
		l.Append(job)
	}
	return l
}

// pack makes the packed record of a job.
func (l *Jobs) pack(job *hpc.Job) packedJob {
	if l.store == nil {
		l.store = packed.NewStore[hpc.Job]()
	}
	return packedJob{job.Submit, l.store.Put(job)}
}

// Len returns the number of jobs.
func (l *Jobs) Len() int { return len(l.list) }

// Append adds a copy of a job at the end.
func (l *Jobs) Append(job *hpc.Job) {
	l.list = append(l.list, l.pack(job))
	if l.origins != nil {
		l.origins = append(l.origins, 0)
	}
}

// Origin returns the origin of job i, or the zero Origin if the job has no origin.
func (l *Jobs) Origin(i int) (o Origin) {
	if l.origins != nil {
		l.records.Get(l.origins[i], &o)
	}
	return o
}

// SetOrigin sets the origin of job i.
func (l *Jobs) SetOrigin(i int, o Origin) {
	if l.origins == nil {
		if o == (Origin{}) {
			return
		}
		l.origins, l.records = make([]packed.Ref, len(l.list), cap(l.list)), packed.NewStore[Origin]()
		l.records.Put(&Origin{})
	}
	ref := packed.Ref(0)
	if o != (Origin{}) {
		ref = l.records.Put(&o)
	}
	l.origins[i] = ref
}

// DropOrigins removes all origins.
func (l *Jobs) DropOrigins() { l.origins, l.records = nil, nil }

// Concat adds the jobs of another list at the end. It drops their origins, because with two sources
// a record number would be ambiguous.
func (l *Jobs) Concat(other *Jobs) {
	for _, job := range other.All() {
		l.Append(job)
	}
}

// At returns job i, from 0, as a copy that the caller may change.
func (l *Jobs) At(i int) *hpc.Job {
	job := new(hpc.Job)
	l.Get(i, job)
	return job
}

// Get makes *job a copy of job i. If job.Recorded is not nil, Get overwrites the value it points
// to, and does not allocate a new value.
func (l *Jobs) Get(i int, job *hpc.Job) { l.store.Get(l.list[i].ref, job) }

// Submit returns the submit time of job i.
func (l *Jobs) Submit(i int) hpc.Time { return l.list[i].submit }

// Set replaces job i and keeps its origin.
func (l *Jobs) Set(i int, job *hpc.Job) { l.list[i] = l.pack(job) }

// Change calls a function with a copy of job i and puts the copy back.
func (l *Jobs) Change(i int, change func(*hpc.Job)) {
	job := l.At(i)
	change(job)
	l.Set(i, job)
}

// All visits every job. A job is valid until the next job is visited; copy a job to keep it. The
// loop may call Set.
func (l *Jobs) All() iter.Seq2[int, *hpc.Job] { return l.between(0, l.Len()) }

// InParts divides the jobs into consecutive parts, one for each processor, and has a goroutine
// visit each part. It returns the results in the order of the parts. As in [Jobs.All], a job is
// valid until the next job is visited.
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

// between visits the jobs with the indices from, from + 1 and so on, below the index to.
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

// List returns copies of all jobs.
func (l *Jobs) List() []*hpc.Job {
	list := make([]*hpc.Job, len(l.list))
	for i := range list {
		list[i] = l.At(i)
	}
	return list
}

// First returns a new list with the first n jobs, or with all jobs if the list has fewer than n.
func (l *Jobs) First(n int) Jobs {
	n = min(n, len(l.list))
	first := Jobs{list: slices.Clone(l.list[:n]), store: l.store}
	if l.origins != nil {
		first.origins, first.records = slices.Clone(l.origins[:n]), l.records
	}
	return first
}

// Clone returns a new list with the same jobs.
func (l *Jobs) Clone() Jobs { return l.First(len(l.list)) }

// Pick returns a new list with the jobs at these indices, in the order of the indices.
func (l *Jobs) Pick(places []int) Jobs {
	picked := Jobs{list: make([]packedJob, len(places)), store: l.store}
	for i, place := range places {
		picked.list[i] = l.list[place]
	}
	if l.origins != nil {
		picked.origins, picked.records = make([]packed.Ref, len(places)), l.records
		for i, place := range places {
			picked.origins[i] = l.origins[place]
		}
	}
	return picked
}

// Delete removes the jobs for which the function unwanted returns true.
func (l *Jobs) Delete(unwanted func(*hpc.Job) bool) {
	kept := 0
	for i, job := range l.All() {
		if unwanted(job) {
			continue
		}
		l.list[kept] = l.list[i]
		if l.origins != nil {
			l.origins[kept] = l.origins[i]
		}
		kept++
	}
	clear(l.list[kept:])
	l.list = l.list[:kept]
	if l.origins != nil {
		l.origins = l.origins[:kept]
	}
}

// Sort sorts the jobs by their submission. Jobs of the same instant keep their order.
func (l *Jobs) Sort() {
	bySubmit := func(a, b packedJob) int { return cmp.Compare(a.submit, b.submit) }
	if l.origins == nil {
		slices.SortStableFunc(l.list, bySubmit)
		return
	}
	if slices.IsSortedFunc(l.list, bySubmit) {
		return
	}
	places := make([]int, len(l.list))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(a, b int) int { return bySubmit(l.list[a], l.list[b]) })
	sorted := l.Pick(places)
	copy(l.list, sorted.list)
	copy(l.origins, sorted.origins)
}

// Same reports whether job i equals job k of another list. Their origins may differ.
func (l *Jobs) Same(i int, other *Jobs, k int) bool {
	return l.store == other.store && l.list[i] == other.list[k] || reflect.DeepEqual(l.At(i), other.At(k))
}

// Equal reports whether both lists have the same jobs with the same origins in the same order.
func (l Jobs) Equal(other Jobs) bool {
	if l.Len() != other.Len() {
		return false
	}
	for i := range l.list {
		if !l.Same(i, &other, i) || l.Origin(i) != other.Origin(i) {
			return false
		}
	}
	return true
}
