package vclock

import (
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestOwnAddress checks that a process connects from its server's address if the driver wants that,
// and otherwise from the address that the kernel chooses.
func TestOwnAddress(t *testing.T) {
	const server = "127.66.0.9"
	for _, tt := range []struct {
		policy Policy
		want   string
	}{{Policy{OwnAddress: true}, server}, {Policy{}, "127.0.0.1"}} {
		l := newLab(t, tt.policy)
		p := l.start(program(t, "clockwork"), "peer", server)
		l.run()
		p.check(t, tt.want+"\n")
	}
}

// TestInherited checks that a child with an empty environment keeps the variables that the driver
// names, with the values of its parent.
func TestInherited(t *testing.T) {
	l := newLab(t, Policy{Inherited: []string{"KEPT", "NOT_SET", "ALSO_KEPT"}})
	l.extraEnv = []string{"KEPT=1", "LOST=2", "ALSO_KEPT=three and more"}
	p := l.start("/bin/sh", "-c", "exec env -i env")
	l.run()
	var got []string
	for line := range strings.Lines(p.output()) {
		if name, _, _ := strings.Cut(line, "="); !strings.HasPrefix(name, "RMREPLAY_") && name != "LD_PRELOAD" {
			got = append(got, strings.TrimSpace(line))
		}
	}
	slices.Sort(got)
	if want := []string{"ALSO_KEPT=three and more", "KEPT=1"}; !slices.Equal(got, want) {
		t.Errorf("a child has %q, want %q\n%s", got, want, p.output())
	}
}

func TestTooManyInherited(t *testing.T) {
	for _, names := range [][]string{slices.Repeat([]string{"A"}, maxInherited+1), {strings.Repeat("A", 255)}} {
		c, err := New(t.TempDir(), epoch, Policy{Inherited: names})
		if err == nil {
			c.Close()
			t.Errorf("%d names are accepted", len(names))
		} else if !strings.Contains(err.Error(), "want at most 8 names and 254 bytes") {
			t.Error(err)
		}
	}
	c, err := New(t.TempDir(), epoch, Policy{Inherited: slices.Repeat([]string{"A"}, maxInherited)})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// TestKnowsNoProgram checks that the clock's code does not name Slurm. The clock serves any
// program, and everything that is special to Slurm is in the engine's policy. Comments may name
// Slurm as a reason.
func TestKnowsNoProgram(t *testing.T) {
	slurm := regexp.MustCompile("(?i)slurm|jobcomp|nss_wrapper|munge")
	comment := regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*`)
	var code []string // file: text
	for _, pattern := range []string{"shim/*.[ch]", "*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			switch {
			case err != nil:
				t.Fatal(err)
			case strings.HasSuffix(file, "_test.go"):
			case strings.HasSuffix(file, ".go"):
				code = append(code, file+": "+goCode(file, text))
			default:
				code = append(code, file+": "+comment.ReplaceAllString(string(text), ""))
			}
		}
	}
	if len(code) < 20 {
		t.Fatalf("found %d files", len(code))
	}
	for _, text := range code {
		if found := slurm.FindString(text); found != "" {
			file, _, _ := strings.Cut(text, ":")
			t.Errorf("%s knows %s", file, found)
		}
	}
}

// goCode returns a Go file's tokens without its comments.
func goCode(name string, text []byte) string {
	var s scanner.Scanner
	files := token.NewFileSet()
	s.Init(files.AddFile(name, -1, len(text)), text, nil, 0)
	var b strings.Builder
	for {
		_, kind, literal := s.Scan()
		if kind == token.EOF {
			return b.String()
		}
		b.WriteString(literal + " ")
	}
}
