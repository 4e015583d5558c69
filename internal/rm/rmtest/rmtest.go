// Package rmtest reads the scenarios of the resource managers' tests. They are text files in the
// form of github.com/cockroachdb/datadriven, with the expected schedule of each scenario below its
// input. The simulator and the real Slurm share the lines of the input:
//
//	job ID at=S run=S [limit=S] [cancel=S] [exit=N] [run.TASK=S] [exit.TASK=N] [sbatch options]
//	node at=S LIST STATE [reason]
//	reservation at=S create|update|delete NAME [start=S] [duration=S] [nodes=LIST] [count=N] [partition=NAME]
//		[users=LIST] [accounts=LIST] [flags=LIST]
//	usage ACCOUNT[/USER] raw=N
//	window at=S
//
// A window begins at=S; jobs that ran then also have started=S on=LIST.
//
// S is a number of seconds. at and start count from the beginning of the scenario, cancel counts
// from the submission, and run=unlimited is a job that only its time limit ends. A "#" begins a
// comment that reaches to the end of the line.
package rmtest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec/sbatch"
)

// Scenario has the inputs of a test. Each list is in the order of the text.
type Scenario struct {
	Jobs         []*hpc.Job
	Nodes        []hpc.NodeEvent
	Reservations []hpc.ReservationEvent
	Usage        []hpc.Usage // before the scenario
	Start        hpc.Time    // of the window; 0 without one
}

// Parse reads the lines of a scenario that begins at epoch. Every job has one task and the sbatch
// options in defaults, unless its own options say otherwise. An error names the line.
func Parse(text string, epoch hpc.Time, defaults ...string) (Scenario, error) {
	p := parser{epoch: epoch, defaults: append([]string{"-n", "1"}, defaults...)}
	for line := range strings.Lines(text) {
		code, _, _ := strings.Cut(line, "#")
		words, err := sbatch.Split(strings.TrimSpace(code))
		if err == nil && len(words) > 0 {
			err = p.line(words)
		}
		if err != nil {
			return Scenario{}, fmt.Errorf("%s: %w", strings.TrimSpace(line), err)
		}
	}
	return p.Scenario, nil
}

// parser collects the lines of a scenario.
type parser struct {
	Scenario
	epoch    hpc.Time
	defaults []string
}

// line reads one line, which has at least one word.
func (p *parser) line(words []string) error {
	f := fields{epoch: p.epoch, values: map[string]string{}}
	for _, w := range words[1:] {
		if key, value, found := strings.Cut(w, "="); found && !strings.HasPrefix(w, "-") && len(f.options) == 0 {
			f.values[key] = value
		} else if strings.HasPrefix(w, "-") || len(f.options) > 0 {
			f.options = append(f.options, w)
		} else {
			f.names = append(f.names, w)
		}
	}
	f.names = append(f.names, "", "", "") // names that the line leaves out are empty
	switch words[0] {
	case "job":
		job, err := p.job(&f)
		if err != nil {
			return err
		}
		p.Jobs = append(p.Jobs, job)
	case "node":
		p.Nodes = append(p.Nodes, hpc.NodeEvent{
			At: f.instant("at"), Nodes: f.names[0], State: f.names[1], Reason: strings.TrimSpace(strings.Join(f.names[2:], " ")),
		})
	case "reservation":
		r := hpc.Reservation{Name: f.names[1], Start: f.instant("start"), Duration: f.duration("duration"),
			Nodes: f.text("nodes"), NodeCount: f.number("count"), Partition: f.text("partition"),
			Users: f.list("users"), Accounts: f.list("accounts"), Flags: f.list("flags")}
		p.Reservations = append(p.Reservations, hpc.ReservationEvent{At: f.instant("at"), Action: f.names[0], Reservation: r})
	case "window":
		p.Start = f.instant("at")
	case "usage":
		account, user, _ := strings.Cut(f.names[0], "/")
		p.Usage = append(p.Usage, hpc.Usage{Account: account, User: user, Raw: float64(f.number("raw"))})
	default:
		return fmt.Errorf("%q: not an input (want job, node, reservation, usage or window)", words[0])
	}
	return f.rest()
}

// job makes a job of the words of its line.
func (p *parser) job(f *fields) (*hpc.Job, error) {
	submit := f.instant("at")
	asked, err := sbatch.Parse(append(append([]string(nil), p.defaults...), f.options...), submit)
	if err != nil {
		return nil, err
	}
	job := &hpc.Job{ID: f.names[0], Submit: submit, Request: asked.Request}
	if limit := f.duration("limit"); limit > 0 {
		job.TimeLimit = limit
	}
	job.RunTime, job.CancelAfter, job.ExitCode = f.duration("run"), f.duration("cancel"), f.number("exit")
	if on := f.text("on"); on != "" {
		start := f.instant("started")
		job.Recorded = &hpc.Recorded{
			Eligible: submit, Start: start, End: start.Add(job.RunTime), State: hpc.Completed, Nodes: on,
			Processors: max(1, job.Tasks),
		}
	}
	for key := range f.values {
		what, index, _ := strings.Cut(key, ".")
		task, err := strconv.Atoi(index)
		switch {
		case err != nil:
		case what == "run":
			if job.TaskRunTimes == nil {
				job.TaskRunTimes = map[int]time.Duration{}
			}
			job.TaskRunTimes[task] = f.duration(key)
		case what == "exit":
			if job.TaskExitCodes == nil {
				job.TaskExitCodes = map[int]int{}
			}
			job.TaskExitCodes[task] = f.number(key)
		}
	}
	return job, nil
}

// fields are the words of a line after the first one: names, keys with values, and options of sbatch. Reading a value
// removes it, so rest finds the keys that were never read.
type fields struct {
	epoch   hpc.Time
	names   []string
	values  map[string]string
	options []string
	err     error
}

// rest returns the first error in the line's values. Without such an error it returns an error for
// the first key that nothing has read.
func (f *fields) rest() error {
	if unread := slices.Sorted(maps.Keys(f.values)); f.err == nil && len(unread) > 0 {
		return fmt.Errorf("%s=: not a key of this line", unread[0])
	}
	return f.err
}

func (f *fields) text(key string) string {
	value := f.values[key]
	delete(f.values, key)
	return value
}

// list returns the items of a comma-separated list; nil if the line lacks the key.
func (f *fields) list(key string) []string {
	if value := f.text(key); value != "" {
		return strings.Split(value, ",")
	}
	return nil
}

func (f *fields) number(key string) int {
	value := f.text(key)
	if value == "" {
		return 0
	}
	n, err := strconv.Atoi(value)
	if err != nil && f.err == nil {
		f.err = fmt.Errorf("%s=%s: not a number", key, value)
	}
	return n
}

func (f *fields) duration(key string) time.Duration {
	if f.values[key] == "unlimited" {
		delete(f.values, key)
		return hpc.Unlimited
	}
	return time.Duration(f.number(key)) * time.Second
}

// instant reads a number of seconds after the epoch; it returns the zero Time if the line does not
// have the key.
func (f *fields) instant(key string) hpc.Time {
	if f.values[key] == "" {
		return 0
	}
	return f.epoch.Add(f.duration(key))
}
