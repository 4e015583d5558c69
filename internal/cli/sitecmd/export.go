package sitecmd

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rmreplay/internal/bundle"
	"rmreplay/internal/cli/console"
	"rmreplay/internal/experiment"
	"rmreplay/internal/flags"
	"rmreplay/internal/output"
	"rmreplay/internal/quantity"
	"rmreplay/internal/workload/transform"
)

// New returns the command `site`.
func New(l Lent) *cobra.Command {
	c := &cobra.Command{
		Use:   "site",
		Short: "Share a site's records without its names",
		Long: `Commands about bundles. A bundle is one file with a workload and its cluster, without
the names of people, projects and machines, for example for a bug report or a paper.
Each command that takes a workload or a cluster directory takes a bundle.`,
	}
	c.AddCommand(newExport(l), newInfo(l))
	return c
}

// exportFlags are the flags of `site export`.
type exportFlags struct {
	cluster, output, key string
	keep, allow          []string
	window               flags.Window
	json                 bool
}

// The values of --keep.
const (
	keepHosts   = "hosts"
	keepCluster = "cluster"
)

func newExport(l Lent) *cobra.Command {
	var o exportFlags
	c := &cobra.Command{
		Use:   "export WORKLOAD --cluster DIR -o FILE",
		Short: "Write a bundle: jobs and configuration in one file, without names",
		Long: `Writes one file with the jobs, reservations, outages and usage of a workload, and with
slurm.conf, gres.conf, topology.conf, accounts, QOS and users of its cluster. It
replaces the names of users, groups, accounts, jobs, reservations, nodes and of the
cluster, by the same new names in all files. Jobs, users and groups get new numbers.
Only configuration keys that decide scheduling stay. Comments, scripts, command lines,
paths, addresses and passwords are left out.

Partitions, QOS, features, licenses and generic resources keep their names, unless a
name contains a replaced one: then the command prints the old and the new name. Words of
Slurm stay, also if a job or a user has such a name: options, plugins, states, units.
--keep hosts,cluster keeps the names of nodes and cluster, too. At the end the command
searches all words of the bundle for the replaced names, and writes nothing if it finds
one. --allow NAME permits a word that is there for another reason, for example if a
user's name is also an option of a plugin that is not Slurm's.

New names follow from a random key, which is not stored. With --key FILE, which has at
least 16 secret bytes, a name gets the same new name in every bundle. Times, sizes and
limits stay, so somebody who knows when a job ran can find that job. Read the report
before you give the file to others.`,
		Example: `  rmreplay site export day.jsonl --cluster site -o site.tar.gz
  rmreplay site export week.jsonl --cluster site --start 2024-03-05 --end 2024-03-06 \
    --keep cluster -o site.tar.gz
  rmreplay replay site.tar.gz --cluster site.tar.gz -o run`,
		Args: console.WantArgs("WORKLOAD"),
		RunE: func(_ *cobra.Command, args []string) error { return l.runExport(args[0], &o) },
	}
	f := c.Flags()
	f.StringVar(&o.cluster, "cluster", "", "`DIR` of the cluster that the workload is for")
	console.AddOutput(f, &o.output, "write a tar archive to `FILE`, compressed with gzip if its name ends in .gz or .tgz")
	f.StringVar(&o.key, "key", "", "`FILE` with the secret key (default: a random key that is not stored)")
	f.StringSliceVar(&o.keep, "keep", nil, "keep the names of `WHAT`: hosts, cluster")
	f.StringSliceVar(&o.allow, "allow", nil, "permit the word `NAME`, which the bundle contains for another reason; may be repeated")
	o.window.Add(f, "keep later submissions, and the jobs that run or wait at TIME", "keep earlier submissions")
	console.AddJSON(c, &o.json)
	console.Require(c, "cluster", "output")
	return c
}

func (l Lent) runExport(path string, o *exportFlags) error {
	for _, what := range o.keep {
		if what != keepHosts && what != keepCluster {
			return console.Usagef("--keep %s: not known (want %s or %s)", what, keepHosts, keepCluster)
		}
	}
	if bundle.IsFile(o.cluster) {
		return console.Usagef("--cluster %s: a bundle, which has no names any more (want the cluster directory)", o.cluster)
	}
	from, to, err := o.window.Bounds()
	if err != nil {
		return console.Usagef("%w", err)
	}
	err = output.Replaces(o.output, "a bundle", func([]byte) bool { return bundle.IsFile(o.output) })
	if err != nil {
		return fmt.Errorf("writing bundle: %w", err)
	}
	w, err := l.Read(path)
	if err != nil {
		return err
	}
	cluster, err := experiment.OpenCluster(o.cluster, 0)
	if err != nil {
		return err
	}
	if from != 0 || to != 0 {
		step, err := transform.Window(from, to)
		if err != nil {
			return console.Usagef("%w", err)
		}
		if w, _, err = transform.Apply(w, transform.Environment{Partitions: experiment.Partitions(cluster)}, step); err != nil {
			return console.BadInput(err)
		}
	}
	b, report, err := experiment.Bundle(w, experiment.Export{
		Cluster: cluster, ClusterDir: o.cluster, KeyFile: o.key, Allow: o.allow,
		KeepHosts: slices.Contains(o.keep, keepHosts), KeepCluster: slices.Contains(o.keep, keepCluster),
	})
	if err != nil {
		return err
	}
	if err := b.Write(o.output); err != nil {
		return err
	}
	if o.json {
		return l.PrintJSON(exported{report, report.Originals, report.Shared})
	}
	return l.Printf("wrote %s\n%stry it: rmreplay simulate %s --cluster %s --policy easy -o run\n", o.output, describeBundle(report), o.output, o.output)
}

// exported is the JSON output of `site export --json`: the report, and what is not in the bundle.
type exported struct {
	*experiment.BundleReport
	Originals []transform.Found `json:"original_names,omitempty"`
	Shared    []string          `json:"words_of_slurm,omitempty"`
}

func newInfo(l Lent) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "info BUNDLE",
		Short:   "Say what is in a bundle",
		Long:    `Prints the report of a bundle: what it holds, what was replaced, and what was left out.`,
		Example: `  rmreplay site info site.tar.gz`,
		Args:    console.WantArgs("BUNDLE"),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := bundle.ReadReport(args[0])
			if err != nil {
				return console.BadInput(err)
			}
			var report experiment.BundleReport
			if err := json.Unmarshal(text, &report); err != nil {
				return console.BadInput(fmt.Errorf("reading bundle: %s: %s: %w", args[0], bundle.Report, err))
			}
			if asJSON {
				return l.PrintJSON(report)
			}
			return l.Print(describeBundle(&report))
		},
	}
	console.AddJSON(c, &asJSON)
	return c
}

// describeBundle writes the report for people.
func describeBundle(r *experiment.BundleReport) string {
	var b strings.Builder
	line := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "  %-12s %s\n", what, fmt.Sprintf(format, args...))
	}
	line("jobs", "%d, submitted from %s to %s", r.Jobs, r.First, r.Last)
	if r.WindowStart != "" {
		line("window", "from %s", r.WindowStart)
	}
	line("cluster", "%d %s, %d %s, %d usage %s", r.Nodes, quantity.Plural(r.Nodes, "node", "nodes"),
		r.Users, quantity.Plural(r.Users, "user", "users"), r.Usage, quantity.Plural(r.Usage, "record", "records"))
	line("events", "%d of reservations, %d of nodes", r.Reservations, r.NodeEvents)
	for _, f := range r.Files {
		line("file", "%s, %d bytes", f.Name, f.Bytes)
	}
	line("replaced", "%d names", r.ReplacedNames)
	line("kept", "%s", strings.Join(r.Kept, ", "))
	for _, f := range r.Originals {
		line("renamed", "%s, which contains the name %s (%s), is %s", f.Word, f.Name, f.Kind, f.New)
	}
	if len(r.Originals) == 0 && len(r.Renamed) > 0 { // a bundle has only the new names
		line("renamed", "%s: their names contained a replaced one", strings.Join(r.Renamed, ", "))
	}
	if len(r.Shared) > 0 {
		line("stay", "%s: names that were replaced, but also words of Slurm: these stay, also as names of "+
			"partitions and QOS", strings.Join(r.Shared, ", "))
	}
	for _, what := range r.LeftOut {
		line("left out", "%s", what)
	}
	if len(r.LeftOutKeys) > 0 {
		line("left out", "of the configuration: %s", strings.Join(r.LeftOutKeys, ", "))
	}
	return b.String()
}
