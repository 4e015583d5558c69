package predictcmd

import (
	"testing"

	"rmreplay/internal/forecast/hint"
)

// TestSubmitted: words that are not known or cannot be read are ignored.
func TestSubmitted(t *testing.T) {
	got := submitted([]string{"name=a=b", "user=ann", "account=x", "partition=p", "qos=q", "limit=1-0", "nodes=2-4", "tasks=8", "other=1", "x"})
	want := hint.Job{Name: "a=b", User: "ann", Account: "x", Partition: "p", QOS: "q", Limit: 86400, Nodes: 2, Tasks: 8}
	if got != want {
		t.Errorf("%+v", got)
	}
	got = submitted([]string{"limit=soon", "limit=INFINITE", "nodes=many", "nodes=-1", "tasks=4294967294", "tasks"})
	if got != (hint.Job{}) {
		t.Errorf("%+v", got)
	}
}
