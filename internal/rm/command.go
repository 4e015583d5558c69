package rm

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
)

// CommandKind says what a command changes.
type CommandKind string

// The kinds of commands. The comment on each kind names the fields of [Command] that it uses.
const (
	Cancel       CommandKind = "cancel"         // ends a pending or running job in its user's name
	Hold         CommandKind = "hold"           // keeps a job from starting, or from starting again if it runs
	Release      CommandKind = "release"        // lets a held job start again
	SetPriority  CommandKind = "set priority"   // Priority is the new priority of a pending job
	SetTimeLimit CommandKind = "set time limit" // TimeLimit is the new limit of a pending or running job
	SetNodes     CommandKind = "set nodes"      // Nodes, NodeList or both are new for a pending job
	Stretch      CommandKind = "stretch"        // multiplies the remaining run time by Factor
	SetRunTime   CommandKind = "set run time"   // RunTime is the new run time, counted from the job's start
)

// Command is a change to one job. The job's user sends [Cancel]; an operator sends all other
// commands.
type Command struct {
	Kind CommandKind
	// Job is the workload's ID of the job.
	Job string
	// Tasks are the tasks of a job array to which the command applies; empty for the whole job.
	Tasks []int

	Priority  uint32
	TimeLimit time.Duration // above 0; [hpc.Unlimited] removes the limit
	Nodes     int           // the exact number of nodes; 0 for no change
	NodeList  string        // a host list; the job gets all its nodes; "" for no change
	Factor    float64       // above 0
	RunTime   time.Duration // 0 or more; [hpc.Unlimited] to run until the time limit
}

// String returns the command without the job: "set time limit 1h0m0s".
func (c Command) String() string {
	text := string(c.Kind)
	switch c.Kind {
	case SetPriority:
		text += " " + strconv.FormatUint(uint64(c.Priority), 10)
	case SetTimeLimit:
		text += " " + duration(c.TimeLimit)
	case SetNodes:
		if c.Nodes > 0 {
			text += " " + strconv.Itoa(c.Nodes)
		}
		if c.NodeList != "" {
			text += " " + c.NodeList
		}
	case Stretch:
		text += " " + strconv.FormatFloat(c.Factor, 'g', -1, 64)
	case SetRunTime:
		text += " " + duration(c.RunTime)
	}
	return text
}

func duration(d time.Duration) string {
	if d == hpc.Unlimited {
		return "unlimited"
	}
	return d.String()
}

// subject names the job and tasks of the command: "job 12", "job 12, tasks 1, 3".
func (c Command) subject() string {
	if len(c.Tasks) == 0 {
		return "job " + c.Job
	}
	return fmt.Sprintf("job %s, tasks %s", c.Job, strings.Trim(strings.ReplaceAll(fmt.Sprint(c.Tasks), " ", ", "), "[]"))
}

// For reports whether the command applies to a task of its job. task is -1 for a job that is not
// an array.
func (c Command) For(task int) bool { return len(c.Tasks) == 0 || slices.Contains(c.Tasks, task) }

// Done returns the event of a command. If refused is nil, the resource manager has carried out the command; otherwise
// refused is the reason for the refusal. The parameters submission and rmJob are as in [Event].
func (c Command) Done(submission int, rmJob uint32, refused error) Event {
	ev := Event{Kind: Commanded, Job: c.Job, Task: -1, Submission: submission, RMJob: rmJob, Reason: c.String()}
	if len(c.Tasks) == 1 {
		ev.Task = c.Tasks[0]
	}
	if refused != nil {
		ev.Reason += ": refused: " + refused.Error()
	}
	return ev
}

// Unknown returns the event of a command to a job that was never submitted. The event names no job,
// so the run's record gets no row for such a job.
func (c Command) Unknown() Event {
	reason := fmt.Sprintf("%s (%s): refused: the job has not been submitted", c, c.subject())
	return Event{Kind: Commanded, Task: -1, Reason: reason}
}

// Capabilities say what a resource manager can do.
type Capabilities struct {
	// Name is the resource manager's name in errors: "Slurm", "the simulator".
	Name string
	// Commands are the kinds of commands that the resource manager carries out.
	Commands []CommandKind
	// Actions says that the resource manager carries out an administrator's actions (Act).
	Actions bool
	// FixedPriorities says that the resource manager can order jobs by a priority given at submission.
	FixedPriorities bool
	// PresetAt returns when the loop submits a preset job. The job starts at start, and its window begins at window.
	// PresetAt is nil if the resource manager itself delays a preset job until its start. In that case the loop submits
	// each preset job at its recorded submit time.
	PresetAt func(start, window hpc.Time) hpc.Time
}

// Check returns an error for a command with a wrong value or of a kind that the resource manager
// does not carry out.
func (c Capabilities) Check(command Command) error {
	err := command.check()
	if err == nil && !slices.Contains(c.Commands, command.Kind) {
		names := make([]string, len(c.Commands))
		for i, kind := range c.Commands {
			names[i] = string(kind)
		}
		err = fmt.Errorf("%s does not support this command (want %s)", c.Name, strings.Join(names, ", "))
	}
	if err != nil {
		return fmt.Errorf("%s, %s: %w", command.subject(), command, err)
	}
	return nil
}

// check returns an error for a value that is wrong for every resource manager.
func (c Command) check() error {
	switch c.Kind {
	case SetTimeLimit:
		if c.TimeLimit <= 0 {
			return errors.New("not above 0 (want, for example, 1h)")
		}
	case SetNodes:
		if c.Nodes < 0 || c.Nodes == 0 && c.NodeList == "" {
			return errors.New("names no nodes (want a number above 0, a host list, or both)")
		}
	case Stretch:
		if !(c.Factor > 0) || math.IsInf(c.Factor, 0) {
			return errors.New("not a factor (want a number above 0)")
		}
	case SetRunTime:
		if c.RunTime < 0 {
			return errors.New("negative (want 0 or more)")
		}
	}
	return nil
}

// CheckAction returns an error if the resource manager cannot carry out an administrator's
// action.
func (c Capabilities) CheckAction(action hpc.Action) error {
	if c.Actions {
		return nil
	}
	return fmt.Errorf("the action at %s: %s does not support actions of administrators (replay on Slurm, "+
		"or remove the actions)",
		action.At, c.Name)
}
