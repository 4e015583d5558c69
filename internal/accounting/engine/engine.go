// Package engine sends queries to engines: separate processes that read Parquet files with DuckDB
// (package duckdb). Engines store no data, so each engine can be ended at any time. This package
// neither links DuckDB nor needs cgo.
//
// One question ([Pool.Read]) has one engine to itself. It begins in the quick lane. After
// [Options.Quick] it continues in the slow lane, which has fewer engines and a lower CPU priority.
// If the slow lane is full, the question is aborted, waits, and starts again there. So short
// questions soon get an engine and a processor, even among many long questions.
//
// At [Options.Limit] the engine is interrupted, and killed if it does not stop. If an engine uses
// too much memory, its question is ended by DuckDB's own limit, by the kernel, or by the pool,
// which watches the memory of all engines together.
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
	// Program is the command that runs an engine. The default is rmreplay-engine, in the directory of the running program
	// or, if it is not there, in PATH.
	Program []string
	// Dirs are the directories that queries may read.
	Dirs []string
	// Temp is a directory to which queries may spill, up to 8 times MemoryMiB each; empty forbids
	// spilling.
	Temp string
	// MemoryMiB limits the memory of all engines together, in MiB; 0 means 256. The smallest limit is
	// 64.
	MemoryMiB int
	// Engines is the highest number of processes; 0 means 4. There are fewer processes if MemoryMiB
	// does not suffice.
	Engines int
	// Threads is the number of processors that one engine uses; 0 means all.
	Threads int
	// Quick is the CPU time after which a question leaves the quick lane; 0 means 300 ms. The
	// question stays there for at least as much real time, and for at most 4 times as much.
	Quick time.Duration
	// Limit is the time limit of a question, including its waiting; 0 means 10 s.
	Limit time.Duration
	// AnswerMiB limits the size of the answers to one question, in MiB; 0 means 64.
	AnswerMiB int
	// Asked is called after each question with its duration, including its waiting, and its error.
	// It may be nil.
	Asked func(took time.Duration, err error)
	// Attach is an old DuckDB database that engines open read-only as the schema old; empty without
	// such a database.
	Attach string
}

// idleMiB is the memory of an engine between questions. minMiB is the smallest limit for all
// engines. Both are in MiB. On two processors, a new engine had 5 MiB of anonymous memory, and 8
// MiB after panels over 20 parts.
const (
	idleMiB = 12
	minMiB  = 64
)

// grace is the time in which an engine must end a query after an interrupt. Some of DuckDB's
// functions check for interrupts only between vectors of 2,048 rows.
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
	o.MemoryMiB = max(o.MemoryMiB, minMiB)
	// Two engines suffice for both lanes. Each further engine must have enough memory for its work.
	o.Engines = max(1, min(o.Engines, max(2, o.MemoryMiB/(idleMiB+16))))
	if o.Quick == 0 {
		o.Quick = 300 * time.Millisecond
	}
	if o.Limit == 0 {
		o.Limit = 10 * time.Second
	}
}

// slow returns the number of engines in the slow lane.
func (o *Options) slow() int { return max(1, o.Engines-2) }

// Tables describes one version of the tables for questions.
type Tables struct {
	// Version identifies the version. When it changes, an engine creates its views again.
	Version uint64
	// Setup has the statements that create all views, as temporary views. The views of other versions
	// are removed first.
	Setup []string
}

// Pool manages the engines. Its methods may be called from several goroutines.
type Pool struct {
	opts  Options
	lanes *lanes
	stop  chan struct{} // closed by Close

	mu     sync.Mutex
	closed bool
	idle   []*process
	live   map[*process]bool
	tables Tables // tables of the last question; a new engine creates their views at its start
	number int    // number of the last process, for names of temporary directories
	ending sync.WaitGroup
}

// New returns a pool. Engines are started on demand.
func New(opts Options) *Pool {
	opts.complete()
	p := &Pool{opts: opts, stop: make(chan struct{}), live: map[*process]bool{}}
	p.lanes = newLanes(opts.Engines, opts.slow())
	p.sweep()
	p.ending.Add(1)
	go p.watch()
	return p
}

// tempPrefix begins the names of the engines' temporary directories. It is followed by the process
// id of this program.
const tempPrefix = "engine-"

// sweep removes temporary directories that other processes left behind when they ended.
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

// Close kills all engines and waits until they have ended. Questions in progress fail.
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

// Questioner sends the queries of one question.
type Questioner struct {
	ctx  context.Context
	conn *sql.Conn
}

// Query runs a query. The caller closes the rows. Values must be in args, never in the query's
// text. Values of the answer have the types of DuckDB's driver for Go, except that a DECIMAL is a
// float64.
func (q *Questioner) Query(query string, args ...any) (*sql.Rows, error) {
	return q.conn.QueryContext(q.ctx, query, args...)
}

// Scan runs a query and scans its only row. The parameter to contains pointers to the variables
// for the columns. The error is sql.ErrNoRows if the answer has no row.
func (q *Questioner) Scan(query string, args []any, to ...any) error {
	return q.conn.QueryRowContext(q.ctx, query, args...).Scan(to...)
}

// Read calls the function do, which runs queries on one version of the tables. If the question
// must move to the slow lane and this lane is full, Read calls the function again from the
// beginning. So the function must set its results and not add to them. After it has returned, the
// function must not use the questioner. Errors wrap the errors of this package.
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

// attempt runs the question once. If the engine ended before the question began, attempt tries one
// more engine.
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

// with calls serve, which uses an engine. It then gives the engine back, even if serve panics.
func (p *Pool) with(e *process, serve func() (bool, error)) (begun bool, err error) {
	defer p.giveBack(e)
	return serve()
}

// take returns an engine for a question: an idle engine or a new one.
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

// giveBack is called after a question. It keeps the engine for the next question, or kills the engine if it cannot be
// used again. It also makes sure that an idle engine is ready.
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
		// If an engine cannot start, the next question fails with the reason.
		if e, err := p.start(); err == nil {
			p.idle = append(p.idle, e)
		}
	}
}
