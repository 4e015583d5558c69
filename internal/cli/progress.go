package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"rmreplay/internal/experiment"
	"rmreplay/internal/hpc"
	pace "rmreplay/internal/progress"
	"rmreplay/internal/replay"
)

// progress shows the progress of a command: on a terminal as one line that it rewrites and that
// is as wide as the terminal, elsewhere as a line every few seconds.
type progress struct {
	w        io.Writer
	quiet    bool
	terminal *os.File      // nil for anything else
	every    time.Duration // real time between two lines
	zone     *time.Location
	begun    time.Time
	last     time.Time
	sampled  time.Time // when history got its last snapshot
	history  pace.History
	open     bool // the terminal's line has not been ended
}

func newProgress(w io.Writer, quiet bool) *progress {
	p := &progress{w: w, quiet: quiet, zone: time.UTC, every: 10 * time.Second, last: time.Now()}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		p.terminal, p.every = f, sample
	}
	return p
}

// say shows a step of the preparation.
func (p *progress) say(step string) {
	if p.quiet {
		return
	}
	if p.terminal != nil {
		step += " ..."
	}
	p.show(pace.Part{Text: step})
}

// update shows how far a step is.
func (p *progress) update(text string) {
	if !p.quiet && p.due() {
		p.show(pace.Part{Text: text})
	}
}

// hooks returns hooks that show one run.
func (p *progress) hooks() experiment.Hooks {
	return experiment.Hooks{Notice: p.notice, Step: p.say, Begin: p.begin, Progress: p.observe}
}

// notice writes a line that stays.
func (p *progress) notice(text string) {
	if p.quiet {
		return
	}
	p.end()
	p.print("notice: " + text + "\n")
}

// begin notes that the workload begins.
func (p *progress) begin(hpc.Time) {
	p.begun = time.Now()
	p.last = p.begun
}

// observe is called with the state of the run after each instant.
func (p *progress) observe(n replay.Progress) {
	now := time.Now()
	if p.quiet || now.Sub(p.sampled) < sample {
		return
	}
	p.sampled = now
	s := pace.Snapshot{Elapsed: now.Sub(p.begun), Progress: n}
	p.history.Add(s)
	if p.due() {
		left, known := p.history.Left()
		p.show(pace.Parts(&s, p.zone, left, known)...)
	}
}

// sample is the real time between two snapshots of a run.
const sample = 200 * time.Millisecond

// due reports whether the last line is old enough for a new one.
func (p *progress) due() bool {
	now := time.Now()
	if now.Sub(p.last) < p.every {
		return false
	}
	p.last = now
	return true
}

// reading returns a function that shows the share of a file's bytes that has been read. If all
// is 0, it shows the number of jobs read from a database.
func (p *progress) reading(name string) func(done, all int64) {
	return func(done, all int64) {
		if p.quiet || !p.due() {
			return
		}
		text := fmt.Sprintf("reading %s: %d", name, done)
		if all > 0 {
			text = fmt.Sprintf("reading %s: %.0f %% of %d MiB", name, 100*float64(done)/float64(all), all>>20)
		}
		p.show(pace.Part{Text: text})
	}
}

// show writes a line. On a terminal it replaces the line before, and leaves out parts that are
// wider than the terminal is now: a line that wraps could not be replaced.
func (p *progress) show(parts ...pace.Part) {
	if p.terminal == nil {
		p.print(pace.Fit(0, parts...) + "\n")
		return
	}
	width, _, err := term.GetSize(int(p.terminal.Fd()))
	if err != nil || width <= 0 {
		width = 80
	}
	p.print("\r\x1b[K" + pace.Fit(max(1, width-1), parts...))
	p.open = true
}

// end removes the terminal's line.
func (p *progress) end() {
	if p.open {
		p.print("\r\x1b[K")
		p.open = false
	}
}

// print writes to the display. It ignores errors: a closed display stops no run.
func (p *progress) print(text string) { _, _ = io.WriteString(p.w, text) }

// setHooks returns hooks that show a set of total realizations, of which so many run at once.
func (p *progress) setHooks(total, parallel int) experiment.SetHooks {
	p.begin(0)
	var mu sync.Mutex
	set := pace.NewSet(total, parallel)
	note := func(atOnce bool, change func(now time.Time)) {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		change(now)
		if !p.quiet && (atOnce || p.due()) {
			p.show(set.Parts(now)...)
		}
	}
	return experiment.SetHooks{
		Of: func(r experiment.Realization) experiment.Hooks {
			note(false, func(now time.Time) { set.Begin(r.Number, now) })
			one := experiment.Hooks{Progress: func(n replay.Progress) {
				note(false, func(now time.Time) { set.Observe(r.Number, now, &n) })
			}}
			if r.Number == 1 { // what is foreseen is the same for all
				one.Notice = func(text string) {
					mu.Lock()
					defer mu.Unlock()
					p.notice(text)
				}
			}
			return one
		},
		Ended: func(r experiment.Realization) { note(true, func(now time.Time) { set.End(r.Number, now) }) },
	}
}
