package rpc_test

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/jobdesc"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/rm/slurm/rpc/rpctest"
	"rmreplay/internal/rm/slurm/rpc/wire"
	"rmreplay/internal/slurmspec"
)

var capture = flag.Bool("capture", false, "keep what the real slurmctld sends as testdata/captured")

// realController is a stock slurmctld in real time. The test acts as its compute nodes.
type realController struct {
	t     *testing.T
	slurm *rpctest.Slurm
	codec rpc.Codec
	addr  string
	conf  string
	dir   string

	mu        sync.Mutex
	seen      map[rpc.Type]int
	versions  map[rpc.Version]int
	launches  map[uint32]*rpc.BatchLaunch
	signals   []*rpc.Signal
	suspends  []*rpc.Suspend
	problems  []string
	forwarded int
	nodes     map[string]*net.TCPListener
	wg        sync.WaitGroup
}

func (c *realController) problem(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// listenNodes listens for n nodes, each on its own address and all on one port.
func listenNodes(t *testing.T, n int) (listeners []*net.TCPListener, port int) {
	t.Helper()
	for i := range n {
		l, err := net.Listen("tcp4", fmt.Sprintf("127.1.7.%d:%d", i+1, port))
		if err != nil {
			t.Fatal(err)
		}
		port = l.Addr().(*net.TCPAddr).Port
		listeners = append(listeners, l.(*net.TCPListener))
	}
	return listeners, port
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func startController(t *testing.T, slurm *rpctest.Slurm, version rpc.Version) *realController {
	t.Helper()
	dir := t.TempDir()
	daemon := slurm.Controller(t, dir)
	if err := os.Mkdir(filepath.Join(dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	listeners, nodePort := listenNodes(t, 2)
	address, port := rpctest.OwnAddress(t), freePort(t)
	c := &realController{
		t: t, slurm: slurm, codec: slurm.Codec(), dir: dir, addr: fmt.Sprintf("%s:%d", address, port),
		seen: map[rpc.Type]int{}, versions: map[rpc.Version]int{}, launches: map[uint32]*rpc.BatchLaunch{},
		nodes: map[string]*net.TCPListener{},
	}
	c.conf = slurm.ControllerConf(t, dir, address, port, fmt.Sprintf(`SlurmdPort=%d
TreeWidth=1
PrologFlags=Alloc
SlurmdTimeout=0
KillWait=1
MinJobAge=300
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
NodeName=n[1-2] NodeAddr=127.1.7.[1-2] CPUs=4 CoresPerSocket=4 RealMemory=8000 Gres=gpu:a100:2 Feature=f
PartitionName=p1 Nodes=ALL Default=YES MaxTime=INFINITE State=UP`, nodePort))
	for i, l := range listeners {
		name := fmt.Sprintf("n%d", i+1)
		c.nodes[name] = l
		c.wg.Add(1)
		go c.serveNode(name, l, version)
	}
	log, err := os.Create(filepath.Join(dir, "stdout.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(daemon, "-D", "-c", "-f", c.conf)
	cmd.Env = append(os.Environ(), "SLURM_CONF="+c.conf)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { c.stop(cmd, ended, listeners) })
	c.until("the controller answers", func() bool {
		m, err := c.ask(rpc.RequestPing, nil)
		return err == nil && rpc.ReplyError(m) == nil
	})
	for name := range c.nodes {
		c.register(name, version)
	}
	c.until("both nodes are idle", func() bool {
		return strings.Count(c.show("node"), "State=IDLE ") == 2
	})
	return c
}

// stop ends slurmctld with a shutdown message, which also tests the message.
func (c *realController) stop(cmd *exec.Cmd, ended chan error, listeners []*net.TCPListener) {
	reply, err := c.ask(rpc.RequestShutdown, c.codec.Body(rpc.ShutdownController))
	if err != nil || rpc.ReplyError(reply) != nil {
		c.t.Errorf("the shutdown request: %v %v", reply, err)
	}
	select {
	case err := <-ended:
		if err != nil {
			c.t.Errorf("slurmctld ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		c.t.Error("slurmctld did not end")
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
	}
	for _, l := range listeners {
		l.Close()
	}
	c.wg.Wait()
	for _, p := range c.problems {
		c.t.Error(p)
	}
	if c.t.Failed() {
		log, _ := os.ReadFile(filepath.Join(c.dir, "ctld.log"))
		c.t.Logf("slurmctld's log:\n%s", log[max(0, len(log)-6000):])
	}
}

// ask sends a request as the current user and waits for the reply.
func (c *realController) ask(typ rpc.Type, body []byte) (*rpc.Message, error) {
	return c.askIn(c.slurm.Version(), typ, body)
}

func (c *realController) askIn(v rpc.Version, typ rpc.Type, body []byte) (*rpc.Message, error) {
	conn, err := net.DialTimeout("tcp4", c.addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return nil, err
	}
	m := rpc.Message{Version: v, Type: typ, UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), Host: "localhost", Body: body}
	b, err := m.Append(nil)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write(b); err != nil {
		return nil, err
	}
	return rpctest.ReadMessage(conn)
}

// tell sends a message in the name of a node, and records a problem if slurmctld refuses it.
func (c *realController) tell(v rpc.Version, typ rpc.Type, body []byte) {
	m, err := c.askIn(v, typ, body)
	if err == nil {
		err = rpc.ReplyError(m)
	}
	// slurmctld refuses the second report of an epilog when the job is not there any more.
	if err != nil && typ != rpc.MessageEpilogComplete {
		c.problem("%v was not taken: %v", typ, err)
	}
}

func (c *realController) register(node string, v rpc.Version) {
	reg := rpc.NodeRegistration{
		Time: time.Now().Unix(), Start: time.Now().Unix() - 10, Host: node, Node: node,
		Arch: "x86_64", OS: "Linux", CPUs: 4, Boards: 1, Sockets: 1, Cores: 4, Threads: 1,
		Memory: 8000, UpTime: 1000, FreeMemory: 7000, Version: c.slurm.Release.String() + ".0",
		GRES: []rpc.GRES{{Name: "gpu", Type: "a100", Count: 2, CPUs: 4, Flags: rpc.GRESHasType}},
	}
	c.mu.Lock()
	for id, l := range c.launches {
		if hosts, _ := hostlist.Expand(l.Nodes); len(hosts) > 0 && hosts[0] == node {
			reg.Steps = append(reg.Steps, rpc.Batch(id))
		}
	}
	c.mu.Unlock()
	body := olderRegistration(&reg)
	if v >= rpc.V2205 {
		body = rpc.RegistrationIn(v, &reg)
	}
	c.tell(v, rpc.MessageNodeRegistration, body)
}

// olderRegistration returns a registration in the versions before 22.05: without the host name and
// the dynamic node's configuration. slurmctld uses the version in which a node registered, so the
// test gets slurmctld's messages in older versions.
func olderRegistration(reg *rpc.NodeRegistration) []byte {
	body := rpc.RegistrationIn(rpc.V2205, reg)
	e := wire.Encoder{}
	e.Str(reg.Host)
	at := 8 + 8 + 4 + 4 + 4 // times, status, two empty features
	body = append(body[:at:at], body[at+len(e.Bytes):]...)
	return body[:len(body)-4]
}

func (c *realController) serveNode(name string, l *net.TCPListener, v rpc.Version) {
	defer c.wg.Done()
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		c.wg.Add(1)
		go func() {
			defer c.wg.Done()
			defer conn.Close()
			m, err := rpctest.ReadMessage(conn)
			if err != nil {
				c.problem("node %s: %v", name, err)
				return
			}
			c.handle(name, conn, m, v)
		}()
	}
}

// keep writes the first message of each type to testdata if the flag -capture is set, without the
// name of the machine.
func (c *realController) keep(m *rpc.Message) {
	c.mu.Lock()
	c.seen[m.Type]++
	first := c.seen[m.Type] == 1
	c.mu.Unlock()
	if !*capture || !first {
		return
	}
	anonymous := *m
	anonymous.Host = ""
	b, err := anonymous.Append(nil)
	if err == nil {
		dir := filepath.Join("testdata/captured", c.slurm.Release.String())
		err = errors.Join(os.MkdirAll(dir, 0o755),
			os.WriteFile(filepath.Join(dir, fmt.Sprintf("%v-%d.msg", m.Version, m.Type)), b, 0o644))
	}
	if err != nil {
		c.problem("%v", err)
	}
}

// handle answers a request and carries it out.
func (c *realController) handle(name string, conn net.Conn, m *rpc.Message, v rpc.Version) {
	c.keep(m)
	c.mu.Lock()
	c.versions[m.Version]++
	c.forwarded += int(m.Forward.Count)
	c.mu.Unlock()
	nodes := []string{name}
	if m.Forward.Count > 0 {
		more, err := hostlist.Expand(m.Forward.Nodes)
		if err != nil || len(more) != int(m.Forward.Count) {
			c.problem("forward to %q (%d): %v", m.Forward.Nodes, m.Forward.Count, err)
		}
		nodes = append(nodes, more...)
	}
	typ, body, ok := healthyAnswer(c.codec, m, name)
	if ok {
		b, err := rpc.Reply(m, typ, body, nodes[1:]).Append(nil)
		if err != nil {
			c.problem("%v", err)
		}
		if _, err := conn.Write(b); err != nil {
			c.problem("answering %v: %v", m.Type, err)
		}
	}
	conn.Close()
	if err := c.act(m, nodes, v); err != nil {
		c.problem("%v in %v: %v", m.Type, m.Version, err)
	}
}

func (c *realController) act(m *rpc.Message, nodes []string, v rpc.Version) error {
	switch m.Type {
	case rpc.RequestNodeRegistration:
		for _, n := range nodes {
			c.register(n, v)
		}
	case rpc.RequestLaunchProlog:
		p, err := rpc.DecodePrologLaunch(m.Version, m.Body)
		if err != nil {
			return err
		}
		for _, n := range nodes {
			c.tell(c.slurm.Version(), rpc.RequestCompleteProlog, c.codec.Body(&rpc.PrologComplete{JobID: p.JobID, Node: n}))
		}
	case rpc.RequestBatchLaunch:
		return c.launch(m, nodes[0])
	case rpc.RequestTerminateJob, rpc.RequestKillTimelimit, rpc.RequestKillPreempted, rpc.RequestAbortJob:
		k, err := rpc.DecodeKillJob(m.Version, m.Body)
		if err != nil {
			return err
		}
		c.mu.Lock()
		delete(c.launches, k.StepID.Job)
		c.mu.Unlock()
		for _, n := range nodes {
			c.tell(c.slurm.Version(), rpc.MessageEpilogComplete, c.codec.Body(&rpc.EpilogComplete{JobID: k.StepID.Job, Node: n}))
		}
	case rpc.RequestSignalTasks:
		s, err := rpc.DecodeSignal(m.Version, m.Body)
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.signals = append(c.signals, s)
		c.mu.Unlock()
	case rpc.RequestSuspendInt:
		s, err := rpc.DecodeSuspend(m.Version, m.Body)
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.suspends = append(c.suspends, s)
		c.mu.Unlock()
	case rpc.RequestJobNotify:
		_, err := rpc.DecodeNotify(m.Version, m.Body)
		return err
	case rpc.RequestRebootNodes:
		_, err := rpc.DecodeReboot(m.Version, m.Body)
		return err
	}
	return nil
}

// launch records a job, and ends it at once if its script calls exit.
func (c *realController) launch(m *rpc.Message, node string) error {
	l, err := rpc.DecodeBatchLaunch(m.Version, m.Body)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.launches[l.JobID] = l
	c.mu.Unlock()
	_, text, ends := strings.Cut(l.Script, "exit ")
	if !ends {
		return nil
	}
	var code int
	if _, err := fmt.Sscan(text, &code); err != nil {
		return err
	}
	done := rpc.BatchComplete{JobID: l.JobID, Status: slurmspec.ExitCode{Status: code}.Wait(), UID: l.UID, Node: node}
	c.tell(c.slurm.Version(), rpc.RequestCompleteBatchScript, c.codec.Body(&done))
	return nil
}

// submit submits a job and returns its number.
func (c *realController) submit(script string, req hpc.Request) (uint32, error) {
	return c.send(jobdesc.Submission{Request: req, Script: "#!/bin/sh\n" + script})
}

// submitAfter submits a job that ends at once and depends on others.
func (c *realController) submitAfter(dependency string) (uint32, error) {
	return c.send(jobdesc.Submission{Script: "#!/bin/sh\nexit 0\n", Dependency: dependency})
}

// send submits a job of the current user as the release's sbatch does.
func (c *realController) send(s jobdesc.Submission) (uint32, error) {
	s.Release, s.WorkDir, s.UID, s.GID = c.slurm.Release, "/tmp", uint32(os.Getuid()), uint32(os.Getgid())
	s.Now = hpc.Time(time.Now().UnixNano())
	j, err := s.JobDesc()
	if err != nil {
		return 0, err
	}
	m, err := c.ask(rpc.RequestSubmitBatchJob, c.codec.Body(j))
	if err != nil {
		return 0, err
	}
	r, err := rpc.DecodeSubmitResponse(m)
	if err != nil {
		return 0, err
	}
	return r.JobID, nil
}

func (c *realController) mustSubmit(script string, req hpc.Request) uint32 {
	c.t.Helper()
	id, err := c.submit(script, req)
	if err != nil {
		c.t.Fatal(err)
	}
	return id
}

// show returns the output of "scontrol show -o".
func (c *realController) show(args ...string) string {
	out, err := c.slurm.RunClient(c.t, c.conf, c.dir, "", append([]string{"scontrol", "-o", "show"}, args...)...)
	if err != nil {
		return err.Error() + out
	}
	return out
}

func (c *realController) until(what string, done func() bool) {
	c.t.Helper()
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if done() {
			return
		}
	}
	c.t.Fatalf("did not come to pass: %s\n%s\n%s", what, c.show("job"), c.show("node"))
}

// untilJob waits until scontrol shows all the given words for a job.
func (c *realController) untilJob(id uint32, words ...string) {
	c.t.Helper()
	c.until(fmt.Sprintf("job %d has %v", id, words), func() bool {
		out := c.show("job", fmt.Sprint(id))
		for _, w := range words {
			if !strings.Contains(out, w+" ") && !strings.Contains(out, w+"\n") {
				return false
			}
		}
		return true
	})
}

// untilIdle waits until both nodes are idle.
func (c *realController) untilIdle() {
	c.t.Helper()
	c.until("both nodes are idle", func() bool { return strings.Count(c.show("node"), "State=IDLE ") == 2 })
}

func (c *realController) kill(r rpc.KillRequest) {
	c.t.Helper()
	c.command(rpc.RequestKillJob, c.codec.Body(&r))
}

// command sends a request that must succeed.
func (c *realController) command(typ rpc.Type, body []byte) {
	c.t.Helper()
	m, err := c.ask(typ, body)
	if err == nil {
		err = rpc.ReplyError(m)
	}
	if err != nil {
		c.t.Fatalf("%v: %v", typ, err)
	}
}

// TestRealController runs jobs through a stock slurmctld, with nodes of every version that this
// slurmctld accepts. This package writes the messages of the nodes and the clients.
func TestRealController(t *testing.T) {
	rpctest.Each(t, slurmspec.R2205, []string{"slurmctld-wlm"}, func(t *testing.T, slurm *rpctest.Slurm) {
		own := slurm.Version()
		for v := own; v >= rpc.Version(slurm.Release.OldestProtocol()); v -= 1 << 8 {
			t.Run(v.String(), func(t *testing.T) {
				t.Parallel()
				c := startController(t, slurm, v)
				c.runJobs(t, v)
				if v == own {
					c.administer(t)
					c.describe(t)
				}
				c.untilIdle()
			})
		}
	})
}

func (c *realController) runJobs(t *testing.T, v rpc.Version) {
	id := c.mustSubmit("exit 0\n", hpc.Request{
		Name: "both", MinNodes: 2, MaxNodes: 2, Tasks: 4, GRES: "gpu:a100:1", MemPerNode: 500,
		TimeLimit: 10 * time.Minute, Constraint: "f", Comment: "c",
	})
	gres := "gres:gpu:a100:1"
	if c.slurm.Release.Since(slurmspec.R2311) {
		gres = "gres/gpu:a100:1"
	}
	c.untilJob(id, "JobState=COMPLETED", "NodeList=n[1-2]", "ExitCode=0:0", "TimeLimit=00:10:00", "TresPerNode="+gres)
	failed := c.mustSubmit("exit 3\n", hpc.Request{})
	c.untilJob(failed, "JobState=FAILED", "ExitCode=3:0")

	held := c.mustSubmit("sleep\n", hpc.Request{MinNodes: 2, MaxNodes: 2, Exclusive: "node"})
	c.untilJob(held, "JobState=RUNNING")
	c.until("it is launched", func() bool { return c.launched(held) != nil })
	l := c.launched(held)
	if l.Nodes != "n[1-2]" || rpc.CPUs(l.CPUsPerNode) != 8 || l.Partition != "p1" || !strings.Contains(l.Script, "sleep") ||
		l.UID != uint32(os.Getuid()) || l.Credential.StepID.Job != held || l.ArrayTaskID != slurmspec.NoVal {
		t.Errorf("the launch reads %+v", l)
	}
	if v >= rpc.V2205 && rpc.CPUs(l.Credential.CPUsPerNode) != 8 {
		t.Errorf("the credential reads %+v", l.Credential)
	}
	name := fmt.Sprint(held)
	c.kill(rpc.KillRequest{Job: name, Signal: 10, Flags: rpc.KillBatch})
	c.until("the signal arrives", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.signals) > 0
	})
	if s := c.signals[0]; s.StepID.Job != held || s.Signal != 10 || s.Flags&rpc.KillBatch == 0 {
		t.Errorf("the signal reads %+v", s)
	}
	c.command(rpc.RequestSuspend, c.codec.Body(&rpc.SuspendRequest{Job: name}))
	c.untilJob(held, "JobState=SUSPENDED")
	c.until("a node is told", func() bool { // one thread sends each message, so one may overtake another
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.suspends) >= 1
	})
	c.command(rpc.RequestSuspend, c.codec.Body(&rpc.SuspendRequest{Job: name, Resume: true}))
	c.untilJob(held, "JobState=RUNNING")
	c.until("both arrive", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return slices.ContainsFunc(c.suspends, func(s *rpc.Suspend) bool { return s.Resume })
	})
	if s := c.suspends[0]; s.JobID != held || s.Resume || s.Indefinite != (v < rpc.V2302) {
		t.Errorf("the suspend request reads %+v", s)
	}
	c.kill(rpc.KillRequest{Job: name, Signal: 9})
	c.untilJob(held, "JobState=CANCELLED")

	array := c.mustSubmit("exit 0\n", hpc.Request{Array: "0-1"})
	c.until("both tasks complete", func() bool {
		return strings.Count(c.show("job", fmt.Sprint(array)), "JobState=COMPLETED ") == 2
	})
	// With a tree of width 1 slurmctld sends every message for both nodes to one of the nodes, which
	// also answers for the other node.
	if c.forwarded == 0 {
		t.Error("no message was to be forwarded")
	}
	if c.versions[v] == 0 {
		t.Errorf("no message came in %v: %v", v, c.versions)
	}
}

func (c *realController) launched(id uint32) *rpc.BatchLaunch {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.launches[id]
}

// administer checks refusals, holds, dependencies, node states, reservations and
// statistics.
func (c *realController) administer(t *testing.T) {
	for _, bad := range []struct {
		req  hpc.Request
		want slurmspec.Errno
	}{
		{hpc.Request{Partition: "nope"}, 2000},
		{hpc.Request{Constraint: "nope"}, 2029},
		{hpc.Request{GRES: "nope:1"}, 2072},
		{hpc.Request{Licenses: "nope:1"}, 2048},
		{hpc.Request{Array: "5-1"}, 2081},
	} {
		if _, err := c.submit("exit 0\n", bad.req); !errors.Is(err, bad.want) {
			t.Errorf("%+v: got %v, want %v", bad.req, err, bad.want)
		}
	}
	// Without EnforcePartLimits slurmctld accepts a job beyond the partition's limits, and the job
	// waits.
	s := jobdesc.Submission{
		Request: hpc.Request{MinNodes: 9, MaxNodes: 9}, Script: "#!/bin/sh\n",
		UID: uint32(os.Getuid()), GID: uint32(os.Getgid()),
	}
	tooLarge, err := s.JobDesc()
	if err != nil {
		t.Fatal(err)
	}
	reply, err := c.ask(rpc.RequestSubmitBatchJob, c.codec.Body(tooLarge))
	if err != nil {
		t.Fatal(err)
	}
	// slurmctld 24.11 refuses this job if slurmctld looks for nodes at once. It accepts the job while
	// another job completes.
	r, err := rpc.DecodeSubmitResponse(reply)
	refused := c.slurm.Release.Series() == slurmspec.R2411 && errors.Is(err, slurmspec.Errno(2014))
	if !refused && (err != nil || r.Code != 2015) {
		t.Errorf("a job beyond the partition: %+v, %v", r, err)
	}
	// slurmctld aborts a job that it does not know.
	unknown := rpc.NodeRegistration{
		Time: time.Now().Unix(), Start: time.Now().Unix(), Host: "n1", Node: "n1", CPUs: 4, Boards: 1,
		Sockets: 1, Cores: 4, Threads: 1, Memory: 8000, Version: "22.05.8", Steps: []rpc.StepID{rpc.Batch(9999)},
		GRES: []rpc.GRES{{Name: "gpu", Type: "a100", Count: 2, CPUs: 4, Flags: rpc.GRESHasType}},
	}
	c.command(rpc.MessageNodeRegistration, c.codec.Body(&unknown))
	c.until("the unknown job is aborted", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.seen[rpc.RequestAbortJob] > 0
	})
	first := c.mustSubmit("exit 0\n", hpc.Request{Hold: true})
	after, err := c.submitAfter(fmt.Sprintf("afterok:%d", first))
	if err != nil {
		t.Fatal(err)
	}
	c.untilJob(first, "JobState=PENDING", "Reason=JobHeldUser")
	release := rpc.NewJobUpdate(fmt.Sprint(first))
	release.Priority = rpc.ReleasePriority
	c.command(rpc.RequestUpdateJob, c.codec.Body(release))
	c.untilJob(after, "JobState=COMPLETED")

	drain, err := rpc.NewNodeUpdate(hpc.NodeEvent{Nodes: "n2", State: "drain", Reason: "disk"})
	if err != nil {
		t.Fatal(err)
	}
	c.command(rpc.RequestUpdateNode, c.codec.Body(drain))
	c.until("n2 is drained", func() bool { return strings.Contains(c.show("node", "n2"), "State=IDLE+DRAIN ") })
	resume, err := rpc.NewNodeUpdate(hpc.NodeEvent{Nodes: "n2", State: "resume"})
	if err != nil {
		t.Fatal(err)
	}
	c.command(rpc.RequestUpdateNode, c.codec.Body(resume))

	resv, err := rpc.NewReservationDesc(hpc.Reservation{
		Name: "r1", Start: hpc.Time(time.Now().Add(time.Hour).UnixNano()), Duration: time.Hour, Nodes: "n1", Users: []string{rpctest.CurrentUser(t)},
	}, false)
	if err != nil {
		t.Fatal(err)
	}
	var m *rpc.Message
	if m, err = c.ask(rpc.RequestCreateReservation, c.codec.Body(resv)); err != nil {
		t.Fatal(err)
	}
	if name, err := rpc.DecodeCreateReservation(m); name != "r1" || err != nil {
		t.Errorf("creating a reservation: %q, %v", name, err)
	}
	if out := c.show("reservation"); !strings.Contains(out, "Nodes=n1 ") || !strings.Contains(out, "Duration=01:00:00 ") {
		t.Errorf("the reservation is %s", out)
	}
	c.command(rpc.RequestDeleteReservation, c.codec.Body(&rpc.DeleteReservation{Name: "r1"}))

	if m, err = c.ask(rpc.RequestStats, c.codec.Body(&rpc.StatsRequest{})); err != nil {
		t.Fatal(err)
	}
	stats, err := rpc.DecodeStats(m)
	if err != nil {
		t.Fatal(err)
	}
	c.keep(m)
	if stats.Submitted != 8 || stats.Completed != 6 || !refused && stats.Pending != 1 || len(stats.RPCs) == 0 ||
		stats.Time < stats.Since || stats.MainCycles == 0 {
		t.Errorf("the statistics read %+v", stats)
	}
	// For 22.05, a job that slurmctld does not have, or has forgotten (MinJobAge), satisfies every
	// dependency. Later releases refuse an afterok dependency on such a job.
	want := slurmspec.Errno(0)
	if c.slurm.Release.Since(slurmspec.R2302) {
		want = slurmspec.Errno(2038) // ESLURM_DEPENDENCY
	}
	if _, err := c.submitAfter("afterok:99999"); want == 0 && err != nil || want != 0 && !errors.Is(err, want) {
		t.Errorf("a dependency on a job that is not known: %v, want %v", err, want)
	}
}

// healthyAnswer returns a healthy node's answer to a request of slurmctld: the type and the body of
// its reply. ok is false for the types that slurmd does not answer; slurmctld closes the connection
// as soon as it has sent such a request. The function follows slurmd_req and the functions that it
// calls in slurmd/req.c:
//
//	request                     answer
//	REGISTRATION, PING          RESPONSE_PING_SLURMD; a registration also sends
//	                            MESSAGE_NODE_REGISTRATION_STATUS
//	ACCT_GATHER_UPDATE          RESPONSE_ACCT_GATHER_UPDATE
//	BATCH_JOB_LAUNCH, PROLOG    RESPONSE_SLURM_RC 0, later COMPLETE_BATCH_SCRIPT or
//	                            COMPLETE_PROLOG
//	TERMINATE, ABORT, KILL_*    RESPONSE_SLURM_RC 0, later EPILOG_COMPLETE
//	SUSPEND_INT, SIGNAL_TASKS,  RESPONSE_SLURM_RC 0
//	TERMINATE_TASKS, HEALTH_CHECK
//	RECONFIGURE*, SHUTDOWN,     none
//	REBOOT_NODES, JOB_NOTIFY
//	anything else               RESPONSE_SLURM_RC EINVAL
func healthyAnswer(codec rpc.Codec, request *rpc.Message, node string) (typ rpc.Type, body []byte, ok bool) {
	switch request.Type {
	case rpc.RequestNodeRegistration, rpc.RequestPing:
		return rpc.ResponsePing, codec.Answer(request, rpc.Ping{Node: node, Load: 1, FreeMemory: 7000}), true
	case rpc.RequestAcctGatherUpdate:
		return rpc.ResponseAcctGatherUpdate, codec.Answer(request, rpc.AcctGather{Node: node}), true
	case rpc.RequestBatchLaunch, rpc.RequestLaunchProlog,
		rpc.RequestTerminateJob, rpc.RequestAbortJob, rpc.RequestKillTimelimit, rpc.RequestKillPreempted,
		rpc.RequestSuspendInt, rpc.RequestSignalTasks, rpc.RequestTerminateTasks, rpc.RequestHealthCheck:
		return rpc.ResponseRC, rpc.AppendRC(nil, 0), true
	case rpc.RequestReconfigure, rpc.RequestReconfigureWithConfig, rpc.RequestShutdown,
		rpc.RequestRebootNodes, rpc.RequestJobNotify:
		return 0, nil, false
	}
	return rpc.ResponseRC, rpc.AppendRC(nil, slurmspec.Errno(syscall.EINVAL)), true
}
