package sim_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/sim/policy"
	"rmreplay/internal/rm/sim/simtest"
	"rmreplay/internal/slurmspec/sbatch"
)

// randomCases returns the number of random cases of TestRandomCases. The environment variable
// RMREPLAY_CASES changes it.
func randomCases(t *testing.T) int {
	text := os.Getenv("RMREPLAY_CASES")
	if text == "" {
		return 500
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("RMREPLAY_CASES=%s: not a number of cases", text)
	}
	return n
}

// TestRandomCases plays random workloads on random machines under all policies, and checks
// properties of every schedule. RMREPLAY_CASES=10000 makes it thorough.
func TestRandomCases(t *testing.T) {
	names := policies()
	for seed := range randomCases(t) {
		k := simtest.Random(simtest.Seeded(uint64(seed)))
		if err := checkCase(k, names[seed%len(names)]); err != nil {
			t.Errorf("case %d under %s: %v\n%s", seed, names[seed%len(names)], err, describeCase(k))
			if t.Failed() {
				return
			}
		}
	}
}

// policies returns the policies of the random cases: all, and some with predictions.
func policies() []string {
	return append(policy.Names(), "easy:predict=clairvoyant", "easy-textbook:predict=clairvoyant", "easy-sjbf:predict=clairvoyant",
		"easy:predict=nag", "easy-sjbf:predict=nag,weight=constant,under=square,over=linear,correct=doubling", "f1:predict=last-two,correct=requested", "easy-sjbf:predict=class", "easy:predict=boost")
}

// FuzzSimulate is TestRandomCases with cases made from bytes.
func FuzzSimulate(f *testing.F) {
	for i := range 20 {
		seed := make([]byte, 400)
		for k := range seed {
			seed[k] = byte((i*131 + k*k*7 + k) % 251)
		}
		f.Add(uint8(i), seed)
	}
	f.Fuzz(func(t *testing.T, number uint8, data []byte) {
		k := simtest.Random(simtest.FromBytes(data))
		names := policies()
		if err := checkCase(k, names[int(number)%len(names)]); err != nil {
			t.Fatalf("under %s: %v\n%s", names[int(number)%len(names)], err, describeCase(k))
		}
	})
}

func describeCase(k *simtest.Case) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d processors, ties %s\n", k.Config.Processors, k.Config.Ties)
	if c := k.Config.Cluster; c != nil {
		fmt.Fprintf(&b, "memory %t, whole nodes %t, kill %t, forget %s\n", c.CountMemory, c.WholeNodes, c.KillInvalidDepend, c.MinJobAge)
		for _, n := range c.Nodes {
			fmt.Fprintf(&b, "%s: %d processors, %d-%d MiB, weight %d, %s %v %v\n", n.Name, n.CPUs, n.RealMemory, n.MemSpecLimit, n.Weight, n.State, n.GRES, n.Features)
		}
		for _, p := range c.Partitions {
			fmt.Fprintf(&b, "%+v\n", p)
		}
	}
	for _, in := range k.Inputs {
		fmt.Fprintf(&b, "%g %s\n", in.At.Sub(simtest.Epoch).Seconds(), in.Text)
	}
	return b.String()
}

// checkCase plays a case twice and returns what is wrong with it.
func checkCase(k *simtest.Case, name string) (err error) {
	first, err := playCase(k, name)
	if err != nil {
		return err
	}
	again, err := playCase(k, name)
	if err != nil {
		return fmt.Errorf("the second time: %w", err)
	}
	if !reflect.DeepEqual(first, again) {
		return fmt.Errorf("twice is not the same:\n%s\n%s", story(first), story(again))
	}
	return nil
}

// playCase plays a case and returns its events.
func playCase(k *simtest.Case, name string) (events []rm.Event, err error) {
	made, err := policy.New(name)
	if err != nil {
		return nil, err
	}
	w := &witness{k: k, name: name, promised: map[*sim.Job]hpc.Time{}, jobs: map[string]*hpc.Job{}, runs: map[string]rm.Event{}, over: map[string]rm.Event{}}
	for _, j := range k.Jobs {
		if w.jobs[j.ID] == nil {
			w.jobs[j.ID] = j
		}
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	cfg := k.Config
	cfg.Policy = func(m *sim.Machine) sim.Policy {
		w.machine, w.Policy = m, made(m)
		return w
	}
	e, err := sim.New(cfg)
	if err != nil {
		return nil, nil //nolint:nilerr // a machine without processors
	}
	w.engine = e
	inputs := k.Inputs
	for steps := 0; ; steps++ {
		if steps > 100_000 {
			return nil, errors.New("it does not end")
		}
		for len(inputs) > 0 && inputs[0].At <= e.Now() {
			if err := inputs[0].Apply(e); err != nil {
				return nil, fmt.Errorf("%s: %w", inputs[0].Text, err)
			}
			inputs = inputs[1:]
		}
		until := simtest.End
		if len(inputs) > 0 {
			until = inputs[0].At
		}
		if until > simtest.End || e.Now() == simtest.End {
			break
		}
		list, err := e.AdvanceTo(context.Background(), until)
		if err != nil {
			return nil, err
		}
		for _, ev := range list {
			if ev.Outcome != nil {
				outcome := *ev.Outcome
				ev.Outcome = &outcome
			}
			events = append(events, ev)
			w.event(&ev)
		}
		if err := e.Audit(); err != nil {
			w.fail("%v", err)
		}
		if w.err != nil {
			return events, fmt.Errorf("%w\n%s", w.err, story(events))
		}
	}
	if err := w.atEnd(); err != nil {
		return events, fmt.Errorf("%w\n%s", err, story(events))
	}
	return events, nil
}

// witness is a policy that passes all calls to another policy, and checks what that policy does.
type witness struct {
	sim.Policy
	k       *simtest.Case
	name    string
	machine *sim.Machine
	engine  *sim.Engine
	err     error

	first    *sim.Job              // the last result of head
	queue    []*sim.Job            // in the order of their arrival
	promised map[*sim.Job]hpc.Time // latest start that the policy has promised
	jobs     map[string]*hpc.Job   // first job with each ID
	runs     map[string]rm.Event   // starts of running tasks, by ID_TASK
	over     map[string]rm.Event   // ends of tasks, by ID_TASK
}

func (w *witness) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

func (w *witness) Add(j *sim.Job) {
	w.queue = append(w.queue, j)
	w.head()
	w.Policy.Add(j)
	w.look()
}

func (w *witness) Remove(j *sim.Job) {
	w.queue = slices.DeleteFunc(w.queue, func(q *sim.Job) bool { return q == j })
	delete(w.promised, j)
	w.Policy.Remove(j)
}

func (w *witness) Schedule() {
	w.Policy.Schedule()
	w.look()
}

// look checks the starts since the last call, and records what the policy promises.
func (w *witness) look() {
	head := true // all jobs so far have started
	w.queue = slices.DeleteFunc(w.queue, func(j *sim.Job) bool {
		if j.Start == 0 {
			head = false
			return false
		}
		if err := w.engine.AuditStart(j); err != nil {
			w.fail("%v", err)
		}
		if at, promised := w.promised[j]; promised && w.keepsPromises() && j.Start > at {
			w.fail("job %s starts at %s, and %s was promised", j.Name(), j.Start, at)
		}
		if !head && w.name == "fcfs" {
			w.fail("job %s starts before an earlier one", j.Name())
		}
		delete(w.promised, j)
		return true
	})
	promise := func(j *sim.Job, at hpc.Time) {
		if old, known := w.promised[j]; known && at > old && w.keepsPromises() {
			w.fail("job %s is promised %s and then %s", j.Name(), old, at)
		}
		w.promised[j] = at
	}
	switch w.name {
	case "conservative":
		for _, j := range w.queue {
			promise(j, j.ReservedAt())
		}
	case "easy", "easy-textbook", "easy-sjbf", "easy:predict=clairvoyant", "easy-textbook:predict=clairvoyant", "easy-sjbf:predict=clairvoyant":
		j := w.head()
		if j == nil {
			return
		}
		if w.machine.IsPool() {
			at, _, _ := w.machine.Shadow(j.Size)
			promise(j, at)
			return
		}
		promise(j, w.machine.Reserve(j))
		w.machine.Unreserve(j)
	}
}

// head returns the first job of the queue under EASY. With the rules of "Replay with Feedback" a
// job stays the first even if other jobs arrive. Otherwise a job with an earlier submission comes
// before it, and the promise to the old head is void.
func (w *witness) head() *sim.Job {
	if len(w.queue) == 0 {
		w.first = nil
		return nil
	}
	if base, _, _ := strings.Cut(w.name, ":"); base == "easy" && w.machine.IsPool() && slices.Contains(w.queue, w.first) {
		return w.first
	}
	head := slices.MinFunc(w.queue, func(a, b *sim.Job) int { return a.Seq - b.Seq })
	if head != w.first {
		clear(w.promised)
		w.first = head
	}
	return head
}

// keepsPromises reports whether all inputs leave the policy's promises valid.
func (w *witness) keepsPromises() bool { return w.k.Plain }

// event checks an event.
func (w *witness) event(ev *rm.Event) {
	if ev.Job == "" {
		return
	}
	name := fmt.Sprintf("%s_%d", ev.Job, ev.Task)
	if w.k.Hostile && w.jobs[ev.Job] == nil {
		w.fail("an event of job %s, which is unknown", ev.Job)
		return
	}
	job := w.jobs[ev.Job]
	start, running := w.runs[name]
	switch ev.Kind {
	case rm.Started:
		if running {
			w.fail("job %s starts and runs already", name)
		}
		w.runs[name] = *ev
		if ev.Outcome.Start != ev.At || ev.At < job.Submit.Add(min(job.Begin, hpc.Unlimited/2)) || ev.Outcome.Eligible > ev.At || ev.Outcome.Submit > ev.Outcome.Eligible {
			w.fail("job %s starts before it may: %+v", name, *ev.Outcome)
		}
		w.dependencies(job, ev)
	case rm.Requeue:
		if !running {
			w.fail("job %s is requeued and does not run", name)
		}
		delete(w.runs, name)
	case rm.Ended:
		if _, twice := w.over[name]; twice && !w.k.Hostile {
			w.fail("job %s ends twice", name)
		}
		w.over[name] = *ev
		delete(w.runs, name)
		if running {
			w.ran(name, job, start.At, ev)
		} else if ev.Outcome.State != hpc.Cancelled && ev.Outcome.State != hpc.Deadlined {
			w.fail("job %s has not started and ends as %s", name, ev.Outcome.State)
		}
	}
}

// ran checks how long a job ran.
func (w *witness) ran(name string, job *hpc.Job, start hpc.Time, ev *rm.Event) {
	length, limit := ev.At.Sub(start), time.Duration(ev.Outcome.TimeLimit)*time.Second
	asked := job.RunTimeOf(ev.Task)
	switch state := ev.Outcome.State; {
	case !w.k.Plain || w.k.Hostile:
	case ev.Outcome.TimeLimit >= 0 && length > limit:
		w.fail("job %s runs for %s, with a limit of %s", name, length, limit)
	case state == hpc.TimedOut && (length != limit || asked <= limit), (state == hpc.Completed || state == hpc.Failed) && length != asked:
		w.fail("job %s ran for %s of %s as %s, with a limit of %s", name, length, asked, state, limit)
	case (state == hpc.Failed) != (job.ExitCodeOf(ev.Task) != 0) && (state == hpc.Completed || state == hpc.Failed):
		w.fail("job %s has exit code %d and ends as %s", name, job.ExitCodeOf(ev.Task), state)
	}
}

// dependencies checks that a job which starts has no unmet dependency on a whole job.
func (w *witness) dependencies(job *hpc.Job, ev *rm.Event) {
	c := w.k.Config.Cluster
	if job.Dependency == "" || strings.Contains(job.Dependency, "?") || w.k.Hostile || !w.k.Plain || c != nil && c.MinJobAge > 0 {
		return
	}
	deps, err := sbatch.ParseDependency(job.Dependency)
	if err != nil {
		w.fail("job %s has started with dependency %s", ev.Job, job.Dependency)
		return
	}
	for _, d := range deps.List {
		on := w.jobs[d.Job]
		if on == nil || d.Type == "aftercorr" && job.Array != "" {
			continue
		}
		open, badly, tasks := 0, 0, []int{-1}
		if on.Array != "" {
			array, _ := hpc.ParseArray(on.Array)
			tasks = array.Tasks
		}
		for _, task := range tasks {
			end, ended := w.over[fmt.Sprintf("%s_%d", on.ID, task)]
			_, runs := w.runs[fmt.Sprintf("%s_%d", on.ID, task)]
			switch {
			case d.Type == "after" && (runs || ended):
			case !ended:
				open++
			case end.Outcome.State != hpc.Completed:
				badly++
			}
		}
		ok := map[string]bool{"after": open == 0, "afterany": open == 0, "afterok": open+badly == 0, "aftercorr": open+badly == 0, "afternotok": open == 0 && badly > 0}
		if !ok[d.Type] {
			w.fail("job %s starts, and %s:%s has %d open tasks and %d that failed", ev.Job, d.Type, d.Job, open, badly)
		}
	}
}

// atEnd returns an error if a waiting job could start.
func (w *witness) atEnd() error {
	if len(w.runs) > 0 && !w.k.Hostile && w.k.Plain {
		return fmt.Errorf("%d jobs run at the end", len(w.runs))
	}
	if len(w.runs) > 0 {
		return nil
	}
	for _, j := range w.queue {
		if w.machine.Fits(j) {
			return fmt.Errorf("job %s fits, and waits at the end", j.Name())
		}
		if w.name == "fcfs" || w.name == "conservative" {
			break // a job that does not fit delays the others
		}
	}
	return nil
}
