package embedded

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/question"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
)

// TestKept checks that answers are kept until the jobs change, and that their size is limited.
func TestKept(t *testing.T) {
	var k kept
	name := func(i int) [32]byte { return part{text: fmt.Sprint(i)}.key() }
	rows := func(bytes int) [][]any { return [][]any{{"x" + strings.Repeat("y", bytes), int64(1), nil}} }
	s, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	content := func() store.Content {
		v := s.View()
		defer v.Close()
		return v.Content()
	}
	first := content()
	if err := storetest.Fill(t.Context(), s, 1, 1); err != nil {
		t.Fatal(err)
	}
	k.put(first, name(1), rows(100))
	got, ok := k.get(first, name(1))
	if !ok || len(got) != 1 {
		t.Fatalf("%v %v", got, ok)
	}
	got[0][1] = int64(2) // panels also change their rows
	if again, _ := k.get(first, name(1)); again[0][1] != int64(1) {
		t.Errorf("what is kept has changed: %v", again[0][1])
	}
	if _, ok := k.get(content(), name(1)); ok {
		t.Error("an answer of a former state")
	}
	k.put(first, name(2), rows(maxKeptAnswer))
	if _, ok := k.get(first, name(2)); ok {
		t.Error("an answer that is too long is kept")
	}
	for i := range 200 {
		k.put(first, name(i), rows(maxKeptAnswer/2))
		held := 0
		for _, rows := range k.rows {
			held += sizeOf(rows)
		}
		if held > maxKept || held != k.bytes {
			t.Fatalf("%d bytes are kept, and counted as %d (want at most %d)", held, k.bytes, maxKept)
		}
	}
}

// TestLongTexts checks that an answer has only the beginning of a long text, and still one row per
// text.
func TestLongTexts(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var entries []store.Entry
	for i := range int64(3) {
		text := []byte(fmt.Sprintf(`{"jobid":%d,"cluster":"vale","job_name":"%s%d","state":"FAILED","@end":"2024-03-01T00:00:00"}`, i+1, strings.Repeat("ä", 20<<10), i%2))
		entries = append(entries, store.Entry{Seq: i + 1, Arrived: time.Unix(1, 0), Source: store.Received, Document: text, Job: document.Parse(text, "vale")})
	}
	if _, err := s.Apply(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
	want := question.Cut(strings.Repeat("ä", 20<<10))
	if n := len([]rune(want)); n != question.LongestText+1 {
		t.Fatalf("%d characters", n)
	}
	source := New(s)
	answers, err := source.Ask(t.Context(), question.Question{
		By: []question.Key{question.Values{Column: "job_name", Most: 10, First: true}}, Measures: []question.Measure{{Kind: question.Count}},
	})
	if err != nil || fmt.Sprint(answers[0].Rows) != fmt.Sprintf("[[%s 2] [%[1]s 1]]", want) {
		t.Errorf("%.200v, %v", answers, err)
	}
	jobs, err := source.Jobs(t.Context(), question.Page{Columns: []string{"job_name", "jobid"}, Sort: "jobid", Most: 10})
	if err != nil || len(jobs) != 3 || jobs[2].Values[0] != want {
		t.Errorf("%d jobs, %v", len(jobs), err)
	}
}

// TestEveryColumn checks that every field can be compared, sorted and shown.
func TestEveryColumn(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, f := range question.Fields {
		if _, err := New(s).Jobs(t.Context(), question.Page{Where: question.Known{Column: f.Name}, Columns: []string{f.Name}, Sort: f.Name, Most: 1}); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
	for problem, q := range map[string]question.Question{
		"no column":   {Where: question.Known{Column: "nothing"}},
		"two or more": {By: []question.Key{question.Instants{Column: "end_time"}}},
		"no count of": {By: []question.Key{question.Values{Column: "state", Most: 1}}},
	} {
		if _, err := New(s).Ask(t.Context(), q); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%v, want %s", err, problem)
		}
	}
}

// TestPanelsUseCells checks that rollups answer every panel over whole days. Other tests would not
// notice a panel that reads all jobs, because it is only slow.
func TestPanelsUseCells(t *testing.T) {
	v := question.View{From: time.Date(2024, 3, 11, 1, 0, 0, 0, time.UTC), Until: time.Date(2024, 6, 26, 1, 0, 0, 0, time.UTC), Zone: time.UTC}
	for at := v.From.Truncate(12 * time.Hour); len(v.Edges) < 20; at = at.Add(12 * time.Hour) {
		v.Edges = append(v.Edges, at)
	}
	for _, whole := range []bool{false, true} {
		for _, chosen := range []question.Filter{question.All{}, question.Any{question.Compare{Column: "cluster", Op: "=", Value: "vale"}}} {
			v.Whole, v.Chosen = whole, chosen
			for name, p := range question.Panels {
				for i, q := range append(p.Questions(v), v.Lacks()) {
					plan, err := newPlan(q)
					if err != nil {
						t.Fatal(err)
					}
					if _, ok := plan.overCells(); !ok {
						t.Errorf("%s, question %d: no rollup answers it", name, i)
					}
				}
			}
		}
	}
}
