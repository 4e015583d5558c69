package slurmspec

import "testing"

func TestJobFlags(t *testing.T) {
	for number, want := range map[uint32]string{
		0: "", 1: "SchedNotSet", 2: "SchedSubmit", 4: "SchedMain", 8: "SchedBackfill", 0x18: "SchedBackfill,StartReceived", 1 << 20: "",
	} {
		if got := JobFlags(number); got != want {
			t.Errorf("%#x: %q, want %q", number, got, want)
		}
	}
	if got := JobFlagsOfJSON([]string{"CLEAR_SCHEDULING", "START_RECEIVED", "STARTED_ON_SUBMIT", "x"}); got != "SchedSubmit,StartReceived" {
		t.Errorf("words of JSON: %q", got)
	}
}

func TestGPUs(t *testing.T) {
	for list, want := range map[string]string{
		"": "", "cpu=4,mem=8G": "", "gres/gpu=2": "2", "gres/gpu:a100=4,gres/gpu=4,node=1": "a100:4", "gres/gpumem=5": "",
		"gres/gpu:a100=1,gres/gpu:v100=2":                                     "a100:1,v100:2",
		"gres/gpu=3,gres/gpu:a100=2,gres/gpu:h100=1":                          "a100:2,h100:1",
		"gres/gpu=4,gres/gpu:a100=2":                                          "4", // two may be of any model
		"gres/gpu=3,gres/gpu:1g.10gb=2,gres/gpu:nvidia_a100_3g.40gb=1,node=1": "1g.10gb:2,nvidia_a100_3g.40gb:1",
		"gres/shard=4,gres/gpu=x,gres/gpu:a100=y":                             "a100:y",
	} {
		if got := GPUs(list); got != want {
			t.Errorf("%s: %q, want %q", list, got, want)
		}
	}
}
