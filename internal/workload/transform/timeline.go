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
	"rmreplay/internal/slurmspec/sbatch"
	"rmreplay/internal/workload"
)

// Shake moves every submission by up to the given time, either way: the schedules of
// several seeds show how much of a result is chance (Tsafrir and Feitelson, "Instability
// in parallel job scheduling simulation", IPDPS 2006, call it shaking the input). Jobs
// stay on their side of the window's start and behind those that they depend on.
func Shake(most time.Duration) (Step, error) {
	if most <= 0 {
		return Step{}, fmt.Errorf("%s: not a time (want seconds, more than 0)", most)
	}
	return Step{fmt.Sprintf("--shake %g", most.Seconds()), func(w *workload.Workload, env *Environment) (int, error) {
		at := make(map[string]hpc.Time, w.Jobs.Len())
		n := 0
		for i, job := range w.Jobs.All() { // in the order of their submission
			shift := time.Duration((2*env.rng.Float64() - 1) * float64(most)).Round(time.Millisecond)
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
			job.Submit, at[job.ID] = to, to
			w.Jobs.Set(i, job)
			n++
		}
		lowerEpoch(w)
		return n, nil
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

// mostJobs is how many jobs a workload may come to have by repetition.
const mostJobs = 20_000_000

// Repeat appends the workload to itself until it is there so many times. Each copy comes
// whole days after the one before, so that the hours of the day stay. Jobs of a copy have
// "~2" (or the copy's number) behind their ID, and so do the workload's reservations; those
// that an action makes keep their name. What was there before the window is not repeated.
func Repeat(times int) (Step, error) {
	if times < 1 {
		return Step{}, fmt.Errorf("%d: not a number of times (want 1 or more)", times)
	}
	return Step{fmt.Sprintf("--repeat %d", times), func(w *workload.Workload, _ *Environment) (int, error) {
		if w.Jobs.Len() > mostJobs/times {
			return 0, fmt.Errorf("%d times %d jobs are more than %d", times, w.Jobs.Len(), mostJobs)
		}
		start := firstInput(w)
		period := wholeDays(w, start)
		once := *w
		for i := 1; i < times; i++ {
			appendCopy(w, &once, start, time.Duration(i)*period, fmt.Sprintf("~%d", i+1))
		}
		return w.Jobs.Len() - once.Jobs.Len(), nil
	}}, nil
}

// firstInput is the window's start, or the first instant at which something happens.
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

// instants yields those of everything in the workload but the jobs.
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

// wholeDays is the time from the start to behind the last input, in whole days.
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

// appendCopy adds what comes from the start on, shifted.
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
		c.SWF = nil // it is not the record of that log
		renameReservations(c, reservations)
		if r := c.Recorded; r != nil {
			r.Eligible, r.Start, r.End = later(r.Eligible, shift), later(r.Start, shift), later(r.End, shift)
			for _, tasks := range []map[int]hpc.Time{r.TaskStarts, r.TaskEnds} {
				for task, at := range tasks {
					tasks[task] = later(at, shift)
				}
			}
		}
		rewriteDependency(c, func(id string) string {
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

// renameReservations gives new names to those of the reservations that the job asks for, one
// or a list, which have one.
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

// later shifts an instant, if it is set.
func later(t hpc.Time, shift time.Duration) hpc.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(shift)
}

// Window cuts the workload to what is submitted from one instant up to, but without,
// another, as Fig. 2 of Martinasso et al. (SC'18) does. Jobs that are recorded to run at
// its start, and such tasks of arrays as jobs of their own, are preset jobs, those recorded to wait then keep their submission, and
// what nodes and reservations had become by then is so from the start. Actions from before
// it are left out, with a note: what of them still holds only the resource manager knows. A zero
// instant leaves that side open.
func Window(from, to hpc.Time) (Step, error) {
	if from != 0 && to != 0 && to <= from {
		return Step{}, fmt.Errorf("%s to %s: the end is not behind the start", from, to)
	}
	text := "--window " + instant(from) + "/" + instant(to)
	return Step{text, func(w *workload.Workload, env *Environment) (int, error) {
		if from != 0 && w.Start != 0 && from < w.Start {
			return 0, fmt.Errorf("%s is before the window's start %s", from, w.Start)
		}
		n := 0
		waited := map[string]bool{}
		if from != 0 {
			for _, job := range w.Jobs.All() {
				if job.Dependency != "" && job.Submit < from {
					waited[job.ID] = true
				}
			}
			n = workload.SplitArrays(w, from)
		}
		n += keep(w, func(job *hpc.Job) bool {
			if to != 0 && job.Submit >= to {
				return false
			}
			return from == 0 || job.Submit >= from || stillThere(job, from)
		})
		if w.Jobs.Len() == 0 {
			return 0, errors.New("no job is in it")
		}
		if from != 0 {
			if n := openAt(w, from); n > 0 {
				env.note("actions from before %s left out, whatever of them still holds: %d", from, n)
			}
			for i, job := range w.Jobs.All() {
				if waited[job.ID] && job.Dependency == "" && workload.BeginWhenEligible(job, from) {
					w.Jobs.Set(i, job)
				}
			}
		}
		if to != 0 {
			w.NodeEvents = slices.DeleteFunc(w.NodeEvents, func(ev hpc.NodeEvent) bool { return ev.At >= to })
			w.Reservations = slices.DeleteFunc(w.Reservations, func(ev hpc.ReservationEvent) bool { return ev.At >= to })
			w.Actions = slices.DeleteFunc(w.Actions, func(a hpc.Action) bool { return a.At >= to })
		}
		return n, nil
	}}, nil
}

func instant(t hpc.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.String()
}

// stillThere reports whether a job that was submitted before an instant is recorded to
// wait or to run then. A job that ran, but nobody recorded where, cannot be put there.
func stillThere(job *hpc.Job, at hpc.Time) bool {
	r := job.Recorded
	switch {
	case r == nil || r.End != 0 && r.End <= at:
		return false
	case r.Start == 0 || r.Start >= at:
		return r.End != 0 || r.Start != 0 // or the record says nothing at all
	}
	return r.Nodes != ""
}

// openAt makes an instant the window's start: what happened before it to nodes and
// reservations has happened when it begins. It returns how many actions it left out.
func openAt(w *workload.Workload, from hpc.Time) (actions int) {
	actions = len(w.Actions)
	w.Start, w.Epoch = from, from
	w.Usage = nil // it was that of another instant
	w.NodeEvents = clipNodes(w.NodeEvents, from)
	w.Reservations = clipReservations(w.Reservations, from)
	w.Actions = slices.DeleteFunc(w.Actions, func(a hpc.Action) bool { return a.At < from })
	return actions - len(w.Actions)
}

// clipNodes replaces the events before an instant by one at that instant for every node
// that they left out of service.
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
			names = []string{ev.Nodes} // left for the validation to report
		}
		for _, name := range names {
			if ev.State == "resume" {
				delete(out, name)
				continue
			}
			state := ev
			state.At, state.Nodes = from, name
			if ev.State == "fail" {
				state.State = "down" // whatever ran there is gone
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

// clipReservations creates those that exist at an instant then, as they had become.
func clipReservations(events []hpc.ReservationEvent, from hpc.Time) []hpc.ReservationEvent {
	open, rest := workload.ReservationsAt(events, from)
	for i := range open {
		open[i].At = from
	}
	return append(open, rest...)
}

// Merge adds another workload, which the step's text calls by a name. Jobs whose ID is
// taken, and reservations, have "~" and a number behind their names. Two users of one
// name must be the same user, and there can be only one window's start.
func Merge(other *workload.Workload, name string) Step {
	return Step{"--merge " + name, func(w *workload.Workload, _ *Environment) (int, error) {
		add := clone(other)
		if w.Start != 0 && add.Start != 0 && w.Start != add.Start {
			return 0, fmt.Errorf("windows begin at %s and at %s", w.Start, add.Start)
		}
		if err := mergeUsers(w, add); err != nil {
			return 0, err
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
		return add.Jobs.Len(), nil
	}}
}

func mergeUsers(w, add *workload.Workload) error {
	known := map[string]hpc.User{}
	for _, u := range w.Users {
		known[u.Name] = u
	}
	for _, u := range add.Users {
		old, ok := known[u.Name]
		if ok && old != u {
			return fmt.Errorf("user %s is %d:%d here and %d:%d there", u.Name, old.UID, old.GID, u.UID, u.GID)
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
		job.SWF = nil // two logs cannot be one
		rewriteDependency(job, func(id string) string { return newNames[id] })
		job.ID = newNames[job.ID]
		renameReservations(job, newReservations)
		add.Jobs.Set(i, job)
	}
}

// freeName returns the name, or the first of name~2, name~3, ... that is not taken, and
// takes it.
func freeName(name string, taken map[string]bool) string {
	free := name
	for i := 2; taken[free]; i++ {
		free = fmt.Sprintf("%s~%d", name, i)
	}
	taken[free] = true
	return free
}
