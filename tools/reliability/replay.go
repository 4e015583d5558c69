package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// grace is how long processes and files of a replay may exist after the program has ended: the
// guard of a killed program still ends the daemons.
const grace = 10 * time.Second

// result says how a replay ended, and which checks failed.
type result struct {
	Replay int      `json:"replay"`
	Hit    hit      `json:"hit"`
	Exit   string   `json:"exit"`    // the exit status, or the signal that ended the program
	State  string   `json:"state"`   // state of the record: see [verdict]
	After  float64  `json:"after_s"` // seconds from the end of the hit to the end of the program
	Broken []string `json:"broken,omitempty"`
	Output string   `json:"output,omitempty"` // the program's output, if a check failed

	outcome outcome
}

// outcome holds the figures in which replays of a workload agree.
type outcome struct {
	Jobs     int            `json:"jobs"`
	States   map[string]int `json:"jobs_by_state"`
	Makespan float64        `json:"makespan_s"`
	State    string         `json:"state"`
	Valid    bool           `json:"valid"`
}

// tolerance is the largest difference of the makespans of two replays, as a share of the makespan.
const tolerance = 0.02

// agrees reports whether two replays of a workload had the same outcome, within the tolerance.
func (o outcome) agrees(want outcome) bool {
	if o.Jobs != want.Jobs || len(o.States) != len(want.States) {
		return false
	}
	for state, n := range want.States {
		if o.States[state] != n {
			return false
		}
	}
	return math.Abs(o.Makespan-want.Makespan) <= tolerance*want.Makespan
}

// run replays the workload once, disturbs the replay with a hit, and checks what is left.
func (l *lab) run(ctx context.Context, name string, h hit, random *rand.Rand) (r result) {
	dir := filepath.Join(l.work, "replay-"+name)
	scratch, record := filepath.Join(dir, "scratch"), filepath.Join(dir, "run")
	defer func() {
		if len(r.Broken) == 0 {
			_ = os.RemoveAll(dir)
		}
	}()
	if err := os.MkdirAll(scratch, 0o711); err != nil {
		r.Broken = []string{err.Error()}
		return r
	}
	var output bytes.Buffer
	args := []string{"replay", l.workload, "--cluster", l.cluster, "-o", record, "--quiet"}
	if l.slurm != "" {
		args = append(args, "--slurm", l.slurm)
	}
	cmd := exec.Command(l.program, args...)
	cmd.Env = append(os.Environ(), "RMREPLAY_TMPDIR="+scratch, "TMPDIR="+scratch, "RMREPLAY_NETWORK="+h.Network)
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.WaitDelay = grace
	if err := cmd.Start(); err != nil {
		r.Broken = []string{err.Error()}
		return r
	}
	ended := make(chan struct{})
	var waited error
	go func() { waited = cmd.Wait(); close(ended) }()
	h.strike(cmd.Process.Pid, scratch, random, ended)
	struck := time.Now()
	hangs := false
	select {
	case <-ended:
	case <-ctx.Done():
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		return r
	case <-time.After(l.typical + l.limit):
		hangs = true
		_ = cmd.Process.Signal(syscall.SIGQUIT) // its stacks go to the output
		if !sleep(grace, ended) {
			break
		}
		_ = cmd.Process.Kill()
		<-ended
	}
	r.Hit, r.After, r.Exit = h, time.Since(struck).Seconds(), exitOf(cmd.ProcessState, waited)
	broke := func(format string, args ...any) { r.Broken = append(r.Broken, fmt.Sprintf(format, args...)) }
	if hangs {
		broke("hangs: it had not ended %s after the hit", l.typical+l.limit)
	}
	l.checkLeftovers(scratch, broke)
	l.checkRecord(record, &r, broke)
	if l.inspect != nil {
		l.inspect(record)
	}
	if h.Network == "private" && h.Reached > 0 {
		broke("strangers made %d connections to a private network", h.Reached)
	}
	if h.Struck == "" {
		h.Kind = nothing // the victim did not exist, or the program had ended
	}
	if !hangs && !slices.Contains(allowed(h), verdict{r.Exit, r.State}) {
		broke("exit status %s with a record %q", r.Exit, r.State)
	}
	if r.State == "valid" && l.want.Jobs > 0 && !r.outcome.agrees(l.want) {
		broke("a valid record with another result: %+v instead of %+v", r.outcome, l.want)
	}
	if len(r.Broken) > 0 {
		r.Output = output.String()
	}
	return r
}

// exitOf returns the exit status as text, or the name of the signal that ended the program.
func exitOf(p *os.ProcessState, err error) string {
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err.Error()
	}
	if ws, ok := p.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return ws.Signal().String()
	}
	return fmt.Sprint(p.ExitCode())
}

// checkLeftovers waits until the replay's processes have ended, and reports processes and files
// that remain.
func (l *lab) checkLeftovers(scratch string, broke func(string, ...any)) {
	var pids []int
	for end := time.Now().Add(grace); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if pids = processesOf(scratch); len(pids) == 0 {
			break
		}
	}
	for _, pid := range pids {
		broke("process %d (%s) is left", pid, commandName(pid))
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	entries, err := os.ReadDir(scratch)
	if err != nil {
		broke("%v", err)
	}
	for _, e := range entries {
		broke("file %s is left", e.Name())
	}
}

// checkRecord reads the record as a user would, and notes its state.
func (l *lab) checkRecord(record string, r *result, broke func(string, ...any)) {
	// A record begins with its manifest. A program that was killed before that may leave a directory
	// without a manifest.
	if _, err := os.Stat(filepath.Join(record, "manifest.json")); errors.Is(err, os.ErrNotExist) {
		r.State = noRecord
		return
	}
	out, err := exec.Command(l.program, "metrics", "--json", "--partial", record).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		broke("the record cannot be read: %v", err)
		return
	}
	if err := json.Unmarshal(out, &r.outcome); err != nil {
		broke("the metrics cannot be read: %v", err)
		return
	}
	valid := r.outcome.Valid
	r.State = r.outcome.State
	switch {
	case valid && r.State == "complete":
		r.State = "valid"
	case valid:
		broke("a record is %s and valid", r.State)
	}
	err = exec.Command(l.program, "metrics", record).Run()
	var exit *exec.ExitError
	if refused := errors.As(err, &exit) && exit.ExitCode() == 3; refused == valid {
		broke("metrics of a record that is %s ends with %v", r.State, err)
	}
}
