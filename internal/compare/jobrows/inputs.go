package jobrows

import (
	"bytes"
	"fmt"
	"strings"
	"time"

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
	eachOtherLimit(a, b, func(_, _ *run.Row) { n++ })
	return n
}

// eachOtherLimit calls a function for the rows of each job that [OtherLimits] counts.
func eachOtherLimit(a, b []run.Row, call func(x, y *run.Row)) {
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
			call(x, y)
		}
	}
}

// LimitsAt returns a text about the jobs with another time limit that could affect a decision at an instant: they were
// submitted by then, and had not ended before in either run. It returns "" without such jobs. The parameter shift is
// added to the instants of b.
func LimitsAt(a, b []run.Row, at hpc.Time, shift time.Duration) string {
	there := func(r *run.Row, shift time.Duration) bool {
		return r.Submit.Add(shift) <= at && (r.End == 0 || r.End.Add(shift) >= at)
	}
	var names []string
	eachOtherLimit(a, b, func(x, y *run.Row) {
		if there(x, 0) || there(y, shift) {
			name := x.Job
			if x.Task >= 0 {
				name += fmt.Sprint("_", x.Task)
			}
			names = append(names, name)
		}
	})
	n := len(names)
	if n == 0 {
		return ""
	}
	if n > namedLimits {
		names = append(names[:namedLimits], "…")
	}
	return fmt.Sprintf("%s that waited or ran then %s another time limit: %s", quantity.Regular(n, "job"),
		quantity.Plural(n, "has", "have"), strings.Join(names, ", "))
}

// namedLimits is the number of jobs that [LimitsAt] names.
const namedLimits = 3

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
