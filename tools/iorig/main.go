// Command iorig simulates the experiments of the rig on which workload-adaptive scheduling was
// tried (docs/IO.md), and prints a table:
//
//	go run ./tools/iorig
//	go run ./tools/iorig --bandwidths 200MiB/s --limits 150MiB/s,300MiB/s
//	go run ./tools/iorig --policies io-aware,io-aware:estimate=x2 --sets two-jobs:10,50
//	go run ./tools/iorig --engine slurm --slurm 24.11 --realizations 3
//
// With --engine slurm the experiments run on the stock Slurm under virtual time. bf-licenses is then
// Slurm's own backfill scheduler, and a driver outside slurmctld plays the other policies. It needs
// the preload library (make build).
//
// Every workload has the given number of realizations, which are seeds of the generator. All
// policies see the same realizations, so the column beside the makespan is a paired difference to
// the first policy. Intervals are 95 % bootstrap intervals of means.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"rmreplay/internal/experiment"
	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/sim/policy"
	"rmreplay/internal/run"
	"rmreplay/internal/stats"
	"rmreplay/internal/supervise"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/generate"
)

func main() {
	supervise.RunIfGuard() // the guard of the daemons is this program again
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := runTool(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "iorig:", err)
		os.Exit(1)
	}
}

// settings are the values of the flags.
type settings struct {
	sets, policies, bandwidths, limits []string
	rate                               string
	engine, slurm                      string
	realizations, parallel             int
}

// runTool runs the tool. main adds the signals and the exit status.
func runTool(ctx context.Context, args []string, stdout io.Writer) error {
	var o settings
	f := pflag.NewFlagSet("iorig", pflag.ContinueOnError)
	f.StringArrayVar(&o.sets, "sets", []string{"two-jobs:10,50", "two-jobs:15,15", "six-jobs:10"}, "`SET:COUNTS` of jobs; may be repeated")
	f.StringArrayVar(&o.policies, "policies", []string{"io-baseline", "bf-licenses:estimate=perfect", "io-aware", "workload-adaptive"}, "`POLICY` of simulate; may be repeated")
	f.StringSliceVar(&o.bandwidths, "bandwidths", []string{"150MiB/s", "200MiB/s", "300MiB/s"}, "`RATES` of the file system")
	f.StringSliceVar(&o.limits, "limits", []string{""}, "`RATES` that policies count with (default: the bandwidth)")
	f.StringVar(&o.rate, "rate", "50MiB/s", "`RATE` at which a job writes when it is alone")
	f.StringVar(&o.engine, "engine", "sim", "`ENGINE`: sim, or slurm for the stock Slurm under virtual time")
	f.StringVar(&o.slurm, "slurm", "", "the Slurm to run, as for rmreplay replay")
	f.IntVar(&o.realizations, "realizations", 30, "`N` seeds of every workload")
	f.IntVarP(&o.parallel, "parallel", "j", 0, "at most `N` simulations at once (default: one for each CPU)")
	if err := f.Parse(args); err != nil {
		return err
	}
	if o.engine != "sim" && o.engine != "slurm" {
		return fmt.Errorf("--engine %s: not an engine (want sim or slurm)", o.engine)
	}
	if o.realizations < 2 {
		return fmt.Errorf("--realizations %d: too few for an interval (want at least 2)", o.realizations)
	}
	if _, err := fmt.Fprintln(stdout, "| workload | bandwidth | limit | policy | makespan, s | change | jobs/h | stretch | AWRT, s |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |"); err != nil {
		return err
	}
	for _, set := range o.sets {
		for _, bandwidth := range o.bandwidths {
			for _, limit := range o.limits {
				c := &campaign{settings: o, set: set, bandwidth: bandwidth, limit: limit}
				if err := c.run(ctx, stdout); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// campaign is the simulations of one workload with one file system under all policies.
type campaign struct {
	settings
	set, bandwidth, limit string
}

// outcome is the figures of a simulation.
type outcome struct{ makespan, throughput, stretch, awrt float64 }

// run makes all simulations and prints a row for each policy.
func (c *campaign) run(ctx context.Context, stdout io.Writer) error {
	outcomes := make([][]outcome, len(c.policies))
	for i := range outcomes {
		outcomes[i] = make([]outcome, c.realizations)
	}
	err := experiment.Executor{Parallel: c.parallel}.Do(ctx, len(c.policies)*c.realizations, func(ctx context.Context, i int) (err error) {
		p, seed := i/c.realizations, i%c.realizations
		play := c.simulate
		if c.engine == "slurm" {
			play = c.replay
		}
		outcomes[p][seed], err = play(ctx, c.policies[p], uint64(seed+1))
		return err
	})
	if err != nil {
		return err
	}
	column := func(p int, of func(outcome) float64) []float64 {
		list := make([]float64, c.realizations)
		for i, o := range outcomes[p] {
			list[i] = of(o)
		}
		return list
	}
	mean := func(list []float64) stats.Interval {
		return stats.Bootstrap(stats.Mean, stats.BootstrapOptions{}, list)
	}
	makespan := func(o outcome) float64 { return o.makespan }
	for p, name := range c.policies {
		m, change := mean(column(p, makespan)), ""
		if p > 0 {
			i := stats.PairedBootstrap(stats.Relative, stats.BootstrapOptions{}, column(0, makespan), column(p, makespan))
			change = fmt.Sprintf("%+.1f %% [%+.1f, %+.1f]", 100*i.Estimate, 100*i.Low, 100*i.High)
		}
		jobs, stretch, awrt := mean(column(p, func(o outcome) float64 { return o.throughput })), mean(column(p, func(o outcome) float64 { return o.stretch })), mean(column(p, func(o outcome) float64 { return o.awrt }))
		limit := c.limit
		if limit == "" {
			limit = c.bandwidth
		}
		if _, err := fmt.Fprintf(stdout, "| %s | %s | %s | %s | %.0f [%.0f, %.0f] | %s | %.1f [%.1f, %.1f] | %.2f | %.0f |\n", c.set, c.bandwidth, limit, name,
			m.Estimate, m.Low, m.High, change, jobs.Estimate, jobs.Low, jobs.High, stretch.Estimate, awrt.Estimate); err != nil {
			return err
		}
	}
	return nil
}

// workload makes a realization.
func (c *campaign) workload(seed uint64) (*workload.Workload, error) {
	name, counts, _ := strings.Cut(c.set, ":")
	o := generate.IOOptions{Set: name, Start: workload.DefaultEpoch, Seed: seed}
	for text := range strings.SplitSeq(counts, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("--sets %s: not a set with counts (want, for example, two-jobs:10,50)", c.set)
		}
		o.Counts = append(o.Counts, n)
	}
	text := "lustre=" + c.bandwidth
	if c.limit != "" {
		text += ",limit=" + c.limit
	}
	var err error
	if o.FileSystem, err = hpc.ParseFileSystem(text); err != nil {
		return nil, err
	}
	if o.Rate, err = hpc.ParseRate(c.rate); err != nil {
		return nil, err
	}
	return generate.IO(o)
}

// simulate simulates a realization under a policy.
func (c *campaign) simulate(ctx context.Context, name string, seed uint64) (outcome, error) {
	w, err := c.workload(seed)
	if err != nil {
		return outcome{}, err
	}
	made, err := policy.New(strings.ReplaceAll(name, "/SEED", fmt.Sprint("/", seed))) // each realization has its own noise
	if err != nil {
		return outcome{}, err
	}
	engine, err := sim.New(sim.Config{Processors: w.MachineProcessors, Policy: made, Epoch: w.Epoch, FileSystems: w.FileSystems})
	if err != nil {
		return outcome{}, err
	}
	rows := make([]run.Row, w.Jobs.Len())
	place := map[string]int{}
	// collect keeps the events up to an instant.
	collect := func(until hpc.Time) error {
		for {
			events, err := engine.AdvanceTo(ctx, until)
			for _, ev := range events {
				if r := &rows[place[ev.Job]]; ev.Kind == rm.Started || ev.Kind == rm.Ended {
					r.Start, r.End, r.State = ev.Outcome.Start, ev.Outcome.End, ev.Outcome.State
				}
			}
			if err != nil || len(events) == 0 {
				return err
			}
		}
	}
	for i, job := range w.Jobs.List() {
		if err := collect(job.Submit); err != nil {
			return outcome{}, err
		}
		place[job.ID] = i
		rows[i] = run.Row{Job: job.ID, Task: -1, Submit: job.Submit, AskedRunTime: job.RunTime, Processors: 1, Request: string(run.EncodeJob(job))}
		if err := engine.Submit(job); err != nil {
			return outcome{}, err
		}
	}
	if err := collect(hpc.Never); err != nil {
		return outcome{}, err
	}
	m := metrics.Compute(rows, metrics.Options{Processors: w.MachineProcessors})
	if done := m.JobsByState[hpc.Completed]; done != len(rows) {
		return outcome{}, fmt.Errorf("%s, %s, seed %d: %d of %d jobs completed", c.set, name, seed, done, len(rows))
	}
	manifest := &run.Manifest{}
	for _, f := range w.FileSystems {
		manifest.FileSystems = append(manifest.FileSystems, run.FileSystem(f))
	}
	shared, err := metrics.NewIO(rows, manifest)
	if err != nil {
		return outcome{}, err
	}
	return outcome{float64(m.MakespanSeconds), float64(m.ThroughputPerHour), float64(shared.MeanStretch), float64(shared.AWRT)}, nil
}
