package nodes

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/slurmspec"
)

// stage is an environment in which the test moves time. It records the messages and reports of
// the nodes.
type stage struct {
	t      *testing.T
	now    hpc.Time
	timers []timer
	script Script
	err    error // of Script
	failed error
	diary  []string
	bodies map[rpc.Type][]byte // the last of each type
}

type timer struct {
	at hpc.Time
	f  func()
}

func (s *stage) Now() hpc.Time           { return s.now }
func (s *stage) At(t hpc.Time, f func()) { s.timers = append(s.timers, timer{t, f}) }
func (s *stage) Fail(err error)          { s.failed = err }
func (s *stage) Send(typ rpc.Type, body []byte) {
	name, _, _ := strings.Cut(typ.String(), "(")
	s.note(name)
	s.bodies[typ] = body
}
func (s *stage) Script(*rpc.BatchLaunch) (Script, error) { return s.script, s.err }
func (s *stage) JobStarted(l *rpc.BatchLaunch)           { s.note(fmt.Sprintf("job %d started", l.JobID)) }
func (s *stage) JobSuspended(job uint32, resumed bool) {
	s.note(fmt.Sprintf("job %d suspended, resumed: %v", job, resumed))
}

func (s *stage) note(what string) {
	// The latency of an exit, at most 100 ms, is left out.
	s.diary = append(s.diary, fmt.Sprintf("%v %s", s.now.Sub(begin).Truncate(100*time.Millisecond), what))
}

// advance calls the functions that are due until the given time since the beginning, in the order
// of their times.
func (s *stage) advance(to time.Duration) {
	for {
		next := -1
		for i, t := range s.timers {
			if t.at <= begin.Add(to) && (next < 0 || t.at < s.timers[next].at) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		t := s.timers[next]
		s.timers = slices.Delete(s.timers, next, next+1)
		if t.at < s.now {
			s.t.Errorf("a timer for %v at %v", t.at.Sub(begin), s.now.Sub(begin))
		}
		s.now = t.at
		t.f()
	}
	s.now = begin.Add(to)
}

func (s *stage) want(lines ...string) {
	s.t.Helper()
	if diff := cmp.Diff(lines, s.diary); diff != "" {
		s.t.Errorf("diary (-want +got)\n%s", diff)
	}
	s.diary = nil
}

// The beginning is not a whole second, since nothing on a node depends on Slurm's seconds.
const begin = hpc.Time(1_000_000_000_400_000_000)

const (
	epilogDone = "MESSAGE_EPILOG_COMPLETE"
	batchDone  = "REQUEST_COMPLETE_BATCH_SCRIPT"
	prologDone = "REQUEST_COMPLETE_PROLOG"
	registered = "MESSAGE_NODE_REGISTRATION_STATUS"
)

// newStage returns an environment with the nodes n1 to n3, and scripts that run for 10 s.
func newStage(t *testing.T, delays Delays) (*stage, *Cluster) {
	t.Helper()
	s := &stage{t: t, now: begin, script: Script{RunTime: 10 * time.Second}, bodies: map[rpc.Type][]byte{}}
	var hw []hpc.Node
	for i := range 3 {
		hw = append(hw, hpc.Node{Name: fmt.Sprintf("n%d", i+1), Boards: 1, Sockets: 1, CoresPerSocket: 4, ThreadsPerCore: 1, CPUs: 4, RealMemory: 8000})
	}
	c, err := New(hw, codec2205(), delays, s)
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

func launch(id uint32) *rpc.BatchLaunch { return &rpc.BatchLaunch{JobID: id, UID: 20001} }

// code returns the return code of an answer.
func code(t *testing.T, a *answer) slurmspec.Errno {
	t.Helper()
	if a == nil || a.typ != rpc.ResponseRC {
		t.Fatalf("answered %+v, want a return code", a)
	}
	rc, err := rpc.DecodeRC(a.body)
	if err != nil {
		t.Fatal(err)
	}
	return rc
}

func wantCode(t *testing.T, a *answer, want slurmspec.Errno) {
	t.Helper()
	if got := code(t, a); got != want {
		t.Errorf("answered %v (%d), want %v (%d)", got, got, want, want)
	}
}

func delay(t *testing.T, spec string) Delay {
	t.Helper()
	d, err := ParseDelay(spec)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestNewRefusesTwins(t *testing.T) {
	if _, err := New([]hpc.Node{{Name: "a"}, {Name: "b"}, {Name: "a"}}, codec2205(), Delays{}, &stage{}); err == nil || !strings.Contains(err.Error(), "node a occurs twice") {
		t.Errorf("two nodes of one name: %v", err)
	}
}

// slurmctld launches a job on its first node. The script ends after its run time, exact to the
// nanosecond. slurmctld ends the job on all its nodes, and only the first node reports.
func TestScriptRunsForItsTime(t *testing.T) {
	s, c := newStage(t, Delays{})
	wantCode(t, c.launch(0, launch(7)), 0)
	if c.Running() != 1 {
		t.Errorf("%d scripts run, want 1", c.Running())
	}
	s.advance(10*time.Second - 1)
	s.want("0s job 7 started")
	s.advance(time.Minute)
	s.want("10s " + batchDone)
	if c.Running() != 0 {
		t.Errorf("%d scripts run after the end", c.Running())
	}
	want := rpc.BatchComplete{JobID: 7, UID: 20001, Node: "n1"}
	if got := s.bodies[rpc.RequestCompleteBatchScript]; string(got) != string(codec2205().Body(&want)) {
		t.Errorf("the end of the script is not as for %+v", want)
	}
	for n := range 2 {
		wantCode(t, c.terminate(n, rpc.RequestTerminateJob, 7), slurmspec.ErrKillJobAlreadyComplete)
		wantCode(t, c.terminate(n, rpc.RequestAbortJob, 7), 0)
	}
	s.want()
}

func TestExitCode(t *testing.T) {
	s, c := newStage(t, Delays{})
	s.script.ExitCode = 3
	c.launch(0, launch(7))
	s.advance(time.Minute)
	want := rpc.BatchComplete{JobID: 7, Status: (slurmspec.ExitCode{Status: 3, Signal: 0}).Wait(), UID: 20001, Node: "n1"}
	if got := s.bodies[rpc.RequestCompleteBatchScript]; string(got) != string(codec2205().Body(&want)) {
		t.Errorf("the end of the script is not as for %+v", want)
	}
}

// slurmctld ends a job that runs. The script's node reports its epilog, the other node answers
// that it has nothing to end, and the script ends only once.
func TestTerminate(t *testing.T) {
	s, c := newStage(t, Delays{})
	c.launch(0, launch(7))
	s.advance(4 * time.Second)
	wantCode(t, c.terminate(1, rpc.RequestTerminateJob, 7), slurmspec.ErrKillJobAlreadyComplete)
	wantCode(t, c.terminate(0, rpc.RequestTerminateJob, 7), 0)
	wantCode(t, c.terminate(0, rpc.RequestTerminateJob, 7), slurmspec.ErrKillJobAlreadyComplete) // repeated
	s.advance(time.Minute)
	s.want("0s job 7 started", "4s "+epilogDone)
	wantCode(t, c.terminate(2, rpc.RequestTerminateJob, 99), slurmspec.ErrKillJobAlreadyComplete) // an unknown job
}

func TestUnlimitedScriptRunsUntilKilled(t *testing.T) {
	s, c := newStage(t, Delays{})
	s.script.RunTime = hpc.Unlimited
	c.launch(0, launch(7))
	s.advance(1000 * time.Hour)
	if c.Running() != 1 {
		t.Error("the script ended by itself")
	}
	c.suspend(0, &rpc.Suspend{JobID: 7})
	c.suspend(0, &rpc.Suspend{JobID: 7, Resume: true})
	wantCode(t, c.terminate(0, rpc.RequestTerminateJob, 7), 0)
	if c.Running() != 0 {
		t.Error("the script survived")
	}
}

// A script with a fixed end ends then, however long its launch takes, but never before its launch.
func TestScriptThatEndsAtAnInstant(t *testing.T) {
	slow, err := ParseDelay("20s")
	if err != nil {
		t.Fatal(err)
	}
	s, c := newStage(t, Delays{Launch: slow, Prolog: slow})
	s.script.End = s.now.Add(30 * time.Second)
	c.prolog(0, &rpc.PrologLaunch{JobID: 7})
	c.launch(0, launch(7))
	c.launch(1, launch(8))
	s.advance(29 * time.Second)
	if c.Running() != 2 {
		t.Errorf("%d jobs run, want 2", c.Running())
	}
	s.advance(31 * time.Second)
	if c.Running() != 0 {
		t.Errorf("%d jobs run after their end, want 0", c.Running())
	}
}

// A job that slurmctld suspends before its launch is suspended as soon as it is launched. If the launch comes more
// than nine seconds later, slurmd has given up.
func TestSuspendedBeforeLaunch(t *testing.T) {
	for _, late := range []time.Duration{0, 9 * time.Second, 10 * time.Second} {
		s, c := newStage(t, Delays{})
		s.script.RunTime = time.Minute
		c.suspend(0, &rpc.Suspend{JobID: 7})
		s.advance(late)
		c.launch(0, launch(7))
		s.advance(late + 5*time.Minute)
		want := 1
		if late > 9*time.Second {
			want = 0
		}
		if c.Running() != want {
			t.Errorf("launched after %v: %d jobs run, want %d", late, c.Running(), want)
		}
		c.suspend(0, &rpc.Suspend{JobID: 7, Resume: true})
		s.advance(late + 5*time.Minute + 59*time.Second)
		if c.Running() != want {
			t.Errorf("launched after %v: %d jobs run after 59 seconds, want %d", late, c.Running(), want)
		}
		s.advance(late + 6*time.Minute + time.Second)
		if c.Running() != 0 {
			t.Errorf("launched after %v: the script runs too long", late)
		}
	}
}

// A node refuses a second launch while the script runs. It accepts a requeued job, and the timer of
// the first run does not end the second run.
func TestLaunchAgain(t *testing.T) {
	s, c := newStage(t, Delays{})
	c.launch(0, launch(7))
	wantCode(t, c.launch(1, launch(7)), slurmspec.ErrDuplicateJob)
	s.advance(4 * time.Second)
	c.terminate(0, rpc.RequestTerminateJob, 7)
	s.advance(4 * time.Second) // what is due at this very instant
	second := launch(7)
	second.RestartCount = 1
	wantCode(t, c.launch(1, second), 0)
	s.advance(time.Minute)
	s.want("0s job 7 started", "4s "+epilogDone, "4s job 7 started", "14s "+batchDone)
}

func TestScriptOfNobody(t *testing.T) {
	s, c := newStage(t, Delays{})
	s.err = errors.New("none of the workload's")
	c.launch(0, launch(7))
	if !errors.Is(s.failed, s.err) || c.Running() != 0 {
		t.Errorf("the run failed with %v, %d scripts run", s.failed, c.Running())
	}
	s.want()
}

// Suspended time is not run time. Only the script's node suspends, and a repeated request changes
// nothing.
func TestSuspend(t *testing.T) {
	s, c := newStage(t, Delays{})
	c.launch(0, launch(7))
	s.advance(4 * time.Second)
	for _, n := range []int{0, 1, 0} {
		wantCode(t, c.suspend(n, &rpc.Suspend{JobID: 7}), 0)
	}
	s.advance(100 * time.Second)
	for _, n := range []int{1, 0, 0} {
		wantCode(t, c.suspend(n, &rpc.Suspend{JobID: 7, Resume: true}), 0)
	}
	s.advance(200 * time.Second)
	s.want("0s job 7 started", "4s job 7 suspended, resumed: false", "1m40s job 7 suspended, resumed: true", "1m46s "+batchDone)
	wantCode(t, c.suspend(0, &rpc.Suspend{JobID: 7}), 0) // the job is over
	s.want()
}

func TestTerminateWhileSuspended(t *testing.T) {
	s, c := newStage(t, Delays{})
	c.launch(0, launch(7))
	c.suspend(0, &rpc.Suspend{JobID: 7})
	s.diary = nil
	wantCode(t, c.terminate(0, rpc.RequestTerminateJob, 7), 0)
	s.advance(time.Minute)
	s.want("0s " + epilogDone)
}

// Only the signals that end a sleep end the script.
func TestSignal(t *testing.T) {
	const usr1, term = 10, 15
	s, c := newStage(t, Delays{})
	c.launch(0, launch(7))
	signal := func(n int, sig uint16) *answer { return c.signal(n, &rpc.Signal{StepID: rpc.Batch(7), Signal: sig}) }
	s.advance(time.Second)
	wantCode(t, signal(0, usr1), 0)
	wantCode(t, signal(1, term), errNoProcess)
	s.advance(2 * time.Second)
	wantCode(t, signal(0, term), 0)
	wantCode(t, signal(0, term), errNoProcess)
	s.advance(time.Minute)
	s.want("0s job 7 started", "2s "+batchDone)
	want := rpc.BatchComplete{JobID: 7, Status: (slurmspec.ExitCode{Status: 0, Signal: term}).Wait(), UID: 20001, Node: "n1"}
	if got := s.bodies[rpc.RequestCompleteBatchScript]; string(got) != string(codec2205().Body(&want)) {
		t.Errorf("the end of the script is not as for %+v", want)
	}
}

func TestLaunchDelay(t *testing.T) {
	s, c := newStage(t, Delays{Launch: delay(t, "2500ms")})
	c.launch(0, launch(7))
	s.advance(time.Minute)
	s.want("0s job 7 started", "12.5s "+batchDone)
}

// A prolog delays the script on its own node, whichever of the two messages arrives first. A prolog
// on another node does not.
func TestPrologDelay(t *testing.T) {
	prolog := &rpc.PrologLaunch{JobID: 7}
	for name, first := range map[string]bool{"prolog first": true, "launch first": false} {
		t.Run(name, func(t *testing.T) {
			s, c := newStage(t, Delays{Prolog: delay(t, "3s")})
			if first {
				wantCode(t, c.prolog(0, prolog), 0)
			}
			c.launch(0, launch(7))
			if !first {
				wantCode(t, c.prolog(0, prolog), 0)
			}
			wantCode(t, c.prolog(1, prolog), 0)
			s.advance(time.Minute)
			s.want("0s job 7 started", "3s "+prologDone, "3s "+prologDone, "13s "+batchDone)
		})
	}
	t.Run("over before", func(t *testing.T) {
		s, c := newStage(t, Delays{Prolog: delay(t, "3s")})
		c.prolog(0, prolog)
		s.advance(5 * time.Second)
		c.launch(0, launch(7))
		s.advance(time.Minute)
		s.want("3s "+prologDone, "5s job 7 started", "15s "+batchDone)
	})
}

// With epilogs that take time, every node reports the end of its own epilog once, even if slurmctld
// repeats its request.
func TestEpilogDelay(t *testing.T) {
	s, c := newStage(t, Delays{Epilog: delay(t, "5s")})
	c.launch(0, launch(7))
	s.advance(10*time.Second + ExitLatency(7, begin))
	for _, n := range []int{0, 1, 0, 1} {
		wantCode(t, c.terminate(n, rpc.RequestTerminateJob, 7), 0)
	}
	s.advance(time.Minute)
	s.want("0s job 7 started", "10s "+batchDone, "15s "+epilogDone, "15s "+epilogDone)
	if len(c.jobs) != 0 {
		t.Errorf("%d jobs are still kept", len(c.jobs))
	}
}

// Every node reports at once the end of an epilog that takes no time.
func TestHasEpilog(t *testing.T) {
	s, c := newStage(t, Delays{HasEpilog: true})
	c.launch(0, launch(7))
	s.advance(10*time.Second + ExitLatency(7, begin))
	for _, n := range []int{0, 1} {
		wantCode(t, c.terminate(n, rpc.RequestTerminateJob, 7), 0)
	}
	s.advance(11 * time.Second)
	s.want("0s job 7 started", "10s "+batchDone, "10s "+epilogDone, "10s "+epilogDone)
	if len(c.jobs) != 0 {
		t.Errorf("%d jobs are still kept", len(c.jobs))
	}
}

// A node that is down gets and sends no messages, and its scripts are gone.
func TestDownAndUp(t *testing.T) {
	s, c := newStage(t, Delays{Epilog: delay(t, "5s")})
	c.launch(0, launch(7))
	c.launch(1, launch(8))
	c.terminate(2, rpc.RequestTerminateJob, 8) // its epilog is still to be reported
	c.Down("n1")
	c.Down("n3")
	c.Down("nowhere")
	if c.Running() != 1 {
		t.Errorf("%d scripts run, want that of n2", c.Running())
	}
	ping := &rpc.Message{Version: rpc.V2205, Type: rpc.RequestPing}
	if reply, err := c.Handle(0, ping); reply != nil || err != nil {
		t.Errorf("a node without power answered %+v, %v", reply, err)
	}
	s.advance(time.Minute)
	s.want("0s job 7 started", "0s job 8 started", "10s "+batchDone)
	c.Up("n2") // was never down
	c.Up("nowhere")
	s.want()
	c.Up("n1")
	s.want("1m0s " + registered)
	if reply, err := c.Handle(0, ping); reply == nil || err != nil {
		t.Errorf("a node with power answered %+v, %v", reply, err)
	}
}

// A node answers for the nodes in the forward list, and reports the nodes that are down.
func TestForward(t *testing.T) {
	_, c := newStage(t, Delays{})
	c.Down("n3")
	m := &rpc.Message{Version: rpc.V2205, Type: rpc.RequestPing, Forward: rpc.Forward{Nodes: "n[2-3]", Count: 2}}
	reply, err := c.Handle(0, m)
	if err != nil {
		t.Fatal(err)
	}
	if reply.Type != rpc.ResponsePing {
		t.Errorf("answered %v", reply.Type)
	}
	var got []string
	for _, r := range reply.Returns {
		got = append(got, fmt.Sprintf("%s %v %d", r.Node, r.Type, r.Err))
	}
	want := []string{fmt.Sprintf("n2 %v 0", rpc.ResponsePing), fmt.Sprintf("n3 %v %d", rpc.ForwardFailed, slurmspec.ErrCommunication)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("returns (-want +got)\n%s", diff)
	}
}

func TestRegistrationListsWhatRuns(t *testing.T) {
	s, c := newStage(t, Delays{})
	idle := registration(s, c, 0)
	c.launch(0, launch(7))
	busy := registration(s, c, 0)
	if len(busy) <= len(idle) {
		t.Errorf("the registration has %d bytes with a job and %d without", len(busy), len(idle))
	}
	s.advance(time.Minute)
	if after := registration(s, c, 0); len(after) != len(idle) {
		t.Errorf("the registration has %d bytes after the job, %d before", len(after), len(idle))
	}
}

func registration(s *stage, c *Cluster, n int) []byte {
	c.Register(n)
	return s.bodies[rpc.MessageNodeRegistration]
}

func TestHandleRefuses(t *testing.T) {
	_, c := newStage(t, Delays{})
	ping := func(forward string) *rpc.Message {
		return &rpc.Message{Version: rpc.V2205, Type: rpc.RequestPing, Forward: rpc.Forward{Nodes: forward}}
	}
	for name, tt := range map[string]struct {
		node int
		m    *rpc.Message
		want string
	}{
		"no such node":      {3, ping(""), "node number 3: the cluster has 3 nodes"},
		"negative node":     {-1, ping(""), "node number -1: the cluster has 3 nodes"},
		"unknown forward":   {0, ping("n9"), "node n9, which does not exist"},
		"broken forward":    {0, ping("n[1-"), "forward list"},
		"truncated launch":  {0, &rpc.Message{Version: rpc.V2205, Type: rpc.RequestBatchLaunch, Body: []byte{0, 0}}, "for node n1"},
		"truncated prolog":  {0, &rpc.Message{Version: rpc.V2205, Type: rpc.RequestLaunchProlog, Body: []byte{0}}, "for node n1"},
		"truncated kill":    {1, &rpc.Message{Version: rpc.V2205, Type: rpc.RequestAbortJob}, "for node n2"},
		"truncated suspend": {0, &rpc.Message{Version: rpc.V2205, Type: rpc.RequestSuspendInt}, "for node n1"},
		"truncated signal":  {0, &rpc.Message{Version: rpc.V2205, Type: rpc.RequestSignalTasks}, "for node n1"},
	} {
		if reply, err := c.Handle(tt.node, tt.m); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %+v, %v, want an error about %q", name, reply, err, tt.want)
		}
	}
}

// Nodes answer the types that slurmd answers, and acknowledge requests that change nothing.
func TestAnswers(t *testing.T) {
	_, c := newStage(t, Delays{})
	for typ, want := range map[rpc.Type]rpc.Type{
		rpc.RequestReconfigure: 0, rpc.RequestReconfigureWithConfig: 0, rpc.RequestShutdown: 0, rpc.RequestRebootNodes: 0,
		rpc.RequestJobNotify: 0, rpc.RequestPing: rpc.ResponsePing,
		rpc.RequestNodeRegistration: rpc.ResponsePing, rpc.RequestAcctGatherUpdate: rpc.ResponseAcctGatherUpdate, rpc.RequestHealthCheck: rpc.ResponseRC,
	} {
		reply, err := c.Handle(0, &rpc.Message{Version: rpc.V2205, Type: typ})
		switch {
		case err != nil:
			t.Errorf("%v: %v", typ, err)
		case want == 0 && reply != nil, want != 0 && (reply == nil || reply.Type != want):
			t.Errorf("%v answered by %+v, want %v", typ, reply, want)
		}
	}
}

// codec2205 returns the codec of 22.05.
func codec2205() rpc.Codec {
	codec, err := rpc.NewCodec(slurmspec.Release{Major: 22, Minor: 5, Patch: 8})
	if err != nil {
		panic(err)
	}
	return codec
}
