package forecast

import (
	"cmp"
	"errors"
	"fmt"

	"rmreplay/internal/experiment"
	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/replay"
	"rmreplay/internal/slurmspec"
)

// EngineOf returns the engine that simulates the scheduler for a course's forecasts. The result is the engine of want
// or, if want has no engine, the engine that made the run, with the run's options. A run that was simulated on a pool
// of processors can only be played from its beginning: fromStart must be true. The error says what is missing.
func EngineOf(c *Course, want experiment.Spec, fromStart bool) (experiment.Spec, error) {
	m := &c.Manifest
	switch {
	case want.Slurm != nil || want.Simulator != nil:
		return want, nil
	case m.Engine != "slurm" && m.Engine != "sim":
		return want, fmt.Errorf(
			"the run was made by %q, which is not an engine of rmreplay (want --cluster with --policy, or with --slurm)", m.Engine)
	case m.Engine == "sim" && m.Cluster.Nodes == 0 && !fromStart:
		return want, errors.New("the run was simulated on a pool of processors, without nodes to which its running jobs " +
			"could be assigned (want --from-start, or a run with --cluster or --nodes)")
	}
	made, err := experiment.SpecOf(c.Dir, m)
	if err != nil {
		return want, err
	}
	if made.Slurm != nil {
		s := made.Slurm
		want.Slurm = &experiment.Slurm{
			Cluster: s.Cluster, Installation: s.Installation, SiteSlurm: s.SiteSlurm, ClockFactor: s.ClockFactor, Lead: s.Lead,
			LaunchDelay: s.LaunchDelay, PrologDelay: s.PrologDelay, EpilogDelay: s.EpilogDelay,
			IOSchedule: s.IOSchedule, WithoutAccounting: s.WithoutAccounting,
		}
		if !fromStart {
			want.Slurm.Lead = 0
		}
		return want, nil
	}
	s := made.Simulator
	want.Simulator = &experiment.Simulator{
		Policy: s.Policy, Cluster: s.Cluster, Ties: s.Ties, Release: s.Release, Clock: s.Clock,
	}
	if fromStart {
		want.Simulator.Lead = s.Lead
	}
	if s.Cluster == "" {
		want.Simulator.Nodes, want.Simulator.Processors = m.Cluster.Nodes, m.Cluster.Processors
	}
	return want, nil
}

// Unplayed returns notes about those options of a run that changed its scheduling, but have no effect in forecasts with
// the given engine.
func Unplayed(c *Course, engine *experiment.Spec) (notes []string) {
	made, err := experiment.SpecOf(c.Dir, &c.Manifest)
	if err != nil {
		return nil // [EngineOf] returns the error, if the forecast needs the run's engine
	}
	var lacks []string
	if made.Slurm != nil && engine.Slurm == nil && LikeSlurm(engine) {
		_, lacks = experiment.Modelled(made, "")
	}
	scaled := made.Slurm != nil && isScaled(made.Slurm.NodeFactor) ||
		made.Simulator != nil && made.Simulator.Cluster != "" && isScaled(made.Simulator.NodeFactor)
	for _, one := range []struct {
		flag  string
		given bool
	}{
		{"fixed-priorities", made.FixedPriorities},
		{"nodes", scaled},
		{"feedback", made.Users.Model != replay.NoFeedback},
	} {
		if one.given {
			notes = append(notes, fmt.Sprintf("the run was made with --%s, which the forecast ignores", one.flag))
		}
	}
	for _, flag := range lacks {
		if flag == "--fixed-priorities" {
			continue // noted above
		}
		notes = append(notes, fmt.Sprintf("the run was made with %s, which the model of Slurm ignores", flag))
	}
	return notes
}

func isScaled(factor float64) bool { return factor != 0 && factor != 1 }

// OnModel replaces Slurm in an engine of [EngineOf] by the model of Slurm's scheduler. release is
// the modelled release, such as "22.05"; if it is "", the run's own release is modelled.
func OnModel(c *Course, engine experiment.Spec, release string) experiment.Spec {
	if engine.Slurm == nil {
		return engine
	}
	if made, err := slurmspec.ParseRelease(c.Manifest.Versions.Slurm); release == "" && err == nil {
		release = made.Series().String()
	}
	engine, _ = experiment.Modelled(engine, release)
	return engine
}

// LikeSlurm reports whether the scheduler of a forecast is Slurm or the model of it. Slurm and the model have
// priorities, fair-share usage and the phases of slurmctld's periodic work, and start jobs in whole seconds.
func LikeSlurm(spec *experiment.Spec) bool {
	return spec.Slurm != nil || spec.Simulator != nil && spec.Simulator.Policy == experiment.SlurmPolicy
}

// uncounted returns notes about job arrays with a limit on running tasks, if an engine does not count the tasks that
// already run. At the start of a window a running task becomes a separate job. Only Slurm and the model of slurmctld
// still count it towards the limit of its array.
func (q *Queue) uncounted(spec *experiment.Spec) (notes []string) {
	if q.states != nil || LikeSlurm(spec) {
		return nil
	}
	cut := q.Workload.CutArrays()
	for _, job := range q.Workload.Jobs.All() {
		n := 0
		for _, task := range cut[job.ID] {
			if !q.past[task.ID] {
				n++
			}
		}
		if array, err := hpc.ParseArray(job.Array); n > 0 && err == nil && array.Limit > 0 {
			notes = append(notes, fmt.Sprintf("array %s: this engine does not count the array's %s towards its limit of %d, so "+
				"its other tasks may start too early in the forecast (want --policy slurm, or --from-start)", job.ID,
				quantity.Regular(n, "running task"), array.Limit))
		}
	}
	return notes
}

// EngineName describes an engine in a few words.
func EngineName(spec *experiment.Spec) string {
	switch {
	case spec.Slurm != nil && spec.Slurm.Installation != "":
		return "slurm " + spec.Slurm.Installation
	case spec.Slurm != nil:
		return "slurm"
	case LikeSlurm(spec):
		return "model of Slurm " + cmp.Or(spec.Simulator.Release, experiment.ModelRelease)
	case spec.Simulator.Policy == "":
		return "simulator (easy)"
	}
	return "simulator (" + spec.Simulator.Policy + ")"
}
