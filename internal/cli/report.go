package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/compare"
	"rmreplay/internal/output"
	"rmreplay/internal/report"
)

// reportOptions are the flags of `report`.
type reportOptions struct {
	compareOptions
	output  string
	figures string
	title   string
}

func newReportCommand(g *globals) *cobra.Command {
	var opts reportOptions
	c := &cobra.Command{
		Use:   "report RUN... -o REPORT.html",
		Short: "Show runs and their comparison as one HTML page, and as figures",
		Long: `Writes one HTML page, which needs no network and no other file. It begins with how the
jobs ended, how full the machine was over time, who used it, who waited and when, and
on which nodes each job ran and when. The statistics follow: metrics with confidence
intervals, differences job by job, distributions of waits and slowdowns, and distances
between runs. Dates are in the zone of --timezone.

Each argument is a run, a directory of realizations or a recorded workload, as for
rmreplay compare. The other arguments are compared with the first.

With --figures, the figures are also written as PNG, SVG and PDF.

` + notValidHelp,
		Example: `  rmreplay report demo/run -o report.html
  rmreplay report before after -o report.html --figures figures
  rmreplay report before after -o report.html --title "bf_interval 30 against 300"`,
		Args: console.WantRuns(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runReport(c.Context(), g, args, opts)
		},
	}
	opts.addFlags(c)
	console.AddOutput(c.Flags(), &opts.output, "write one HTML page to `FILE`")
	c.Flags().StringVar(&opts.figures, "figures", "", "also write each figure as PNG, SVG and PDF to this `DIR`")
	c.Flags().StringVar(&opts.title, "title", "", "`TEXT` at the top of the page (default: the names of the runs)")
	console.AddJSON(c, &opts.json)
	console.Require(c, "output")
	return c
}

// reportResult is the JSON output of `report --json`.
type reportResult struct {
	Report  string   `json:"report"`
	Bytes   int64    `json:"bytes"`
	Figures []string `json:"figures"`
	Valid   bool     `json:"valid"`
	Doubt   string   `json:"not_valid_reason,omitempty"`
}

func runReport(ctx context.Context, g *globals, dirs []string, opts reportOptions) error {
	how, err := opts.parse()
	if err != nil {
		return err
	}
	if err := output.Replaces(opts.output, "a report", report.IsPage); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if err := console.WantPage("output", opts.output); err != nil {
		return err
	}
	sets, err := compare.Open(ctx, dirs)
	if err != nil {
		return console.BadInput(err)
	}
	r, err := report.New(sets, report.Options{
		Title: opts.title, Compare: how, Created: time.Now(), Zone: opts.zone.Location(), Version: Version(),
		Command: append([]string{"rmreplay"}, os.Args[1:]...),
	})
	if err != nil {
		return err
	}
	result := reportResult{Report: opts.output, Figures: []string{}, Valid: r.Valid(), Doubt: r.Doubt()}
	if result.Bytes, err = output.File(opts.output, r.WriteHTML); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if opts.figures != "" {
		if result.Figures, err = writeFigures(ctx, opts.figures, r); err != nil {
			return fmt.Errorf("writing the figures: %w", err)
		}
	}
	if opts.json {
		if err := g.PrintJSON(result); err != nil {
			return err
		}
	} else {
		if !result.Valid {
			_ = g.Printf("NOT VALID: %s\n", result.Doubt)
		}
		_ = g.Printf("wrote %s (%.1f MB)", result.Report, float64(result.Bytes)/1e6)
		if n := len(result.Figures); n > 0 {
			_ = g.Printf(" and %d figures in %s", n, opts.figures)
		}
		_ = g.Print("\n")
	}
	return unlessPartial(validRuns(r.Doubt()), opts.partial)
}

// writeFigures writes all figures in all formats and returns their paths.
func writeFigures(ctx context.Context, dir string, r *report.Report) ([]string, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	var paths []string
	for _, f := range r.Figures {
		for _, format := range report.Formats {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			path := filepath.Join(dir, f.Name+"."+format)
			if err := output.Replaces(path, "a figure", report.IsFigure); err != nil {
				return nil, err
			}
			if _, err := output.File(path, func(w io.Writer) error { return f.WriteTo(w, format) }); err != nil {
				return nil, err
			}
			paths = append(paths, path)
		}
	}
	return paths, nil
}
