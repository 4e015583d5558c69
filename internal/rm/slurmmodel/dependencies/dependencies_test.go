package dependencies

import (
	"strings"
	"testing"
)

// other is a job that other jobs depend on.
type other struct {
	tasks     map[int]Progress // -1 for the whole job
	array     bool
	forgotten bool
	refused   bool
}

func (o *other) Progress(task int) (Progress, bool) { p, known := o.tasks[task]; return p, known }
func (o *other) IsArray() bool                      { return o.array }
func (o *other) Gone() (forgotten, refused bool)    { return o.forgotten, o.refused }

// TestNeeds checks the states of dependencies, given the progress of the jobs that they name.
func TestNeeds(t *testing.T) {
	jobs := map[string]*other{
		"waits": {tasks: map[int]Progress{-1: {Pending: true}}},
		"runs":  {tasks: map[int]Progress{-1: {Started: 100}}},
		"good":  {tasks: map[int]Progress{-1: {Complete: true, Well: true, Started: 50}}},
		"bad":   {tasks: map[int]Progress{-1: {Complete: true, Started: 50}}},
		"gone":  {forgotten: true},
		"no":    {forgotten: true, refused: true},
		"array": {array: true, tasks: map[int]Progress{-1: {}, 1: {Complete: true, Well: true}, 2: {Complete: true}}},
	}
	find := func(id string) (*other, bool) { o, known := jobs[id]; return o, known }
	for _, one := range []struct {
		text string
		task int
		want State
	}{
		{"after:waits", -1, Unmet}, {"after:runs", -1, Met}, {"after:runs+1", -1, Unmet}, {"after:good+9", -1, Met},
		{"afterany:runs", -1, Unmet}, {"afterany:bad", -1, Met}, {"afterok:good", -1, Met}, {"afterok:bad", -1, Failed},
		{"afternotok:bad", -1, Met}, {"afternotok:good", -1, Failed}, {"afterok:gone", -1, Met},
		{"afterok:array", -1, Unmet}, {"afterok:array_1", -1, Met}, {"afterok:array_2", -1, Failed},
		{"aftercorr:array", 1, Met}, {"aftercorr:array", 2, Failed}, {"aftercorr:array", 3, Unmet},
		{"afterok:good,afterany:runs", -1, Unmet}, {"afterok:good,afterok:bad", -1, Failed},
		{"afterok:bad?afterany:runs", -1, Unmet}, {"afterok:bad?afterok:good", -1, Met}, {"afterok:bad?afternotok:good", -1, Failed},
		{"singleton", -1, Unmet},
	} {
		n, err := Read(one.text, find)
		if err != nil {
			t.Errorf("%s: %v", one.text, err)
			continue
		}
		if got := n.Test(one.task, 120, func() State { return Unmet }); got != one.want {
			t.Errorf("%s of task %d: %d, want %d", one.text, one.task, got, one.want)
		}
		if waits := n.WaitsFor(map[*other]bool{jobs["runs"]: true}); waits != (strings.Contains(one.text, "runs") && !n.any) {
			t.Errorf("%s: waits for the job that runs: %v", one.text, waits)
		}
		if forgotten := one.text == "afterok:gone"; n.NamesForgotten() != forgotten {
			t.Errorf("%s: names a forgotten job: %v", one.text, n.NamesForgotten())
		}
		if n.Corresponds() != strings.HasPrefix(one.text, "aftercorr") {
			t.Errorf("%s: tasks correspond: %v", one.text, n.Corresponds())
		}
	}
	for text, want := range map[string]string{
		"afterok:never":   "dependency afterok:never on job never, which has not been submitted",
		"afterany:no":     "dependency afterany:no on job no, which was rejected",
		"afterok:array_x": `dependency afterok:array_x: "x" is not a task`,
	} {
		if _, err := Read(text, find); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestClone checks that the records of an array's tasks have dependencies of their own.
func TestClone(t *testing.T) {
	o := &other{tasks: map[int]Progress{-1: {}}}
	n, err := Read("afterany:o", func(string) (*other, bool) { return o, true })
	if err != nil {
		t.Fatal(err)
	}
	clone := n.Clone()
	o.tasks[-1] = Progress{Complete: true}
	if clone.Test(-1, 0, nil) != Met || n.list[0].state != Unmet {
		t.Error("the test of a copy changes the original")
	}
	if none := (*Needs[*other])(nil); none.Clone() != nil || none.Corresponds() || none.NamesForgotten() || none.WaitsFor(nil) {
		t.Error("a job without dependencies has some")
	}
}
