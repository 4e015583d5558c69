package rpc

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// needSlurm skips the test loudly unless the stock programs of Slurm 22.05 are there.
func needSlurm(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("SKIPPED: %s is not installed, so nothing is checked against the real Slurm", p)
		}
	}
	// The clients read slurm.conf before they say their version.
	dir := t.TempDir()
	conf := controllerConf(t, dir, 1, "NodeName=n1\nPartitionName=p1 Nodes=n1")
	out, err := clientRun(t, conf, dir, "", "scontrol", "--version")
	if err != nil || !strings.Contains(out, " 22.05.") {
		t.Skipf("SKIPPED: scontrol --version says %q (%v), want Slurm 22.05", out, err)
	}
}

// controllerConf is a slurm.conf with which clients talk to port on this machine.
func controllerConf(t *testing.T, dir string, port int, more string) string {
	t.Helper()
	conf := fmt.Sprintf(`ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=%d
SlurmUser=%s
AuthType=auth/none
CredType=cred/none
CommunicationParameters=NoCtldInAddrAny
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu,nvme
AllowSpecResourcesUsage=yes
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
DebugFlags=NO_CONF_HASH
StateSaveLocation=%s/state
SlurmctldPidFile=%[3]s/ctld.pid
SlurmctldLogFile=%[3]s/ctld.log
AccountingStorageType=accounting_storage/none
%[4]s
`, port, currentUser(t), dir, more)
	path := filepath.Join(dir, "slurm.conf")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func currentUser(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("id", "-un").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// readMessage reads one message from a connection.
func readMessage(c net.Conn) (*Message, error) {
	var buf []byte
	for {
		frame, need, err := Split(buf)
		if err != nil {
			return nil, err
		}
		if frame != nil {
			return Decode(frame)
		}
		chunk := make([]byte, need-len(buf))
		if _, err := io.ReadFull(c, chunk); err != nil {
			return nil, err
		}
		buf = append(buf, chunk...)
	}
}

// recorder plays a controller for clients: it keeps what they send and answers as
// reply says.
type recorder struct {
	net.Listener
	messages chan *Message
	failures chan error
}

func newRecorder(t *testing.T, reply func(*Message) *Message) *recorder {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{Listener: l, messages: make(chan *Message, 100), failures: make(chan error, 100)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if err := r.serve(c, reply); err != nil {
				r.failures <- err
			}
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return r
}

func (r *recorder) serve(c net.Conn, reply func(*Message) *Message) error {
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	m, err := readMessage(c)
	if err != nil {
		return err
	}
	r.messages <- m
	b, err := reply(m).Append(nil)
	if err != nil {
		return err
	}
	_, err = c.Write(b)
	return err
}

func (r *recorder) port() int { return r.Addr().(*net.TCPAddr).Port }

// next is the next message that a client sent.
func (r *recorder) next(t *testing.T) *Message {
	t.Helper()
	select {
	case m := <-r.messages:
		return m
	case err := <-r.failures:
		t.Fatalf("reading what the client sent: %v", err)
	case <-time.After(10 * time.Second):
		t.Fatal("the client sent nothing")
	}
	return nil
}

// clientRun runs a stock client against a slurm.conf, without what else in the
// environment could change its options.
func clientRun(t *testing.T, conf, dir, stdin string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = []string{"SLURM_CONF=" + conf, "PATH=" + os.Getenv("PATH"), "TZ=UTC", "HOME=/"}
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// decodeFields reads a body field by field into a struct whose fields are in the
// order of the wire: the mirror of an Append method, written on its own.
func decodeFields(t *testing.T, body []byte, into any) {
	t.Helper()
	d := newDecoder("fields", body)
	v := reflect.ValueOf(into).Elem()
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		switch p := f.Addr().Interface().(type) {
		case *string:
			*p = d.str(name)
		case *[]string:
			*p = d.strs(name)
		case *uint8:
			*p = d.u8(name)
		case *uint16:
			*p = d.u16(name)
		case *uint32:
			*p = d.u32(name)
		case *uint64:
			*p = d.u64(name)
		case *int64:
			*p = d.time(name)
		case *[]uint32:
			*p = d.u32s(name)
		default:
			t.Fatalf("field %s has no wire form", name)
		}
	}
	if _, ok := into.(*JobDesc); ok {
		d.u8("crontab")
	}
	if err := d.finish(); err != nil {
		t.Fatal(err)
	}
}

const testScript = "#!/bin/sh\nsleep 1\n"

func ptr[T any](v T) *T { return &v }

// submitCases pair sbatch's options with the request that they stand for. Together
// they set every field of hpc.Request but User and Group, which need root.
var submitCases = []struct {
	name string
	args string // separated by spaces
	req  hpc.Request
}{
	{"nothing", "", hpc.Request{}},
	{"name", "-J my-job", hpc.Request{Name: "my-job"}},
	{"account partition qos wckey", "-A acc -p p1,p2 -q high --wckey=w", hpc.Request{Account: "acc", Partition: "p1,p2", QOS: "high", WCKey: "w"}},
	{"reservation", "--reservation=r1,r2", hpc.Request{Reservation: "r1,r2"}},
	{"dependency", "-d afterok:12:13,singleton", hpc.Request{Dependency: "afterok:12:13,singleton"}},
	{"array", "-a 1-10:2%3", hpc.Request{Array: "1-10:2%3"}},
	{"begin and deadline", "--begin=2030-01-01T00:01:40 --deadline=2030-01-01T00:16:40", hpc.Request{Begin: 100 * time.Second, Deadline: 1000 * time.Second}},
	{"hold", "-H", hpc.Request{Hold: true}},
	{"priority", "--priority=12345", hpc.Request{Priority: ptr(uint32(12345))}},
	{"hold beats priority", "-H --priority=12345", hpc.Request{Hold: true, Priority: ptr(uint32(12345))}},
	{"nice", "--nice=77", hpc.Request{Nice: 77}},
	{"negative nice", "--nice=-77", hpc.Request{Nice: -77}},
	{"requeue", "--requeue", hpc.Request{Requeue: ptr(true)}},
	{"no requeue", "--no-requeue", hpc.Request{Requeue: ptr(false)}},
	{"time limit rounded up", "-t 00:01:01 --time-min=00:00:30", hpc.Request{TimeLimit: 61 * time.Second, TimeMin: 30 * time.Second}},
	{"time limit of minutes", "-t 90", hpc.Request{TimeLimit: 90 * time.Minute}},
	{"no time limit", "-t infinite", hpc.Request{TimeLimit: hpc.Unlimited}},
	{"nodes", "-N 4", hpc.Request{MinNodes: 4, MaxNodes: 4}},
	{"node range", "-N 2-6", hpc.Request{MinNodes: 2, MaxNodes: 6}},
	{"tasks", "-n 17", hpc.Request{Tasks: 17}},
	{"nodes and tasks", "-N 4 -n 8", hpc.Request{MinNodes: 4, MaxNodes: 4, Tasks: 8}},
	{"more nodes than tasks", "-N 4 -n 2", hpc.Request{MinNodes: 4, MaxNodes: 4, Tasks: 2}},
	{"node range and tasks", "-N 1-6 -n 3", hpc.Request{MinNodes: 1, MaxNodes: 6, Tasks: 3}},
	{"tasks per node", "-N 2 --ntasks-per-node=4", hpc.Request{MinNodes: 2, MaxNodes: 2, TasksPerNode: 4}},
	{"tasks per node alone", "--ntasks-per-node=4", hpc.Request{TasksPerNode: 4}},
	{"tasks per node in a range", "-N 2-4 --ntasks-per-node=4", hpc.Request{MinNodes: 2, MaxNodes: 4, TasksPerNode: 4}},
	{"tasks per socket and core", "-n 8 --ntasks-per-socket=2 --ntasks-per-core=1", hpc.Request{Tasks: 8, TasksPerSocket: 2, TasksPerCore: 1}},
	{"cpus per task", "-n 3 -c 4", hpc.Request{Tasks: 3, CPUsPerTask: 4}},
	{"cpus per task alone", "-c 4", hpc.Request{CPUsPerTask: 4}},
	{"mincpus", "--mincpus=6", hpc.Request{MinCPUsPerNode: 6}},
	{"mincpus below cpus per task", "--mincpus=2 -c 4", hpc.Request{MinCPUsPerNode: 2, CPUsPerTask: 4}},
	{"shape of nodes", "-N 2 --sockets-per-node=2 --cores-per-socket=4 --threads-per-core=2", hpc.Request{MinNodes: 2, MaxNodes: 2, SocketsPerNode: 2, CoresPerSocket: 4, ThreadsPerCore: 2}},
	{"shape without nodes", "--sockets-per-node=2 --cores-per-socket=4", hpc.Request{SocketsPerNode: 2, CoresPerSocket: 4}},
	{"-B with nodes", "-N 3 -B 2:4:1", hpc.Request{MinNodes: 3, MaxNodes: 3, SocketsPerNode: 2, CoresPerSocket: 4, ThreadsPerCore: 1}},
	{"core spec", "-S 3", hpc.Request{CoreSpec: 3}},
	{"thread spec", "--thread-spec=5", hpc.Request{ThreadSpec: 5}},
	{"memory", "--mem=4G", hpc.Request{MemPerNode: 4096}},
	{"all memory", "--mem=0", hpc.Request{MemPerNode: hpc.AllMemory}},
	{"memory per cpu", "--mem-per-cpu=1500", hpc.Request{MemPerCPU: 1500}},
	{"memory and cpus per gpu", "-G 2 --mem-per-gpu=3G --cpus-per-gpu=5", hpc.Request{GPUs: "2", MemPerGPU: 3072, CPUsPerGPU: 5}},
	{"tmp", "--tmp=200", hpc.Request{TmpDisk: 200}},
	{"gres", "--gres=gpu:a100:2,nvme:1", hpc.Request{GRES: "gpu:a100:2,nvme:1"}},
	{"gpus", "-G a100:8", hpc.Request{GPUs: "a100:8"}},
	{"gpus per node", "-N 2 --gpus-per-node=4 --gres=nvme", hpc.Request{MinNodes: 2, MaxNodes: 2, GPUsPerNode: "4", GRES: "nvme"}},
	{"gpus per job and node", "-N 1-8 -G 8 --gpus-per-node=4", hpc.Request{MinNodes: 1, MaxNodes: 8, GPUs: "8", GPUsPerNode: "4"}},
	{"gpus per socket", "--gpus-per-node=4 --gpus-per-socket=2 --sockets-per-node=2", hpc.Request{GPUsPerNode: "4", GPUsPerSocket: "2", SocketsPerNode: 2}},
	{"gpus per task", "-n 4 --gpus-per-task=2", hpc.Request{Tasks: 4, GPUsPerTask: "2"}},
	{"gpus per task and job", "-G 8 --gpus-per-task=2", hpc.Request{GPUs: "8", GPUsPerTask: "2"}},
	{"gpus per task and cpus", "-n 4 --gpus-per-task=2 --cpus-per-gpu=3", hpc.Request{Tasks: 4, GPUsPerTask: "2", CPUsPerGPU: 3}},
	{"gpus per task and nodes", "-N 3 --gpus-per-task=1", hpc.Request{MinNodes: 3, MaxNodes: 3, GPUsPerTask: "1"}},
	{"tasks per gpu", "-G 3 --ntasks-per-gpu=2", hpc.Request{GPUs: "3", TasksPerGPU: 2}},
	{"tasks per gpu of nodes", "-N 2 --gres=gpu:4 --ntasks-per-gpu=2", hpc.Request{MinNodes: 2, MaxNodes: 2, GRES: "gpu:4", TasksPerGPU: 2}},
	{"tasks per gpu without gpus", "-n 8 --ntasks-per-gpu=2", hpc.Request{Tasks: 8, TasksPerGPU: 2}},
	{"fewer gpus than nodes may be", "-N 1-8 -G 3", hpc.Request{MinNodes: 1, MaxNodes: 8, GPUs: "3"}},
	{"gres flags", "--gres=gpu:1 --gres-flags=enforce-binding", hpc.Request{GRES: "gpu:1", GRESFlags: "enforce-binding"}},
	{"gres flags off", "--gres=gpu:1 --gres-flags=disable-binding", hpc.Request{GRES: "gpu:1", GRESFlags: "disable-binding"}},
	{"constraint and prefer", "-C a&b --prefer=c --cluster-constraint=d", hpc.Request{Constraint: "a&b", Prefer: "c", ClusterConstraint: "d"}},
	{"node list", "-w n[1-3] -x n[5-6]", hpc.Request{NodeList: "n[1-3]", Exclude: "n[5-6]"}},
	{"node list and nodes", "-w n[1-3] -N 5", hpc.Request{NodeList: "n[1-3]", MinNodes: 5, MaxNodes: 5}},
	{"node list and tasks", "-w n[1-3] -n 6", hpc.Request{NodeList: "n[1-3]", Tasks: 6}},
	{"exclusive", "--exclusive", hpc.Request{Exclusive: "node"}},
	{"exclusive user", "--exclusive=user", hpc.Request{Exclusive: "user"}},
	{"exclusive mcs", "--exclusive=mcs --mcs-label=m", hpc.Request{Exclusive: "mcs", MCSLabel: "m"}},
	{"oversubscribe", "-s", hpc.Request{Oversubscribe: true}},
	{"overcommit", "-O -n 6 -N 2", hpc.Request{Overcommit: true, Tasks: 6, MinNodes: 2, MaxNodes: 2}},
	{"contiguous and others", "--contiguous --spread-job --use-min-nodes --reboot", hpc.Request{Contiguous: true, SpreadJob: true, UseMinNodes: true, Reboot: true}},
	{"distribution", "-m cyclic:block:fcyclic,pack", hpc.Request{Distribution: "cyclic:block:fcyclic,pack"}},
	{"distribution with defaults", "-m *:block:*", hpc.Request{Distribution: "*:block:*"}},
	{"distribution flag", "-m nopack", hpc.Request{Distribution: "nopack"}},
	{"plane", "-n 8 -m plane=4", hpc.Request{Tasks: 8, Distribution: "plane=4"}},
	{"arbitrary", "-m arbitrary -w n[1-3]", hpc.Request{Distribution: "arbitrary", NodeList: "n[1-3]"}},
	{"hint compute", "-N 2 --hint=compute_bound", hpc.Request{MinNodes: 2, MaxNodes: 2, Hint: "compute_bound"}},
	{"hint memory", "--hint=memory_bound", hpc.Request{Hint: "memory_bound"}},
	{"hint multithread", "--hint=multithread", hpc.Request{Hint: "multithread"}},
	{"hint nomultithread", "-n 4 --hint=nomultithread", hpc.Request{Tasks: 4, Hint: "nomultithread"}},
	{"hint gives way", "--hint=nomultithread --threads-per-core=2", hpc.Request{Hint: "nomultithread", ThreadsPerCore: 2}},
	{"hint over sockets", "--hint=nomultithread --sockets-per-node=2", hpc.Request{Hint: "nomultithread", SocketsPerNode: 2}},
	{"licenses and bb", "-L a:2,b --bb=capacity=1G", hpc.Request{Licenses: "a:2,b", BurstBuffer: "capacity=1G"}},
	{"switches", "--switches=2@00:05:00", hpc.Request{Switches: 2, SwitchWait: 5 * time.Minute}},
	{"delay boot", "--delay-boot=00:02:00", hpc.Request{DelayBoot: 2 * time.Minute}},
	{"kill on invalid dep", "--kill-on-invalid-dep=yes", hpc.Request{KillOnInvalidDep: ptr(true)}},
	{"keep on invalid dep", "--kill-on-invalid-dep=no", hpc.Request{KillOnInvalidDep: ptr(false)}},
	{"no kill", "-k", hpc.Request{NoKill: true}},
	{"signal", "--signal=B:USR1@120", hpc.Request{Signal: "B:USR1@120"}},
	{"signal for reservations", "--signal=RB:12", hpc.Request{Signal: "RB:12"}},
	{"comment", "--comment=hello", hpc.Request{Comment: "hello"}},
}

// sbatchRecorder is a recorder that accepts every job, with its slurm.conf.
func sbatchRecorder(t *testing.T) (r *recorder, conf, dir string) {
	t.Helper()
	dir = t.TempDir()
	r = newRecorder(t, func(m *Message) *Message {
		e := encoder{}
		e.u32(42)
		e.u32(StepBatch)
		e.u32(0)
		e.str("")
		return Reply(m, ResponseSubmitBatchJob, e.b, nil)
	})
	conf = controllerConf(t, dir, r.port(), "NodeName=n[1-8] CPUs=16\nPartitionName=p1 Nodes=ALL Default=YES")
	return r, conf, dir
}

// compareWithSbatch compares the message that sbatch sent with what this package
// makes of the same request, byte by byte.
func compareWithSbatch(t *testing.T, m *Message, req hpc.Request, dir string) {
	t.Helper()
	if m.Type != RequestSubmitBatchJob || m.Version != V2205 {
		t.Fatalf("sbatch sent %v in %v", m.Type, m.Version)
	}
	theirs := &JobDesc{}
	decodeFields(t, m.Body, theirs)
	// What sbatch finds in its surroundings is taken over.
	s := Submission{
		Request: req, Dependency: req.Dependency, Script: testScript,
		WorkDir: dir, Environment: theirs.Environment, Args: theirs.Args,
		UID: m.UID, GID: m.GID, SubmitLine: theirs.SubmitLine, SessionID: theirs.AllocSID,
		Now: hpc.Unix(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).Unix()),
	}
	j, err := s.JobDesc()
	if err != nil {
		t.Fatal(err)
	}
	// sbatch writes a shortened list of hosts as ranges, which names the same hosts.
	if h1, err := expandHosts(j.ReqNodes); err == nil {
		if h2, _ := expandHosts(theirs.ReqNodes); slices.Equal(h1, h2) {
			j.ReqNodes = theirs.ReqNodes
		}
	}
	ours := j.Append(nil)
	if bytes.Equal(ours, m.Body) {
		return
	}
	mine := &JobDesc{}
	decodeFields(t, ours, mine)
	t.Errorf("the bytes differ (-sbatch +ours):\n%s", cmp.Diff(theirs, mine))
}

// TestSubmitIsSbatch compares what the stock sbatch sends with what this package
// makes of the same request.
func TestSubmitIsSbatch(t *testing.T) {
	needSlurm(t, "sbatch")
	r, conf, dir := sbatchRecorder(t)
	for _, c := range submitCases {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"sbatch"}, strings.Fields(c.args)...)
			if out, err := clientRun(t, conf, dir, testScript, args...); err != nil {
				t.Fatalf("%v: %v\n%s", args, err, out)
			}
			compareWithSbatch(t, r.next(t), c.req, dir)
		})
	}
}

// TestCombinationsAreSbatch does the same for random combinations of the cases, since
// most of sbatch's arithmetic is about options that meet. Combinations that sbatch
// refuses are left out.
func TestCombinationsAreSbatch(t *testing.T) {
	needSlurm(t, "sbatch")
	r, conf, dir := sbatchRecorder(t)
	rng := rand.New(rand.NewPCG(1, 2))
	compared := 0
	for range 250 {
		var req hpc.Request
		args := []string{"sbatch"}
		for range 2 + rng.IntN(3) {
			c := submitCases[rng.IntN(len(submitCases))]
			if merge(&req, c.req) {
				args = append(args, strings.Fields(c.args)...)
			}
		}
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			if _, err := clientRun(t, conf, dir, testScript, args...); err != nil {
				return
			}
			compared++
			compareWithSbatch(t, r.next(t), req, dir)
		})
	}
	if compared < 100 {
		t.Errorf("sbatch took only %d of 250 combinations", compared)
	}
}

// merge sets the fields of more in req, unless both set the same field.
func merge(req *hpc.Request, more hpc.Request) bool {
	to, from := reflect.ValueOf(req).Elem(), reflect.ValueOf(more)
	for i := range from.NumField() {
		if !from.Field(i).IsZero() && !to.Field(i).IsZero() {
			return false
		}
	}
	for i := range from.NumField() {
		if !from.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
	return true
}

// TestSubmitCasesCoverRequest checks that every option that a request can hold is
// compared with sbatch.
func TestSubmitCasesCoverRequest(t *testing.T) {
	covered := map[string]bool{"User": true, "Group": true, "AsOperator": true} // sbatch --uid needs root
	for _, c := range submitCases {
		v := reflect.ValueOf(c.req)
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				covered[v.Type().Field(i).Name] = true
			}
		}
	}
	typ := reflect.TypeFor[hpc.Request]()
	for i := range typ.NumField() {
		if name := typ.Field(i).Name; !covered[name] {
			t.Errorf("no case sets %s", name)
		}
	}
	if len(submitCases) < 30 {
		t.Errorf("only %d cases", len(submitCases))
	}
}

// TestClientsSendTheSame compares what scancel, scontrol and sdiag send with what
// this package makes of the same requests.
func TestClientsSendTheSame(t *testing.T) {
	needSlurm(t, "scancel", "scontrol", "sdiag")
	dir := t.TempDir()
	r := newRecorder(t, func(m *Message) *Message {
		if m.Type == RequestCreateReservation {
			return Reply(m, ResponseCreateReservation, AppendReservationName(nil, "r"), nil)
		}
		return Reply(m, ResponseRC, AppendRC(nil, 0), nil)
	})
	conf := controllerConf(t, dir, r.port(), "NodeName=n[1-8] CPUs=16\nPartitionName=p1 Nodes=ALL Default=YES")
	node := func(e hpc.NodeEvent) []byte {
		m, err := NewNodeUpdate(e)
		if err != nil {
			t.Fatal(err)
		}
		return m.Append(nil)
	}
	resv := func(v hpc.Reservation, update bool) []byte {
		m, err := NewReservationDesc(v, update)
		if err != nil {
			t.Fatal(err)
		}
		return m.Append(nil)
	}
	flagged := func(update bool, flags ...string) []byte {
		if update {
			return resv(hpc.Reservation{Name: "r", Flags: flags}, true)
		}
		return resv(hpc.Reservation{Name: "r", Start: hpc.Unix(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).Unix()), Duration: time.Hour, Nodes: "n1", Users: []string{"a"}, Flags: flags}, false)
	}
	start := hpc.Unix(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).Unix())
	update := func(job string, set func(*JobDesc)) []byte {
		j := NewJobUpdate(job)
		set(j)
		return j.Append(nil)
	}
	type command struct {
		line string
		typ  Type
		body []byte
	}
	commands := []command{
		{"scancel 12", RequestKillJob, (&KillRequest{Job: "12", Signal: 9}).Append(nil)},
		{"scancel 12_3", RequestKillJob, (&KillRequest{Job: "12_3", Signal: 9}).Append(nil)},
		{"scancel 12_[1-5]", RequestKillJob, (&KillRequest{Job: "12_[1-5]", Signal: 9}).Append(nil)},
		{"scontrol update nodename=n[1-2] state=drain reason=disk", RequestUpdateNode, node(hpc.NodeEvent{Nodes: "n[1-2]", State: "drain", Reason: "disk"})},
		{"scontrol update nodename=n3 state=down reason=x", RequestUpdateNode, node(hpc.NodeEvent{Nodes: "n3", State: "down", Reason: "x"})},
		{"scontrol update nodename=n3 state=resume", RequestUpdateNode, node(hpc.NodeEvent{Nodes: "n3", State: "resume"})},
		{"scontrol create reservation reservationname=r starttime=2030-01-01T00:00:00 duration=90 nodes=n[1-2] users=a,b flags=maint,ignore_jobs", RequestCreateReservation,
			resv(hpc.Reservation{Name: "r", Start: start, Duration: 90 * time.Minute, Nodes: "n[1-2]", Users: []string{"a", "b"}, Flags: []string{"MAINT", "IGNORE_JOBS"}}, false)},
		{"scontrol create reservation reservationname=r starttime=2030-01-01T00:00:00 duration=1:00:00 nodecnt=3 partition=p1 accounts=acc features=f", RequestCreateReservation,
			resv(hpc.Reservation{Name: "r", Start: start, Duration: time.Hour, NodeCount: 3, Partition: "p1", Accounts: []string{"acc"}, Features: "f"}, false)},
		{"scontrol create reservation reservationname=r starttime=2030-01-01T00:00:00 duration=infinite partition=p1 users=a", RequestCreateReservation,
			resv(hpc.Reservation{Name: "r", Start: start, Duration: hpc.Unlimited, Partition: "p1", Users: []string{"a"}}, false)},
		{"scontrol create reservation reservationname=r starttime=2030-01-01T00:00:00 duration=60 nodes=ALL partition=p1 users=a licenses=l:2 flags=any_nodes", RequestCreateReservation,
			resv(hpc.Reservation{Name: "r", Start: start, Duration: time.Hour, Nodes: "ALL", Partition: "p1", Users: []string{"a"}, Licenses: "l:2", Flags: []string{"ANY_NODES"}}, false)},
		{"scontrol update reservationname=r duration=120 users=c", RequestUpdateReservation, resv(hpc.Reservation{Name: "r", Duration: 2 * time.Hour, Users: []string{"c"}}, true)},
		{"scontrol delete reservationname=r", RequestDeleteReservation, AppendReservationName(nil, "r")},
		{"scontrol update jobid=12 priority=77", RequestUpdateJob, update("12", func(j *JobDesc) { j.Priority = 77 })},
		{"scontrol hold 12", RequestUpdateJob, update("12", (*JobDesc).Hold)},
		{"scontrol release 12", RequestUpdateJob, update("12", (*JobDesc).Release)},
		{"scontrol update jobid=12_[1,3] timelimit=90", RequestUpdateJob, update("12_1,3", func(j *JobDesc) { failOn(t, j.SetTimeLimit(90*time.Minute)) })},
		{"scontrol update jobid=12 timelimit=unlimited", RequestUpdateJob, update("12", func(j *JobDesc) { failOn(t, j.SetTimeLimit(hpc.Unlimited)) })},
		{"scontrol requeue 12", RequestJobRequeue, AppendRequeue(nil, "12")},
		{"scontrol suspend 12", RequestSuspend, AppendSuspend(nil, "12", false)},
		{"scontrol resume 12", RequestSuspend, AppendSuspend(nil, "12", true)},
		{"scontrol ping", RequestPing, nil},
		{"scontrol shutdown slurmctld", RequestShutdown, ShutdownController.Append(nil)},
		{"scontrol shutdown", RequestShutdown, ShutdownAll.Append(nil)},
		{"scontrol reconfigure", RequestReconfigure, nil},
		{"sdiag", RequestStats, AppendStatsRequest(nil, false)},
		{"sdiag -r", RequestStats, AppendStatsRequest(nil, true)},
		{"scontrol create reservation reservationname=r starttime=2030-01-01T00:00:00 endtime=2030-01-01T00:01:30 nodes=n1 users=a", RequestCreateReservation,
			resv(hpc.Reservation{Name: "r", Start: start, Duration: 90 * time.Second, Nodes: "n1", Users: []string{"a"}}, false)},
		{"scontrol update reservationname=r flags=purge_comp=2", RequestUpdateReservation, flagged(true, "PURGE_COMP=00:02:00")},
	}
	const create = "scontrol create reservation reservationname=r starttime=2030-01-01T00:00:00 duration=60 nodes=n1 users=a flags="
	for name, off := range workload.ReservationFlags {
		if name != "PART_NODES" { // which wants a partition
			commands = append(commands, command{create + name, RequestCreateReservation, flagged(false, name)})
		}
		if off {
			commands = append(commands, command{"scontrol update reservationname=r flags-=" + name, RequestUpdateReservation, flagged(true, "-"+name)})
		}
	}
	for _, c := range commands {
		t.Run(c.line, func(t *testing.T) {
			for len(r.messages) > 0 {
				<-r.messages // what the command before sent afterwards
			}
			out, _ := clientRun(t, conf, dir, "", strings.Fields(c.line)...)
			t.Logf("%s", out)
			for {
				m := r.next(t) // some commands ask for other things first
				if m.Type != c.typ {
					t.Logf("sent %v first", m.Type)
					continue
				}
				if !bytes.Equal(m.Body, c.body) {
					t.Errorf("the bytes differ:\ntheirs %q\nours   %q", m.Body, c.body)
				}
				return
			}
		})
	}
}
