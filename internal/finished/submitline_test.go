package finished_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// TestCommandLineAgainstColumns reads command lines as slurmdbd records them: without the shell's
// quotes, and without the options in the batch script.
func TestCommandLineAgainstColumns(t *testing.T) {
	const minutes = time.Minute
	for _, tt := range []struct {
		name, line, script string
		record             finished.Job // its columns
		want               hpc.Request
		rules              []string
	}{
		{
			name: "options of a wrapped command", line: "sbatch -n 8 --wrap=srun -n 64 ./a.out",
			record: finished.Job{ReqCPUs: 8, AllocCPUs: 8, AllocNodes: 1},
			want:   hpc.Request{Tasks: 8}, rules: []string{finished.NoteWrapped},
		},
		{
			name: "options of sbatch behind the wrapped command", line: "sbatch --wrap nice -n 10 ./a.out -n 4 -t 10",
			record: finished.Job{ReqCPUs: 4, AllocCPUs: 4, AllocNodes: 1, TimeLimit: 10 * minutes},
			want:   hpc.Request{MinNodes: 1, MaxNodes: 1, Tasks: 4, TimeLimit: 10 * minutes}, rules: []string{finished.NoteWrapped},
		},
		{
			name: "no options behind the wrapped command", line: "sbatch -N 2 --wrap=hostname",
			record: finished.Job{ReqCPUs: 2, AllocNodes: 2}, want: hpc.Request{MinNodes: 2, MaxNodes: 2},
		},
		{
			name: "options of the script", line: "sbatch -c 2 job.sh -n 64",
			record: finished.Job{ReqCPUs: 2, AllocNodes: 1}, want: hpc.Request{CPUsPerTask: 2, MinCPUsPerNode: 2},
		},
		{
			name: "options only in the batch script", line: "sbatch -d singleton job.sh",
			record: finished.Job{ReqCPUs: 64, ReqNodes: 2, AllocNodes: 2, Memory: 4096, GPUs: "a100:4", TimeLimit: 60 * minutes},
			want: hpc.Request{
				Tasks: 64, MinNodes: 2, MaxNodes: 2, MemPerNode: 2048, GPUs: "a100:4", TimeLimit: 60 * minutes, Dependency: "singleton",
			},
		},
		{
			name: "a stored batch script", line: "sbatch job.sh", script: "#!/bin/sh\n#SBATCH -n 8 # eight\n#SBATCH --mem=1G\n",
			record: finished.Job{ReqCPUs: 8, AllocNodes: 2, Memory: 2048}, want: hpc.Request{Tasks: 8, MemPerNode: 1024},
		},
		{
			name: "options of later releases", line: "sbatch --segment 4 --tres-bind=gres/gpu:closest --oom-kill-step -n 4 -w n1 job.sh",
			record: finished.Job{ReqCPUs: 4, AllocNodes: 1}, want: hpc.Request{Tasks: 4, MinNodes: 1, NodeList: "n1"},
			rules: []string{finished.RuleSubmitLineOption},
		},
		{
			name: "unknown options", line: "sbatch --frobnicate 7 --colour --switches=1 -n 4 job.sh",
			record: finished.Job{ReqCPUs: 4, AllocNodes: 1}, want: hpc.Request{Tasks: 4, Switches: 1},
			rules: []string{finished.RuleSubmitLineOption},
		},
		{
			name: "a value that cannot be parsed", line: "sbatch --gres=gpu:x:y:z:2 -n 4 job.sh",
			record: finished.Job{ReqCPUs: 4, AllocNodes: 1}, want: hpc.Request{Tasks: 4},
			rules: []string{finished.RuleSubmitLineOption},
		},
		{
			name: "srun", line: "srun -l --pty --mpi=pmix -n 4 bash -i",
			record: finished.Job{ReqCPUs: 4, AllocNodes: 1}, want: hpc.Request{Tasks: 4},
		},
		{
			name: "salloc", line: "/usr/bin/salloc -I60 -N 2 -K",
			record: finished.Job{ReqCPUs: 2, AllocNodes: 2}, want: hpc.Request{MinNodes: 2, MaxNodes: 2},
		},
		{
			name: "a name with blanks", line: "sbatch -J my long job -n 4 --comment=it's me job.sh",
			record: finished.Job{Name: "my long job", Comment: "it's me", ReqCPUs: 4, AllocNodes: 1},
			want:   hpc.Request{Name: "my long job", Comment: "it's me", Tasks: 4},
		},
		{
			name: "too many CPUs", line: "sbatch -n 64 -d singleton job.sh",
			record: finished.Job{ReqCPUs: 8, ReqNodes: 1, AllocNodes: 1},
			want:   hpc.Request{Tasks: 8, MinNodes: 1, MaxNodes: 1, Dependency: "singleton"},
			rules:  []string{finished.RuleSubmitLineDiffers},
		},
		{
			name: "whole nodes", line: "sbatch -N 2 --exclusive job.sh",
			record: finished.Job{ReqCPUs: 128, AllocNodes: 2}, want: hpc.Request{MinNodes: 2, MaxNodes: 2, Exclusive: "node"},
		},
		{
			name: "other nodes", line: "sbatch -N 4 -n 8 job.sh",
			record: finished.Job{ReqCPUs: 8, AllocNodes: 2}, want: hpc.Request{Tasks: 8, MinNodes: 2, MaxNodes: 2},
			rules: []string{finished.RuleSubmitLineDiffers},
		},
		{
			name: "other memory", line: "sbatch -n 8 --mem=1G job.sh",
			record: finished.Job{ReqCPUs: 8, AllocNodes: 2, Memory: 8192}, want: hpc.Request{Tasks: 8, MemPerNode: 4096},
			rules: []string{finished.RuleSubmitLineDiffers},
		},
		{
			name: "memory for each CPU", line: "sbatch -n 8 --mem-per-cpu=1G job.sh",
			record: finished.Job{ReqCPUs: 8, AllocCPUs: 16, AllocNodes: 2, Memory: 16384}, want: hpc.Request{Tasks: 8, MemPerCPU: 1024},
		},
		{
			name: "other GPUs", line: "sbatch -n 8 --gres=gpu:1,nvme:1 job.sh",
			record: finished.Job{ReqCPUs: 8, AllocNodes: 2, GPUs: "8"}, want: hpc.Request{Tasks: 8, GPUs: "8", GRES: "nvme:1"},
			rules: []string{finished.RuleSubmitLineDiffers},
		},
		{
			name: "the same GPUs", line: "sbatch -n 8 --gres=gpu:a100:4,nvme:1 job.sh",
			record: finished.Job{ReqCPUs: 8, AllocNodes: 2, GPUs: "a100:8"}, want: hpc.Request{Tasks: 8, GRES: "gpu:a100:4,nvme:1"},
		},
		{
			name: "the same limit", line: "sbatch -t 0:30 -n 2 job.sh",
			record: finished.Job{ReqCPUs: 2, AllocNodes: 1, TimeLimit: minutes}, want: hpc.Request{Tasks: 2, TimeLimit: minutes},
		},
		{
			name: "another limit", line: "sbatch -t 30 -n 2 job.sh",
			record: finished.Job{ReqCPUs: 2, AllocNodes: 1, TimeLimit: 60 * minutes}, want: hpc.Request{Tasks: 2, TimeLimit: 60 * minutes},
			rules: []string{finished.RuleSubmitLineDiffers},
		},
		{
			name: "a limit that backfill shortened", line: "sbatch -t 30 --time-min=10 -n 2 job.sh",
			record: finished.Job{ReqCPUs: 2, AllocNodes: 1, TimeLimit: 15 * minutes},
			want:   hpc.Request{Tasks: 2, TimeLimit: 30 * minutes, TimeMin: 10 * minutes},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := tt.record
			r.ID, r.Number, r.ArrayTask, r.Elapsed = "7", 7, -1, -1
			r.Submit, r.Eligible, r.Start, r.End, r.State = minute(0), minute(0), minute(1), minute(2), hpc.Completed
			r.SubmitLine, r.Script = tt.line, tt.script
			w := build(t, workload.ReadOptions{}, &r)
			got := w.Jobs.At(0).Request
			if tt.want.Name == "" {
				got.Name = ""
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			var rules map[string]int
			if len(tt.rules) > 0 {
				rules = make(map[string]int)
			}
			for _, rule := range tt.rules {
				rules[rule] = 1
			}
			if diff := cmp.Diff(rules, w.Rules); diff != "" {
				t.Errorf("rules: -want +got\n%s", diff)
			}
		})
	}
}

// TestRequestFromAllocation checks which fields of a request are taken from AllocTRES, and that
// such jobs are counted.
func TestRequestFromAllocation(t *testing.T) {
	const tres = "billing=8,cpu=8,energy=12,gres/gpu:a100=2,gres/gpu=2,mem=16G,node=2"
	for _, tt := range []struct {
		name    string
		record  finished.Job
		want    hpc.Request
		counted int
	}{
		{
			"AllocTRES only", finished.Job{AllocTRES: tres},
			hpc.Request{MinNodes: 2, MaxNodes: 2, Tasks: 8, MemPerNode: 8192, GPUs: "a100:2"}, 1,
		},
		{
			"only GPUs from AllocTRES", finished.Job{AllocTRES: tres, ReqCPUs: 4, AllocNodes: 2, MemPerCPU: 100},
			hpc.Request{MinNodes: 2, MaxNodes: 2, Tasks: 4, MemPerCPU: 100, GPUs: "a100:2"}, 1,
		},
		{
			"a request of no GPUs", finished.Job{AllocTRES: tres, ReqTRES: "cpu=4,mem=1G,node=2", ReqCPUs: 4, ReqNodes: 2, Memory: 1024},
			hpc.Request{MinNodes: 2, MaxNodes: 2, Tasks: 4, MemPerNode: 512}, 0,
		},
		{
			"all amounts in other fields", finished.Job{AllocTRES: "cpu=8,mem=16G,node=2", ReqCPUs: 4, AllocNodes: 2, MemPerCPU: 100},
			hpc.Request{MinNodes: 2, MaxNodes: 2, Tasks: 4, MemPerCPU: 100}, 0,
		},
		{
			"a command line", finished.Job{AllocTRES: tres, SubmitLine: "sbatch -N 2 --ntasks-per-node=4 job.sh"},
			hpc.Request{MinNodes: 2, MaxNodes: 2, Tasks: 8, TasksPerNode: 4, MemPerNode: 8192, GPUs: "a100:2", Name: "job.sh"}, 1,
		},
		{
			"amounts that cannot be parsed", finished.Job{AllocTRES: "cpu=x,mem=-3,node=1e99", ReqCPUs: 1},
			hpc.Request{Tasks: 1}, 0,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := tt.record
			r.ID, r.Number, r.ArrayTask, r.Elapsed = "7", 7, -1, -1
			r.Submit, r.Eligible, r.Start, r.End, r.State = minute(0), minute(0), minute(1), minute(2), hpc.Completed
			w := build(t, workload.ReadOptions{}, &r)
			if diff := cmp.Diff(tt.want, w.Jobs.At(0).Request); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if got := w.Rules[finished.NoteFromAllocation]; got != tt.counted || len(w.Rules) > tt.counted {
				t.Errorf("rules %v", w.Rules)
			}
		})
	}
}
