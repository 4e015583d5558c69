package jobrows

import (
	"bytes"
	"fmt"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
)

// Machines returns a text about how the sizes of two runs' machines differ; "" if the sizes are equal, or if a size
// is not known.
func Machines(a, b *run.Manifest) string {
	x, y := a.Cluster, b.Cluster
	switch {
	case x.Nodes != y.Nodes && x.Nodes > 0 && y.Nodes > 0:
		return fmt.Sprintf("the machine has %s instead of %d", quantity.Regular(y.Nodes, "node"), x.Nodes)
	case x.Processors != y.Processors && x.Processors > 0 && y.Processors > 0:
		return fmt.Sprintf("the machine has %s instead of %d", quantity.Regular(y.Processors, "processor"), x.Processors)
	}
	return ""
}

// OtherLimits returns the number of jobs that two runs accepted with different time limits. Limits that are not known
// do not count.
func OtherLimits(a, b []run.Row) (n int) {
	type key struct {
		job  string
		task int
	}
	limits := make(map[key]*run.Row, len(a))
	known := func(r *run.Row) bool { return r.State != hpc.Rejected && r.TimeLimit > 0 }
	for i := range a {
		limits[key{a[i].Job, a[i].Task}] = &a[i]
	}
	for i := range b {
		x, y := limits[key{b[i].Job, b[i].Task}], &b[i]
		if x != nil && known(x) && known(y) && x.TimeLimit != y.TimeLimit {
			n++
		}
	}
	return n
}

// LimitsText returns the text about the number of jobs that [OtherLimits] returns.
func LimitsText(n int) string {
	return fmt.Sprintf("%s another time limit", quantity.Plural(n, "1 job has", fmt.Sprint(n, " jobs have")))
}

// RenderLimits writes a sentence about n jobs with another time limit in a set than in the baseline. It writes nothing
// if n is 0.
func RenderLimits(b *bytes.Buffer, n int, set, baseline string) {
	if n > 0 {
		fmt.Fprintf(b, "\nthe workloads of the first runs differ: %s in %s than in %s\n", LimitsText(n), set, baseline)
	}
}
