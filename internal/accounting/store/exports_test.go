package store_test

import (
	"database/sql"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/accounting/engine"
	"rmreplay/internal/accounting/engine/enginetest"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
	"rmreplay/internal/inert"
)

// odd are texts that a spreadsheet, CSV or SQL could misinterpret.
var odd = []string{"=1+1", "+cmd|' /C calc'!A0", "-2+3", "-2.5", "@SUM(A1)", "'=x", "a,b", `say "x"`, "two\nlines",
	"\tx", "＝1", "ünï", "NULL", "\x1b[31m", "'", " "}

// exported returns a store of synthetic jobs and of jobs with odd texts. Some rows are fresh, and some are replaced.
func exported(t *testing.T, jobs int64) *store.Store {
	t.Helper()
	s := filled(t, jobs)
	var entries []store.Entry
	for i, text := range odd {
		document := fmt.Appendf(nil,
			`{"jobid":%d,"cluster":"moor","username":"ann","job_name":%q,"nodes":"n1",`+
				`"@start":"2024-03-01T00:00:00.25","@end":"2024-03-01T00:00:01"}`, 9_000_000+i, "x")
		document = []byte(strings.Replace(string(document), `"x"`, quoteJSON(text), 1))
		entries = append(entries, store.ParseArrival(jobs+1+int64(i), storetest.Begin, store.Received, "i", "moor",
			document))
	}
	again := storetest.Entry(5)
	entries = append(entries, store.ParseArrival(jobs+1+int64(len(odd)), again.Arrived, store.Received, "slurm",
		"vale", append(again.Document, ' ')))
	if _, err := s.Apply(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
	return s
}

func quoteJSON(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r < ' ' || r == '"' || r == '\\' {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return `"` + b.String() + `"`
}

// rowsOf returns the rows of a query. Each value is a text with its type.
func rowsOf(q interface {
	Query(query string, args ...any) (*sql.Rows, error)
}, query string) (list [][]any, err error) {
	rows, err := q.Query(query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		row, to := make([]any, len(names)), make([]any, len(names))
		for i := range row {
			to[i] = &row[i]
		}
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		list = append(list, row)
	}
	return list, rows.Err()
}

// export exports a table into a temporary directory.
func export(t *testing.T, s *store.Store, f store.Filter, format store.Table) (path string, jobs int64) {
	t.Helper()
	v := s.View()
	defer v.Close()
	from, jobs, err := v.Export(t.Context(), f, format)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "out."+string(format))
	if err := os.Rename(from, path); err != nil {
		t.Fatal(err)
	}
	return path, jobs
}

// inStore returns all columns and the id of each job, as the store's engine returns them.
func inStore(t *testing.T, s *store.Store) (list [][]any) {
	t.Helper()
	err := s.Read(t.Context(), func(v *store.Snapshot) (err error) {
		list, err = rowsOf(v, "SELECT * EXCLUDE (document) FROM jobs ORDER BY seq")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestExportParquet reads an exported file with an engine in another directory. The file has the same types, values
// and order as the store.
func TestExportParquet(t *testing.T) {
	s := exported(t, 1700)
	path, jobs := export(t, s, store.Filter{}, store.Parquet)
	pool := engine.New(engine.Options{Program: enginetest.Program(), Dirs: []string{filepath.Dir(path)}})
	defer pool.Close()
	setup := "CREATE OR REPLACE TEMP VIEW jobs AS FROM read_parquet('" + path + "')"
	var got [][]any
	err := pool.Read(t.Context(), engine.Tables{Version: 1, Setup: []string{setup}},
		func(q *engine.Questioner) (err error) {
			got, err = rowsOf(q, "SELECT * FROM jobs")
			return err
		})
	want := inStore(t, s)
	if err != nil || len(got) != len(want) || jobs != int64(len(want)) || len(want) != 1700+len(odd) {
		t.Fatalf("%d rows and %d jobs, want %d: %v", len(got), jobs, len(want), err)
	}
	for i := range want {
		if fmt.Sprintf("%T %[1]v", got[i]) != fmt.Sprintf("%T %[1]v", want[i]) {
			t.Fatalf("row %d is %v, want %v", i, got[i], want[i])
		}
	}
}

// TestExportCSV reads an exported file. Its values equal the store's, and a spreadsheet sees no formula in a cell.
func TestExportCSV(t *testing.T) {
	s := exported(t, 1700)
	path, jobs := export(t, s, store.Filter{}, store.CSV)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	want := inStore(t, s)
	if err != nil || len(lines) != len(want)+1 || jobs != int64(len(want)) {
		t.Fatalf("%d lines and %d jobs, want %d: %v", len(lines), jobs, len(want), err)
	}
	for i, c := range store.Columns {
		if lines[0][i] != c.Name {
			t.Errorf("column %d is %s, want %s", i, lines[0][i], c.Name)
		}
	}
	if lines[0][len(store.Columns)] != "id" {
		t.Error(lines[0])
	}
	odds := 0
	for i, line := range lines[1:] {
		for k, cell := range line {
			if text := inert.Text(cell); !same(text, want[i][k]) || inert.Cell(text) != cell {
				t.Fatalf("row %d: %s is %q, want %v, inert", i, lines[0][k], cell, want[i][k])
			}
			if strings.HasPrefix(cell, "=") || strings.HasPrefix(cell, "@") || strings.HasPrefix(cell, "+") {
				t.Errorf("row %d: %s is the formula %q", i, lines[0][k], cell)
			}
			if cell == "'=1+1" || cell == "'-2+3" || cell == "-2.5" {
				odds++
			}
		}
	}
	if odds != 3 {
		t.Errorf("%d of 3 odd names", odds)
	}
}

// same reports whether a cell's text is the text of a value.
func same(text string, value any) bool {
	switch v := value.(type) {
	case nil:
		return text == ""
	case int64:
		return text == strconv.FormatInt(v, 10)
	case float64:
		f, err := strconv.ParseFloat(text, 64)
		return err == nil && f == v
	case time.Time:
		at, err := time.Parse("2006-01-02 15:04:05.999999", text)
		return err == nil && at.Equal(v)
	case string:
		return text == v
	}
	return false
}

// TestFilters compares each filter with a condition in SQL.
func TestFilters(t *testing.T) {
	s := exported(t, 2500)
	from := storetest.Begin.Add(time.Hour)
	to := from.Add(20 * time.Minute)
	const in = "submit_time < '2024-03-01 01:20:00' AND end_time >= '2024-03-01 01:00:00'"
	const ended = "end_time >= '2024-03-01 01:00:00' AND end_time < '2024-03-01 01:20:00'"
	for _, c := range []struct {
		filter store.Filter
		sql    string
	}{
		{store.Filter{}, "true"},
		{store.Filter{From: from, To: to, Clusters: []string{"vale", "it's"}}, in},
		{store.Filter{EndedFrom: from, EndedTo: to}, ended},
		{store.Filter{Clusters: []string{"moor"}}, "cluster = 'moor'"},
		{store.Filter{Clusters: []string{"nowhere"}}, "false"},
		{store.Filter{After: 1234}, "seq > 1234"},
		{store.Filter{Where: "cpus > 64 -- and more"}, "cpus > 64"},
		{store.Filter{Where: "state = 'FAILED' OR true", After: 2490, EndedFrom: from},
			"seq > 2490 AND end_time >= '2024-03-01 01:00:00'"},
		{store.Filter{Where: "job_name LIKE '=%'"}, "job_name LIKE '=%'"},
	} {
		want := count(t, s, "SELECT count(*) FROM jobs WHERE "+c.sql)
		sum := count(t, s, "SELECT coalesce(sum(seq), 0)::BIGINT FROM jobs WHERE "+c.sql)
		v := s.View()
		n, last, seqs := int64(0), int64(0), int64(0)
		err := v.Each(t.Context(), c.filter, func(d *store.Stored) error {
			if d.Seq <= last || d.Seq <= 2500 && string(d.Document) != string(storetest.Entry(d.Seq).Document) {
				t.Errorf("document %d: %s", d.Seq, d.Document)
			}
			n, last, seqs = n+1, d.Seq, seqs+d.Seq
			return nil
		})
		v.Close()
		if err != nil || n != want || seqs != sum || (n == 0) != (c.sql == "false") {
			t.Errorf("%+v: %d documents, want %d: %v", c.filter, n, want, err)
		}
		for _, format := range []store.Table{store.Parquet, store.CSV} {
			if _, jobs := export(t, s, c.filter, format); jobs != want {
				t.Errorf("%+v: %s of %d jobs, want %d", c.filter, format, jobs, want)
			}
		}
	}
	v := s.View()
	defer v.Close()
	if _, _, err := v.Export(t.Context(), store.Filter{Where: "no_column = 1"}, store.CSV); err == nil ||
		!strings.Contains(err.Error(), "no_column") {
		t.Errorf("a condition over a column that does not exist: %v", err)
	}
	if _, _, err := v.Export(t.Context(), store.Filter{}, "xls"); err == nil || !strings.Contains(err.Error(),
		"want parquet or csv") {
		t.Errorf("an unknown format: %v", err)
	}
	for _, format := range []store.Table{store.Parquet, store.CSV} {
		if left, err := filepath.Glob(filepath.Join(s.Dir(), "tmp", "*."+string(format))); err != nil || len(left) > 0 {
			t.Errorf("exports that failed leave %v: %v", left, err)
		}
	}
}
