package sbatch

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
)

func TestParseRecorded(t *testing.T) {
	for _, tt := range []struct {
		line, script string
		values       []string
		want         hpc.Request
		wrapped      bool
		leftOut      string
	}{
		{line: "sbatch -n 8 --wrap=srun -n 64 ./a.out", want: hpc.Request{Tasks: 8}, wrapped: true},
		{line: "sbatch -n 8 --wrap srun ./a.out", want: hpc.Request{Tasks: 8}},
		{line: "sbatch -n 8 --wr=srun -n 64", want: hpc.Request{Tasks: 8}, wrapped: true},
		{line: "sbatch -n 8 run -n 64", want: hpc.Request{Name: "run", Tasks: 8}},
		{line: "sbatch", script: "-n 8", want: hpc.Request{Tasks: 8}},
		{line: "sbatch -c 2 run", script: "-n 8", want: hpc.Request{Name: "run", Tasks: 8, CPUsPerTask: 2, MinCPUsPerNode: 2}},
		{line: "sbatch --segment=4 -n 8", want: hpc.Request{Tasks: 8}, leftOut: "--segment=4: not known to sbatch 22.05"},
		{line: "sbatch --segment 4 -n 8", want: hpc.Request{Tasks: 8}, leftOut: "--segment=4: not known to sbatch 22.05"},
		{line: "sbatch --nodse 4 -n 8", want: hpc.Request{Tasks: 8}, leftOut: "--nodse: not an option of sbatch (did you mean --nodes?)"},
		{line: "sbatch -y -n 8", want: hpc.Request{Tasks: 8}, leftOut: "-y: not an option of sbatch"},
		{line: "sbatch -sim-x -n 8", want: hpc.Request{Tasks: 8}, leftOut: "-sim-x: not an option of sbatch (did you mean -sim-walltime?)"},
		{line: "sbatch -n 8 -t soon -N", want: hpc.Request{Tasks: 8}, leftOut: "-t soon: not a time limit"},
		{line: "sbatch -n 8 --hold=no -H", want: hpc.Request{Tasks: 8, Hold: true}, leftOut: "--hold: takes no value"},
		{line: "srun -W 30 -K -E -n 8 -X -T 5 x", want: hpc.Request{Name: "x", Tasks: 8}},
		{line: "sbatch -W -n 8 x", want: hpc.Request{Name: "x", Tasks: 8}},
		{line: "sbatch -J it's -n 8 x", want: hpc.Request{Name: "it's", Tasks: 8}},
		{line: `sbatch -J 'a b' -n 8 x`, values: []string{"a b"}, want: hpc.Request{Name: "a b", Tasks: 8}},
		{line: `sbatch -J a b -n 8 x`, values: []string{"a b"}, want: hpc.Request{Name: "a b", Tasks: 8}},
		{line: `sbatch --job-name=a b -n 8 x`, values: []string{"a b"}, want: hpc.Request{Name: "a b", Tasks: 8}},
		{line: `sbatch --job-name=a b`, values: []string{"c d"}, want: hpc.Request{Name: "a"}},
	} {
		got, err := ParseRecorded(strings.Fields(tt.script), tt.line, tt.values, hpc.Unix(1_700_000_000))
		if err != nil {
			t.Errorf("%s: %v", tt.line, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got.Request); diff != "" || got.Wrapped != tt.wrapped || got.RunTime != hpc.Unlimited {
			t.Errorf("%s: wrapped %t, run time %v\n%s", tt.line, got.Wrapped, got.RunTime, diff)
		}
		var leftOut string
		if len(got.LeftOut) > 0 {
			leftOut = got.LeftOut[0].Error()
		}
		if !strings.HasPrefix(leftOut, tt.leftOut) || (leftOut == "") != (tt.leftOut == "") {
			t.Errorf("%s: left out %v, want %s", tt.line, got.LeftOut, tt.leftOut)
		}
	}
	if _, err := ParseRecorded(nil, "sbatch --mem=1 --mem-per-cpu=1", nil, 0); err == nil {
		t.Error("contradicting options are accepted")
	}
}

func FuzzParseRecorded(f *testing.F) {
	f.Add("-n 8", "sbatch --wrap=srun -n 64 ./a.out", "a b")
	f.Add("", `srun -J it's "a b -sim-x --segment 4 -y5`, "")
	f.Fuzz(func(t *testing.T, script, line, value string) {
		done := time.AfterFunc(10*time.Second, func() { panic("no end: " + line) })
		defer done.Stop()
		got, err := ParseRecorded(strings.Fields(script), line, []string{value}, hpc.Unix(1_700_000_000))
		if err == nil && (got.Request.Tasks < 0 || got.Request.MinNodes < 0 || got.Request.TimeLimit < 0) {
			t.Errorf("%q: %+v", line, got.Request)
		}
	})
}
