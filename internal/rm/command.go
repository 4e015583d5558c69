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

// The kinds of commands. The comments name the fields of [Command] that each uses.
const (
	Cancel       CommandKind = "cancel"         // ends the job, pending or running, as its user
	Hold         CommandKind = "hold"           // keeps a job from starting, or from starting again if it runs
	Release      CommandKind = "release"        // lets a held job start again
	SetPriority  CommandKind = "set priority"   // Priority, of a pending job
	SetTimeLimit CommandKind = "set time limit" // TimeLimit, of a pending or running job
	SetNodes     CommandKind = "set nodes"      // Nodes, NodeList or both, of a pending job
	Stretch      CommandKind = "stretch"        // Factor: the rest of the run time takes so many times as long
	SetRunTime   CommandKind = "set run time"   // RunTime, counted from the job's start
)

// Command is a change to one job. Commands but for [Cancel] are an operator's.
type Command struct {
	Kind CommandKind
	// Job is the workload's ID of the job.
	Job string
	// Tasks are the tasks of a job array that the command is for; the whole job if empty.
	Tasks []int

	Priority  uint32
	TimeLimit time.Duration // above 0; [hpc.Unlimited] for none
	Nodes     int           // exactly so many; 0 to leave their number as it is
	NodeList  string        // a host list, all of which the job gets; "" to leave it as it is
	Factor    float64       // above 0
	RunTime   time.Duration // 0 or more; [hpc.Unlimited] to run until the time limit
}

// String is the command without the job: "set time limit 1h0m0s".
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

// subject is what the command is for, as people write it: "job 12", "job 12, tasks 1 and 3".
func (c Command) subject() string {
	if len(c.Tasks) == 0 {
		return "job " + c.Job
	}
	return fmt.Sprintf("job %s, tasks %s", c.Job, strings.Trim(strings.ReplaceAll(fmt.Sprint(c.Tasks), " ", ", "), "[]"))
}

// For reports whether the command is for a task of its job; task is -1 for a job that is
// no array.
func (c Command) For(task int) bool { return len(c.Tasks) == 0 || slices.Contains(c.Tasks, task) }

// Done is the event of the command that a resource manager has carried out, or, with an
// error, refused. submission and rmJob are as in [Event].
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

// Unknown is the event of a command to a job that was never submitted. The event is about
// no job, so that no record takes it for one that exists.
func (c Command) Unknown() Event {
	reason := fmt.Sprintf("%s (%s): refused: the job has not been submitted", c, c.subject())
	return Event{Kind: Commanded, Task: -1, Reason: reason}
}

// Capabilities say what a resource manager can do.
type Capabilities struct {
	// Name is what errors call it: "Slurm", "the simulator".
	Name string
	// Commands are the kinds of commands that it carries out.
	Commands []CommandKind
	// Actions says that it knows an administrator's commands (Act).
	Actions bool
	// FixedPriorities says that it orders jobs by a priority that their submission gives.
	FixedPriorities bool
	// PresetLead is how long before its start a preset job must be handed over.
	PresetLead time.Duration
}

// Check says what is wrong with a command, or that the resource manager knows none of its
// kind; nil if it can be carried out.
func (c Capabilities) Check(command Command) error {
	err := command.check()
	if err == nil && !slices.Contains(c.Commands, command.Kind) {
		names := make([]string, len(c.Commands))
		for i, kind := range c.Commands {
			names[i] = string(kind)
		}
		err = fmt.Errorf("%s knows no such command (its commands are %s)", c.Name, strings.Join(names, ", "))
	}
	if err != nil {
		return fmt.Errorf("%s, %s: %w", command.subject(), command, err)
	}
	return nil
}

// check says what is wrong with a command whoever carries it out.
func (c Command) check() error {
	switch c.Kind {
	case SetTimeLimit:
		if c.TimeLimit <= 0 {
			return errors.New("not above 0")
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
			return errors.New("negative")
		}
	}
	return nil
}

// CheckAction says whether the resource manager can do an administrator's action; nil if
// it can.
func (c Capabilities) CheckAction(action hpc.Action) error {
	if c.Actions {
		return nil
	}
	return fmt.Errorf("the action at %s: %s knows no administrator's commands (replay on Slurm, or take the actions out)", action.At, c.Name)
}
