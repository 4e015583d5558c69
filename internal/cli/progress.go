package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"rmreplay/internal/hpc"
	"rmreplay/internal/replay"
)

// progress shows how far a replay has come: one line that is written again and again
// on a terminal, a line now and then elsewhere.
type progress struct {
	w        io.Writer
	quiet    bool
	terminal bool
	every    time.Duration // real time between two lines
	epoch    hpc.Time
	begun    time.Time
	last     time.Time
	open     bool      // the terminal's line has no end yet
	set      *together // of several replays at once; else nil
}

// replayDisplay is told how a replay comes along.
type replayDisplay interface {
	say(step string)
	begin(epoch hpc.Time, now time.Time)
	observe(n replay.Progress)
}

func newProgress(w io.Writer, quiet bool) *progress {
	p := &progress{w: w, quiet: quiet, every: 10 * time.Second, last: time.Now()}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.terminal, p.every = true, 200*time.Millisecond
	}
	return p
}

// say reports a step of the preparation.
func (p *progress) say(step string) {
	if p.quiet {
		return
	}
	if p.terminal {
		p.line(step + " ...")
		return
	}
	p.print(step + "\n")
}

// begin says that the workload begins at the virtual instant epoch.
func (p *progress) begin(epoch hpc.Time, now time.Time) {
	p.epoch, p.begun, p.last = epoch, now, now
}

// observe takes the state of the replay after each instant.
func (p *progress) observe(n replay.Progress) {
	if p.quiet {
		return
	}
	now := time.Now()
	if now.Sub(p.last) < p.every {
		return
	}
	p.last = now
	virtual, elapsed := n.Now.Sub(p.epoch), now.Sub(p.begun)
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %3.0f%%  %.0fx  running %d  pending %d  ended %d",
		n.Now.Std().Format("2006-01-02 15:04"), 100*p.share(n), virtual.Seconds()/elapsed.Seconds(), n.Running, n.Pending, n.Ended)
	if n.Refused > 0 {
		fmt.Fprintf(&b, "  rejected %d", n.Refused)
	}
	if s := p.share(n); s > 0.02 && s < 1 {
		fmt.Fprintf(&b, "  left %v", time.Duration(float64(elapsed)*(1-s)/s).Round(time.Second))
	}
	if p.terminal {
		p.line(b.String())
		return
	}
	p.print(b.String() + "\n")
}

// count shows how many of some equal parts of the work are done.
func (p *progress) count(what string, done, all int) {
	now := time.Now()
	if p.quiet || now.Sub(p.last) < p.every {
		return
	}
	p.last = now
	text := fmt.Sprintf("%s: %d of %d", what, done, all)
	if p.terminal {
		p.line(text)
		return
	}
	p.print(text + "\n")
}

// reading is told how far a file has been read, or how many jobs of a database, of which
// nobody knows how many there are.
func (p *progress) reading(name string) func(done, all int64) {
	return func(done, all int64) {
		now := time.Now()
		if p.quiet || now.Sub(p.last) < p.every {
			return
		}
		p.last = now
		text := fmt.Sprintf("reading %s: %d", name, done)
		if all > 0 {
			text = fmt.Sprintf("reading %s: %.0f %% of %d MiB", name, 100*float64(done)/float64(all), all>>20)
		}
		if p.terminal {
			p.line(text)
			return
		}
		p.print(text + "\n")
	}
}

// share is how much of the replay is done: the mean of inputs done and jobs ended, for
// neither alone tells of both the filling and the emptying of the machine.
func (p *progress) share(n replay.Progress) float64 {
	if n.Inputs == 0 || n.Submitted == 0 {
		return 0
	}
	inputs := float64(n.InputsDone) / float64(n.Inputs)
	ended := float64(n.Ended+n.Refused) / float64(n.Submitted)
	return inputs * (1 + ended) / 2
}

// line writes the terminal's line anew.
func (p *progress) line(text string) {
	p.print("\r\x1b[K" + text)
	p.open = true
}

// end ends the terminal's line.
func (p *progress) end() {
	if p.open {
		p.print("\r\x1b[K")
		p.open = false
	}
}

// print writes to the display. A display that is gone stops no replay.
func (p *progress) print(text string) { _, _ = io.WriteString(p.w, text) }
