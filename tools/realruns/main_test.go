package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/run"
)

const header = "slurm_mode,dtstart,run_id,job_id,submit_job,launch_job,job_epilog_complete,waittime,walltime\n"

// A table becomes one record for each run, with waits to the millisecond. A run record becomes a
// record with the instants of its events, which are equal to its rows in this test.
func TestConvert(t *testing.T) {
	dir := t.TempDir()
	table := filepath.Join(dir, "runs.csv")
	text := header + "frontend,10,1,1001,8.5,8.85,9,0.35,0.15\nfrontend,10,1,1002,9.5,12,20,2.5,8\nfrontend,10,2,1001,3,3.125,4,0.125,1\n"
	if err := os.WriteFile(table, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	first, again := filepath.Join(dir, "first"), filepath.Join(dir, "again")
	if err := convert(first, []string{table}); err != nil {
		t.Fatal(err)
	}
	if err := convert(again, []string{filepath.Join(first, "realization-001"), filepath.Join(first, "realization-002")}); err != nil {
		t.Fatal(err)
	}
	want := [][]time.Duration{{350 * time.Millisecond, 2500 * time.Millisecond}, {125 * time.Millisecond}}
	for _, set := range []string{first, again} {
		for i, waits := range want {
			record, err := run.Open(filepath.Join(set, run.RealizationDir(i+1)))
			if err != nil {
				t.Fatal(err)
			}
			rows, err := record.Jobs()
			if err != nil || len(rows) != len(waits) || !record.Manifest.Valid {
				t.Fatalf("%s: %d rows, valid %t, %v", record.Dir, len(rows), record.Manifest.Valid, err)
			}
			for k, r := range rows {
				if got := r.Start.Sub(r.Submit); got != waits[k] {
					t.Errorf("%s: %s waited %v, want %v", record.Dir, r.Job, got, waits[k])
				}
			}
			if rows[0].Submit != epoch {
				t.Errorf("%s begins at %v, want %v", record.Dir, rows[0].Submit, epoch)
			}
		}
	}
}

func TestConvertRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ text, want string }{
		"short":  {header + "frontend,10\n", "wrong number of fields"},
		"few":    {"a,b\nfrontend,10\n", "few.csv:2: 2 columns (want 7 or more)"},
		"number": {header + "frontend,10,1,1001,soon,8,9,1,1\n", `number.csv:2: strconv.ParseFloat: parsing "soon"`},
	} {
		path := filepath.Join(dir, name+".csv")
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := convert(filepath.Join(dir, "out"), []string{path}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if err := convert(filepath.Join(dir, "out"), []string{filepath.Join(dir, "absent")}); err == nil {
		t.Error("a record that is not there is read")
	}
}
