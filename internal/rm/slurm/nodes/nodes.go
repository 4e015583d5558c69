// Package nodes plays all compute nodes of a cluster: it answers what slurmctld
// sends to slurmd, and says what a slurmd would say, at the virtual times at which
// jobs end. There are no sockets and no clock here: messages come in, answers,
// messages and timers go out through [Environment].
//
// What a node does follows slurmd/req.c of Slurm 22.05 for a batch script that
// sleeps: a script lives on the job's first node only, dies at once from the signals
// that kill a sleep, and leaves nothing behind.
package nodes

import (
	"fmt"
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/rpc"
)

// Environment is what the nodes live in.
type Environment interface {
	Now() hpc.Time
	// At has f run when virtual time reaches t.
	At(t hpc.Time, f func())
	// Send sends a message to slurmctld, as root, and does not wait for the answer.
	Send(typ rpc.Type, body []byte)
	// Script says what the script of a job does once it runs. An error ends the run.
	Script(launch *rpc.BatchLaunch) (Script, error)
	// JobStarted and JobSuspended tell what happens to a job on its nodes.
	JobStarted(launch *rpc.BatchLaunch)
	JobSuspended(job uint32, resumed bool)
	// Fail ends the run: the controller said something that cannot be.
	Fail(err error)
}

// Script is the part of a job that runs on nodes.
type Script struct {
	// RunTime is how long it runs; [hpc.Unlimited] until it is killed.
	RunTime time.Duration
	// End, unless it is 0, is when it ends, whatever its launch takes.
	End hpc.Time
	// ExitCode is what it exits with then.
	ExitCode int
}

// Cluster is all compute nodes.
type Cluster struct {
	env     Environment
	nodes   []node
	index   map[string]int
	jobs    map[uint32]*job // whose script runs, or that a node still cleans up
	delays  Delays
	version string
	boot    hpc.Time
}

type node struct {
	hw    hpc.Node
	steps map[uint32]*job // jobs whose script runs here
	// prologs says until when the prologs of jobs run here.
	prologs map[uint32]hpc.Time
	down    bool // without power: it neither hears nor says anything
}

// job is a job that is on nodes.
type job struct {
	launch *rpc.BatchLaunch
	script Script
	host   int // its first node
	// started is when the script was launched.
	started hpc.Time
	// running is true from the start of the script to its end, suspended time included.
	running bool
	// end is when the script ends by itself; while it is suspended, left is how much
	// of it is still to come. generation makes the timers of earlier plans harmless.
	end        hpc.Time
	left       time.Duration
	suspended  bool
	generation int
	// epilogs are the nodes whose epilog runs; kept only where epilogs take time.
	epilogs map[int]bool
}

// New makes the nodes of a cluster, booted and idle. version is Slurm's ("22.05.8").
func New(hardware []hpc.Node, version string, delays Delays, env Environment) (*Cluster, error) {
	c := &Cluster{
		env: env, delays: delays, version: version, boot: env.Now(),
		nodes: make([]node, len(hardware)), index: make(map[string]int, len(hardware)), jobs: map[uint32]*job{},
	}
	for i, hw := range hardware {
		if _, twice := c.index[hw.Name]; twice {
			return nil, fmt.Errorf("node %s is there twice", hw.Name)
		}
		c.index[hw.Name] = i
		c.nodes[i] = node{hw: hw, steps: map[uint32]*job{}, prologs: map[uint32]hpc.Time{}}
	}
	return c, nil
}

// Running is the number of scripts that run.
func (c *Cluster) Running() (n int) {
	for _, j := range c.jobs {
		if j.running {
			n++
		}
	}
	return n
}

// Down takes a node's power away: what runs on it is gone, and slurmctld gets no answer
// from it, as from a machine that has failed. A name that no node has changes nothing.
func (c *Cluster) Down(name string) {
	n, ok := c.index[name]
	if !ok {
		return
	}
	nd := &c.nodes[n]
	nd.down = true
	for id, j := range nd.steps {
		c.stop(j)
		delete(c.jobs, id)
	}
}

// Up gives a node its power back if it has none: it registers, as slurmd does when it
// starts.
func (c *Cluster) Up(name string) {
	n, ok := c.index[name]
	if !ok || !c.nodes[n].down {
		return
	}
	c.nodes[n].down = false
	c.Register(n)
}

// say sends a message of a node at an instant, unless the node has no power then.
func (c *Cluster) say(n int, at hpc.Time, typ rpc.Type, body []byte) {
	c.env.At(at, func() {
		if !c.nodes[n].down {
			c.env.Send(typ, body)
		}
	})
}

// answer is one node's answer to a message.
type answer struct {
	typ  rpc.Type
	body []byte
}

func rc(code rpc.Errno) *answer { return &answer{rpc.ResponseRC, rpc.AppendRC(nil, code)} }

// Handle takes a message that slurmctld has sent to the node of the given index, for
// itself and for those in the forward list. It returns the reply, nil for the types
// that have none and for a node that is down.
func (c *Cluster) Handle(index int, m *rpc.Message) (*rpc.Message, error) {
	if index < 0 || index >= len(c.nodes) {
		return nil, fmt.Errorf("a message (%v) for node number %d of %d", m.Type, index, len(c.nodes))
	}
	if c.nodes[index].down {
		return nil, nil // slurmctld turns to the next node of the list itself
	}
	forwarded, err := hostlist.Expand(m.Forward.Nodes)
	if m.Forward.Nodes != "" && err != nil {
		return nil, fmt.Errorf("the forward list of a message (%v): %w", m.Type, err)
	}
	act, err := c.decode(m)
	if err != nil {
		return nil, fmt.Errorf("a message (%v) for node %s: %w", m.Type, c.nodes[index].hw.Name, err)
	}
	first := act(index)
	var reply *rpc.Message
	if first != nil {
		reply = rpc.Reply(m, first.typ, first.body, nil)
	}
	for _, name := range forwarded {
		i, ok := c.index[name]
		if !ok {
			return nil, fmt.Errorf("a message (%v) is to be forwarded to node %s, which does not exist", m.Type, name)
		}
		if c.nodes[i].down {
			if reply != nil {
				reply.Returns = append(reply.Returns, rpc.Return{Err: uint32(rpc.ErrCommunication), Type: rpc.ForwardFailed, Node: name})
			}
			continue
		}
		if a := act(i); a != nil && reply != nil {
			reply.Returns = append(reply.Returns, rpc.Return{Type: a.typ, Node: name, Body: a.body})
		}
	}
	return reply, nil
}

// decode reads a message and returns what a node that gets it does and answers.
func (c *Cluster) decode(m *rpc.Message) (func(node int) *answer, error) {
	switch m.Type {
	case rpc.RequestNodeRegistration:
		return func(n int) *answer {
			c.Register(n)
			return c.ping(n)
		}, nil
	case rpc.RequestPing:
		return c.ping, nil
	case rpc.RequestAcctGatherUpdate:
		return func(n int) *answer {
			return &answer{rpc.ResponseAcctGatherUpdate, rpc.AppendAcctGather(nil, c.nodes[n].hw.Name)}
		}, nil
	case rpc.RequestBatchLaunch:
		launch, err := rpc.DecodeBatchLaunch(m.Version, m.Body)
		if err != nil {
			return nil, err
		}
		return func(n int) *answer { return c.launch(n, launch) }, nil
	case rpc.RequestLaunchProlog:
		prolog, err := rpc.DecodePrologLaunch(m.Version, m.Body)
		if err != nil {
			return nil, err
		}
		return func(n int) *answer { return c.prolog(n, prolog) }, nil
	case rpc.RequestTerminateJob, rpc.RequestKillTimelimit, rpc.RequestKillPreempted, rpc.RequestAbortJob:
		kill, err := rpc.DecodeKillJob(m.Version, m.Body)
		if err != nil {
			return nil, err
		}
		return func(n int) *answer { return c.terminate(n, kill.StepID.Job) }, nil
	case rpc.RequestSuspendInt:
		s, err := rpc.DecodeSuspend(m.Version, m.Body)
		if err != nil {
			return nil, err
		}
		return func(n int) *answer { return c.suspend(n, s) }, nil
	case rpc.RequestSignalTasks, rpc.RequestTerminateTasks:
		s, err := rpc.DecodeSignal(m.Version, m.Body)
		if err != nil {
			return nil, err
		}
		return func(n int) *answer { return c.signal(n, s) }, nil
	case rpc.RequestReconfigure, rpc.RequestReconfigureWithConfig, rpc.RequestShutdown, rpc.RequestRebootNodes, rpc.RequestJobNotify:
		return func(int) *answer { return nil }, nil
	}
	// Health checks, time limit updates and the like change nothing on a node.
	return func(int) *answer { return rc(0) }, nil
}

func (c *Cluster) ping(n int) *answer {
	return &answer{rpc.ResponsePing, rpc.AppendPing(nil, 0, uint64(c.nodes[n].hw.RealMemory))}
}

// Register has a node tell slurmctld what it is and what runs on it.
func (c *Cluster) Register(n int) {
	nd := &c.nodes[n]
	hw := &nd.hw
	boards := max(hw.Boards, 1)
	now := c.env.Now().UnixSeconds()
	reg := rpc.NodeRegistration{
		Time: now, Start: c.boot.UnixSeconds(),
		Host: hw.Name, Node: hw.Name, Arch: "x86_64", OS: "Linux",
		CPUs: uint16(hw.CPUs), Boards: uint16(boards), Sockets: uint16(hw.Sockets),
		Cores: uint16(hw.CoresPerSocket), Threads: uint16(hw.ThreadsPerCore),
		Memory: uint64(hw.RealMemory), TmpDisk: uint32(hw.TmpDisk),
		UpTime:     uint32(now - c.boot.UnixSeconds() + secondsBootedBefore),
		FreeMemory: uint64(hw.RealMemory), Version: c.version,
	}
	for id := range nd.steps {
		reg.Steps = append(reg.Steps, rpc.Batch(id))
	}
	for _, g := range hw.GRES {
		flags := rpc.GRESCountOnly
		if g.File {
			flags = rpc.GRESHasFile
		}
		if g.Type != "" {
			flags |= rpc.GRESHasType
		}
		reg.GRES = append(reg.GRES, rpc.GRES{Name: g.Name, Type: g.Type, Count: uint64(g.Count), CPUs: uint32(hw.CPUs), Flags: flags})
	}
	c.env.Send(rpc.MessageNodeRegistration, reg.Append(nil))
}

// A node that booted after slurmctld last heard of it is taken for rebooted, so
// nodes claim to have been up for a day when the run begins.
const secondsBootedBefore = 86400

// prolog runs a job's prolog on one node (_rpc_prolog). With PrologFlags=DeferBatch
// slurmctld holds the script back until every node's prolog has ended; without, it is
// launched at once and waits for the prolog of its own node alone.
func (c *Cluster) prolog(n int, p *rpc.PrologLaunch) *answer {
	name := c.nodes[n].hw.Name
	done := rpc.PrologComplete{JobID: p.JobID, Node: name}
	d := c.delays.of(c.delays.Prolog, "prolog", p.JobID, int(p.Credential.RestartCount), name)
	end := c.env.Now().Add(d)
	if d > 0 {
		c.nodes[n].prologs[p.JobID] = end
		c.env.At(end, func() { delete(c.nodes[n].prologs, p.JobID) })
	}
	// slurmctld sends the two messages from threads of their own, so the launch may be
	// here first; slurmd lets it wait as well (_wait_for_request_launch_prolog).
	if j := c.jobs[p.JobID]; d > 0 && j != nil && j.running && j.host == n && j.script.RunTime != hpc.Unlimited && j.script.End == 0 {
		c.plan(j, j.end.Add(d))
	}
	c.say(n, end, rpc.RequestCompleteProlog, done.Append(nil))
	return rc(0)
}

// launch starts a job's script on its first node (_rpc_batch_job).
func (c *Cluster) launch(n int, l *rpc.BatchLaunch) *answer {
	if old := c.jobs[l.JobID]; old != nil && old.running {
		return rc(rpc.ErrDuplicateJob)
	}
	script, err := c.env.Script(l)
	if err != nil {
		c.env.Fail(err)
		return rc(0)
	}
	j := &job{launch: l, script: script, host: n, started: c.env.Now(), running: true}
	c.jobs[l.JobID] = j
	c.nodes[n].steps[l.JobID] = j
	c.env.JobStarted(l)
	if script.RunTime != hpc.Unlimited {
		c.plan(j, c.firstEnd(j, j.started))
	}
	return rc(0)
}

// firstEnd is when a script ends that was launched at start: as on a real node, its run
// time counts from the instant of its launch, after the delays that were asked for. A
// run time of whole seconds is then one between Slurm's whole seconds, too.
func (c *Cluster) firstEnd(j *job, start hpc.Time) hpc.Time {
	if end := j.script.End; end != 0 {
		end = max(start, end)
		return end.Add(exitLatency(j.launch.JobID, end))
	}
	host := c.nodes[j.host].hw.Name
	if until, runs := c.nodes[j.host].prologs[j.launch.JobID]; runs {
		start = until
	}
	return start.Add(j.script.RunTime).Add(exitLatency(j.launch.JobID, start) + c.delays.of(c.delays.Launch, "launch", j.launch.JobID, int(j.launch.RestartCount), host))
}

// exitLatency is what passes between a script's end and the message about it: one to a
// hundred milliseconds (a real node takes some 160, docs/ACCURACY.md), different from
// job to job, and never so much that a run time of whole seconds from start to end would
// seem a second longer. A job begins with a pass of the scheduler, and the passes are
// whole seconds apart; without the latency, jobs would end at the very instant of
// another pass, all those of one pass and one length together, and which of slurmctld's
// threads comes first would be the kernel's to decide.
func exitLatency(job uint32, start hpc.Time) time.Duration {
	const least, most = time.Millisecond, 100 * time.Millisecond
	left := time.Second - start.Sub(hpc.Unix(start.UnixSeconds())) // of the second
	room := min(most, left-least) - least
	if room <= 0 {
		return 0
	}
	return least + room*time.Duration(job*379%1000)/1000 // neighbours lie apart
}

// plan has the script end at the given instant.
func (c *Cluster) plan(j *job, end hpc.Time) {
	j.end = max(end, c.env.Now())
	j.generation++
	g := j.generation
	c.env.At(j.end, func() {
		if j.running && j.generation == g {
			c.complete(j, rpc.ExitStatus(j.script.ExitCode, 0))
		}
	})
}

// complete ends a script and tells slurmctld.
func (c *Cluster) complete(j *job, status uint32) {
	id, name := j.launch.JobID, c.nodes[j.host].hw.Name
	c.stop(j)
	if !c.delays.epilogs() {
		delete(c.jobs, id)
	}
	msg := rpc.BatchComplete{JobID: id, Status: status, UID: j.launch.UID, Node: name}
	c.env.Send(rpc.RequestCompleteBatchScript, msg.Append(nil))
}

// stop takes a script off its node.
func (c *Cluster) stop(j *job) {
	j.running = false
	j.generation++
	delete(c.nodes[j.host].steps, j.launch.JobID)
}

// terminate ends a job on one node (_rpc_terminate_job, _rpc_timelimit,
// _rpc_abort_job). Where nothing of the job runs and no epilog is modelled, the answer
// says so, and slurmctld waits for no further message.
func (c *Cluster) terminate(n int, id uint32) *answer {
	j := c.jobs[id]
	ran := false
	if j != nil && j.running && j.host == n {
		c.stop(j)
		ran = true
	}
	name := c.nodes[n].hw.Name
	if !c.delays.epilogs() {
		if j != nil && j.host == n {
			delete(c.jobs, id)
		}
		if !ran {
			return rc(rpc.ErrKillJobAlreadyComplete)
		}
		c.epilogComplete(n, id, 0)
		return rc(0)
	}
	if j == nil {
		j = &job{launch: &rpc.BatchLaunch{JobID: id}, host: -1}
		c.jobs[id] = j
	}
	if j.epilogs[n] {
		return rc(0) // a repeated message
	}
	if j.epilogs == nil {
		j.epilogs = map[int]bool{}
	}
	j.epilogs[n] = true
	d := c.delays.of(c.delays.Epilog, "epilog", id, int(j.launch.RestartCount), name)
	c.env.At(c.env.Now().Add(d), func() {
		delete(j.epilogs, n)
		if len(j.epilogs) == 0 && c.jobs[id] == j && !j.running {
			delete(c.jobs, id)
		}
	})
	c.epilogComplete(n, id, d)
	return rc(0)
}

func (c *Cluster) epilogComplete(n int, id uint32, after time.Duration) {
	msg := rpc.EpilogComplete{JobID: id, Node: c.nodes[n].hw.Name}
	c.say(n, c.env.Now().Add(after), rpc.MessageEpilogComplete, msg.Append(nil))
}

// suspend stops or continues a job (_rpc_suspend_job); only its script counts.
func (c *Cluster) suspend(n int, s *rpc.Suspend) *answer {
	j := c.jobs[s.JobID]
	if j == nil || j.host != n || !j.running || j.suspended != s.Resume {
		return rc(0)
	}
	j.suspended = !s.Resume
	switch {
	case j.script.RunTime == hpc.Unlimited:
	case j.suspended:
		j.left = j.end.Sub(c.env.Now())
		j.generation++
	default:
		c.plan(j, c.env.Now().Add(j.left))
	}
	c.env.JobSuspended(s.JobID, s.Resume)
	return rc(0)
}

// signal delivers a signal to a job's script, which dies of those that kill a sleep.
func (c *Cluster) signal(n int, s *rpc.Signal) *answer {
	j := c.jobs[s.StepID.Job]
	if j == nil || !j.running || j.host != n {
		return rc(errNoProcess)
	}
	switch s.Signal {
	case 1, 2, 3, 6, 9, 15: // HUP, INT, QUIT, ABRT, KILL, TERM
		c.complete(j, rpc.ExitStatus(0, int(s.Signal)))
	}
	return rc(0)
}

const errNoProcess rpc.Errno = 3 // ESRCH
