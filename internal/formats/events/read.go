// Package events reads and writes the events of UB's Slurm simulator.
package events

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/lines"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmspec/sbatch"
	"rmreplay/internal/workload"
)

// Format is the format of the events of UB's Slurm simulator.
var Format = workload.Format{
	Name: "events", Doc: "a file of events for UB's Slurm simulator",
	Looks: `UB events "-dt …"`, Recognize: recognize, Read: Read, Write: Write,
}

// recognize accepts a line that begins with an option. A file with comments only may be a file
// without events; the reader then returns an error.
func recognize(head []byte) workload.Confidence {
	switch line, comments := lines.First(head); {
	case line != "" && line[0] == '-':
		return workload.Sure
	case line == "" && comments:
		return workload.Maybe
	}
	return workload.No
}

// Read reads the events of UB's Slurm simulator (Simakov et al., PEARC'22; its
// reader is contribs/sim/sim_events.c):
//
//	-dt SECONDS -e submit_batch_job | sbatch options… pseudo.job
//	-dt SECONDS -e cancel_job | -J NAME   (or -jid N)
//
// SECONDS count from the epoch. The parameter name is the source's name in errors, which have the
// form "reading events: NAME:LINE: what is wrong". A file without a job is an error.
//
// A job's ID is its name if no other job has that name. If several jobs have the same name, the
// name is the ID of the first of them in the file, and the others have the ID NAME#LINE. In a
// dependency, N may also mean the job jobid_N.
func Read(r io.Reader, name string, opts workload.ReadOptions) (*workload.Workload, error) {
	e := reader{
		book: workload.RuleBook{Strict: opts.Strict},
		w:    &workload.Workload{Epoch: opts.EpochOrDefault(), Source: name},
		byID: make(map[string]*hpc.Job), scripts: make(map[string]bool),
	}
	tail := &tail{r: r}
	if err := lines.Each(tail, name, e.line); err != nil {
		return nil, fmt.Errorf("reading events: %w", err)
	}
	if err := e.cutOff(tail.last); err != nil {
		return nil, fmt.Errorf("reading events: %s:%d: %w", name, e.last.number, err)
	}
	if len(e.jobs) == 0 {
		return nil, fmt.Errorf("reading events: %s: it has no job", name)
	}
	for _, c := range e.cancels {
		if err := e.cancel(c); err != nil {
			return nil, fmt.Errorf("reading events: %s:%d: %w", name, c.line, err)
		}
	}
	e.resolveDependencies()
	e.w.Jobs = workload.JobsOf(e.jobs...)
	e.w.Rules, e.w.Mistake = e.book.Counts, e.book.Mistake()
	e.w.Sort()
	return e.w, nil
}

// reader collects a workload line by line. It resolves cancellations and dependencies at the end,
// because the lines need not be in order.
type reader struct {
	book    workload.RuleBook
	order   workload.OrderCheck
	w       *workload.Workload
	jobs    []*hpc.Job
	byID    map[string]*hpc.Job
	cancels []cancelEvent
	scripts map[string]bool // the scripts of all jobs except the last
	last    lastLine
}

// lastLine is the last line of the file.
type lastLine struct {
	number int
	script string // the script of a job, if it ends the line
	bare   bool   // a job without a script
}

// tail stores the last byte that was read.
type tail struct {
	r    io.Reader
	last byte
}

func (t *tail) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	if n > 0 {
		t.last = p[n-1]
	}
	return n, err
}

// cutOff returns an error if the file ends in the middle of its last line. A line is complete if it
// ends in a line break, or with a script that another job also has. A job without a script is cut
// off if other jobs have a script. The reader accepts other lines, because it cannot find out
// whether they are complete.
func (e *reader) cutOff(lastByte byte) error {
	switch {
	case lastByte == '\n' || e.scripts[e.last.script] || e.last.number == 0: // 0 if it is a comment
		return nil
	case len(e.scripts) > 0 && e.last.bare:
		return errors.New("unlike the other lines, the last one has neither a line end nor a script: the file is cut off " +
			"(want the whole line)")
	}
	return e.book.Fall(workload.RuleNoLineEnd, "the last line has no line end and may be cut off (want a line end "+
		"behind it)")
}

type cancelEvent struct {
	line int
	at   hpc.Time
	job  string
}

func (e *reader) line(number int, line []byte) error {
	if e.last.script != "" {
		e.scripts[e.last.script] = true
	}
	e.last = lastLine{}
	text := strings.TrimSpace(lines.UTF8(line))
	if text == "" || text[0] == '#' {
		return nil
	}
	left, right, found := strings.Cut(text, "|")
	if !found {
		return errors.New("no event (want -dt SECONDS -e submit_batch_job | sbatch options)")
	}
	at, event, err := e.header(left)
	if err != nil {
		return err
	}
	words, err := sbatch.Split(right)
	if err != nil {
		return err
	}
	e.last.number = number
	switch event {
	case "submit_batch_job":
		return e.submit(number, at, words)
	case "cancel_job":
		job, err := cancelTarget(words)
		e.cancels = append(e.cancels, cancelEvent{number, at, job})
		return err
	}
	return fmt.Errorf("-e %s: not a known event (want submit_batch_job or cancel_job)", event)
}

// header reads the part of a line before the "|": the time and the event.
func (e *reader) header(left string) (at hpc.Time, event string, err error) {
	words := strings.Fields(left)
	hasTime := false
	for i := 0; i < len(words); i += 2 {
		if i+1 == len(words) {
			return 0, "", fmt.Errorf("%s: needs a value", words[i])
		}
		switch value := words[i+1]; words[i] {
		case "-dt":
			d, err := slurmspec.ParseSeconds(value)
			if err != nil || d < 0 {
				return 0, "", fmt.Errorf("-dt %s: not a time (want seconds from the start, 0 or more)", value)
			}
			at, hasTime = e.w.Epoch.Add(d), true
		case "-e":
			event = value
		default:
			return 0, "", fmt.Errorf("%s: not known before | (want -dt SECONDS -e EVENT)", words[i])
		}
	}
	switch {
	case !hasTime:
		return 0, "", errors.New("-dt: missing (want -dt SECONDS -e EVENT)")
	case event == "":
		return 0, "", errors.New("-e: missing (want -dt SECONDS -e EVENT)")
	}
	return at, event, nil
}

func (e *reader) submit(line int, at hpc.Time, words []string) error {
	s, err := sbatch.Parse(words, at)
	if err != nil {
		return err
	}
	if s.Fewer != "" {
		e.book.Note(workload.RuleFewerNodes, 1)
	}
	e.last.bare = s.Script == ""
	if n := len(words); n > 0 && words[n-1] == s.Script {
		e.last.script = s.Script
	}
	id, err := e.uniqueID(s.Request.Name, line)
	if err != nil {
		return err
	}
	job := &hpc.Job{
		ID:        id,
		Submit:    at,
		Request:   s.Request,
		Behaviour: hpc.Behaviour{RunTime: s.RunTime},
	}
	e.byID[job.ID] = job
	e.jobs = append(e.jobs, job)
	return e.order.Job(&e.book, at)
}

func (e *reader) uniqueID(name string, line int) (string, error) {
	if name == "" {
		name = "job"
	}
	if e.byID[name] == nil {
		return name, nil
	}
	id := name + "#" + strconv.Itoa(line)
	for e.byID[id] != nil { // another job may have this ID as its name
		id += "#"
	}
	return id, e.book.Fall(workload.RuleRenamed, "another job is named %s", name)
}

// find returns the job with an ID or name in the source, or nil.
func (e *reader) find(id string) *hpc.Job {
	if job := e.byID[id]; job != nil {
		return job
	}
	return e.byID["jobid_"+id]
}

func cancelTarget(words []string) (string, error) {
	if len(words) == 1 && strings.HasPrefix(words[0], "--job-name=") {
		return strings.TrimPrefix(words[0], "--job-name="), nil
	}
	if len(words) != 2 {
		return "", errors.New("cancel_job: needs one job (want -J NAME or -jid N)")
	}
	switch words[0] {
	case "-J", "--job-name":
		return words[1], nil
	case "-jid":
		return "jobid_" + words[1], nil
	}
	return "", fmt.Errorf("cancel_job: %s: not known (want -J NAME or -jid N)", words[0])
}

func (e *reader) cancel(c cancelEvent) error {
	job := e.find(c.job)
	if job == nil {
		return fmt.Errorf("cancel_job: no job is named %s", c.job)
	}
	if c.at < job.Submit {
		return fmt.Errorf("cancel_job: %s is submitted later, at -dt %g", c.job, job.Submit.Sub(e.w.Epoch).Seconds())
	}
	// 0 would mean that the job is not cancelled.
	job.CancelAfter = max(c.at.Sub(job.Submit), 1)
	return nil
}

// resolveDependencies replaces the names in a dependency by the IDs of the jobs. An unknown
// name stays as it is, and [workload.Validate] reports it.
func (e *reader) resolveDependencies() {
	for _, job := range e.jobs {
		if job.Dependency == "" {
			continue
		}
		deps, err := sbatch.ParseDependency(job.Dependency)
		if err != nil {
			continue // the options were checked when they were read
		}
		for i, d := range deps.List {
			deps.List[i].Job = e.resolve(d)
		}
		job.Dependency = deps.String()
	}
}

func (e *reader) resolve(d sbatch.Dependency) string {
	if other := e.find(d.Job); other != nil {
		return other.ID
	}
	if id, _, ok := d.Task(); ok {
		if other := e.find(id); other != nil {
			return other.ID + d.Job[len(id):]
		}
	}
	return d.Job
}
