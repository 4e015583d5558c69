package sitecmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rmreplay/internal/acceptance"
	"rmreplay/internal/cli/console"
	"rmreplay/internal/experiment"
	"rmreplay/internal/flags"
	"rmreplay/internal/quantity"
	"rmreplay/internal/rm/slurm/admission"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/workload"
)

// validateOptions are the flags of `workload validate`.
type validateOptions struct {
	cluster string
	slurm   string
	rules   bool
	all     bool
	zone    flags.Zone
	json    bool
}

func (o *validateOptions) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&o.cluster, "cluster", "", "check the workload against the cluster in `DIR`, and ask "+
		"Slurm which jobs it rejects")
	console.AddSlurm(c.Flags(), &o.slurm)
	c.Flags().BoolVar(&o.rules, "rules", false, "foresee rejections by rules, without starting Slurm")
	c.Flags().BoolVar(&o.all, "all", false, fmt.Sprintf("list all problems, not only the first %d of each rule",
		maxPerRule))
	o.zone.Add(c.Flags())
	console.AddJSON(c, &o.json)
}

// maxPerRule is the number of problems of one rule that the command prints without --all.
const maxPerRule = 10

// Validate returns the command `workload validate`.
func Validate(l Lent) *cobra.Command {
	var opts validateOptions
	c := &cobra.Command{
		Use:   "validate WORKLOAD",
		Short: "Check whether a workload can be replayed",
		Long: `Reads a workload and lists its problems, each with the name of a rule. An error means that
the workload contradicts itself or leaves out what a replay needs. A warning means that
the resource manager may reject or end a job, or that a date looks wrong; both may be
intended. With --cluster, the command also checks users, partitions, sizes, features, and
the slurm.conf files of actions against a cluster. It also says which jobs slurmctld
rejects, and which jobs slurmctld accepts and never starts. These jobs are grouped by the
cause, with slurmctld's answer, the number of jobs, some of the jobs, and a remedy. Each
of them counts as a warning, and the last line has their numbers.

To find these jobs, the command starts the daemons of Slurm under the virtual clock, and
submits each different request once to the idle machine, also the requests of jobs that
ran when the window began. This takes some seconds for a day's workload. For jobs that
name a reservation, and for requests beyond the 5,000 most frequent, rules decide
instead. With --rules, rules decide for all jobs, and Slurm is not needed. Rules also
decide for a workload with errors.

The exit status is 4 if there are errors, and 0 if there are only warnings.`,
		Example: `  rmreplay workload validate demo/day.jsonl
  rmreplay workload validate demo/day.jsonl --cluster demo/cluster --json`,
		Args: console.WantArgs("WORKLOAD"),
		RunE: func(c *cobra.Command, args []string) error {
			return l.runValidate(c.Context(), args[0], opts)
		},
	}
	opts.addFlags(c)
	return c
}

// validateReport is the JSON output of `workload validate --json`.
type validateReport struct {
	Source   string             `json:"source"`
	Jobs     int                `json:"jobs"`
	Errors   int                `json:"errors"`
	Warnings int                `json:"warnings"` // also jobs without a problem that Slurm would not run
	Problems []workload.Problem `json:"problems"`
	// Forecast lists the jobs that Slurm would not run. It is nil without a cluster.
	Forecast *admission.Forecast `json:"forecast,omitempty"`
	counted  string              // the jobs, and their tasks if some are arrays
}

func (l Lent) runValidate(ctx context.Context, path string, opts validateOptions) error {
	w, err := l.Read(path)
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
	r := newValidateReport(w, experiment.Check(w, cluster, zone))
	if cluster != nil {
		if err := l.foresee(ctx, r, w, cluster, opts); err != nil {
			return err
		}
	}
	if opts.json {
		err = l.PrintJSON(r)
	} else {
		err = l.Print(r.render(opts.all))
	}
	if err != nil {
		return err
	}
	if r.Errors > 0 {
		return console.BadInput(fmt.Errorf("%s: %d %s", path, r.Errors, quantity.Plural(r.Errors, "error", "errors")))
	}
	return nil
}

// foresee adds the jobs that Slurm would not run to the report.
func (l Lent) foresee(ctx context.Context, r *validateReport, w *workload.Workload, cluster *conf.Cluster,
	opts validateOptions) error {
	forecast, problems, err := experiment.Foresee(w, cluster, opts.slurm)
	if err != nil {
		return err
	}
	r.add(problems)
	if !opts.rules && r.Errors == 0 {
		forecast, err = acceptance.Ask(ctx, w, acceptance.Options{Cluster: opts.cluster, Slurm: opts.slurm,
			Say: func(text string) { l.Say("%s", text) }})
		if experiment.IsMissing(err) {
			err = fmt.Errorf("%w (workload validate --rules foresees rejections without Slurm)", err)
		}
	}
	if err == nil && forecast.Asked != nil && forecast.Asked.Complaint != "" {
		r.add([]workload.Problem{{Severity: workload.Error, Rule: "sacctmgr", Text: forecast.Asked.Complaint + "; no run with this cluster is valid " +
			"(correct the command in accounts.sacctmgr; after a replay, logs/sacctmgr.log of the run has the whole output of sacctmgr)"}})
	}
	r.Forecast = forecast
	if forecast != nil {
		r.warnOfForecast()
	}
	return err
}

// warnOfForecast counts each job that Slurm would not run as a warning, unless a problem already warns of this job.
func (r *validateReport) warnOfForecast() {
	warned := map[string]bool{}
	for _, p := range r.Problems {
		warned[p.Job] = true
	}
	for job := range r.Forecast.Jobs {
		if !warned[job] {
			r.Warnings++
		}
	}
}

// unrun returns a text with the numbers of jobs that Slurm would not run; "" without such jobs.
func (r *validateReport) unrun() (text string) {
	if f := r.Forecast; f != nil && f.Rejected > 0 {
		text += fmt.Sprintf("; %s rejected by Slurm", quantity.Regular(f.Rejected, "submission"))
	}
	if f := r.Forecast; f != nil && f.NeverStarts > 0 {
		text += fmt.Sprintf("; %s accepted but never started", quantity.Regular(f.NeverStarts, "submission"))
	}
	return text
}

func newValidateReport(w *workload.Workload, problems []workload.Problem) *validateReport {
	r := &validateReport{Source: w.Source, Jobs: w.Jobs.Len(), Problems: []workload.Problem{}, counted: workload.Counted(&w.Jobs)}
	r.add(problems)
	return r
}

func (r *validateReport) add(problems []workload.Problem) {
	r.Problems = append(r.Problems, problems...)
	for _, p := range problems {
		if p.Severity == workload.Error {
			r.Errors++
		} else {
			r.Warnings++
		}
	}
}

func (r *validateReport) render(all bool) string {
	var b strings.Builder
	shown := map[string]int{}
	var rules []string // in the order of their first problem
	for _, p := range r.Problems {
		if shown[p.Rule]++; shown[p.Rule] == 1 {
			rules = append(rules, p.Rule)
		}
		if all || shown[p.Rule] <= maxPerRule {
			fmt.Fprintf(&b, "%s\n", p)
		}
	}
	for _, rule := range rules {
		if n := shown[rule] - maxPerRule; n > 0 && !all {
			fmt.Fprintf(&b, "and %d more of %s (--all lists them)\n", n, rule)
		}
	}
	r.renderForecast(&b)
	fmt.Fprintf(&b, "%s: %s, %s, %s%s\n", r.Source, r.counted, quantity.Regular(r.Errors, "error"),
		quantity.Regular(r.Warnings, "warning"), r.unrun())
	return b.String()
}

// renderForecast writes the groups of jobs that Slurm would not run, the largest group first.
func (r *validateReport) renderForecast(b *strings.Builder) {
	f := r.Forecast
	if f == nil || len(f.Groups) == 0 {
		return
	}
	fmt.Fprintf(b, "\nSlurm rejects %s, and never starts %d others:\n",
		quantity.Regular(f.Rejected, "submission"), f.NeverStarts)
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
	if f.Asked != nil && f.Asked.ByRules > 0 {
		fmt.Fprintf(b, "        Rules judge %d %s: they name a reservation, or their requests are rare.\n", f.Asked.ByRules, quantity.Plural(f.Asked.ByRules, "job", "jobs"))
	}
	if f.Changes {
		fmt.Fprintf(b, "        Actions of the workload, which may change what Slurm accepts, are not carried out here.\n")
	}
	b.WriteString("\n")
}
