package jobdesc

import (
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/rm/slurm/rpc/rpctest"
)

func TestSubmissionRefuses(t *testing.T) {
	for _, c := range []struct {
		want string
		s    Submission
	}{
		{`"#!"`, Submission{Script: "echo"}},
		{"NUL", Submission{Script: "#!/bin/sh\x00"}},
		{"exclude each other", Submission{Request: hpc.Request{MemPerCPU: 1, MemPerNode: 1}}},
		{"--core-spec and --thread-spec", Submission{Request: hpc.Request{CoreSpec: 1, ThreadSpec: 1}}},
		{"--ntasks-per-gpu and --gpus-per-task", Submission{Request: hpc.Request{TasksPerGPU: 1, GPUsPerTask: "1"}}},
		{"--cpus-per-gpu and --cpus-per-task", Submission{Request: hpc.Request{CPUsPerGPU: 1, CPUsPerTask: 1}}},
		{"is below the minimum", Submission{Request: hpc.Request{MinNodes: 4, MaxNodes: 2}}},
		{"--nodes -1", Submission{Request: hpc.Request{MinNodes: -1}}},
		{"--cpus-per-task 70000", Submission{Request: hpc.Request{CPUsPerTask: 70000}}},
		{"--distribution", Submission{Request: hpc.Request{Distribution: "spiral"}}},
		{"plane's size", Submission{Request: hpc.Request{Distribution: "plane"}}},
		{"needs a node list", Submission{Request: hpc.Request{Distribution: "arbitrary"}}},
		{"--hint", Submission{Request: hpc.Request{Hint: "fast"}}},
		{"--exclusive", Submission{Request: hpc.Request{Exclusive: "maybe"}}},
		{"--gres-flags", Submission{Request: hpc.Request{GRESFlags: "loose"}}},
		{"not a signal", Submission{Request: hpc.Request{Signal: "B:NOPE"}}},
		{"not a time in seconds", Submission{Request: hpc.Request{Signal: "USR1@soon"}}},
		{"'[' without ']'", Submission{Request: hpc.Request{NodeList: "n[1-"}}},
		{"more than 65536 names", Submission{Request: hpc.Request{NodeList: "n[0-99999999]"}}},
		{"before --begin", Submission{Request: hpc.Request{Begin: 2 * time.Hour, Deadline: time.Hour}}},
		{"negative", Submission{Request: hpc.Request{TimeMin: -1}}},
	} {
		if c.s.Script == "" {
			c.s.Script = "#!/bin/sh\n"
		}
		if _, err := c.s.JobDesc(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.s.Request, err, c.want)
		}
	}
}

// FuzzSubmission gives random texts to the parsers of a submission.
func FuzzSubmission(f *testing.F) {
	f.Add("n[1-3],m", "block:cyclic,pack", "B:USR1@30", "compute_bound", "gpu:a100:2,nvme", "2", 4, 2)
	f.Add("", "plane=4", "12", "", "gpu:18446744073709551615", "x:y:z", 1, 1)
	f.Fuzz(func(t *testing.T, nodes, dist, signal, hint, gres, gpus string, n, tasks int) {
		s := Submission{Script: "#!", Request: hpc.Request{
			NodeList: nodes, Distribution: dist, Signal: signal, Hint: hint, GRES: gres, GPUs: gpus,
			GPUsPerTask: gpus, MinNodes: n, Tasks: tasks,
		}}
		j, err := s.JobDesc()
		if err != nil {
			return
		}
		var back rpc.JobDesc
		rpctest.DecodeFields(t, rpc.V2205, rpctest.Body(j), &back)
	})
}

// nodeNames returns each name once, sorted, and refuses lists that sbatch would refuse.
func TestNodeNames(t *testing.T) {
	for list, want := range map[string]string{
		"n1":                                    "n1",
		"n[3-1]":                                "",
		"n[08-11]":                              "n08 n09 n10 n11",
		"n[1,3-4]x,m,n1x,,m":                    "m n1x n3x n4x",
		"r[1-2]n[1-2]":                          "r1n1 r1n2 r2n1 r2n2",
		"n[[1]]":                                "",
		"n1]":                                   "",
		"":                                      "",
		"n[a]":                                  "",
		"n[" + strings.Repeat("0", 1000) + "1]": "",
		strings.Repeat("n", 1000) + "[1-2]":     "",
		strings.Repeat("n[1]", 1000):            "",
	} {
		got, err := nodeNames(list)
		if strings.Join(got, " ") != want || (err != nil) != (want == "") {
			t.Errorf("%q: got %q, %v, want %q", list, got, err, want)
		}
	}
}
