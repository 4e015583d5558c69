package slurm

import (
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/supervise"
	"rmreplay/internal/workload"
)

// Every user of the machine reaches the loopback network, and with auth/none a daemon believes
// whatever user a message names. So the daemons and the nodes close the connections of all
// processes outside the replay without reading from them. A stranger gets no answer and changes no
// schedule.
func TestStrangersAreRefused(t *testing.T) { eachSlurm(t, testStrangersAreRefused) }

func testStrangersAreRefused(t *testing.T, slurm *install.Installation) {
	t.Setenv(install.NetworkVariable, string(supervise.SharedNetwork)) // other users cannot reach a private network
	jobs := func() workload.Workload {
		var w workload.Workload
		for i := range 40 {
			w.Jobs.Append(job("j"+string(rune('A'+i)), 5*i, 60+7*i, func(j *hpc.Job) { j.Tasks = 4 }))
		}
		return w
	}
	quiet := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t)), workload: jobs()}
	want := quiet.play(t).timeline()

	attacked := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t)), workload: jobs()}
	a := &attack{t: t, stop: make(chan struct{})}
	attacked.started = a.begin
	got := attacked.play(t).timeline()
	close(a.stop)
	a.running.Wait()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("with strangers (-quiet +attacked)\n%s", diff)
	}
	if a.refused < 50 {
		t.Errorf("only %d connections of strangers were closed", a.refused)
	}
}

// timeline has when each job ran.
func (o *outcome) timeline() map[string][2]float64 {
	times := map[string][2]float64{}
	for name, row := range o.rows {
		times[name] = [2]float64{since(row.Start), since(row.End)}
	}
	return times
}

// attack acts as a process of another user that knows the addresses and speaks Slurm's protocol.
type attack struct {
	t       *testing.T
	stop    chan struct{}
	running sync.WaitGroup
	refused int
}

func (a *attack) begin(e *Engine) {
	ctld := netip.AddrPortFrom(e.sandbox.Control(), e.controlPort).String()
	node := netip.AddrPortFrom(e.sandbox.NodeAddress(0), uint16(e.loop.network.NodePort)).String()
	ping, err := e.loop.codec.Encode(&rpc.Message{Type: rpc.RequestPing, Host: "localhost"})
	if err != nil {
		a.t.Fatal(err)
	}
	a.command(e.cfg.Install.Scontrol, e.sandbox.File("conf", "slurm.conf"))
	a.running.Go(func() {
		huge := append([]byte{0xff, 0xff, 0xff, 0xf0}, make([]byte, 64<<10)...)
		for i := 0; ; i++ {
			select {
			case <-a.stop:
				return
			default:
			}
			a.try(ctld, ping)
			a.try(node, ping)
			a.try(node, huge)
			a.try(ctld, nil)
		}
	})
}

// try connects, sends something, and waits a second for an answer, which must not come. The
// driver closes a stranger's connection when it next has something to do.
func (a *attack) try(address string, data []byte) {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return // the replay is over
	}
	defer c.Close()
	_, _ = c.Write(data) // the other side may have closed already
	if data == nil {
		return // a connection that is closed at once
	}
	_ = c.SetReadDeadline(time.Now().Add(time.Second)) // cannot fail for a socket
	answer, err := io.ReadAll(c)
	if len(answer) > 0 {
		a.t.Errorf("%s answered a stranger with %d bytes", address, len(answer))
	}
	if !os.IsTimeout(err) {
		a.refused++
	}
}

// command is a stock client that is not under the clock, with the replay's own slurm.conf.
func (a *attack) command(scontrol, slurmConf string) {
	c := exec.Command(scontrol, "show", "config")
	c.Env = append(os.Environ(), "SLURM_CONF="+slurmConf)
	done := make(chan struct{})
	go func() {
		defer close(done)
		out, err := c.CombinedOutput()
		if err == nil || strings.Contains(string(out), "SLURMCTLD_PORT") || strings.Contains(string(out), "SlurmctldPort") {
			a.t.Errorf("scontrol of a stranger: %v\n%s", err, out)
		}
	}()
	a.running.Go(func() {
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			_ = c.Process.Kill() // scontrol got no answer, and would retry for a long time
			<-done
		}
	})
}
