package workload

import (
	"bufio"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec/sbatch"
)

// Formats are the names of the formats that [Write] writes.
var Formats = []string{"trace", "swf", "events", "sacct"}

// Write writes the workload in a format and returns what the format has no place for.
// An unknown format is an error.
func Write(w io.Writer, wl *Workload, format string) (Losses, error) {
	switch format {
	case "trace":
		return nil, WriteTrace(w, wl)
	case "swf":
		return WriteSWF(w, wl)
	case "events":
		return WriteEvents(w, wl)
	case "sacct":
		return WriteSacct(w, wl)
	}
	return nil, fmt.Errorf("format %s: not known (want %s)", format, strings.Join(Formats, ", "))
}

// WriteEvents writes the workload as events of UB's Slurm simulator, as [ReadEvents]
// reads them, and returns what they do not say.
func WriteEvents(w io.Writer, wl *Workload) (Losses, error) {
	out := bufio.NewWriterSize(w, 64<<10)
	e := eventWriter{losses: Losses{}, names: eventNames(wl), epoch: wl.Epoch}
	if wl.Jobs.Len() > 0 {
		e.epoch = min(e.epoch, wl.Jobs.Submit(0))
		if e.epoch.IsZero() {
			e.epoch = wl.Jobs.Submit(0)
		}
	}
	for _, job := range wl.Jobs.All() {
		if err := e.job(out, job); err != nil {
			return nil, fmt.Errorf("writing events: job %s: %w", job.ID, err)
		}
	}
	e.losses.add("users", len(wl.Users))
	e.losses.add("unusable records", len(wl.Unusable))
	e.losses.events(wl)
	if err := out.Flush(); err != nil {
		return nil, fmt.Errorf("writing events: %w", err)
	}
	return e.losses, nil
}

type eventWriter struct {
	losses Losses
	names  map[string]string // what each job is called in the file, by ID
	epoch  hpc.Time
}

// eventNames finds a name for each job by which a reader of the events can tell it
// from the others: its own where no other job has it, and otherwise its ID.
func eventNames(wl *Workload) map[string]string {
	uses := make(map[string]int, wl.Jobs.Len())
	for _, job := range wl.Jobs.All() {
		uses[job.Name]++
		if job.ID != job.Name {
			uses[job.ID]++
		}
	}
	names := make(map[string]string, wl.Jobs.Len())
	for _, job := range wl.Jobs.All() {
		names[job.ID] = job.ID
		if job.Name != "" && uses[job.Name] == 1 {
			names[job.ID] = job.Name
		}
	}
	return names
}

func (e *eventWriter) job(out *bufio.Writer, job *hpc.Job) error {
	r := job.Request
	r.Name = oneLine(e.names[job.ID])
	r.Comment = oneLine(r.Comment)
	r.Dependency = e.dependency(job)
	words := append(sbatch.Format(&r), "-sim-walltime="+walltime(job.RunTime), "pseudo.job")
	at := fmt.Sprintf("-dt %s -e ", appendNanos(nil, int64(job.Submit.Sub(e.epoch))))
	if _, err := out.WriteString(at + "submit_batch_job | " + sbatch.Join(words) + "\n"); err != nil {
		return err
	}
	if job.CancelAfter > 0 {
		after := appendNanos(nil, int64(job.Submit.Sub(e.epoch)+job.CancelAfter))
		if _, err := fmt.Fprintf(out, "-dt %s -e cancel_job | -J %s\n", after, sbatch.Quote(r.Name)); err != nil {
			return err
		}
	}
	e.losses.reparsed(job, words, map[string]string{"Dependency": r.Dependency})
	e.losses.behaviour(job, "exit_code", "end_at", "task_run_times_s", "task_exit_codes", "recorded", "swf")
	return nil
}

// dependency writes the job's conditions with the names that the other jobs have here.
func (e *eventWriter) dependency(job *hpc.Job) string {
	deps, err := sbatch.ParseDependency(job.Dependency)
	if job.Dependency == "" || err != nil {
		return job.Dependency
	}
	for i, d := range deps.List {
		if name := e.names[d.Job]; name != "" {
			deps.List[i].Job = name
		}
	}
	return deps.String()
}

func walltime(d time.Duration) string {
	if d == hpc.Unlimited {
		return "-1"
	}
	return string(appendNanos(nil, int64(d)))
}

// reparsed counts the fields of the request that the options do not give again.
// changed are those that were written differently on purpose, by the field's name.
func (l Losses) reparsed(job *hpc.Job, words []string, changed map[string]string) {
	s, err := sbatch.Parse(words, job.Submit)
	if err != nil {
		l["jobs whose options sbatch would refuse"]++
		return
	}
	want, got := reflect.ValueOf(&job.Request).Elem(), reflect.ValueOf(&s.Request).Elem()
	for _, f := range requestNames {
		wanted := want.Field(f.index).Interface()
		if value, ok := changed[f.field]; ok {
			wanted = value
		}
		if f.field != "MaxNodes" && want.Field(f.index).IsZero() {
			continue // what sbatch derives from the others follows from them here, too
		}
		if !reflect.DeepEqual(wanted, got.Field(f.index).Interface()) {
			l[f.name]++
		}
	}
}

// behaviour counts what the job does and what became of it, of the fields named.
func (l Losses) behaviour(job *hpc.Job, fields ...string) {
	for _, f := range []struct {
		name string
		is   bool
	}{
		{"exit_code", job.ExitCode != 0},
		{"cancel_after_s", job.CancelAfter != 0},
		{"end_at", job.EndAt != 0},
		{"task_run_times_s", len(job.TaskRunTimes) > 0},
		{"task_exit_codes", len(job.TaskExitCodes) > 0},
		{"recorded", job.Recorded != nil},
		{"swf", job.SWF != nil && len(job.SWF.Kept) > 0},
	} {
		if f.is && slices.Contains(fields, f.name) {
			l[f.name]++
		}
	}
}

// sacctColumnsWritten are the columns of [WriteSacct].
const sacctColumnsWritten = "JobID|JobName|User|UID|Group|GID|Account|Partition|QOS|WCKey|Reservation|Submit|Eligible|Start|End|" +
	"ElapsedRaw|State|ExitCode|Timelimit|ReqCPUS|AllocCPUS|ReqNodes|NodeList|Priority|SubmitLine"

// WriteSacct writes the workload as `sacct -P` would print it, as [ReadSacct] reads
// it, and returns what it does not say. Times are in UTC. The jobs end as they did
// when the workload was recorded; one of which nothing is recorded is pending.
func WriteSacct(w io.Writer, wl *Workload) (Losses, error) {
	out := bufio.NewWriterSize(w, 64<<10)
	s := sacctWriter{losses: Losses{}, users: make(map[string]hpc.User, len(wl.Users))}
	for _, u := range wl.Users {
		s.users[u.Name] = u
	}
	s.numberJobs(wl)
	if _, err := out.WriteString(sacctColumnsWritten + "\n"); err != nil {
		return nil, fmt.Errorf("writing sacct: %w", err)
	}
	for _, job := range wl.Jobs.All() {
		for _, task := range arrayTasks(job) {
			if _, err := out.WriteString(strings.Join(s.fields(job, task), "|") + "\n"); err != nil {
				return nil, fmt.Errorf("writing sacct: %w", err)
			}
		}
		s.count(job)
	}
	s.losses.add("unusable records", len(wl.Unusable))
	s.losses.events(wl)
	if err := out.Flush(); err != nil {
		return nil, fmt.Errorf("writing sacct: %w", err)
	}
	return s.losses, nil
}

type sacctWriter struct {
	losses  Losses
	users   map[string]hpc.User
	numbers map[string]string // by ID
}

// numberJobs finds a number for each job: its ID where all of them are numbers.
func (s *sacctWriter) numberJobs(wl *Workload) {
	s.numbers = make(map[string]string, wl.Jobs.Len())
	for _, job := range wl.Jobs.All() {
		if n, err := strconv.ParseUint(job.ID, 10, 32); err != nil || n == 0 {
			for i, job := range wl.Jobs.All() {
				s.numbers[job.ID] = strconv.Itoa(i + 1)
			}
			s.losses.add("job IDs (numbered anew)", wl.Jobs.Len())
			return
		}
		s.numbers[job.ID] = job.ID
	}
}

// words is the job's command line, with the numbers that the other jobs have here.
func (s *sacctWriter) words(job *hpc.Job) (words []string, dependency string) {
	r := job.Request
	r.Name, r.Comment, r.User = oneLine(r.Name), oneLine(r.Comment), ""
	if deps, err := sbatch.ParseDependency(r.Dependency); err == nil && r.Dependency != "" {
		for i, d := range deps.List {
			if n := s.numbers[d.Job]; n != "" {
				deps.List[i].Job = n
			}
		}
		r.Dependency = deps.String()
	}
	return append(sbatch.Format(&r), "job.sh"), r.Dependency
}

func (s *sacctWriter) fields(job *hpc.Job, task int) []string {
	id := s.numbers[job.ID]
	if task >= 0 {
		id += "_" + strconv.Itoa(task)
	}
	rec := hpc.Recorded{State: hpc.Pending}
	if job.Recorded != nil {
		rec = job.Recorded.OfTask(task)
	}
	fate := sacctFate(&rec, job.RunTimeOf(task))
	words, _ := s.words(job)
	user := s.users[job.User]
	return []string{
		id, oneLine(job.Name), job.User, idOf(user, user.UID), orElse(job.Group, user.Group), idOf(user, user.GID),
		job.Account, job.Partition, job.QOS, job.WCKey, job.Reservation,
		sacctTime(job.Submit), sacctTime(rec.Eligible), sacctTime(rec.Start), sacctTime(fate.end), fate.elapsed, string(rec.State),
		strconv.Itoa(job.ExitCodeOf(task)) + ":0", sacctClock(job.TimeLimit), strconv.Itoa(CPUs(&job.Request)), strconv.Itoa(rec.Processors),
		strconv.Itoa(max(job.MinNodes, 1)), rec.Nodes, strconv.FormatUint(uint64(rec.Priority), 10), sbatch.Join(append([]string{"sbatch"}, words...)),
	}
}

func idOf(user hpc.User, id uint32) string {
	if user.Name == "" {
		return ""
	}
	return strconv.FormatUint(uint64(id), 10)
}

// fate is how a job ended, as far as sacct shows it.
type fate struct {
	end     hpc.Time
	elapsed string
}

// sacctFate makes the recorded end of a job agree with how long it runs.
func sacctFate(rec *hpc.Recorded, runTime time.Duration) fate {
	f := fate{end: rec.End, elapsed: "0"}
	switch {
	case rec.Start.IsZero():
		return f
	case runTime == hpc.Unlimited && rec.End.IsZero():
		if !rec.State.Ended() {
			rec.State = hpc.Running
		}
		return f
	case runTime == hpc.Unlimited:
		rec.State = hpc.TimedOut
		runTime = rec.End.Sub(rec.Start)
	case rec.End.IsZero() || !rec.State.Ended():
		f.end = rec.Start.Add(runTime)
		rec.State = hpc.Completed
	}
	f.elapsed = strconv.FormatInt(int64(runTime/time.Second), 10)
	return f
}

func sacctTime(t hpc.Time) string {
	if t.IsZero() {
		return "Unknown"
	}
	return t.Std().Format("2006-01-02T15:04:05")
}

// sacctClock writes a time limit as sacct prints it.
func sacctClock(d time.Duration) string {
	switch d {
	case 0:
		return "Partition_Limit"
	case hpc.Unlimited:
		return "UNLIMITED"
	}
	s := int64(d / time.Second)
	text := fmt.Sprintf("%02d:%02d:%02d", s/3600%24, s/60%60, s%60)
	if days := s / 86400; days > 0 {
		text = fmt.Sprintf("%d-%s", days, text)
	}
	return text
}

// count counts what the job's line does not say.
func (s *sacctWriter) count(job *hpc.Job) {
	words, dependency := s.words(job)
	s.losses.reparsed(job, words, map[string]string{"Dependency": dependency, "User": ""})
	s.losses.behaviour(job, "end_at", "swf")
	rec := job.Recorded
	if job.Hold && rec != nil && !rec.Start.IsZero() {
		s.losses.add("hold", 1) // it was released, as sacct has it
	}
	switch {
	case rec == nil || rec.Start.IsZero() && job.RunTime != hpc.Unlimited:
		s.losses.add("run_time_s (no recorded start and end)", 1)
	case job.RunTime == hpc.Unlimited && (job.TimeLimit == 0 || job.TimeLimit == hpc.Unlimited) && !rec.End.IsZero():
		s.losses.add("run_time_s (until a limit that the job does not name)", 1)
	case job.CancelAfter != 0 && rec.Start.IsZero() != (rec.State == hpc.Cancelled):
		s.losses.add("cancel_after_s", 1)
	case job.RunTime != hpc.Unlimited && job.RunTime%time.Second != 0:
		s.losses.add("fractions of seconds", 1)
	}
}
