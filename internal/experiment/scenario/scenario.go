// Package scenario plays small clusters and workloads, written as texts, on Slurm and on the model of its scheduler.
// The lines of a workload have the syntax of package rmtest.
package scenario

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"rmreplay/internal/experiment"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/rmtest"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// Epoch is the instant 0 of the times in a workload's lines.
const Epoch = 1709596800 * hpc.Second

// WriteCluster writes the files of a cluster into a directory. Each file follows a line "-- NAME --".
func WriteCluster(dir, text string) error {
	for _, part := range strings.Split("\n"+text, "\n-- ")[1:] {
		name, content, ok := strings.Cut(part, " --\n")
		if !ok {
			return fmt.Errorf("writing a cluster: %q does not begin with a file's name (want a line -- NAME --)", part)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content+"\n"), 0o600); err != nil {
			return fmt.Errorf("writing a cluster: %w", err)
		}
	}
	return nil
}

// Play plays the lines of a workload with the specification spec. The record is in spec.Output. Play returns a line
// for each job and each task of an array: the ID, and then the start in seconds since [Epoch] and the nodes. For a
// job that never started, the state follows the ID.
func Play(ctx context.Context, lines string, spec experiment.Spec) (string, error) {
	what, err := rmtest.Parse(lines, Epoch, "--uid=ann", "-t", "60")
	if err != nil {
		return "", err
	}
	spec.Workload.Value = &workload.Workload{
		Source: "a scenario", Epoch: Epoch, Jobs: workload.JobsOf(what.Jobs...), NodeEvents: what.Nodes,
		Reservations: what.Reservations, Usage: what.Usage, Start: what.Start,
	}
	spec.DrainLimit = 2 * time.Hour
	if _, err := experiment.Run(ctx, spec, experiment.Hooks{}); err != nil {
		return "", err
	}
	r, err := run.Open(spec.Output)
	if err != nil {
		return "", err
	}
	rows, err := r.Jobs()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, row := range rows {
		name := row.Job
		if row.Task >= 0 {
			name += fmt.Sprintf("_%d", row.Task)
		}
		if row.Start == 0 {
			fmt.Fprintf(&b, "%s %s\n", name, row.State)
			continue
		}
		fmt.Fprintf(&b, "%s %d %s\n", name, row.Start.UnixSeconds()-Epoch.UnixSeconds(), row.Nodes)
	}
	return b.String(), nil
}

// Differences returns the lines of Slurm and of the model that differ.
func Differences(slurm, model string) (list []string) {
	wants, gots := strings.Split(slurm, "\n"), strings.Split(model, "\n")
	for i := range max(len(wants), len(gots)) {
		var w, g string
		if i < len(wants) {
			w = wants[i]
		}
		if i < len(gots) {
			g = gots[i]
		}
		if w != g {
			list = append(list, fmt.Sprintf("%s (the model: %s)", w, g))
		}
	}
	return list
}
