// Package engine asks queries of engines: processes of their own that read Parquet files with DuckDB
// (package duckdb) and hold nothing, so that any of them can be ended at any time. It neither links
// DuckDB nor needs cgo.
//
// One question ([Pool.Read]) has one engine to itself. It begins in the quick lane. After
// [Options.Quick] it goes on in the slow lane, which has fewer engines and a lower CPU priority. If
// the slow lane is full, the question ends, waits, and begins again there. So plain questions find an
// engine and a processor soon, whatever else is asked.
//
// At [Options.Limit] the engine is interrupted, and killed if it does not end then. A question whose
// engine uses too much memory is ended by DuckDB's own limit, by the kernel, or by the pool, which
// watches the memory of all engines together.
package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Options configures [New].
type Options struct {
	// Program is the command that runs an engine. By default it is rmreplay-engine, beside the running
	// program or else in PATH.
	Program []string
	// Dirs are the directories that queries may read.
	Dirs []string
	// Temp is a directory for what queries spill, up to 8 times MemoryMiB each; empty forbids that.
	Temp string
	// MemoryMiB bounds the memory of all engines together, in MiB; 0 means 256. Less than 64 counts as 64.
	MemoryMiB int
	// Engines is how many processes run at most; 0 means 4. Fewer run if MemoryMiB has no room for them.
	Engines int
	// Threads is how many processors one engine uses; 0 means all.
	Threads int
	// Quick is the processor time after which a question leaves the quick lane; 0 means 300 ms. The
	// question stays at least as long by the clock, and at most 4 times as long.
	Quick time.Duration
	// Limit bounds a question, its waiting included; 0 means 10 s.
	Limit time.Duration
	// AnswerMiB bounds the answers to one question, in MiB; 0 means 64.
	AnswerMiB int
	// Asked is told of each question when it has ended: how long it took, its waiting included, and its error. It may
	// be nil.
	Asked func(took time.Duration, err error)
	// Attach is an old DuckDB database, which engines open read-only as schema old; empty for none.
	Attach string
}

// The memory of an engine between questions, and the least for all engines, in MiB. Measured on two
// processors, a new engine has 5 MiB that are not of files, and 8 MiB after panels over 20 parts.
const (
	idleMiB  = 12
	leastMiB = 64
)

// grace is what an engine has to end a query after an interrupt. Some of DuckDB's functions look for
// interrupts only between vectors of 2,048 rows.
const grace = 100 * time.Millisecond

func (o *Options) complete() {
	set := func(n *int, value int) {
		if *n == 0 {
			*n = value
		}
	}
	set(&o.MemoryMiB, 256)
	set(&o.Engines, 4)
	set(&o.AnswerMiB, 64)
	o.MemoryMiB = max(o.MemoryMiB, leastMiB)
	// Two engines keep the lanes apart; more of them need room for their work.
	o.Engines = max(1, min(o.Engines, max(2, o.MemoryMiB/(idleMiB+16))))
	if o.Quick == 0 {
		o.Quick = 300 * time.Millisecond
	}
	if o.Limit == 0 {
		o.Limit = 10 * time.Second
	}
}

// slow is how many engines the slow lane has.
func (o *Options) slow() int { return max(1, o.Engines-2) }

// Tables is one version of the tables that questions are about.
type Tables struct {
	// Version tells versions apart. An engine makes the views again when it changes.
	Version uint64
	// Setup makes all views, as temporary ones. When it runs, there is no view of another version.
	Setup []string
}

// Pool has the engines. Its methods may be called from several goroutines.
type Pool struct {
	opts  Options
	lanes *lanes
	stop  chan struct{} // closed by Close

	mu     sync.Mutex
	closed bool
	idle   []*process
	live   map[*process]bool
	tables Tables // of the last question, for new engines
	number int    // of the last process, for the names of temporary directories
	ending sync.WaitGroup
}

// New returns a pool. Engines start when they are needed.
func New(opts Options) *Pool {
	opts.complete()
	p := &Pool{opts: opts, stop: make(chan struct{}), live: map[*process]bool{}}
	p.lanes = newLanes(opts.Engines, opts.slow())
	p.sweep()
	p.ending.Add(1)
	go p.watch()
	return p
}

// tempPrefix begins the names of the engines' temporary directories. The number of the process that
// made them follows.
const tempPrefix = "engine-"

// sweep removes temporary directories of processes that ended without doing so.
func (p *Pool) sweep() {
	if p.opts.Temp == "" {
		return
	}
	left, _ := filepath.Glob(filepath.Join(p.opts.Temp, tempPrefix+"*"))
	for _, dir := range left {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), tempPrefix), "-")
		pid, err := strconv.Atoi(owner)
		if err == nil && pid > 0 && pid != os.Getpid() && errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			_ = os.RemoveAll(dir)
		}
	}
}

// Close ends all engines at once and waits until they have ended. Questions that are under way fail.
func (p *Pool) Close() {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.stop)
	}
	for e := range p.live {
		e.kill(ErrClosed)
	}
	p.mu.Unlock()
	p.ending.Wait()
}

// Questioner asks the queries of one question.
type Questioner struct {
	ctx  context.Context
	conn *sql.Conn
}

// Query asks a query. The caller closes the rows. Values go into args, never into the query's text.
// Values arrive as DuckDB's driver for Go has them, but a DECIMAL as a float64.
func (q *Questioner) Query(query string, args ...any) (*sql.Rows, error) {
	return q.conn.QueryContext(q.ctx, query, args...)
}

// One asks a query of one row and scans it into the variables that to points to. The error of an
// answer without a row is sql.ErrNoRows.
func (q *Questioner) One(query string, args []any, to ...any) error {
	return q.conn.QueryRowContext(q.ctx, query, args...).Scan(to...)
}

// Read calls do to ask queries over one version of the tables. It calls do again, from the beginning, if
// the question has to move to the slow lane while that lane is full: do must set what it returns, not add
// to it. Errors of Read wrap those of this package. The questioner is of no use after do has returned.
func (p *Pool) Read(ctx context.Context, tables Tables, do func(q *Questioner) error) (err error) {
	limit := fmt.Errorf("%w (limit %v)", ErrTime, p.opts.Limit)
	ctx, cancel := context.WithTimeoutCause(ctx, p.opts.Limit, limit)
	defer cancel()
	begin := time.Now()
	defer func() {
		if err != nil {
			err = fmt.Errorf("asking the query engine: %w", err)
		}
		if p.opts.Asked != nil {
			p.opts.Asked(time.Since(begin), err)
		}
	}()
	s, err := p.lanes.enter(ctx)
	if err != nil {
		return err
	}
	defer s.leave()
	for {
		err := p.attempt(ctx, tables, s, do)
		if !errors.Is(err, errMoved) {
			return err
		}
		if err := s.wait(ctx); err != nil {
			return err
		}
	}
}

// attempt asks the question once. An engine that has ended before the question began is replaced once.
func (p *Pool) attempt(ctx context.Context, tables Tables, s *seat, do func(q *Questioner) error) error {
	for again := true; ; again = false {
		e, err := p.take(tables)
		if err != nil {
			return err
		}
		begun, err := p.with(e, func() (bool, error) { return e.serve(ctx, tables, s, do) })
		if begun || !again || !errors.Is(err, ErrEnded) || errors.Is(err, ErrMemory) {
			return err
		}
	}
}

// with calls serve with an engine, which it gives back also if serve panics.
func (p *Pool) with(e *process, serve func() (bool, error)) (begun bool, err error) {
	defer p.giveBack(e)
	return serve()
}

// take returns an engine without a question: an idle one, or a new one.
func (p *Pool) take(tables Tables) (*process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tables = tables
	for n := len(p.idle); n > 0; n = len(p.idle) {
		e := p.idle[n-1]
		p.idle = p.idle[:n-1]
		if e.alive() {
			e.hold()
			return e, nil
		}
	}
	e, err := p.start()
	if err == nil {
		e.hold()
	}
	return e, err
}

// giveBack takes an engine after a question. An engine that is of no more use is ended. An idle
// engine is kept ready for the next question.
func (p *Pool) giveBack(e *process) {
	keep := e.rest()
	if !keep {
		e.kill(nil)
	}
	e.release()
	p.mu.Lock()
	defer p.mu.Unlock()
	if keep && e.alive() {
		p.idle = append(p.idle, e)
		return
	}
	if len(p.idle) == 0 && !p.closed {
		// An engine that cannot start fails the next question, with the reason.
		if e, err := p.start(); err == nil {
			p.idle = append(p.idle, e)
		}
	}
}
