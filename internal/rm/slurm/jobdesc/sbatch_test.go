package jobdesc

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/rm/slurm/rpc/rpctest"
	"rmreplay/internal/rm/slurm/rpc/wire"
	"rmreplay/internal/slurmspec"
)

const testScript = "#!/bin/sh\nsleep 1\n"

func ptr[T any](v T) *T { return &v }

// submitCases pair sbatch's options with the request of the same meaning. Together they set every
// field of hpc.Request except User and Group, which need root, and AsOperator, which is no option.
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

// sbatchRecorder starts a recorder that accepts every job, and writes its slurm.conf.
func sbatchRecorder(t *testing.T, slurm *rpctest.Slurm) (r *rpctest.Recorder, conf, dir string) {
	t.Helper()
	dir = t.TempDir()
	r = rpctest.NewRecorder(t, func(m *rpc.Message) *rpc.Message {
		e := wire.Encoder{}
		e.U32(42)
		e.U32(rpc.StepBatch)
		e.U32(0)
		e.Str("")
		return rpc.Reply(m, rpc.ResponseSubmitBatchJob, e.Bytes, nil)
	})
	conf = slurm.ControllerConf(t, dir, "127.0.0.1", r.Port(), "NodeName=n[1-8] CPUs=16\nPartitionName=p1 Nodes=ALL Default=YES")
	return r, conf, dir
}

// compareWithSbatch compares sbatch's message with this package's description of the same request,
// byte by byte.
func compareWithSbatch(t *testing.T, slurm *rpctest.Slurm, m *rpc.Message, req hpc.Request, dir string) {
	t.Helper()
	if m.Type != rpc.RequestSubmitBatchJob || m.Version != slurm.Version() {
		t.Fatalf("sbatch sent %v in %v", m.Type, m.Version)
	}
	theirs := &rpc.JobDesc{}
	rpctest.DecodeFields(t, slurm.Version(), m.Body, theirs)
	// The test copies the values that sbatch takes from its environment.
	s := Submission{
		Request: req, Release: slurm.Release, Dependency: req.Dependency, Script: testScript,
		WorkDir: dir, Environment: theirs.Environment, Args: theirs.Args,
		UID: m.UID, GID: m.GID, SubmitLine: theirs.SubmitLine, SessionID: theirs.AllocSID,
		Now: hpc.Unix(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).Unix()),
	}
	if slurm.Release.Since(slurmspec.R2302) { // slurmctld takes the sender's user and group
		s.UID, s.GID = slurmspec.NoVal, slurmspec.NoVal
	}
	j, err := s.JobDesc()
	if err != nil {
		t.Fatal(err)
	}
	// sbatch writes a shortened node list as ranges, which name the same nodes.
	if h1, err := nodeNames(j.ReqNodes); err == nil {
		if h2, _ := nodeNames(theirs.ReqNodes); slices.Equal(h1, h2) {
			j.ReqNodes = theirs.ReqNodes
		}
	}
	ours := slurm.Codec().Body(j)
	if bytes.Equal(ours, m.Body) {
		return
	}
	mine := &rpc.JobDesc{}
	rpctest.DecodeFields(t, slurm.Version(), ours, mine)
	t.Errorf("the bytes differ (-sbatch +ours):\n%s", cmp.Diff(theirs, mine))
}

// TestSubmitIsSbatch compares the message of the stock sbatch with this package's description of
// the same request.
func TestSubmitIsSbatch(t *testing.T) { eachSbatch(t, submitIsSbatch) }

// eachSbatch runs a test with the sbatch of every release whose clients use the same version of the
// protocol as rmreplay ([slurmspec.Release.DriverProtocol]).
func eachSbatch(t *testing.T, test func(*testing.T, *rpctest.Slurm)) {
	rpctest.Each(t, slurmspec.R2205, []string{"sbatch"}, func(t *testing.T, slurm *rpctest.Slurm) {
		if slurm.Release.Protocol() != slurm.Release.DriverProtocol() {
			t.Skipf("SKIPPED: sbatch %v speaks a newer protocol than rmreplay", slurm.Release)
		}
		test(t, slurm)
	})
}

func submitIsSbatch(t *testing.T, slurm *rpctest.Slurm) {
	r, conf, dir := sbatchRecorder(t, slurm)
	for _, c := range submitCases {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"sbatch"}, strings.Fields(c.args)...)
			if out, err := slurm.RunClient(t, conf, dir, testScript, args...); err != nil {
				t.Fatalf("%v: %v\n%s", args, err, out)
			}
			compareWithSbatch(t, slurm, r.Next(t), c.req, dir)
		})
	}
}

// TestCombinationsAreSbatch does the same for random combinations of the cases, since most of
// sbatch's arithmetic combines options. It leaves out combinations that sbatch refuses.
func TestCombinationsAreSbatch(t *testing.T) { eachSbatch(t, combinationsAreSbatch) }

func combinationsAreSbatch(t *testing.T, slurm *rpctest.Slurm) {
	r, conf, dir := sbatchRecorder(t, slurm)
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
			if _, err := slurm.RunClient(t, conf, dir, testScript, args...); err != nil {
				return
			}
			compared++
			compareWithSbatch(t, slurm, r.Next(t), req, dir)
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
