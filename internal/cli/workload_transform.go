package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/cli/predictcmd"
	"rmreplay/internal/experiment"
	"rmreplay/internal/flags"
	"rmreplay/internal/formats"
	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/complete"
	"rmreplay/internal/workload/transform"
)

// transformOptions are the flags of `workload transform`.
type transformOptions struct {
	// steps make the changes, in the order of the command line. Each step is made after all flags have
	// been read, because it may depend on other flags.
	steps []func(*transformOptions) (transform.Step, error)

	window     flags.Window
	share      float64
	checkpoint time.Duration
	minNodes   int
	minRuntime time.Duration
	switchWait time.Duration
	limits     predictcmd.Limits
	keyFile    string

	seed          uint64
	cluster       string
	clusterOutput string
	output        string
	json          bool
}

func newWorkloadTransformCommand(g *globals) *cobra.Command {
	var opts transformOptions
	c := &cobra.Command{
		Use:   "transform WORKLOAD",
		Short: "Change a workload: what if…?",
		Long: `Reads a workload, changes it, and writes a trace whose header lists the changes. Flags
that change the workload apply in the order in which they are given, and may be repeated.

--share belongs to --time-limit-accuracy, and --checkpoint to --chain. --min-nodes,
--min-runtime and --switch-wait belong to --switches, and --quantile to --limits-from.

--filter keeps the jobs for which an expression is true. The expression may use

` + console.Words(transform.Names(transform.Fields{})) + `
and ==, <, in, and, or, not, matches, startsWith and the rest of the language of
expr-lang.org. hour and weekday are those of the submission in UTC.

--start and --end together cut out a window. In the order of changes, this change has the
place of the first of the two flags. The result has the jobs that are submitted in the
window, and those that run or wait at its start.

With --cluster, time limits and sizes stay within the limits of its partitions. Without a
cluster, time limits stay within the longest time limit of a job in the same partition.
--anonymize must be the last change. It replaces the names of users, accounts, jobs and
nodes, with a key of at least 16 bytes from a file. --cluster-output writes the cluster
with the same new names. docs/TRANSFORMS.md says how some of the changes work.`,
		Example: `  rmreplay workload transform day.jsonl --time-limit-accuracy 1.1 -o accurate.jsonl
  rmreplay workload transform day.jsonl --filter 'constraint == "gpu"' \
    --switches 1 --min-nodes 64 --min-runtime 600 -o switches.jsonl
  rmreplay workload transform day.jsonl --jitter 30s --seed 7 -o moved.jsonl
  rmreplay workload transform day.jsonl --anonymize key \
    --cluster site --cluster-output public -o public.jsonl`,
		Args: console.WantArgs("WORKLOAD"),
		RunE: func(_ *cobra.Command, args []string) error {
			return runWorkloadTransform(g, args[0], &opts)
		},
	}
	opts.addFlags(c)
	return c
}

func (o *transformOptions) addFlags(c *cobra.Command) {
	f := c.Flags()
	for _, s := range transformSteps {
		f.Var(&stepFlag{opts: o, name: s.name, parse: s.parse, kind: s.kind}, s.name, s.usage)
	}
	f.Lookup(intervalFlag).Hidden = true
	o.window.Add(f, "keep later submissions, and the jobs that run or wait at TIME", "keep earlier submissions")
	for _, name := range []string{"start", "end"} { // the first of the two flags adds the step
		flag := f.Lookup(name)
		flag.Value = &windowFlag{flag.Value, o}
	}
	f.Float64Var(&o.share, "share", 1, "`SHARE` of the jobs that --time-limit-accuracy changes, 0 to 1")
	flags.Duration(f, &o.checkpoint, "checkpoint", time.Minute,
		"`DURATION` that a part of a --chain takes to write its state, and that the next part takes to read it")
	f.IntVar(&o.minNodes, "min-nodes", 2, "limit --switches to jobs of at least `N` nodes")
	flags.Duration(f, &o.minRuntime, "min-runtime", 0, "limit --switches to jobs that run longer than `DURATION`")
	flags.Duration(f, &o.switchWait, "switch-wait", 0,
		"let jobs wait for their switches for `DURATION` (default: Slurm's)")
	o.limits.Add(c)
	console.AddSeed(f, &o.seed, "--jitter, --time-limit-model and --share")
	f.StringVar(&o.cluster, "cluster", "", "`DIR` of the cluster that the workload is for")
	addClusterOutputFlag(f, &o.clusterOutput, "write the anonymized cluster to `DIR`")
	console.AddOutput(f, &o.output, traceOutput)
	console.AddJSON(c, &o.json)
	console.Require(c, "output")
	flags.Alias(f, map[string]string{"cluster-out": "cluster-output", "shake": "jitter"})
}

// addClusterOutputFlag adds --cluster-output to commands that also write a cluster.
func addClusterOutputFlag(f *pflag.FlagSet, to *string, usage string) {
	f.StringVar(to, "cluster-output", "", usage)
}

// windowFlag is the flag --start or --end. The first of the two on the command line adds the step.
type windowFlag struct {
	pflag.Value
	opts *transformOptions
}

func (f *windowFlag) Set(text string) error {
	o := f.opts
	if o.window.Start == "" && o.window.End == "" {
		o.steps = append(o.steps, func(o *transformOptions) (transform.Step, error) {
			start, end, err := o.window.Bounds()
			if err != nil {
				return transform.Step{}, err
			}
			return transform.Window(start, end)
		})
	}
	return f.Value.Set(text)
}

// intervalFlag is an older flag that does the work of --start and --end. Its value is FROM/TO.
const intervalFlag = "window"

// parseStep reads the value of a flag and returns a function that makes the step.
type parseStep func(value string) (func(*transformOptions) (transform.Step, error), error)

// transformSteps are the flags that change the workload.
var transformSteps = []struct {
	name, kind, usage string
	parse             parseStep
}{
	{"time-limit-accuracy", "factor", "set time limits to `FACTOR` x run time, for example 1.1",
		number(func(o *transformOptions, x float64) (transform.Step, error) {
			return transform.TimeLimitAccuracy(x, o.share)
		})},
	{"time-limit-model", "model", "set time limits that resemble users' estimates: `MODEL` tsafrir", estimateModel},
	{"max-time-limit", "limit", "lower time limits to at most `DURATION`, as a shorter MaxTime of every partition would; PARTITION=DURATION: only in that partition (jobs that run when a window begins keep their limits; a job without a limit gets one only if the default of its partition in --cluster is longer)",
		longestLimit},
	{"limits-from", "path", "lower time limits to a quantile of the run times that the model in `FILE` predicts",
		parsed(path, "", func(o *transformOptions, path string) (transform.Step, error) {
			return o.limits.Step(path)
		})},
	{"chain", "duration", "cut jobs that run longer than `DURATION` into parts, each of which depends on the one before (other jobs keep their limits)",
		func(text string) (func(*transformOptions) (transform.Step, error), error) {
			longest, err := hpc.ParseWithUnit(text)
			return func(o *transformOptions) (transform.Step, error) { return transform.Chains(longest, o.checkpoint) }, err
		}},
	{"switches", "number", "request at most `N` leaf switches",
		count(func(o *transformOptions, n int) (transform.Step, error) {
			return transform.Switches(transform.SwitchOptions{Switches: n, MinNodes: o.minNodes, MinRuntime: o.minRuntime,
				Wait: o.switchWait})
		})},
	{"scale-arrivals", "factor", "multiply the times between submissions by `FACTOR` (0.5 doubles the rate)",
		number(plain(transform.ScaleArrivals))},
	{"scale-runtime", "factor", "multiply run times and time limits by `FACTOR`", number(plain(transform.ScaleRuntime))},
	{"scale-nodes", "factor", "multiply nodes, tasks and GPUs by `FACTOR`", number(plain(transform.ScaleNodes))},
	{"repeat", "number", "repeat the workload so that it occurs `N` times in all, whole days apart",
		count(plain(transform.Repeat))},
	{intervalFlag, "interval", "--start and --end in one: `FROM/TO`", interval},
	{"filter", "expression", "keep the jobs for which `EXPR` is true",
		func(text string) (func(*transformOptions) (transform.Step, error), error) {
			step, err := transform.Filter(text)
			return func(*transformOptions) (transform.Step, error) { return step, nil }, err
		}},
	{"merge", "path", "add the jobs and events of `WORKLOAD`", parsed(path, "", func(_ *transformOptions, path string) (transform.Step,
		error) {
		other, err := openWorkload(path)
		if err != nil {
			return transform.Step{}, err
		}
		return transform.Merge(other, path), nil
	})},
	{"maintenance", "interval", "reserve nodes for maintenance: `START/DURATION`, or START/DURATION/NODES for some nodes",
		maintenance},
	{"jitter", "duration", jitterUsage, length(transform.Shake)},
	{"map-partition", "pair", "move jobs from partition OLD to NEW: `OLD=NEW`, or *=NEW for all partitions",
		func(pair string) (func(*transformOptions) (transform.Step, error), error) {
			from, to, _ := strings.Cut(pair, "=")
			step, err := transform.MapPartition(from, to)
			return func(*transformOptions) (transform.Step, error) { return step, nil }, err
		}},
	{"anonymize", "path", "replace all names, with the key in `FILE`",
		func(path string) (func(*transformOptions) (transform.Step, error), error) {
			return func(o *transformOptions) (transform.Step, error) {
				if o.keyFile != "" {
					return transform.Step{}, console.Usagef("--anonymize is given twice")
				}
				o.keyFile = path
				return transform.Step{}, nil // anonymization is the last step
			}, nil
		}},
}

// parsed makes a step from a value that the function parse reads. If the parameter wrong is not "",
// it is the text of the error for a bad value.
func parsed[T any](parse func(string) (T, error), wrong string,
	step func(*transformOptions, T) (transform.Step, error)) parseStep {
	return func(value string) (func(*transformOptions) (transform.Step, error), error) {
		x, err := parse(value)
		if err != nil && wrong != "" {
			err = errors.New(wrong)
		}
		return func(o *transformOptions) (transform.Step, error) { return step(o, x) }, err
	}
}

func number(step func(*transformOptions, float64) (transform.Step, error)) parseStep {
	return parsed(flags.ParseFactor, "", step)
}

func length(step func(time.Duration) (transform.Step, error)) parseStep {
	return parsed(hpc.ParseDuration, "", plain(step))
}

func count(step func(*transformOptions, int) (transform.Step, error)) parseStep {
	return parsed(strconv.Atoi, "not a whole number", step)
}

// longestLimit reads [PARTITION=]DURATION.
func longestLimit(text string) (func(*transformOptions) (transform.Step, error), error) {
	partition, duration, only := strings.Cut(text, "=")
	if !only {
		partition, duration = "*", text
	}
	longest, err := hpc.ParseWithUnit(duration)
	if errors.Is(err, hpc.ErrNoUnit) {
		return nil, err
	}
	if err != nil || partition == "" {
		err = errors.New("not a limit (want DURATION or PARTITION=DURATION; give the flag again for another partition)")
	}
	return func(*transformOptions) (transform.Step, error) { return transform.LongestLimit(partition, longest) }, err
}

func path(text string) (string, error) { return text, nil }

func plain[T any](step func(T) (transform.Step, error)) func(*transformOptions, T) (transform.Step, error) {
	return func(_ *transformOptions, x T) (transform.Step, error) { return step(x) }
}

func estimateModel(name string) (func(*transformOptions) (transform.Step, error), error) {
	if name != "tsafrir" {
		return nil, errors.New("no such model (want tsafrir)")
	}
	return func(*transformOptions) (transform.Step, error) { return transform.ModalEstimates(), nil }, nil
}

// interval reads FROM/TO. FROM or TO may be empty.
func interval(text string) (func(*transformOptions) (transform.Step, error), error) {
	from, to, ok := strings.Cut(text, "/")
	if !ok || from == "" && to == "" {
		return nil, errors.New("not a window (want FROM/TO, such as 2024-03-05/2024-03-06)")
	}
	return func(o *transformOptions) (transform.Step, error) {
		start, err := o.window.Instant(intervalFlag, from)
		end, other := o.window.Instant(intervalFlag, to)
		if err = errors.Join(err, other); err != nil {
			return transform.Step{}, err
		}
		return transform.Window(start, end)
	}, nil
}

// maintenance reads START/DURATION or START/DURATION/NODES.
func maintenance(text string) (func(*transformOptions) (transform.Step, error), error) {
	start, rest, ok := strings.Cut(text, "/")
	long, nodes, _ := strings.Cut(rest, "/")
	length, err := hpc.ParseWithUnit(long)
	if errors.Is(err, hpc.ErrNoUnit) {
		return nil, err
	}
	if !ok || start == "" || err != nil {
		return nil, errors.New("not a maintenance (want START/DURATION, such as 2024-03-05T12:00/8h, or " +
			"START/DURATION/NODES, such as 2024-03-05T12:00/8h/n[1-16])")
	}
	return func(o *transformOptions) (transform.Step, error) {
		from, err := o.window.Instant("maintenance", start)
		if err != nil {
			return transform.Step{}, err
		}
		return transform.Maintenance(from, length, nodes)
	}, nil
}

// stepFlag is a flag that adds a step.
type stepFlag struct {
	opts  *transformOptions
	name  string
	parse parseStep
	kind  string
}

func (f *stepFlag) String() string { return "" }
func (f *stepFlag) Type() string   { return f.kind }
func (f *stepFlag) Set(value string) error {
	later, err := f.parse(value)
	if err == nil {
		f.opts.steps = append(f.opts.steps, func(o *transformOptions) (step transform.Step, err error) {
			if step, err = later(o); err != nil && !strings.HasPrefix(err.Error(), "--") {
				err = fmt.Errorf("--%s %w", f.name, err)
			}
			return step, err
		})
	}
	return err
}

// transformReport is the JSON output of `workload transform --json`.
type transformReport struct {
	Source     string             `json:"source"`
	Output     string             `json:"output"`
	Seed       uint64             `json:"seed"`
	Jobs       int                `json:"jobs"`
	Steps      []transform.Result `json:"steps"`
	ClusterOut string             `json:"cluster_out,omitempty"`
	// Remaining are the words of found and shared.
	Remaining []string          `json:"names_remaining,omitempty"`
	found     []transform.Found // words that contain a replaced name, but stay
	shared    []string          // words of Slurm that are also replaced names
}

func runWorkloadTransform(g *globals, path string, opts *transformOptions) error {
	if opts.minRuntime < 0 || opts.switchWait < 0 {
		return console.Usagef("--min-runtime or --switch-wait is negative (want 0 or more)")
	}
	steps, err := opts.makeSteps()
	if err != nil {
		return err
	}
	if err := formats.Replaces(opts.output, path); err != nil {
		return fmt.Errorf("writing the workload: %w", err)
	}
	w, err := g.readWorkload(path, workload.ReadOptions{})
	if err != nil {
		return err
	}
	env := transform.Environment{Seed: opts.seed, Place: complete.Place}
	var cluster *conf.Cluster
	if opts.cluster != "" {
		if cluster, err = experiment.OpenCluster(opts.cluster, 0); err != nil {
			return err
		}
		env.Partitions, env.NodeNames = experiment.Partitions(cluster), experiment.ClusterFacts(cluster).NodeNames
	}
	out, results, err := transform.Apply(w, env, steps...)
	if err != nil {
		return console.BadInput(err)
	}
	report := transformReport{Source: path, Output: opts.output, Seed: opts.seed, Steps: results}
	if opts.keyFile != "" {
		how := experiment.Anonymization{KeyFile: opts.keyFile, Cluster: cluster, ClusterDir: opts.cluster,
			Output: opts.clusterOutput}
		anonymous, err := experiment.Anonymize(out, how)
		if err != nil {
			return err
		}
		out, report.ClusterOut = anonymous.Workload, opts.clusterOutput
		report.found, report.shared = anonymous.Remaining, anonymous.Shared
		report.Remaining = slices.Clone(report.shared)
		for _, f := range report.found {
			report.Remaining = append(report.Remaining, f.Word)
		}
		slices.Sort(report.Remaining)
		report.Steps = append(report.Steps, anonymous.Steps...)
	}
	if err := formats.Save(opts.output, out); err != nil {
		return err
	}
	report.Jobs = out.Jobs.Len()
	return report.print(g, opts.json)
}

// makeSteps makes the steps after all flags have been read.
func (o *transformOptions) makeSteps() ([]transform.Step, error) {
	var steps []transform.Step
	for _, later := range o.steps {
		if o.keyFile != "" {
			return nil, console.Usagef("--anonymize has to be the last change")
		}
		step, err := later(o)
		var exit *console.ExitError
		switch {
		case errors.As(err, &exit):
			return nil, err
		case err != nil:
			return nil, console.Usagef("%w", err)
		case step.Apply != nil:
			steps = append(steps, step)
		}
	}
	if o.clusterOutput != "" && (o.keyFile == "" || o.cluster == "") {
		return nil, console.Usagef("--cluster-output needs --anonymize and --cluster")
	}
	return steps, nil
}

func (r *transformReport) print(g *globals, asJSON bool) error {
	if asJSON {
		return g.PrintJSON(r)
	}
	var b strings.Builder
	for _, s := range r.Steps {
		fmt.Fprintf(&b, "%s: %s, %s now\n", s.Step, s.Effect(), quantity.Regular(s.Jobs, "job"))
		for _, note := range s.Notes {
			fmt.Fprintf(&b, "  %s\n", note)
		}
	}
	fmt.Fprintf(&b, "wrote %s (%d %s)\n", r.Output, r.Jobs, quantity.Plural(r.Jobs, "job", "jobs"))
	if r.ClusterOut != "" {
		fmt.Fprintf(&b, "wrote the cluster %s\n", r.ClusterOut)
	}
	for _, f := range r.found {
		fmt.Fprintf(&b, "still there: %s, which contains the name %s (%s)\n", f.Word, f.Name, f.Kind)
	}
	if len(r.shared) > 0 {
		fmt.Fprintf(&b, "still there, as words of Slurm: %s\n", strings.Join(r.shared, ", "))
	}
	err := g.Print(b.String())
	return err
}
