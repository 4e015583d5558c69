package embedded

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/question"
	"rmreplay/internal/accounting/store"
)

// begin is the day on which clocks change in America, three weeks before they change in Europe.
var begin = time.Date(2024, 3, 10, 0, 0, 0, 0, time.UTC)

var names = []string{
	"alice", "Alice", "bob", `o'hara`, `a*b?c\d"e`, "ünal", "ÜNAL", "u u", "two\nlines", "[a-z]+", "a.b", "(x|y)", "100%_", "日本", `\`, "'; DROP TABLE jobs; --", "?",
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// randomEntry draws a job with an end within about 40 days. Some jobs have no end, no user, or
// absurd values.
func randomEntry(r *rand.Rand, seq int64) store.Entry {
	submit := begin.Add(time.Duration(r.IntN(40*86400)) * time.Second)
	start := submit.Add(time.Duration(r.ExpFloat64()*7200) * time.Second)
	end := start.Add(time.Duration(r.ExpFloat64()*20000) * time.Second)
	const layout = "2006-01-02T15:04:05"
	members := map[string]any{"jobid": 1 + r.IntN(2000), "cluster": pick(r, "c0", "c1", "c*2")}
	for name, v := range map[string]any{
		"@submit": submit.Format(layout), "@start": start.Format(layout), "@end": end.Format(layout), "nodes": pick(r, "n1", "(null)"),
		"state": pick(r, "COMPLETED", "COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "PENDING", "DEADLINE", "completed"), "username": pick(r, names...),
		"account": pick(r, "a1", "a2", "a3", "A1"), "partition": pick(r, "p1", "p2", "p3"), "qos": pick(r, "high", "low"), "job_name": pick(r, names...) + pick(r, "", "1", "2"),
		"total_cpus": r.IntN(200), "total_nodes": r.IntN(20), "time_limit": 60 * r.IntN(600), "exit_code": fmt.Sprintf("%d:%d", r.IntN(3), r.IntN(2)*9),
		"tres_alloc": "gres/gpu=2,mem=4G", "lost": r.IntN(6) == 0,
	} {
		if r.IntN(12) > 0 {
			members[name] = v
		}
	}
	if r.IntN(100) == 0 {
		members["total_cpus"], members["@end"] = 1<<40, "2199-01-01T00:00:00"
	}
	text, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	return store.Entry{Seq: seq, Arrived: begin, Source: store.Received, Index: "slurm", Document: text, Job: document.Parse(text, "slurm")}
}

// randomFilter draws a filter of any kind: from the query bar's language, from terms, or as in
// questions.
func randomFilter(r *rand.Rand, reader question.Reader, depth int) question.Filter {
	kinds := 8
	if depth > 3 {
		kinds = 5
	}
	some := func() (list []question.Filter) {
		for range r.IntN(4) {
			list = append(list, randomFilter(r, reader, depth+1))
		}
		return list
	}
	switch r.IntN(kinds) {
	case 0, 1, 2:
		f, err := reader.Query(randomQuery(r, 0))
		if err != nil {
			return question.All{}
		}
		return f
	case 3:
		var list []question.Term
		for range 1 + r.IntN(3) {
			field := question.Fields[randomField(r)]
			list = append(list, question.Term{Field: field, Op: pick(r, "=", "!=", "<", "<=", ">", ">="), Value: randomValue(r, field)})
		}
		f, err := reader.Terms(list)
		if err != nil {
			return question.Not{Of: question.Any{}}
		}
		return f
	case 4:
		return pick[question.Filter](r, question.Failed{}, question.Ran{}, question.Known{Column: randomField(r)},
			question.Like{Column: "user_name", Pattern: randomPattern(r), AnyCase: r.IntN(2) == 0},
			question.Compare{Column: "cluster", Op: pick(r, "=", "<", ">="), Value: pick(r, "c0", "c1")},
			question.Compare{Column: "limit_s", Op: ">", Value: 0.0})
	case 5:
		return question.All(some())
	case 6:
		return question.Any(some())
	}
	return question.Not{Of: randomFilter(r, reader, depth+1)}
}

// randomField draws the name of a field, mostly of one whose values differ between jobs.
func randomField(r *rand.Rand) string {
	if r.IntN(4) == 0 {
		return pick(r, append(question.Columns, "id", "limit_used", "hour", "weekday")...)
	}
	return pick(r, "user_name", "state", "account", "partition", "qos", "job_name", "cluster", "cpus", "nodes", "elapsed_s", "wait_s", "limit_s", "end_time",
		"start_time", "submit_time", "cpu_hours", "limit_used", "hour", "weekday", "exit_code", "jobid")
}

func randomValue(r *rand.Rand, f *question.Field) string {
	if r.IntN(10) == 0 {
		return ""
	}
	switch f.Type {
	case question.Integer:
		return fmt.Sprint(pick(r, r.IntN(25), r.IntN(3000), 1800*r.IntN(20)))
	case question.Decimal:
		return fmt.Sprintf("%.2f", 60*r.Float64())
	case question.Instant:
		return begin.Add(time.Duration(r.IntN(40*86400)) * time.Second).Format("2006-01-02T15:04:05")
	}
	switch f.Name {
	case "state":
		return pick(r, "FAILED", "COMPLETED", "completed", "TIMEOUT")
	case "cluster":
		return pick(r, "c0", "c1", "c*2")
	case "partition", "qos", "account":
		return pick(r, "p1", "p2", "high", "a1", "a2")
	}
	return pick(r, names...)
}

// randomPattern draws a pattern from parts of names and wildcards.
func randomPattern(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(5) {
		name := []rune(pick(r, names...))
		from := r.IntN(len(name))
		b.WriteString(pick(r, "*", "?", "**", string(name[from:min(len(name), from+2)]), `\*`, `\?`, `\\`, `\`))
	}
	return b.String()
}

// randomQuery draws a query in the query bar's language, or a text that is almost such a query.
func randomQuery(r *rand.Rand, depth int) string {
	quoted := func(text string) string {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
	}
	field := question.Fields[randomField(r)]
	value := func() string {
		if field.Type == question.Text && r.IntN(3) == 0 {
			return strings.ReplaceAll(strings.ReplaceAll(randomPattern(r), " ", ""), "\n", "")
		}
		return pick(r, quoted(randomValue(r, field)), randomValue(r, field), "*")
	}
	if depth < 3 && r.IntN(2) == 0 {
		a, b := randomQuery(r, depth+1), randomQuery(r, depth+1)
		return pick(r, a+" "+b, a+" AND "+b, a+" OR "+b, "("+a+" OR "+b+")", "NOT ("+a+")", "-"+a)
	}
	return pick(r, field.Name+":"+value(), field.Name+pick(r, "=", "!=", "<", "<=", ">", ">=")+value(), field.Name+":("+value()+" OR "+value()+")",
		field.Name+":["+randomValue(r, field)+" TO "+randomValue(r, field)+"]", quoted(pick(r, names...)), pick(r, "ali", "a*e", "p1", "17", "ÜN?L"), field.Name+":"+randomPattern(r))
}

// randomView draws a view with edges.
func randomView(r *rand.Rand, reader question.Reader) question.View {
	second := pick(r, 1, 900, 3600, 86400)
	at := func(most int) time.Duration { return time.Duration(r.IntN(most)/second*second) * time.Second }
	v := question.View{From: begin.Add(at(30 * 86400)), Zone: reader.Zone, Whole: r.IntN(4) == 0, Chosen: randomChosen(r, reader)}
	v.Until = v.From.Add(time.Duration(second)*time.Second + at(20*86400))
	step := pick(r, 600*time.Second, 900*time.Second, time.Hour, 6*time.Hour, 24*time.Hour)
	first := v.From.Truncate(step)
	for e := first; len(v.Edges) < 2 || e.Before(v.Until) && len(v.Edges) < 60; e = e.Add(step) {
		v.Edges = append(v.Edges, e)
		if r.IntN(20) == 0 {
			e = e.Add(time.Hour) // clocks change
		}
	}
	return v
}

// randomChosen draws a reader's filter: often all jobs, a cluster, or a key of a rollup.
func randomChosen(r *rand.Rand, reader question.Reader) question.Filter {
	switch r.IntN(4) {
	case 0:
		return question.All{}
	case 1:
		f, err := reader.Query(pick(r, "cluster:c0", "cluster:(c0 OR c1)", "-cluster:c0", "cluster:c*", "state:FAILED", "-user_name:alice", "qos:low", "account:a1 cluster:c1",
			"state:COMP*", "user_name<b", "qos:\"\"", "-account:*"))
		if err != nil {
			panic(err)
		}
		return f
	}
	return randomFilter(r, reader, 0)
}

// randomQuestion draws a question about a view: from a panel, or any other.
func randomQuestion(r *rand.Rand, v question.View) question.Question {
	if r.IntN(2) == 0 {
		name := pick(r, slices.Sorted(func(yield func(string) bool) {
			for name := range question.Panels {
				if !yield(name) {
					return
				}
			}
		})...)
		return pick(r, append(question.Panels[name].Questions(v), v.Lacks())...)
	}
	count := question.Measure{Kind: question.Count}
	q := question.Question{Where: v.Ended(), Clock: v.Clock(), Measures: []question.Measure{count}}
	if r.IntN(4) == 0 {
		q.Where = v.Chosen
	}
	reader := question.Reader{Zone: v.Zone, Now: begin}
	for range r.IntN(4) {
		m := pick(r, question.Measure{Kind: question.Sum, Column: pick(r, "elapsed_s", "cpu_hours", "wait_s", "gpus", "limit_used")},
			question.Measure{Kind: question.Mean, Column: pick(r, "wait_s", "cpu_hours", "nodes")},
			question.Measure{Kind: pick(r, question.Least, question.Most), Column: pick(r, "end_time", "submit_time", "cpus")},
			question.Measure{Kind: question.Distinct, Column: pick(r, "user_name", "account", "qos", "cluster")},
			question.Measure{Kind: question.Unused}, count,
			question.Measure{Kind: question.Moment, Column: pick(r, "start_time", "end_time"), Times: pick(r, "cpus", "nodes"), Since: v.From})
		m.Where = pick[question.Filter](r, nil, nil, question.Failed{}, question.Compare{Column: "state", Op: "=", Value: "COMPLETED"}, randomFilter(r, reader, 3))
		q.Measures = append(q.Measures, m)
	}
	for range r.IntN(3) {
		q.By = append(q.By, pick[question.Key](r,
			question.Values{Column: pick(r, "user_name", "state", "partition", "cluster", "job_name", question.Exit), Most: 1 + r.IntN(6), First: r.IntN(2) == 0},
			question.Instants{Column: pick(r, "end_time", "end_time", "start_time", "submit_time"), Edges: v.Edges, Before: r.IntN(3) == 0},
			question.Classes{Column: pick(r, "wait_s", "elapsed_s", "nodes", "limit_s"), Each: 1 + r.IntN(2)},
			question.Steps{Column: pick(r, "limit_used", "elapsed_s", "cpu_hours"), Width: pick(r, 5, 10, 1000), Count: pick(r, 21, 3)},
			question.WeekHours{}))
	}
	slices.SortStableFunc(q.By, func(a, b question.Key) int { // keys inside of Values must be Values
		_, x := a.(question.Values)
		_, y := b.(question.Values)
		return cmp.Compare(fmt.Sprint(x), fmt.Sprint(y))
	})
	return q
}

// rowsOfStore returns all jobs of a store.
func rowsOfStore(t *testing.T, s *store.Store) (all []job) {
	t.Helper()
	columns := append(slices.Clone(question.Columns), "id")
	err := s.Read(t.Context(), func(v *store.Snapshot) error {
		rows, err := read(v, part{text: `SELECT "` + strings.Join(columns, `", "`) + `" FROM jobs`})
		for _, row := range rows {
			j := job{}
			for i, name := range columns {
				j[name] = row[i]
			}
			all = append(all, j)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestQuestions compares the answers to random questions with an evaluator that examines every job,
// while days are rolled up and jobs are added and removed. With RMREPLAY_LONG_TESTS, the test takes
// five minutes, or the given time (30m).
func TestQuestions(t *testing.T) {
	limit := 8 * time.Second
	if text := os.Getenv("RMREPLAY_LONG_TESTS"); text != "" {
		limit = 5 * time.Minute
		if d, err := time.ParseDuration(text); err == nil {
			limit = d
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	s, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	seq, asked, rolled := int64(0), 0, map[bool]int{}
	zones := []string{"UTC", "Europe/Zurich", "Asia/Kathmandu", "America/New_York", "Australia/Lord_Howe", "Africa/Monrovia"}
	source := New(s)
	for deadline, round := time.Now().Add(limit), 0; time.Now().Before(deadline) || asked < 100; round++ {
		var entries []store.Entry
		for range []int{700, 3, 40}[min(round, 1+round%2)] {
			seq++
			entries = append(entries, randomEntry(r, seq))
		}
		if _, err := s.Apply(t.Context(), entries); err != nil {
			t.Fatal(err)
		}
		switch round % 4 {
		case 0, 1:
			if err := s.Seal(); err != nil { // durable parts have cells
				t.Fatal(err)
			}
		case 3:
			if _, err := s.Expire(t.Context(), begin.AddDate(0, 0, min(round/4, 5)).Add(7*time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		all := rowsOfStore(t, s)
		for range 40 {
			zone, err := time.LoadLocation(pick(r, zones...))
			if err != nil {
				t.Skipf("SKIPPED: no time zones: %v", err)
			}
			v := randomView(r, question.Reader{Zone: zone, Now: begin})
			q := randomQuestion(r, v)
			asked++
			rolled[check(t, source, q, all)]++
			if t.Failed() {
				return
			}
		}
	}
	t.Logf("%d questions of %d rounds; rolled up: %v", asked, asked/40, rolled)
	if asked < 100 || rolled[true] < asked/10 || rolled[false] < asked/10 {
		t.Errorf("%d questions, by whether they were answered by cells: %v", asked, rolled)
	}
}

// check compares the answers of both statements, over jobs and over cells, with the evaluator's
// answer. It reports whether cells could be used.
func check(t *testing.T, s *Source, q question.Question, all []job) (rolled bool) {
	t.Helper()
	want, left := naive(q, all)
	p, err := newPlan(q)
	if err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	jobs, err := p.overJobs()
	if err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	answers, err := s.Ask(t.Context(), q)
	if err != nil {
		t.Fatalf("%+v: %v\n%s", q, err, jobs.text)
	}
	statement := jobs
	var plain question.Answer
	err = s.store.Read(t.Context(), func(v *store.Snapshot) error {
		if cells, ok := p.overCells(); ok {
			statement, rolled = cells, true
		}
		rows, err := read(v, jobs)
		plain = p.answer(rows)
		return err
	})
	if err != nil {
		t.Fatalf("%+v: %v\n%s", q, err, jobs.text)
	}
	for text, got := range map[string]question.Answer{jobs.text: plain, statement.text + "\n(asked)": answers[0]} {
		problem := different(want, got)
		first := len(q.By) > 0 && !slices.ContainsFunc(q.By, func(k question.Key) bool { v, ok := k.(question.Values); return ok && !v.First })
		if noted := len(got.Notes) > 0; !first && noted != (left > 0) || noted && !strings.HasPrefix(got.Notes[0], fmt.Sprint(left)) && left < 1000 {
			problem = errors.Join(problem, fmt.Errorf("the notes %q, want %d jobs left out", got.Notes, left))
		}
		if problem != nil {
			t.Errorf("%+v: %v\n%s\n%q", q, problem, text, statement.args)
		}
	}
	return rolled
}

// different describes how two answers differ. It ignores the last digits of numbers.
func different(want, got question.Answer) error {
	if len(want.Rows) != len(got.Rows) || want.Outside != got.Outside {
		return fmt.Errorf("%d rows and %d jobs outside, want %d and %d:\n%v\nwant %v", len(got.Rows), got.Outside, len(want.Rows), want.Outside, got.Rows, want.Rows)
	}
	for i, row := range want.Rows {
		for k, w := range row {
			a, number := w.(float64)
			b, _ := got.Rows[i][k].(float64)
			if number && math.Abs(a-b) <= 1e-7*math.Max(math.Abs(a), 1) && got.Rows[i][k] != nil {
				continue
			}
			if w != got.Rows[i][k] {
				return fmt.Errorf("row %d: %v, want %v", i, got.Rows[i], row)
			}
		}
	}
	return nil
}

// TestJobs checks that pages with random filters and orders have the evaluator's jobs, each once
// and in order.
func TestJobs(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 2))
	var entries []store.Entry
	for seq := range int64(500) {
		entries = append(entries, randomEntry(r, seq+1))
	}
	if _, err := s.Apply(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
	all := rowsOfStore(t, s)
	for range 60 {
		v := randomView(r, question.Reader{Zone: time.UTC, Now: begin})
		page := question.Page{Where: v.Ended(), Columns: question.Columns, Sort: randomField(r), Descending: r.IntN(2) == 0, Most: 30, Clock: v.Clock()}
		if r.IntN(3) == 0 {
			page.Sort, page.Descending = "end_time", true
		}
		var want []job
		for _, j := range all {
			if holds(page.Where, j, page.Clock) {
				want = append(want, j)
			}
		}
		slices.SortFunc(want, func(a, b job) int { return order(a, b, page) })
		for ; page.From <= len(want); page.From += page.Most {
			got, err := New(s).Jobs(context.Background(), page)
			if err != nil {
				t.Fatalf("%+v: %v", page, err)
			}
			part := want[page.From:min(len(want), page.From+page.Most)]
			if len(got) != len(part) {
				t.Fatalf("%+v: %d jobs, want %d", page, len(got), len(part))
			}
			for i, j := range part {
				if got[i].ID != fmt.Sprint(j["seq"]) || fmt.Sprint(got[i].Values[7]) != fmt.Sprint(j["state"]) {
					t.Fatalf("%+v: job %d is %s, want %v", page, i, got[i].ID, j["seq"])
				}
			}
		}
	}
}

// order compares two jobs in the order of a page.
func order(a, b job, page question.Page) int {
	x, y := a.get(page.Sort, page.Clock), b.get(page.Sort, page.Clock)
	sign := 1
	if page.Descending {
		sign = -1
	}
	switch {
	case x == nil && y != nil:
		return 1
	case x != nil && y == nil:
		return -1
	case x != nil:
		c := question.Compare{Column: page.Sort, Op: "<", Value: y}
		if n, ok := asNumber(y); ok {
			c.Value = n
		}
		if holds(c, a, page.Clock) {
			return -sign
		}
		if c.Op = ">"; holds(c, a, page.Clock) {
			return sign
		}
	}
	return sign * int(a["seq"].(int64)-b["seq"].(int64))
}

// TestPatterns compares patterns with the simplest matcher, and checks that no pattern takes long.
func TestPatterns(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir(), store.Options{ReadTime: 5 * time.Minute}) // one question has all cases
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	match := func(v *store.Snapshot, text string, l question.Like) (found bool, err error) {
		p, err := columns(func(name string) (string, bool) { return name, true }).filter(l)
		if err != nil {
			return false, err
		}
		err = v.Scan("SELECT "+p.text+" FROM (SELECT ?::VARCHAR AS user_name)", append(p.args, text), &found)
		if err != nil {
			err = fmt.Errorf("%q: %w", l.Pattern, err)
		}
		return found, err
	}
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 3))
	alphabet := []rune("aAbBüÜſsKk*?\\[](){}.+|^$-%_\"'\n\t\x00 é日𝒳")
	random := func(most int) string {
		var b strings.Builder
		for range r.IntN(most) {
			b.WriteRune(pick(r, alphabet...))
		}
		return b.String()
	}
	err = s.Read(t.Context(), func(v *store.Snapshot) error { // called again if another engine continues
		found := 0
		for range 2000 {
			l := question.Like{Column: "user_name", Pattern: random(7), AnyCase: r.IntN(2) == 0}
			text := random(6)
			if r.IntN(2) == 0 { // a pattern that probably matches
				text = strings.NewReplacer("*", random(3), "?", string(pick(r, alphabet...)), `\`, "").Replace(l.Pattern)
			}
			want := matches([]rune(l.Pattern), []rune(text), l.AnyCase)
			got, err := match(v, text, l)
			if err != nil {
				return err
			}
			if got != want || l.Matches(text) != want {
				t.Errorf("%q, any case %v, of %q: %v and %v, want %v", l.Pattern, l.AnyCase, text, got, l.Matches(text), want)
			}
			if want {
				found++
			}
		}
		if found < 200 {
			t.Errorf("only %d patterns match", found)
		}
		began := time.Now()
		for _, pattern := range []string{"*a*a*a*a*a*a*a*b", strings.Repeat("*a", 120) + "b", "*" + strings.Repeat("?", 250) + "b", strings.Repeat("*?", 100)} {
			for _, anyCase := range []bool{false, true} {
				l := question.Like{Column: "user_name", Pattern: pattern, AnyCase: anyCase}
				if _, err := match(v, strings.Repeat("a", 200), l); err != nil {
					return err
				}
			}
		}
		if took := time.Since(began); took > time.Minute { // with exponential time, this would take years
			t.Errorf("the patterns took %v", took)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestTies asks for the first of several values with equal measures: the first in the order of the
// texts.
func TestTies(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var entries []store.Entry
	for i, code := range []string{"1:9", "1:0", "10:0", "2:0", "10:9"} {
		text := fmt.Appendf(nil, `{"jobid":%d,"cluster":"c","exit_code":%q,"@end":"2024-03-12T00:00:00"}`, i+1, code)
		entries = append(entries, store.ParseArrival(int64(i+1), begin, store.Received, "slurm", "c", text))
	}
	if _, err := s.Apply(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
	all := rowsOfStore(t, s)
	for most := range 5 {
		check(t, New(s), question.Question{
			Measures: []question.Measure{{Kind: question.Count}},
			By:       []question.Key{question.Values{Column: question.Exit, Most: most + 1, First: true}},
		}, all)
	}
}

// TestClusterOrKey chooses jobs by their cluster or by a key, and checks that cells answer.
func TestClusterOrKey(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := rand.New(rand.NewPCG(1, 1))
	var entries []store.Entry
	for seq := range int64(500) {
		entries = append(entries, randomEntry(r, seq+1))
	}
	if _, err := s.Apply(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
	if err := s.Seal(); err != nil {
		t.Fatal(err)
	}
	either := question.Any{
		question.Like{Column: "partition", Pattern: "p1"},
		question.Compare{Column: "cluster", Op: "=", Value: "c0"},
	}
	rolled := check(t, New(s), question.Question{
		Where: question.All{
			question.Compare{Column: "end_time", Op: ">=", Value: begin.AddDate(0, 0, 2).Add(5 * time.Hour)},
			question.Compare{Column: "end_time", Op: "<", Value: begin.AddDate(0, 0, 30)},
			either,
		},
		By:       []question.Key{question.Values{Column: "partition", Most: 300}},
		Measures: []question.Measure{{Kind: question.Count}},
	}, rowsOfStore(t, s))
	if !rolled {
		t.Error("no cells were used")
	}
}
