package health

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"rmreplay/internal/accounting/store"
	"rmreplay/internal/rm"
)

const (
	// askTime is the time limit of one sdiag. A busy slurmctld answers late, and clients wait for
	// MessageTimeout, by default 10 s.
	askTime = 30 * time.Second
	// endTime is the time limit for closing the pipes of an sdiag that was killed.
	endTime = time.Second
	// maxOutput is the number of bytes of sdiag's output that are read.
	maxOutput = 16 << 20
)

// Poller requests statistics from one cluster's slurmctld periodically. Set its fields before
// calling [Poller.Run].
type Poller struct {
	Cluster string
	// Command is sdiag, with options that choose the cluster: /opt/slurm/bin/sdiag, or sdiag -M
	// vale.
	Command []string
	Every   time.Duration
	// Add stores figures.
	Add func(ctx context.Context, h store.Health) error
	// Report is called with errors: once when slurmctld stops answering, and once when it answers
	// again.
	Report func(err error)
	// SetSize stores the cluster's size; nil if the size is not needed.
	SetSize func(ctx context.Context, c store.Cluster) error

	text bool           // sdiag's JSON lacks some counters
	last *rm.Statistics // the last answer
	away bool
	// sized is when the size was last requested. unsized is the last reported error about the size.
	sized   time.Time
	unsized string
}

// Run runs sdiag periodically until ctx ends. While slurmctld does not answer, the figures have a
// gap.
func (p *Poller) Run(ctx context.Context) {
	ticker := time.NewTicker(p.Every)
	defer ticker.Stop()
	for {
		p.poll(ctx)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// poll runs sdiag once.
func (p *Poller) poll(ctx context.Context) {
	s, err := p.Ask(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		if !p.away {
			p.Report(fmt.Errorf("the scheduler of %s: %w (the figures have a gap until it answers)", p.Cluster, err))
		}
		p.away = true
		return
	case p.away:
		p.away = false
		p.Report(fmt.Errorf("the scheduler of %s answers again", p.Cluster))
	}
	p.size(ctx)
	if p.last != nil && s.At <= p.last.At {
		return // both answers are of the same second, or the clock was set back
	}
	if err := p.Add(ctx, Between(p.Cluster, p.last, s)); err != nil && ctx.Err() == nil {
		p.Report(fmt.Errorf("the scheduler of %s: %w", p.Cluster, err))
		return
	}
	p.last = s
}

// size requests the cluster's size once every sizeEvery. It reports the same error only once.
func (p *Poller) size(ctx context.Context) {
	if !p.sized.IsZero() && time.Since(p.sized) < sizeEvery {
		return
	}
	p.sized = time.Now()
	err := p.askSize(ctx)
	if err == nil || ctx.Err() != nil {
		p.unsized = ""
		return
	}
	if p.unsized != err.Error() {
		p.unsized = err.Error()
		p.Report(fmt.Errorf("the size of %s: %w (utilization is not in per cent until sinfo answers)", p.Cluster, err))
	}
}

// Ask gets slurmctld's current statistics with sdiag. It prefers sdiag's JSON if the JSON has all
// counters, because the text has rounded means.
func (p *Poller) Ask(ctx context.Context) (*rm.Statistics, error) {
	var first error
	if !p.text {
		out, err := p.run(ctx, p.sdiag("--json"))
		if err == nil {
			var s *rm.Statistics
			if s, err = ParseJSON(out); err == nil {
				return s, nil
			}
		}
		first = err
	}
	out, err := p.run(ctx, p.Command)
	if err != nil {
		return nil, err
	}
	s, err := ParseText(out)
	if err != nil {
		return nil, errors.Join(first, err)
	}
	p.text = true
	return s, nil
}

// sdiag returns the command with additional options.
func (p *Poller) sdiag(options ...string) []string {
	return append(p.Command[:len(p.Command):len(p.Command)], options...)
}

// run runs a command and returns its output.
func (p *Poller) run(ctx context.Context, command []string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askTime, fmt.Errorf("it did not end within %v", askTime))
	defer cancel()
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	stdout, stderr := &limited{maxBytes: maxOutput}, &limited{maxBytes: 4096}
	c.Stdout, c.Stderr, c.WaitDelay = stdout, stderr, endTime
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	err := c.Run()
	if stdout.more {
		return nil, fmt.Errorf("running %s: it printed more than %d bytes", strings.Join(c.Args, " "), maxOutput)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("running %s: %w: %s", strings.Join(c.Args, " "), err, bytes.TrimSpace(stderr.text))
	}
	return stdout.text, nil
}

// limited is a writer that stores the first bytes. When it is full, Write returns an error. A
// program with endless output then ends.
type limited struct {
	maxBytes int
	text     []byte
	more     bool
}

// Write implements [io.Writer].
func (l *limited) Write(text []byte) (int, error) {
	keep := min(len(text), l.maxBytes-len(l.text))
	l.text = append(l.text, text[:keep]...)
	if keep < len(text) {
		l.more = true
		return keep, io.ErrShortWrite
	}
	return keep, nil
}
