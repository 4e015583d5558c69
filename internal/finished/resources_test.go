package finished_test

import (
	"testing"

	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// TestGenericResources checks that a request has all generic resources and licenses in the lists
// of TRES, and that an equivalent command line is not changed.
func TestGenericResources(t *testing.T) {
	type want struct {
		gres, gpus, perNode, licenses string
		rules                         map[string]int
	}
	const several = "cpu=4,gres/gpu=3,gres/gpu:a100=2,gres/gpu:h100=1"
	none := map[string]int{}
	lost := map[string]int{finished.NoteTRES: 1}
	for _, tt := range []struct {
		nodes             int
		req, alloc, lines string
		want              want
	}{
		{1, several, "", "", want{"", "a100:2,h100:1", "", "", none}},
		{1, "", several, "", want{"", "a100:2,h100:1", "", "", map[string]int{finished.NoteFromAllocation: 1}}},
		{1, several, "", "--gres=gpu:a100:2,gpu:h100:1", want{"gpu:a100:2,gpu:h100:1", "", "", "", none}},
		{2, "cpu=4,gres/gpu=6,gres/gpu:a100=4,gres/gpu:h100=2", "", "--gpus-per-node=a100:2,h100:1 -N 2", want{"", "", "a100:2,h100:1", "", none}},
		{1, several, "", "--gres=gpu:h100:1", want{"", "a100:2,h100:1", "", "", map[string]int{finished.RuleSubmitLineDiffers: 1}}},
		{1, "cpu=4,gres/gpu:1g.10gb=2,gres/gpu:nvidia_a100_3g.40gb=1", "", "", want{"", "1g.10gb:2,nvidia_a100_3g.40gb:1", "", "", none}},
		{2, "cpu=4,gres/shard=8,license/matlab=1,license/abaqus@db=5", "", "", want{"shard:4", "", "", "matlab:1,abaqus@db:5", none}},
		{2, "cpu=4,gres/shard:a=8,gres/shard:b=2,gres/gpu=2", "", "", want{"shard:a:4,shard:b:1", "2", "", "", none}},
		{1, "", "cpu=4,gres/shard=8,license/matlab=1", "", want{"shard:8", "", "", "matlab:1", none}},
		{1, "cpu=4,gres/shard=8,license/matlab=1", "", "--gres=shard:8 -L matlab:1", want{"shard:8", "", "", "matlab:1", none}},
		{1, "cpu=4,gres/shard=8,gres/gpu=1", "", "-G 1", want{"shard:8", "1", "", "", none}},
		{2, "cpu=4,gres/shard=7", "", "", want{"", "", "", "", lost}},
		{1, "cpu=4,bb/datawarp=100G", "", "", want{"", "", "", "", lost}},
		{1, "cpu=4,mem=1G,node=1,billing=4", "", "", want{"", "", "", "", none}},
	} {
		r := ran("7", 0, 10, 20, hpc.Completed, tt.lines)
		r.ReqCPUs, r.AllocNodes, r.ReqTRES, r.AllocTRES = 4, tt.nodes, tt.req, tt.alloc
		if tt.lines == "" {
			r.SubmitLine = ""
		} else {
			r.SubmitLine = "sbatch -n 4 " + tt.lines + " job.sh"
		}
		w := build(t, workload.ReadOptions{}, r)
		job := w.Jobs.At(0)
		got := want{job.GRES, job.GPUs, job.GPUsPerNode, job.Licenses, nil}
		expected := tt.want
		expected.rules = nil
		if got.gres != expected.gres || got.gpus != expected.gpus || got.perNode != expected.perNode || got.licenses != expected.licenses {
			t.Errorf("%s %s of %q: %+v, want %+v", tt.req, tt.alloc, r.SubmitLine, got, expected)
		}
		for _, rule := range []string{finished.NoteTRES, finished.NoteFromAllocation, finished.RuleSubmitLineDiffers, finished.RuleBadSubmitLine} {
			if w.Rules[rule] != tt.want.rules[rule] {
				t.Errorf("%s %s of %q: rules %v", tt.req, tt.alloc, r.SubmitLine, w.Rules)
			}
		}
	}
}
