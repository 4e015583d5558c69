package forecastcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rmreplay/internal/access"
	"rmreplay/internal/cli/console"
	"rmreplay/internal/flags"
	"rmreplay/internal/forecast/service"
	"rmreplay/internal/hpc"
	"rmreplay/internal/inert"
	"rmreplay/internal/quantity"
	"rmreplay/internal/slurmspec"
)

// askOptions are the flags of `forecast ask`.
type askOptions struct {
	server, auth string
	sooner       bool
	zone         flags.Zone
	json         bool
}

func (o commands) newAsk() *cobra.Command {
	var opts askOptions
	c := &cobra.Command{
		Use:   "ask JOB",
		Short: "Ask a forecast service for the start of a job",
		Long: `Asks the server "forecast serve" for the start of JOB, and prints P10, P50 and P90 of
the start, the probability that the job starts soon, what it waits for, and when to ask
again. JOB is a number such as 17, or 17_3 for a task of an array. The number of an
array means all its tasks.

--sooner asks what would make the job start sooner: a shorter time limit, fewer nodes,
another partition or QOS that its user may use. The service tries each change on the
model of Slurm's scheduler, which takes up to 20 seconds.

If the forecast is stale, the command says so and ends with status 3.`,
		Example: `  rmreplay forecast ask 4711
  rmreplay forecast ask 4711 --sooner
  rmreplay forecast ask 4711_3 --server /run/rmreplay/forecast.sock`,
		Args: console.WantArgs("JOB"),
		RunE: func(c *cobra.Command, args []string) error { return o.ask(c.Context(), args[0], opts) },
	}
	f := c.Flags()
	f.StringVar(&opts.server, "server", "http://127.0.0.1:8766", "the `URL` of the service, or the path of its socket")
	f.StringVar(&opts.auth, "server-auth", "", "`FILE` with the credentials for --server")
	f.BoolVar(&opts.sooner, "sooner", false, "ask what would make the job start sooner")
	opts.zone.Add(f)
	console.AddJSON(c, &opts.json)
	return c
}

func (o commands) ask(ctx context.Context, id string, opts askOptions) error {
	authorization, err := access.Authorization(opts.auth)
	if err != nil {
		return console.BadInput(err)
	}
	server := service.Server{Address: opts.server, Authorization: authorization}
	var answer any
	var head *service.Head
	var text string
	if opts.sooner {
		a, problem := server.Sooner(ctx, id)
		if answer, err = a, problem; err == nil {
			head, text = &a.Forecast, renderSooner(a, opts.zone.Location())
		}
	} else {
		a, problem := server.Ask(ctx, id)
		if answer, err = a, problem; err == nil {
			head, text = &a.Forecast, renderAnswer(a, opts.zone.Location())
		}
	}
	var refused *service.RefusedError
	switch {
	case errors.As(err, &refused):
		return console.BadInput(err)
	case err != nil:
		return fmt.Errorf("%w (want a server of rmreplay forecast serve at --server %s)", err, opts.server)
	case opts.json:
		err = o.PrintJSON(answer)
	default:
		err = o.Print(text)
	}
	if err == nil && head.Stale {
		return console.Invalidf("the forecast is stale: %s", staleness(head))
	}
	return err
}

// staleness returns a text that says how old a forecast is, and why the service has no newer
// forecast.
func staleness(h *service.Head) string {
	text := "it is " + quantity.Duration(h.Age) + " old"
	if h.Fault != nil {
		text += "; " + h.Fault.Text
	}
	return text
}

// renderAnswer writes a service's answer about jobs as text, with instants in a time zone.
func renderAnswer(a *service.Answer, zone *time.Location) string {
	var b strings.Builder
	for i := range a.Jobs {
		renderJob(&b, &a.Jobs[i], zone)
	}
	renderHead(&b, &a.Forecast, zone)
	return b.String()
}

func renderHead(b *strings.Builder, h *service.Head, zone *time.Location) {
	fmt.Fprintf(b, "forecast of %s, %s old\n", h.At.In(zone).Format(time.RFC3339), quantity.Duration(h.Age))
	if h.Fault != nil {
		fmt.Fprintf(b, "note: %s\n", inert.Line(h.Fault.Text))
	}
	for _, alarm := range h.Alarms {
		fmt.Fprintf(b, "note: %s\n", inert.Line(alarm))
	}
}

// quantileOf returns a quantile of a job's start time as text. The parameter beyond lists the
// quantiles that are after the end of the forecast.
func quantileOf(name string, t *time.Time, beyond []string, zone *time.Location) string {
	switch {
	case t != nil:
		return quantity.Date(hpc.Time(t.UnixNano()), zone)
	case slices.Contains(beyond, name):
		return "after the end of the forecast"
	}
	return "never in this forecast"
}

// renderSooner writes what would make a job start sooner.
func renderSooner(a *service.Sooner, zone *time.Location) string {
	var b strings.Builder
	fmt.Fprintf(&b, "job %s as it is\n  P50         %s\n  P90         %s\n", a.Job, quantileOf("p50", a.P50, a.Beyond, zone),
		quantileOf("p90", a.P90, a.Beyond, zone))
	for i := range a.Changes {
		g := &a.Changes[i]
		fmt.Fprintf(&b, "%s\n", inert.Line(g.Command))
		fmt.Fprintf(&b, "  P50         %s (sooner: %s)\n", quantileOf("p50", g.P50, g.Beyond, zone), g.Words("p50"))
		fmt.Fprintf(&b, "  P90         %s (sooner: %s)\n", quantileOf("p90", g.P90, g.Beyond, zone), g.Words("p90"))
		if g.Condition != "" {
			fmt.Fprintf(&b, "  condition   %s\n", inert.Line(g.Condition))
		}
		if g.Why != "" {
			fmt.Fprintf(&b, "  never       %s\n", inert.Line(g.Why))
		}
	}
	if len(a.Changes) == 0 {
		b.WriteString("Slurm would accept none of the changes that the service tries\n")
	}
	if len(a.NotTried) > 0 {
		fmt.Fprintf(&b, "the time was too short for %s\n", inert.Line(strings.Join(a.NotTried, ", ")))
	}
	renderHead(&b, &a.Forecast, zone)
	return b.String()
}

func renderJob(b *strings.Builder, job *service.Job, zone *time.Location) {
	at := func(t *time.Time) string { return quantity.Date(hpc.Time(t.UnixNano()), zone) }
	fmt.Fprintf(b, "job %s of %s in %s: ", job.ID, inert.Line(quantity.OrUnknown(job.User)), inert.Line(job.Partition))
	if job.Wait == nil {
		fmt.Fprintf(b, "runs since %s\n", at(job.Start))
		return
	}
	limit := ""
	if job.Limit > 0 {
		limit = ", limit " + slurmspec.FormatSpan(time.Duration(job.Limit*float64(time.Second)))
	}
	fmt.Fprintf(b, "waits (%s%s)\n", quantity.Regular(job.CPUs, "CPU"), limit)
	line := func(label, format string, args ...any) {
		fmt.Fprintf(b, "  %-11s "+format+"\n", append([]any{label}, args...)...)
	}
	quantile := func(name string, t *time.Time) string { return quantileOf(name, t, job.Beyond, zone) }
	line("P10", "%s", quantile("p10", job.P10))
	line("P50", "%s", quantile("p50", job.P50))
	line("P90", "%s", quantile("p90", job.P90))
	if job.Doubtful {
		line("but", "forecasts like this one were wrong too often lately")
	}
	for _, w := range job.Within {
		line("within "+slurmspec.FormatSpan(time.Duration(w.Seconds*float64(time.Second))), "%s",
			quantity.Percent(w.Probability))
	}
	line("waits for", "%s", job.For.Words)
	if job.For.Slurm != "" {
		line("Slurm says", "%s", inert.Line(job.For.Slurm))
	}
	if job.For.Dependency != "" {
		line("depends on", "%s", inert.Line(job.For.Dependency))
	}
	line("before it", "%s of the partition, %.0f node hours at most", quantity.Regular(job.Ahead.Jobs, "job"),
		job.Ahead.NodeHours)
	if job.Slurm != nil {
		line("Slurm", "expects %s (squeue --start)", at(job.Slurm))
	}
	if job.Look != nil {
		line("look again", "%s", at(job.Look))
	}
}
