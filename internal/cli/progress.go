package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"rmreplay/internal/experiment"
	"rmreplay/internal/hpc"
	"rmreplay/internal/replay"
)

// progress shows the progress of a command: on a terminal as one line that it rewrites,
// elsewhere as a line every few seconds.
type progress struct {
	w        io.Writer
	quiet    bool
	terminal bool
	every    time.Duration // real time between two lines
	zone     *time.Location
	epoch    hpc.Time
	begun    time.Time
	last     time.Time
	open     bool // the terminal's line has not been ended
}

func newProgress(w io.Writer, quiet bool) *progress {
	p := &progress{w: w, quiet: quiet, zone: time.UTC, every: 10 * time.Second, last: time.Now()}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.terminal, p.every = true, 200*time.Millisecond
	}
	return p
}

// say shows a step of the preparation.
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

// hooks returns hooks that show one run.
func (p *progress) hooks() experiment.Hooks {
	return experiment.Hooks{Step: p.say, Begin: p.begin, Progress: p.observe}
}

// begin notes that the workload begins at the virtual instant epoch.
func (p *progress) begin(epoch hpc.Time) {
	now := time.Now()
	p.epoch, p.begun, p.last = epoch, now, now
}

// observe is called with the state of the run after each instant.
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
		n.Now.Std().In(p.zone).Format("2006-01-02 15:04"), 100*shareOf(n), virtual.Seconds()/elapsed.Seconds(), n.Running, n.Pending, n.Ended)
	if n.Refused > 0 {
		fmt.Fprintf(&b, "  rejected %d", n.Refused)
	}
	if s := shareOf(n); s > 0.02 && s < 1 {
		fmt.Fprintf(&b, "  left %v", time.Duration(float64(elapsed)*(1-s)/s).Round(time.Second))
	}
	p.show(b.String())
}

// reading returns a function that shows the share of a file's bytes that has been read. If all
// is 0, it shows the number of jobs read from a database.
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
		p.show(text)
	}
}

// show writes a text: on a terminal it replaces the line, elsewhere it is a new line.
func (p *progress) show(text string) {
	if p.terminal {
		p.line(text)
		return
	}
	p.print(text + "\n")
}

// shareOf estimates the share of a run that is done. It averages the share of inputs played and
// the share of jobs ended: the former is complete before the machine is empty, and the latter
// grows only once the machine is full.
func shareOf(n replay.Progress) float64 {
	if n.Inputs == 0 || n.Submitted == 0 {
		return 0
	}
	inputs := float64(n.InputsDone) / float64(n.Inputs)
	ended := float64(n.Ended+n.Refused) / float64(n.Submitted)
	return inputs * (1 + ended) / 2
}

// line rewrites the terminal's line.
func (p *progress) line(text string) {
	p.print("\r\x1b[K" + text)
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

// setProgress shows the progress of a set of realizations.
type setProgress struct {
	*progress
	mu       sync.Mutex
	total    int
	finished int
	shares   map[int]float64 // of running realizations, by number
}

// setHooks returns hooks that show a set of total realizations.
func (p *progress) setHooks(total int) experiment.SetHooks {
	p.begun, p.last = time.Now(), time.Now()
	s := &setProgress{progress: p, total: total, shares: map[int]float64{}}
	return experiment.SetHooks{
		Of: func(r experiment.Realization) experiment.Hooks {
			return experiment.Hooks{Progress: func(n replay.Progress) { s.observe(r.Number, n) }}
		},
		Ended: func(r experiment.Realization) { s.end(r.Number) },
	}
}

func (s *setProgress) observe(number int, n replay.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shares[number] = shareOf(n)
	s.showAll(false)
}

func (s *setProgress) end(number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.shares, number)
	s.finished++
	s.showAll(true)
}

// showAll shows the progress of the whole set, at once or if the last line is old enough.
func (s *setProgress) showAll(atOnce bool) {
	now := time.Now()
	if s.quiet || !atOnce && now.Sub(s.last) < s.every {
		return
	}
	s.last = now
	sum := float64(s.finished)
	for _, share := range s.shares {
		sum += share
	}
	share := sum / float64(s.total)
	text := fmt.Sprintf("%d of %d realizations done, %d running, %.0f%%", s.finished, s.total, len(s.shares), 100*share)
	if share > 0.02 && share < 1 {
		text += fmt.Sprintf("  left %v", time.Duration(float64(now.Sub(s.begun))*(1-share)/share).Round(time.Second))
	}
	s.show(text)
}
