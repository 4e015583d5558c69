package experiment

import (
	"bytes"
	"encoding/json"
	"maps"
	"path/filepath"

	"rmreplay/internal/input"
	"rmreplay/internal/run"
)

// maxKept is the largest size in bytes of a file that is compared with a cluster's copy.
const maxKept = 64 << 20

// Modelled returns the specification for repeating a replay with the model of a release of Slurm. The replay and its
// repetition have the same workload and cluster. The seed is also the same, and with it the phase of slurmctld's
// periodic work. See [Simulator] for release. The result lacks names the options of the replay that the model does not
// have.
func Modelled(replay Spec, release string) (spec Spec, lacks []string) {
	spec = replay
	s := replay.Slurm
	spec.Slurm = nil
	spec.Simulator = &Simulator{
		Policy: SlurmPolicy, Cluster: s.Cluster, NodeFactor: s.NodeFactor, Release: release, Lead: s.Lead,
	}
	spec.FixedPriorities = false
	for _, one := range []struct {
		flag  string
		given bool
	}{
		{"launch-delay", s.LaunchDelay != ""},
		{"prolog-delay", s.PrologDelay != ""},
		{"epilog-delay", s.EpilogDelay != ""},
		{"no-accounting", s.WithoutAccounting},
		{"fixed-priorities", replay.FixedPriorities},
		{"filesystem", len(s.FileSystems) > 0},
		{"io-schedule", s.IOSchedule != ""},
		{"clock measured", s.ClockFactor != 0},
	} {
		if one.given {
			lacks = append(lacks, "--"+one.flag)
		}
	}
	return spec, lacks
}

// Made reports whether a record is complete and was made with this specification: the same options
// and seed, and the same bytes in the workload and in the cluster's files.
func Made(r *run.Run, spec Spec) bool {
	spec.complete()
	m := &r.Manifest
	want, err := spec.recorded(spec.Seed)
	if err != nil || m.State != run.StateComplete || m.Versions.RMReplay != spec.Version {
		return false
	}
	var have bytes.Buffer
	if json.Compact(&have, m.Spec) != nil || !bytes.Equal(have.Bytes(), want) {
		return false
	}
	hash := fileHash(spec.Workload.Path)
	return hash != "" && m.Workload.SHA256 == hash && (spec.Slurm == nil || keptAlike(r.Dir, spec.Slurm))
}

// keptAlike reports whether the files in a cluster's directory still equal a record's copy of these files.
func keptAlike(dir string, s *Slurm) bool {
	kept := run.ClusterDir(dir)
	cluster, err := OpenCluster(s.Cluster, s.NodeFactor)
	if kept == "" || err != nil {
		return false
	}
	want, err := cluster.Kept()
	if err != nil {
		return false
	}
	have := map[string]string{}
	for name := range want {
		text, err := input.ReadFile(filepath.Join(kept, name), maxKept)
		if err != nil {
			return false
		}
		have[name] = string(text)
	}
	return maps.Equal(have, want)
}
