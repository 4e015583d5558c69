// Command modelagreement measures how well the model of Slurm's scheduler agrees with Slurm. It replays a
// workload on Slurm under the frozen clock, simulates it with the model under the same seed, and compares
// both job by job:
//
//	go run ./tools/modelagreement -cluster demo/cluster -runs DIR -seeds 1,2 demo/day.jsonl
//
// DIR keeps the replays, so that each is made once. Equal is a job that starts in the same second, or that
// starts in neither run.
//
// With -lockstep the model follows the replay instead: each decision is made in Slurm's state, and compared by
// itself, at a number of instants that the seed draws, or at all of them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/agreement"
	"rmreplay/internal/experiment"
	"rmreplay/internal/run"
	"rmreplay/internal/supervise"
)

// settings are the flags.
type settings struct {
	workload, cluster, runs, slurm string
	differences                    int
	lockstep                       string // a number of instants or "all"; empty without
}

func main() {
	supervise.RunIfGuard() // the guard of the daemons is this program again
	var s settings
	flag.StringVar(&s.cluster, "cluster", "", "`DIR` of the cluster")
	flag.StringVar(&s.runs, "runs", "", "`DIR` that keeps the replays")
	flag.StringVar(&s.slurm, "slurm", "22.05", "`RELEASE` of Slurm")
	flag.IntVar(&s.differences, "differences", 1, "print the first `N` differences")
	flag.StringVar(&s.lockstep, "lockstep", "", "compare single decisions at `N` instants, or at all")
	seeds := flag.String("seeds", "1", "`LIST` of seeds")
	flag.Parse()
	if s.workload = flag.Arg(0); flag.NArg() != 1 || s.cluster == "" || s.runs == "" {
		fmt.Fprintln(os.Stderr, "usage: modelagreement -cluster DIR -runs DIR [-seeds 1,2] [-slurm RELEASE] WORKLOAD")
		os.Exit(2)
	}
	for text := range strings.SplitSeq(*seeds, ",") {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err == nil {
			err = s.compare(context.Background(), seed)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "modelagreement:", err)
			os.Exit(1)
		}
	}
}

// compare makes the two runs of a seed and prints how well they agree.
func (s *settings) compare(ctx context.Context, seed uint64) error {
	name := strings.TrimSuffix(filepath.Base(s.workload), filepath.Ext(s.workload))
	dir := filepath.Join(s.runs, fmt.Sprintf("%s-%s-%d", name, s.slurm, seed))
	spec := experiment.Spec{Workload: experiment.Workload{Path: s.workload}, Seed: seed, Output: dir, Overwrite: true}
	if r, err := run.Open(dir); err != nil || r.Manifest.State != run.StateComplete {
		spec.Slurm = &experiment.Slurm{Cluster: s.cluster, Installation: s.slurm, ReasonsEvery: 2 * time.Minute}
		if _, err := experiment.Run(ctx, spec, experiment.Hooks{}); err != nil && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("replaying: %w", err)
		}
	}
	spec.Slurm = nil
	spec.Simulator = &experiment.Simulator{Policy: experiment.SlurmPolicy, Cluster: s.cluster, Release: s.slurm}
	title := fmt.Sprintf("%s seed %d, Slurm %s", name, seed, s.slurm)
	if s.lockstep != "" {
		return s.follow(ctx, title, spec, dir)
	}
	played, err := rows(dir)
	if err != nil {
		return err
	}
	spec.Output = dir + "-model"
	began := time.Now()
	if _, err := experiment.Run(ctx, spec, experiment.Hooks{}); err != nil {
		return fmt.Errorf("simulating: %w", err)
	}
	took := time.Since(began)
	model, err := rows(spec.Output)
	if err != nil {
		return err
	}
	s.report(title, played, model, took)
	return nil
}

// follow makes the model follow a replay, and prints how well its decisions agree.
func (s *settings) follow(ctx context.Context, title string, spec experiment.Spec, dir string) error {
	instants, err := strconv.Atoi(s.lockstep)
	if s.lockstep != "all" && (err != nil || instants <= 0) {
		return fmt.Errorf("-lockstep %s: not a number of instants (want, for example, 200, or all)", s.lockstep)
	}
	record, err := run.Open(dir)
	if err != nil {
		return err
	}
	follower, err := agreement.NewFollower(record)
	if err != nil {
		return err
	}
	began := time.Now()
	counted, err := experiment.Follow(ctx, spec, follower)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(os.Stdout, "%s, in lockstep for %.2fs\n", title, time.Since(began).Seconds())
	return follower.Report(instants, spec.Seed).Render(os.Stdout, s.differences, record.Manifest.Scheduler, counted)
}

// key is a job or a task of an array.
type key struct {
	job  string
	task int
}

// rows returns the jobs of a record.
func rows(dir string) (map[key]run.Row, error) {
	r, err := run.Open(dir)
	if err != nil {
		return nil, err
	}
	list, err := r.Jobs()
	if err != nil {
		return nil, err
	}
	out := make(map[key]run.Row, len(list))
	for _, row := range list {
		out[key{row.Job, row.Task}] = row
	}
	return out, nil
}

// report prints the figures and the first differences.
func (s *settings) report(title string, played, model map[key]run.Row, took time.Duration) {
	var total, equal, waited, waitedEqual, nodes int
	var different []key
	for k, a := range played {
		b := model[k]
		total++
		long := !a.Start.IsZero() && a.Start.Sub(a.Submit) > time.Minute
		if long {
			waited++
		}
		if a.Start.UnixSeconds() != b.Start.UnixSeconds() {
			different = append(different, k)
			continue
		}
		equal++
		if long {
			waitedEqual++
		}
		if a.Nodes == b.Nodes {
			nodes++
		} else {
			different = append(different, k)
		}
	}
	_, _ = fmt.Fprintf(os.Stdout, "%s: starts %s, of those that waited a minute %s, starts and nodes %s; model %.2fs\n",
		title, share(equal, total), share(waitedEqual, waited), share(nodes, total), took.Seconds())
	first := func(k key) int64 {
		a, b := played[k].Start, model[k].Start
		if a.IsZero() || !b.IsZero() && b < a {
			a = b
		}
		return a.UnixSeconds()
	}
	slices.SortFunc(different, func(x, y key) int { return int(first(x) - first(y)) })
	for _, k := range different[:min(len(different), s.differences)] {
		a, b := played[k], model[k]
		_, _ = fmt.Fprintf(os.Stdout, "  %s_%d (%d): Slurm %s %s, priority %d; model %s %s, priority %d\n",
			k.job, k.task, a.RMJob, a.Start, a.Nodes, a.Priority, b.Start, b.Nodes, b.Priority)
	}
}

func share(n, of int) string {
	if of == 0 {
		return "0 of 0"
	}
	return fmt.Sprintf("%d of %d (%.2f %%)", n, of, 100*float64(n)/float64(of))
}
