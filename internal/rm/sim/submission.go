package sim

import (
	"fmt"
	"slices"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/slurmspec/sbatch"
)

// submission is one job of the workload, or one array with all its tasks.
type submission struct {
	job    *hpc.Job
	number int   // among all submissions, from 1
	jobs   []Job // one, or one for each task

	refused bool
	preset  bool  // it ran when the window began
	onHold  bool  // none of its jobs may start
	begun   bool  // its begin time has come
	atOnce  int32 // largest number of tasks that run at once; 0 for any number
	next    int32 // all tasks before this one have become eligible or ended
	active  int32 // number of tasks that have become eligible and not ended

	// Counts of tasks.
	pending, open, failed int32

	needs   *needs       // dependencies that are not met; nil if there are none
	waiters []*condition // conditions of other submissions on this one
}

// known is what the engine knows of a submission. After the submission's end it keeps only the ID
// and the outcome.
type known struct {
	id string
	*submission
}

// past represents the submissions that have ended or were refused, because dependencies need no
// more of them. An array stays as it is, because dependencies may name its tasks.
type past struct{ well, badly, refused submission }

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

// job returns a place for one job.
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

// forget keeps only the outcome of a submission that has ended.
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
	for i := range s.jobs { // a timer may still refer to it
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
	if err := e.accept(s); err != nil {
		s.refused = true
		e.forget(s)
		answer.Kind, answer.Reason = rm.Refused, err.Error()
		e.report(answer)
		return nil
	}
	e.report(answer)
	e.waitForBegin(s)
	e.setDeadline(s)
	s.needs.giveUp(e)
	if e.names != nil {
		key := ownNameOf(job)
		e.names[key] = append(e.names[key], s)
	}
	s.offer(e)
	return nil
}

// accept makes the jobs of a submission. An error says why it is refused.
func (e *Engine) accept(s *submission) error {
	job := s.job
	s.jobs = e.store.job()
	first := &s.jobs[0]
	*first = Job{of: s, task: -1, Seq: e.seq, Request: &job.Request, Submit: e.Now(), run: job.RunTime}
	if err := e.measure(first); err != nil {
		return err
	}
	if err := e.await(s); err != nil {
		return err
	}
	if job.Array != "" {
		array, err := hpc.ParseArray(job.Array)
		if err != nil {
			return fmt.Errorf("--array=%s: %w", job.Array, err)
		}
		s.atOnce = int32(array.Limit)
		s.jobs = make([]Job, len(array.Tasks))
		for i, task := range array.Tasks {
			j := &s.jobs[i]
			*j = *first
			j.Seq, j.task = e.seq+i, int32(task)
			j.run = job.RunTimeOf(task)
		}
		e.seq += len(s.jobs) - 1
	}
	s.open, s.pending = int32(len(s.jobs)), int32(len(s.jobs))
	return nil
}

// measure computes a job's size and time limit. An error says why it can never run on this machine.
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
	tasks := max(r.Tasks, r.MinNodes*max(r.TasksPerNode, 1), 1)
	return tasks * max(r.CPUsPerTask, 1)
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
		e.timers.add(after(e.Now(), s.job.Deadline), jobExpires, nil, func() { e.finishAll(s, hpc.Deadlined) })
	}
}

// offer makes jobs of a submission eligible, up to the number that may run at once.
func (s *submission) offer(e *Engine) {
	if s.open == 0 || s.onHold || !s.begun || s.needs != nil {
		return
	}
	all := int32(len(s.jobs))
	for i := s.next; i < all && (s.atOnce == 0 || s.active < s.atOnce); i++ {
		if j := &s.jobs[i]; j.state == blocked && !j.offered && !j.onHold {
			j.offered = true
			s.active++
			j.Eligible = e.Now()
			e.arrivals = append(e.arrivals, j)
		}
	}
	for s.next < all && (s.jobs[s.next].offered || s.jobs[s.next].state == ended) {
		s.next++
	}
}

// started records the start of one of its jobs.
func (s *submission) started(e *Engine) {
	s.pending--
	s.tell(e)
}

// ended records the end of one of its jobs. was is the job's state before.
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
	if s.open == 0 && e.names != nil {
		key := ownNameOf(s.job)
		e.names[key] = slices.DeleteFunc(e.names[key], func(other *submission) bool { return other == s })
	}
	if s.atOnce > 0 {
		s.offer(e)
	}
	s.tell(e)
	if s.open == 0 {
		e.forget(s)
	}
}

// tell checks the conditions of other submissions on this one.
func (s *submission) tell(e *Engine) {
	if len(s.waiters) == 0 {
		return
	}
	s.waiters = slices.DeleteFunc(s.waiters, func(c *condition) bool { return c.look(e, s) })
}

// finishAll ends all jobs of a submission that have not ended. No other job of the submission
// becomes eligible meanwhile.
func (e *Engine) finishAll(s *submission, state hpc.State) {
	s.atOnce = 0
	s.next = int32(len(s.jobs))
	for i := range s.jobs {
		e.finish(&s.jobs[i], state)
	}
}

// needs has the dependencies for which a submission waits.
type needs struct {
	of   *submission
	left int  // number of conditions that are not met
	any  bool // one condition is enough
	dead int  // number of conditions that can never be met
	all  int
}

// condition is one dependency.
type condition struct {
	needs *needs
	kind  string
	task  int // task of the array that it names, or -1 for the whole job
	wait  time.Duration
}

// ownName is the user and the name of jobs. Singletons with the same ownName wait for each other.
type ownName struct{ user, name string }

func ownNameOf(job *hpc.Job) ownName { return ownName{job.User, job.Name} }

// await reads a submission's dependencies.
func (e *Engine) await(s *submission) error {
	if s.job.Dependency == "" {
		return nil
	}
	deps, err := sbatch.ParseDependency(s.job.Dependency)
	if err != nil {
		return fmt.Errorf("--dependency=%s: %w", s.job.Dependency, err)
	}
	s.needs = &needs{of: s, any: deps.Any}
	for _, d := range deps.List {
		if err := e.depend(s, d); err != nil {
			return fmt.Errorf("--dependency=%s: %w", s.job.Dependency, err)
		}
	}
	s.needs.all = s.needs.left
	if s.needs.left == 0 { // a singleton with no job before it
		s.needs = nil
		return nil
	}
	e.lookAtAll(s)
	return nil
}

// depend adds the conditions of one dependency to what a submission needs.
func (e *Engine) depend(s *submission, d sbatch.Dependency) error {
	switch d.Type {
	case "singleton":
		for _, other := range e.sameName(s.job) {
			if other != s && other.open > 0 {
				s.needs.wait(other, &condition{needs: s.needs, kind: "afterany", task: -1})
			}
		}
		return nil
	case "after", "afterany", "afterok", "afternotok", "aftercorr":
	default:
		return fmt.Errorf("%s is not simulated", d.Type)
	}
	on, task := e.find(d.Job), -1
	if on == nil {
		var id string
		if id, task, _ = d.Task(); e.find(id) != nil {
			on = e.find(id)
		}
	}
	switch {
	case on == nil || on == s:
		return fmt.Errorf("job %s has not been submitted", d.Job)
	case on.refused:
		return fmt.Errorf("job %s was rejected", d.Job)
	}
	s.needs.wait(on, &condition{s.needs, d.Type, task, time.Duration(d.DelayMinutes) * time.Minute})
	return nil
}

// wait adds a condition on another submission.
func (g *needs) wait(on *submission, c *condition) {
	g.left++
	on.waiters = append(on.waiters, c)
}

// sameName are the submissions of the same user and name that may not have ended.
func (e *Engine) sameName(job *hpc.Job) []*submission {
	if e.names == nil {
		e.names = make(map[ownName][]*submission)
		for _, s := range e.jobs {
			if s.open > 0 {
				key := ownNameOf(s.job)
				e.names[key] = append(e.names[key], s.submission)
			}
		}
	}
	return e.names[ownNameOf(job)]
}

// lookAtAll checks the conditions of a new submission, which may be met already.
func (e *Engine) lookAtAll(s *submission) {
	deps, _ := sbatch.ParseDependency(s.job.Dependency) // checked by await
	for _, d := range deps.List {
		on := e.find(d.Job)
		if on == nil {
			id, _, _ := d.Task()
			on = e.find(id)
		}
		if on != nil {
			on.tell(e)
		}
	}
}

// look checks whether a condition on a submission is decided, and reports that. It counts a
// condition as met (after the condition's delay) or as one that can never be met.
func (c *condition) look(e *Engine, on *submission) (decided bool) {
	met, never := c.state(on)
	switch {
	case met && c.wait > 0:
		e.timers.add(after(e.Now(), c.wait), jobBecomesEligible, nil, func() { c.needs.meet(e) })
	case met:
		c.needs.meet(e)
	case never:
		c.needs.fail(e)
	}
	return met || never
}

// state reports whether a condition is met, and whether it never will be.
func (c *condition) state(on *submission) (met, never bool) {
	pending, open, failed := on.pending, on.open, on.failed
	if c.task >= 0 {
		pending, open, failed = 0, 0, 0
		for i := range on.jobs {
			if j := &on.jobs[i]; int(j.task) == c.task {
				pending, open, failed = j.counts()
			}
		}
	}
	switch c.kind {
	case "after":
		return pending == 0, false
	case "afterany":
		return open == 0, false
	case "afternotok":
		return open == 0 && failed > 0, open == 0 && failed == 0
	}
	return open == 0 && failed == 0, open == 0 && failed > 0
}

// counts returns the counts of a submission that has only this job.
func (j *Job) counts() (pending, open, failed int32) {
	switch {
	case j.state == ended && !j.well:
		return 0, 0, 1
	case j.state == ended:
		return 0, 0, 0
	case j.state == running:
		return 0, 1, 0
	}
	return 1, 1, 0
}

// meet records that a condition is met.
func (g *needs) meet(e *Engine) {
	if g.left--; g.left == 0 || g.any {
		g.left = 0
		if g.of.needs == g {
			g.of.needs = nil
			g.of.offer(e)
		}
	}
}

// fail records that a condition can never be met. The job waits for ever, as in Slurm, unless it
// requests its cancellation in that case (--kill-on-invalid-dep).
func (g *needs) fail(e *Engine) {
	g.dead++
	g.giveUp(e)
}

// giveUp cancels the submission if its dependencies cannot be met and it requests that.
func (g *needs) giveUp(e *Engine) {
	if g == nil || g.of.needs != g || g.dead == 0 || g.any && g.dead < g.all {
		return
	}
	if kill := g.of.job.KillOnInvalidDep; kill != nil && *kill {
		e.finishAll(g.of, hpc.Cancelled)
	}
}
