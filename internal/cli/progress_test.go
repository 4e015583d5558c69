package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/experiment"
	"rmreplay/internal/hpc"
	"rmreplay/internal/replay"
	"rmreplay/internal/sweep"
)

// noon is an instant of the tests.
var noon = hpc.Unix(1_700_049_600)

// pseudoTerminal opens a terminal. Text that is written to one end is read from the other end.
func pseudoTerminal(t *testing.T) (near, far *os.File) {
	t.Helper()
	near, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("SKIPPED, progress is not tested on a terminal: %v", err)
	}
	t.Cleanup(func() { _ = near.Close() })
	number, err := unix.IoctlGetInt(int(near.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(near.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		far, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skipf("SKIPPED, progress is not tested on a terminal: %v", err)
	}
	t.Cleanup(func() { _ = far.Close() })
	return near, far
}

// shown is a display of runs, in UTC.
func shown(w io.Writer) *runProgress {
	return newRunProgress(console.Output{Stderr: w}.Progress(false), time.UTC)
}

// The line is replaced in place. It is always narrower than the terminal, even after the terminal
// became narrower. At 40 columns it still has the most important parts.
func TestProgressOnTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	near, far := pseudoTerminal(t)
	p := shown(far)
	if !p.OnTerminal() {
		t.Fatal("a terminal is not recognized")
	}
	p.begin(0)
	n := replay.Progress{
		Now: noon.Add(9 * time.Hour), LastInput: noon.Add(20 * time.Hour), Submitted: 60, Pending: 12, Running: 8, Ended: 40,
		Load: replay.Load{Begin: noon, LastEnd: noon.Add(21 * time.Hour), Tasks: 100, Processors: 200, Held: 174},
	}
	reader := bufio.NewReader(near)
	line := func(width int) string {
		t.Helper()
		if err := unix.IoctlSetWinsize(int(near.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: uint16(width)}); err != nil {
			t.Fatal(err)
		}
		p.Every, p.sampled, p.begun = 0, time.Time{}, p.begun.Add(-10*time.Second)
		p.observe(n)
		if _, err := far.WriteString("\a"); err != nil { // the end of the line
			t.Fatal(err)
		}
		text, err := reader.ReadString('\a')
		if err != nil {
			t.Fatal(err)
		}
		text, replaced := strings.CutPrefix(strings.TrimSuffix(text, "\a"), "\r\x1b[K")
		if !replaced || strings.ContainsAny(text, "\r\n\x1b") {
			t.Errorf("%d columns: %q does not replace the line before", width, text)
		}
		if length := utf8.RuneCountInString(text); length >= width {
			t.Errorf("%d characters on a terminal of %d columns: %q", length, width, text)
		}
		return text
	}
	line(100)
	if got := line(200); !regexp.MustCompile(`^2023-11-15 21:00   \d\d%  ended 40 of 100  utilization 87%  \d+x  running 8  pending 12  left at least \d+s$`).MatchString(got) {
		t.Errorf("200 columns: %q", got)
	}
	if got := line(40); !regexp.MustCompile(`^ \d\d%  \d+x  left at least \d+s$`).MatchString(got) {
		t.Errorf("40 columns: %q", got)
	}
	for _, width := range []int{120, 60, 25, 12, 5, 2} {
		line(width)
	}
}

// Without a terminal, or on a terminal that cannot rewrite a line, the progress is plain lines.
func TestProgressWithoutTerminal(t *testing.T) {
	t.Setenv("TERM", "dumb")
	_, far := pseudoTerminal(t)
	if p := shown(far); p.OnTerminal() || p.Every < time.Second {
		t.Errorf("a dumb terminal gets a line that is rewritten, every %v", p.Every)
	}
	var out bytes.Buffer
	p := shown(&out)
	p.Every = 0
	p.begin(0)
	p.observe(replay.Progress{Now: noon, Ended: 1, Load: replay.Load{Begin: noon, Tasks: 2}})
	p.End()
	if got, want := out.String(), "2023-11-15 12:00"; !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 1 || strings.Contains(got, "\x1b") {
		t.Errorf("got %q", got)
	}
}

// The progress of a set says how many realizations are done, and how long the others will take.
func TestProgressOfSet(t *testing.T) {
	var out bytes.Buffer
	p := shown(&out)
	p.Every = 0
	hooks := p.setHooks(4, 2)
	for number := range 2 {
		r := experiment.Realization{Number: number + 1}
		one := hooks.Of(r)
		if one.Notice != nil {
			one.Notice("Slurm will reject 1 of 2 jobs")
		}
		one.Progress(replay.Progress{Now: noon, Ended: 1, Load: replay.Load{Begin: noon, Tasks: 2, LastEnd: noon.Add(time.Hour)}})
		if number == 0 {
			time.Sleep(20 * time.Millisecond)
			hooks.Ended(r)
		}
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if got := strings.Count(out.String(), "notice: Slurm will reject 1 of 2 jobs\n"); got != 1 {
		t.Errorf("the notice is there %d times in %q", got, lines)
	}
	if got := lines[3]; got != " 25%  1 of 4 realizations done  0 running  left 0s" {
		t.Errorf("after the first one: %q in %q", got, lines)
	}
	if got := lines[len(lines)-1]; !regexp.MustCompile(`^ \d\d%  1 of 4 realizations done  1 running  left 0s$`).MatchString(got) {
		t.Errorf("during the second one: %q", got)
	}
}

// A simulation of the example calls its hooks with all data that the progress line shows.
func TestProgressOfExample(t *testing.T) {
	dir := t.TempDir()
	runHere(t, dir, 0, "workload", "generate", "example", "--seed", "1", "-o", "example")
	var last replay.Progress
	spec := experiment.Spec{
		Workload: experiment.Workload{Path: filepath.Join(dir, "example", "day.jsonl")}, Output: filepath.Join(dir, "run"), Seed: 1,
		Simulator: &experiment.Simulator{Cluster: filepath.Join(dir, "example", "cluster"), Policy: "easy"},
	}
	seen, busiest := 0, 0
	_, err := experiment.Run(t.Context(), spec, experiment.Hooks{Progress: func(n replay.Progress) {
		last = n
		seen++
		busiest = max(busiest, n.Held)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if last.Tasks < 1000 || last.Ended < last.Tasks*8/10 || last.Processors == 0 || busiest > last.Processors || busiest < last.Processors/3 || seen == 0 {
		t.Errorf("%d times, the last time %+v; at most %d processors were held", seen, last, busiest)
	}
	if last.LastEnd < last.LastInput || last.WorkDone > 2*last.Work || last.WorkDone < last.Work/2 || hpc.Time(0) == last.Begin {
		t.Errorf("%+v", last)
	}
}

// TestProofStep: the time left for the proof on Slurm does not come from the runs of the search on the model.
func TestProofStep(t *testing.T) {
	table := newSweepTable(console.Output{Stderr: io.Discard}.Progress(false), 3, 1)
	for i := range 2 {
		name := fmt.Sprint("search", i)
		table.observe(sweep.Progress{Name: name, Phase: sweep.Began})
		table.observe(sweep.Progress{Name: name, Phase: sweep.Failed, Err: io.EOF, Took: time.Minute})
	}
	table.step("held out", 4)
	if left := table.left().Text; left != "" {
		t.Errorf("before the first run of the proof has ended: %s", left)
	}
	table.observe(sweep.Progress{Name: "proof", Phase: sweep.Failed, Err: io.EOF, Took: time.Hour})
	if left := table.left().Text; left != "left 3h0m" {
		t.Errorf("after the first run of the proof: %s", left)
	}
}
