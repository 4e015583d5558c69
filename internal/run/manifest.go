package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/input"
	"rmreplay/internal/quantity"
	"rmreplay/internal/rm"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// Format is the version of the record that this package writes. Readers refuse a record with a higher version.
const Format = 1

// State says how a run ended.
type State string

// The states of a run. A killed run keeps the state running, and [Open] marks it partial.
const (
	StateRunning     State = "running"     // not finished
	StateComplete    State = "complete"    // the workload was played to its end
	StateInterrupted State = "interrupted" // the user ended it; the record has what happened until then
	StateFailed      State = "failed"      // the run could not continue; Error says why
)

// Manifest describes a run: its inputs, its software, and its course. It is the file manifest.json
// of the record, with the keys in the tags. It must not contain secrets: values of configuration
// keys that look like secrets are replaced when it is written.
type Manifest struct {
	Format int    `json:"format"` // version of the record's layout, [Format]
	State  State  `json:"state"`
	Error  string `json:"error,omitempty"` // why the run failed
	// Valid says that the workload was played to its end, and no warning affects the result. If it
	// is false, [Manifest.Doubt] says why.
	Valid    bool      `json:"valid"`
	Warnings []Warning `json:"warnings"`

	Engine  string   `json:"engine"`           // "slurm" or "sim"
	Policy  string   `json:"policy,omitempty"` // the simulator's scheduling policy
	Seed    uint64   `json:"seed"`
	Command []string `json:"command"` // the command line, program first
	// Spec is the specification of the run, with all defaults and whole paths. With it, the run can be repeated
	// ([rmreplay/internal/experiment.SpecOf]). Spec is nil for a workload that is read as a run.
	Spec json.RawMessage `json:"spec,omitempty"`

	Versions Versions `json:"versions"`
	Clock    Clock    `json:"clock"`
	Workload Source   `json:"workload"`
	Cluster  Cluster  `json:"cluster"`
	Jobs     Counts   `json:"jobs"` // set by the writer

	// Reasons says that some events are reasons of pending jobs ([rm.Waiting]). In older records of Slurm, Reasons is
	// false even if some events are reasons of pending jobs.
	Reasons bool `json:"reasons,omitempty"`
	// Feedback describes the model of users' reactions; nil for a rigid replay.
	Feedback *Feedback `json:"feedback,omitempty"`

	// Made are the fields of the workload that were not recorded, with the rules and draws that made them.
	Made []workload.MadeField `json:"made_fields,omitempty"`

	// Started and Finished are real times, RFC 3339.
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished,omitzero"`
	// WindowStart is the time at which the workload's window begins, or 0. Jobs that started
	// before it are preset. The metrics begin with the window.
	WindowStart hpc.Time `json:"-"`
	// VirtualStart and VirtualEnd are the virtual times of the run's start and end. In JSON
	// they are RFC 3339, because a double cannot hold nanoseconds since 1970.
	VirtualStart hpc.Time `json:"-"`
	VirtualEnd   hpc.Time `json:"-"`

	// VirtualSeconds is virtual end − virtual start. WallSeconds is finished − started. Speedup is
	// their ratio. 0 means unknown; [Writer.Finish] computes values that are 0.
	VirtualSeconds float64 `json:"virtual_s"`
	WallSeconds    float64 `json:"wall_s"`
	Speedup        float64 `json:"speedup"`

	// Recorded compares the run with the record of its workload; nil if the workload records no starts.
	Recorded *Verdict `json:"recorded_against_replayed,omitempty"`

	// FileSystems are the file systems whose bandwidth the jobs shared.
	FileSystems []FileSystem `json:"file_systems,omitempty"`
	// IOSchedule is the strategy of a driver outside slurmctld that decided when held jobs start;
	// empty without such a driver.
	IOSchedule string `json:"io_schedule,omitempty"`
	// IOEstimate names the method that estimated the jobs' use of file systems for the scheduler or
	// the driver; empty without estimates. [rmreplay/internal/ioaware.ParseEstimator] reads it.
	IOEstimate string `json:"io_estimate,omitempty"`

	// Scheduler has slurmctld's own counters; nil if they were not read.
	Scheduler *rm.Scheduler `json:"scheduler,omitempty"`

	// Network is the network of the daemons. It is "private" if other processes cannot reach it. In
	// a "shared" network, the daemons refuse connections of other processes.
	Network string `json:"network,omitempty"`

	// DaemonCPU is the CPU time, user and system, of each supervised daemon, in seconds.
	// "io-schedule" is the driver that decided when jobs start.
	DaemonCPU map[string]float64 `json:"daemon_cpu_s,omitempty"`
	// PeakMemory is the largest resident set, in MiB, of each supervised daemon. "rmreplay" is the replay itself.
	PeakMemory map[string]float64 `json:"peak_memory_mib,omitempty"`
	// ExitStatuses says how each supervised process ended: "exit 0", "signal 9".
	ExitStatuses map[string]string `json:"exit_statuses,omitempty"`
}

// Feedback is the model of users that set the submission times.
type Feedback struct {
	Model    string  `json:"model"`              // "think-time", "fluid", ...; "none" if only jitter moved jobs
	Sessions string  `json:"sessions,omitempty"` // how sessions were delimited: "arrival:60m"
	Jitter   float64 `json:"jitter_s,omitempty"` // the largest random change of a submission time
}

// FileSystem has the fields of [hpc.FileSystem].
type FileSystem struct {
	Name      string `json:"name"`
	Bandwidth int64  `json:"bytes_per_s"`
	Limit     int64  `json:"limit_bytes_per_s,omitempty"`
	Licenses  int64  `json:"licenses,omitempty"`
}

// Versions names the software of the run. Software that was not used has an empty version.
type Versions struct {
	RMReplay string `json:"rmreplay,omitempty"`
	Slurm    string `json:"slurm,omitempty"`
	MariaDB  string `json:"mariadb,omitempty"`
	Go       string `json:"go,omitempty"`
	Kernel   string `json:"kernel,omitempty"`
}

// Clock is the run's model of virtual time.
type Clock struct {
	// Model is "frozen", "measured" or "charged". With "frozen", slurmctld's computing takes no virtual time. With
	// "measured", computing takes its CPU time times Factor. Only the model of Slurm has "charged": each job that the main
	// scheduler tests takes MainJob seconds, and each job for which backfill searches nodes takes BackfillJob seconds.
	Model       string  `json:"model"`
	Factor      float64 `json:"factor,omitempty"`
	MainJob     float64 `json:"main_job_s,omitempty"`
	BackfillJob float64 `json:"backfill_job_s,omitempty"`
	Steps       int64   `json:"steps,omitempty"` // number of advances of virtual time
	// ComputingSeconds is the virtual time that slurmctld's computing took. It is the sum over
	// threads, which may compute at the same time.
	ComputingSeconds float64 `json:"computing_s,omitempty"`
}

// Source describes the origin of the workload.
type Source struct {
	Path   string         `json:"path"`
	Format string         `json:"format,omitempty"`
	SHA256 string         `json:"sha256,omitempty"`
	Jobs   int            `json:"jobs"`            // submissions; a job array is one
	Rules  map[string]int `json:"rules,omitempty"` // number of records that each named rule affected
}

// Cluster describes the machine of the run.
type Cluster struct {
	Name string `json:"name,omitempty"`
	Dir  string `json:"dir,omitempty"` // the cluster directory
	// Nodes and Processors are the capacity for utilization: all nodes of the configuration,
	// and all their CPUs as Slurm counts them.
	Nodes      int         `json:"nodes"`
	Processors int         `json:"processors"`
	Partitions []Partition `json:"partitions,omitempty"`
	Changes    []Change    `json:"config_changes,omitempty"`
	// SchedulerParameters are the parameters in slurm.conf when the run began.
	SchedulerParameters string `json:"scheduler_parameters,omitempty"`
}

// Partition is the capacity of one partition. Partitions may share nodes.
type Partition struct {
	Name       string `json:"name"`
	Nodes      int    `json:"nodes"`
	Processors int    `json:"processors"`
}

// Change is one difference between the site's configuration and the run's.
type Change struct {
	File   string `json:"file,omitempty"`
	Key    string `json:"key"`
	From   string `json:"from"`
	To     string `json:"to"`
	Reason string `json:"reason"`
}

// Counts has numbers of jobs of the workload. A job array counts as one submission.
type Counts struct {
	Submitted    int `json:"submitted"`     // sent to the resource manager
	NotSubmitted int `json:"not_submitted"` // jobs of the workload that were not sent
	Unanswered   int `json:"unanswered"`    // sent, but the run ended before an answer
	Accepted     int `json:"accepted"`
	Rejected     int `json:"rejected"`
	Rows         int `json:"rows"`  // rows of jobs.parquet; an array has one for each task
	Ended        int `json:"ended"` // rows in a final state, without rejected jobs
}

// Warning is something that readers of the results must know.
type Warning struct {
	Code string `json:"code"` // a stable name, such as "node-not-in-partition"
	Text string `json:"text"`
	// AffectsResult says that the results may be misleading. A run with a warning that affects the result is not valid.
	AffectsResult bool `json:"affects_result"`
	Count         int  `json:"count"` // number of occurrences, at least 1
}

// addWarning adds w to list. Warnings with the same code and text become one warning with the sum
// of their counts, so a million repetitions take one line.
func addWarning(list []Warning, w Warning) []Warning {
	w.Count = max(w.Count, 1)
	for i := range list {
		if list[i].Code == w.Code && list[i].Text == w.Text {
			list[i].Count += w.Count
			list[i].AffectsResult = list[i].AffectsResult || w.AffectsResult
			return list
		}
	}
	return append(list, w)
}

// AffectedBy reports whether any of the warnings affects the result.
func AffectedBy(warnings []Warning) bool {
	return slices.ContainsFunc(warnings, func(w Warning) bool { return w.AffectsResult })
}

// OfSlurm reports whether Slurm or its model made the run. The record then has the reasons for which all jobs waited.
// Other policies of the simulator give a reason only if the queue does not explain the wait.
func (m *Manifest) OfSlurm() bool { return m.Engine == "slurm" || m.Policy == "slurm" }

// MadeBy names the engine for people: "slurm 22.05.8", "model of Slurm 22.05", "sim (easy)".
func (m *Manifest) MadeBy() string {
	if m.Engine != "slurm" && m.OfSlurm() {
		var made struct {
			Simulator struct {
				Release string `json:"release"`
			} `json:"simulator"`
		}
		if json.Unmarshal(m.Spec, &made) != nil || made.Simulator.Release == "" {
			made.Simulator.Release = "22.05" // the modelled release, unless another was given
		}
		return "model of Slurm " + made.Simulator.Release
	}
	text := strings.TrimSpace(m.Engine + " " + m.Versions.Slurm)
	if m.Policy != "" {
		text += " (" + m.Policy + ")"
	}
	return text
}

// Doubt says why the run is not valid. It returns "" if the run is valid.
func (m *Manifest) Doubt() string {
	switch {
	case m.Valid:
		return ""
	case m.State == StateInterrupted:
		return fmt.Sprintf("it was interrupted when %d of %d %s had been submitted and %d had ended",
			m.Jobs.Submitted, m.Workload.Jobs, quantity.Plural(m.Workload.Jobs, "job", "jobs"), m.Jobs.Ended)
	case m.State == StateFailed && m.Error != "":
		return "it failed: " + m.Error
	}
	for _, w := range m.Warnings {
		if w.AffectsResult {
			return w.Text
		}
	}
	return "its state is " + string(m.State)
}

// derive computes the durations from the times.
func (m *Manifest) derive() {
	if m.VirtualSeconds == 0 && m.VirtualStart != 0 && m.VirtualEnd > m.VirtualStart {
		m.VirtualSeconds = m.VirtualEnd.Sub(m.VirtualStart).Seconds()
	}
	if m.WallSeconds == 0 && !m.Started.IsZero() && m.Finished.After(m.Started) {
		m.WallSeconds = m.Finished.Sub(m.Started).Seconds()
	}
	if m.Speedup == 0 && m.WallSeconds > 0 {
		m.Speedup = m.VirtualSeconds / m.WallSeconds
	}
	const left = "running-left-out"
	if n := m.Workload.Rules[workload.RuleLeftRunning]; n > 0 &&
		!slices.ContainsFunc(m.Warnings, func(w Warning) bool { return w.Code == left }) {
		m.Warnings = append(m.Warnings, Warning{Code: left, Count: n, Text: "jobs that ran when the window began are " +
			"left out, because the record does not name their nodes: the machine is emptier than it was"})
	}
}

// manifestJSON is a Manifest whose virtual times are RFC 3339 texts.
type manifestJSON struct {
	*plainManifest
	WindowStart  time.Time `json:"window_start,omitzero"`
	VirtualStart time.Time `json:"virtual_start,omitzero"`
	VirtualEnd   time.Time `json:"virtual_end,omitzero"`
}

// plainManifest has the fields of Manifest without its methods, so that encoding it does not recurse.
type plainManifest Manifest

// MarshalJSON encodes m under the keys that docs/FORMATS.md lists.
func (m Manifest) MarshalJSON() ([]byte, error) {
	if m.Warnings == nil {
		m.Warnings = []Warning{}
	}
	if m.Command == nil {
		m.Command = []string{}
	}
	m.Cluster.Changes = redact(m.Cluster.Changes)
	out := manifestJSON{plainManifest: (*plainManifest)(&m)}
	if m.WindowStart != 0 {
		out.WindowStart = m.WindowStart.Std()
	}
	if m.VirtualStart != 0 {
		out.VirtualStart = m.VirtualStart.Std()
	}
	if m.VirtualEnd != 0 {
		out.VirtualEnd = m.VirtualEnd.Std()
	}
	return json.Marshal(out)
}

// UnmarshalJSON is the inverse of MarshalJSON. It ignores unknown keys.
func (m *Manifest) UnmarshalJSON(data []byte) error {
	var plain plainManifest
	in := manifestJSON{plainManifest: &plain}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*m = Manifest(plain)
	m.WindowStart = instant(in.WindowStart)
	m.VirtualStart, m.VirtualEnd = instant(in.VirtualStart), instant(in.VirtualEnd)
	return nil
}

// instant returns t as virtual time. A zero t becomes a zero virtual time.
func instant(t time.Time) hpc.Time {
	if t.IsZero() {
		return 0
	}
	return hpc.Time(t.UnixNano())
}

// redact returns changes with the values of secret keys replaced.
func redact(changes []Change) []Change {
	out := slices.Clone(changes)
	for i := range out {
		if !slurmspec.Secret(out[i].Key) {
			continue
		}
		for _, value := range []*string{&out[i].From, &out[i].To} {
			if *value != "" {
				*value = "(hidden)"
			}
		}
	}
	return out
}

// writeManifest replaces dir/manifest.json atomically. A reader sees either the old or the new manifest, never a part.
func writeManifest(dir string, m Manifest) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	temp := filepath.Join(dir, manifestFile+tempSuffix)
	if err := os.WriteFile(temp, append(data, '\n'), 0o666); err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	if err := os.Rename(temp, filepath.Join(dir, manifestFile)); err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	return nil
}

// ErrNotRun says that a directory is not a run record.
var ErrNotRun = errors.New("not a run record")

// notRun returns the error for a directory without a manifest. The directory may not exist, or it may have runs below
// it: realizations, or the cells of a sweep, which are runs or sets.
func notRun(dir string) error {
	if _, err := os.Stat(dir); err != nil {
		return fmt.Errorf("%w: %w", ErrNotRun, err)
	}
	for _, below := range []string{"*", "*/*", "*/*/*"} {
		runs, _ := filepath.Glob(filepath.Join(globbed(dir), below, manifestFile)) // the pattern is well-formed
		for i, path := range runs {
			if runs[i] = filepath.Dir(path); below == "*/*/*" {
				runs[i] = filepath.Dir(runs[i])
			}
		}
		if runs = slices.Compact(runs); len(runs) > 0 {
			return fmt.Errorf("%w: no %s in %s (want one of %s)", ErrNotRun, manifestFile, dir, quantity.Few(runs, 12))
		}
	}
	want := "want the directory of a run, which replay and simulate make of a workload"
	if files, err := filepath.Glob(filepath.Join(globbed(dir), "*.jsonl*")); err == nil && len(files) > 0 {
		want += " such as " + files[0]
	}
	return fmt.Errorf("%w: no %s in %s (%s)", ErrNotRun, manifestFile, dir, want)
}

// globbed quotes the characters that are wildcards in a pattern of [filepath.Glob].
func globbed(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// maxManifest is the maximum size of a manifest in bytes. The manifest of a run with thousands of
// warnings has less than a megabyte.
const maxManifest = 64 << 20

// readManifest reads dir/manifest.json.
func readManifest(dir string) (*Manifest, error) {
	path := filepath.Join(dir, manifestFile)
	data, err := input.ReadFile(path, maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, notRun(dir)
	}
	if errors.Is(err, syscall.ENOTDIR) {
		return nil, fmt.Errorf("%w: %s is not a directory (replay and simulate make a run of a workload)", ErrNotRun, dir)
	}
	if err != nil {
		return nil, err
	}
	var m Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNotRun, path, err)
	}
	switch {
	case m.Format == 0:
		return nil, fmt.Errorf("%w: %s has no \"format\"", ErrNotRun, path)
	case m.Format < 0 || m.Format > Format:
		return nil, fmt.Errorf("%s: format %d is not known (this program reads up to %d)", path, m.Format, Format)
	}
	return &m, nil
}
