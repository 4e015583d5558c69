package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/run"
)

// oldKernels are commands of the test binary that run another command under the conditions of RHEL
// 8: with user namespaces, and with user.max_user_namespaces set to 0.
var oldKernels = map[string]func(){
	"linux-4.18":                    func() { runOnOldKernel(0) },
	"linux-4.18-without-namespaces": func() { runOnOldKernel(unix.CLONE_NEWUSER | unix.CLONE_NEWNET) },
}

// runOnOldKernel runs the command of its arguments. These system calls fail: calls that are newer
// than Linux 4.18, setsockopt with SO_BINDTODEVICE, and clone with one of the given flags.
func runOnOldKernel(flags uint32) {
	runtime.LockOSThread() // the filter applies to this thread, and execve keeps it
	path, err := exec.LookPath(os.Args[1])
	if err == nil {
		err = answerAsOldKernel(flags)
	}
	if err == nil {
		err = syscall.Exec(path, os.Args[1:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, "running a command on an old kernel:", err)
	os.Exit(console.ExitMissing)
}

// answerAsOldKernel attaches a filter of system calls to this thread (seccomp(2)).
func answerAsOldKernel(flags uint32) error {
	const newest = unix.SYS_RSEQ                                                             // of 4.18
	load := func(off uint32) bpf.LoadAbsolute { return bpf.LoadAbsolute{Off: off, Size: 4} } // of struct seccomp_data
	argument := func(i uint32) bpf.LoadAbsolute { return load(16 + 8*i) }
	fail := func(e unix.Errno) bpf.RetConstant { return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(e)} }
	allow := bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	program, err := bpf.Assemble([]bpf.Instruction{
		load(0), // the number of the call
		bpf.JumpIf{Cond: bpf.JumpLessOrEqual, Val: newest, SkipTrue: 1},
		fail(unix.ENOSYS),
		bpf.JumpIf{Val: unix.SYS_SETSOCKOPT, SkipFalse: 6},
		argument(1),
		bpf.JumpIf{Val: unix.SOL_SOCKET, SkipFalse: 3},
		argument(2),
		bpf.JumpIf{Val: unix.SO_BINDTODEVICE, SkipFalse: 1},
		fail(unix.EPERM),
		allow,
		bpf.JumpIf{Val: unix.SYS_CLONE, SkipFalse: 3},
		argument(0),
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: flags, SkipFalse: 1},
		fail(unix.ENOSPC),
		allow,
	})
	if err != nil {
		return err
	}
	filter := make([]unix.SockFilter, len(program))
	for i, in := range program {
		filter[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	all := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&all)), 0, 0)
}

// TestWithoutLoopback runs doctor in a network namespace whose loopback interface is down, as in
// some containers. Replays can run with a network of their own, and cannot run on the shared
// network.
func TestWithoutLoopback(t *testing.T) {
	needSlurm(t)
	const user = 12345 // not root, because root without other user IDs cannot replay
	for network, want := range map[string]string{
		"":       "\nreplays on real Slurm can run here\n",
		"shared": "\nmissing  loopback addresses  ",
	} {
		cmd := exec.Command(program(t), "doctor")
		cmd.Env = append(os.Environ(), install.NetworkVariable+"="+network)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Getegid(), Size: 1}}}
		out, err := cmd.CombinedOutput()
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) {
			t.Skipf("SKIPPED: a network without a loopback interface is not tested: %v", err)
		}
		if !strings.Contains(string(out), want) {
			t.Errorf("%s=%s: %v\n%s\nwant %q", install.NetworkVariable, network, err, out, want)
		}
	}
}

// TestOldKernel checks that a replay on an older kernel has the same jobs as a replay on this
// kernel.
func TestOldKernel(t *testing.T) {
	needSlurm(t)
	jobs := func(t *testing.T, wrapper ...string) []run.Row {
		t.Helper()
		r := startReplay(t, mixedTrace(), wrapper...)
		if status := r.wait(t); status != console.ExitOK {
			t.Fatalf("%v: exit status %d", wrapper, status)
		}
		_, rows := openRows(t, r.record)
		return rows
	}
	want := jobs(t)
	for command, network := range map[string]string{
		"linux-4.18":                    "the daemons have a network of their own",
		"linux-4.18-without-namespaces": "no space left on device): the daemons refuse strangers' connections on loopback",
	} {
		t.Run(command, func(t *testing.T) {
			out, err := exec.Command(command, program(t), "doctor").CombinedOutput()
			if err != nil || !strings.Contains(string(out), network) {
				t.Errorf("doctor: %v\n%s\nwant %q", err, out, network)
			}
			if diff := cmp.Diff(want, jobs(t, command)); diff != "" {
				t.Errorf("other jobs than on this kernel (-want +got):\n%s", diff)
			}
		})
	}
}
