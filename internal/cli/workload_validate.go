package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"rmreplay/internal/experiment"
	"rmreplay/internal/rm/slurm"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/workload"
)

// validateOptions are the flags of `workload validate`.
type validateOptions struct {
	cluster string
	all     bool
	json    bool
}

func (o *validateOptions) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&o.cluster, "cluster", "", "`DIR` of the cluster: check users, partitions, nodes and features against it")
	c.Flags().BoolVar(&o.all, "all", false, fmt.Sprintf("list all problems, not only the first %d of each rule", mostOfRule))
	addJSONFlag(c, &o.json)
}

// mostOfRule is how many problems of one rule people are shown.
const mostOfRule = 10

func newWorkloadValidateCommand(g *globals) *cobra.Command {
	var opts validateOptions
	c := &cobra.Command{
		Use:   "validate WORKLOAD",
		Short: "Check whether a replay of a workload would mean anything",
		Long: `Reads a workload and lists what would spoil a replay of it, by named rules: errors
(the workload does not say what is to happen) and warnings (the resource manager will
answer in its own way, by rejecting a job or ending it, which may or may not be meant).
With --cluster, users, partitions, sizes, features and the slurm.conf files of actions
are checked against a cluster.

The exit status is 4 if there are errors, and 0 if there are only warnings.`,
		Example: `  rmreplay workload validate demo/day.jsonl
  rmreplay workload validate demo/day.jsonl --cluster demo/cluster --json`,
		Args: wantArgs("WORKLOAD"),
		RunE: func(_ *cobra.Command, args []string) error {
			return runWorkloadValidate(g, args[0], opts)
		},
	}
	opts.addFlags(c)
	return c
}

// The rules of actions on Slurm, which [workload.Validate] knows nothing of.
const (
	ruleBadAction   = "bad_action"
	ruleShellAction = "shell_action"
)

// actionProblems are what is wrong with the workload's actions. Without a cluster the files
// that they name are not looked at.
func actionProblems(w *workload.Workload, cluster *conf.Cluster) (list []workload.Problem) {
	for _, a := range w.Actions {
		if err := experiment.CheckAction(a, w.Start, cluster); err != nil {
			list = append(list, workload.Problem{Severity: workload.Error, Rule: ruleBadAction, Text: err.Error()})
		}
		if err := slurm.CheckPermitted(a); err != nil {
			list = append(list, workload.Problem{Severity: workload.Warning, Rule: ruleShellAction, Text: err.Error()})
		}
	}
	return list
}

// validateReport is the answer of `workload validate --json`.
type validateReport struct {
	Source   string             `json:"source"`
	Jobs     int                `json:"jobs"`
	Errors   int                `json:"errors"`
	Warnings int                `json:"warnings"`
	Problems []workload.Problem `json:"problems"`
}

func runWorkloadValidate(g *globals, path string, opts validateOptions) error {
	w, err := g.readWorkload(path, workload.ReadOptions{})
	if err != nil {
		return err
	}
	var known workload.Cluster
	var cluster *conf.Cluster
	if opts.cluster != "" {
		if cluster, err = experiment.OpenCluster(opts.cluster, 0); err != nil {
			return err
		}
		known = experiment.Known(cluster)
	}
	r := newValidateReport(w, append(workload.Validate(w, known), actionProblems(w, cluster)...))
	if opts.json {
		err = g.printJSON(r)
	} else {
		err = r.render(g, opts.all)
	}
	if err != nil {
		return err
	}
	if r.Errors > 0 {
		return badInput(fmt.Errorf("%s: %d errors", path, r.Errors))
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
	fmt.Fprintf(&b, "%s: %d jobs, %d errors, %d warnings\n", r.Source, r.Jobs, r.Errors, r.Warnings)
	_, err := fmt.Fprint(g.stdout, b.String())
	return err
}
