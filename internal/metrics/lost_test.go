package metrics

import (
	"bytes"
	"regexp"
	"testing"

	"rmreplay/internal/hpc"
)

// TestGroupLostHours: the line of a group has its lost processor hours beside their share.
func TestGroupLostHours(t *testing.T) {
	m := Metrics{Losses: []Loss{{Cause: "failed", ProcessorSeconds: 7200}, {Cause: "timeout", ProcessorSeconds: 1800}},
		HeldByState: map[hpc.State]Float{hpc.Completed: 27000, hpc.Failed: 9000}}
	var b bytes.Buffer
	renderGroupParts(&b, []Group{{Name: "ada", Metrics: m}})
	if !regexp.MustCompile(`(?m)lost hours +lost .*\n  ada .* 2\.50? +25\.0%`).Match(b.Bytes()) {
		t.Error(b.String())
	}
}
