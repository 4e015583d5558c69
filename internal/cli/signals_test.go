package cli

import (
	"bytes"
	"compress/gzip"
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

	"golang.org/x/sys/unix"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/run"
)

// promised is the longest real time that an interrupted command may take to end.
const promised = 2 * time.Second

const swfLine = "1 0 0 100 4 -1 -1 4 200 -1 1 1 1 -1 -1 -1 -1 -1\n"

// Inputs on which a command waits, or works for a very long time.
const (
	blockedOpen = "blocked-open" // a named pipe without a writer
	blockedRead = "blocked-read" // a named pipe whose writer writes one line only
	bomb        = "bomb.gz"      // 16 MB that decompress to 16 GB
)

// endless makes these inputs in dir. The pipe of blockedRead stays open for writing until the test
// ends.
func endless(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{blockedOpen, blockedRead} {
		if err := unix.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Opening a pipe for both directions does not block, and later readers do not block on open.
	f, err := os.OpenFile(filepath.Join(dir, blockedRead), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := io.WriteString(f, swfLine); err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	fmt.Fprint(z, swfLine, strings.Repeat("\n", 16<<20))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, bomb), bytes.Repeat(packed.Bytes(), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
}

// names returns the names of all files below dir.
func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		list = append(list, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// computed returns the CPU time that the command has used.
func (r *replaying) computed() time.Duration {
	const tick = time.Second / 100 // on all architectures that Go runs on
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.cmd.Process.Pid))
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	var user, system int
	if len(fields) > 12 {
		_, _ = fmt.Sscan(string(fields[11])+" "+string(fields[12]), &user, &system)
	}
	return time.Duration(user+system) * tick
}

// alive reports whether the command has not ended.
func (r *replaying) alive() bool {
	select {
	case <-r.ended:
		return false
	default:
		return true
	}
}

// busy waits until the command has used 0.2 s of CPU time, or has been running for a second.
func (r *replaying) busy(t *testing.T) {
	t.Helper()
	begun := time.Now()
	r.until(t, "it is at work", func() bool {
		// A command that waits for input may use less than a tick of CPU time on a fast machine.
		return r.computed() > 200*time.Millisecond || r.alive() && time.Since(begun) > time.Second
	})
}

// interrupt sends a signal to the command alone and checks that it ends in time as interrupted.
func (r *replaying) interrupt(t *testing.T, signal syscall.Signal) {
	t.Helper()
	sent := time.Now()
	if err := r.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	r.endsInterrupted(t, sent)
}

// endsInterrupted checks that the command ends in time after a signal.
func (r *replaying) endsInterrupted(t *testing.T, sent time.Time) {
	t.Helper()
	status := r.wait(t)
	if took := r.endedAt.Sub(sent); status != console.ExitInterrupted || took > promised {
		t.Errorf("%v: exit status %d after %v, want %d within %v", r.cmd.Args[1:], status, took, console.ExitInterrupted, promised)
	}
	if said := r.said(t, "stderr"); !strings.HasSuffix(said, "rmreplay: interrupted\n") {
		t.Errorf("%v says %q", r.cmd.Args[1:], said)
	}
}

// TestInterruptedCommands interrupts every command that reads or writes much, while it reads
// endless inputs and during long computations. Each ends in time and leaves no file.
func TestInterruptedCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED by -short: half a minute of interrupted commands")
	}
	dir := t.TempDir()
	endless(t, dir)
	writeFiles(t, filepath.Join(dir, "cluster"), smallCluster)
	writeFiles(t, dir, map[string]string{
		"log.swf":   strings.Repeat(swfLine, 3),
		"pipe.yaml": "workload: " + blockedOpen + "\nseeds: 1\nsim:\n  policies: [easy]\n  machines:\n    - processors: 4\n",
	})
	for _, pipe := range []string{"blocked/manifest.json", "cluster-pipe/slurm.conf", "out/pipe"} {
		if err := os.Mkdir(filepath.Join(dir, filepath.Dir(pipe)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mkfifo(filepath.Join(dir, pipe), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a, b := recordRuns(t)
	computing := []string{
		"workload generate lublin --jobs 10000000 -o new.jsonl.gz",
		"workload generate daint --jobs 18000000 -o new",
		"workload info " + bomb,
		"workload convert " + bomb + " -o new.swf",
		"simulate " + bomb + " --processors 4 -o new",
		"compare " + a + " " + b + " --resamples 100000000",
		"report " + a + " " + b + " --resamples 100000000 -o new.html",
	}
	waiting := []string{
		"sweep blocked-open -o new", "sweep pipe.yaml -o new-sweep",
		"workload transform log.swf --anonymize blocked-open -o new.jsonl",
		"workload convert log.swf -o out/pipe", "report " + a + " -o out/pipe", // the output is a pipe without a reader
	}
	for _, c := range []string{ // such inputs are refused at once if they are not regular files
		"metrics blocked", "compare blocked blocked", "report blocked -o new.html", "conf adapt cluster-pipe", "conf adapt blocked-open",
		"workload validate log.swf --cluster cluster-pipe",
	} {
		runHere(t, dir, console.ExitBadInput, strings.Fields(c)...)
	}
	for _, input := range []string{blockedOpen, blockedRead} {
		for _, c := range []string{
			"workload info INPUT", "workload validate INPUT", "workload convert INPUT -o new.swf", "workload transform INPUT -o new.jsonl",
			"workload sessions INPUT --graph new.jsonl", "workload build --from sacct INPUT -o new.jsonl", "workload generate --like INPUT -o new.jsonl",
			"simulate INPUT --processors 4 -o new", "replay INPUT --cluster cluster -o new",
		} {
			waiting = append(waiting, strings.ReplaceAll(c, "INPUT", input))
		}
	}
	before := names(t, dir)
	start := func(command string) *replaying {
		r := &replaying{dir: dir, ended: make(chan struct{}), streams: t.TempDir()}
		r.start(t, exec.Command(program(t), strings.Fields(command)...))
		return r
	}
	signals := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}
	for i, c := range computing {
		r := start(c)
		r.busy(t)
		r.interrupt(t, signals[i%len(signals)])
	}
	var all []*replaying
	for _, c := range waiting {
		all = append(all, start(c))
	}
	for _, r := range all {
		r.busy(t)
	}
	sent := time.Now()
	for i, r := range all {
		if err := r.cmd.Process.Signal(signals[i%len(signals)]); err != nil {
			t.Errorf("%v: %v", r.cmd.Args[1:], err)
		}
	}
	for _, r := range all {
		r.endsInterrupted(t, sent)
	}
	after := slices.DeleteFunc(names(t, dir), func(path string) bool {
		// A sweep makes its directory and its locks before it reads its input.
		return slices.Contains(before, path) || strings.Contains(path, "new-sweep")
	})
	if len(after) > 0 {
		t.Errorf("left behind: %v", after)
	}
}

// TestSimulateInterrupted: the record of an interrupted simulation is complete up to the signal.
func TestSimulateInterrupted(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM} {
		t.Run(unix.SignalName(signal), func(t *testing.T) {
			t.Parallel()
			r := &replaying{dir: t.TempDir(), ended: make(chan struct{})}
			r.record = filepath.Join(r.dir, "run")
			runHere(t, r.dir, 0, "workload", "generate", "lublin", "--jobs", "100000", "--processors", "64", "-o", "busy.jsonl")
			r.start(t, exec.Command(program(t), "simulate", "busy.jsonl", "--processors", "64", "--policy", "conservative", "-o", "run"))
			r.until(t, "it has a record", func() bool { _, err := run.Open(r.record); return err == nil })
			before := r.computed()
			r.until(t, "it simulates", func() bool { return r.computed() > before+300*time.Millisecond })
			r.interrupt(t, signal)
			rec, rows := openRows(t, r.record)
			if m := rec.Manifest; m.State != run.StateInterrupted || m.Valid || rec.Partial || len(rows) == 0 {
				t.Errorf("state %s, valid %v, partial %v, %d jobs", m.State, m.Valid, rec.Partial, len(rows))
			}
			if code, object, _ := r.metricsOf(t); code != console.ExitInvalid || object["state"] != "interrupted" {
				t.Errorf("metrics exits with %d and says %v", code, object)
			}
		})
	}
}

// TestSweepWaitsForItsRun: an interrupted sweep waits until its run has closed its record. A second
// signal ends both at once.
func TestSweepWaitsForItsRun(t *testing.T) {
	r := &replaying{dir: t.TempDir(), ended: make(chan struct{})}
	runHere(t, r.dir, 0, "workload", "generate", "lublin", "--jobs", "100000", "--processors", "64", "-o", "busy.jsonl")
	writeFiles(t, r.dir, map[string]string{"sweep.yaml": "workload: busy.jsonl\nseeds: 1\nsim:\n  policies: [conservative]\n  machines:\n    - processors: 64\n"})
	r.start(t, exec.Command(program(t), "sweep", "sweep.yaml", "-o", "swept"))
	var child int
	r.until(t, "its run is at work", func() bool {
		for _, child = range children(r.cmd.Process.Pid) {
			// Before the first child, Go starts another child, which ends at once.
			if args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child)); bytes.Contains(args, []byte("simulate")) {
				return true
			}
		}
		return false
	})
	if err := syscall.Kill(child, syscall.SIGSTOP); err != nil { // so that the run does not react to the interruption
		t.Fatal(err)
	}
	r.until(t, "its run has stopped", func() bool {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		return bytes.Contains(stat, []byte(") T "))
	})
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.ended:
		t.Fatal("it did not wait for its run")
	case <-time.After(time.Second):
	}
	sent := time.Now()
	r.interrupt(t, syscall.SIGTERM)
	if took := time.Since(sent); took > promised/2 {
		t.Errorf("it ended %v after the second signal", took)
	}
	for deadline := time.Now().Add(promised); syscall.Kill(child, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("its run is still there")
		}
	}
}

// children returns the ids of a process's children.
func children(pid int) (ids []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(task) // the thread may have ended
		for _, field := range strings.Fields(string(text)) {
			id, _ := strconv.Atoi(field)
			ids = append(ids, id)
		}
	}
	return ids
}

// TestKilledEarly kills programs while they look for Slurm and prepare its daemons. They must leave
// no files in the directories for temporary files and for the daemons' state.
func TestKilledEarly(t *testing.T) {
	needSlurm(t)
	for i, command := range []string{"doctor", "replay work.jsonl --cluster cluster -o run", "conf adapt cluster"} {
		for step := range 8 {
			t.Run(fmt.Sprintf("%s/%d", strings.Fields(command)[0], step), func(t *testing.T) {
				t.Parallel()
				r := &replaying{dir: t.TempDir(), ended: make(chan struct{})}
				writeFiles(t, filepath.Join(r.dir, "cluster"), smallCluster)
				writeFiles(t, r.dir, map[string]string{"work.jsonl": longTrace()})
				temporary := filepath.Join(r.dir, "tmp")
				if err := os.Mkdir(temporary, 0o700); err != nil {
					t.Fatal(err)
				}
				cmd := exec.Command(program(t), strings.Fields(command)...)
				cmd.Env = append(os.Environ(), "TMPDIR="+temporary, "RMREPLAY_TMPDIR="+temporary)
				r.start(t, cmd)
				time.Sleep(time.Duration(step*(60+20*i)) * time.Millisecond)
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
				<-r.ended
				var left []string
				for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
					// A directory may be removed while it is listed.
					matches, err := filepath.Glob(filepath.Join(temporary, "*"))
					if left = matches; err == nil && len(left) == 0 {
						break
					}
					if time.Now().After(deadline) {
						t.Fatalf("left behind: %v", left)
					}
				}
			})
		}
	}
}
