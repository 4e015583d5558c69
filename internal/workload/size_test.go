package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
)

func TestSizeClass(t *testing.T) {
	var jobs Jobs
	for _, n := range []int{4, 5, 1, 2} {
		jobs.Append(&hpc.Job{Request: hpc.Request{Tasks: n}})
	}
	table := newSizeTable(&jobs)
	if diff := cmp.Diff([]string{"1", "2", "3-4", "5-8"}, table.Sizes); diff != "" || table.Unit != "cpus" {
		t.Errorf("%s %s", table.Unit, diff)
	}
	for i := range table.Jobs {
		if sum(table.Jobs[i]) != 1 {
			t.Errorf("row %s has %d jobs, want 1", table.Sizes[i], sum(table.Jobs[i]))
		}
	}
}
