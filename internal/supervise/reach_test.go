package supervise

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// role is the environment variable that says which of two machines the test binary plays.
const role = "RMREPLAY_TEST_MACHINE"

// TestOtherMachines checks that another machine cannot reach a socket with HearLoopback, but
// reaches an ordinary socket. It tries the ways of old and of new kernels. The machines are two
// network namespaces with a virtual cable between them.
func TestOtherMachines(t *testing.T) {
	switch os.Getenv(role) {
	case "driver":
		playDriver(t)
	case "other":
		playOther(t)
	default:
		if _, err := exec.LookPath("ip"); err != nil {
			t.Skipf("SKIPPED: whether other machines reach a socket is not tested: %v (apt-get install iproute2)", err)
		}
		attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}}
		probe := exec.Command("true")
		probe.SysProcAttr = attr
		if err := probe.Run(); err != nil {
			t.Skipf("SKIPPED: whether other machines reach a socket is not tested: this machine gives no private network: %v", err)
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

// playDriver listens in three ways, and starts the other machine.
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
	ports := []int{
		listen(t, func(int) error { return nil }),
		listen(t, HearLoopback),
		listen(t, dropOthers),
	}
	for _, port := range ports {
		for _, host := range []string{"127.0.0.1", "127.255.1.2"} {
			if err := dial(host, port); err != nil {
				t.Errorf("from the machine itself: %v", err)
			}
		}
	}
	fmt.Fprintln(in, ports[0], ports[1], ports[2])
	answers := bufio.NewScanner(out)
	for _, want := range []string{"^reached$", "refused$|timeout$", "timeout$"} {
		if !answers.Scan() || !regexp.MustCompile(want).MatchString(answers.Text()) {
			t.Errorf("from the other machine: %q (want %s)", answers.Text(), want)
		}
	}
	_ = in.Close()
	for answers.Scan() { // the test's own output
	}
	if err := other.Wait(); err != nil {
		t.Error(err)
	}
}

// listen returns the port of a socket that listens at all addresses.
func listen(t *testing.T, hear func(fd int) error) (port int) {
	t.Helper()
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var refused error
		err := c.Control(func(fd uintptr) { refused = hear(int(fd)) })
		return errors.Join(err, refused)
	}}
	l, err := config.Listen(t.Context(), "tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

// playOther prints the result of a connection to each port of the driver's machine.
func playOther(t *testing.T) {
	var ports [3]int
	if _, err := fmt.Scanln(&ports[0], &ports[1], &ports[2]); err != nil {
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
