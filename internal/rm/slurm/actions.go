package slurm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/daemons"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/rm/slurm/rpc"
)

// action is an administrator's action that is under way.
type action struct {
	hpc.Action
	since hpc.Time
	// then, if not nil, is called when the action has ended and slurmctld answers again.
	then func() error
}

// actions runs an administrator's actions. Each action begins at its instant, whether or not
// earlier actions have ended. Actions of the same instant run one after the other. If an action
// takes virtual time, the next action does not wait for its end.
type actions struct {
	*loop
	conf    *configuration
	install *install.Installation
	logDir  string
	// reconfigured is called with the cluster of each slurm.conf that slurmctld starts to use.
	reconfigured func(*conf.Cluster)
	// count asks slurmctld for its counters, and calls then after the answer.
	count func(then func())
	// cut makes the run record keep slurmctld's next counters.
	cut func()

	open []*action // actions that have not ended, in the order of their beginnings
	// any says that at least one action of the workload has begun.
	any bool
}

// hold reports whether inputs must wait because an action is under way. Inputs of the same instant
// wait until the action has ended or virtual time advances.
func (s *actions) hold(now hpc.Time) bool {
	return len(s.open) > 0 && s.open[len(s.open)-1].since == now
}

// done removes an action that has ended.
func (s *actions) done(ended *action) {
	s.open = slices.DeleteFunc(s.open, func(other *action) bool { return other == ended })
}

// actionCommands are the commands of Slurm that actions may run.
var actionCommands = []string{"scontrol", "sacctmgr", "scancel", "squeue", "sinfo", "sprio", "sshare", "sdiag", "sacct",
	"sreport"}

// CheckAction returns an error if the action runs a program that is not a Slurm command. It needs
// no running engine.
func CheckAction(a hpc.Action) error {
	if len(a.Run) > 0 && !slices.Contains(actionCommands, a.Run[0]) {
		return fmt.Errorf("the action at %s runs %s, which is not a Slurm command (want one of %s; other programs need "+
			"an action with \"shell\")",
			a.At, a.Run[0], strings.Join(actionCommands, ", "))
	}
	return nil
}

// act runs an action of the workload when its turn comes. Slurm's commands and shells run under
// virtual time as slurmctld's user, who is Slurm's administrator.
func (s *actions) act(a hpc.Action) error {
	if err := CheckAction(a); err != nil {
		return err
	}
	s.input(func() {
		s.any = true
		s.begin(a, nil)
	})
	return nil
}

// begin begins an action. The function then, which may be nil, is called after the action has ended. The action may
// reset slurmctld's counters (scontrol reconfigure, sdiag --reset), so begin reads the counters first.
func (s *actions) begin(what hpc.Action, then func() error) {
	a := &action{Action: what, since: s.Now(), then: then}
	s.open = append(s.open, a)
	s.count(func() {
		path, args, err := s.actionCommand(what)
		if err == nil {
			_, err = s.daemons.StartClient("", path, args, func(cl *daemons.Client) { s.actionEnded(a, cl) })
		}
		if err != nil {
			s.acted(a, err.Error(), err)
		}
	})
}

// unfinished describes the actions that have not ended.
func (s *actions) unfinished() (list []string) {
	for _, a := range s.open {
		list = append(list, fmt.Sprintf("%s (begun at %s)", describeAction(a.Action), a.since))
	}
	return list
}

// actionCommand prepares an action and returns the command to run.
func (s *actions) actionCommand(a hpc.Action) (path string, args []string, err error) {
	in := s.install
	switch {
	case a.Shell != "":
		return "/bin/sh", []string{"-c", a.Shell}, nil
	case a.SlurmConf != "":
		return in.Scontrol, []string{"reconfigure"}, s.reconfigure(a.SlurmConf)
	}
	path = filepath.Join(filepath.Dir(in.Scontrol), a.Run[0])
	if _, err := os.Stat(path); err != nil {
		return "", nil, fmt.Errorf("running %s: %w (is Debian's slurm-client installed?)", a.Run[0], err)
	}
	args = a.Run[1:]
	if a.Run[0] == "sacctmgr" && !slices.Contains(args, "-i") {
		args = append([]string{"-i"}, args...) // otherwise sacctmgr asks for a confirmation
	}
	return path, args, nil
}

// reconfigure replaces the slurm.conf in force.
func (s *actions) reconfigure(path string) error {
	cluster, warnings, err := s.conf.replace(path, s.Now())
	if err != nil {
		return err
	}
	s.reconfigured(cluster)
	for _, text := range warnings {
		s.warn("configuration", fmt.Sprintf("%s, in force from %s on: %s", path, s.Now(), text), false)
	}
	return nil
}

// actionEnded handles the end of an action's command.
func (s *actions) actionEnded(a *action, cl *daemons.Client) {
	out, errOut, err := cl.Result()
	said := strings.TrimSpace(out + errOut)
	if err := s.logAction(a, said, err); err != nil {
		s.Fail(err)
	}
	// scontrol and sacctmgr can exit with status 0 although a request was refused.
	if err == nil && complains.MatchString(errOut) {
		err = errors.New(strings.TrimSpace(errOut))
	}
	s.acted(a, said, err)
}

// complains matches the error messages of Slurm's commands: "sacctmgr: error: Invalid unit
// type", "slurm_update error: Invalid node name specified".
var complains = regexp.MustCompile(`(?m)^(\w+:? )?error:`)

// acted reports the end of an action. A failed action affects the result: from then on, the
// replay's cluster differs from the workload's.
func (s *actions) acted(a *action, said string, err error) {
	what := describeAction(a.Action)
	reason := what
	if err != nil {
		s.warn("action-failed", fmt.Sprintf("at %s, %s: %v", a.since, what, err), true)
		reason += ": failed: " + err.Error()
	} else if line, _, _ := strings.Cut(said, "\n"); line != "" {
		reason += ": " + line
	}
	over := func() {
		s.done(a)
		s.emit(rm.Event{Kind: rm.Acted, Task: -1, Reason: reason})
	}
	if a.then == nil {
		over()
		return
	}
	// From 23.11 on, slurmctld in the foreground first answers a reconfiguration and then restarts
	// itself (execve). slurmctld answers the next message only when it has read its configuration
	// (_attempt_reconfig in slurmctld/controller.c).
	s.ask(rpc.RequestPing, nil, func(_ *rpc.Message, err error) {
		if err != nil {
			s.warn("action-failed", fmt.Sprintf("at %s, after %s: slurmctld does not answer: %v", a.since, what, err), true)
		}
		s.Fail(a.then())
		over()
	})
}

// logAction appends an action's output to logs/actions.log.
func (s *actions) logAction(a *action, said string, failed error) error {
	f, err := os.OpenFile(filepath.Join(s.logDir, "actions.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return fmt.Errorf("logging an action's output: %w", err)
	}
	text := fmt.Sprintf("[%s] %s\n", a.since, describeAction(a.Action))
	if said != "" {
		text += said + "\n"
	}
	if failed != nil {
		text += failed.Error() + "\n"
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// describeAction returns the action as a command line.
func describeAction(a hpc.Action) string {
	switch {
	case a.Shell != "":
		return "sh -c " + a.Shell
	case a.SlurmConf != "":
		return "scontrol reconfigure with " + a.SlurmConf
	}
	return strings.Join(a.Run, " ")
}
