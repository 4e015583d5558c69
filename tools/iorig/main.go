// Command iorig simulates the experiments that tested workload-adaptive scheduling
// (docs/measurements/io.md), and prints a table:
//
//	go run ./tools/iorig
//	go run ./tools/iorig --bandwidths 200MiB/s --limits 150MiB/s,300MiB/s
//	go run ./tools/iorig --policies io-aware,io-aware:estimate=x2 --sets two-jobs:10,50
//	go run ./tools/iorig --engine slurm --slurm 24.11 --realizations 3
//
// With --engine slurm the experiments run on the stock Slurm under virtual time. bf-licenses is
// then Slurm's own backfill scheduler, and a driver outside slurmctld carries out the other
// policies. It needs the preload library (make build).
//
// With --results the results are kept in a file, and a second call runs only the missing
// realizations. With --compare the command prints the results of both engines side by side:
//
//	go run ./tools/iorig --results rig.jsonl
//	go run ./tools/iorig --results rig.jsonl --engine slurm -j 1
//	go run ./tools/iorig --results rig.jsonl --compare
//
// Every workload has the given number of realizations, which are seeds of the generator. All
// policies see the same realizations, so the column beside the makespan is a paired difference to
// the first policy. Intervals are 95 % bootstrap intervals of means.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/parallel"
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
	results                            string
	compare                            bool
	realizations, parallel             int
}

// runTool runs the tool. main adds the signals and the exit status.
func runTool(ctx context.Context, args []string, stdout io.Writer) error {
	var o settings
	f := pflag.NewFlagSet("iorig", pflag.ContinueOnError)
	f.StringArrayVar(&o.sets, "sets", []string{"two-jobs:10,50", "two-jobs:15,15", "six-jobs:10"},
		"`SET:COUNTS` of jobs; may be repeated")
	f.StringArrayVar(&o.policies, "policies", []string{"io-baseline", "bf-licenses:estimate=perfect", "io-aware",
		"workload-adaptive"}, "`POLICY` of simulate; may be repeated")
	f.StringSliceVar(&o.bandwidths, "bandwidths", []string{"150MiB/s", "200MiB/s", "300MiB/s"},
		"`RATES` of the file system")
	f.StringSliceVar(&o.limits, "limits", []string{""}, "`RATES` that policies count with (default: the bandwidth)")
	f.StringVar(&o.rate, "rate", "50MiB/s", "`RATE` at which a job writes when it is alone")
	f.StringVar(&o.engine, "engine", "sim", "`ENGINE`: sim, or slurm for the stock Slurm under virtual time")
	f.StringVar(&o.slurm, "slurm", "", "which Slurm, as for rmreplay replay")
	f.IntVar(&o.realizations, "realizations", 30, "`N` seeds of every workload")
	f.IntVarP(&o.parallel, "parallel", "j", 0, "at most `N` simulations at once (default: one for each CPU)")
	f.StringVar(&o.results, "results", "", "the `FILE` (JSON Lines) that keeps results: those that it has are not "+
		"played again")
	f.BoolVar(&o.compare, "compare", false, "play nothing, and print the engines of --results beside each other")
	if err := f.Parse(args); err != nil {
		return err
	}
	if o.engine != "sim" && o.engine != "slurm" {
		return fmt.Errorf("--engine %s: not an engine (want sim or slurm)", o.engine)
	}
	if o.compare && o.results == "" {
		return errors.New("--compare: there are no results (want --results FILE)")
	}
	if o.realizations < 2 {
		return fmt.Errorf("--realizations %d: too few for an interval (want at least 2)", o.realizations)
	}
	known, err := openResults(o.results)
	if err != nil {
		return err
	}
	defer known.Close() // each line has already been written completely
	if o.compare {
		return known.compare(stdout)
	}
	out := &printer{to: stdout}
	out.head("workload", "bandwidth", "limit", "policy", "makespan, s", "change", "jobs/h", "stretch", "AWRT, s")
	for _, bandwidth := range o.bandwidths {
		for _, set := range o.sets {
			for _, limit := range o.limits {
				c := &campaign{settings: o, set: set, bandwidth: bandwidth, limit: limit}
				if err := c.run(ctx, known, out); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// campaign is the runs of one workload with one file system under all policies.
type campaign struct {
	settings
	set, bandwidth, limit string
}

// run runs the realizations that have no results yet, and prints a row for each policy.
func (c *campaign) run(ctx context.Context, known *results, out *printer) error {
	play := c.simulate
	if c.engine == "slurm" {
		play = c.replay
	}
	// A realization runs under all policies before the next realization begins, so that the results of
	// an interrupted campaign are pairs.
	err := parallel.Executor{Parallel: c.parallel}.Do(ctx, len(c.policies)*c.realizations,
		func(ctx context.Context, i int) error {
			name := c.played(c.policies[i%len(c.policies)], uint64(i/len(c.policies)+1))
			if _, done := known.get(name); done {
				return nil
			}
			o, err := play(ctx, name.Policy, name.Seed)
			if err != nil {
				return err
			}
			return known.add(name, o)
		})
	if err != nil {
		return err
	}
	seeds := make([]uint64, c.realizations)
	for i := range seeds {
		seeds[i] = uint64(i + 1)
	}
	base := known.column(c.played(c.policies[0], 0), seeds, makespan)
	limit := c.limit
	if limit == "" {
		limit = c.bandwidth
	}
	for p, policy := range c.policies {
		column := func(of func(outcome) float64) []float64 { return known.column(c.played(policy, 0), seeds, of) }
		difference := ""
		if p > 0 {
			difference = change(base, column(makespan))
		}
		out.row(c.set, c.bandwidth, limit, policy, written(column(makespan), 0), difference, written(column(throughput), 1),
			fmt.Sprintf("%.2f", stats.Mean(column(stretch))), fmt.Sprintf("%.0f", stats.Mean(column(awrt))))
	}
	return out.err
}

// played returns the name of a realization under a policy.
func (c *campaign) played(policy string, seed uint64) played {
	return played{Engine: c.engine, Slurm: c.slurm, Set: c.set, Bandwidth: c.bandwidth, Limit: c.limit, Rate: c.rate,
		Policy: policy, Seed: seed}
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

// nodes returns a cluster of nodes of one processor.
func nodes(n int) *sim.Cluster {
	c := &sim.Cluster{}
	for i := range n {
		c.Nodes = append(c.Nodes, hpc.Node{Name: fmt.Sprint("n", i+1), CPUs: 1, RealMemory: 1000})
	}
	return c
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
	config := sim.Config{Processors: w.MachineProcessors, Policy: made, Epoch: w.Epoch, FileSystems: w.FileSystems}
	// slurmctld's backfill scheduler reserves nodes, and the driver counts them
	if strings.HasPrefix(name, licensesPolicy) {
		config.Cluster = nodes(config.Processors)
	}
	engine, err := sim.New(config)
	if err != nil {
		return outcome{}, err
	}
	rows := make([]run.Row, w.Jobs.Len())
	place := map[string]int{}
	// collect stores the starts and ends up to an instant in rows.
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
		rows[i] = run.Row{Job: job.ID, Task: -1, Submit: job.Submit, AskedRunTime: job.RunTime, Processors: 1,
			Request: string(run.EncodeJob(job))}
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
	shared, err := metrics.NewIO(rows, manifest, metrics.Options{})
	if err != nil {
		return outcome{}, err
	}
	return outcome{float64(m.MakespanSeconds), float64(m.ThroughputPerHour), float64(shared.MeanStretch),
		float64(shared.AWRT)}, nil
}
