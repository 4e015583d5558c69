// Package nodes simulates all compute nodes of a cluster. It answers slurmctld's messages to
// slurmd, and sends slurmd's messages when jobs end in virtual time. It has no sockets and no
// clock: it gets messages from its caller, and sends messages and sets timers through
// [Environment].
//
// A node behaves as slurmd/req.c of Slurm 22.05 does for a batch script that sleeps. The script runs only on the job's
// first node. The script ends at once on the signals that end a sleep, and leaves no process behind.
package nodes

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/slurmspec"
)

// Environment is what the nodes need from the replay.
type Environment interface {
	// Now returns the virtual time.
	Now() hpc.Time
	// At calls f when virtual time reaches t.
	At(t hpc.Time, f func())
	// Send sends a message to slurmctld as root, and does not wait for the answer.
	Send(typ rpc.Type, body []byte)
	// Script describes the script of a job that is being launched. An error ends the run.
	Script(launch *rpc.BatchLaunch) (Script, error)
	// JobStarted says that a job's script has been launched.
	JobStarted(launch *rpc.BatchLaunch)
	// JobSuspended says that a job has been suspended, or, if resumed is set, that it runs again.
	JobSuspended(job uint32, resumed bool)
	// Fail ends the run with an error.
	Fail(err error)
}

// Script is the part of a job that runs on nodes.
type Script struct {
	// RunTime is how long the script runs; [hpc.Unlimited] until a signal ends it.
	RunTime time.Duration
	// End is when the script ends, no matter how long its launch takes; if 0, RunTime decides.
	End hpc.Time
	// ExitCode is the script's exit code if it ends by itself.
	ExitCode int
}

// Cluster has all compute nodes.
type Cluster struct {
	env   Environment
	nodes []node
	index map[string]int
	jobs  map[uint32]*job // jobs whose script or epilog runs
	// early are the times at which slurmctld suspended jobs before their scripts were launched.
	early  map[uint32]hpc.Time
	delays Delays
	codec  rpc.Codec
	boot   hpc.Time
}

type node struct {
	hw    hpc.Node
	steps map[uint32]*job // jobs whose script runs here
	// prologs has the ends of the prologs that run here, by job.
	prologs map[uint32]hpc.Time
	down    bool // the node has failed: it gets and sends no messages
}

// job is a job whose script or epilog runs.
type job struct {
	launch *rpc.BatchLaunch
	script Script
	host   int // its first node
	// started is when the script was launched.
	started hpc.Time
	// running is true from the start of the script to its end, suspended time included.
	running bool
	// end is when the script ends by itself. While the job is suspended, left is the script's
	// remaining run time. A timer for an earlier value of end has an older generation, and does
	// nothing.
	end        hpc.Time
	left       time.Duration
	suspended  bool
	generation int
	// epilogs are the nodes whose epilog runs; nil if nodes report no epilogs.
	epilogs map[int]bool
}

// New returns the nodes of a cluster, booted and idle. codec is the codec of the Slurm release
// that the nodes claim to run. Two nodes with the same name are an error.
func New(hardware []hpc.Node, codec rpc.Codec, delays Delays, env Environment) (*Cluster, error) {
	c := &Cluster{
		env: env, delays: delays, codec: codec, boot: env.Now(),
		nodes: make([]node, len(hardware)), index: make(map[string]int, len(hardware)), jobs: map[uint32]*job{},
		early: map[uint32]hpc.Time{},
	}
	for i, hw := range hardware {
		if _, twice := c.index[hw.Name]; twice {
			return nil, fmt.Errorf("node %s occurs twice", hw.Name)
		}
		c.index[hw.Name] = i
		c.nodes[i] = node{hw: hw, steps: map[uint32]*job{}, prologs: map[uint32]hpc.Time{}}
	}
	return c, nil
}

// Running returns the number of running scripts, including suspended scripts.
func (c *Cluster) Running() (n int) {
	for _, j := range c.jobs {
		if j.running {
			n++
		}
	}
	return n
}

// Down makes a node fail: its scripts end without a message, and it no longer answers slurmctld.
// An unknown name changes nothing.
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

// Up brings back a node that is down: the node registers, as slurmd does when it starts. Up does
// nothing if the node is not down or the name is unknown.
func (c *Cluster) Up(name string) {
	n, ok := c.index[name]
	if !ok || !c.nodes[n].down {
		return
	}
	c.nodes[n].down = false
	c.Register(n)
}

// sendAt sends a node's message at a given time, unless the node is down then.
func (c *Cluster) sendAt(n int, at hpc.Time, typ rpc.Type, body []byte) {
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

// rc returns an answer that consists only of a return code.
func rc(code slurmspec.Errno) *answer { return &answer{rpc.ResponseRC, rpc.AppendRC(nil, code)} }

// Handle takes a message from slurmctld to the node with the given index. The message is for this
// node and for the nodes in the message's forward list. Handle returns the reply, or nil if the
// node is down or the type of the message has no reply. If the message cannot be read or a node
// does not exist, the error quotes the message and the node.
func (c *Cluster) Handle(index int, m *rpc.Message) (*rpc.Message, error) {
	if index < 0 || index >= len(c.nodes) {
		return nil, fmt.Errorf("handling a message (%v) for node number %d: the cluster has %d nodes",
			m.Type, index, len(c.nodes))
	}
	if c.nodes[index].down {
		return nil, nil // slurmctld itself then tries the next node of the list
	}
	forwarded, err := hostlist.Expand(m.Forward.Nodes)
	if m.Forward.Nodes != "" && err != nil {
		return nil, fmt.Errorf("reading the forward list of a message (%v): %w", m.Type, err)
	}
	act, err := c.decode(m)
	if err != nil {
		return nil, fmt.Errorf("handling a message (%v) for node %s: %w", m.Type, c.nodes[index].hw.Name, err)
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
				reply.Returns = append(reply.Returns, rpc.Return{Err: uint32(slurmspec.ErrCommunication), Type: rpc.ForwardFailed,
					Node: name})
			}
			continue
		}
		if a := act(i); a != nil && reply != nil {
			reply.Returns = append(reply.Returns, rpc.Return{Type: a.typ, Node: name, Body: a.body})
		}
	}
	return reply, nil
}

// decode reads a message. It returns a function that carries out the message on one node. The returned function returns
// the node's answer; nil for no answer.
func (c *Cluster) decode(m *rpc.Message) (func(node int) *answer, error) {
	switch m.Type {
	case rpc.RequestNodeRegistration:
		return func(n int) *answer {
			c.Register(n)
			return c.ping(m, n)
		}, nil
	case rpc.RequestPing:
		return func(n int) *answer { return c.ping(m, n) }, nil
	case rpc.RequestAcctGatherUpdate:
		return func(n int) *answer {
			return &answer{rpc.ResponseAcctGatherUpdate, c.codec.Answer(m, rpc.AcctGather{Node: c.nodes[n].hw.Name})}
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
		return func(n int) *answer { return c.terminate(n, m.Type, kill.StepID.Job) }, nil
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
	case rpc.RequestReconfigure, rpc.RequestReconfigureWithConfig, rpc.RequestShutdown, rpc.RequestRebootNodes,
		rpc.RequestJobNotify:
		return func(int) *answer { return nil }, nil
	}
	// Health checks, time limit updates and the like change nothing on a node.
	return func(int) *answer { return rc(0) }, nil
}

// ping answers that a node is idle.
func (c *Cluster) ping(request *rpc.Message, n int) *answer {
	hw := &c.nodes[n].hw
	return &answer{rpc.ResponsePing, c.codec.Answer(request, rpc.Ping{Node: hw.Name, FreeMemory: uint64(hw.RealMemory)})}
}

// Register sends the registration of the node with the given index: its hardware, and the steps
// that run on it.
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
		FreeMemory: uint64(hw.RealMemory), Version: c.codec.Release().String(),
	}
	for _, id := range slices.Sorted(maps.Keys(nd.steps)) {
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
		reg.GRES = append(reg.GRES, rpc.GRES{
			Name: g.Name, Type: g.Type, Count: uint64(g.Count), CPUs: uint32(hw.CPUs), Cores: g.Cores, Links: g.Links,
			Flags: flags,
		})
	}
	c.env.Send(rpc.MessageNodeRegistration, c.codec.Body(&reg))
}

// secondsBootedBefore is the uptime that the nodes report when the run begins. If a node booted after its last message,
// slurmctld treats this as a reboot.
const secondsBootedBefore = 86400

// prolog runs a job's prolog on one node (_rpc_prolog). With PrologFlags=DeferBatch slurmctld
// launches the script when the prologs of all nodes have ended. Without that flag it launches the
// script at once, and the script waits only for the prolog on its own node.
func (c *Cluster) prolog(n int, p *rpc.PrologLaunch) *answer {
	name := c.nodes[n].hw.Name
	done := rpc.PrologComplete{JobID: p.JobID, Node: name}
	d := c.delays.of(c.delays.Prolog, "prolog", p.JobID, int(p.Credential.RestartCount), name)
	end := c.env.Now().Add(d)
	if d > 0 {
		c.nodes[n].prologs[p.JobID] = end
		c.env.At(end, func() { delete(c.nodes[n].prologs, p.JobID) })
	}
	// slurmctld sends prolog and launch from two threads, so the launch may arrive first. slurmd
	// makes the launch wait for the prolog, too (_wait_for_request_launch_prolog).
	if j := c.jobs[p.JobID]; d > 0 && j != nil && j.running && j.host == n && j.script.RunTime != hpc.Unlimited &&
		j.script.End == 0 {
		c.plan(j, j.end.Add(d))
	}
	c.sendAt(n, end, rpc.RequestCompleteProlog, c.codec.Body(&done))
	return rc(0)
}

// launch starts a job's script on its first node (_rpc_batch_job).
func (c *Cluster) launch(n int, l *rpc.BatchLaunch) *answer {
	if old := c.jobs[l.JobID]; old != nil && old.running {
		return rc(slurmspec.ErrDuplicateJob)
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
	if at, ok := c.early[l.JobID]; ok && j.started.Sub(at) <= launchWait {
		c.suspend(n, &rpc.Suspend{JobID: l.JobID})
	}
	delete(c.early, l.JobID)
	return rc(0)
}

// launchWait is how long slurmd waits for the launch of a job that it must suspend
// (_launch_complete_wait in req.c).
const launchWait = 9 * time.Second

// firstEnd returns the end of a script that was launched at start. As on a real node, the run time
// counts from the launch, after the configured delays. Slurm's records are in whole seconds, so a
// run time of whole seconds appears in them unchanged.
func (c *Cluster) firstEnd(j *job, start hpc.Time) hpc.Time {
	if end := j.script.End; end != 0 {
		end = max(start, end)
		return end.Add(ExitLatency(j.launch.JobID, end))
	}
	host := c.nodes[j.host].hw.Name
	if until, runs := c.nodes[j.host].prologs[j.launch.JobID]; runs {
		start = until
	}
	return start.Add(j.script.RunTime).Add(ExitLatency(j.launch.JobID, start) +
		c.delays.of(c.delays.Launch, "launch", j.launch.JobID, int(j.launch.RestartCount), host))
}

// ExitLatency returns the time between a script's end and the message about it: 1 to 100 ms,
// different from job to job, and 0 in the last 2 ms of a second. A real node takes about 160 ms
// (docs/measurements/accuracy.md). The latency is never so long that a run time of whole seconds
// becomes a second longer in Slurm's records.
//
// A job starts in a scheduling pass, and passes are whole seconds apart. Without the latency, jobs
// would end exactly at a later pass, and jobs with equal run times from one pass would end
// together. The schedule would then depend on the order of slurmctld's threads, which on a real
// machine is different every time.
func ExitLatency(job uint32, start hpc.Time) time.Duration {
	const least, most = time.Millisecond, 100 * time.Millisecond
	left := time.Second - start.Sub(hpc.Unix(start.UnixSeconds())) // until the next whole second
	room := min(most, left-least) - least
	if room <= 0 {
		return 0
	}
	return least + room*time.Duration(job*379%1000)/1000 // consecutive jobs differ much
}

// plan sets the instant at which the script ends. The new end replaces an end that was planned before.
func (c *Cluster) plan(j *job, end hpc.Time) {
	j.end = max(end, c.env.Now())
	j.generation++
	g := j.generation
	c.env.At(j.end, func() {
		if j.running && j.generation == g {
			c.complete(j, slurmspec.ExitCode{Status: j.script.ExitCode}.Wait())
		}
	})
}

// complete ends a script and reports the end to slurmctld.
func (c *Cluster) complete(j *job, status uint32) {
	id, name := j.launch.JobID, c.nodes[j.host].hw.Name
	c.stop(j)
	if !c.delays.epilogs() {
		delete(c.jobs, id)
	}
	msg := rpc.BatchComplete{JobID: id, Status: status, UID: j.launch.UID, Node: name}
	c.env.Send(rpc.RequestCompleteBatchScript, c.codec.Body(&msg))
}

// stop removes a script from its node.
func (c *Cluster) stop(j *job) {
	j.running = false
	j.generation++
	delete(c.nodes[j.host].steps, j.launch.JobID)
}

// terminate ends a job on one node (_rpc_terminate_job, _rpc_timelimit, _rpc_abort_job). If a node runs nothing of the
// job and does not report epilogs, its answer says that the job is gone. slurmctld then expects no other message from
// this node. The answer to [rpc.RequestAbortJob] is always success. For any other code slurmctld treats the node as not
// responding. slurmctld then repeats the message in slurmctld's own protocol version instead of the node's
// (_thread_per_group_rpc and _queue_agent_retry in slurmctld/agent.c).
func (c *Cluster) terminate(n int, typ rpc.Type, id uint32) *answer {
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
		if !ran && typ == rpc.RequestAbortJob {
			return rc(0)
		}
		if !ran {
			return rc(slurmspec.ErrKillJobAlreadyComplete)
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

// epilogComplete reports the end of a node's epilog after a delay.
func (c *Cluster) epilogComplete(n int, id uint32, after time.Duration) {
	msg := rpc.EpilogComplete{JobID: id, Node: c.nodes[n].hw.Name}
	c.sendAt(n, c.env.Now().Add(after), rpc.MessageEpilogComplete, c.codec.Body(&msg))
}

// suspend stops or continues a job's script (_rpc_suspend_job). Nodes without the script only
// answer. slurmctld may suspend a job before the launch arrives: gang scheduling does so for a job
// that starts outside the active time slice.
func (c *Cluster) suspend(n int, s *rpc.Suspend) *answer {
	j := c.jobs[s.JobID]
	switch {
	case s.Resume:
		delete(c.early, s.JobID)
	case j == nil || !j.running:
		c.early[s.JobID] = c.env.Now()
	}
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

// signal delivers a signal to a job's script. The signals that end a sleep end the script.
func (c *Cluster) signal(n int, s *rpc.Signal) *answer {
	j := c.jobs[s.StepID.Job]
	if j == nil || !j.running || j.host != n {
		return rc(errNoProcess)
	}
	switch s.Signal {
	case 1, 2, 3, 6, 9, 15: // HUP, INT, QUIT, ABRT, KILL, TERM
		c.complete(j, slurmspec.ExitCode{Signal: int(s.Signal)}.Wait())
	}
	return rc(0)
}

const errNoProcess slurmspec.Errno = 3 // ESRCH
