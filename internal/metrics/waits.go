package metrics

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/quantity"
	"rmreplay/internal/waits"
)

// waitParts sum up the parts of waits.
type waitParts [len(waits.Sums{}.Parts)]struct {
	jobs int
	sum  area
}

func (w *waitParts) add(s *waits.Sums) {
	for i, d := range s.Parts {
		if d > 0 {
			w[i].jobs++
			w[i].sum.add(d, 1)
		}
	}
}

// list returns the parts that are not 0, the largest first. The parameter jobs is the number of
// jobs with a wait.
func (w *waitParts) list(jobs int) []WaitPart {
	all := 0.0
	list := []WaitPart{}
	for i, part := range waits.Parts {
		if w[i].jobs == 0 {
			continue
		}
		seconds := w[i].sum.seconds()
		all += seconds
		list = append(list, WaitPart{Part: part, Jobs: w[i].jobs, Seconds: Float(seconds), Mean: ratio(seconds, float64(jobs))})
	}
	for i := range list {
		list[i].Share = ratio(float64(list[i].Seconds), all)
	}
	slices.SortStableFunc(list, func(a, b WaitPart) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return list
}

// MeanPart returns the mean of a part of the wait over jobs, in seconds. It is NaN if no job has a
// wait.
func (m *Metrics) MeanPart(part waits.Part) Float {
	if m.Waited == 0 {
		return NoValue()
	}
	for _, p := range m.WaitParts {
		if p.Part == part {
			return p.Mean
		}
	}
	return 0
}

// WaitFigures are means that compare why jobs waited: the wait since jobs were eligible, and the
// parts of the wait. The parts add up to the mean wait.
var WaitFigures = func() []Figure {
	list := []Figure{{
		"mean_wait_since_eligible_s", "wait since eligible", "s", Lower, func(m *Metrics) Float { return m.EligibleWait.Mean },
		"the part of the wait after dependencies, begin times and holds, on average over jobs",
	}}
	for _, part := range waits.Parts {
		meaning := part.Meaning()
		if part == waits.Priority {
			meaning += " (in a run without priorities, " + waits.Ahead + ")"
		}
		list = append(list, Figure{
			"mean_wait_" + string(part) + "_s", "wait: " + part.Words(), "s", Lower,
			func(m *Metrics) Float { return m.MeanPart(part) }, "waiting " + meaning + ", on average over jobs",
		})
	}
	return list
}()

// RenderWaitParts writes the table of the parts of waits, and [waits.OnlyHeld] below it for a [waits.Driven] run.
func RenderWaitParts(b *bytes.Buffer, list []WaitPart, driven bool) {
	if len(list) == 0 {
		return
	}
	table := quantity.NewTable(22, 9, 16, 9, 14)
	table.Row("why jobs waited", "jobs", "waited", "share", "mean wait")
	for _, p := range list {
		table.Row("  "+p.Part.Words(), p.Jobs, clock(p.Seconds), percent(p.Share), clock(p.Mean))
	}
	b.WriteString("\n" + table.String())
	if driven {
		b.WriteString("  (" + strings.Replace(waits.OnlyHeld, ": ", ":\n   ", 1) + ")\n")
	}
}

// listedParts is the largest number of parts that a line of a group names.
const listedParts = 4

// groupParts returns the parts of a group's waits with their shares, the largest first. If there are more than
// [listedParts], the last entry has the number of the smallest parts and their sum.
func groupParts(list []WaitPart) string {
	named := len(list)
	if named > listedParts {
		named = listedParts - 1
	}
	var parts []string
	for _, p := range list[:named] {
		parts = append(parts, p.Part.Words()+" "+percent(p.Share))
	}
	if others := list[named:]; len(others) > 0 {
		rest := Float(0)
		for _, p := range others {
			rest += p.Share
		}
		parts = append(parts, fmt.Sprintf("%d others %s", len(others), percent(rest)))
	}
	return cmp.Or(strings.Join(parts, ", "), unknown)
}

// renderGroupParts writes a line for each group with the mean wait since jobs were eligible, its lost processor
// hours, their share of its processor hours, and the parts of all waits ([groupParts]).
func renderGroupParts(b *bytes.Buffer, groups []Group) {
	table := quantity.NewTable(20, 20, 12, 8)
	table.Row("  why", "eligible mean wait", "lost hours", "lost", "   parts of all waits")
	for _, g := range groups {
		name := ShownName(g.Name)
		table.Row("  "+name, clock(g.EligibleWait.Mean), number(g.Lost()/3600), percent(g.LostShare()),
			"   "+groupParts(g.WaitParts))
	}
	b.WriteString(table.String())
}
