package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/slurmspec"
)

// The documents below can be executed. A block that is fenced as console is a shell session:
//
//	$ a command
//	> its next line
//	what it prints, on standard output and standard error
//	...
//	more of what it prints
//
// A line of three dots stands for any number of lines. All blocks of one document run one after the
// other, in bash, in one empty directory. Every command must exit with status 0; a command that is
// to fail ends in `|| echo "exit status $?"`. Parts that differ between machines are listed in
// varying. With -update the test writes what the commands print into the document. Outputs with an
// elision keep as many lines before and after it as they had.

// varying matches those parts of an output that depend on the machine or on the build.
var varying = []*regexp.Regexp{
	// How long a replay took, and how much faster than real time it was.
	regexp.MustCompile(`in ([0-9:]+ \()?[0-9.]+ s\)? real: [0-9.]+ times real time`),
	// How large a page is.
	regexp.MustCompile(`^wrote report\.html \([0-9.]+ MB\)$`),
	// How long a realization took in real time, at the end of its line in the table.
	regexp.MustCompile(`% +[0-9.]+ s$`),
	// How wide a column of a table is: a path in it may be longer on another machine.
	regexp.MustCompile(`  +`),
}

// TestTutorial follows docs/TUTORIAL.md on real Slurm.
func TestTutorial(t *testing.T) {
	needDocumentedSlurm(t)
	checkDocument(t, "TUTORIAL.md")
}

// TestFirstHour follows docs/FIRST-HOUR.md on real Slurm, with the files of an invented site.
func TestFirstHour(t *testing.T) {
	needDocumentedSlurm(t)
	checkDocument(t, "FIRST-HOUR.md", "first-hour/slurm.conf:cluster/slurm.conf", "first-hour/sacct.txt:sacct.txt")
}

// needDocumentedSlurm makes replays run on Slurm 22.05, whose output the documents show. If the
// installed Slurm is another release, it takes 22.05 from the directory that rootsVariable names.
// It skips the test if 22.05 is in neither place.
func needDocumentedSlurm(t *testing.T) {
	t.Helper()
	needSlurm(t)
	own, err := install.Find()
	if err == nil && own.Release.Series() == slurmspec.R2205 {
		return
	}
	root := filepath.Join(os.Getenv(rootsVariable), slurmspec.R2205.String())
	if _, err := install.FindSlurm(root); err != nil || os.Getenv(rootsVariable) == "" {
		t.Skipf("SKIPPED: the document shows Slurm 22.05, the machine's own is %s, and %s has no 22.05: %v", own.Version, rootsVariable, err)
	}
	t.Setenv(install.Variable, root)
}

// checkDocument executes the sessions of a document of docs and compares their output. files are
// files that the sessions need, as "FILE:NAME": a file of testdata and its name in the sessions'
// directory.
func checkDocument(t *testing.T, name string, files ...string) {
	t.Helper()
	path := filepath.Join("..", "..", "docs", filepath.FromSlash(name))
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := parseSessions(string(text))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if len(steps) == 0 {
		t.Fatalf("%s: no console blocks", name)
	}
	dir := t.TempDir()
	for _, file := range files {
		from, to, _ := strings.Cut(file, ":")
		copyInto(t, filepath.Join("testdata", from), filepath.Join(dir, to))
	}
	lines := strings.Split(string(text), "\n")
	if *update {
		defer func() {
			if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
				t.Error(err)
			}
		}()
	}
	moved := 0 // how many lines longer the document has become by the outputs rewritten so far
	for _, s := range steps {
		began := time.Now()
		got, err := s.run(t, dir)
		t.Logf("%s:%d: %.1f s: %s", name, s.line, time.Since(began).Seconds(), s.command)
		if err != nil {
			t.Fatalf("%s:%d: $ %s\n%v\n%s", name, s.line, s.command, err, strings.Join(got, "\n"))
		}
		if matches(s.output, got) {
			continue
		}
		if !*update {
			t.Errorf("%s:%d: $ %s\nprints something else (document -, program +; run: make golden):\n%s",
				name, s.line, s.command, cmp.Diff(s.output, got))
			continue
		}
		written := elide(s.output, got)
		lines = slices.Replace(lines, s.first+moved, s.first+moved+len(s.output), written...)
		moved += len(written) - len(s.output)
	}
}

func copyInto(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err == nil {
		err = os.WriteFile(to, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// step is one command of a document with the output that the document shows.
type step struct {
	command string
	line    int // of the command in the document, from 1
	output  []string
	first   int // index of the output's first line in the document, from 0
}

// parseSessions lists the commands of a document's console blocks.
func parseSessions(text string) ([]step, error) {
	var steps []step
	inside := false
	var block []step
	for i, line := range strings.Split(text, "\n") {
		switch {
		case !inside:
			inside = line == "```console"
		case line == "```":
			inside = false
			steps = append(steps, block...)
			block = nil
		case strings.HasPrefix(line, "$ "):
			block = append(block, step{command: line[2:], line: i + 1, first: i + 1})
		case len(block) == 0:
			return nil, fmt.Errorf("line %d: a console block begins with a command (want $ COMMAND)", i+1)
		default:
			s := &block[len(block)-1]
			if next, ok := strings.CutPrefix(line, "> "); ok && len(s.output) == 0 {
				s.command += "\n" + next
				s.first = i + 1
			} else {
				s.output = append(s.output, line)
			}
		}
	}
	if inside {
		return nil, fmt.Errorf("a console block does not end")
	}
	return steps, nil
}

// run executes the command in dir and returns the lines that it prints.
func (s *step) run(t *testing.T, dir string) ([]string, error) {
	c := exec.CommandContext(t.Context(), "bash", "-o", "pipefail", "-c", s.command)
	c.Dir = dir
	c.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC")
	out, err := c.CombinedOutput()
	out = bytes.TrimRight(out, "\n")
	if len(out) == 0 {
		return nil, err
	}
	lines := strings.Split(string(out), "\n")
	for i := range lines { // documents have no white space at the end of lines
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines, err
}

const elision = "..."

// matches reports whether an output equals the output in the document, with elisions and except
// for varying parts.
func matches(want, got []string) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	if want[0] == elision {
		for skip := range len(got) + 1 {
			if matches(want[1:], got[skip:]) {
				return true
			}
		}
		return false
	}
	return len(got) > 0 && normal(want[0]) == normal(got[0]) && matches(want[1:], got[1:])
}

// normal returns a line with each varying part replaced by an asterisk.
func normal(line string) string {
	for _, pattern := range varying {
		line = pattern.ReplaceAllString(line, "*")
	}
	return line
}

// elide returns a new output in the form of the old one: with as many lines before the first
// elision and after the last one. Without an elision it is the whole output.
func elide(old, output []string) []string {
	first := slices.Index(old, elision)
	if first < 0 {
		return output
	}
	after := 0
	for old[len(old)-1-after] != elision {
		after++
	}
	if first+after >= len(output) {
		return output
	}
	return slices.Concat(output[:first], []string{elision}, output[len(output)-after:])
}

func TestParseSessions(t *testing.T) {
	text := "# Title\n\n```sh\n$ not this\n```\n\n```console\n$ one\n> more\nprinted\n$ two\n```\ntext\n"
	got, err := parseSessions(text)
	if err != nil {
		t.Fatal(err)
	}
	want := []step{
		{command: "one\nmore", line: 8, output: []string{"printed"}, first: 9},
		{command: "two", line: 11, first: 11},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(step{})); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"```console\nno command\n```\n", "```console\n$ endless\n"} {
		if _, err := parseSessions(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestMatchesOutput(t *testing.T) {
	for _, c := range []struct {
		want, got string
		matches   bool
	}{
		{"", "", true},
		{"a", "", false},
		{"", "a", false},
		{"a|b", "a|b", true},
		{"a|b", "a|c", false},
		{"a|...", "a|b|c", true},
		{"...|c", "a|b|c", true},
		{"a|...|b|...|c", "a|x|b|y|z|c", true},
		{"a|...|b|...|c", "a|x|y|z|c", false},
		{"9 s virtual in 2.5 s real: 3 times real time", "9 s virtual in 00:01:02 (62.1 s) real: 0.1 times real time", true},
		{"9 s virtual in 2.5 s real: 3 times real time", "8 s virtual in 2.5 s real: 3 times real time", false},
	} {
		if got := matches(splitLines(c.want), splitLines(c.got)); got != c.matches {
			t.Errorf("%q against %q: %v, want %v", c.want, c.got, got, c.matches)
		}
	}
}

func TestElide(t *testing.T) {
	for _, c := range []struct{ old, output, want string }{
		{"a|b", "x|y|z", "x|y|z"},
		{"a|...|b", "w|x|y|z", "w|...|z"},
		{"...|b", "x|y|z", "...|z"},
		{"a|...", "x|y|z", "x|..."},
		{"a|...|b|...|c", "w|x|y|z", "w|...|z"},
		{"a|...|b", "x|y", "x|y"},
	} {
		if diff := cmp.Diff(splitLines(c.want), elide(splitLines(c.old), splitLines(c.output))); diff != "" {
			t.Errorf("%q as %q: %s", c.output, c.old, diff)
		}
	}
}

// splitLines splits lines that | separates.
func splitLines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "|")
}
