package slurm

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/rm/window"
	"rmreplay/internal/slurmspec"
)

// PlanWindow implements [rm.ResourceManager].
func (e *Engine) PlanWindow(w rm.Window) ([]hpc.ReservationEvent, error) {
	e.planRestart(w.Start)
	e.planBackfill(w.Start)
	e.jobs.cut = w.Arrays
	return window.Plan(w, e.Now()), nil
}

// WindowReservations returns the reservations that the engine makes for a window. slurmdbd's
// records are expected to contain them.
func WindowReservations(w rm.Window) []hpc.ReservationEvent { return window.Reservations(w) }

// SubmitPreset implements [rm.ResourceManager]: an operator submits the job with a priority above
// all other jobs.
func (e *Engine) SubmitPreset(job *hpc.Job) error {
	return e.jobs.submitPreset(job)
}

// withoutBarrier removes the name of the window's barrier reservation ([window.Reservation]) from an event. The
// workload does not have the barrier reservation.
func withoutBarrier(ev *rm.Event) {
	if ev.Outcome != nil && ev.Outcome.Reservation == window.Reservation {
		ev.Outcome.Reservation = ""
	}
}

// BeginWindow implements [rm.ResourceManager].
func (e *Engine) BeginWindow() error {
	e.jobs.warnCut()
	e.actions.beginWindow()
	return nil
}

// restartLead is how long before the window's begin slurmctld gets the site's scheduling parameters. From 23.11 on,
// slurmctld restarts itself to read its configuration. slurmctld first examines the queue three seconds after the
// restart. batch_sched_delay does not shorten these three seconds, because _slurmctld_background in controller.c reads
// it later. Until the window begins, the window's barrier reservation keeps all jobs except preset jobs pending.
const restartLead = 3 * time.Second

// restarts reports whether slurmctld restarts itself for a window.
func (e *Engine) restarts() bool {
	return e.cfg.PreRoll && e.cfg.Install.Release.Since(slurmspec.R2311)
}

// presetsBefore returns how long before the window's begin all preset jobs must have been
// submitted: slurmctld must start them before it restarts itself.
func (e *Engine) presetsBefore() time.Duration {
	if !e.restarts() {
		return 0
	}
	return restartLead + time.Second
}

// planRestart gives slurmctld the site's scheduling before a window. When the window begins,
// slurmctld examines the whole queue, as a release before 23.11 does after it reads its
// configuration.
func (e *Engine) planRestart(start hpc.Time) {
	if !e.restarts() {
		return
	}
	e.loop.At(start.Add(-restartLead), e.actions.beginWindow)
	e.loop.At(start.Add(-window.PresetLead), func() { e.wakeScheduler() })
}

// planBackfill keeps the backfill cycles before a window at their planned instants. If the queue
// has not changed, the backfill scheduler would skip its cycle and then look for a change every
// second (backfill_agent in backfill.c).
func (e *Engine) planBackfill(start hpc.Time) {
	every := e.conf.backfill
	if every == 0 {
		return
	}
	for at := e.began.Add(every); at < start; at = at.Add(every) {
		if at > e.Now() {
			e.loop.At(at.Add(-window.PresetLead), func() { e.wakeScheduler() })
		}
	}
}

// wakeScheduler makes slurmctld examine its queue at its next full second. For this, wakeScheduler updates a node
// without changing it (_slurm_rpc_update_node in proc_req.c).
func (e *Engine) wakeScheduler() {
	update := rpc.NodeUpdate{Nodes: e.conf.adapted.Nodes[0].Name, State: slurmspec.NoVal}
	e.loop.ask(rpc.RequestUpdateNode, e.loop.codec.Body(&update), func(reply *rpc.Message, err error) {
		if err == nil {
			err = rpc.ReplyError(reply)
		}
		if err != nil && e.loop.Err() == nil {
			e.loop.warn("window-late", fmt.Sprintf("slurmctld did not go through its queue when the window began: %v", err),
				true)
		}
	})
}

// beginWindow gives slurmctld the scheduling of the slurm.conf in force, unless slurmctld has it
// already. slurmctld keeps the changes that actions made to its partitions.
func (s *actions) beginWindow() {
	if !s.conf.preRoll {
		return
	}
	s.conf.preRoll = false
	reconfigure := hpc.Action{At: s.Now(), Run: []string{"scontrol", "reconfigure"}}
	s.input(func() {
		s.cut()
		if !s.any {
			s.Fail(s.conf.file("slurm.conf", s.conf.slurmConf))
			s.begin(reconfigure, nil)
			return
		}
		s.Fail(s.conf.file("slurm.conf", keepPartitions(s.conf.slurmConf)))
		// From here on, the site's ReconfigFlags decide what slurmctld keeps.
		s.begin(reconfigure, func() error { return s.conf.file("slurm.conf", s.conf.slurmConf) })
	})
}

// forgotten lists the attributes of nodes and partitions that scontrol can change and that
// slurmctld resets when a window begins, because it then reads its configuration (_set_features,
// _restore_node_state and _restore_part_state in read_config.c).
var forgotten = []struct {
	what       string
	attributes []string
}{
	{"NodeName", []string{"ActiveFeatures", "AvailableFeatures", "CpuBind", "Features", "Gres", "Weight"}},
	{"PartitionName", []string{"CpuBind", "JobDefaults", "TRESBillingWeights"}},
}

// CheckPreRoll returns an error for an action before a workload's window whose effect slurmctld
// would lose when the window begins. It does not examine shell lines.
func CheckPreRoll(a hpc.Action) error {
	if len(a.Run) == 0 || a.Run[0] != "scontrol" {
		return nil
	}
	lost := ""
	for _, f := range forgotten {
		about := slices.ContainsFunc(a.Run, func(word string) bool { return abbreviates(word, f.what, 3) })
		if about && slices.ContainsFunc(a.Run, func(word string) bool { return abbreviates(word, "delete", 1) }) {
			lost = "the deletion"
		}
		for _, attribute := range f.attributes {
			if about && slices.ContainsFunc(a.Run, func(word string) bool {
				return strings.Contains(word, "=") &&
					abbreviates(word, attribute, 1)
			}) {
				lost = attribute
			}
		}
	}
	if lost == "" {
		return nil
	}
	return fmt.Errorf("the action at %s, %s: slurmctld reads slurm.conf again when the window begins, and forgets what "+
		"the action changed (%s) (want the action at the window's start, or the setting in slurm.conf)",
		a.At, describeAction(a), lost)
}

// abbreviates reports whether word, up to its "=", abbreviates scontrol's word full. letters is
// the smallest number of letters that scontrol accepts for full.
func abbreviates(word, full string, letters int) bool {
	name, _, _ := strings.Cut(strings.ToLower(word), "=")
	return len(name) >= letters && strings.HasPrefix(strings.ToLower(full), name)
}
