package outages

import (
	"testing"

	"rmreplay/internal/hpc"
)

// TestInService checks which nodes that a reason calls unavailable were in service from second 10 to 40.
func TestInService(t *testing.T) {
	at := func(s int64) hpc.Time { return hpc.Unix(1_700_000_000 + s) }
	type event struct {
		at   int64
		text string
	}
	for _, test := range []struct {
		name, list, ran string
		events          []event
		want            bool
	}{
		{"an earlier job names the node", "n1", "n[1-2]", nil, true},
		{"never ran there", "n1", "n2", nil, false},
		{"never ran", "n1", "", nil, false},
		{"no names", "", "n1", nil, false},
		{"down", "n[1-2]", "n[1-2]", []event{{5, "n2 down: disk"}, {30, "n2 resume"}}, false},
		{"down until the end", "n1", "n1", []event{{5, "n1 drain"}}, false},
		{"down in between", "n1", "n1", []event{{15, "n1 drain"}, {17, "n1 resume"}}, false},
		{"another node was down", "n1", "n[1-2]", []event{{5, "n2 down"}, {30, "n2 resume"}}, true},
		{"down before", "n1", "n1", []event{{5, "n1 down"}, {10, "n1 resume"}}, true},
		{"down later", "n1", "n1", []event{{40, "n1 down"}}, true},
		{"down in slurm.conf", "n1", "n1", []event{{30, "n1 resume"}}, false},
		{"refused", "n1", "n1", []event{{5, "refused: n1 down"}}, true},
	} {
		var o Outages
		for _, e := range test.events {
			o.Add(at(e.at), e.text)
		}
		if got := o.InService("ReqNodeNotAvail: UnavailableNodes:"+test.list, test.ran, at(10), at(40)); got != test.want {
			t.Errorf("%s: %t, want %t", test.name, got, test.want)
		}
	}
	if (&Outages{}).InService("ReqNodeNotAvail: Reserved for maintenance", "n1", at(10), at(40)) {
		t.Error("a reason without nodes")
	}
}
