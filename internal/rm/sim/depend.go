package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmspec/sbatch"
)

// Dependencies work as in slurmctld (test_job_dependency and update_job_dependency in Slurm's
// src/slurmctld/job_scheduler.c).

// neverSatisfied is the reason of a job whose dependencies can never be met.
var neverSatisfied = slurmspec.NeverSatisfied.String()

// link is one dependency of a submission on another submission.
type link struct {
	on    *submission // nil for singleton
	kind  string
	task  int           // the named task, or -1 for the whole submission
	wait  time.Duration // after:ID+MINUTES
	since hpc.Time      // the start of a submission that has ended
}

// needs has the dependencies that a submission, or one task of an array, waits for.
type needs struct {
	of      *submission
	task    int // the waiting task's index in of.jobs; -1 for all jobs
	any     bool
	left    int // number of conditions that are not met
	dead    int // number of conditions that can never be met
	all     int
	decided bool // the needs are met, or can never be met
	// tasks are the needs of each task if tasks have their own dependencies (aftercorr); nil for a
	// task that no longer waits. With tasks, left is the number of tasks that still wait.
	tasks []*needs
}

// condition is one dependency of a waiting job.
type condition struct {
	link
	needs *needs
}

// links finds the jobs that dependencies name. An error says why the submission is refused.
func (e *Engine) links(s *submission) (list []link, anyOf bool, err error) {
	spec := s.job.Dependency
	if spec == "" {
		return nil, false, nil
	}
	deps, err := sbatch.ParseDependency(spec)
	seen := make(map[sbatch.Dependency]bool, len(deps.List)) // slurmctld drops repetitions, too
	for i := 0; i < len(deps.List) && err == nil; i++ {
		if d := deps.List[i]; !seen[d] {
			seen[d] = true
			list, err = e.link(list, s, d)
		}
	}
	if err == nil && len(list) > maxConditions/len(s.jobs) {
		err = fmt.Errorf("%d dependencies of each of %d tasks (want at most %d together)", len(list), len(s.jobs),
			maxConditions)
	}
	if err != nil {
		return nil, false, fmt.Errorf("--dependency=%s: %w", shortened(spec), err)
	}
	return list, deps.Any, nil
}

// maxConditions limits the memory for the dependencies of one array.
const maxConditions = 4_000_000

// shortened returns the beginning of a text that may be very long.
func shortened(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}

// link appends the links of one dependency.
func (e *Engine) link(list []link, s *submission, d sbatch.Dependency) ([]link, error) {
	l := link{kind: d.Type, task: -1, wait: time.Duration(min(d.DelayMinutes, maxMinutes)) * time.Minute}
	switch d.Type {
	case "singleton":
		return append(list, l), nil
	case "after", "afterany", "afterok", "afternotok", "aftercorr":
	default:
		return nil, fmt.Errorf("%s is not simulated", d.Type)
	}
	e.forgetOld()
	id, tasks := d.Job, []int{-1}
	if l.on = e.find(id); l.on == nil {
		var err error
		if id, tasks, err = tasksOf(d); err != nil {
			return nil, err
		}
		l.on = e.find(id)
	}
	switch {
	case l.on == nil || l.on == s:
		return nil, fmt.Errorf("job %s has not been submitted", shortened(d.Job))
	case l.on.refused:
		return nil, fmt.Errorf("job %s was rejected", shortened(d.Job))
	}
	l.since = e.startOf(id)
	missing := false
	for _, l.task = range tasks {
		if l.task >= 0 && l.on.taskOf(l.task) == nil {
			if missing { // one dependency is enough, and this one is met
				continue
			}
			missing = true
		}
		list = append(list, l)
	}
	return list, nil
}

// tasksOf returns the array's ID and the tasks that a dependency such as 17_3 or 17_[1-4] names. Task -1 means the
// whole array.
func tasksOf(d sbatch.Dependency) (id string, tasks []int, err error) {
	id, task, _ := d.Task()
	list, several := strings.CutPrefix(d.Job, id+"_[")
	if !several {
		return id, []int{task}, nil
	}
	array, err := hpc.ParseArray("[" + list)
	if err != nil {
		return "", nil, fmt.Errorf("tasks [%s: %w", shortened(list), err)
	}
	return id, array.Tasks, nil
}

// maxMinutes is the longest delay of a dependency, 20 years.
const maxMinutes = 20 * 366 * 24 * 60

// await makes a submission wait for its links. Each task with an aftercorr dependency waits separately.
func (e *Engine) await(s *submission, list []link, anyOf bool) {
	switch {
	case len(list) == 0:
		return
	case s.job.Array == "" || !slices.ContainsFunc(list, func(l link) bool { return l.kind == "aftercorr" }):
		s.needs = &needs{of: s, task: -1, any: anyOf, left: len(list), all: len(list)}
		e.look(s.needs, list)
		return
	}
	parent := &needs{of: s, task: -1, left: len(s.jobs), tasks: make([]*needs, len(s.jobs))}
	s.needs = parent
	for i := range s.jobs {
		parent.tasks[i] = &needs{of: s, task: i, any: anyOf, left: len(list), all: len(list)}
	}
	for i := range s.jobs {
		if g := parent.tasks[i]; g != nil {
			e.look(g, list)
		}
	}
}

// look checks each link of new needs. A link that is still undecided waits for an event of the
// submission that it names.
func (e *Engine) look(g *needs, list []link) {
	for _, l := range list {
		if g.decided {
			return
		}
		c := &condition{link: l, needs: g}
		if l.kind == "aftercorr" {
			c.correspond(e)
		}
		switch {
		case l.on == nil:
			e.awaitSingleton(c)
		case !c.decide(e):
			c.on.waitFor(c)
		}
	}
}

// correspond turns aftercorr into afterok on the task with the same index as the waiting task. If
// the task does not exist, or slurmctld has forgotten it, the dependency is on the whole array.
func (c *condition) correspond(e *Engine) {
	c.kind = "afterok"
	if c.needs.task < 0 {
		return
	}
	task := int(c.needs.of.jobs[c.needs.task].task)
	if j := c.on.taskOf(task); j != nil && (j.state != ended || !e.forgotten(j.end)) {
		c.task = task
	}
}

// taskOf returns a task of a submission, or nil.
func (s *submission) taskOf(task int) *Job {
	i, found := slices.BinarySearchFunc(s.jobs, task, func(j Job, task int) int { return int(j.task) - task })
	if !found {
		return nil
	}
	return &s.jobs[i]
}

// decide checks a condition and returns whether it is decided. A condition that is met counts as
// met after its delay. A condition that can never be met counts as failed.
func (c *condition) decide(e *Engine) (decided bool) {
	met, never := c.state(e)
	switch {
	case c.needs.decided: // the needs no longer wait for the condition
		return true
	case met && c.wait > 0:
		if at := after(c.start(), c.wait); at > e.Now() {
			e.timers.add(at, jobBecomesEligible, nil, func() { c.needs.meet(e) })
			return true
		}
		c.needs.meet(e)
	case met:
		c.needs.meet(e)
	case never:
		c.needs.fail(e)
	}
	return met || never
}

// start returns the instant from which a condition's delay counts: the latest start of the jobs that it names. For a
// job that was cancelled before its start, the delay counts from the job's end.
func (c *condition) start() hpc.Time {
	last := c.since
	for i := range c.on.jobs {
		if j := &c.on.jobs[i]; c.task < 0 || int(j.task) == c.task {
			last = max(last, cmp.Or(j.Start, j.end))
		}
	}
	return last
}

// state reports whether a condition is met, and whether it can never be met. A condition on a job
// that slurmctld has forgotten, or on a task that does not exist, is met.
func (c *condition) state(e *Engine) (met, never bool) {
	on := c.on
	pending, open, failed := on.pending, on.open, on.failed
	if on == &e.past.gone || on.job != nil && on.open == 0 && e.forgotten(on.over) {
		return true, false
	}
	if c.task >= 0 {
		j := on.taskOf(c.task)
		if j == nil || j.state == ended && e.forgotten(j.end) {
			return true, false
		}
		pending, open, failed = j.counts()
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

// counts returns the counts that a submission with only this job would have.
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

// waitFor adds a condition on a submission or on one of its tasks.
func (s *submission) waitFor(c *condition) {
	if s.waiters == nil {
		s.waiters = map[int][]*condition{}
	}
	s.waiters[c.task] = append(s.waiters[c.task], c)
}

// tell checks the conditions of other submissions that wait for the submission s, after its job j
// has started or ended. The parameter whole says that conditions on the whole submission may have
// changed, because j was its last job to start or to end.
func (s *submission) tell(e *Engine, j *Job, whole bool) {
	if s.waiters == nil {
		return
	}
	check := func(task int) {
		if list, some := s.waiters[task]; some {
			s.waiters[task] = slices.DeleteFunc(list, func(c *condition) bool { return c.decide(e) })
		}
	}
	if j.task >= 0 {
		check(int(j.task))
	}
	if whole {
		check(-1)
	}
}

// meet records that a condition is met.
func (g *needs) meet(e *Engine) {
	if g.left--; g.decided || g.left > 0 && !g.any {
		return
	}
	g.decided = true
	s := g.of
	switch parent := s.needs; {
	case parent == nil: // the submission has ended
		return
	case g.task < 0:
		s.needs = nil
		s.offer(e)
		return
	default:
		parent.tasks[g.task] = nil
		if parent.left--; parent.left == 0 {
			s.needs = nil
		}
	}
	if s.mayOffer() {
		s.offerTask(e, int32(g.task))
	}
}

// fail records that a condition can never be met. Jobs that fail as a consequence are put into a queue, not handled
// by recursion, because chains of jobs may be long.
func (g *needs) fail(e *Engine) {
	if g.dead++; g.decided || g.any && g.dead < g.all || g.of.needs == nil {
		return
	}
	g.decided = true
	if e.failing = append(e.failing, g); len(e.failing) > 1 {
		return
	}
	for i := 0; i < len(e.failing); i++ {
		e.failing[i].giveUp(e)
	}
	e.failing = e.failing[:0]
}

// giveUp cancels jobs whose dependencies can never be met, or leaves them waiting for ever
// (handle_invalid_dependency in Slurm's src/slurmctld/job_mgr.c).
func (g *needs) giveUp(e *Engine) {
	s, kill := g.of, e.cfg.Cluster != nil && e.cfg.Cluster.KillInvalidDepend
	if s.open == 0 {
		return
	}
	if asked := s.job.KillOnInvalidDep; asked != nil {
		kill = *asked
	}
	j := &s.jobs[max(g.task, 0)]
	switch {
	case kill && g.task < 0:
		e.finishAll(s, hpc.Cancelled, neverSatisfied)
	case kill:
		e.finish(j, hpc.Cancelled, neverSatisfied)
	default:
		e.never = append(e.never, g)
		task := -1
		if g.task >= 0 {
			task = int(j.task)
		}
		e.report(rm.Event{Kind: rm.Dependency, Job: s.job.ID, Task: task, Submission: s.number, RMJob: uint32(j.Seq),
			Reason: neverSatisfied})
	}
}

// NeverStarts returns the IDs of the pending jobs whose dependencies can never be met.
func (e *Engine) NeverStarts() []string {
	var list []string
	for _, g := range e.never {
		if s := g.of; s.open > 0 && (g.task < 0 || s.jobs[g.task].state != ended) {
			list = append(list, s.job.ID)
		}
	}
	return slices.Compact(list)
}

// recent is an ended submission of which slurmctld still has a record.
type recent struct {
	number     int
	start, end hpc.Time
}

// remember records the end of a submission until slurmctld forgets it.
func (e *Engine) remember(s *submission) {
	if e.cfg.Cluster == nil || e.cfg.Cluster.MinJobAge <= 0 {
		return
	}
	e.forgetOld()
	j := &s.jobs[0]
	e.recent = append(e.recent, recent{s.number, cmp.Or(j.Start, j.end), s.over})
}

// forgetOld removes the submissions that slurmctld has forgotten.
func (e *Engine) forgetOld() {
	for len(e.recent) > 0 && e.forgotten(e.recent[0].end) {
		e.jobs[e.recent[0].number-1].submission = &e.past.gone
		e.recent = e.recent[1:]
	}
}

// startOf returns the start of a submission that has ended and is still on record; 0 for others.
func (e *Engine) startOf(id string) hpc.Time {
	number := int(e.byID[id]) + 1
	for i := range e.recent {
		if e.recent[i].number == number {
			return e.recent[i].start
		}
	}
	return 0
}

// forgotten reports whether slurmctld has forgotten a job that ended at an instant. Once in a minute, or more often if
// MinJobAge is shorter, it forgets all jobs that ended MinJobAge or longer ago (_slurmctld_background in controller.c).
// Dependencies on forgotten jobs are met.
func (e *Engine) forgotten(end hpc.Time) bool {
	if e.cfg.Cluster == nil || e.cfg.Cluster.MinJobAge <= 0 {
		return false
	}
	age := e.cfg.Cluster.MinJobAge
	every := min(time.Minute, max(10*time.Second, age))
	last := e.Now().Add(-(e.Now().Sub(e.cfg.Epoch) % every))
	return last.Sub(end) >= age
}
