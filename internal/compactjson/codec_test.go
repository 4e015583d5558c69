package compactjson

import "testing"

func TestSnakeCase(t *testing.T) {
	for in, want := range map[string]string{
		"Name":                  "name",
		"QOS":                   "qos",
		"WCKey":                 "wc_key",
		"MinCPUsPerNode":        "min_cpus_per_node",
		"CPUsPerGPU":            "cpus_per_gpu",
		"GPUs":                  "gpus",
		"GPUsPerTask":           "gpus_per_task",
		"GRESFlags":             "gres_flags",
		"TRES":                  "tres",
		"KillOnInvalidDep":      "kill_on_invalid_dep",
		"MCSLabel":              "mcs_label",
		"ExitCode":              "exit_code",
		"TasksPerGPU":           "tasks_per_gpu",
		"EligibleMinCPUsPerGPU": "eligible_min_cpus_per_gpu",
	} {
		if got := snakeCase(in); got != want {
			t.Errorf("snakeCase(%q) = %q, want %q", in, got, want)
		}
	}
}
