package sacct

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/lines"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmspec/sbatch"
	"rmreplay/internal/workload"
)

// columnsWritten are the columns of [Write].
const columnsWritten = "JobID|JobName|User|UID|Group|GID|Account|Partition|QOS|WCKey|Reservation|Submit|Eligible|Start|End|" +
	"ElapsedRaw|State|ExitCode|Timelimit|ReqCPUS|AllocCPUS|ReqNodes|NodeList|Priority|SubmitLine"

// Write writes the workload in the form that `sacct -D -P` prints and [Read] reads. It counts the
// facts that this form cannot express. Times are in UTC. Each job has its recorded end. A job
// without a recorded end is pending, and so is one that completed without a recorded start.
func Write(w io.Writer, wl *workload.Workload) (workload.Losses, error) {
	out := bufio.NewWriterSize(w, 64<<10)
	s := writer{losses: workload.Losses{}, users: make(map[string]hpc.User, len(wl.Users))}
	for _, u := range wl.Users {
		s.users[u.Name] = u
	}
	s.numberJobs(wl)
	if _, err := out.WriteString(columnsWritten + "\n"); err != nil {
		return nil, fmt.Errorf("writing sacct: %w", err)
	}
	for _, job := range wl.Jobs.All() {
		for _, task := range workload.TasksOf(job) {
			for _, row := range s.rows(job, task) {
				if _, err := out.WriteString(strings.Join(row, "|") + "\n"); err != nil {
					return nil, fmt.Errorf("writing sacct: %w", err)
				}
			}
		}
		s.count(job)
	}
	s.losses.Add("unusable records", len(wl.Unusable))
	s.losses.Machine(wl)
	s.losses.Events(wl)
	if err := out.Flush(); err != nil {
		return nil, fmt.Errorf("writing sacct: %w", err)
	}
	return s.losses, nil
}

type writer struct {
	losses  workload.Losses
	users   map[string]hpc.User
	numbers map[string]string // by ID
}

// numberJobs gives each job a number. It uses the IDs if all of them are numbers.
func (s *writer) numberJobs(wl *workload.Workload) {
	s.numbers = make(map[string]string, wl.Jobs.Len())
	for _, job := range wl.Jobs.All() {
		if n, err := strconv.ParseUint(job.ID, 10, 32); err != nil || n == 0 {
			for i, job := range wl.Jobs.All() {
				s.numbers[job.ID] = strconv.Itoa(i + 1)
			}
			s.losses.Add("job IDs (numbered anew)", wl.Jobs.Len())
			return
		}
		s.numbers[job.ID] = job.ID
	}
}

// words returns the job's command line. Dependencies in it have the numbers of the other jobs in
// the output.
func (s *writer) words(job *hpc.Job) (words []string, dependency string) {
	r := job.Request
	r.Name, r.Comment, r.User = lines.OneLine(r.Name), lines.OneLine(r.Comment), ""
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

// rows returns a line for each run of a job, or of a task of an array. If a run is lost, slurmctld
// requeues the job.
func (s *writer) rows(job *hpc.Job, task int) (rows [][]string) {
	rec := hpc.Recorded{State: hpc.Pending}
	if job.Recorded != nil {
		rec = job.Recorded.OfTask(task)
	}
	submit := job.Submit
	for _, run := range rec.LostRuns {
		of := hpc.Recorded{Eligible: rec.Eligible, Start: run.Start, End: run.End, State: cmp.Or(run.Cause, hpc.Requeued),
			Nodes: run.Nodes, Processors: run.Processors, TimeLimit: rec.TimeLimit}
		rows = append(rows, s.fields(job, task, submit, &of, run.End.Sub(run.Start)))
		submit, rec.Eligible = run.End, run.EligibleAgain
	}
	return append(rows, s.fields(job, task, submit, &rec, job.RunTimeOf(task)))
}

// fields returns the line of a run that takes runTime unless something ends it.
func (s *writer) fields(job *hpc.Job, task int, submit hpc.Time, rec *hpc.Recorded, runTime time.Duration) []string {
	id := s.numbers[job.ID]
	if task >= 0 {
		id += "_" + strconv.Itoa(task)
	}
	fate := endOf(rec, runTime)
	words, _ := s.words(job)
	user := s.users[job.User]
	return []string{
		id, lines.OneLine(job.Name), job.User, idOf(user, user.UID), cmp.Or(job.Group, user.Group), idOf(user, user.GID),
		job.Account, job.Partition, job.QOS, job.WCKey, job.Reservation,
		timeText(submit), timeText(rec.Eligible), timeText(rec.Start), timeText(fate.end), fate.elapsed, string(rec.State),
		strconv.Itoa(job.ExitCodeOf(task)) + ":0", limitText(cmp.Or(rec.TimeLimit, job.TimeLimit)), strconv.Itoa(workload.CPUs(&job.Request)), strconv.Itoa(rec.Processors),
		strconv.Itoa(max(job.MinNodes, 1)), rec.Nodes, priorityText(rec.Priority), sbatch.Join(append([]string{"sbatch"}, words...)),
	}
}

func idOf(user hpc.User, id uint32) string {
	if user.Name == "" {
		return ""
	}
	return strconv.FormatUint(uint64(id), 10)
}

// fate is the end of a job as sacct shows it.
type fate struct {
	end     hpc.Time
	elapsed string
}

// endOf makes the recorded end of a job agree with its run time.
func endOf(rec *hpc.Recorded, runTime time.Duration) fate {
	f := fate{end: rec.End, elapsed: "0"}
	switch {
	case rec.Start.IsZero() && rec.State == hpc.Completed: // readers cannot use a completed job without a start
		rec.State = hpc.Pending
		return fate{elapsed: "0"}
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
	f.elapsed = strconv.FormatInt(int64(workload.Ran(rec, runTime)/time.Second), 10)
	return f
}

func timeText(t hpc.Time) string {
	return cmp.Or(slurmspec.FormatTime(t), "Unknown")
}

// priorityText writes a priority; "" if it is not known.
func priorityText(priority uint32) string {
	if priority == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(priority), 10)
}

// limitText writes a time limit as sacct prints it.
func limitText(d time.Duration) string {
	if d == 0 {
		return "Partition_Limit"
	}
	return slurmspec.FormatSpan(d)
}

// count counts the facts about a job that its line does not express.
func (s *writer) count(job *hpc.Job) {
	words, dependency := s.words(job)
	s.losses.Reparsed(job, words, map[string]string{"Dependency": dependency, "User": ""})
	s.losses.Fate(job, "end_at", "made", "suspensions", "preempted_by", workload.LostPriorities)
	rec, limit := job.Recorded, job.TimeLimit
	if rec != nil {
		limit = cmp.Or(rec.TimeLimit, limit)
	}
	if job.Hold && rec != nil && !rec.Start.IsZero() {
		s.losses.Add("hold", 1) // in sacct's records the job was released
	}
	switch {
	case rec == nil || rec.Start.IsZero() && job.RunTime != hpc.Unlimited:
		s.losses.Add("run_time_s (no recorded start and end)", 1)
	case job.RunTime == hpc.Unlimited && (limit == 0 || limit == hpc.Unlimited) && !rec.End.IsZero():
		s.losses.Add("run_time_s (until a limit that the job does not name)", 1)
	case job.CancelAfter != 0 && rec.Start.IsZero() != (rec.State == hpc.Cancelled):
		s.losses.Add("cancel_after_s", 1)
	case job.RunTime != hpc.Unlimited && job.RunTime%time.Second != 0:
		s.losses.Add("fractions of seconds", 1)
	}
}
