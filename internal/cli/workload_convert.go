package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/formats"
	"rmreplay/internal/spelling"
	"rmreplay/internal/workload"
)

// convertOptions are the flags of `workload convert`.
type convertOptions struct {
	output string
	to     string
	strict bool
	json   bool
}

func (o *convertOptions) addFlags(c *cobra.Command) {
	console.AddOutput(c.Flags(), &o.output, "write to `FILE`, compressed if its name ends in .gz")
	c.Flags().StringVar(&o.to, "to", "", "`FORMAT` of the output: "+strings.Join(formats.Names(), ", ")+
		" (default: by the ending of FILE's name, or else trace)")
	addStrictFlag(c.Flags(), &o.strict)
	console.AddJSON(c, &o.json)
	console.Require(c, "output")
}

// addStrictFlag adds --strict to commands that read records of sites.
func addStrictFlag(f *pflag.FlagSet, to *bool) {
	f.BoolVar(to, "strict", false, "stop at the first defective record, and name its line or job, and the rule")
}

func newWorkloadConvertCommand(g *globals) *cobra.Command {
	var opts convertOptions
	c := &cobra.Command{
		Use:   "convert WORKLOAD -o FILE",
		Short: "Write a workload in another format",
		Long: `Reads a workload of any format and writes it in another format. Lists the attributes
that the other format cannot hold, with the number of jobs that have them, and the rules
for defective records, with the number of records. A trace keeps all attributes: an SWF
log that becomes a trace and then a log again has the same records.`,
		Example: `  rmreplay workload convert KTH-SP2-1996-2.1-cln.swf.gz -o kth.jsonl.gz
  rmreplay workload convert kth.jsonl.gz -o kth.swf
  rmreplay workload convert demo/day.jsonl -o day.txt --to events --json`,
		Args: console.WantArgs("WORKLOAD"),
		RunE: func(_ *cobra.Command, args []string) error {
			return runWorkloadConvert(g, args[0], opts)
		},
	}
	opts.addFlags(c)
	return c
}

// convertReport is the JSON output of `workload convert --json`.
type convertReport struct {
	Source string          `json:"source"`
	Output string          `json:"output"`
	Format string          `json:"format"`
	Jobs   int             `json:"jobs"`
	Losses workload.Losses `json:"losses"`
	Rules  map[string]int  `json:"rules"`
}

func runWorkloadConvert(g *globals, path string, opts convertOptions) error {
	if opts.to == "" {
		opts.to = formats.ForFile(opts.output)
	}
	if !slices.Contains(formats.Names(), opts.to) {
		return console.Usagef("--to %s: not a format (%s)", opts.to, spelling.Meant(opts.to, formats.Names()))
	}
	if err := formats.Replaces(opts.output, path); err != nil {
		return fmt.Errorf("writing the workload: %w", err)
	}
	w, err := g.readWorkload(path, workload.ReadOptions{Strict: opts.strict})
	if err != nil {
		return err
	}
	if doubt := formats.Doubt(path); doubt != "" {
		g.Say("rmreplay: %s", doubt)
	}
	losses, err := formats.SaveAs(opts.output, w, opts.to)
	if err != nil {
		return err
	}
	if opts.json {
		return g.PrintJSON(convertReport{w.Source, opts.output, opts.to, w.Jobs.Len(), orEmpty(losses), orEmpty(w.Rules)})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "wrote %s as %s to %s\n", workload.Counted(&w.Jobs), opts.to, opts.output)
	writeCounts(&b, "records of the source, counted by rule", w.Rules, w.Mistake)
	writeCounts(&b, "attributes that this format cannot hold", losses, "")
	return g.Print(b.String())
}

// orEmpty returns m, or an empty map if m is nil: JSON shows an object and not null.
func orEmpty[M ~map[string]int](m M) M {
	if m == nil {
		return M{}
	}
	return m
}

// writeCounts writes counts by name below a heading. The parameter first is the text of the first counted mistake,
// or "" if the counts are not about mistakes. Without counts, writeCounts writes nothing.
func writeCounts[M ~map[string]int](b *strings.Builder, heading string, counts M, first string) {
	if len(counts) == 0 {
		return
	}
	fmt.Fprintf(b, "%s:\n", heading)
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(b, "  %-32s %8d\n", name, counts[name])
	}
	if first != "" {
		fmt.Fprintf(b, "  the first mistake: %s\n", first)
	}
}
