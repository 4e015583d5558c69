package progress

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"rmreplay/internal/replay"
)

// Part is a part of a line. Parts with higher ranks are left out first.
type Part struct {
	Rank int
	Text string
}

// Fit joins the parts that are not empty in their order. If width is above 0, Fit leaves parts out so that the line has
// at most width characters. If the last remaining part is still too long, Fit shortens it.
func Fit(width int, parts ...Part) string {
	const between = "  "
	parts = slices.DeleteFunc(slices.Clone(parts), func(p Part) bool { return p.Text == "" })
	shown := make([]bool, len(parts))
	length, best := -len(between), 0
	for rank := 0; rank <= highest(parts); rank++ {
		for i, p := range parts {
			if p.Rank != rank {
				continue
			}
			if n := length + len(between) + utf8.RuneCountInString(p.Text); width <= 0 || n <= width {
				shown[i], length = true, n
			}
		}
	}
	var texts []string
	for i, p := range parts {
		if shown[i] {
			texts = append(texts, p.Text)
		}
		if p.Rank < parts[best].Rank {
			best = i
		}
	}
	if len(texts) == 0 && len(parts) > 0 {
		return shorten(parts[best].Text, width)
	}
	return strings.Join(texts, between)
}

func highest(parts []Part) (rank int) {
	for _, p := range parts {
		rank = max(rank, p.Rank)
	}
	return rank
}

// shorten cuts a text to a width.
func shorten(text string, width int) string {
	runes := []rune(text)
	if len(runes) <= width {
		return text
	}
	return string(runes[:max(0, width-1)]) + "…"
}

// Parts describes the progress of a run after some real time. Virtual time is in the given time
// zone. The parameter left is the run's remaining time.
func Parts(s *Snapshot, zone *time.Location, left Estimate) []Part {
	p := &s.Progress
	parts := []Part{
		{3, p.Now.Std().In(zone).Format("2006-01-02 15:04")},
		{0, fmt.Sprintf("%3.0f%%", 100*Share(p))},
		beforeWindow(p, zone),
		{4, fmt.Sprintf("ended %d of %d", p.Ended, p.Tasks)},
		utilization(p),
		{5, fmt.Sprintf("%.0fx", p.Now.Sub(p.Begin).Seconds()/max(1e-3, s.Elapsed.Seconds()))},
		{6, fmt.Sprintf("running %d", p.Running)},
		{6, fmt.Sprintf("pending %d", p.Pending)},
	}
	if p.Refused > 0 {
		parts = append(parts, Part{5, fmt.Sprintf("rejected %d", p.Refused)})
	}
	return append(parts, Remaining(left, Share(p) < 1))
}

// beforeWindow says that a run plays the time before its window, and when the window begins.
func beforeWindow(p *replay.Progress, zone *time.Location) Part {
	if p.Now >= p.Window {
		return Part{}
	}
	return Part{2, "before the window (" + p.Window.Std().In(zone).Format("2006-01-02 15:04") + ")"}
}

// utilization returns a text about the share of the processors that jobs use.
func utilization(p *replay.Progress) Part {
	if p.Processors == 0 {
		return Part{}
	}
	return Part{2, fmt.Sprintf("utilization %.0f%%", 100*float64(p.Held)/float64(p.Processors))}
}

// Remaining is the part about the time that is left. It is empty if nothing is left, if the time
// is unknown, and if the time is a lower bound of less than a second.
func Remaining(e Estimate, something bool) Part {
	if !something || !e.Known || e.AtLeast && e.Left < time.Second {
		return Part{}
	}
	round := time.Second
	if e.Left > 10*time.Minute {
		round = time.Minute
	}
	text := e.Left.Round(round).String()
	if round == time.Minute {
		text = strings.TrimSuffix(text, "0s")
	}
	if e.AtLeast {
		text = "at least " + text
	}
	return Part{1, "left " + text}
}
