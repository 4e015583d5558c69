// Package sitecmd has the commands that prepare a site's records. `workload validate` finds jobs
// that a cluster would not run. `workload complete` fills in fields that were not recorded. `site
// export` writes a bundle without the site's names. Package cli adds them to the program.
package sitecmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/experiment"
	"rmreplay/internal/flags"
	"rmreplay/internal/formats"
	"rmreplay/internal/quantity"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/complete"
)

// Lent has the functions of package cli that the commands use.
type Lent struct {
	console.Output
	// Read reads a workload and shows its progress.
	Read func(path string) (*workload.Workload, error)
}

// completeFlags are the flags of `workload complete`.
type completeFlags struct {
	output, cluster, like string
	rules                 []string
	seed                  uint64
	json                  bool
}

// Complete returns the command `workload complete`.
func Complete(l Lent) *cobra.Command {
	var o completeFlags
	c := &cobra.Command{
		Use:   "complete WORKLOAD -o OUT",
		Short: "Make the fields that a record lacks, by rules",
		Long: `Makes the fields that the record of a workload lacks: time limits, users, accounts, QOS,
partitions, memory, whole nodes, and the usage before the workload begins. Each field
has a rule and random numbers of its own. The trace marks each made field with its rule.
Recorded fields stay. The true values remain unknown: the result is one of many
workloads that agree with the record. Many rules draw once for each batch. A batch is an
array, or jobs of one user and one size with at most 20 minutes between two submissions.

With --realizations, replay and simulate draw the made fields anew for each realization.
Then compare prints intervals over the draws, and the field on which the result depends
most.

--cluster bounds time limits and QOS by the site's limits. --like learns limits and users
from another log that has them. --rule chooses the rule of a field:

` + describeRules() + `time_limit also takes a duration (4h) or a factor of the run time (x2). memory also takes
a number of MiB for each CPU. The fields with names also take NAME or
NAME:WEIGHT,NAME:WEIGHT. The rule "none" leaves a field out. A rule makes the field only
for the jobs that lack it. If a backfill scheduler could
not have started a job at its recorded start with the drawn limit, the limit is lowered.
The limit of a TIMEOUT job is its run time. All other limits are at least a minute.`,
		Example: `  rmreplay workload complete cirrus.jsonl --cluster site -o completed.jsonl
  rmreplay workload complete cirrus.jsonl --rule time_limit=4d -o fixed.jsonl
  rmreplay simulate completed.jsonl --cluster DIR --policy slurm --realizations 9 -o runs
  rmreplay compare cirrus.jsonl runs`,
		Args: console.WantArgs("WORKLOAD"),
		RunE: func(_ *cobra.Command, args []string) error { return l.runComplete(args[0], &o) },
	}
	f := c.Flags()
	console.AddOutput(f, &o.output, "write a trace to `FILE`, compressed with gzip if its name ends in .gz")
	f.StringVar(&o.cluster, "cluster", "", "`DIR` of the cluster; its limits bound the fields that are made")
	f.StringVar(&o.like, "like", "", "imitate `LOG`: learn its time limits and users")
	f.StringArrayVar(&o.rules, "rule", nil, "make a field by a rule: `FIELD=RULE`, such as time_limit=uniform; may be repeated")
	console.AddSeed(f, &o.seed, "what the rules draw")
	console.AddJSON(c, &o.json)
	console.Require(c, "output")
	flags.Alias(f, map[string]string{"set": "rule"})
	return c
}

// describeRules returns the list of rules for the help.
func describeRules() string {
	var b strings.Builder
	for i, r := range complete.Rules {
		field := ""
		if i == 0 || complete.Rules[i-1].Field != r.Field {
			field = string(r.Field)
		}
		b.WriteString(wrap(fmt.Sprintf("  %-11s %-10s  ", field, r.Name), r.Doc))
	}
	return b.String()
}

// wrap returns a label followed by a text, in lines of at most 88 columns.
func wrap(label, text string) string {
	var b strings.Builder
	line := label
	for word := range strings.FieldsSeq(text) {
		if len(line)+len(word) > 88 {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = strings.Repeat(" ", len(label))
		}
		line += word + " "
	}
	return b.String() + strings.TrimRight(line, " ") + "\n"
}

// completeReport is the JSON output of `workload complete --json`.
type completeReport struct {
	Source string               `json:"source"`
	Output string               `json:"output"`
	Jobs   int                  `json:"jobs"`
	Seed   uint64               `json:"seed"`
	Made   []workload.MadeField `json:"made"`
	// Lacking lists the fields that jobs of the result still lack, with the number of jobs if it is not all.
	Lacking []string `json:"lacking"`
	// LeftOut counts the jobs that were left out because they ran when the window began and their
	// nodes are unknown.
	LeftOut int      `json:"running_left_out,omitempty"`
	Next    []string `json:"next"` // commands that the user may run next
}

func (l Lent) runComplete(path string, o *completeFlags) error {
	opts := complete.Options{Seed: o.seed, Rules: map[workload.Field]string{}}
	for _, text := range o.rules {
		field, rule, err := complete.ParseRule(text)
		if err != nil {
			return console.Usagef("--rule %w", err)
		}
		opts.Rules[field] = rule
	}
	if err := formats.Replaces(o.output, path); err != nil {
		return fmt.Errorf("writing the workload: %w", err)
	}
	w, err := l.Read(path)
	if err != nil {
		return err
	}
	if o.cluster != "" {
		cluster, err := experiment.OpenCluster(o.cluster, 0)
		if err != nil {
			return err
		}
		for _, text := range cluster.Warnings {
			l.Say("warning: %s", text)
		}
		if cluster.Accounting() && cluster.Accounts == nil {
			l.Say("warning: %s has no accounts.sacctmgr: QOS, accounts and users have no limits, and rules use only the QOS "+
				"that partitions name (sacctmgr dump %s file=accounts.sacctmgr writes the file; "+
				"--rule qos=NAME:WEIGHT,NAME:WEIGHT names the QOS that users have)", o.cluster, cluster.Name)
		}
		opts.Site = experiment.Site(cluster)
	}
	if o.like != "" {
		log, err := l.Read(o.like)
		if err != nil {
			return err
		}
		opts.Like = complete.Learn(log)
	}
	made, err := complete.Complete(w, opts)
	if err != nil {
		return console.BadInput(err)
	}
	if err := formats.Save(o.output, made); err != nil {
		return err
	}
	l.warn(made, &opts)
	return l.showComplete(newCompleteReport(path, w, made, o), o.json)
}

// warn names the rules of the options that made nothing, and the jobs that fit no partition.
func (l Lent) warn(made *workload.Workload, opts *complete.Options) {
	for _, field := range workload.Fields {
		rule, given := opts.Rules[field]
		done := slices.ContainsFunc(made.Made(), func(f workload.MadeField) bool { return f.Field == field })
		if given && rule != complete.None && !done {
			l.Say("warning: --rule %s=%s has no effect: no job lacks the field, or the rule cannot make it", field, rule)
		}
	}
	const named = 5
	if list := unplaced(made, opts); len(list) > 0 {
		more := ""
		if len(list) > named {
			more = ", ..."
		}
		l.Say("warning: no partition of the cluster can run %s: %s%s", quantity.Regular(len(list), "job"),
			strings.Join(list[:min(len(list), named)], ", "), more)
	}
}

func newCompleteReport(path string, w, made *workload.Workload, o *completeFlags) *completeReport {
	r := &completeReport{Source: path, Output: o.output, Jobs: made.Jobs.Len(), Seed: o.seed, Made: []workload.MadeField{}, Lacking: []string{},
		LeftOut: made.Rules[workload.RuleLeftRunning] - w.Rules[workload.RuleLeftRunning]}
	r.Made = append(r.Made, made.Made()...)
	for _, lack := range workload.Lacks(made) {
		r.Lacking = append(r.Lacking, lack.Text(r.Jobs))
	}
	on := " --policy easy"
	if o.cluster != "" {
		on = " --cluster " + o.cluster + " --policy slurm"
	}
	r.Next = []string{"rmreplay simulate " + o.output + on + " --realizations 20 -o draws", "rmreplay compare " + path + " draws"}
	return r
}

func (l Lent) showComplete(r *completeReport, asJSON bool) error {
	if asJSON {
		return l.PrintJSON(r)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "wrote %s: %d %s\n", r.Output, r.Jobs, quantity.Plural(r.Jobs, "job", "jobs"))
	if len(r.Made) > 0 {
		b.WriteString("nobody recorded these fields; rules made them, and a realization draws them anew:\n")
	} else {
		b.WriteString("nothing was made: no rule applies to the fields that the record lacks\n")
	}
	for _, f := range r.Made {
		fmt.Fprintf(&b, "  %-11s %7d  by %s\n", f.Field.Words(), f.Jobs, f.Rule)
	}
	if r.LeftOut > 0 {
		fmt.Fprintf(&b, "left out: %s that ran when the window began, because nobody recorded their nodes and none are "+
			"free (want --cluster DIR with nodes for them)\n", quantity.Regular(r.LeftOut, "job"))
	}
	if len(r.Lacking) > 0 {
		fmt.Fprintf(&b, "still missing: %s\n", strings.Join(r.Lacking, ", "))
	}
	for i, command := range r.Next {
		fmt.Fprintf(&b, "%-5s %s\n", []string{"next:", "then:"}[min(i, 1)], command)
	}
	return l.Print(b.String())
}
