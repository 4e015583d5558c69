package metrics

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"rmreplay/internal/quantity"
	"slices"
	"strings"
	"time"
)

// Render writes the summary for people. Lines have at most 100 columns, unless a name or a
// warning is longer. Dates are in the given time zone. It returns w's error.
func (s *Summary) Render(w io.Writer, zone *time.Location) error {
	var b bytes.Buffer
	if !s.Valid {
		fmt.Fprintf(&b, "NOT VALID: %s\n", s.Doubt)
	}
	s.renderRun(&b)
	s.renderJobs(&b)
	s.renderMachine(&b)
	s.renderDistributions(&b)
	s.Course.render(&b, zone)
	RenderWaitParts(&b, s.WaitParts, s.Driven)
	s.renderLosses(&b)
	s.IO.render(&b)
	renderReasons(&b, s.Reasons)
	s.renderFairness(&b)
	s.Feedback.render(&b, zone)
	for _, by := range Groupings {
		if groups, ok := s.Groups[by]; ok {
			renderGroups(&b, by, groups)
		}
	}
	s.renderWarnings(&b)
	if s.Recorded != nil {
		b.WriteString("\n")
		RenderVerdict(&b, s.Recorded, zone)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// renderRun writes the engine and the speed of the run.
func (s *Summary) renderRun(b *bytes.Buffer) {
	engine := s.Engine
	if s.Policy != "" {
		engine += " (" + s.Policy + ")"
	}
	valid := "valid"
	if !s.Valid {
		valid = "NOT VALID"
	}
	fmt.Fprintf(b, "run          %s, seed %d, %s, %s\n", engine, s.Seed, s.State, valid)
	fmt.Fprintf(b, "time         %s virtual in %s real", duration(s.VirtualSeconds), duration(s.WallSeconds))
	if s.Speedup.Known() {
		fmt.Fprintf(b, ": %s times real time", number(s.Speedup))
	}
	b.WriteString("\n")
}

// renderJobs writes how many jobs there were and how they ended.
func (s *Summary) renderJobs(b *bytes.Buffer) {
	fmt.Fprintf(b, "jobs         %d", s.Jobs)
	separator := ": "
	for _, state := range sortedStates(s.JobsByState) {
		fmt.Fprintf(b, "%s%d %s", separator, s.JobsByState[state], state)
		separator = ", "
	}
	b.WriteString("\n")
	if s.Rejected > 0 {
		fmt.Fprintf(b, "rejected     %d\n", s.Rejected)
	}
	if s.Requeues+s.Preemptions > 0 {
		fmt.Fprintf(b, "lost runs    %d %s, %d %s: %s processor hours\n", s.Requeues,
			quantity.Plural(s.Requeues, "requeue", "requeues"), s.Preemptions,
			quantity.Plural(s.Preemptions, "preemption", "preemptions"), number(s.InterruptedProcessorSeconds/3600))
	}
	if s.NotSubmitted > 0 {
		fmt.Fprintf(b, "not reached  %d %s of the workload were not submitted\n", s.NotSubmitted,
			quantity.Plural(s.NotSubmitted, "job", "jobs"))
	}
	if len(s.LeftOut) > 0 {
		var parts []string
		for _, reason := range slices.Sorted(maps.Keys(s.LeftOut)) {
			parts = append(parts, fmt.Sprintf("%d %s", s.LeftOut[reason], strings.ReplaceAll(string(reason), "_", " ")))
		}
		fmt.Fprintf(b, "left out     %s (from some of the figures)\n", strings.Join(parts, ", "))
	}
}

// NoSize returns the lines of output that say that something cannot be computed, because the size of the machine is not
// known, and what to do. what says so in a few words. All lines but the first begin with the margin.
func NoSize(margin, what string) string {
	return what + ": the size of the machine is not known. A trace has it as\n" + margin +
		"machine_processors in its first line, an SWF log as MaxProcs in its header\n"
}

// renderMachine writes how the machine was used.
func (s *Summary) renderMachine(b *bytes.Buffer) {
	fmt.Fprintf(b, "makespan     %s\n", duration(s.MakespanSeconds))
	fmt.Fprintf(b, "utilization  %s of processors", percent(s.Utilization))
	s.renderNodes(b)
	if !s.Utilization.Known() && s.MakespanSeconds > 0 {
		const margin = "             "
		b.WriteString(margin + NoSize(margin, "no utilization"))
	}
	if s.LeftRunning != "" {
		fmt.Fprintf(b, "             or more: without %s that ran when the window began, because\n"+
			"             the record names no nodes\n", s.LeftRunning)
	}
	fmt.Fprintf(b, "throughput   %d %s, %s an hour\n", s.Throughput,
		quantity.Plural(s.Throughput, "job", "jobs"), number(s.ThroughputPerHour))
	fmt.Fprintf(b, "queue        %s jobs on average\n", number(s.MeanQueue))
}

// renderNodes adds the utilization of nodes to the line of the utilization.
func (s *Summary) renderNodes(b *bytes.Buffer) {
	idle := number(s.IdleNodeSeconds / 3600)
	switch n := s.LeftOut[NoNodes]; {
	case n > 0:
		fmt.Fprintf(b, "; the use of nodes is not known: the record has no nodes of %s", quantity.Regular(n, "job"))
	case !s.NodeUtilization.Known():
	case s.UnnamedNodes > 0:
		fmt.Fprintf(b, ", at most %s of nodes (at least %s node hours idle):\n"+
			"             the record counts the nodes of %s and does not name them", percent(s.NodeUtilization), idle,
			quantity.Regular(s.UnnamedNodes, "job"))
	default:
		fmt.Fprintf(b, ", %s of nodes (%s node hours idle)", percent(s.NodeUtilization), idle)
	}
	b.WriteByte('\n')
}

// renderDistributions writes the table of waits, turnarounds and slowdowns.
func (s *Summary) renderDistributions(b *bytes.Buffer) {
	table := quantity.NewTable(22, 14, 14, 14, 14, 14)
	table.Row("", "mean", "median", "p90", "p99", "max")
	row := func(name string, d Distribution, format func(Float) string) {
		table.Row(name, format(d.Mean), format(d.Median), format(d.P90), format(d.P99), format(d.Max))
	}
	row("wait", Distribution(s.Wait), clock)
	row("  seconds", Distribution(s.Wait), number)
	row("wait since eligible", Distribution(s.EligibleWait), clock)
	row("turnaround", Distribution(s.Turnaround), clock)
	row("  seconds", Distribution(s.Turnaround), number)
	row("slowdown", Distribution(s.Slowdown), number)
	row("bounded slowdown", Distribution(s.BoundedSlowdown), number)
	without := ""
	if n := s.LeftOut[NoEligible]; n > 0 {
		without = fmt.Sprintf("; the wait since eligible is of %d of %s", s.Waited-n, quantity.Regular(s.Waited, "job"))
	}
	if n := s.LeftOut[ZeroRunTime]; n > 0 {
		without += fmt.Sprintf("; %s ran for 0 s and count in the bounded one only", quantity.Regular(n, "job"))
	}
	fmt.Fprintf(b, "\n%s%22sτ = %s s%s\n", table, "", number(s.TauSeconds), without)
}

// renderGroups writes a table with one line for each group.
func renderGroups(b *bytes.Buffer, by By, groups []Group) {
	table := quantity.NewTable(20, 9, 9, 8, 13, 13, 13, 14)
	table.Row("by "+string(by), "jobs", "rejected", "use", "mean wait", "median wait", "p90 wait", "mean bounded")
	for _, g := range groups {
		name := ShownName(g.Name)
		table.Row(name, g.Jobs, g.Rejected, percent(g.Utilization), clock(g.Wait.Mean), clock(g.Wait.Median),
			clock(g.Wait.P90), number(g.BoundedSlowdown.Mean))
	}
	b.WriteString("\n" + table.String())
	renderGroupParts(b, groups)
}

// renderWarnings writes the warnings. They are the last lines, so that they stay on the screen.
func (s *Summary) renderWarnings(b *bytes.Buffer) {
	if len(s.Warnings) == 0 {
		return
	}
	b.WriteString("\n")
	for _, w := range s.Warnings {
		fmt.Fprintf(b, "warning: %s", w.Text)
		if w.Count > 1 && !strings.HasPrefix(w.Text, fmt.Sprint(w.Count, " ")) {
			fmt.Fprintf(b, " (%d times)", w.Count)
		}
		if w.AffectsResult {
			b.WriteString(" [affects the result]")
		}
		b.WriteString("\n")
	}
}

// unknown is printed for a number without a value.
const unknown = "-"

// duration formats seconds for people: "13:55:53 (50153 s)".
func duration(f Float) string {
	if !f.Known() {
		return unknown
	}
	if math.Abs(float64(f)) < 60 {
		return number(f) + " s"
	}
	return clock(f) + " (" + number(f) + " s)"
}

// clock formats seconds as [days-]hours:minutes:seconds, as Slurm does.
func clock(f Float) string {
	if !f.Known() || math.Abs(float64(f)) > math.MaxInt64/1e9 {
		return unknown
	}
	sign := ""
	if f < 0 {
		sign, f = "-", -f
	}
	s := int64(math.Round(float64(f)))
	text := fmt.Sprintf("%02d:%02d:%02d", s/3600%24, s/60%60, s%60)
	if days := s / int64(24*time.Hour/time.Second); days > 0 {
		text = fmt.Sprintf("%d-%s", days, text)
	}
	return sign + text
}

// number formats a number with a readable number of digits.
func number(f Float) string {
	switch v := float64(f); {
	case !f.Known():
		return unknown
	case math.Abs(v) >= 1e9:
		return fmt.Sprintf("%.4g", v)
	case v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 1000:
		return fmt.Sprintf("%.1f", v)
	case math.Abs(v) < 0.01:
		return fmt.Sprintf("%.2g", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// percent formats a ratio as a percentage.
func percent(f Float) string {
	if !f.Known() {
		return unknown
	}
	return fmt.Sprintf("%.1f%%", 100*float64(f))
}
