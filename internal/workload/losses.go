package workload

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/jobjson"
	"rmreplay/internal/slurmspec/sbatch"
)

// Losses are the facts that a conversion could not write. The keys are names of fields or of kinds
// of records, and the values are the numbers of jobs or records that lost them. Fields of a job
// have the names of package jobjson.
type Losses map[string]int

// Add adds n to the count of a name. A negative n takes back an earlier count.
func (l Losses) Add(what string, n int) {
	if n == 0 {
		return
	}
	if l[what] += n; l[what] == 0 {
		delete(l, what)
	}
}

// String lists the losses by name, one on each line.
func (l Losses) String() string {
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(l)) {
		fmt.Fprintf(&b, "%s: %d\n", what, l[what])
	}
	return b.String()
}

// Request counts the fields of a job's request that are set and are not in the map held.
func (l Losses) Request(job *hpc.Job, held map[string]bool) {
	v := reflect.ValueOf(&job.Request).Elem()
	for _, f := range jobjson.RequestFields() {
		if !held[f.Field] && !v.Field(f.Index).IsZero() {
			l[f.Name]++
		}
	}
}

// Reparsed counts the fields of a job's request that would be lost: sbatch's parser cannot read
// them back from the words that were written for the job. The parameter changed contains the
// values of the fields that the writer changed on purpose, by the field's name.
func (l Losses) Reparsed(job *hpc.Job, words []string, changed map[string]string) {
	s, err := sbatch.Parse(words, job.Submit)
	if err != nil {
		l["jobs whose options sbatch would refuse"]++
		return
	}
	want, got := reflect.ValueOf(&job.Request).Elem(), reflect.ValueOf(&s.Request).Elem()
	for _, f := range jobjson.RequestFields() {
		wanted := want.Field(f.Index).Interface()
		if value, ok := changed[f.Field]; ok {
			wanted = value
		}
		if f.Field != "MaxNodes" && want.Field(f.Index).IsZero() {
			continue // sbatch derives this field from the other fields as well
		}
		if !reflect.DeepEqual(wanted, got.Field(f.Index).Interface()) {
			l[f.Name]++
		}
	}
}

// LostPriorities names the priorities of lost runs, which [hpc.LostRun] does not have.
const LostPriorities = "priority (of lost runs)"

// Fate counts the named fields of a job's behaviour and recorded fate that are set.
func (l Losses) Fate(job *hpc.Job, fields ...string) {
	for _, f := range []struct {
		name string
		is   bool
	}{
		{"exit_code", job.ExitCode != 0},
		{"cancel_after_s", job.CancelAfter != 0},
		{"end_at", job.EndAt != 0},
		{"task_run_times_s", len(job.TaskRunTimes) > 0},
		{"task_exit_codes", len(job.TaskExitCodes) > 0},
		{"io", len(job.IO) > 0},
		{"recorded", job.Recorded != nil},
		{"lost_runs", interrupted(job, func(i *hpc.Interruptions) bool { return len(i.LostRuns) > 0 })},
		{LostPriorities, interrupted(job, func(i *hpc.Interruptions) bool { return len(i.LostRuns) > 0 })},
		{"suspensions", interrupted(job, func(i *hpc.Interruptions) bool { return len(i.Suspensions) > 0 })},
		{"preempted_by", interrupted(job, (*hpc.Interruptions).Preempted)},
		{"made", job.Made != ""},
	} {
		if f.is && slices.Contains(fields, f.name) {
			l[f.name]++
		}
	}
}

// interrupted calls the function has with the interruptions in the record of the job and of each of its tasks. It
// returns true if one of these calls does.
func interrupted(job *hpc.Job, has func(*hpc.Interruptions) bool) bool {
	if job.Recorded == nil {
		return false
	}
	found := has(&job.Recorded.Interruptions)
	for _, i := range job.Recorded.TaskInterruptions {
		found = found || has(&i)
	}
	return found
}

// Machine counts the size of the machine, which only SWF and traces can write.
func (l Losses) Machine(wl *Workload) {
	if wl.MachineNodes > 0 || wl.MachineProcessors > 0 {
		l.Add("size of the machine", 1)
	}
}

// Events counts the entries of the workload that are not jobs.
func (l Losses) Events(wl *Workload) {
	l.Add("reservation events", len(wl.Reservations))
	l.Add("node events", len(wl.NodeEvents))
	l.Add("actions", len(wl.Actions))
	l.Add("usage records", len(wl.Usage))
	l.Add("file systems", len(wl.FileSystems))
	if wl.Start != 0 {
		l.Add("window's start", 1)
	}
}

// FieldSet returns a set of fields of hpc.Request by their names in Go. It panics at an unknown
// name, which is a mistake in this program.
func FieldSet(fields ...string) map[string]bool {
	t := reflect.TypeFor[hpc.Request]()
	set := make(map[string]bool, len(fields))
	for _, field := range fields {
		if _, ok := t.FieldByName(field); !ok {
			panic("hpc.Request has no field " + field)
		}
		set[field] = true
	}
	return set
}
