package forecast

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"rmreplay/internal/experiment"
	"rmreplay/internal/hpc"
	"rmreplay/internal/replay"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec"
)

// EngineOf returns the engine that made a run, to run its queue forward. Values of want that are set
// take the place of the run's. A pool of processors is possible only if the run is played from its
// beginning. The error says what is missing.
func EngineOf(m *run.Manifest, want experiment.Spec, fromStart bool) (experiment.Spec, error) {
	switch {
	case want.Slurm != nil || want.Simulator != nil:
		return want, nil
	case m.Engine == "slurm":
		want.Slurm = slurmOf(m)
		if !fromStart {
			want.Slurm.Lead = 0
		}
		return want, nil
	case m.Engine != "sim":
		return want, fmt.Errorf("the run was made by no engine of rmreplay, but by %q (want --cluster with --policy, or with --slurm)", m.Engine)
	case m.Cluster.Nodes == 0 && !fromStart:
		return want, errors.New("the run was simulated on a pool of processors, without nodes on which its running jobs could be put (want --from-start, or a run with --cluster or --nodes)")
	}
	ties, _ := flagOf(m, "ties")
	want.Simulator = &experiment.Simulator{Policy: m.Policy, Cluster: m.Cluster.Dir, Ties: experiment.Ties(ties)}
	if m.Cluster.Dir == "" {
		want.Simulator.Nodes, want.Simulator.Processors = m.Cluster.Nodes, m.Cluster.Processors
	}
	return want, nil
}

// slurmOf returns the Slurm of a run, with those flags of its command that change scheduling.
func slurmOf(m *run.Manifest) *experiment.Slurm {
	s := &experiment.Slurm{Cluster: m.Cluster.Dir, ClockFactor: m.Clock.Factor, Lead: leadOf(m)}
	s.SiteSlurm, _ = flagOf(m, "site-slurm")
	s.LaunchDelay, _ = flagOf(m, "launch-delay")
	s.PrologDelay, _ = flagOf(m, "prolog-delay")
	s.EpilogDelay, _ = flagOf(m, "epilog-delay")
	s.IOSchedule, _ = flagOf(m, "io-schedule")
	_, s.WithoutAccounting = flagOf(m, "no-accounting")
	release, err := slurmspec.ParseRelease(m.Versions.Slurm)
	if err == nil && experiment.SlurmSeries("") != release.Series().String() {
		s.Installation = release.Series().String()
	}
	return s
}

// Unplayed says which flags of a run's command change its scheduling, and do not hold in forecasts.
func Unplayed(m *run.Manifest) (notes []string) {
	factor, _ := flagOf(m, "nodes")
	_, fixed := flagOf(m, "fixed-priorities")
	users, _ := flagOf(m, "feedback")
	for _, one := range []struct {
		flag  string
		given bool
	}{
		{"fixed-priorities", fixed},
		{"nodes", m.Cluster.Dir != "" && strings.HasPrefix(factor, "x")},
		{"feedback", users != "" && users != string(replay.None)},
	} {
		if one.given {
			notes = append(notes, fmt.Sprintf("the run was made with --%s, which the forecast does not have", one.flag))
		}
	}
	return notes
}

// leadOf returns the lead that the command of a run gave; 0 if its seed decided.
func leadOf(m *run.Manifest) time.Duration {
	text, _ := flagOf(m, "lead")
	lead, err := hpc.ParseDuration(text)
	if err != nil {
		return 0
	}
	return lead
}

// flagOf returns a flag of the command of a run, and whether it was given. The value of a switch has no
// meaning.
func flagOf(m *run.Manifest, name string) (value string, given bool) {
	for i, word := range m.Command {
		text, within := strings.CutPrefix(word, "--"+name+"=")
		switch {
		case within:
			value, given = text, true
		case word == "--"+name && i+1 < len(m.Command):
			value, given = m.Command[i+1], true
		case word == "--"+name:
			given = true
		}
	}
	return value, given
}

// EngineName describes an engine in a few words.
func EngineName(spec *experiment.Spec) string {
	switch {
	case spec.Slurm != nil && spec.Slurm.Installation != "":
		return "slurm " + spec.Slurm.Installation
	case spec.Slurm != nil:
		return "slurm"
	case spec.Simulator.Policy == "":
		return "simulator (easy)"
	}
	return "simulator (" + spec.Simulator.Policy + ")"
}
