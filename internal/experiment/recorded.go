package experiment

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/conf/privacy"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload/session"
)

// recordedSpec is the form of a [Spec] in the manifest of its run. Paths are absolute, and defaults are set, so that
// the run can be repeated from any directory.
type recordedSpec struct {
	Workload        string           `json:"workload"`
	Slurm           *Slurm           `json:"slurm,omitempty"`
	Simulator       *Simulator       `json:"simulator,omitempty"`
	FileSystems     []run.FileSystem `json:"file_systems,omitempty"`
	Feedback        replay.Model     `json:"feedback"`
	Sessions        string           `json:"sessions,omitempty"`
	Jitter          time.Duration    `json:"jitter_ns,omitempty"`
	Performance     float64          `json:"performance"`
	TwiceRunTime    bool             `json:"twice_run_time,omitempty"`
	FixedPriorities bool             `json:"fixed_priorities,omitempty"`
	Seed            uint64           `json:"seed"`
	DrainLimit      time.Duration    `json:"drain_limit_ns"`
}

// recorded returns the JSON of the specification for a run with a seed.
func (s *Spec) recorded(seed uint64) (json.RawMessage, error) {
	r := recordedSpec{
		Workload: absolute(s.Workload.Path), Feedback: s.Users.Model, Jitter: s.Users.Jitter,
		Performance: s.Performance, TwiceRunTime: s.TwiceRunTime, FixedPriorities: s.FixedPriorities,
		Seed: seed, DrainLimit: s.DrainLimit,
	}
	if s.Users.Model != replay.NoFeedback {
		r.Sessions = s.Users.Sessions.String()
	}
	if s.Slurm != nil {
		slurm := *s.Slurm
		slurm.Cluster = absolute(slurm.Cluster)
		slurm.Installation = cmp.Or(slurm.Installation, os.Getenv(install.Variable))
		if !install.NamesVersion(slurm.Installation) {
			slurm.Installation = absolute(slurm.Installation)
		}
		r.Slurm, r.FileSystems = &slurm, describeFileSystems(slurm.FileSystems)
	}
	if s.Simulator != nil {
		simulator := *s.Simulator
		simulator.Cluster = absolute(simulator.Cluster)
		simulator.Ties = cmp.Or(simulator.Ties, sim.EndsFirst)
		simulator.Policy = cmp.Or(simulator.Policy, defaultPolicy)
		if simulator.models() {
			simulator.Release = cmp.Or(simulator.Release, ModelRelease)
		}
		if file := PolicyModel(simulator.Policy); file != "" {
			simulator.Policy = strings.Replace(simulator.Policy, "predict=model:"+file, "predict=model:"+absolute(file), 1)
		}
		r.Simulator, r.FileSystems = &simulator, describeFileSystems(simulator.FileSystems)
	}
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("writing the specification of the run: %w", err)
	}
	return text, nil
}

// ErrNoSpec is the error for a record that does not say how its run was made.
var ErrNoSpec = errors.New(
	"the record does not say how the run was made (want a run of this version, made by replay, simulate, sweep or tune)")

// SpecOf returns how the run of the record in dir was made, without an output. The cluster is the record's own
// copy, or the directory that the run read if the record has no copy.
func SpecOf(dir string, m *run.Manifest) (Spec, error) {
	if len(m.Spec) == 0 {
		return Spec{}, fmt.Errorf("%s: %w", dir, ErrNoSpec)
	}
	var r recordedSpec
	in := json.NewDecoder(bytes.NewReader(m.Spec))
	in.DisallowUnknownFields()
	if err := in.Decode(&r); err != nil {
		return Spec{}, fmt.Errorf("%s: reading how the run was made: %w (want the version of rmreplay that made it: %s)", dir,
			err, m.Versions.RMReplay)
	}
	s := Spec{
		Workload: Workload{Path: r.Workload}, Slurm: r.Slurm, Simulator: r.Simulator,
		Users:       replay.Feedback{Model: r.Feedback, Jitter: r.Jitter},
		Performance: r.Performance, TwiceRunTime: r.TwiceRunTime, FixedPriorities: r.FixedPriorities,
		Seed: r.Seed, DrainLimit: r.DrainLimit,
	}
	if r.Sessions != "" {
		var err error
		if s.Users.Sessions, err = session.Parse(r.Sessions); err != nil {
			return Spec{}, fmt.Errorf("%s: reading how the run was made: %w", dir, err)
		}
	}
	var systems []hpc.FileSystem
	for _, f := range r.FileSystems {
		systems = append(systems, hpc.FileSystem(f))
	}
	switch {
	case s.Slurm != nil:
		s.Slurm.FileSystems = systems
		s.Slurm.Cluster = keptCluster(dir, s.Slurm.Cluster)
		s.Slurm.Installation = madeWith(s.Slurm.Installation, m)
	case s.Simulator != nil:
		s.Simulator.FileSystems = systems
		s.Simulator.Cluster = keptCluster(dir, s.Simulator.Cluster)
	}
	return s, nil
}

// keptCluster returns the record's copy of a cluster, or the cluster itself if there is no copy.
func keptCluster(dir, cluster string) string {
	kept := run.ClusterDir(dir)
	if kept == "" || cluster == "" {
		return cluster
	}
	file := filepath.Join(kept, filepath.Base(cluster))
	if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
		return file // the run was given the slurm.conf itself
	}
	return kept
}

// madeWith returns the Slurm that made a run: the Slurm that the run's options named. If the options named no Slurm,
// madeWith returns "" (the default Slurm), or the run's release if the present default has another release.
func madeWith(installation string, m *run.Manifest) string {
	release, err := slurmspec.ParseRelease(m.Versions.Slurm)
	if installation != "" || err != nil || install.Series("") == release.Series().String() {
		return installation
	}
	return release.Series().String()
}

// RerunSpec returns the specification with which a run is repeated. The workload is read from the same file as in the
// run. The record's copy of the workload is read instead if that file has changed or is missing, or if the run drew the
// fields that rules made.
func RerunSpec(r *run.Run) (Spec, error) {
	s, err := SpecOf(r.Dir, &r.Manifest)
	if err != nil {
		return s, err
	}
	path, made := s.Workload.Path, r.Manifest.Workload
	if path != "" && made.SHA256 != "" && fileHash(path) == made.SHA256 && r.Manifest.Made == nil {
		return s, nil
	}
	if made.SHA256 == "" && path != "" {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return s, nil
		}
	}
	if n := r.Manifest.Jobs.NotSubmitted + r.Manifest.Jobs.Unanswered; n > 0 {
		return s, inputError(fmt.Errorf("repeating %s: %s has changed or is missing, and the record lacks %d of its "+
			"%d %s (want the file as it was)", r.Dir, path, n, made.Jobs, quantity.Plural(made.Jobs, "job", "jobs")))
	}
	s.Workload.SHA256 = made.SHA256
	s.Workload.Value, err = r.Played()
	return s, inputError(err)
}

// keep copies the cluster's files, and the files of actions that replace slurm.conf, into the record. If they cannot be
// copied, keep records a warning.
func keep(record *run.Writer, c *conf.Cluster, actions []hpc.Action) error {
	files, err := c.Kept()
	dir := filepath.Dir(c.Path)
	for _, a := range actions {
		if a.SlurmConf == "" || err != nil {
			continue
		}
		path := a.SlurmConf
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		err = keepBeside(files, dir, path)
	}
	if errors.Is(err, privacy.ErrNotKept) {
		return record.Warn(run.Warning{Code: "cluster-not-kept", Text: err.Error(), Count: 1})
	}
	if err != nil {
		return err
	}
	return record.Cluster(files)
}

// keepBeside adds the slurm.conf at path and the files beside it. The path must be below the cluster's directory.
func keepBeside(files map[string]string, dir, path string) error {
	below, err := filepath.Rel(dir, filepath.Dir(path))
	if err != nil || !filepath.IsLocal(below) {
		return fmt.Errorf("%w: %s is not in %s", privacy.ErrNotKept, path, dir)
	}
	other, err := conf.OpenFile(path)
	if err != nil {
		return err
	}
	more, err := other.Kept()
	for name, text := range more {
		files[filepath.Join(below, name)] = text
	}
	return err
}
