// Package capture reads the queue of a live cluster from the output of Slurm's commands: it runs
// the commands, or reads a directory with their output.
//
// docs/FORECAST.md describes the directory. The texts of scontrol are used, because they are the
// same from release to release, while its JSON changes.
package capture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/output"
)

// The files of a capture. All but the first three may be missing.
const (
	indexFile        = "capture.json"
	jobsFile         = "jobs.txt"
	nodesFile        = "nodes.txt"
	reservationsFile = "reservations.txt"
	partitionsFile   = "partitions.txt"
	usageFile        = "usage.txt"
	historyFile      = "history.sacct"
	configFile       = "config.txt"
	schedulerFile    = "sdiag.txt"
	clusterDir       = "cluster"
)

// index is capture.json.
type index struct {
	Format int `json:"rmreplay_capture"`
	// At is the instant of the capture, and Zone the time zone of the times in its files.
	At   time.Time `json:"at"`
	Zone string    `json:"time_zone"`
	// Missing has the commands that failed, with their errors.
	Missing map[string]string `json:"missing,omitempty"`
}

// command is a command whose output is a file of a capture.
type command struct {
	file     string
	words    []string
	required bool
}

// commands returns the commands of a capture. All of them only read. history is how far back
// finished jobs are read; 0 for none.
func commands(now time.Time, history time.Duration) []command {
	list := []command{
		{jobsFile, []string{"scontrol", "--details", "show", "job"}, true},
		{nodesFile, []string{"scontrol", "show", "node"}, true},
		{reservationsFile, []string{"scontrol", "--oneliner", "show", "reservation"}, false},
		{partitionsFile, []string{"scontrol", "--oneliner", "show", "partition"}, false},
		{configFile, []string{"scontrol", "show", "config"}, false},
		{schedulerFile, []string{"sdiag"}, false},
		{usageFile, []string{"sshare", "--all", "--parsable2", "--format=Account,User,RawUsage"}, false},
	}
	if history > 0 {
		list = append(list, command{historyFile, []string{
			"sacct", "--allusers", "--duplicates", "--parsable2", "--allocations", "--starttime=" + now.Add(-history).UTC().Format("2006-01-02T15:04:05"),
			"--format=JobID,JobIDRaw,JobName,User,UID,Group,GID,Account,Partition,QOS,Submit,Eligible,Start,End,Elapsed,State,ExitCode,Timelimit,ReqCPUS,AllocCPUS,ReqNodes,NNodes,ReqMem,ReqTRES,AllocTRES,NodeList,Priority",
		}, false})
	}
	return list
}

// Options say what is captured.
type Options struct {
	// History is how far back finished jobs are read with sacct; 0 for none.
	History time.Duration
	// Timeout bounds each command.
	Timeout time.Duration
	// Now is the instant at which Run is called.
	Now time.Time
}

// most is the largest output of a command that is accepted.
const most = 1 << 30

// Run captures the cluster that Slurm's commands reach into a new directory. The error names the
// command that failed.
func Run(ctx context.Context, dir string, opts Options) error {
	if err := os.Mkdir(dir, 0o777); err != nil {
		return fmt.Errorf("capturing a cluster: %w (want a new directory)", err)
	}
	began := time.Now()
	made := index{Format: 1, Zone: "UTC", Missing: map[string]string{}}
	for _, c := range commands(opts.Now, opts.History) {
		said, err := execute(ctx, c.words, opts.Timeout)
		switch {
		case err != nil && (c.required || ctx.Err() != nil):
			return fmt.Errorf("capturing a cluster: %s: %w", strings.Join(c.words, " "), err)
		case err != nil:
			made.Missing[strings.Join(c.words, " ")] = err.Error()
			continue
		}
		if err := output.Text(filepath.Join(dir, c.file), said); err != nil {
			return fmt.Errorf("capturing a cluster: %w", err)
		}
		if c.file == jobsFile {
			made.At = instant(said, opts.Now.Add(time.Since(began)))
		}
		if c.file == configFile {
			if err := copyConfiguration(said, filepath.Join(dir, clusterDir)); err != nil {
				made.Missing["the configuration"] = err.Error()
			}
		}
	}
	text, err := json.MarshalIndent(made, "", "  ")
	if err != nil {
		return fmt.Errorf("capturing a cluster: %w", err)
	}
	if err := output.Text(filepath.Join(dir, indexFile), string(text)+"\n"); err != nil {
		return fmt.Errorf("capturing a cluster: %w", err)
	}
	return nil
}

// skew is how far the clock of slurmctld may be ahead of this machine's. Time zones differ by more.
const skew = 10 * time.Minute

// instant returns the instant of a capture whose jobs were printed before an instant: in whole seconds
// after all submissions and starts, since slurmctld's clock can be ahead.
func instant(jobs string, before time.Time) time.Time {
	at := before.UTC().Truncate(time.Second)
	latest := hpc.Unix(at.Add(skew).Unix())
	_ = eachJob(strings.NewReader(jobs), jobsFile, func(s *shown) error { // whoever reads the capture reports what is wrong
		if j, err := s.job(time.UTC); err == nil {
			for _, t := range []hpc.Time{j.Submit, j.Start} {
				if after := t.Add(time.Second); after <= latest && after.Std().After(at) {
					at = after.Std().UTC()
				}
			}
		}
		return nil
	})
	return at
}

// execute runs a command of Slurm with times in UTC, and returns what it printed.
func execute(ctx context.Context, words []string, timeout time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c := exec.CommandContext(ctx, words[0], words[1:]...)
	c.Env = append(os.Environ(), "TZ=UTC", "SLURM_TIME_FORMAT=standard", "SLURM_BITSTR_LEN=0", "LC_ALL=C") // without BITSTR_LEN long lists of tasks are cut
	c.WaitDelay = time.Second
	var said, failed strings.Builder
	c.Stdout, c.Stderr = &limited{to: &said, left: most}, &limited{to: &failed, left: 4096}
	err := c.Run()
	switch {
	case ctx.Err() == context.DeadlineExceeded:
		return "", fmt.Errorf("no answer within %s", timeout)
	case err != nil && failed.Len() > 0:
		first, _, _ := strings.Cut(strings.TrimSpace(failed.String()), "\n")
		return "", fmt.Errorf("%w: %s", err, first)
	}
	return said.String(), err
}

// limited keeps the first bytes of an output, and fails at more than most.
type limited struct {
	to   *strings.Builder
	left int
}

func (l *limited) Write(b []byte) (int, error) {
	if len(b) > l.left {
		if l.left < most/2 && l.to.Len() < most/2 { // an error's text may be cut
			l.to.Write(b[:l.left])
			l.left = 0
			return len(b), nil
		}
		return 0, errors.New("the output is larger than 1 GiB")
	}
	l.left -= len(b)
	return l.to.Write(b)
}

// copied are the files of a configuration that decide scheduling.
var copied = []string{"slurm.conf", "gres.conf", "topology.conf", "topology.yaml"}

// copyConfiguration copies slurm.conf and the files beside it that decide scheduling. config is what
// `scontrol show config` printed. The error says that there is no slurm.conf that can be read.
func copyConfiguration(config, to string) error {
	path := ""
	for line := range strings.Lines(config) {
		if key, value, ok := strings.Cut(line, "="); ok && strings.TrimSpace(key) == "SLURM_CONF" {
			path = strings.TrimSpace(value)
		}
	}
	if path == "" {
		return errors.New("scontrol show config has no SLURM_CONF")
	}
	for _, name := range copied {
		from := filepath.Join(filepath.Dir(path), name)
		if name == "slurm.conf" {
			from = path
		}
		text, err := os.ReadFile(from)
		switch {
		case errors.Is(err, fs.ErrNotExist) && name != "slurm.conf":
			continue
		case err != nil:
			return err
		}
		if err := os.MkdirAll(to, 0o777); err != nil {
			return err
		}
		if err := output.Text(filepath.Join(to, name), string(text)); err != nil {
			return err
		}
	}
	return nil
}

// Cluster returns the cluster directory in a capture, or "" if it has none.
func Cluster(dir string) string {
	if _, err := os.Stat(filepath.Join(dir, clusterDir, "slurm.conf")); err != nil {
		return ""
	}
	return filepath.Join(dir, clusterDir)
}

// readIndex reads capture.json.
func readIndex(dir string) (at hpc.Time, zone *time.Location, err error) {
	text, err := os.ReadFile(filepath.Join(dir, indexFile))
	if err != nil {
		return 0, nil, err
	}
	var i index
	if err := json.Unmarshal(text, &i); err != nil {
		return 0, nil, fmt.Errorf("%s: %w", indexFile, err)
	}
	switch {
	case i.Format != 1:
		return 0, nil, fmt.Errorf(`%s: "rmreplay_capture" is %d (want 1)`, indexFile, i.Format)
	case i.At.IsZero() || i.At.Year() < 1971 || i.At.Year() > 2200:
		return 0, nil, fmt.Errorf(`%s: "at" is %s (want the instant of the capture, as 2024-03-01T08:00:00Z)`, indexFile, i.At.Format(time.RFC3339))
	}
	if zone, err = time.LoadLocation(i.Zone); err != nil {
		return 0, nil, fmt.Errorf(`%s: "time_zone": %w`, indexFile, err)
	}
	return hpc.Time(i.At.UnixNano()), zone, nil
}
