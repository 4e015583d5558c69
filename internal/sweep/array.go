package sweep

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"rmreplay/internal/experiment"
	files "rmreplay/internal/input"
	"rmreplay/internal/output"
	"rmreplay/internal/quantity"
)

// ArrayOptions are the options of [Maker.Submit].
type ArrayOptions struct {
	Limit  int      // maximum number of tasks that run at the same time; 0 for no limit
	Sbatch []string // additional options of sbatch: "--partition=long"
}

// Array is a submitted job array. Its file is array.json.
type Array struct {
	Job    string `json:"job"`    // the job's ID
	Script string `json:"script"` // the path of the batch script
	Runs   []int  `json:"runs"`   // the numbers of the runs, which are the tasks' numbers
}

// Submit submits the incomplete runs as a job array to the Slurm that sbatch connects to. The caller
// must call [Maker.Prepare] first. Every task makes one run, with a shared lock on the sweep's
// directory. Submit returns nil if all runs are complete. It returns an error if an earlier array of
// this sweep is still in the queue, or if the runs are too many for one array.
func (m *Maker) Submit(ctx context.Context, opts ArrayOptions) (*Array, error) {
	p := m.Plan
	if err := p.stillQueued(ctx); err != nil {
		return nil, err
	}
	a := &Array{Script: p.path(scriptFile)}
	for _, r := range p.Runs {
		if p.complete(r) == nil {
			a.Runs = append(a.Runs, r.Number)
		}
	}
	if len(a.Runs) == 0 {
		return nil, nil
	}
	script, err := m.script(a.Runs, opts)
	if err != nil {
		return nil, err
	}
	if err := output.Text(a.Script, script); err != nil {
		return nil, fmt.Errorf("writing %s: %w", a.Script, err)
	}
	out, err := askSlurm(ctx, "sbatch", "--parsable", a.Script)
	if err != nil {
		return nil, fmt.Errorf("submitting a job array of %d %s: %w", len(a.Runs),
			quantity.Plural(len(a.Runs), "run", "runs"), err)
	}
	a.Job, _, _ = strings.Cut(strings.TrimSpace(out), ";") // the cluster's name may follow after a semicolon
	if err := writeJSON(p.path(arrayFile), a); err != nil {
		return nil, fmt.Errorf("submitting: %w", err)
	}
	return a, nil
}

// stillQueued returns an error while the last array has tasks in the queue.
func (p *Plan) stillQueued(ctx context.Context) error {
	text, err := files.ReadFile(p.path(arrayFile), maxRead)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var last Array
	if err == nil {
		err = json.Unmarshal(text, &last)
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", p.path(arrayFile), err)
	}
	// squeue fails for a job that slurmctld has removed. A removed job is not in the queue.
	out, err := askSlurm(ctx, "squeue", "--noheader", "--format=%i", "--jobs="+last.Job)
	if err == nil && strings.TrimSpace(out) != "" {
		return fmt.Errorf("submitting: job array %s is still in the queue (wait for its end, or run scancel %s)",
			last.Job, last.Job)
	}
	return nil
}

// askSlurm runs a command of Slurm and returns its output.
func askSlurm(ctx context.Context, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// script returns the batch script of the array. The index of a task is the number of its run.
func (m *Maker) script(runs []int, opts ArrayOptions) (string, error) {
	p := m.Plan
	limit := ""
	if opts.Limit > 0 {
		limit = fmt.Sprintf("%%%d", opts.Limit)
	}
	lines := []string{
		"#!/bin/sh",
		"#SBATCH --job-name=rmreplay-" + slug(p.Experiment.Name),
		"#SBATCH --array=" + ranges(runs) + limit,
		"#SBATCH --output=" + optionValue(filepath.Join(p.Dir, logsDir, "array-%A_%a.log")),
		"#SBATCH --chdir=" + optionValue(p.Dir),
	}
	for _, o := range opts.Sbatch {
		if strings.ContainsAny(o, "\n\r") || !strings.HasPrefix(o, "-") {
			return "", fmt.Errorf("submitting: %q is not an option of sbatch (want, for example, --partition=long)", o)
		}
		lines = append(lines, "#SBATCH "+o)
	}
	model := ""
	if p.Experiment.Model {
		model = " --policy=" + experiment.SlurmPolicy
	}
	lines = append(lines,
		"# Written by rmreplay sweep: makes one run of the sweep in "+strconv.Quote(p.Dir)+".",
		fmt.Sprintf(`exec %s sweep %s --output=%s%s --cell="$SLURM_ARRAY_TASK_ID"`, shellWord(m.Program),
			shellWord(p.Experiment.Path), shellWord(p.Dir), model),
		"")
	return strings.Join(lines, "\n"), nil
}

// shellWord quotes a word for sh.
func shellWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// optionValue quotes a path for an #SBATCH line of a script.
func optionValue(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// ranges returns ascending numbers in the syntax of sbatch --array: 1-3,7.
func ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		if i == j {
			parts = append(parts, strconv.Itoa(numbers[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", numbers[i], numbers[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}
