package forecast

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"rmreplay/internal/experiment"
	"rmreplay/internal/hpc"
	"rmreplay/internal/run"
)

// EngineOf returns the engine that made a run, to run its queue forward. Values of want that are set
// take the place of the run's. A pool of processors is possible only if the run is played from its
// beginning. The error says what is missing.
func EngineOf(m *run.Manifest, want experiment.Spec, fromStart bool) (experiment.Spec, error) {
	switch {
	case want.Slurm != nil || want.Simulator != nil:
		return want, nil
	case m.Engine == "slurm":
		want.Slurm = &experiment.Slurm{Cluster: m.Cluster.Dir, ClockFactor: m.Clock.Factor}
		if fromStart {
			want.Slurm.Lead = leadOf(m)
		}
		return want, nil
	case m.Engine != "sim":
		return want, fmt.Errorf("the run was made by no engine of rmreplay, but by %q (want --cluster with --policy, or with --slurm)", m.Engine)
	case m.Cluster.Nodes == 0 && !fromStart:
		return want, errors.New("the run was simulated on a pool of processors, without nodes on which its running jobs could be put (want --from-start, or a run with --cluster or --nodes)")
	}
	want.Simulator = &experiment.Simulator{Policy: m.Policy, Cluster: m.Cluster.Dir}
	if m.Cluster.Dir == "" {
		want.Simulator.Nodes, want.Simulator.Processors = m.Cluster.Nodes, m.Cluster.Processors
	}
	return want, nil
}

// leadOf returns the lead that the command of a run gave; 0 if its seed decided.
func leadOf(m *run.Manifest) time.Duration {
	for i, word := range m.Command {
		text, given := strings.CutPrefix(word, "--lead=")
		if word == "--lead" && i+1 < len(m.Command) {
			text, given = m.Command[i+1], true
		}
		if lead, err := hpc.ParseDuration(text); given && err == nil {
			return lead
		}
	}
	return 0
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
