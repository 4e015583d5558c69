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
)

// action is an administrator's action under way.
type action struct {
	hpc.Action
	since hpc.Time
	then  func() error // what is to be done when it has ended; may be nil
}

// actions are those under way. Each begins at its instant, whether or not earlier ones have
// ended; those of one instant go one after the other, as far as they take no time.
type actions struct {
	open []*action // in the order in which they began
	// any says that there has been one of the workload's.
	any bool
}

// hold reports whether inputs wait for an action: one of the same instant goes
// first. An action that takes virtual time holds nothing up once time has moved on.
func (a *actions) hold(now hpc.Time) bool {
	return len(a.open) > 0 && a.open[len(a.open)-1].since == now
}

// done takes an action out that has ended.
func (a *actions) done(ended *action) {
	a.open = slices.DeleteFunc(a.open, func(other *action) bool { return other == ended })
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

// Act implements [rm.ResourceManager]: Slurm's commands and shells run as the user of
// slurmctld, who may do everything, and under virtual time.
func (e *Engine) Act(a hpc.Action) error {
	if err := CheckAction(a); err != nil {
		return err
	}
	e.inputs = append(e.inputs, func() {
		e.actions.any = true
		e.begin(a, nil)
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

// BeginWindow implements [rm.ResourceManager]: slurmctld gets the scheduling of the slurm.conf in
// force, and keeps what actions have made of its partitions.
func (e *Engine) BeginWindow() error {
	if !e.cfg.PreRoll {
		return nil
	}
	reconfigure := hpc.Action{At: e.Now(), Run: []string{"scontrol", "reconfigure"}}
	e.inputs = append(e.inputs, func() {
		e.preRoll = false
		if !e.actions.any {
			e.failOn(e.writeConf("slurm.conf", e.slurmConf))
			e.begin(reconfigure, nil)
			return
		}
		e.failOn(e.writeConf("slurm.conf", conf.KeepPartitions(e.slurmConf)))
		// Later it is for the site's ReconfigFlags to say what is kept.
		e.begin(reconfigure, func() error { return e.writeConf("slurm.conf", e.slurmConf) })
	})
	return nil
}

// writeConf writes a file of the adapted configuration where the daemons look. Before the
// window begins slurm.conf has other scheduling there.
func (e *Engine) writeConf(name string, content []byte) error {
	if name == "slurm.conf" && e.preRoll {
		content = conf.PreRoll(content, e.cfg.PresetBurst)
	}
	if err := os.WriteFile(e.place.file("conf", name), content, 0o600); err != nil {
		return fmt.Errorf("writing the adapted configuration: %w", err)
	}
	return nil
}

// writeConfs writes all files of an adapted configuration, which is the one in force then.
func (e *Engine) writeConfs(adapted *conf.Adapted) error {
	e.slurmConf = adapted.Files["slurm.conf"]
	for name, content := range adapted.Files {
		if err := e.writeConf(name, content); err != nil {
			return err
		}
	}
	return nil
}

// begin begins an action; then, if not nil, is called when it has ended.
func (e *Engine) begin(what hpc.Action, then func() error) {
	a := &action{Action: what, since: e.Now(), then: then}
	e.actions.open = append(e.actions.open, a)
	path, args, err := e.actionCommand(what)
	if err == nil {
		_, err = e.startClient("", path, args, func(cl *client) { e.actionEnded(a, cl) })
	}
	if err != nil {
		e.acted(a, err.Error(), err)
	}
}

// Unfinished describes the actions that have not ended.
func (e *Engine) Unfinished() (list []string) {
	for _, a := range e.actions.open {
		list = append(list, fmt.Sprintf("%s (begun at %s)", describeAction(a.Action), a.since))
	}
	return list
}

// actionCommand makes the action's preparations and returns what is to be run.
func (e *Engine) actionCommand(a hpc.Action) (path string, args []string, err error) {
	in := e.cfg.Install
	switch {
	case a.Shell != "":
		return "/bin/sh", []string{"-c", a.Shell}, nil
	case a.SlurmConf != "":
		return in.Scontrol, []string{"reconfigure"}, e.reconfigure(a.SlurmConf)
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

// reconfigure puts an adapted slurm.conf in the place of the one in force, and keeps it beside that in the
// logs. Warnings of it are those that the first one does not have.
func (e *Engine) reconfigure(path string) error {
	cluster, err := openReplacement(path, e.cfg.Cluster)
	if err != nil {
		return err
	}
	adapted, err := conf.Adapt(cluster, e.environmentOf())
	if err != nil {
		return err
	}
	if err := e.writeConfs(adapted); err != nil {
		return err
	}
	e.requeueExits = cluster.RequeueExits()
	for _, text := range adapted.Warnings {
		if !slices.Contains(e.adapted.Warnings, text) {
			e.warn("configuration", fmt.Sprintf("%s, in force from %s on: %s", path, e.Now(), text), false)
		}
	}
	name := filepath.Join(e.cfg.LogDir, "slurm.conf."+e.Now().String())
	if err := os.WriteFile(name, adapted.Files["slurm.conf"], 0o644); err != nil {
		return fmt.Errorf("keeping the adapted configuration: %w", err)
	}
	return nil
}

// actionEnded takes the end of an action's command.
func (e *Engine) actionEnded(a *action, cl *client) {
	out, errOut, err := cl.result()
	said := strings.TrimSpace(out + errOut)
	if err := e.logAction(a, said, err); err != nil {
		e.fail(err)
	}
	// scontrol and sacctmgr exit with 0 for some of what they or slurmctld refuse.
	if err == nil && complains.MatchString(errOut) {
		err = errors.New(strings.TrimSpace(errOut))
	}
	e.acted(a, said, err)
}

// complains matches what Slurm's commands say of an error: "sacctmgr: error: Invalid unit type",
// "slurm_update error: Invalid node name specified".
var complains = regexp.MustCompile(`(?m)^(\w+:? )?error:`)

// acted reports the end of an action. One that failed makes the result
// doubtful: the machine is not what the workload says.
func (e *Engine) acted(a *action, said string, err error) {
	what := describeAction(a.Action)
	reason := what
	if err != nil {
		e.warn("action-failed", fmt.Sprintf("at %s, %s: %v", a.since, what, err), true)
		reason += ": failed: " + err.Error()
	} else if line, _, _ := strings.Cut(said, "\n"); line != "" {
		reason += ": " + line
	}
	if a.then != nil {
		e.failOn(a.then())
	}
	e.actions.done(a)
	e.emit(rm.Event{Kind: rm.Acted, Task: -1, Reason: reason})
}

// logAction keeps everything that an action said in logs/actions.log.
func (e *Engine) logAction(a *action, said string, failed error) error {
	f, err := os.OpenFile(filepath.Join(e.cfg.LogDir, "actions.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
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
