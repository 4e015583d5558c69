package network

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// role is the environment variable that says which of two machines the test binary plays.
const role = "RMREPLAY_TEST_MACHINE"

// Another machine cannot reach the nodes' port, while it reaches a port that any process listens at. The
// machines are two network namespaces with a cable between them.
func TestOtherMachines(t *testing.T) {
	switch os.Getenv(role) {
	case "driver":
		playDriver(t)
	case "other":
		playOther(t)
	default:
		if _, err := exec.LookPath("ip"); err != nil {
			t.Skipf("SKIPPED: whether other machines reach the nodes' port is not tested: %v (apt-get install iproute2)", err)
		}
		attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}}
		probe := exec.Command("true")
		probe.SysProcAttr = attr
		if err := probe.Run(); err != nil {
			t.Skipf("SKIPPED: whether other machines reach the nodes' port is not tested: this machine gives no private network: %v", err)
		}
		if out, err := machine("driver", attr).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// machine is a command that plays one machine in namespaces of its own.
func machine(name string, attr *syscall.SysProcAttr) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestOtherMachines$")
	cmd.Env = append(os.Environ(), role+"="+name)
	attr.Pdeathsig = unix.SIGKILL
	cmd.SysProcAttr = attr
	return cmd
}

// configure runs ip(8) with each of these lines.
func configure(t *testing.T, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", line, err, out)
		}
	}
}

// playDriver listens at the nodes' port and at one of another process, and starts the other machine.
func playDriver(t *testing.T) {
	other := machine("other", &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET})
	other.Stderr = os.Stderr
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	configure(t, "link set lo up", "link add name cable type veth peer name cable netns "+strconv.Itoa(other.Process.Pid),
		"address add 10.9.0.1/24 dev cable", "link set cable up")
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	nodes, err := Listen(tcpSocket, [4]byte{127, 0, 0, 1}, pipe, Handlers{})
	if err != nil {
		t.Fatal(err)
	}
	defer nodes.Close()
	plain, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	for _, host := range []string{"127.0.0.1", "127.255.1.2", "10.9.0.1"} {
		if err := dial(host, nodes.NodePort); err != nil {
			t.Errorf("from the machine itself: %v", err)
		}
	}
	fmt.Fprintln(in, plain.Addr().(*net.TCPAddr).Port, nodes.NodePort)
	answers := bufio.NewScanner(out)
	if !answers.Scan() || answers.Text() != "reached" {
		t.Errorf("another process's port: %q (want reached)", answers.Text())
	}
	if !answers.Scan() || !strings.HasSuffix(answers.Text(), "i/o timeout") {
		t.Errorf("the nodes' port: %q (want i/o timeout)", answers.Text())
	}
	_ = in.Close()
	for answers.Scan() { // the test's own output
	}
	if err := other.Wait(); err != nil {
		t.Error(err)
	}
}

// playOther says what came of a connection to each port of the driver's machine.
func playOther(t *testing.T) {
	var ports [2]int
	if _, err := fmt.Scanln(&ports[0], &ports[1]); err != nil {
		t.Fatal(err)
	}
	configure(t, "address add 10.9.0.2/24 dev cable", "link set cable up")
	for _, port := range ports {
		if err := dial("10.9.0.1", port); err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println("reached")
	}
}

// dial makes a connection, with time for two attempts of the kernel, and closes it.
func dial(host string, port int) error {
	c, err := net.DialTimeout("tcp4", net.JoinHostPort(host, strconv.Itoa(port)), 2500*time.Millisecond)
	if err != nil {
		return err
	}
	return c.Close()
}
