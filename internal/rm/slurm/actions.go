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
)

// action is an administrator's action under way.
type action struct {
	hpc.Action
	since hpc.Time
	then  func() error // what is to be done when it has ended; may be nil
}

// actions are an administrator's actions under way. Each begins at its instant, whether or not
// earlier ones have ended; those of one instant go one after the other, as far as they take no
// time.
type actions struct {
	*loop
	conf    *configuration
	install *install.Installation
	logDir  string
	// reconfigured takes the cluster of a slurm.conf that has come into force.
	reconfigured func(*conf.Cluster)

	open []*action // in the order in which they began
	// any says that there has been one of the workload's.
	any bool
}

// hold reports whether inputs wait for an action: one of the same instant goes
// first. An action that takes virtual time holds nothing up once time has moved on.
func (s *actions) hold(now hpc.Time) bool {
	return len(s.open) > 0 && s.open[len(s.open)-1].since == now
}

// done takes an action out that has ended.
func (s *actions) done(ended *action) {
	s.open = slices.DeleteFunc(s.open, func(other *action) bool { return other == ended })
}

// actionCommands are the commands of Slurm's that an action may run.
var actionCommands = []string{"scontrol", "sacctmgr", "scancel", "squeue", "sinfo", "sprio", "sshare", "sdiag", "sacct", "sreport"}

// CheckAction says what is wrong with an action before anything is started, and nil if
// nothing is.
func CheckAction(a hpc.Action) error {
	if len(a.Run) > 0 && !slices.Contains(actionCommands, a.Run[0]) {
		return fmt.Errorf("the action at %s runs %s, which is none of Slurm's commands (want one of %s; anything else is for \"shell\")",
			a.At, a.Run[0], strings.Join(actionCommands, ", "))
	}
	return nil
}

// act takes an action of the workload: Slurm's commands and shells run as the user of
// slurmctld, who may do everything, and under virtual time.
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

// forgotten are the attributes that scontrol changes of nodes and partitions, and that
// slurmctld takes from its configuration again when it reads it, as it does when a window
// begins (_set_features, _restore_node_state and _restore_part_state in read_config.c).
var forgotten = []struct {
	what       string
	attributes []string
}{
	{"NodeName", []string{"ActiveFeatures", "AvailableFeatures", "CpuBind", "Features", "Gres", "Weight"}},
	{"PartitionName", []string{"CpuBind", "JobDefaults", "TRESBillingWeights"}},
}

// CheckPreRoll says what is wrong with an action before a workload's window begins, and nil
// if nothing is. Of a shell's actions it knows nothing.
func CheckPreRoll(a hpc.Action) error {
	if len(a.Run) == 0 || a.Run[0] != "scontrol" {
		return nil
	}
	lost := ""
	for _, f := range forgotten {
		about := slices.ContainsFunc(a.Run, func(word string) bool { return abbreviates(word, f.what, 3) })
		if about && slices.ContainsFunc(a.Run, func(word string) bool { return abbreviates(word, "delete", 1) }) {
			lost = "that it is gone"
		}
		for _, attribute := range f.attributes {
			if about && slices.ContainsFunc(a.Run, func(word string) bool { return strings.Contains(word, "=") && abbreviates(word, attribute, 1) }) {
				lost = attribute
			}
		}
	}
	if lost == "" {
		return nil
	}
	return fmt.Errorf("the action at %s, %s: slurmctld forgets this (%s) when the window begins and it gets the site's scheduling (want it at the window's start, or in slurm.conf)",
		a.At, describeAction(a), lost)
}

// abbreviates reports whether a word of a command line, up to its "=", is one of scontrol's
// with at least so many letters.
func abbreviates(word, full string, letters int) bool {
	name, _, _ := strings.Cut(strings.ToLower(word), "=")
	return len(name) >= letters && strings.HasPrefix(strings.ToLower(full), name)
}

// beginWindow ends the preRoll: slurmctld gets the scheduling of the slurm.conf in
// force, and keeps what actions have made of its partitions.
func (s *actions) beginWindow() {
	if !s.conf.preRoll {
		return
	}
	reconfigure := hpc.Action{At: s.Now(), Run: []string{"scontrol", "reconfigure"}}
	s.input(func() {
		s.conf.preRoll = false
		if !s.any {
			s.Fail(s.conf.file("slurm.conf", s.conf.slurmConf))
			s.begin(reconfigure, nil)
			return
		}
		s.Fail(s.conf.file("slurm.conf", conf.KeepPartitions(s.conf.slurmConf)))
		// Later it is for the site's ReconfigFlags to say what is kept.
		s.begin(reconfigure, func() error { return s.conf.file("slurm.conf", s.conf.slurmConf) })
	})
}

// begin begins an action; then, if not nil, is called when it has ended.
func (s *actions) begin(what hpc.Action, then func() error) {
	a := &action{Action: what, since: s.Now(), then: then}
	s.open = append(s.open, a)
	path, args, err := s.actionCommand(what)
	if err == nil {
		_, err = s.daemons.StartClient("", path, args, func(cl *daemons.Client) { s.actionEnded(a, cl) })
	}
	if err != nil {
		s.acted(a, err.Error(), err)
	}
}

// unfinished describes the actions that have not ended.
func (s *actions) unfinished() (list []string) {
	for _, a := range s.open {
		list = append(list, fmt.Sprintf("%s (begun at %s)", describeAction(a.Action), a.since))
	}
	return list
}

// actionCommand makes the action's preparations and returns what is to be run.
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
		args = append([]string{"-i"}, args...) // nobody is there to say yes
	}
	return path, args, nil
}

// reconfigure puts a slurm.conf in the place of the one in force.
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

// actionEnded takes the end of an action's command.
func (s *actions) actionEnded(a *action, cl *daemons.Client) {
	out, errOut, err := cl.Result()
	said := strings.TrimSpace(out + errOut)
	if err := s.logAction(a, said, err); err != nil {
		s.Fail(err)
	}
	// scontrol and sacctmgr exit with 0 for some of what they or slurmctld refuse.
	if err == nil && complains.MatchString(errOut) {
		err = errors.New(strings.TrimSpace(errOut))
	}
	s.acted(a, said, err)
}

// complains matches what Slurm's commands say of an error: "sacctmgr: error: Invalid unit type",
// "slurm_update error: Invalid node name specified".
var complains = regexp.MustCompile(`(?m)^(\w+:? )?error:`)

// acted reports the end of an action. One that failed makes the result
// doubtful: the machine is not what the workload says.
func (s *actions) acted(a *action, said string, err error) {
	what := describeAction(a.Action)
	reason := what
	if err != nil {
		s.warn("action-failed", fmt.Sprintf("at %s, %s: %v", a.since, what, err), true)
		reason += ": failed: " + err.Error()
	} else if line, _, _ := strings.Cut(said, "\n"); line != "" {
		reason += ": " + line
	}
	if a.then != nil {
		s.Fail(a.then())
	}
	s.done(a)
	s.emit(rm.Event{Kind: rm.Acted, Task: -1, Reason: reason})
}

// logAction keeps everything that an action said in logs/actions.log.
func (s *actions) logAction(a *action, said string, failed error) error {
	f, err := os.OpenFile(filepath.Join(s.logDir, "actions.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("keeping what an action said: %w", err)
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

// describeAction is the action as a person would type it.
func describeAction(a hpc.Action) string {
	switch {
	case a.Shell != "":
		return "sh -c " + a.Shell
	case a.SlurmConf != "":
		return "scontrol reconfigure with " + a.SlurmConf
	}
	return strings.Join(a.Run, " ")
}
