// Package capture reads the queue of a live cluster from the output of Slurm's commands: it runs
// the commands, or reads a directory with their output.
//
// docs/FORECAST.md describes the directory. The package reads scontrol's text output, because its
// form is the same in all releases. scontrol's JSON differs between releases.
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
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/input"
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
	// History is the instant of the last complete read of the history. Later captures may have added to it.
	History time.Time `json:"history_read,omitzero"`
	// Missing has the errors of commands that failed and of files that could not be copied.
	Missing map[string]string `json:"missing,omitempty"`
}

// command is a command whose output is a file of a capture.
type command struct {
	file     string
	words    []string
	required bool
}

// commands returns the commands of a capture. No command changes anything. Finished jobs are read from the instant
// since on. If since is zero, no finished jobs are read.
func commands(since time.Time) []command {
	list := []command{
		{jobsFile, []string{"scontrol", "--details", "show", "job"}, true},
		{nodesFile, []string{"scontrol", "show", "node"}, true},
		{reservationsFile, []string{"scontrol", "--oneliner", "show", "reservation"}, false},
		{partitionsFile, []string{"scontrol", "--oneliner", "show", "partition"}, false},
		{configFile, []string{"scontrol", "show", "config"}, false},
		{schedulerFile, []string{"sdiag"}, false},
		{usageFile, []string{"sshare", "--all", "--parsable2", "--format=Account,User,RawUsage"}, false},
	}
	if !since.IsZero() {
		list = append(list, command{historyFile, []string{
			"sacct", "--allusers", "--duplicates", "--parsable2", "--allocations",
			"--starttime=" + since.UTC().Format("2006-01-02T15:04:05"),
			"--format=JobID,JobIDRaw,JobName,User,UID,Group,GID,Account,Partition,QOS,Submit,Eligible,Start,End,Elapsed,State,ExitCode,Timelimit,ReqCPUS,AllocCPUS,ReqNodes,NNodes,ReqMem,ReqTRES,AllocTRES,NodeList,Priority",
		}, false})
	}
	return list
}

// Options say what is captured.
type Options struct {
	// History is how far back finished jobs are read with sacct; 0 to read no finished jobs.
	History time.Duration
	// Earlier, if it is not empty, is the directory of an earlier capture with the same History. sacct then
	// returns only events after that capture, unless the last query of the whole history was more than a day ago.
	Earlier string
	// Timeout bounds each command.
	Timeout time.Duration
	// Now is the instant at which Run is called.
	Now time.Time
}

// most is the maximum size of a command's output, in bytes.
const most = 1 << 30

// Run captures the cluster that Slurm's commands reach into a new directory. If it fails, the error names the failed
// command, and the directory is removed.
func Run(ctx context.Context, dir string, opts Options) (err error) {
	if err := os.Mkdir(dir, 0o777); err != nil {
		return fmt.Errorf("capturing a cluster: %w (want a new directory)", err)
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir) // so that the same command can be given again; a directory without an index is useless
		}
	}()
	c := capturing{ctx: ctx, dir: dir, opts: opts, began: time.Now(),
		made: index{Format: 1, Zone: "UTC", Missing: map[string]string{}}}
	for _, one := range commands(c.since()) {
		if err := c.command(one); err != nil {
			return fmt.Errorf("capturing a cluster: %w", err)
		}
	}
	text, err := json.MarshalIndent(c.made, "", "  ")
	if err == nil {
		err = output.Text(filepath.Join(dir, indexFile), string(text)+"\n")
	}
	if err != nil {
		return fmt.Errorf("capturing a cluster: %w", err)
	}
	return nil
}

// CommandError says that a command of Slurm failed, and that a capture is impossible without the command's output.
type CommandError struct {
	Words []string
	Err   error
}

func (e *CommandError) Error() string { return strings.Join(e.Words, " ") + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *CommandError) Unwrap() error { return e.Err }

// capturing is a capture that is being made.
type capturing struct {
	ctx   context.Context
	dir   string
	opts  Options
	began time.Time
	made  index
	jobs  []*job // the jobs that can be read
	// earlier is the history of an earlier capture. sacct's output is appended to it.
	earlier string
}

// command saves a command's output, and files that are derived from it.
func (c *capturing) command(one command) error {
	said, err := execute(c.ctx, one.words, c.opts.Timeout)
	if err == nil && strings.TrimSpace(said) == "" {
		err = errors.New("it printed nothing") // each of these commands prints a line even if there is nothing to show
	}
	switch {
	case err != nil && (one.required || c.ctx.Err() != nil):
		return &CommandError{one.words, err}
	case err != nil:
		c.made.Missing[strings.Join(one.words, " ")] = err.Error()
		return nil
	}
	if one.file == historyFile && c.earlier != "" {
		said = continued(c.earlier, said)
	}
	if err := output.Text(filepath.Join(c.dir, one.file), said); err != nil {
		return err
	}
	switch one.file {
	case jobsFile:
		before := c.opts.Now.Add(time.Since(c.began))
		// the reader of the capture reports errors
		_ = eachJob(strings.NewReader(said), jobsFile, func(s *shown) error {
			if j, err := s.job(time.UTC); err == nil {
				c.jobs = append(c.jobs, j)
			}
			return nil
		})
		c.made.At = instant(c.jobs, before)
	case configFile:
		if err := copyConfiguration(said, filepath.Join(c.dir, clusterDir)); err != nil {
			c.made.Missing["the configuration"] = err.Error()
			return nil
		}
		return c.accounts(setting(said, "ClusterName"))
	}
	return nil
}

// accounts saves the commands that make the accounts of a cluster.
func (c *capturing) accounts(cluster string) error {
	const what = "accounts and QOS"
	var said []string
	for _, words := range accountWords() {
		text, err := execute(c.ctx, words, c.opts.Timeout)
		if err != nil {
			if c.ctx.Err() != nil {
				return err
			}
			c.made.Missing[what] = fmt.Sprintf("%s: %v", strings.Join(words, " "), err)
			return nil
		}
		said = append(said, text)
	}
	commands, hidden, err := accountCommands(cluster, accountTexts{said[0], said[1], said[2]}, c.jobs)
	if err != nil {
		c.made.Missing[what] = err.Error()
		return nil
	}
	if hidden > 0 {
		c.made.Missing[what] = fmt.Sprintf("sacctmgr hides %d that jobs name; in the forecast these have no limits", hidden)
	}
	return output.Text(filepath.Join(c.dir, clusterDir, accountsFile), commands)
}

// skew is how far slurmctld's clock may be ahead of this machine's clock. A larger difference means
// a different time zone.
const skew = 10 * time.Minute

// instant returns the instant of a capture, in whole seconds. The instant is when scontrol printed the jobs. If
// slurmctld's clock is ahead, the instant is moved so that no submission or start is after it.
func instant(jobs []*job, before time.Time) time.Time {
	at := before.UTC().Truncate(time.Second)
	latest := hpc.Unix(at.Add(skew).Unix())
	for _, j := range jobs {
		for _, t := range []hpc.Time{j.Submit, j.Start} {
			if after := t.Add(time.Second); after <= latest && after.Std().After(at) {
				at = after.Std()
			}
		}
	}
	return at
}

// execute runs a command of Slurm with times in UTC, and returns what it printed.
func execute(ctx context.Context, words []string, timeout time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c := exec.CommandContext(ctx, words[0], words[1:]...)
	// without BITSTR_LEN long lists of tasks are cut
	c.Env = append(os.Environ(), "TZ=UTC", "SLURM_TIME_FORMAT=standard", "SLURM_BITSTR_LEN=0", "LC_ALL=C")
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

// limited stores an output of at most [most] bytes. A longer output is an error.
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

// copied are the configuration files that decide scheduling.
var copied = []string{"slurm.conf", "gres.conf", "topology.conf", "topology.yaml"}

// setting returns the value of a key in what `scontrol show config` printed; "" if the key is not
// there.
func setting(config, key string) (value string) {
	for line := range strings.Lines(config) {
		if name, text, ok := strings.Cut(line, "="); ok && strings.TrimSpace(name) == key {
			value = strings.TrimSpace(text)
		}
	}
	return value
}

// copyConfiguration copies slurm.conf and the files beside it that decide scheduling. config is
// the output of `scontrol show config`. The error says that slurm.conf cannot be read.
func copyConfiguration(config, to string) error {
	path := setting(config, "SLURM_CONF")
	if path == "" {
		return errors.New("scontrol show config has no SLURM_CONF")
	}
	for _, name := range copied {
		from := filepath.Join(filepath.Dir(path), name)
		if name == "slurm.conf" {
			from = path
		}
		text, err := readWhole(from, strings.ToLower(setting(config, "ClusterName")), 0)
		switch {
		case errors.Is(err, fs.ErrNotExist) && name != "slurm.conf":
			continue
		case err != nil:
			return err
		}
		if err := os.MkdirAll(to, 0o777); err != nil {
			return err
		}
		if err := output.Text(filepath.Join(to, name), text); err != nil {
			return err
		}
	}
	return nil
}

// maxConfiguration is the largest size of a copied configuration file with all its included files. maxIncludes is
// the largest depth of includes.
const (
	maxConfiguration = 64 << 20
	maxIncludes      = 20
)

// maxText is the largest size in bytes of a capture's index, and of a file of a configuration.
const maxText = 64 << 20

// readWhole reads a file of a configuration. The text of an included file replaces its Include line
// (slurm.conf(5)), so that the copy needs no other file. In the name of an included file, %c means
// the cluster's name.
func readWhole(path, cluster string, depth int) (string, error) {
	text, err := input.ReadFile(path, maxText)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) != 2 || !strings.EqualFold(words[0], "include") {
			b.WriteString(line)
			continue
		}
		included := strings.ReplaceAll(words[1], "%c", cluster)
		if !filepath.IsAbs(included) {
			included = filepath.Join(filepath.Dir(path), included)
		}
		if depth == maxIncludes {
			return "", fmt.Errorf("%s: %s: files include each other more than %d deep", path, strings.TrimSpace(line),
				maxIncludes)
		}
		more, err := readWhole(included, cluster, depth+1)
		if err != nil { // another error than a missing file
			return "", fmt.Errorf("%s: %s: %s", path, strings.TrimSpace(line), err.Error())
		}
		if b.WriteString(more); !strings.HasSuffix(more, "\n") {
			b.WriteByte('\n')
		}
		if b.Len() > maxConfiguration {
			return "", fmt.Errorf("%s: more than 64 MiB with the files that it includes", path)
		}
	}
	return b.String(), nil
}

// Private reports whether a site hides jobs from other users than their owners (PrivateData in slurm.conf(5)), as
// scontrol printed it in a capture.
func Private(dir string) (bool, error) {
	text, err := input.ReadFile(filepath.Join(dir, configFile), maxText)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return slices.Contains(strings.Split(setting(string(text), "PrivateData"), ","), "jobs"), err
}

// Cluster returns the cluster directory in a capture, or "" if the capture has no such directory.
func Cluster(dir string) string {
	if _, err := os.Stat(filepath.Join(dir, clusterDir, "slurm.conf")); err != nil {
		return ""
	}
	return filepath.Join(dir, clusterDir)
}

// readIndexFile reads capture.json.
func readIndexFile(dir string) (i index, err error) {
	text, err := input.ReadFile(filepath.Join(dir, indexFile), maxText)
	if err != nil {
		return i, err
	}
	if err := json.Unmarshal(text, &i); err != nil {
		return i, fmt.Errorf("%s: %w", indexFile, err)
	}
	return i, nil
}

// readIndex reads capture.json, and checks its contents.
func readIndex(dir string) (at hpc.Time, zone *time.Location, missing map[string]string, err error) {
	i, err := readIndexFile(dir)
	if err != nil {
		return 0, nil, nil, err
	}
	switch {
	case i.Format != 1:
		return 0, nil, nil, fmt.Errorf(`%s: "rmreplay_capture" is %d (want 1)`, indexFile, i.Format)
	case i.At.IsZero() || i.At.Year() < 1971 || i.At.Year() > 2200:
		return 0, nil, nil, fmt.Errorf(`%s: "at" is %s (want the instant of the capture, as 2024-03-01T08:00:00Z)`, indexFile,
			i.At.Format(time.RFC3339))
	}
	if zone, err = time.LoadLocation(i.Zone); err != nil {
		return 0, nil, nil, fmt.Errorf(`%s: "time_zone": %w`, indexFile, err)
	}
	return hpc.Time(i.At.UnixNano()), zone, i.Missing, nil
}
