package jobrows

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/run"
)

// drawn returns the jobs of a day, with equal IDs for all seeds.
func drawn(seed uint64, n int) []run.Row {
	random := rand.New(rand.NewPCG(seed, 1))
	rows := make([]run.Row, n)
	at := hpc.Unix(1704067200)
	for i := range rows {
		at = at.Add(time.Duration(random.IntN(200)) * time.Second)
		rows[i] = run.Row{
			Job: fmt.Sprintf("d%04d", i+1), Task: -1, User: fmt.Sprint("u", random.IntN(20)), Name: fmt.Sprint("app", random.IntN(8)),
			RecordedSubmit: at, Submit: at, TimeLimit: time.Duration(1+random.IntN(6)) * time.Hour, AskedTasks: 1 << random.IntN(6),
			AskedRunTime: time.Duration(1+random.IntN(20000)) * time.Second,
		}
	}
	return rows
}

// Each what-if changes all jobs of a workload, and leaves the same jobs. Other seeds draw other jobs.
func TestUnlike(t *testing.T) {
	each := func(change func(i int, r *run.Row)) []run.Row {
		rows := drawn(1, 300)
		for i := range rows {
			change(i, &rows[i])
		}
		return rows
	}
	random := rand.New(rand.NewPCG(9, 9))
	alone := func(rows []run.Row) []run.Row { // of a log without users, names and limits
		for i := range rows {
			rows[i].User, rows[i].Name, rows[i].TimeLimit = "", "", 0
		}
		return rows
	}
	named := func(rows []run.Row) []run.Row {
		for i := range rows {
			rows[i].Name = rows[i].Job
		}
		return rows
	}
	all := []string{"users", "names", "sizes", "time limits", "run times", "submissions"}
	for _, test := range []struct {
		name string
		a, b []run.Row
		want []string
	}{
		{"other seeds", drawn(1, 300), drawn(2, 300), all},
		{"other seeds, fewer jobs", drawn(1, 300), drawn(2, 40), all},
		{"other seeds of a model without users", alone(drawn(1, 300)), alone(drawn(2, 300)), []string{"sizes", "run times", "submissions"}},
		{"names are IDs", named(drawn(1, 300)), named(drawn(2, 300)), slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == "names" })},
		{"too few to say", drawn(1, 300), drawn(2, 9), nil},
		{"the same", drawn(1, 300), drawn(1, 300), nil},
		{"other limits", drawn(1, 300), each(func(_ int, r *run.Row) { r.TimeLimit = r.AskedRunTime * 11 / 10 }), nil},
		{"other users", drawn(1, 300), each(func(_ int, r *run.Row) { r.User = "x" + r.User }), nil},
		{"scaled arrivals", drawn(1, 300), each(func(i int, r *run.Row) { r.RecordedSubmit = r.RecordedSubmit.Add(time.Duration(i) * time.Minute) }), nil},
		{"moved submissions", drawn(1, 300), each(func(_ int, r *run.Row) {
			r.RecordedSubmit = r.RecordedSubmit.Add(time.Duration(random.IntN(600)) * time.Second)
		}), nil},
		{"all changed, run times scaled", alone(drawn(1, 300)), alone(each(func(i int, r *run.Row) {
			r.RecordedSubmit, r.AskedTasks = r.RecordedSubmit.Add(time.Duration(i)*time.Minute), 1+random.IntN(9)
			r.AskedRunTime = r.AskedRunTime * 7 / 10
		})), nil},
		{"a run with feedback", drawn(1, 300), each(func(i int, r *run.Row) { r.Submit = r.Submit.Add(time.Duration(i) * time.Minute) }), nil},
		{"a log without requests", drawn(1, 300), each(func(_ int, r *run.Row) {
			r.RecordedSubmit, r.AskedTasks, r.AskedRunTime, r.TimeLimit = 0, 0, 0, 0
		}), nil},
	} {
		equal, got := Unlike(test.a, test.b)
		if want := min(len(test.a), len(test.b)); equal != want || !slices.Equal(got, test.want) {
			t.Errorf("%s: %d equal IDs differ in %q, want %d and %q", test.name, equal, got, want, test.want)
		}
	}
	if text := ApartText(3, nil, "A", "B"); text != "" {
		t.Errorf("%q for the same jobs", text)
	}
}
