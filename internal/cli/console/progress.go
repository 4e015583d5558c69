package console

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"rmreplay/internal/inert"
	pace "rmreplay/internal/progress"
)

// Progress shows the progress of a command. On a terminal it rewrites one line, which is as wide as
// the terminal. Elsewhere it writes a line every ten seconds. Its methods are not safe for
// concurrent use.
type Progress struct {
	w        io.Writer
	quiet    bool
	terminal *os.File // nil if the output is not a terminal
	last     time.Time
	open     bool // the terminal shows a line that has not been ended
	// Every is the real time between two lines.
	Every time.Duration
}

// Sample is the shortest real time between two samples of progress, and between two lines on a terminal.
const Sample = 200 * time.Millisecond

// Progress returns a new display of progress on standard error. If quiet is true, the display shows
// nothing.
func (o Output) Progress(quiet bool) *Progress {
	p := &Progress{w: o.Stderr, quiet: quiet, Every: 10 * time.Second, last: time.Now()}
	if f, ok := o.Stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		p.terminal, p.Every = f, Sample
	}
	return p
}

// Quiet reports whether the display shows nothing.
func (p *Progress) Quiet() bool { return p.quiet }

// OnTerminal reports whether the display is a line that is rewritten.
func (p *Progress) OnTerminal() bool { return p.terminal != nil }

// Step shows a step of the preparation.
func (p *Progress) Step(step string) {
	if p.quiet {
		return
	}
	if p.terminal != nil {
		step += " ..."
	}
	p.Show(pace.Part{Text: step})
}

// Update shows how far a step is, if a new line is due.
func (p *Progress) Update(text string) {
	if !p.quiet && p.Due() {
		p.Show(pace.Part{Text: text})
	}
}

// Notice writes a line that stays.
func (p *Progress) Notice(text string) {
	if !p.quiet {
		p.Line("notice: " + text)
	}
}

// Line writes a line that stays, also if the display is quiet.
func (p *Progress) Line(text string) {
	p.End()
	p.print(inert.Lines(text) + "\n")
}

// Begin begins a step. The step's first line is due after the usual interval, not at once.
func (p *Progress) Begin() { p.last = time.Now() }

// Due reports whether the last line is old enough that a new line may follow.
func (p *Progress) Due() bool {
	now := time.Now()
	if now.Sub(p.last) < p.Every {
		return false
	}
	p.last = now
	return true
}

// Reading returns a function that shows the share of a file's bytes that has been read. If the
// function's parameter all is 0, it shows the number of jobs read from a database.
func (p *Progress) Reading(name string) func(done, all int64) {
	return func(done, all int64) {
		if p.quiet || !p.Due() {
			return
		}
		text := fmt.Sprintf("reading %s: %d", name, done)
		if all > 0 {
			text = fmt.Sprintf("reading %s: %.0f %% of %d MiB", name, 100*float64(done)/float64(all), all>>20)
		}
		p.Show(pace.Part{Text: text})
	}
}

// Show writes a line, even if the last line is recent. On a terminal the line replaces the previous
// line. Show leaves out parts that the terminal is too narrow for: a line that wraps could not be
// replaced.
func (p *Progress) Show(parts ...pace.Part) {
	if p.terminal == nil {
		p.print(inert.Line(pace.Fit(0, parts...)) + "\n")
		return
	}
	width, _, err := term.GetSize(int(p.terminal.Fd()))
	if err != nil || width <= 0 {
		width = 80
	}
	p.print("\r\x1b[K" + inert.Line(pace.Fit(max(1, width-1), parts...)))
	p.open = true
}

// End removes the terminal's line.
func (p *Progress) End() {
	if p.open {
		p.print("\r\x1b[K")
		p.open = false
	}
}

// print writes to the display. It ignores errors, so a run continues when its display is closed.
func (p *Progress) print(text string) { _, _ = io.WriteString(p.w, text) }
