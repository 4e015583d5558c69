package explain

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
)

// Render writes the story for people, with dates in a time zone. It returns w's error.
func (s *Story) Render(w io.Writer, zone *time.Location) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "job          %s%s of %s, account %s, partition %s, QOS %s: %s, %s", s.Job, s.number(),
		orNone(s.User), orNone(s.Account), orNone(s.Partition), orNone(s.QOS),
		quantity.Regular(s.CPUs, "processor"), quantity.Regular(s.Nodes, "node"))
	if s.TimeLimit > 0 {
		fmt.Fprintf(&b, ", limit %s", span(s.TimeLimit))
	}
	fmt.Fprintf(&b, "\nsubmitted    %s", s.Submit.Text(zone))
	if s.Eligible > s.Submit {
		fmt.Fprintf(&b, ", eligible %s", s.Eligible.Text(zone))
	}
	s.renderStart(&b, zone)
	if s.SinceEligible != nil && *s.SinceEligible < s.Wait {
		fmt.Fprintf(&b, ", %s of it since it was eligible", span(*s.SinceEligible))
	}
	if s.Priority != 0 {
		fmt.Fprintf(&b, "\npriority     %d%s", s.Priority, s.priorityParts())
	}
	b.WriteByte('\n')
	s.Postponed.render(&b)
	s.renderPreset(&b, zone)
	s.renderParts(&b, zone)
	renderCauses(&b, s.Causes, zone)
	if s.Unsized {
		renderUnsized(&b, causesLabel(len(s.Causes) == 0))
	}
	for i, r := range s.Reasons {
		label := ""
		if i == 0 {
			label = "reasons"
		}
		fmt.Fprintf(&b, "%-12s %s  %10s  %s", label, r.From.Text(zone), span(r.Seconds), s.words(&r))
		if r.Planned != 0 {
			fmt.Fprintf(&b, ", at first planned for %s", r.Planned.Text(zone))
		}
		b.WriteByte('\n')
	}
	for i, f := range s.Backfill {
		label := ""
		if i == 0 {
			label = "backfill"
		}
		fmt.Fprintf(&b, "%-12s for %s it %s\n", label, span(f.Seconds), f.Verdict.Meaning())
	}
	if s.Planned != 0 {
		fmt.Fprintf(&b, "planned      first seen at %s, to start at %s\n", s.Planned.Text(zone), s.PlannedStart.Text(zone))
	}
	before := "started before it"
	switch {
	case len(s.Lost) > 0:
		before = "started while it was in the queue"
	case s.Start == 0:
		before = "started before it left the queue"
	}
	s.Ahead.render(&b, "ahead", quantity.Plural(s.Ahead.Jobs, "was", "were")+
		" in the queue of its partition at its submission and "+before)
	s.Overtook.render(&b, "overtook", "came to this queue later and "+before)
	if n := s.Unordered; n > 0 {
		fmt.Fprintf(&b, "%-12s %s that ran when the window began %s neither ahead nor in overtook: the record lacks %s\n",
			"left out", quantity.Regular(n, "job"), quantity.Plural(n, "is", "are"),
			quantity.Plural(n, "its submission", "their submissions"))
	}
	s.renderHolders(&b, zone)
	renderList(&b, "just before", s.LetStart)
	if s.CancelledAfter > 0 {
		fmt.Fprintf(&b, "cancelled    %s: the workload cancels it %s after its submission\n", s.End.Text(zone), span(s.CancelledAfter))
	}
	renderList(&b, "dependency", s.Unmet)
	_, err := w.Write(b.Bytes())
	return err
}

// renderList writes texts, one on each line. The first line has the label.
func renderList(b *bytes.Buffer, label string, texts []string) {
	for _, text := range texts {
		fmt.Fprintf(b, "%-12s %s\n", label, text)
		label = ""
	}
}

// renderPreset warns that the run did not decide the wait of a preset job.
func (s *Story) renderPreset(b *bytes.Buffer, zone *time.Location) {
	if !s.Preset {
		return
	}
	text := "the record lacks its real submission"
	if s.RecordedSubmit != 0 {
		text = "in the workload it was submitted at " + s.RecordedSubmit.Text(zone)
	}
	fmt.Fprintf(b, "%-12s it ran when the window began, so the run submitted it just before its start and did not decide "+
		"its wait; %s\n", "warning", text)
}

// renderHolders writes the jobs that held the nodes.
func (s *Story) renderHolders(b *bytes.Buffer, zone *time.Location) {
	for i, h := range s.Holders {
		label := ""
		if i == 0 {
			longest, _ := s.longest(true)
			what := longest.Part.MeaningIn(s.manifest)
			if longest.Part == waits.Requeued {
				what = "(" + what + ")"
			}
			fmt.Fprintf(b, "held by      at %s, in the middle of its longest wait %s:\n",
				Instant(longest.middle()).Text(zone), what)
		}
		fmt.Fprintf(b, "%-12s job %s of %s: %s, %s %s\n", label, h.Job, orNone(h.User),
			quantity.Regular(h.Processors, "processor"), h.Since.Text(zone), h.Until.toEnd(zone))
	}
	if s.HolderJobs > len(s.Holders) {
		fmt.Fprintf(b, "%-12s …, %s in all\n", "", quantity.Regular(s.HolderJobs, "job"))
	}
}

// renderStart writes when the job started. If the job waits again after a lost run, it writes since
// when.
func (s *Story) renderStart(b *bytes.Buffer, zone *time.Location) {
	switch n := len(s.Lost); {
	case s.Start != 0:
		fmt.Fprintf(b, "\nstarted      %s, after %s in the queue", s.Start.Text(zone), span(s.Wait))
	case n > 0:
		again := "waits again"
		if s.End != 0 {
			again = "waited again"
		}
		fmt.Fprintf(b, "\nstarted      %s; %s since %s, after %s: %s after %s in the queue", s.Lost[0].Start.Text(zone), again,
			s.Lost[n-1].End.Text(zone), quantity.Regular(n, "lost run"), s.State, span(s.Wait))
	default:
		fmt.Fprintf(b, "\nstarted      never: %s after %s in the queue", s.State, span(s.Wait))
	}
}

// number returns the resource manager's number of the job in parentheses, unless it is the job's ID.
func (s *Story) number() string {
	if name, _, _ := strings.Cut(s.Job, "_"); s.Number == 0 || name == fmt.Sprint(s.Number) {
		return ""
	}
	return fmt.Sprintf(" (number %d)", s.Number)
}

// priorityParts writes the parts of the priority in points.
func (s *Story) priorityParts() string {
	if len(s.PriorityParts) == 0 {
		return " (the record does not have its parts)"
	}
	list, sum := make([]string, len(s.PriorityParts)), 0.0
	for i, p := range s.PriorityParts {
		list[i] = fmt.Sprintf("%s %.0f", p.Name, p.Points)
		sum += math.RoundToEven(p.Points)
	}
	text := " = " + strings.Join(list, ", ")
	if sum != float64(s.Priority) {
		text += " (rounded)"
	}
	return text
}

// causes has the texts about the cause of a lost run, if no preempting job is known.
var causes = map[hpc.State]string{
	hpc.Preempted: ", preempted", hpc.Requeued: ", requeued by its user or an administrator", hpc.NodeFail: ", as a node failed",
	hpc.BootFail: ", as a node did not boot",
}

// renderParts writes the lost runs, the suspensions and the parts of the wait.
func (s *Story) renderParts(b *bytes.Buffer, zone *time.Location) {
	for _, l := range s.Lost {
		by := causes[l.Cause]
		if l.PreemptedBy != "" {
			by = ", preempted by job " + l.PreemptedBy
		}
		if l.EligibleAgain != 0 {
			by += ", eligible again " + l.EligibleAgain.Text(zone)
		}
		fmt.Fprintf(b, "%-12s %s to %s on %s%s\n", "lost run", l.Start.Text(zone), l.End.Text(zone),
			quantity.Regular(l.Processors, "processor"), by)
	}
	s.renderStops(b, zone)
	for i, p := range s.Parts {
		label := ""
		if i == 0 {
			label = "waited"
		}
		fmt.Fprintf(b, "%-12s %10s  %5.1f%%  %s\n", label, span(p.Seconds), 100*p.Share, p.Part.MeaningIn(s.manifest))
	}
}

// renderStops writes a line for each suspension that let another job start, and one line for the
// sum of all other suspensions. There may be many of these: gang scheduling suspends jobs that
// share nodes every half a minute.
func (s *Story) renderStops(b *bytes.Buffer, zone *time.Location) {
	others, sum := 0, 0.0
	for _, stop := range s.Stops {
		until := cmp.Or(stop.Until, s.End)
		if len(stop.Started) == 0 {
			others, sum = others+1, sum+hpc.Time(cmp.Or(until, s.runEnd)).Sub(hpc.Time(stop.From)).Seconds()
			continue
		}
		fmt.Fprintf(b, "%-12s %s %s: %s started on its nodes\n", "suspended", stop.From.Text(zone), until.toEnd(zone),
			strings.Join(stop.Started, ", "))
	}
	if others > 0 {
		fmt.Fprintf(b, "%-12s %s, %s in all, while nothing started on its nodes: by gang scheduling's time slices or "+
			"by hand\n", "suspended", quantity.Regular(others, "time"), span(sum))
	}
}

// words returns the reason of a span or, without a reason, a text about the span's part.
func (s *Story) words(r *Span) string {
	switch {
	case r.Reason != "":
		return r.Reason
	case r.Part == waits.Unknown:
		return "(no reason recorded)"
	}
	return "(" + r.Part.MeaningIn(s.manifest) + ")"
}

func (c *Crowd) render(b *bytes.Buffer, label, what string) {
	if c.Jobs == 0 {
		return
	}
	fmt.Fprintf(b, "%-12s %s with %s %s; user %s has %d of them\n", label,
		quantity.Regular(c.Jobs, "job"), quantity.Regular(c.Processors, "processor"), what, orNone(c.User), c.UserJobs)
	more := ""
	if c.Jobs > len(c.List) {
		more = ", …"
	}
	fmt.Fprintf(b, "%-12s %s%s\n", "", strings.Join(c.List, ", "), more)
}

// Render writes the stall for people, with dates in a time zone. It returns w's error.
func (s *Stall) Render(w io.Writer, zone *time.Location) error {
	var b bytes.Buffer
	eligible := ""
	if s.Eligible < s.Pending {
		eligible = fmt.Sprintf("; %d of them eligible (%s)", s.Eligible, quantity.Regular(s.EligibleCPUs, "processor"))
	}
	fmt.Fprintf(&b, "at           %s: %s pending (%s)%s, %d running\n", s.At.Text(zone),
		quantity.Regular(s.Pending, "job"), quantity.Regular(s.PendingCPUs, "processor"), eligible, s.Running)
	fmt.Fprintf(&b, "machine      %s in use, jobs on %s\n", of(s.BusyProcessors, s.Processors, "processor"),
		of(s.BusyNodes, s.Nodes, "node"))
	renderCauses(&b, s.Causes, zone)
	if s.Unsized {
		renderUnsized(&b, causesLabel(len(s.Causes) == 0))
	}
	for i, r := range s.Reasons {
		label := ""
		if i == 0 {
			label = "reasons"
		}
		fmt.Fprintf(&b, "%-12s %5d  %s\n", label, r.Jobs, reason(r.Name))
	}
	for i, u := range s.Users {
		label := ""
		if i == 0 {
			label = "users"
		}
		fmt.Fprintf(&b, "%-12s %s: %d pending (%d %s), %d running (%d %s)\n", label, orNone(u.User), u.Pending, u.PendingCPUs, quantity.Plural(u.PendingCPUs, "processor", "processors"), u.Running, u.HeldCPUs, quantity.Plural(u.HeldCPUs, "processor", "processors"))
	}
	_, err := w.Write(b.Bytes())
	return err
}

// of returns the text "n of all things". The parameter all is 0 if the machine's size is unknown.
func of(n, all int, thing string) string {
	if all == 0 {
		return quantity.Regular(n, thing)
	}
	return fmt.Sprintf("%d of %s", n, quantity.Regular(all, thing))
}

// Render writes the groups for people. It returns w's error. The text has no dates.
func (g Groupings) Render(w io.Writer, _ *time.Location) error {
	var b bytes.Buffer
	for i, groups := range g.Groupings {
		if i > 0 {
			b.WriteByte('\n')
		}
		groups.render(&b)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (g *Groups) render(b *bytes.Buffer) {
	for i, group := range g.Groups {
		if i > 0 {
			b.WriteByte('\n')
		}
		name := ""
		if g.By != "" {
			name = string(g.By) + " " + orNone(group.Name) + ": "
		}
		group.render(b, name)
	}
	if g.Omitted > 0 {
		fmt.Fprintf(b, "\nand %s more, whose jobs waited %s hours\n",
			quantity.Regular(g.Omitted, "group"), hours(g.OmittedWait))
	}
}

// hours writes seconds as hours.
func hours(seconds metrics.Float) string { return fmt.Sprintf("%.1f", seconds/3600) }

func (g *Group) render(b *bytes.Buffer, name string) {
	fmt.Fprintf(b, "%-12s %s%s waited %s hours", "group", name, quantity.Regular(g.Waited, "job"), hours(g.Wait))
	if g.Waited > 0 {
		fmt.Fprintf(b, ", on average %s", g.Mean.Clock())
	}
	if g.MeanSinceEligible.Known() {
		fmt.Fprintf(b, "; %s since eligible", g.MeanSinceEligible.Clock())
	}
	b.WriteByte('\n')
	if g.NeverStarted > 0 {
		fmt.Fprintf(b, "%-12s %s, after %s hours in the queue, which do not count below\n", "not started",
			quantity.Regular(g.NeverStarted, "job"), hours(g.NeverStartedWait))
	}
	metrics.RenderWaitParts(b, g.Parts, g.driven)
	causes := quantity.NewTable(22, 9, 9)
	for i, c := range g.Causes {
		if i == 0 {
			b.WriteByte('\n')
			causes.Row("causes", "hours", "share", "   examples")
		}
		causes.Row("  "+cmp.Or(string(c.Kind), "not known"), hours(c.Seconds), c.Share.Percent(),
			fmt.Sprintf("   %s\n      %s", strings.Join(c.Examples, ", "), c.Text))
	}
	if g.OtherCauses > 0 {
		causes.Row("  other causes", hours(g.OtherCauses))
	}
	b.WriteString(causes.String())
	if g.Unsized {
		renderUnsized(b, "  ")
	}
	if g.Looks > 0 {
		fmt.Fprintf(b, "  (waits for nodes are explained at %s)\n", quantity.Regular(g.Looks, "instant"))
	}
	if len(g.Rivals) == 0 {
		return
	}
	held := quantity.NewTable(22, 9, 9)
	held.Row("who held processors", "mean", "share", "   (jobs of the group itself: "+g.OwnShare.Percent()+")")
	for _, r := range g.Rivals {
		held.Row("  "+orNone(r.Name), fmt.Sprintf("%.1f", r.Processors), r.Share.Percent())
	}
	b.WriteString("\n" + held.String())
}

func renderCauses(b *bytes.Buffer, causes []Cause, zone *time.Location) {
	for i, c := range causes {
		label := ""
		if i == 0 {
			label = "causes"
		}
		when := ""
		if c.At != 0 {
			when = " at " + c.At.Text(zone)
		}
		fmt.Fprintf(b, "%-12s %.2f  %s%s: %s\n", label, c.Weight, c.Kind, when, c.Text)
	}
}

// unsized reports whether the size of the machine is not known. Then some causes of waits for nodes are not found.
func unsized(m *run.Manifest) bool { return m.Cluster.Processors == 0 && m.Cluster.Nodes == 0 }

// renderUnsized writes what follows from [unsized], and what to do, with a label and a margin of the same width.
func renderUnsized(b *bytes.Buffer, label string) {
	b.WriteString(label + metrics.NoSize(strings.Repeat(" ", len(label)), "no causes of waits for nodes"))
}

// causesLabel is the label of the first line of causes.
func causesLabel(first bool) string {
	label := ""
	if first {
		label = "causes"
	}
	return fmt.Sprintf("%-12s ", label)
}

func reason(name string) string {
	if name == "" {
		return "(no reason recorded)"
	}
	return name
}

func orNone(name string) string {
	if name == "" {
		return "(none)"
	}
	return name
}

func span(seconds float64) string {
	return hpc.FormatDuration((time.Duration(seconds*1e3) * time.Millisecond).Round(time.Second))
}
