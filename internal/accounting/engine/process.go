package engine

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"rmreplay/internal/accounting/engine/wire"
	"rmreplay/internal/procfs"
)

// process is an engine. Only one question at a time uses it; the fields after db belong to this
// question.
type process struct {
	pool   *Pool
	cmd    *exec.Cmd
	said   tail // the end of its standard error
	temp   string
	memory *procfs.Memory

	out    *wire.Writer
	in     *wire.Reader
	pipes  [2]*os.File   // the ends of the pipes that this program uses
	sent   chan struct{} // closed when the first frames have been written
	warm   bool          // the first frames include a Begin
	ended  chan struct{} // closed when the process is reaped
	status error         // exit status of the process

	pending atomic.Uint64 // number of the unfinished request, or 0
	asked   atomic.Bool   // the engine works on a question

	mu     sync.Mutex
	held   int   // number of users of the pipes
	reaped bool  // another process may have the process id now
	reason error // why it was killed
	niced  bool

	db      *sql.DB
	ready   bool // the answers to the first frames have been read
	has     bool // the engine has the tables with this version
	version uint64
	number  uint64 // number of the last request
	faulty  bool   // the engine must not be used again
	failure error  // a failure of the engine, which no query caused
}

// Program is the command that runs an engine if [Options.Program] is empty; nil means the installed
// program. Package enginetest sets it.
var Program []string

// program returns the command that runs an engine.
func (p *Pool) program() ([]string, error) {
	for _, argv := range [][]string{p.opts.Program, Program} {
		if len(argv) > 0 {
			return argv, nil
		}
	}
	path, err := installed()
	if err != nil {
		return nil, err
	}
	return []string{path}, nil
}

// Installed returns [ErrAbsent] with a reason if no program for engines is installed.
func Installed() error {
	if len(Program) > 0 {
		return nil
	}
	_, err := installed()
	return err
}

// installed returns the path of the program rmreplay-engine.
func installed() (string, error) {
	const name = "rmreplay-engine"
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), name)
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	return path, nil
}

// start starts an engine. It does not wait until the engine is ready. The first question waits for
// this. The caller holds the pool's lock.
func (p *Pool) start() (_ *process, err error) {
	if p.closed {
		return nil, ErrClosed
	}
	argv, err := p.program()
	if err != nil {
		return nil, err
	}
	e := &process{pool: p, sent: make(chan struct{}), ended: make(chan struct{}), held: 1}
	if p.opts.Temp != "" {
		p.number++
		e.temp = filepath.Join(p.opts.Temp, fmt.Sprintf("%s%d-%d", tempPrefix, os.Getpid(), p.number))
		if e.temp, err = filepath.Abs(e.temp); err == nil {
			err = os.MkdirAll(e.temp, 0o700)
		}
		if err != nil {
			return nil, fmt.Errorf("starting the query engine: %w", err)
		}
	}
	if err := e.launch(argv); err != nil {
		_ = os.RemoveAll(e.temp)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
			err = fmt.Errorf("%w: %w", ErrAbsent, err)
		}
		return nil, fmt.Errorf("starting the query engine: %w", err)
	}
	e.db = sql.OpenDB(connector{e})
	e.db.SetMaxOpenConns(1)
	p.live[e] = true
	go e.prepare(p.settings(e.temp), p.tables)
	return e, nil
}

// settings returns the settings of one engine. DuckDB's own limit is the memory of all engines
// divided by the seats of the slow lane. So large questions in all these seats spill to disk.
// DuckDB does not count all memory that it uses. The kernel's limit, which counts mapped memory,
// stops a process that grows faster than the pool checks.
func (p *Pool) settings(temp string) wire.Settings {
	room := p.opts.MemoryMiB - p.opts.Engines*idleMiB
	return wire.Settings{
		Dirs: p.opts.Dirs, Temp: temp, Threads: p.opts.Threads, Attach: p.opts.Attach,
		MemoryMiB: room / p.opts.slow(), DataMiB: mapped(room), TempMiB: 8 * p.opts.MemoryMiB, AnswerMiB: p.opts.AnswerMiB,
	}
}

// launch starts the process, with two pipes, an empty environment and its own group.
func (e *process) launch(argv []string) error {
	theirs, ours, err := pipes()
	if err != nil {
		return err
	}
	e.cmd = exec.Command(argv[0], argv[1:]...)
	e.cmd.Env = []string{"LC_ALL=C.UTF-8"} // the server's environment may have secrets
	e.cmd.Stdin, e.cmd.Stdout, e.cmd.Stderr = theirs[0], theirs[1], &e.said
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	e.cmd.WaitDelay = time.Second
	started := make(chan error)
	e.pool.ending.Add(1)
	go func() {
		defer e.pool.ending.Done()
		// With Pdeathsig, the kernel kills the process when the thread that started the process
		// ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := e.cmd.Start()
		started <- err
		if err == nil {
			e.await()
		}
	}()
	err = <-started
	for _, f := range theirs {
		_ = f.Close()
	}
	if err != nil {
		_, _ = ours[0].Close(), ours[1].Close()
		return err
	}
	e.pipes, e.out, e.in = ours, wire.NewWriter(ours[0]), wire.NewReader(ours[1])
	// If this fails, the pool does not count this engine's memory, but the kernel's limit still
	// applies.
	e.memory = procfs.OpenMemory(e.cmd.Process.Pid)
	return nil
}

// pipes creates the pipes for an engine's standard input and output. theirs are the ends that the engine uses, ours
// the ends that this program uses.
func pipes() (theirs, ours [2]*os.File, err error) {
	if theirs[0], ours[0], err = os.Pipe(); err != nil {
		return theirs, ours, err
	}
	if ours[1], theirs[1], err = os.Pipe(); err != nil {
		_, _ = theirs[0].Close(), ours[0].Close()
	}
	return theirs, ours, err
}

// prepare sends the first frames: the settings, and the tables of the last question.
func (e *process) prepare(settings wire.Settings, tables Tables) {
	text, err := json.Marshal(settings)
	if err == nil {
		err = e.out.Send(wire.Configure, text)
	}
	if err == nil && len(tables.Setup) > 0 {
		e.warm, e.version = true, tables.Version
		err = e.out.Send(wire.Begin, beginning(0, tables.Setup))
	}
	close(e.sent)
	if err != nil {
		e.kill(nil) // the first question reports the end
	}
	e.release()
}

// beginning returns the payload of a Begin.
func beginning(number uint64, setup []string) []byte {
	b := wire.AppendUint(nil, number)
	for _, statement := range setup {
		b = wire.AppendString(b, statement)
	}
	return b
}

// await waits for the end of the process and cleans up.
func (e *process) await() {
	for {
		// The process id stays reserved until Wait below.
		err := unix.Waitid(unix.P_PID, e.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	e.mu.Lock()
	e.reaped = true
	e.mu.Unlock()
	e.status = e.cmd.Wait()
	if e.temp != "" {
		_ = os.RemoveAll(e.temp)
	}
	e.pool.mu.Lock()
	delete(e.pool.live, e)
	e.pool.mu.Unlock()
	close(e.ended)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.held == 0 {
		e.closePipes()
	}
}

// hold keeps the pipes open after the process has ended, because the last output must still be read.
func (e *process) hold() {
	e.mu.Lock()
	e.held++
	e.mu.Unlock()
}

func (e *process) release() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.held--; e.held == 0 && e.reaped {
		e.closePipes()
	}
}

func (e *process) closePipes() {
	_, _ = e.pipes[0].Close(), e.pipes[1].Close()
	e.memory.Close()
	_ = e.db.Close()
}

// kill kills the process. The first reason other than nil becomes the error of its question.
func (e *process) kill(reason error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reason == nil {
		e.reason = reason
	}
	if !e.reaped {
		_ = e.cmd.Process.Kill()
	}
}

// alive reports whether the process still runs, as far as this program can tell.
func (e *process) alive() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.reaped
}

// slowNice is the nice value of the slow lane. On a busy processor, a thread with this value gets a
// tenth of the time (sched(7)). With the lowest priority, long questions would never end on a busy
// machine.
const slowNice = 10

// lower gives all threads of the process the priority of the slow lane.
func (e *process) lower() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.reaped && !e.niced {
		e.niced = unix.Setpriority(unix.PRIO_PGRP, e.cmd.Process.Pid, slowNice) == nil
	}
}

// raise restores the priority and reports whether the kernel allowed this: without CAP_SYS_NICE it
// refuses.
func (e *process) raise() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reaped || !e.niced {
		return !e.reaped
	}
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // 20 less the nice value
	if err == nil {
		err = unix.Setpriority(unix.PRIO_PGRP, e.cmd.Process.Pid, 20-raw)
	}
	e.niced = err != nil
	return err == nil
}

// serve runs one question on the engine. begun is false if the engine failed before the question could begin.
func (e *process) serve(
	ctx context.Context, tables Tables, s *seat, do func(q *Questioner) error,
) (begun bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	e.failure = nil
	e.asked.Store(true)
	defer e.asked.Store(false)
	if err := e.begin(ctx, tables); err != nil {
		return false, explain(ctx, err)
	}
	stop := e.keep(ctx, cancel, s) // the time that the engine needs to start does not count
	defer stop()
	conn, err := e.db.Conn(ctx)
	if err != nil {
		return true, explain(ctx, err)
	}
	defer conn.Close()
	defer cancel(nil) // runs before conn.Close, to close rows that do left open
	err = do(&Questioner{ctx, conn})
	if err == nil {
		err = e.failure // report the engine's failure even if do hid its error
	}
	return true, explain(ctx, err)
}

// explain returns the cause of a question's failure. The error of an interrupted query does not
// name the cause.
func explain(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// patience is a multiple of [Options.Quick]. After this real time, a question leaves the quick
// lane even if it has used less CPU time, because on a busy machine a short question must not wait
// behind long questions.
const patience = 4

// keep moves a question to the slow lane when its quick time is over. The caller must call stop.
func (e *process) keep(ctx context.Context, cancel context.CancelCauseFunc, s *seat) (stop func()) {
	if s.isSlow() {
		e.lower()
		return func() {}
	}
	done, left := make(chan struct{}), make(chan struct{})
	begin, spent := time.Now(), e.cpu()
	quick := time.NewTimer(e.pool.opts.Quick)
	go func() {
		defer close(left)
		defer quick.Stop()
		for {
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-quick.C:
			}
			rest := e.pool.opts.Quick - (e.cpu() - spent)
			if rest > 0 && time.Since(begin) < patience*e.pool.opts.Quick {
				quick.Reset(max(rest/time.Duration(runtime.NumCPU()), time.Millisecond))
				continue
			}
			if s.slower() {
				e.lower()
			} else {
				cancel(errMoved)
			}
			return
		}
	}()
	return func() { close(done); <-left }
}

// cpu returns the CPU time of the process (clock_getcpuclockid(3)), and 0 after its end.
func (e *process) cpu() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	const schedClock = 2 // CPUCLOCK_SCHED of Linux
	var t unix.Timespec
	if e.reaped || unix.ClockGettime(int32(^e.cmd.Process.Pid<<3|schedClock), &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// begin prepares the engine for a question about the given tables.
func (e *process) begin(ctx context.Context, tables Tables) error {
	request := e.request(ctx)
	defer request.finish()
	if err := e.firstAnswers(); err != nil {
		return err
	}
	var setup []string
	if !e.has || e.version != tables.Version {
		setup, e.has = tables.Setup, false
	}
	if err := e.out.Send(wire.Begin, beginning(request.number, setup)); err != nil {
		return e.lost(err)
	}
	if _, _, err := e.receive(wire.Done); err != nil {
		return err
	}
	e.has, e.version = true, tables.Version
	return nil
}

// firstAnswers reads the answers to the first frames.
func (e *process) firstAnswers() error {
	<-e.sent
	if e.ready {
		return nil
	}
	if _, _, err := e.receive(wire.Ready); err != nil {
		return err
	}
	e.ready = true
	if e.warm {
		_, _, err := e.receive(wire.Done)
		if errors.Is(err, ErrEnded) {
			return err
		}
		e.has, e.failure = err == nil, nil // files of older tables may be gone; no question needs them
	}
	return nil
}

// receive reads the next frame. Its kind must be in want; a fault becomes an error.
func (e *process) receive(want ...wire.Kind) (wire.Kind, []byte, error) {
	kind, payload, err := e.in.Next()
	if err != nil {
		return 0, nil, e.lost(err)
	}
	for _, k := range want {
		if k == kind {
			return kind, payload, nil
		}
	}
	if kind != wire.Fault {
		return 0, nil, e.lost(fmt.Errorf("a frame of kind %d came (want one of %d)", kind, want))
	}
	cause, err := fault(payload)
	if cause != wire.Failed {
		e.failure = err
	}
	// After DuckDB ran out of memory, its behaviour is not reliable.
	e.faulty = e.faulty || cause == wire.Memory || cause == wire.Broken
	return kind, nil, err
}

// lost ends an engine that cannot be read or written, and returns the reason.
func (e *process) lost(err error) error {
	e.faulty = true
	e.failure = e.obituary(err)
	return e.failure
}

func (e *process) obituary(err error) error {
	select {
	case <-e.ended:
	case <-time.After(grace): // the engine closed its output, or sent an invalid frame
		e.kill(nil)
		<-e.ended
	}
	e.mu.Lock()
	reason := e.reason
	e.mu.Unlock()
	if reason != nil {
		return reason
	}
	said := e.said.String()
	for _, words := range []string{"bad_alloc", "out of memory", "Out of Memory", "annot allocate memory"} {
		if strings.Contains(said, words) {
			return fmt.Errorf("%w (limit %d MiB for all queries together)", ErrMemory, e.pool.opts.MemoryMiB)
		}
	}
	switch {
	case e.status != nil && said != "":
		return fmt.Errorf("%w: %w: %s", ErrEnded, e.status, said)
	case e.status != nil:
		return fmt.Errorf("%w: %w", ErrEnded, e.status)
	}
	return fmt.Errorf("%w: %w", ErrEnded, err)
}

// request is a Begin or an Ask in progress.
type request struct {
	engine *process
	number uint64
	unhook func() bool
}

// request starts a request. If ctx ends, the request is interrupted.
func (e *process) request(ctx context.Context) *request {
	e.number++
	n := e.number
	e.pending.Store(n)
	return &request{e, n, context.AfterFunc(ctx, func() { e.interrupt(n) })}
}

// finish ends a request whose answer has been read.
func (r *request) finish() {
	r.unhook()
	r.engine.pending.CompareAndSwap(r.number, 0)
}

// interrupt asks the engine to end a request. If the request does not end within grace, the engine
// is killed.
func (e *process) interrupt(number uint64) {
	time.AfterFunc(grace, func() {
		if e.pending.Load() == number {
			e.kill(nil)
		}
	})
	_ = e.out.Send(wire.Interrupt, wire.AppendUint(nil, number)) // if this fails, the timer kills the engine
}

// rest ends a question, and reports whether the engine can serve another question.
func (e *process) rest() bool {
	if e.faulty || e.pending.Load() != 0 || !e.raise() {
		return false
	}
	return e.out.Send(wire.End, nil) == nil
}

// tail is a writer that stores only the last bytes.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailLength = 2000 // bytes

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-tailLength):]
	return len(p), nil
}

// String returns the kept text on one line.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(strings.Fields(strings.ToValidUTF8(string(t.text), "?")), " ")
}
