package forecast

import (
	"fmt"
	"os"
	"sort"
	"testing"

	"rmreplay/internal/hpc"
	"rmreplay/internal/experiment"
)

func TestDebug(t *testing.T) {
	c, err := ReadCourse(os.Getenv("TRYRUN"))
	if err != nil {
		t.Fatal(err)
	}
	at, _ := hpc.ParseTime(os.Getenv("AT"))
	q, err := c.Freeze(at)
	if err != nil {
		t.Fatal(err)
	}
	var o Options
	o.Engine, err = EngineOf(&c.Manifest, experiment.Spec{})
	o.RunTimes, o.Arrivals = True, Recorded
	s, err := Make(t.Context(), q, o)
	if err != nil {
		t.Fatal(err)
	}
	starts := c.starts(at)
	type row struct {
		k    Key
		a, f hpc.Time
	}
	var rows []row
	for _, k := range q.Pending() {
		rows = append(rows, row{k, starts[k], s[k][0]})
	}
	sort.Slice(rows, func(i, j int) bool { return min(rows[i].a, rows[i].f) < min(rows[j].a, rows[j].f) })
	for _, r := range rows {
		fmt.Println(r.k, r.a, r.f, r.f.Sub(r.a))
	}
	for _, j := range q.future.Jobs.All() {
		if q.future.Preset(j) {
			fmt.Println("preset", j.ID, j.Recorded.Start, j.Recorded.Nodes, j.RunTime, j.TimeLimit, j.EndAt, j.Tasks, j.TasksPerNode, j.Recorded.Processors, j.GRES,j.Constraint)
		}
	}
}
