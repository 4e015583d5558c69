package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/experiment"
	"rmreplay/internal/flags"
	"rmreplay/internal/rm/slurm/admission"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/workload"
)

// validateOptions are the flags of `workload validate`.
type validateOptions struct {
	cluster string
	slurm   string
	all     bool
	zone    flags.Zone
	json    bool
}

func (o *validateOptions) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&o.cluster, "cluster", "", "`DIR` of the cluster: check the workload against it, and foresee "+
		"what Slurm rejects")
	addSlurmFlag(c.Flags(), &o.slurm)
	c.Flags().BoolVar(&o.all, "all", false, fmt.Sprintf("list all problems, not only the first %d of each rule",
		mostOfRule))
	o.zone.Add(c.Flags())
	console.AddJSON(c, &o.json)
}

// mostOfRule is the number of problems of one rule that the command prints without --all.
const mostOfRule = 10

func newWorkloadValidateCommand(g *globals) *cobra.Command {
	var opts validateOptions
	c := &cobra.Command{
		Use:   "validate WORKLOAD",
		Short: "Check whether a workload can be replayed",
		Long: `Reads a workload and lists its problems, each with the name of a rule. An error means that
the workload contradicts itself or leaves out what a replay needs. A warning means that
the resource manager may reject or end a job, or that a date looks wrong; both may be
intended. With --cluster, the command also checks users, partitions, sizes, features, and
the slurm.conf files of actions against a cluster, and foresees which jobs slurmctld
rejects, and which it accepts and never starts: grouped by the cause, with slurmctld's
answer, the number of jobs, a few of them, and a remedy.

The exit status is 4 if there are errors, and 0 if there are only warnings.`,
		Example: `  rmreplay workload validate demo/day.jsonl
  rmreplay workload validate demo/day.jsonl --cluster demo/cluster --json`,
		Args: console.WantArgs("WORKLOAD"),
		RunE: func(_ *cobra.Command, args []string) error {
			return runWorkloadValidate(g, args[0], opts)
		},
	}
	opts.addFlags(c)
	return c
}

// validateReport is the answer of `workload validate --json`.
type validateReport struct {
	Source   string             `json:"source"`
	Jobs     int                `json:"jobs"`
	Errors   int                `json:"errors"`
	Warnings int                `json:"warnings"`
	Problems []workload.Problem `json:"problems"`
	// Forecast is what Slurm does not run; nil without a cluster.
	Forecast *admission.Forecast `json:"forecast,omitempty"`
}

func runWorkloadValidate(g *globals, path string, opts validateOptions) error {
	w, err := g.readWorkload(path, workload.ReadOptions{})
	if err != nil {
		return err
	}
	var cluster *conf.Cluster
	if opts.cluster != "" {
		if cluster, err = experiment.OpenCluster(opts.cluster, 0); err != nil {
			return err
		}
	}
	zone := opts.zone.Location()
	if opts.json {
		zone = time.UTC
	}
	problems := experiment.Check(w, cluster, zone)
	var forecast *admission.Forecast
	if cluster != nil {
		var more []workload.Problem
		if forecast, more, err = experiment.Foresee(w, cluster, opts.slurm); err != nil {
			return err
		}
		problems = append(problems, more...)
	}
	r := newValidateReport(w, problems)
	r.Forecast = forecast
	if opts.json {
		err = g.PrintJSON(r)
	} else {
		err = r.render(g, opts.all)
	}
	if err != nil {
		return err
	}
	if r.Errors > 0 {
		return console.BadInput(fmt.Errorf("%s: %d errors", path, r.Errors))
	}
	return nil
}

func newValidateReport(w *workload.Workload, problems []workload.Problem) *validateReport {
	r := &validateReport{Source: w.Source, Jobs: w.Jobs.Len(), Problems: problems}
	if r.Problems == nil {
		r.Problems = []workload.Problem{}
	}
	for _, p := range problems {
		if p.Severity == workload.Error {
			r.Errors++
		} else {
			r.Warnings++
		}
	}
	return r
}

func (r *validateReport) render(g *globals, all bool) error {
	var b strings.Builder
	shown := map[string]int{}
	var rules []string // in the order of their first problem
	for _, p := range r.Problems {
		if shown[p.Rule]++; shown[p.Rule] == 1 {
			rules = append(rules, p.Rule)
		}
		if all || shown[p.Rule] <= mostOfRule {
			fmt.Fprintf(&b, "%s\n", p)
		}
	}
	for _, rule := range rules {
		if n := shown[rule] - mostOfRule; n > 0 && !all {
			fmt.Fprintf(&b, "and %d more of %s (--all lists them)\n", n, rule)
		}
	}
	r.renderForecast(&b)
	fmt.Fprintf(&b, "%s: %d jobs, %d errors, %d warnings\n", r.Source, r.Jobs, r.Errors, r.Warnings)
	err := g.Print(b.String())
	return err
}

// renderForecast writes what Slurm does not run, the largest group first.
func (r *validateReport) renderForecast(b *strings.Builder) {
	f := r.Forecast
	if f == nil || len(f.Groups) == 0 {
		return
	}
	fmt.Fprintf(b, "\nSlurm rejects %d jobs, and never starts %d others:\n", f.Rejected, f.NeverStarts)
	for _, g := range f.Groups {
		fmt.Fprintf(b, "%7d %s: %s", g.Count, g.Verdict, g.Text)
		if g.Slurm != "" {
			fmt.Fprintf(b, " (%s)", g.Slurm)
		}
		more := ""
		if n := g.Count - len(g.Jobs); n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		fmt.Fprintf(b, "\n        jobs: %s%s\n        remedy: %s\n", strings.Join(g.Jobs, ", "), more, g.Remedy)
	}
	if f.Changes {
		fmt.Fprintf(b, "        The workload's actions may change the rules; they are not carried out here.\n")
	}
	b.WriteString("\n")
}
