package service

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rmreplay/internal/forecast"
	"rmreplay/internal/rm/slurm/slurmtest"
)

// dataVariable names the data directory if this test binary runs as a service and not as tests.
const dataVariable = "RMREPLAY_TEST_FORECAST_DATA"

// listenVariable names a further address of this service.
const listenVariable = "RMREPLAY_TEST_FORECAST_LISTEN"

func TestMain(m *testing.M) {
	dir := os.Getenv(dataVariable)
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := serveForTest(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serveForTest is a service with short times.
func serveForTest(dir string) error {
	ctx, end := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer end()
	s, err := Open(dir, Options{
		Every: 5 * time.Second, Keep: 24 * time.Hour, History: time.Hour, Timeout: time.Minute, Zone: time.UTC,
		Forecast: forecast.Options{Realizations: 10, Seed: 1, RunTimes: forecast.FromHistory, Arrivals: forecast.NoArrivals,
			Horizon: 4 * time.Hour, Within: []time.Duration{time.Hour}},
		NewLearner: func() (forecast.Learner, error) { return forecast.NewShares(), nil },
		Say:        func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) },
	})
	if err != nil {
		return err
	}
	var listeners []net.Listener
	for _, address := range strings.Fields(dir + ".socket " + os.Getenv(listenVariable)) {
		l, err := Listen(ctx, address)
		if err != nil {
			return err
		}
		listeners = append(listeners, l)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx)
	}()
	err = Serve(ctx, s.Handler(nil), listeners)
	<-ended
	if err != nil {
		return err
	}
	return s.Close()
}

// twin is a live Slurm with a service in a process of its own.
type twin struct {
	*slurmtest.Site
	t       *testing.T
	dir     string // directory of the service's data
	service *exec.Cmd
	client  http.Client
}

// start starts the service.
func (w *twin) start() {
	w.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Setenv(dataVariable, w.dir)
	w.service = w.Start(exe)
	if err := os.Unsetenv(dataVariable); err != nil {
		w.t.Fatal(err)
	}
}

// slurmctld returns the process of slurmctld.
func (w *twin) slurmctld() int {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.Dir, "pid"))
	if err != nil {
		w.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		w.t.Fatal(err)
	}
	return pid
}

// children returns the processes that the service has started.
func (w *twin) children() (pids []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", w.service.Process.Pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list) // the thread may have ended
		for _, child := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(child); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// connect makes the client of the service's socket.
func (w *twin) connect() {
	w.client.Transport = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", w.dir+".socket")
	}}
	w.client.Timeout = 10 * time.Second
}

// ask returns the answer of a path, or false if there is no answer.
func (w *twin) ask(path string, to any) bool {
	response, err := w.client.Get("http://localhost" + path)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK && json.NewDecoder(response.Body).Decode(to) == nil
}

// until waits until is accepts the answer about the jobs. No answer may be older than its stated
// age.
func (w *twin) until(what string, is func(a *jobAnswer) bool) {
	w.t.Helper()
	w.Until(what, func() bool {
		var a jobAnswer
		if !w.ask("/v1/jobs", &a) {
			return false
		}
		if age := time.Since(*a.Forecast.At).Seconds(); age > a.Forecast.Age+60 || a.Forecast.Stale != (a.Forecast.Age > 15) {
			w.t.Errorf("the forecast is %.0f s old, and says %+v", age, a.Forecast)
		}
		return is(&a)
	})
}

// slow is a scontrol that does not answer while a file is there.
const slow = `#!/bin/sh
test -e '%[1]s/slow' && exec sleep 600
exec '%[1]s/bin/scontrol' "$@"
`

// TestLive: a service forecasts a live Slurm. slurmctld and the service are killed; a command hangs
// and is killed. Jobs start meanwhile, and the forecasts are compared with their starts. With other
// releases only the service is killed.
func TestLive(t *testing.T) {
	for _, release := range []string{"", "24.11", "26.05"} {
		t.Run("Slurm "+release, func(t *testing.T) { live(t, release) })
	}
}

func live(t *testing.T, release string) {
	w := &twin{t: t, dir: filepath.Join(t.TempDir(), "data"), Site: slurmtest.Start(t, release, slurmtest.Options{Nodes: 2, Lines: `
SchedulerType=sched/backfill
PartitionName=batch Nodes=n[1-2] Default=YES OverSubscribe=EXCLUSIVE MaxTime=600
`})}
	w.connect()
	end := sync.OnceFunc(func() {
		w.Until("all jobs have ended", func() bool {
			_ = os.Remove(filepath.Join(w.Dir, "slow")) // the file of a test that failed
			return w.Say("scancel", "--user=65534") == "" && w.Say("squeue", "-h") == "" && w.Say("scontrol", "ping") != ""
		})
	})
	t.Cleanup(end) // before the daemons end
	commands := filepath.Join(w.Dir, "slow-bin")
	if err := os.Mkdir(commands, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(commands, "scontrol"), fmt.Appendf(nil, slow, w.Dir), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", commands+":"+os.Getenv("PATH"))
	w.Submit("exec sleep 40", "-N2", "-t1")
	w.Until("a job runs", func() bool { return w.Say("squeue", "-h", "-t", "R", "-o", "%i") != "" })
	for range 3 {
		w.Submit("exec sleep 600", "-N1", "-t5")
	}
	w.start()
	w.until("the service knows the queue", func(a *jobAnswer) bool { return a.Pending == 3 && a.Jobs[0].P50 != nil })

	kill(t, w.service.Process.Pid)
	w.start()
	var a jobAnswer
	w.Until("the service answers again", func() bool { return w.ask("/v1/jobs", &a) })
	if a.Forecast.At == nil || a.Pending == 0 {
		t.Errorf("after a kill: %+v", a)
	}

	w.until("forecasts have been judged", func(*jobAnswer) bool {
		var judged struct{ Accuracy Accuracy }
		return w.ask("/v1/accuracy", &judged) && judged.Accuracy.All.Forecasts > 0
	})

	if release == "" {
		w.failures(end)
	}
	if err := w.service.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := w.service.Wait(); err != nil {
		t.Errorf("the service ended with %v", err)
	}
}

// failures kills slurmctld, and lets a command hang. end ends the jobs before the new slurmctld
// starts.
func (w *twin) failures(end func()) {
	t := w.t
	kill(t, w.slurmctld())
	w.until("the service says so", func(a *jobAnswer) bool {
		return a.Forecast.Fault != nil && strings.HasPrefix(a.Forecast.Fault.Text, "slurmctld does not answer since ")
	})
	w.until("the forecast is stale", func(a *jobAnswer) bool { return a.Forecast.Stale })
	w.Start("slurmctld", "-D", "-f", filepath.Join(w.Dir, "slurm.conf"))
	t.Cleanup(end) // end needs this slurmctld
	w.until("there is a forecast again", func(a *jobAnswer) bool { return a.Forecast.Fault == nil && !a.Forecast.Stale })

	hang := filepath.Join(w.Dir, "slow")
	if err := os.WriteFile(hang, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	w.Until("a command hangs and is killed", func() bool {
		for _, pid := range w.children() {
			if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); string(line) == "sleep\x00600\x00" {
				kill(t, pid)
				return true
			}
		}
		return false
	})
	w.until("the service says so", func(a *jobAnswer) bool { return a.Forecast.Fault != nil })
	if err := os.Remove(hang); err != nil {
		t.Fatal(err)
	}
	w.until("there is a forecast again", func(a *jobAnswer) bool { return a.Forecast.Fault == nil && !a.Forecast.Stale })
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}
