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
		"gres/gpu:a100=1,gres/gpu:v100=2": "v100:2",
	} {
		if got := GPUs(list); got != want {
			t.Errorf("%s: %q, want %q", list, got, want)
		}
	}
}
