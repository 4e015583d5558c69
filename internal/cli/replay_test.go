package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/run"
	"rmreplay/internal/supervise"
)

// needSlurm skips a test if Slurm is not installed.
func needSlurm(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED by -short: replays on real Slurm")
	}
	if _, err := install.Find(); err != nil {
		t.Skipf("SKIPPED: no replay on real Slurm: %v", err)
	}
}

// The files of a small cluster with accounting. Its Slurm refuses jobs that can never run.
var smallCluster = map[string]string{
	"slurm.conf": `ClusterName=small
SlurmctldHost=ctl
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
PriorityType=priority/multifactor
PriorityWeightAge=1000
PriorityWeightFairshare=10000
EnforcePartLimits=ALL
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageEnforce=associations,limits,qos
NodeName=n[1-8] CPUs=4 RealMemory=8000
PartitionName=batch Nodes=n[1-8] Default=YES MaxTime=2:00:00 DefMemPerCPU=1000
`,
	"accounts.sacctmgr": `add cluster small
add account physics
add account biology
add user ada account=physics
add user boris account=biology
`,
	"users": "ada:20001:physics:20001\nboris:20002:biology:20002\n",
}

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// trace returns a workload of the given records.
func trace(records ...string) string {
	return `{"rmreplay_trace":1,"epoch":"2024-03-05T00:00:00Z"}` + "\n" + strings.Join(records, "\n") + "\n"
}

// longTrace has a job that ends after five minutes of virtual time, and another every ten
// minutes for two weeks. Its replay lasts long enough to be interrupted.
func longTrace() string {
	var records []string
	for i := range 2000 {
		records = append(records, fmt.Sprintf(`{"type":"job","id":"j%d","submit":%d,"user":"ada","run_time_s":300,"time_limit_s":600}`, i, 600*i))
	}
	return trace(records...)
}

// mixedTrace has jobs of two users that fill the small cluster and its queue.
func mixedTrace() string {
	var records []string
	for i := range 60 {
		records = append(records, fmt.Sprintf(
			`{"type":"job","id":"m%d","submit":%d,"user":%q,"run_time_s":%d,"time_limit_s":%d,"min_nodes":%d,"tasks":%d}`,
			i, 20*i+i%7, []string{"ada", "boris"}[i%2], 60+i*37%900, 600+i%4*300, 1+i%3, 1+i%3+i*5%8))
	}
	return trace(records...)
}

// A replaying is an `rmreplay replay` that a test has started in a separate process group, as a
// shell does.
type replaying struct {
	cmd     *exec.Cmd
	dir     string // with cluster, work.jsonl and run
	streams string // of the files stdout and stderr; dir if empty
	record  string
	ended   chan struct{}
	endedAt time.Time // once ended is closed
}

// program returns the test binary under the name of the program. testscript.Main has put it on
// the path.
func program(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("rmreplay")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// startReplay starts a replay. wrapper is a command that starts it, such as setpriv with its
// options, or empty.
func startReplay(t *testing.T, workload string, wrapper ...string) *replaying {
	t.Helper()
	r := newReplay(t, workload)
	args := slices.Concat(wrapper, []string{program(t)}, replayArgs)
	r.start(t, exec.Command(args[0], args[1:]...))
	return r
}

// replayArgs replay the workload of [newReplay] in its directory.
var replayArgs = []string{"replay", "work.jsonl", "--cluster", "cluster", "-o", "run", "--json"}

// newReplay writes the files of a replay that has not started.
func newReplay(t *testing.T, workload string) *replaying {
	t.Helper()
	r := &replaying{dir: t.TempDir(), ended: make(chan struct{})}
	r.record = filepath.Join(r.dir, "run")
	writeFiles(t, filepath.Join(r.dir, "cluster"), smallCluster)
	writeFiles(t, r.dir, map[string]string{"work.jsonl": workload})
	return r
}

// start runs the command in the directory. Its output goes to files, because a process that it
// leaves behind could hold a pipe open.
func (r *replaying) start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	r.cmd = cmd
	cmd.Dir = r.dir
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	var files []*os.File
	for _, name := range []string{"stdout", "stderr"} {
		f, err := os.Create(filepath.Join(r.streamDir(), name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	cmd.Stdout, cmd.Stderr = files[0], files[1]
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // callers read the process's state
		r.endedAt = time.Now()
		close(r.ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it should have ended
		<-r.ended
		if t.Failed() {
			t.Logf("standard error:\n%s", r.said(t, "stderr"))
		}
	})
}

func (r *replaying) streamDir() string {
	if r.streams != "" {
		return r.streams
	}
	return r.dir
}

func (r *replaying) said(t *testing.T, stream string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(r.streamDir(), stream))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// wait waits for the end and returns the exit status, -1 after a signal.
func (r *replaying) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-r.ended:
		return r.cmd.ProcessState.ExitCode()
	case <-time.After(time.Minute):
		t.Fatal("the replay does not end")
		return 0
	}
}

// until waits until a condition holds while the replay runs.
func (r *replaying) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(2 * time.Millisecond) {
		select {
		case <-r.ended:
			t.Fatalf("the replay ended before %s", what)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for: %s", what)
		}
	}
}

// untilMidRun waits until a job has ended in the record.
func (r *replaying) untilMidRun(t *testing.T) {
	t.Helper()
	r.until(t, "a job has ended", func() bool {
		rec, err := run.Open(r.record)
		return err == nil && rec.Live && rec.Manifest.Jobs.Ended > 0
	})
}

// halted waits until all daemons of the replay run, halts the driver, and returns the inventory.
// Without the driver, virtual time stands still: not even a short replay can end before
// [replaying.goOn].
func (r *replaying) halted(t *testing.T) remains {
	t.Helper()
	r.until(t, "slurmctld listens", func() bool { return strings.Contains(r.said(t, "stderr"), "registering the nodes\n") })
	if err := syscall.Kill(r.cmd.Process.Pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	return r.inventory(t)
}

// goOn lets a halted driver continue.
func (r *replaying) goOn(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(r.cmd.Process.Pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

func openRows(t *testing.T, dir string) (*run.Run, []run.Row) {
	t.Helper()
	rec, err := run.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := rec.Jobs()
	if err != nil {
		t.Fatal(err)
	}
	return rec, rows
}

// metricsOf runs `metrics --json` on the record and returns its exit status and output.
func (r *replaying) metricsOf(t *testing.T) (status int, object map[string]any, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := exec.Command(program(t), "metrics", r.record, "--json")
	cmd.Stdout, cmd.Stderr = &out, &errOut
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), oneObject(t, out.Bytes()), errOut.String()
}

// oneObject returns the JSON object in a text. The text must have exactly one object.
func oneObject(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var object map[string]any
	dec := json.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(&object); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		t.Fatalf("more than one JSON value: %s", text)
	}
	return object
}

// process is a process of a replay, as /proc shows it.
type process struct {
	pid, parent int
	begun       string // in clock ticks since the machine started: tells users of one number apart
	name        string // base name of its first argument
	threads     int
	zombie      bool
}

// allProcesses lists the processes of this machine.
func allProcesses() map[int]process {
	out := map[int]process{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join("/proc", e.Name())
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue
		}
		args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		name, _, _ := strings.Cut(string(args), "\x00")
		f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // from the state on (proc(5))
		p := process{pid: pid, begun: f[19], name: filepath.Base(name), zombie: f[0] == "Z"}
		p.parent, _ = strconv.Atoi(f[1])
		p.threads, _ = strconv.Atoi(f[17])
		out[pid] = p
	}
	return out
}

// remains is everything of a replay on this machine that must be gone after its end.
type remains struct {
	processes []process // the driver first
	state     string    // its directory
	sockets   []string  // inodes of listening sockets
}

// inventory returns the remains of a running replay.
func (r *replaying) inventory(t *testing.T) remains {
	t.Helper()
	all := allProcesses()
	in := remains{processes: []process{all[r.cmd.Process.Pid]}}
	for i := 0; i < len(in.processes); i++ { // the loop appends children
		for _, p := range all {
			if p.parent == in.processes[i].pid {
				in.processes = append(in.processes, p)
			}
		}
	}
	listening := listeningSockets(in.processes)
	for _, p := range in.processes {
		dir := fmt.Sprintf("/proc/%d", p.pid)
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		for _, v := range strings.Split(string(environ), "\x00") {
			if clock, ok := strings.CutPrefix(v, "RMREPLAY_CLOCK="); ok {
				in.state = filepath.Dir(clock)
			}
		}
		files, _ := filepath.Glob(filepath.Join(dir, "fd", "*"))
		for _, file := range files {
			link, _ := os.Readlink(file)
			inode := strings.TrimSuffix(strings.TrimPrefix(link, "socket:["), "]")
			if listening[inode] != "" && !slices.Contains(in.sockets, inode) {
				in.sockets = append(in.sockets, inode)
			}
		}
	}
	return in
}

// find returns the replay's process of that name.
func (in remains) find(t *testing.T, name string) int {
	t.Helper()
	for _, p := range in.processes {
		if p.name == name {
			return p.pid
		}
	}
	t.Fatalf("no process %s in %v", name, in.processes)
	return 0
}

// listeningSockets returns the addresses of listening TCP and named Unix sockets, by inode, in the
// networks of this process and of the given processes.
func listeningSockets(others []process) map[string]string {
	out := map[string]string{}
	networks := []string{"/proc/self/net/"}
	for _, p := range others {
		networks = append(networks, fmt.Sprintf("/proc/%d/net/", p.pid))
	}
	for _, table := range []struct {
		file                        string
		state, address, inode, size int
		listens                     string
	}{
		{"tcp", 3, 1, 9, 10, "0A"}, {"tcp6", 3, 1, 9, 10, "0A"},
		{"unix", 3, 7, 6, 8, "00010000"},
	} {
		for _, network := range networks {
			data, err := os.ReadFile(network + table.file)
			if err != nil {
				continue // a kernel without IPv6, or the process has ended
			}
			for line := range strings.Lines(string(data)) {
				if f := strings.Fields(line); len(f) >= table.size && f[table.state] == table.listens {
					out[f[table.inode]] = f[table.address]
				}
			}
		}
	}
	return out
}

// left describes the remains that still exist.
func (in remains) left(t *testing.T) (out []string) {
	t.Helper()
	all := allProcesses()
	for _, p := range in.processes {
		now, ok := all[p.pid]
		if ok && now.begun == p.begun && (!now.zombie || now.threads != 1) {
			out = append(out, fmt.Sprintf("process %d %s", p.pid, p.name))
		}
	}
	for pid, p := range all { // also report processes that began after the inventory
		for _, file := range []string{"cmdline", "environ"} {
			data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
			if bytes.Contains(data, []byte(in.state)) {
				out = append(out, fmt.Sprintf("process %d %s with the state directory in its %s", pid, p.name, file))
			}
		}
	}
	if _, err := os.Stat(in.state); !errors.Is(err, os.ErrNotExist) {
		out = append(out, fmt.Sprintf("%s (%v)", in.state, err))
	}
	for inode, address := range listeningSockets(in.processes) {
		if slices.Contains(in.sockets, inode) {
			out = append(out, "socket at "+address)
		}
	}
	return out
}

// mustGo fails the test if something is left after two seconds.
func (in remains) mustGo(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Second)
	for {
		left := in.left(t)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("two seconds later there is still:\n  %s", strings.Join(left, "\n  "))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestReplayKilled kills one process of a running replay. Everything must be gone two seconds
// later, the message must say what happened, and the record must hold the events until then.
func TestReplayKilled(t *testing.T) {
	needSlurm(t)
	for _, c := range []struct {
		victim string // the driver if empty
		// message begins the last message; log is the file whose last lines it quotes.
		message, log string
		stopped      string // a process that is stopped (SIGSTOP) when the victim is killed
	}{
		{victim: ""},
		{victim: "rmreplay-guard", message: "rmreplay: running Slurm: the guard process, which is the parent of the daemons, has ended: killed by signal SIGKILL\n"},
		{victim: "slurmctld", message: "rmreplay: slurmctld ended in the middle of the run: killed by signal SIGKILL; its last log lines:\n  ", log: "slurmctld.log"},
		{victim: "slurmdbd", message: "rmreplay: slurmdbd ended in the middle of the run: killed by signal SIGKILL; its last log lines:\n  ", log: "slurmdbd.log"},
		{victim: "mariadbd", message: "rmreplay: mariadb ended in the middle of the run: killed by signal SIGKILL; its last log lines:\n  ", log: "mariadb.log"},
		{victim: "mariadbd", message: "rmreplay: mariadb ended in the middle of the run: killed by signal SIGKILL; its last log lines:\n  ", log: "mariadb.log", stopped: "slurmdbd"},
	} {
		t.Run(strings.TrimSpace(orDriver(c.victim)+" "+c.stopped), func(t *testing.T) {
			t.Parallel()
			r := startReplay(t, longTrace())
			r.untilMidRun(t)
			in := r.inventory(t)
			// The processes are driver, guard, MariaDB, slurmdbd, slurmctld and slurmscriptd. The sockets
			// belong to the nodes, slurmctld, slurmdbd and MariaDB.
			if len(in.processes) != 6 || in.state == "" || len(in.sockets) != 4 {
				t.Fatalf("a running replay is %+v", in)
			}
			victim := in.processes[0].pid
			if c.victim != "" {
				victim = in.find(t, c.victim)
			}
			if c.stopped != "" {
				if err := syscall.Kill(in.find(t, c.stopped), syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
			if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			in.mustGo(t)
			status := r.wait(t)
			rec, rows := openRows(t, r.record)
			if !slices.ContainsFunc(rows, func(row run.Row) bool { return row.State == hpc.Completed }) || rec.Manifest.Valid {
				t.Errorf("the record: valid %v, %d jobs", rec.Manifest.Valid, len(rows))
			}
			code, object, said := r.metricsOf(t)
			if code != console.ExitInvalid || object["valid"] != false || object["jobs"].(float64) < 1 {
				t.Errorf("metrics exits with %d and says %v", code, object)
			}
			if c.victim == "" {
				if !rec.Partial || rec.Live || !strings.Contains(said, "the run was killed before its end") {
					t.Errorf("partial %v, live %v; metrics says %q", rec.Partial, rec.Live, said)
				}
				return
			}
			if status != console.ExitFailed {
				t.Errorf("exit status %d, want %d", status, console.ExitFailed)
			}
			if rec.Manifest.State != run.StateFailed || !strings.Contains(said, "it failed: ") {
				t.Errorf("state %s; metrics says %q", rec.Manifest.State, said)
			}
			_, message, _ := strings.Cut(r.said(t, "stderr"), "registering the nodes\n")
			if !strings.HasPrefix(message, c.message) || !strings.HasPrefix(message, "rmreplay: "+strings.SplitN(rec.Manifest.Error, "\n", 2)[0]) {
				t.Errorf("message %q, want %q; the record has %q", message, c.message, rec.Manifest.Error)
			}
			if c.log != "" {
				log, err := os.ReadFile(filepath.Join(rec.LogDir(), c.log))
				lines := strings.Split(strings.TrimSpace(string(log)), "\n")
				if err != nil || !strings.Contains(message, "\n  "+lines[len(lines)-1]+"\n") {
					t.Errorf("message %q has not the end of %s: %q, %v", message, c.log, lines[len(lines)-1], err)
				}
			}
		})
	}
}

func orDriver(name string) string {
	if name == "" {
		return "driver"
	}
	return name
}

// TestReplayInterrupted ends a replay as a user does, while it runs and at every step of its
// start. It uses Ctrl-C, which the terminal sends to the whole process group, SIGTERM, and SIGHUP,
// which the kernel and the shell send when the terminal closes.
func TestReplayInterrupted(t *testing.T) {
	needSlurm(t)
	for _, c := range []struct {
		name, step string
		signal     syscall.Signal
	}{
		{"SIGINT", "", syscall.SIGINT},
		{"SIGTERM", "", syscall.SIGTERM},
		{"SIGHUP", "", syscall.SIGHUP},
		{"SIGINT at MariaDB", "starting MariaDB\n", syscall.SIGINT},
		{"SIGINT at slurmdbd", "starting slurmdbd\n", syscall.SIGINT},
		{"SIGINT at sacctmgr", "filling the accounting database\n", syscall.SIGINT},
		{"SIGINT at slurmctld", "starting slurmctld\n", syscall.SIGINT},
		{"SIGTERM at MariaDB", "starting MariaDB\n", syscall.SIGTERM},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := startReplay(t, longTrace())
			group := -r.cmd.Process.Pid
			if c.signal == syscall.SIGTERM {
				group = r.cmd.Process.Pid
			}
			if c.step == "" {
				r.untilMidRun(t)
			} else {
				r.until(t, c.step, func() bool { return strings.Contains(r.said(t, "stderr"), c.step) })
				time.Sleep(50 * time.Millisecond) // so that the signal comes during the step
			}
			in := r.inventory(t)
			if in.state == "" { // no managed process has been started yet
				in.state = r.stateDir(t, in)
			}
			sent := time.Now()
			if err := syscall.Kill(group, c.signal); err != nil {
				t.Fatal(err)
			}
			if c.signal == syscall.SIGHUP {
				_ = syscall.Kill(r.cmd.Process.Pid, c.signal) // it may have ended
			}
			in.mustGo(t)
			r.endsInterrupted(t, sent)
			if !strings.HasSuffix(r.said(t, "stderr"), "rmreplay: run has the record up to the interruption\nrmreplay: interrupted\n") {
				t.Errorf("it says %q", r.said(t, "stderr"))
			}
			rec, rows := openRows(t, r.record)
			if m := rec.Manifest; m.State != run.StateInterrupted || m.Valid || rec.Partial || m.Error != "" {
				t.Errorf("state %s, valid %v, partial %v, error %q", m.State, m.Valid, rec.Partial, m.Error)
			}
			if c.step != "" {
				return
			}
			if !slices.ContainsFunc(rows, func(row run.Row) bool { return row.State == hpc.Completed }) || len(rows) >= 2000 {
				t.Errorf("%d jobs in the record", len(rows))
			}
			code, object, _ := r.metricsOf(t)
			if code != console.ExitInvalid || object["state"] != "interrupted" || object["valid"] != false {
				t.Errorf("metrics exits with %d and says %v", code, object)
			}
		})
	}
}

// stateDir finds the state directory of a replay in the arguments of its processes.
func (r *replaying) stateDir(t *testing.T, in remains) string {
	t.Helper()
	for _, p := range in.processes {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if _, dir, ok := strings.Cut(string(args), "--datadir="); ok {
			dir, _, _ = strings.Cut(dir, "\x00")
			return filepath.Dir(dir)
		}
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
		if _, text, ok := strings.Cut(string(environ), "RMREPLAY_GUARD="); ok {
			text, _, _ = strings.Cut(text, "\x00")
			var options supervise.Options
			if err := json.Unmarshal([]byte(text), &options); err == nil && len(options.Remove) > 0 {
				return options.Remove[0]
			}
		}
	}
	t.Fatalf("no state directory in the arguments of %v", in.processes)
	return ""
}

// contract lists the keys that other tools rely on.
var contract = []string{
	"jobs", "rejected", "jobs_by_state", "makespan_s", "utilization", "throughput_jobs", "mean_wait_s", "median_wait_s",
	"p90_wait_s", "max_wait_s", "mean_slowdown", "mean_bounded_slowdown", "virtual_s", "wall_s", "speedup", "engine",
	"seed", "valid", "warnings",
}

// fate is the part of a result that must not depend on the load of the machine.
type fate struct {
	Job                string
	State              hpc.State
	Submit, Start, End hpc.Time
	Nodes              string
	Processors         int
}

func fates(rows []run.Row) (out []fate) {
	for _, r := range rows {
		out = append(out, fate{r.Job, r.State, r.Submit, r.Start, r.End, r.Nodes, r.Processors})
	}
	return out
}

// TestReplaysAtOnce runs two replays at the same time and one alone. All results are equal.
func TestReplaysAtOnce(t *testing.T) {
	needSlurm(t)
	two := []*replaying{startReplay(t, mixedTrace()), startReplay(t, mixedTrace())}
	for _, r := range two {
		if status := r.wait(t); status != console.ExitOK {
			t.Fatalf("exit status %d", status)
		}
	}
	alone := startReplay(t, mixedTrace())
	if status := alone.wait(t); status != console.ExitOK {
		t.Fatalf("exit status %d", status)
	}
	_, rows := openRows(t, alone.record)
	want := fates(rows)
	waited := 0
	for _, f := range want {
		if f.State != hpc.Completed && f.State != hpc.TimedOut {
			t.Errorf("job %s: %s", f.Job, f.State)
		}
		if f.Start.Sub(f.Submit) > time.Minute {
			waited++
		}
	}
	if len(want) != 60 || waited < 10 {
		t.Errorf("%d jobs, %d of which waited: nothing to compare", len(want), waited)
	}
	for i, r := range two {
		_, rows := openRows(t, r.record)
		if diff := cmp.Diff(want, fates(rows)); diff != "" {
			t.Errorf("replay %d of two at once (+) is not the one alone (-):\n%s", i+1, diff)
		}
	}
	printed := oneObject(t, []byte(alone.said(t, "stdout")))
	for _, key := range contract {
		if _, ok := printed[key]; !ok {
			t.Errorf("--json has no %q", key)
		}
	}
	code, again, _ := alone.metricsOf(t)
	if diff := cmp.Diff(printed, again); code != console.ExitOK || diff != "" {
		t.Errorf("metrics (+) exits with %d and is not what replay printed (-):\n%s", code, diff)
	}
}

// TestReplayAsAnybody runs a replay as a user without privileges.
func TestReplayAsAnybody(t *testing.T) {
	needSlurm(t)
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: not root: all other replays of these tests are an ordinary user's anyway")
	}
	const nobody = 65534
	dir, err := os.MkdirTemp("", "rmreplay-anybody-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := &replaying{dir: dir, record: filepath.Join(dir, "run"), ended: make(chan struct{})}
	writeFiles(t, filepath.Join(dir, "cluster"), smallCluster)
	writeFiles(t, dir, map[string]string{"work.jsonl": mixedTrace()})
	binary, err := os.ReadFile(program(t))
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "rmreplay")
	if err := os.WriteFile(copied, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	as := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	environment := []string{"PATH=/usr/bin:/bin", "HOME=/nonexistent"}
	cmd := exec.Command(copied, "replay", "work.jsonl", "--cluster", "cluster", "-o", "run", "--json")
	cmd.SysProcAttr, cmd.Env = as, environment
	r.start(t, cmd)
	if status := r.wait(t); status != console.ExitOK {
		t.Fatalf("exit status %d", status)
	}
	_, rows := openRows(t, r.record)
	if len(rows) != 60 {
		t.Errorf("%d jobs in the record", len(rows))
	}
	for _, row := range rows {
		if row.State != hpc.Completed && row.State != hpc.TimedOut || row.Account == "" {
			t.Errorf("job %s: %s, account %q", row.Job, row.State, row.Account)
		}
	}
	cmd = exec.Command(copied, "metrics", "run")
	cmd.SysProcAttr, cmd.Env, cmd.Dir = as, environment, dir
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "complete, valid") {
		t.Errorf("metrics as nobody: %v: %s", err, out)
	}
}

// TestReplayRejections checks that the record contains the jobs that Slurm refuses, with Slurm's
// reason, and that all other jobs run.
func TestReplayRejections(t *testing.T) {
	needSlurm(t)
	job := func(id string, submit int, more string) string {
		if !strings.Contains(more, "time_limit_s") {
			more += `,"time_limit_s":60`
		}
		return fmt.Sprintf(`{"type":"job","id":%q,"submit":%d,"run_time_s":30,%s}`, id, submit, more)
	}
	r := startReplay(t, trace(
		job("fine", 10, `"user":"ada"`),
		job("stranger", 20, `"user":"zoe"`),
		job("account", 30, `"user":"ada","account":"alchemy"`),
		job("partition", 40, `"user":"ada","partition":"gold"`),
		job("nodes", 50, `"user":"ada","min_nodes":99`),
		job("qos", 60, `"user":"ada","qos":"vip"`),
		job("memory", 70, `"user":"ada","mem_per_node_mib":99999`),
		job("limit", 80, `"user":"ada","time_limit_s":36000`),
		job("also fine", 90, `"user":"boris"`),
	))
	if status := r.wait(t); status != console.ExitInvalid { // unrecorded refusals make a run not valid
		t.Errorf("exit status %d, want %d", status, console.ExitInvalid)
	}
	_, rows := openRows(t, r.record)
	want := map[string]string{ // a word of the reason; "" for jobs that run
		"fine": "", "also fine": "",
		"stranger":  "ESLURM_INVALID_ACCOUNT",
		"account":   "ESLURM_INVALID_ACCOUNT",
		"partition": "ESLURM_INVALID_PARTITION_NAME",
		"nodes":     "ESLURM_TOO_MANY_REQUESTED_CPUS",
		"qos":       "ESLURM_INVALID_QOS",
		"memory":    "ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE",
		"limit":     "ESLURM_INVALID_TIME_LIMIT",
	}
	if len(rows) != len(want) {
		t.Errorf("%d jobs in the record, want %d", len(rows), len(want))
	}
	for _, row := range rows {
		reason := want[row.Job]
		if reason == "" {
			if row.State != hpc.Completed {
				t.Errorf("job %s: %s (%s)", row.Job, row.State, row.Reason)
			}
			continue
		}
		if row.State != hpc.Rejected || !strings.Contains(row.Reason, reason) || row.RMJob != 0 {
			t.Errorf("job %s: %s, number %d, reason %q; want %s", row.Job, row.State, row.RMJob, row.Reason, reason)
		}
	}
	code, object, _ := r.metricsOf(t)
	if code != console.ExitInvalid || object["rejected"] != 7.0 || object["jobs"] != 2.0 {
		t.Errorf("metrics exits with %d and says %v", code, object)
	}
}
