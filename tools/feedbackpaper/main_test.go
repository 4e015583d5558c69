package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// sixJobs is a log with six jobs of two users on four processors.
const sixJobs = `; MaxProcs: 4
; UnixStartTime: 1000000000
1 0 0 100 4 -1 -1 4 200 -1 1 1 1 -1 -1 -1 -1 -1
2 10 90 50 2 -1 -1 2 100 -1 1 2 1 -1 -1 -1 -1 -1
3 20 80 3600 1 -1 -1 1 7200 -1 1 2 1 -1 -1 -1 -1 -1
4 9000 0 60 4 -1 -1 4 100 -1 1 1 1 -1 -1 -1 -1 -1
5 9010 50 60 3 -1 -1 3 100 -1 1 2 1 -1 -1 -1 -1 -1
6 90000 0 60 1 -1 -1 1 100 -1 1 1 1 -1 -1 -1 -1 -1
`

const newTrace = `{"rmreplay_trace":1,"epoch":"2024-03-05T00:00:00Z"}
{"type":"job","id":"a","submit":0,"user":"ada","run_time_s":60,"time_limit_s":60,"tasks":1}
`

// inputs writes the test workloads to a directory and makes it the current directory.
func inputs(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"log.swf": sixJobs, "new.jsonl": newTrace} {
		if err := os.WriteFile(filepath.Join(".", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCommandLine(t *testing.T) {
	inputs(t)
	for args, want := range map[string][]string{
		"--log log.swf": {
			`(?m)^log.swf: 6 jobs of 2 users on 4 processors$`, `(?m)^Table 1 +Replay +Makespan`, `(?m)^infra/2 +Rigid +1\.04 `,
		},
		"--log log.swf --realizations 2": {`in brackets: the least and the largest of 2 realizations`},
		"--log log.swf --scalability 3":  {`(?m)^System +Replay +2 +4 +6$`},
	} {
		var out bytes.Buffer
		if err := runTool(t.Context(), strings.Fields(args), &out, &out); err != nil {
			t.Errorf("%s: %v", args, err)
		}
		for _, pattern := range want {
			if !regexp.MustCompile(pattern).MatchString(out.String()) {
				t.Errorf("%s: no %s in\n%s", args, pattern, out.String())
			}
		}
	}
	for args, want := range map[string]struct {
		status int
		text   string
	}{
		"":                           {2, "--log is missing"},
		"--log log.swf --frob":       {2, "unknown flag: --frob"},
		"--log log.swf more":         {2, `"more": unexpected argument`},
		"--log new.jsonl":            {4, "new.jsonl: the size of its machine is not known"},
		"--log absent.swf":           {4, "absent.swf: no such file"},
		"--log log.swf --workers -1": {2, "--parallel -1: negative"},
		"--log log.swf --realizations 2 --jitter 0": {2, "all realizations would be the same"},
	} {
		var out bytes.Buffer
		err := runTool(t.Context(), strings.Fields(args), &out, &out)
		if exitStatus(err) != want.status || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%s: status %d, %v; want %d, %s", args, exitStatus(err), err, want.status, want.text)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := runTool(ctx, []string{"--log", "log.swf"}, &bytes.Buffer{}, &bytes.Buffer{}); exitStatus(err) != 130 {
		t.Errorf("interrupted: %v", err)
	}
	if err := runTool(ctx, []string{"--help"}, &bytes.Buffer{}, &bytes.Buffer{}); !errors.Is(err, pflag.ErrHelp) || exitStatus(err) != 0 {
		t.Errorf("help: %v", err)
	}
}

// TestJSON checks that the result is one object for all logs. It must be the same for any
// number of parallel simulations.
func TestJSON(t *testing.T) {
	inputs(t)
	var printed [2]bytes.Buffer
	for i, parallel := range []string{"1", "2"} {
		args := []string{"--log", "log.swf", "--log", "log.swf", "--realizations", "2", "--all-models", "--json", "-q", "-j", parallel}
		if err := runTool(t.Context(), args, &printed[i], &bytes.Buffer{}); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(printed[0].Bytes(), printed[1].Bytes()) {
		t.Error("the number of simulations at once changes the result")
	}
	var out struct {
		Logs []struct {
			Jobs  int
			Cells []struct{ System, Replay string }
		}
	}
	if err := json.Unmarshal(printed[0].Bytes(), &out); err != nil { // fails for a second object
		t.Fatal(err)
	}
	if len(out.Logs) != 2 || out.Logs[1].Jobs != 6 || len(out.Logs[1].Cells) != 6*6 {
		t.Errorf("%+v", out)
	}
}
