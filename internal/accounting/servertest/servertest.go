// Package servertest starts other projects' programs for tests. tools/test-servers installs these
// programs: OpenSearch 2 and 3, Apache Kafka, and Python with packages that read rmreplay's
// output. A test is skipped if its program is missing.
package servertest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Variable names the environment variable with the directory of tools/test-servers.
const Variable = "RMREPLAY_TEST_SERVERS"

// patience is how long a server may take to start. On a machine that also runs other tests,
// starting a Java program takes long.
const patience = 4 * time.Minute

// Process is a server in a separate process. It ends with the test, even if the test is killed.
type Process struct {
	t     testing.TB
	name  string // its name in tools/test-servers
	dir   string // directory of its files
	args  func() []string
	ready func() error // returns nil once the server answers
	cmd   *exec.Cmd
	stdin io.Closer
	ended chan struct{}
}

// newProcess returns a server that is not running. It skips the test if the server's program is
// missing.
func newProcess(t testing.TB, name string) *Process {
	t.Helper()
	need(t, name, "archive.jsa")
	need(t, name, "java", "bin", "java")
	p := &Process{t: t, name: name, dir: t.TempDir()}
	t.Cleanup(p.Kill)
	return p
}

// need returns the directory of a program in tools/test-servers. It skips the test if the file
// below it is missing.
func need(t testing.TB, name string, file ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skipf("SKIPPED by -short: %s", name)
	}
	root := os.Getenv(Variable)
	if root == "" {
		t.Skipf("SKIPPED: nothing is tried with %s: %s names no directory (tools/test-servers)", name, Variable)
	}
	dir := filepath.Join(root, name)
	if _, err := os.Stat(filepath.Join(append([]string{dir}, file...)...)); err != nil {
		t.Skipf("SKIPPED: nothing is tried with %s: %v (tools/test-servers)", name, err)
	}
	return dir
}

// Python returns a program of the virtual environment: python, or a program that a package
// installed. It skips the test if the environment is missing.
func Python(t testing.TB, program string) string {
	t.Helper()
	dir := need(t, "python", "made")
	return filepath.Join(dir, "bin", program)
}

// Schemathesis sends requests to the server at a URL. The OpenAPI description in a file allows
// some of these requests and forbids others. The test fails if a response differs from the
// description, is an error of the server, or accepts a forbidden request. The server may refuse a
// request that the description allows, because a description cannot express all errors. args are
// additional arguments, which override earlier arguments.
func Schemathesis(t testing.TB, description, url string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), Python(t, "schemathesis"), append([]string{
		"run", description, "--url", url, "--seed", "1", "--max-examples", "10", "--phases", "examples,coverage,fuzzing",
		"--exclude-checks", "positive_data_acceptance", "--continue-on-failure", "--no-shrink", "--no-color",
	}, args...)...)
	c.Dir = t.TempDir() // the program writes its findings there
	var err error
	if c.Args[2], err = filepath.Abs(description); err != nil {
		t.Fatal(err)
	}
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("schemathesis: %v\n%s", err, out)
	}
}

// Start starts the server, with the same files as before if it was killed, and waits until it
// answers.
func (p *Process) Start() {
	p.t.Helper()
	p.launch()
	p.await()
}

func (p *Process) launch() {
	p.t.Helper()
	root := p.root()
	log, err := os.OpenFile(p.log(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	// The test's server runs only for seconds. So use the simplest garbage collector and compiler, and an archive of
	// loaded classes.
	p.cmd = exec.Command(filepath.Join(root, "java", "bin", "java"), append([]string{
		"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:SharedArchiveFile=" + filepath.Join(root, "archive.jsa"),
		"-cp", filepath.Join(root, "server.jar") + ":" + filepath.Join(root, "lib", "*"), "Server",
	}, p.args()...)...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = p.dir, log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the server must outlive the test's last requests
	if p.stdin, err = p.cmd.StdinPipe(); err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) {
		defer close(ended)
		_ = cmd.Wait() // the test kills the server, so Wait returns an error
	}(p.cmd, p.ended)
}

// await waits until the server answers.
func (p *Process) await() {
	p.t.Helper()
	var err error
	for begin := time.Now(); time.Since(begin) < patience; time.Sleep(50 * time.Millisecond) {
		if err = p.ready(); err == nil {
			return
		}
		select {
		case <-p.ended:
			p.t.Fatalf("%s has ended: %s", p.name, p.said())
		default:
		}
	}
	p.t.Fatalf("%s does not answer after %v: %v: %s", p.name, patience, err, p.said())
}

// Kill kills the server with SIGKILL, and waits for its end. It does nothing if the server is not
// running.
func (p *Process) Kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // an error means that the server has ended
	<-p.ended
	_ = p.stdin.Close() // the server has ended
	p.cmd = nil
}

// root returns the directory of the server's programs.
func (p *Process) root() string { return filepath.Join(os.Getenv(Variable), p.name) }

func (p *Process) log() string { return filepath.Join(p.dir, "output") }

// said returns the end of the server's output.
func (p *Process) said() string {
	text, err := os.ReadFile(p.log())
	if err != nil {
		return err.Error()
	}
	const most = 4000
	return string(text[max(0, len(text)-most):])
}

// freePort returns an unused port of the loopback address. The port is below the range that the
// kernel assigns to clients. So no client gets the port of a server that is temporarily down.
func freePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 10000 + rand.IntN(20000)
		if listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			defer listener.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}
