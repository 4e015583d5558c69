package sim

import (
	"fmt"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/sim/amount"
)

// submission is one job of the workload, or one array with all its tasks.
type submission struct {
	job    *hpc.Job
	number int   // among all submissions, from 1
	jobs   []Job // one job, or one for each task

	refused bool
	preset  bool  // the job ran when the window began
	onHold  bool  // all its jobs are held
	begun   bool  // its begin time has passed
	atOnce  int32 // how many tasks may run at once; 0 for all
	next    int32 // all tasks before this one have become eligible or ended
	active  int32 // number of tasks that have become eligible and have not ended

	// Counts of tasks.
	pending, open, failed int32

	over hpc.Time // when its last job ended

	needs *needs // dependencies that are not met; nil if all are met
	// waiters are the conditions of other submissions on this submission: on single tasks, by task, and on the whole
	// submission, under the key -1. waiters is nil without such conditions.
	waiters map[int][]*condition
}

// known is what the engine stores about a submission. After the submission's end, only the ID and the result remain.
type known struct {
	id string
	*submission
}

// past are the four possible results of an ended submission: ended well or badly, refused, or forgotten by slurmctld.
// All ended submissions with the same result share one entry. Dependencies need only the result of an ended submission.
// Arrays keep their own record, because dependencies may name their tasks.
type past struct{ well, badly, refused, gone submission }

// store allocates submissions and their jobs in large blocks.
type store struct {
	submissions []submission
	jobs        []Job
}

// storeChunk is the number of elements of one allocation.
const storeChunk = 64

func (s *store) submission() *submission {
	if len(s.submissions) == 0 {
		s.submissions = make([]submission, storeChunk)
	}
	first := &s.submissions[0]
	s.submissions = s.submissions[1:]
	return first
}

// job returns the memory for one job.
func (s *store) job() []Job {
	if len(s.jobs) == 0 {
		s.jobs = make([]Job, storeChunk)
	}
	first := s.jobs[:1:1]
	s.jobs = s.jobs[1:]
	return first
}

// find returns the submission with an ID, or nil.
func (e *Engine) find(id string) *submission {
	if e.byID == nil {
		e.byID = make(map[string]int32, len(e.jobs))
		for i := range e.jobs {
			e.byID[e.jobs[i].id] = int32(i)
		}
	}
	if i, found := e.byID[id]; found {
		return e.jobs[i].submission
	}
	return nil
}

// forget keeps only the result of a submission that has ended.
func (e *Engine) forget(s *submission) {
	what := &e.past.well
	switch {
	case s.refused:
		what = &e.past.refused
	case s.job.Array != "":
		return
	case s.failed > 0:
		what = &e.past.badly
	}
	e.jobs[s.number-1].submission = what
	if !s.refused {
		e.remember(s)
	}
	for i := range s.jobs { // a timer may still refer to the job
		s.jobs[i].Request = nil
	}
	*s = submission{}
}

// Submit implements [rm.ResourceManager]. The engine accepts or refuses the job at once. The next
// AdvanceTo returns the event.
func (e *Engine) Submit(job *hpc.Job) error { return e.submit(job, false) }

func (e *Engine) submit(job *hpc.Job, preset bool) error {
	s := e.store.submission()
	e.jobs = append(e.jobs, known{job.ID, s})
	s.job, s.number, s.preset, s.onHold = job, len(e.jobs), preset, job.Hold
	if e.byID != nil {
		e.byID[job.ID] = int32(s.number - 1)
	}
	e.seq++
	answer := rm.Event{Kind: rm.Accepted, Job: job.ID, Task: -1, Submission: s.number, RMJob: uint32(e.seq)}
	links, anyOf, err := e.accept(s)
	if err != nil {
		s.refused = true
		e.forget(s)
		answer.Kind, answer.Reason = rm.Refused, err.Error()
		e.report(answer)
		return nil
	}
	e.report(answer)
	e.waitForBegin(s)
	e.setDeadline(s)
	if n := e.nameOf(job); n != nil {
		n.list = append(n.list, s)
	}
	e.await(s, links, anyOf)
	s.offer(e)
	return nil
}

// accept makes a submission's jobs and dependencies. An error says why the submission is refused.
func (e *Engine) accept(s *submission) (list []link, anyOf bool, err error) {
	job := s.job
	s.jobs = e.store.job()
	first := &s.jobs[0]
	*first = Job{of: s, task: -1, Seq: e.seq, Request: &job.Request, Submit: e.Now(), run: job.RunTime}
	if err := e.measure(first); err != nil {
		return nil, false, err
	}
	if job.Array != "" {
		if err := e.spread(s); err != nil {
			return nil, false, fmt.Errorf("--array=%s: %w", shortened(job.Array), err)
		}
	}
	if list, anyOf, err = e.links(s); err != nil {
		return nil, false, err
	}
	e.seq += len(s.jobs) - 1
	s.open, s.pending = int32(len(s.jobs)), int32(len(s.jobs))
	for i := range s.jobs {
		e.predict(&s.jobs[i])
	}
	return list, anyOf, nil
}

// spread makes the tasks of an array from its first job.
func (e *Engine) spread(s *submission) error {
	array, err := hpc.ParseArray(s.job.Array)
	if err != nil {
		return err
	}
	last := array.Tasks[len(array.Tasks)-1]
	if c := e.cfg.Cluster; c != nil && c.MaxArraySize > 0 && last >= c.MaxArraySize {
		return fmt.Errorf("index %d is not below MaxArraySize=%d", last, c.MaxArraySize)
	}
	first := &s.jobs[0]
	s.atOnce = int32(array.Limit)
	s.jobs = make([]Job, len(array.Tasks))
	for i, task := range array.Tasks {
		j := &s.jobs[i]
		*j = *first
		j.Seq, j.task = e.seq+i, int32(task)
		j.run = s.job.RunTimeOf(task)
	}
	return nil
}

// measure computes a job's size and time limit. An error says why the job can never run here.
func (e *Engine) measure(j *Job) error {
	j.Limit = j.of.job.TimeLimit
	if n := e.machine.nodes; n != nil {
		return n.measure(j)
	}
	if j.Limit <= 0 {
		j.Limit = hpc.Unlimited
	}
	if j.Size = size(j.Request); j.Size > e.machine.processors {
		return fmt.Errorf("asks for %d processors; the machine has %d", j.Size, e.machine.processors)
	}
	return nil
}

// size returns the number of processors that a request asks for.
func size(r *hpc.Request) int {
	tasks := max(int64(r.Tasks), 1)
	if r.MinNodes > 0 {
		tasks = max(tasks, amount.Product(int64(r.MinNodes), int64(r.TasksPerNode)))
	}
	return int(amount.Product(tasks, int64(r.CPUsPerTask)))
}

// waitForBegin delays a submission until its begin time.
func (e *Engine) waitForBegin(s *submission) {
	s.begun = s.job.Begin <= 0
	if !s.begun {
		e.timers.add(after(e.Now(), s.job.Begin), jobBecomesEligible, nil, func() {
			s.begun = true
			s.offer(e)
		})
	}
}

// setDeadline ends a submission at its deadline.
func (e *Engine) setDeadline(s *submission) {
	if s.job.Deadline > 0 {
		e.timers.add(after(e.Now(), s.job.Deadline), jobExpires, nil, func() { e.finishAll(s, hpc.Deadlined, "") })
	}
}

// offer makes jobs of a submission eligible, up to the number that may run at once.
func (s *submission) offer(e *Engine) {
	if s.needs != nil && s.needs.tasks == nil {
		return
	}
	all := int32(len(s.jobs))
	for i := s.next; i < all && s.mayOffer(); i++ {
		s.offerTask(e, i)
	}
	for s.next < all && (s.jobs[s.next].offered || s.jobs[s.next].state == ended) {
		s.next++
	}
}

// mayOffer reports whether the submission lets one more of its jobs become eligible. The job itself
// may still be held or have dependencies of its own.
func (s *submission) mayOffer() bool {
	return s.open > 0 && s.begun && !s.onHold && (s.atOnce == 0 || s.active < s.atOnce)
}

// offerTask makes one job of a submission eligible if the job is blocked, not held, and has no
// unmet dependencies of its own.
func (s *submission) offerTask(e *Engine, i int32) {
	j := &s.jobs[i]
	if j.state != blocked || j.offered || j.onHold || s.needs != nil && s.needs.tasks[i] != nil {
		return
	}
	j.offered = true
	s.active++
	j.Eligible = e.Now()
	e.arrivals = append(e.arrivals, j)
}

// started records the start of one of its jobs.
func (s *submission) started(e *Engine, j *Job) {
	s.pending--
	if n := e.nameOf(s.job); n != nil {
		n.running++
	}
	s.tell(e, j, s.pending == 0)
}

// ended records the end of one of its jobs. The parameter was is the job's previous state.
func (s *submission) ended(e *Engine, j *Job, was jobState) {
	s.open--
	if j.offered {
		s.active--
	}
	if was != running {
		s.pending--
	}
	if !j.well {
		s.failed++
	}
	if s.open == 0 {
		s.over = e.Now()
	}
	if s.atOnce > 0 {
		s.offer(e)
	}
	s.tell(e, j, s.open == 0 || was != running && s.pending == 0)
	if n := e.nameOf(s.job); n != nil {
		if was == running {
			n.running--
		}
		n.check(e)
	}
	if s.open == 0 {
		e.forget(s)
	}
}

// finishAll ends all jobs of a submission that have not ended. Meanwhile no other job of the
// submission becomes eligible.
func (e *Engine) finishAll(s *submission, state hpc.State, reason string) {
	s.atOnce = 0
	s.next = int32(len(s.jobs))
	for i := range s.jobs {
		e.finish(&s.jobs[i], state, reason)
	}
}
