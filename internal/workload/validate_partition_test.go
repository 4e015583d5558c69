package workload

import (
	"strings"
	"testing"

	"rmreplay/internal/hpc"
)

// A warning about an unknown partition suggests the partition with a similar name.
func TestUnknownPartition(t *testing.T) {
	job := &hpc.Job{ID: "a", Request: hpc.Request{Partition: "bacth"}}
	w := &Workload{Jobs: JobsOf(job)}
	said := false
	for _, p := range Validate(w, Cluster{Partitions: map[string]int{"batch": 4, "gpu": 2}}) {
		said = said || strings.HasSuffix(p.Text, "the cluster has no partition bacth (did you mean batch?)")
	}
	if !said {
		t.Errorf("%+v", Validate(w, Cluster{Partitions: map[string]int{"batch": 4}}))
	}
}
