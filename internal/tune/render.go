package tune

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
)

// Render returns the result for people. Paths are relative to the directory of the tuning.
func (r *Result) Render() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.Text)
	r.renderSearch(&b)
	if r.Proof != nil {
		r.renderProof(&b)
	}
	r.renderStages(&b)
	if len(r.Setting) > 0 {
		r.renderSetting(&b)
	}
	if len(r.Records) > 0 {
		b.WriteString("\nto compare the runs of the proof, in the directory of the tuning:\n")
		for _, one := range r.Records {
			fmt.Fprintf(&b, "  rmreplay compare %s %s\n", one.Site, one.Best)
		}
	}
	return b.String()
}

// sentence returns the outcome in a sentence. If settings had better results but broke a constraint, it names the best
// of them, and a constraint that it broke.
func (r *Result) sentence() string {
	better, best := 0, TriedSetting{}
	for _, t := range r.Tried {
		if len(t.Exceeded) == 0 || !(t.Relative > 0) {
			continue
		}
		if better++; better == 1 || t.Relative > best.Relative {
			best = t
		}
	}
	if r.Outcome != NothingFound || better == 0 {
		return r.Outcome.Text()
	}
	var values []string
	for _, p := range r.Plan.Parameters {
		if v := best.Values[p]; v != "" {
			values = append(values, p+"="+v)
		}
	}
	x := best.Exceeded[0]
	text := fmt.Sprintf("No better setting was found: %s had better results than the site's own in the search, but broke "+
		"a constraint. With %s (%s %s), %s went from %s to %s (allowed: worse by %s)", quantity.Regular(better, "setting"),
		strings.Join(values, ", "), r.Metric, change(best.Relative, r.Want), limitName(x.Metric, x.By, x.Group),
		amount(x.Site), amount(x.Value), amount(x.Allowed))
	if others := len(best.Exceeded) - 1; others > 0 {
		text += fmt.Sprintf(", and %d %s broken", others, quantity.Plural(others, "other is", "others are"))
	}
	return text + "."
}

// limitName names what a constraint limits: a metric, or a metric of a group of jobs.
func limitName(metric string, by metrics.By, group string) string {
	if by == "" {
		return metric
	}
	return fmt.Sprintf("%s, %s %s", metric, by, orNone(group))
}

func (r *Result) renderSearch(b *strings.Builder) {
	failed, broken := 0, 0
	for _, t := range r.Tried {
		switch {
		case t.Failure != "":
			failed++
		case t.Broken:
			broken++
		}
	}
	fmt.Fprintf(b, "\nsearch     %d %s of %d settings on %d blocks of %s", r.SearchRuns,
		quantity.Plural(r.SearchRuns, "run", "runs"), len(r.Tried), r.Plan.Blocks,
		strings.Join(r.Plan.Workloads, ", "))
	if broken > 0 {
		fmt.Fprintf(b, "; %s %s a constraint", quantity.Regular(broken, "setting"),
			quantity.Plural(broken, "breaks", "break"))
	}
	if failed > 0 {
		fmt.Fprintf(b, "; %s with a failed run", quantity.Regular(failed, "setting"))
	}
	b.WriteString("\n")
	if r.SearchGain.Known() {
		fmt.Fprintf(b, "           %s %s in the search (biased: the setting was chosen for it)\n", r.Metric,
			change(r.SearchGain, r.Want))
	}
}

// renderStages writes, for each stage, its engine, the time of its runs, and the number of settings
// that remained.
func (r *Result) renderStages(b *strings.Builder) {
	for _, s := range r.Stages {
		on := map[string]string{"model": "the model of Slurm", "slurm": "Slurm"}[s.On]
		fmt.Fprintf(b, "%-10s %s of runs on %s, %.1f s each; kept %d of %d settings\n", s.Name,
			quantity.Duration(s.Seconds), on, float64(s.Seconds)/float64(max(1, s.Runs)), s.Kept, s.Settings)
	}
}

// change returns a text about a relative gain.
func change(gain metrics.Float, want string) string {
	word := want
	if gain < 0 {
		gain, word = -gain, map[string]string{"lower": "higher", "higher": "lower"}[want]
	}
	return fmt.Sprintf("%.1f %% %s", 100*float64(gain), word)
}

func (r *Result) renderProof(b *strings.Builder) {
	p := r.Proof
	fmt.Fprintf(b, "held out   %d %s on %s, with seeds that the search did not see\n", r.HeldOutRuns,
		quantity.Plural(r.HeldOutRuns, "run", "runs"),
		strings.Join(r.Plan.HeldOut, ", "))
	if p.Failure != "" {
		fmt.Fprintf(b, "           %s\n", p.Failure)
		return
	}
	fmt.Fprintf(b, "           %s %s -> %s, %s (95 %% interval of the gain %s to %s), p = %s, %d %s of %ss\n",
		r.Metric, p.Site.Text(), p.Best.Text(), change(p.Relative, r.Want), signed(p.RelativeLow), signed(p.RelativeHigh),
		significance(p.P), p.Pairs, quantity.Plural(p.Pairs, "pair", "pairs"), p.Unit)
	if float64(p.SmallestP) > 1-Confidence {
		fmt.Fprintf(b, "           so few different pairs can have no p-value below %.3g\n", float64(p.SmallestP))
	}
	if p.Unit == "realization" {
		b.WriteString("           the interval is about realizations of these workloads; other days may differ\n")
	}
	if len(p.Constraints) == 0 {
		return
	}
	renderConstraints(b, p.Constraints)
}

// shownKept is the largest number of constraints that are all listed. If there are more, constraints
// that are certainly fulfilled are left out.
const shownKept = 12

// renderConstraints writes a table of the constraints. If there are many, renderConstraints leaves out constraints that
// are certainly fulfilled.
func renderConstraints(b *strings.Builder, list []Kept) {
	b.WriteString("\nconstraints on the held-out data, the site's own setting -> the best:\n")
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	kept, others := 0, false
	for _, k := range list {
		name := limitName(k.Metric, k.By, k.Group)
		verdict := "kept"
		switch {
		case k.Broken:
			verdict = "BROKEN"
		case k.NotExcluded:
			verdict = "kept, but the interval does not exclude a break"
		case !k.Worse.Known():
			verdict = "no value"
		case len(list) > shownKept:
			kept++
			continue
		}
		if k.SiteStarted.Known() && k.SiteStarted != k.BestStarted {
			others = true
			verdict += fmt.Sprintf("; jobs that start: %s -> %s", k.SiteStarted.Text(), k.BestStarted.Text())
		}
		fmt.Fprintf(w, "  %s\t%s -> %s\tworse by %s (%s to %s)\tallowed %s\t%s\n",
			name, amount(k.Site), amount(k.Best), amount(k.Worse), amount(k.WorseLow), amount(k.WorseHigh), amount(k.Allowed),
			verdict)
	}
	_ = w.Flush() // writing to a strings.Builder cannot fail
	if others {
		b.WriteString("  where another number of jobs starts, the two values are of different jobs, which may be the whole " +
			"difference:\n  rmreplay compare shows job by job what the jobs that start in both wait\n")
	}
	if kept > 0 {
		fmt.Fprintf(b, "  %d others are kept, and their intervals exclude a break\n", kept)
	}
}

// amount formats a value of a metric. Ratios such as utilization need more digits than times.
func amount(v metrics.Float) string {
	if v.Known() && v != 0 && v > -1 && v < 1 {
		return fmt.Sprintf("%.4f", float64(v))
	}
	return v.Text()
}

func orNone(name string) string {
	if name == "" {
		return "(none)"
	}
	return name
}

func signed(v metrics.Float) string {
	if !v.Known() {
		return "-"
	}
	return fmt.Sprintf("%+.1f %%", 100*float64(v))
}

func significance(p metrics.Float) string {
	if !p.Known() {
		return "-"
	}
	return fmt.Sprintf("%.2g", float64(p))
}

func (r *Result) renderSetting(b *strings.Builder) {
	title := "the setting:"
	if !r.Found {
		title = "the best setting of the search, which is not recommended:"
	}
	fmt.Fprintf(b, "\n%s\n", title)
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, c := range r.Setting {
		now, value := c.Now, c.Value
		switch {
		case now != "":
		case c.Default != "":
			now = c.Default + " (default)"
		default:
			now = "not set"
		}
		switch {
		case value != "":
		case c.Dropped != "":
			value = fmt.Sprintf("as it is (%s would bring little)", c.Dropped)
		default:
			value = "as it is"
		}
		fmt.Fprintf(w, "  %s\t%s\t-> %s\n", c.Parameter, now, value)
	}
	_ = w.Flush() // writing to a strings.Builder cannot fail
	for _, warning := range r.Warnings {
		fmt.Fprintf(b, "warning: %s\n", warning)
	}
	if !r.Found {
		return
	}
	file := ""
	for _, line := range r.Lines {
		if line.File != file {
			file = line.File
			fmt.Fprintf(b, "\nin %s:\n", file)
		}
		fmt.Fprintf(b, "  %s\n", line.Text)
	}
}

// Render returns the plan for people.
func (p Plan) Render() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", p.Name)
	fmt.Fprintf(&b, "parameters  %s\n", strings.Join(p.Parameters, ", "))
	fmt.Fprintf(&b, "search      at most %d runs in about %d races, on %d blocks of %s\n", p.Budget, p.Races, p.Blocks,
		strings.Join(p.Workloads, ", "))
	fmt.Fprintf(&b, "held out    %d %s on %s (%d %s; the search has not seen the %s)\n", p.HeldOutRuns,
		quantity.Plural(p.HeldOutRuns, "run", "runs"),
		strings.Join(p.HeldOut, ", "), p.HeldOutSeeds,
		quantity.Plural(p.HeldOutSeeds, "seed", "seeds"), p.HeldOutUnseen)
	fmt.Fprintf(&b, "            the smallest p-value that they can have is %.2g\n", p.SmallestP)
	return b.String()
}
