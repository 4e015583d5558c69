package transform

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/slurmspec/sbatch"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/arrays"
)

// Shake moves every submission by up to the given time in either direction. The schedules of
// several seeds then show how much of a result is chance. Tsafrir and Feitelson call this method
// shaking the input ("Instability in parallel job scheduling simulation: the role of workload
// flurries", IPDPS 2006). A job stays on its side of the window's start, after the jobs on which
// it depends, and before the start of its tasks that run when the window begins. Shake returns an
// error if maxShift is not above 0.
func Shake(maxShift time.Duration) (Step, error) {
	if maxShift <= 0 {
		return Step{}, fmt.Errorf("%s: not a time above 0 (want, for example, 5m)", maxShift)
	}
	return Step{fmt.Sprintf("--jitter %g", maxShift.Seconds()), func(w *workload.Workload, env *Environment) error {
		at := make(map[string]hpc.Time, w.Jobs.Len())
		latest := w.LatestSubmissions()
		for i, job := range w.Jobs.All() { // in the order of their submission
			shift := time.Duration((2*env.rng.Float64() - 1) * float64(maxShift)).Round(time.Millisecond)
			if w.Preset(job) {
				continue
			}
			to := job.Submit.Add(shift)
			if (to < w.Start) != (job.Submit < w.Start) {
				to = job.Submit.Add(-shift)
			}
			for _, earlier := range dependsOn(job) {
				to = max(to, at[earlier])
			}
			if start, cut := latest[i]; cut {
				to = min(to, start)
			}
			job.Submit, at[job.ID] = to, to
			w.Jobs.Set(i, job)
		}
		lowerEpoch(w)
		return nil
	}}, nil
}

// dependsOn returns the IDs of the jobs that the job depends on.
func dependsOn(job *hpc.Job) []string {
	if job.Dependency == "" {
		return nil
	}
	deps, err := sbatch.ParseDependency(job.Dependency)
	if err != nil {
		return nil
	}
	var ids []string
	for _, d := range deps.List {
		id, _, _ := d.Task()
		ids = append(ids, d.Job, id)
	}
	return ids
}

// maxJobs is the largest number of jobs that repetition may produce.
const maxJobs = 20_000_000

// Repeat appends copies of the workload until it occurs the given number of times. Each copy is
// shifted by whole days, so that the hours of the day stay. IDs of jobs in the first copy end in
// "~2", in the next copy in "~3", and so on. Names of reservations end in the same way, except for
// reservations that an action creates. Events before the window are not repeated. Repeat returns an
// error if times is below 1. The step fails if the result exceeds maxJobs.
func Repeat(times int) (Step, error) {
	if times < 1 {
		return Step{}, fmt.Errorf("%d: not a number of times (want 1 or more)", times)
	}
	return Step{fmt.Sprintf("--repeat %d", times), func(w *workload.Workload, _ *Environment) error {
		if w.Jobs.Len() > maxJobs/times {
			return fmt.Errorf("%d times %d %s: too many (want at most %d)", times, w.Jobs.Len(),
				quantity.Plural(w.Jobs.Len(), "job", "jobs"), maxJobs)
		}
		start := firstInput(w)
		period := wholeDays(w, start)
		once := *w
		for i := 1; i < times; i++ {
			appendCopy(w, &once, start, time.Duration(i)*period, fmt.Sprintf("~%d", i+1))
		}
		return nil
	}}, nil
}

// firstInput returns the window's start, or the first instant of the workload.
func firstInput(w *workload.Workload) hpc.Time {
	if w.Start != 0 {
		return w.Start
	}
	first := origin(w)
	for at := range instants(w) {
		first = min(first, at)
	}
	return first
}

// instants yields the instants of everything in the workload except the jobs.
func instants(w *workload.Workload) iter.Seq[hpc.Time] {
	return func(yield func(hpc.Time) bool) {
		for _, ev := range w.NodeEvents {
			if !yield(ev.At) {
				return
			}
		}
		for _, ev := range w.Reservations {
			if !yield(ev.At) {
				return
			}
		}
		for _, a := range w.Actions {
			if !yield(a.At) {
				return
			}
		}
	}
}

// wholeDays returns the time from start until after the last input, rounded up to whole
// days.
func wholeDays(w *workload.Workload, start hpc.Time) time.Duration {
	last := start
	for _, job := range w.Jobs.All() {
		last = max(last, job.Submit)
	}
	for at := range instants(w) {
		last = max(last, at)
	}
	const day = 24 * time.Hour
	return (last.Sub(start)/day + 1) * day
}

// appendCopy appends a shifted copy of everything from start on.
func appendCopy(w, once *workload.Workload, start hpc.Time, shift time.Duration, suffix string) {
	ids := map[string]bool{}
	for _, job := range once.Jobs.All() {
		if job.Submit >= start {
			ids[job.ID] = true
		}
	}
	reservations := map[string]string{}
	for _, ev := range once.Reservations {
		reservations[ev.Name] = ev.Name + suffix
	}
	for _, c := range once.Jobs.All() {
		if c.Submit < start {
			continue
		}
		c.ID += suffix
		c.Submit, c.EndAt = c.Submit.Add(shift), later(c.EndAt, shift)
		renameReservations(c, reservations)
		if r := c.Recorded; r != nil {
			r.MoveTimes(func(t hpc.Time) hpc.Time { return later(t, shift) })
		}
		renameOthers(c, func(id string) string {
			if ids[id] {
				return id + suffix
			}
			return ""
		})
		w.Jobs.Append(c)
	}
	for _, ev := range once.NodeEvents {
		if ev.At >= start {
			ev.At = ev.At.Add(shift)
			w.NodeEvents = append(w.NodeEvents, ev)
		}
	}
	for _, ev := range once.Reservations {
		ev.At, ev.Start, ev.Name = max(ev.At.Add(shift), start), later(ev.Start, shift), reservations[ev.Name]
		w.Reservations = append(w.Reservations, ev)
	}
	for _, a := range once.Actions {
		if a.At >= start {
			a.At = a.At.Add(shift)
			w.Actions = append(w.Actions, a)
		}
	}
}

// renameReservations renames the reservations that the job requests, if newNames has new names for
// them.
func renameReservations(job *hpc.Job, newNames map[string]string) {
	if job.Reservation == "" {
		return
	}
	names := strings.Split(job.Reservation, ",")
	for i, name := range names {
		if renamed := newNames[name]; renamed != "" {
			names[i] = renamed
		}
	}
	job.Reservation = strings.Join(names, ",")
}

// later shifts an instant that is not zero.
func later(t hpc.Time, shift time.Duration) hpc.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(shift)
}

// Window cuts the workload to the submissions from one instant up to, but excluding, another, as in Fig. 2 of
// Martinasso et al. (SC'18). Jobs that were recorded as running at the start become preset jobs; running tasks of
// arrays become preset jobs of their own. Jobs that were recorded as waiting at the start keep their submit time.
// Nodes and reservations begin in the state that they had reached. Actions before the start are left out, with a note,
// because it is not known which of their effects still last. With a zero instant the window has no bound on that side.
// It returns an error if the window does not end after its beginning. The step fails if no job remains or if the
// window begins before the workload's own window.
func Window(from, to hpc.Time) (Step, error) {
	if from != 0 && to != 0 && to <= from {
		return Step{}, fmt.Errorf("%s to %s: the end is not after the start", from, to)
	}
	var text []string
	for _, bound := range []struct {
		flag string
		at   hpc.Time
	}{{"--start ", from}, {"--end ", to}} {
		if bound.at != 0 {
			text = append(text, bound.flag+instant(bound.at))
		}
	}
	return Step{strings.Join(text, " "), func(w *workload.Workload, env *Environment) error {
		if from != 0 && w.Start != 0 && from < w.Start {
			return fmt.Errorf("%s is before the window's start %s", from, w.Start)
		}
		waited := map[string]bool{}
		if from != 0 {
			for _, job := range w.Jobs.All() {
				if job.Dependency != "" && job.Submit < from {
					waited[job.ID] = true
				}
			}
			arrays.Split(w, from)
		}
		remedy, span := jobsBefore(w, from), ""
		if n := w.Jobs.Len(); n > 0 {
			span = fmt.Sprintf(" (the jobs of the workload were submitted from %s to %s)", w.Jobs.Submit(0), w.Jobs.Submit(n-1))
		}
		keep(w, func(job *hpc.Job) bool {
			if to != 0 && job.Submit >= to {
				return false
			}
			return from == 0 || job.Submit >= from || stillThere(job, from)
		})
		if w.Jobs.Len() == 0 {
			return errors.New("no job is in the window" + span)
		}
		if from != 0 {
			if n := len(w.Usage); n > 0 {
				env.note("records of fair-share usage removed, because they are not of %s: %d", from, n)
			}
			actions := openAt(w, from)
			settle(w, env)
			if text := w.EmptyAtBegin(remedy); text != "" {
				env.note("%s", text)
			}
			if actions > 0 {
				env.note("actions before %s left out, even if their effects last: %d", from, actions)
			}
			for i, job := range w.Jobs.All() {
				if waited[job.ID] && job.Dependency == "" && arrays.BeginWhenEligible(job, from) {
					w.Jobs.Set(i, job)
				}
			}
		}
		if to != 0 {
			w.NodeEvents = slices.DeleteFunc(w.NodeEvents, func(ev hpc.NodeEvent) bool { return ev.At >= to })
			w.Reservations = slices.DeleteFunc(w.Reservations, func(ev hpc.ReservationEvent) bool { return ev.At >= to })
			w.Actions = slices.DeleteFunc(w.Actions, func(a hpc.Action) bool { return a.At >= to })
		}
		return nil
	}}, nil
}

func instant(t hpc.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.String()
}

// stillThere reports whether a job that was submitted before the instant at was recorded as waiting or running at that
// instant.
func stillThere(job *hpc.Job, at hpc.Time) bool {
	r := job.Recorded
	switch {
	case r == nil || r.End != 0 && r.End <= at:
		return false
	case r.Start == 0 || r.Start >= at:
		return r.End != 0 || r.Start != 0 // otherwise nothing is recorded at all
	}
	return r.End != 0 || r.Nodes != "" // a job without both may have ended long ago
}

// jobsBefore returns a part of an error text. It names a source that has the jobs that were running at an instant. It
// is called if the workload has no job that is known to have been running then.
func jobsBefore(w *workload.Workload, at hpc.Time) string {
	unrecorded := 0
	for _, job := range w.Jobs.All() {
		if r := job.Recorded; job.Submit < at && (r == nil || r.Start == 0 && r.End == 0) {
			unrecorded++
		}
	}
	if unrecorded == 0 {
		return "a workload with jobs that run at " + at.String()
	}
	return fmt.Sprintf("the window of a run of this workload; earlier jobs without a recorded start, which are left out: %d",
		unrecorded)
}

// toKeep says how a window keeps the jobs that run when it begins.
const toKeep = " (rmreplay workload complete --cluster gives such jobs nodes)"

// settle gives nodes to the jobs that run when the window begins, and removes the jobs for which
// there are no nodes.
func settle(w *workload.Workload, env *Environment) {
	if env.Place != nil {
		if n := env.Place(w); n > 0 {
			env.note("jobs that ran at %s and got nodes by a rule, because their nodes are not recorded: %d", w.Start, n)
		}
	}
	leave := w.LeavesRunning(func(job *hpc.Job) bool { return w.Preset(job) && job.Recorded.Nodes == "" })
	homeless := keep(w, func(job *hpc.Job) bool { return !leave(job) })
	if homeless > 0 {
		env.note("jobs left out, because they ran at %s on nodes that the record does not name: %d%s",
			w.Start, homeless, toKeep)
	}
}

// openAt makes an instant the window's start. The node events and reservations before it take effect when the window
// begins. openAt returns the number of actions that it left out.
func openAt(w *workload.Workload, from hpc.Time) (actions int) {
	actions = len(w.Actions)
	w.Start, w.Epoch = from, from
	w.Usage = nil // it was the usage at another instant
	w.NodeEvents = clipNodes(w.NodeEvents, from)
	w.Reservations = clipReservations(w.Reservations, from)
	w.Actions = slices.DeleteFunc(w.Actions, func(a hpc.Action) bool { return a.At < from })
	return actions - len(w.Actions)
}

// clipNodes replaces the events before an instant by one event at that instant for every
// node that was out of service then.
func clipNodes(events []hpc.NodeEvent, from hpc.Time) []hpc.NodeEvent {
	out := map[string]hpc.NodeEvent{}
	var kept []hpc.NodeEvent
	for _, ev := range events {
		if ev.At >= from {
			kept = append(kept, ev)
			continue
		}
		names, err := hostlist.Expand(ev.Nodes)
		if err != nil {
			names = []string{ev.Nodes} // the validation reports the wrong host list
		}
		for _, name := range names {
			if ev.State == "resume" {
				delete(out, name)
				continue
			}
			state := ev
			state.At, state.Nodes = from, name
			if ev.State == "fail" {
				state.State = "down" // its jobs were lost before the window
			}
			out[name] = state
		}
	}
	var first []hpc.NodeEvent
	for _, name := range slices.Sorted(maps.Keys(out)) {
		first = append(first, out[name])
	}
	return append(first, kept...)
}

// clipReservations replaces the reservations that exist at an instant by reservations that are
// created at that instant, with their properties at that time.
func clipReservations(events []hpc.ReservationEvent, from hpc.Time) []hpc.ReservationEvent {
	open, rest := workload.ReservationsAt(events, from)
	for i := range open {
		open[i].At = from
	}
	return append(open, rest...)
}

// Merge adds another workload. name is the other workload's name in the step's text. If the ID of a new job or the name
// of a new reservation already exists, the step appends "~" and a number. The step fails if two different users have
// the same name, or if both workloads have windows with different starts.
func Merge(other *workload.Workload, name string) Step {
	return Step{"--merge " + name, func(w *workload.Workload, env *Environment) error {
		add := clone(other)
		add.Sort()
		end, has := lastSubmit(w)
		last, adds := lastSubmit(add)
		if has && adds && (w.Jobs.Submit(0) > last || add.Jobs.Submit(0) > end) {
			env.note("the jobs are not submitted at the same time: those of %s from %s to %s, the others from %s to %s", name,
				add.Jobs.Submit(0), last, w.Jobs.Submit(0), end)
		}
		if w.Start != 0 && add.Start != 0 && w.Start != add.Start {
			return fmt.Errorf("both workloads have a window, one begins at %s and the other at %s (want at most one, or "+
				"equal ones)", w.Start, add.Start)
		}
		if err := mergeUsers(w, add); err != nil {
			return err
		}
		renameClashes(w, add)
		w.Start = max(w.Start, add.Start)
		if w.Epoch == 0 || add.Epoch != 0 && add.Epoch < w.Epoch {
			w.Epoch = add.Epoch
		}
		w.Jobs.Concat(&add.Jobs)
		w.NodeEvents = append(w.NodeEvents, add.NodeEvents...)
		w.Reservations = append(w.Reservations, add.Reservations...)
		w.Actions = append(w.Actions, add.Actions...)
		w.Usage = append(w.Usage, add.Usage...)
		lowerEpoch(w)
		return nil
	}}
}

func mergeUsers(w, add *workload.Workload) error {
	known := map[string]hpc.User{}
	for _, u := range w.Users {
		known[u.Name] = u
	}
	for _, u := range add.Users {
		old, ok := known[u.Name]
		if ok && !old.Equal(u) {
			return fmt.Errorf("user %s has uid:gid %d:%d in one workload and %d:%d in the other (want the same user)", u.Name,
				old.UID, old.GID, u.UID, u.GID)
		}
		if !ok {
			w.Users = append(w.Users, u)
		}
	}
	return nil
}

// renameClashes gives the jobs and reservations of add names that w does not have.
func renameClashes(w, add *workload.Workload) {
	taken, reservations := map[string]bool{}, map[string]bool{}
	for _, job := range w.Jobs.All() {
		taken[job.ID] = true
	}
	for _, ev := range w.Reservations {
		reservations[ev.Name] = true
	}
	newNames := map[string]string{}
	for _, job := range add.Jobs.All() {
		newNames[job.ID] = freeName(job.ID, taken)
	}
	newReservations := map[string]string{}
	for i := range add.Reservations {
		ev := &add.Reservations[i]
		if newReservations[ev.Name] == "" {
			newReservations[ev.Name] = freeName(ev.Name, reservations)
		}
		ev.Name = newReservations[ev.Name]
	}
	for i, job := range add.Jobs.All() {
		renameOthers(job, func(id string) string { return newNames[id] })
		job.ID = newNames[job.ID]
		renameReservations(job, newReservations)
		add.Jobs.Set(i, job)
	}
}

// freeName returns the name, or the first of name~2, name~3, ... that is not taken. It
// marks the result as taken.
func freeName(name string, taken map[string]bool) string {
	free := name
	for i := 2; taken[free]; i++ {
		free = fmt.Sprintf("%s~%d", name, i)
	}
	taken[free] = true
	return free
}
