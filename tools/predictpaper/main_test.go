package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/formats"
	"rmreplay/internal/realdata"
)

// log returns an SWF log of the given number of users, with jobs that the filter leaves out or
// cuts.
func log(users int) string {
	b := strings.Builder{}
	b.WriteString("; MaxProcs: 4\n; UnixStartTime: 1000000000\n")
	for i := range 40 {
		fmt.Fprintf(&b, "%d %d -1 %d %d -1 -1 %[4]d %d -1 1 %d 1 -1 -1 -1 -1 -1\n", i+1, 20*i, 50+i%3*40, 1+i%4, 600, i%users+1)
	}
	b.WriteString("41 900 -1 700 1 -1 -1 1 600 -1 1 1 1 -1 -1 -1 -1 -1\n") // beyond its limit
	b.WriteString("42 901 -1 0 1 -1 -1 1 600 -1 1 1 1 -1 -1 -1 -1 -1\n")   // no run time
	b.WriteString("43 902 -1 50 1 -1 -1 1 -1 -1 1 1 1 -1 -1 -1 -1 -1\n")   // no limit
	b.WriteString("44 903 -1 50 5 -1 -1 5 600 -1 1 1 1 -1 -1 -1 -1 -1\n")  // too large
	return b.String()
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCommandLine(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "log.swf", log(2))
	var out bytes.Buffer
	if err := runTool(t.Context(), []string{"log.swf", "--realizations", "3"}, &out, &out); err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{
		`(?m)^log.swf: 41 jobs on 4 processors \(3 left out, 1 cut to their limits\)$`,
		`(?m)^EASY +\d+\.\d\d +0 % .* over 3 realizations$`, `(?m)^EASY-SJBF, E-Loss +\d`, `(?m)^EASY-SJBF, clairvoyant +\d`,
	} {
		if !regexp.MustCompile(pattern).MatchString(out.String()) {
			t.Errorf("no %s in\n%s", pattern, out.String())
		}
	}
	out.Reset()
	if err := runTool(t.Context(), []string{"log.swf", "--json"}, &out, &out); err != nil {
		t.Fatal(err)
	}
	var object struct{ Logs []Result }
	if err := json.Unmarshal(out.Bytes(), &object); err != nil || len(object.Logs) != 1 || len(object.Logs[0].Rows) != len(schedulers) {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestBadInput(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "one.swf", log(1))
	write(t, "none.swf", "; MaxProcs: 4\n1 0 -1 0 1 -1 -1 1 600 -1 1 1 1 -1 -1 -1 -1 -1\n")
	write(t, "size.swf", "1 0 -1 9 1 -1 -1 1 600 -1 1 1 1 -1 -1 -1 -1 -1\n")
	for _, test := range []struct {
		args, want string
		status     int
	}{
		{"", "no log", 2},
		{"--dice", "unknown flag", 2},
		{"one.swf --processors -1", "--processors -1: negative", 2},
		{"one.swf --parallel -1", "--parallel -1: negative", 2},
		{"one.swf --realizations -1", "--realizations -1: negative", 2},
		{"one.swf --realizations 2 --jitter 0", "all realizations would be the same", 2},
		{"away.swf", "away.swf", 4},
		{"one.swf", "all jobs have the same user or no user", 4},
		{"none.swf", "no job is left", 4},
		{"size.swf", "the size of its machine is not known", 4},
	} {
		var out bytes.Buffer
		err := runTool(t.Context(), strings.Fields(test.args), &out, &out)
		if err == nil || !strings.Contains(err.Error(), test.want) || exitStatus(err) != test.status {
			t.Errorf("%q: %v with status %d, want %q with %d", test.args, err, exitStatus(err), test.want, test.status)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	write(t, "log.swf", log(2))
	if err := runTool(ctx, []string{"log.swf"}, &bytes.Buffer{}, &bytes.Buffer{}); exitStatus(err) != 130 {
		t.Errorf("after an interruption: %v", err)
	}
}

// TestAuthorsJobs compares the tool with all published slowdowns on the authors' own jobs of KTH-SP2. The
// jobs of their file are in the order of their ends.
func TestAuthorsJobs(t *testing.T) {
	w, err := formats.Open(realdata.Path(t, "swf", "reference", "pyss-easy_KTH-SP2.swf.gz"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), w, Options{Realizations: 2, Jitter: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range r.Rows {
		if row.Published > 0 && math.Abs(row.Slowdown-row.Published) > 1e-4 {
			t.Errorf("%s: %g, published %g", row.Scheduler, row.Slowdown, row.Published)
		}
		want := 0
		for _, slowdown := range row.Band {
			if slowdown < row.Published {
				want++
			}
		}
		if row.rank() != want {
			t.Errorf("%s: %d realizations are below %g, want %d of %v", row.Scheduler, row.rank(), row.Published, want, row.Band)
		}
	}
	var out bytes.Buffer
	if err := Render(&out, []*Result{r}); err != nil || !strings.Contains(out.String(), "over 2 realizations; 2 below the published one") {
		t.Errorf("%v, in %s", err, out.String())
	}
}

// TestPaper compares the tool with the published slowdowns on the CTC log, whose 77,199 jobs after
// the filter are the authors'.
func TestPaper(t *testing.T) {
	w, err := formats.Open(realdata.Path(t, "swf", "CTC-SP2-1996-3.1-cln.swf.gz"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), w, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Jobs != 77199 || r.LeftOut != 23 {
		t.Errorf("%d jobs, %d left out", r.Jobs, r.LeftOut)
	}
	for _, row := range r.Rows {
		if row.Published > 0 && math.Abs(row.Slowdown/row.Published-1) > 1e-4 {
			t.Errorf("%s: %g, published %g", row.Scheduler, row.Slowdown, row.Published)
		}
	}
}
