package rpctest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/slurmspec"
)

// RootsVariable is the environment variable with a directory of unpacked Slurm packages. It has
// one root for each release, such as "24.11". Tests of newer releases need it.
const RootsVariable = "RMREPLAY_SLURM_ROOTS"

// Slurm is a release of Slurm whose stock programs a test runs.
type Slurm struct {
	Release slurmspec.Release
	// root is the directory with the release's unpacked packages; empty for the installed release.
	root string
}

// libraries returns the directory of a root's libraries.
func (s *Slurm) libraries() string {
	arch := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[runtime.GOARCH]
	return filepath.Join(s.root, "usr/lib", arch)
}

// Each runs a test with 22.05, 24.11 and 26.05, from the release oldest on. The programs come from
// the roots in [RootsVariable]. Without a root for 22.05, Each uses the release that is installed
// on this machine. Each skips a release whose programs are missing, with a message. Under -short
// it skips all releases.
func Each(t *testing.T, oldest slurmspec.Release, programs []string, test func(*testing.T, *Slurm)) {
	t.Helper()
	roots := os.Getenv(RootsVariable)
	for _, release := range []slurmspec.Release{slurmspec.R2205, slurmspec.R2411, slurmspec.R2605} {
		if !release.Since(oldest) {
			continue
		}
		t.Run(release.String(), func(t *testing.T) {
			if testing.Short() {
				t.Skip("SKIPPED by -short: real daemons")
			}
			s := &Slurm{Release: release, root: filepath.Join(roots, release.String())}
			if _, err := os.Lstat(s.root); roots == "" || err != nil {
				if release != slurmspec.R2205 {
					t.Skipf("SKIPPED: nothing is checked against Slurm %v: %s=%q does not have it", release, RootsVariable, roots)
				}
				s.root = ""
			}
			s.need(t, programs)
			test(t, s)
		})
	}
}

// need skips the test, with a message, if the release lacks a program or scontrol reports another
// version.
func (s *Slurm) need(t *testing.T, programs []string) {
	t.Helper()
	for _, p := range append([]string{"scontrol"}, programs...) {
		if _, err := s.find(p); err != nil {
			t.Skipf("SKIPPED: nothing is checked against the real Slurm %v: %v", s.Release, err)
		}
	}
	// The clients read slurm.conf before they print their version.
	dir := t.TempDir()
	conf := s.ControllerConf(t, dir, "127.0.0.1", 1, "NodeName=n1\nPartitionName=p1 Nodes=n1")
	out, err := s.RunClient(t, conf, dir, "", "scontrol", "--version")
	if found, parse := slurmspec.ParseRelease(out); err != nil || parse != nil || found.Series() != s.Release.Series() {
		t.Skipf("SKIPPED: scontrol --version says %q (%v), want Slurm %v", out, err, s.Release)
	}
}

// find returns the path of one of the release's programs.
func (s *Slurm) find(program string) (string, error) {
	if s.root == "" {
		return exec.LookPath(program)
	}
	for _, dir := range []string{"usr/sbin", "usr/bin"} {
		path := filepath.Join(s.root, dir, program)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not below %s", program, s.root)
}

// command returns the words that run a program of the release under the name argv0. A root's own dynamic loader runs
// its programs, because this machine's C library may be older.
func (s *Slurm) command(program, argv0 string) ([]string, error) {
	path, err := s.find(program)
	if err != nil {
		return nil, err
	}
	if s.root == "" {
		return []string{path}, nil
	}
	libraries := s.libraries()
	loaders, err := filepath.Glob(filepath.Join(libraries, "ld-linux-*.so.*"))
	if err != nil || len(loaders) != 1 {
		return nil, fmt.Errorf("%s has %d dynamic loaders: %w", libraries, len(loaders), err)
	}
	return []string{
		loaders[0], "--inhibit-cache", "--library-path", libraries + ":" + filepath.Join(libraries, "slurm-wlm"),
		"--argv0", argv0, path,
	}, nil
}

// Command returns the words that run one of the release's clients.
func (s *Slurm) Command(program string) ([]string, error) { return s.command(program, program) }

// Controller makes the release's slurmctld available in dir under the name slurmctld, and returns
// the path. slurmctld behaves differently under another name.
func (s *Slurm) Controller(t *testing.T, dir string) string {
	t.Helper()
	// On Debian, /usr/sbin/slurmctld may be a link to the emulator.
	return s.program(t, "slurmctld-wlm", filepath.Join(dir, "slurmctld"))
}

// Program makes the release's daemon with the given name available in dir, and returns its path.
func (s *Slurm) Program(t *testing.T, dir, name string) string {
	t.Helper()
	stock := name + "-wlm" // as for Controller
	if _, err := s.find(stock); err != nil {
		stock = name
	}
	return s.program(t, stock, filepath.Join(dir, name))
}

// PluginDir returns the directory of the release's plugins.
func (s *Slurm) PluginDir() string { return filepath.Join("/", s.libraries(), "slurm-wlm") }

// program makes a stock program available at path.
func (s *Slurm) program(t *testing.T, stock, path string) string {
	t.Helper()
	if s.root == "" {
		stock, err := exec.LookPath(stock)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(stock, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	words, err := s.command(stock, path)
	if err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nexec " + strings.Join(words, " ") + ` "$@"` + "\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// OwnAddress returns the loopback address of this machine's host name: 127.0.1.1 on many Debian
// machines. A stock daemon with NoCtldInAddrAny or NoInAddrAny listens only there. Without a
// loopback address for the name, OwnAddress skips the test with a message.
func OwnAddress(t testing.TB) string {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	addresses, err := net.DefaultResolver.LookupNetIP(t.Context(), "ip4", host)
	for _, a := range addresses {
		if a = a.Unmap(); a.IsLoopback() {
			return a.String()
		}
	}
	t.Skipf("SKIPPED: stock daemons would not listen on the loopback interface, since this machine's name, %s, stands "+
		"for %v (%v): want 127.0.1.1 %[1]s in /etc/hosts", host, addresses, err)
	return ""
}

// ControllerConf writes a slurm.conf that makes clients connect to the given address and port of
// this machine, and returns its path. The parameter more contains further lines.
func (s *Slurm) ControllerConf(t *testing.T, dir, address string, port int, more string) string {
	t.Helper()
	if s.root != "" {
		more = "PluginDir=" + s.PluginDir() + "\n" + more
	}
	conf := fmt.Sprintf(`ClusterName=test
SlurmctldHost=localhost(%s)
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
MpiDefault=none
ReturnToService=2
DebugFlags=NO_CONF_HASH
StateSaveLocation=%s/state
SlurmctldPidFile=%[4]s/ctld.pid
SlurmctldLogFile=%[4]s/ctld.log
%[5]s
`, address, port, CurrentUser(t), dir, more)
	path := filepath.Join(dir, "slurm.conf")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// RunClient runs a stock client with a slurm.conf and returns its output. Its environment excludes
// all variables that could change the client's options.
func (s *Slurm) RunClient(t *testing.T, conf, dir, stdin string, args ...string) (string, error) {
	t.Helper()
	words, err := s.command(args[0], args[0])
	if err != nil {
		return "", err
	}
	words = append(words, args[1:]...)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = dir
	cmd.Env = []string{"SLURM_CONF=" + conf, "PATH=" + os.Getenv("PATH"), "TZ=UTC", "HOME=/"}
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Codec returns the codec of the release.
func (s *Slurm) Codec() rpc.Codec {
	codec, err := rpc.NewCodec(s.Release)
	if err != nil {
		panic(err) // the roots are named after supported releases
	}
	return codec
}

// Version returns the protocol version that the driver uses with the release.
func (s *Slurm) Version() rpc.Version { return rpc.Version(s.Release.DriverProtocol()) }
